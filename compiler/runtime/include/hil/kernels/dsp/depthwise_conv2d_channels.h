/* Depthwise convolution of int8 and int16 images with int8 weights, filters of any size, strides
 * and dilations, one for each channel: four channels of a pixel at a time, where they lie in the
 * image. No pixel is laid out, so where products share few pixels, with strides of 3 and more or
 * with dilations, this takes fewer instructions than kernels of planes, and always less scratch.
 *
 * Tile: 1 output x 4 channels.
 *
 * Registers: four sums; r4, r5, r6, r8 the weights of two taps; two for four pixels, the others of
 * the compiler's choice.
 *
 * Data: packed by `channel_words()`; of each four channels, for each tap two words of int16
 *
 *   int8    w0|w2, w1|w3: sxtb16 takes every second byte; in hil_dsp_depthwise_conv2d_s8_channels
 *           weights are times 256
 *   int16   w0|w1, w2|w3
 *
 * Channels that fill up the last four have zeros. Where windows reach beyond the image, the rows
 * below a row of outputs lie in scratch, [filter_h][line][in_c], the input's zero point around.
 *
 * Order: pixel by pixel, four channels at a time, which follow from theirs alone.
 *
 * Bounds: smlabb and smlatt add modulo 2^32; sums as in depthwise_conv2d_pairs.h.
 *
 * Output: as in depthwise_conv2d_pairs.h.
 *
 * Scratch: the rows of a window, as wide as a row of outputs needs, if any reaches beyond the
 * image.
 *
 * Cost: for four outputs 16 instructions two taps, of int16 14, and 9 or 8 the last tap of a row
 * with an odd number of them; 30 to requantize, 60 without an affine requantization; 0.8 a byte
 * that is copied. Measured (`hil bench` on mps2-an386, instructions under QEMU), 8x8x16, a MAC: 3x3
 * with stride 3 2.93, of int16 2.65; with dilation 2 3.22. depthwise_conv2d_pairs.h takes 4.4, 4.7
 * and 2.65 there, portable kernels 4.6, of int16 5.8 and more.
 *
 * Tests: tests/c/test_dsp_kernels.py, tests/c/test_wide_kernels.py, on a board
 * tests/board/test_kernels.py. Layout: tests/c/test_kernel_layouts.py.
 */
#ifndef HIL_KERNELS_DSP_DEPTHWISE_CONV2D_CHANNELS_H
#define HIL_KERNELS_DSP_DEPTHWISE_CONV2D_CHANNELS_H

#include "hil/kernels/dsp/depthwise_conv2d_pairs.h"
#include "hil/kernels/generic/channel_rows.h"

/* Channels at a time. */
#define HIL_DSP_FOUR_CHANNELS 4

/* `count` of four channels of a pixel, in two words of half-words as weights are. */
HIL_INLINE void hil_dsp_channels_load(int32_t bytes, int32_t count, const void *from,
                                      uint32_t *pairs) {
    if (bytes == 1) {
        const int8_t *const own = (const int8_t *)from;
        const uint32_t word =
            count == HIL_DSP_FOUR_CHANNELS ? hil_dsp_load(own) : hil_dsp_load_part(own, count);
        pairs[0] = hil_dsp_even(word);
        pairs[1] = hil_dsp_odd(word);
    } else {
        hil_dsp_s16_unit((const int16_t *)from, count, &pairs[0], &pairs[1]);
    }
}

/* Adds the products of a tap. */
HIL_INLINE void hil_dsp_channels_tap(int32_t bytes, int32_t count, const int8_t *from,
                                     const int32_t *weights, uint32_t *sums) {
    uint32_t pairs[2];
    hil_dsp_channels_load(bytes, count, from, pairs);
#pragma GCC unroll 2
    for (int32_t i = 0; i < 2; i++) {
        const uint32_t weight = (uint32_t)weights[i];
        uint32_t *const low = sums + (bytes == 1 ? i : 2 * i);
        uint32_t *const high = low + (bytes == 1 ? 2 : 1);
        *low = (uint32_t)hil_dsp_low_low_add(pairs[i], weight, (int32_t)*low);
        *high = (uint32_t)hil_dsp_high_high_add(pairs[i], weight, (int32_t)*high);
    }
}

