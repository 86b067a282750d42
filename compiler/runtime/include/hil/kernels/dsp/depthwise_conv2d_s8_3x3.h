/* Depthwise 3x3 convolution of int8 images, four channels at a time, for outputs of any range: what
 * depthwise_conv2d_s8_plane.h does where its line of requantization is not proven.
 *
 * A word is two pixels of a channel, one above the other.
 *
 * Tile: 2 rows x 2 outputs x 1 channel with stride 1, 1 row x 2 outputs with stride 2.
 *
 *             a = rows y | y + 1,  b = rows y + 2 | y + 3   of one column of pixels
 *             upper row    smlad a, t0|t1      smlabt b, t2          r4, r5 by column
 *             lower row    smlatb a, t0        smlad b, t1|t2        r6, r8 by column
 *
 * Registers, at the top of a tile:
 *
 *   r0  pairs of pixels    r4 r5  sums of the upper row    r9  r10 r11  t0|t1 of columns 0 1 2
 *   r2  a, then scales     r6 r8  sums of the lower row    r12 lr  r1   t1|t2 of columns 0 1 2
 *   r3  b                  r7 untouched; bias, multiplier, rounding, shift, outputs in memory
 *
 * Data: packed by `_depthwise_lines()`
 *
 *   weights  [channel][3 columns] int8: rows 0 1 1 2; bytes 0 and 2 are t0|t1, 1 and 3 are t1|t2
 *   bias, multipliers int32 (the bias doubled), shifts int8 (to the right, less one): one a channel
 *   lines    in scratch: [4 channels][line] { +0 the pair above, +4 the pair below }
 *
 * Order: four channels by four; of them two rows of the image move into the lines for each tile
 * row, before its outputs are written. A second row that is not wanted goes where the first goes
 * after it.
 *
 * Bounds: taps are doubled, -256 to 254, half-words. Nine products and twice the bias make 2 * sum,
 * below 2^24 as |sum| < 2^23 (`plain`); shifts are 1 to 23 and the rounding fits as in
 * columns_s8.h.
 *
 * Output: hil_dsp_requantize of 2 * sum. The assembly is for outputs that may not be below the zero
 * point, where negatives need no correction, and saturates them; clamp_s8.h does the rest of a
 * narrower range. C code for others.
 *
 * Scratch: 32 bytes a pixel of a line.
 *
 * Cost: 61 instructions for a 2x2 tile (36 MACs), 39 for two outputs with stride 2 (18 MACs).
 * Measured (`hil tune` on mps2-an386, instructions under QEMU): 25x5x64 (kws) 3.22 a MAC, filling
 * the lines included.
 *
 * Tests: the twin is hil_dsp_depthwise_column (tests/c/test_dsp_kernels.py, limits:
 * test_sums_at_their_limits); the assembly: tests/board/test_kernels.py. Layout:
 * tests/c/test_kernel_layouts.py.
 */
#ifndef HIL_KERNELS_DSP_DEPTHWISE_CONV2D_S8_3X3_H
#define HIL_KERNELS_DSP_DEPTHWISE_CONV2D_S8_3X3_H

#include "hil/dsp.h"
#include "hil/kernels/dsp/clamp_s8.h"
#include "hil/kernels/generic/patch.h"

