/* Depthwise convolution of int8 images of eight channels or more with filters of at most 3x3 on
 * Helium, as dot products over the taps: the pixels under a band of output rows are laid out
 * channel by channel in strips four columns wide, so that sixteen bytes that follow each other are
 * a patch of 4x4 pixels. Of outputs over the whole range of int8 whose values below the zero point
 * clamp.
 *
 * Tile: 8 outputs x 1 channel, of two places in the strips, which are those of two strips or of two
 * parts of one strip.
 *
 *              2x2 outputs of a patch at each place, the filter moved within it
 *              0  1  2  3     f f f .   . f f f           r0 r8   upper left    q0 filter
 *              4  5  6  7     f f f .   . f f f           r2 r10  upper right   q1 moved right
 *              8  9  10 11    f f f .   . f f f           r4 r12  lower left    q2 moved down
 *              12 13 14 15    . . . .   . . . .           r6 lr   lower right   q3 both
 *              last column of an odd number: 2x1 outputs of four patches below each other
 *              stride 2: 4x1 outputs at each place, of four patches below each other
 *
 * Registers, at the top of a turn: the sums, from biases; q0 to q3 filters, q5 multiplier, q6 q7
 * patches, then sums; r1 r3 places; r5 outputs; r7 zero point, moved to the left as far as products
 * are moved to the right; r9 shift; r11 struct hil_mve_strips; p0 outputs that are stored (masked).
 * Stack: sums at 0, place in the runs at 32, d8-d15 at 40.
 *
 * Data: packed by `_depthwise_strips()`.
 *
 *   filters  int8, 16 bytes a channel: 5 zeros, rows of three taps with a zero between; behind all
 *            of them 5 zeros. From byte 5 of a channel on lies its filter as above, from 4, 1 and 0
 *            on the moved ones
 *   scales   int32 [channel][4]: multiplier, bias, moved zero point, shift
 *   places   uint16 [17][8]: of the outputs of a turn, of 13 turns of the one kind, 4 of the other;
 *            those of the two places alternate; of a last column rows 0 4 1 5 2 6 3 7. Where a run
 *            begins above the image, its first turn's go where the second one's will be
 *   runs     int32 [..][5], turns one below the other: first place in a channel's strips, from it
 *            to the second, outputs, bytes of code before the first turn, mask; all 0: the end
 *   strips   in scratch, int8 [8 channels][1 + strips][plane_h][4], the zero point around the image
 *
 * Strip s begins at column 2s. Every pair of columns is written to two strips, as the right half of
 * one and the left half of the next, so before the first of a channel there is one that is not
 * read.
 *
 * Turns are slots of code, of which a run's jump skips those that it does not have: their size is
 * checked by the assembler.
 *
 * Order: bands of rows; eight channels at a time their pixels are read, then their outputs written.
 * The last eight of a number that is no whole eights begin among those before, of which nothing is
 * computed again.
 *
 * Bounds: at most 16 products, 16 * 128 * 128 = 2^18, and the bias, below 2^31
 * (`_check_quantized()`). Shifts are -23 to -1, so a zero point of -128 is above -2^31 when moved.
 * `_depthwise_strips()` checks that offsets of outputs and of strips are 16 bits.
 *
 * Output: as in shallow_s8.h: vqrdmlash adds the moved zero point to the rounded product before the
 * shift, which is exact as it is a multiple of what is shifted out. Where no shift is below -8,
 * products saturate to int16 first (`far` is 0). The functions `_once` round once.
 *
 * Scratch: the strips.
 *
 * Cost: 22 instructions a turn (72 MACs of 3x3), 24 of a last column, 28 with stride 2, one more
 * where shifts are far or outputs masked. Measured (`hil bench --per-layer` on mps3-an547,
 * instructions under QEMU) a MAC: 25x5x64 (kws) 0.428, 24x24x32 (vww) 0.372, 6x6x128 0.532;
 * hil_depthwise_conv2d_s8_mve 0.536, 0.465 and 0.609.
 *
 * Tests: no twin in C; the numpy reference gives what must come out (tests/board/test_kernels.py,
 * buffers between guard bytes). Layout: tests/c/test_kernel_layouts.py.
 */
#ifndef HIL_KERNELS_MVE_DEPTHWISE_STRIPS_S8_H
#define HIL_KERNELS_MVE_DEPTHWISE_STRIPS_S8_H

#include <arm_mve.h>
#include <string.h>

#include "hil/kernels/mve/columns_s8.h"

/* Turns that are written out, of each kind. */
#define HIL_MVE_STRIPS_TURNS 13
#define HIL_MVE_STRIPS_OTHER_TURNS 4
#define HIL_MVE_STRIPS_CHANNELS 8

