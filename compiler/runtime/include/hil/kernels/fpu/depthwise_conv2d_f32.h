/* Depthwise convolutions of float images by the floating-point unit: strips of four outputs of a
 * row, and single ones, four channels at a time, from a ring of padded rows.
 *
 * Tile: 4 outputs (or 1) x 4 channels x 3 taps of a row of the filter, or 1 tap.
 *
 *   output p, channel c: s(4p + c)    weights of tap t: s(16 + 4t + c)    a pixel: s28 to s31
 *
 * Registers: as drawn; r0 the block, r1 weights, r2 outputs, r3 bytes from an output to the next,
 * r4 next of the rows' places, r5 their end, r6 bytes from a column to the next, r8 place of the
 * first output's tap, r9 from where places are counted; r10 r11 r12 lr for what comes and goes.
 *
 * Data: packed by `ring_filters()`; per four channels [filter_h][filter_w][4 channels], then the
 * four biases; channels are filled up with zeros. Rows lie in scratch as ring_f32.h says,
 * each element as often as its channel has filters.
 *
 * Order: the rows under a row of outputs are taken before its first output is written.
 *
 * Bounds: those of columns_f32.h.
 *
 * Output: that of matvec_f32.h: compared with the ends of the type after an overflow, or if any of
 * the sums is infinite.
 *
 * Scratch: the rows that a window spans.
 *
 * Cost: 65 instructions for three taps (48 MACs), 72 with stride 2, 28 for one (16); 85 for sixteen
 * outputs, rectified; 0.4 an element taken. Measured by `python tools/measure.py wide`
 * (docs/reference/wide.md); a MAC (`hil bench` on mps2-an386, instructions under QEMU): 8x8x4 2.8,
 * with eight filters a channel 2.3.
 *
 * Tests: the twin is hil_fpu_strip_twin (tests/c/test_float_kernels.py), the assembly
 * tests/board/test_float_kernels.py.
 */
#ifndef HIL_KERNELS_FPU_DEPTHWISE_CONV2D_F32_H
#define HIL_KERNELS_FPU_DEPTHWISE_CONV2D_F32_H

#include "hil/kernels/fpu/ring_f32.h"

/*@kernel
name = "hil_fpu_depthwise_conv2d_f32"
requires = ["dsp", "fpu"]
inputs = ["float"]
outputs = ["float"]
scratch = "4 * line * lines + 4 * filter_h"
order = ["rows 1"]
reads = "window once"
code = 2026
[cost]
row = "batch * out_h"
taken = "batch * in_h * line"
repeated = "taken * (depth_multiplier > 1)"
strip = "row * (out_w // 4)"
rest = "row * (out_w % 4)"
strip_block = "strip * ((in_c * depth_multiplier + 3) // 4)"
rest_block = "rest * ((in_c * depth_multiplier + 3) // 4)"
strip_tap = "strip_block * filter_h * filter_w"
rest_tap = "rest_block * filter_h * filter_w"
@*/
struct hil_fpu_depthwise_conv2d_f32 {
    HIL_IMAGES_FIELDS;
    int32_t depth_multiplier; /* filters of a channel of the image */
    HIL_WINDOW_FIELDS;
    int32_t line;        /* floats of a row in scratch */
    int32_t lines;       /* rows that a window spans */
    int32_t columns;     /* of the image that windows reach, from the first */
    float out_min;       /* the least output */
    float out_max;       /* the largest output */
    const float *stream; /* of fours of channels, as drawn above */
};

/* Channels of the outputs. */
#define HIL_FPU_DEPTHWISE_OUT_C(p) ((p)->in_c * (p)->depth_multiplier)

/* Strips of a row of outputs, all channels. The assembly knows the offsets. */
struct hil_fpu_strip {
    const float *weights; /*  0 */
    float *out;           /*  4 */
    int32_t step;         /*  8: bytes from an output to the next */
    const int32_t *rows;  /* 12: of the filter: floats to the first output's first tap */
    const int32_t *end;   /* 16 */
    int32_t column;       /* 20: bytes from a column of the image to the next */
    const float *base;    /* 24: from where these are counted, the first channel */
    const float *zeros;   /* 28 */
    int32_t bounds;       /* 32 */
    float low;            /* 36 */
    float high;           /* 40 */
    uint32_t control;     /* 44: of the unit, as it was */
    int32_t blocks;       /* 48: of four channels */
    int32_t triples;      /* 52: of taps in a row of the filter */
    int32_t singles;      /* 56: taps that are left */
    int32_t stride;       /* 60: bytes from an output's columns to the next one's */
    int32_t dilation;     /* 64: bytes from a tap to the next */
};

