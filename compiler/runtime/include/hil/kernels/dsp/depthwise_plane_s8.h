/* Depthwise 3x3 convolution of int8 images on cores that multiply pairs of half-words, a channel's
 * plane at a time.
 *
 * A channel of the rows that some rows of outputs need is widened to half-words first, with what
 * lies outside the image around it. Two neighbours in a row are then one word, and of a filter's
 * row two taps are, so that two instructions do three products. The right border of a row is the
 * left border of the next. */
#ifndef HIL_KERNELS_DSP_DEPTHWISE_PLANE_S8_H
#define HIL_KERNELS_DSP_DEPTHWISE_PLANE_S8_H

#include "hil/dsp.h"
#include "hil/kernels/generic/patch.h"

/*@kernel
name = "hil_dsp_depthwise_plane_s8"
requires = ["dsp"]
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "2 * line * ((rows - 1) * stride + 3) + 2 * beyond"
order = ["rows rows", "channels 1"]
reads = "channel window"
window = {filter_h = "3", filter_w = "3"}
cost = """
0 + 0 * batch * in_c + 44.3 * batch * in_c * ((out_h + rows - 1) // rows)
+ 0 * batch * in_c * ((out_h + rows - 1) // rows) * ((rows - 1) * stride + 3)
+ 3.217 * batch * in_c * ((out_h + rows - 1) // rows) * ((rows - 1) * stride + 3) * columns
+ 0 * (2 - stride) * batch * in_c * (out_h // 2)
+ 44.79 * (2 - stride) * batch * in_c * (out_h // 2) * (out_w // 2)
+ 23.86 * (2 - stride) * batch * in_c * (out_h // 2) * (out_w % 2)
+ 19.55 * (2 - stride) * batch * in_c * (out_h % 2) * out_w
+ 0 * (stride - 1) * batch * in_c * out_h
+ 13.46 * (stride - 1) * batch * in_c * out_h * out_w
+ 1.165 * (shift == 0) * batch * in_c * out_h * out_w"""
code = 768
@*/
struct hil_dsp_depthwise_plane_s8 {
    HIL_IMAGES_FIELDS;
    int32_t stride; /* 1 or 2, along both axes */
    int32_t pad_top;
    int32_t pad_left;
    int32_t columns; /* of the image that windows reach, from the first */
    int32_t line;    /* half-words from row to row of the plane, an even number */
    int32_t beyond;  /* half-words after the last row, an even number */
    int32_t rows;    /* of outputs at a time */
    int32_t in_zero_point;
    int32_t shift;         /* of all channels, or 0 where each has its own */
    const int8_t *weights; /* [in_c][3 rows][4]: columns 0, 1, 1, 2 of the filter */
    const int32_t
        *scales; /* of each channel: 256 times the bias, mantissa, addend, its own shift */
};

/* A row of the filter, times 256: columns 0 and 1, columns 1 and 2. */
struct hil_dsp_plane_taps {
    uint32_t left[3];
    uint32_t right[3];
};

/* What the outputs of a channel have in common. */
struct hil_dsp_plane_channel {
    struct hil_dsp_plane_taps taps;
    int32_t bias;
    struct hil_dsp_affine scale;
    int32_t shift;
};

HIL_INLINE struct hil_dsp_plane_channel
hil_dsp_plane_channel(const struct hil_dsp_depthwise_plane_s8 *p, int32_t channel) {
    const int32_t *const scale = p->scales + (p->shift == 0 ? 4 : 3) * channel;
    struct hil_dsp_plane_channel c = {
        .bias = scale[0],
        .scale = {.mantissa = scale[1], .addend = scale[2]},
        .shift = p->shift == 0 ? scale[3] : p->shift,
    };
#pragma GCC unroll 3
    for (int i = 0; i < 3; i++) {
        const uint32_t bytes = hil_dsp_load(p->weights + 12 * channel + 4 * i);
        c.taps.left[i] = (bytes & 0x00ff00ffU) << 8;
        c.taps.right[i] = bytes & 0xff00ff00U;
    }
    return c;
}

#if HIL_DSP_ASSEMBLY

/* clang-format off */

