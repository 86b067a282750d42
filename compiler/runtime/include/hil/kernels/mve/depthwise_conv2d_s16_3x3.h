/* Depthwise 3x3 convolution of int16 images with int8 weights on Helium, a channel's plane at a
 * time: a vector holds four outputs next to each other, and each tap of the filter is a
 * multiplication with a scalar. Outputs next to each other lie along a row, or, where that fills
 * vectors better, along a column: lines are then columns.
 *
 * Tile: 4 outputs x 6 lines x 1 channel, or 5, 4 or 2 lines.
 *
 *   line of inputs   0      1      2      3      4      5      6      7
 *   sums             q0     q0 q1  q0-q2  q1-q3  q2-q4  q3-q5  q4 q5  q5     q6: four inputs
 *
 * Registers, at the top of a tile: r0 inputs, three lines below the tile's first; r1 outputs; r2 r3
 * r4, r5 r6 r8, r9 r10 r11 weights line by line; r7 places of the outputs two lines by two, of a
 * fifth line twice, bounds, bias (struct hil_mve_lines_s16_places); r12 multiplier; lr tiles left;
 * q7 low; behind the inputs q6 is high, and places take the sums' registers.
 *
 * Data: by the Helium family's `_depthwise()`: int8 [channels][3 lines][3] weights, of smaller
 * filters with zeros, int32 [channels][4] bias, multiplier, shift, zero point; planes in scratch,
 * int16 [lines][line], the input's zero point around.
 *
 * Order: of `rows` rows of outputs, channel by channel of the image, the inputs are read, then the
 * outputs of all their filters written.
 *
 * Bounds: vmla adds modulo 2^32; sums, bias included, are below 2^31 (`narrow_sums()`). Loads reach
 * 254 bytes: 2 * (3 * 40 + 2) = 244, of six lines 2 * (4 * 31 + 2) = 252. Places are 16 bits, which
 * `_depthwise()` checks.
 *
 * Output: that of blocks_s16.h.
 *
 * Scratch: the plane of one channel; `rows` trades it for instructions.
 *
 * Cost: 112 instructions for 216 MACs, 97 for 180, 78 for 144, 44 for 72, 15 before each line of
 * tiles; about 6 for eight elements of the plane. Measured by `python tools/measure.py wide`
 * (docs/reference/wide.md); a MAC (`hil bench` on mps3-an547, instructions under QEMU): 12x12x64
 * 0.72, 12x12x8 with eight filters a channel 0.62.
 *
 * Tests: no twin in C; the same tile in C, hil_mve_lines_s16_tile, serves other distances, and the
 * numpy reference gives what must come out (tests/board/test_sixteen_bits.py).
 */
#ifndef HIL_KERNELS_MVE_DEPTHWISE_CONV2D_S16_3X3_H
#define HIL_KERNELS_MVE_DEPTHWISE_CONV2D_S16_3X3_H

#include "hil/kernels/mve/planes.h"

/*@kernel
name = "hil_mve_depthwise_conv2d_s16_3x3"
requires = ["mve"]
inputs = ["int16_t"]
outputs = ["int16_t"]
scratch = "2 * (line * lines + 16)"
order = ["rows rows", "channels depth_multiplier"]
reads = "channel window"
window = {filter_h = "3", filter_w = "3"}
code = 1500
[cost]
band = "batch * ((out_h + rows - 1) // rows)"
plane = "band * in_c"
channel = "plane * depth_multiplier"
copied = "plane * lines * ((line + 7) // 8)"
tile = "channel * ((lines - 3 + 2 * stride) // (2 * stride)) * (((line - 3) // stride + 4) // 4)"
strided_tile = "tile * (stride - 1)"
@*/
struct hil_mve_depthwise_conv2d_s16_3x3 {
    HIL_IMAGES_FIELDS;
    int32_t stride;           /* 1 or 2, along both axes */
    int32_t pad_top;          /* rows by which the first window reaches above the image */
    int32_t pad_left;         /* columns by which it reaches to its left */
    int32_t depth_multiplier; /* filters of a channel of the image */
    int32_t rows;             /* of outputs at a time */
    int32_t upright;          /* 1: lines are columns, 0: they are rows */
    int32_t line;             /* elements of a line of the plane */
    int32_t lines;            /* of the plane, those of a missing second line of outputs too */
    int32_t in_zero_point;    /* of positions outside the image */
    int32_t shifted;          /* 1: outputs have a shift and a zero point, 0: neither */
    int32_t out_min;          /* the least output */
    int32_t out_max;          /* the largest output */
    const int8_t *weights;    /* of each output channel [9]: line by line */
    const int32_t *scales;    /* of each channel: bias, multiplier, shift, zero point */
};

