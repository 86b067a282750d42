/* Rows of floats times float weights: fully connected layers, and 1x1 convolutions, whose
 * pixels are the rows. */
#ifndef HIL_KERNELS_GENERIC_MATMUL_F32_H
#define HIL_KERNELS_GENERIC_MATMUL_F32_H

#include "hil/kernels/generic/columns_f32.h"

/*@kernel
name = "hil_generic_matmul_f32"
requires = []
inputs = ["float"]
outputs = ["float"]
scratch = "0"
order = ["pixels 2", "channels 1"]
reads = "rows"
code = 656
band_code = 990
[cost]
output = "rows * columns"
mac = "output * depth"
@*/
struct hil_generic_matmul_f32 {
    int32_t rows;         /* rows of the input, and of the output */
    int32_t depth;        /* elements of a row */
    int32_t columns;      /* outputs of a row */
    float out_min;        /* the least output */
    float out_max;        /* the largest output */
    const float *bias;    /* of each column */
    const float *weights; /* as in struct hil_columns_f32 */
};

HIL_INLINE void hil_generic_matmul_f32(const struct hil_generic_matmul_f32 *p, const float *in,
                                       float *out) {
    const struct hil_columns_f32 columns = {
        .depth = p->depth,
        .count = p->columns,
        .out_min = p->out_min,
        .out_max = p->out_max,
        .weights = p->weights,
        .bias = p->bias,
    };
    for (int32_t pairs = p->rows / 2; pairs > 0; pairs--) {
        hil_columns_f32_two_rows(&columns, in, out, out + p->columns);
        in += 2 * p->depth;
        out += 2 * p->columns;
    }
    if (p->rows % 2 != 0) {
        hil_columns_f32_one_row(&columns, in, out);
    }
}

#endif
