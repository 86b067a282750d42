/* Depthwise 3x3 convolution of int8 images on cores that multiply 32 bits, a channel at a time:
 * each pixel of a line is loaded once and goes into the sums of all windows that it is under.
 *
 * Tile: 1 row x 3 to 6 outputs next to each other (`block`) x 1 channel; blocks of 1 and 2 in C.
 * The last block of a row ends with the row, and computes again what the one before it has.
 *
 *               pixel   0     1        2            3           ...
 *               sum 0   w0    w1       w2                            each row of the filter
 *               sum 1         w0       w1           w2               loads w0 w1 w2, then the
 *               sum 2                  w0           w1               pixels of its line
 *
 * Registers: of gcc's choice: six sums at most, w0 w1 w2, t (a pixel), the places in lines and
 * weights, the step from line to line.
 *
 * Data: weights int8 [channel][3][3] as the model has them; scales int32 [channel][4], `_scales()`;
 * lines in scratch, int8: the rows of one channel below a band of output rows, the zero point
 * around.
 *
 * Order: channel by channel, band by band; lines that the next band needs too stay in scratch, so
 * the output may take the input's place.
 *
 * Bounds: nine products, 9 * 128 * 128 < 2^18; with the bias below 2^30 (`_channels()`).
 *
 * Output: as in columns_s8.h.
 *
 * Scratch: the lines of a band; `_bands()` chooses how many rows.
 *
 * Cost: 17 instructions an output with stride 1, 20 with stride 2, a block 27 more. Measured (`hil
 * tune` on mps2-an385, instructions under QEMU): 25x5x64 (kws) 2.90 a MAC, all rows in one band;
 * 4.47 a row at a time.
 *
 * Tests: the twin is the loop at the end of hil_v7m_depthwise_sums (tests/c/test_v7m_kernels.py,
 * limits: test_sums_at_their_limits; in place: test_depthwise_in_place); the assembly:
 * tests/board/test_kernels.py. Layout: tests/c/test_kernel_layouts.py.
 */
#ifndef HIL_KERNELS_V7M_DEPTHWISE_CONV2D_S8_3X3_H
#define HIL_KERNELS_V7M_DEPTHWISE_CONV2D_S8_3X3_H

#include <string.h>

#include "hil/kernels/generic/patch.h"
#include "hil/v7m.h"

/* Outputs of a row that are computed at a time, at most. */
#define HIL_V7M_DEPTHWISE_BLOCK 6

/*@kernel
name = "hil_v7m_depthwise_conv2d_s8_3x3"
requires = ["mul32"]
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "line * (stride * band - stride + 3)"
order = ["channels 1", "rows band"]
reads = "channel window once"
window = {filter_h = "3", filter_w = "3"}
code = 760
[cost]
channel = "batch * in_c"
line_pixel = "channel * line * (stride * out_h + 2)"
row = "channel * out_h"
row_block = "row * ((out_w + block - 1) // block)"
output = "row_block * block * (stride == 1)"
strided_output = "row_block * block * (stride == 2)"
band_end = "channel * ((out_h - 1) // band)"
@*/
struct hil_v7m_depthwise_conv2d_s8_3x3 {
    HIL_IMAGES_FIELDS;
    int32_t stride;        /* 1 or 2, either way */
    int32_t pad_top;       /* rows by which the first window reaches above the image */
    int32_t pad_left;      /* columns by which the first window reaches beyond the image */
    int32_t band;          /* output rows at a time */
    int32_t line;          /* pixels under a row of windows */
    int32_t block;         /* outputs at a time, 1 to 6; at most out_w */
    int32_t in_zero_point; /* the input that stands for 0.0, which pixels outside the image have */
    HIL_OUTPUT_RANGE_FIELDS;
    int32_t even_shift;    /* of all channels, or HIL_V7M_OWN_SHIFTS and others (v7m.h) */
    const int8_t *weights; /* [in_c][3][3] */
    const int32_t *scales; /* HIL_V7M_SCALE_WORDS a channel */
};

/* Sums of windows next to each other. */
struct hil_v7m_depthwise_sums {
    int32_t s[HIL_V7M_DEPTHWISE_BLOCK];
};

#if HIL_V7M_ASSEMBLY

/* Each pixel of a line is loaded once and goes into the sums of all windows that it is under. The
 * first row of the windows begins the sums. */
#define HIL_V7M_X(at) "ldrsb %[t], [%[x], #" #at "]\n\t"
#define HIL_V7M_MORE(sum, tap) "mla %[s" #sum "], %[t], %[w" #tap "], %[s" #sum "]\n\t"
#define HIL_V7M_BEGIN(sum) "mul %[s" #sum "], %[t], %[w0]\n\t"
#define HIL_V7M_GO_ON(sum) HIL_V7M_MORE(sum, 0)

