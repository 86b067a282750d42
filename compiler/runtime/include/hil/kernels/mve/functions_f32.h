/* Logistic function and hyperbolic tangent of floats on Helium, four elements at a time, by the
 * steps of hilc.numerics.floats, without the C library.
 *
 * Greatest error in units of the last place, over all floats from 2^-20 to 87, and every thousandth
 * below:
 *
 *      |x|                    hyperbolic tangent    logistic, x > 0    logistic, x < 0
 *      to 2^-20               0.1                   0.6                0.7
 *      2^-20 to 0.1           2.3                   1.0                1.3
 *      0.1 to 1               2.7                   1.2                1.5
 *      1 to 10                2.5                   1.5                2.5
 *      10 to 87               0.1                   1.1                0.9
 *
 * The logistic function of x < -9 is exp(x), as the reference has it, and 0 of x < -87. Subnormal
 * numbers count as 0.
 */
#ifndef HIL_KERNELS_MVE_FUNCTIONS_F32_H
#define HIL_KERNELS_MVE_FUNCTIONS_F32_H

#include "hil/kernels/mve/exp_f32.h"

/* x / y for y of 1 to 2, by a parabola near 1 / y, two steps of Newton's method, and the remainder
 * of the first quotient. */
HIL_INLINE float32x4_t hil_mve_quotient_f32(float32x4_t x, float32x4_t y) {
    const float32x4_t minus_y = vnegq_f32(y);
    const float32x4_t one = vdupq_n_f32(1.0F);
    float32x4_t reciprocal = vfmasq_n_f32(vdupq_n_f32(0x1.4afd6ap-2F), y, -0x1.745d18p+0F);
    reciprocal = vfmasq_n_f32(reciprocal, y, 0x1.0f83e0p+1F);
    reciprocal = vfmaq_f32(reciprocal, reciprocal, vfmaq_f32(one, reciprocal, minus_y));
    reciprocal = vfmaq_f32(reciprocal, reciprocal, vfmaq_f32(one, reciprocal, minus_y));
    const float32x4_t quotient = vmulq_f32(x, reciprocal);
    return vfmaq_f32(quotient, vfmaq_f32(x, quotient, minus_y), reciprocal);
}

/* hilc.numerics.floats.logistic_on_vectors(). */
HIL_INLINE float32x4_t hil_mve_logistic_of_f32(float32x4_t x) {
    const float32x4_t one = vdupq_n_f32(1.0F);
    const float32x4_t power = hil_mve_exp_of_negative(vnegq_f32(vabsq_f32(x)));
    /* The reference's border: it takes exp(x) below. */
    const float32x4_t added = hil_mve_zero_below_f32(power, x, vdupq_n_f32(-9.0F));
    const float32x4_t top = hil_mve_other_below_f32(one, power, x, vdupq_n_f32(0.0F));
    return hil_mve_quotient_f32(top, vaddq_f32(added, one));
}

/* exp(-2 size) - 1 without cancellation, for sizes of 0 to 10. */
HIL_INLINE float32x4_t hil_mve_exp_less_one(float32x4_t size) {
    const float32x4_t moved = vfmaq_n_f32(vdupq_n_f32(0x1.8p23F), size, -0x1.715476p+1F);
    const float32x4_t n = vaddq_n_f32(moved, -0x1.8p23F);
    const float32x4_t rest = vfmaq_n_f32(vfmaq_n_f32(size, n, 0x1.62e4p-2F), n, 0x1.7f7d1cp-21F);
    /* exp(-2 rest) - 1, a multiple of rest. */
    float32x4_t less_one = vfmasq_n_f32(vdupq_n_f32(0x1.6a23c6p-4F), rest, -0x1.123a2p-2F);
    less_one = vfmasq_n_f32(less_one, rest, 0x1.5558f4p-1F);
    less_one = vfmasq_n_f32(less_one, rest, -0x1.555492p+0F);
    less_one = vfmasq_n_f32(less_one, rest, 0x1.fffffcp+0F);
    less_one = vmulq_f32(vfmasq_n_f32(less_one, rest, -2.0F), rest);
    const int32x4_t exponent = vshlq_n_s32(vreinterpretq_s32_f32(moved), 23);
    const float32x4_t scale =
        vreinterpretq_f32_s32(vaddq_s32(exponent, vreinterpretq_s32_f32(vdupq_n_f32(1.0F))));
    return vfmaq_f32(vaddq_n_f32(scale, -1.0F), scale, less_one);
}

/* hilc.numerics.floats.tanh_on_vectors(): -e / (e + 2), where e = exp(-2 |x|) - 1. */
HIL_INLINE float32x4_t hil_mve_tanh_of_f32(float32x4_t x) {
    const float32x4_t size = hil_mve_lowered_f32(vabsq_f32(x), vdupq_n_f32(10.0F));
    const float32x4_t e = hil_mve_exp_less_one(size);
    const float32x4_t y = hil_mve_quotient_f32(vnegq_f32(e), vaddq_n_f32(e, 2.0F));
    const int32x4_t sign = vandq_s32(vreinterpretq_s32_f32(x), vdupq_n_s32(INT32_MIN));
    return vreinterpretq_f32_s32(vorrq_s32(vreinterpretq_s32_f32(y), sign));
}

/* A kernel that writes the function of each element of the input. */
#define HIL_MVE_FUNCTION_F32(name, function)                                                       \
    HIL_INLINE void name(const struct name *p, const float *in, float *out) {                      \
        const int32_t last = p->size / 4 * 4;                                                      \
        for (int32_t i = 0; i < last; i += 4) {                                                    \
            vst1q_f32(out + i, function(vld1q_f32(in + i)));                                       \
        }                                                                                          \
        if (last < p->size) {                                                                      \
            const mve_pred16_t rest = vctp32q((uint32_t)(p->size - last));                         \
            vstrwq_p_f32(out + last, function(vldrwq_z_f32(in + last, rest)), rest);               \
        }                                                                                          \
    }

/*@kernel
name = "hil_mve_logistic_f32"
requires = ["mve", "fpu"]
inputs = ["float"]
outputs = ["float"]
scratch = "0"
order = "elementwise"
code = 380
[cost]
four = "size // 4"
rest = "(size - size // 4 * 4 + 3) // 4"
@*/
struct hil_mve_logistic_f32 {
    int32_t size; /* elements */
};

HIL_MVE_FUNCTION_F32(hil_mve_logistic_f32, hil_mve_logistic_of_f32)

/*@kernel
name = "hil_mve_tanh_f32"
requires = ["mve", "fpu"]
inputs = ["float"]
outputs = ["float"]
scratch = "0"
order = "elementwise"
code = 400
[cost]
four = "size // 4"
rest = "(size - size // 4 * 4 + 3) // 4"
@*/
struct hil_mve_tanh_f32 {
    int32_t size; /* elements */
};

HIL_MVE_FUNCTION_F32(hil_mve_tanh_f32, hil_mve_tanh_of_f32)

#endif