/* What some channels share. The assembly knows the offsets. */
struct hil_mve_strips {
    uint16_t places[HIL_MVE_STRIPS_TURNS][8];             /*   0 */
    int32_t bias[8];                                      /* 208: where the assembly's place is */
    uint16_t other_places[HIL_MVE_STRIPS_OTHER_TURNS][8]; /* 240 */
    const int8_t *filters;                                /* 304: of the next channel */
    const int32_t *scales;                                /* 308 */
    const int8_t *strips;                                 /* 312 */
    int8_t *out;                                          /* 316 */
    int32_t channel_bytes;                                /* 320: of strips */
    const int8_t *end;                                    /* 324: of the filters */
    const int32_t *runs;                                  /* 328 */
};

HIL_MVE_AT(hil_mve_strips, places, 0);
HIL_MVE_AT(hil_mve_strips, bias, 208);
HIL_MVE_AT(hil_mve_strips, other_places, 240);
HIL_MVE_AT(hil_mve_strips, filters, 304);
HIL_MVE_AT(hil_mve_strips, scales, 308);
HIL_MVE_AT(hil_mve_strips, strips, 312);
HIL_MVE_AT(hil_mve_strips, out, 316);
HIL_MVE_AT(hil_mve_strips, channel_bytes, 320);
HIL_MVE_AT(hil_mve_strips, end, 324);
HIL_MVE_AT(hil_mve_strips, runs, 328);

/* clang-format off */
/* The filters of a channel, and the step to the next one's. */
#define HIL_MVE_STRIPS_FILTERS                                                                     \
    "vldrb.8 q0, [r0, #5]\n"                                                                       \
    "vldrb.8 q1, [r0, #4]\n"                                                                       \
    "vldrb.8 q2, [r0, #1]\n"                                                                       \
    "vldrb.8 q3, [r0], #16\n"

/* Sums of eight outputs. */
#define HIL_MVE_STRIPS_BIASES "ldmia r11, {r0, r2, r4, r6, r8, r10, r12, lr}\n"
#define HIL_MVE_STRIPS_SUMS                                                                        \
    "vldrb.8 q6, [r1], #8\n"                                                                       \
    HIL_MVE_STRIPS_BIASES                                                                          \
    "vldrb.8 q7, [r3], #8\n"                                                                       \
    "vmladava.s8 r0, q6, q0\n"                                                                     \
    "vmladava.s8 r2, q6, q1\n"                                                                     \
    "vmladava.s8 r4, q6, q2\n"                                                                     \
    "vmladava.s8 r6, q6, q3\n"                                                                     \
    "vmladava.s8 r8, q7, q0\n"                                                                     \
    "vmladava.s8 r10, q7, q1\n"                                                                    \
    "vmladava.s8 r12, q7, q2\n"                                                                    \
    "vmladava.s8 lr, q7, q3\n"
#define HIL_MVE_STRIPS_SUMS_COLUMN                                                                 \
    "vldrb.8 q7, [r1, #8]\n"                                                                       \
    HIL_MVE_STRIPS_BIASES                                                                          \
    "vldrb.8 q6, [r1, #16]\n"                                                                      \
    "vmladava.s8 r4, q7, q0\n"                                                                     \
    "vmladava.s8 r6, q7, q2\n"                                                                     \
    "vldrb.8 q7, [r1, #24]\n"                                                                      \
    "vmladava.s8 r8, q6, q0\n"                                                                     \
    "vmladava.s8 r10, q6, q2\n"                                                                    \
    "vldrb.8 q6, [r1], #32\n"                                                                      \
    "vmladava.s8 r12, q7, q0\n"                                                                    \
    "vmladava.s8 lr, q7, q2\n"                                                                     \
    "vmladava.s8 r0, q6, q0\n"                                                                     \
    "vmladava.s8 r2, q6, q2\n"

#define HIL_MVE_STRIPS_FOUR(x, first, second, third, fourth)                                       \
    "vldrb.8 q6, [" x ", #8]\n"                                                                    \
    "vldrb.8 q7, [" x ", #16]\n"                                                                   \
    "vmladava.s8 " second ", q6, q0\n"                                                             \
    "vldrb.8 q6, [" x ", #24]\n"                                                                   \
    "vmladava.s8 " third ", q7, q0\n"                                                              \
    "vldrb.8 q7, [" x "], #32\n"                                                                   \
    "vmladava.s8 " fourth ", q6, q0\n"                                                             \
    "vmladava.s8 " first ", q7, q0\n"
