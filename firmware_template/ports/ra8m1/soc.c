/* RA8M1, in the secure state that it starts in. Registers: Renesas's RA8M1 Group User's Manual,
 * chapters Clock Generation Circuit, Flash Cache, SRAM, I/O Ports, Low Power Modes. The
 * option-setting memory with boot areas, debug level and watchdogs lies elsewhere and in no image.
 */
#include "hil_cache.h"
#include "hil_core.h"

_Static_assert(HIL_CLOCK_HZ == 480000000,
               "the PLL is set up for 480 MHz, so clock_hz must be that");
HIL_CHECK_UART_CLOCK(120000000, "PCLKA is 120 MHz: uart.clock_hz must be that");

#define SYSTEM 0x4001E000
#define SCKDIVCR HIL_REG(SYSTEM + 0x020)
#define SCKDIVCR2 HIL_REG8(SYSTEM + 0x024)
#define SCKSCR HIL_REG8(SYSTEM + 0x026)
#define PLLCCR HIL_REG16(SYSTEM + 0x028)
#define PLLCR HIL_REG8(SYSTEM + 0x02A)
#define MOSCCR HIL_REG8(SYSTEM + 0x032)
#define OSCSF HIL_REG8(SYSTEM + 0x03C)
#define PLLCCR2 HIL_REG16(SYSTEM + 0x04C)
#define MOSCWTCR HIL_REG8(SYSTEM + 0x0A2)
#define SYRACCR HIL_REG8(SYSTEM + 0x0CC)
#define PRCR HIL_REG16(SYSTEM + 0x3FA)
#define MOMCR HIL_REG8(SYSTEM + 0xA50)
#define FCACHEE HIL_REG16(0x4001C100)
#define FCACHEIV HIL_REG16(0x4001C104)
#define FLWT HIL_REG8(0x4001C11C)
#define SRAMPRCR HIL_REG16(0x40002000)
#define SRAMWTSC HIL_REG8(0x40002008)
#define MSTPCRB HIL_REG(0x40203004)
#define PWPR HIL_REG8(0x40400D0C)
#define PWPRS HIL_REG8(0x40400D14)
#define PFS(port, pin) HIL_REG(0x40400800 + 0x40 * (port) + 4 * (pin))

#define MOCO_HZ 8000000
#define PRCR_CLOCKS_OPEN 0xA503U
#define PRCR_CLOSED 0xA500U
/* Drive for 8 to 24 MHz, and a bit that must be 1. */
#define MOMCR_CRYSTAL_20MHZ (0xBU << 1)
#define MOSCWTCR_LONGEST 9U
#define OSCSF_MOSCSF (1U << 3)
#define OSCSF_PLLSF (1U << 5)
/* 20 MHz / 2 * 96 = 960 MHz, of which each output takes half. */
#define PLLCCR_960MHZ (1U | (96U - 1) << 8)
#define PLLCCR2_HALVES (1U | 1U << 4 | 1U << 8)
/* As powers of two: FCLK 60, ICLK 240, PCLKE 240, BCLK 120, PCLKA 120, PCLKB 60, PCLKC 60 and PCLKD
 * 120 MHz. */
#define SCKDIVCR_DIVIDERS 0x31122332UL
#define SCKSCR_PLL1P 5U
#define FLWT_UP_TO_240MHZ 4U
#define MSTPCRB_SCI9 (1UL << 22)
#define PWPR_PFSWE (1U << 6)
#define PFS_SCI9 (5UL << 24 | 1UL << 16)
#define PFS_PULL_UP (1UL << 4)
#define PFS_MEDIUM_DRIVE (1UL << 10)

static void set_waits(void) {
    FLWT = FLWT_UP_TO_240MHZ;
    SRAMPRCR = 0xA501;
    hil_barrier();
    SRAMWTSC = 1;
    hil_barrier();
    SRAMPRCR = 0xA500;
}

/* 150 us and more at 240 MHz, for the supply to follow the load. */
static void settle(void) { hil_pause(40000); }

static bool start_pll(void) {
    MOMCR = MOMCR_CRYSTAL_20MHZ;
    (void)hil_wait8(&SYRACCR, 1, 0);
    MOSCWTCR = MOSCWTCR_LONGEST;
    MOSCCR = 0; /* runs */
    if (!hil_wait8(&OSCSF, OSCSF_MOSCSF, OSCSF_MOSCSF)) {
        return false;
    }
    PLLCCR = PLLCCR_960MHZ;
    PLLCCR2 = PLLCCR2_HALVES;
    PLLCR = 0; /* runs */
    if (!hil_wait8(&OSCSF, OSCSF_PLLSF, OSCSF_PLLSF)) {
        return false;
    }
    set_waits();
    SCKDIVCR2 = 1; /* the core at half first, to spare the supply the whole step */
    SCKDIVCR = SCKDIVCR_DIVIDERS;
    SCKSCR = SCKSCR_PLL1P;
    settle();
    SCKDIVCR2 = 0;
    settle();
    return true;
}

static void set_pins(void) {
    PWPR = 0;
    PWPR = PWPR_PFSWE;
    PWPRS = 0;
    PWPRS = PWPR_PFSWE;
    PFS(10, 14) = PFS_MEDIUM_DRIVE; /* the function may change only while it is not in use */
    PFS(10, 14) = PFS_SCI9 | PFS_MEDIUM_DRIVE;
    PFS(10, 15) = PFS_PULL_UP; /* an open line is idle */
    PFS(10, 15) = PFS_SCI9 | PFS_PULL_UP;
}

uint32_t hil_soc_init(void) {
    bool is_fast = true;
    PRCR = PRCR_CLOCKS_OPEN;
    /* A reset by the core's request sets the clocks back, too. */
    if (SCKSCR != SCKSCR_PLL1P) {
        is_fast = start_pll();
    }
    if (!is_fast) {
        SCKDIVCR2 = 0;
        SCKDIVCR = 0; /* all from the middle-speed oscillator, undivided */
    }
    MSTPCRB &= ~MSTPCRB_SCI9;
    PRCR = PRCR_CLOSED;
    FCACHEIV = 1;
    for (uint32_t i = 0; i < 1000 && FCACHEIV != 0; ++i) {
    }
    FCACHEE = 1;
    hil_cache_enable();
    HIL_CCR |= 3UL << 18; /* branch prediction and low-overhead loops */
    set_pins();
    return is_fast ? HIL_UART_FULL_HZ : MOCO_HZ;
}
