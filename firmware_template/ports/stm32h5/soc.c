/* Core voltage, PLL, instruction cache, UART clock and pins. For a chip whose TrustZone is off
 * (TZEN), as it comes. Clock tree and registers: RM0481. */
#include "hil_core.h"

#define GPIO_BASE 0x42020000UL
#include "hil_stm32.h"

#define HSI_HZ 32000000 /* 64 MHz, divided by 2 after reset */
/* Without a crystal, the internal oscillator. */
#define SOURCE_HZ (HIL_SOC_HSE_HZ != 0 ? HIL_SOC_HSE_HZ : HSI_HZ)
#define PLL_INPUT_HZ (SOURCE_HZ / HIL_SOC_PLL_M)

_Static_assert(HIL_SOC_HSE_HZ == 0 || HIL_SOC_HSE_HZ >= 4000000,
               "soc.hse_hz must be 0 or 4 to 50 MHz");
_Static_assert(HIL_CLOCK_HZ == PLL_INPUT_HZ * HIL_SOC_PLL_N / HIL_SOC_PLL_P,
               "clock_hz must be soc.hse_hz (32 MHz for 0) / pll_m * pll_n / pll_p");
_Static_assert(PLL_INPUT_HZ >= 2000000 && PLL_INPUT_HZ <= 16000000 && HSI_HZ % PLL_INPUT_HZ == 0,
               "soc.hse_hz / pll_m must be 2 to 16 MHz, and divide 32 MHz");
HIL_CHECK_UART_CLOCK(HIL_CLOCK_HZ, "uart.clock_hz must be clock_hz: the buses run undivided");

#define RCC(offset) HIL_REG(0x44020C00 + (offset))
#define RCC_CR RCC(0x00)
#define RCC_CFGR1 RCC(0x1C)
#define RCC_PLL1CFGR RCC(0x28)
#define RCC_PLL1DIVR RCC(0x34)
#define RCC_AHB2ENR RCC(0x8C)
#define RCC_UARTENR RCC(HIL_SOC_UART_ENABLE_REGISTER)
#define PWR_VOSCR HIL_REG(0x44020810)
#define PWR_VOSSR HIL_REG(0x44020814)
#define FLASH_ACR HIL_REG(0x40022000)
#define ICACHE_CR HIL_REG(0x40030400)

#define CR_HSEON (1UL << 16)
#define CR_HSERDY (1UL << 17)
#define CR_HSEBYP (1UL << 18)
#define CR_PLL1ON (1UL << 24)
#define CR_PLL1RDY (1UL << 25)
#define PLL1CFGR_SRC_HSI 1UL
#define PLL1CFGR_SRC_HSE 3UL
/* Range of the PLL's input, from 2, 4 or 8 MHz on. */
#define PLL1CFGR_RGE (PLL_INPUT_HZ >= 8000000 ? 3UL : PLL_INPUT_HZ >= 4000000 ? 2UL : 1UL)
#define PLL1CFGR_PEN (1UL << 16)
#define CFGR1_SW_PLL1 3UL
#define CFGR1_SWS (3UL << 3)
#define CFGR1_SWS_PLL1 (3UL << 3)
#define VOSCR_VOS0 (3UL << 4)
#define VOSSR_ACTVOS0_READY (7UL << 13)
#define ACR_LATENCY 15UL
#define ACR_PREFETCH (1UL << 8)

static bool raise_voltage(void) {
    PWR_VOSCR = VOSCR_VOS0;
    return hil_wait(&PWR_VOSSR, VOSSR_ACTVOS0_READY, VOSSR_ACTVOS0_READY);
}

/* The PLL's source and the divider for it. Where the crystal's clock does not come, the internal
 * oscillator, which runs after reset, stands in at the same rate: less exact, but the board
 * answers. */
static uint32_t start_source(void) {
#if HIL_SOC_HSE_HZ != 0
    RCC_CR |= HIL_SOC_HSE_BYPASS ? CR_HSEBYP : 0;
    RCC_CR |= CR_HSEON;
    if (hil_wait(&RCC_CR, CR_HSERDY, CR_HSERDY)) {
        return PLL1CFGR_SRC_HSE | HIL_SOC_PLL_M << 8;
    }
#endif
    return PLL1CFGR_SRC_HSI | HSI_HZ / PLL_INPUT_HZ << 8;
}

static bool start_pll(void) {
    if (!raise_voltage()) {
        return false;
    }
    RCC_PLL1CFGR = start_source() | PLL1CFGR_RGE << 2 | PLL1CFGR_PEN;
    /* Q and R are off; 2 is what they divide by after reset. */
    RCC_PLL1DIVR = (HIL_SOC_PLL_N - 1UL) | (HIL_SOC_PLL_P - 1UL) << 9 | 1UL << 16 | 1UL << 24;
    RCC_CR |= CR_PLL1ON;
    if (!hil_wait(&RCC_CR, CR_PLL1RDY, CR_PLL1RDY)) {
        return false;
    }
    FLASH_ACR = ACR_PREFETCH | HIL_SOC_FLASH_WRITE_DELAY << 4 | HIL_SOC_FLASH_WAIT_STATES;
    if (!hil_wait(&FLASH_ACR, ACR_LATENCY, HIL_SOC_FLASH_WAIT_STATES)) {
        return false;
    }
    RCC_CFGR1 |= CFGR1_SW_PLL1;
    return hil_wait(&RCC_CFGR1, CFGR1_SWS, CFGR1_SWS_PLL1);
}

uint32_t hil_soc_init(void) {
    const bool is_fast = start_pll();
    if (!is_fast) {
        RCC_CFGR1 &= ~CFGR1_SW_PLL1; /* the internal oscillator */
    }
    ICACHE_CR |= 1;
    RCC_AHB2ENR |= GPIO_ENABLE;
    RCC_UARTENR |= 1UL << HIL_SOC_UART_ENABLE_BIT;
    (void)RCC_UARTENR; /* the clocks run after the next access */
    stm32_set_uart_pins();
    return is_fast ? HIL_UART_FULL_HZ : HSI_HZ;
}