#define HIL_MVE_STRIPS_SUMS_STRIDED                                                                \
    HIL_MVE_STRIPS_BIASES                                                                          \
    HIL_MVE_STRIPS_FOUR("r1", "r0", "r2", "r4", "r6")                                              \
    HIL_MVE_STRIPS_FOUR("r3", "r8", "r10", "r12", "lr")

/* From products in q6 and q7. */
#define HIL_MVE_STRIPS_NEAR                                                                        \
    "vqmovnb.s32 q6, q6\n"                                                                         \
    "vqmovnt.s32 q6, q7\n"                                                                         \
    "vrshl.s16 q6, r9\n"                                                                           \
    "vqmovnb.s16 q6, q6\n"
#define HIL_MVE_STRIPS_FAR                                                                         \
    "vrshl.s32 q6, r9\n"                                                                           \
    "vrshl.s32 q7, r9\n"                                                                           \
    "vqmovnb.s32 q6, q6\n"                                                                         \
    "vqmovnt.s32 q6, q7\n"                                                                         \
    "vqmovnb.s16 q6, q6\n"

#define HIL_MVE_STRIPS_STORE "vstrb.16 q6, [r5, q7]\n"
#define HIL_MVE_STRIPS_STORE_MASKED "vpst\n" "vstrbt.16 q6, [r5, q7]\n"

#define HIL_MVE_STRIPS_TURN(sums, multiply, narrow, store, places)                                 \
    sums                                                                                           \
    "stmia sp, {r0, r2, r4, r6, r8, r10, r12, lr}\n"                                               \
    "vldrw.32 q6, [sp]\n"                                                                          \
    "vldrw.32 q7, [sp, #16]\n"                                                                     \
    multiply ".s32 q6, q5, r7\n"                                                                   \
    multiply ".s32 q7, q5, r7\n"                                                                   \
    narrow                                                                                         \
    "vldrh.u16 q7, [r11, #" places "]\n"                                                           \
    store

/* Turns from label `begin` on, then the next run. */
#define HIL_MVE_STRIPS_NEXT_RUN                                                                    \
    "ldr.w r10, [sp, #32]\n"                                                                       \
    "b.w 2b\n"
#define HIL_MVE_STRIPS_TURNS_OF_PAIRS(begin, end, bytes, ...)                                      \
    begin ":\n"                                                                                    \
    HIL_MVE_STRIPS_TURN(__VA_ARGS__, "-208")                                                       \
    HIL_MVE_STRIPS_TURN(__VA_ARGS__, "-192")                                                       \
    HIL_MVE_STRIPS_TURN(__VA_ARGS__, "-176")                                                       \
    HIL_MVE_STRIPS_TURN(__VA_ARGS__, "-160")                                                       \
    HIL_MVE_STRIPS_TURN(__VA_ARGS__, "-144")                                                       \
    HIL_MVE_STRIPS_TURN(__VA_ARGS__, "-128")                                                       \
    HIL_MVE_STRIPS_TURN(__VA_ARGS__, "-112")                                                       \
    HIL_MVE_STRIPS_TURN(__VA_ARGS__, "-96")                                                        \
    HIL_MVE_STRIPS_TURN(__VA_ARGS__, "-80")                                                        \
    HIL_MVE_STRIPS_TURN(__VA_ARGS__, "-64")                                                        \
    HIL_MVE_STRIPS_TURN(__VA_ARGS__, "-48")                                                        \
    HIL_MVE_STRIPS_TURN(__VA_ARGS__, "-32")                                                        \
    HIL_MVE_STRIPS_TURN(__VA_ARGS__, "-16")                                                        \
    end ":\n"                                                                                      \
    HIL_MVE_CHECK_BYTES(end "b - " begin "b", "13 * (" bytes ")")                                  \
    HIL_MVE_STRIPS_NEXT_RUN
#define HIL_MVE_STRIPS_TURNS_OF_OTHERS(begin, end, bytes, ...)                                     \
    begin ":\n"                                                                                    \
    HIL_MVE_STRIPS_TURN(__VA_ARGS__, "32")                                                         \
    HIL_MVE_STRIPS_TURN(__VA_ARGS__, "48")                                                         \
    HIL_MVE_STRIPS_TURN(__VA_ARGS__, "64")                                                         \
    HIL_MVE_STRIPS_TURN(__VA_ARGS__, "80")                                                         \
    end ":\n"                                                                                      \
    HIL_MVE_CHECK_BYTES(end "b - " begin "b", "4 * (" bytes ")")                                   \
    HIL_MVE_STRIPS_NEXT_RUN

