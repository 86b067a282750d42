/* Depthwise 3x3 convolution of int8 images, a channel's plane at a time, with requantization by a
 * line: two neighbours in a row are a word of half-words, and so are two taps of a filter's row, so
 * two instructions do three products.
 *
 * Tile: 2 rows x 2 outputs x 1 channel; a row of 2, a column of 2 and a single output at the ends.
 *
 *               pixels of a row:   r2 = p0|p1   r3 = p2|p3          (stride 2: and p4|p5 in r2)
 *               first output       smlad r2, c0|c1      smlabt r3, c2         r4 upper, r6 lower
 *               second output      smlatb r2, c0        smlad r3, c1|c2       r5 upper, r7 lower
 *
 * Registers, at the top of a tile; all fourteen are taken:
 *
 *   r0  pixels             r4 r5   sums of the upper row     r8  r9  r10   c0|c1 of rows 0 1 2
 *   r1  outputs            r6 r7   sums of the lower row     r11 r12 lr    c1|c2 of rows 0 1 2
 *   r2 r3  two words of pixels, then multiplier and addend
 *   stack: +0 where a row ends  +8 where rows end  +12 bias  +16 multiplier, addend  +24 own shift
 *          +28 the caller's r7, in which a compiler may keep its frame
 *
 * Data: packed by `_depthwise_planes()`; per channel
 *
 *   weights  of filters of 3x3, of smaller ones with zeros
 *            12 bytes: of rows 0, 1, 2 the columns 0 1 1 2, int8. As a word, the bytes 0 and 2 are
 *            c0|c1 and the bytes 1 and 3 are c1|c2, both times 256 after a mask.
 *   scales   int32: 256 * bias plus a fraction, 0 to 255, multiplier, addend and, where shift is 0,
 *            the channel's own shift
 *
 *            packed, which takes 14 instructions more a channel:
 *   weights  9 bytes: of rows 0, 1, 2 the columns 0 1 2
 *   scales   int32: 256 * bias + what is added to `addend`, 0 to 255; multiplier
 *   plane    in scratch: int16 [rows][line], the zero point around; the right border of a row is
 *            the left border of the next, `beyond` half-words follow the last
 *
 * Order: of `rows` rows of outputs, `channels` channels at a time, the rows below them are widened,
 * then the outputs of all their filters written, which follow from the input of their channel
 * alone.
 *
 * Bounds: taps * 256 are half-words, -32768 to 32512. Nine products and the bias add up modulo 2^32
 * to 256 * sum, exactly, as |sum| < 2^23 (`_proven()`). An ldrd reaches 1020 bytes and an strb
 * 4095: hil_dsp_plane_fits asks for line <= 160 (3 * 2 * 160 - 4 = 956), 128 with stride 2 (4 * 2 *
 * 128 - 8 = 1016), and the outputs' distances; other layers run in C.
 *
 * Output: that of pairs_s8.h by `affine_of()`; a shift for all channels is part of the ssat, else
 * one instruction more.
 *
 * Scratch: the plane of one channel, or of four; `rows` trades it for instructions.
 *
 * Cost: 42 instructions for a 2x2 tile (36 MACs), 48 with stride 2, beyond 127 channels one more a
 * turn of a row's loop; for the planes 1.8 a pixel, 1.3 of four channels; and 24 a filter.
 * Measured (`hil bench` on mps2-an386, instructions under QEMU), all rows of four channels at once,
 * a MAC: 25x5x64 (kws) 1.47, 12x12x64 1.43, 12x12x8 with eight filters a channel 1.27.
 *
 * Tests: the twin is hil_dsp_plane_output (tests/c/test_dsp_kernels.py, limits:
 * test_sums_at_their_limits); the assembly: tests/board/test_kernels.py. Layout:
 * tests/c/test_kernel_layouts.py.
 */
#ifndef HIL_KERNELS_DSP_DEPTHWISE_CONV2D_S8_PLANE_H
#define HIL_KERNELS_DSP_DEPTHWISE_CONV2D_S8_PLANE_H

#include "hil/dsp.h"
#include "hil/kernels/dsp/clamp_s8.h"
#include "hil/kernels/generic/patch.h"

/*@kernel
name = "hil_dsp_depthwise_conv2d_s8_plane"
requires = ["dsp"]
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "channels * (2 * line * ((rows - 1) * stride + 3) + 2 * beyond)"
order = ["rows rows", "channels channels * depth_multiplier"]
reads = "channel window"
window = {filter_h = "3", filter_w = "3"}
code = 1200
band_code = 1200
[cost]
plane = "batch * in_c * ((out_h + rows - 1) // rows)"
filter = "plane * depth_multiplier"
fours = "(channels > 1) * (in_c // 4 * 4 / in_c)"
plane_pixel = "plane * ((rows - 1) * stride + 3) * columns * (1 - fours)"
fours_pixel = "plane * ((rows - 1) * stride + 3) * columns * fours"
channel = "batch * in_c * depth_multiplier"
dense_channel = "(2 - stride) * channel"
square = "dense_channel * (out_h // 2) * (out_w // 2)"
looped = "square * (out_w // 2 > 3) * (1 + (out_w // 2 % 2 > 0) * (out_w // 2 % 3 > 0))"
last_column = "dense_channel * (out_h // 2) * (out_w % 2)"
last_row = "dense_channel * (out_h % 2) * out_w"
strided_output = "(stride - 1) * channel * out_h * out_w"
own_shift = "(shift == 0) * channel * out_h * out_w"
unpacked = "packed * filter"
clamped = "channel * out_h * out_w * (high - low != 255)"
@*/
struct hil_dsp_depthwise_conv2d_s8_plane {
    HIL_IMAGES_FIELDS;
    int32_t stride;           /* 1 or 2, along both axes */
    int32_t pad_top;          /* rows by which the first window reaches above the image */
    int32_t pad_left;         /* columns by which the first window reaches beyond the image */
    int32_t depth_multiplier; /* filters of a channel of the image */
    int32_t columns;          /* of the image that windows reach, from the first */
    int32_t line;             /* half-words from row to row of the plane, an even number */
    int32_t beyond;           /* half-words after the last row, an even number */
    int32_t rows;             /* of outputs at a time */
    int32_t channels;         /* of the image of which there are planes at a time, 1 or 4 */
    int32_t in_zero_point; /* the input that stands for 0.0, which pixels outside the image have */
    int32_t shift;         /* of all channels, or 0 where each has its own */
    int32_t packed;        /* whether weights and scales are, with a shift of all channels */
    int32_t addend;        /* of all channels, if packed */
    const int8_t *weights; /* of each output channel [3 rows][4]: columns 0, 1, 1, 2 of the
                            * filter; [3][3] */
    const int32_t *scales; /* of each channel: 256 times the bias, multiplier, addend, shift */
    HIL_DSP_RANGE_FIELDS;
};

