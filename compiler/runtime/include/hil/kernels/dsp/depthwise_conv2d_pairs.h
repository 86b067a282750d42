/* Depthwise convolution of int8 and int16 images with int8 weights and filters of any size, strides
 * and dilations, a channel's plane at a time: two taps of a row are a word, whose products are one
 * instruction. The kernels of 3x3 planes are faster where they serve.
 *
 * Tile: 4 outputs of a row, 2 or 1, x 1 filter.
 *
 * Registers: of the compiler's choice: a sum an output, up to four words of a row of the filter, a
 * word of pixels, where these are.
 *
 * Data: packed by `tap_pairs()`; of each filter int32 [filter_h][pairs], in a word the weights of
 * two columns, `step` apart from those of the next word; a column that the filter lacks has 0.
 * Taps with a dilation are neighbours too where the stride is 1: a row of the plane is then in
 * `phases` parts, the pixels 0, phases, 2 * phases ... in the first; else a column and 0. In
 * hil_dsp_depthwise_conv2d_s8_pairs they are times 256. The plane lies in scratch, int16
 * [row][line], the input's zero point around: what is behind a row, or a part, is in front of the
 * next.
 *
 * Order: some rows of outputs at a time, of these a channel of the image with its filters.
 *
 * Bounds: smlad adds modulo 2^32, as sums of int8 are; times 256 they fit a word (`affine_of()`),
 * and those of int16, bias included, are below 2^31 for all inputs (`narrow_sums()`).
 *
 * Output: of int8 hil_dsp_scaled(), the affine requantization that `affine_of()` proves; where
 * there is none hil_requantize_by(), which hil_dsp_depthwise_conv2d_s8_pairs_rounded has. Of int16
 * that of columns_s16.h.
 *
 * Scratch: the plane of one channel; `rows` trades it for instructions.
 *
 * Cost: for four outputs 7 instructions a word of the filter, 9 where they share no pixels, and 5 a
 * row of it; 2 a pixel of the plane. Measured (`hil bench` on mps2-an386, instructions under QEMU),
 * 8x8x16, a MAC: 4x4 1.64; 3x3 with dilation 2 2.65, of int16 2.59; with stride 3 4.4 and 4.7, for
 * which depthwise_conv2d_channels.h is. Portable kernels take 2.5 to 4.1 and, of int16, 5.8 to 8.3.
 *
 * Tests: tests/c/test_dsp_kernels.py, tests/c/test_wide_kernels.py, on a board
 * tests/board/test_kernels.py. Layout: tests/c/test_kernel_layouts.py.
 */
#ifndef HIL_KERNELS_DSP_DEPTHWISE_CONV2D_PAIRS_H
#define HIL_KERNELS_DSP_DEPTHWISE_CONV2D_PAIRS_H

#include "hil/kernels/dsp/depthwise_conv2d_s16_plane.h"

#define HIL_DSP_TAP_PAIRS_FIELDS                                                                   \
    HIL_IMAGES_FIELDS;                                                                             \
    int32_t depth_multiplier; /* filters of a channel of the image */                              \
    HIL_WINDOW_FIELDS;                                                                             \
    int32_t columns;       /* of the image that windows reach, from the first */                   \
    int32_t line;          /* half-words from row to row of the plane, an even number */           \
    int32_t phases;        /* parts of a row of the plane */                                       \
    int32_t part;          /* half-words from part to part, an even number if there are several */ \
    int32_t beyond;        /* half-words after the last row, an even number */                     \
    int32_t rows;          /* of outputs at a time */                                              \
    int32_t pairs;         /* words of a row of a filter */                                        \
    int32_t step;          /* half-words from the pixels of a word to those of the next */         \
    int32_t in_zero_point; /* of positions outside the image */                                    \
    const int32_t *weights /* of each output channel [filter_h][pairs] */

struct hil_dsp_tap_pairs {
    HIL_DSP_TAP_PAIRS_FIELDS;
};

#define HIL_DSP_TAP_PAIRS(p)                                                                       \
    {                                                                                              \
        .batch = (p)->batch, .in_h = (p)->in_h, .in_w = (p)->in_w, .in_c = (p)->in_c,              \
        .out_h = (p)->out_h, .out_w = (p)->out_w, .depth_multiplier = (p)->depth_multiplier,       \
        .filter_h = (p)->filter_h, .filter_w = (p)->filter_w, .stride_h = (p)->stride_h,           \
        .stride_w = (p)->stride_w, .dilation_h = (p)->dilation_h, .dilation_w = (p)->dilation_w,   \
        .pad_top = (p)->pad_top, .pad_left = (p)->pad_left, .columns = (p)->columns,               \
        .line = (p)->line, .phases = (p)->phases, .part = (p)->part, .beyond = (p)->beyond,        \
        .rows = (p)->rows, .pairs = (p)->pairs, .step = (p)->step,                                 \
        .in_zero_point = (p)->in_zero_point, .weights = (p)->weights,                              \
    }

