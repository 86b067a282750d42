/* Core voltage, PLL, caches, memories, UART clock and pins. Clock tree and registers: RM0433. */
#include "hil_cache.h"
#include "hil_core.h"

#define GPIO_BASE 0x58020000UL
#include "hil_stm32.h"

#define HSI_HZ 64000000
/* Without a crystal, the internal oscillator. */
#define SOURCE_HZ (HIL_SOC_HSE_HZ != 0 ? HIL_SOC_HSE_HZ : HSI_HZ)
#define PLL_INPUT_HZ (SOURCE_HZ / HIL_SOC_PLL_M)
#define BUS_HZ (HIL_CLOCK_HZ / 2)
#define APB_HZ (BUS_HZ / HIL_SOC_APB_DIV)

_Static_assert(HIL_SOC_HSE_HZ == 0 || HIL_SOC_HSE_HZ >= 4000000,
               "soc.hse_hz must be 0 or 4 to 48 MHz");
_Static_assert(HIL_CLOCK_HZ == PLL_INPUT_HZ * HIL_SOC_PLL_N / HIL_SOC_PLL_P,
               "clock_hz must be soc.hse_hz (64 MHz for 0) / pll_m * pll_n / pll_p");
_Static_assert(PLL_INPUT_HZ >= 2000000 && PLL_INPUT_HZ <= 16000000 && HSI_HZ % PLL_INPUT_HZ == 0,
               "soc.hse_hz / pll_m must be 2 to 16 MHz, and divide 64 MHz");
HIL_CHECK_UART_CLOCK(APB_HZ, "uart.clock_hz must be clock_hz / 2 / soc.apb_div");

#define RCC(offset) HIL_REG(0x58024400 + (offset))
#define RCC_CR RCC(0x00)
#define RCC_CFGR RCC(0x10)
#define RCC_D1CFGR RCC(0x18)
#define RCC_D2CFGR RCC(0x1C)
#define RCC_D3CFGR RCC(0x20)
#define RCC_PLLCKSELR RCC(0x28)
#define RCC_PLLCFGR RCC(0x2C)
#define RCC_PLL1DIVR RCC(0x30)
#define RCC_AHB2ENR RCC(0xDC)
#define RCC_AHB4ENR RCC(0xE0)
#define RCC_UARTENR RCC(HIL_SOC_UART_ENABLE_REGISTER)
#define FLASH_ACR HIL_REG(0x52002000)
#define PWR_CSR1 HIL_REG(0x58024804)
#define PWR_CR3 HIL_REG(0x5802480C)
#define PWR_D3CR HIL_REG(0x58024818)

#define CR_HSION (1UL << 0)
#define CR_HSIRDY (1UL << 2)
#define CR_HSEON (1UL << 16)
#define CR_HSERDY (1UL << 17)
#define CR_HSEBYP (1UL << 18)
#define CR_PLL1ON (1UL << 24)
#define CR_PLL1RDY (1UL << 25)
#define PLLCKSELR_SRC_HSE 2UL
/* Range of the PLL's input, from 2, 4 or 8 MHz on. */
#define PLLCFGR_RGE (PLL_INPUT_HZ >= 8000000 ? 3UL : PLL_INPUT_HZ >= 4000000 ? 2UL : 1UL)
#define PLLCFGR_DIVP1EN (1UL << 16)
#define CFGR_SW_PLL1 3UL
#define CFGR_SWS (7UL << 3)
#define CFGR_SWS_PLL1 (3UL << 3)
#define HPRE_DIV2 8UL
#define CR3_BYPASS_LDO_SMPS 7UL
#define CR3_LDOEN (1UL << 1)
#define CSR1_ACTVOSRDY (1UL << 13)
#define CSR1_ACTVOS1_READY (7UL << 13)
#define D3CR_VOS1 (3UL << 14)
#define ACR_LATENCY 15UL

/* The board supplies the core through the chip's LDO, if no boot loader has said through what.
 * Nothing but writing this lets the voltage be changed after power-on, and it is taken once. */
