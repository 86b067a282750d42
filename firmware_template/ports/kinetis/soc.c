/* Kinetis K64 and relatives with one PLL and a watchdog that runs from reset. Registers: NXP's K64
 * Sub-Family Reference Manual, chapters MCG, SIM, PORT, WDOG and FTFE. */
#include "hil_core.h"

_Static_assert(HIL_SOC_EXTERNAL_HZ / HIL_SOC_PLL_DIV * HIL_SOC_PLL_MUL == HIL_CLOCK_HZ,
               "clock_hz must be soc.external_hz / pll_div * pll_mul");
_Static_assert(HIL_SOC_EXTERNAL_HZ / HIL_SOC_PLL_DIV >= 2000000 &&
                   HIL_SOC_EXTERNAL_HZ / HIL_SOC_PLL_DIV <= 4000000,
               "soc.external_hz / pll_div must be 2 to 4 MHz");
_Static_assert(HIL_CLOCK_HZ <= 120000000,
               "lower clock_hz to 120 MHz: the bus dividers are for no more");

#define WDOG_STCTRLH HIL_REG16(0x40052000)
#define WDOG_UNLOCK HIL_REG16(0x4005200E)
#define MCG_C1 HIL_REG8(0x40064000)
#define MCG_C2 HIL_REG8(0x40064001)
#define MCG_C5 HIL_REG8(0x40064004)
#define MCG_C6 HIL_REG8(0x40064005)
#define MCG_S HIL_REG8(0x40064006)
#define SIM_SCGC4 HIL_REG(0x40048034)
#define SIM_SCGC5 HIL_REG(0x40048038)
#define SIM_CLKDIV1 HIL_REG(0x40048044)
#define PORTB_PCR(pin) HIL_REG(0x4004A000 + 4 * (pin))

#define STCTRLH_AS_AFTER_RESET_BUT_OFF 0x01D2U
/* The internal 32.768 kHz times 640, as after reset. */
#define FLL_HZ 20971520
#define C1_FLL_INTERNAL (1U << 2)
#define C1_EXTERNAL_BY_1536 (2U << 6 | 7U << 3)
#define C1_PLL_OR_FLL (0U << 6 | 7U << 3)
#define C2_VERY_HIGH_RANGE (2U << 4)
#define C6_PLLS (1U << 6)
#define S_IREFST (1U << 4)
#define S_CLKST (3U << 2)
#define S_CLKST_FLL (0U << 2)
#define S_CLKST_EXTERNAL (2U << 2)
#define S_CLKST_PLL (3U << 2)
#define S_PLL_LOCKED (1U << 5 | 1U << 6)
/* Core undivided, bus by 2 (60 MHz at most), FlexBus by 3 (50 MHz), flash by 5 (25 MHz). */
#define CLKDIV1_DIVIDERS (0UL << 28 | 1UL << 24 | 2UL << 20 | 4UL << 16)
#define PCR_ALTERNATIVE_3 (3UL << 8)
#define PCR_PULL_UP 3UL

/* The flash configuration field (FTFE chapter): keys for the back door, protected areas, then FSEC,
 * FOPT, FEPROT, FDPROT. Every byte is as in erased flash but FSEC, whose erased value 0xFF would
 * close the debug port: 0xFE says unsecured, mass erase allowed. With that, nothing in an image can
 * lock the chip; pyOCD refuses to program a field that does. */
__attribute__((section(".flash_config"), used)) static const uint8_t flash_config[16] = {
    0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFE, 0xFF, 0xFF, 0xFF,
};

/* The watchdog may be configured only in the first 256 bus clocks after it was unlocked. */
void hil_soc_early(void) {
    WDOG_UNLOCK = 0xC520;
    WDOG_UNLOCK = 0xD928;
    WDOG_STCTRLH = STCTRLH_AS_AFTER_RESET_BUT_OFF;
}

/* From the internal clock over the external one to the PLL, the manual's way FEI, FBE, PBE, PEE. */
static bool start_pll(void) {
    MCG_C2 = C2_VERY_HIGH_RANGE;
    MCG_C1 = C1_EXTERNAL_BY_1536;
    if (!hil_wait8(&MCG_S, S_IREFST | S_CLKST, S_CLKST_EXTERNAL)) {
        return false;
    }
    MCG_C5 = HIL_SOC_PLL_DIV - 1;
    MCG_C6 = (uint8_t)(C6_PLLS | (HIL_SOC_PLL_MUL - 24U));
    if (!hil_wait8(&MCG_S, S_PLL_LOCKED, S_PLL_LOCKED)) {
        return false;
    }
    SIM_CLKDIV1 = CLKDIV1_DIVIDERS; /* before the clock that needs them */
    MCG_C1 = C1_PLL_OR_FLL;
    return hil_wait8(&MCG_S, S_CLKST, S_CLKST_PLL);
}

uint32_t hil_soc_init(void) {
    const bool is_fast = start_pll();
    if (!is_fast) {
        MCG_C6 = 0;
        MCG_C1 = C1_FLL_INTERNAL;
        (void)hil_wait8(&MCG_S, S_IREFST | S_CLKST, S_IREFST | S_CLKST_FLL);
    }
    SIM_SCGC4 |= 1UL << 10; /* UART0 */
    SIM_SCGC5 |= 1UL << 10; /* PORTB */
    PORTB_PCR(HIL_SOC_TX_PIN) = PCR_ALTERNATIVE_3;
    PORTB_PCR(HIL_SOC_RX_PIN) = PCR_ALTERNATIVE_3 | PCR_PULL_UP; /* an open line is idle */
    return is_fast ? HIL_UART_FULL_HZ : FLL_HZ;
}
