/* The exponential of floats on Helium, for SOFTMAX and other functions. */
#ifndef HIL_KERNELS_MVE_EXP_F32_H
#define HIL_KERNELS_MVE_EXP_F32_H

#include "hil/kernels/mve/floats.h"

/* exp(x) where that is neither subnormal nor infinite, by the steps of hilc.numerics.floats: n is
 * the integer nearest to x / ln 2, which a sum with 1.5 * 2^23 leaves in the lowest bits; a
 * polynomial in what is left of x has an error of 3e-9, and n is added to its exponent. */
HIL_INLINE float32x4_t hil_mve_exp_steps_f32(float32x4_t x) {
    const float32x4_t moved = vfmaq_n_f32(vdupq_n_f32(0x1.8p23F), x, 0x1.715476p+0F);
    const float32x4_t n = vaddq_n_f32(moved, -0x1.8p23F);
    const float32x4_t rest = vfmaq_n_f32(vfmaq_n_f32(x, n, -0x1.62e4p-1F), n, -0x1.7f7d1cp-20F);
    float32x4_t power = vfmasq_n_f32(vdupq_n_f32(0x1.6a23c6p-10F), rest, 0x1.123a2p-7F);
    power = vfmasq_n_f32(power, rest, 0x1.5558f4p-5F);
    power = vfmasq_n_f32(power, rest, 0x1.555492p-3F);
    power = vfmasq_n_f32(power, rest, 0x1.fffffcp-2F);
    power = vfmasq_n_f32(power, rest, 1.0F);
    power = vfmasq_n_f32(power, rest, 1.0F);
    const int32x4_t exponent = vshlq_n_s32(vreinterpretq_s32_f32(moved), 23);
    return vreinterpretq_f32_s32(vaddq_s32(vreinterpretq_s32_f32(power), exponent));
}

/* exp(x) for x <= 0, by the steps of hilc.numerics.floats.exp_of_negative: below -87 nothing is
 * left. */
HIL_INLINE float32x4_t hil_mve_exp_of_negative(float32x4_t x) {
    return hil_mve_zero_below_f32(hil_mve_exp_steps_f32(x), x, vdupq_n_f32(-87.0F));
}

#endif