/*@kernel
name = "hil_dsp_depthwise_conv2d_s8_3x3"
requires = ["dsp"]
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "32 * line"
order = ["channels 4", "rows 3 - stride"]
reads = "channel window once"
window = {filter_h = "3", filter_w = "3"}
code = 1143
[cost]
four_channels = "batch * ((in_c + 3) // 4)"
turn = "(out_h + 2 - stride) // (3 - stride)"
filled = "four_channels * (turn + 1) * line"
row = "batch * in_c * turn"
pair = "row * (out_w // 2)"
last = "row * (out_w % 2)"
strided_pair = "pair * (stride - 1)"
dense_pair = "pair - strided_pair"
linear = "(out_min < out_zero_point) * dense_pair"
clamped = "batch * out_h * out_w * in_c * (out_max - out_min != 255)"
@*/
struct hil_dsp_depthwise_conv2d_s8_3x3 {
    HIL_IMAGES_FIELDS;
    int32_t stride;        /* 1 or 2, along both axes */
    int32_t pad_top;       /* rows by which the first window reaches above the image */
    int32_t pad_left;      /* columns by which the first window reaches beyond the image */
    int32_t line;          /* pixels that a row of windows spans: (out_w - 1) * stride + 3 */
    int32_t in_zero_point; /* the input that stands for 0.0, which pixels outside the image have */
    HIL_OUTPUT_RANGE_FIELDS;
    const int32_t *bias;        /* twice the bias, the input's zero point folded in */
    const int32_t *multipliers; /* of each channel, in Q0.31 */
    const int8_t *shifts;       /* to the right, less one: 0 to 22 */
    const int8_t *weights;      /* [in_c][3 columns][4]: row 0, row 1, row 1, row 2 of the filter */
};

/* A column of the filter, doubled: rows 0 and 1, rows 1 and 2. */
struct hil_dsp_taps {
    uint32_t upper[3];
    uint32_t lower[3];
};

/* What the outputs of one channel have in common. */
struct hil_dsp_depthwise_channel {
    struct hil_dsp_taps taps;
    int32_t bias;
    int32_t multiplier;
    int32_t shift;
    int32_t rounding;
};

/* Where outputs go: two rows of them, `row` bytes apart. */
struct hil_dsp_depthwise_place {
    int8_t *out;
    int32_t row;
    int32_t pixel;
};

HIL_INLINE struct hil_dsp_depthwise_channel
hil_dsp_depthwise_channel(const struct hil_dsp_depthwise_conv2d_s8_3x3 *p, int32_t channel) {

    const int32_t shift = p->shifts[channel];
    struct hil_dsp_depthwise_channel c = {
        .taps = {{0}, {0}},
        .bias = p->bias[channel],
        .multiplier = p->multipliers[channel],
        .shift = shift,
        .rounding = (int32_t)((uint32_t)(2 * p->out_zero_point + 1) << shift),
    };
#pragma GCC unroll 3
    for (int i = 0; i < 3; i++) {
        const uint32_t bytes = hil_dsp_load(p->weights + 12 * channel + 4 * i);
        const uint32_t upper = hil_dsp_even(bytes);
        const uint32_t lower = hil_dsp_odd(bytes);
        c.taps.upper[i] = hil_dsp_add_pairs(upper, upper);
        c.taps.lower[i] = hil_dsp_add_pairs(lower, lower);
    }
    return c;
}

/* One column of outputs, of one row or two, from three columns of pairs; in[0] is the pair above,
 * in[1] that below. */
HIL_INLINE void hil_dsp_depthwise_column(const struct hil_dsp_depthwise_conv2d_s8_3x3 *p,
                                         const struct hil_dsp_depthwise_channel *c,
                                         const uint32_t *in,
                                         const struct hil_dsp_depthwise_place *to) {
    uint32_t first = (uint32_t)c->bias;
    uint32_t second = first;
#pragma GCC unroll 3
    for (int i = 0; i < 3; i++) {
        const uint32_t above = in[2 * i];
        const uint32_t below = in[2 * i + 1];
        first = hil_dsp_dual(above, c->taps.upper[i], first);
        first += (uint32_t)(hil_dsp_low(below) * hil_dsp_high(c->taps.lower[i]));
        if (p->stride == 1) {
            second += (uint32_t)(hil_dsp_high(above) * hil_dsp_low(c->taps.upper[i]));
            second = hil_dsp_dual(below, c->taps.lower[i], second);
        }
    }
    if (p->stride == 1) {
        to->out[to->row] = hil_dsp_requantize((int32_t)second, c->multiplier, c->shift, c->rounding,
                                              p->out_zero_point, p->out_min, p->out_max);
    }
    to->out[0] = hil_dsp_requantize((int32_t)first, c->multiplier, c->shift, c->rounding,
                                    p->out_zero_point, p->out_min, p->out_max);
}

