/* Exact int32 sums of int8 times constant int8 weights, less a zero point that is known when the
 * model runs: a row by four columns at a time, sixteen elements each. */
#ifndef HIL_KERNELS_MVE_INTEGER_SUMS_H
#define HIL_KERNELS_MVE_INTEGER_SUMS_H

#include <arm_mve.h>

#include "hil/kernels/generic/integer_sums.h"

/*@kernel
name = "hil_mve_integer_sums_s8"
requires = ["mve"]
inputs = ["int8_t", "int32_t"]
outputs = ["int32_t"]
scratch = "gathered * filter_h * filter_w * in_c"
order = "none"
code = 420
[cost]
window = "batch * out_h * out_w"
copied = "gathered * window * filter_h * filter_w * in_c"
four = "window * ((out_c + 3) // 4)"
four_chunk = "four * chunks"
@*/
struct hil_mve_integer_sums_s8 {
    HIL_INTEGER_SUMS_FIELDS;
    HIL_WINDOW_FIELDS;
    int32_t chunks;        /* of sixteen elements, the depth rounded up */
    const int8_t *weights; /* [blocks of four columns][chunks][4][16], zeros behind the depth */
    const int32_t *totals; /* the sum of the weights of each output channel */
};

HIL_INLINE void hil_mve_integer_sums_row(const struct hil_mve_integer_sums_s8 *p, const int8_t *row,
                                         int32_t zero_point, int32_t *out) {
    const int32_t depth = p->filter_h * p->filter_w * p->in_c;
    const int8_t *w = p->weights;
    for (int32_t column = 0; column < p->out_c; column += 4) {
        int32_t s0 = 0;
        int32_t s1 = 0;
        int32_t s2 = 0;
        int32_t s3 = 0;
        for (int32_t at = 0; at < depth; at += 16) {
            const int8x16_t x = vldrbq_z_s8(row + at, vctp8q((uint32_t)(depth - at)));
            s0 = vmladavaq_s8(s0, x, vldrbq_s8(w));
            s1 = vmladavaq_s8(s1, x, vldrbq_s8(w + 16));
            s2 = vmladavaq_s8(s2, x, vldrbq_s8(w + 32));
            s3 = vmladavaq_s8(s3, x, vldrbq_s8(w + 48));
            w += 64;
        }
        const int32_t sums[4] = {s0, s1, s2, s3};
        for (int32_t i = 0; i < 4 && column + i < p->out_c; i++) {
            const uint32_t offset = (uint32_t)zero_point * (uint32_t)p->totals[column + i];
            out[column + i] = (int32_t)((uint32_t)sums[i] - offset);
        }
    }
}

HIL_INLINE void hil_mve_integer_sums_s8(const struct hil_mve_integer_sums_s8 *p, const int8_t *in,
                                        const int32_t *zero_points, int32_t *out, void *scratch) {
    HIL_INTEGER_SUMS_WALK(p, in, zero_points, out, scratch,
                          hil_mve_integer_sums_row(p, row, zero_point, out));
}

#endif
