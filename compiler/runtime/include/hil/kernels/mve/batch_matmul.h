/* Products of two matrices of int8, both computed when the model runs: the columns of the second
 * are packed as weights are, with what its zero point and that of the first make of their sums, and
 * the first gives four rows at a time to blocks_s8.h, each with what it adds. */
#ifndef HIL_KERNELS_MVE_BATCH_MATMUL_H
#define HIL_KERNELS_MVE_BATCH_MATMUL_H

#include "hil/kernels/generic/batch_matmul.h"
#include "hil/kernels/mve/columns_s8.h"

/*@kernel
name = "hil_mve_batch_matmul_s8"
requires = ["mve"]
inputs = ["int8_t", "int8_t"]
outputs = ["int8_t"]
scratch = "64 * chunks + (columns + 1) // 2 * (32 * chunks + 28)"
order = "none"
code = 1300
[cost]
tile = "batches * ((rows + 3) // 4)"
tile_chunk = "tile * chunks"
column = "batches * 2 * ((columns + 1) // 2)"
column_chunk = "column * chunks"
pair = "tile * ((columns + 1) // 2)"
pair_chunk = "pair * chunks"
@*/
struct hil_mve_batch_matmul_s8 {
    HIL_BATCH_MATMUL_FIELDS;
    int32_t chunks;         /* of sixteen elements, the depth rounded up */
    int32_t a_offset;       /* what is added to each element of the first matrix */
    int32_t b_offset;       /* what is added to each element of the second one */
    int32_t out_zero_point; /* of the output */
    int32_t multiplier;     /* in Q0.31 */
    int32_t shift;          /* of the products, to the left; below 0 */
    int32_t once;           /* 1: sums are rounded once, half up; 0: twice */
};

/* Copies a vector of any step to whole chunks, `apart` bytes from one to the next, of which zeros
 * fill the last; returns the sum of its elements. */
HIL_INLINE int32_t hil_mve_matrix_vector(int8_t *to, const int8_t *from, int32_t step,
                                         int32_t depth, int32_t apart) {
    const int32_t rest = depth % HIL_MVE_CHUNK;
    int32_t sum = 0;
    if (step == 1) {
#pragma GCC unroll 4
        for (int32_t whole = depth / HIL_MVE_CHUNK; whole > 0; whole--) {
            const int8x16_t x = vldrbq_s8(from);
            sum = vaddvaq_s8(sum, x);
            vstrbq_s8(to, x);
            from += HIL_MVE_CHUNK;
            to += apart;
        }
        if (rest != 0) {
            const int8x16_t x = vldrbq_z_s8(from, vctp8q((uint32_t)rest));
            sum = vaddvaq_s8(sum, x);
            vstrbq_s8(to, x);
        }
        return sum;
    }
    const uint16x8_t places = vmulq_n_u16(vidupq_n_u16(0, 1), (uint16_t)step);
#pragma GCC unroll 4
    for (int32_t whole = depth / HIL_MVE_CHUNK; whole > 0; whole--) {
        const int16x8_t low = vldrbq_gather_offset_s16(from, places);
        const int16x8_t high = vldrbq_gather_offset_s16(from + 8 * step, places);
        sum = vaddvaq_s16(vaddvaq_s16(sum, low), high);
        vstrbq_s16(to, low);
        vstrbq_s16(to + 8, high);
        from += HIL_MVE_CHUNK * step;
        to += apart;
    }
    if (rest != 0) {
        const int32_t behind = rest > 8 ? rest - 8 : 0;
        const int16x8_t low = vldrbq_gather_offset_z_s16(from, places, vctp16q((uint32_t)rest));
        const int16x8_t high =
            vldrbq_gather_offset_z_s16(from + 8 * step, places, vctp16q((uint32_t)behind));
        sum = vaddvaq_s16(vaddvaq_s16(sum, low), high);
        vstrbq_s16(to, low);
        vstrbq_s16(to + 8, high);
    }
    return sum;
}

/* A pair of columns, the second perhaps the first once more, and what makes outputs of their sums.
 */
