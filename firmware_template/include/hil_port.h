/* What a port provides: one serial line, one time base, reset. Everything else is shared. */
#ifndef HIL_PORT_H
#define HIL_PORT_H

#include <stddef.h>
#include <stdint.h>

#include "hil_config.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Clocks, serial line, time base. Called once, before anything else of this header. */
void hil_port_init(void);

/* Takes up to `max` received bytes; returns how many there were, 0 when none. Never waits. */
size_t hil_uart_read(uint8_t *data, size_t max);

/* Returns when there may be something to read, at the latest after a while; until then the
 * processor sleeps. Not with interrupts off, nor in a fault. */
void hil_uart_wait(void);

/* Sends all bytes; returns when the last one is in the transmitter. Waits a bounded time: a
 * transmitter that takes no more loses the rest, as the checksum of the frame will tell. */
void hil_uart_write(const uint8_t *data, size_t size);

/* Number of bytes that received input may wait in before hil_uart_read takes them. */
#ifndef HIL_RX_MAX
#error "define HIL_RX_MAX in hil_config.h"
#endif

/* The 64-bit time base, and its rate in Hz. Monotonic; safe from interrupts and faults. With
 * interrupts off, or in a fault, it must be called at least once in 2^24 ticks. */
uint64_t hil_ticks(void);
uint32_t hil_ticks_hz(void);

/* hil_ticks at the start of a measurement: also starts a new period of the hardware's counter, so
 * that equal work from here meets the same ticks and the same interrupts of it every time. */
uint64_t hil_ticks_align(void);

/* Restarts the firmware. */
__attribute__((noreturn)) void hil_port_reset(void);

#ifdef __cplusplus
}
#endif

#endif