#if HIL_FPU_ASSEMBLY

_Static_assert(offsetof(struct hil_fpu_strip, zeros) == 28, "depthwise_conv2d_f32.h");
_Static_assert(offsetof(struct hil_fpu_strip, control) == 44, "depthwise_conv2d_f32.h");
_Static_assert(offsetof(struct hil_fpu_strip, blocks) == 48, "depthwise_conv2d_f32.h");
_Static_assert(offsetof(struct hil_fpu_strip, triples) == 52, "depthwise_conv2d_f32.h");
_Static_assert(offsetof(struct hil_fpu_strip, dilation) == 64, "depthwise_conv2d_f32.h");

/* clang-format off */

/* Three taps of four outputs, a column or two apart, and of one; one tap. */
#define HIL_FPU_TRIPLE_1                                                                           \
    "mov r11, r8\n\t"                                                                              \
    "vldmia r1!, {s16-s27}\n\t"                                                                    \
    "vldmia r11, {s28-s31}\n\t"                                                                    \
    "add r11, r11, r6\n\t"                                                                         \
    "vmla.f32 s0, s16, s28\n\t" "vmla.f32 s1, s17, s29\n\t"                                        \
    "vmla.f32 s2, s18, s30\n\t" "vmla.f32 s3, s19, s31\n\t"                                        \
    "vldmia r11, {s28-s31}\n\t"                                                                    \
    "add r11, r11, r6\n\t"                                                                         \
    "vmla.f32 s0, s20, s28\n\t" "vmla.f32 s1, s21, s29\n\t"                                        \
    "vmla.f32 s2, s22, s30\n\t" "vmla.f32 s3, s23, s31\n\t"                                        \
    "vmla.f32 s4, s16, s28\n\t" "vmla.f32 s5, s17, s29\n\t"                                        \
    "vmla.f32 s6, s18, s30\n\t" "vmla.f32 s7, s19, s31\n\t"                                        \
    "vldmia r11, {s28-s31}\n\t"                                                                    \
    "add r11, r11, r6\n\t"                                                                         \
    "vmla.f32 s0, s24, s28\n\t" "vmla.f32 s1, s25, s29\n\t"                                        \
    "vmla.f32 s2, s26, s30\n\t" "vmla.f32 s3, s27, s31\n\t"                                        \
    "vmla.f32 s4, s20, s28\n\t" "vmla.f32 s5, s21, s29\n\t"                                        \
    "vmla.f32 s6, s22, s30\n\t" "vmla.f32 s7, s23, s31\n\t"                                        \
    "vmla.f32 s8, s16, s28\n\t" "vmla.f32 s9, s17, s29\n\t"                                        \
    "vmla.f32 s10, s18, s30\n\t" "vmla.f32 s11, s19, s31\n\t"                                      \
    "vldmia r11, {s28-s31}\n\t"                                                                    \
    "add r11, r11, r6\n\t"                                                                         \
    "vmla.f32 s4, s24, s28\n\t" "vmla.f32 s5, s25, s29\n\t"                                        \
    "vmla.f32 s6, s26, s30\n\t" "vmla.f32 s7, s27, s31\n\t"                                        \
    "vmla.f32 s8, s20, s28\n\t" "vmla.f32 s9, s21, s29\n\t"                                        \
    "vmla.f32 s10, s22, s30\n\t" "vmla.f32 s11, s23, s31\n\t"                                      \
    "vmla.f32 s12, s16, s28\n\t" "vmla.f32 s13, s17, s29\n\t"                                      \
    "vmla.f32 s14, s18, s30\n\t" "vmla.f32 s15, s19, s31\n\t"                                      \
    "vldmia r11, {s28-s31}\n\t"                                                                    \
    "add r11, r11, r6\n\t"                                                                         \
    "vmla.f32 s8, s24, s28\n\t" "vmla.f32 s9, s25, s29\n\t"                                        \
    "vmla.f32 s10, s26, s30\n\t" "vmla.f32 s11, s27, s31\n\t"                                      \
    "vmla.f32 s12, s20, s28\n\t" "vmla.f32 s13, s21, s29\n\t"                                      \
    "vmla.f32 s14, s22, s30\n\t" "vmla.f32 s15, s23, s31\n\t"                                      \
    "vldmia r11, {s28-s31}\n\t"                                                                    \
    "vmla.f32 s12, s24, s28\n\t" "vmla.f32 s13, s25, s29\n\t"                                      \
    "vmla.f32 s14, s26, s30\n\t" "vmla.f32 s15, s27, s31\n\t"
