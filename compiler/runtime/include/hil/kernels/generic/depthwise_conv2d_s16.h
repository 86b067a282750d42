/* Depthwise convolution of int16 images, whose zero points are 0, with int8 weights: one pixel at a
 * time. Windows inside the image are read in place; windows over the border are gathered first, so
 * that neither tests bounds. */
#ifndef HIL_KERNELS_GENERIC_DEPTHWISE_CONV2D_S16_H
#define HIL_KERNELS_GENERIC_DEPTHWISE_CONV2D_S16_H

#include "hil/kernels/generic/matmul_s16.h"
#include "hil/kernels/generic/patch.h"

/* Sums of 64 bits, with a multiplier of 15 bits, rounded once. */
/*@kernel
name = "hil_generic_depthwise_conv2d_s16"
requires = []
inputs = ["int16_t"]
outputs = ["int16_t"]
scratch = "2 * filter_h * filter_w * in_c"
order = ["pixels 1", "channels 1"]
reads = "channel window"
code = 1000
[cost]
pixel = "batch * out_h * out_w"
output = "pixel * in_c * depth_multiplier"
mac = "output * filter_h * filter_w"
@*/
struct hil_generic_depthwise_conv2d_s16 {
    HIL_IMAGES_FIELDS;
    int32_t depth_multiplier; /* outputs of each input channel, next to each other */
    HIL_WINDOW_FIELDS;
    int32_t out_min;            /* the least output */
    int32_t out_max;            /* the largest output */
    int32_t per_channel;        /* 1: each channel has a multiplier and a shift, 0: one for all */
    const int8_t *weights;      /* [in_c * depth_multiplier][filter_h][filter_w] */
    const int32_t *bias;        /* of each channel the lower word, then the upper one */
    const int16_t *multipliers; /* of each output channel, or one for all */
    const int8_t *shifts;       /* to the right, 8 to 46 */
};

/* All channels of one output pixel; the taps lie row_step and column_step elements apart. */
HIL_INLINE void hil_depthwise_conv2d_s16_pixel(const struct hil_generic_depthwise_conv2d_s16 *p,
                                               const int16_t *in, int32_t row_step,
                                               int32_t column_step, int16_t *out) {
    const int8_t *w = p->weights;
    int32_t channel = 0;
    for (int32_t in_channel = 0; in_channel < p->in_c; in_channel++) {
        for (int32_t copies = p->depth_multiplier; copies > 0; copies--) {
            int64_t sum = hil_matmul_s16_bias(p->bias, channel);
            for (int32_t y = 0; y < p->filter_h; y++) {
                const int16_t *tap = in + y * row_step;
                for (int32_t from = 0; from < p->filter_w; from += HIL_MATMUL_S16_RUN) {
                    const int32_t left = p->filter_w - from;
                    int32_t run = 0;
                    for (int32_t x = left < HIL_MATMUL_S16_RUN ? left : HIL_MATMUL_S16_RUN; x > 0;
                         x--) {
                        run += *tap * *w++;
                        tap += column_step;
                    }
                    sum += run;
                }
            }
            const int32_t factor = p->per_channel ? channel : 0;
            const int32_t scaled =
                hil_requantize_once(sum, p->multipliers[factor], p->shifts[factor]);
            out[channel] = (int16_t)hil_clamp(scaled, p->out_min, p->out_max);
            channel++;
        }
        in++;
    }
}

HIL_INLINE void hil_generic_depthwise_conv2d_s16(const struct hil_generic_depthwise_conv2d_s16 *p,
                                                 const int16_t *in, int16_t *out, void *scratch) {
    const struct hil_patch window = HIL_PATCH_OF(p, (int32_t)sizeof(int16_t), 0);
    /* Windows that start within these are inside the image. */
    const int32_t last_y = p->in_h - ((p->filter_h - 1) * p->dilation_h + 1);
    const int32_t last_x = p->in_w - ((p->filter_w - 1) * p->dilation_w + 1);
    for (int32_t images = p->batch; images > 0; images--) {
        int32_t y = -p->pad_top;
        for (int32_t out_y = p->out_h; out_y > 0; out_y--) {
            int32_t x = -p->pad_left;
            for (int32_t out_x = p->out_w; out_x > 0; out_x--) {
                if (y >= 0 && y <= last_y && x >= 0 && x <= last_x) {
                    hil_depthwise_conv2d_s16_pixel(p, in + (y * p->in_w + x) * p->in_c,
                                                   p->dilation_h * p->in_w * p->in_c,
                                                   p->dilation_w * p->in_c, out);
                } else {
                    hil_gather_patch(&window, in, y, x, scratch);
                    hil_depthwise_conv2d_s16_pixel(p, (const int16_t *)scratch,
                                                   p->filter_w * p->in_c, p->in_c, out);
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
