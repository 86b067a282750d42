/* Registers: technical reference manuals of ESP32-C3 and C6, chapters System Timer and RISC-V CPU.
 * The cores have no mcycle, but a counter of 32 bits of their own. The system timer counts 16 MHz
 * from the crystal that the core's clock comes from, too: it says how often that counter went round
 * since it was read last. */
#include "hil_core.h"
#include "hil_port.h"

#define CONF HIL_REG(HIL_TIMER_BASE + 0x00)
#define UNIT0_OP HIL_REG(HIL_TIMER_BASE + 0x04)
#define TARGET0_HIGH HIL_REG(HIL_TIMER_BASE + 0x1C)
#define TARGET0 HIL_REG(HIL_TIMER_BASE + 0x20)
#define TARGET0_CONF HIL_REG(HIL_TIMER_BASE + 0x34)
#define UNIT0_HIGH HIL_REG(HIL_TIMER_BASE + 0x40)
#define UNIT0 HIL_REG(HIL_TIMER_BASE + 0x44)
#define COMP0_LOAD HIL_REG(HIL_TIMER_BASE + 0x50)
#define INT_ENABLE HIL_REG(HIL_TIMER_BASE + 0x64)
#define INT_CLEAR HIL_REG(HIL_TIMER_BASE + 0x6C)

#define CONF_ON (1UL << 31 | 1UL << 30 | 1UL << 24) /* clock, unit 0, its first alarm */
#define OP_TAKE (1UL << 30)
#define OP_TAKEN (1UL << 29)
#define ALARM0 1UL

#define SYSTIMER_MHZ 16
#define CLOCK_MHZ (HIL_CLOCK_HZ / 1000000)
/* How long the core sleeps at most. */
#define SLEEP_TICKS (SYSTIMER_MHZ * 1000000 / 100)

static uint64_t ticks;
static uint64_t time_then;
static uint32_t cycles_then;

static uint64_t time(void) {
    UNIT0_OP = OP_TAKE;
    (void)hil_wait(&UNIT0_OP, OP_TAKEN, OP_TAKEN);
    const uint32_t low = UNIT0;
    return (uint64_t)UNIT0_HIGH << 32 | low;
}

void hil_timer_init(void) {
    CONF |= CONF_ON;
    TARGET0_CONF = 0; /* unit 0, once */
    hil_timer_quiet();
    hil_irq_enable(HIL_TIMER_IRQ);
    HIL_CSR_WRITE(0x7E0, 1); /* counts cycles */
    HIL_CSR_WRITE(0x7E1, 1); /* and goes on from its end */
    cycles_then = HIL_CSR_READ(0x7E2);
    time_then = time();
}

void hil_timer_wake(void) {
    const uint64_t until = time() + SLEEP_TICKS;
    TARGET0_HIGH = (uint32_t)(until >> 32);
    TARGET0 = (uint32_t)until;
    COMP0_LOAD = 1;
    INT_ENABLE = ALARM0;
}

void hil_timer_quiet(void) {
    INT_ENABLE = 0;
    INT_CLEAR = ALARM0;
}

uint64_t hil_ticks(void) {
    const uint32_t lock = hil_irq_lock();
    const uint32_t cycles_now = HIL_CSR_READ(0x7E2);
    const uint64_t time_now = time();
    const uint32_t counted = cycles_now - cycles_then;
    const uint64_t passed = (time_now - time_then) * CLOCK_MHZ / SYSTIMER_MHZ;
    /* The two reads are not of one instant, so round. */
    const uint64_t rounds = passed > counted ? (passed - counted + (1UL << 31)) >> 32 : 0;
    ticks += counted + (rounds << 32);
    cycles_then = cycles_now;
    time_then = time_now;
    const uint64_t now = ticks;
    hil_irq_unlock(lock);
    return now;
}