/* Channels of the outputs, of int8 and of int16. */
#define HIL_DSP_PLANE_OUT_C(p) ((p)->in_c * (p)->depth_multiplier)

/* Channels that are widened together. */
#define HIL_DSP_PLANES 4

/* Times four pixels of a row that are widened without a loop. */
#define HIL_DSP_FEW_FOURS 2

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
hil_dsp_plane_packed_channel(const struct hil_dsp_depthwise_conv2d_s8_plane *p, int32_t channel) {
    const int32_t *const scale = p->scales + 2 * channel;
    const uint32_t first = (uint32_t)scale[0];
    struct hil_dsp_plane_channel c = {
        .taps = {{0}, {0}},
        .bias = (int32_t)(first & ~255U),
        .scale = {.multiplier = scale[1], .addend = p->addend + (int32_t)(first & 255)},
        .shift = p->shift,
    };
#pragma GCC unroll 3
    for (int i = 0; i < 3; i++) {
        /* The last row is the upper part of a word that ends with it. */
        const int32_t before = i == 2 ? 1 : 0;
        const uint32_t bytes =
            hil_dsp_load(p->weights + 9 * channel + 3 * i - before) >> (8 * before);
        const uint32_t outer = (bytes & 0x00ff00ffU) << 8;
        const uint32_t middle = bytes & 0xff00U;
        c.taps.left[i] = hil_dsp_lows(outer, middle);
        c.taps.right[i] = middle | (outer & 0xffff0000U);
    }
    return c;
}

HIL_INLINE struct hil_dsp_plane_channel
hil_dsp_plane_channel(const struct hil_dsp_depthwise_conv2d_s8_plane *p, int32_t channel) {
    if (p->packed) {
        return hil_dsp_plane_packed_channel(p, channel);
    }
    const int32_t *const scale = p->scales + (p->shift == 0 ? 4 : 3) * channel;
    struct hil_dsp_plane_channel c = {
        .taps = {{0}, {0}},
        .bias = scale[0],
        .scale = {.multiplier = scale[1], .addend = scale[2]},
        .shift = p->shift == 0 ? scale[3] : p->shift,
    };
    uint32_t upper = 0xff00ff00U;
#if HIL_DSP_ASSEMBLY
    /* In a register it serves a word that is shifted on the way, too. */
    __asm__("" : "+r"(upper));
#endif
#pragma GCC unroll 3
    for (int i = 0; i < 3; i++) {
        const uint32_t bytes = hil_dsp_load(p->weights + 12 * channel + 4 * i);
        c.taps.left[i] = bytes << 8 & upper;
        c.taps.right[i] = bytes & upper;
    }
    return c;
}

/* Where the first pixels of some rows of outputs are in a plane, and where the outputs go. */
struct hil_dsp_plane_place {
    const int16_t *in;
    int8_t *out;
};

#if HIL_DSP_ASSEMBLY

/* clang-format off */

/* A compiler may keep its frame in r7, so that one is saved here, and what else is needed is on the
 * stack. */
#define HIL_DSP_PLANE_U0 "r8"
#define HIL_DSP_PLANE_U1 "r9"
#define HIL_DSP_PLANE_U2 "r10"
#define HIL_DSP_PLANE_L0 "r11"
#define HIL_DSP_PLANE_L1 "r12"
#define HIL_DSP_PLANE_L2 "lr"
#define HIL_DSP_PLANE_ROW_END "[sp]"
#define HIL_DSP_PLANE_END "[sp, #8]"
#define HIL_DSP_PLANE_BIAS "[sp, #12]"
#define HIL_DSP_PLANE_SCALE "[sp, #16]"
#define HIL_DSP_PLANE_SHIFT "[sp, #24]"

/* Two words of a row of pixels, and the word after these; of the first row, with a step to the next
 * outputs, which the others take back. */
#define HIL_DSP_PLANE_LOAD_FIRST(step) "ldrd r2, r3, [r0], #" step "\n\t"
#define HIL_DSP_PLANE_LOAD(row, step)                                                              \
    "ldrd r2, r3, [r0, #" #row " * %c[line_1] - (" step ")]\n\t"
#define HIL_DSP_PLANE_LOAD_THIRD(to, row, step)                                                    \
    "ldr " to ", [r0, #" #row " * %c[line_1] + 8 - (" step ")]\n\t"

/* A row of the filter for two outputs next to each other, from four pixels, with stride 1. */
#define HIL_DSP_PLANE_TAPS(first, second, row, old_first, old_second)                              \
    "smlad " first ", r2, " HIL_DSP_PLANE_U##row ", " old_first "\n\t"                             \
    "smlatb " second ", r2, " HIL_DSP_PLANE_U##row ", " old_second "\n\t"                          \
    "smlabt " first ", r3, " HIL_DSP_PLANE_L##row ", " first "\n\t"                                \
    "smlad " second ", r3, " HIL_DSP_PLANE_L##row ", " second "\n\t"

/* The same with stride 2, from six pixels, the last two of which are in `third`: all that needs the
 * first four, and what needs the others. */
#define HIL_DSP_PLANE_TAPS_2(first, second, row, old_first, old_second)                            \
    "smlad " first ", r2, " HIL_DSP_PLANE_U##row ", " old_first "\n\t"                             \
    "smlad " second ", r3, " HIL_DSP_PLANE_U##row ", " old_second "\n\t"                           \
    "smlabt " first ", r3, " HIL_DSP_PLANE_L##row ", " first "\n\t"
#define HIL_DSP_PLANE_LAST_2(second, row, third)                                                   \
    "smlabt " second ", " third ", " HIL_DSP_PLANE_L##row ", " second "\n\t"

/* A row of the filter for a single output. */
#define HIL_DSP_PLANE_TAP(sum, row, old)                                                           \
    "smlad " sum ", r2, " HIL_DSP_PLANE_U##row ", " old "\n\t"                                     \
    "smlabt " sum ", r3, " HIL_DSP_PLANE_L##row ", " sum "\n\t"

