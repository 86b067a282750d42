/* The range of a fused activation on floats. */
#ifndef HIL_KERNELS_GENERIC_CLAMP_F32_H
#define HIL_KERNELS_GENERIC_CLAMP_F32_H

#include "hil/quant.h"

HIL_INLINE float hil_clamp_f32(float x, float low, float high) {
    return x < low ? low : (x > high ? high : x);
}

#endif
