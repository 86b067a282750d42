/* Rows of int8 values times int8 weights: 1x1 convolutions, whose pixels are the rows, and fully
 * connected layers. */
#ifndef HIL_KERNELS_DSP_MATMUL_S8_COLUMN_PAIRS_H
#define HIL_KERNELS_DSP_MATMUL_S8_COLUMN_PAIRS_H

#include "hil/kernels/dsp/pairs_s8.h"

/*@kernel
name = "hil_dsp_matmul_s8_column_pairs"
requires = ["dsp"]
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "8 * units * group"
order = ["pixels group"]
reads = "rows"
code = 1050
[cost]
single = "wide * (3 - group) * (rows % 2)"
tile = "(rows + group - 1) // group - single"
unit_widened = "(tile * group + 2 * single) * units"
column_pair = "tile * ((columns + 1) // 2)"
square_pair = "column_pair * wide * (3 - group)"
straight = "wide * (3 - group) * ((units > 10) * (units < 16) + (units % 32 == 0))"
once_pair = "square_pair * (1 - (columns % 4 == 0) * (1 - straight))"
own_pair = "square_pair * (shift == 0)"
single_pair = "single * ((columns + 1) // 2)"
single_unit = "single_pair * units"
output_pair = "(column_pair - square_pair) * group"
narrow_pair = "column_pair * group * (1 - wide)"
signed_pair = "column_pair * signs * (1 + 4 * group)"
unit_weights = "column_pair * units * (5 - wide * (7 - 2 * group))"
unit_row = "column_pair * units * group"
long_unit = "column_pair * units * (units > 10) * (units != 16) * (1 - straight)"
odd_unit_row = "tile * (columns % 2) * units * group"
clamped = "rows * columns * (high - low != 255)"
@*/
struct hil_dsp_matmul_s8_column_pairs {
    int32_t rows;    /* rows of the input, and of the output */
    int32_t depth;   /* elements of a row */
    int32_t units;   /* of four elements of depth */
    int32_t columns; /* outputs of a row */
    HIL_DSP_PAIRS_FIELDS;
    HIL_DSP_RANGE_FIELDS;
};

HIL_INLINE void hil_dsp_matmul_s8_column_pairs(const struct hil_dsp_matmul_s8_column_pairs *p,
                                               const int8_t *in, int8_t *out, void *scratch) {
    const struct hil_dsp_pairs_s8 pairs = {
        .units = p->units,
        .count = p->columns,
        .group = p->group,
        .wide = p->wide,
        .signs = p->signs,
        .shift = p->shift,
        .stream = p->stream,
    };
    int8_t *const first = out;
    for (int32_t left = p->rows; left > 0; left -= p->group) {
        /* A row beyond the last is the last once more. */
        const int8_t *const second = left > 1 ? in + p->depth : in;
        const int8_t *const rows[] = {in, second, left > 2 ? second + p->depth : second};
        hil_dsp_pairs_widen(p->group, rows, p->depth, (uint32_t *)scratch);
        hil_dsp_pairs_s8(&pairs, (const uint32_t *)scratch,
                         hil_dsp_pairs_places(out, p->columns, left, p->rows));
        in += p->group * p->depth;
        out += p->group * p->columns;
    }
    hil_dsp_clamp_s8(first, p->rows * p->columns, p->low, p->high);
}

#endif