/* A row of the filter for two outputs next to each other, from four pixels, with stride 1. */
#define HIL_DSP_PLANE_TAPS(first, second, row, old_first, old_second)                              \
    "smlad %[" first "], %[a], %[u" row "], %[" old_first "]\n\t"                                  \
    "smlatb %[" second "], %[a], %[u" row "], %[" old_second "]\n\t"                               \
    "smlabt %[" first "], %[b], %[l" row "], %[" first "]\n\t"                                     \
    "smlad %[" second "], %[b], %[l" row "], %[" second "]\n\t"

/* The same with stride 2, from six pixels. */
#define HIL_DSP_PLANE_TAPS_2(row, old_first, old_second)                                           \
    "smlad %[s0], %[a], %[u" row "], %[" old_first "]\n\t"                                         \
    "smlad %[s1], %[b], %[u" row "], %[" old_second "]\n\t"                                        \
    "smlabt %[s0], %[b], %[l" row "], %[s0]\n\t"                                                   \
    "smlabt %[s1], %[s2], %[l" row "], %[s1]\n\t"

/* A row of the filter for a single output. */
#define HIL_DSP_PLANE_TAP(sum, row, old)                                                           \
    "smlad %[" sum "], %[a], %[u" row "], %[" old "]\n\t"                                          \
    "smlabt %[" sum "], %[b], %[l" row "], %[" sum "]\n\t"

#define HIL_DSP_PLANE_SCALED(sum) "smmla %[" sum "], %[" sum "], %[a], %[b]\n\t"

/* To the right by the layer's shift, or by the channel's own, which `own` loads. */
#define HIL_DSP_PLANE_NARROWED(sum) "ssat %[" sum "], #8, %[" sum "], asr #%c[shift]\n\t"
#define HIL_DSP_PLANE_NARROWED_BY(sum)                                                             \
    "asr %[" sum "], %[" sum "], %[a]\n\t"                                                         \
    "ssat %[" sum "], #8, %[" sum "]\n\t"
#define HIL_DSP_PLANE_OWN "ldr %[a], %[own]\n\t"

/* Two rows of two outputs, stride 1: 43 instructions for 36 products. */
#define HIL_DSP_PLANE_SQUARE(OWN, NARROWED)                                                        \
    "ldr %[s3], %[bias]\n\t"                                                                       \
    "ldrd %[a], %[b], [%[in]], #4\n\t"                                                             \
    HIL_DSP_PLANE_TAPS("s0", "s1", "0", "s3", "s3")                                                \
    "ldrd %[a], %[b], [%[in], #%c[line_1] - 4]\n\t"                                                \
    HIL_DSP_PLANE_TAPS("s2", "s3", "0", "s3", "s3")                                                \
    HIL_DSP_PLANE_TAPS("s0", "s1", "1", "s0", "s1")                                                \
    "ldrd %[a], %[b], [%[in], #2 * %c[line_1] - 4]\n\t"                                            \
    HIL_DSP_PLANE_TAPS("s2", "s3", "1", "s2", "s3")                                                \
    HIL_DSP_PLANE_TAPS("s0", "s1", "2", "s0", "s1")                                                \
    "ldrd %[a], %[b], [%[in], #3 * %c[line_1] - 4]\n\t"                                            \
    HIL_DSP_PLANE_TAPS("s2", "s3", "2", "s2", "s3")                                                \
    "ldrd %[a], %[b], %[scale]\n\t"                                                                \
    HIL_DSP_PLANE_SCALED("s0") HIL_DSP_PLANE_SCALED("s1")                                          \
    HIL_DSP_PLANE_SCALED("s2") HIL_DSP_PLANE_SCALED("s3")                                          \
    OWN NARROWED("s0") NARROWED("s1") NARROWED("s2") NARROWED("s3")                                \
    "strb %[s0], [%[out]]\n\t"                                                                     \
    "strb %[s1], [%[out], #%c[pixel]]\n\t"                                                         \
    "strb %[s2], [%[out], #%c[row]]\n\t"                                                           \
    "strb %[s3], [%[out], #%c[row] + %c[pixel]]\n\t"                                               \
    "add %[out], %[out], #2 * %c[pixel]\n\t"

