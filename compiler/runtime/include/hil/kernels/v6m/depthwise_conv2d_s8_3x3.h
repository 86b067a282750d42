/* Depthwise 3x3 convolution of int8 images on cores with Thumb code of 16 bits alone, a channel of
 * the image at a time, from lines of bytes that the core loads at an offset.
 *
 * Tile: 1 output x 1 channel.
 *
 *   line     0           1           2
 *   weights  r4 r5 r6    r4 r5 r6    r4 r5 r6     three of them by one ldm
 *
 * Registers: r4 r5 r6, weights, which multiplying overwrites; of gcc's choice sum, t (a pixel), the
 * places in lines and weights, and the step from line to line.
 *
 * Data: weights int8 [filter][3][3], smaller filters with zeros (`with_zero_taps()`), on the
 * stack as words; scales int32 [filter][7], `piecewise_scales()`; lines in scratch, uint8: the rows
 * of one channel below a band of output rows, raised by 128, as only unsigned bytes are loaded at
 * an offset, the zero point around.
 *
 * Order: channel by channel of the image, band by band, filter by filter of the channel; rows that
 * two bands need are read for each.
 *
 * Bounds: nine products, 9 * 255 * 128 < 2^19.
 *
 * Output: as in columns_s8.h; the bias takes off what raised inputs add (`_depthwise()`).
 *
 * Scratch: the lines of a band: of all rows, or of `_BAND`.
 *
 * Cost: 33 instructions a sum. Measured (`hil bench` on microbit, instructions under QEMU): 25x5x64
 * (kws) 7.6 a MAC, all rows in one band; the portable kernel 16.8. 8x8x4 with eight filters a
 * channel, which share its lines, 6.9 and 14.6.
 *
 * Tests: the twin is the second hil_v6m_depthwise_sum (tests/c/test_v6m_kernels.py, in place:
 * test_depthwise_in_place); the assembly: tests/board/test_kernels.py. Layout:
 * tests/c/test_kernel_layouts.py.
 */
#ifndef HIL_KERNELS_V6M_DEPTHWISE_CONV2D_S8_3X3_H
#define HIL_KERNELS_V6M_DEPTHWISE_CONV2D_S8_3X3_H

#include <string.h>

#include "hil/kernels/generic/fields.h"
#include "hil/v6m.h"

/*@kernel
name = "hil_v6m_depthwise_conv2d_s8_3x3"
requires = ["thumb1"]
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "line * (stride_h * (band - 1) + 3)"
order = ["channels depth_multiplier", "rows band"]
reads = "channel window"
window = {filter_h = "3", filter_w = "3"}
code = 520
[cost]
channel = "batch * in_c"
filter = "channel * depth_multiplier"
line_pixel = "channel * line * (stride_h * (band - 1) + 3) * ((out_h + band - 1) // band)"
row = "filter * out_h"
output = "row * out_w"
third_piece = "output * (pieces == 3)"
turn = "output * turns"
@*/
struct hil_v6m_depthwise_conv2d_s8_3x3 {
    HIL_IMAGES_FIELDS;
    int32_t stride_h;         /* input rows from a window to the one below it, at most 3 */
    int32_t stride_w;         /* input columns from a window to the next */
    int32_t pad_top;          /* rows by which the first window reaches above the image */
    int32_t pad_left;         /* columns by which the first window reaches beyond the image */
    int32_t depth_multiplier; /* filters of a channel of the image */
    int32_t band;             /* output rows at a time */
    int32_t line;             /* pixels under a row of windows */
    int32_t in_zero_point; /* the input that stands for 0.0, which pixels outside the image have */
    int32_t pieces;        /* of the multipliers: 2 or 3 */
    int32_t bits;          /* of a piece */
    int32_t turns;         /* 1: negative products have an addend of their own */
    int32_t out_min;       /* the least output */
    int32_t out_max;       /* the largest output */
    const int32_t *scales; /* HIL_V6M_SCALE_WORDS a filter, of inputs raised by 128 */
    const int8_t *weights; /* [in_c * depth_multiplier][3][3] */
};

/* Channels of the outputs. */
#define HIL_V6M_DEPTHWISE_OUT_C(p) ((p)->in_c * (p)->depth_multiplier)

/* Fills all lines with what pixels outside the image have. */
HIL_INLINE void hil_v6m_depthwise_fill(const struct hil_v6m_depthwise_conv2d_s8_3x3 *p,
                                       uint8_t *lines) {
    memset(lines, p->in_zero_point + 128, (size_t)(p->line * (p->stride_h * (p->band - 1) + 3)));
}

/* Copies what of row y of a channel lies in the image to its place in a line; the filling is there
 * already. */
HIL_INLINE void hil_v6m_depthwise_line(const struct hil_v6m_depthwise_conv2d_s8_3x3 *p,
                                       const int8_t *channel, int32_t y, uint8_t *line) {
    if (y < 0 || y >= p->in_h) {
        return;
    }
    const int32_t room = p->line - p->pad_left;
    const int8_t *from = channel + y * p->in_w * p->in_c;
    uint8_t *to = line + p->pad_left;
    for (int32_t left = room < p->in_w ? room : p->in_w; left > 0; left--) {
        *to++ = (uint8_t)(*from + 128);
        from += p->in_c;
    }
}

#if HIL_V6M_ASSEMBLY

