/* LPC55S69 and relatives, in the secure state that they start in. Registers: NXP's UM11126,
 * chapters SYSCON, ANACTRL and IOCON.
 *
 * The chip goes to 150 MHz, but beyond 100 MHz its core needs a higher voltage, whose settings lie
 * in each chip's factory trims and are documented only as NXP's library. 96 MHz is the most that
 * the voltage after reset allows. The boot ROM reads words 8 to 10 of the vector table, which are 0
 * here: a plain image, nothing to check. The protected flash region with keys, debug rights and
 * life cycle lies behind the flash that the board description names, so no image reaches it. */
#include "hil_core.h"

_Static_assert(HIL_CLOCK_HZ == 96000000,
               "the oscillator is set to 96 MHz, so clock_hz must be that");
HIL_CHECK_UART_CLOCK(12000000, "Flexcomm 0 gets 12 MHz: uart.clock_hz must be that");

#define SYSCON(offset) HIL_REG(0x40000000 + (offset))
#define PRESETCTRLCLR1 SYSCON(0x144)
#define AHBCLKCTRLSET0 SYSCON(0x220)
#define AHBCLKCTRLSET1 SYSCON(0x224)
#define MAINCLKSELA SYSCON(0x280)
#define MAINCLKSELB SYSCON(0x284)
#define FCCLKSEL0 SYSCON(0x2B0)
#define AHBCLKDIV SYSCON(0x380)
#define FMCCR SYSCON(0x400)
#define FRO192M_CTRL HIL_REG(0x40013010)
#define IOCON_PIO0(pin) HIL_REG(0x40001000 + 4 * (pin))
#define FLEXCOMM0_PSELID HIL_REG(0x40086FF8)

#define AHB0_SRAM_1_TO_4 (15UL << 3)
#define AHB0_IOCON (1UL << 13)
#define AHB1_FLEXCOMM0 (1UL << 11)
#define MAINCLKSELA_FRO_96MHZ 3UL
#define FCCLKSEL_FRO_12MHZ 2UL
#define FMCCR_FLASHTIM (15UL << 12)
#define FMCCR_FLASHTIM_100MHZ (8UL << 12)
#define FRO192M_ENA_12MHZ (1UL << 14)
#define FRO192M_ENA_96MHZ (1UL << 30)
#define PSELID_USART 1UL
#define PIN_FLEXCOMM0 1UL
#define PIN_PULL_UP (2UL << 4)
#define PIN_DIGITAL (1UL << 8)

/* Only the first 64 KB of SRAM, where the stacks lie, have a clock after reset. */
void hil_soc_early(void) { AHBCLKCTRLSET0 = AHB0_SRAM_1_TO_4; }

static void set_clocks(void) {
    FRO192M_CTRL |= FRO192M_ENA_12MHZ | FRO192M_ENA_96MHZ;
    /* Wait states before the clock that needs them. */
    FMCCR = (FMCCR & ~FMCCR_FLASHTIM) | FMCCR_FLASHTIM_100MHZ;
    AHBCLKDIV = 0; /* undivided */
    MAINCLKSELA = MAINCLKSELA_FRO_96MHZ;
    MAINCLKSELB = 0; /* what MAINCLKSELA says */
}

/* Both oscillators run from reset on: there is nothing to wait for. */
uint32_t hil_soc_init(void) {
    set_clocks();
    AHBCLKCTRLSET0 = AHB0_IOCON;
    IOCON_PIO0(29) = PIN_FLEXCOMM0 | PIN_PULL_UP | PIN_DIGITAL; /* RX; an open line is idle */
    IOCON_PIO0(30) = PIN_FLEXCOMM0 | PIN_DIGITAL;               /* TX */
    FCCLKSEL0 = FCCLKSEL_FRO_12MHZ;
    AHBCLKCTRLSET1 = AHB1_FLEXCOMM0;
    PRESETCTRLCLR1 = AHB1_FLEXCOMM0;
    FLEXCOMM0_PSELID = PSELID_USART;
    return HIL_UART_FULL_HZ;
}
