/* The receiving half of the serial line, for every UART: a ring of bytes between the interrupt and
 * hil_uart_read. Both sides run with interrupts off. */
#include "hil_core.h"
#include "hil_port.h"

static uint8_t ring[HIL_RX_MAX];
static size_t start; /* index of the oldest byte */
static size_t count; /* bytes in the ring, at most HIL_RX_MAX */

void hil_serial_put(uint8_t byte) {
    /* The protocol never has more than HIL_RX_MAX on the way; noise on the line may, and what does
     * not fit is dropped, as the checksum of its frame will tell. */
    if (count < HIL_RX_MAX) {
        const size_t end = start + count;
        ring[end < HIL_RX_MAX ? end : end - HIL_RX_MAX] = byte;
        ++count;
    }
}

void hil_serial_handler(void) { hil_uart_receive(); }

size_t hil_uart_read(uint8_t *data, size_t max) {
    const uint32_t lock = hil_irq_lock();
    hil_uart_receive();
    size_t taken = 0;
    while (taken < max && count > 0) {
        data[taken++] = ring[start];
        start = start + 1 < HIL_RX_MAX ? start + 1 : 0;
        --count;
    }
    hil_irq_unlock(lock);
    return taken;
}

#ifdef HIL_UART_IRQ
/* A masked interrupt wakes the core too, so a byte that arrives after the look is not slept over;
 * the time base's interrupt wakes it when nothing arrives. An idle emulator takes no processor time
 * this way, and its input is quicker. */
void hil_uart_wait(void) {
    const uint32_t lock = hil_irq_lock();
    if (count == 0) {
        hil_sleep();
    }
    hil_irq_unlock(lock);
}
#else
/* Nothing would wake the core when input comes: it has to look again, unless the port can wait. */
__attribute__((weak)) void hil_uart_idle(void) {}

void hil_uart_wait(void) {
    if (count == 0) {
        hil_uart_idle();
    }
}
#endif
