/* Depthwise convolution of int8 images on Helium, filters of any size, strides and dilations, one
 * for each channel: a vector of channels of a pixel at a time, where they lie in the image. No
 * pixel is laid out, so where products share few pixels, with strides of 3 and more, this takes
 * fewer instructions than kernels of planes.
 *
 * Tile: 1 output x 16 channels.
 *
 * Registers: of the compiler's choice: four vectors of sums of 32 bits, two of sums of 16, one of
 * pixels, and one of weights or products.
 *
 * Data: packed by `channel_filters()` and `channel_scales()`; of each 16 channels weights
 * [filter_h][filter_w][16], and int32 biases, multipliers and shifts in the order of the sums, 0 4
 * 8 12, 2 6 10 14, 1 5 9 13 and 3 7 11 15. Channels that fill up the last sixteen have zeros. Where
 * windows reach beyond the image, the rows below a row of outputs lie in scratch,
 * [filter_h][line][in_c], the input's zero point around.
 *
 * Order: pixel by pixel, sixteen channels at a time, which follow from theirs alone.
 *
 * Bounds: products are added in 16 bits for `group` taps of a row, whose sums fit for all inputs
 * (`channel_group()`), then in 32 bits, where sums, bias included, are below 2^31
 * (`_check_quantized()`).
 *
 * Output: that of blocks_s8.h.
 *
 * Scratch: the rows of a window, as wide as a row of outputs needs, if any reaches beyond the
 * image.
 *
 * Cost: 7 instructions a tap of 16 outputs, 6 a group of taps, 7 a row of the filter, 30 to
 * requantize; 0.25 a byte that is copied. Counts (instructions under QEMU, mps3-an547) a MAC,
 * 8x8x16: 3x3 with stride 3 0.92, depthwise_conv2d_taps.h 2.07; with dilation 2 1.04; 6x6 0.76,
 * 0.81 there.
 *
 * Tests: tests/board/test_kernels.py; layout: tests/c/test_kernel_layouts.py.
 */
#ifndef HIL_KERNELS_MVE_DEPTHWISE_CONV2D_S8_CHANNELS_H
#define HIL_KERNELS_MVE_DEPTHWISE_CONV2D_S8_CHANNELS_H

#include "hil/kernels/generic/channel_rows.h"
#include "hil/kernels/mve/narrow.h"

/* Channels of a vector, and vectors of their sums. */
#define HIL_MVE_CHANNELS_BLOCK 16
#define HIL_MVE_CHANNELS_VECTORS 4

/*@kernel
name = "hil_mve_depthwise_conv2d_s8_channels"
requires = ["mve"]
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "padded * filter_h * line * in_c"
order = ["pixels 1", "channels 16"]
reads = "channel window"
code = 700
[cost]
row = "batch * out_h"
copied = "row * padded * filter_h * columns * in_c"
pixel = "row * out_w"
block = "pixel * ((in_c + 15) // 16)"
line = "block * filter_h"
group_of_taps = "line * ((filter_w + group - 1) // group)"
tap = "line * filter_w"
part_tap = "pixel * (in_c % 16 > 0) * filter_h * filter_w"
corrected = "block * (any % 2)"
@*/
struct hil_mve_depthwise_conv2d_s8_channels {
    HIL_CHANNEL_ROWS_FIELDS;
    int32_t group;          /* taps of a row whose sums have 16 bits */
    int32_t any;            /* bits: 1: signs are corrected, 2: sums are rounded once */
    int32_t out_zero_point; /* what stands for 0.0 */
    int32_t out_min;        /* the least output */
    int32_t out_max;        /* the largest output */
    const int8_t *weights;  /* of each 16 channels [filter_h][filter_w][16] */
    const int32_t *scales;  /* of each 16 channels [3][4][4]: bias, multiplier, shift */
};

/* Adds the products of a tap to sums of 16 bits; `first`: they begin with these. */
HIL_INLINE void hil_mve_channels_tap(int first, int8x16_t pixels, const int8_t *weights,
                                     int16x8_t *parts) {
    const int8x16_t filters = vldrbq_s8(weights);
    const int16x8_t even = vmullbq_int_s8(pixels, filters);
    const int16x8_t odd = vmulltq_int_s8(pixels, filters);
    parts[0] = first ? even : vaddq_s16(parts[0], even);
    parts[1] = first ? odd : vaddq_s16(parts[1], odd);
    /* Vectors that are loaded ahead would take more registers than there are. */
    __asm__ volatile("" : "+w"(parts[0]), "+w"(parts[1]) : : "memory");
}

/* Adds the products of `count` channels, 16 or fewer, to their sums. */
HIL_INLINE void hil_mve_channels_sums(const struct hil_mve_depthwise_conv2d_s8_channels *p,
                                      int32_t count, const int8_t *from, int32_t row,
                                      const int8_t *weights, int32x4_t *sums) {
    const mve_pred16_t here = vctp8q((uint32_t)count);
#pragma GCC unroll 3
    for (int32_t y = 0; y < p->filter_h; y++) {
#pragma GCC unroll 4
        for (int32_t x = 0; x < p->filter_w; x += p->group) {
            const int32_t taps = p->filter_w - x < p->group ? p->filter_w - x : p->group;
            int16x8_t parts[2] = {vdupq_n_s16(0), vdupq_n_s16(0)};
#pragma GCC unroll 8
            for (int32_t i = 0; i < taps; i++) {
                const int8_t *const at = from + (x + i) * p->dilation_w * p->in_c;
                const int8x16_t pixels =
                    count == HIL_MVE_CHANNELS_BLOCK ? vldrbq_s8(at) : vldrbq_z_s8(at, here);
                hil_mve_channels_tap(i == 0, pixels, weights, parts);
                weights += HIL_MVE_CHANNELS_BLOCK;
            }
            sums[0] = vaddq_s32(sums[0], vmovlbq_s16(parts[0]));
            sums[1] = vaddq_s32(sums[1], vmovltq_s16(parts[0]));
            sums[2] = vaddq_s32(sums[2], vmovlbq_s16(parts[1]));
            sums[3] = vaddq_s32(sums[3], vmovltq_s16(parts[1]));
            /* Added now, or the sums of 16 bits would take registers. */
            __asm__ volatile("" : "+w"(sums[0]), "+w"(sums[1]), "+w"(sums[2]), "+w"(sums[3]));
        }
        from += row;
    }
}

