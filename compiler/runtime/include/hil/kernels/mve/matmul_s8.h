/* Rows of int8 values times int8 weights: 1x1 convolutions, whose pixels are the rows, and fully
 * connected layers. */
#ifndef HIL_KERNELS_MVE_MATMUL_S8_H
#define HIL_KERNELS_MVE_MATMUL_S8_H

#include "hil/kernels/mve/columns_s8.h"

/*@kernel
name = "hil_mve_matmul_s8"
requires = ["mve"]
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "64 * chunks"
order = ["pixels 4"]
reads = "rows"
code = 960
shared = {hil_mve_rows_s8 = 548}
[cost]
tile = "(rows + 3) // 4"
chunk = "tile * chunks"
pair = "tile * (pairs + odd)"
pair_chunk = "pair * chunks"
linear_pair = "pair * (linear == 1)"
@*/
struct hil_mve_matmul_s8 {
    int32_t rows;  /* rows of the input, and of the output */
    int32_t depth; /* elements of a row */
    HIL_MVE_COLUMNS_FIELDS;
};

HIL_INLINE void hil_mve_matmul_s8(const struct hil_mve_matmul_s8 *p, const int8_t *in, int8_t *out,
                                  void *scratch) {
    struct hil_mve_columns columns = HIL_MVE_COLUMNS(p);
    hil_mve_columns_rows(&columns, HIL_MVE_ROWS_AT_ONCE);
    int8_t *const group = (int8_t *)scratch;
    int32_t left = p->rows;
    for (; left >= HIL_MVE_ROWS_AT_ONCE; left -= HIL_MVE_ROWS_AT_ONCE) {
#pragma GCC unroll 4
        for (int32_t row = 0; row < HIL_MVE_ROWS_AT_ONCE; row++) {
            hil_mve_place_row(group, row, in, p->depth);
            in += p->depth;
        }
        hil_mve_columns_s8(&columns, p->linear, group, out);
        out += HIL_MVE_ROWS_AT_ONCE * p->row_step;
    }
    if (left > 0) {
        for (int32_t row = 0; row < HIL_MVE_ROWS_AT_ONCE; row++) {
            hil_mve_place_row(group, row, in + (row < left ? row : 0) * p->depth, p->depth);
        }
        hil_mve_columns_rows(&columns, left);
        hil_mve_columns_s8(&columns, p->linear, group, out);
    }
}

/*@kernel
name = "hil_mve_matvec_s8"
requires = ["mve"]
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "16 * chunks * copied + 16 * ((columns + 7) // 8 - columns // 8)"
order = ["pixels 1", "channels 8"]
reads = "rows"
code = 830
shared = {hil_mve_vector_s8 = 650}
variable = ["out_zero_point"]
[cost]
row = "rows"
eight = "rows * ((columns + 7) // 8)"
eight_chunk = "eight * chunks"
@*/
struct hil_mve_matvec_s8 {
    int32_t rows;    /* rows of the input, and of the output */
    int32_t depth;   /* elements of a row */
    int32_t columns; /* outputs of a row */
    int32_t chunks;  /* of 16 weights, the depth rounded up */
    int32_t copied;  /* 1: the depth is not whole chunks, so that rows are copied to be read so */
    int32_t uniform; /* 1: one multiplier and one shift for all columns */
    int32_t linear;  /* as in HIL_MVE_COLUMNS_FIELDS */
    HIL_OUTPUT_RANGE_FIELDS;
    const int8_t *stream; /* blocks_s8.h draws it, columns filled up to groups of eight */
};

HIL_INLINE void hil_mve_matvec_s8(const struct hil_mve_matvec_s8 *p, const int8_t *in, int8_t *out,
                                  void *scratch) {
    int8_t *const copy = (int8_t *)scratch;
    /* The last group, where it is not whole. */
    int8_t *const last = p->copied ? copy + HIL_MVE_CHUNK * p->chunks : copy;
    const int32_t whole = p->columns / 8;
    const int32_t rest = p->columns % 8;
    const int32_t group_bytes =
        8 * HIL_MVE_CHUNK * p->chunks + (p->uniform                         ? 40
                                         : p->linear == HIL_MVE_LINEAR_TIES ? 160
                                                                            : 96);
    struct hil_mve_block block = {
        .steps = whole,
        .skipped = hil_mve_skip(p->chunks, HIL_MVE_VECTOR_SLOT_BYTES),
        .x_bytes = HIL_MVE_CHUNK * p->chunks,
        .zero_point = p->out_zero_point,
        .low = p->out_min,
        .high = p->out_max,
        .offsets = {0, 1, 2, 3, 4, 5, 6, 7},
    };
    for (int32_t row = 0; row < p->rows; row++) {
        const int8_t *x = in;
        if (p->copied) {
            hil_mve_copy_chunks(copy, in, p->depth, HIL_MVE_CHUNK);
            x = copy;
        }
        if (whole > 0) {
            block.steps = whole;
            hil_mve_vector(p->uniform, p->linear, x, p->stream, out, &block);
        }
        if (rest > 0) {
            block.steps = 1;
            hil_mve_vector(p->uniform, p->linear, x, p->stream + whole * group_bytes, last, &block);
            for (int32_t i = 0; i < rest; i++) {
                out[8 * whole + i] = last[i];
            }
        }
        in += p->depth;
        out += p->columns;
    }
}

#endif
