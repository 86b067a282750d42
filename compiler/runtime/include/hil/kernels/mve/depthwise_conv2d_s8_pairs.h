/* Depthwise convolution of int8 images with filters of up to 5x5 (stride 2: 6x6) on Helium, as dot
 * products over the taps of two rows: the pixels under a band of output rows are laid out channel
 * by channel in blocks of eight columns, so that sixteen bytes that follow each other are eight
 * columns of two rows. Blocks overlap by half.
 *
 * Tile: 8 outputs x 1 channel, of four pairs of rows of a block, or of two pairs of rows of two
 * blocks beside each other. A pair of rows adds to six sums:
 *
 *   stride 1, columns moved by 0 to 3, one after the other; outputs below each other
 *     rows of a pair   q0 q1 first pair   q2 q3 second   q4 q5 third
 *     even output      f0 f1  (q0)        f2 f3  (q2)    f4 .   (q4)
 *     odd output       .  f0  (q1)        f1 f2  (q3)    f3 f4  (q5)
 *   stride 2: q0 q2 q4 with f0 to f5, q1 q3 q5 the same moved right by two, for the next column
 *
 * Registers, at the top of a turn: r0 r2 r4 r6 r8 r10 r12 lr sums, from biases; q0 to q5 filter;
 * q6 q7 pixels, then sums; r1 place; r3 outputs; r5 bytes of a block; r7 multiplier; r9 shift; r11
 * biases in struct hil_mve_pairs; p0 outputs that are stored. Stack: zero point of the output, step
 * of outputs to the next block, end of the run, mask; d8-d15.
 *
 * Data: packed by `_depthwise_pairs()`.
 *
 *   filters  int8, 16 zeros, then int8[6][8] a channel, zeros behind its rows and columns: loads of
 *            sixteen bytes from up to eleven bytes before a row on are the moved filters
 *   scales   int32 [channel][3]: bias, multiplier, shift
 *   runs     int32 [..][4], turns one beside the other: to their place from that behind the run
 *            before, the same of their outputs, bytes to the end of the run, mask of the outputs,
 *            two bits each, bit 30 where the filter moves by a column, bit 31 where turns take two
 *            blocks. The last run has no outputs: it leads to the next filter, so many bytes behind
 *   blocks   in scratch, int8 [8 channels][blocks][plane_pairs][2][8], the zero point around the
 *            image
 *
 * Block b begins at column 4b of what the windows reach.
 *
 * Order: bands of rows; eight channels of the image at a time their pixels are read, then the
 * outputs of all their filters written.
 * The last eight of a number that is no whole eights begin among those before, of which nothing is
 * computed again.
 *
 * Bounds: at most 36 products, 36 * 128 * 128 < 2^20, and the bias, below 2^31
 * (`_check_quantized()`). `_depthwise_pairs()` checks that offsets of outputs and of planes are 16
 * bits. Turns read up to 64 bytes behind the last block, for outputs that are not stored.
 *
 * Output: as in blocks_s8.h, one multiplier and one shift a channel; `any` corrects signs, unless
 * sums are rounded once, and clamps.
 *
 * Scratch: the blocks, and 64 bytes.
 *
 * Cost: 49 instructions a turn (200 MACs of 5x5), 52 of two blocks, 6 more where signs are
 * corrected, 4 where outputs clamp; 21 for each move of a filter and its run. Measured (`python
 * tools/measure.py costs measure`, instructions under QEMU) a MAC of 5x5: 28x28x8 0.295, 8x8x24
 * 0.350, 7x7x264 0.413; stride 2 24x24x8 0.385, 8x8x264 0.509; hil_mve_depthwise_conv2d_s8_rows
 * 0.486, 0.461, 0.529; 0.730, 1.212.
 *
 * Tests: no twin in C; the numpy reference gives what must come out (tests/board/test_kernels.py,
 * buffers between guard bytes). Layout: tests/c/test_kernel_layouts.py.
 */
