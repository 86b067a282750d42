/* Depthwise 3x3 convolution of int16 images with int8 weights, a channel's plane at a time: the
 * blocks of depthwise_conv2d_s8_plane.h on values that need no widening, requantized by one
 * rounding.
 *
 * Tile: that of depthwise_conv2d_s8_plane.h.
 *
 * Registers: as there; r2 is the multiplier once a tile's sums are complete, r3 the addend.
 *
 * Data: packed by `wide_depthwise()`; per channel
 *
 *   weights  of filters of 3x3, of smaller ones with zeros
 *            12 bytes: of rows 0, 1, 2 the columns 0 1 1 2, int8. As a word, the bytes 0 and 2 are
 *            c0|c1 and the bytes 1 and 3 are c1|c2, which sxtb16 widens.
 *   scales   int32: bias, multiplier, addend, shift to the right
 *   plane    in scratch, as in depthwise_conv2d_s8_plane.h, with the input's zero point around
 *
 * Order: as in depthwise_conv2d_s8_plane.h.
 *
 * Bounds: smlad adds modulo 2^32; sums, bias included, are below 2^31 for all inputs
 * (`narrow_sums()`). Distances are those of depthwise_conv2d_s8_plane.h with outputs of two bytes;
 * a layer whose rows of outputs are too far from each other has one row at a time.
 *
 * Output: that of columns_s16.h.
 *
 * Scratch: the plane of one channel; `rows` trades it for instructions.
 *
 * Cost: 43 instructions for a 2x2 tile (36 MACs), 49 with stride 2, and 2.3 a pixel for the plane.
 * Measured (`hil bench` on mps2-an386, instructions under QEMU) a MAC: 12x12x64 1.52, 12x12x8 with
 * eight filters a channel 1.30.
 *
 * Tests: the twin is hil_dsp_plane_s16_output (tests/c/test_wide_kernels.py); the assembly:
 * tests/board/test_sixteen_bits.py.
 */
#ifndef HIL_KERNELS_DSP_DEPTHWISE_CONV2D_S16_PLANE_H
#define HIL_KERNELS_DSP_DEPTHWISE_CONV2D_S16_PLANE_H

#include "hil/kernels/dsp/columns_s16.h"
#include "hil/kernels/dsp/depthwise_conv2d_s8_plane.h"

/*@kernel
name = "hil_dsp_depthwise_conv2d_s16_plane"
requires = ["dsp"]
inputs = ["int16_t"]
outputs = ["int16_t"]
scratch = "2 * line * ((rows - 1) * stride + 3) + 2 * beyond"
order = ["rows rows", "channels depth_multiplier"]
reads = "channel window"
window = {filter_h = "3", filter_w = "3"}
code = 800
[cost]
plane = "batch * in_c * ((out_h + rows - 1) // rows)"
filter = "plane * depth_multiplier"
plane_pixel = "plane * ((rows - 1) * stride + 3) * columns"
channel = "batch * in_c * depth_multiplier"
dense_channel = "(2 - stride) * channel"
square = "dense_channel * (out_h // 2) * (out_w // 2)"
last_column = "dense_channel * (out_h // 2) * (out_w % 2)"
last_row = "dense_channel * (out_h % 2) * out_w"
strided_output = "(stride - 1) * channel * out_h * out_w"
@*/
struct hil_dsp_depthwise_conv2d_s16_plane {
    HIL_IMAGES_FIELDS;
    int32_t stride;           /* 1 or 2, along both axes */
    int32_t pad_top;          /* rows above the image */
    int32_t pad_left;         /* columns before it */
    int32_t depth_multiplier; /* filters of a channel of the image */
    int32_t columns;          /* of the image that windows reach, from the first */
    int32_t line;             /* half-words from row to row of the plane, an even number */
    int32_t beyond;           /* half-words after the last row, an even number */
    int32_t rows;             /* of outputs at a time */
    int32_t in_zero_point;    /* of positions outside the image */
    int32_t shifted;          /* 1: outputs have an addend and a shift, 0: they have neither */
    int32_t out_min;          /* the least output */
    int32_t out_max;          /* the largest output */
    const int8_t
        *weights; /* of each output channel [3 rows][4]: columns 0, 1, 1, 2 of the filter */
    const int32_t *scales; /* of each channel: bias, multiplier, addend, shift */
};