/* Channels of the outputs. */
#define HIL_MVE_LINES_OUT_C(p) ((p)->in_c * (p)->depth_multiplier)

/* Four inputs of a line. */
HIL_INLINE int32x4_t hil_mve_line_s16(const int16_t *at, int32_t stride, uint32x4_t every) {
    return stride == 1 ? vldrhq_s32(at) : vldrhq_gather_shifted_offset_s32(at, every);
}

/* What all channels have in common: elements from output to output and from line to line. */
struct hil_mve_lines_s16 {
    int32_t outputs; /* of a line */
    int32_t lines;   /* of outputs */
    int32_t step;
    int32_t line_step;
};

/* Two lines of four outputs from the plane at `from`, of which those are stored whose rank is below
 * `count`; 4 stores all. */
HIL_INLINE void hil_mve_lines_s16_tile(const struct hil_mve_depthwise_conv2d_s16_3x3 *p,
                                       const int16_t *from, const int32_t *w, const int32_t *scales,
                                       uint32x4_t every, uint16x8_t places, uint16x8_t ranks,
                                       int32_t count, int16_t *out) {
    int32x4_t first = vdupq_n_s32(scales[0]);
    int32x4_t second = first;
#pragma GCC unroll 5
    for (int32_t y = 0; y < p->stride + 3; y++) {
#pragma GCC unroll 3
        for (int32_t x = 0; x < 3; x++) {
            const int32x4_t in = hil_mve_line_s16(from + y * p->line + x, p->stride, every);
            if (y < 3) {
                first = vmlaq_n_s32(first, in, w[3 * y + x]);
            }
            if (y >= p->stride) {
                second = vmlaq_n_s32(second, in, w[3 * (y - p->stride) + x]);
            }
        }
    }
    int16x8_t both =
        hil_mve_narrowed(hil_mve_plane_scaled(p->shifted, scales[1], scales[2], scales[3], first),
                         hil_mve_plane_scaled(p->shifted, scales[1], scales[2], scales[3], second));
    both = vminq_s16(vmaxq_s16(both, vdupq_n_s16((int16_t)p->out_min)),
                     vdupq_n_s16((int16_t)p->out_max));
    /* By a comparison: gcc 12 loses masks that were worked out in core registers. */
    vstrhq_scatter_shifted_offset_p_s16(out, places, both,
                                        vcmpcsq_u16(vdupq_n_u16((uint16_t)(count - 1)), ranks));
}

#if defined(__OPTIMIZE__) && !defined(__clang__)

/* What the assembly reads beside its registers: the places of a tile's outputs, in elements, of its
 * lines two by two, and of a fifth line twice, the bounds, and the bias, which is the channel's. */
struct hil_mve_lines_s16_places {
    uint16_t pairs[4][8];
    int16_t bounds[2][8];
    int32_t bias[4];
    int32_t shifts[4];
    int32_t zero_points[4];
};

/* clang-format off */

