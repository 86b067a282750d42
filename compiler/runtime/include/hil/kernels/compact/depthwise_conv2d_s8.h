/* Depthwise convolution of int8 images in little code: each output alone. */
#ifndef HIL_KERNELS_COMPACT_DEPTHWISE_CONV2D_S8_H
#define HIL_KERNELS_COMPACT_DEPTHWISE_CONV2D_S8_H

#include "hil/kernels/compact/channel_s8.h"
#include "hil/kernels/generic/patch.h"

/*@kernel
name = "hil_compact_depthwise_conv2d_s8"
requires = []
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "0"
order = ["pixels 1", "channels 1"]
reads = "channel window"
code = 300
[cost]
output = "batch * out_h * out_w * in_c * depth_multiplier"
mac = "output * filter_h * filter_w"
@*/
struct hil_compact_depthwise_conv2d_s8 {
    HIL_IMAGES_FIELDS;
    int32_t depth_multiplier; /* outputs of each input channel, next to each other */
    HIL_WINDOW_FIELDS;
    HIL_COMPACT_FIELDS; /* weights[in_c * depth_multiplier][filter_h][filter_w] */
};

/* The window at row y, column x of a channel of the image, by one filter. */
HIL_INLINE int32_t hil_compact_depthwise_conv2d_s8_sum(
    const struct hil_compact_depthwise_conv2d_s8 *p, const int8_t *in, int32_t y, int32_t x,
    const int8_t *weights, int32_t sum) {
    for (int32_t fy = 0; fy < p->filter_h; fy++, y += p->dilation_h) {
        int32_t at = x;
        for (int32_t fx = 0; fx < p->filter_w; fx++, at += p->dilation_w) {
            const int32_t weight = *weights++;
            if (y >= 0 && y < p->in_h && at >= 0 && at < p->in_w) {
                sum += (in[(y * p->in_w + at) * p->in_c] - p->in_zero_point) * weight;
            }
        }
    }
    return sum;
}

HIL_INLINE void hil_compact_depthwise_conv2d_s8(const struct hil_compact_depthwise_conv2d_s8 *p,
                                                const int8_t *in, int8_t *out) {
    for (int32_t images = p->batch; images > 0; images--) {
        int32_t y = -p->pad_top;
        for (int32_t out_y = p->out_h; out_y > 0; out_y--, y += p->stride_h) {
            int32_t x = -p->pad_left;
            for (int32_t out_x = p->out_w; out_x > 0; out_x--, x += p->stride_w) {
                const int8_t *weights = p->weights;
                const int16_t *channel = hil_compact_first(p->scales, p->wide);
                for (int32_t from = 0; from < p->in_c; from++) {
                    for (int32_t copies = p->depth_multiplier; copies > 0; copies--) {
                        const int32_t sum = hil_compact_depthwise_conv2d_s8_sum(
                            p, in + from, y, x, weights, hil_compact_bias(channel, p->wide));
                        *out++ = hil_compact_output(sum, channel, p->scales, p->wide, p->narrow,
                                                    p->out_zero_point, p->out_min, p->out_max);
                        weights += p->filter_h * p->filter_w;
                        channel = hil_compact_next(channel, p->wide);
                    }
                }
            }
        }
        in += p->in_h * p->in_w * p->in_c;
    }
}

#endif
