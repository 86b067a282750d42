/* Depthwise convolution of int8 images. The pixels that a row of outputs reads are gathered into a
 * band, a block of channels at a time, so that nothing below tests bounds; a channel's outputs are
 * computed four next to each other, which share its weights and, where windows overlap, its inputs.
 */
#ifndef HIL_KERNELS_GENERIC_DEPTHWISE_CONV2D_S8_H
#define HIL_KERNELS_GENERIC_DEPTHWISE_CONV2D_S8_H

#include "hil/kernels/generic/patch.h"

/*@kernel
name = "hil_generic_depthwise_conv2d_s8"
requires = []
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "filter_h * band_w * block"
order = ["rows 1", "pixels tile_w", "channels block * depth_multiplier"]
reads = "channel window"
code = 856
[cost]
row = "batch * out_h"
channel_row = "row * in_c * depth_multiplier"
output = "channel_row * out_w"
mac = "output * filter_h * filter_w"
band_pixel = "row * ((out_w + tile_w - 1) // tile_w) * (in_c // block) * filter_h * band_w"
copied = "band_pixel * block"
@*/
struct hil_generic_depthwise_conv2d_s8 {
    HIL_IMAGES_FIELDS;
    int32_t depth_multiplier; /* outputs of each input channel, next to each other */
    HIL_WINDOW_FIELDS;
    int32_t block;         /* channels of a band; divides in_c */
    int32_t tile_w;        /* output pixels of a band */
    int32_t band_w;        /* input pixels of a band, all that tile_w windows span */
    int32_t in_zero_point; /* the input that stands for 0.0, which pixels outside the image have */
    HIL_REQUANTIZATION_FIELDS;
    const int8_t *weights; /* [in_c * depth_multiplier][filter_h][filter_w] */
};

/* What the outputs of one channel have in common. */
struct hil_depthwise_conv2d_s8_channel {
    const int8_t *weights;
    int32_t bias;
    int32_t multiplier;
    int shift;
};

/* A channel's outputs at `pixels` places next to each other, a constant of at most 4, from the
 * place of its input channel in the band. */
HIL_INLINE void hil_depthwise_conv2d_s8_pixels(const struct hil_generic_depthwise_conv2d_s8 *p,
                                               const struct hil_depthwise_conv2d_s8_channel *c,
                                               int32_t pixels, const int8_t *in, int8_t *out) {
    const int32_t step = p->stride_w * p->block;
    const int32_t out_c = p->in_c * p->depth_multiplier;
    int32_t sums[4];
#pragma GCC unroll 4
    for (int32_t i = 0; i < pixels; i++) {
        sums[i] = c->bias;
    }
#pragma GCC unroll 5
    for (int32_t y = 0; y < p->filter_h; y++) {
#pragma GCC unroll 4
        for (int32_t i = 0; i < pixels; i++) {
            /* Ends the row here: loads ahead for later rows would take more registers than are. */
            __asm__ volatile("" : "+r"(sums[i])::"memory");
        }
#pragma GCC unroll 5
        for (int32_t x = 0; x < p->filter_w; x++) {
            const int8_t *const tap = in + (y * p->band_w + x * p->dilation_w) * p->block;
            const int32_t weight = c->weights[y * p->filter_w + x];
#pragma GCC unroll 4
            for (int32_t i = 0; i < pixels; i++) {
                sums[i] += tap[i * step] * weight;
            }
        }
    }
#pragma GCC unroll 4
    for (int32_t i = 0; i < pixels; i++) {
        const int32_t value =
            hil_requantize_by(p->narrow, sums[i], c->multiplier, c->shift, p->out_zero_point);
        out[i * out_c] = hil_clamp_s8(value, p->out_min, p->out_max);
    }
}

/* Output channel `channel` of `count` pixels of a row. */
HIL_INLINE void hil_depthwise_conv2d_s8_row(const struct hil_generic_depthwise_conv2d_s8 *p,
                                            int32_t channel, int32_t count, const int8_t *in,
                                            int8_t *out) {
    const int32_t entry = p->per_channel ? channel : 0;
    const struct hil_depthwise_conv2d_s8_channel c = {
        .weights = p->weights + channel * p->filter_h * p->filter_w,
        .bias = p->bias[channel],
        .multiplier = p->multipliers[entry],
        .shift = p->shifts[entry],
    };
    const int32_t step = p->stride_w * p->block;
    const int32_t out_c = p->in_c * p->depth_multiplier;
    int32_t left = count;
    for (; left >= 4; left -= 4) {
        hil_depthwise_conv2d_s8_pixels(p, &c, 4, in, out);
        in += 4 * step;
        out += 4 * out_c;
    }
    if (left >= 2) {
        hil_depthwise_conv2d_s8_pixels(p, &c, 2, in, out);
        in += 2 * step;
        out += 2 * out_c;
    }
    if (left % 2 != 0) {
        hil_depthwise_conv2d_s8_pixels(p, &c, 1, in, out);
    }
}

HIL_INLINE void hil_generic_depthwise_conv2d_s8(const struct hil_generic_depthwise_conv2d_s8 *p,
                                                const int8_t *in, int8_t *out, void *scratch) {
    const struct hil_patch band = {
        .in_h = p->in_h,
        .in_w = p->in_w,
        .pixel_step = p->in_c,
        .pixel_bytes = p->block,
        .filter_h = p->filter_h,
        .filter_w = p->band_w,
        .dilation_h = p->dilation_h,
        .dilation_w = 1,
        .pad_value = p->in_zero_point,
        .pad_bytes = 1,
    };
    const int32_t out_c = p->in_c * p->depth_multiplier;
    for (int32_t images = p->batch; images > 0; images--) {
        int32_t y = -p->pad_top;
        for (int32_t out_y = p->out_h; out_y > 0; out_y--) {
            int32_t x = -p->pad_left;
            for (int32_t left = p->out_w; left > 0; left -= p->tile_w) {
                const int32_t count = left < p->tile_w ? left : p->tile_w;
                int32_t channel = 0;
                for (int32_t first = 0; first < p->in_c; first += p->block) {
                    hil_gather_patch(&band, in + first, y, x, scratch);
                    for (int32_t i = 0; i < p->block; i++) {
                        for (int32_t copies = p->depth_multiplier; copies > 0; copies--) {
                            hil_depthwise_conv2d_s8_row(p, channel, count,
                                                        (const int8_t *)scratch + i, out + channel);
                            channel++;
                        }
                    }
                }
                x += p->tile_w * p->stride_w;
                out += count * out_c;
            }
            y += p->stride_h;
        }
        in += p->in_h * p->in_w * p->in_c;
    }
}

#endif