#define HIL_DSP_PLANE_SCALED(sum) "smmla " sum ", " sum ", r2, r3\n\t"

/* To the right by the layer's shift, or by the channel's own, which `own` loads. */
#define HIL_DSP_PLANE_NARROWED(sum) "ssat " sum ", #8, " sum ", asr #%c[shift]\n\t"
#define HIL_DSP_PLANE_NARROWED_BY(sum)                                                             \
    "asr " sum ", " sum ", r2\n\t"                                                                 \
    "ssat " sum ", #8, " sum "\n\t"
#define HIL_DSP_PLANE_OWN "ldr r2, " HIL_DSP_PLANE_SHIFT "\n\t"

/* Where an output goes: a distance from those of the block, before which there are AT blocks whose
 * stores could not move r1 on. */
#define HIL_DSP_PLANE_TO(distance, AT) "[r1, #" distance " + %c[skip] * " AT "]\n\t"

/* The first of two outputs, and on to the next two where a store can. */
#define HIL_DSP_PLANE_ON(STORE, AT)                                                                \
    ".if %c[skip]\n\t"                                                                             \
    STORE " r4, " HIL_DSP_PLANE_TO("0", AT)                                                        \
    ".else\n\t"                                                                                    \
    STORE " r4, [r1], #2 * %c[pixel]\n\t"                                                          \
    ".endif\n\t"

/* Outputs from sums: of two rows by two, of two rows, of a row by two, of one. */
#define HIL_DSP_PLANE_FOUR(OWN, NARROWED, SCALED, STORE, AT)                                       \
    "ldrd r2, r3, " HIL_DSP_PLANE_SCALE "\n\t"                                                     \
    SCALED("r4") SCALED("r5")                                                                      \
    SCALED("r6") SCALED("r7")                                                                      \
    OWN NARROWED("r4") NARROWED("r5") NARROWED("r6") NARROWED("r7")                                \
    STORE " r5, " HIL_DSP_PLANE_TO("%c[pixel]", AT)                                                \
    STORE " r6, " HIL_DSP_PLANE_TO("%c[row]", AT)                                                  \
    STORE " r7, " HIL_DSP_PLANE_TO("%c[row] + %c[pixel]", AT)                                      \
    HIL_DSP_PLANE_ON(STORE, AT)

#define HIL_DSP_PLANE_TWO_ROWS(OWN, NARROWED, SCALED, STORE, AT)                                   \
    "ldrd r2, r3, " HIL_DSP_PLANE_SCALE "\n\t"                                                     \
    SCALED("r4") SCALED("r6")                                                                      \
    OWN NARROWED("r4") NARROWED("r6")                                                              \
    STORE " r4, " HIL_DSP_PLANE_TO("0", AT)                                                        \
    STORE " r6, " HIL_DSP_PLANE_TO("%c[row]", AT)

#define HIL_DSP_PLANE_TWO(OWN, NARROWED, SCALED, STORE, AT)                                        \
    "ldrd r2, r3, " HIL_DSP_PLANE_SCALE "\n\t"                                                     \
    SCALED("r4") SCALED("r5")                                                                      \
    OWN NARROWED("r4") NARROWED("r5")                                                              \
    STORE " r5, " HIL_DSP_PLANE_TO("%c[pixel]", AT)                                                \
    HIL_DSP_PLANE_ON(STORE, AT)

#define HIL_DSP_PLANE_ONE(OWN, NARROWED, SCALED, STORE, AT)                                        \
    "ldrd r2, r3, " HIL_DSP_PLANE_SCALE "\n\t"                                                     \
    SCALED("r4")                                                                                   \
    OWN NARROWED("r4")                                                                             \
    STORE " r4, " HIL_DSP_PLANE_TO("0", AT)

/* Two rows of two outputs, stride 1: 42 instructions for 36 products, or 43. */
#define HIL_DSP_PLANE_SQUARE(OWN, NARROWED, SCALED, STORE, AT, STEP)                               \
    "ldr r7, " HIL_DSP_PLANE_BIAS "\n\t"                                                           \
    HIL_DSP_PLANE_LOAD_FIRST("4 + " STEP)                                                          \
    HIL_DSP_PLANE_TAPS("r4", "r5", 0, "r7", "r7")                                                  \
    HIL_DSP_PLANE_LOAD(1, "4 + " STEP)                                                             \
    HIL_DSP_PLANE_TAPS("r6", "r7", 0, "r7", "r7")                                                  \
    HIL_DSP_PLANE_TAPS("r4", "r5", 1, "r4", "r5")                                                  \
    HIL_DSP_PLANE_LOAD(2, "4 + " STEP)                                                             \
    HIL_DSP_PLANE_TAPS("r6", "r7", 1, "r6", "r7")                                                  \
    HIL_DSP_PLANE_TAPS("r4", "r5", 2, "r4", "r5")                                                  \
    HIL_DSP_PLANE_LOAD(3, "4 + " STEP)                                                             \
    HIL_DSP_PLANE_TAPS("r6", "r7", 2, "r6", "r7")                                                  \
    HIL_DSP_PLANE_FOUR(OWN, NARROWED, SCALED, STORE, AT)