#define HIL_V6M_THREE                                                                              \
    "ldmia %[w]!, {r4, r5, r6}\n\t"                                                                \
    "ldrb %[t], [%[from], #0]\n\t"                                                                 \
    "muls r4, %[t], r4\n\t"                                                                        \
    "adds %[sum], %[sum], r4\n\t"                                                                  \
    "ldrb %[t], [%[from], #1]\n\t"                                                                 \
    "muls r5, %[t], r5\n\t"                                                                        \
    "adds %[sum], %[sum], r5\n\t"                                                                  \
    "ldrb %[t], [%[from], #2]\n\t"                                                                 \
    "muls r6, %[t], r6\n\t"                                                                        \
    "adds %[sum], %[sum], r6\n\t"

/* The sum of a window: 33 instructions. */
HIL_INLINE int32_t hil_v6m_depthwise_sum(const uint8_t *from, int32_t line, const int32_t *w) {
    int32_t sum = 0;
    uint32_t t;
    register int32_t line_bytes __asm__("r8") =
        line; /* for size gcc takes none of the upper ones */
    __asm__ volatile(".syntax unified\n\t" HIL_V6M_THREE "add %[from], %[line]\n\t" HIL_V6M_THREE
                     "add %[from], %[line]\n\t" HIL_V6M_THREE
                     : [from] "+l"(from), [w] "+l"(w), [sum] "+l"(sum), [t] "=&l"(t)
                     : [line] "r"(line_bytes)
                     : "r4", "r5", "r6", "cc", "memory");
    return sum;
}

#undef HIL_V6M_THREE

#else

HIL_INLINE int32_t hil_v6m_depthwise_sum(const uint8_t *from, int32_t line, const int32_t *w) {
    int32_t sum = 0;
    for (int32_t i = 0; i < 3; i++) {
        sum += from[0] * w[3 * i] + from[1] * w[3 * i + 1] + from[2] * w[3 * i + 2];
        from += line;
    }
    return sum;
}

#endif

/* `rows` rows of outputs of a filter, from the lines of its channel. */
HIL_INLINE void hil_v6m_depthwise_filter(const struct hil_v6m_depthwise_conv2d_s8_3x3 *p,
                                         const uint8_t *lines, int8_t *out, int32_t rows,
                                         const int8_t *weights, const int32_t *scales) {
    const struct hil_v6m_scale scale = hil_v6m_scale(scales);
    /* In words, which the core loads from the stack, signed, with one instruction. */
    int32_t w[9];
#pragma GCC unroll 9
    for (int32_t i = 0; i < 9; i++) {
        w[i] = weights[i];
    }
    const uint8_t *row = lines;
    for (int32_t i = 0; i < rows; i++) {
        const uint8_t *from = row;
        row += p->stride_h * p->line;
        for (int32_t x = p->out_w; x > 0; x--) {
            const int32_t sum = hil_v6m_depthwise_sum(from, p->line, w);
            *out =
                hil_v6m_output(&scale, sum, p->pieces, p->bits, p->turns, p->out_min, p->out_max);
            out += HIL_V6M_DEPTHWISE_OUT_C(p);
            from += p->stride_w;
        }
    }
}

/* The outputs of one channel of an image. */
HIL_INLINE void hil_v6m_depthwise_channel(const struct hil_v6m_depthwise_conv2d_s8_3x3 *p,
                                          const int8_t *in, int8_t *out, const int8_t *weights,
                                          const int32_t *scales, uint8_t *lines) {
    int32_t y = -p->pad_top;
    for (int32_t left = p->out_h; left > 0; left -= p->band) {
        const int32_t rows = left < p->band ? left : p->band;
        if (p->band < p->out_h) {
            hil_v6m_depthwise_fill(p, lines);
        }
        uint8_t *to = lines;
        for (int32_t i = 0; i < (rows - 1) * p->stride_h + 3; i++) {
            hil_v6m_depthwise_line(p, in, y + i, to);
            to += p->line;
        }
        y += rows * p->stride_h;
        for (int32_t i = 0; i < p->depth_multiplier; i++) {
            hil_v6m_depthwise_filter(p, lines, out + i, rows, weights + 9 * i,
                                     scales + HIL_V6M_SCALE_WORDS * i);
        }
        out += rows * p->out_w * HIL_V6M_DEPTHWISE_OUT_C(p);
    }
}

HIL_INLINE void hil_v6m_depthwise_conv2d_s8_3x3(const struct hil_v6m_depthwise_conv2d_s8_3x3 *p,
                                                const int8_t *in, int8_t *out, void *scratch) {
    for (int32_t images = p->batch; images > 0; images--) {
        const int8_t *weights = p->weights;
        const int32_t *scales = p->scales;
        /* The same for all channels where they have all rows at a time. */
        hil_v6m_depthwise_fill(p, (uint8_t *)scratch);
        for (int32_t channel = 0; channel < p->in_c; channel++) {
            hil_v6m_depthwise_channel(p, in + channel, out + channel * p->depth_multiplier, weights,
                                      scales, (uint8_t *)scratch);
            weights += 9 * p->depth_multiplier;
            scales += HIL_V6M_SCALE_WORDS * p->depth_multiplier;
        }
        in += p->in_h * p->in_w * p->in_c;
        out += p->out_h * p->out_w * HIL_V6M_DEPTHWISE_OUT_C(p);
    }
}

#endif
