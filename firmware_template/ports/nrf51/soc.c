/* The crystal oscillator: the internal one is off by up to several per cent. */
#include "hil_core.h"

#define TASKS_HFCLKSTART HIL_REG(0x40000000)
#define EVENTS_HFCLKSTARTED HIL_REG(0x40000100)

void hil_soc_init(void) {
    EVENTS_HFCLKSTARTED = 0;
    TASKS_HFCLKSTART = 1;
    (void)hil_wait(&EVENTS_HFCLKSTARTED, 1, 1);
}
