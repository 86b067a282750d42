/* Interrupts and reset of the Bumblebee core, a Nuclei N200. Registers: its ISA specification,
 * chapter ECLIC, and GD32VF103 user manual, chapter FWDGT. */
#include "hil_core.h"

#define ECLIC_ENABLE(irq) HIL_REG8(0xD2001001 + 4 * (irq))
#define ECLIC_ATTRIBUTES(irq) HIL_REG8(0xD2001002 + 4 * (irq))
#define ECLIC_LEVEL(irq) HIL_REG8(0xD2001003 + 4 * (irq))
#define HIGHEST 0xFFU
#define FWDGT_CTL HIL_REG(0x40003000)
#define FWDGT_START 0xCCCCUL

void hil_irq_enable(uint32_t irq) {
    ECLIC_ATTRIBUTES(irq) = 0; /* by level, and not through a table */
    ECLIC_LEVEL(irq) = HIGHEST;
    ECLIC_ENABLE(irq) = 1;
}

bool hil_external_handler(uint32_t number) {
#ifdef HIL_UART_IRQ
    if (number == HIL_UART_IRQ) {
        hil_serial_handler();
        return true;
    }
#endif
    (void)number;
    return false;
}

/* The watchdog ends some 400 ms later. */
_Noreturn void hil_soc_reset(void) {
    FWDGT_CTL = FWDGT_START;
    for (;;) {
    }
}