#ifndef HIL_KERNELS_MVE_DEPTHWISE_CONV2D_S8_PAIRS_H
#define HIL_KERNELS_MVE_DEPTHWISE_CONV2D_S8_PAIRS_H

#include <arm_mve.h>

#include "hil/kernels/mve/blocks_s8.h"
#include "hil/kernels/mve/columns_s8.h"

/* What some channels share. The assembly knows the offsets. */
struct hil_mve_pairs {
    int32_t sums[8];       /*   0 */
    int32_t bias[8];       /*  32: where the assembly's place is */
    uint16_t below[8];     /*  64: of the outputs of four pairs of rows */
    uint16_t beside[8];    /*  80: of two pairs of rows of two blocks */
    const int8_t *even;    /*  96: filter of even outputs */
    const int8_t *odd;     /* 100: the same of odd ones */
    const int32_t *scales; /* 104: of the next filter */
    const int32_t *run;    /* 108: the next one */
    const int32_t *runs;   /* 112 */
    const int8_t *end;     /* 116: of the filters, as `even` */
    const int8_t *blocks;  /* 120: of the first channel */
    int8_t *out;           /* 124 */
    int32_t block_bytes;   /* 128 */
    int32_t zero_point;    /* 132: of the output */
    int32_t step;          /* 136: from an output to that of the next block */
    int32_t low;           /* 140 */
    int32_t high;          /* 144 */
};

HIL_MVE_AT(hil_mve_pairs, sums, 0);
HIL_MVE_AT(hil_mve_pairs, bias, 32);
HIL_MVE_AT(hil_mve_pairs, below, 64);
HIL_MVE_AT(hil_mve_pairs, beside, 80);
HIL_MVE_AT(hil_mve_pairs, even, 96);
HIL_MVE_AT(hil_mve_pairs, odd, 100);
HIL_MVE_AT(hil_mve_pairs, scales, 104);
HIL_MVE_AT(hil_mve_pairs, run, 108);
HIL_MVE_AT(hil_mve_pairs, runs, 112);
HIL_MVE_AT(hil_mve_pairs, end, 116);
HIL_MVE_AT(hil_mve_pairs, blocks, 120);
HIL_MVE_AT(hil_mve_pairs, out, 124);
HIL_MVE_AT(hil_mve_pairs, block_bytes, 128);
HIL_MVE_AT(hil_mve_pairs, zero_point, 132);
HIL_MVE_AT(hil_mve_pairs, step, 136);
HIL_MVE_AT(hil_mve_pairs, low, 140);
HIL_MVE_AT(hil_mve_pairs, high, 144);

/* clang-format off */
#define HIL_MVE_PAIRS_BIASES "ldmia r11, {r0, r2, r4, r6, r8, r10, r12, lr}\n"
#define HIL_MVE_PAIRS_LOAD(q, at) "vldrb.8 " q ", [r1, #" at "]\n"
#define HIL_MVE_PAIRS_ADD(q, even, odd, first, second)                                             \
    "vmladava.s8 " even ", " q ", " first "\n"                                                     \
    "vmladava.s8 " odd ", " q ", " second "\n"
#define HIL_MVE_PAIRS_FIRST(q, even, odd) HIL_MVE_PAIRS_ADD(q, even, odd, "q0", "q1")
#define HIL_MVE_PAIRS_SECOND(q, even, odd) HIL_MVE_PAIRS_ADD(q, even, odd, "q2", "q3")
#define HIL_MVE_PAIRS_THIRD(q, even, odd) HIL_MVE_PAIRS_ADD(q, even, odd, "q4", "q5")