/* A tap of four inputs: line `y` counted from that at r0, and what it is multiplied with. */
#define HIL_MVE_TAP_S16(y, x) "vldrh.s32 q6, [r0, #2 * (" #y " * %c[line] + " #x ")]\n\t"
#define HIL_MVE_MUL_S16(sum, w) "vmla.s32 " sum ", q6, " w "\n\t"

/* A line of inputs into one, two or three lines of sums. */
#define HIL_MVE_ONE_S16(y, a, w0, w1, w2)                                                          \
    HIL_MVE_TAP_S16(y, 0) HIL_MVE_MUL_S16(a, w0)                                                   \
    HIL_MVE_TAP_S16(y, 1) HIL_MVE_MUL_S16(a, w1)                                                   \
    HIL_MVE_TAP_S16(y, 2) HIL_MVE_MUL_S16(a, w2)
#define HIL_MVE_TWO_S16(y, a, w0, w1, w2, b, v0, v1, v2)                                           \
    HIL_MVE_TAP_S16(y, 0) HIL_MVE_MUL_S16(a, w0) HIL_MVE_MUL_S16(b, v0)                            \
    HIL_MVE_TAP_S16(y, 1) HIL_MVE_MUL_S16(a, w1) HIL_MVE_MUL_S16(b, v1)                            \
    HIL_MVE_TAP_S16(y, 2) HIL_MVE_MUL_S16(a, w2) HIL_MVE_MUL_S16(b, v2)
#define HIL_MVE_THREE_S16(y, a, b, c)                                                              \
    HIL_MVE_TAP_S16(y, 0) HIL_MVE_MUL_S16(a, "r9") HIL_MVE_MUL_S16(b, "r5") HIL_MVE_MUL_S16(c, "r2")  \
    HIL_MVE_TAP_S16(y, 1) HIL_MVE_MUL_S16(a, "r10") HIL_MVE_MUL_S16(b, "r6") HIL_MVE_MUL_S16(c, "r3") \
    HIL_MVE_TAP_S16(y, 2) HIL_MVE_MUL_S16(a, "r11") HIL_MVE_MUL_S16(b, "r8") HIL_MVE_MUL_S16(c, "r4")

/* Sums scaled; shifted ones take q6 for their shifts, then for their zero points. */
#define HIL_MVE_SCALED_S16(sum) "vqrdmulh.s32 " sum ", " sum ", r12\n\t"
#define HIL_MVE_PRODUCT_S16(sum)                                                                   \
    "vqdmulh.s32 " sum ", " sum ", r12\n\t"                                                        \
    "vrshl.s32 " sum ", " sum ", q6\n\t"
#define HIL_MVE_PLACED_S16(sum) "vadd.i32 " sum ", " sum ", q6\n\t"
#define HIL_MVE_PLAIN_S16(SUMS) SUMS(HIL_MVE_SCALED_S16)
#define HIL_MVE_SHIFTED_S16(SUMS)                                                                  \
    "vldrw.32 q6, [r7, #112]\n\t" SUMS(HIL_MVE_PRODUCT_S16)                                        \
    "vldrw.32 q6, [r7, #128]\n\t" SUMS(HIL_MVE_PLACED_S16)
#define HIL_MVE_SUMS_2(each) each("q0") each("q1")
#define HIL_MVE_SUMS_4(each) HIL_MVE_SUMS_2(each) each("q2") each("q3")
#define HIL_MVE_SUMS_5(each) HIL_MVE_SUMS_4(each) each("q4")
#define HIL_MVE_SUMS_6(each) HIL_MVE_SUMS_5(each) each("q5")

/* Two lines of scaled sums to outputs: q6 has the largest one, q7 the least; the second's register
 * takes the places. */
#define HIL_MVE_OUT_S16(a, b, at)                                                                  \
    "vqmovnb.s32 " a ", " a "\n\t"                                                                 \
    "vqmovnt.s32 " a ", " b "\n\t"                                                                 \
    HIL_MVE_STORE_S16(a, b, at)
