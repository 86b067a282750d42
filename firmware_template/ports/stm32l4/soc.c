/* PLL from the internal oscillator, caches, UART clock and pins. Clock tree and registers: RM0351
 * (L47x), RM0394 (L43x), RM0432 (L4+), RM0438 (L5), RM0440 (G4). */
#include "hil_core.h"

#define GPIO_BASE HIL_SOC_GPIO_BASE
#include "hil_stm32.h"

#define HSI_HZ 16000000
#define MSI_HZ 4000000

_Static_assert(HSI_HZ / HIL_SOC_PLL_M * HIL_SOC_PLL_N / HIL_SOC_PLL_R == HIL_CLOCK_HZ,
               "clock_hz must be 16 MHz / soc.pll_m * pll_n / pll_r");
_Static_assert(HIL_SOC_PLL_R % 2 == 0, "soc.pll_r must be 2, 4, 6 or 8");
HIL_CHECK_UART_CLOCK(HIL_CLOCK_HZ, "uart.clock_hz must be clock_hz: the buses run undivided");

#define RCC(offset) HIL_REG(0x40021000 + (offset))
#define RCC_CR RCC(0x00)
#define RCC_CFGR RCC(0x08)
#define RCC_PLLCFGR RCC(0x0C)
#define RCC_AHB2ENR RCC(0x4C)
#define RCC_APB1ENR1 RCC(0x58)
#define RCC_UARTENR RCC(HIL_SOC_UART_ENABLE_REGISTER)
#define FLASH_ACR HIL_REG(0x40022000)
#define PWR_CR1 HIL_REG(0x40007000)
#define PWR_CR2 HIL_REG(0x40007004)
#define PWR_SR2 HIL_REG(0x40007014)
#define PWR_CR5 HIL_REG(0x40007080)
#define ICACHE_CR HIL_REG(0x40030400)

#define CR_HSION (1UL << 8)
#define CR_HSIRDY (1UL << 10)
#define CR_PLLON (1UL << 24)
#define CR_PLLRDY (1UL << 25)
#define PLLCFGR_SRC_HSI 2UL
#define PLLCFGR_REN (1UL << 24)
#define CFGR_SW_PLL 3UL
#define CFGR_SWS (3UL << 2)
#define CFGR_SWS_HSI (1UL << 2)
#define CFGR_SWS_PLL (3UL << 2)
#define CFGR_HPRE (15UL << 4)
#define CFGR_HPRE_DIV2 (8UL << 4)
#define CR1_VOS (3UL << 9)
#define CR2_IOSV (1UL << 9)
#define SR2_VOSF (1UL << 10)
#define CR5_R1MODE (1UL << 8)
#define ACR_LATENCY 15UL
#define ACR_PREFETCH_AND_CACHES (7UL << 8)

static bool raise_voltage(void) {
    RCC_APB1ENR1 |= 1UL << 28; /* PWR */
    (void)RCC_APB1ENR1;
#if HIL_SOC_VDDIO2
    PWR_CR2 |= CR2_IOSV; /* the supply of port G's upper pins is there */
#endif
    PWR_CR1 = (PWR_CR1 & ~CR1_VOS) | (uint32_t)HIL_SOC_VOS << 9;
#if HIL_SOC_BOOST
    PWR_CR5 &= ~CR5_R1MODE;
#endif
    return hil_wait(&PWR_SR2, SR2_VOSF, 0);
}

static bool set_up_flash(void) {
    /* The register has further bits, some of which must keep their reset value. */
#if HIL_SOC_ICACHE
    FLASH_ACR = (FLASH_ACR & ~ACR_LATENCY) | HIL_SOC_FLASH_WAIT_STATES;
    ICACHE_CR |= 1;
#else
    FLASH_ACR = (FLASH_ACR & ~ACR_LATENCY) | ACR_PREFETCH_AND_CACHES | HIL_SOC_FLASH_WAIT_STATES;
#endif
    return hil_wait(&FLASH_ACR, ACR_LATENCY, HIL_SOC_FLASH_WAIT_STATES);
}

static bool start_pll(void) {
    RCC_CR |= CR_HSION;
    if (!raise_voltage() || !hil_wait(&RCC_CR, CR_HSIRDY, CR_HSIRDY)) {
        return false;
    }
    RCC_PLLCFGR = PLLCFGR_SRC_HSI | (HIL_SOC_PLL_M - 1UL) << 4 | (uint32_t)HIL_SOC_PLL_N << 8 |
                  PLLCFGR_REN | (HIL_SOC_PLL_R / 2 - 1UL) << 25;
    RCC_CR |= CR_PLLON;
    if (!hil_wait(&RCC_CR, CR_PLLRDY, CR_PLLRDY) || !set_up_flash()) {
        return false;
    }
    /* Beyond 80 MHz the core has to get there in two steps, a microsecond apart. */
    RCC_CFGR |= CFGR_HPRE_DIV2;
    RCC_CFGR |= CFGR_SW_PLL;
    if (!hil_wait(&RCC_CFGR, CFGR_SWS, CFGR_SWS_PLL)) {
        return false;
    }
    hil_pause(HIL_CLOCK_HZ / 1000000);
    RCC_CFGR &= ~CFGR_HPRE;
    return true;
}

uint32_t hil_soc_init(void) {
    const uint32_t after_reset = RCC_CFGR;
    uint32_t uart_hz = HIL_UART_FULL_HZ;
    if (!start_pll()) {
        RCC_CFGR = after_reset; /* the MSI, or in the G4 the HSI; all buses undivided */
        uart_hz = (after_reset & CFGR_SWS) == CFGR_SWS_HSI ? HSI_HZ : MSI_HZ;
    }
    RCC_AHB2ENR |= GPIO_ENABLE;
    RCC_UARTENR |= 1UL << HIL_SOC_UART_ENABLE_BIT;
    (void)RCC_UARTENR; /* the clocks run after the next access */
    stm32_set_uart_pins();
    return uart_hz;
}