/* Two rows of one output: 24 instructions for 18 products. */
#define HIL_DSP_PLANE_COLUMN(OWN, NARROWED)                                                        \
    "ldr %[s2], %[bias]\n\t"                                                                       \
    "ldrd %[a], %[b], [%[in]]\n\t"                                                                 \
    HIL_DSP_PLANE_TAP("s0", "0", "s2")                                                             \
    "ldrd %[a], %[b], [%[in], #%c[line_1]]\n\t"                                                    \
    HIL_DSP_PLANE_TAP("s2", "0", "s2") HIL_DSP_PLANE_TAP("s0", "1", "s0")                          \
    "ldrd %[a], %[b], [%[in], #2 * %c[line_1]]\n\t"                                                \
    HIL_DSP_PLANE_TAP("s2", "1", "s2") HIL_DSP_PLANE_TAP("s0", "2", "s0")                          \
    "ldrd %[a], %[b], [%[in], #3 * %c[line_1]]\n\t"                                                \
    HIL_DSP_PLANE_TAP("s2", "2", "s2")                                                             \
    "ldrd %[a], %[b], %[scale]\n\t"                                                                \
    HIL_DSP_PLANE_SCALED("s0") HIL_DSP_PLANE_SCALED("s2")                                          \
    OWN NARROWED("s0") NARROWED("s2")                                                              \
    "strb %[s0], [%[out]]\n\t"                                                                     \
    "strb %[s2], [%[out], #%c[row]]\n\t"

/* A row of two outputs: 24 instructions for 18 products with stride 1, 27 with stride 2. */
#define HIL_DSP_PLANE_FINISH(OWN, NARROWED)                                                        \
    "ldrd %[a], %[b], %[scale]\n\t"                                                                \
    HIL_DSP_PLANE_SCALED("s0") HIL_DSP_PLANE_SCALED("s1")                                          \
    OWN NARROWED("s0") NARROWED("s1")                                                              \
    "strb %[s0], [%[out]]\n\t"                                                                     \
    "strb %[s1], [%[out], #%c[pixel]]\n\t"                                                         \
    "add %[out], %[out], #2 * %c[pixel]\n\t"

#define HIL_DSP_PLANE_PAIR(OWN, NARROWED)                                                          \
    "ldr %[s1], %[bias]\n\t"                                                                       \
    "ldrd %[a], %[b], [%[in]], #4\n\t"                                                             \
    HIL_DSP_PLANE_TAPS("s0", "s1", "0", "s1", "s1")                                                \
    "ldrd %[a], %[b], [%[in], #%c[line_1] - 4]\n\t"                                                \
    HIL_DSP_PLANE_TAPS("s0", "s1", "1", "s0", "s1")                                                \
    "ldrd %[a], %[b], [%[in], #2 * %c[line_1] - 4]\n\t"                                            \
    HIL_DSP_PLANE_TAPS("s0", "s1", "2", "s0", "s1")                                                \
    HIL_DSP_PLANE_FINISH(OWN, NARROWED)

#define HIL_DSP_PLANE_PAIR_2(OWN, NARROWED)                                                        \
    "ldr %[s1], %[bias]\n\t"                                                                       \
    "ldr %[s2], [%[in], #8]\n\t"                                                                   \
    "ldrd %[a], %[b], [%[in]], #8\n\t"                                                             \
    HIL_DSP_PLANE_TAPS_2("0", "s1", "s1")                                                          \
    "ldr %[s2], [%[in], #%c[line_1]]\n\t"                                                          \
    "ldrd %[a], %[b], [%[in], #%c[line_1] - 8]\n\t"                                                \
    HIL_DSP_PLANE_TAPS_2("1", "s0", "s1")                                                          \
    "ldr %[s2], [%[in], #2 * %c[line_1]]\n\t"                                                      \
    "ldrd %[a], %[b], [%[in], #2 * %c[line_1] - 8]\n\t"                                            \
    HIL_DSP_PLANE_TAPS_2("2", "s0", "s1")                                                          \
    HIL_DSP_PLANE_FINISH(OWN, NARROWED)