#if HIL_DSP_ASSEMBLY

/* The weights of two taps, or of one; returns where those of the next are. By names, which must
 * ascend. */
HIL_INLINE const int32_t *hil_dsp_channels_weights(int32_t taps, const int32_t *from,
                                                   uint32_t *weights) {
    register uint32_t a __asm__("r4");
    register uint32_t b __asm__("r5");
    register uint32_t c __asm__("r6");
    register uint32_t d __asm__("r8");
    if (taps == 2) {
        __asm__ volatile("ldmia %[from]!, {r4, r5, r6, r8}"
                         : [from] "+r"(from), "=r"(a), "=r"(b), "=r"(c), "=r"(d)
                         :
                         : "memory");
        weights[2] = c;
        weights[3] = d;
    } else {
        __asm__ volatile("ldmia %[from]!, {r4, r5}"
                         : [from] "+r"(from), "=r"(a), "=r"(b)
                         :
                         : "memory");
    }
    weights[0] = a;
    weights[1] = b;
    return from;
}

/* Adds the products of four channels of a pixel and weights. */
HIL_INLINE void hil_dsp_channels_pixel(int32_t bytes, const int8_t *from, const uint32_t *weights,
                                       uint32_t *sums) {
    uint32_t a;
    uint32_t b;
    const hil_dsp_word *const words = (const hil_dsp_word *)(const void *)from;
    if (bytes == 1) {
        __asm__ volatile("ldr %[a], %[p]\n\t"
                         "sxtb16 %[b], %[a]\n\t"
                         "sxtb16 %[a], %[a], ror #8\n\t"
                         "smlabb %[s0], %[b], %[w0], %[s0]\n\t"
                         "smlatt %[s2], %[b], %[w0], %[s2]\n\t"
                         "smlabb %[s1], %[a], %[w1], %[s1]\n\t"
                         "smlatt %[s3], %[a], %[w1], %[s3]\n\t"
                         : [s0] "+r"(sums[0]), [s1] "+r"(sums[1]), [s2] "+r"(sums[2]),
                           [s3] "+r"(sums[3]), [a] "=&r"(a), [b] "=&r"(b)
                         : [p] "m"(words[0]), [w0] "r"(weights[0]), [w1] "r"(weights[1])
                         : "memory");
    } else {
        __asm__ volatile(
            "ldr %[a], %[p]\n\t"
            "ldr %[b], %[q]\n\t"
            "smlabb %[s0], %[a], %[w0], %[s0]\n\t"
            "smlatt %[s1], %[a], %[w0], %[s1]\n\t"
            "smlabb %[s2], %[b], %[w1], %[s2]\n\t"
            "smlatt %[s3], %[b], %[w1], %[s3]\n\t"
            : [s0] "+r"(sums[0]), [s1] "+r"(sums[1]), [s2] "+r"(sums[2]), [s3] "+r"(sums[3]),
              [a] "=&r"(a), [b] "=&r"(b)
            : [p] "m"(words[0]), [q] "m"(words[1]), [w0] "r"(weights[0]), [w1] "r"(weights[1])
            : "memory");
    }
}

/* Adds the products of two taps whose pixels are so many bytes apart, and of a single one. */
HIL_INLINE const int32_t *hil_dsp_channels_two(int32_t bytes, const int8_t *from, int32_t apart,
                                               const int32_t *weights, uint32_t *sums) {
    uint32_t words[4];
    weights = hil_dsp_channels_weights(2, weights, words);
    hil_dsp_channels_pixel(bytes, from, words, sums);
    hil_dsp_channels_pixel(bytes, from + apart, words + 2, sums);
    return weights;
}