static bool raise_voltage(void) {
#if !HIL_AFTER_LOADER
    PWR_CR3 = (PWR_CR3 & ~CR3_BYPASS_LDO_SMPS) | CR3_LDOEN;
#endif
    if (!hil_wait(&PWR_CSR1, CSR1_ACTVOSRDY, CSR1_ACTVOSRDY)) {
        return false;
    }
    PWR_D3CR |= D3CR_VOS1;
    return hil_wait(&PWR_CSR1, CSR1_ACTVOS1_READY, CSR1_ACTVOS1_READY);
}

/* The PLL's source and the divider for it. Where the crystal's clock does not come, the internal
 * oscillator stands in at the same rate: less exact, but the board answers. */
static uint32_t start_source(void) {
#if HIL_SOC_HSE_HZ != 0
    RCC_CR |= HIL_SOC_HSE_BYPASS ? CR_HSEBYP : 0;
    RCC_CR |= CR_HSEON;
    if (hil_wait(&RCC_CR, CR_HSERDY, CR_HSERDY)) {
        return PLLCKSELR_SRC_HSE | HIL_SOC_PLL_M << 4;
    }
#endif
    RCC_CR |= CR_HSION;
    (void)hil_wait(&RCC_CR, CR_HSIRDY, CR_HSIRDY);
    return HSI_HZ / PLL_INPUT_HZ << 4;
}

static bool start_pll(void) {
    if (!raise_voltage()) {
        return false;
    }
    RCC_PLLCKSELR = start_source();
    RCC_PLLCFGR = PLLCFGR_RGE << 2 | PLLCFGR_DIVP1EN;
    /* Q and R are off; 2 is what they divide by after reset. */
    RCC_PLL1DIVR = (HIL_SOC_PLL_N - 1UL) | (HIL_SOC_PLL_P - 1UL) << 9 | 1UL << 16 | 1UL << 24;
    RCC_CR |= CR_PLL1ON;
    if (!hil_wait(&RCC_CR, CR_PLL1RDY, CR_PLL1RDY)) {
        return false;
    }
    /* Wait states and dividers before the clock that needs them. All buses at half of the core's
     * rate, the peripherals' at a part of that. */
    FLASH_ACR = HIL_SOC_FLASH_WAIT_STATES | HIL_SOC_FLASH_WRITE_DELAY << 4;
    if (!hil_wait(&FLASH_ACR, ACR_LATENCY, HIL_SOC_FLASH_WAIT_STATES)) {
        return false;
    }
    RCC_D1CFGR = HPRE_DIV2 | APB_FIELD(HIL_SOC_APB_DIV) << 4;
    RCC_D2CFGR = APB_FIELD(HIL_SOC_APB_DIV) << 4 | APB_FIELD(HIL_SOC_APB_DIV) << 8;
    RCC_D3CFGR = APB_FIELD(HIL_SOC_APB_DIV) << 4;
    RCC_CFGR = CFGR_SW_PLL1;
    return hil_wait(&RCC_CFGR, CFGR_SWS, CFGR_SWS_PLL1);
}

#if HIL_AFTER_LOADER
/* Its settings of the PLL may change only while that is off. */
static void leave_pll(void) {
    RCC_CR |= CR_HSION;
    (void)hil_wait(&RCC_CR, CR_HSIRDY, CR_HSIRDY);
    RCC_CFGR = 0;
    (void)hil_wait(&RCC_CFGR, CFGR_SWS, 0);
    RCC_CR &= ~CR_PLL1ON;
    (void)hil_wait(&RCC_CR, CR_PLL1RDY, 0);
}
#endif

uint32_t hil_soc_init(void) {
#if HIL_AFTER_LOADER
    leave_pll();
#endif
    const bool is_fast = start_pll();
    if (!is_fast) {
        RCC_CR |= CR_HSION;
        RCC_CFGR = 0; /* the internal oscillator, all buses undivided */
        RCC_D1CFGR = 0;
        RCC_D2CFGR = 0;
        RCC_D3CFGR = 0;
    }
    RCC_AHB2ENR |= 7UL << 29; /* SRAM1 to 3 */
    RCC_AHB4ENR |= GPIO_ENABLE;
    RCC_UARTENR |= 1UL << HIL_SOC_UART_ENABLE_BIT;
    (void)RCC_UARTENR; /* the clocks run after the next access */
    hil_cache_enable();
    stm32_set_uart_pins();
    return is_fast ? HIL_UART_FULL_HZ : HSI_HZ;
}
