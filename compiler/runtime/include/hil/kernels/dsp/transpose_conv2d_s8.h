/* Transposed convolutions of int8 images, phase by phase, three windows of a row at a time. */
#ifndef HIL_KERNELS_DSP_TRANSPOSE_CONV2D_S8_H
#define HIL_KERNELS_DSP_TRANSPOSE_CONV2D_S8_H

#include "hil/kernels/dsp/clamp_s8.h"
#include "hil/kernels/dsp/columns_s8.h"
#include "hil/kernels/dsp/widen.h"
#include "hil/kernels/generic/patch.h"
#include "hil/kernels/generic/phases.h"

/*@kernel
name = "hil_dsp_transpose_conv2d_s8"
requires = ["dsp"]
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "36 * units"
order = "none"
code = 2400
[cost]
window = "batch * out_h * out_w"
copied = "batch * in_h * in_w * filter_h * filter_w * in_c"
output = "window * out_c"
mac = "copied * out_c"
@*/
struct hil_dsp_transpose_conv2d_s8 {
    HIL_PHASES_FIELDS;
    int32_t units;         /* of four elements, of the deepest phase */
    int32_t part;          /* of these: struct hil_dsp_columns_s8 */
    int32_t in_zero_point; /* the input that stands for 0.0, which pixels outside the image have */
    HIL_OUTPUT_RANGE_FIELDS;
    const int16_t *weights; /* of each phase as in struct hil_dsp_columns_s8 */
    const int32_t *pairs;   /* of each phase HIL_DSP_PAIR_WORDS a pair of columns */
};

HIL_INLINE void hil_dsp_transpose_conv2d_s8(const struct hil_dsp_transpose_conv2d_s8 *p,
                                            const int8_t *in, int8_t *out, void *scratch) {
    uint32_t *const rows = (uint32_t *)scratch;
    int8_t *const gathered = (int8_t *)(rows + 6 * p->units);
    /* A gathered row starts at a whole word, so that it is copied in words. */
    const int32_t row_bytes = 4 * p->units;
    const int32_t step = p->stride_w * p->out_c;
    for (int32_t images = p->batch; images > 0; images--) {
        for (int32_t i = 0; i < p->count; i++) {
            const struct hil_phase phase = hil_phase_of(p->phases + HIL_PHASE_WORDS * i);
            const struct hil_dsp_columns_s8 columns = {
                .depth = phase.filter_h * phase.filter_w * p->in_c,
                .part = p->part,
                .count = p->out_c,
                .out_zero_point = p->out_zero_point,
                .out_min = p->out_min,
                .out_max = p->out_max,
                .weights = p->weights + phase.weights,
                .pairs = p->pairs + phase.scales,
            };
            const struct hil_patch window = {
                .in_h = p->in_h,
                .in_w = p->in_w,
                .pixel_step = p->in_c,
                .pixel_bytes = p->in_c,
                .filter_h = phase.filter_h,
                .filter_w = phase.filter_w,
                .dilation_h = 1,
                .dilation_w = 1,
                .pad_value = p->in_zero_point,
                .pad_bytes = 1,
            };
            for (int32_t row = 0; row < phase.rows; row++) {
                const int32_t y = phase.out_y + row * p->stride_h;
                int8_t *to = out + (y * p->out_w + phase.out_x) * p->out_c;
                int32_t x = phase.in_x;
                for (int32_t left = phase.columns; left > 0; left -= 3) {
                    const int32_t wanted = left < 3 ? left : 3;
                    for (int32_t lane = 0; lane < wanted; lane++) {
                        hil_gather_patch(&window, in, phase.in_y + row, x,
                                         gathered + lane * row_bytes);
                        x++;
                    }
                    const int8_t *const b = left > 1 ? gathered + row_bytes : gathered;
                    const int8_t *const c = left > 2 ? b + row_bytes : b;
                    int8_t *const to_b = left > 1 ? to + step : to;
                    int8_t *const to_c = left > 2 ? to_b + step : to_b;
                    hil_dsp_widen_rows(gathered, b, c, columns.depth, rows);
                    hil_dsp_columns_s8_three_rows(&columns, rows, to, to_b, to_c);
                    to = to_c + step;
                }
            }
        }
        in += p->in_h * p->in_w * p->in_c;
        hil_dsp_clamp_s8(out, p->out_h * p->out_w * p->out_c, p->out_min, p->out_max);
        out += p->out_h * p->out_w * p->out_c;
    }
}

#endif