HIL_INLINE int8_t *hil_mve_matrix_pair(const struct hil_mve_batch_matmul_s8 *p, const int8_t *b,
                                       int32_t second, int8_t *to) {
    int8_t *const behind = to + 2 * HIL_MVE_CHUNK * p->chunks;
    void *const aligned = behind;
    int32_t *const words = (int32_t *)aligned;
    const int32_t always = p->depth * p->a_offset * p->b_offset;
    for (int32_t i = 0; i < 2; i++) {
        const int32_t sum = hil_mve_matrix_vector(to + HIL_MVE_CHUNK * i, b + (i > 0 ? second : 0),
                                                  p->b_step, p->depth, 2 * HIL_MVE_CHUNK);
        words[i] = sum * p->a_offset + always;
        words[2 + i] = p->multiplier;
        words[4 + i] = p->shift;
    }
    words[6] = 2;
    return behind + 28;
}

/* Which rows and columns the outputs of a step are of; rows missing of four are the first. */
HIL_INLINE void hil_mve_matrix_offsets(struct hil_mve_block *block, int32_t rows, int32_t row_step,
                                       int32_t column_step) {
    for (int32_t row = 0; row < HIL_MVE_ROWS_AT_ONCE; row++) {
        const int32_t at = row < rows ? row * row_step : 0;
        block->offsets[2 * row] = (uint16_t)at;
        block->offsets[2 * row + 1] = (uint16_t)(at + column_step);
    }
}

/* Four rows by pairs of columns, rounded as the product says. */
HIL_INLINE void hil_mve_matrix_rows(const struct hil_mve_batch_matmul_s8 *p, const int8_t *x,
                                    const int8_t *stream, int8_t *out,
                                    const struct hil_mve_block *block) {
    (p->once ? hil_mve_rows_s8_matrix_once : hil_mve_rows_s8_matrix)(x, stream, out, block);
}

HIL_INLINE void hil_mve_matrix_product(const struct hil_mve_batch_matmul_s8 *p, const int8_t *a,
                                       const int8_t *b, int8_t *out, int8_t *scratch) {
    int8_t *const stream = scratch + HIL_MVE_GROUP_BYTES * p->chunks;
    const int32_t pairs = p->columns / 2;
    int8_t *to = stream;
    for (int32_t column = 0; column < p->columns; column += 2) {
        const int32_t second = column + 1 < p->columns ? p->b_column : 0;
        to = hil_mve_matrix_pair(p, b + column * p->b_column, second, to);
    }
    struct hil_mve_matrix_block rows = {
        .block =
            {
                .steps = pairs,
                .skipped = hil_mve_skip(p->chunks, HIL_MVE_ROWS_SLOT_BYTES),
                .x_bytes = HIL_MVE_GROUP_BYTES * p->chunks,
                .zero_point = p->out_zero_point,
                .low = 0,
                .high = 0,
                .offsets = {0},
            },
        .rows = {0},
    };
    for (int32_t row = 0; row < p->rows; row += HIL_MVE_ROWS_AT_ONCE) {
        const int32_t left = p->rows - row;
        for (int32_t i = 0; i < HIL_MVE_ROWS_AT_ONCE; i++) {
            const int8_t *const from = a + (row + (i < left ? i : 0)) * p->a_row;
            const int32_t sum = hil_mve_matrix_vector(scratch + HIL_MVE_CHUNK * i, from, p->a_step,
                                                      p->depth, HIL_MVE_GROUP_BYTES);
            rows.rows[i] = sum * p->b_offset;
        }
        int8_t *const at = out + row * p->columns;
        if (pairs > 0) {
            rows.block.steps = pairs;
            hil_mve_matrix_offsets(&rows.block, left, p->columns, 1);
            hil_mve_matrix_rows(p, scratch, stream, at, &rows.block);
        }
        if (p->columns % 2 != 0) {
            rows.block.steps = 1;
            hil_mve_matrix_offsets(&rows.block, left, p->columns, 0);
            hil_mve_matrix_rows(p, scratch, stream + pairs * (2 * HIL_MVE_CHUNK * p->chunks + 28),
                                at + 2 * pairs, &rows.block);
        }
    }
}

HIL_INLINE void hil_mve_batch_matmul_s8(const struct hil_mve_batch_matmul_s8 *p, const int8_t *a,
                                        const int8_t *b, int8_t *out, void *scratch) {
    HIL_BATCH_MATMUL_EACH(p, a, b, {
        hil_mve_matrix_product(p, a, b, out, (int8_t *)scratch);
        out += p->rows * p->columns;
    });
}

#endif
