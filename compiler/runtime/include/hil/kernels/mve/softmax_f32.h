/* Softmax of rows of floats on Helium, four elements at a time. */
#ifndef HIL_KERNELS_MVE_SOFTMAX_F32_H
#define HIL_KERNELS_MVE_SOFTMAX_F32_H

#include "hil/kernels/mve/exp_f32.h"

/*@kernel
name = "hil_mve_softmax_f32"
requires = ["mve", "fpu"]
inputs = ["float"]
outputs = ["float"]
scratch = "0"
order = "elementwise"
code = 400
[cost]
row = "rows"
four = "rows * (depth // 4)"
rest = "rows * (depth - depth // 4 * 4 + 3) // 4"
@*/
struct hil_mve_softmax_f32 {
    int32_t rows;  /* that each add up to one */
    int32_t depth; /* elements of a row */
    float beta;    /* factor of the exponents */
};

/* The exponentials of four elements of a row whose largest one is `most`. */
HIL_INLINE float32x4_t hil_mve_softmax_f32_powers(const struct hil_mve_softmax_f32 *p,
                                                  float32x4_t x, float most) {
    const float32x4_t distance = vsubq_n_f32(x, most);
    return hil_mve_exp_of_negative(p->beta == 1.0F ? distance : vmulq_n_f32(distance, p->beta));
}

/* x / sum from the sum's reciprocal, rounded: of finite numbers, as no exponential exceeds one. */
HIL_INLINE float32x4_t hil_mve_softmax_f32_share(float32x4_t x, float sum, float reciprocal) {
    const float32x4_t quotient = vmulq_n_f32(x, reciprocal);
    return vfmaq_n_f32(quotient, vfmaq_n_f32(x, quotient, -sum), reciprocal);
}

HIL_INLINE void hil_mve_softmax_f32(const struct hil_mve_softmax_f32 *p, const float *in,
                                    float *out) {
    const int32_t last = p->depth / 4 * 4;
    const mve_pred16_t rest = vctp32q((uint32_t)(p->depth % 4));
    for (int32_t row = 0; row < p->rows; row++) {
        float32x4_t largest = vdupq_n_f32(-INFINITY);
        for (int32_t i = 0; i < last; i += 4) {
            largest = vmaxnmq_f32(largest, vld1q_f32(in + i));
        }
        if (last < p->depth) {
            largest = vmaxnmq_m_f32(largest, largest, vldrwq_z_f32(in + last, rest), rest);
        }
        const float most = vmaxnmvq_f32(-INFINITY, largest);
        float32x4_t sums = vdupq_n_f32(0.0F);
        for (int32_t i = 0; i < last; i += 4) {
            const float32x4_t powers = hil_mve_softmax_f32_powers(p, vld1q_f32(in + i), most);
            sums = vaddq_f32(sums, powers);
            vst1q_f32(out + i, powers);
        }
        if (last < p->depth) {
            const float32x4_t powers =
                hil_mve_softmax_f32_powers(p, vldrwq_z_f32(in + last, rest), most);
            sums = vaddq_m_f32(sums, sums, powers, rest);
            vstrwq_p_f32(out + last, powers, rest);
        }
        /* By registers: GCC 12 moves a load of the second lane in front of the vector's store. */
        const float sum = vgetq_lane_f32(sums, 0) + vgetq_lane_f32(sums, 1) +
                          vgetq_lane_f32(sums, 2) + vgetq_lane_f32(sums, 3);
        const float reciprocal = 1.0F / sum;
        for (int32_t i = 0; i < last; i += 4) {
            vst1q_f32(out + i, hil_mve_softmax_f32_share(vld1q_f32(out + i), sum, reciprocal));
        }
        if (last < p->depth) {
            const float32x4_t powers = vldrwq_z_f32(out + last, rest);
            vstrwq_p_f32(out + last, hil_mve_softmax_f32_share(powers, sum, reciprocal), rest);
        }
        in += p->depth;
        out += p->depth;
    }
}

#endif
