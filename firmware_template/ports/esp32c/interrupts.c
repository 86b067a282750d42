/* Interrupt matrix and controller of ESP32-C3 and C6, and reset. Registers: the chips' technical
 * reference manuals, chapters RISC-V CPU, Interrupt Matrix, Low-power Management. */
#include "hil_core.h"

#if HIL_SOC_CHIP == 3
#define MATRIX 0x600C2000
#define INT_ENABLE HIL_REG(0x600C2104)
#define INT_TYPE HIL_REG(0x600C2108)
#define INT_PRIORITY(line) HIL_REG(0x600C2114 + 4 * (line))
#define INT_THRESHOLD HIL_REG(0x600C2194)
#define RESET_CONTROL HIL_REG(0x60008000)
#else
#define MATRIX 0x60010000
#define INT_ENABLE HIL_REG(0x20001000)
#define INT_TYPE HIL_REG(0x20001004)
#define INT_PRIORITY(line) HIL_REG(0x20001010 + 4 * (line))
#define INT_THRESHOLD HIL_REG(0x20001090)
#define RESET_CONTROL HIL_REG(0x600B1034)
#endif
#define RESET_SYSTEM (1UL << 31)

/* The one interrupt of the core that all sources come to; of all those it is none that the C6 keeps
 * for itself. */
#define LINE 9

void hil_irq_enable(uint32_t irq) {
    HIL_REG(MATRIX + 4 * irq) = LINE;
    INT_TYPE &= ~(1UL << LINE); /* by level */
    INT_PRIORITY(LINE) = 2;
    INT_THRESHOLD = 1;
    INT_ENABLE = 1UL << LINE; /* and none that the ROM has left on */
#if HIL_CORE_MIE
    HIL_CSR_SET(mie, 1UL << LINE);
#endif
}

bool hil_external_handler(uint32_t number) {
    if (number != LINE) {
        return false;
    }
    hil_serial_handler();
    return true;
}

_Noreturn void hil_soc_reset(void) {
    RESET_CONTROL |= RESET_SYSTEM;
    for (;;) {
    }
}
