/* The crystal oscillator: the internal one is off by up to several per cent. */
#include "hil_core.h"

#define TASKS_HFCLKSTART HIL_REG(0x40000000)
#define EVENTS_HFCLKSTARTED HIL_REG(0x40000100)

/* Without the crystal the internal oscillator runs at the same rate. */
uint32_t hil_soc_init(void) {
    EVENTS_HFCLKSTARTED = 0;
    TASKS_HFCLKSTART = 1;
    (void)hil_wait(&EVENTS_HFCLKSTARTED, 1, 1);
    return HIL_UART_FULL_HZ;
}