#if HIL_DSP_ASSEMBLY

/* Pairs of a column by column `tap` of the filter: for the upper row of outputs, for the lower. */
#define HIL_DSP_UPPER(sum, tap)                                                                    \
    "smlad %[" sum "], %[a], %[u" tap "], %[" sum "]\n\t"                                          \
    "smlabt %[" sum "], %[b], %[l" tap "], %[" sum "]\n\t"
#define HIL_DSP_LOWER(sum, tap)                                                                    \
    "smlatb %[" sum "], %[a], %[u" tap "], %[" sum "]\n\t"                                         \
    "smlad %[" sum "], %[b], %[l" tap "], %[" sum "]\n\t"

/* Registers of both loops: where they read, two words, and the taps. */
#define HIL_DSP_DEPTHWISE_REGISTERS(c, in)                                                         \
    register const uint32_t *at __asm__("r0") = in;                                                \
    register uint32_t a __asm__("r2");                                                             \
    register uint32_t b __asm__("r3");                                                             \
    register const uint32_t u0 __asm__("r9") = c->taps.upper[0];                                   \
    register const uint32_t u1 __asm__("r10") = c->taps.upper[1];                                  \
    register const uint32_t u2 __asm__("r11") = c->taps.upper[2];                                  \
    register const uint32_t l0 __asm__("r12") = c->taps.lower[0];                                  \
    register const uint32_t l1 __asm__("lr") = c->taps.lower[1];                                   \
    register const uint32_t l2 __asm__("r1") = c->taps.lower[2]

/* `pairs` times two columns of outputs where rectification leaves the whole range from the zero
 * point on, so that saturating is clamping. 61 instructions for 36 products. */
HIL_INLINE void hil_dsp_depthwise_columns_1(const struct hil_dsp_depthwise_channel *c,
                                            const uint32_t *in, int32_t pairs,
                                            struct hil_dsp_depthwise_place *to) {
    const uint32_t *const end = in + 4 * pairs;
    const int32_t shift = c->shift + 1;
    register uint32_t s0 __asm__("r4");
    register uint32_t s1 __asm__("r5");
    register uint32_t s2 __asm__("r6");
    register uint32_t s3 __asm__("r8");
    HIL_DSP_DEPTHWISE_REGISTERS(c, in);
    __asm__ volatile(
        "1:\n\t"
        "ldr %[s0], %[bias]\n\t"
        "ldrd %[a], %[b], [%[in]]\n\t"
        "mov %[s1], %[s0]\n\t"
        "mov %[s2], %[s0]\n\t"
        "mov %[s3], %[s0]\n\t" HIL_DSP_UPPER("s0", "0")
            HIL_DSP_LOWER("s2", "0") "ldrd %[a], %[b], [%[in], #8]\n\t" HIL_DSP_UPPER("s0", "1")
                HIL_DSP_LOWER("s2", "1") HIL_DSP_UPPER("s1", "0") HIL_DSP_LOWER(
                    "s3", "0") "ldrd %[a], %[b], [%[in], #16]\n\t" HIL_DSP_UPPER("s0", "2")
                    HIL_DSP_LOWER("s2", "2") HIL_DSP_UPPER("s1", "1") HIL_DSP_LOWER(
                        "s3", "1") "ldrd %[a], %[b], [%[in], #24]\n\t" HIL_DSP_UPPER("s1", "2")
                        HIL_DSP_LOWER("s3", "2") "ldr %[a], %[multiplier]\n\t"
                                                 "ldr %[b], %[rounding]\n\t"
                                                 "add %[in], #16\n\t"
                                                 "smmlar %[s0], %[s0], %[a], %[b]\n\t"
                                                 "smmlar %[s1], %[s1], %[a], %[b]\n\t"
                                                 "smmlar %[s2], %[s2], %[a], %[b]\n\t"
                                                 "smmlar %[s3], %[s3], %[a], %[b]\n\t"
                                                 "ldr %[a], %[shift]\n\t"
                                                 "asr %[s0], %[s0], %[a]\n\t"
                                                 "asr %[s1], %[s1], %[a]\n\t"
                                                 "asr %[s2], %[s2], %[a]\n\t"
                                                 "asr %[s3], %[s3], %[a]\n\t"
                                                 "ldr %[a], %[out]\n\t"
                                                 "ldr %[b], %[row]\n\t"
                                                 "ssat %[s0], #8, %[s0]\n\t"
                                                 "ssat %[s1], #8, %[s1]\n\t"
                                                 "ssat %[s2], #8, %[s2]\n\t"
                                                 "ssat %[s3], #8, %[s3]\n\t"
                                                 "strb %[s2], [%[a], %[b]]\n\t"
                                                 "ldr %[s2], %[pixel]\n\t"
                                                 "strb %[s0], [%[a]]\n\t"
                                                 "add %[a], %[s2]\n\t"
                                                 "strb %[s3], [%[a], %[b]]\n\t"
                                                 "ldr %[b], %[end]\n\t"
                                                 "strb %[s1], [%[a]]\n\t"
                                                 "add %[a], %[s2]\n\t"
                                                 "cmp %[in], %[b]\n\t"
                                                 "str %[a], %[out]\n\t"
                                                 "bne 1b\n\t"
        : [s0] "=&r"(s0), [s1] "=&r"(s1), [s2] "=&r"(s2), [s3] "=&r"(s3), [in] "+r"(at),
          [a] "=&r"(a), [b] "=&r"(b), [out] "+m"(to->out)
        : [u0] "r"(u0), [u1] "r"(u1), [u2] "r"(u2), [l0] "r"(l0), [l1] "r"(l1), [l2] "r"(l2),
          [bias] "m"(c->bias), [multiplier] "m"(c->multiplier), [rounding] "m"(c->rounding),
          [shift] "m"(shift), [row] "m"(to->row), [pixel] "m"(to->pixel), [end] "m"(end)
        : "cc", "memory");
}

