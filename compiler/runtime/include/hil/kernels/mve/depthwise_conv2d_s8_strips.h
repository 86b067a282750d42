/* Depthwise convolution of int8 images of eight channels or more with filters of at most 3x3 on
 * Helium, as dot products over the taps: the pixels under a band of output rows are laid out
 * channel by channel in strips four columns wide, so that sixteen bytes that follow each other are
 * a patch of 4x4 pixels. Of outputs over the whole range of int8 whose values below the zero point
 * clamp.
 *
 * Tile: 8 outputs x 1 channel, of two places in the strips: of a strip and of its right half with
 * the left half of the next one, which a gather fetches, or of two parts of one strip.
 *
 *              2x2 outputs of a patch at each place, the filter moved within it
 *              0  1  2  3     f f f .   . f f f           r0 r8   upper left    q0 filter
 *              4  5  6  7     f f f .   . f f f           r2 r10  upper right   q1 moved right
 *              8  9  10 11    f f f .   . f f f           r4 r12  lower left    q2 moved down
 *              12 13 14 15    . . . .   . . . .           r6 lr   lower right   q3 both
 *              last column of an odd number: 2x1 outputs of four patches below each other
 *              last row of five columns, where the rows before it are whole turns: q0 and q1 of
 *              three patches beside each other
 *              stride 2: 4x1 outputs at each place, of four patches below each other
 *
 * Registers, at the top of a turn: the sums, from biases; q0 to q3 filters, q4 offsets of a patch
 * in two strips, q5 multiplier, q6 q7 patches, then sums; r1 place; r3 place in the runs, or the
 * second place where it is part of the same strip; r5 outputs; r7 zero point, moved to the left as
 * far as products are moved to the right; r9 shift; r11 struct hil_mve_strips; p0 outputs that are
 * stored (masked). Stack: sums at 0, place in the runs at 32, d8-d15 at 40.
 *
 * Data: packed by `_depthwise_strips()`.
 *
 *   filters  int8, 16 bytes a channel: 5 zeros, rows of three taps with a zero between; behind all
 *            of them 5 zeros. From byte 5 of a channel on lies its filter as above, from 4, 1 and 0
 *            on the moved ones
 *   scales   int32 [channel][4]: multiplier, bias, moved zero point, shift
 *   places   uint16 [18][8]: of the outputs of a turn, of 13 turns of the one kind, 4 of the other;
 *            those of the two places alternate; of a last column rows 0 4 1 5 2 6 3 7; of a last
 *            row columns 0 2 1 3 4 4 4 4. Where a run
 *            begins above the image, its first turn's go where the second one's will be
 *   runs     int32 [..][6], turns one below the other: to their place in the strips and to their
 *            outputs from those behind the run before, with the distance to the second place
 *            between them, bytes of code, mask, bytes of turns where the code is what goes before
 *            two parts of a strip; the last one leads to the next channel, or,
 *            where a channel has several filters, to the same channel again
 *   strips   in scratch, int8 [8 channels][strips][plane_h][4], the zero point around the image
 *
 * Strip s begins at column 4s of what the windows reach.
 *
 * Turns are slots of code, of which a run's jump skips those that it does not have: their size is
 * checked by the assembler.
 *
 * Order: bands of rows; eight channels of the image at a time their pixels are read, then the
 * outputs of all their filters written.
 * The last eight of a number that is no whole eights begin among those before, of which nothing is
 * computed again.
 *
 * Bounds: at most 16 products, 16 * 128 * 128 = 2^18, and the bias, below 2^31
 * (`_check_quantized()`). Shifts are -23 to -1, so a zero point of -128 is above -2^31 when moved.
 * `_depthwise_strips()` checks that offsets of outputs and of strips are 16 bits.
 *
 * Output: as in matmul_s8_8x2.h: vqrdmlash adds the moved zero point to the rounded product before
 * the shift, which is exact as it is a multiple of what is shifted out. Where no shift is below -8,
 * products saturate to int16 first (`far` is 0). The functions `_once` round once.
 *
 * Scratch: the strips, and what a run that begins above the image and the last patch reach.
 *
 * Cost: 21 instructions a turn (72 MACs of 3x3), 23 of a last column, 27 with stride 2, one more
 * where shifts are far or outputs masked; 18 a channel and 5 a run. Measured (`hil bench
 * --per-layer` on mps3-an547, instructions under QEMU) a MAC: 25x5x64 (kws) 0.369, 24x24x32 (vww)
 * 0.338, 12x12x64 0.376, 48x48x16 with stride 2 0.529. Fewer instructions are not fewer cycles
 * where one loads both vectors of sums: it takes as long as two loads.
 *
 * Tests: no twin in C; the numpy reference gives what must come out (tests/board/test_kernels.py,
 * buffers between guard bytes). Layout: tests/c/test_kernel_layouts.py.
 */
