/* Rows of floats times float weights: 1x1 convolutions, whose pixels are the rows, six at a time,
 * and fully connected layers, of single rows. */
#ifndef HIL_KERNELS_MVE_MATMUL_F32_H
#define HIL_KERNELS_MVE_MATMUL_F32_H

#include "hil/kernels/mve/columns_f32.h"

/*@kernel
name = "hil_mve_matmul_f32"
requires = ["mve", "fpu"]
inputs = ["float"]
outputs = ["float"]
scratch = "48 * units"
order = ["pixels 6"]
reads = "rows"
code = 1594
shared = {hil_mve_rows_f32 = 716, hil_mve_few_rows_f32 = 532, hil_mve_place_six_f32 = 118}
[cost]
copied = "rows * depth"
six = "(rows + 5) // 6"
columns_of_four = "(columns + 3) // 4"
block = "six * columns_of_four"
unit = "(rows + 1) // 6 * columns_of_four * units"
few = "(six - (rows + 1) // 6) * columns_of_four * units"
odd = "six * (columns - columns // 4 * 4)"
@*/
struct hil_mve_matmul_f32 {
    int32_t rows;  /* of values, each by itself */
    int32_t depth; /* values of a row */
    HIL_MVE_COLUMNS_F32_FIELDS;
};

HIL_INLINE void hil_mve_matmul_f32(const struct hil_mve_matmul_f32 *p, const float *in, float *out,
                                   void *scratch) {
    const struct hil_mve_columns_f32 columns = HIL_MVE_COLUMNS_F32(p);
    float *const x = (float *)scratch;
    for (int32_t left = p->rows; left > 0; left -= HIL_MVE_F32_ROWS) {
        const int32_t count = left < HIL_MVE_F32_ROWS ? left : HIL_MVE_F32_ROWS;
        hil_mve_place_rows_f32(x, in, p->depth, p->depth, count);
        hil_mve_columns_f32(&columns, x, count, out);
        in += count * p->depth;
        out += count * p->columns;
    }
}

/*@kernel
name = "hil_mve_matvec_f32"
requires = ["mve", "fpu"]
inputs = ["float"]
outputs = ["float"]
scratch = "0"
order = ["pixels 1", "channels 16"]
reads = "rows"
code = 484
shared = {hil_mve_row_f32 = 376}
[cost]
row = "rows"
block = "rows * ((columns + 15) // 16)"
eight = "block * (depth // 8)"
rest = "block * (depth - depth // 8 * 8)"
@*/
struct hil_mve_matvec_f32 {
    int32_t rows;        /* of values, each by itself */
    int32_t depth;       /* values of a row */
    int32_t columns;     /* of the weights */
    float out_min;       /* the least output */
    float out_max;       /* the largest output */
    const float *stream; /* of sixteens of columns, columns_f32.h draws it */
};

HIL_INLINE void hil_mve_matvec_f32(const struct hil_mve_matvec_f32 *p, const float *in,
                                   float *out) {
    float some[16];
    for (int32_t rows = p->rows; rows > 0; rows--) {
        for (int32_t column = 0; column < p->columns;) {
            const int direct = column + 16 <= p->columns;
            const int32_t count = direct ? (p->columns - column) / 16 * 16 : p->columns - column;
            const float *const stream = p->stream + column * (p->depth + 1);
            struct hil_mve_vector_block_f32 block = {
                .x = in,
                /* Assembly writes it. */
                /* cppcheck-suppress legacyUninitvar */
                .out = direct ? out + column : some,
                .most = in + p->depth / 8 * 8,
                .end = in + p->depth,
                .last = stream + (count + 15) / 16 * 16 * (p->depth + 1),
                .low = p->out_min,
                .high = p->out_max,
            };
            hil_mve_row_f32(&block, stream);
            for (int32_t i = 0; !direct && i < count; i++) {
                /* cppcheck-suppress uninitvar */
                out[column + i] = some[i];
            }
            column += count;
        }
        in += p->depth;
        out += p->columns;
    }
}

#endif