/* Sums of eight outputs: of four pairs of rows, */
#define HIL_MVE_PAIRS_BELOW                                                                        \
    HIL_MVE_PAIRS_LOAD("q6", "0")                                                                  \
    HIL_MVE_PAIRS_BIASES                                                                           \
    HIL_MVE_PAIRS_LOAD("q7", "16")                                                                 \
    HIL_MVE_PAIRS_FIRST("q6", "r0", "r2")                                                          \
    HIL_MVE_PAIRS_LOAD("q6", "32")                                                                 \
    HIL_MVE_PAIRS_SECOND("q7", "r0", "r2")                                                         \
    HIL_MVE_PAIRS_FIRST("q7", "r4", "r6")                                                          \
    HIL_MVE_PAIRS_LOAD("q7", "48")                                                                 \
    HIL_MVE_PAIRS_THIRD("q6", "r0", "r2")                                                          \
    HIL_MVE_PAIRS_SECOND("q6", "r4", "r6")                                                         \
    HIL_MVE_PAIRS_FIRST("q6", "r8", "r10")                                                         \
    HIL_MVE_PAIRS_LOAD("q6", "64")                                                                 \
    HIL_MVE_PAIRS_THIRD("q7", "r4", "r6")                                                          \
    HIL_MVE_PAIRS_SECOND("q7", "r8", "r10")                                                        \
    HIL_MVE_PAIRS_FIRST("q7", "r12", "lr")                                                         \
    HIL_MVE_PAIRS_LOAD("q7", "80")                                                                 \
    HIL_MVE_PAIRS_THIRD("q6", "r8", "r10")                                                         \
    HIL_MVE_PAIRS_SECOND("q6", "r12", "lr")                                                        \
    HIL_MVE_PAIRS_THIRD("q7", "r12", "lr")                                                         \
    "add r1, r5\n"
/* and of two pairs of rows of two blocks. */
#define HIL_MVE_PAIRS_BESIDE                                                                       \
    HIL_MVE_PAIRS_BIASES                                                                           \
    HIL_MVE_PAIRS_BLOCK("r0", "r2", "r4", "r6")                                                    \
    HIL_MVE_PAIRS_BLOCK("r8", "r10", "r12", "lr")
#define HIL_MVE_PAIRS_BLOCK(a, b, c, d)                                                            \
    HIL_MVE_PAIRS_LOAD("q6", "0")                                                                  \
    HIL_MVE_PAIRS_LOAD("q7", "16")                                                                 \
    HIL_MVE_PAIRS_FIRST("q6", a, b)                                                                \
    HIL_MVE_PAIRS_LOAD("q6", "32")                                                                 \
    HIL_MVE_PAIRS_SECOND("q7", a, b)                                                               \
    HIL_MVE_PAIRS_FIRST("q7", c, d)                                                                \
    HIL_MVE_PAIRS_LOAD("q7", "48")                                                                 \
    "add r1, r5\n"                                                                                 \
    HIL_MVE_PAIRS_THIRD("q6", a, b)                                                                \
    HIL_MVE_PAIRS_SECOND("q6", c, d)                                                               \
    HIL_MVE_PAIRS_THIRD("q7", c, d)

/* Signs, whose comparison takes p0. */
#define HIL_MVE_PAIRS_CORRECT                                                                      \
    "mov r0, #1\n" HIL_MVE_AWAY_FROM_ZERO("q6", "r0") HIL_MVE_AWAY_FROM_ZERO("q7", "r0")
#define HIL_MVE_PAIRS_MASK "vmsr p0, r8\n"

/* The whole range of int8, and any other. */
#define HIL_MVE_PAIRS_SATURATE "vqmovnb.s16 q6, q6\n"
#define HIL_MVE_PAIRS_CLAMP                                                                        \
    "ldrd r6, r10, [r11, #108]\n"                                                                  \
    "vdup.16 q7, r6\n"                                                                             \
    "vmax.s16 q6, q6, q7\n"                                                                        \
    "vdup.16 q7, r10\n"                                                                            \
    "vmin.s16 q6, q6, q7\n"