#ifndef HIL_KERNELS_MVE_DEPTHWISE_CONV2D_S8_STRIPS_H
#define HIL_KERNELS_MVE_DEPTHWISE_CONV2D_S8_STRIPS_H

#include <arm_mve.h>
#include <string.h>

#include "hil/kernels/mve/columns_s8.h"

/* Turns that are written out, of each kind; the last of the others is that of a last row. */
#define HIL_MVE_STRIPS_TURNS 13
#define HIL_MVE_STRIPS_OTHER_TURNS 5
#define HIL_MVE_STRIPS_CHANNELS 8
/* Bytes before the strips that runs which begin above the image read. */
#define HIL_MVE_STRIPS_ABOVE 32

/* What some channels share. The assembly knows the offsets. */
struct hil_mve_strips {
    uint16_t places[HIL_MVE_STRIPS_TURNS][8];             /*   0 */
    int32_t bias[8];                                      /* 208: where the assembly's place is */
    uint16_t other_places[HIL_MVE_STRIPS_OTHER_TURNS][8]; /* 240 */
    const int8_t *filters;                                /* 320: of the next channel */
    const int32_t *scales;                                /* 324 */
    const int8_t *end;                                    /* 328: of the filters */
    const int32_t *runs;                                  /* 332 */
    uint16_t halves[8];                                   /* 336: of a patch in two strips */
    const int8_t *strips;                                 /* 352: of the first channel */
    int8_t *out;                                          /* 356 */
    int32_t strip_before;                                 /* 360: from a strip to the one before */
};

HIL_MVE_AT(hil_mve_strips, places, 0);
HIL_MVE_AT(hil_mve_strips, bias, 208);
HIL_MVE_AT(hil_mve_strips, other_places, 240);
HIL_MVE_AT(hil_mve_strips, filters, 320);
HIL_MVE_AT(hil_mve_strips, scales, 324);
HIL_MVE_AT(hil_mve_strips, end, 328);
HIL_MVE_AT(hil_mve_strips, runs, 332);
HIL_MVE_AT(hil_mve_strips, halves, 336);
HIL_MVE_AT(hil_mve_strips, strips, 352);
HIL_MVE_AT(hil_mve_strips, out, 356);
HIL_MVE_AT(hil_mve_strips, strip_before, 360);

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
    "vldrh.u16 q7, [r1, q4]\n"                                                                     \
    HIL_MVE_STRIPS_BIASES                                                                          \
    "vldrb.8 q6, [r1], #8\n"                                                                       \
    HIL_MVE_STRIPS_EIGHT
#define HIL_MVE_STRIPS_SUMS_SINGLE                                                                 \
    "vldrb.8 q6, [r1], #8\n"                                                                       \
    HIL_MVE_STRIPS_BIASES                                                                          \
    "vldrb.8 q7, [r3], #8\n"                                                                       \
    HIL_MVE_STRIPS_EIGHT
#define HIL_MVE_STRIPS_EIGHT                                                                       \
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

/* The last row of two strips, the second one's first output in four sums. */
#define HIL_MVE_STRIPS_SUMS_CORNER                                                                 \
    "ldr.w r0, [r11, #152]\n"                                                                      \
    "add r0, r1\n"                                                                                 \
    "vldrb.8 q6, [r0]\n"                                                                           \
    "vldrh.u16 q7, [r0, q4]\n"                                                                     \
    HIL_MVE_STRIPS_BIASES                                                                          \
    "vmladava.s8 r0, q6, q0\n"                                                                     \
    "vmladava.s8 r2, q6, q1\n"                                                                     \
    "vldrb.8 q6, [r1]\n"                                                                           \
    "vmladava.s8 r8, q7, q0\n"                                                                     \
    "vmladava.s8 r10, q7, q1\n"                                                                    \
    "vmladava.s8 r4, q6, q0\n"                                                                     \
    "vmladava.s8 r6, q6, q0\n"                                                                     \
    "vmladava.s8 r12, q6, q0\n"                                                                    \
    "vmladava.s8 lr, q6, q0\n"