#define HIL_MVE_STORE_S16(a, places, at)                                                           \
    "vldrh.u16 " places ", [r7, #" at "]\n\t"                                                      \
    "vmax.s16 " a ", " a ", q7\n\t"                                                                \
    "vmin.s16 " a ", " a ", q6\n\t"                                                                \
    "vstrh.16 " a ", [r1, " places ", uxtw #1]\n\t"
#define HIL_MVE_BIAS_S16(sum) "vldrw.32 " sum ", [r7, #96]\n\t"
#define HIL_MVE_HIGH_S16 "vldrh.u16 q6, [r7, #80]\n\t"

#define HIL_MVE_SIX_LINES_S16(SCALED)                                                                     \
    HIL_MVE_BIAS_S16("q0") HIL_MVE_BIAS_S16("q1") HIL_MVE_BIAS_S16("q2")                           \
    HIL_MVE_BIAS_S16("q3") HIL_MVE_BIAS_S16("q4") HIL_MVE_BIAS_S16("q5")                           \
    HIL_MVE_ONE_S16(-3, "q0", "r2", "r3", "r4")                                                    \
    HIL_MVE_TWO_S16(-2, "q0", "r5", "r6", "r8", "q1", "r2", "r3", "r4")                            \
    HIL_MVE_THREE_S16(-1, "q0", "q1", "q2")                                                        \
    HIL_MVE_THREE_S16(0, "q1", "q2", "q3")                                                         \
    HIL_MVE_THREE_S16(1, "q2", "q3", "q4")                                                         \
    HIL_MVE_THREE_S16(2, "q3", "q4", "q5")                                                         \
    HIL_MVE_TWO_S16(3, "q4", "r9", "r10", "r11", "q5", "r5", "r6", "r8")                           \
    HIL_MVE_ONE_S16(4, "q5", "r9", "r10", "r11")                                                   \
    SCALED(HIL_MVE_SUMS_6) HIL_MVE_HIGH_S16                                                                               \
    HIL_MVE_OUT_S16("q0", "q1", "0") HIL_MVE_OUT_S16("q2", "q3", "16")                             \
    HIL_MVE_OUT_S16("q4", "q5", "32")

#define HIL_MVE_FIVE_LINES_S16(SCALED)                                                                    \
    HIL_MVE_BIAS_S16("q0") HIL_MVE_BIAS_S16("q1") HIL_MVE_BIAS_S16("q2")                           \
    HIL_MVE_BIAS_S16("q3") HIL_MVE_BIAS_S16("q4")                                                  \
    HIL_MVE_ONE_S16(-3, "q0", "r2", "r3", "r4")                                                    \
    HIL_MVE_TWO_S16(-2, "q0", "r5", "r6", "r8", "q1", "r2", "r3", "r4")                            \
    HIL_MVE_THREE_S16(-1, "q0", "q1", "q2")                                                        \
    HIL_MVE_THREE_S16(0, "q1", "q2", "q3")                                                         \
    HIL_MVE_THREE_S16(1, "q2", "q3", "q4")                                                         \
    HIL_MVE_TWO_S16(2, "q3", "r9", "r10", "r11", "q4", "r5", "r6", "r8")                           \
    HIL_MVE_ONE_S16(3, "q4", "r9", "r10", "r11")                                                   \
    SCALED(HIL_MVE_SUMS_5) HIL_MVE_HIGH_S16                                                                               \
    HIL_MVE_OUT_S16("q0", "q1", "0") HIL_MVE_OUT_S16("q2", "q3", "16")                             \
    "vqmovnb.s32 q5, q4\n\t"                                                                       \
    "vqmovnt.s32 q5, q4\n\t"                                                                       \
    HIL_MVE_STORE_S16("q5", "q4", "48")