HIL_INLINE const int32_t *hil_dsp_channels_one(int32_t bytes, const int8_t *from,
                                               const int32_t *weights, uint32_t *sums) {
    uint32_t words[2];
    weights = hil_dsp_channels_weights(1, weights, words);
    hil_dsp_channels_pixel(bytes, from, words, sums);
    return weights;
}

#else

HIL_INLINE const int32_t *hil_dsp_channels_two(int32_t bytes, const int8_t *from, int32_t apart,
                                               const int32_t *weights, uint32_t *sums) {
    hil_dsp_channels_tap(bytes, HIL_DSP_FOUR_CHANNELS, from, weights, sums);
    hil_dsp_channels_tap(bytes, HIL_DSP_FOUR_CHANNELS, from + apart, weights + 2, sums);
    return weights + 4;
}

HIL_INLINE const int32_t *hil_dsp_channels_one(int32_t bytes, const int8_t *from,
                                               const int32_t *weights, uint32_t *sums) {
    hil_dsp_channels_tap(bytes, HIL_DSP_FOUR_CHANNELS, from, weights, sums);
    return weights + 2;
}

#endif

/* Adds the products of the filters of `count` channels, 4 or fewer, and a window. */
HIL_INLINE const int32_t *hil_dsp_channels_sums(const struct hil_channel_rows *p, int32_t bytes,
                                                int32_t count, const int8_t *from, int32_t row,
                                                const int32_t *weights, uint32_t *sums) {
    const int32_t apart = p->dilation_w * p->in_c * bytes;
    const int32_t twos = count == HIL_DSP_FOUR_CHANNELS ? p->filter_w / 2 : 0;
#pragma GCC unroll 3
    for (int32_t y = 0; y < p->filter_h; y++) {
#pragma GCC unroll 4
        for (int32_t x = 0; x < twos; x++) {
            weights = hil_dsp_channels_two(bytes, from + 2 * x * apart, apart, weights, sums);
        }
#pragma GCC unroll 1
        for (int32_t x = 2 * twos; x < p->filter_w; x++) {
            if (count == HIL_DSP_FOUR_CHANNELS) {
                weights = hil_dsp_channels_one(bytes, from + x * apart, weights, sums);
            } else {
                hil_dsp_channels_tap(bytes, count, from + x * apart, weights, sums);
                weights += 2;
            }
        }
        from += row;
    }
    return weights;
}

/* The scale of the next channel, whose words are behind each other. */
HIL_INLINE struct hil_dsp_tap_scale hil_dsp_channels_scale(const int32_t **words) {
#if HIL_DSP_ASSEMBLY
    const int32_t *at = *words;
    register int32_t start __asm__("r4");
    register int32_t multiplier __asm__("r5");
    register int32_t addend __asm__("r6");
    register int32_t shift __asm__("r8");
    __asm__ volatile("ldmia %[at]!, {r4, r5, r6, r8}"
                     : [at] "+r"(at), "=r"(start), "=r"(multiplier), "=r"(addend), "=r"(shift)
                     :
                     : "memory");
    *words = at;
    const struct hil_dsp_tap_scale scale = {
        .start = start, .multiplier = multiplier, .addend = addend, .shift = shift};
#else
    const struct hil_dsp_tap_scale scale = hil_dsp_tap_scale(*words);
    *words += 4;
#endif
    return scale;
}

/* Where the numbers of the next channels are. */
struct hil_dsp_channels_place {
    const int32_t *weights;
    const int32_t *scales;
    int32_t channel;
};

/* The start of the sum of the i-th channel from `at` on, and its scale, in the order of channels:
 * by the place of the scales, or where there are none by the channel. */
#define HIL_DSP_CHANNELS_START(p, at, i) (at)->scales[4 * (i)]
#define HIL_DSP_CHANNELS_SCALE(p, at, i) hil_dsp_channels_scale(&(at)->scales)
#define HIL_DSP_CHANNELS_START_ROUNDED(p, at, i) (p)->bias[(at)->channel + (i)]
#define HIL_DSP_CHANNELS_SCALE_ROUNDED(p, at, i) HIL_DSP_TAP_SCALE_ROUNDED(p, (at)->channel + (i))