/* One output: 14 instructions for 9 products. */
#define HIL_DSP_PLANE_SINGLE(OWN, NARROWED)                                                        \
    "ldr %[s0], %[bias]\n\t"                                                                       \
    "ldrd %[a], %[b], [%[in]]\n\t"                                                                 \
    HIL_DSP_PLANE_TAP("s0", "0", "s0")                                                             \
    "ldrd %[a], %[b], [%[in], #%c[line_1]]\n\t"                                                    \
    HIL_DSP_PLANE_TAP("s0", "1", "s0")                                                             \
    "ldrd %[a], %[b], [%[in], #2 * %c[line_1]]\n\t"                                                \
    HIL_DSP_PLANE_TAP("s0", "2", "s0")                                                             \
    "ldrd %[a], %[b], %[scale]\n\t"                                                                \
    HIL_DSP_PLANE_SCALED("s0")                                                                     \
    OWN NARROWED("s0")                                                                             \
    "strb %[s0], [%[out]]\n\t"

#define HIL_DSP_PLANE_NOTHING(OWN, NARROWED) ""

/* Rows of a few blocks, one after the other, or of a loop over them. */
#define HIL_DSP_PLANE_X0(BLOCK, OWN, NARROWED) ""
#define HIL_DSP_PLANE_X1(BLOCK, OWN, NARROWED) BLOCK(OWN, NARROWED)
#define HIL_DSP_PLANE_X2(BLOCK, OWN, NARROWED) BLOCK(OWN, NARROWED) BLOCK(OWN, NARROWED)
#define HIL_DSP_PLANE_X3(BLOCK, OWN, NARROWED)                                                     \
    BLOCK(OWN, NARROWED) BLOCK(OWN, NARROWED) BLOCK(OWN, NARROWED)
#define HIL_DSP_PLANE_XN(BLOCK, OWN, NARROWED)                                                     \
    "add %[a], %[in], #%c[span]\n\t"                                                               \
    "str %[a], %[row_end]\n\t"                                                                     \
    "1:\n\t" BLOCK(OWN, NARROWED)                                                                  \
    "ldr %[a], %[row_end]\n\t"                                                                     \
    "cmp %[in], %[a]\n\t"                                                                          \
    "bne 1b\n\t"

/* Rows until `in` is where `end` says. */
#define HIL_DSP_PLANE_ROWS(TIMES, BLOCK, LAST, OWN, NARROWED)                                      \
    __asm__ volatile(                                                                              \
        "2:\n\t" TIMES(BLOCK, OWN, NARROWED) LAST(OWN, NARROWED)                                   \
        "ldr %[a], %[end]\n\t"                                                                     \
        "add %[in], %[in], #%c[next_line] - %c[span]\n\t"                                          \
        "add %[out], %[out], #%c[next_row]\n\t"                                                    \
        "cmp %[in], %[a]\n\t"                                                                      \
        "bne 2b\n\t"                                                                               \
        : [in] "+r"(in), [out] "+r"(out), [a] "=&r"(a), [b] "=&r"(b), [s0] "=&r"(s0),              \
          [s1] "=&r"(s1), [s2] "=&r"(s2), [s3] "=&r"(s3), [row_end] "=m"(row_end)                  \
        : [u0] "r"(c->taps.left[0]), [u1] "r"(c->taps.left[1]), [u2] "r"(c->taps.left[2]),         \
          [l0] "r"(c->taps.right[0]), [l1] "r"(c->taps.right[1]), [l2] "r"(c->taps.right[2]),      \
          [bias] "m"(c->bias), [scale] "m"(c->scale), [own] "m"(c->shift), [end] "m"(end),         \
          [shift] "i"(p->shift), [line_1] "i"(2 * p->line), [pixel] "i"(p->in_c),                  \
          [row] "i"(p->out_w * p->in_c), [next_line] "i"(2 * lines * p->line),                     \
          [next_row] "i"(p->out_w * p->in_c * rows - p->in_c * (p->out_w & ~1)),                   \
          [span] "i"(4 * p->stride * (p->out_w / 2))                                               \
        : "cc", "memory")