#define HIL_MVE_FOUR_LINES_S16(SCALED)                                                                    \
    HIL_MVE_BIAS_S16("q0") HIL_MVE_BIAS_S16("q1") HIL_MVE_BIAS_S16("q2") HIL_MVE_BIAS_S16("q3")    \
    HIL_MVE_ONE_S16(-3, "q0", "r2", "r3", "r4")                                                    \
    HIL_MVE_TWO_S16(-2, "q0", "r5", "r6", "r8", "q1", "r2", "r3", "r4")                            \
    HIL_MVE_THREE_S16(-1, "q0", "q1", "q2")                                                        \
    HIL_MVE_THREE_S16(0, "q1", "q2", "q3")                                                         \
    HIL_MVE_TWO_S16(1, "q2", "r9", "r10", "r11", "q3", "r5", "r6", "r8")                           \
    HIL_MVE_ONE_S16(2, "q3", "r9", "r10", "r11")                                                   \
    SCALED(HIL_MVE_SUMS_4) HIL_MVE_HIGH_S16                                                                               \
    HIL_MVE_OUT_S16("q0", "q1", "0") HIL_MVE_OUT_S16("q2", "q3", "16")

#define HIL_MVE_TWO_LINES_S16(SCALED)                                                                     \
    HIL_MVE_BIAS_S16("q0") HIL_MVE_BIAS_S16("q1")                                                  \
    HIL_MVE_ONE_S16(-3, "q0", "r2", "r3", "r4")                                                    \
    HIL_MVE_TWO_S16(-2, "q0", "r5", "r6", "r8", "q1", "r2", "r3", "r4")                            \
    HIL_MVE_TWO_S16(-1, "q0", "r9", "r10", "r11", "q1", "r5", "r6", "r8")                          \
    HIL_MVE_ONE_S16(0, "q1", "r9", "r10", "r11")                                                   \
    SCALED(HIL_MVE_SUMS_2) HIL_MVE_HIGH_S16                                                                               \
    HIL_MVE_OUT_S16("q0", "q1", "0")

/* Tiles next to each other. r7, in which a compiler may keep its frame, is given back. */
#define HIL_MVE_LINES_S16_LOOP(TILE)                                                               \
    __asm__ volatile("push {r7, lr}\n\t"                                                           \
                     "mov r7, r2\n\t"                                                              \
                     "vldrh.u16 q7, [r7, #64]\n\t"                                                 \
                     "ldrsb r2, [r3]\n\t"                                                          \
                     "ldrsb r4, [r3, #2]\n\t"                                                      \
                     "ldrsb r5, [r3, #3]\n\t"                                                      \
                     "ldrsb r6, [r3, #4]\n\t"                                                      \
                     "ldrsb r8, [r3, #5]\n\t"                                                      \
                     "ldrsb r9, [r3, #6]\n\t"                                                      \
                     "ldrsb r10, [r3, #7]\n\t"                                                     \
                     "ldrsb r11, [r3, #8]\n\t"                                                     \
                     "ldrsb r3, [r3, #1]\n\t"                                                      \
                     "dls lr, lr\n\t"                                                              \
                     "1:\n\t" TILE                                                                 \
                     "adds r0, #8\n\t"                                                             \
                     "addw r1, r1, #%c[step]\n\t"                                                  \
                     "le lr, 1b\n\t"                                                               \
                     "pop {r7, lr}\n\t"                                                            \
                     : "+r"(at), "+r"(to), "+r"(places), "+r"(weights), "+r"(turns)                \
                     : "r"(multiplier), [line] "i"(p->line), [step] "i"(8 * step)                  \
                     : "r4", "r5", "r6", "r8", "r9", "r10", "r11", "q0", "q1", "q2", "q3", "q4",   \
                       "q5", "q6", "q7", "cc", "memory")

#define HIL_MVE_LINES_S16_TURNS(LINES)                                                             \
    if (p->shifted) {                                                                              \
        HIL_MVE_LINES_S16_LOOP(LINES(HIL_MVE_SHIFTED_S16));                                        \
    } else {                                                                                       \
        HIL_MVE_LINES_S16_LOOP(LINES(HIL_MVE_PLAIN_S16));                                          \
    }

