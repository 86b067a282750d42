/* Depthwise 3x3 convolution of int8 images on cores that multiply 32 bits, a channel at a time,
 * whose pixels and weights are words: several are loaded by one instruction, and weights carry a
 * factor so that what a product adds to outputs is part of the sums.
 *
 * Tile: 1 row x 3 to 6 outputs next to each other (`block`) x 1 channel; blocks of 1 and 2 in C.
 * The last block of a row ends with the row, and computes again what the one before it has.
 *
 *               pixel   0     1        2            3           ...
 *               sum 0   w0    w1       w2                            each row of the filter
 *               sum 1         w0       w1           w2               loads w0 w1 w2, then the
 *               sum 2                  w0           w1               pixels of its line
 *
 * Registers: of gcc's choice: six sums at most, the places in lines and channel, the step from line
 * to line; r4 r5 r6, w0 w1 w2; r8 to r12, the pixels that are loaded at a time: five for blocks of
 * three, three for blocks of four and five, two for blocks of six.
 *
 * Data: of a channel int32 [11], packed by `_depthwise_words()`: what its sums begin with, the nine
 * weights 2^k times what they are, row by row, the multiplier; lines in scratch, int32: the rows of
 * one channel below a band of output rows, the zero point around.
 *
 * Order: channel by channel, band by band; lines that the next band needs too stay in scratch, so
 * the output may take the input's place.
 *
 * Bounds: `_word_scales()` chooses k so that the whole is below 2^31, for all inputs.
 *
 * Output: the upper word of sum * multiplier, shifted to the right by as much in all channels, and
 * saturated. `_word_scales()` proves for each channel that each output begins at the same sum
 * as by the reference's arithmetic, or yields nothing; every value of int8 must be an output.
 *
 * Scratch: the lines of a band; `_bands()` chooses how many rows.
 *
 * Cost: 16 instructions an output with stride 1, 18 with stride 2, a block 9 more. Measured (`hil
 * bench` on mps2-an385, instructions under QEMU): 25x5x64 (kws) 2.37 a MAC, all rows in one band;
 * hil_v7m_depthwise_conv2d_s8_3x3 2.90. A channel takes 44 bytes of flash instead of 25.
 *
 * Tests: the twin is the loop at the end of hil_v7m_depthwise_words_sums
 * (tests/c/test_v7m_kernels.py, limits: test_sums_at_their_limits; in place:
 * test_depthwise_in_place); the assembly: tests/board/test_kernels.py. Layout:
 * tests/c/test_kernel_layouts.py.
 */
#ifndef HIL_KERNELS_V7M_DEPTHWISE_CONV2D_S8_WORDS_H
#define HIL_KERNELS_V7M_DEPTHWISE_CONV2D_S8_WORDS_H

#include <string.h>

#include "hil/kernels/generic/fields.h"
#include "hil/v7m.h"

/* Outputs of a row that are computed at a time, at most; words of a channel. */
#define HIL_V7M_WORDS_BLOCK 6
#define HIL_V7M_WORDS_CHANNEL 11

/*@kernel
name = "hil_v7m_depthwise_conv2d_s8_words"
requires = ["mul32", "thumb2"]
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "4 * line * (stride * band - stride + 3)"
order = ["channels 1", "rows band"]
reads = "channel window once"
window = {filter_h = "3", filter_w = "3"}
code = 700
[cost]
channel = "batch * in_c"
copied_line = "channel * (stride * out_h + 2)"
copied = "copied_line * in_w"
row = "channel * out_h"
row_block = "row * ((out_w + block - 1) // block)"
output = "row_block * block * (stride == 1)"
strided_output = "row_block * block * (stride == 2)"
band_end = "channel * ((out_h - 1) // band)"
@*/
struct hil_v7m_depthwise_conv2d_s8_words {
    HIL_IMAGES_FIELDS;
    int32_t stride;        /* 1 or 2, either way */
    int32_t pad_top;       /* rows by which the first window reaches above the image */
    int32_t pad_left;      /* columns by which the first window reaches beyond the image */
    int32_t band;          /* output rows at a time */
    int32_t line;          /* pixels under a row of windows */
    int32_t block;         /* outputs at a time, 1 to 6; at most out_w */
    int32_t in_zero_point; /* the input that stands for 0.0, which pixels outside the image have */
    int32_t shift;         /* of upper words, to the right */
    const int32_t *channels; /* HIL_V7M_WORDS_CHANNEL words each */
};