/* All channels; a run's jump leaves 64 bytes for the code behind the last run. */
#define HIL_MVE_STRIPS(mask, turns)                                                                \
    "push {r3-r11, lr}\n"                                                                          \
    "vpush {d8-d15}\n"                                                                             \
    "sub sp, #40\n"                                                                                \
    "add r11, r0, #208\n"                                                                                \
    ".p2align 2\n"                                                                                 \
    "1:\n"                                                                                         \
    "ldrd r0, r2, [r11, #96]\n"                                                                   \
    HIL_MVE_STRIPS_FILTERS                                                                         \
    "ldmia r2!, {r4, r6, r7, r9}\n"                                                                \
    "strd r0, r2, [r11, #96]\n"                                                                   \
    "vdup.32 q5, r4\n"                                                                             \
    "vdup.32 q6, r6\n"                                                                             \
    "vstrw.32 q6, [r11]\n"                                                                         \
    "vstrw.32 q6, [r11, #16]\n"                                                                    \
    "ldr.w r10, [r11, #120]\n"                                                                     \
    "2:\n"                                                                                         \
    "ldmia r10!, {r0, r2, r4, r6, r8}\n"                                                           \
    "cbz r6, 5f\n"                                                                                 \
    "str.w r10, [sp, #32]\n"                                                                       \
    "ldrd r1, r5, [r11, #104]\n"                                                                   \
    "add r1, r0\n"                                                                                 \
    "add r3, r1, r2\n"                                                                             \
    "add r5, r4\n"                                                                                 \
    mask                                                                                           \
    "add pc, r6\n"                                                                                 \
    "nop\n"                                                                                        \
    "5:\n"                                                                                         \
    "ldrd r0, r2, [r11, #104]\n"                                                                   \
    "ldrd r4, r6, [r11, #112]\n"                                                                   \
    "ldr.w r8, [r11, #96]\n"                                                                      \
    "add r0, r4\n"                                                                                 \
    "adds r2, #1\n"                                                                                \
    "strd r0, r2, [r11, #104]\n"                                                                   \
    "cmp r8, r6\n"                                                                                 \
    "bne.w 1b\n"                                                                                   \
    "add sp, #40\n"                                                                                \
    "vpop {d8-d15}\n"                                                                              \
    "pop {r3-r11, pc}\n"                                                                           \
    "6:\n"                                                                                         \
    ".space 64 - (6b - 5b)\n"                                                                      \
    turns

#define HIL_MVE_STRIPS_FUNCTION(name, ...)                                                         \
    __attribute__((naked, noipa, unused)) static void name(                                        \
        struct hil_mve_strips *strips __attribute__((unused))) {                                   \
        __asm__(HIL_MVE_STRIPS(__VA_ARGS__));                                                      \
    }

/* Of kinds of turns: near and far shifts, sums rounded twice and once. `bytes` are
 * those of a turn with near shifts that stores all. */
#define HIL_MVE_STRIPS_FUNCTIONS(name, mask, turns)                                                \
    HIL_MVE_STRIPS_FUNCTION(name, mask,                                               \
                            turns("vqrdmlash", HIL_MVE_STRIPS_NEAR, "0"))                          \
    HIL_MVE_STRIPS_FUNCTION(name##_far, mask,                                         \
                            turns("vqrdmlash", HIL_MVE_STRIPS_FAR, "4"))                           \
    HIL_MVE_STRIPS_FUNCTION(name##_once, mask,                                        \
                            turns("vqdmlash", HIL_MVE_STRIPS_NEAR, "0"))                           \
    HIL_MVE_STRIPS_FUNCTION(name##_far_once, mask,                                    \
                            turns("vqdmlash", HIL_MVE_STRIPS_FAR, "4"))
#define HIL_MVE_STRIPS_PAIRS(multiply, narrow, more)                                             \
    HIL_MVE_STRIPS_TURNS_OF_PAIRS("3", "4", "88 + " more, HIL_MVE_STRIPS_SUMS, multiply, narrow,            \
                       HIL_MVE_STRIPS_STORE)
#define HIL_MVE_STRIPS_SINGLES(multiply, narrow, more)                                           \
    HIL_MVE_STRIPS_PAIRS(multiply, narrow, more)                                                 \
    HIL_MVE_STRIPS_TURNS_OF_OTHERS("7", "8", "88 + " more, HIL_MVE_STRIPS_SUMS, multiply, narrow,           \
                        HIL_MVE_STRIPS_STORE)
#define HIL_MVE_STRIPS_COLUMN(multiply, narrow, more)                                            \
    HIL_MVE_STRIPS_PAIRS(multiply, narrow, more)                                                 \
    HIL_MVE_STRIPS_TURNS_OF_OTHERS("7", "8", "96 + " more, HIL_MVE_STRIPS_SUMS_COLUMN, multiply, narrow,      \
                        HIL_MVE_STRIPS_STORE)
