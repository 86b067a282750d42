/* Convolution of int8 images: the pixels under three windows are gathered into rows, which are
 * multiplied with the filters. */
#ifndef HIL_KERNELS_DSP_CONV2D_S8_H
#define HIL_KERNELS_DSP_CONV2D_S8_H

#include "hil/kernels/dsp/clamp_s8.h"
#include "hil/kernels/dsp/columns_s8.h"
#include "hil/kernels/generic/patch.h"

/*@kernel
name = "hil_dsp_conv2d_s8"
requires = ["dsp"]
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "36 * units"
order = ["pixels 3"]
reads = "window"
code = 1094
band_code = 1150
[cost]
window_row = "batch * out_h * out_w * filter_h"
unit = "batch * out_h * out_w * units"
block = "((batch * out_h * out_w + 2) // 3) * ((out_c + 1) // 2)"
block_unit = "block * units"
split = "block * (part < units)"
part_block = "split * ((units + part - 1) // part)"
clamped = "batch * out_h * out_w * out_c * (out_max - out_min != 255)"
@*/
struct hil_dsp_conv2d_s8 {
    HIL_IMAGES_FIELDS;
    int32_t out_c; /* output channels */
    HIL_WINDOW_FIELDS;
    int32_t units;         /* of four elements under a window */
    int32_t part;          /* units of a part of these; at least as many as there are: no parts */
    int32_t in_zero_point; /* the input that stands for 0.0, which pixels outside the image have */
    HIL_OUTPUT_RANGE_FIELDS;
    const int16_t
        *weights;         /* these as in struct hil_dsp_columns_s8; a column is an output channel */
    const int32_t *pairs; /* HIL_DSP_PAIR_WORDS a pair of columns */
};

HIL_INLINE void hil_dsp_conv2d_s8(const struct hil_dsp_conv2d_s8 *p, const int8_t *in, int8_t *out,
                                  void *scratch) {
    const struct hil_dsp_columns_s8 columns = {
        .depth = p->filter_h * p->filter_w * p->in_c,
        .part = p->part,
        .count = p->out_c,
        .out_zero_point = p->out_zero_point,
        .out_min = p->out_min,
        .out_max = p->out_max,
        .weights = p->weights,
        .pairs = p->pairs,
    };
    const struct hil_patch window = HIL_PATCH_OF(p, 1, p->in_zero_point);
    uint32_t *const rows = (uint32_t *)scratch;
    int8_t *const outputs = out;
    int8_t *const gathered = (int8_t *)(rows + 6 * p->units);
    /* A gathered row starts at a whole word, so that it is copied in words. */
    const int32_t row_bytes = 4 * p->units;
    for (int32_t images = p->batch; images > 0; images--) {
        int32_t y = -p->pad_top;
        int32_t x = -p->pad_left;
        int32_t out_x = 0;
        for (int32_t left = p->out_h * p->out_w; left > 0; left -= 3) {
            const int32_t wanted = left < 3 ? left : 3;
            for (int32_t i = 0; i < wanted; i++) {
                hil_gather_patch(&window, in, y, x, gathered + i * row_bytes);
                x += p->stride_w;
                out_x++;
                if (out_x == p->out_w) {
                    out_x = 0;
                    x = -p->pad_left;
                    y += p->stride_h;
                }
            }
            const int8_t *const b = left > 1 ? gathered + row_bytes : gathered;
            const int8_t *const c = left > 2 ? b + row_bytes : b;
            int8_t *const out_b = left > 1 ? out + p->out_c : out;
            int8_t *const out_c = left > 2 ? out_b + p->out_c : out_b;
            hil_dsp_widen_rows(gathered, b, c, columns.depth, rows);
            hil_dsp_columns_s8_three_rows(&columns, rows, out, out_b, out_c);
            out = out_c + p->out_c;
        }
        in += p->in_h * p->in_w * p->in_c;
    }
    hil_dsp_clamp_s8(outputs, p->batch * p->out_h * p->out_w * p->out_c, p->out_min, p->out_max);
}

#endif