/* The same with stride 2: 48 instructions, or 49. */
#define HIL_DSP_PLANE_SQUARE_2(OWN, NARROWED, SCALED, STORE, AT, STEP)                             \
    "ldr r7, " HIL_DSP_PLANE_BIAS "\n\t"                                                           \
    HIL_DSP_PLANE_LOAD_FIRST("8 + " STEP)                                                          \
    HIL_DSP_PLANE_TAPS_2("r4", "r5", 0, "r7", "r7")                                                \
    HIL_DSP_PLANE_LOAD_THIRD("r2", 0, "8 + " STEP)                                                 \
    HIL_DSP_PLANE_LAST_2("r5", 0, "r2")                                                            \
    HIL_DSP_PLANE_LOAD(1, "8 + " STEP)                                                             \
    HIL_DSP_PLANE_TAPS_2("r4", "r5", 1, "r4", "r5")                                                \
    HIL_DSP_PLANE_LOAD_THIRD("r2", 1, "8 + " STEP)                                                 \
    HIL_DSP_PLANE_LAST_2("r5", 1, "r2")                                                            \
    HIL_DSP_PLANE_LOAD(2, "8 + " STEP)                                                             \
    HIL_DSP_PLANE_TAPS_2("r6", "r7", 0, "r7", "r7")                                                \
    HIL_DSP_PLANE_TAPS_2("r4", "r5", 2, "r4", "r5")                                                \
    HIL_DSP_PLANE_LOAD_THIRD("r2", 2, "8 + " STEP)                                                 \
    HIL_DSP_PLANE_LAST_2("r7", 0, "r2") HIL_DSP_PLANE_LAST_2("r5", 2, "r2")                        \
    HIL_DSP_PLANE_LOAD(3, "8 + " STEP)                                                             \
    HIL_DSP_PLANE_TAPS_2("r6", "r7", 1, "r6", "r7")                                                \
    HIL_DSP_PLANE_LOAD_THIRD("r2", 3, "8 + " STEP)                                                 \
    HIL_DSP_PLANE_LAST_2("r7", 1, "r2")                                                            \
    HIL_DSP_PLANE_LOAD(4, "8 + " STEP)                                                             \
    HIL_DSP_PLANE_TAPS_2("r6", "r7", 2, "r6", "r7")                                                \
    HIL_DSP_PLANE_LOAD_THIRD("r2", 4, "8 + " STEP)                                                 \
    HIL_DSP_PLANE_LAST_2("r7", 2, "r2")                                                            \
    HIL_DSP_PLANE_FOUR(OWN, NARROWED, SCALED, STORE, AT)

/* The last output of a row: two words of its first row, and on to the next rows; of its others. */
#define HIL_DSP_PLANE_LOAD_LAST HIL_DSP_PLANE_LOAD_FIRST("%c[rest]")
#define HIL_DSP_PLANE_LOAD_BELOW(row) HIL_DSP_PLANE_LOAD(row, "%c[rest]")

/* Two rows of one output: 24 instructions for 18 products, 25 with stride 2. */
#define HIL_DSP_PLANE_COLUMN(OWN, NARROWED, SCALED, STORE, AT, STEP)                               \
    "ldr r6, " HIL_DSP_PLANE_BIAS "\n\t"                                                           \
    HIL_DSP_PLANE_LOAD_LAST                                                                        \
    HIL_DSP_PLANE_TAP("r4", 0, "r6")                                                               \
    HIL_DSP_PLANE_LOAD_BELOW(1)                                                                    \
    HIL_DSP_PLANE_TAP("r6", 0, "r6") HIL_DSP_PLANE_TAP("r4", 1, "r4")                              \
    HIL_DSP_PLANE_LOAD_BELOW(2)                                                                    \
    HIL_DSP_PLANE_TAP("r6", 1, "r6") HIL_DSP_PLANE_TAP("r4", 2, "r4")                              \
    HIL_DSP_PLANE_LOAD_BELOW(3)                                                                    \
    HIL_DSP_PLANE_TAP("r6", 2, "r6")                                                               \
    HIL_DSP_PLANE_TWO_ROWS(OWN, NARROWED, SCALED, STORE, AT)

#define HIL_DSP_PLANE_COLUMN_2(OWN, NARROWED, SCALED, STORE, AT, STEP)                             \
    "ldr r6, " HIL_DSP_PLANE_BIAS "\n\t"                                                           \
    HIL_DSP_PLANE_LOAD_LAST                                                                        \
    HIL_DSP_PLANE_TAP("r4", 0, "r6")                                                               \
    HIL_DSP_PLANE_LOAD_BELOW(1)                                                                    \
    HIL_DSP_PLANE_TAP("r4", 1, "r4")                                                               \
    HIL_DSP_PLANE_LOAD_BELOW(2)                                                                    \
    HIL_DSP_PLANE_TAP("r6", 0, "r6") HIL_DSP_PLANE_TAP("r4", 2, "r4")                              \
    HIL_DSP_PLANE_LOAD_BELOW(3)                                                                    \
    HIL_DSP_PLANE_TAP("r6", 1, "r6")                                                               \
    HIL_DSP_PLANE_LOAD_BELOW(4)                                                                    \
    HIL_DSP_PLANE_TAP("r6", 2, "r6")                                                               \
    HIL_DSP_PLANE_TWO_ROWS(OWN, NARROWED, SCALED, STORE, AT)

/* A row of two outputs: 24 instructions for 18 products with stride 1, 27 with stride 2. */
#define HIL_DSP_PLANE_PAIR(OWN, NARROWED, SCALED, STORE, AT, STEP)                                 \
    "ldr r5, " HIL_DSP_PLANE_BIAS "\n\t"                                                           \
    HIL_DSP_PLANE_LOAD_FIRST("4 + " STEP)                                                          \
    HIL_DSP_PLANE_TAPS("r4", "r5", 0, "r5", "r5")                                                  \
    HIL_DSP_PLANE_LOAD(1, "4 + " STEP)                                                             \
    HIL_DSP_PLANE_TAPS("r4", "r5", 1, "r4", "r5")                                                  \
    HIL_DSP_PLANE_LOAD(2, "4 + " STEP)                                                             \
    HIL_DSP_PLANE_TAPS("r4", "r5", 2, "r4", "r5")                                                  \
    HIL_DSP_PLANE_TWO(OWN, NARROWED, SCALED, STORE, AT)

#define HIL_DSP_PLANE_PAIR_2(OWN, NARROWED, SCALED, STORE, AT, STEP)                               \
    "ldr r5, " HIL_DSP_PLANE_BIAS "\n\t"                                                           \
    "ldr r6, [r0, #8]\n\t"                                                                         \
    HIL_DSP_PLANE_LOAD_FIRST("8 + " STEP)                                                          \
    HIL_DSP_PLANE_TAPS_2("r4", "r5", 0, "r5", "r5") HIL_DSP_PLANE_LAST_2("r5", 0, "r6")            \
    HIL_DSP_PLANE_LOAD_THIRD("r6", 1, "8 + " STEP)                                                 \
    HIL_DSP_PLANE_LOAD(1, "8 + " STEP)                                                             \
    HIL_DSP_PLANE_TAPS_2("r4", "r5", 1, "r4", "r5") HIL_DSP_PLANE_LAST_2("r5", 1, "r6")            \
    HIL_DSP_PLANE_LOAD_THIRD("r6", 2, "8 + " STEP)                                                 \
    HIL_DSP_PLANE_LOAD(2, "8 + " STEP)                                                             \
    HIL_DSP_PLANE_TAPS_2("r4", "r5", 2, "r4", "r5") HIL_DSP_PLANE_LAST_2("r5", 2, "r6")            \
    HIL_DSP_PLANE_TWO(OWN, NARROWED, SCALED, STORE, AT)