#define HIL_MVE_STRIPS_MASKED(multiply, narrow, more)                                            \
    HIL_MVE_STRIPS_TURNS_OF_PAIRS("3", "4", "92 + " more, HIL_MVE_STRIPS_SUMS, multiply, narrow,            \
                       HIL_MVE_STRIPS_STORE_MASKED)                                                \
    HIL_MVE_STRIPS_TURNS_OF_OTHERS("7", "8", "92 + " more, HIL_MVE_STRIPS_SUMS, multiply, narrow,           \
                        HIL_MVE_STRIPS_STORE_MASKED)
#define HIL_MVE_STRIPS_STRIDED(multiply, narrow, more)                                            \
    HIL_MVE_STRIPS_TURNS_OF_PAIRS("3", "4", "112 + " more, HIL_MVE_STRIPS_SUMS_STRIDED, multiply, narrow,   \
                       HIL_MVE_STRIPS_STORE)                                                       \
    HIL_MVE_STRIPS_TURNS_OF_OTHERS("7", "8", "112 + " more, HIL_MVE_STRIPS_SUMS_STRIDED, multiply, narrow,  \
                        HIL_MVE_STRIPS_STORE)
#define HIL_MVE_STRIPS_STRIDED_MASKED(multiply, narrow, more)                                     \
    HIL_MVE_STRIPS_TURNS_OF_PAIRS("3", "4", "116 + " more, HIL_MVE_STRIPS_SUMS_STRIDED, multiply, narrow,   \
                       HIL_MVE_STRIPS_STORE_MASKED)                                                \
    HIL_MVE_STRIPS_TURNS_OF_OTHERS("7", "8", "116 + " more, HIL_MVE_STRIPS_SUMS_STRIDED, multiply, narrow,  \
                        HIL_MVE_STRIPS_STORE_MASKED)
/* clang-format on */

HIL_MVE_STRIPS_FUNCTIONS(hil_mve_strips_pairs, "", HIL_MVE_STRIPS_PAIRS)
HIL_MVE_STRIPS_FUNCTIONS(hil_mve_strips_singles, "", HIL_MVE_STRIPS_SINGLES)
HIL_MVE_STRIPS_FUNCTIONS(hil_mve_strips_column, "", HIL_MVE_STRIPS_COLUMN)
HIL_MVE_STRIPS_FUNCTIONS(hil_mve_strips_masked, "vmsr p0, r8\n", HIL_MVE_STRIPS_MASKED)
HIL_MVE_STRIPS_FUNCTIONS(hil_mve_strips_strided, "", HIL_MVE_STRIPS_STRIDED)
HIL_MVE_STRIPS_FUNCTIONS(hil_mve_strips_strided_masked, "vmsr p0, r8\n",
                         HIL_MVE_STRIPS_STRIDED_MASKED)

