/* Registers: Nuclei's ISA specification, chapter TIMER Unit. */
#include "hil_core.h"
#include "hil_port.h"

#define MTIME HIL_REG(HIL_TIMER_BASE + 0x0)
#define MTIME_HIGH HIL_REG(HIL_TIMER_BASE + 0x4)
#define MTIMECMP HIL_REG(HIL_TIMER_BASE + 0x8)
#define MTIMECMP_HIGH HIL_REG(HIL_TIMER_BASE + 0xC)

/* How long the core sleeps at most. */
#define SLEEP_TICKS (HIL_TIMER_HZ / 100)

void hil_timer_init(void) {
    hil_timer_quiet();
    hil_irq_enable(HIL_TIMER_IRQ);
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
}

/* Takes the interrupt back, which comes while the time is beyond. */
void hil_timer_quiet(void) { MTIMECMP_HIGH = UINT32_MAX; }