/* Outputs of a row at a time, and words of a row of a filter that registers hold. */
#define HIL_DSP_TAP_OUTPUTS 4
#define HIL_DSP_TAP_PAIRS_SHARED 4

/* A band of output rows: its number, the first row of the image below it, the rows that there are,
 * and where these begin in the plane. */
struct hil_dsp_tap_band {
    int32_t rows;
    int32_t first;
    int32_t inside;
    int16_t *to;
};

/* The band from row y of the outputs on; what is around its pixels is put into the plane. */
HIL_INLINE struct hil_dsp_tap_band hil_dsp_tap_band(const struct hil_dsp_tap_pairs *p, int32_t y,
                                                    int16_t *plane) {
    const int32_t rows = p->out_h - y < p->rows ? p->out_h - y : p->rows;
    const int32_t height = (rows - 1) * p->stride_h + (p->filter_h - 1) * p->dilation_h + 1;
    const int32_t top = y * p->stride_h - p->pad_top;
    const int32_t first = top < 0 ? 0 : top;
    const int32_t end = top + height;
    hil_dsp_plane_clear(p->in_zero_point, p->line * height + p->beyond, plane);
    const struct hil_dsp_tap_band band = {
        .rows = rows,
        .first = first,
        .inside = (end < p->in_h ? end : p->in_h) - first,
        .to = plane + (first - top) * p->line,
    };
    return band;
}

/* Up to sixteen pixels of a row, whose elements have so many bytes, to the plane: those of one byte
 * to where words are aligned. */
HIL_INLINE void hil_dsp_tap_copy(int32_t bytes, const void *in, int32_t step, int32_t count,
                                 int16_t *to) {
    if (bytes == 1) {
        hil_dsp_plane_widen((const int8_t *)in, step, count, to);
    } else {
        hil_dsp_plane_s16_copy((const int16_t *)in, step, count, to);
    }
}

/* Puts a channel of the rows of a band into a part of the plane: every `phases`-th pixel. */
HIL_INLINE void hil_dsp_tap_fill_part(const struct hil_dsp_tap_pairs *p, int32_t bytes,
                                      const struct hil_dsp_tap_band *band, int32_t part,
                                      const void *in) {
    const int32_t pixel = bytes * p->in_c;
    const int32_t step = p->phases * p->in_c;
    /* The first pixel of the part, and its place in it. */
    const int32_t first = (part + p->phases * p->pad_left - p->pad_left) % p->phases;
    const int32_t place = (first + p->pad_left) / p->phases;
    const int32_t there = (p->columns - first + p->phases - 1) / p->phases;
    /* A pixel before the first whole word. */
    const int32_t lead = place % 2 != 0 && there > 0;
    const int32_t count = there > lead ? there - lead : 0;
    const int8_t *row = (const int8_t *)in + band->first * p->in_w * pixel + first * pixel;
    int16_t *to = band->to + part * p->part + place;
    for (int32_t rows = band->inside; rows > 0; rows--) {
        hil_dsp_tap_copy(bytes, row, step, lead, to);
        const int8_t *from = row + lead * p->phases * pixel;
        int16_t *at = to + lead;
        for (int32_t left = count / 16; left > 0; left--) {
            hil_dsp_tap_copy(bytes, from, step, 16, at);
            from += 16 * p->phases * pixel;
            at += 16;
        }
        hil_dsp_tap_copy(bytes, from, step, count % 16, at);
        row += p->in_w * pixel;
        to += p->line;
    }
}

HIL_INLINE void hil_dsp_tap_fill(const struct hil_dsp_tap_pairs *p, int32_t bytes,
                                 const struct hil_dsp_tap_band *band, const void *in) {
    for (int32_t part = 0; part < p->phases; part++) {
        hil_dsp_tap_fill_part(p, bytes, band, part, in);
    }
}

/* Adds the products of a row of a filter, in the order of its words. */
HIL_INLINE void hil_dsp_tap_row(const struct hil_dsp_tap_pairs *p, const int32_t *weights,
                                int32_t count, const int16_t *in, uint32_t *sums) {
#pragma GCC unroll 8
    for (int32_t i = 0; i < p->pairs; i++) {
        const uint32_t pair = (uint32_t)weights[i];
#pragma GCC unroll 4
        for (int32_t j = 0; j < count; j++) {
            const uint32_t pixels = hil_dsp_s16_load(in + i * p->step + j * p->stride_w);
            sums[j] = hil_dsp_dual(pixels, pair, sums[j]);
        }
        /* Pixels that are loaded ahead would take more registers than there are. */
        __asm__ volatile("" ::: "memory");
    }
}