/* Turns of a run from label `begin` on, then the next run. */
#define HIL_MVE_PAIRS_TURNS(begin, sums, places, steps, multiply, correct, mask, clamp)            \
    ".p2align 2\n"                                                                                 \
    begin ":\n" sums                                                                               \
    "stmdb r11!, {r0, r2, r4, r6, r8, r10, r12, lr}\n"                                             \
    "vldmia r11!, {d12-d15}\n" multiply ".s32 q6, q6, r7\n" multiply ".s32 q7, q7, r7\n" correct   \
    "vrshl.s32 q6, r9\n"                                                                           \
    "vrshl.s32 q7, r9\n"                                                                           \
    "ldmia sp, {r0, r2, r4, r8}\n"                                                                 \
    "vqmovnb.s32 q6, q6\n"                                                                         \
    "vqmovnt.s32 q6, q7\n"                                                                         \
    "vqadd.s16 q6, q6, r0\n" clamp                                                                 \
    "vldrh.u16 q7, [r11, #" places "]\n" mask                                                      \
    "vpst\n"                                                                                       \
    "vstrbt.16 q6, [r3, q7]\n"                                                                     \
    "cmp r1, r4\n"                                                                                 \
    "add r3, r3, r2" steps "\n"                                                                    \
    "bne.w " begin "b\n"                                                                           \
    "b.w 3b\n"

/* All channels. */
#define HIL_MVE_PAIRS(...)                                                                         \
    "push {r3-r11, lr}\n"                                                                          \
    "vpush {d8-d15}\n"                                                                             \
    "sub sp, #16\n"                                                                                \
    "add r11, r0, #32\n"                                                                           \
    "ldrd r1, r3, [r11, #88]\n"                                                                    \
    "ldrd r5, r4, [r11, #96]\n"                                                                    \
    "ldr r6, [r11, #104]\n"                                                                        \
    "strd r4, r6, [sp]\n"                                                                          \
    "1:\n"                                                                                         \
    "ldr r10, [r11, #72]\n"                                                                        \
    "ldr r0, [r11, #80]\n"                                                                         \
    "ldmia r10!, {r6, r7, r9}\n"                                                                   \
    "str r10, [r11, #72]\n"                                                                        \
    "vdup.32 q6, r6\n"                                                                             \
    "vstrw.32 q6, [r11]\n"                                                                         \
    "vstrw.32 q6, [r11, #16]\n"                                                                    \
    "b 2f\n"                                                                                       \
    "3:\n"                                                                                         \
    "ldr r0, [r11, #76]\n"                                                                         \
    "2:\n"                                                                                         \
    "ldmia r0!, {r2, r4, r6, r8}\n"                                                                \
    "str r0, [r11, #76]\n"                                                                         \
    "add r1, r2\n"                                                                                 \
    "add r3, r4\n"                                                                                 \
    "add r2, r1, r6\n"                                                                             \
    "vmsr p0, r8\n"                                                                                \
    "strd r2, r8, [sp, #8]\n"                                                                      \
    "lsls r0, r8, #1\n"                                                                            \
    "beq.w 6f\n"                                                                                   \
    "bmi.w 7f\n"                                                                                   \
    "bcs.w 5f\n"                                                                                   \
    HIL_MVE_PAIRS_TURNS("4", HIL_MVE_PAIRS_BELOW, "32", "", __VA_ARGS__)                           \
    HIL_MVE_PAIRS_TURNS("5", HIL_MVE_PAIRS_BESIDE, "48", ", lsl #1", __VA_ARGS__)                  \
    "7:\n"                                                                                         \
    "ldrd r2, r4, [r11, #64]\n"                                                                    \
    "vldrb.8 q0, [r2, #-1]!\n"                                                                     \
    "vldrb.8 q2, [r2, #16]\n"                                                                      \
    "vldrb.8 q4, [r2, #32]\n"                                                                      \
    "vldrb.8 q1, [r4, #-1]!\n"                                                                     \
    "vldrb.8 q3, [r4, #16]\n"                                                                      \
    "vldrb.8 q5, [r4, #32]\n"                                                                      \
    "strd r2, r4, [r11, #64]\n"                                                                    \
    "lsls r0, r8, #1\n"                                                                            \
    "bcs.w 5b\n"                                                                                   \
    "b.w 4b\n"                                                                                     \
    "6:\n"                                                                                         \
    "ldrd r2, r4, [r11, #64]\n"                                                                    \
    "ldr r0, [r11, #84]\n"                                                                         \
    "add r4, r6\n"                                                                                 \
    "add r2, r6\n"                                                                                 \
    "strd r2, r4, [r11, #64]\n"                                                                    \
    "cmp r2, r0\n"                                                                                 \
    "bne.w 1b\n"                                                                                   \
    "add sp, #16\n"                                                                                \
    "vpop {d8-d15}\n"                                                                              \
    "pop {r3-r11, pc}\n"