/* Four sums as outputs less the zero point; their multipliers, and behind those of all sums the
 * shifts. */
HIL_INLINE int32x4_t hil_mve_channels_scaled(int32_t any, const int32_t *multipliers,
                                             int32x4_t sums) {
    const int32x4_t multiplier = vldrwq_s32(multipliers);
    const int32x4_t shift = vldrwq_s32(multipliers + HIL_MVE_CHANNELS_BLOCK);
    if (any & 2) {
        return vrshlq_s32(vqdmulhq_s32(sums, multiplier), shift);
    }
    const int32x4_t product = vqrdmulhq_s32(sums, multiplier);
    const int32x4_t corrected = any & 1 ? vaddq_s32(product, vshrq_n_s32(product, 31)) : product;
    return vrshlq_s32(corrected, shift);
}

/* The outputs of a pixel, of `count` channels of a block. */
HIL_INLINE void hil_mve_channels_outputs(const struct hil_mve_depthwise_conv2d_s8_channels *p,
                                         int32_t block, int32_t count, const int8_t *from,
                                         int32_t row, int8_t *out) {
    const int32_t *scales = p->scales + 3 * HIL_MVE_CHANNELS_BLOCK * block;
    const int8_t *weights = p->weights + HIL_MVE_CHANNELS_BLOCK * block * p->filter_h * p->filter_w;
    /* Constants at places that are known would be loaded ahead, and kept on the stack. */
    __asm__("" : "+r"(weights), "+r"(scales));
    int32x4_t sums[HIL_MVE_CHANNELS_VECTORS];
#pragma GCC unroll 4
    for (int32_t i = 0; i < HIL_MVE_CHANNELS_VECTORS; i++) {
        sums[i] = vldrwq_s32(scales + 4 * i);
    }
    hil_mve_channels_sums(p, count, from, row, weights, sums);
    const int32_t *const multipliers = scales + HIL_MVE_CHANNELS_BLOCK;
    int16x8_t halves[2];
#pragma GCC unroll 2
    for (int32_t i = 0; i < 2; i++) {
        const int16x8_t narrow = hil_mve_narrowed(
            hil_mve_channels_scaled(p->any, multipliers + 8 * i, sums[2 * i]),
            hil_mve_channels_scaled(p->any, multipliers + 8 * i + 4, sums[2 * i + 1]));
        halves[i] = vqaddq_n_s16(narrow, (int16_t)p->out_zero_point);
        __asm__ volatile("" : "+w"(halves[i]) : : "memory");
    }
    int8x16_t values = vqmovnbq_s16(vreinterpretq_s8_s16(halves[0]), halves[0]);
    values = vqmovntq_s16(values, halves[1]);
    if (p->out_min > INT8_MIN) {
        values = vmaxq_s8(values, vdupq_n_s8((int8_t)p->out_min));
    }
    if (p->out_max < INT8_MAX) {
        values = vminq_s8(values, vdupq_n_s8((int8_t)p->out_max));
    }
    if (count == HIL_MVE_CHANNELS_BLOCK) {
        vstrbq_s8(out, values);
    } else {
        vstrbq_p_s8(out, values, vctp8q((uint32_t)count));
    }
}

HIL_INLINE void
hil_mve_depthwise_conv2d_s8_channels(const struct hil_mve_depthwise_conv2d_s8_channels *p,
                                     const int8_t *in, int8_t *out, void *scratch) {
    const struct hil_channel_rows own = HIL_CHANNEL_ROWS(p);
    const int32_t blocks = p->in_c / HIL_MVE_CHANNELS_BLOCK;
    const int32_t rest = p->in_c % HIL_MVE_CHANNELS_BLOCK;
    if (p->padded) {
        hil_channel_rows_clear(&own, 1, p->filter_h * p->line, (int8_t *)scratch);
    }
    for (int32_t images = p->batch; images > 0; images--) {
        for (int32_t y = 0; y < p->out_h; y++) {
            const struct hil_rows_under rows =
                hil_channel_rows_under(&own, 1, y, in, (int8_t *)scratch);
            const int8_t *from = rows.from;
            for (int32_t x = p->out_w; x > 0; x--) {
                for (int32_t block = 0; block < blocks; block++) {
                    const int32_t at = HIL_MVE_CHANNELS_BLOCK * block;
                    hil_mve_channels_outputs(p, block, HIL_MVE_CHANNELS_BLOCK, from + at, rows.step,
                                             out + at);
                }
                if (rest > 0) {
                    const int32_t at = HIL_MVE_CHANNELS_BLOCK * blocks;
                    hil_mve_channels_outputs(p, blocks, rest, from + at, rows.step, out + at);
                }
                from += p->stride_w * p->in_c;
                out += p->in_c;
            }
        }
        in += p->in_h * p->in_w * p->in_c;
    }
}

#endif
