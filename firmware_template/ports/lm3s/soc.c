/* PLL from the 8 MHz crystal to 50 MHz, the chip's limit; UART0 and its pins. */
#include "hil_core.h"

_Static_assert(HIL_CLOCK_HZ == 50000000, "the PLL is set up for 50 MHz, so clock_hz must be that");

#define RIS HIL_REG(0x400FE050)
#define RCC HIL_REG(0x400FE060)
#define RCGC1 HIL_REG(0x400FE104)
#define RCGC2 HIL_REG(0x400FE108)
#define GPIOA_AFSEL HIL_REG(0x40004420)
#define GPIOA_DEN HIL_REG(0x4000451C)

#define CRYSTAL_HZ 8000000

#define RCC_MOSCDIS (1UL << 0)
#define RCC_OSCSRC (3UL << 4)
#define RCC_XTAL (15UL << 6)
#define RCC_XTAL_8MHZ (14UL << 6)
#define RCC_BYPASS (1UL << 11)
#define RCC_OEN (1UL << 12)
#define RCC_PWRDN (1UL << 13)
#define RCC_USESYSDIV (1UL << 22)
#define RCC_SYSDIV (15UL << 23)
#define RCC_SYSDIV_4 (3UL << 23) /* of the PLL's 200 MHz */
#define RIS_PLL_LOCK (1UL << 6)

uint32_t hil_soc_init(void) {
    uint32_t uart_hz = CRYSTAL_HZ;
    uint32_t rcc = (RCC | RCC_BYPASS) & ~(RCC_USESYSDIV | RCC_MOSCDIS);
    RCC = rcc;
    rcc &= ~(RCC_OSCSRC | RCC_XTAL | RCC_PWRDN | RCC_OEN | RCC_SYSDIV);
    rcc |= RCC_XTAL_8MHZ | RCC_SYSDIV_4 | RCC_USESYSDIV;
    RCC = rcc;
    if (hil_wait(&RIS, RIS_PLL_LOCK, RIS_PLL_LOCK)) {
        RCC = rcc & ~RCC_BYPASS;
        uart_hz = HIL_UART_FULL_HZ;
    } else {
        RCC = rcc & ~RCC_USESYSDIV; /* the crystal's clock undivided */
    }
    RCGC1 |= 1UL << 0;
    RCGC2 |= 1UL << 0;
    (void)RCGC2; /* the gates open some clocks after the write */
    GPIOA_AFSEL |= 3;
    GPIOA_DEN |= 3;
    return uart_hz;
}
