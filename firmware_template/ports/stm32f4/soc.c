/* PLL from the crystal, flash accelerator, UART clock and pins. */
#include "hil_core.h"

#define APB_HZ (HIL_CLOCK_HZ / (HIL_SOC_UART_BUS == 1 ? HIL_SOC_APB1_DIV : HIL_SOC_APB2_DIV))

_Static_assert(HIL_SOC_HSE_HZ / HIL_SOC_PLL_M * HIL_SOC_PLL_N / HIL_SOC_PLL_P == HIL_CLOCK_HZ,
               "clock_hz must be soc.hse_hz / pll_m * pll_n / pll_p");
_Static_assert(HIL_SOC_PLL_P % 2 == 0, "soc.pll_p must be 2, 4, 6 or 8");
_Static_assert(HIL_UART_CLOCK_HZ == APB_HZ, "uart.clock_hz must be the clock of soc.uart_bus");

#define RCC_CR HIL_REG(0x40023800)
#define RCC_PLLCFGR HIL_REG(0x40023804)
#define RCC_CFGR HIL_REG(0x40023808)
#define RCC_AHB1ENR HIL_REG(0x40023830)
#define RCC_APB1ENR HIL_REG(0x40023840)
#define RCC_APB2ENR HIL_REG(0x40023844)
#define FLASH_ACR HIL_REG(0x40023C00)
#define PWR_CR HIL_REG(0x40007000)
#define GPIO(offset) HIL_REG(0x40020000 + 0x400 * HIL_SOC_GPIO + (offset))
#define GPIO_MODER GPIO(0x00)
#define GPIO_OSPEEDR GPIO(0x08)
#define GPIO_PUPDR GPIO(0x0C)
#define GPIO_AFR(pin) GPIO(0x20 + 4 * ((pin) / 8))

#define CR_HSEON (1UL << 16)
#define CR_HSERDY (1UL << 17)
#define CR_PLLON (1UL << 24)
#define CR_PLLRDY (1UL << 25)
#define PLLCFGR_SRC_HSE (1UL << 22)
#define CFGR_SW_PLL 2UL
#define CFGR_SWS (3UL << 2)
#define CFGR_SWS_PLL (2UL << 2)
#define ACR_PREFETCH_AND_CACHES (7UL << 8)

/* Prescaler field of an APB: 0xx undivided, 1xx by 2, 4, 8 or 16. */
#define APB_FIELD(div)                                                                             \
    ((div) == 1 ? 0UL : (div) == 2 ? 4UL : (div) == 4 ? 5UL : (div) == 8 ? 6UL : 7UL)

static void start_pll(void) {
    RCC_APB1ENR |= 1UL << 28; /* PWR */
    (void)RCC_APB1ENR;
    PWR_CR |= 3UL << 14; /* regulator for the highest speed */
    RCC_CR |= CR_HSEON;
    if (!hil_wait(&RCC_CR, CR_HSERDY, CR_HSERDY)) {
        return;
    }
    RCC_PLLCFGR = HIL_SOC_PLL_M | HIL_SOC_PLL_N << 6 | (HIL_SOC_PLL_P / 2 - 1UL) << 16 |
                  PLLCFGR_SRC_HSE | (uint32_t)HIL_SOC_PLL_Q << 24;
    RCC_CR |= CR_PLLON;
    if (!hil_wait(&RCC_CR, CR_PLLRDY, CR_PLLRDY)) {
        return;
    }
    /* Wait states and bus dividers before the clock that needs them. */
    FLASH_ACR = ACR_PREFETCH_AND_CACHES | HIL_SOC_FLASH_WAIT_STATES;
    RCC_CFGR = APB_FIELD(HIL_SOC_APB1_DIV) << 10 | APB_FIELD(HIL_SOC_APB2_DIV) << 13;
    RCC_CFGR |= CFGR_SW_PLL;
    (void)hil_wait(&RCC_CFGR, CFGR_SWS, CFGR_SWS_PLL);
}

static void set_pin(uint32_t pin) {
    const uint32_t shift = 4 * (pin % 8);
    GPIO_AFR(pin) = (GPIO_AFR(pin) & ~(15UL << shift)) | (uint32_t)HIL_SOC_PIN_FUNCTION << shift;
    GPIO_OSPEEDR |= 2UL << 2 * pin;
    GPIO_PUPDR = (GPIO_PUPDR & ~(3UL << 2 * pin)) | 1UL << 2 * pin; /* an open line is idle */
    GPIO_MODER = (GPIO_MODER & ~(3UL << 2 * pin)) | 2UL << 2 * pin;
}

void hil_soc_init(void) {
    start_pll();
    RCC_AHB1ENR |= 1UL << HIL_SOC_GPIO;
#if HIL_SOC_UART_BUS == 1
    RCC_APB1ENR |= 1UL << HIL_SOC_UART_ENABLE_BIT;
#else
    RCC_APB2ENR |= 1UL << HIL_SOC_UART_ENABLE_BIT;
#endif
    (void)RCC_APB2ENR; /* the clocks run after the next access */
    set_pin(HIL_SOC_TX_PIN);
    set_pin(HIL_SOC_RX_PIN);
}