/* The same in the order of the pixels, of which each word is loaded once. */
HIL_INLINE void hil_dsp_tap_row_shared(const struct hil_dsp_tap_pairs *p, const int32_t *weights,
                                       int32_t count, const int16_t *in, uint32_t *sums) {
    uint32_t pairs[HIL_DSP_TAP_PAIRS_SHARED];
#pragma GCC unroll 4
    for (int32_t i = 0; i < p->pairs; i++) {
        pairs[i] = (uint32_t)weights[i];
    }
    const int32_t end = 2 * (p->pairs - 1) + (count - 1) * p->stride_w;
#pragma GCC unroll 12
    for (int32_t at = 0; at <= end; at += p->stride_w) {
        const uint32_t pixels = hil_dsp_s16_load(in + at);
#pragma GCC unroll 4
        for (int32_t i = 0; i < p->pairs; i++) {
            const int32_t j = (at - 2 * i) / p->stride_w;
            if (at >= 2 * i && j < count) {
                sums[j] = hil_dsp_dual(pixels, pairs[i], sums[j]);
            }
        }
        __asm__ volatile("" ::: "memory");
    }
}

/* Adds the products of a filter and the windows of `count` outputs next to each other to their
 * sums. */
HIL_INLINE void hil_dsp_tap_sums(const struct hil_dsp_tap_pairs *p, const int32_t *weights,
                                 int32_t count, const int16_t *in, uint32_t *sums) {
    const int shared = __builtin_constant_p(p->pairs) && __builtin_constant_p(p->stride_w) &&
                       p->pairs <= HIL_DSP_TAP_PAIRS_SHARED && p->step == 2 && p->stride_w <= 2;
#pragma GCC unroll 5
    for (int32_t y = 0; y < p->filter_h; y++) {
        if (shared) {
            hil_dsp_tap_row_shared(p, weights, count, in, sums);
        } else {
            hil_dsp_tap_row(p, weights, count, in, sums);
        }
        weights += p->pairs;
        in += p->dilation_h * p->line;
    }
}

/* What the kernels of taps have in common: how an output starts, and follows from its sum, by words
 * of each channel. */
struct hil_dsp_tap_scale {
    int32_t start;
    int32_t multiplier;
    int32_t addend;
    int32_t shift; /* to the right */
};

HIL_INLINE struct hil_dsp_tap_scale hil_dsp_tap_scale(const int32_t *words) {
    const struct hil_dsp_tap_scale scale = {
        .start = words[0], .multiplier = words[1], .addend = words[2], .shift = words[3]};
    return scale;
}

#define HIL_DSP_TAP_SCALE(p, channel) hil_dsp_tap_scale((p)->scales + 4 * (channel))

#define HIL_DSP_TAP_VALUE_S8(p, scale, sum)                                                        \
    hil_dsp_scaled_to(                                                                             \
        sum, (struct hil_dsp_affine){.multiplier = (scale).multiplier, .addend = (scale).addend},  \
        (scale).shift, (p)->out_min, (p)->out_max)

#define HIL_DSP_TAP_VALUE_S16(p, scale, sum)                                                       \
    ((p)->shifted ? hil_dsp_s16_shifted(sum, (scale).multiplier, (scale).addend, (scale).shift,    \
                                        (p)->out_min, (p)->out_max)                                \
                  : hil_dsp_s16_scaled(sum, (scale).multiplier, (p)->out_min, (p)->out_max))

/* Without an affine requantization. */
#define HIL_DSP_TAP_SCALE_ROUNDED(p, channel)                                                      \
    ((struct hil_dsp_tap_scale){                                                                   \
        .start = (p)->bias[channel],                                                               \
        .multiplier = (p)->multipliers[(p)->per_channel ? (channel) : 0],                          \
        .addend = 0,                                                                               \
        .shift = (p)->shifts[(p)->per_channel ? (channel) : 0],                                    \
    })

#define HIL_DSP_TAP_VALUE_ROUNDED(p, scale, sum)                                                   \
    hil_clamp_s8(hil_requantize_by((p)->narrow, sum, (scale).multiplier, (scale).shift,            \
                                   (p)->out_zero_point),                                           \
                 (p)->out_min, (p)->out_max)