#define HIL_MVE_STRIPS_SUMS_STRIDED                                                                \
    "vldrh.u16 q7, [r1, q4]\n"                                                                     \
    HIL_MVE_STRIPS_BIASES                                                                          \
    HIL_MVE_STRIPS_TWO("r0", "r8")                                                                 \
    HIL_MVE_STRIPS_TWO("r2", "r10")                                                                \
    HIL_MVE_STRIPS_TWO("r4", "r12")                                                                \
    "vldrb.8 q6, [r1], #8\n"                                                                       \
    "vmladava.s8 lr, q7, q0\n"                                                                     \
    "vmladava.s8 r6, q6, q0\n"
#define HIL_MVE_STRIPS_TWO(first, second)                                                          \
    "vldrb.8 q6, [r1], #8\n"                                                                       \
    "vmladava.s8 " second ", q7, q0\n"                                                             \
    "vldrh.u16 q7, [r1, q4]\n"                                                                     \
    "vmladava.s8 " first ", q6, q0\n"
#define HIL_MVE_STRIPS_SUMS_STRIDED_SINGLE                                                         \
    HIL_MVE_STRIPS_BIASES                                                                          \
    HIL_MVE_STRIPS_FOUR("r1", "r0", "r2", "r4", "r6")                                              \
    HIL_MVE_STRIPS_FOUR("r3", "r8", "r10", "r12", "lr")
#define HIL_MVE_STRIPS_FOUR(x, first, second, third, fourth)                                       \
    "vldrb.8 q6, [" x ", #8]\n"                                                                    \
    "vldrb.8 q7, [" x ", #16]\n"                                                                   \
    "vmladava.s8 " second ", q6, q0\n"                                                             \
    "vldrb.8 q6, [" x ", #24]\n"                                                                   \
    "vmladava.s8 " third ", q7, q0\n"                                                              \
    "vldrb.8 q7, [" x "], #32\n"                                                                   \
    "vmladava.s8 " fourth ", q6, q0\n"                                                             \
    "vmladava.s8 " first ", q7, q0\n"
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
    "vldmia sp, {d12-d15}\n"                                                                       \
    multiply ".s32 q6, q5, r7\n"                                                                   \
    multiply ".s32 q7, q5, r7\n"                                                                   \
    narrow                                                                                         \
    "vldrh.u16 q7, [r11, #" places "]\n"                                                           \
    store

/* Turns from label `begin` on, then the next run. */
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
    "b.w 2b\n"
#define HIL_MVE_STRIPS_TURNS_OF_SINGLES(...)                                                       \
    HIL_MVE_STRIPS_TURNS_OF_OTHERS(__VA_ARGS__)                                                    \
    "ldr.w r3, [sp, #32]\n"                                                                        \
    "b.w 2b\n"
#define HIL_MVE_STRIPS_TURNS_OF_CORNER(begin, end, bytes, sums, ...)                               \
    HIL_MVE_STRIPS_TURNS_OF_OTHERS(begin, end, bytes, sums, __VA_ARGS__)                           \
    HIL_MVE_STRIPS_TURN(HIL_MVE_STRIPS_SUMS_CORNER, __VA_ARGS__, "96")                             \
    "b.w 2b\n"
#define HIL_MVE_STRIPS_TURNS_OF_COLUMN(...)                                                        \
    HIL_MVE_STRIPS_TURNS_OF_OTHERS(__VA_ARGS__)                                                    \
    "b.w 2b\n"
#define HIL_MVE_STRIPS_TURNS_OF_OTHERS(begin, end, bytes, ...)                                     \
    begin ":\n"                                                                                    \
    HIL_MVE_STRIPS_TURN(__VA_ARGS__, "32")                                                         \
    HIL_MVE_STRIPS_TURN(__VA_ARGS__, "48")                                                         \
    HIL_MVE_STRIPS_TURN(__VA_ARGS__, "64")                                                         \
    HIL_MVE_STRIPS_TURN(__VA_ARGS__, "80")                                                         \
    end ":\n"                                                                                      \
    HIL_MVE_CHECK_BYTES(end "b - " begin "b", "4 * (" bytes ")")