/* clang-format on */

#define HIL_MVE_PAIRS_FUNCTION(name, ...)                                                          \
    __attribute__((naked, noipa, unused)) static void name(struct hil_mve_pairs *pairs             \
                                                           __attribute__((unused))) {              \
        __asm__(HIL_MVE_PAIRS(__VA_ARGS__));                                                       \
    }

/* For outputs over the whole range of int8 whose values below the zero point clamp, over the whole
 * range, and any others; for sums rounded twice, and once, which needs no correction of signs. */
HIL_MVE_PAIRS_FUNCTION(hil_mve_row_pairs, HIL_MVE_TWICE, "", "", HIL_MVE_PAIRS_SATURATE)
HIL_MVE_PAIRS_FUNCTION(hil_mve_row_pairs_linear, HIL_MVE_TWICE, HIL_MVE_PAIRS_CORRECT,
                       HIL_MVE_PAIRS_MASK, HIL_MVE_PAIRS_SATURATE)
HIL_MVE_PAIRS_FUNCTION(hil_mve_row_pairs_any, HIL_MVE_TWICE, HIL_MVE_PAIRS_CORRECT,
                       HIL_MVE_PAIRS_MASK, HIL_MVE_PAIRS_CLAMP)
HIL_MVE_PAIRS_FUNCTION(hil_mve_row_pairs_once, HIL_MVE_ONCE, "", "", HIL_MVE_PAIRS_SATURATE)
HIL_MVE_PAIRS_FUNCTION(hil_mve_row_pairs_any_once, HIL_MVE_ONCE, "", "", HIL_MVE_PAIRS_CLAMP)

/* Bytes of a filter; zeros before the first one; columns of a block, those between two blocks, and
 * bytes of a row of one; channels at a time. */
#define HIL_MVE_PAIRS_FILTER 48
#define HIL_MVE_PAIRS_BEFORE 16
#define HIL_MVE_PAIRS_COLUMNS 4
#define HIL_MVE_PAIRS_ROW 8
#define HIL_MVE_PAIRS_CHANNELS 8

/*@kernel
name = "hil_mve_depthwise_conv2d_s8_pairs"
requires = ["mve"]
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "128 * blocks * plane_pairs + 64"
order = ["rows band_h", "pixels band_h * out_w", "channels 8 * depth_multiplier"]
reads = "channel window"
code = 1100
[cost]
band = "batch * (out_h // band_h)"
eight = "band * ((in_c + 7) // 8)"
filters_of_plane = "band * in_c * (depth_multiplier > 1)"
channel = "band * in_c * depth_multiplier"
moved = "channel * (4 // (stride * stride))"
run = "channel * band_runs"
turn = "channel * turns"
beside_turn = "channel * beside_turns"
corrected = "(turn + beside_turn) * (any == 1)"
clamped = "(turn + beside_turn) * (out_max - out_min < 255)"
column = "eight * in_w"
pixel = "column * ((band_h - 1) * stride + filter_h)"
single = "pixel * (1 - gathered)"
filled = "batch * blocks * plane_pairs"
@*/
struct hil_mve_depthwise_conv2d_s8_pairs {
    HIL_IMAGES_FIELDS;
    int32_t filter_h;         /* at most 5, or 6 with stride 2, dilation included */
    int32_t filter_w;         /* the same, of columns */
    int32_t stride;           /* 1 or 2 */
    int32_t pad_top;          /* rows by which the first window reaches above the image */
    int32_t pad_left;         /* columns by which the first window reaches beyond the image */
    int32_t depth_multiplier; /* filters of a channel of the image */
    int32_t band_h;           /* output rows of a band, all alike */
    int32_t blocks;           /* of a channel */
    int32_t plane_pairs;      /* pairs of input rows of a band */
    int32_t gathered;         /* 1: a gather reaches eight channels of two pixels */
    int32_t band_runs;        /* runs of a channel */
    int32_t turns;            /* turns of a channel that take four pairs of rows */
    int32_t beside_turns;     /* and two pairs of two blocks */
    int32_t any;              /* as in HIL_MVE_PIXELS_FIELDS */
    int32_t in_zero_point; /* the input that stands for 0.0, which pixels outside the image have */
    HIL_OUTPUT_RANGE_FIELDS;
    const int8_t *filters; /* the head draws it */
    const int32_t *scales; /* the same */
    const int32_t *runs;   /* the same */
};

