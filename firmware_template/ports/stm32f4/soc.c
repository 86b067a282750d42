/* PLL, flash accelerator or caches, UART clock and pins. Clock tree and registers: RM0090 (F405 to
 * F439), RM0368 (F401), RM0383 (F411), RM0390 (F446), RM0385 (F74x). */
#include "hil_core.h"

#define GPIO_BASE 0x40020000UL
#include "hil_stm32.h"

#if HIL_SOC_L1_CACHES
#include "hil_cache.h"
#endif

#define HSI_HZ 16000000
/* Without a crystal, the internal oscillator. */
#define SOURCE_HZ (HIL_SOC_HSE_HZ != 0 ? HIL_SOC_HSE_HZ : HSI_HZ)
#define PLL_INPUT_HZ (SOURCE_HZ / HIL_SOC_PLL_M)
#define APB_HZ (HIL_CLOCK_HZ / (HIL_SOC_UART_BUS == 1 ? HIL_SOC_APB1_DIV : HIL_SOC_APB2_DIV))

_Static_assert(HIL_SOC_HSE_HZ == 0 || HIL_SOC_HSE_HZ >= 4000000,
               "soc.hse_hz must be 0 or 4 to 26 MHz");
_Static_assert(HIL_CLOCK_HZ == PLL_INPUT_HZ * HIL_SOC_PLL_N / HIL_SOC_PLL_P,
               "clock_hz must be soc.hse_hz (16 MHz for 0) / pll_m * pll_n / pll_p");
_Static_assert(HSI_HZ % PLL_INPUT_HZ == 0, "soc.hse_hz / pll_m must be 1 or 2 MHz");
_Static_assert(HIL_SOC_PLL_P % 2 == 0, "soc.pll_p must be 2, 4, 6 or 8");
HIL_CHECK_UART_CLOCK(APB_HZ, "uart.clock_hz must be the clock of soc.uart_bus");

#define RCC_CR HIL_REG(0x40023800)
#define RCC_PLLCFGR HIL_REG(0x40023804)
#define RCC_CFGR HIL_REG(0x40023808)
#define RCC_AHB1ENR HIL_REG(0x40023830)
#define RCC_APB1ENR HIL_REG(0x40023840)
#define RCC_APB2ENR HIL_REG(0x40023844)
#define FLASH_ACR HIL_REG(0x40023C00)
#define PWR_CR HIL_REG(0x40007000)
#define PWR_CSR HIL_REG(0x40007004)

#define CR_HSION (1UL << 0)
#define CR_HSIRDY (1UL << 1)
#define CR_HSEON (1UL << 16)
#define CR_HSERDY (1UL << 17)
#define CR_HSEBYP (1UL << 18)
#define CR_PLLON (1UL << 24)
#define CR_PLLRDY (1UL << 25)
#define PLLCFGR_SRC_HSE (1UL << 22)
#define CFGR_SW_PLL 2UL
#define CFGR_SWS (3UL << 2)
#define CFGR_SWS_PLL (2UL << 2)
#define PWR_VOS (3UL << 14)
#define PWR_OD (1UL << 16)
#define PWR_ODSW (1UL << 17)
#define ACR_LATENCY 15UL
/* Prefetch, and the flash's caches of instructions and data (F4) or its ART (F7). */
#define ACR_ACCELERATORS ((HIL_SOC_L1_CACHES ? 3UL : 7UL) << 8)

/* The PLL's source and the divider for it. Where the crystal's clock does not come, the internal
 * oscillator stands in at the same rate: less exact, but the board answers. */
static uint32_t start_source(void) {
#if HIL_SOC_HSE_HZ != 0
    RCC_CR |= HIL_SOC_HSE_BYPASS ? CR_HSEBYP : 0;
    RCC_CR |= CR_HSEON;
    if (hil_wait(&RCC_CR, CR_HSERDY, CR_HSERDY)) {
        return PLLCFGR_SRC_HSE | HIL_SOC_PLL_M;
    }
#endif
    RCC_CR |= CR_HSION;
    (void)hil_wait(&RCC_CR, CR_HSIRDY, CR_HSIRDY);
    return HSI_HZ / PLL_INPUT_HZ;
}

#if HIL_SOC_OVER_DRIVE
/* Further voltage for the highest speeds, while the PLL runs but does not drive the core. */
static bool raise_voltage(void) {
    PWR_CR |= PWR_OD;
    if (!hil_wait(&PWR_CSR, PWR_OD, PWR_OD)) {
        return false;
    }
    PWR_CR |= PWR_ODSW;
    return hil_wait(&PWR_CSR, PWR_ODSW, PWR_ODSW);
}
#endif

static bool start_pll(void) {
    RCC_APB1ENR |= 1UL << 28; /* PWR */
    (void)RCC_APB1ENR;
    PWR_CR = (PWR_CR & ~PWR_VOS) | (uint32_t)HIL_SOC_VOS << 14;
    /* The highest field is PLLR's, where there is one; it is 2 after reset. */
    RCC_PLLCFGR = start_source() | HIL_SOC_PLL_N << 6 | (HIL_SOC_PLL_P / 2 - 1UL) << 16 |
                  (uint32_t)HIL_SOC_PLL_Q << 24 | 2UL << 28;
    RCC_CR |= CR_PLLON;
    if (!hil_wait(&RCC_CR, CR_PLLRDY, CR_PLLRDY)) {
        return false;
    }
#if HIL_SOC_OVER_DRIVE
    if (!raise_voltage()) {
        return false;
    }
#endif
    /* Wait states and bus dividers before the clock that needs them. */
    FLASH_ACR = ACR_ACCELERATORS | HIL_SOC_FLASH_WAIT_STATES;
    if (!hil_wait(&FLASH_ACR, ACR_LATENCY, HIL_SOC_FLASH_WAIT_STATES)) {
        return false;
    }
    RCC_CFGR = APB_FIELD(HIL_SOC_APB1_DIV) << 10 | APB_FIELD(HIL_SOC_APB2_DIV) << 13;
    RCC_CFGR |= CFGR_SW_PLL;
    return hil_wait(&RCC_CFGR, CFGR_SWS, CFGR_SWS_PLL);
}

uint32_t hil_soc_init(void) {
    const bool is_fast = start_pll();
    if (!is_fast) {
        RCC_CR |= CR_HSION;
        RCC_CFGR = 0; /* the internal oscillator, all buses undivided */
    }
#if HIL_SOC_L1_CACHES
    hil_cache_enable();
#endif
    RCC_AHB1ENR |= GPIO_ENABLE;
#if HIL_SOC_UART_BUS == 1
    RCC_APB1ENR |= 1UL << HIL_SOC_UART_ENABLE_BIT;
#else
    RCC_APB2ENR |= 1UL << HIL_SOC_UART_ENABLE_BIT;
#endif
    (void)RCC_APB2ENR; /* the clocks run after the next access */
    stm32_set_uart_pins();
    return is_fast ? HIL_UART_FULL_HZ : HSI_HZ;
}