/* All channels; 64 bytes behind a run's jump are the code behind the last run, where the first
 * channel begins too, and that before a run of a single strip. */
#define HIL_MVE_STRIPS(mask, turns)                                                                \
    "push {r3-r11, lr}\n"                                                                          \
    "vpush {d8-d15}\n"                                                                             \
    "sub sp, #40\n"                                                                                \
    "add r11, r0, #208\n"                                                                          \
    "vldrh.u16 q4, [r11, #128]\n"                                                                  \
    "ldrd r1, r5, [r11, #144]\n"                                                                   \
    "b.w 5f\n"                                                                                     \
    ".p2align 2\n"                                                                                 \
    "1:\n"                                                                                         \
    HIL_MVE_STRIPS_FILTERS                                                                         \
    "ldmia r2!, {r4, r6, r7, r9}\n"                                                                \
    "strd r0, r2, [r11, #112]\n"                                                                   \
    "vdup.32 q5, r4\n"                                                                             \
    "vdup.32 q6, r6\n"                                                                             \
    "vstrw.32 q6, [r11]\n"                                                                         \
    "vstrw.32 q6, [r11, #16]\n"                                                                    \
    "2:\n"                                                                                         \
    "ldmia r3!, {r0, r2, r4, r6, r8, r10}\n"                                                       \
    "add r1, r0\n"                                                                                 \
    "add r5, r4\n"                                                                                 \
    mask                                                                                           \
    "add pc, r6\n"                                                                                 \
    "nop\n"                                                                                        \
    "5:\n"                                                                                         \
    "ldrd r0, r2, [r11, #112]\n"                                                                   \
    "ldrd r4, r3, [r11, #120]\n"                                                                   \
    "cmp r0, r4\n"                                                                                 \
    "bne.w 1b\n"                                                                                   \
    "add sp, #40\n"                                                                                \
    "vpop {d8-d15}\n"                                                                              \
    "pop {r3-r11, pc}\n"                                                                           \
    "6:\n"                                                                                         \
    ".space 52 - (6b - 5b)\n"                                                                      \
    "str.w r3, [sp, #32]\n"                                                                        \
    "add.w r3, r1, r2\n"                                                                           \
    "add pc, r10\n"                                                                                \
    "nop\n"                                                                                        \
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
    HIL_MVE_STRIPS_TURNS_OF_PAIRS("3", "4", "84 + " more, HIL_MVE_STRIPS_SUMS, multiply, narrow,            \
                       HIL_MVE_STRIPS_STORE)
#define HIL_MVE_STRIPS_SINGLES(multiply, narrow, more)                                           \
    HIL_MVE_STRIPS_PAIRS(multiply, narrow, more)                                                 \
    HIL_MVE_STRIPS_TURNS_OF_SINGLES("7", "8", "84 + " more, HIL_MVE_STRIPS_SUMS_SINGLE, multiply, narrow,           \
                        HIL_MVE_STRIPS_STORE)
#define HIL_MVE_STRIPS_COLUMN(multiply, narrow, more)                                            \
    HIL_MVE_STRIPS_PAIRS(multiply, narrow, more)                                                 \
    HIL_MVE_STRIPS_TURNS_OF_COLUMN("7", "8", "92 + " more, HIL_MVE_STRIPS_SUMS_COLUMN, multiply, narrow,      \
                        HIL_MVE_STRIPS_STORE)
#define HIL_MVE_STRIPS_CORNER(multiply, narrow, more)                                            \
    HIL_MVE_STRIPS_PAIRS(multiply, narrow, more)                                                 \
    HIL_MVE_STRIPS_TURNS_OF_CORNER("7", "8", "92 + " more, HIL_MVE_STRIPS_SUMS_COLUMN, multiply, narrow,      \
                        HIL_MVE_STRIPS_STORE)
