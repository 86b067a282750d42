/* Crystal, PLL, UART0. Registers: Raspberry Pi's RP2040 and RP2350 data sheets, chapters Clocks,
 * Resets, GPIO; the two differ in addresses and in the isolation of pads. A reset of the core alone
 * leaves the clocks as they were, so everything begins with the oscillator that always runs. */
#include "hil_core.h"

#define XOSC_HZ 12000000
/* The ring oscillator's typical rate: from chip to chip it differs by more than a line allows. */
#define ROSC_HZ (HIL_SOC_CHIP == 2040 ? 6500000 : 11000000)

_Static_assert(HIL_SOC_CHIP == 2040 || HIL_SOC_CHIP == 2350, "soc.chip must be 2040 or 2350");
_Static_assert((uint64_t)XOSC_HZ *HIL_SOC_PLL_MUL / HIL_SOC_PLL_DIV1 / HIL_SOC_PLL_DIV2 ==
                   HIL_CLOCK_HZ,
               "clock_hz must be 12 MHz * soc.pll_mul / pll_div1 / pll_div2");
_Static_assert(HIL_SOC_PLL_DIV1 >= HIL_SOC_PLL_DIV2, "soc.pll_div1 must not be less than pll_div2");

#if HIL_SOC_CHIP == 2040
#define RESETS 0x4000C000
#define CLOCKS 0x40008000
#define XOSC 0x40024000
#define PLL_SYS 0x40028000
#define IO_BANK0 0x40014000
#define PADS_BANK0 0x4001C000
#define RESET_IO_BANK0 (1UL << 5)
#define RESET_PADS_BANK0 (1UL << 8)
#define RESET_PLL_SYS (1UL << 12)
#define RESET_UART0 (1UL << 22)
#else
#define RESETS 0x40020000
#define CLOCKS 0x40010000
#define XOSC 0x40048000
#define PLL_SYS 0x40050000
#define IO_BANK0 0x40028000
#define PADS_BANK0 0x40038000
#define RESET_IO_BANK0 (1UL << 6)
#define RESET_PADS_BANK0 (1UL << 9)
#define RESET_PLL_SYS (1UL << 14)
#define RESET_UART0 (1UL << 26)
#endif

#define RESET HIL_REG(RESETS + 0x0)
#define RESET_DONE HIL_REG(RESETS + 0x8)
#define CLK_REF_CTRL HIL_REG(CLOCKS + 0x30)
#define CLK_REF_SELECTED HIL_REG(CLOCKS + 0x38)
#define CLK_SYS_CTRL HIL_REG(CLOCKS + 0x3C)
#define CLK_SYS_SELECTED HIL_REG(CLOCKS + 0x44)
#define CLK_PERI_CTRL HIL_REG(CLOCKS + 0x48)
#define XOSC_CTRL HIL_REG(XOSC + 0x0)
#define XOSC_STATUS HIL_REG(XOSC + 0x4)
#define XOSC_STARTUP HIL_REG(XOSC + 0xC)
#define PLL_CS HIL_REG(PLL_SYS + 0x0)
#define PLL_PWR HIL_REG(PLL_SYS + 0x4)
#define PLL_FBDIV_INT HIL_REG(PLL_SYS + 0x8)
#define PLL_PRIM HIL_REG(PLL_SYS + 0xC)
#define GPIO_CTRL(pin) HIL_REG(IO_BANK0 + 8 * (pin) + 4)
#define PAD(pin) HIL_REG(PADS_BANK0 + 4 * (pin) + 4)

#define XOSC_ENABLE_UP_TO_15_MHZ 0x00FABAA0UL
#define XOSC_STABLE (1UL << 31)
#define PLL_LOCK (1UL << 31)
#define PLL_PWR_POSTDIV (1UL << 3)
#define PLL_PWR_FRACTIONAL (1UL << 2)
#define REF_FROM_ROSC 0UL
#define REF_FROM_XOSC 2UL
#define REF_SOURCE 3UL
#define SYS_SOURCE 1UL
#define SYS_FROM_REF 0UL
#define SYS_FROM_PLL 1UL
#define PERI_ENABLE_FROM_SYS (1UL << 11)
#define FUNCTION_UART 2UL
/* Schmitt trigger, pull-up, 4 mA, input enabled; on RP2350 this also ends the isolation. */
#define PAD_UART (1UL << 1 | 1UL << 3 | 1UL << 4 | 1UL << 6)

static bool start_block(uint32_t bits) {
    RESET &= ~bits;
    return hil_wait(&RESET_DONE, bits, bits);
}

/* Returns the rate of the clock that the system gets. */
static uint32_t start_pll(void) {
    /* A source is left before its own selection changes, which would let glitches through. In
     * SELECTED one bit says which source a clock runs from. */
    CLK_SYS_CTRL &= ~SYS_SOURCE;
    (void)hil_wait(&CLK_SYS_SELECTED, 1UL << SYS_FROM_REF, 1UL << SYS_FROM_REF);
    CLK_SYS_CTRL = SYS_FROM_REF;
    CLK_REF_CTRL &= ~REF_SOURCE;
    (void)hil_wait(&CLK_REF_SELECTED, 1UL << REF_FROM_ROSC, 1UL << REF_FROM_ROSC);

    XOSC_STARTUP = 47; /* 1 ms, in 256 periods */
    XOSC_CTRL = XOSC_ENABLE_UP_TO_15_MHZ;
    if (!hil_wait(&XOSC_STATUS, XOSC_STABLE, XOSC_STABLE)) {
        return ROSC_HZ;
    }
    CLK_REF_CTRL = REF_FROM_XOSC;
    (void)hil_wait(&CLK_REF_SELECTED, 1UL << REF_FROM_XOSC, 1UL << REF_FROM_XOSC);

    RESET |= RESET_PLL_SYS;
    if (!start_block(RESET_PLL_SYS)) {
        return XOSC_HZ;
    }
    PLL_CS = 1; /* the crystal's clock undivided */
    PLL_FBDIV_INT = HIL_SOC_PLL_MUL;
    PLL_PWR = PLL_PWR_POSTDIV | PLL_PWR_FRACTIONAL;
    if (!hil_wait(&PLL_CS, PLL_LOCK, PLL_LOCK)) {
        return XOSC_HZ;
    }
    PLL_PRIM = (uint32_t)HIL_SOC_PLL_DIV1 << 16 | (uint32_t)HIL_SOC_PLL_DIV2 << 12;
    PLL_PWR = PLL_PWR_FRACTIONAL;
    CLK_SYS_CTRL = SYS_FROM_PLL; /* the first of its auxiliary sources is this PLL */
    (void)hil_wait(&CLK_SYS_SELECTED, 1UL << SYS_FROM_PLL, 1UL << SYS_FROM_PLL);
    return HIL_UART_FULL_HZ;
}

uint32_t hil_soc_init(void) {
    const uint32_t uart_hz = start_pll();
    CLK_PERI_CTRL = PERI_ENABLE_FROM_SYS;
    RESET |= RESET_UART0;
    (void)start_block(RESET_IO_BANK0 | RESET_PADS_BANK0 | RESET_UART0);
    PAD(HIL_SOC_TX_PIN) = PAD_UART;
    PAD(HIL_SOC_RX_PIN) = PAD_UART;
    GPIO_CTRL(HIL_SOC_TX_PIN) = FUNCTION_UART;
    GPIO_CTRL(HIL_SOC_RX_PIN) = FUNCTION_UART;
    return uart_hz;
}