#define HIL_DSP_PLANE_WIDTHS(BLOCK, LAST, OWN, NARROWED)                                           \
    if (p->out_w / 2 == 0) {                                                                       \
        HIL_DSP_PLANE_ROWS(HIL_DSP_PLANE_X0, BLOCK, LAST, OWN, NARROWED);                          \
    } else if (p->out_w / 2 == 1) {                                                                \
        HIL_DSP_PLANE_ROWS(HIL_DSP_PLANE_X1, BLOCK, LAST, OWN, NARROWED);                          \
    } else if (p->out_w / 2 == 2) {                                                                \
        HIL_DSP_PLANE_ROWS(HIL_DSP_PLANE_X2, BLOCK, LAST, OWN, NARROWED);                          \
    } else if (p->out_w / 2 == 3) {                                                                \
        HIL_DSP_PLANE_ROWS(HIL_DSP_PLANE_X3, BLOCK, LAST, OWN, NARROWED);                          \
    } else {                                                                                       \
        HIL_DSP_PLANE_ROWS(HIL_DSP_PLANE_XN, BLOCK, LAST, OWN, NARROWED);                          \
    }

#define HIL_DSP_PLANE_SHIFTS(BLOCK, LAST)                                                          \
    if (p->shift == 0) {                                                                           \
        HIL_DSP_PLANE_WIDTHS(BLOCK, LAST, HIL_DSP_PLANE_OWN, HIL_DSP_PLANE_NARROWED_BY)            \
    } else {                                                                                       \
        HIL_DSP_PLANE_WIDTHS(BLOCK, LAST, "", HIL_DSP_PLANE_NARROWED)                              \
    }

/* clang-format on */

/* Whether instructions can hold all distances: they are constants, as in a body that was
 * specialised for a layer, and not too large. */
HIL_INLINE int hil_dsp_plane_fits(const struct hil_dsp_depthwise_plane_s8 *p) {
    return __builtin_constant_p(p->line) && __builtin_constant_p(p->in_c) &&
           __builtin_constant_p(p->out_w) && __builtin_constant_p(p->shift) &&
           __builtin_constant_p(p->stride) && p->line <= 160 &&
           2 * (p->out_w + 1) * p->in_c <= 4095;
}

/* `turns` times `rows` rows of outputs, 1 or 2 (with stride 1). */
HIL_INLINE void hil_dsp_plane_turns(const struct hil_dsp_depthwise_plane_s8 *p,
                                    const struct hil_dsp_plane_channel *c, const int16_t *in,
                                    int32_t rows, int32_t turns, int8_t *out) {
    const int32_t lines = p->stride * rows;
    const int16_t *const end = in + turns * lines * p->line;
    const int16_t *row_end;
    uint32_t s0;
    uint32_t s1;
    uint32_t s2;
    uint32_t s3;
    uint32_t a;
    uint32_t b;
    if (p->stride == 2) {
        if (p->out_w % 2 == 0) {
            HIL_DSP_PLANE_SHIFTS(HIL_DSP_PLANE_PAIR_2, HIL_DSP_PLANE_NOTHING)
        } else {
            HIL_DSP_PLANE_SHIFTS(HIL_DSP_PLANE_PAIR_2, HIL_DSP_PLANE_SINGLE)
        }
    } else if (rows == 1) {
        if (p->out_w % 2 == 0) {
            HIL_DSP_PLANE_SHIFTS(HIL_DSP_PLANE_PAIR, HIL_DSP_PLANE_NOTHING)
        } else {
            HIL_DSP_PLANE_SHIFTS(HIL_DSP_PLANE_PAIR, HIL_DSP_PLANE_SINGLE)
        }
    } else {
        if (p->out_w % 2 == 0) {
            HIL_DSP_PLANE_SHIFTS(HIL_DSP_PLANE_SQUARE, HIL_DSP_PLANE_NOTHING)
        } else {
            HIL_DSP_PLANE_SHIFTS(HIL_DSP_PLANE_SQUARE, HIL_DSP_PLANE_COLUMN)
        }
    }
}

#endif