#define HIL_FPU_TRIPLE_2                                                                           \
    "mov r11, r8\n\t"                                                                              \
    "vldmia r1!, {s16-s27}\n\t"                                                                    \
    "vldmia r11, {s28-s31}\n\t"                                                                    \
    "add r11, r11, r6\n\t"                                                                         \
    "vmla.f32 s0, s16, s28\n\t" "vmla.f32 s1, s17, s29\n\t"                                        \
    "vmla.f32 s2, s18, s30\n\t" "vmla.f32 s3, s19, s31\n\t"                                        \
    "vldmia r11, {s28-s31}\n\t"                                                                    \
    "add r11, r11, r6\n\t"                                                                         \
    "vmla.f32 s0, s20, s28\n\t" "vmla.f32 s1, s21, s29\n\t"                                        \
    "vmla.f32 s2, s22, s30\n\t" "vmla.f32 s3, s23, s31\n\t"                                        \
    "vldmia r11, {s28-s31}\n\t"                                                                    \
    "add r11, r11, r6\n\t"                                                                         \
    "vmla.f32 s0, s24, s28\n\t" "vmla.f32 s1, s25, s29\n\t"                                        \
    "vmla.f32 s2, s26, s30\n\t" "vmla.f32 s3, s27, s31\n\t"                                        \
    "vmla.f32 s4, s16, s28\n\t" "vmla.f32 s5, s17, s29\n\t"                                        \
    "vmla.f32 s6, s18, s30\n\t" "vmla.f32 s7, s19, s31\n\t"                                        \
    "vldmia r11, {s28-s31}\n\t"                                                                    \
    "add r11, r11, r6\n\t"                                                                         \
    "vmla.f32 s4, s20, s28\n\t" "vmla.f32 s5, s21, s29\n\t"                                        \
    "vmla.f32 s6, s22, s30\n\t" "vmla.f32 s7, s23, s31\n\t"                                        \
    "vldmia r11, {s28-s31}\n\t"                                                                    \
    "add r11, r11, r6\n\t"                                                                         \
    "vmla.f32 s4, s24, s28\n\t" "vmla.f32 s5, s25, s29\n\t"                                        \
    "vmla.f32 s6, s26, s30\n\t" "vmla.f32 s7, s27, s31\n\t"                                        \
    "vmla.f32 s8, s16, s28\n\t" "vmla.f32 s9, s17, s29\n\t"                                        \
    "vmla.f32 s10, s18, s30\n\t" "vmla.f32 s11, s19, s31\n\t"                                      \
    "vldmia r11, {s28-s31}\n\t"                                                                    \
    "add r11, r11, r6\n\t"                                                                         \
    "vmla.f32 s8, s20, s28\n\t" "vmla.f32 s9, s21, s29\n\t"                                        \
    "vmla.f32 s10, s22, s30\n\t" "vmla.f32 s11, s23, s31\n\t"                                      \
    "vldmia r11, {s28-s31}\n\t"                                                                    \
    "add r11, r11, r6\n\t"                                                                         \
    "vmla.f32 s8, s24, s28\n\t" "vmla.f32 s9, s25, s29\n\t"                                        \
    "vmla.f32 s10, s26, s30\n\t" "vmla.f32 s11, s27, s31\n\t"                                      \
    "vmla.f32 s12, s16, s28\n\t" "vmla.f32 s13, s17, s29\n\t"                                      \
    "vmla.f32 s14, s18, s30\n\t" "vmla.f32 s15, s19, s31\n\t"                                      \
    "vldmia r11, {s28-s31}\n\t"                                                                    \
    "add r11, r11, r6\n\t"                                                                         \
    "vmla.f32 s12, s20, s28\n\t" "vmla.f32 s13, s21, s29\n\t"                                      \
    "vmla.f32 s14, s22, s30\n\t" "vmla.f32 s15, s23, s31\n\t"                                      \
    "vldmia r11, {s28-s31}\n\t"                                                                    \
    "vmla.f32 s12, s24, s28\n\t" "vmla.f32 s13, s25, s29\n\t"                                      \
    "vmla.f32 s14, s26, s30\n\t" "vmla.f32 s15, s27, s31\n\t"