/* Sums of windows next to each other. */
struct hil_v7m_depthwise_words_sums {
    int32_t s[HIL_V7M_WORDS_BLOCK];
};

#if HIL_V7M_ASSEMBLY

#define HIL_V7M_TAP(sum, pixel, weight)                                                            \
    "mla %[s" #sum "], " #pixel ", " #weight ", %[s" #sum "]\n\t"
/* A tap that begins a sum with what the last one, which is the last to begin, has. */
#define HIL_V7M_FIRST(sum, pixel, last) "mla %[s" #sum "], " #pixel ", r4, %[s" #last "]\n\t"
#define HIL_V7M_NEXT(sum, pixel, last) HIL_V7M_TAP(sum, pixel, r4)

/* A row of the filter, windows a pixel apart, then two, by how many outputs there are. */
#define HIL_V7M_ROW_1_3(BEGIN)                                                                     \
    "ldmia %[x], {r8, r9, r10, r11, r12}\n\t" BEGIN(0, r8, 2) BEGIN(1, r9, 2) BEGIN(2, r10, 2)     \
        HIL_V7M_TAP(0, r9, r5) HIL_V7M_TAP(1, r10, r5) HIL_V7M_TAP(2, r11, r5)                     \
            HIL_V7M_TAP(0, r10, r6) HIL_V7M_TAP(1, r11, r6) HIL_V7M_TAP(2, r12, r6)
#define HIL_V7M_ROW_1_4(BEGIN)                                                                     \
    "ldmia %[x], {r8, r9, r10}\n\t" BEGIN(0, r8, 3) BEGIN(1, r9, 3) BEGIN(2, r10, 3)               \
        HIL_V7M_TAP(0, r9, r5) HIL_V7M_TAP(1, r10, r5)                                             \
            HIL_V7M_TAP(0, r10, r6) "ldrd r8, r9, [%[x], #12]\n\t"                                 \
                                    "ldr r10, [%[x], #20]\n\t" BEGIN(3, r8, 3)                     \
                                        HIL_V7M_TAP(2, r8, r5) HIL_V7M_TAP(1, r8, r6)              \
                                            HIL_V7M_TAP(3, r9, r5) HIL_V7M_TAP(2, r9, r6)          \
                                                HIL_V7M_TAP(3, r10, r6)
#define HIL_V7M_ROW_1_5(BEGIN)                                                                     \
    "ldmia %[x], {r8, r9, r10}\n\t" BEGIN(0, r8, 4) BEGIN(1, r9, 4) BEGIN(2, r10, 4)               \
        HIL_V7M_TAP(0, r9, r5) HIL_V7M_TAP(1, r10, r5)                                             \
            HIL_V7M_TAP(0, r10, r6) "ldrd r8, r9, [%[x], #12]\n\t" BEGIN(3, r8, 4) BEGIN(4, r9, 4) \
                HIL_V7M_TAP(2, r8, r5) HIL_V7M_TAP(1, r8, r6) HIL_V7M_TAP(3, r9, r5)               \
                    HIL_V7M_TAP(2, r9, r6) "ldrd r8, r9, [%[x], #20]\n\t" HIL_V7M_TAP(4, r8, r5)   \
                        HIL_V7M_TAP(3, r8, r6) HIL_V7M_TAP(4, r9, r6)
#define HIL_V7M_ROW_1_6(BEGIN)                                                                     \
    "ldrd r8, r9, [%[x]]\n\t" BEGIN(0, r8, 5) BEGIN(1, r9, 5)                                      \
        HIL_V7M_TAP(0, r9, r5) "ldrd r8, r9, [%[x], #8]\n\t" BEGIN(2, r8, 5) BEGIN(3, r9, 5)       \
            HIL_V7M_TAP(1, r8, r5) HIL_V7M_TAP(0, r8, r6) HIL_V7M_TAP(2, r9, r5) HIL_V7M_TAP(      \
                1, r9, r6) "ldrd r8, r9, [%[x], #16]\n\t" BEGIN(4, r8, 5) BEGIN(5, r9, 5)          \
                HIL_V7M_TAP(3, r8, r5) HIL_V7M_TAP(2, r8, r6) HIL_V7M_TAP(4, r9, r5)               \
                    HIL_V7M_TAP(3, r9, r6) "ldrd r8, r9, [%[x], #24]\n\t" HIL_V7M_TAP(5, r8, r5)   \
                        HIL_V7M_TAP(4, r8, r6) HIL_V7M_TAP(5, r9, r6)

