/* TIMER0 counts 32 bits up at 16 MHz. Two compare interrupts a period keep the extension to 64 bits
 * right when the time is not read. */
#include "hil_core.h"
#include "hil_port.h"

_Static_assert(HIL_CLOCK_HZ == 16000000, "the TIMER runs at 16 MHz, so clock_hz must be that");

#define TIMER(offset) HIL_REG(HIL_TIMER_BASE + (offset))
#define TASKS_START TIMER(0x000)
#define TASKS_CLEAR TIMER(0x00C)
#define TASKS_CAPTURE0 TIMER(0x040)
#define EVENTS_COMPARE(n) TIMER(0x140 + 4 * (n))
#define INTENSET TIMER(0x304)
#define MODE TIMER(0x504)
#define BITMODE TIMER(0x508)
#define PRESCALER TIMER(0x510)
#define CC(n) TIMER(0x540 + 4 * (n))

static uint64_t base;
static uint32_t last;

void hil_timer_init(void) {
    MODE = 0;
    BITMODE = 3; /* 32 bits */
    PRESCALER = 0;
    CC(1) = 0x40000000;
    CC(2) = 0xC0000000;
    INTENSET = 1UL << 17 | 1UL << 18; /* COMPARE1, COMPARE2 */
    TASKS_CLEAR = 1;
    TASKS_START = 1;
    hil_irq_enable(HIL_TIMER_IRQ);
}

/* With interrupts off. */
static uint64_t now(void) {
    TASKS_CAPTURE0 = 1;
    const uint32_t count = CC(0);
    base += count - last;
    last = count;
    return base;
}

uint64_t hil_ticks(void) {
    const uint32_t lock = hil_irq_lock();
    const uint64_t ticks = now();
    hil_irq_unlock(lock);
    return ticks;
}

uint64_t hil_ticks_align(void) {
    const uint32_t lock = hil_irq_lock();
    const uint64_t ticks = now();
    TASKS_CLEAR = 1;
    last = 0;
    hil_irq_unlock(lock);
    return ticks;
}

uint32_t hil_ticks_hz(void) { return HIL_CLOCK_HZ; }

void hil_timer_handler(void) {
    EVENTS_COMPARE(1) = 0;
    EVENTS_COMPARE(2) = 0;
    (void)hil_ticks();
}