/* Columns of pixels of eight channels, from their first rows to their last: one, two beside each
 * other, or four of a block; to the right half of the block before, and to their own one's left. */
/* clang-format off */
#define HIL_MVE_PAIRS_ROWS(columns)                                                                \
    __asm__ volatile("dls lr, %[turns]\n"                                                          \
                     "1:\n" columns                                                                \
                     "adds %[to], #8\n"                                                            \
                     "le lr, 1b\n"                                                                 \
                     : [x] "+&l"(x), [y] "+&l"(y), [to] "+&l"(place), [turns] "+&r"(turns)         \
                     : [lanes] "w"(lanes), [first] "w"(first), [own] "w"(own),                     \
                       [second] "w"(second), [second_own] "w"(second_own), [line] "r"(line)        \
                     : "q0", "cc", "memory")
#define HIL_MVE_PAIRS_PIXEL(x, place, own)                                                         \
    "vldrb.u16 q0, [%[" x "]]\n"                                                                   \
    "add %[" x "], %[line]\n"                                                                      \
    "vstrb.16 q0, [%[to], %q[" place "]]\n" own
#define HIL_MVE_PAIRS_GATHER(x, place, own)                                                        \
    "vldrb.u8 q0, [%[" x "], %q[lanes]]\n"                                                         \
    "add %[" x "], %[line]\n"                                                                      \
    "vstrh.16 q0, [%[to], %q[" place "]]\n" own
#define HIL_MVE_PAIRS_PIXEL_TOO(place) "vstrb.16 q0, [%[to], %q[" place "]]\n"
#define HIL_MVE_PAIRS_GATHER_TOO(place) "vstrh.16 q0, [%[to], %q[" place "]]\n"
/* With a store of their own, or without. */
#define HIL_MVE_PAIRS_COLUMN(x, place, own)                                                        \
    HIL_MVE_PAIRS_PIXEL(x, place, HIL_MVE_PAIRS_PIXEL_TOO(own))
#define HIL_MVE_PAIRS_COLUMNS_OF(x, place, own)                                                    \
    HIL_MVE_PAIRS_GATHER(x, place, HIL_MVE_PAIRS_GATHER_TOO(own))
/* clang-format on */

/* The pixels of eight channels under `row_count` input rows from row `row` on, without what lies
 * around the image. */