/* A layer of elements of a type: `SCALE(p, channel)` is how a channel's outputs start, and
 * `VALUE(p, scale, sum)` an output. */
#define HIL_DSP_TAP_LAYER(name, type, SCALE, VALUE)                                                \
    /* `count` outputs next to each other, of output channel `channel`. */                         \
    HIL_INLINE void name##_outputs(const struct name *p, int32_t channel, int32_t count,           \
                                   const int16_t *in, type *out) {                                 \
        const struct hil_dsp_tap_pairs taps = HIL_DSP_TAP_PAIRS(p);                                \
        const struct hil_dsp_tap_scale scale = SCALE(p, channel);                                  \
        uint32_t sums[HIL_DSP_TAP_OUTPUTS];                                                        \
        _Pragma("GCC unroll 4") for (int32_t i = 0; i < count; i++) {                              \
            sums[i] = (uint32_t)scale.start;                                                       \
        }                                                                                          \
        hil_dsp_tap_sums(&taps, p->weights + channel * p->filter_h * p->pairs, count, in, sums);   \
        _Pragma("GCC unroll 4") for (int32_t i = 0; i < count; i++) {                              \
            out[i * p->phases * HIL_DSP_PLANE_OUT_C(p)] = VALUE(p, scale, (int32_t)sums[i]);       \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    /* `left` outputs of a row from a part of the plane. */                                        \
    HIL_INLINE void name##_part(const struct name *p, int32_t channel, int32_t left,               \
                                const int16_t *from, type *to) {                                   \
        const int32_t step = p->phases * HIL_DSP_PLANE_OUT_C(p);                                   \
        for (; left >= HIL_DSP_TAP_OUTPUTS; left -= HIL_DSP_TAP_OUTPUTS) {                         \
            name##_outputs(p, channel, HIL_DSP_TAP_OUTPUTS, from, to);                             \
            from += HIL_DSP_TAP_OUTPUTS * p->stride_w;                                             \
            to += HIL_DSP_TAP_OUTPUTS * step;                                                      \
        }                                                                                          \
        if (left >= 2) {                                                                           \
            name##_outputs(p, channel, 2, from, to);                                               \
            from += 2 * p->stride_w;                                                               \
            to += 2 * step;                                                                        \
        }                                                                                          \
        if (left % 2 != 0) {                                                                       \
            name##_outputs(p, channel, 1, from, to);                                               \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    HIL_INLINE void name(const struct name *p, const type *in, type *out, void *scratch) {         \
        const struct hil_dsp_tap_pairs taps = HIL_DSP_TAP_PAIRS(p);                                \
        int16_t *const plane = (int16_t *)scratch;                                                 \
        const int32_t out_c = HIL_DSP_PLANE_OUT_C(p);                                              \
        for (int32_t images = p->batch; images > 0; images--) {                                    \
            for (int32_t y = 0; y < p->out_h; y += p->rows) {                                      \
                const struct hil_dsp_tap_band band = hil_dsp_tap_band(&taps, y, plane);            \
                for (int32_t channel = 0; channel < out_c; channel++) {                            \
                    if (channel % p->depth_multiplier == 0) {                                      \
                        hil_dsp_tap_fill(&taps, (int32_t)sizeof *in, &band,                        \
                                         in + channel / p->depth_multiplier);                      \
                    }                                                                              \
                    type *to = out + y * p->out_w * out_c + channel;                               \
                    for (int32_t row = 0; row < band.rows; row++) {                                \
                        for (int32_t part = 0; part < p->phases; part++) {                         \
                            name##_part(p, channel, (p->out_w - part + p->phases - 1) / p->phases, \
                                        plane + row * p->stride_h * p->line + part * p->part,      \
                                        to + part * out_c);                                        \
                        }                                                                          \
                        to += p->out_w * out_c;                                                    \
                    }                                                                              \
                }                                                                                  \
            }                                                                                      \
            in += p->in_h * p->in_w * p->in_c;                                                     \
            out += p->out_h * p->out_w * out_c;                                                    \
        }                                                                                          \
    }

/*@kernel
name = "hil_dsp_depthwise_conv2d_s16_pairs"
requires = ["dsp"]
inputs = ["int16_t"]
outputs = ["int16_t"]
scratch = "2 * line * ((rows - 1) * stride_h + (filter_h - 1) * dilation_h + 1) + 2 * beyond"
order = ["rows rows", "channels depth_multiplier"]
reads = "channel window"
code = 750
[cost]
plane = "batch * in_c * ((out_h + rows - 1) // rows)"
filter = "plane * depth_multiplier"
plane_pixel = "plane * ((rows - 1) * stride_h + (filter_h - 1) * dilation_h + 1) * columns"
row = "batch * in_c * depth_multiplier * out_h"
plane_phase = "plane * ((rows - 1) * stride_h + (filter_h - 1) * dilation_h + 1) * (phases - 1)"
output = "row * out_w"
four = "row * phases * (out_w // phases // 4)"
rest = "output - 4 * four"
four_row = "four * filter_h"
four_pair = "four_row * pairs"
apart_pair = "four_pair * ((stride_w > 2) + (step > 2) > 0)"
rest_pair = "rest * filter_h * pairs"
@*/
struct hil_dsp_depthwise_conv2d_s16_pairs {
    HIL_DSP_TAP_PAIRS_FIELDS;
    int32_t shifted;       /* 1: outputs have an addend and a shift, 0: they have neither */
    int32_t out_min;       /* the least output */
    int32_t out_max;       /* the largest output */
    const int32_t *scales; /* of each output channel: bias, multiplier, addend, shift */
};

HIL_DSP_TAP_LAYER(hil_dsp_depthwise_conv2d_s16_pairs, int16_t, HIL_DSP_TAP_SCALE,
                  HIL_DSP_TAP_VALUE_S16)

/*@kernel
name = "hil_dsp_depthwise_conv2d_s8_pairs"
requires = ["dsp"]
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "2 * line * ((rows - 1) * stride_h + (filter_h - 1) * dilation_h + 1) + 2 * beyond"
order = ["rows rows", "channels depth_multiplier"]
reads = "channel window"
code = 700
[cost]
plane = "batch * in_c * ((out_h + rows - 1) // rows)"
filter = "plane * depth_multiplier"
plane_pixel = "plane * ((rows - 1) * stride_h + (filter_h - 1) * dilation_h + 1) * columns"
row = "batch * in_c * depth_multiplier * out_h"
plane_phase = "plane * ((rows - 1) * stride_h + (filter_h - 1) * dilation_h + 1) * (phases - 1)"
output = "row * out_w"
four = "row * phases * (out_w // phases // 4)"
rest = "output - 4 * four"
four_row = "four * filter_h"
four_pair = "four_row * pairs"
apart_pair = "four_pair * ((stride_w > 2) + (step > 2) > 0)"
clamped = "output * (out_max - out_min != 255)"
rest_pair = "rest * filter_h * pairs"
@*/
struct hil_dsp_depthwise_conv2d_s8_pairs {
    HIL_DSP_TAP_PAIRS_FIELDS;
    int32_t out_min;       /* the least output */
    int32_t out_max;       /* the largest output */
    const int32_t *scales; /* of each output channel: 256 times the bias, multiplier, addend, shift
                            * to the right */
};

HIL_DSP_TAP_LAYER(hil_dsp_depthwise_conv2d_s8_pairs, int8_t, HIL_DSP_TAP_SCALE,
                  HIL_DSP_TAP_VALUE_S8)

/*@kernel
name = "hil_dsp_depthwise_conv2d_s8_pairs_rounded"
requires = ["dsp"]
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "2 * line * ((rows - 1) * stride_h + (filter_h - 1) * dilation_h + 1) + 2 * beyond"
order = ["rows rows", "channels depth_multiplier"]
reads = "channel window"
code = 780
[cost]
plane = "batch * in_c * ((out_h + rows - 1) // rows)"
filter = "plane * depth_multiplier"
plane_pixel = "plane * ((rows - 1) * stride_h + (filter_h - 1) * dilation_h + 1) * columns"
row = "batch * in_c * depth_multiplier * out_h"
plane_phase = "plane * ((rows - 1) * stride_h + (filter_h - 1) * dilation_h + 1) * (phases - 1)"
output = "row * out_w"
wide_output = "output * (narrow == 0)"
four = "row * phases * (out_w // phases // 4)"
rest = "output - 4 * four"
four_row = "four * filter_h"
four_pair = "four_row * pairs"
apart_pair = "four_pair * ((stride_w > 2) + (step > 2) > 0)"
rest_pair = "rest * filter_h * pairs"
@*/
struct hil_dsp_depthwise_conv2d_s8_pairs_rounded {
    HIL_DSP_TAP_PAIRS_FIELDS;
    HIL_REQUANTIZATION_FIELDS;
};

HIL_DSP_TAP_LAYER(hil_dsp_depthwise_conv2d_s8_pairs_rounded, int8_t, HIL_DSP_TAP_SCALE_ROUNDED,
                  HIL_DSP_TAP_VALUE_ROUNDED)

#endif