#define HIL_MVE_STRIPS_MASKED(multiply, narrow, more)                                            \
    HIL_MVE_STRIPS_TURNS_OF_PAIRS("3", "4", "88 + " more, HIL_MVE_STRIPS_SUMS, multiply, narrow,            \
                       HIL_MVE_STRIPS_STORE_MASKED)                                                \
    HIL_MVE_STRIPS_TURNS_OF_SINGLES("7", "8", "88 + " more, HIL_MVE_STRIPS_SUMS_SINGLE, multiply, narrow,           \
                        HIL_MVE_STRIPS_STORE_MASKED)
#define HIL_MVE_STRIPS_STRIDED(multiply, narrow, more)                                            \
    HIL_MVE_STRIPS_TURNS_OF_PAIRS("3", "4", "108 + " more, HIL_MVE_STRIPS_SUMS_STRIDED, multiply, narrow,   \
                       HIL_MVE_STRIPS_STORE)                                                       \
    HIL_MVE_STRIPS_TURNS_OF_SINGLES("7", "8", "108 + " more, HIL_MVE_STRIPS_SUMS_STRIDED_SINGLE, multiply, narrow,  \
                        HIL_MVE_STRIPS_STORE)
#define HIL_MVE_STRIPS_STRIDED_MASKED(multiply, narrow, more)                                     \
    HIL_MVE_STRIPS_TURNS_OF_PAIRS("3", "4", "112 + " more, HIL_MVE_STRIPS_SUMS_STRIDED, multiply, narrow,   \
                       HIL_MVE_STRIPS_STORE_MASKED)                                                \
    HIL_MVE_STRIPS_TURNS_OF_SINGLES("7", "8", "112 + " more, HIL_MVE_STRIPS_SUMS_STRIDED_SINGLE, multiply, narrow,  \
                        HIL_MVE_STRIPS_STORE_MASKED)
/* clang-format on */

HIL_MVE_STRIPS_FUNCTIONS(hil_mve_strips_pairs, "", HIL_MVE_STRIPS_PAIRS)
HIL_MVE_STRIPS_FUNCTIONS(hil_mve_strips_singles, "", HIL_MVE_STRIPS_SINGLES)
HIL_MVE_STRIPS_FUNCTIONS(hil_mve_strips_column, "", HIL_MVE_STRIPS_COLUMN)
HIL_MVE_STRIPS_FUNCTIONS(hil_mve_strips_corner, "", HIL_MVE_STRIPS_CORNER)
HIL_MVE_STRIPS_FUNCTIONS(hil_mve_strips_masked, "vmsr p0, r8\n", HIL_MVE_STRIPS_MASKED)
HIL_MVE_STRIPS_FUNCTIONS(hil_mve_strips_strided, "", HIL_MVE_STRIPS_STRIDED)
HIL_MVE_STRIPS_FUNCTIONS(hil_mve_strips_strided_masked, "vmsr p0, r8\n",
                         HIL_MVE_STRIPS_STRIDED_MASKED)