/* A layer of elements of a type: VALUE is that of HIL_DSP_TAP_LAYER, START and NEXT as above, of
 * which the first scale is at SCALES. */
#define HIL_DSP_CHANNELS_LAYER(name, type, START, NEXT, SCALES, VALUE)                             \
    /* The outputs of a pixel, of `count` channels. */                                             \
    HIL_INLINE void name##_outputs(const struct name *p, int32_t count, const int8_t *from,        \
                                   int32_t row, struct hil_dsp_channels_place *at, type *out) {    \
        const struct hil_channel_rows own = HIL_CHANNEL_ROWS(p);                                   \
        uint32_t sums[HIL_DSP_FOUR_CHANNELS];                                                      \
        _Pragma("GCC unroll 4") for (int32_t i = 0; i < HIL_DSP_FOUR_CHANNELS; i++) {              \
            sums[i] = i < count ? (uint32_t)START(p, at, i) : 0;                                   \
        }                                                                                          \
        at->weights = hil_dsp_channels_sums(&own, (int32_t)sizeof *out, count, from, row,          \
                                            at->weights, sums);                                    \
        _Pragma("GCC unroll 4") for (int32_t i = 0; i < count; i++) {                              \
            const struct hil_dsp_tap_scale scale = NEXT(p, at, i);                                 \
            out[i] = VALUE(p, scale, (int32_t)sums[i]);                                            \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    HIL_INLINE void name(const struct name *p, const type *in, type *out, void *scratch) {         \
        const struct hil_channel_rows own = HIL_CHANNEL_ROWS(p);                                   \
        const int32_t bytes = (int32_t)sizeof *out;                                                \
        const int32_t rest = p->in_c % HIL_DSP_FOUR_CHANNELS;                                      \
        if (p->padded) {                                                                           \
            hil_channel_rows_clear(&own, bytes, p->filter_h * p->line, (int8_t *)scratch);         \
        }                                                                                          \
        for (int32_t images = p->batch; images > 0; images--) {                                    \
            for (int32_t y = 0; y < p->out_h; y++) {                                               \
                const struct hil_rows_under rows =                                                 \
                    hil_channel_rows_under(&own, bytes, y, (const int8_t *)in, (int8_t *)scratch); \
                const int8_t *from = rows.from;                                                    \
                for (int32_t x = p->out_w; x > 0; x--) {                                           \
                    struct hil_dsp_channels_place at = {                                           \
                        .weights = p->weights, .scales = SCALES, .channel = 0};                    \
                    const int8_t *next = from;                                                     \
                    for (int32_t left = p->in_c / HIL_DSP_FOUR_CHANNELS; left > 0; left--) {       \
                        name##_outputs(p, HIL_DSP_FOUR_CHANNELS, next, rows.step, &at, out);       \
                        at.channel += HIL_DSP_FOUR_CHANNELS;                                       \
                        next += bytes * HIL_DSP_FOUR_CHANNELS;                                     \
                        out += HIL_DSP_FOUR_CHANNELS;                                              \
                    }                                                                              \
                    if (rest > 0) {                                                                \
                        name##_outputs(p, rest, next, rows.step, &at, out);                        \
                        out += rest;                                                               \
                    }                                                                              \
                    from += bytes * p->stride_w * p->in_c;                                         \
                }                                                                                  \
            }                                                                                      \
            in += p->in_h * p->in_w * p->in_c;                                                     \
        }                                                                                          \
    }

/*@kernel
name = "hil_dsp_depthwise_conv2d_s16_channels"
requires = ["dsp"]
inputs = ["int16_t"]
outputs = ["int16_t"]
scratch = "2 * padded * filter_h * line * in_c"
order = ["pixels 1", "channels 4"]
reads = "channel window"
code = 600
[cost]
row = "batch * out_h"
copied_row = "row * padded * filter_h"
copied = "copied_row * columns * in_c"
pixel = "row * out_w"
four = "pixel * (in_c // 4)"
four_row = "four * filter_h"
two_taps = "four_row * (filter_w // 2)"
odd_tap = "four_row * (filter_w % 2)"
rest = "pixel * (in_c % 4)"
rest_tap = "rest * filter_h * filter_w"
@*/
struct hil_dsp_depthwise_conv2d_s16_channels {
    HIL_CHANNEL_ROWS_FIELDS;
    const int32_t *weights; /* of each four channels [filter_h][filter_w][2] */
    int32_t shifted;        /* 1: outputs have an addend and a shift, 0: they have neither */
    int32_t out_min;        /* the least output */
    int32_t out_max;        /* the largest output */
    const int32_t *scales;  /* of each channel: bias, multiplier, addend, shift */
};

HIL_DSP_CHANNELS_LAYER(hil_dsp_depthwise_conv2d_s16_channels, int16_t, HIL_DSP_CHANNELS_START,
                       HIL_DSP_CHANNELS_SCALE, p->scales, HIL_DSP_TAP_VALUE_S16)

/*@kernel
name = "hil_dsp_depthwise_conv2d_s8_channels"
requires = ["dsp"]
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "padded * filter_h * line * in_c"
order = ["pixels 1", "channels 4"]
reads = "channel window"
code = 630
[cost]
row = "batch * out_h"
copied_row = "row * padded * filter_h"
copied = "copied_row * columns * in_c"
pixel = "row * out_w"
four = "pixel * (in_c // 4)"
four_row = "four * filter_h"
two_taps = "four_row * (filter_w // 2)"
odd_tap = "four_row * (filter_w % 2)"
rest = "pixel * (in_c % 4)"
rest_tap = "rest * filter_h * filter_w"
clamped = "pixel * in_c * (out_max - out_min != 255)"
@*/
struct hil_dsp_depthwise_conv2d_s8_channels {
    HIL_CHANNEL_ROWS_FIELDS;
    const int32_t *weights; /* of each four channels [filter_h][filter_w][2] */
    int32_t out_min;        /* the least output */
    int32_t out_max;        /* the largest output */
    const int32_t *scales;  /* of each channel: 256 times the bias, multiplier, addend, shift to the
                             * right */
};

HIL_DSP_CHANNELS_LAYER(hil_dsp_depthwise_conv2d_s8_channels, int8_t, HIL_DSP_CHANNELS_START,
                       HIL_DSP_CHANNELS_SCALE, p->scales, HIL_DSP_TAP_VALUE_S8)

/*@kernel
name = "hil_dsp_depthwise_conv2d_s8_channels_rounded"
requires = ["dsp"]
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "padded * filter_h * line * in_c"
order = ["pixels 1", "channels 4"]
reads = "channel window"
code = 680
[cost]
row = "batch * out_h"
copied_row = "row * padded * filter_h"
copied = "copied_row * columns * in_c"
pixel = "row * out_w"
four = "pixel * (in_c // 4)"
four_row = "four * filter_h"
two_taps = "four_row * (filter_w // 2)"
odd_tap = "four_row * (filter_w % 2)"
rest = "pixel * (in_c % 4)"
rest_tap = "rest * filter_h * filter_w"
wide_output = "pixel * in_c * (narrow == 0)"
@*/
struct hil_dsp_depthwise_conv2d_s8_channels_rounded {
    HIL_CHANNEL_ROWS_FIELDS;
    const int32_t *weights; /* of each four channels [filter_h][filter_w][2] */
    HIL_REQUANTIZATION_FIELDS;
};

HIL_DSP_CHANNELS_LAYER(hil_dsp_depthwise_conv2d_s8_channels_rounded, int8_t,
                       HIL_DSP_CHANNELS_START_ROUNDED, HIL_DSP_CHANNELS_SCALE_ROUNDED, NULL,
                       HIL_DSP_TAP_VALUE_ROUNDED)

#endif
