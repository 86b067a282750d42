/* RA4M1. Registers: Renesas's RA4M1 Group User's Manual, chapters Clock Generation Circuit, Low
 * Power Modes, I/O Ports, Flash Memory. The rate of the internal oscillator is an option byte in
 * the flash at 0x404, which on a board with a boot loader is that loader's and in no image: 48 MHz,
 * as USB wants it. */
#include "hil_core.h"

_Static_assert(HIL_CLOCK_HZ == 48000000, "clock_hz must be 48 MHz");
HIL_CHECK_UART_CLOCK(48000000, "PCLKA is 48 MHz: uart.clock_hz must be that");

#define SYSTEM 0x4001E000
#define SCKDIVCR HIL_REG(SYSTEM + 0x020)
#define SCKSCR HIL_REG8(SYSTEM + 0x026)
#define MEMWAIT HIL_REG8(SYSTEM + 0x031)
#define HOCOCR HIL_REG8(SYSTEM + 0x036)
#define OSCSF HIL_REG8(SYSTEM + 0x03C)
#define OPCCR HIL_REG8(SYSTEM + 0x0A0)
#define PRCR HIL_REG16(SYSTEM + 0x3FE)
#define FCACHEE HIL_REG16(0x4001C100)
#define FCACHEIV HIL_REG16(0x4001C104)
#define MSTPCRB HIL_REG(0x40047000)
#define PWPR HIL_REG8(0x40040D03)
#define PFS(pin) HIL_REG(0x40040800 + 0x40 * HIL_SOC_GPIO + 4 * (pin))

#define MOCO_HZ 8000000
#define PRCR_CLOCKS_AND_MODES_OPEN 0xA503U
#define PRCR_CLOSED 0xA500U
#define SCKSCR_HOCO 0U
#define SCKSCR_MOCO 1U
#define OSCSF_HOCOSF 1U
#define OPCCR_MODE 3U
#define OPCCR_IN_TRANSITION (1U << 4)
/* FCLK and PCLKB half, the others undivided. */
#define SCKDIVCR_DIVIDERS 0x10000100UL
#define PWPR_PFSWE (1U << 6)
#define PFS_SCI ((uint32_t)HIL_SOC_PIN_FUNCTION << 24 | 1UL << 16)
#define PFS_PULL_UP (1UL << 4)

static bool start_hoco(void) {
    OPCCR = (uint8_t)(OPCCR & ~OPCCR_MODE); /* high speed */
    if (!hil_wait8(&OPCCR, OPCCR_IN_TRANSITION, 0)) {
        return false;
    }
    HOCOCR = 0; /* runs */
    if (!hil_wait8(&OSCSF, OSCSF_HOCOSF, OSCSF_HOCOSF)) {
        return false;
    }
    /* The wait state may change only while the core is slow. */
    SCKSCR = SCKSCR_MOCO;
    FCACHEE = 0;
    MEMWAIT = 1;
    if (!hil_wait8(&MEMWAIT, 1, 1)) {
        return false;
    }
    SCKDIVCR = SCKDIVCR_DIVIDERS;
    SCKSCR = SCKSCR_HOCO;
    return true;
}

uint32_t hil_soc_init(void) {
    PRCR = PRCR_CLOCKS_AND_MODES_OPEN;
    const bool is_fast = start_hoco();
    if (!is_fast) {
        SCKSCR = SCKSCR_MOCO;
        SCKDIVCR = 0; /* all from the middle-speed oscillator, undivided */
    }
    MSTPCRB &= ~(1UL << HIL_SOC_UART_STOP_BIT);
    PRCR = PRCR_CLOSED;
    FCACHEIV = 1;
    for (uint32_t i = 0; i < 1000 && FCACHEIV != 0; ++i) {
    }
    FCACHEE = 1;
    PWPR = 0;
    PWPR = PWPR_PFSWE;
    PFS(HIL_SOC_TX_PIN) = 0; /* the function may change only while it is not in use */
    PFS(HIL_SOC_TX_PIN) = PFS_SCI;
    PFS(HIL_SOC_RX_PIN) = PFS_PULL_UP; /* an open line is idle */
    PFS(HIL_SOC_RX_PIN) = PFS_SCI | PFS_PULL_UP;
    return is_fast ? HIL_UART_FULL_HZ : MOCO_HZ;
}
