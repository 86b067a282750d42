/* In place of the core's caches: the test sees the write that turns them on. */
#ifndef HIL_CACHE_H
#define HIL_CACHE_H

#include "hil_core.h"

static inline void hil_cache_enable(void) { HIL_REG(0xE000ED14) |= 3UL << 16; }

#endif