/* The same for stride 2, a row of outputs: 39 instructions for 18 products. */
HIL_INLINE void hil_dsp_depthwise_columns_2(const struct hil_dsp_depthwise_channel *c,
                                            const uint32_t *in, int32_t pairs,
                                            struct hil_dsp_depthwise_place *to) {
    const uint32_t *const end = in + 8 * pairs;
    const int32_t shift = c->shift + 1;
    register uint32_t s0 __asm__("r4");
    register uint32_t s1 __asm__("r5");
    HIL_DSP_DEPTHWISE_REGISTERS(c, in);
    __asm__ volatile(
        "1:\n\t"
        "ldr %[s0], %[bias]\n\t"
        "ldrd %[a], %[b], [%[in]]\n\t"
        "mov %[s1], %[s0]\n\t" HIL_DSP_UPPER("s0",
                                             "0") "ldrd %[a], %[b], [%[in], #8]\n\t" HIL_DSP_UPPER("s0",
                                                                                                   "1") "ldrd %[a], %[b], [%[in], #16]\n\t" HIL_DSP_UPPER("s0",
                                                                                                                                                          "2")
            HIL_DSP_UPPER("s1", "0") "ldrd %[a], %[b], [%[in], #24]\n\t" HIL_DSP_UPPER(
                "s1",
                "1") "ldrd %[a], %[b], [%[in], #32]\n\t" HIL_DSP_UPPER("s1",
                                                                       "2") "ldr %[a], "
                                                                            "%[multiplier]\n\t"
                                                                            "ldr %[b], "
                                                                            "%[rounding]\n\t"
                                                                            "add %[in], #32\n\t"
                                                                            "smmlar %[s0], %[s0], "
                                                                            "%[a], %[b]\n\t"
                                                                            "smmlar %[s1], %[s1], "
                                                                            "%[a], %[b]\n\t"
                                                                            "ldr %[a], %[shift]\n\t"
                                                                            "asr %[s0], %[s0], "
                                                                            "%[a]\n\t"
                                                                            "asr %[s1], %[s1], "
                                                                            "%[a]\n\t"
                                                                            "ldr %[a], %[out]\n\t"
                                                                            "ldr %[b], %[pixel]\n\t"
                                                                            "ssat %[s0], #8, "
                                                                            "%[s0]\n\t"
                                                                            "ssat %[s1], #8, "
                                                                            "%[s1]\n\t"
                                                                            "strb %[s0], [%[a]]\n\t"
                                                                            "strb %[s1], [%[a], "
                                                                            "%[b]]\n\t"
                                                                            "add %[a], %[a], %[b], "
                                                                            "lsl #1\n\t"
                                                                            "ldr %[b], %[end]\n\t"
                                                                            "str %[a], %[out]\n\t"
                                                                            "cmp %[in], %[b]\n\t"
                                                                            "bne 1b\n\t"
        : [s0] "=&r"(s0), [s1] "=&r"(s1), [in] "+r"(at), [a] "=&r"(a), [b] "=&r"(b),
          [out] "+m"(to->out)
        : [u0] "r"(u0), [u1] "r"(u1), [u2] "r"(u2), [l0] "r"(l0), [l1] "r"(l1), [l2] "r"(l2),
          [bias] "m"(c->bias), [multiplier] "m"(c->multiplier), [rounding] "m"(c->rounding),
          [shift] "m"(shift), [pixel] "m"(to->pixel), [end] "m"(end)
        : "cc", "memory");
}

