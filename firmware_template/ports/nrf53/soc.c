/* nRF5340, application core, in the secure state that it starts in. Registers: Nordic's nRF5340
 * Product Specification, chapters CLOCK, CACHE and CTRL-AP. */
#include "hil_core.h"

_Static_assert(HIL_CLOCK_HZ == 128000000, "the divider is set to 1, so clock_hz must be 128 MHz");

#define CACHE_ENABLE HIL_REG(0x50001500)
#define TASKS_HFCLKSTART HIL_REG(0x50005000)
#define EVENTS_HFCLKSTARTED HIL_REG(0x50005100)
#define HFCLKCTRL HIL_REG(0x50005558)
#define APPROTECT_DISABLE HIL_REG(0x50006544)
#define SECUREAPPROTECT_DISABLE HIL_REG(0x5000654C)

#define HFCLKCTRL_DIV1 0UL
#define APPROTECT_UNPROTECTED 0x50FA50FAUL

/* The debug port closes at every reset and opens when firmware and UICR hold the same key. No image
 * here contains UICR, and the LOCK registers beside these are never written: erasing the chip
 * through the control access port always opens it again. */
void hil_soc_early(void) {
    APPROTECT_DISABLE = APPROTECT_UNPROTECTED;
    SECUREAPPROTECT_DISABLE = APPROTECT_UNPROTECTED;
}

/* Without the crystal the internal oscillator runs at the same rate. */
uint32_t hil_soc_init(void) {
    CACHE_ENABLE = 1;
    EVENTS_HFCLKSTARTED = 0;
    TASKS_HFCLKSTART = 1;
    (void)hil_wait(&EVENTS_HFCLKSTARTED, 1, 1);
    HFCLKCTRL = HFCLKCTRL_DIV1;
    return HIL_UART_FULL_HZ;
}