/* One output: 14 instructions for 9 products. */
#define HIL_DSP_PLANE_SINGLE(OWN, NARROWED, SCALED, STORE, AT, STEP)                               \
    "ldr r4, " HIL_DSP_PLANE_BIAS "\n\t"                                                           \
    HIL_DSP_PLANE_LOAD_LAST                                                                        \
    HIL_DSP_PLANE_TAP("r4", 0, "r4")                                                               \
    HIL_DSP_PLANE_LOAD_BELOW(1)                                                                    \
    HIL_DSP_PLANE_TAP("r4", 1, "r4")                                                               \
    HIL_DSP_PLANE_LOAD_BELOW(2)                                                                    \
    HIL_DSP_PLANE_TAP("r4", 2, "r4")                                                               \
    HIL_DSP_PLANE_ONE(OWN, NARROWED, SCALED, STORE, AT)

/* None; only on to the next rows, if the last block did not step there. */
#define HIL_DSP_PLANE_NOTHING(OWN, NARROWED, SCALED, STORE, AT, STEP)                              \
    ".if %c[ahead] == 0\n\t"                                                                       \
    "add r0, r0, #%c[rest]\n\t"                                                                    \
    ".endif\n\t"

/* Rows of a few blocks, one after the other, or of a loop over one, two or three; then what is last
 * in a row. */
#define HIL_DSP_PLANE_X0(BLOCK, LAST, ...) LAST(__VA_ARGS__, "0", "0")
#define HIL_DSP_PLANE_X1(BLOCK, LAST, ...)                                                         \
    BLOCK(__VA_ARGS__, "0", "%c[ahead]") LAST(__VA_ARGS__, "1", "0")
#define HIL_DSP_PLANE_X2(BLOCK, LAST, ...)                                                         \
    BLOCK(__VA_ARGS__, "0", "0")                                                                   \
    BLOCK(__VA_ARGS__, "1", "%c[ahead]") LAST(__VA_ARGS__, "2", "0")
#define HIL_DSP_PLANE_X3(BLOCK, LAST, ...)                                                         \
    BLOCK(__VA_ARGS__, "0", "0") BLOCK(__VA_ARGS__, "1", "0")                                      \
    BLOCK(__VA_ARGS__, "2", "%c[ahead]") LAST(__VA_ARGS__, "3", "0")
#define HIL_DSP_PLANE_UNTIL(TIMES, BLOCKS)                                                         \
    "add r2, r0, #%c[span]\n\t"                                                                    \
    "str r2, " HIL_DSP_PLANE_ROW_END "\n\t"                                                        \
    "1:\n\t" BLOCKS                                                                                \
    "ldr r2, " HIL_DSP_PLANE_ROW_END "\n\t"                                                        \
    ".if %c[skip]\n\t"                                                                             \
    "add r1, r1, #%c[skip] * " #TIMES "\n\t"                                                       \
    ".endif\n\t"                                                                                   \
    "cmp r0, r2\n\t"                                                                               \
    "bne 1b\n\t"
#define HIL_DSP_PLANE_XN(BLOCK, LAST, ...)                                                         \
    HIL_DSP_PLANE_UNTIL(1, BLOCK(__VA_ARGS__, "0", "0")) LAST(__VA_ARGS__, "0", "0")
#define HIL_DSP_PLANE_X2N(BLOCK, LAST, ...)                                                        \
    HIL_DSP_PLANE_UNTIL(2, BLOCK(__VA_ARGS__, "0", "0") BLOCK(__VA_ARGS__, "1", "0"))              \
    LAST(__VA_ARGS__, "0", "0")
#define HIL_DSP_PLANE_X3N(BLOCK, LAST, ...)                                                        \
    HIL_DSP_PLANE_UNTIL(3, BLOCK(__VA_ARGS__, "0", "0") BLOCK(__VA_ARGS__, "1", "0")               \
                           BLOCK(__VA_ARGS__, "2", "0"))                                           \
    LAST(__VA_ARGS__, "0", "0")

/* Rows until `in` is where `end` says. What is pushed is where the names above have it. Afterwards
 * `from` and `to` are at the rows that follow. */
#define HIL_DSP_PLANE_ROWS(TIMES, ...)                                                             \
    __asm__ volatile(                                                                              \
        "push {r0, r1, r2, r3, r4, r5, r6, r7}\n\t"                                                \
        "2:\n\t" TIMES(__VA_ARGS__)                                                                \
        "ldr r2, " HIL_DSP_PLANE_END "\n\t"                                                        \
        "add r1, r1, #%c[next_row]\n\t"                                                            \
        "cmp r0, r2\n\t"                                                                           \
        "bne 2b\n\t"                                                                               \
        "ldr r7, [sp, #28]\n\t"                                                                    \
        "add sp, sp, #32\n\t"                                                                      \
        : "+r"(from), "+r"(to), "+r"(end), "+r"(bias), "+r"(multiplier), "+r"(addend), "+r"(own)   \
        : "r"(u0), "r"(u1), "r"(u2), "r"(l0), "r"(l1), "r"(l2), [shift] "i"(shift),                \
          [line_1] "i"(2 * p->line), [pixel] "i"(bytes * HIL_DSP_PLANE_OUT_C(p)),                  \
          [row] "i"(bytes * p->out_w * HIL_DSP_PLANE_OUT_C(p)),                                    \
          [span] "i"(4 * p->stride * (p->out_w / 2)),                                              \
          [rest] "i"(2 * lines * p->line - 4 * p->stride * (p->out_w / 2)),                        \
          /* A row without a loop and a last output is stepped over by its last block. */          \
          [ahead] "i"(p->out_w <= 7 && p->out_w % 2 == 0                                           \
                          ? 2 * lines * p->line - 4 * p->stride * (p->out_w / 2) : 0),             \
          /* What stores cannot add, r1 gets at the end of a turn, or of a row without a loop. */  \
          [skip] "i"(2 * bytes * HIL_DSP_PLANE_OUT_C(p) > 255                                      \
                         ? 2 * bytes * HIL_DSP_PLANE_OUT_C(p) : 0),                                \
          [next_row] "i"(bytes * HIL_DSP_PLANE_OUT_C(p) *                                          \
                         (p->out_w * rows -                                                        \
                          (2 * bytes * HIL_DSP_PLANE_OUT_C(p) > 255 && p->out_w <= 7               \
                               ? 0 : p->out_w & ~1)))                                              \
        : "cc", "memory")