struct hil_dsp_plane_s16_channel {
    struct hil_dsp_plane_taps taps;
    int32_t bias;       /* of each output channel */
    int32_t multiplier; /* of what the scales say, in Q0.31 */
    int32_t addend;
    int32_t right;
};

HIL_INLINE struct hil_dsp_plane_s16_channel
hil_dsp_plane_s16_channel(const struct hil_dsp_depthwise_conv2d_s16_plane *p, int32_t channel) {
    struct hil_dsp_plane_s16_channel c = {
        .taps = {{0}, {0}},
        .bias = p->scales[4 * channel],
        .multiplier = p->scales[4 * channel + 1],
        .addend = p->scales[4 * channel + 2],
        .right = p->scales[4 * channel + 3],
    };
#pragma GCC unroll 3
    for (int i = 0; i < 3; i++) {
        const uint32_t bytes = hil_dsp_load(p->weights + 12 * channel + 4 * i);
        c.taps.left[i] = hil_dsp_even(bytes);
        c.taps.right[i] = hil_dsp_odd(bytes);
    }
    return c;
}

#if HIL_DSP_ASSEMBLY

/* clang-format off */

#define HIL_DSP_PLANE_S16_SCALED(sum) "smmulr " sum ", " sum ", r2\n\t"
#define HIL_DSP_PLANE_S16_LINEAR(sum) "ssat " sum ", #16, " sum "\n\t"
#define HIL_DSP_PLANE_S16_RECTIFIED(sum) "usat " sum ", #15, " sum "\n\t"
#define HIL_DSP_PLANE_S16_LINEAR_BY(sum)                                                           \
    "asr " sum ", " sum ", r2\n\t" HIL_DSP_PLANE_S16_LINEAR(sum)
#define HIL_DSP_PLANE_S16_RECTIFIED_BY(sum)                                                        \
    "asr " sum ", " sum ", r2\n\t" HIL_DSP_PLANE_S16_RECTIFIED(sum)

#define HIL_DSP_PLANE_S16_CLAMPS(BLOCK, LAST)                                                      \
    if (p->shifted && p->out_min == 0) {                                                           \
        HIL_DSP_PLANE_WIDTHS(BLOCK, LAST, HIL_DSP_PLANE_OWN, HIL_DSP_PLANE_S16_RECTIFIED_BY,       \
                             HIL_DSP_PLANE_SCALED, "strh")                                         \
    } else if (p->shifted) {                                                                       \
        HIL_DSP_PLANE_WIDTHS(BLOCK, LAST, HIL_DSP_PLANE_OWN, HIL_DSP_PLANE_S16_LINEAR_BY,          \
                             HIL_DSP_PLANE_SCALED, "strh")                                         \
    } else if (p->out_min == 0) {                                                                  \
        HIL_DSP_PLANE_WIDTHS(BLOCK, LAST, "", HIL_DSP_PLANE_S16_RECTIFIED,                         \
                             HIL_DSP_PLANE_S16_SCALED, "strh")                                     \
    } else {                                                                                       \
        HIL_DSP_PLANE_WIDTHS(BLOCK, LAST, "", HIL_DSP_PLANE_S16_LINEAR,                            \
                             HIL_DSP_PLANE_S16_SCALED, "strh")                                     \
    }

#define HIL_DSP_PLANE_S16_LASTS(BLOCK, LAST)                                                       \
    if (p->out_w % 2 == 0) {                                                                       \
        HIL_DSP_PLANE_S16_CLAMPS(BLOCK, HIL_DSP_PLANE_NOTHING)                                     \
    } else {                                                                                       \
        HIL_DSP_PLANE_S16_CLAMPS(BLOCK, LAST)                                                      \
    }

/* clang-format on */

/* Whether instructions can hold the distances of `rows` rows, 1 or 2, for a range of outputs to
 * which an instruction saturates. */
