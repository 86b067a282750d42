/* Rows of int16 values times int8 weights: 1x1 convolutions, whose pixels are the rows, and fully
 * connected layers. */
#ifndef HIL_KERNELS_DSP_MATMUL_S16_H
#define HIL_KERNELS_DSP_MATMUL_S16_H

#include "hil/kernels/dsp/columns_s16.h"

/*@kernel
name = "hil_dsp_matmul_s16"
requires = ["dsp"]
inputs = ["int16_t"]
outputs = ["int16_t"]
scratch = "8 * units * group + 16 * units * (1 - wide)"
order = ["pixels group"]
reads = "rows"
code = 900
[cost]
row = "rows"
copied = "rows * units"
block = "(rows + group - 1) // group"
block_pair = "block * ((columns + 1) // 2)"
widened = "block_pair * units * (1 - wide)"
tile = "((columns + 1) // 2) * ((rows + 1) // 2)"
unit = "tile * units"
long_tile = "tile * long_sums"
long_unit = "unit * long_sums"
odd_depth = "unit * (units % 4 != 0)"
@*/
struct hil_dsp_matmul_s16 {
    int32_t rows;  /* of values, each by itself */
    int32_t depth; /* values of a row */
    HIL_DSP_COLUMNS_S16_FIELDS;
};

HIL_INLINE void hil_dsp_matmul_s16(const struct hil_dsp_matmul_s16 *p, const int16_t *in,
                                   int16_t *out, void *scratch) {
    const struct hil_dsp_columns_s16 columns = HIL_DSP_COLUMNS_S16(p);
    for (int32_t left = p->rows; left > 0; left -= p->group) {
        const int32_t count = left < p->group ? left : p->group;
        uint32_t *to = (uint32_t *)scratch;
        for (int32_t row = 0; row < count; row += 2) {
            to = hil_dsp_s16_place(in, row + 1 < count ? in + p->depth : in, p->depth, to);
            in += 2 * p->depth;
        }
        in -= count % 2 * p->depth;
        hil_dsp_columns_s16(&columns, (uint32_t *)scratch, count, out);
        out += count * p->columns;
    }
}

#endif