/* Of a window two pixels from the one before it: the first and the second, the third pixel being
 * the next one's first. */
#define HIL_V7M_PAIR(at) "ldrd r8, r9, [%[x], #" #at "]\n\t"
#define HIL_V7M_END(sum, at) "ldr r8, [%[x], #" #at "]\n\t" HIL_V7M_TAP(sum, r8, r6)
#define HIL_V7M_FAR(BEGIN, before, sum, last, at)                                                  \
    HIL_V7M_PAIR(at)                                                                               \
    BEGIN(sum, r8, last) HIL_V7M_TAP(sum, r9, r5) HIL_V7M_TAP(before, r8, r6)
#define HIL_V7M_FAR_1(BEGIN, last)                                                                 \
    HIL_V7M_PAIR(0)                                                                                \
    BEGIN(0, r8, last) HIL_V7M_TAP(0, r9, r5)
#define HIL_V7M_FAR_3(BEGIN, last)                                                                 \
    HIL_V7M_FAR_1(BEGIN, last)                                                                     \
    HIL_V7M_FAR(BEGIN, 0, 1, last, 8) HIL_V7M_FAR(BEGIN, 1, 2, last, 16)
#define HIL_V7M_FAR_4(BEGIN, last) HIL_V7M_FAR_3(BEGIN, last) HIL_V7M_FAR(BEGIN, 2, 3, last, 24)
#define HIL_V7M_FAR_5(BEGIN, last) HIL_V7M_FAR_4(BEGIN, last) HIL_V7M_FAR(BEGIN, 3, 4, last, 32)
#define HIL_V7M_FAR_6(BEGIN, last) HIL_V7M_FAR_5(BEGIN, last) HIL_V7M_FAR(BEGIN, 4, 5, last, 40)
#define HIL_V7M_ROW_2_3(BEGIN) HIL_V7M_FAR_3(BEGIN, 2) HIL_V7M_END(2, 24)
#define HIL_V7M_ROW_2_4(BEGIN) HIL_V7M_FAR_4(BEGIN, 3) HIL_V7M_END(3, 32)
#define HIL_V7M_ROW_2_5(BEGIN) HIL_V7M_FAR_5(BEGIN, 4) HIL_V7M_END(4, 40)
#define HIL_V7M_ROW_2_6(BEGIN) HIL_V7M_FAR_6(BEGIN, 5) HIL_V7M_END(5, 48)

#define HIL_V7M_SUM(i) [s##i] "=&r"(sums.s[i])
#define HIL_V7M_SUMS_3 HIL_V7M_SUM(0), HIL_V7M_SUM(1), HIL_V7M_SUM(2)
#define HIL_V7M_SUMS_4 HIL_V7M_SUMS_3, HIL_V7M_SUM(3)
#define HIL_V7M_SUMS_5 HIL_V7M_SUMS_4, HIL_V7M_SUM(4)
#define HIL_V7M_SUMS_6 HIL_V7M_SUMS_5, HIL_V7M_SUM(5)
#define HIL_V7M_PIXELS_3 "r8", "r9", "r10", "r11", "r12"
#define HIL_V7M_PIXELS_4 "r8", "r9", "r10"
#define HIL_V7M_PIXELS_5 "r8", "r9", "r10"
#define HIL_V7M_PIXELS_6 "r8", "r9"

