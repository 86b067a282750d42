/* Products of two float matrices, both computed when the model runs: some columns of the second are
 * packed as weights are, and multiplied by all rows of the first, six at a time. */
#ifndef HIL_KERNELS_MVE_BATCH_MATMUL_F32_H
#define HIL_KERNELS_MVE_BATCH_MATMUL_F32_H

#include <arm_mve.h>

#include "hil/kernels/generic/batch_matmul.h"
#include "hil/kernels/generic/lanes_f32.h"
#include "hil/kernels/mve/columns_f32.h"

/*@kernel
name = "hil_mve_batch_matmul_f32"
requires = ["mve", "fpu"]
inputs = ["float", "float"]
outputs = ["float"]
scratch = "48 * units + group * (8 * units + 4)"
order = "none"
code = 2200
[cost]
batch = "batches"
packed = "batch * columns * depth"
chunk = "batch * ((columns + group - 1) // group)"
row = "chunk * rows"
copied = "row * depth"
six = "chunk * ((rows + 5) // 6)"
block = "batch * ((columns + 3) // 4) * ((rows + 5) // 6)"
unit = "block * units"
odd = "six * (columns - columns // 4 * 4)"
@*/
struct hil_mve_batch_matmul_f32 {
    HIL_BATCH_MATMUL_FIELDS;
    int32_t units; /* of two elements, the depth rounded up */
    int32_t group; /* columns that are packed at a time, a multiple of four */
};

/* Packs columns as hil_lanes_pack_columns() does: those whose elements, or which themselves, follow
 * each other, four at a time. */
HIL_INLINE void hil_mve_pack_columns_f32(const struct hil_mve_batch_matmul_f32 *p, const float *b,
                                         int32_t columns, float *to) {
    const int32_t block = 8 * p->units + 4;
    const int32_t whole = p->b_column == 1 || p->b_step == 1 ? columns / 4 * 4 : 0;
    for (int32_t left = whole; left > 0; left -= 4) {
        vstrwq_f32(to + block - 8, vdupq_n_f32(0.0F));
        vstrwq_f32(to + block - 4, vdupq_n_f32(0.0F));
        if (p->b_column == 1) {
            const float *from = b;
            float *place = to;
#pragma GCC unroll 4
            for (int32_t k = p->depth; k > 0; k--) {
                vstrwq_f32(place, vldrwq_f32(from));
                from += p->b_step;
                place += 4;
            }
        } else {
            for (int32_t i = 0; i < 4; i++) {
                hil_mve_spread_f32(to + i, HIL_MVE_F32_FEW_ROWS, b + i * p->b_column, p->depth);
            }
        }
        b += 4 * p->b_column;
        to += block;
    }
    hil_lanes_pack_columns(b, p->b_column, p->b_step, p->depth, columns - whole, to);
}

/* A product of two matrices. */
HIL_INLINE void hil_mve_product_f32(const struct hil_mve_batch_matmul_f32 *p, const float *a,
                                    const float *b, float *out, float *x) {
    float *const stream = x + 2 * HIL_MVE_F32_ROWS * p->units;
    for (int32_t first = 0; first < p->columns; first += p->group) {
        const int32_t left = p->columns - first;
        const struct hil_mve_columns_f32 columns = {
            .units = p->units,
            .columns = left < p->group ? left : p->group,
            .out_min = -__builtin_inff(),
            .out_max = __builtin_inff(),
            .stream = stream,
            .step = p->columns,
        };
        hil_mve_pack_columns_f32(p, b + first * p->b_column, columns.columns, stream);
        int32_t rows;
        for (int32_t row = 0; row < p->rows; row += rows) {
            const int32_t below = p->rows - row;
            /* Seven and eight are two fours. */
            rows = below == HIL_MVE_F32_ROWS + 1 || below == HIL_MVE_F32_ROWS + 2
                       ? HIL_MVE_F32_FEW_ROWS
                       : HIL_MVE_F32_ROWS;
            rows = below < rows ? below : rows;
            const float *const from = a + row * p->a_row;
            if (p->a_step == 1) {
                hil_mve_place_rows_f32(x, from, p->a_row, p->depth, rows);
            } else {
                for (int32_t i = 0; i < rows; i++) {
                    for (int32_t k = 0; k < p->depth; k++) {
                        x[i + HIL_MVE_F32_ROWS * k] = from[i * p->a_row + k * p->a_step];
                    }
                    hil_mve_place_zeros_f32(x + i, p->depth, p->depth % 2);
                }
            }
            hil_mve_columns_f32(&columns, x, rows, out + row * p->columns + first);
        }
    }
}