HIL_INLINE int hil_dsp_plane_s16_fits(const struct hil_dsp_depthwise_conv2d_s16_plane *p,
                                      int32_t rows) {
    return __builtin_constant_p(p->line) && __builtin_constant_p(HIL_DSP_PLANE_OUT_C(p)) &&
           __builtin_constant_p(p->out_w) && __builtin_constant_p(p->stride) &&
           __builtin_constant_p(p->out_min) && __builtin_constant_p(p->shifted) &&
           p->line <= (p->stride == 2 ? 128 : 160) &&
           2 * (p->out_w + 2) * HIL_DSP_PLANE_OUT_C(p) * rows <= 4095 && p->out_max == INT16_MAX &&
           (p->out_min == 0 || p->out_min == INT16_MIN);
}

/* `turns` times `rows` rows of outputs, 1 or 2. */
HIL_INLINE void hil_dsp_plane_s16_turns(const struct hil_dsp_depthwise_conv2d_s16_plane *p,
                                        const struct hil_dsp_plane_s16_channel *c,
                                        const int16_t *in, int32_t rows, int32_t turns,
                                        int16_t *out) {
    const int32_t lines = p->stride * rows;
    const int32_t bytes = sizeof *out;
    /* What the blocks name and these do not need. */
    const int32_t shift = 0;
    register const int16_t *from __asm__("r0") = in;
    register int16_t *to __asm__("r1") = out;
    register const int16_t *end __asm__("r2") = in + turns * lines * p->line;
    register int32_t bias __asm__("r3") = c->bias;
    register int32_t multiplier __asm__("r4") = c->multiplier;
    register int32_t addend __asm__("r5") = c->addend;
    register int32_t own __asm__("r6") = c->right;
    register uint32_t u0 __asm__("r8") = c->taps.left[0];
    register uint32_t u1 __asm__("r9") = c->taps.left[1];
    register uint32_t u2 __asm__("r10") = c->taps.left[2];
    register uint32_t l0 __asm__("r11") = c->taps.right[0];
    register uint32_t l1 __asm__("r12") = c->taps.right[1];
    register uint32_t l2 __asm__("lr") = c->taps.right[2];
    if (p->stride == 2 && rows == 1) {
        HIL_DSP_PLANE_S16_LASTS(HIL_DSP_PLANE_PAIR_2, HIL_DSP_PLANE_SINGLE)
    } else if (p->stride == 2) {
        HIL_DSP_PLANE_S16_LASTS(HIL_DSP_PLANE_SQUARE_2, HIL_DSP_PLANE_COLUMN_2)
    } else if (rows == 1) {
        HIL_DSP_PLANE_S16_LASTS(HIL_DSP_PLANE_PAIR, HIL_DSP_PLANE_SINGLE)
    } else {
        HIL_DSP_PLANE_S16_LASTS(HIL_DSP_PLANE_SQUARE, HIL_DSP_PLANE_COLUMN)
    }
}

#endif

/* One output. */
HIL_INLINE void hil_dsp_plane_s16_output(const struct hil_dsp_depthwise_conv2d_s16_plane *p,
                                         const struct hil_dsp_plane_s16_channel *c,
                                         const int16_t *in, int16_t *out) {
    uint32_t sum = (uint32_t)c->bias;
#pragma GCC unroll 3
    for (int i = 0; i < 3; i++) {
        sum = hil_dsp_dual(hil_dsp_s16_load(in), c->taps.left[i], sum);
        sum += (uint32_t)in[2] * (uint32_t)hil_dsp_high(c->taps.right[i]);
        in += p->line;
    }
    *out = p->shifted ? hil_dsp_s16_shifted((int32_t)sum, c->multiplier, c->addend, c->right,
                                            p->out_min, p->out_max)
                      : hil_dsp_s16_scaled((int32_t)sum, c->multiplier, p->out_min, p->out_max);
}