#define HIL_V7M_TAPS "ldmia %[channel]!, {r4, r5, r6}\n\t"
#define HIL_V7M_NEXT_LINE "add %[x], %[line]\n\t"
#define HIL_V7M_WINDOWS(stride, block, last)                                                       \
    __asm__ volatile(                                                                              \
        "ldr %[s" #last                                                                            \
        "], [%[channel]], #4\n\t" HIL_V7M_TAPS HIL_V7M_ROW_##stride##_##block(HIL_V7M_FIRST)       \
            HIL_V7M_NEXT_LINE HIL_V7M_TAPS HIL_V7M_ROW_##stride##_##block(HIL_V7M_NEXT)            \
                HIL_V7M_NEXT_LINE HIL_V7M_TAPS HIL_V7M_ROW_##stride##_##block(HIL_V7M_NEXT)        \
        : HIL_V7M_SUMS_##block, [x] "+r"(x), [channel] "+r"(channel)                               \
        : [line] "r"(4 * p->line)                                                                  \
        : "r4", "r5", "r6", HIL_V7M_PIXELS_##block, "memory")
#define HIL_V7M_BLOCK(stride)                                                                      \
    switch (block) {                                                                               \
    case 6:                                                                                        \
        HIL_V7M_WINDOWS(stride, 6, 5);                                                             \
        return sums;                                                                               \
    case 5:                                                                                        \
        HIL_V7M_WINDOWS(stride, 5, 4);                                                             \
        return sums;                                                                               \
    case 4:                                                                                        \
        HIL_V7M_WINDOWS(stride, 4, 3);                                                             \
        return sums;                                                                               \
    case 3:                                                                                        \
        HIL_V7M_WINDOWS(stride, 3, 2);                                                             \
        return sums;                                                                               \
    default:                                                                                       \
        break;                                                                                     \
    }

#endif

/* The sums of `block` windows, a constant, next to each other. */
HIL_INLINE struct hil_v7m_depthwise_words_sums
hil_v7m_depthwise_words_sums(const struct hil_v7m_depthwise_conv2d_s8_words *p,
                             const int32_t *channel, int32_t block, const int32_t *lines) {
    struct hil_v7m_depthwise_words_sums sums = {{0}};
#if HIL_V7M_ASSEMBLY
    const int32_t *x = lines;
    if (p->stride == 1) {
        HIL_V7M_BLOCK(1)
    } else {
        HIL_V7M_BLOCK(2)
    }
#endif
#pragma GCC unroll 6
    for (int32_t i = 0; i < block; i++) {
        uint32_t sum = (uint32_t)channel[0];
#pragma GCC unroll 9
        for (int32_t tap = 0; tap < 9; tap++) {
            const int32_t pixel = lines[tap / 3 * p->line + i * p->stride + tap % 3];
            sum += (uint32_t)pixel * (uint32_t)channel[1 + tap];
        }
        sums.s[i] = (int32_t)sum;
    }
    return sums;
}

#if HIL_V7M_ASSEMBLY
#undef HIL_V7M_TAP
#undef HIL_V7M_FIRST
#undef HIL_V7M_NEXT
#undef HIL_V7M_ROW_1_3
#undef HIL_V7M_ROW_1_4
#undef HIL_V7M_ROW_1_5
#undef HIL_V7M_ROW_1_6
#undef HIL_V7M_PAIR
#undef HIL_V7M_END
#undef HIL_V7M_FAR
#undef HIL_V7M_FAR_1
#undef HIL_V7M_FAR_3
#undef HIL_V7M_FAR_4
#undef HIL_V7M_FAR_5
#undef HIL_V7M_FAR_6
#undef HIL_V7M_ROW_2_3
#undef HIL_V7M_ROW_2_4
#undef HIL_V7M_ROW_2_5
#undef HIL_V7M_ROW_2_6
#undef HIL_V7M_SUM
#undef HIL_V7M_SUMS_3
#undef HIL_V7M_SUMS_4
#undef HIL_V7M_SUMS_5
#undef HIL_V7M_SUMS_6
#undef HIL_V7M_PIXELS_3
#undef HIL_V7M_PIXELS_4
#undef HIL_V7M_PIXELS_5
#undef HIL_V7M_PIXELS_6
#undef HIL_V7M_TAPS
#undef HIL_V7M_NEXT_LINE
#undef HIL_V7M_WINDOWS
#undef HIL_V7M_BLOCK
#endif

/* The outputs of `block` windows, a constant, next to each other. */
HIL_INLINE void hil_v7m_depthwise_words_block(const struct hil_v7m_depthwise_conv2d_s8_words *p,
                                              const int32_t *channel, int32_t block,
                                              const int32_t *lines, int8_t *out) {
    const struct hil_v7m_depthwise_words_sums sums =
        hil_v7m_depthwise_words_sums(p, channel, block, lines);
    const int32_t multiplier = channel[HIL_V7M_WORDS_CHANNEL - 1];
#pragma GCC unroll 6
    for (int32_t i = 0; i < block; i++) {
        const int32_t upper = (int32_t)(((int64_t)sums.s[i] * multiplier) >> 32);
        out[i * p->in_c] = hil_clamp_s8(upper >> p->shift, INT8_MIN, INT8_MAX);
    }
}

/* A row of outputs of one channel. */
HIL_INLINE void hil_v7m_depthwise_words_row(const struct hil_v7m_depthwise_conv2d_s8_words *p,
                                            const int32_t *channel, const int32_t *lines,
                                            int8_t *out) {
    const int32_t last = p->out_w - p->block;
    for (int32_t at = 0;; at += p->block) {
        const int32_t x = at < last ? at : last;
        const int32_t *const from = lines + x * p->stride;
        int8_t *const to = out + x * p->in_c;
        switch (p->block) {
        case 6:
            hil_v7m_depthwise_words_block(p, channel, 6, from, to);
            break;
        case 5:
            hil_v7m_depthwise_words_block(p, channel, 5, from, to);
            break;
        case 4:
            hil_v7m_depthwise_words_block(p, channel, 4, from, to);
            break;
        case 3:
            hil_v7m_depthwise_words_block(p, channel, 3, from, to);
            break;
        case 2:
            hil_v7m_depthwise_words_block(p, channel, 2, from, to);
            break;
        default:
            hil_v7m_depthwise_words_block(p, channel, 1, from, to);
            break;
        }
        if (at >= last) {
            return;
        }
    }
}

/* Copies row y of a channel, what of it lies in the image, to its place in a line. */
HIL_INLINE void hil_v7m_depthwise_words_line(const struct hil_v7m_depthwise_conv2d_s8_words *p,
                                             const int8_t *channel, int32_t y, int32_t *line) {
    const int32_t room = p->line - p->pad_left;
    int32_t left = room < p->in_w ? room : p->in_w;
    int32_t *to = line + p->pad_left;
    if (left <= 0) {
        return;
    }
    if (y < 0 || y >= p->in_h) {
        for (; left > 0; left--) {
            *to++ = p->in_zero_point;
        }
        return;
    }
    const int8_t *from = channel + y * p->in_w * p->in_c;
#pragma GCC unroll 8
    for (; left > 0; left--) {
        *to++ = *from;
        from += p->in_c;
    }
}

/* The outputs of one channel of an image. */
HIL_INLINE void hil_v7m_depthwise_words_channel(const struct hil_v7m_depthwise_conv2d_s8_words *p,
                                                const int8_t *in, int8_t *out,
                                                const int32_t *channel, int32_t *lines) {
    const int32_t kept = 3 - p->stride;
    int32_t y = -p->pad_top;
    int32_t *to = lines;
    for (int32_t i = 0; i < kept; i++) {
        hil_v7m_depthwise_words_line(p, in, y++, to);
        to += p->line;
    }
    for (int32_t left = p->out_h; left > 0; left -= p->band) {
        const int32_t rows = left < p->band ? left : p->band;
        to = lines + kept * p->line;
        for (int32_t i = rows * p->stride; i > 0; i--) {
            hil_v7m_depthwise_words_line(p, in, y++, to);
            to += p->line;
        }
        const int32_t *from = lines;
        for (int32_t i = rows; i > 0; i--) {
            hil_v7m_depthwise_words_row(p, channel, from, out);
            from += p->stride * p->line;
            out += p->out_w * p->in_c;
        }
        if (left > p->band) {
            memmove(lines, from, (size_t)(4 * kept * p->line));
        }
    }
}

HIL_INLINE void hil_v7m_depthwise_conv2d_s8_words(const struct hil_v7m_depthwise_conv2d_s8_words *p,
                                                  const int8_t *in, int8_t *out, void *scratch) {
    int32_t *const lines = (int32_t *)scratch;
    /* What pads a line is never written again. */
    for (int32_t i = 0; i < p->line * (p->stride * p->band - p->stride + 3); i++) {
        lines[i] = p->in_zero_point;
    }
    for (int32_t images = p->batch; images > 0; images--) {
        const int32_t *channel = p->channels;
        for (int32_t i = 0; i < p->in_c; i++) {
            hil_v7m_depthwise_words_channel(p, in + i, out + i, channel, lines);
            channel += HIL_V7M_WORDS_CHANNEL;
        }
        in += p->in_h * p->in_w * p->in_c;
        out += p->out_h * p->out_w * p->in_c;
    }
}

#endif
