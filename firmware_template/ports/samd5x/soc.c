/* SAM D51, E51, E53, E54. Registers: Microchip's SAM D5x/E5x Family Data Sheet (DS60001507),
 * chapters GCLK, MCLK, OSCCTRL, PORT, CMCC. Flash wait states are automatic after reset. Nothing
 * here or in an image touches the user page, whose words protect the boot loader and set up
 * watchdog and brown-out; nor the security bit. */
#include "hil_core.h"

_Static_assert(HIL_CLOCK_HZ == 120000000,
               "the PLL is set up for 120 MHz, so clock_hz must be that");
HIL_CHECK_UART_CLOCK(60000000, "the UART gets 60 MHz: uart.clock_hz must be that");
_Static_assert(HIL_SOC_CRYSTAL_HZ % 3000000 == 0, "soc.crystal_hz must be a multiple of 3 MHz");

#define MCLK_APBMASK(bus) HIL_REG(0x40000814 + 4 * (bus))
#define OSCCTRL(offset) HIL_REG(0x40001000 + (offset))
#define OSCCTRL_STATUS OSCCTRL(0x10)
#define OSCCTRL_XOSCCTRL1 OSCCTRL(0x18)
#define DPLLCTRLA HIL_REG8(0x40001030)
#define DPLLRATIO OSCCTRL(0x34)
#define DPLLCTRLB OSCCTRL(0x38)
#define DPLLSYNCBUSY OSCCTRL(0x3C)
#define DPLLSTATUS OSCCTRL(0x40)
#define GCLK_SYNCBUSY HIL_REG(0x40001C04)
#define GCLK_GENCTRL(n) HIL_REG(0x40001C20 + 4 * (n))
#define GCLK_PCHCTRL(n) HIL_REG(0x40001C80 + 4 * (n))
#define CMCC_CTRL HIL_REG(0x41006008)
#define PORT(offset) (0x41008000 + 0x80 * HIL_SOC_GPIO + (offset))
#define PORT_OUTSET HIL_REG(PORT(0x18))
#define PORT_PMUX(pin) HIL_REG8(PORT(0x30) + (pin) / 2)
#define PORT_PINCFG(pin) HIL_REG8(PORT(0x40) + (pin))

#define STATUS_XOSCRDY1 (1UL << 1)
/* Crystal from 8 to 16 MHz (IMULT 4, IPTAT 3), ready after 4 ms, on also without a request for it.
 */
#define XOSCCTRL_CRYSTAL (1UL << 1 | 1UL << 2 | 3UL << 9 | 4UL << 11 | 7UL << 20)
#define DPLLCTRLA_ENABLE 2U
#define DPLLCTRLB_REF_GCLK (0UL << 5)
#define DPLLCTRLB_REF_XOSC1 (3UL << 5)
/* Errata: the lock flag may drop without cause and would stop the clock. */
#define DPLLCTRLB_LOCK_BYPASS (1UL << 11)
#define DPLLSTATUS_LOCKED_AND_READY 3UL
#define DFLL_HZ 48000000
#define GENCTRL_ENABLED (1UL << 8)
#define GENCTRL_50_PERCENT (1UL << 9)
#define GENCTRL_DIV(n) ((uint32_t)(n) << 16)
#define GENCTRL_FROM_DFLL 6UL
#define GENCTRL_FROM_DPLL0 7UL
#define PCHCTRL_ENABLED (1UL << 6)
#define CHANNEL_DPLL0 1
#define PINCFG_PERIPHERAL 1U
#define PINCFG_INPUT 2U
#define PINCFG_PULL 4U

/* Generators: 0 is the core's, the others are free for us. */
enum { GENERATOR_CORE = 0, GENERATOR_REFERENCE = 1, GENERATOR_UART = 2 };

static bool set_generator(uint32_t n, uint32_t value) {
    GCLK_GENCTRL(n) = value | GENCTRL_ENABLED;
    return hil_wait(&GCLK_SYNCBUSY, 1UL << (2 + n), 0);
}

