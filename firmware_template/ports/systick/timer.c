/* SysTick counts 24 bits down at the core's clock; its exception counts the periods. Where the core
 * has a cycle counter that runs, that one is read instead, since it is 32 bits wide and reading it
 * twice is all that a measurement costs; SysTick's exception then extends it. Emulators lack it. */
#include "hil_core.h"
#include "hil_port.h"

#define SYST_CSR HIL_REG(0xE000E010)
#define SYST_RVR HIL_REG(0xE000E014)
#define SYST_CVR HIL_REG(0xE000E018)
#define DWT_CTRL HIL_REG(0xE0001000)
#define DWT_CYCCNT HIL_REG(0xE0001004)
#define DWT_LAR HIL_REG(0xE0001FB0)

#define PERIOD 0x1000000UL
#define ICSR_PENDSTSET (1UL << 26)
#define ICSR_PENDSTCLR (1UL << 25)

/* Time at the start of the counter's present period, or when CYCCNT was last read. */
static uint64_t base;

#if HIL_BASELINE
static const bool has_cyccnt = false;
#else
static bool has_cyccnt;
static uint32_t last_cyccnt;

static bool start_cyccnt(void) {
    HIL_DEMCR |= 1UL << 24;
    DWT_LAR = 0xC5ACCE55; /* a Cortex-M7 lets no program write the rest before, others ignore it */
    DWT_CYCCNT = 0;
    DWT_CTRL |= 1;
    const uint32_t first = DWT_CYCCNT;
    __asm volatile("nop\n\tnop\n\tnop\n\tnop");
    return DWT_CYCCNT != first;
}
#endif

void hil_timer_init(void) {
#if !HIL_BASELINE
    has_cyccnt = start_cyccnt();
    last_cyccnt = DWT_CYCCNT;
#endif
    SYST_RVR = PERIOD - 1;
    SYST_CVR = 0;
    SYST_CSR = 7; /* core clock, exception, on */
}

/* With interrupts off. Also takes over a period's end that the exception did not count yet, so that
 * it works where the exception cannot run. */
static uint64_t now(void) {
#if !HIL_BASELINE
    if (has_cyccnt) {
        const uint32_t cyccnt = DWT_CYCCNT;
        base += cyccnt - last_cyccnt;
        last_cyccnt = cyccnt;
        return base;
    }
#endif
    uint32_t count = SYST_CVR;
    if ((HIL_ICSR & ICSR_PENDSTSET) != 0) {
        /* The period may have ended before or after the first reading. */
        HIL_ICSR = ICSR_PENDSTCLR;
        base += PERIOD;
        count = SYST_CVR;
    }
    /* The period begins where the counter is 0; the reload takes the next tick. */
    return base + ((PERIOD - count) & (PERIOD - 1));
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
    SYST_CVR = 0;
    if (!has_cyccnt) {
        base = ticks;
    }
    hil_irq_unlock(lock);
    return ticks;
}

uint32_t hil_ticks_hz(void) { return HIL_CLOCK_HZ; }

void hil_timer_handler(void) {
    if (has_cyccnt) {
        (void)hil_ticks();
    } else {
        base += PERIOD;
    }
}
