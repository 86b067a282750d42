/* Depthwise convolution of float images: one pixel at a time, its channels one after the other,
 * each with its taps in registers. Windows inside the image are read in place; windows over the
 * border are gathered first, so that neither tests bounds. */
#ifndef HIL_KERNELS_GENERIC_DEPTHWISE_CONV2D_F32_H
#define HIL_KERNELS_GENERIC_DEPTHWISE_CONV2D_F32_H

#include "hil/kernels/generic/clamp_f32.h"
#include "hil/kernels/generic/patch.h"

/*@kernel
name = "hil_generic_depthwise_conv2d_f32"
requires = []
inputs = ["float"]
outputs = ["float"]
scratch = "4 * filter_h * filter_w * in_c"
order = ["pixels 1", "channels 1"]
reads = "channel window"
code = 1068
band_code = 1100
[cost]
pixel = "batch * out_h * out_w"
output = "pixel * in_c * depth_multiplier"
mac = "output * filter_h * filter_w"
@*/
struct hil_generic_depthwise_conv2d_f32 {
    HIL_IMAGES_FIELDS;
    int32_t depth_multiplier; /* outputs of each input channel, next to each other */
    HIL_WINDOW_FIELDS;
    float out_min;        /* the least output */
    float out_max;        /* the largest output */
    const float *bias;    /* of each output channel */
    const float *weights; /* [in_c * depth_multiplier][filter_h][filter_w] */
};

/* All channels of one output pixel; the taps lie row_step and column_step bytes apart. */
HIL_INLINE void hil_depthwise_conv2d_f32_pixel(const struct hil_generic_depthwise_conv2d_f32 *p,
                                               const float *in, int32_t row_step,
                                               int32_t column_step, float *out) {
    const float *w = p->weights;
    int32_t channel = 0;
    for (int32_t in_channel = 0; in_channel < p->in_c; in_channel++) {
        for (int32_t copies = p->depth_multiplier; copies > 0; copies--) {
            float sum = 0.0F;
#pragma GCC unroll 5
            for (int32_t y = 0; y < p->filter_h; y++) {
#pragma GCC unroll 5
                for (int32_t x = 0; x < p->filter_w; x++) {
                    sum += in[y * row_step + x * column_step] * w[y * p->filter_w + x];
                }
            }
            w += p->filter_h * p->filter_w;
            out[channel] = hil_clamp_f32(sum + p->bias[channel], p->out_min, p->out_max);
            channel++;
        }
        in++;
    }
}

HIL_INLINE void hil_generic_depthwise_conv2d_f32(const struct hil_generic_depthwise_conv2d_f32 *p,
                                                 const float *in, float *out, void *scratch) {
    const struct hil_patch window = HIL_PATCH_OF(p, (int32_t)sizeof(float), 0);
    /* Windows that start within these are inside the image. */
    const int32_t last_y = p->in_h - ((p->filter_h - 1) * p->dilation_h + 1);
    const int32_t last_x = p->in_w - ((p->filter_w - 1) * p->dilation_w + 1);
    for (int32_t images = p->batch; images > 0; images--) {
        int32_t y = -p->pad_top;
        for (int32_t out_y = p->out_h; out_y > 0; out_y--) {
            int32_t x = -p->pad_left;
            for (int32_t out_x = p->out_w; out_x > 0; out_x--) {
                if (y >= 0 && y <= last_y && x >= 0 && x <= last_x) {
                    hil_depthwise_conv2d_f32_pixel(p, in + (y * p->in_w + x) * p->in_c,
                                                   p->dilation_h * p->in_w * p->in_c,
                                                   p->dilation_w * p->in_c, out);
                } else {
                    hil_gather_patch(&window, in, y, x, scratch);
                    hil_depthwise_conv2d_f32_pixel(p, (const float *)scratch, p->filter_w * p->in_c,
                                                   p->in_c, out);
                }
                out += p->in_c * p->depth_multiplier;
                x += p->stride_w;
            }
            y += p->stride_h;
        }
        in += p->in_h * p->in_w * p->in_c;
    }
}

#endif
