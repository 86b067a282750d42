/* nRF52832, nRF52833, nRF52840. The core always runs at 64 MHz, from an internal oscillator unless
 * the crystal is started. Registers: Nordic's Product Specifications, chapters CLOCK and NVMC. */
#include "hil_core.h"

_Static_assert(HIL_CLOCK_HZ == 64000000, "this core runs at 64 MHz, so clock_hz must be that");

#define TASKS_HFCLKSTART HIL_REG(0x40000000)
#define EVENTS_HFCLKSTARTED HIL_REG(0x40000100)
#define APPROTECT_DISABLE HIL_REG(0x40000558)
#define NVMC_ICACHECNF HIL_REG(0x4001E540)

#define APPROTECT_SW_DISABLE 0x5AUL

/* Later revisions close the debug port at every reset until the firmware agrees to it being open;
 * earlier ones have no such register and ignore this. Whether it opens is still UICR's to say,
 * which no image here contains: what erases the chip through the control access port opens it
 * again. */
void hil_soc_early(void) { APPROTECT_DISABLE = APPROTECT_SW_DISABLE; }

/* Without the crystal the internal oscillator runs at the same rate. */
uint32_t hil_soc_init(void) {
    NVMC_ICACHECNF = 1;
    EVENTS_HFCLKSTARTED = 0;
    TASKS_HFCLKSTART = 1;
    (void)hil_wait(&EVENTS_HFCLKSTARTED, 1, 1);
    return HIL_UART_FULL_HZ;
}