static void connect(uint32_t channel, uint32_t generator) {
    GCLK_PCHCTRL(channel) = generator | PCHCTRL_ENABLED;
    (void)hil_wait(&GCLK_PCHCTRL(channel), PCHCTRL_ENABLED, PCHCTRL_ENABLED);
}

static bool start_reference(void) {
#if HIL_SOC_CRYSTAL_HZ > 0
    OSCCTRL_XOSCCTRL1 = XOSCCTRL_CRYSTAL;
    if (!hil_wait(&OSCCTRL_STATUS, STATUS_XOSCRDY1, STATUS_XOSCRDY1)) {
        return false;
    }
    /* crystal / (2 * (DIV + 1)) is 1.5 MHz, times 80 is 120 MHz */
    DPLLRATIO = 80 - 1;
    DPLLCTRLB =
        DPLLCTRLB_REF_XOSC1 | DPLLCTRLB_LOCK_BYPASS | (HIL_SOC_CRYSTAL_HZ / 3000000 - 1UL) << 16;
#else
    /* 48 MHz / 32 is 1.5 MHz, times 80 is 120 MHz */
    (void)set_generator(GENERATOR_REFERENCE, GENCTRL_FROM_DFLL | GENCTRL_DIV(32));
    connect(CHANNEL_DPLL0, GENERATOR_REFERENCE);
    DPLLRATIO = 80 - 1;
    DPLLCTRLB = DPLLCTRLB_REF_GCLK | DPLLCTRLB_LOCK_BYPASS;
#endif
    return true;
}

static bool start_pll(void) {
    /* A boot loader may have left the core on this PLL. */
    (void)set_generator(GENERATOR_CORE, GENCTRL_FROM_DFLL | GENCTRL_DIV(1));
    DPLLCTRLA = 0;
    (void)hil_wait(&DPLLSYNCBUSY, DPLLCTRLA_ENABLE, 0);
    if (!start_reference()) {
        return false;
    }
    (void)hil_wait(&DPLLSYNCBUSY, 4, 0);
    DPLLCTRLA = DPLLCTRLA_ENABLE;
    if (!hil_wait(&DPLLSTATUS, DPLLSTATUS_LOCKED_AND_READY, DPLLSTATUS_LOCKED_AND_READY)) {
        return false;
    }
    (void)set_generator(GENERATOR_CORE, GENCTRL_FROM_DPLL0 | GENCTRL_DIV(1) | GENCTRL_50_PERCENT);
    /* A SERCOM takes 100 MHz at most. */
    (void)set_generator(GENERATOR_UART, GENCTRL_FROM_DPLL0 | GENCTRL_DIV(2));
    return true;
}

static void set_pin(uint32_t pin, uint8_t config) {
    const uint32_t shift = 4 * (pin % 2);
    PORT_PMUX(pin) = (uint8_t)((PORT_PMUX(pin) & ~(15UL << shift)) | HIL_SOC_PIN_FUNCTION << shift);
    PORT_PINCFG(pin) = config;
}

uint32_t hil_soc_init(void) {
    const bool is_fast = start_pll();
    if (!is_fast) {
        (void)set_generator(GENERATOR_UART, GENCTRL_FROM_DFLL | GENCTRL_DIV(1));
    }
    CMCC_CTRL = 1;
    connect(HIL_SOC_UART_CHANNEL, GENERATOR_UART);
    MCLK_APBMASK(HIL_SOC_UART_BUS) |= 1UL << HIL_SOC_UART_ENABLE_BIT;
    PORT_OUTSET = 1UL << HIL_SOC_RX_PIN; /* the pull is up: an open line is idle */
    set_pin(HIL_SOC_TX_PIN, PINCFG_PERIPHERAL);
    set_pin(HIL_SOC_RX_PIN, PINCFG_PERIPHERAL | PINCFG_INPUT | PINCFG_PULL);
    return is_fast ? HIL_UART_FULL_HZ : DFLL_HZ;
}
