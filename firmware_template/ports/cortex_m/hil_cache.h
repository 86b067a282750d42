/* The caches of a Cortex-M7 or M85. Nothing here but the core touches memory, so none needs to be
 * cleaned ever; TCM is not cached. */
#ifndef HIL_CACHE_H
#define HIL_CACHE_H

#include "hil_core.h"

#define HIL_CCSIDR HIL_REG(0xE000ED80)
#define HIL_CSSELR HIL_REG(0xE000ED84)
#define HIL_ICIALLU HIL_REG(0xE000EF50)
#define HIL_DCISW HIL_REG(0xE000EF60)

/* Forgets what the caches hold after power-on, which is anything, and turns them on. Once they are
 * on it does nothing: forgetting would lose writes. */
static inline void hil_cache_enable(void) {
    const uint32_t data_on = 1UL << 16;
    const uint32_t instructions_on = 1UL << 17;

    if ((HIL_CCR & instructions_on) == 0) {
        HIL_ICIALLU = 0;
        __asm volatile("dsb\n\tisb" ::: "memory");
        HIL_CCR |= instructions_on;
        __asm volatile("dsb\n\tisb" ::: "memory");
    }
    if ((HIL_CCR & data_on) == 0) {
        HIL_CSSELR = 0; /* the first level's data cache */
        __asm volatile("dsb" ::: "memory");
        const uint32_t size = HIL_CCSIDR;
        const uint32_t last_set = size >> 13 & 0x7FFF;
        const uint32_t last_way = size >> 3 & 0x3FF;
        const uint32_t set_shift = (size & 7) + 4; /* log2 of the line's bytes */
        const uint32_t way_shift = last_way == 0 ? 0 : (uint32_t)__builtin_clz(last_way);
        for (uint32_t set = 0; set <= last_set; ++set) {
            for (uint32_t way = 0; way <= last_way; ++way) {
                HIL_DCISW = way << way_shift | set << set_shift;
            }
        }
        __asm volatile("dsb" ::: "memory");
        HIL_CCR |= data_on;
        __asm volatile("dsb\n\tisb" ::: "memory");
    }
}

#endif