#undef HIL_DSP_UPPER
#undef HIL_DSP_LOWER

#endif

/* The outputs of one channel from its line of pairs. */
HIL_INLINE void hil_dsp_depthwise_line(const struct hil_dsp_depthwise_conv2d_s8_3x3 *p,
                                       int32_t channel, const uint32_t *in, int8_t *out,
                                       int32_t row) {
    const struct hil_dsp_depthwise_channel c = hil_dsp_depthwise_channel(p, channel);
    struct hil_dsp_depthwise_place to = {.out = out, .row = row, .pixel = p->in_c};
    int32_t left = p->out_w;
#if HIL_DSP_ASSEMBLY
    if (p->out_min >= p->out_zero_point && left > 1) {
        if (p->stride == 1) {
            hil_dsp_depthwise_columns_1(&c, in, left / 2, &to);
        } else {
            hil_dsp_depthwise_columns_2(&c, in, left / 2, &to);
        }
        in += 2 * p->stride * (left & ~1);
        left &= 1;
    }
#endif
    for (; left > 0; left--) {
        hil_dsp_depthwise_column(p, &c, in, &to);
        in += 2 * p->stride;
        to.out += to.pixel;
    }
}

/* A row of an image, four channels of it: from byte to byte of a pixel's place; a row outside is
 * one pixel again and again. */
struct hil_dsp_depthwise_row {
    const int8_t *from;
    int32_t step;
};

HIL_INLINE struct hil_dsp_depthwise_row
hil_dsp_depthwise_row(const struct hil_dsp_depthwise_conv2d_s8_3x3 *p, const int8_t *in, int32_t y,
                      const uint32_t *fill) {
    if (y < 0 || y >= p->in_h) {
        return (struct hil_dsp_depthwise_row){.from = (const int8_t *)fill, .step = 0};
    }
    return (struct hil_dsp_depthwise_row){.from = in + y * p->in_w * p->in_c, .step = p->in_c};
}

/* Puts the pixels of two rows below what stands in the lines, `channels` of them. */
HIL_INLINE void hil_dsp_depthwise_pairs(uint32_t a, uint32_t b, int32_t line, uint32_t *to) {
    const uint32_t even_a = hil_dsp_even(a);
    const uint32_t even_b = hil_dsp_even(b);
    const uint32_t odd_a = hil_dsp_odd(a);
    const uint32_t odd_b = hil_dsp_odd(b);
    to[0] = to[1];
    to[1] = hil_dsp_lows(even_a, even_b);
    to[2 * line] = to[2 * line + 1];
    to[2 * line + 1] = hil_dsp_lows(odd_a, odd_b);
    to[4 * line] = to[4 * line + 1];
    to[4 * line + 1] = hil_dsp_highs(even_a, even_b);
    to[6 * line] = to[6 * line + 1];
    to[6 * line + 1] = hil_dsp_highs(odd_a, odd_b);
}