/* `rows` rows of outputs of a channel from its plane. */
HIL_INLINE void hil_dsp_plane_s16_outputs(const struct hil_dsp_depthwise_conv2d_s16_plane *p,
                                          int32_t channel, const int16_t *plane, int32_t rows,
                                          int16_t *out) {
    const struct hil_dsp_plane_s16_channel c = hil_dsp_plane_s16_channel(p, channel);
    const int32_t out_c = HIL_DSP_PLANE_OUT_C(p);
    const int32_t row = p->out_w * out_c;
#if HIL_DSP_ASSEMBLY
    if (hil_dsp_plane_s16_fits(p, 2) && rows > 1) {
        /* Of an odd number the second row is computed twice. */
        int32_t turns = rows % 2 == 0 ? rows / 2 : 1;
        do {
            hil_dsp_plane_s16_turns(p, &c, plane, 2, turns, out);
            rows -= 2 * turns - rows % 2;
            turns = rows / 2;
            plane += p->stride * p->line;
            out += row;
        } while (rows > 0);
        return;
    }
    if (hil_dsp_plane_s16_fits(p, 1)) {
        hil_dsp_plane_s16_turns(p, &c, plane, 1, rows, out);
        return;
    }
#endif
    for (; rows > 0; rows--) {
        for (int32_t x = 0; x < p->out_w; x++) {
            hil_dsp_plane_s16_output(p, &c, plane + x * p->stride, out + x * out_c);
        }
        plane += p->stride * p->line;
        out += row;
    }
}

/* Copies a channel of up to sixteen pixels of a row. */
HIL_INLINE void hil_dsp_plane_s16_copy(const int16_t *in, int32_t step, int32_t count,
                                       int16_t *to) {
#pragma GCC unroll 16
    for (int32_t x = 0; x < count; x++) {
        to[x] = in[x * step];
    }
}

/* Copies a channel of `rows` rows of an image to where they belong in the plane. */
HIL_INLINE void hil_dsp_plane_s16_fill(const struct hil_dsp_depthwise_conv2d_s16_plane *p,
                                       const int16_t *in, int32_t rows, int16_t *to) {
    if (p->columns <= 8) {
#pragma GCC unroll 4
        for (; rows > 0; rows--) {
            hil_dsp_plane_s16_copy(in, p->in_c, p->columns, to);
            in += p->in_w * p->in_c;
            to += p->line;
        }
        return;
    }
    for (; rows > 0; rows--) {
        const int16_t *from = in;
        int16_t *at = to;
        for (int32_t left = p->columns / 16; left > 0; left--) {
            hil_dsp_plane_s16_copy(from, p->in_c, 16, at);
            from += 16 * p->in_c;
            at += 16;
        }
        hil_dsp_plane_s16_copy(from, p->in_c, p->columns % 16, at);
        in += p->in_w * p->in_c;
        to += p->line;
    }
}

HIL_INLINE void
hil_dsp_depthwise_conv2d_s16_plane(const struct hil_dsp_depthwise_conv2d_s16_plane *p,
                                   const int16_t *in, int16_t *out, void *scratch) {
    int16_t *const plane = (int16_t *)scratch;
    const int32_t filters = p->depth_multiplier;
    const int32_t out_row = p->out_w * HIL_DSP_PLANE_OUT_C(p);
    for (int32_t images = p->batch; images > 0; images--) {
        for (int32_t y = 0; y < p->out_h; y += p->rows) {
            const int32_t rows = p->out_h - y < p->rows ? p->out_h - y : p->rows;
            const int32_t size = p->line * ((rows - 1) * p->stride + 3) + p->beyond;
            hil_dsp_plane_clear(p->in_zero_point, size, plane);
            const int32_t top = y * p->stride - p->pad_top;
            const int32_t first = top < 0 ? 0 : top;
            const int32_t end = top + (rows - 1) * p->stride + 3;
            const int32_t inside = (end < p->in_h ? end : p->in_h) - first;
            for (int32_t channel = 0; channel < p->in_c; channel++) {
                hil_dsp_plane_s16_fill(p, in + first * p->in_w * p->in_c + channel, inside,
                                       plane + (first - top) * p->line + p->pad_left);
                for (int32_t filter = channel * filters; filter < (channel + 1) * filters;
                     filter++) {
                    hil_dsp_plane_s16_outputs(p, filter, plane, rows, out + y * out_row + filter);
                }
            }
        }
        in += p->in_h * p->in_w * p->in_c;
        out += p->out_h * out_row;
    }
}

#endif