#define HIL_FPU_TRIPLE_OF_ONE                                                                      \
    "mov r11, r8\n\t"                                                                              \
    "vldmia r1!, {s16-s27}\n\t"                                                                    \
    "vldmia r11, {s28-s31}\n\t"                                                                    \
    "add r11, r11, r6\n\t"                                                                         \
    "vmla.f32 s0, s16, s28\n\t" "vmla.f32 s1, s17, s29\n\t"                                        \
    "vmla.f32 s2, s18, s30\n\t" "vmla.f32 s3, s19, s31\n\t"                                        \
    "vldmia r11, {s28-s31}\n\t"                                                                    \
    "add r11, r11, r6\n\t"                                                                         \
    "vmla.f32 s0, s20, s28\n\t" "vmla.f32 s1, s21, s29\n\t"                                        \
    "vmla.f32 s2, s22, s30\n\t" "vmla.f32 s3, s23, s31\n\t"                                        \
    "vldmia r11, {s28-s31}\n\t"                                                                    \
    "vmla.f32 s0, s24, s28\n\t" "vmla.f32 s1, s25, s29\n\t"                                        \
    "vmla.f32 s2, s26, s30\n\t" "vmla.f32 s3, s27, s31\n\t"
#define HIL_FPU_SINGLE                                                                             \
    "mov r11, r8\n\t"                                                                              \
    "vldmia r1!, {s16-s19}\n\t"                                                                    \
    "vldmia r11, {s28-s31}\n\t"                                                                    \
    "add r11, r11, lr\n\t"                                                                         \
    "vmla.f32 s0, s16, s28\n\t" "vmla.f32 s1, s17, s29\n\t"                                        \
    "vmla.f32 s2, s18, s30\n\t" "vmla.f32 s3, s19, s31\n\t"                                        \
    "vldmia r11, {s28-s31}\n\t"                                                                    \
    "add r11, r11, lr\n\t"                                                                         \
    "vmla.f32 s4, s16, s28\n\t" "vmla.f32 s5, s17, s29\n\t"                                        \
    "vmla.f32 s6, s18, s30\n\t" "vmla.f32 s7, s19, s31\n\t"                                        \
    "vldmia r11, {s28-s31}\n\t"                                                                    \
    "add r11, r11, lr\n\t"                                                                         \
    "vmla.f32 s8, s16, s28\n\t" "vmla.f32 s9, s17, s29\n\t"                                        \
    "vmla.f32 s10, s18, s30\n\t" "vmla.f32 s11, s19, s31\n\t"                                      \
    "vldmia r11, {s28-s31}\n\t"                                                                    \
    "vmla.f32 s12, s16, s28\n\t" "vmla.f32 s13, s17, s29\n\t"                                      \
    "vmla.f32 s14, s18, s30\n\t" "vmla.f32 s15, s19, s31\n\t"
#define HIL_FPU_SINGLE_OF_ONE                                                                      \
    "mov r11, r8\n\t"                                                                              \
    "vldmia r1!, {s16-s19}\n\t"                                                                    \
    "vldmia r11, {s28-s31}\n\t"                                                                    \
    "vmla.f32 s0, s16, s28\n\t" "vmla.f32 s1, s17, s29\n\t"                                        \
    "vmla.f32 s2, s18, s30\n\t" "vmla.f32 s3, s19, s31\n\t"