HIL_INLINE_BLOCK void hil_mve_pairs_lay_out(const struct hil_mve_depthwise_conv2d_s8_pairs *p,
                                            const int8_t *image, int32_t row, int32_t row_count,
                                            int8_t *blocks) {
    const int32_t block = 2 * HIL_MVE_PAIRS_ROW * p->plane_pairs;
    const int32_t above = row < 0 ? -row : 0;
    const int32_t below = row + row_count > p->in_h ? row + row_count - p->in_h : 0;
    const int32_t rows = row_count - above - below;
    const int32_t step = p->in_c;
    const int32_t line = p->in_w * step;
    const uint16x8_t channel = vidupq_n_u16(0, 1);
    const uint16x8_t first = vmulq_n_u16(channel, (uint16_t)(block * p->blocks));
    const uint16x8_t own = vaddq_n_u16(first, (uint16_t)(block - HIL_MVE_PAIRS_COLUMNS));
    /* Bytes of both pixels of a pair by channel. */
    const uint16x8_t lanes =
        vaddq_n_u16(vmulq_n_u16(channel, 0x101), (uint16_t)((step & 0xff) << 8));
    const int32_t reached = HIL_MVE_PAIRS_COLUMNS * (p->blocks + 1);
    const int32_t end = p->in_w + p->pad_left;
    const int32_t behind = end < reached ? end : reached;
    if (rows <= 0) {
        return;
    }
    image += (row + above) * line;
    blocks += HIL_MVE_PAIRS_ROW * above;
    for (int32_t column = p->pad_left; column < behind;) {
        const int32_t number = column / HIL_MVE_PAIRS_COLUMNS;
        const int32_t at = column % HIL_MVE_PAIRS_COLUMNS;
        const int32_t even = p->gathered && column % 2 == 0;
        const int32_t once = number == 0 || number == p->blocks;
        /* Four columns, two, or one. */
        const int32_t most = even ? (at == 0 ? 4 : 2) : p->gathered || at % 2 != 0 ? 1 : 2;
        const int32_t taken = most <= behind - column ? most : even && behind - column >= 2 ? 2 : 1;
        const int32_t apart = even ? 2 : 1;
        const uint16x8_t second = vaddq_n_u16(first, (uint16_t)apart);
        const uint16x8_t second_own = vaddq_n_u16(own, (uint16_t)apart);
        const int8_t *x = image;
        const int8_t *y = image + apart * step;
        int8_t *place = blocks + number * block + at;
        register int32_t turns __asm__("lr") = rows; /* there are hardly others */
        if (number > 0) {
            place -= block - HIL_MVE_PAIRS_COLUMNS;
        }
        if (even && taken == 4 && once) {
            HIL_MVE_PAIRS_ROWS(HIL_MVE_PAIRS_GATHER("x", "first", "")
                                   HIL_MVE_PAIRS_GATHER("y", "second", ""));
        } else if (even && taken == 4) {
            HIL_MVE_PAIRS_ROWS(HIL_MVE_PAIRS_COLUMNS_OF("x", "first", "own")
                                   HIL_MVE_PAIRS_COLUMNS_OF("y", "second", "second_own"));
        } else if (even && taken == 2 && once) {
            HIL_MVE_PAIRS_ROWS(HIL_MVE_PAIRS_GATHER("x", "first", ""));
        } else if (even && taken == 2) {
            HIL_MVE_PAIRS_ROWS(HIL_MVE_PAIRS_COLUMNS_OF("x", "first", "own"));
        } else if (taken == 2 && once) {
            HIL_MVE_PAIRS_ROWS(HIL_MVE_PAIRS_PIXEL("x", "first", "")
                                   HIL_MVE_PAIRS_PIXEL("y", "second", ""));
        } else if (taken == 2) {
            HIL_MVE_PAIRS_ROWS(HIL_MVE_PAIRS_COLUMN("x", "first", "own")
                                   HIL_MVE_PAIRS_COLUMN("y", "second", "second_own"));
        } else if (once) {
            HIL_MVE_PAIRS_ROWS(HIL_MVE_PAIRS_PIXEL("x", "first", ""));
        } else {
            HIL_MVE_PAIRS_ROWS(HIL_MVE_PAIRS_COLUMN("x", "first", "own"));
        }
        image += taken * step;
        column += taken;
    }
}

