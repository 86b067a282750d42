/* Core voltage, PLL from the internal oscillator, instruction cache, UART clock and pins. For a
 * chip whose TrustZone is off (TZEN), as it comes. Clock tree and registers: RM0456. */
#include "hil_core.h"

#define GPIO_BASE 0x42020000UL
#include "hil_stm32.h"

#define HSI_HZ 16000000
#define MSI_HZ 4000000
#define PLL_INPUT_HZ (HSI_HZ / HIL_SOC_PLL_M)

_Static_assert(HIL_CLOCK_HZ == PLL_INPUT_HZ * HIL_SOC_PLL_N / HIL_SOC_PLL_R,
               "clock_hz must be 16 MHz / soc.pll_m * pll_n / pll_r");
HIL_CHECK_UART_CLOCK(HIL_CLOCK_HZ, "uart.clock_hz must be clock_hz: the buses run undivided");

#define RCC(offset) HIL_REG(0x46020C00 + (offset))
#define RCC_CR RCC(0x00)
#define RCC_CFGR1 RCC(0x1C)
#define RCC_CFGR2 RCC(0x20)
#define RCC_PLL1CFGR RCC(0x28)
#define RCC_PLL1DIVR RCC(0x34)
#define RCC_AHB2ENR1 RCC(0x8C)
#define RCC_AHB3ENR RCC(0x94)
#define RCC_UARTENR RCC(HIL_SOC_UART_ENABLE_REGISTER)
#define PWR_VOSR HIL_REG(0x4602080C)
#define FLASH_ACR HIL_REG(0x40022000)
#define ICACHE_CR HIL_REG(0x40030400)

#define CR_HSION (1UL << 8)
#define CR_HSIRDY (1UL << 10)
#define CR_PLL1ON (1UL << 24)
#define CR_PLL1RDY (1UL << 25)
#define PLL1CFGR_SRC_HSI 2UL
#define PLL1CFGR_RGE (PLL_INPUT_HZ >= 8000000 ? 3UL << 2 : 0UL)
#define PLL1CFGR_REN (1UL << 18)
#define CFGR1_SW_PLL1 3UL
#define CFGR1_SWS (3UL << 2)
#define CFGR1_SWS_PLL1 (3UL << 2)
#define CFGR2_HPRE 15UL
#define CFGR2_HPRE_DIV2 8UL
#define VOSR_BOOSTRDY (1UL << 14)
#define VOSR_VOSRDY (1UL << 15)
#define VOSR_RANGE1 (3UL << 16)
#define VOSR_BOOSTEN (1UL << 18)
#define ACR_LATENCY 15UL
#define ACR_PREFETCH (1UL << 8)

static bool raise_voltage(void) {
    RCC_AHB3ENR |= 1UL << 2; /* PWR */
    (void)RCC_AHB3ENR;
    PWR_VOSR |= VOSR_RANGE1;
    return hil_wait(&PWR_VOSR, VOSR_VOSRDY, VOSR_VOSRDY);
}

static bool start_pll(void) {
    RCC_CR |= CR_HSION;
    if (!raise_voltage() || !hil_wait(&RCC_CR, CR_HSIRDY, CR_HSIRDY)) {
        return false;
    }
    RCC_PLL1CFGR = PLL1CFGR_SRC_HSI | PLL1CFGR_RGE | (HIL_SOC_PLL_M - 1UL) << 8 | PLL1CFGR_REN;
    /* P and Q are off; 2 is what they divide by after reset. */
    RCC_PLL1DIVR = (HIL_SOC_PLL_N - 1UL) | 1UL << 9 | 1UL << 16 | (HIL_SOC_PLL_R - 1UL) << 24;
    /* The supply's booster, which has the PLL's source undivided for a clock. */
    PWR_VOSR |= VOSR_BOOSTEN;
    RCC_CR |= CR_PLL1ON;
    if (!hil_wait(&RCC_CR, CR_PLL1RDY, CR_PLL1RDY) ||
        !hil_wait(&PWR_VOSR, VOSR_BOOSTRDY, VOSR_BOOSTRDY)) {
        return false;
    }
    FLASH_ACR = (FLASH_ACR & ~ACR_LATENCY) | ACR_PREFETCH | HIL_SOC_FLASH_WAIT_STATES;
    if (!hil_wait(&FLASH_ACR, ACR_LATENCY, HIL_SOC_FLASH_WAIT_STATES)) {
        return false;
    }
    /* Beyond 80 MHz the core has to get there in two steps, a microsecond apart. */
    RCC_CFGR2 |= CFGR2_HPRE_DIV2;
    RCC_CFGR1 |= CFGR1_SW_PLL1;
    if (!hil_wait(&RCC_CFGR1, CFGR1_SWS, CFGR1_SWS_PLL1)) {
        return false;
    }
    hil_pause(HIL_CLOCK_HZ / 1000000);
    RCC_CFGR2 &= ~CFGR2_HPRE;
    return true;
}

uint32_t hil_soc_init(void) {
    const bool is_fast = start_pll();
    if (!is_fast) {
        RCC_CFGR1 &= ~CFGR1_SW_PLL1; /* the MSI, all buses undivided */
        RCC_CFGR2 &= ~CFGR2_HPRE;
    }
    ICACHE_CR |= 1;
    RCC_AHB2ENR1 |= GPIO_ENABLE;
    RCC_UARTENR |= 1UL << HIL_SOC_UART_ENABLE_BIT;
    (void)RCC_UARTENR; /* the clocks run after the next access */
    stm32_set_uart_pins();
    return is_fast ? HIL_UART_FULL_HZ : MSI_HZ;
}