/* Invalid where a sum is infinite. */
#define HIL_FPU_FOUR_LESS(a, b, c, d)                                                              \
    "vsub.f32 s16, " a ", " a "\n\t"                                                               \
    "vsub.f32 s16, " b ", " b "\n\t"                                                               \
    "vsub.f32 s16, " c ", " c "\n\t"                                                               \
    "vsub.f32 s16, " d ", " d "\n\t"
#define HIL_FPU_FLAGS                                                                              \
    "vmrs r11, fpscr\n\t"                                                                          \
    "tst r11, #5\n\t"                                                                              \
    "it ne\n\t"                                                                                    \
    "orrne r10, r10, #2\n\t"
#define HIL_FPU_STRIP_UNLESS                                                                       \
    HIL_FPU_FOUR_LESS("s0", "s1", "s2", "s3") HIL_FPU_FOUR_LESS("s4", "s5", "s6", "s7")            \
    HIL_FPU_FOUR_LESS("s8", "s9", "s10", "s11") HIL_FPU_FOUR_LESS("s12", "s13", "s14", "s15")      \
    HIL_FPU_FLAGS
#define HIL_FPU_ONE_UNLESS HIL_FPU_FOUR_LESS("s0", "s1", "s2", "s3") HIL_FPU_FLAGS
#define HIL_FPU_ONE_BIAS                                                                           \
    "vldmia r1!, {s16-s19}\n\t"                                                                    \
    "vadd.f32 s0, s0, s16\n\t"                                                                     \
    "vadd.f32 s1, s1, s17\n\t"                                                                     \
    "vadd.f32 s2, s2, s18\n\t"                                                                     \
    "vadd.f32 s3, s3, s19\n\t"
#define HIL_FPU_ONE_LIMITS(LIMIT) LIMIT("s0") LIMIT("s1") LIMIT("s2") LIMIT("s3")
#define HIL_FPU_ONE_STORE "vstmia r8, {s0-s3}\n\t"
#define HIL_FPU_ONE_RECTIFIED                                                                      \
    HIL_FPU_RECTIFY("s0, s1", "s2, s3")                                                            \
    "stmia r8, {r10, r11, r12, lr}\n\t"

/* All rows of a filter of three columns, and of any. */
#define HIL_FPU_ROWS_OF_THREE(TRIPLE)                                                              \
    "2:\n\t"                                                                                       \
    "ldr r8, [r4], #4\n\t"                                                                         \
    "add r8, r9, r8, lsl #2\n\t" TRIPLE                                                                    \
    "cmp r4, r5\n\t"                                                                               \
    "bne 2b\n\t"
#define HIL_FPU_ROWS_OF_ANY(TRIPLE, SINGLE)                                                        \
    "2:\n\t"                                                                                       \
    "ldr r8, [r4], #4\n\t"                                                                         \
    "ldr r10, [r0, #52]\n\t"                                                                       \
    "add r8, r9, r8, lsl #2\n\t"                                                                           \
    "cmp r10, #0\n\t"                                                                              \
    "beq 4f\n\t"                                                                                   \
    "3:\n\t" TRIPLE                                                                                \
    "ldr r11, [r0, #64]\n\t"                                                                       \
    "subs r10, r10, #1\n\t"                                                                        \
    "add r8, r8, r11\n\t"                                                                          \
    "add r8, r8, r11, lsl #1\n\t"                                                                  \
    "bne 3b\n\t"                                                                                   \
    "4:\n\t"                                                                                       \
    "ldr r10, [r0, #56]\n\t"                                                                       \
    "ldrd lr, r12, [r0, #60]\n\t"                                                                  \
    "cmp r10, #0\n\t"                                                                              \
    "beq 9f\n\t"                                                                                   \
    "5:\n\t" SINGLE                                                                                \
    "subs r10, r10, #1\n\t"                                                                        \
    "add r8, r8, r12\n\t"                                                                          \
    "bne 5b\n\t"                                                                                   \
    "9:\n\t"                                                                                       \
    "cmp r4, r5\n\t"                                                                               \
    "bne 2b\n\t"

