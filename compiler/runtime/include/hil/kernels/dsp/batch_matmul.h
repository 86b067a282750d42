/* Products of two matrices of int8, both computed when the model runs: rows of the first and
 * columns of the second are widened, less their zero points, in pairs, as columns_s16.h takes them.
 */
#ifndef HIL_KERNELS_DSP_BATCH_MATMUL_H
#define HIL_KERNELS_DSP_BATCH_MATMUL_H

#include "hil/kernels/dsp/columns_s16.h"
#include "hil/kernels/generic/batch_matmul.h"

/* What four elements of two vectors come to: elements 0 2 of each, then 1 3. The first `count`
 * count, the others are zeros. */
HIL_INLINE void hil_dsp_matrix_unit(uint32_t a, uint32_t b, uint32_t offsets, int32_t count,
                                    uint32_t *to) {
    const uint32_t evens = count > 2 ? 0xffffffffU : 0xffffU;
    const uint32_t odds = count > 3 ? 0xffffffffU : (count > 1 ? 0xffffU : 0);
    to[0] = hil_dsp_add_even(offsets, a) & evens;
    to[1] = hil_dsp_add_even(offsets, b) & evens;
    to[2] = hil_dsp_add_odd(offsets, a) & odds;
    to[3] = hil_dsp_add_odd(offsets, b) & odds;
}

/* Two vectors whose elements follow each other. */
HIL_INLINE void hil_dsp_matrix_pair(const int8_t *a, const int8_t *b, int32_t depth,
                                    uint32_t offsets, uint32_t *to) {
#pragma GCC unroll 2
    for (int32_t whole = depth / 4; whole > 0; whole--) {
        hil_dsp_matrix_unit(hil_dsp_load(a), hil_dsp_load(b), offsets, 4, to);
        a += 4;
        b += 4;
        to += 4;
    }
    if (depth % 4 != 0) {
        hil_dsp_matrix_unit(hil_dsp_load_part(a, depth % 4), hil_dsp_load_part(b, depth % 4),
                            offsets, depth % 4, to);
    }
}

/* Two vectors of any steps. */
HIL_INLINE void hil_dsp_matrix_apart(const int8_t *a, const int8_t *b, int32_t step, int32_t depth,
                                     uint32_t offsets, uint32_t *to) {
    for (int32_t left = depth; left > 0; left -= 4) {
        uint32_t words[2] = {0, 0};
        for (int32_t i = 0; i < 4 && i < left; i++) {
            words[0] |= (uint32_t)(uint8_t)*a << 8 * i;
            words[1] |= (uint32_t)(uint8_t)*b << 8 * i;
            a += step;
            b += step;
        }
        hil_dsp_matrix_unit(words[0], words[1], offsets, left, to);
        to += 4;
    }
}

/* Four vectors whose first elements follow each other, as two pairs of `units`. */
HIL_INLINE void hil_dsp_matrix_across(const int8_t *from, int32_t step, int32_t depth,
                                      uint32_t offsets, int32_t units, uint32_t *to) {
    uint32_t *second = to + 4 * units;
    for (int32_t left = depth; left > 0; left -= 4) {
        uint32_t even[4];
        uint32_t odd[4];
#pragma GCC unroll 4
        for (int32_t i = 0; i < 4; i++) {
            const uint32_t word = i < left ? hil_dsp_load(from) : 0;
            even[i] = i < left ? hil_dsp_add_even(offsets, word) : 0;
            odd[i] = i < left ? hil_dsp_add_odd(offsets, word) : 0;
            from += step;
        }
#pragma GCC unroll 2
        for (int32_t i = 0; i < 2; i++) {
            to[2 * i] = hil_dsp_lows(even[i], even[i + 2]);
            to[2 * i + 1] = hil_dsp_lows(odd[i], odd[i + 2]);
            second[2 * i] = hil_dsp_highs(even[i], even[i + 2]);
            second[2 * i + 1] = hil_dsp_highs(odd[i], odd[i + 2]);
        }
        to += 4;
        second += 4;
    }
}

/* `count` vectors in pairs, of which an odd one is the last once more; `next` elements lie between
 * two, `step` between their elements. */
HIL_INLINE void hil_dsp_matrix_pairs(const int8_t *from, int32_t count, int32_t next, int32_t step,
                                     int32_t depth, int32_t offset, uint32_t *to) {
    const uint32_t offsets = hil_dsp_pair(offset, offset);
    const int32_t units = (depth + 3) / 4;
    if (step != 1 && next == 1) {
        for (; count >= 4; count -= 4) {
            hil_dsp_matrix_across(from, step, depth, offsets, units, to);
            from += 4;
            to += 8 * units;
        }
    }
    for (; count > 0; count -= 2) {
        const int8_t *const second = count > 1 ? from + next : from;
        if (step == 1) {
            hil_dsp_matrix_pair(from, second, depth, offsets, to);
        } else {
            hil_dsp_matrix_apart(from, second, step, depth, offsets, to);
        }
        from = second + next;
        to += 4 * units;
    }
}