#define HIL_DSP_PLANE_WIDTHS(BLOCK, LAST, OWN, NARROWED, SCALED, STORE)                            \
    if (p->out_w / 2 == 0) {                                                                       \
        HIL_DSP_PLANE_ROWS(HIL_DSP_PLANE_X0, BLOCK, LAST, OWN, NARROWED, SCALED, STORE);           \
    } else if (p->out_w / 2 == 1) {                                                                \
        HIL_DSP_PLANE_ROWS(HIL_DSP_PLANE_X1, BLOCK, LAST, OWN, NARROWED, SCALED, STORE);           \
    } else if (p->out_w / 2 == 2) {                                                                \
        HIL_DSP_PLANE_ROWS(HIL_DSP_PLANE_X2, BLOCK, LAST, OWN, NARROWED, SCALED, STORE);           \
    } else if (p->out_w / 2 == 3) {                                                                \
        HIL_DSP_PLANE_ROWS(HIL_DSP_PLANE_X3, BLOCK, LAST, OWN, NARROWED, SCALED, STORE);           \
    } else if (p->out_w / 2 % 3 == 0) {                                                            \
        HIL_DSP_PLANE_ROWS(HIL_DSP_PLANE_X3N, BLOCK, LAST, OWN, NARROWED, SCALED, STORE);          \
    } else if (p->out_w / 2 % 2 == 0) {                                                            \
        HIL_DSP_PLANE_ROWS(HIL_DSP_PLANE_X2N, BLOCK, LAST, OWN, NARROWED, SCALED, STORE);          \
    } else {                                                                                       \
        HIL_DSP_PLANE_ROWS(HIL_DSP_PLANE_XN, BLOCK, LAST, OWN, NARROWED, SCALED, STORE);           \
    }

#define HIL_DSP_PLANE_SHIFTS(BLOCK, LAST)                                                          \
    if (p->shift == 0) {                                                                           \
        HIL_DSP_PLANE_WIDTHS(BLOCK, LAST, HIL_DSP_PLANE_OWN, HIL_DSP_PLANE_NARROWED_BY,            \
                             HIL_DSP_PLANE_SCALED, "strb")                                         \
    } else {                                                                                       \
        HIL_DSP_PLANE_WIDTHS(BLOCK, LAST, "", HIL_DSP_PLANE_NARROWED, HIL_DSP_PLANE_SCALED, "strb") \
    }

/* The last output of a row of an odd number is by itself. */
#define HIL_DSP_PLANE_LASTS(BLOCK, LAST)                                                           \
    if (p->out_w % 2 == 0) {                                                                       \
        HIL_DSP_PLANE_SHIFTS(BLOCK, HIL_DSP_PLANE_NOTHING)                                         \
    } else {                                                                                       \
        HIL_DSP_PLANE_SHIFTS(BLOCK, LAST)                                                          \
    }

/* clang-format on */

/* Whether instructions can hold all distances: they are constants, as in a body that was
 * specialised for a layer, and not too large. */
HIL_INLINE int hil_dsp_plane_fits(const struct hil_dsp_depthwise_conv2d_s8_plane *p) {
    return __builtin_constant_p(p->line) && __builtin_constant_p(HIL_DSP_PLANE_OUT_C(p)) &&
           __builtin_constant_p(p->out_w) && __builtin_constant_p(p->shift) &&
           __builtin_constant_p(p->stride) && p->line <= (p->stride == 2 ? 128 : 160) &&
           2 * (p->out_w + 1) * HIL_DSP_PLANE_OUT_C(p) <= 4095;
}

/* `turns` times `rows` rows of outputs, 1 or 2. */
HIL_INLINE void hil_dsp_plane_turns(const struct hil_dsp_depthwise_conv2d_s8_plane *p,
                                    const struct hil_dsp_plane_channel *c, int32_t rows,
                                    int32_t turns, struct hil_dsp_plane_place *at) {
    const int32_t lines = p->stride * rows;
    const int32_t bytes = sizeof *at->out;
    const int32_t shift = p->shift;
    register const int16_t *from __asm__("r0") = at->in;
    register int8_t *to __asm__("r1") = at->out;
    register const int16_t *end __asm__("r2") = at->in + turns * lines * p->line;
    register int32_t bias __asm__("r3") = c->bias;
    register int32_t multiplier __asm__("r4") = c->scale.multiplier;
    register int32_t addend __asm__("r5") = c->scale.addend;
    register int32_t own __asm__("r6");
    if (shift == 0) {
        own = c->shift;
    } else {
        /* Whatever it holds. */
        __asm__("" : "=r"(own));
    }
    register uint32_t u0 __asm__("r8") = c->taps.left[0];
    register uint32_t u1 __asm__("r9") = c->taps.left[1];
    register uint32_t u2 __asm__("r10") = c->taps.left[2];
    register uint32_t l0 __asm__("r11") = c->taps.right[0];
    register uint32_t l1 __asm__("r12") = c->taps.right[1];
    register uint32_t l2 __asm__("lr") = c->taps.right[2];
    if (p->stride == 2 && rows == 1) {
        HIL_DSP_PLANE_LASTS(HIL_DSP_PLANE_PAIR_2, HIL_DSP_PLANE_SINGLE)
    } else if (p->stride == 2) {
        HIL_DSP_PLANE_LASTS(HIL_DSP_PLANE_SQUARE_2, HIL_DSP_PLANE_COLUMN_2)
    } else if (rows == 1) {
        HIL_DSP_PLANE_LASTS(HIL_DSP_PLANE_PAIR, HIL_DSP_PLANE_SINGLE)
    } else {
        HIL_DSP_PLANE_LASTS(HIL_DSP_PLANE_SQUARE, HIL_DSP_PLANE_COLUMN)
    }
    at->in = from;
    at->out = to;
}

#endif

