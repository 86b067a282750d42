/* Between the ports of a board without an operating system, whatever its core: what each role
 * provides. The core's hil_core.h adds hil_irq_enable, hil_irq_lock and what else is its own. */
#ifndef HIL_ROLES_H
#define HIL_ROLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hil_config.h"
#include "hil_wait.h"

/* Role soc: clocks to full speed, power and pins of the peripherals. Bounded waits only: a board
 * that does not answer as expected still starts. Where its clocks do not, it runs from what it runs
 * from after a reset. Returns the rate of the UART's clock as it is then, HIL_UART_FULL_HZ mostly,
 * so that the board can still be asked. */
uint32_t hil_soc_init(void);
/* What cannot wait until memory is prepared: watchdogs that run from reset, RAM without a clock.
 * Optional. There are no variables yet, only the first bytes of the stack's region. */
void hil_soc_early(void);

/* Role timer, with hil_ticks and its like of hil_port.h. */
void hil_timer_init(void);

/* Role uart. Interrupt HIL_UART_IRQ, which says that there is something to receive, comes to
 * hil_serial_handler; a port without one is asked again and again. */
void hil_uart_init(uint32_t clock_hz);
/* Acknowledges the interrupt and hands what has arrived to hil_serial_put, no more than HIL_RX_MAX
 * bytes: a UART that always says that there is more must not hold the core. Called with interrupts
 * off. */
void hil_uart_receive(void);
void hil_serial_put(uint8_t byte);
void hil_serial_handler(void);
/* Of a port without an interrupt: returns when something was received, at the latest after a while.
 * Optional. */
void hil_uart_idle(void);
/* Waits for room in the transmitter, a bounded time, and writes the byte to it; false: there was no
 * room. bare_metal/write.c calls it for each byte; a port that sends blocks has its own
 * hil_uart_write instead. */
bool hil_uart_put(uint8_t byte);
/* Returns when the last bit has left the transmitter, or does not leave it. */
void hil_uart_flush(void);

#define HIL_REG(address) (*(volatile uint32_t *)(uintptr_t)(address))
#define HIL_REG16(address) (*(volatile uint16_t *)(uintptr_t)(address))
#define HIL_REG8(address) (*(volatile uint8_t *)(uintptr_t)(address))

/* The UART's clock must be what the soc gives it. A line through the debug probe has no UART, and
 * some have the core's clock. */
#ifdef HIL_UART_CLOCK_HZ
#define HIL_UART_FULL_HZ HIL_UART_CLOCK_HZ
#define HIL_CHECK_UART_CLOCK(hz, message) _Static_assert(HIL_UART_CLOCK_HZ == (hz), message)
#else
#define HIL_UART_FULL_HZ HIL_CLOCK_HZ
#define HIL_CHECK_UART_CLOCK(hz, message) _Static_assert((hz) > 0, message)
#endif

/* From the linker script: addresses, not objects, so compare and subtract them as uintptr_t. */
extern uint32_t hil_stack_bottom[];
extern uint32_t hil_stack_top[];
extern uint32_t hil_handler_stack_bottom[];
extern uint32_t hil_handler_stack_top[];

/* Fills the stack of main, which must not be in use. */
void hil_stack_paint(void);

#endif
