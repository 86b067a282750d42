/* PLL from the 8 MHz crystal; USART1 on PA9 and PA10. */
#include "hil_core.h"

_Static_assert(HIL_CLOCK_HZ == 8000000 * HIL_SOC_PLL_MULTIPLIER,
               "clock_hz must be 8 MHz * soc.pll_multiplier");
HIL_CHECK_UART_CLOCK(HIL_CLOCK_HZ, "uart.clock_hz must be clock_hz: APB2 runs undivided");

#define RCC_CR HIL_REG(0x40021000)
#define RCC_CFGR HIL_REG(0x40021004)
#define RCC_APB2ENR HIL_REG(0x40021018)
#define FLASH_ACR HIL_REG(0x40022000)
#define GPIOA_CRH HIL_REG(0x40010804)

#define HSI_HZ 8000000
#define CR_HSION (1UL << 0)
#define CR_HSEON (1UL << 16)
#define CR_HSERDY (1UL << 17)
#define CR_PLLON (1UL << 24)
#define CR_PLLRDY (1UL << 25)
#define CFGR_SW_PLL 2UL
#define CFGR_SWS (3UL << 2)
#define CFGR_SWS_PLL (2UL << 2)
#define CFGR_PPRE1_DIV2 (4UL << 8)
#define ACR_LATENCY 7UL
#define ACR_PREFETCH (1UL << 4)
#define CFGR_PLLSRC_HSE (1UL << 16)

static bool start_pll(void) {
    RCC_CR |= CR_HSEON;
    if (!hil_wait(&RCC_CR, CR_HSERDY, CR_HSERDY)) {
        return false;
    }
    FLASH_ACR = ACR_PREFETCH | HIL_SOC_FLASH_WAIT_STATES;
    if (!hil_wait(&FLASH_ACR, ACR_LATENCY, HIL_SOC_FLASH_WAIT_STATES)) {
        return false;
    }
    RCC_CFGR = CFGR_PLLSRC_HSE | CFGR_PPRE1_DIV2 | (HIL_SOC_PLL_MULTIPLIER - 2UL) << 18;
    RCC_CR |= CR_PLLON;
    if (!hil_wait(&RCC_CR, CR_PLLRDY, CR_PLLRDY)) {
        return false;
    }
    RCC_CFGR |= CFGR_SW_PLL;
    return hil_wait(&RCC_CFGR, CFGR_SWS, CFGR_SWS_PLL);
}

uint32_t hil_soc_init(void) {
    const bool is_fast = start_pll();
    if (!is_fast) {
        RCC_CR |= CR_HSION;
        RCC_CFGR = 0; /* the internal oscillator, all buses undivided */
    }
    RCC_APB2ENR |= 1UL << 2 | 1UL << 14; /* GPIOA, USART1 */
    (void)RCC_APB2ENR;                   /* the clocks run after the next access */
    /* PA9: alternate push-pull, 50 MHz. PA10: input with pull-up, so that an open line is idle. */
    GPIOA_CRH = (GPIOA_CRH & ~0xFF0UL) | 0x8B0UL;
    HIL_REG(0x40010810) = 1UL << 10;
    return is_fast ? HIL_UART_FULL_HZ : HSI_HZ;
}
