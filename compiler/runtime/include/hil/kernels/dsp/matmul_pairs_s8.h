/* Rows of int8 values times int8 weights: 1x1 convolutions, whose pixels are the rows, and fully
 * connected layers. */
#ifndef HIL_KERNELS_DSP_MATMUL_PAIRS_S8_H
#define HIL_KERNELS_DSP_MATMUL_PAIRS_S8_H

#include "hil/kernels/dsp/pairs_s8.h"

/*@kernel
name = "hil_dsp_matmul_pairs_s8"
requires = ["dsp"]
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "8 * units * group"
order = ["pixels group"]
reads = "rows"
code = 900
[cost.counts]
tile = "(rows + group - 1) // group"
unit_widened = "tile * units * group"
column_pair = "tile * ((columns + 1) // 2)"
output_pair = "column_pair * (group - 0.5 * wide * (3 - group))"
narrow_pair = "column_pair * group * (1 - wide)"
signed_pair = "column_pair * signs * (1 + 4 * group)"
unit_weights = "column_pair * units * (5 - wide * (7 - 2 * group))"
unit_row = "column_pair * units * group"
long_unit = "column_pair * units * (units > 10) * (units != 16)"
odd_unit_row = "tile * (columns % 2) * units * group"
[cost.on.cortex-m4]
call = 35.95
tile = 12.29
unit_widened = 5.064
column_pair = 10.58
output_pair = 5.718
narrow_pair = 2.212
unit_weights = 1.033
unit_row = 3.897
long_unit = 0.6964
odd_unit_row = 7.886
@*/
struct hil_dsp_matmul_pairs_s8 {
    int32_t rows;    /* rows of the input, and of the output */
    int32_t depth;   /* elements of a row */
    int32_t units;   /* of four elements of depth */
    int32_t columns; /* outputs of a row */
    HIL_DSP_PAIRS_FIELDS;
};

HIL_INLINE void hil_dsp_matmul_pairs_s8(const struct hil_dsp_matmul_pairs_s8 *p, const int8_t *in,
                                        int8_t *out, void *scratch) {
    const struct hil_dsp_pairs_s8 pairs = {
        .units = p->units,
        .count = p->columns,
        .group = p->group,
        .wide = p->wide,
        .signs = p->signs,
        .shift = p->shift,
        .stream = p->stream,
    };
    for (int32_t left = p->rows; left > 0; left -= p->group) {
        /* A row beyond the last is the last once more. */
        const int8_t *const second = left > 1 ? in + p->depth : in;
        const int8_t *const rows[] = {in, second, left > 2 ? second + p->depth : second};
        hil_dsp_pairs_widen(p->group, rows, p->depth, (uint32_t *)scratch);
        hil_dsp_pairs_s8(&pairs, (const uint32_t *)scratch,
                         hil_dsp_pairs_places(out, p->columns, left));
        in += p->group * p->depth;
        out += p->group * p->columns;
    }
}

#endif
