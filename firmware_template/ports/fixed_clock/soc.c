#include "hil_core.h"

void hil_soc_init(void) {}
