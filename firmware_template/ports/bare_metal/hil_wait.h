/* Waiting for bits of a register, but never for ever: emulators model few of the clock registers, a
 * board with a dead crystal must still tell, and a UART without a clock must not hold the core. */
#ifndef HIL_WAIT_H
#define HIL_WAIT_H

#include <stdbool.h>
#include <stdint.h>

#include "hil_config.h"

/* Looks at a register while clocks start: some milliseconds at the rates that cores start with. */
#define HIL_CLOCK_LOOKS 100000UL

#ifdef HIL_UART_BAUD
/* Looks while a transmitter sends: for as long as 128 bytes take, twice what the largest one here
 * holds, at four clocks a look, which none is faster than. */
#define HIL_LINE_LOOKS (HIL_CLOCK_LOOKS + 128ULL * 10 * HIL_CLOCK_HZ / 4 / HIL_UART_BAUD)

_Static_assert(HIL_LINE_LOOKS <= UINT32_MAX,
               "raise uart.baud: 32 bits count how long 128 bytes take");
#endif

/* Both return whether the bits of `mask` have become `value` within that many looks. */
static inline bool hil_wait_looks(volatile const uint32_t *reg, uint32_t mask, uint32_t value,
                                  uint32_t looks) {
    for (uint32_t i = 0; i < looks; ++i) {
        if ((*reg & mask) == value) {
            return true;
        }
    }
    return false;
}

static inline bool hil_wait8_looks(volatile const uint8_t *reg, uint32_t mask, uint32_t value,
                                   uint32_t looks) {
    for (uint32_t i = 0; i < looks; ++i) {
        if ((*reg & mask) == value) {
            return true;
        }
    }
    return false;
}

/* For clocks and whatever else is quick. */
static inline bool hil_wait(volatile const uint32_t *reg, uint32_t mask, uint32_t value) {
    return hil_wait_looks(reg, mask, value, HIL_CLOCK_LOOKS);
}

static inline bool hil_wait8(volatile const uint8_t *reg, uint32_t mask, uint32_t value) {
    return hil_wait8_looks(reg, mask, value, HIL_CLOCK_LOOKS);
}

#ifdef HIL_UART_BAUD
/* For a transmitter to have room, or to have sent all. One that never has is not waited for again
 * in the same frame: what is left of it is dropped, as its checksum will tell. */
static inline bool hil_wait_line(volatile const uint32_t *reg, uint32_t mask, uint32_t value) {
    return hil_wait_looks(reg, mask, value, (uint32_t)HIL_LINE_LOOKS);
}

static inline bool hil_wait8_line(volatile const uint8_t *reg, uint32_t mask, uint32_t value) {
    return hil_wait8_looks(reg, mask, value, (uint32_t)HIL_LINE_LOOKS);
}
#endif

/* Lasts for as many clocks of the core at least. */
static inline void hil_pause(uint32_t clocks) {
    for (uint32_t i = 0; i < clocks; ++i) {
        __asm volatile("");
    }
}

#endif
