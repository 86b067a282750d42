/* What a RISC-V core asks of its chip, for the Hazard3 cores of RP2350 (its data sheet, chapters
 * Hazard3, Watchdog and Power-on state machine). The Arm cores have an interrupt controller of
 * their architecture. */
#ifdef __riscv
#include "hil_core.h"

#define PSM_WDSEL HIL_REG(0x40018008)
#define WATCHDOG_CTRL HIL_REG(0x400D8000)
/* All stages but the first, which holds what a debugger has set. */
#define RESET_ALL_BUT_PROC_COLD 0x01FFFFFEUL
#define WATCHDOG_TRIGGER (1UL << 31)
/* In meiea, a window of 16 enables beside its number; in meinext, that there is none, and a number
 * times 4. */
#define WINDOW 16
#define NO_IRQ (1UL << 31)

void hil_irq_enable(uint32_t irq) {
    HIL_CSR_SET(0xBE0, 1UL << (WINDOW + irq % WINDOW) | irq / WINDOW);
    HIL_CSR_SET(mie, HIL_MIE_EXTERNAL);
}

bool hil_external_handler(uint32_t number) {
    const uint32_t next = HIL_CSR_READ(0xBE4);
    if (number != HIL_IRQ_EXTERNAL) {
        return false;
    }
#ifdef HIL_UART_IRQ
    if (next == HIL_UART_IRQ << 2) {
        hil_serial_handler();
        return true;
    }
#endif
    /* It may have gone again. */
    return (next & NO_IRQ) != 0;
}

_Noreturn void hil_soc_reset(void) {
    PSM_WDSEL = RESET_ALL_BUT_PROC_COLD;
    WATCHDOG_CTRL = WATCHDOG_TRIGGER;
    for (;;) {
    }
}
#endif
