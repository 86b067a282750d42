/* Transposed convolutions of float images, phase by phase, four windows of a row at a time. */
#ifndef HIL_KERNELS_FPU_TRANSPOSE_CONV2D_F32_H
#define HIL_KERNELS_FPU_TRANSPOSE_CONV2D_F32_H

#include "hil/kernels/fpu/columns_f32.h"
#include "hil/kernels/generic/lanes_f32.h"
#include "hil/kernels/generic/phases.h"

/*@kernel
name = "hil_fpu_transpose_conv2d_f32"
requires = ["dsp", "fpu"]
inputs = ["float"]
outputs = ["float"]
scratch = "32 * units"
order = "none"
code = 2700
[cost]
window = "batch * out_h * out_w"
copied = "batch * in_h * in_w * filter_h * filter_w * in_c"
output = "window * ((out_c + 3) // 4 * 4)"
mac = "copied * ((out_c + 3) // 4 * 4)"
@*/
struct hil_fpu_transpose_conv2d_f32 {
    HIL_PHASES_FIELDS;
    int32_t units;       /* of two elements, of the deepest phase */
    float out_min;       /* the least output */
    float out_max;       /* the largest output */
    const float *stream; /* of fours of columns, phase by phase: columns_f32.h draws it */
};

HIL_INLINE void hil_fpu_transpose_conv2d_f32(const struct hil_fpu_transpose_conv2d_f32 *p,
                                             const float *in, float *out, void *scratch) {
    float *const x = (float *)scratch;
    for (int32_t images = p->batch; images > 0; images--) {
        for (int32_t i = 0; i < p->count; i++) {
            const struct hil_phase phase = hil_phase_of(p->phases + HIL_PHASE_WORDS * i);
            const struct hil_windows windows = {
                .batch = 1,
                .in_h = p->in_h,
                .in_w = p->in_w,
                .in_c = p->in_c,
                .out_h = phase.rows,
                .out_w = phase.columns,
                .filter_h = phase.filter_h,
                .filter_w = phase.filter_w,
                .stride_h = 1,
                .stride_w = 1,
                .dilation_h = 1,
                .dilation_w = 1,
                .pad_top = -phase.in_y,
                .pad_left = -phase.in_x,
            };
            const struct hil_fpu_columns_f32 columns = {
                .units = (phase.filter_h * phase.filter_w * p->in_c + 1) / 2,
                .columns = p->out_c,
                .out_min = p->out_min,
                .out_max = p->out_max,
                .stream = p->stream + phase.weights,
                .step = p->stride_w * p->out_c,
            };
            struct hil_windows_at at = {phase.in_y, phase.in_x, 0};
            for (int32_t row = 0; row < phase.rows; row++) {
                const int32_t y = phase.out_y + row * p->stride_h;
                float *to = out + (y * p->out_w + phase.out_x) * p->out_c;
                for (int32_t left = phase.columns; left > 0; left -= 4) {
                    const int32_t count = left < 4 ? left : 4;
                    for (int32_t lane = 0; lane < count; lane++) {
                        const int32_t placed = hil_lanes_gather(&windows, in, &at, x + 2 * lane,
                                                                hil_fpu_place, hil_fpu_place_zeros);
                        hil_fpu_place_zeros(x + 2 * lane, placed, placed % 2);
                        hil_windows_next(&windows, &at);
                    }
                    hil_fpu_columns_f32(&columns, x, count, to);
                    to += count * columns.step;
                }
            }
        }
        in += p->in_h * p->in_w * p->in_c;
        out += p->out_h * p->out_w * p->out_c;
    }
}

#endif