/* clang-format on */

/* The longest line of which an instruction reaches the first of six lines' inputs and the last. */
#define HIL_MVE_S16_SIX_LINE 31

/* Whether instructions can hold all distances; they are constants, as in a body for one layer. */
HIL_INLINE int hil_mve_lines_s16_fit(const struct hil_mve_depthwise_conv2d_s16_3x3 *p) {
    return __builtin_constant_p(p->line) && __builtin_constant_p(HIL_MVE_LINES_OUT_C(p)) &&
           __builtin_constant_p(p->out_w) && __builtin_constant_p(p->upright) &&
           __builtin_constant_p(p->shifted) && p->stride == 1 && p->line <= 40 &&
           8 * (p->upright ? p->out_w : 1) * HIL_MVE_LINES_OUT_C(p) <= 4095;
}

/* How many tiles of six lines, of five, of four and of two make so many lines in few instructions;
 * the last one of two may have a line of the one before it. */
struct hil_mve_lines_s16_tiles {
    int32_t sixes;
    int32_t fives;
    int32_t fours;
    int32_t twos;
};

HIL_INLINE struct hil_mve_lines_s16_tiles hil_mve_lines_s16_split(int32_t lines, int32_t line) {
    const int32_t most = line <= HIL_MVE_S16_SIX_LINE ? 6 : 5;
    const int32_t whole = lines / most;
    const int32_t left = lines % most;
    /* One line, or three, go with a tile that is a line or two smaller. */
    const int32_t odd = whole > 0 && (left == 1 || left == 3);
    const int32_t large = whole - odd;
    const int32_t rest = lines - large * most;
    const int32_t five = most == 6 && (rest == 5 || rest == 7 || rest == 9);
    const int32_t behind = rest - 5 * five;
    struct hil_mve_lines_s16_tiles tiles = {0, five, behind / 4, (behind % 4 + 1) / 2};
    if (most == 6) {
        tiles.sixes = large;
    } else {
        tiles.fives = large;
    }
    return tiles;
}

/* Four outputs, `vectors` times, of some lines. */
HIL_INLINE void hil_mve_lines_s16_vectors(const struct hil_mve_depthwise_conv2d_s16_3x3 *p,
                                          const struct hil_mve_lines_s16_places *tile,
                                          int32_t lines, int32_t channel, const int16_t *from,
                                          int32_t vectors, int16_t *out) {
    const int32_t step = (p->upright ? p->out_w : 1) * HIL_MVE_LINES_OUT_C(p);
    register const int16_t *at __asm__("r0") = from + 3 * p->line;
    register int16_t *to __asm__("r1") = out;
    register const struct hil_mve_lines_s16_places *places __asm__("r2") = tile;
    register const int8_t *weights __asm__("r3") = p->weights + 9 * channel;
    register int32_t multiplier __asm__("r12") = p->scales[4 * channel + 1];
    register int32_t turns __asm__("lr") = vectors;
    if (lines == 6) {
        HIL_MVE_LINES_S16_TURNS(HIL_MVE_SIX_LINES_S16)
    } else if (lines == 5) {
        HIL_MVE_LINES_S16_TURNS(HIL_MVE_FIVE_LINES_S16)
    } else if (lines == 4) {
        HIL_MVE_LINES_S16_TURNS(HIL_MVE_FOUR_LINES_S16)
    } else {
        HIL_MVE_LINES_S16_TURNS(HIL_MVE_TWO_LINES_S16)
    }
}

/* Some tiles of `lines` lines below each other, from line `first` on: all outputs of them, the last
 * ones of which may be computed twice. */
