/* Rows of int8 less their mean, over their deviation, on Helium: the steps of
 * generic/layer_norm.h, four elements at a time. Subnormal numbers, which are 0 here, are less than
 * any half step. */
#ifndef HIL_KERNELS_MVE_LAYER_NORM_H
#define HIL_KERNELS_MVE_LAYER_NORM_H

#include <arm_mve.h>

#include "hil/kernels/generic/layer_norm.h"

/*@kernel
name = "hil_mve_layer_norm_s8"
requires = ["mve", "fpu"]
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "0"
order = "none"
code = 330
[cost]
row = "rows"
sixteen = "rows * ((depth + 15) // 16)"
four = "rows * ((depth + 3) // 4)"
@*/
struct hil_mve_layer_norm_s8 {
    HIL_LAYER_NORM_FIELDS;
};

HIL_INLINE void hil_mve_layer_norm_s8(const struct hil_mve_layer_norm_s8 *p, const int8_t *in,
                                      int8_t *out) {
    const int32x4_t low = vdupq_n_s32(INT8_MIN), high = vdupq_n_s32(INT8_MAX);
    for (int32_t n = 0; n < p->rows; n++) {
        int32_t sum = 0;
        uint32_t squares = 0;
        for (int32_t i = 0; i < p->depth; i += 16) {
            const mve_pred16_t there = vctp8q((uint32_t)(p->depth - i));
            const int8x16_t some = vldrbq_z_s8(in + i, there);
            sum = vaddvaq_s8(sum, some);
            squares = (uint32_t)vmladavaq_s8((int32_t)squares, some, some);
        }
        const struct hil_layer_norm_row row =
            hil_layer_norm_row(p->depth, p->centered, p->zero_point, p->epsilon, sum, squares);
        for (int32_t i = 0; i < p->depth; i += 4) {
            const mve_pred16_t there = vctp32q((uint32_t)(p->depth - i));
            const int32x4_t rest =
                vsubq_n_s32(vmulq_n_s32(vldrbq_z_s32(in + i, there), p->depth), row.centre);
            const float32x4_t real = vmulq_n_f32(vcvtq_f32_s32(rest), row.inverse);
            const float32x4_t steps =
                vaddq_f32(vmulq_f32(real, vldrwq_z_f32(p->factors + i, there)),
                          vldrwq_z_f32(p->addends + i, there));
            const int32x4_t made = vqaddq_n_s32(vcvtnq_s32_f32(steps), p->out_zero_point);
            vstrbq_p_s32(out + i, vminq_s32(vmaxq_s32(made, low), high), there);
        }
        in += p->depth;
        out += p->depth;
    }
}

#endif
