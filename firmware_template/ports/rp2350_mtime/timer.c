/* Registers: RP2350 data sheet, chapter SIO, RISC-V Platform Timer. */
#include "hil_core.h"
#include "hil_port.h"

#define MTIME_CTRL HIL_REG(0xD00001A4)
#define MTIME HIL_REG(0xD00001B0)
#define MTIMECMP HIL_REG(0xD00001B8)
#define MTIMECMP_HIGH HIL_REG(0xD00001BC)
#define MTIME_HIGH HIL_REG(0xD00001B4)
/* Counts, each clock of the core. */
#define CTRL_RUN_AT_FULL_SPEED 3UL

/* How long the core sleeps at most. */
#define SLEEP_TICKS (HIL_CLOCK_HZ / 100)

void hil_timer_init(void) {
    MTIME_CTRL = CTRL_RUN_AT_FULL_SPEED;
    hil_timer_quiet();
    /* The counters stand still after a reset. */
    HIL_CSR_WRITE(mcountinhibit, 0);
}

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
