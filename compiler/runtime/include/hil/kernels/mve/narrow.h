/* Vectors of 32-bit numbers to one of 16 bits on Helium. */
#ifndef HIL_KERNELS_MVE_NARROW_H
#define HIL_KERNELS_MVE_NARROW_H

#include <arm_mve.h>

#include "hil/quant.h"

/* The even and the odd ones of eight numbers, saturated. */
HIL_INLINE int16x8_t hil_mve_narrowed(int32x4_t even, int32x4_t odd) {
    return vqmovntq_s32(vqmovnbq_s32(vreinterpretq_s16_s32(even), even), odd);
}

#endif