/*@kernel
name = "hil_dsp_batch_matmul_s8"
requires = ["dsp"]
inputs = ["int8_t", "int8_t"]
outputs = ["int8_t"]
scratch = "8 * units * group + 32 * units"
order = "none"
code = 1500
[cost]
group_run = "batches * ((rows + group - 1) // group)"
row_unit = "batches * rows * units"
column_unit = "group_run * columns * units"
column_pair = "group_run * ((columns + 1) // 2)"
tile = "batches * ((rows + 1) // 2) * ((columns + 1) // 2)"
tile_unit = "tile * units"
@*/
struct hil_dsp_batch_matmul_s8 {
    HIL_BATCH_MATMUL_FIELDS;
    int32_t units;          /* of four elements of depth */
    int32_t group;          /* rows at a time, an even number */
    int32_t a_offset;       /* what is added to each element of the first matrix */
    int32_t b_offset;       /* what is added to each element of the second one */
    int32_t out_zero_point; /* of the output */
    int32_t multiplier;     /* in Q0.31 */
    int32_t shift;          /* of the products, to the right, at least 1 */
    int32_t once;           /* 1: sums are rounded once, half up; 0: twice */
};

/* Pairs of rows by a pair of columns, whose outputs lie `step` apart from row to row. */
HIL_INLINE void hil_dsp_matrix_outputs(const struct hil_dsp_batch_matmul_s8 *p,
                                       const uint32_t *rows, int32_t pairs, const uint32_t *columns,
                                       int32_t step, int8_t *out) {
    struct hil_dsp_s16_block block = {
        .rows = rows,
        .rows_end = rows + 4 * p->units * pairs,
        .fours_end = columns + 4 * (p->units / 4 * 4),
        .end = columns + 4 * p->units,
        .weights = columns,
        .out = out,
        .step = step,
        .low = INT8_MIN,
        .high = INT8_MAX,
        .bias = {0, 0},
        .multipliers = {p->multiplier, p->multiplier},
        .shift = p->shift,
        .rounding = (int32_t)((uint32_t)(2 * p->out_zero_point + 1) << (p->shift - 1)),
        .addends = {0, 0},
        .rights = {0, 0},
    };
    hil_dsp_columns_s16_bytes(&block, p->units, p->once);
}

/* `count` widened rows by a pair of columns, of which the second may be none. */
HIL_INLINE void hil_dsp_matrix_columns(const struct hil_dsp_batch_matmul_s8 *p,
                                       const uint32_t *rows, int32_t count, const uint32_t *columns,
                                       int both, int8_t *out) {
    if (both && count > 1) {
        hil_dsp_matrix_outputs(p, rows, count / 2, columns, p->columns, out);
    }
    /* Two rows that are the last, or two rows at a time, elsewhere. */
    for (int32_t row = both ? count / 2 * 2 : 0; row < count; row += 2) {
        int8_t outputs[4];
        hil_dsp_matrix_outputs(p, rows + 2 * p->units * row, 1, columns, 2, outputs);
        out[row * p->columns] = outputs[0];
        if (both) {
            out[row * p->columns + 1] = outputs[1];
        }
        if (row + 1 < count) {
            out[(row + 1) * p->columns] = outputs[2];
        }
    }
}

HIL_INLINE void hil_dsp_matrix_product(const struct hil_dsp_batch_matmul_s8 *p, const int8_t *a,
                                       const int8_t *b, int8_t *out, uint32_t *scratch) {
    uint32_t *const columns = scratch + 2 * p->units * p->group;
    for (int32_t row = 0; row < p->rows; row += p->group) {
        const int32_t left = p->rows - row;
        const int32_t count = left < p->group ? left : p->group;
        hil_dsp_matrix_pairs(a + row * p->a_row, count, p->a_row, p->a_step, p->depth, p->a_offset,
                             scratch);
        for (int32_t column = 0; column < p->columns; column++) {
            const int32_t others = p->columns - column;
            if (column % 4 == 0) {
                hil_dsp_matrix_pairs(b + column * p->b_column, others < 4 ? others : 4, p->b_column,
                                     p->b_step, p->depth, p->b_offset, columns);
            }
            if (column % 2 == 0) {
                hil_dsp_matrix_columns(p, scratch, count, columns + column % 4 * 2 * p->units,
                                       others > 1, out + row * p->columns + column);
            }
        }
    }
}

HIL_INLINE void hil_dsp_batch_matmul_s8(const struct hil_dsp_batch_matmul_s8 *p, const int8_t *a,
                                        const int8_t *b, int8_t *out, void *scratch) {
    HIL_BATCH_MATMUL_EACH(p, a, b, {
        hil_dsp_matrix_product(p, a, b, out, (uint32_t *)scratch);
        out += p->rows * p->columns;
    });
}

#endif
