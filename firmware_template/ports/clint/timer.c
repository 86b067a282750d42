#include "hil_core.h"
#include "hil_port.h"

#define MTIMECMP HIL_REG(HIL_TIMER_BASE + 0x4000)
#define MTIMECMP_HIGH HIL_REG(HIL_TIMER_BASE + 0x4004)
#define MTIME HIL_REG(HIL_TIMER_BASE + 0xBFF8)
#define MTIME_HIGH HIL_REG(HIL_TIMER_BASE + 0xBFFC)

/* How long the core sleeps at most. */
#define SLEEP_TICKS (HIL_TIMER_HZ / 100)

void hil_timer_init(void) { hil_timer_quiet(); }

void hil_timer_wake(void) {
    uint32_t high;
    uint32_t low;

    do {
        high = MTIME_HIGH;
        low = MTIME;
    } while (high != MTIME_HIGH);
    const uint64_t until = ((uint64_t)high << 32 | low) + SLEEP_TICKS;
    /* Never in between a time that has passed. */
    MTIMECMP_HIGH = UINT32_MAX;
    MTIMECMP = (uint32_t)until;
    MTIMECMP_HIGH = (uint32_t)(until >> 32);
    HIL_CSR_SET(mie, HIL_MIE_TIMER);
}

void hil_timer_quiet(void) {
    HIL_CSR_CLEAR(mie, HIL_MIE_TIMER);
    MTIMECMP_HIGH = UINT32_MAX;
}