/* One output. */
HIL_INLINE void hil_dsp_plane_output(const struct hil_dsp_depthwise_plane_s8 *p,
                                     const struct hil_dsp_plane_channel *c, const int16_t *in,
                                     int8_t *out) {
    uint32_t sum = (uint32_t)c->bias;
#pragma GCC unroll 3
    for (int i = 0; i < 3; i++) {
        sum = hil_dsp_dual(hil_dsp_load(in), c->taps.left[i], sum);
        sum += (uint32_t)in[2] * (uint32_t)hil_dsp_high(c->taps.right[i]);
        in += p->line;
    }
    *out = hil_dsp_scaled((int32_t)sum, c->scale, c->shift);
}

/* `rows` rows of outputs of a channel from its plane. */
HIL_INLINE void hil_dsp_plane_outputs(const struct hil_dsp_depthwise_plane_s8 *p, int32_t channel,
                                      const int16_t *plane, int32_t rows, int8_t *out) {
    const struct hil_dsp_plane_channel c = hil_dsp_plane_channel(p, channel);
    const int32_t row = p->out_w * p->in_c;
#if HIL_DSP_ASSEMBLY
    if (hil_dsp_plane_fits(p)) {
        if (p->stride == 2 || rows == 1) {
            hil_dsp_plane_turns(p, &c, plane, 1, rows, out);
            return;
        }
        /* Of an odd number the second row is computed twice. */
        int32_t turns = rows % 2 == 0 ? rows / 2 : 1;
        do {
            hil_dsp_plane_turns(p, &c, plane, 2, turns, out);
            rows -= 2 * turns - rows % 2;
            turns = rows / 2;
            plane += p->line;
            out += row;
        } while (rows > 0);
        return;
    }
#endif
    for (; rows > 0; rows--) {
        for (int32_t x = 0; x < p->out_w; x++) {
            hil_dsp_plane_output(p, &c, plane + x * p->stride, out + x * p->in_c);
        }
        plane += p->stride * p->line;
        out += row;
    }
}

/* Widens a channel of `rows` rows of an image to where they belong in the plane. */
HIL_INLINE void hil_dsp_plane_fill(const struct hil_dsp_depthwise_plane_s8 *p, const int8_t *in,
                                   int32_t rows, int16_t *to) {
    if (p->columns <= 8) {
#pragma GCC unroll 4
        for (; rows > 0; rows--) {
#pragma GCC unroll 8
            for (int32_t x = 0; x < p->columns; x++) {
                to[x] = in[x * p->in_c];
            }
            in += p->in_w * p->in_c;
            to += p->line;
        }
        return;
    }
    for (; rows > 0; rows--) {
#pragma GCC unroll 16
        for (int32_t x = 0; x < p->columns; x++) {
            to[x] = in[x * p->in_c];
        }
        in += p->in_w * p->in_c;
        to += p->line;
    }
}

HIL_INLINE void hil_dsp_depthwise_plane_s8(const struct hil_dsp_depthwise_plane_s8 *p,
                                           const int8_t *in, int8_t *out, void *scratch) {
    int16_t *const plane = scratch;
    for (int32_t images = p->batch; images > 0; images--) {
        for (int32_t y = 0; y < p->out_h; y += p->rows) {
            const int32_t rows = p->out_h - y < p->rows ? p->out_h - y : p->rows;
            const int32_t size = p->line * ((rows - 1) * p->stride + 3) + p->beyond;
            for (int32_t i = 0; i < size; i++) {
                plane[i] = (int16_t)p->in_zero_point;
            }
            const int32_t top = y * p->stride - p->pad_top;
            const int32_t first = top < 0 ? 0 : top;
            const int32_t end = top + (rows - 1) * p->stride + 3;
            const int32_t inside = (end < p->in_h ? end : p->in_h) - first;
            for (int32_t channel = 0; channel < p->in_c; channel++) {
                hil_dsp_plane_fill(p, in + first * p->in_w * p->in_c + channel, inside,
                                   plane + (first - top) * p->line + p->pad_left);
                hil_dsp_plane_outputs(p, channel, plane, rows,
                                      out + y * p->out_w * p->in_c + channel);
            }
        }
        in += p->in_h * p->in_w * p->in_c;
        out += p->out_h * p->out_w * p->in_c;
    }
}

#endif