#define HIL_MVE_STRIPS_OF(name)                                                                    \
    (p->far ? (p->once ? name##_far_once(strips) : name##_far(strips))                             \
            : (p->once ? name##_once(strips) : name(strips)))

/*@kernel
name = "hil_mve_depthwise_conv2d_s8_strips"
requires = ["mve"]
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "32 * plane_h * strips + 48"
order = ["rows band_h", "pixels band_h * out_w", "channels 8 * depth_multiplier"]
reads = "channel window"
code = 2000
[cost]
band = "batch * (out_h // band_h)"
eight = "band * ((in_c + 7) // 8)"
filters_of_plane = "band * in_c * (depth_multiplier > 1)"
channel = "band * in_c * depth_multiplier"
run = "channel * band_runs"
turn = "channel * turns"
column_turn = "channel * column_turns"
masked_turn = "turn * masked"
far_turn = "(turn + column_turn) * far"
strided_turn = "turn * (stride - 1)"
row = "batch * ((in_c + 7) // 8) * (in_h + (out_h // band_h - 1) * (filter_h - stride))"
pair_of_row = "row * (in_w // 2)"
narrow_pair = "pair_of_row * (2 - gathered)"
column_group = "eight * ((in_w + 7) // 8)"
filled = "batch * plane_h * strips"
@*/
struct hil_mve_depthwise_conv2d_s8_strips {
    HIL_IMAGES_FIELDS;
    int32_t filter_h;         /* at most 3 */
    int32_t filter_w;         /* the same, of columns */
    int32_t stride;           /* 1 or 2 */
    int32_t pad_top;          /* rows by which the first window reaches above the image */
    int32_t pad_left;         /* columns by which the first window reaches beyond the image */
    int32_t depth_multiplier; /* filters of a channel of the image */
    int32_t band_h;           /* output rows of a band, all alike */
    int32_t strips;           /* of a channel */
    int32_t plane_h;          /* rows of a strip, as far as patches reach */
    int32_t gathered;      /* pairs of pixels whose first eight channels a gather reaches: 0 to 2 */
    int32_t masked;        /* 1: some outputs of turns are not stored */
    int32_t singles;       /* 1: the other kind of turns takes two parts of one strip */
    int32_t column;        /* 1: it takes the last column; 0 and 0: there is none */
    int32_t corner;        /* 1: and behind it the last row of all columns */
    int32_t band_runs;     /* runs of a channel */
    int32_t turns;         /* of all runs, but those of a last column */
    int32_t column_turns;  /* of a last column, and of the last row behind it */
    int32_t far;           /* 1: a shift is below -8 */
    int32_t once;          /* 1: sums are rounded once */
    int32_t in_zero_point; /* the input that stands for 0.0, which pixels outside the image have */
    const int8_t *filters; /* the head draws it */
    const int32_t *scales; /* the same */
    const int8_t *places;  /* the same */
    const int32_t *runs;   /* the same */
};

/* Some columns of pixels of eight channels, from their first rows to their last: one that is the
 * second of its pair, up to two pairs, one that is the first of its pair; or four pairs. */
/* clang-format off */
#define HIL_MVE_STRIPS_PIXEL(x, place)                                                             \
    "vldrb.u16 q0, [%[" x "]]\n"                                                                   \
    "add %[" x "], %[line]\n"                                                                      \
    "vstrb.16 q0, [%[to], %q[" place "]]\n"
#define HIL_MVE_STRIPS_GATHER(x, lanes, place)                                                     \
    "vldrb.u8 q0, [%[" x "], %q[" lanes "]]\n"                                                     \
    "vstrh.16 q0, [%[to], %q[" place "]]\n"
#define HIL_MVE_STRIPS_PAIR(x, place)                                                              \
    HIL_MVE_STRIPS_GATHER(x, "lanes", place)                                                       \
    "add %[" x "], %[line]\n"
#define HIL_MVE_STRIPS_TWO_PAIRS(x, place, next)                                                   \
    HIL_MVE_STRIPS_GATHER(x, "lanes", place)                                                       \
    HIL_MVE_STRIPS_GATHER(x, "next_lanes", next)                                                   \
    "add %[" x "], %[line]\n"
#define HIL_MVE_STRIPS_ROWS(columns)                                                               \
    __asm__ volatile("dls lr, %[turns]\n"                                                          \
                     "1:\n" columns                                                                \
                     "add %[to], #4\n"                                                             \
                     "le lr, 1b\n"                                                                 \
                     : [x] "+&l"(x), [y] "+&l"(y), [z] "+&l"(z), [next] "+&l"(next),               \
                       [to] "+&r"(place), [turns] "+&r"(turns)                                     \
                     : [lanes] "w"(lanes), [next_lanes] "w"(next_lanes), [before] "w"(before),     \
                       [first] "w"(first), [second] "w"(second), [behind] "w"(behind),             \
                       [line] "r"(line)                                                            \
                     : "q0", "memory")
#define HIL_MVE_STRIPS_BEFORE HIL_MVE_STRIPS_PIXEL("x", "before")
#define HIL_MVE_STRIPS_BEHIND HIL_MVE_STRIPS_PIXEL("z", "behind")
/* With up to two pairs between them, of which each has its own place where no gather reaches both. */
#define HIL_MVE_STRIPS_ROWS_OF(one, other)                                                         \
    if (pairs == 0) {                                                                              \
        HIL_MVE_STRIPS_ROWS(one other);                                                            \
    } else if (pairs == 1) {                                                                       \
        HIL_MVE_STRIPS_ROWS(one HIL_MVE_STRIPS_PAIR("y", "first") other);                          \
    } else if (p->gathered == 2) {                                                                 \
        HIL_MVE_STRIPS_ROWS(one HIL_MVE_STRIPS_TWO_PAIRS("y", "first", "second") other);           \
    } else {                                                                                       \
        HIL_MVE_STRIPS_ROWS(one HIL_MVE_STRIPS_PAIR("y", "first")                                  \
                                HIL_MVE_STRIPS_PAIR("next", "second") other);                      \
    }
/* clang-format on */

/* Where a column of pixels lies in strips of `strip` bytes. */
HIL_INLINE uint32_t hil_mve_strips_place(int32_t column, int32_t strip) {
    return (uint32_t)column / 4 * (uint32_t)strip + (uint32_t)column % 4;
}

/* Lays out the pixels of eight channels under `row_count` input rows from row `row` on, without
 * what lies around the image. */
HIL_INLINE_BLOCK void hil_mve_strips_lay_out(const struct hil_mve_depthwise_conv2d_s8_strips *p,
                                             const int8_t *image, int32_t row, int32_t row_count,
                                             int8_t *strips) {
    const int32_t strip = 4 * p->plane_h;
    const int32_t above = row < 0 ? -row : 0;
    const int32_t below = row + row_count > p->in_h ? row + row_count - p->in_h : 0;
    const int32_t rows = row_count - above - below;
    const int32_t fitting = 4 * p->strips - p->pad_left;
    const int32_t step = p->in_c;
    const int32_t line = p->in_w * p->in_c;
    const uint16x8_t channels = vidupq_n_u16(0, 1);
    const uint16x8_t planes = vmulq_n_u16(channels, (uint16_t)(strip * p->strips));
    /* Bytes of both pixels of a pair by channel, and of the pair behind it. */
    const uint16x8_t lanes =
        vaddq_n_u16(vmulq_n_u16(channels, 0x101), (uint16_t)((step & 0xff) << 8));
    const uint16x8_t next_lanes = vaddq_n_u16(lanes, (uint16_t)((2 * step & 0xff) * 0x101));
    if (rows <= 0) {
        return;
    }
    const int8_t *from = image + (row + above) * line;
    int8_t *const to = strips + 4 * above;
    int32_t left = p->in_w < fitting ? p->in_w : fitting;
    for (int32_t column = p->pad_left; left > 0;) {
        /* Without gathers, two pixels one by one. */
        const int32_t alone = p->gathered == 0 || column % 2 != 0;
        const int32_t most = p->gathered == 0 ? 0 : p->gathered == 1 || alone ? 2 : 4;
        const int32_t there = (left - alone) / 2;
        const int32_t pairs = there >= most ? most : there < 3 ? there : 2;
        const int32_t others = left - alone - 2 * pairs;
        const int32_t last = pairs < 3 && (p->gathered == 0 ? others > 0 : others == 1);
        const int32_t pair = column + alone;
        const uint32_t base = hil_mve_strips_place(column, strip) & ~1U;
        const int32_t one = pairs == 4 ? pair + 4 : column;
        const int32_t other = pair + (pairs == 4 ? 6 : 2 * pairs);
        const uint16x8_t first =
            vaddq_n_u16(planes, (uint16_t)(hil_mve_strips_place(pair, strip) - base));
        const uint16x8_t second =
            vaddq_n_u16(planes, (uint16_t)(hil_mve_strips_place(pair + 2, strip) - base));
        const uint16x8_t before =
            vaddq_n_u16(planes, (uint16_t)(hil_mve_strips_place(one, strip) - base));
        const uint16x8_t behind =
            vaddq_n_u16(planes, (uint16_t)(hil_mve_strips_place(other, strip) - base));
        int8_t *place = to + base;
        const int8_t *x = from;
        const int8_t *y = x + alone * step;
        const int8_t *z = y + 2 * (pairs == 4 ? 2 : pairs) * step;
        const int8_t *next = y + 2 * step;
        register int32_t turns __asm__("lr") = rows; /* there are hardly others */
        if (pairs == 4) {
            HIL_MVE_STRIPS_ROWS(HIL_MVE_STRIPS_TWO_PAIRS("y", "first", "second")
                                    HIL_MVE_STRIPS_TWO_PAIRS("z", "before", "behind"));
        } else if (alone && last) {
            HIL_MVE_STRIPS_ROWS_OF(HIL_MVE_STRIPS_BEFORE, HIL_MVE_STRIPS_BEHIND);
        } else if (alone) {
            HIL_MVE_STRIPS_ROWS_OF(HIL_MVE_STRIPS_BEFORE, "");
        } else if (last) {
            HIL_MVE_STRIPS_ROWS_OF("", HIL_MVE_STRIPS_BEHIND);
        } else {
            HIL_MVE_STRIPS_ROWS_OF("", "");
        }
        const int32_t taken = alone + 2 * pairs + last;
        from += taken * step;
        column += taken;
        left -= taken;
    }
}

/* The outputs of the filters up to `end`. */
HIL_INLINE void hil_mve_strips_outputs(const struct hil_mve_depthwise_conv2d_s8_strips *p,
                                       struct hil_mve_strips *strips) {
    if (p->stride == 2 && p->masked) {
        HIL_MVE_STRIPS_OF(hil_mve_strips_strided_masked);
    } else if (p->stride == 2) {
        HIL_MVE_STRIPS_OF(hil_mve_strips_strided);
    } else if (p->masked) {
        HIL_MVE_STRIPS_OF(hil_mve_strips_masked);
    } else if (p->corner) {
        HIL_MVE_STRIPS_OF(hil_mve_strips_corner);
    } else if (p->column) {
        HIL_MVE_STRIPS_OF(hil_mve_strips_column);
    } else if (p->singles) {
        HIL_MVE_STRIPS_OF(hil_mve_strips_singles);
    } else {
        HIL_MVE_STRIPS_OF(hil_mve_strips_pairs);
    }
}

HIL_INLINE void
hil_mve_depthwise_conv2d_s8_strips(const struct hil_mve_depthwise_conv2d_s8_strips *p,
                                   const int8_t *in, int8_t *out, void *scratch) {
    const int32_t filters = p->depth_multiplier;
    const int32_t line = p->out_w * p->in_c * filters;
    const int32_t strip = 4 * p->plane_h;
    const int32_t channel_bytes = strip * p->strips;
    const int32_t all_strips = HIL_MVE_STRIPS_CHANNELS * p->strips;
    int8_t *const strips_begin = (int8_t *)scratch + HIL_MVE_STRIPS_ABOVE;
    struct hil_mve_strips shared; /* of which the assembly writes the biases */
    struct hil_mve_strips *const strips = &shared;
    shared.runs = p->runs;
    shared.strip_before = -strip;
    const int8_t *const others = p->places + sizeof shared.places;
    hil_mve_copy((int8_t *)shared.places, p->places, HIL_MVE_STRIPS_TURNS);
    hil_mve_copy((int8_t *)shared.other_places, others, HIL_MVE_STRIPS_OTHER_TURNS);
    /* The right half of a patch's row in one strip, the left half in the next. */
    for (int32_t i = 0; i < 8; i++) {
        shared.halves[i] = (uint16_t)(i % 2 == 0 ? 2 * i + 2 : 2 * i - 2 + strip);
    }
    const int8x16_t around = vdupq_n_s8((int8_t)p->in_zero_point);
    for (int32_t images = p->batch; images > 0; images--) {
        int32_t y = -p->pad_top;
        for (int32_t left = p->out_h; left > 0; left -= p->band_h) {
            const int32_t rows = (p->band_h - 1) * p->stride + p->filter_h;
            if (left == p->out_h) {
                hil_mve_fill(strips_begin, around, all_strips * strip / HIL_MVE_CHUNK);
            } else if (y + rows > p->in_h) {
                /* The rows that lie below the image. */
                const int32_t there = y < p->in_h ? 4 * (p->in_h - y) : 0;
                for (int32_t n = 0; n < all_strips; n++) {
                    for (int32_t at = there; at < 4 * rows; at += 4) {
                        memcpy(strips_begin + n * strip + at, &around, 4);
                    }
                }
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
                shared.out = out + channel * filters;
                /* All filters of one channel, or one filter of each. */
                const int32_t calls = filters == 1 ? 1 : count;
                const int32_t channels = filters == 1 ? count : filters;
                for (int32_t call = 0; call < calls; call++) {
                    shared.end = shared.filters + 16 * channels;
                    hil_mve_strips_outputs(p, strips);
                    shared.strips += channel_bytes;
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