/* The outputs of the filters up to `end`. */
HIL_INLINE void hil_mve_pairs_outputs(const struct hil_mve_depthwise_conv2d_s8_pairs *p,
                                      struct hil_mve_pairs *pairs) {
    const int full = p->out_min == INT8_MIN && p->out_max == INT8_MAX;
    if (p->any & HIL_MVE_ANY_ONCE) {
        full ? hil_mve_row_pairs_once(pairs) : hil_mve_row_pairs_any_once(pairs);
    } else if (p->any & 1) {
        full ? hil_mve_row_pairs_linear(pairs) : hil_mve_row_pairs_any(pairs);
    } else {
        hil_mve_row_pairs(pairs);
    }
}

HIL_INLINE void hil_mve_depthwise_conv2d_s8_pairs(const struct hil_mve_depthwise_conv2d_s8_pairs *p,
                                                  const int8_t *in, int8_t *out, void *scratch) {
    int8_t *const blocks = (int8_t *)scratch;
    const int32_t filters = p->depth_multiplier;
    const int32_t pixel = p->in_c * filters;
    const int32_t line = p->out_w * pixel;
    const int32_t block = 2 * HIL_MVE_PAIRS_ROW * p->plane_pairs;
    const int32_t step = HIL_MVE_PAIRS_COLUMNS / p->stride * pixel;
    const int32_t rows = (p->band_h - 1) * p->stride + p->filter_h;
    struct hil_mve_pairs shared; /* of which the assembly writes sums and biases */
    struct hil_mve_pairs *const pairs = &shared;
    shared.runs = p->runs;
    shared.block_bytes = block;
    shared.zero_point = p->out_zero_point;
    shared.step = step;
    shared.low = p->out_min;
    shared.high = p->out_max;
    /* As the narrowed sums lie: those of the first two pairs of rows and of the other two
     * alternate. */
    for (int32_t lane = 0; lane < 8; lane++) {
        const int32_t pair = lane / 4;
        const int32_t other = lane / 2 % 2;
        const int32_t second = lane % 2;
        const int32_t of_pair = p->stride == 1 ? 2 * line : line;
        const int32_t place = pair * of_pair + other * (p->stride == 1 ? line : pixel);
        shared.below[lane] = (uint16_t)(place + second * 2 * of_pair);
        shared.beside[lane] = (uint16_t)(place + second * step);
    }
    const int8x16_t around = vdupq_n_s8((int8_t)p->in_zero_point);
    for (int32_t images = p->batch; images > 0; images--) {
        int32_t y = -p->pad_top;
        for (int32_t left = p->out_h; left > 0; left -= p->band_h) {
            if (left == p->out_h || y + rows > p->in_h) {
                hil_mve_fill(blocks, around, HIL_MVE_PAIRS_CHANNELS * p->blocks * p->plane_pairs);
            }
            /* The first move is by no column. */
            shared.even = p->filters + HIL_MVE_PAIRS_BEFORE + 1;
            shared.odd = shared.even - (p->stride == 1 ? HIL_MVE_PAIRS_ROW : 2);
            shared.scales = p->scales;
            for (int32_t channel = 0; channel < p->in_c; channel += HIL_MVE_PAIRS_CHANNELS) {
                const int32_t more = p->in_c - channel;
                const int32_t count = more < HIL_MVE_PAIRS_CHANNELS ? more : HIL_MVE_PAIRS_CHANNELS;
                /* The last eight begin among those before. */
                const int32_t before = HIL_MVE_PAIRS_CHANNELS - count;
                hil_mve_pairs_lay_out(p, in + channel - before, y, rows, blocks);
                shared.blocks = blocks + before * block * p->blocks;
                shared.out = out + channel * filters;
                /* All filters of one channel, or one filter of each. */
                const int32_t calls = filters == 1 ? 1 : count;
                const int32_t channels = filters == 1 ? count : filters;
                for (int32_t call = 0; call < calls; call++) {
                    shared.end = shared.even + HIL_MVE_PAIRS_FILTER * channels;
                    hil_mve_pairs_outputs(p, pairs);
                    shared.blocks += block * p->blocks;
                    shared.out += channels;
                }
            }
            y += p->band_h * p->stride;
            out += p->band_h * line;
        }
        in += p->in_h * p->in_w * p->in_c;
    }
}

#endif
