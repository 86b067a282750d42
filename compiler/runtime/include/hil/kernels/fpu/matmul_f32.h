/* Rows of floats times float weights, four at a time: 1x1 convolutions, whose pixels are the rows,
 * and fully connected layers. */
#ifndef HIL_KERNELS_FPU_MATMUL_F32_H
#define HIL_KERNELS_FPU_MATMUL_F32_H

#include "hil/kernels/fpu/columns_f32.h"

/*@kernel
name = "hil_fpu_matmul_f32"
requires = ["dsp", "fpu"]
inputs = ["float"]
outputs = ["float"]
scratch = "32 * units"
order = ["pixels 4"]
reads = "rows"
code = 2000
[cost]
row = "rows"
copied = "rows * depth"
four = "(rows + 3) // 4"
block = "four * ((columns + 3) // 4)"
unit = "block * units"
@*/
struct hil_fpu_matmul_f32 {
    int32_t rows;  /* of values, each by itself */
    int32_t depth; /* values of a row */
    HIL_FPU_COLUMNS_F32_FIELDS;
};

HIL_INLINE void hil_fpu_matmul_f32(const struct hil_fpu_matmul_f32 *p, const float *in, float *out,
                                   void *scratch) {
    const struct hil_fpu_columns_f32 columns = HIL_FPU_COLUMNS_F32(p);
    float *const x = (float *)scratch;
    for (int32_t left = p->rows; left > 0; left -= 4) {
        const int32_t count = left < 4 ? left : 4;
        for (int32_t row = 0; row < count; row++) {
            const int32_t placed = hil_fpu_place(x + 2 * row, 0, in, p->depth);
            hil_fpu_place_zeros(x + 2 * row, placed, p->depth % 2);
            in += p->depth;
        }
        hil_fpu_columns_f32(&columns, x, count, out);
        out += count * p->columns;
    }
}

#endif
