/* Rows of floats times float weights: 1x1 convolutions, whose pixels are the rows, six at a time,
 * and fully connected layers, of single rows. */
#ifndef HIL_KERNELS_MVE_MATMUL_F32_H
#define HIL_KERNELS_MVE_MATMUL_F32_H

#include "hil/kernels/mve/columns_f32.h"

/*@kernel
name = "hil_matmul_f32_mve"
requires = ["mve", "fpu"]
inputs = ["float"]
outputs = ["float"]
scratch = "48 * units"
order = ["pixels 6"]
reads = "rows"
code = 1200
[cost.counts]
row = "rows"
copied = "rows * depth"
six = "(rows + 5) // 6"
block = "six * ((columns + 3) // 4)"
unit = "block * units"
[cost.on.cortex-m55]
row = 25
copied = 0.7
six = 90
block = 75
unit = 15.75
@*/
struct hil_matmul_f32_mve {
    int32_t rows;  /* of values, each by itself */
    int32_t depth; /* values of a row */
    HIL_MVE_COLUMNS_F32_FIELDS;
};

HIL_INLINE void hil_matmul_f32_mve(const struct hil_matmul_f32_mve *p, const float *in, float *out,
                                   void *scratch) {
    const struct hil_mve_columns_f32 columns = HIL_MVE_COLUMNS_F32(p);
    float *const x = (float *)scratch;
    for (int32_t left = p->rows; left > 0; left -= HIL_MVE_F32_ROWS) {
        const int32_t count = left < HIL_MVE_F32_ROWS ? left : HIL_MVE_F32_ROWS;
        for (int32_t row = 0; row < count; row++) {
            const int32_t placed = hil_mve_place_f32(x + row, 0, in, p->depth);
            hil_mve_place_zeros_f32(x + row, placed, p->depth % 2);
            in += p->depth;
        }
        hil_mve_columns_f32(&columns, x, count, out);
        out += count * p->columns;
    }
}

/*@kernel
name = "hil_vector_f32_mve"
requires = ["mve", "fpu"]
inputs = ["float"]
outputs = ["float"]
scratch = "0"
order = ["pixels 1", "channels 16"]
reads = "rows"
code = 600
[cost.counts]
row = "rows"
block = "rows * ((columns + 15) // 16)"
eight = "block * (depth // 8)"
rest = "block * (depth % 8)"
[cost.on.cortex-m55]
row = 60
block = 50
eight = 68
rest = 11
@*/
struct hil_vector_f32_mve {
    int32_t rows;        /* of values, each by itself */
    int32_t depth;       /* values of a row */
    int32_t columns;     /* of the weights */
    float out_min;       /* the least output */
    float out_max;       /* the largest output */
    const float *stream; /* of sixteens of columns, columns_f32.h draws it */
};

HIL_INLINE void hil_vector_f32_mve(const struct hil_vector_f32_mve *p, const float *in,
                                   float *out) {
    float some[16] = {0.0F};
    for (int32_t rows = p->rows; rows > 0; rows--) {
        int32_t blocks;
        for (int32_t column = 0; column < p->columns; column += 16 * blocks) {
            const int direct = column + 16 <= p->columns;
            blocks = direct ? (p->columns - column) / 16 : 1;
            struct hil_mve_block_f32 block = {
                .x = in,
                .out = direct ? out + column : some,
                .step = 0,
                .blocks = blocks,
                .most = in + p->depth / 8 * 8,
                .end = in + p->depth,
                .low = p->out_min,
                .high = p->out_max,
            };
            hil_mve_row_f32(&block, p->stream + column * (p->depth + 1));
            for (int32_t i = column; !direct && i < p->columns; i++) {
                out[i] = some[i - column];
            }
        }
        in += p->depth;
        out += p->columns;
    }
}

#endif