HIL_INLINE void hil_mve_batch_matmul_f32(const struct hil_mve_batch_matmul_f32 *p, const float *a,
                                         const float *b, float *out, void *scratch) {
    int32_t index[HIL_WALK_LOOPS] = {0};
    for (int32_t batch = 0; batch < p->batches; batch++) {
        hil_mve_product_f32(p, a, b, out, (float *)scratch);
        out += p->rows * p->columns;
        const int loop = hil_walk_next(index, p->counts);
        a += p->a_jumps[loop];
        b += p->b_jumps[loop];
    }
}

/*@kernel
name = "hil_mve_batch_matmul_f32_rows"
requires = ["mve", "fpu"]
inputs = ["float", "float"]
outputs = ["float"]
scratch = "0"
order = "none"
code = 700
[cost]
batch = "batches"
row = "batch * ((rows + 1) // 2)"
block = "row * ((columns + 7) // 8)"
tap = "block * depth"
@*/
struct hil_mve_batch_matmul_f32_rows {
    HIL_BATCH_MATMUL_FIELDS;
};

/* Four columns of an element of depth, of which a part may be there. */
HIL_INLINE float32x4_t hil_mve_four_columns_f32(const struct hil_mve_batch_matmul_f32_rows *p,
                                                const float *b, uint32x4_t offsets,
                                                int32_t columns) {
    if (columns >= 4) {
        return p->b_column == 1 ? vldrwq_f32(b) : vldrwq_gather_shifted_offset_f32(b, offsets);
    }
    const mve_pred16_t there = vctp32q((uint32_t)(columns < 0 ? 0 : columns));
    return p->b_column == 1 ? vldrwq_z_f32(b, there)
                            : vldrwq_gather_shifted_offset_z_f32(b, offsets, there);
}

HIL_INLINE void hil_mve_store_columns_f32(float *out, float32x4_t sums, int32_t columns) {
    if (columns >= 4) {
        vstrwq_f32(out, sums);
    } else {
        vstrwq_p_f32(out, sums, vctp32q((uint32_t)(columns < 0 ? 0 : columns)));
    }
}

/* One row or two, whose elements are far from each other, by up to eight columns. The second matrix
 * is read where it is: packing it takes longer than so few rows of products. */
HIL_INLINE void hil_mve_rows_by_eight_f32(const struct hil_mve_batch_matmul_f32_rows *p,
                                          const float *a, const float *b, float *out, int two,
                                          int32_t columns) {
    const uint32x4_t offsets = vmulq_n_u32(vidupq_n_u32(0, 1), (uint32_t)p->b_column);
    const float *other = two ? a + p->a_row : a;
    float32x4_t first = vdupq_n_f32(0.0F), second = first, third = first, fourth = first;
    for (int32_t k = 0; k < p->depth; k++) {
        const float32x4_t low = hil_mve_four_columns_f32(p, b, offsets, columns);
        const float32x4_t high =
            hil_mve_four_columns_f32(p, b + 4 * p->b_column, offsets, columns - 4);
        first = vfmaq_n_f32(first, low, *a);
        second = vfmaq_n_f32(second, high, *a);
        a += p->a_step;
        if (two) {
            third = vfmaq_n_f32(third, low, *other);
            fourth = vfmaq_n_f32(fourth, high, *other);
            other += p->a_step;
        }
        b += p->b_step;
    }
    hil_mve_store_columns_f32(out, first, columns);
    hil_mve_store_columns_f32(out + 4, second, columns - 4);
    if (two) {
        hil_mve_store_columns_f32(out + p->columns, third, columns);
        hil_mve_store_columns_f32(out + p->columns + 4, fourth, columns - 4);
    }
}

HIL_INLINE void hil_mve_rows_product_f32(const struct hil_mve_batch_matmul_f32_rows *p,
                                         const float *a, const float *b, float *out, int two) {
    const int32_t whole = p->columns / 8 * 8;
    for (int32_t column = 0; column < whole; column += 8) {
        hil_mve_rows_by_eight_f32(p, a, b + column * p->b_column, out + column, two, 8);
    }
    if (whole < p->columns) {
        hil_mve_rows_by_eight_f32(p, a, b + whole * p->b_column, out + whole, two,
                                  p->columns - whole);
    }
}

HIL_INLINE void hil_mve_batch_matmul_f32_rows(const struct hil_mve_batch_matmul_f32_rows *p,
                                              const float *a, const float *b, float *out) {
    int32_t index[HIL_WALK_LOOPS] = {0};
    for (int32_t batch = 0; batch < p->batches; batch++) {
        for (int32_t row = 0; row + 1 < p->rows; row += 2) {
            hil_mve_rows_product_f32(p, a + row * p->a_row, b, out, 1);
            out += 2 * p->columns;
        }
        if (p->rows % 2) {
            hil_mve_rows_product_f32(p, a + (p->rows - 1) * p->a_row, b, out, 0);
            out += p->columns;
        }
        const int loop = hil_walk_next(index, p->counts);
        a += p->a_jumps[loop];
        b += p->b_jumps[loop];
    }
}

#endif
