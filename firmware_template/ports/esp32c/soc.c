/* Watchdogs, clocks and the pins of UART0 of ESP32-C3 and ESP32-C6, as their boot ROM leaves them
 * when it has loaded an image into RAM. Registers: the chips' technical reference manuals, chapters
 * Watchdog Timers, Reset and Clock, IO MUX; what these leave out, Espressif's headers of ESP-IDF.
 *
 * The crystal has 40 MHz. On the C3 the ROM leaves the PLL on, from which USB has its clock: the
 * core takes 160 MHz of its 480. On the C6 that rate wants a higher voltage of the core, which only
 * registers without a manual set: it runs from the crystal. */
#include "hil_core.h"

_Static_assert(HIL_SOC_CHIP == 3 || HIL_SOC_CHIP == 6, "soc.chip must be 3 or 6");

#define WATCHDOG_KEY 0x50D83AA1UL
#define XTAL_HZ 40000000

#if HIL_SOC_CHIP == 3
_Static_assert(HIL_CLOCK_HZ == 160000000, "clock_hz must be 160 MHz");
#define TIMG0 0x6001F000
#define TIMG1 0x60020000
#define RTC_WDT_CONFIG0 HIL_REG(0x60008090)
#define RTC_WDT_PROTECT HIL_REG(0x600080A8)
#define SUPER_WDT_CONFIG HIL_REG(0x600080AC)
#define SUPER_WDT_PROTECT HIL_REG(0x600080B0)
#define SUPER_WDT_KEY 0x8F1D312AUL
#define SUPER_WDT_FEEDS_ITSELF (1UL << 31)
#define PIN_TX HIL_REG(0x60009058) /* GPIO21 */
#define PIN_RX HIL_REG(0x60009054) /* GPIO20 */
#define RTC_OPTIONS0 HIL_REG(0x60008000)
/* The PLL, its settings and the bus to them, off. */
#define PLL_OFF (1UL << 6 | 1UL << 8 | 1UL << 10)
#define CPU_PER_CONF HIL_REG(0x600C0008)
#define CPU_PERIOD 3UL
#define CPU_PERIOD_160_OF_480_MHZ (1UL << 0 | 1UL << 2)
#define CPU_RUNS_IN_WAIT (1UL << 3)
#define SYSCLK_CONF HIL_REG(0x600C0058)
#define SYSCLK_SOURCE (3UL << 10)
#define SYSCLK_FROM_PLL (1UL << 10)
#define SYSCLK_DIVIDER 0x3FFUL
#define CLOCKS HIL_REG(0x600C0010)
#define RESETS HIL_REG(0x600C0018)
/* UART0, its memory, the system timer, the USB device. */
#define USED (1UL << 2 | 1UL << 24 | 1UL << 29 | 1UL << 23)
#else
_Static_assert(HIL_CLOCK_HZ == XTAL_HZ, "clock_hz must be 40 MHz");
#define TIMG0 0x60008000
#define TIMG1 0x60009000
#define RTC_WDT_CONFIG0 HIL_REG(0x600B1C00)
#define RTC_WDT_PROTECT HIL_REG(0x600B1C18)
#define SUPER_WDT_CONFIG HIL_REG(0x600B1C1C)
#define SUPER_WDT_PROTECT HIL_REG(0x600B1C20)
#define SUPER_WDT_KEY WATCHDOG_KEY
#define SUPER_WDT_FEEDS_ITSELF (1UL << 18)
#define PIN_TX HIL_REG(0x60090044) /* GPIO16 */
#define PIN_RX HIL_REG(0x60090048) /* GPIO17 */
#define UART0_CONF HIL_REG(0x60096000)
#define UART0_CLOCK_CONF HIL_REG(0x60096004)
#define UART0_FROM_XTAL_ON (3UL << 20 | 1UL << 22)
#define SYSCLK_CONF HIL_REG(0x60096110)
#define SYSCLK_SOURCE (3UL << 16)
#define CPU_FREQ_CONF HIL_REG(0x60096118)
#define AHB_FREQ_CONF HIL_REG(0x6009611C)
#define DIVIDER_FROM_XTAL 0xFFUL
#endif

#define TIMG_WDT_CONFIG0(base) HIL_REG((base) + 0x48)
#define TIMG_WDT_PROTECT(base) HIL_REG((base) + 0x64)

#define PIN_FUNCTION (7UL << 12)
#define PIN_PULL_UP (1UL << 8)
#define PIN_INPUT (1UL << 9)

/* Those of the timers, of the real-time clock, and the one that watches that. */
void hil_soc_early(void) {
    TIMG_WDT_PROTECT(TIMG0) = WATCHDOG_KEY;
    TIMG_WDT_CONFIG0(TIMG0) = 0;
    TIMG_WDT_PROTECT(TIMG0) = 0;
    TIMG_WDT_PROTECT(TIMG1) = WATCHDOG_KEY;
    TIMG_WDT_CONFIG0(TIMG1) = 0;
    TIMG_WDT_PROTECT(TIMG1) = 0;
    RTC_WDT_PROTECT = WATCHDOG_KEY;
    RTC_WDT_CONFIG0 = 0;
    RTC_WDT_PROTECT = 0;
    SUPER_WDT_PROTECT = SUPER_WDT_KEY;
    SUPER_WDT_CONFIG |= SUPER_WDT_FEEDS_ITSELF;
    SUPER_WDT_PROTECT = 0;
}

uint32_t hil_soc_init(void) {
#if HIL_SOC_CHIP == 3
    CLOCKS |= USED;
    RESETS &= ~USED;
    CPU_PER_CONF |= CPU_RUNS_IN_WAIT;
    if ((RTC_OPTIONS0 & PLL_OFF) == 0) {
        CPU_PER_CONF = (CPU_PER_CONF & ~CPU_PERIOD) | CPU_PERIOD_160_OF_480_MHZ;
        SYSCLK_CONF = (SYSCLK_CONF & ~SYSCLK_SOURCE) | SYSCLK_FROM_PLL;
    } else {
        SYSCLK_CONF &= ~(SYSCLK_SOURCE | SYSCLK_DIVIDER); /* the crystal, undivided */
    }
#else
    CPU_FREQ_CONF &= ~DIVIDER_FROM_XTAL;
    AHB_FREQ_CONF &= ~DIVIDER_FROM_XTAL;
    SYSCLK_CONF &= ~SYSCLK_SOURCE;
    UART0_CONF = 1; /* its clock on, no reset */
    UART0_CLOCK_CONF = UART0_FROM_XTAL_ON;
#endif
    PIN_TX &= ~PIN_FUNCTION;
    PIN_RX = (PIN_RX & ~PIN_FUNCTION) | PIN_INPUT | PIN_PULL_UP;
    return XTAL_HZ;
}