HIL_INLINE int32_t hil_mve_lines_s16_below(const struct hil_mve_depthwise_conv2d_s16_3x3 *p,
                                           const struct hil_mve_lines_s16 *all,
                                           const struct hil_mve_lines_s16_places *tile,
                                           int32_t lines, int32_t tiles, int32_t first,
                                           int32_t channel, const int16_t *plane, int16_t *out) {
    for (; tiles > 0; tiles--) {
        /* Behind the last but one. */
        const int32_t line = first + lines <= all->lines ? first : all->lines - lines;
        const int32_t last = all->outputs % 4 != 0 ? all->outputs - 4 : 0;
        int32_t vectors = all->outputs / 4;
        for (int32_t x = 0; x <= last; x += last) {
            hil_mve_lines_s16_vectors(p, tile, lines, channel, plane + line * p->line + x, vectors,
                                      out + line * all->line_step + x * all->step);
            if (x == last) {
                break;
            }
            vectors = 1;
        }
        first = line + lines;
    }
    return first;
}

/* All outputs of a channel, of which there are four at least in each of two lines at least. */
HIL_INLINE void hil_mve_lines_s16_all(const struct hil_mve_depthwise_conv2d_s16_3x3 *p,
                                      const struct hil_mve_lines_s16 *all,
                                      struct hil_mve_lines_s16_places *tile, int32_t channel,
                                      const int16_t *plane, int16_t *out) {
    const struct hil_mve_lines_s16_tiles tiles = hil_mve_lines_s16_split(all->lines, p->line);
    vstrwq_s32(tile->bias, vdupq_n_s32(p->scales[4 * channel]));
    vstrwq_s32(tile->shifts, vdupq_n_s32(p->scales[4 * channel + 2]));
    vstrwq_s32(tile->zero_points, vdupq_n_s32(p->scales[4 * channel + 3]));
    int32_t line = 0;
    line = hil_mve_lines_s16_below(p, all, tile, 6, tiles.sixes, line, channel, plane, out);
    line = hil_mve_lines_s16_below(p, all, tile, 5, tiles.fives, line, channel, plane, out);
    line = hil_mve_lines_s16_below(p, all, tile, 4, tiles.fours, line, channel, plane, out);
    hil_mve_lines_s16_below(p, all, tile, 2, tiles.twos, line, channel, plane, out);
}

#endif

/* The outputs of a channel from its plane. */
HIL_INLINE void hil_mve_lines_s16_channel(const struct hil_mve_depthwise_conv2d_s16_3x3 *p,
                                          const struct hil_mve_lines_s16 *all, int32_t channel,
                                          const int16_t *plane, int16_t *out) {
    int32_t w[9];
#pragma GCC unroll 9
    for (int32_t i = 0; i < 9; i++) {
        w[i] = p->weights[9 * channel + i];
    }
    const int32_t *const scales = p->scales + 4 * channel;
    /* Outputs 0 to 3 of both lines in turn. */
    const uint16x8_t index = vshrq_n_u16(vidupq_n_u16(0, 1), 1);
    const uint16x8_t odd = vandq_u16(vidupq_n_u16(0, 1), vdupq_n_u16(1));
    const uint16x8_t places =
        vmlaq_n_u16(vmulq_n_u16(odd, (uint16_t)all->line_step), index, (uint16_t)all->step);
    const uint32x4_t every = vidupq_n_u32(0, 2);
    for (int32_t line = 0; line < all->lines; line += 2) {
        /* The last line of an odd number is by itself: the second has no rank that is stored. */
        const int32_t alone = line + 1 < all->lines ? 0 : 4;
        const uint16x8_t ranks = vmlaq_n_u16(index, odd, (uint16_t)alone);
        const int16_t *const from = plane + line * p->stride * p->line;
        int16_t *const to = out + line * all->line_step;
        for (int32_t x = 0; x < all->outputs; x += 4) {
            const int32_t left = all->outputs - x;
            hil_mve_lines_s16_tile(p, from + x * p->stride, w, scales, every, places, ranks,
                                   left < 4 ? left : 4, to + x * all->step);
        }
    }
}