#define HIL_MVE_STRIPS_OF(name)                                                                    \
    (p->far ? (p->once ? name##_far_once(strips) : name##_far(strips))                             \
            : (p->once ? name##_once(strips) : name(strips)))

/*@kernel
name = "hil_depthwise_strips_s8_mve"
requires = ["mve"]
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "4 * plane_h * (8 * strips + 9)"
order = ["rows band_h", "pixels band_h * out_w", "channels 8"]
reads = "channel window"
code = 2000
[cost.counts]
band = "batch * (out_h // band_h)"
eight = "band * ((in_c + 7) // 8)"
channel = "band * in_c"
run = "channel * band_runs"
turn = "channel * turns"
column_turn = "channel * column_turns"
masked_turn = "turn * masked"
far_turn = "(turn + column_turn) * far"
strided_turn = "turn * (stride - 1)"
row = "batch * ((in_c + 7) // 8) * (in_h + (out_h // band_h - 1) * (filter_h - stride))"
pair_of_row = "row * (in_w // 2)"
wide_pair = "pair_of_row * (1 - gathered)"
column_group = "eight * ((in_w + 3) // 4)"
filled = "batch * plane_h * (strips + 1)"
[cost.on.cortex-m55]
call = 100
eight = 60
channel = 22
run = 10
turn = 22
column_turn = 24
masked_turn = 1
far_turn = 1
strided_turn = 6
row = 3
pair_of_row = 5
wide_pair = 3
column_group = 20
filled = 4
@*/
struct hil_depthwise_strips_s8_mve {
    HIL_IMAGES_FIELDS;
    int32_t filter_h; /* at most 3 */
    int32_t filter_w; /* the same, of columns */
    int32_t stride;   /* 1 or 2 */
    int32_t pad_top;  /* rows by which the first window reaches above the image */
    int32_t pad_left; /* columns by which the first window reaches beyond the image */
    int32_t band_h;   /* output rows of a band, all alike */
    int32_t strips;   /* of a channel */
    int32_t plane_h;  /* rows of a strip, as far as patches reach */
    int32_t
        gathered;   /* 1: the first eight channels of two pixels lie within the reach of a gather */
    int32_t masked; /* 1: some outputs of turns are not stored */
    int32_t singles;       /* 1: the other kind of turns takes two parts of one strip */
    int32_t column;        /* 1: it takes the last column; 0 and 0: there is none */
    int32_t band_runs;     /* runs of a channel */
    int32_t turns;         /* of all runs, but those of a last column */
    int32_t column_turns;  /* of a last column */
    int32_t far;           /* 1: a shift is below -8 */
    int32_t once;          /* 1: sums are rounded once */
    int32_t in_zero_point; /* the input that stands for 0.0, which pixels outside the image have */
    const int8_t *filters; /* the head draws it */
    const int32_t *scales; /* the same */
    const int8_t *places;  /* the same */
    const int32_t *runs;   /* the same */
};

/* Some columns of pixels of eight channels, from their first rows to their last: up to two pairs, a
 * pixel before them that is the second of its pair, one behind them that is the first. A pair is
 * gathered in one register, or loaded to two. */
/* clang-format off */
#define HIL_MVE_STRIPS_SECOND                                                                      \
    "vldrb.u16 q0, [%[x]]\n"                                                                       \
    "add %[x], %[line]\n"                                                                          \
    "vstrb.16 q0, [%[to], %q[before]]\n"
#define HIL_MVE_STRIPS_GATHER(x, y) "vldrb.u8 q0, [%[" x "], %q[lanes]]\n"
#define HIL_MVE_STRIPS_LOAD(x, y)                                                                  \
    "vldrb.u16 q0, [%[" x "]]\n"                                                                   \
    "vldrb.u16 q1, [%[" y "]]\n"                                                                   \
    "add %[" y "], %[line]\n"                                                                      \
    "vsli.16 q0, q1, #8\n"
#define HIL_MVE_STRIPS_PAIR(load)                                                                  \
    load("x_1", "y_1")                                                                             \
    "add %[x_1], %[line]\n"                                                                        \
    "vstrh.16 q0, [%[to], %q[right]]\n"                                                            \
    "vstrh.16 q0, [%[to], %q[left]]\n"
#define HIL_MVE_STRIPS_TWO_PAIRS(load)                                                             \
    HIL_MVE_STRIPS_PAIR(load)                                                                      \
    load("x_2", "y_2")                                                                             \
    "add %[x_2], %[line]\n"                                                                        \
    "vstrh.16 q0, [%[to], %q[next_right]]\n"                                                       \
    "vstrh.16 q0, [%[to], %q[next_left]]\n"
#define HIL_MVE_STRIPS_FIRST(right, left)                                                          \
    "vldrb.u16 q0, [%[x]]\n"                                                                       \
    "add %[x], %[line]\n"                                                                          \
    "vstrb.16 q0, [%[to], %q[" right "]]\n"                                                        \
    "vstrb.16 q0, [%[to], %q[" left "]]\n"
/* The same behind two pairs, in the last strip. */
#define HIL_MVE_STRIPS_BEHIND                                                                      \
    "vldrb.u16 q0, [%[y_1]]\n"                                                                     \
    "add %[y_1], %[line]\n"                                                                        \
    "vstrb.16 q0, [%[to], %q[behind]]\n"
#define HIL_MVE_STRIPS_ROWS_OF(columns, last, clobbered)                                           \
    __asm__ volatile("dls lr, %[turns]\n"                                                          \
                     "1:\n" columns                                                                \
                     "add %[to], #4\n"                                                             \
                     "le lr, 1b\n"                                                                 \
                     : [x] "+&l"(x), [x_1] "+&l"(x_1), [x_2] "+&l"(x_2), [y_1] "+&l"(y_1),         \
                       [y_2] "+&l"(y_2), [to] "+&r"(place), [turns] "+&r"(turns)                   \
                     : [lanes] "w"(lanes), [right] "w"(right), [left] "w"(left),                   \
                       [before] "w"(before), [next_right] "w"(next_right),                         \
                       [next_left] "w"(next_left), [behind] "w"(last), [line] "r"(line)          \
                     : "q0", clobbered, "memory")
#define HIL_MVE_STRIPS_ROWS(columns) HIL_MVE_STRIPS_ROWS_OF(columns, lanes, "q1")
/* clang-format on */

/* Lays out the pixels of eight channels under `row_count` input rows from row `row` on, without
 * what lies around the image. */
HIL_INLINE_BLOCK void hil_mve_strips_lay_out(const struct hil_depthwise_strips_s8_mve *p,
                                             const int8_t *image, int32_t row, int32_t row_count,
                                             int8_t *strips) {
    const int32_t strip = 4 * p->plane_h;
    const int32_t above = row < 0 ? -row : 0;
    const int32_t below = row + row_count > p->in_h ? row + row_count - p->in_h : 0;
    const int32_t rows = row_count - above - below;
    const int32_t fitting = 2 * (p->strips + 1) - p->pad_left;
    const int32_t width = p->in_w < fitting ? p->in_w : fitting;
    const int32_t step = p->in_c;
    const int32_t line = p->in_w * p->in_c;
    const int32_t second = p->pad_left % 2;
    /* From the byte before a pair's place in the right half of a strip. */
    const uint16x8_t before = vmulq_n_u16(vidupq_n_u16(0, 1), (uint16_t)(strip * (p->strips + 1)));
    const uint16x8_t right = vaddq_n_u16(before, 1);
    const uint16x8_t left = vaddq_n_u16(right, (uint16_t)(strip - 2));
    const uint16x8_t next_right = vaddq_n_u16(right, (uint16_t)strip);
    const uint16x8_t next_left = vaddq_n_u16(left, (uint16_t)strip);
    const uint16x8_t behind = vaddq_n_u16(next_right, (uint16_t)strip);
    /* Bytes of both pixels by channel. */
    const uint16x8_t lanes =
        vaddq_n_u16(vmulq_n_u16(vidupq_n_u16(0, 1), 0x101), (uint16_t)(step << 8));
    if (rows <= 0 || width <= 0) {
        return;
    }
    const int8_t *from = image + (row + above) * line;
    int8_t *to = strips + (p->pad_left + 1) / 2 * strip + 4 * above + 1;
    int32_t pairs = (width - second) / 2;
    int32_t first = (width - second) % 2;
    /* Two pairs between single pixels, of which the last is in no strip but the last. */
    const int32_t whole = pairs == 2 && first && second && p->strips == 3;
    for (int32_t begin = second; begin || pairs > 0 || first; begin = 0) {
        const int8_t *x = from;
        const int8_t *x_1 = from + begin * step;
        const int8_t *y_1 = x_1 + step;
        const int8_t *x_2 = y_1 + step;
        const int8_t *y_2 = x_2 + step;
        int8_t *place = to;
        register int32_t turns __asm__("lr") = rows; /* there are hardly others */
        const int32_t taken = pairs < 2 ? pairs : 2;
        if (begin) {
            if (taken == 0) {
                HIL_MVE_STRIPS_ROWS(HIL_MVE_STRIPS_SECOND);
            } else if (p->gathered && whole) {
                /* The place of a pixel behind two pairs. */
                y_1 = y_2 + step;
                HIL_MVE_STRIPS_ROWS_OF(HIL_MVE_STRIPS_SECOND HIL_MVE_STRIPS_TWO_PAIRS(
                                           HIL_MVE_STRIPS_GATHER) HIL_MVE_STRIPS_BEHIND,
                                       behind, "cc");
                break;
            } else if (!p->gathered) {
                /* cppcheck-suppress knownConditionTrueFalse */
                if (taken == 1) {
                    HIL_MVE_STRIPS_ROWS(
                        HIL_MVE_STRIPS_SECOND HIL_MVE_STRIPS_PAIR(HIL_MVE_STRIPS_LOAD));
                } else {
                    HIL_MVE_STRIPS_ROWS(
                        HIL_MVE_STRIPS_SECOND HIL_MVE_STRIPS_TWO_PAIRS(HIL_MVE_STRIPS_LOAD));
                }
            } else if (taken == 1) { /* cppcheck-suppress knownConditionTrueFalse */
                HIL_MVE_STRIPS_ROWS(
                    HIL_MVE_STRIPS_SECOND HIL_MVE_STRIPS_PAIR(HIL_MVE_STRIPS_GATHER));
            } else {
                HIL_MVE_STRIPS_ROWS(
                    HIL_MVE_STRIPS_SECOND HIL_MVE_STRIPS_TWO_PAIRS(HIL_MVE_STRIPS_GATHER));
            }
        } else if (taken == 2) { /* cppcheck-suppress knownConditionTrueFalse */
            if (p->gathered) {
                HIL_MVE_STRIPS_ROWS(HIL_MVE_STRIPS_TWO_PAIRS(HIL_MVE_STRIPS_GATHER));
            } else {
                HIL_MVE_STRIPS_ROWS(HIL_MVE_STRIPS_TWO_PAIRS(HIL_MVE_STRIPS_LOAD));
            }
        } else {
            x += 2 * taken * step;
            if (taken == 0) {
                HIL_MVE_STRIPS_ROWS(HIL_MVE_STRIPS_FIRST("right", "left"));
            } else if (!p->gathered) {
                if (first) {
                    HIL_MVE_STRIPS_ROWS(HIL_MVE_STRIPS_PAIR(HIL_MVE_STRIPS_LOAD)
                                            HIL_MVE_STRIPS_FIRST("next_right", "next_left"));
                } else {
                    HIL_MVE_STRIPS_ROWS(HIL_MVE_STRIPS_PAIR(HIL_MVE_STRIPS_LOAD));
                }
            } else if (first) {
                HIL_MVE_STRIPS_ROWS(HIL_MVE_STRIPS_PAIR(HIL_MVE_STRIPS_GATHER)
                                        HIL_MVE_STRIPS_FIRST("next_right", "next_left"));
            } else {
                HIL_MVE_STRIPS_ROWS(HIL_MVE_STRIPS_PAIR(HIL_MVE_STRIPS_GATHER));
            }
            first = 0;
        }
        pairs -= taken;
        from += (begin + 2 * taken) * step;
        to += taken * strip;
    }
}

HIL_INLINE void hil_depthwise_strips_s8_mve(const struct hil_depthwise_strips_s8_mve *p,
                                            const int8_t *in, int8_t *out, void *scratch) {
    const int32_t line = p->out_w * p->in_c;
    const int32_t strip = 4 * p->plane_h;
    const int32_t channel_bytes = strip * (p->strips + 1);
    int8_t *const strips_begin = (int8_t *)scratch;
    struct hil_mve_strips shared = {
        .places = {{0}},
        .bias = {0},
        .other_places = {{0}},
        .filters = NULL,
        .scales = NULL,
        .strips = NULL,
        .out = NULL,
        .channel_bytes = channel_bytes,
        .end = NULL,
        .runs = p->runs,
    };
    struct hil_mve_strips *const strips = &shared;
    memcpy(shared.places, p->places, sizeof shared.places);
    memcpy(shared.other_places, p->places + sizeof shared.places, sizeof shared.other_places);
    const int8x16_t around = vdupq_n_s8((int8_t)p->in_zero_point);
    for (int32_t images = p->batch; images > 0; images--) {
        int32_t y = -p->pad_top;
        for (int32_t left = p->out_h; left > 0; left -= p->band_h) {
            const int32_t rows = (p->band_h - 1) * p->stride + p->filter_h;
            if (left == p->out_h || y + rows > p->in_h) {
                hil_mve_fill(strips_begin, around,
                             HIL_MVE_STRIPS_CHANNELS * channel_bytes / HIL_MVE_CHUNK);
            }
            shared.filters = p->filters;
            shared.scales = p->scales;
            for (int32_t channel = 0; channel < p->in_c; channel += HIL_MVE_STRIPS_CHANNELS) {
                const int whole = p->in_c % HIL_MVE_STRIPS_CHANNELS == 0 ||
                                  channel + HIL_MVE_STRIPS_CHANNELS <= p->in_c;
                const int32_t count =
                    whole ? HIL_MVE_STRIPS_CHANNELS : p->in_c % HIL_MVE_STRIPS_CHANNELS;
                const int32_t before = HIL_MVE_STRIPS_CHANNELS - count;
                hil_mve_strips_lay_out(p, in + channel - before, y, rows, strips_begin);
                shared.strips = strips_begin + before * channel_bytes;
                shared.out = out + channel;
                shared.end = shared.filters + 16 * count;
                if (p->stride == 2 && p->masked) {
                    HIL_MVE_STRIPS_OF(hil_mve_strips_strided_masked);
                } else if (p->stride == 2) {
                    HIL_MVE_STRIPS_OF(hil_mve_strips_strided);
                } else if (p->masked) {
                    HIL_MVE_STRIPS_OF(hil_mve_strips_masked);
                } else if (p->column) {
                    HIL_MVE_STRIPS_OF(hil_mve_strips_column);
                } else if (p->singles) {
                    HIL_MVE_STRIPS_OF(hil_mve_strips_singles);
                } else {
                    HIL_MVE_STRIPS_OF(hil_mve_strips_pairs);
                }
            }
            y += p->band_h * p->stride;
            out += p->band_h * line;
        }
        in += p->in_h * p->in_w * p->in_c;
    }
}

#endif
