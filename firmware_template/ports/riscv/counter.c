/* The time base from the cycle counter, which every core has that follows the privileged
 * architecture. It has 64 bits, so nothing has to count its periods. A chip that lacks it replaces
 * these in its timer's port. */
#include "hil_core.h"
#include "hil_port.h"

#if HIL_CORE_TRAPS
static uint32_t low_word(void) {
    uint32_t value;
    __asm volatile(HIL_CSR("csrr %0, mcycle") : "=r"(value)::"memory");
    return value;
}

static uint32_t high_word(void) {
    uint32_t value;
    __asm volatile(HIL_CSR("csrr %0, mcycleh") : "=r"(value)::"memory");
    return value;
}

__attribute__((weak)) uint64_t hil_ticks(void) {
    uint32_t high = high_word();
    uint32_t low = low_word();

    for (uint32_t again = high_word(); again != high; again = high_word()) {
        high = again;
        low = low_word();
    }
    return (uint64_t)high << 32 | low;
}

/* No interrupt belongs to the counter, so there is no period to begin. */
__attribute__((weak)) uint64_t hil_ticks_align(void) { return hil_ticks(); }
#endif

__attribute__((weak)) uint32_t hil_ticks_hz(void) { return HIL_CLOCK_HZ; }