HIL_INLINE void hil_mve_depthwise_conv2d_s16_3x3(const struct hil_mve_depthwise_conv2d_s16_3x3 *p,
                                                 const int16_t *in, int16_t *out, void *scratch) {
    int16_t *const plane = (int16_t *)scratch;
    const int32_t in_row = p->in_w * p->in_c;
    const int32_t filters = p->depth_multiplier;
    const int32_t out_c = HIL_MVE_LINES_OUT_C(p);
    const int32_t out_row = p->out_w * out_c;
    /* Elements of the image from place to place in a line, and from line to line. */
    const int32_t step = p->upright ? in_row : p->in_c;
    const int32_t line_step = p->upright ? p->in_c : in_row;
    const uint16x8_t places = hil_mve_plane_places(step);
    for (int32_t images = p->batch; images > 0; images--) {
        for (int32_t y = 0; y < p->out_h; y += p->rows) {
            const int32_t rows = p->out_h - y < p->rows ? p->out_h - y : p->rows;
            const int32_t top = y * p->stride - p->pad_top;
            const int32_t first = top < 0 ? 0 : top;
            const int32_t end = top + (rows - 1) * p->stride + 3;
            const int32_t inside = (end < p->in_h ? end : p->in_h) - first;
            const int32_t reached = (p->out_w - 1) * p->stride + 3 - p->pad_left;
            const int32_t columns = reached < p->in_w ? reached : p->in_w;
            /* Of the plane that is inside the image. */
            const int32_t count = p->upright ? inside : columns;
            const int32_t lines = p->upright ? columns : inside;
            const int32_t at = p->upright ? p->pad_left * p->line + first - top
                                          : (first - top) * p->line + p->pad_left;
            const struct hil_mve_lines_s16 all = {
                .outputs = p->upright ? rows : p->out_w,
                .lines = p->upright ? p->out_w : rows,
                .step = p->upright ? out_row : out_c,
                .line_step = p->upright ? out_c : out_row,
            };
            hil_mve_plane_clear(2, p->in_zero_point, p->line * p->lines + 8, plane);
#if defined(__OPTIMIZE__) && !defined(__clang__)
            const int32_t fast = hil_mve_lines_s16_fit(p) && all.outputs >= 4 && all.lines >= 2;
            struct hil_mve_lines_s16_places tile;
            for (int32_t i = 0; i < 8; i++) {
                const int32_t place = i / 2 * all.step + i % 2 * all.line_step;
                tile.pairs[0][i] = (uint16_t)place;
                tile.pairs[1][i] = (uint16_t)(place + 2 * all.line_step);
                tile.pairs[2][i] = (uint16_t)(place + 4 * all.line_step);
                tile.pairs[3][i] = (uint16_t)(i / 2 * all.step + 4 * all.line_step);
                tile.bounds[0][i] = (int16_t)p->out_min;
                tile.bounds[1][i] = (int16_t)p->out_max;
            }
#endif
            for (int32_t channel = 0; channel < p->in_c; channel++) {
                const int16_t *from = in + first * in_row + channel;
                int16_t *to = plane + at;
                for (int32_t line = 0; line < lines; line++) {
                    hil_mve_plane_line(2, from, places, step, count, to);
                    from += line_step;
                    to += p->line;
                }
                for (int32_t filter = channel * filters; filter < (channel + 1) * filters;
                     filter++) {
                    int16_t *const outputs = out + y * out_row + filter;
#if defined(__OPTIMIZE__) && !defined(__clang__)
                    if (fast) {
                        hil_mve_lines_s16_all(p, &all, &tile, filter, plane, outputs);
                        continue;
                    }
#endif
                    hil_mve_lines_s16_channel(p, &all, filter, plane, outputs);
                }
            }
        }
        in += p->in_h * in_row;
        out += p->out_h * out_row;
    }
}

#endif
