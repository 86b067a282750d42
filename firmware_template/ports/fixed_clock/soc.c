#include "hil_core.h"

uint32_t hil_soc_init(void) { return HIL_UART_FULL_HZ; }