/* The pixels that follow, windows a pixel apart: those of the first two of a window, each further
 * window, and the last two pixels. */
#define HIL_V7M_NEAR_1(ZERO) HIL_V7M_X(0) ZERO(0) HIL_V7M_X(1) HIL_V7M_MORE(0, 1) ZERO(1)
#define HIL_V7M_NEAR(ZERO, a, b, c) HIL_V7M_X(c) HIL_V7M_MORE(a, 2) HIL_V7M_MORE(b, 1) ZERO(c)
#define HIL_V7M_NEAR_END(a, b, c, d)                                                               \
    HIL_V7M_X(c) HIL_V7M_MORE(a, 2) HIL_V7M_MORE(b, 1) HIL_V7M_X(d) HIL_V7M_MORE(b, 2)
#define HIL_V7M_NEAR_2(ZERO) HIL_V7M_NEAR_1(ZERO) HIL_V7M_NEAR(ZERO, 0, 1, 2)
#define HIL_V7M_NEAR_3(ZERO) HIL_V7M_NEAR_2(ZERO) HIL_V7M_NEAR(ZERO, 1, 2, 3)
#define HIL_V7M_NEAR_4(ZERO) HIL_V7M_NEAR_3(ZERO) HIL_V7M_NEAR(ZERO, 2, 3, 4)
#define HIL_V7M_NEAR_5(ZERO) HIL_V7M_NEAR_4(ZERO) HIL_V7M_NEAR(ZERO, 3, 4, 5)
#define HIL_V7M_ROW_1_3(ZERO) HIL_V7M_NEAR_2(ZERO) HIL_V7M_NEAR_END(1, 2, 3, 4)
#define HIL_V7M_ROW_1_4(ZERO) HIL_V7M_NEAR_3(ZERO) HIL_V7M_NEAR_END(2, 3, 4, 5)
#define HIL_V7M_ROW_1_5(ZERO) HIL_V7M_NEAR_4(ZERO) HIL_V7M_NEAR_END(3, 4, 5, 6)
#define HIL_V7M_ROW_1_6(ZERO) HIL_V7M_NEAR_5(ZERO) HIL_V7M_NEAR_END(4, 5, 6, 7)

/* The same with windows two pixels apart. */
#define HIL_V7M_FAR_1(ZERO) HIL_V7M_X(0) ZERO(0) HIL_V7M_X(1) HIL_V7M_MORE(0, 1)
#define HIL_V7M_FAR(ZERO, a, b, x, y)                                                              \
    HIL_V7M_X(x) HIL_V7M_MORE(a, 2) ZERO(b) HIL_V7M_X(y) HIL_V7M_MORE(b, 1)
#define HIL_V7M_FAR_END(a, x) HIL_V7M_X(x) HIL_V7M_MORE(a, 2)
#define HIL_V7M_FAR_3(ZERO)                                                                        \
    HIL_V7M_FAR_1(ZERO) HIL_V7M_FAR(ZERO, 0, 1, 2, 3) HIL_V7M_FAR(ZERO, 1, 2, 4, 5)
#define HIL_V7M_FAR_4(ZERO) HIL_V7M_FAR_3(ZERO) HIL_V7M_FAR(ZERO, 2, 3, 6, 7)
#define HIL_V7M_FAR_5(ZERO) HIL_V7M_FAR_4(ZERO) HIL_V7M_FAR(ZERO, 3, 4, 8, 9)
#define HIL_V7M_FAR_6(ZERO) HIL_V7M_FAR_5(ZERO) HIL_V7M_FAR(ZERO, 4, 5, 10, 11)
#define HIL_V7M_ROW_2_3(ZERO) HIL_V7M_FAR_3(ZERO) HIL_V7M_FAR_END(2, 6)
#define HIL_V7M_ROW_2_4(ZERO) HIL_V7M_FAR_4(ZERO) HIL_V7M_FAR_END(3, 8)
#define HIL_V7M_ROW_2_5(ZERO) HIL_V7M_FAR_5(ZERO) HIL_V7M_FAR_END(4, 10)
#define HIL_V7M_ROW_2_6(ZERO) HIL_V7M_FAR_6(ZERO) HIL_V7M_FAR_END(5, 12)

#define HIL_V7M_SUM(i) [s##i] "=&r"(sums.s[i])
#define HIL_V7M_SUMS_3 HIL_V7M_SUM(0), HIL_V7M_SUM(1), HIL_V7M_SUM(2)
#define HIL_V7M_SUMS_4 HIL_V7M_SUMS_3, HIL_V7M_SUM(3)
#define HIL_V7M_SUMS_5 HIL_V7M_SUMS_4, HIL_V7M_SUM(4)
#define HIL_V7M_SUMS_6 HIL_V7M_SUMS_5, HIL_V7M_SUM(5)

