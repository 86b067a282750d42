/* PLL from the internal oscillator, instruction cache, UART clock and pins. Clock tree and
 * registers: RM0444. */
#include "hil_core.h"

#define GPIO_BASE 0x50000000UL
#include "hil_stm32.h"

#define HSI_HZ 16000000

_Static_assert(HSI_HZ / HIL_SOC_PLL_M * HIL_SOC_PLL_N / HIL_SOC_PLL_R == HIL_CLOCK_HZ,
               "clock_hz must be 16 MHz / soc.pll_m * pll_n / pll_r");
HIL_CHECK_UART_CLOCK(HIL_CLOCK_HZ, "uart.clock_hz must be clock_hz: the bus runs undivided");

#define RCC(offset) HIL_REG(0x40021000 + (offset))
#define RCC_CR RCC(0x00)
#define RCC_CFGR RCC(0x08)
#define RCC_PLLCFGR RCC(0x0C)
#define RCC_IOPENR RCC(0x34)
#define RCC_UARTENR RCC(HIL_SOC_UART_ENABLE_REGISTER)
#define FLASH_ACR HIL_REG(0x40022000)

#define CR_HSION (1UL << 8)
#define CR_HSIRDY (1UL << 10)
#define CR_PLLON (1UL << 24)
#define CR_PLLRDY (1UL << 25)
#define PLLCFGR_SRC_HSI 2UL
#define PLLCFGR_REN (1UL << 28)
#define CFGR_SW_PLL 2UL
#define CFGR_SWS (7UL << 3)
#define CFGR_SWS_PLL (2UL << 3)
#define ACR_LATENCY 7UL
#define ACR_PREFETCH_AND_CACHE (3UL << 8)

static bool start_pll(void) {
    RCC_CR |= CR_HSION;
    if (!hil_wait(&RCC_CR, CR_HSIRDY, CR_HSIRDY)) {
        return false;
    }
    RCC_PLLCFGR = PLLCFGR_SRC_HSI | (HIL_SOC_PLL_M - 1UL) << 4 | (uint32_t)HIL_SOC_PLL_N << 8 |
                  PLLCFGR_REN | (HIL_SOC_PLL_R - 1UL) << 29;
    RCC_CR |= CR_PLLON;
    if (!hil_wait(&RCC_CR, CR_PLLRDY, CR_PLLRDY)) {
        return false;
    }
    /* The register has a further bit, which must keep its reset value. */
    FLASH_ACR = (FLASH_ACR & ~ACR_LATENCY) | ACR_PREFETCH_AND_CACHE | HIL_SOC_FLASH_WAIT_STATES;
    if (!hil_wait(&FLASH_ACR, ACR_LATENCY, HIL_SOC_FLASH_WAIT_STATES)) {
        return false;
    }
    RCC_CFGR = CFGR_SW_PLL;
    return hil_wait(&RCC_CFGR, CFGR_SWS, CFGR_SWS_PLL);
}

uint32_t hil_soc_init(void) {
    const bool is_fast = start_pll();
    if (!is_fast) {
        RCC_CFGR = 0; /* the internal oscillator */
    }
    RCC_IOPENR |= GPIO_ENABLE;
    RCC_UARTENR |= 1UL << HIL_SOC_UART_ENABLE_BIT;
    (void)RCC_UARTENR; /* the clocks run after the next access */
    stm32_set_uart_pins();
    return is_fast ? HIL_UART_FULL_HZ : HSI_HZ;
}
