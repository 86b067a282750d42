/* Rows of int8 values times int8 weights: fully connected layers, and 1x1 convolutions, whose
 * pixels are the rows. */
#ifndef HIL_KERNELS_GENERIC_MATMUL_S8_H
#define HIL_KERNELS_GENERIC_MATMUL_S8_H

#include "hil/kernels/generic/columns_s8.h"

/*@kernel
name = "hil_generic_matmul_s8"
requires = []
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "0"
order = ["pixels 2", "channels 1"]
reads = "rows"
code = 644
[cost]
row = "rows"
block = "(rows // 2) * (columns // 4)"
block_tap = "block * depth"
column_tap = "(rows // 2) * (columns % 4) * depth"
last_four = "(rows % 2) * (columns // 4)"
last_four_tap = "last_four * depth"
last_mac = "(rows % 2) * (columns % 4) * depth"
@*/
struct hil_generic_matmul_s8 {
    int32_t rows;    /* rows of the input, and of the output */
    int32_t depth;   /* elements of a row */
    int32_t columns; /* outputs of a row */
    HIL_REQUANTIZATION_FIELDS;
    const int8_t *weights; /* interleaved as columns_s8.h says */
};

HIL_INLINE void hil_generic_matmul_s8(const struct hil_generic_matmul_s8 *p, const int8_t *in,
                                      int8_t *out) {
    const struct hil_columns_s8 columns = {
        .depth = p->depth,
        .count = p->columns,
        .out_zero_point = p->out_zero_point,
        .out_min = p->out_min,
        .out_max = p->out_max,
        .per_channel = p->per_channel,
        .narrow = p->narrow,
        .bias = p->bias,
        .multipliers = p->multipliers,
        .shifts = p->shifts,
        .weights = p->weights,
    };
    for (int32_t pairs = p->rows / 2; pairs > 0; pairs--) {
        hil_columns_s8_two_rows(&columns, in, out, out + p->columns);
        in += 2 * p->depth;
        out += 2 * p->columns;
    }
    if (p->rows % 2 != 0) {
        hil_columns_s8_one_row(&columns, in, out);
    }
}

#endif
