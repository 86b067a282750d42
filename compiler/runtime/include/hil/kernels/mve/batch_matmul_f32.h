/* Products of two float matrices, both computed when the model runs: some columns of the second are
 * packed as weights are, and multiplied by all rows of the first, six at a time. */
#ifndef HIL_KERNELS_MVE_BATCH_MATMUL_F32_H
#define HIL_KERNELS_MVE_BATCH_MATMUL_F32_H

#include "hil/kernels/generic/batch_matmul.h"
#include "hil/kernels/generic/lanes_f32.h"
#include "hil/kernels/mve/columns_f32.h"

/*@kernel
name = "hil_batch_matmul_f32_mve"
requires = ["mve", "fpu"]
inputs = ["float", "float"]
outputs = ["float"]
scratch = "48 * units + group * (8 * units + 4)"
order = "none"
code = 1500
[cost.counts]
batch = "batches"
packed = "batch * columns * depth"
chunk = "batch * ((columns + group - 1) // group)"
row = "chunk * rows"
copied = "row * depth"
six = "chunk * ((rows + 5) // 6)"
block = "batch * ((columns + 3) // 4) * ((rows + 5) // 6)"
unit = "block * units"
[cost.on.cortex-m55]
batch = 30
packed = 3
chunk = 40
row = 25
copied = 0.9
six = 90
block = 75
unit = 15.75
@*/
struct hil_batch_matmul_f32_mve {
    HIL_BATCH_MATMUL_FIELDS;
    int32_t units; /* of two elements, the depth rounded up */
    int32_t group; /* columns that are packed at a time, a multiple of four */
};

/* A product of two matrices. */
HIL_INLINE void hil_mve_product_f32(const struct hil_batch_matmul_f32_mve *p, const float *a,
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
        hil_lanes_pack_columns(b + first * p->b_column, p->b_column, p->b_step, p->depth,
                               columns.columns, stream);
        for (int32_t row = 0; row < p->rows; row += HIL_MVE_F32_ROWS) {
            const int32_t rows =
                p->rows - row < HIL_MVE_F32_ROWS ? p->rows - row : HIL_MVE_F32_ROWS;
            for (int32_t i = 0; i < rows; i++) {
                const float *const from = a + (row + i) * p->a_row;
                if (p->a_step == 1) {
                    hil_mve_place_f32(x + i, 0, from, p->depth);
                } else {
                    for (int32_t k = 0; k < p->depth; k++) {
                        x[i + HIL_MVE_F32_ROWS * k] = from[k * p->a_step];
                    }
                }
                hil_mve_place_zeros_f32(x + i, p->depth, p->depth % 2);
            }
            hil_mve_columns_f32(&columns, x, rows, out + row * p->columns + first);
        }
    }
}

HIL_INLINE void hil_batch_matmul_f32_mve(const struct hil_batch_matmul_f32_mve *p, const float *a,
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

#endif