#define HIL_V7M_TAPS                                                                               \
    "ldrsb %[w0], [%[w]], #1\n\t"                                                                  \
    "ldrsb %[w1], [%[w]], #1\n\t"                                                                  \
    "ldrsb %[w2], [%[w]], #1\n\t"
#define HIL_V7M_NEXT_LINE "add %[x], %[line]\n\t"
#define HIL_V7M_WINDOWS(stride, block)                                                             \
    __asm__ volatile(                                                                              \
        HIL_V7M_TAPS HIL_V7M_ROW_##stride##_##block(HIL_V7M_BEGIN)                                 \
            HIL_V7M_NEXT_LINE HIL_V7M_TAPS HIL_V7M_ROW_##stride##_##block(HIL_V7M_GO_ON)           \
                HIL_V7M_NEXT_LINE HIL_V7M_TAPS HIL_V7M_ROW_##stride##_##block(HIL_V7M_GO_ON)       \
        : HIL_V7M_SUMS_##block, [t] "=&r"(t), [w0] "=&r"(w0), [w1] "=&r"(w1), [w2] "=&r"(w2),      \
          [x] "+r"(x), [w] "+r"(w)                                                                 \
        : [line] "r"(p->line)                                                                      \
        : "memory")
#define HIL_V7M_BLOCK(stride)                                                                      \
    switch (block) {                                                                               \
    case 6:                                                                                        \
        HIL_V7M_WINDOWS(stride, 6);                                                                \
        return sums;                                                                               \
    case 5:                                                                                        \
        HIL_V7M_WINDOWS(stride, 5);                                                                \
        return sums;                                                                               \
    case 4:                                                                                        \
        HIL_V7M_WINDOWS(stride, 4);                                                                \
        return sums;                                                                               \
    case 3:                                                                                        \
        HIL_V7M_WINDOWS(stride, 3);                                                                \
        return sums;                                                                               \
    default:                                                                                       \
        break;                                                                                     \
    }

#endif

/* The sums of `block` windows, a constant, next to each other. */
HIL_INLINE struct hil_v7m_depthwise_sums
hil_v7m_depthwise_sums(const struct hil_v7m_depthwise_conv2d_s8_3x3 *p, const int8_t *weights,
                       int32_t block, const int8_t *lines) {
    struct hil_v7m_depthwise_sums sums = {{0}};
#if HIL_V7M_ASSEMBLY
    const int8_t *w = weights;
    const int8_t *x = lines;
    int32_t t;
    int32_t w0;
    int32_t w1;
    int32_t w2;
    if (p->stride == 1) {
        HIL_V7M_BLOCK(1)
    } else {
        HIL_V7M_BLOCK(2)
    }
#endif
    /* Row by row, so that three weights are in use at a time, and windows share their pixels. */
#pragma GCC unroll 3
    for (int32_t y = 0; y < 3; y++) {
        const int8_t *const tap = lines + y * p->line;
#pragma GCC unroll 6
        for (int32_t i = 0; i < block; i++) {
            const int8_t *const at = tap + i * p->stride;
            sums.s[i] +=
                at[0] * weights[3 * y] + at[1] * weights[3 * y + 1] + at[2] * weights[3 * y + 2];
        }
    }
    return sums;
}

#if HIL_V7M_ASSEMBLY
#undef HIL_V7M_X
#undef HIL_V7M_MORE
#undef HIL_V7M_BEGIN
#undef HIL_V7M_GO_ON
#undef HIL_V7M_NEAR
#undef HIL_V7M_NEAR_END
#undef HIL_V7M_NEAR_1
#undef HIL_V7M_NEAR_2
#undef HIL_V7M_NEAR_3
#undef HIL_V7M_NEAR_4
#undef HIL_V7M_NEAR_5
#undef HIL_V7M_FAR
#undef HIL_V7M_FAR_END
#undef HIL_V7M_FAR_1
#undef HIL_V7M_FAR_3
#undef HIL_V7M_FAR_4
#undef HIL_V7M_FAR_5
#undef HIL_V7M_FAR_6
#undef HIL_V7M_ROW_1_3
#undef HIL_V7M_ROW_1_4
#undef HIL_V7M_ROW_1_5
#undef HIL_V7M_ROW_1_6
#undef HIL_V7M_ROW_2_3
#undef HIL_V7M_ROW_2_4
#undef HIL_V7M_ROW_2_5
#undef HIL_V7M_ROW_2_6
#undef HIL_V7M_SUM
#undef HIL_V7M_SUMS_3
#undef HIL_V7M_SUMS_4
#undef HIL_V7M_SUMS_5
#undef HIL_V7M_SUMS_6
#undef HIL_V7M_TAPS
#undef HIL_V7M_NEXT_LINE
#undef HIL_V7M_WINDOWS
#undef HIL_V7M_BLOCK
#endif

