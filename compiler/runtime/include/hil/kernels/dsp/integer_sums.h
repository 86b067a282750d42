/* Exact int32 sums of int8 times constant int8 weights, less a zero point that is known when the
 * model runs: a row by four columns at a time, as matvec_s8.h multiplies them.
 *
 * Bounds: of each part of depth |sum| < 2^23, so that the sums of two columns share a word. Their
 * totals wrap around modulo 2^32, as the sums of the definition do.
 */
#ifndef HIL_KERNELS_DSP_INTEGER_SUMS_H
#define HIL_KERNELS_DSP_INTEGER_SUMS_H

#include "hil/kernels/dsp/matvec_s8.h"
#include "hil/kernels/generic/integer_sums.h"

/*@kernel
name = "hil_dsp_integer_sums_s8"
requires = ["dsp"]
inputs = ["int8_t", "int32_t"]
outputs = ["int32_t"]
scratch = "8 * units + gathered * (filter_h * filter_w * in_c)"
order = "none"
code = 760
[cost]
window = "batch * out_h * out_w"
copied = "gathered * window * filter_h * filter_w * in_c"
row_unit = "window * units"
four = "window * ((out_c + 3) // 4)"
four_unit = "four * units"
part_four = "four * ((units + part - 1) // part)"
@*/
struct hil_dsp_integer_sums_s8 {
    HIL_INTEGER_SUMS_FIELDS;
    HIL_WINDOW_FIELDS;
    int32_t units;          /* of four elements of depth */
    int32_t part;           /* units of a part of depth, whose sums are below 2^23 */
    const int16_t *weights; /* in blocks of four columns, as in struct hil_dsp_matvec_s8 */
    const int32_t *totals;  /* the sum of the weights of each output channel */
};

/* Adds the parts of a row by four columns. */
HIL_INLINE void hil_dsp_integer_sums_block(const struct hil_dsp_integer_sums_s8 *p,
                                           const uint32_t *wide, const int16_t *weights,
                                           uint32_t *found) {
    for (int32_t at = 0; at < p->units; at += p->part) {
        const int32_t left = p->units - at;
        struct hil_dsp_matvec_sums sums = {{0, 0, 0, 0}};
        hil_dsp_matvec_s8_units(wide + 2 * at, 1, weights + 8 * at, left < p->part ? left : p->part,
                                &sums);
        for (int i = 0; i < 4; i += 2) {
            found[i] += sums.s[i];
            found[i + 1] += (uint32_t)((int32_t)(sums.s[i + 1] - sums.s[i]) >> 8);
        }
    }
}

HIL_INLINE void hil_dsp_integer_sums_row(const struct hil_dsp_integer_sums_s8 *p,
                                         const uint32_t *wide, int32_t zero_point, int32_t *out) {
    const int16_t *weights = p->weights;
    for (int32_t column = 0; column < p->out_c; column += 4) {
        uint32_t sums[4] = {0, 0, 0, 0};
        hil_dsp_integer_sums_block(p, wide, weights, sums);
        for (int32_t i = 0; i < 4 && column + i < p->out_c; i++) {
            const uint32_t offset = (uint32_t)zero_point * (uint32_t)p->totals[column + i];
            out[column + i] = (int32_t)(sums[i] - offset);
        }
        weights += 8 * p->units;
    }
}

HIL_INLINE void hil_dsp_integer_sums_s8(const struct hil_dsp_integer_sums_s8 *p, const int8_t *in,
                                        const int32_t *zero_points, int32_t *out, void *scratch) {
    uint32_t *const wide = (uint32_t *)scratch;
    int8_t *const rows = (int8_t *)scratch + 8 * p->units;
    HIL_INTEGER_SUMS_WALK(p, in, zero_points, out, rows, {
        hil_dsp_widen_row(row, p->filter_h * p->filter_w * p->in_c, wide);
        hil_dsp_integer_sums_row(p, wide, zero_point, out);
    });
}

#endif
