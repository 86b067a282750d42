/* Received bytes between the UART's interrupt handler and hil_uart_read. Both sides run with the
 * UART's interrupt off. */
#ifndef HIL_RING_H
#define HIL_RING_H

#include <stddef.h>
#include <stdint.h>

#include "hil_config.h"
#include "hil_core.h"

struct hil_ring {
    size_t start;
    size_t count;
    uint8_t data[HIL_RX_MAX];
};

/* Keeps a byte. The protocol never has more than HIL_RX_MAX on the way; noise on the line may, and
 * what does not fit is dropped, as the checksum of its frame will tell. */
static inline void hil_ring_put(struct hil_ring *ring, uint8_t byte) {
    if (ring->count < HIL_RX_MAX) {
        size_t end = ring->start + ring->count;
        ring->data[end < HIL_RX_MAX ? end : end - HIL_RX_MAX] = byte;
        ++ring->count;
    }
}

/* Takes the oldest bytes, up to `max`; returns how many. */
static inline size_t hil_ring_take(struct hil_ring *ring, uint8_t *data, size_t max) {
    size_t taken = 0;
    while (taken < max && ring->count > 0) {
        data[taken++] = ring->data[ring->start];
        ring->start = ring->start + 1 < HIL_RX_MAX ? ring->start + 1 : 0;
        --ring->count;
    }
    return taken;
}

/* Sleeps until an interrupt, unless something was received. A masked interrupt wakes the core too,
 * so a byte that arrives after the look is not slept over; the time base's interrupt wakes it when
 * nothing arrives. An idle emulator takes no processor time this way, and its input is quicker. */
static inline void hil_ring_wait(const struct hil_ring *ring) {
    const uint32_t lock = hil_irq_lock();
    if (ring->count == 0) {
        __asm volatile("dsb\n\twfi" ::: "memory");
    }
    hil_irq_unlock(lock);
}

#endif