/* The outputs of `block` windows, a constant, next to each other. */
HIL_INLINE void hil_v7m_depthwise_block(const struct hil_v7m_depthwise_conv2d_s8_3x3 *p,
                                        const struct hil_v7m_scale *scale, const int8_t *weights,
                                        int32_t block, const int8_t *lines, int8_t *out) {
    const struct hil_v7m_depthwise_sums sums = hil_v7m_depthwise_sums(p, weights, block, lines);
#pragma GCC unroll 6
    for (int32_t i = 0; i < block; i++) {
        out[i * p->in_c] = hil_v7m_output_by(p->even_shift, scale, sums.s[i], p->out_zero_point,
                                             p->out_min, p->out_max);
    }
}

/* A row of outputs of one channel. */
HIL_INLINE void hil_v7m_depthwise_row(const struct hil_v7m_depthwise_conv2d_s8_3x3 *p,
                                      const struct hil_v7m_scale *scale, const int8_t *weights,
                                      const int8_t *lines, int8_t *out) {
    const int32_t last = p->out_w - p->block;
    for (int32_t at = 0;; at += p->block) {
        const int32_t x = at < last ? at : last;
        const int8_t *const from = lines + x * p->stride;
        int8_t *const to = out + x * p->in_c;
        switch (p->block) {
        case 6:
            hil_v7m_depthwise_block(p, scale, weights, 6, from, to);
            break;
        case 5:
            hil_v7m_depthwise_block(p, scale, weights, 5, from, to);
            break;
        case 4:
            hil_v7m_depthwise_block(p, scale, weights, 4, from, to);
            break;
        case 3:
            hil_v7m_depthwise_block(p, scale, weights, 3, from, to);
            break;
        case 2:
            hil_v7m_depthwise_block(p, scale, weights, 2, from, to);
            break;
        default:
            hil_v7m_depthwise_block(p, scale, weights, 1, from, to);
            break;
        }
        if (at >= last) {
            return;
        }
    }
}

/* Copies row y of a channel, what of it lies in the image, to its place in a line. */
HIL_INLINE void hil_v7m_depthwise_line(const struct hil_v7m_depthwise_conv2d_s8_3x3 *p,
                                       const int8_t *channel, int32_t y, int8_t *line) {
    const int32_t room = p->line - p->pad_left;
    int32_t left = room < p->in_w ? room : p->in_w;
    int8_t *to = line + p->pad_left;
    if (left <= 0) {
        return;
    }
    if (y < 0 || y >= p->in_h) {
        memset(to, p->in_zero_point, (size_t)left);
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
HIL_INLINE void hil_v7m_depthwise_channel(const struct hil_v7m_depthwise_conv2d_s8_3x3 *p,
                                          const int8_t *in, int8_t *out, const int8_t *weights,
                                          const int32_t *scales, int8_t *lines) {
    const struct hil_v7m_scale scale = hil_v7m_scale(scales);
    const int32_t kept = 3 - p->stride;
    int32_t y = -p->pad_top;
    int8_t *to = lines;
    for (int32_t i = 0; i < kept; i++) {
        hil_v7m_depthwise_line(p, in, y++, to);
        to += p->line;
    }
    for (int32_t left = p->out_h; left > 0; left -= p->band) {
        const int32_t rows = left < p->band ? left : p->band;
        to = lines + kept * p->line;
        for (int32_t i = rows * p->stride; i > 0; i--) {
            hil_v7m_depthwise_line(p, in, y++, to);
            to += p->line;
        }
        const int8_t *from = lines;
        for (int32_t i = rows; i > 0; i--) {
            hil_v7m_depthwise_row(p, &scale, weights, from, out);
            from += p->stride * p->line;
            out += p->out_w * p->in_c;
        }
        if (left > p->band) {
            memmove(lines, from, (size_t)(kept * p->line));
        }
    }
}

HIL_INLINE void hil_v7m_depthwise_conv2d_s8_3x3(const struct hil_v7m_depthwise_conv2d_s8_3x3 *p,
                                                const int8_t *in, int8_t *out, void *scratch) {
    const int32_t lines = p->stride * p->band - p->stride + 3;
    /* What pads a line is never written again. */
    memset(scratch, p->in_zero_point, (size_t)(lines * p->line));
    for (int32_t images = p->batch; images > 0; images--) {
        for (int32_t channel = 0; channel < p->in_c; channel++) {
            hil_v7m_depthwise_channel(p, in + channel, out + channel, p->weights + 9 * channel,
                                      p->scales + HIL_V7M_SCALE_WORDS * channel, (int8_t *)scratch);
        }
        in += p->in_h * p->in_w * p->in_c;
        out += p->out_h * p->out_w * p->in_c;
    }
}

#endif
