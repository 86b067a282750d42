/* Convolution of int8 images: the pixels under each window are gathered into a row, and two rows at
 * a time are multiplied with the filters. */
#ifndef HIL_KERNELS_GENERIC_CONV2D_S8_H
#define HIL_KERNELS_GENERIC_CONV2D_S8_H

#include "hil/kernels/generic/columns_s8.h"
#include "hil/kernels/generic/patch.h"

/*@kernel
name = "hil_generic_conv2d_s8"
requires = []
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "2 * filter_h * filter_w * in_c"
order = ["pixels 1 + 1 // batch"] # a pair may have a pixel of two images
reads = "window"
code = 1406
[cost]
window_row = "batch * out_h * out_w * filter_h"
copied = "window_row * filter_w * in_c"
block = "(batch * out_h * out_w // 2) * (out_c // 4)"
block_tap = "block * filter_h * filter_w * in_c"
column_tap = "(batch * out_h * out_w // 2) * (out_c % 4) * filter_h * filter_w * in_c"
last_mac = "(batch * out_h * out_w % 2) * out_c * filter_h * filter_w * in_c"
@*/
struct hil_generic_conv2d_s8 {
    HIL_IMAGES_FIELDS;
    int32_t out_c; /* output channels */
    HIL_WINDOW_FIELDS;
    int32_t in_zero_point; /* the input that stands for 0.0, which pixels outside the image have */
    HIL_REQUANTIZATION_FIELDS;
    const int8_t *weights; /* a column is an output channel, interleaved as columns_s8.h says */
};

HIL_INLINE void hil_generic_conv2d_s8(const struct hil_generic_conv2d_s8 *p, const int8_t *in,
                                      int8_t *out, void *scratch) {
    const struct hil_columns_s8 columns = {
        .depth = p->filter_h * p->filter_w * p->in_c,
        .count = p->out_c,
        .out_zero_point = p->out_zero_point,
        .out_min = p->out_min,
        .out_max = p->out_max,
        .per_channel = p->per_channel,
        .narrow = p->narrow,
        .bias = p->bias,
        .multipliers = p->multipliers,
        .shifts = p->shifts,
        .weights = p->weights,
    };
    const struct hil_patch window = HIL_PATCH_OF(p, 1, p->in_zero_point);
    int8_t *const rows = (int8_t *)scratch;
    int32_t gathered = 0;
    for (int32_t images = p->batch; images > 0; images--) {
        int32_t y = -p->pad_top;
        for (int32_t out_y = p->out_h; out_y > 0; out_y--) {
            int32_t x = -p->pad_left;
            for (int32_t out_x = p->out_w; out_x > 0; out_x--) {
                hil_gather_patch(&window, in, y, x, rows + gathered * columns.depth);
                x += p->stride_w;
                if (gathered == 0) {
                    gathered = 1;
                    continue;
                }
                gathered = 0;
                hil_columns_s8_two_rows(&columns, rows, out, out + p->out_c);
                out += 2 * p->out_c;
            }
            y += p->stride_h;
        }
        in += p->in_h * p->in_w * p->in_c;
    }
    if (gathered != 0) {
        hil_columns_s8_one_row(&columns, rows, out);
    }
}

#endif