/* Two rows of the image, from row y on, into the lines of `channels` channels, 4 or fewer. */
HIL_INLINE void hil_dsp_depthwise_fill(const struct hil_dsp_depthwise_conv2d_s8_3x3 *p,
                                       const int8_t *in, int32_t channels, int32_t y,
                                       uint32_t *to) {
    const uint32_t fill = ((uint32_t)p->in_zero_point & 0xffU) * 0x01010101U;
    struct hil_dsp_depthwise_row a = hil_dsp_depthwise_row(p, in, y, &fill);
    struct hil_dsp_depthwise_row b = hil_dsp_depthwise_row(p, in, y + 1, &fill);
    int32_t x = 0;
    for (; x < p->pad_left && x < p->line; x++) {
        hil_dsp_depthwise_pairs(fill, fill, p->line, to);
        to += 2;
    }
    int32_t inside = p->line - x < p->in_w ? p->line - x : p->in_w;
    x += inside;
    for (; inside > 0; inside--) {
        const uint32_t word_a =
            channels == 4 ? hil_dsp_load(a.from) : hil_dsp_load_part(a.from, channels);
        const uint32_t word_b =
            channels == 4 ? hil_dsp_load(b.from) : hil_dsp_load_part(b.from, channels);
        hil_dsp_depthwise_pairs(word_a, word_b, p->line, to);
        a.from += a.step;
        b.from += b.step;
        to += 2;
    }
    for (; x < p->line; x++) {
        hil_dsp_depthwise_pairs(fill, fill, p->line, to);
        to += 2;
    }
}

/* The outputs of `channels` channels, 4 or fewer, of an image. */
HIL_INLINE void hil_dsp_depthwise_block(const struct hil_dsp_depthwise_conv2d_s8_3x3 *p,
                                        int32_t channel, int32_t channels, const int8_t *in,
                                        int8_t *out, uint32_t *lines) {
    const int32_t row = p->out_w * p->in_c;
    const int32_t rows = p->stride == 1 ? 2 : 1;
    int32_t y = -p->pad_top;
    hil_dsp_depthwise_fill(p, in + channel, channels, y, lines);
    for (int32_t left = p->out_h; left > 0; left -= rows) {
        y += 2;
        hil_dsp_depthwise_fill(p, in + channel, channels, y, lines);
        /* A second row that is not wanted goes where the first one goes after it. */
        const int32_t second = left > 1 ? row : 0;
        for (int32_t i = 0; i < channels; i++) {
            hil_dsp_depthwise_line(p, channel + i, lines + 2 * p->line * i, out + channel + i,
                                   second);
        }
        out += rows * row;
    }
}

HIL_INLINE void hil_dsp_depthwise_conv2d_s8_3x3(const struct hil_dsp_depthwise_conv2d_s8_3x3 *p,
                                                const int8_t *in, int8_t *out, void *scratch) {
    /* What stands in the lines moves up before it is read for the first time. */
    memset(scratch, 0, (size_t)(32 * p->line));
    for (int32_t images = p->batch; images > 0; images--) {
        int32_t channel = 0;
        for (; channel + 4 <= p->in_c; channel += 4) {
            hil_dsp_depthwise_block(p, channel, 4, in, out, (uint32_t *)scratch);
        }
        if (p->in_c % 4 != 0) {
            hil_dsp_depthwise_block(p, channel, p->in_c % 4, in, out, (uint32_t *)scratch);
        }
        in += p->in_h * p->in_w * p->in_c;
        hil_dsp_clamp_s8(out, p->out_h * p->out_w * p->in_c, p->out_min, p->out_max);
        out += p->out_h * p->out_w * p->in_c;
    }
}

#endif
