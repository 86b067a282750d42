/* Transposed convolutions of int16 images, phase by phase, some windows of a row at a time. */
#ifndef HIL_KERNELS_DSP_TRANSPOSE_CONV2D_S16_H
#define HIL_KERNELS_DSP_TRANSPOSE_CONV2D_S16_H

#include "hil/kernels/dsp/columns_s16.h"
#include "hil/kernels/generic/patch.h"
#include "hil/kernels/generic/phases.h"

/*@kernel
name = "hil_dsp_transpose_conv2d_s16"
requires = ["dsp"]
inputs = ["int16_t"]
outputs = ["int16_t"]
scratch = "8 * units * group + 32 * units + 4 * ((group * columns + 1) // 2)"
order = "none"
code = 1900
[cost]
window = "batch * out_h * out_w"
copied = "batch * in_h * in_w * filter_h * filter_w * in_c"
output = "window * columns"
mac = "copied * columns"
widened = "mac * (1 - wide)"
long_output = "output * long_sums"
long_mac = "mac * long_sums"
@*/
struct hil_dsp_transpose_conv2d_s16 {
    HIL_PHASES_FIELDS;
    int32_t in_zero_point; /* of positions outside the image */
    /* Of the deepest phase; the stream is that of all phases. */
    HIL_DSP_COLUMNS_S16_FIELDS;
};

HIL_INLINE void hil_dsp_transpose_conv2d_s16(const struct hil_dsp_transpose_conv2d_s16 *p,
                                             const int16_t *in, int16_t *out, void *scratch) {
    uint32_t *const rows = (uint32_t *)scratch;
    /* Behind the rows and the widened columns: two windows, and a group's outputs. */
    void *const behind = rows + HIL_DSP_S16_ROWS_WORDS(p) + 4 * p->units;
    int16_t *const gathered = (int16_t *)behind;
    int16_t *const second = gathered + 4 * p->units;
    int16_t *const made = second + 4 * p->units;
    for (int32_t images = p->batch; images > 0; images--) {
        for (int32_t i = 0; i < p->count; i++) {
            const struct hil_phase phase = hil_phase_of(p->phases + HIL_PHASE_WORDS * i);
            const int32_t depth = phase.filter_h * phase.filter_w * p->in_c;
            const struct hil_dsp_columns_s16 columns = {
                .units = (depth + 3) / 4,
                .columns = p->columns,
                .group = p->group,
                .wide = p->wide,
                .shifted = p->shifted,
                .long_sums = p->long_sums,
                .out_min = p->out_min,
                .out_max = p->out_max,
                .stream = p->stream + phase.weights,
            };
            const struct hil_patch window = {
                .in_h = p->in_h,
                .in_w = p->in_w,
                .pixel_step = p->in_c * (int32_t)sizeof *in,
                .pixel_bytes = p->in_c * (int32_t)sizeof *in,
                .filter_h = phase.filter_h,
                .filter_w = phase.filter_w,
                .dilation_h = 1,
                .dilation_w = 1,
                .pad_value = p->in_zero_point,
                .pad_bytes = 2,
            };
            for (int32_t row = 0; row < phase.rows; row++) {
                const int32_t y = phase.out_y + row * p->stride_h;
                int16_t *at = out + (y * p->out_w + phase.out_x) * p->columns;
                int32_t x = phase.in_x;
                for (int32_t left = phase.columns; left > 0; left -= p->group) {
                    const int32_t count = left < p->group ? left : p->group;
                    uint32_t *to = rows;
                    for (int32_t pixel = 0; pixel < count; pixel++) {
                        int16_t *const own = pixel % 2 == 0 ? gathered : second;
                        hil_gather_patch(&window, in, phase.in_y + row, x, own);
                        x++;
                        if (pixel % 2 != 0 || pixel + 1 == count) {
                            to = hil_dsp_s16_place(gathered, own, depth, to);
                        }
                    }
                    hil_dsp_columns_s16(&columns, rows, count, made);
                    for (int32_t pixel = 0; pixel < count; pixel++) {
                        memcpy(at, made + pixel * p->columns, (size_t)p->columns * sizeof *at);
                        at += p->stride_w * p->columns;
                    }
                }
            }
        }
        in += p->in_h * p->in_w * p->in_c;
        out += p->out_h * p->out_w * p->columns;
    }
}

#endif
