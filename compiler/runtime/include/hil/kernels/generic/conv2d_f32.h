/* Convolution of float images: the pixels under each window are gathered into a row, and two rows
 * at a time are multiplied with the filters. */
#ifndef HIL_KERNELS_GENERIC_CONV2D_F32_H
#define HIL_KERNELS_GENERIC_CONV2D_F32_H

#include "hil/kernels/generic/columns_f32.h"
#include "hil/kernels/generic/patch.h"

/*@kernel
name = "hil_generic_conv2d_f32"
requires = []
inputs = ["float"]
outputs = ["float"]
scratch = "8 * filter_h * filter_w * in_c"
order = ["pixels 1 + 1 // batch"] # a pair may have a pixel of two images
reads = "window"
code = 1396
band_code = 1340
[cost]
window = "batch * out_h * out_w"
copied = "window * filter_h * filter_w * in_c"
output = "window * out_c"
mac = "output * filter_h * filter_w * in_c"
@*/
struct hil_generic_conv2d_f32 {
    HIL_IMAGES_FIELDS;
    int32_t out_c; /* output channels */
    HIL_WINDOW_FIELDS;
    float out_min;        /* the least output */
    float out_max;        /* the largest output */
    const float *bias;    /* of each output channel */
    const float *weights; /* a column is an output channel: see struct hil_columns_f32 */
};

HIL_INLINE void hil_generic_conv2d_f32(const struct hil_generic_conv2d_f32 *p, const float *in,
                                       float *out, void *scratch) {
    const struct hil_columns_f32 columns = {
        .depth = p->filter_h * p->filter_w * p->in_c,
        .count = p->out_c,
        .out_min = p->out_min,
        .out_max = p->out_max,
        .weights = p->weights,
        .bias = p->bias,
    };
    const struct hil_patch window = HIL_PATCH_OF(p, (int32_t)sizeof(float), 0);
    float *const rows = (float *)scratch;
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
                hil_columns_f32_two_rows(&columns, rows, out, out + p->out_c);
                out += 2 * p->out_c;
            }
            y += p->stride_h;
        }
        in += p->in_h * p->in_w * p->in_c;
    }
    if (gathered != 0) {
        hil_columns_f32_one_row(&columns, rows, out);
    }
}

#endif
