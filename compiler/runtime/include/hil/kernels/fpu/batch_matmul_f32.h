/* Products of two float matrices, both computed when the model runs: some columns of the second are
 * packed as weights are, and multiplied by all rows of the first. */
#ifndef HIL_KERNELS_FPU_BATCH_MATMUL_F32_H
#define HIL_KERNELS_FPU_BATCH_MATMUL_F32_H

#include "hil/kernels/fpu/columns_f32.h"
#include "hil/kernels/generic/batch_matmul.h"
#include "hil/kernels/generic/lanes_f32.h"

/*@kernel
name = "hil_fpu_batch_matmul_f32"
requires = ["dsp", "fpu"]
inputs = ["float", "float"]
outputs = ["float"]
scratch = "32 * units + group * (8 * units + 4)"
order = "none"
code = 2600
[cost]
batch = "batches"
packed = "batch * columns * depth"
chunk = "batch * ((columns + group - 1) // group)"
row = "chunk * rows"
copied = "row * depth"
four = "chunk * ((rows + 3) // 4)"
block = "batch * ((columns + 3) // 4) * ((rows + 3) // 4)"
unit = "block * units"
@*/
struct hil_fpu_batch_matmul_f32 {
    HIL_BATCH_MATMUL_FIELDS;
    int32_t units; /* of two elements, the depth rounded up */
    int32_t group; /* columns that are packed at a time, a multiple of four */
};

/* Places a row of the first matrix. */
HIL_INLINE void hil_fpu_place_row(const struct hil_fpu_batch_matmul_f32 *p, const float *a,
                                  float *lane) {
    if (p->a_step == 1) {
        hil_fpu_place(lane, 0, a, p->depth);
    } else {
        for (int32_t k = 0; k < p->depth; k++) {
            *hil_fpu_placed(lane, k) = a[k * p->a_step];
        }
    }
    hil_fpu_place_zeros(lane, p->depth, p->depth % 2);
}

/* A product of two matrices. */
HIL_INLINE void hil_fpu_product_f32(const struct hil_fpu_batch_matmul_f32 *p, const float *a,
                                    const float *b, float *out, float *x) {
    float *const stream = x + 8 * p->units;
    for (int32_t first = 0; first < p->columns; first += p->group) {
        const int32_t left = p->columns - first;
        const struct hil_fpu_columns_f32 columns = {
            .units = p->units,
            .columns = left < p->group ? left : p->group,
            .out_min = -__builtin_inff(),
            .out_max = __builtin_inff(),
            .stream = stream,
            .step = p->columns,
        };
        hil_lanes_pack_columns(b + first * p->b_column, p->b_column, p->b_step, p->depth,
                               columns.columns, stream);
        for (int32_t row = 0; row < p->rows; row += 4) {
            const int32_t rows = p->rows - row < 4 ? p->rows - row : 4;
            for (int32_t i = 0; i < rows; i++) {
                hil_fpu_place_row(p, a + (row + i) * p->a_row, x + 2 * i);
            }
            hil_fpu_columns_f32(&columns, x, rows, out + row * p->columns + first);
        }
    }
}

HIL_INLINE void hil_fpu_batch_matmul_f32(const struct hil_fpu_batch_matmul_f32 *p, const float *a,
                                         const float *b, float *out, void *scratch) {
    int32_t index[HIL_WALK_LOOPS] = {0};
    for (int32_t batch = 0; batch < p->batches; batch++) {
        hil_fpu_product_f32(p, a, b, out, (float *)scratch);
        out += p->rows * p->columns;
        const int loop = hil_walk_next(index, p->counts);
        a += p->a_jumps[loop];
        b += p->b_jumps[loop];
    }
}

#endif
