/* Depthwise convolution of int8 images: one pixel at a time, its channels one after the other, each
 * with its taps in registers. Windows inside the image are read in place; windows over the border
 * are gathered first, so that neither tests bounds. */
#ifndef HIL_KERNELS_GENERIC_DEPTHWISE_CONV2D_S8_H
#define HIL_KERNELS_GENERIC_DEPTHWISE_CONV2D_S8_H

#include "hil/kernels/generic/patch.h"

/*@kernel
name = "hil_depthwise_conv2d_s8"
requires = []
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "filter_h * filter_w * in_c"
order = "none"
@*/
struct hil_depthwise_conv2d_s8 {
    int32_t batch;
    int32_t in_h;
    int32_t in_w;
    int32_t in_c;
    int32_t out_h;
    int32_t out_w;
    int32_t depth_multiplier; /* outputs of each input channel, next to each other */
    int32_t filter_h;
    int32_t filter_w;
    int32_t stride_h;
    int32_t stride_w;
    int32_t dilation_h;
    int32_t dilation_w;
    int32_t pad_top;
    int32_t pad_left;
    int32_t in_zero_point;
    int32_t out_zero_point;
    int32_t out_min;
    int32_t out_max;
    int32_t per_channel;   /* 1: a multiplier and a shift an output channel; 0: one for all */
    int32_t narrow;        /* 1: every |accumulator| < 2^30 and every shift < 0 */
    const int8_t *weights; /* [in_c * depth_multiplier][filter_h][filter_w] */
    const int32_t *bias;   /* with the input's zero point folded in */
    const int32_t *multipliers;
    const int8_t *shifts;
};

/* All channels of one output pixel; the taps lie row_step and column_step bytes apart. */
HIL_INLINE void hil_depthwise_conv2d_s8_pixel(const struct hil_depthwise_conv2d_s8 *p,
                                              const int8_t *in, int32_t row_step,
                                              int32_t column_step, int8_t *out) {
    const int8_t *w = p->weights;
    int32_t channel = 0;
    for (int32_t in_channel = 0; in_channel < p->in_c; in_channel++) {
        for (int32_t copies = p->depth_multiplier; copies > 0; copies--) {
            int32_t sum = p->bias[channel];
#pragma GCC unroll 5
            for (int32_t y = 0; y < p->filter_h; y++) {
#pragma GCC unroll 5
                for (int32_t x = 0; x < p->filter_w; x++) {
                    sum += in[y * row_step + x * column_step] * w[y * p->filter_w + x];
                }
            }
            w += p->filter_h * p->filter_w;
            const int32_t entry = p->per_channel ? channel : 0;
            const int32_t mantissa = p->multipliers[entry];
            const int shift = p->shifts[entry];
            const int32_t value =
                p->narrow ? hil_requantize_narrow(sum, mantissa, shift, p->out_zero_point)
                          : hil_requantize(sum, mantissa, shift) + p->out_zero_point;
            out[channel] = hil_clamp_s8(value, p->out_min, p->out_max);
            channel++;
        }
        in++;
    }
}

HIL_INLINE void hil_depthwise_conv2d_s8(const struct hil_depthwise_conv2d_s8 *p, const int8_t *in,
                                        int8_t *out, void *scratch) {
    const struct hil_patch window = {
        .in_h = p->in_h,
        .in_w = p->in_w,
        .pixel_bytes = p->in_c,
        .filter_h = p->filter_h,
        .filter_w = p->filter_w,
        .dilation_h = p->dilation_h,
        .dilation_w = p->dilation_w,
        .fill = p->in_zero_point,
    };
    /* Windows that start within these are inside the image. */
    const int32_t last_y = p->in_h - ((p->filter_h - 1) * p->dilation_h + 1);
    const int32_t last_x = p->in_w - ((p->filter_w - 1) * p->dilation_w + 1);
    for (int32_t images = p->batch; images > 0; images--) {
        int32_t y = -p->pad_top;
        for (int32_t out_y = p->out_h; out_y > 0; out_y--) {
            int32_t x = -p->pad_left;
            for (int32_t out_x = p->out_w; out_x > 0; out_x--) {
                if (y >= 0 && y <= last_y && x >= 0 && x <= last_x) {
                    hil_depthwise_conv2d_s8_pixel(p, in + (y * p->in_w + x) * p->in_c,
                                                  p->dilation_h * p->in_w * p->in_c,
                                                  p->dilation_w * p->in_c, out);
                } else {
                    hil_gather_patch(&window, in, y, x, scratch);
                    hil_depthwise_conv2d_s8_pixel(p, scratch, p->filter_w * p->in_c, p->in_c, out);
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