/* One output. */
HIL_INLINE void hil_dsp_plane_output(const struct hil_dsp_depthwise_conv2d_s8_plane *p,
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

/* `rows` rows of outputs of a channel from its plane; goes on to the rows behind them. */
HIL_INLINE void hil_dsp_plane_outputs(const struct hil_dsp_depthwise_conv2d_s8_plane *p,
                                      int32_t channel, int32_t rows,
                                      struct hil_dsp_plane_place *at) {
    const struct hil_dsp_plane_channel c = hil_dsp_plane_channel(p, channel);
#if HIL_DSP_ASSEMBLY
    if (hil_dsp_plane_fits(p)) {
        /* With stride 2 one row at a time is nearly as good as two. */
        const int32_t turns = p->stride == 2 && rows % 2 != 0 && rows < 10 ? 0 : rows / 2;
        if (turns > 0) {
            hil_dsp_plane_turns(p, &c, 2, turns, at);
        }
        if (rows > 2 * turns) {
            hil_dsp_plane_turns(p, &c, 1, rows - 2 * turns, at);
        }
        return;
    }
#endif
    const int32_t out_c = HIL_DSP_PLANE_OUT_C(p);
    for (; rows > 0; rows--) {
        for (int32_t x = 0; x < p->out_w; x++) {
            hil_dsp_plane_output(p, &c, at->in + x * p->stride, at->out + x * out_c);
        }
        at->in += p->stride * p->line;
        at->out += p->out_w * out_c;
    }
}

/* Makes `size` half-words, an even number, of one value. */
HIL_INLINE void hil_dsp_plane_clear(int32_t value, int32_t size, int16_t *to) {
    const uint32_t pair = hil_dsp_pair(value, value);
    for (; size >= 16; size -= 16) {
#pragma GCC unroll 8
        for (int32_t i = 0; i < 16; i += 2) {
            memcpy(to + i, &pair, sizeof pair);
        }
        to += 16;
    }
    for (; size > 0; size -= 2) {
        memcpy(to, &pair, sizeof pair);
        to += 2;
    }
}

/* Widens a channel of up to sixteen pixels of a row, to where words are aligned. */
HIL_INLINE void hil_dsp_plane_widen(const int8_t *in, int32_t step, int32_t count, int16_t *to) {
    const int32_t fours = count & ~3;
#pragma GCC unroll 4
    for (int32_t x = 0; x < fours; x += 4) {
        const int8_t *const from = in + x * step;
        const uint32_t first = hil_dsp_lows((uint32_t)from[0], (uint32_t)from[step]);
        const uint32_t second = hil_dsp_lows((uint32_t)from[2 * step], (uint32_t)from[3 * step]);
        hil_dsp_store_two(first, second, to + x);
    }
#pragma GCC unroll 3
    for (int32_t x = fours; x < count; x++) {
        to[x] = in[x * step];
    }
}

/* Half-words of a plane. */
HIL_INLINE int32_t hil_dsp_plane_size(const struct hil_dsp_depthwise_conv2d_s8_plane *p) {
    return p->line * ((p->rows - 1) * p->stride + 3) + p->beyond;
}

/* Puts the zero point around the pixels of a plane: `above` lines, what is left of those of
 * `inside` rows, and all that follows. */
HIL_INLINE void hil_dsp_plane_frame(const struct hil_dsp_depthwise_conv2d_s8_plane *p,
                                    int32_t above, int32_t inside, int16_t *to) {
    const int32_t lines = inside > 0 ? inside : 0;
    const int32_t below = hil_dsp_plane_size(p) - (above + lines) * p->line;
    hil_dsp_plane_clear(p->in_zero_point, above * p->line, to);
    to += above * p->line;
    for (int32_t left = lines; left > 0; left--) {
        for (int32_t x = 0; x < p->pad_left; x++) {
            to[x] = (int16_t)p->in_zero_point;
        }
        for (int32_t x = p->pad_left + p->columns; x < p->line; x++) {
            to[x] = (int16_t)p->in_zero_point;
        }
        to += p->line;
    }
    hil_dsp_plane_clear(p->in_zero_point, below, to);
}

/* Four pixels of four channels, widened: two words of each channel. */
struct hil_dsp_plane_words {
    uint32_t of[HIL_DSP_PLANES][2];
};

HIL_INLINE struct hil_dsp_plane_words hil_dsp_plane_widen_four(const int8_t *in, int32_t step) {
    const uint32_t a = hil_dsp_load(in);
    const uint32_t b = hil_dsp_load(in + step);
    const uint32_t c = hil_dsp_load(in + 2 * step);
    const uint32_t d = hil_dsp_load(in + 3 * step);
    /* Bytes 0 and 2 are of one channel, 1 and 3 of the next. */
    const uint32_t ab = hil_dsp_lows(a, b);
    const uint32_t cd = hil_dsp_lows(c, d);
    const uint32_t upper_ab = hil_dsp_highs(a, b);
    const uint32_t upper_cd = hil_dsp_highs(c, d);
    const struct hil_dsp_plane_words words = {
        .of = {{hil_dsp_even(ab), hil_dsp_even(cd)},
               {hil_dsp_odd(ab), hil_dsp_odd(cd)},
               {hil_dsp_even(upper_ab), hil_dsp_even(upper_cd)},
               {hil_dsp_odd(upper_ab), hil_dsp_odd(upper_cd)}},
    };
    return words;
}

/* Where the next pixels of four channels go, each in its plane. */
struct hil_dsp_plane_places {
    uint32_t *to[HIL_DSP_PLANES];
};

HIL_INLINE void hil_dsp_plane_store_next(struct hil_dsp_plane_words words,
                                         struct hil_dsp_plane_places *at) {
#pragma GCC unroll 4
    for (int i = 0; i < HIL_DSP_PLANES; i++) {
        at->to[i] = hil_dsp_store_next(words.of[i][0], words.of[i][1], at->to[i]);
    }
}

/* Widens four channels of so many times four pixels of a row, to where words are aligned. */
HIL_INLINE void hil_dsp_plane_widen_fours(const int8_t *in, int32_t step, int32_t fours,
                                          int32_t plane, int16_t *to) {
    if (fours <= HIL_DSP_FEW_FOURS) {
        /* Distances are part of the stores. */
#pragma GCC unroll 3
        for (int32_t x = 0; x < fours; x++) {
            const struct hil_dsp_plane_words words =
                hil_dsp_plane_widen_four(in + 4 * x * step, step);
#pragma GCC unroll 4
            for (int i = 0; i < HIL_DSP_PLANES; i++) {
                hil_dsp_store_two(words.of[i][0], words.of[i][1], to + i * plane + 4 * x);
            }
        }
        return;
    }
    struct hil_dsp_plane_places at;
#pragma GCC unroll 4
    for (int i = 0; i < HIL_DSP_PLANES; i++) {
        void *const words = to + i * plane;
        at.to[i] = (uint32_t *)words;
    }
    for (int32_t left = fours / 2; left > 0; left--) {
        hil_dsp_plane_store_next(hil_dsp_plane_widen_four(in, step), &at);
        hil_dsp_plane_store_next(hil_dsp_plane_widen_four(in + 4 * step, step), &at);
        in += 8 * step;
    }
    if (fours % 2 != 0) {
        hil_dsp_plane_store_next(hil_dsp_plane_widen_four(in, step), &at);
    }
}

/* Widens four channels of `rows` rows of an image to where they belong in their planes. */
HIL_INLINE void hil_dsp_plane_fill_four(const struct hil_dsp_depthwise_conv2d_s8_plane *p,
                                        const int8_t *in, int32_t rows, int16_t *to) {
    const int32_t plane = hil_dsp_plane_size(p);
    /* A pixel before the first whole word. */
    const int32_t lead = p->pad_left % 2 != 0 && p->columns > 0;
    const int32_t fours = (p->columns - lead) / 4;
    for (; rows > 0; rows--) {
#pragma GCC unroll 4
        for (int i = 0; i < HIL_DSP_PLANES * lead; i++) {
            to[i * plane] = in[i];
        }
        hil_dsp_plane_widen_fours(in + lead * p->in_c, p->in_c, fours, plane, to + lead);
#pragma GCC unroll 3
        for (int32_t x = lead + 4 * fours; x < p->columns; x++) {
#pragma GCC unroll 4
            for (int i = 0; i < HIL_DSP_PLANES; i++) {
                to[i * plane + x] = in[x * p->in_c + i];
            }
        }
        in += p->in_w * p->in_c;
        to += p->line;
    }
}

/* Widens a channel of `rows` rows of an image to where they belong in the plane. */
HIL_INLINE void hil_dsp_plane_fill(const struct hil_dsp_depthwise_conv2d_s8_plane *p,
                                   const int8_t *in, int32_t rows, int16_t *to) {
    /* A pixel before the first whole word. */
    const int32_t lead = p->pad_left % 2 != 0 && p->columns > 0;
    const int32_t count = p->columns - lead;
    if (p->columns <= 8) {
#if HIL_DSP_ASSEMBLY
        /* With one register to count from, the compiler sees how many turns there are. */
        __asm__("" : "+r"(in));
#endif
#pragma GCC unroll 4
        for (; rows > 0; rows--) {
            if (lead) {
                *to = *in;
            }
            hil_dsp_plane_widen(in + lead * p->in_c, p->in_c, count, to + lead);
            in += p->in_w * p->in_c;
            to += p->line;
        }
        return;
    }
    for (; rows > 0; rows--) {
        const int8_t *from = in + lead * p->in_c;
        int16_t *at = to + lead;
        if (lead) {
            *to = *in;
        }
        for (int32_t left = count / 16; left > 0; left--) {
            hil_dsp_plane_widen(from, p->in_c, 16, at);
            from += 16 * p->in_c;
            at += 16;
        }
        hil_dsp_plane_widen(from, p->in_c, count % 16, at);
        in += p->in_w * p->in_c;
        to += p->line;
    }
}

/* `rows` rows of outputs of the filters of `count` channels from `channel` on, from their planes.
 */
HIL_INLINE void hil_dsp_plane_channels(const struct hil_dsp_depthwise_conv2d_s8_plane *p,
                                       int32_t channel, int32_t count, const int16_t *planes,
                                       int32_t rows, int8_t *out) {
    const int32_t filters = p->depth_multiplier;
    struct hil_dsp_plane_place at = {.in = planes, .out = out + channel * filters};
    for (int32_t i = 0; i < count; i++) {
        for (int32_t filter = 0; filter < filters; filter++) {
            hil_dsp_plane_outputs(p, (channel + i) * filters + filter, rows, &at);
            at.in -= rows * p->stride * p->line;
            at.out += 1 - rows * p->out_w * HIL_DSP_PLANE_OUT_C(p);
        }
        at.in += hil_dsp_plane_size(p);
    }
}

HIL_INLINE void hil_dsp_depthwise_conv2d_s8_plane(const struct hil_dsp_depthwise_conv2d_s8_plane *p,
                                                  const int8_t *in, int8_t *out, void *scratch) {
    int16_t *const planes = (int16_t *)scratch;
    const int32_t plane = hil_dsp_plane_size(p);
    const int32_t out_row = p->out_w * HIL_DSP_PLANE_OUT_C(p);
    for (int32_t images = p->batch; images > 0; images--) {
        for (int32_t y = 0; y < p->out_h; y += p->rows) {
            const int32_t rows = p->out_h - y < p->rows ? p->out_h - y : p->rows;
            const int32_t top = y * p->stride - p->pad_top;
            const int32_t first = top < 0 ? 0 : top;
            const int32_t end = top + (rows - 1) * p->stride + 3;
            const int32_t inside = (end < p->in_h ? end : p->in_h) - first;
            for (int32_t i = 0; i < p->channels; i++) {
                hil_dsp_plane_frame(p, first - top, inside, planes + i * plane);
            }
            int16_t *const to = planes + (first - top) * p->line + p->pad_left;
            const int8_t *const from = in + first * p->in_w * p->in_c;
            int8_t *const rows_out = out + y * out_row;
            int32_t channel = 0;
            if (p->channels == HIL_DSP_PLANES) {
                for (; channel + HIL_DSP_PLANES <= p->in_c; channel += HIL_DSP_PLANES) {
                    hil_dsp_plane_fill_four(p, from + channel, inside, to);
                    hil_dsp_plane_channels(p, channel, HIL_DSP_PLANES, planes, rows, rows_out);
                }
            }
            const int32_t last = p->channels == HIL_DSP_PLANES ? p->in_c % HIL_DSP_PLANES : 1;
            while (last > 0 && channel < p->in_c) {
                for (int32_t i = 0; i < last; i++) {
                    hil_dsp_plane_fill(p, from + channel + i, inside, to + i * plane);
                }
                hil_dsp_plane_channels(p, channel, last, planes, rows, rows_out);
                channel += last;
            }
        }
        hil_dsp_clamp_s8(out, p->out_h * out_row, p->low, p->high);
        in += p->in_h * p->in_w * p->in_c;
        out += p->out_h * out_row;
    }
}

#endif