#define HIL_FPU_STRIP(ROWS, ZEROED, BIAS, UNLESS, LIMITS, STORE, RECTIFIED)                        \
    __asm__ volatile(HIL_FPU_ENTER                                                                 \
                     "ldmia r0, {r1, r2, r3}\n\t"                                                  \
                     "ldr r5, [r0, #16]\n\t"                                                       \
                     "ldrd r6, r9, [r0, #20]\n\t"                                                  \
                     "1:\n\t"                                                                      \
                     "ldr r10, [r0, #28]\n\t"                                                      \
                     "ldr r4, [r0, #12]\n\t"                                                       \
                     "vldmia r10, {s0-" ZEROED "}\n\t" ROWS BIAS                                   \
                     "mov r8, r2\n\t"                                                              \
                     "add r2, r2, #16\n\t"                                                         \
                     "add r9, r9, #16\n\t"                                                         \
                     HIL_FPU_FINISH(UNLESS, LIMITS, STORE, RECTIFIED)                              \
                     "ldr r10, [r0, #48]\n\t"                                                      \
                     "subs r10, r10, #1\n\t"                                                       \
                     "str r10, [r0, #48]\n\t"                                                      \
                     "bne 1b\n\t"                                                                  \
                     "ldr r8, [r0, #44]\n\t"                                                       \
                     "vmsr fpscr, r8\n\t"                                                          \
                     : "+r"(at)                                                                    \
                     :                                                                             \
                     : HIL_FPU_CLOBBERED)
#define HIL_FPU_STRIP_OF_FOUR(ROWS)                                                                \
    HIL_FPU_STRIP(ROWS, "s15", HIL_FPU_BIAS, HIL_FPU_STRIP_UNLESS, HIL_FPU_SIXTEEN,                \
                  HIL_FPU_STORE, HIL_FPU_RECTIFIED)
#define HIL_FPU_STRIP_OF_ONE(ROWS)                                                                 \
    HIL_FPU_STRIP(ROWS, "s3", HIL_FPU_ONE_BIAS, HIL_FPU_ONE_UNLESS, HIL_FPU_ONE_LIMITS,            \
                  HIL_FPU_ONE_STORE, HIL_FPU_ONE_RECTIFIED)

/* clang-format on */

#else

/* One output. */
HIL_INLINE void hil_fpu_strip_twin(const struct hil_fpu_strip *strip, int32_t output,
                                   int32_t channel) {
    const int32_t taps = 3 * strip->triples + strip->singles;
    const float *const place = strip->base + output * strip->stride / 4 + channel;
    const float *w =
        strip->weights + channel / 4 * 4 * ((strip->end - strip->rows) * taps + 1) + channel % 4;
    float sum = 0.0F;
    for (const int32_t *row = strip->rows; row != strip->end; row++) {
        for (int32_t tap = 0; tap < taps; tap++) {
            sum += place[*row + tap * strip->dilation / 4] * *w;
            w += 4;
        }
    }
    strip->out[output * strip->step / 4 + channel] =
        hil_clamp_f32(sum + *w, strip->low, strip->high);
}

#endif

/* `outputs` outputs, 4 or 1, of some fours of channels. */
HIL_INLINE void hil_fpu_run_strip(const struct hil_fpu_depthwise_conv2d_f32 *p,
                                  struct hil_fpu_strip *strip, int32_t outputs) {
#if HIL_FPU_ASSEMBLY
    register struct hil_fpu_strip *at __asm__("r0") = strip;
    if (outputs == 4 && strip->triples == 1 && strip->singles == 0 && p->stride_w == 1) {
        HIL_FPU_STRIP_OF_FOUR(HIL_FPU_ROWS_OF_THREE(HIL_FPU_TRIPLE_1));
    } else if (outputs == 4 && strip->triples == 1 && strip->singles == 0) {
        HIL_FPU_STRIP_OF_FOUR(HIL_FPU_ROWS_OF_THREE(HIL_FPU_TRIPLE_2));
    } else if (outputs == 4 && p->stride_w == 1) {
        HIL_FPU_STRIP_OF_FOUR(HIL_FPU_ROWS_OF_ANY(HIL_FPU_TRIPLE_1, HIL_FPU_SINGLE));
    } else if (outputs == 4) {
        HIL_FPU_STRIP_OF_FOUR(HIL_FPU_ROWS_OF_ANY(HIL_FPU_TRIPLE_2, HIL_FPU_SINGLE));
    } else if (strip->triples == 1 && strip->singles == 0) {
        HIL_FPU_STRIP_OF_ONE(HIL_FPU_ROWS_OF_THREE(HIL_FPU_TRIPLE_OF_ONE));
    } else {
        HIL_FPU_STRIP_OF_ONE(HIL_FPU_ROWS_OF_ANY(HIL_FPU_TRIPLE_OF_ONE, HIL_FPU_SINGLE_OF_ONE));
    }
#else
    (void)p;
    for (int32_t output = 0; output < outputs; output++) {
        for (int32_t channel = 0; channel < 4 * strip->blocks; channel++) {
            hil_fpu_strip_twin(strip, output, channel);
        }
    }
#endif
}

