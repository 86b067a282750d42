/* PLL from half of the 8 MHz crystal; USART0 on PA9 and PA10. Registers: GD32VF103 user manual,
 * chapters RCU, GPIO. The flash has no wait states. */
#include "hil_core.h"

_Static_assert(HIL_CLOCK_HZ == 4000000 * HIL_SOC_PLL_MULTIPLIER,
               "clock_hz must be 4 MHz * soc.pll_multiplier");
HIL_CHECK_UART_CLOCK(HIL_CLOCK_HZ, "uart.clock_hz must be clock_hz: APB2 runs undivided");

#define RCU_CTL HIL_REG(0x40021000)
#define RCU_CFG0 HIL_REG(0x40021004)
#define RCU_APB2EN HIL_REG(0x40021018)
#define RCU_CFG1 HIL_REG(0x4002102C)
#define GPIOA_CTL1 HIL_REG(0x40010804)
#define GPIOA_BOP HIL_REG(0x40010810)

#define IRC8M_HZ 8000000
#define CTL_IRC8MEN (1UL << 0)
#define CTL_HXTALEN (1UL << 16)
#define CTL_HXTALSTB (1UL << 17)
#define CTL_PLLEN (1UL << 24)
#define CTL_PLLSTB (1UL << 25)
#define CFG0_SCS_PLL 2UL
#define CFG0_SCSS (3UL << 2)
#define CFG0_SCSS_PLL (2UL << 2)
#define CFG0_APB1_DIV2 (4UL << 8)
#define CFG0_PLLSEL_HXTAL (1UL << 16)
/* A factor from 17 on, whose highest bit is apart. */
#define CFG0_PLLMF (1UL << 29 | (HIL_SOC_PLL_MULTIPLIER - 17UL) << 18)
#define CFG1_PREDV0_DIV2 1UL
#define APB2EN_GPIOA (1UL << 2)
#define APB2EN_USART0 (1UL << 14)

static bool start_pll(void) {
    RCU_CTL |= CTL_HXTALEN;
    if (!hil_wait(&RCU_CTL, CTL_HXTALSTB, CTL_HXTALSTB)) {
        return false;
    }
    RCU_CFG1 = CFG1_PREDV0_DIV2;
    RCU_CFG0 = CFG0_PLLSEL_HXTAL | CFG0_APB1_DIV2 | CFG0_PLLMF;
    RCU_CTL |= CTL_PLLEN;
    if (!hil_wait(&RCU_CTL, CTL_PLLSTB, CTL_PLLSTB)) {
        return false;
    }
    RCU_CFG0 |= CFG0_SCS_PLL;
    return hil_wait(&RCU_CFG0, CFG0_SCSS, CFG0_SCSS_PLL);
}

uint32_t hil_soc_init(void) {
    /* A reset of the core alone leaves the PLL on, and its settings change only while it is off. */
    RCU_CTL |= CTL_IRC8MEN;
    RCU_CFG0 = 0;
    (void)hil_wait(&RCU_CFG0, CFG0_SCSS, 0);
    RCU_CTL &= ~CTL_PLLEN;
    const bool is_fast = start_pll();
    if (!is_fast) {
        RCU_CFG0 = 0; /* the internal oscillator, all buses undivided */
    }
    RCU_APB2EN |= APB2EN_GPIOA | APB2EN_USART0;
    (void)RCU_APB2EN; /* the clocks run after the next access */
    /* PA9: alternate push-pull, 50 MHz. PA10: input with pull-up, so that an open line is idle. */
    GPIOA_CTL1 = (GPIOA_CTL1 & ~0xFF0UL) | 0x8B0UL;
    GPIOA_BOP = 1UL << 10;
    return is_fast ? HIL_UART_FULL_HZ : IRC8M_HZ;
}
