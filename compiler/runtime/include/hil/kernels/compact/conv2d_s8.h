/* Convolution of int8 images, and products of matrices, in little code: each output alone, its
 * window where it lies in the image. */
#ifndef HIL_KERNELS_COMPACT_CONV2D_S8_H
#define HIL_KERNELS_COMPACT_CONV2D_S8_H

#include "hil/kernels/compact/channel_s8.h"
#include "hil/kernels/generic/patch.h"

/*@kernel
name = "hil_compact_conv2d_s8"
requires = []
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "0"
order = ["pixels 1", "channels 1"]
reads = "window"
code = 320
[cost]
output = "batch * out_h * out_w * out_c"
filter_row = "output * filter_h"
mac = "filter_row * filter_w * in_c"
@*/
struct hil_compact_conv2d_s8 {
    HIL_IMAGES_FIELDS;
    int32_t out_c; /* output channels */
    HIL_WINDOW_FIELDS;
    HIL_COMPACT_FIELDS; /* weights[out_c][filter_h][filter_w][in_c] */
};

/* The window at row y, column x of the image, by one filter. */
HIL_INLINE int32_t hil_compact_conv2d_s8_sum(const struct hil_compact_conv2d_s8 *p,
                                             const int8_t *in, int32_t y, int32_t x,
                                             const int8_t *weights, int32_t sum) {
    /* Pixels next to each other are one run, where the window has no gaps. */
    const int32_t taps = p->dilation_w == 1 ? p->filter_w : 1;
    for (int32_t fy = 0; fy < p->filter_h; fy++, y += p->dilation_h) {
        for (int32_t fx = 0; fx < p->filter_w; fx += taps, weights += taps * p->in_c) {
            const int32_t start = x + fx * p->dilation_w;
            const int32_t first = start < 0 ? -start : 0;
            const int32_t last = start + taps > p->in_w ? p->in_w - start : taps;
            if (y >= 0 && y < p->in_h && first < last) {
                sum = hil_compact_dot(in + (y * p->in_w + start + first) * p->in_c,
                                      weights + first * p->in_c, (last - first) * p->in_c,
                                      p->in_zero_point, sum);
            }
        }
    }
    return sum;
}

HIL_INLINE void hil_compact_conv2d_s8(const struct hil_compact_conv2d_s8 *p, const int8_t *in,
                                      int8_t *out) {
    for (int32_t images = p->batch; images > 0; images--) {
        int32_t y = -p->pad_top;
        for (int32_t out_y = p->out_h; out_y > 0; out_y--, y += p->stride_h) {
            int32_t x = -p->pad_left;
            for (int32_t out_x = p->out_w; out_x > 0; out_x--, x += p->stride_w) {
                const int8_t *weights = p->weights;
                const int16_t *channel = hil_compact_first(p->scales, p->wide);
                for (int32_t channels = p->out_c; channels > 0; channels--) {
                    const int32_t sum = hil_compact_conv2d_s8_sum(
                        p, in, y, x, weights, hil_compact_bias(channel, p->wide));
                    *out++ = hil_compact_output(sum, channel, p->scales, p->wide, p->narrow,
                                                p->out_zero_point, p->out_min, p->out_max);
                    weights += p->filter_h * p->filter_w * p->in_c;
                    channel = hil_compact_next(channel, p->wide);
                }
            }
        }
        in += p->in_h * p->in_w * p->in_c;
    }
}

#endif