/* Some outputs of a row, 4 or 1, all channels; the last ones go where there is room for four. */
HIL_INLINE void hil_fpu_outputs_f32(const struct hil_fpu_depthwise_conv2d_f32 *p, const float *base,
                                    const int32_t *rows, int32_t outputs, float *out) {
    const int32_t out_c = HIL_FPU_DEPTHWISE_OUT_C(p);
    const int32_t pixel = (out_c + 3) / 4 * 4;
    const int32_t taps = p->filter_h * p->filter_w;
    const int shared = p->dilation_w == 1 && p->stride_w <= 2;
    const int32_t triples = shared ? p->filter_w / 3 : 0;
    float some[16] = {0.0F};
    for (int32_t channel = 0; channel < out_c;) {
        const int direct = channel + 4 <= out_c;
        const int32_t blocks = direct ? (out_c - channel) / 4 : 1;
        struct hil_fpu_strip strip = {
            .weights = p->stream + channel * (taps + 1),
            .out = direct ? out + channel : some,
            .step = direct ? out_c * (int32_t)sizeof *out : 16,
            .rows = rows,
            .end = rows + p->filter_h,
            .column = pixel * (int32_t)sizeof *out,
            .base = base + channel,
            .zeros = hil_fpu_zeros,
            .bounds = hil_fpu_bounds(p->out_min, p->out_max, 0),
            .low = p->out_min,
            .high = p->out_max,
            .control = 0,
            .blocks = blocks,
            .triples = triples,
            .singles = p->filter_w - 3 * triples,
            .stride = p->stride_w * pixel * (int32_t)sizeof *out,
            .dilation = p->dilation_w * pixel * (int32_t)sizeof *out,
        };
        hil_fpu_run_strip(p, &strip, outputs);
        if (!direct) {
            for (int32_t output = 0; output < outputs; output++) {
                for (int32_t i = 0; i < out_c - channel; i++) {
                    out[output * out_c + channel + i] = some[4 * output + i];
                }
            }
        }
        channel += 4 * blocks;
    }
}

HIL_INLINE void hil_fpu_depthwise_conv2d_f32(const struct hil_fpu_depthwise_conv2d_f32 *p,
                                             const float *in, float *out, void *scratch) {
    const struct hil_windows windows = HIL_WINDOWS(p);
    struct hil_ring_f32 ring = {
        .rows = (float *)scratch,
        .line = p->line,
        .lines = p->lines,
        .columns = p->columns,
        .pixel = (HIL_FPU_DEPTHWISE_OUT_C(p) + 3) / 4 * 4,
        .filters = p->depth_multiplier,
        .next = 0,
    };
    /* Behind the ring: where each row of the filter is. */
    void *const behind = ring.rows + p->lines * p->line;
    int32_t *const rows = (int32_t *)behind;
    for (int32_t images = p->batch; images > 0; images--) {
        for (int32_t y = 0; y < p->out_h; y++) {
            hil_ring_f32_turn(&ring, &windows, in, y, rows);
            for (int32_t left = p->out_w; left > 0;) {
                const int32_t outputs = left >= 4 ? 4 : 1;
                hil_fpu_outputs_f32(p, ring.rows, rows, outputs, out);
                hil_ring_f32_move(&ring, p->filter_h, rows, outputs * p->stride_w);
                out += outputs * HIL_FPU_DEPTHWISE_OUT_C(p);
                left -= outputs;
            }
        }
        in += p->in_h * p->in_w * p->in_c;
    }
}

#endif
