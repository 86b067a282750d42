/* Two or three rows of int8 times two columns of an int8 weight matrix, an output channel each, on
 * cores that multiply pairs of half-words (Armv7E-M, Armv8-M with DSP).
 *
 * Tile: 3 rows x 2 columns x 4 elements of depth, a unit; or 2 rows.
 *
 *                    column 0   column 1                        r0 r1 r2   a word of each row
 *            row 0      r4         r8                           r3         weights, even elements
 *            row 1      r5         r9                           r12        weights, odd elements
 *            row 2      r6         r10      (none for 2 rows)
 *
 * Registers, at the top of a unit:
 *
 *   r4 r5 r6    s0 s1 s2: sums of column 0       r11  rows: the next unit, widened
 *   r8 r9 r10   s3 s4 s5: sums of column 1       lr   stream: the next weights
 *   r0 r1 r2    half-words of the rows           r7   untouched: a frame pointer may live there
 *   r3 r12      two words of weights             memory: where rows start and end, outputs, steps
 *
 * Of 2 rows and wide weights a unit is loaded at once, which takes all registers. A last row that
 * is by itself has the same, without the second row's sums:
 *
 *   r0 r1 r2 r3     even elements of both rows, then odd ones
 *   r6 r7 r10 r12   even weights of both columns, then odd ones
 *   stack: +0 +4 the byte before the outputs of each row  +8 where the stream ends
 *          +12 where rows start  +16 where they end  +20 shift
 *          +28 the caller's r7, in which a compiler may keep its frame
 *
 * Data: rows are widened to scratch by hil_dsp_widen_rows, hil_dsp_windows. A unit of 3 rows,
 * bytes:
 *
 *   +0  x0|x2 of row 0   +4  of row 1   +8  of row 2      a word: low half | high half
 *   +12 x1|x3 of row 0   +16 of row 1   +20 of row 2      the last unit ends with zeros
 *
 * The stream, packed by `column_stream()` from `paired_weights()` or `wide_weights()`; per pair of
 * columns, of U units:
 *
 *   packed  +0       b0           +4   256 * b1 + b0        what the sums start from
 *           +8 + 8u  even: 256 * w1 + w0 of elements 4u | 4u + 2     +4  odd: of 4u + 1 | 4u + 3
 *           +8 + 8U  scales
 *   wide    +0       B * b0       +4   B * b1           of two rows each plus a fraction, 0 to B -
 * 1; B is 256, or a lower power of 2 where sums are large +8 + 16u B * w of 4u | 4u + 2: column 0,
 * column 1; of 4u + 1 | 4u + 3: both again +8 + 16U scales for 2 rows B * b1 follows the first two
 * words of weights, so that one ldm loads both biases and a unit's weights scales  multiplier,
 * addend and, with signs, correction, or its own shift where shift is 0: of column 0, then of
 * column 1
 *
 * Order: all rows of a group are read before its first output is written; outputs go pair of
 * columns by pair, the last row's first, so a row that is not wanted may share the first row's
 * place. Of two rows of wide weights it is not computed.
 *
 * Bounds: smlad adds modulo 2^32.
 *   packed  256 * w1 + w0 is a half-word unless w1 = -128 and w0 < 0, which `paired_weights()`
 *           refuses. With the raw word s3 adds up 256 * A1 + A0, with sxtb16 of it s0 adds up
 *           A0; the difference 256 * A1 is exact whatever wrapped on the way, since |A1| < 2^23.
 *   wide    -32768 <= B * w <= 32512, and B * A is exact, since |B * A| < 2^31.
 *   |A| < 2^23, or below 2^31 / B, for all inputs, bias included, is proven by `_proven()`, which
 *   else starts the sum from half its range instead of the bias and adds the difference to the
 *   addend; `_bits_of()` chooses B.
 *   |addend| + |256 * A * multiplier / 2^32| + correction < 2^31: `_lines()`.
 *
 * Output: saturate8((addend + (256 * A * multiplier >> 32)) >> shift), an smmla and an ssat, with B
 * instead of 256 for wide weights, where 256 * A has the fraction that
 * `_finer_affine_requantizations()` found if it needed one.
 * `_lines()` proves for each channel that this line and the reference's double rounding give each
 * of the 256 outputs first for the same sum; both rise with the sum, so they agree for all. Of a
 * fused activation's range that goes for the outputs in it, and kernels clamp to it at their end
 * (clamp_s8.h). With signs negative sums lose `correction`, one unit of the first rounding. One
 * shift, a constant, serves all columns; two rows of wide weights leave registers for shifts of
 * each.
 *
 * Scratch: 8 bytes a unit and row.
 *
 * Cost: a unit takes 17 instructions packed and 16 wide for 24 MACs of 3 rows, 13 and 10 for 16 of
 * 2, 6 wide for 8 of 1; a pair of columns 27 more of 3 rows, 33 packed, and of 2 wide rows 17, 15.5
 * of two pairs in a turn. Measured (`hil tune` on mps2-an386, instructions under QEMU) a MAC: 1x1
 * 25x5x64 to 64 (kws, hil_dsp_matmul_s8_column_pairs) 0.817 packed, 0.760 wide, of 2 rows 0.962 and
 * 0.710; 3x3 of 64 channels (ic, hil_dsp_conv2d_s8_column_pairs) 0.780, 0.735, of 2 packed rows
 * 0.886.
 *
 * Tests: the twin is hil_dsp_pairs_s8_sums with hil_dsp_scaled, which other cores and the host run
 * (tests/c/test_dsp_kernels.py, sanitizers and guard bytes; limits: test_sums_at_their_limits); the
 * assembly is compared in tests/board/test_kernels.py. Layout: tests/c/test_kernel_layouts.py.
 */
#ifndef HIL_KERNELS_DSP_PAIRS_S8_H
#define HIL_KERNELS_DSP_PAIRS_S8_H

#include "hil/kernels/dsp/clamp_s8.h"
#include "hil/kernels/dsp/widen.h"

#define HIL_DSP_MAX_ROWS 3

/* Pairs of columns as the head draws them. */
#define HIL_DSP_PAIRS_FIELDS                                                                       \
    int32_t group;        /* rows at a time, 2 or 3 */                                             \
    int32_t wide;         /* whether weights are wide */                                           \
    int32_t signs;        /* whether negative sums lack something */                               \
    int32_t shift;        /* to the right, of all columns; 0 where each has its own */             \
    const int32_t *stream /* of each pair of columns in turn: biases, weights, scales */

struct hil_dsp_pairs_s8 {
    int32_t units; /* of four elements of depth */
    int32_t count; /* of columns; an odd one is followed by a column that gives no output */
    HIL_DSP_PAIRS_FIELDS;
};

/* Words of the stream for the scale of a column. */
HIL_INLINE int32_t hil_dsp_pairs_scale(const struct hil_dsp_pairs_s8 *p) {
    return p->signs || p->shift == 0 ? 3 : 2;
}

/* Words of the stream for a pair of columns. */
HIL_INLINE int32_t hil_dsp_pairs_words(const struct hil_dsp_pairs_s8 *p) {
    return 2 + p->units * (p->wide ? 4 : 2) + 2 * hil_dsp_pairs_scale(p);
}

/* Where outputs go: a row's, from there to the second's and to the third's. */
struct hil_dsp_places {
    int8_t *out;
    int32_t steps[2];
    int single; /* whether only the first row is wanted, of two at a time */
};

#if HIL_DSP_ASSEMBLY

/* clang-format off */

/* Adds up words of three rows, and of two, by a word of two columns. */
#define HIL_DSP_DUAL_3(x0, x1, x2, weights)                                                        \
    "smlad %[" x0 "], r0, " weights ", %[" x0 "]\n\t"                                              \
    "smlad %[" x1 "], r1, " weights ", %[" x1 "]\n\t"                                              \
    "smlad %[" x2 "], r2, " weights ", %[" x2 "]\n\t"

#define HIL_DSP_DUAL_2(x0, x1, weights)                                                            \
    "smlad %[" x0 "], r0, " weights ", %[" x0 "]\n\t"                                              \
    "smlad %[" x1 "], r1, " weights ", %[" x1 "]\n\t"

/* A unit: 17 and 16 instructions for 24 products of three rows, 13 and 12 for 16 of two. */
#define HIL_DSP_UNIT_PACKED_3                                                                      \
    "ldrd r3, %[w], [%[stream]], #8\n\t"                                                           \
    "ldmia %[rows]!, {r0, r1, r2}\n\t"                                                             \
    HIL_DSP_DUAL_3("s3", "s4", "s5", "r3")                                                         \
    "sxtb16 r3, r3\n\t"                                                                            \
    HIL_DSP_DUAL_3("s0", "s1", "s2", "r3")                                                         \
    "ldmia %[rows]!, {r0, r1, r2}\n\t"                                                             \
    HIL_DSP_DUAL_3("s3", "s4", "s5", "%[w]")                                                       \
    "sxtb16 %[w], %[w]\n\t"                                                                        \
    HIL_DSP_DUAL_3("s0", "s1", "s2", "%[w]")

#define HIL_DSP_HALF_WIDE_3                                                                        \
    "ldrd r3, %[w], [%[stream]], #8\n\t"                                                           \
    "ldmia %[rows]!, {r0, r1, r2}\n\t"                                                             \
    HIL_DSP_DUAL_3("s0", "s1", "s2", "r3")                                                         \
    HIL_DSP_DUAL_3("s3", "s4", "s5", "%[w]")

#define HIL_DSP_UNIT_WIDE_3 HIL_DSP_HALF_WIDE_3 HIL_DSP_HALF_WIDE_3

#define HIL_DSP_UNIT_PACKED_2                                                                      \
    "ldrd r3, %[w], [%[stream]], #8\n\t"                                                           \
    "ldrd r0, r1, [%[rows]], #8\n\t"                                                               \
    HIL_DSP_DUAL_2("s3", "s4", "r3")                                                               \
    "sxtb16 r3, r3\n\t"                                                                            \
    HIL_DSP_DUAL_2("s0", "s1", "r3")                                                               \
    "ldrd r0, r1, [%[rows]], #8\n\t"                                                               \
    HIL_DSP_DUAL_2("s3", "s4", "%[w]")                                                             \
    "sxtb16 %[w], %[w]\n\t"                                                                        \
    HIL_DSP_DUAL_2("s0", "s1", "%[w]")

/* Two rows of wide weights take all registers, r6, r7, r10 and r12 for four words of weights: 10
 * instructions for 16 products. */
#define HIL_DSP_LOAD_WIDE_2                                                                        \
    "ldmia %[stream]!, {r6, r7, r10, r12}\n\t"                                                     \
    "ldmia %[rows]!, {r0, r1, r2, r3}\n\t"

#define HIL_DSP_ODD_WIDE_2                                                                         \
    "smlad %[s0], r2, r10, %[s0]\n\t"                                                              \
    "smlad %[s1], r3, r10, %[s1]\n\t"                                                              \
    "smlad %[s3], r2, r12, %[s3]\n\t"                                                              \
    "smlad %[s4], r3, r12, %[s4]\n\t"

#define HIL_DSP_UNIT_WIDE_2                                                                        \
    HIL_DSP_LOAD_WIDE_2                                                                            \
    HIL_DSP_DUAL_2("s0", "s1", "r6")                                                               \
    HIL_DSP_DUAL_2("s3", "s4", "r7")                                                               \
    HIL_DSP_ODD_WIDE_2

/* The first unit's weights, and both sums before them. */
#define HIL_DSP_LOAD_FIRST_WIDE_2                                                                  \
    "ldmia %[stream]!, {r4, r6, r7, r8, r10, r12}\n\t"                                             \
    "ldmia %[rows]!, {r0, r1, r2, r3}\n\t"

/* The same for a single row, the first of both. */
#define HIL_DSP_ODD_WIDE_1                                                                         \
    "smlad %[s0], r2, r10, %[s0]\n\t"                                                              \
    "smlad %[s3], r2, r12, %[s3]\n\t"

#define HIL_DSP_EVEN_WIDE_1                                                                        \
    "smlad %[s0], r0, r6, %[s0]\n\t"                                                               \
    "smlad %[s3], r0, r7, %[s3]\n\t"

#define HIL_DSP_UNIT_WIDE_1 HIL_DSP_LOAD_WIDE_2 HIL_DSP_EVEN_WIDE_1 HIL_DSP_ODD_WIDE_1

/* Sums as 256, or B, times what they are. */
#define HIL_DSP_SPLIT_PACKED_3                                                                     \
    "sub %[s3], %[s3], %[s0]\n\t"                                                                  \
    "sub %[s4], %[s4], %[s1]\n\t"                                                                  \
    "sub %[s5], %[s5], %[s2]\n\t"                                                                  \
    "lsl %[s0], %[s0], #8\n\t"                                                                     \
    "lsl %[s1], %[s1], #8\n\t"                                                                     \
    "lsl %[s2], %[s2], #8\n\t"

#define HIL_DSP_SPLIT_PACKED_2                                                                     \
    "sub %[s3], %[s3], %[s0]\n\t"                                                                  \
    "sub %[s4], %[s4], %[s1]\n\t"                                                                  \
    "lsl %[s0], %[s0], #8\n\t"                                                                     \
    "lsl %[s1], %[s1], #8\n\t"

#define HIL_DSP_SPLIT_WIDE_3

#define HIL_DSP_SCALED(sum, multiplier, addend)                                                    \
    "smmla %[" sum "], %[" sum "], " multiplier ", " addend "\n\t"

#define HIL_DSP_SCALES_PLAIN_3                                                                     \
    "ldmia %[stream]!, {r0, r1, r2, r3}\n\t"                                                       \
    HIL_DSP_SCALED("s0", "r0", "r1") HIL_DSP_SCALED("s1", "r0", "r1")                              \
    HIL_DSP_SCALED("s2", "r0", "r1") HIL_DSP_SCALED("s3", "r2", "r3")                              \
    HIL_DSP_SCALED("s4", "r2", "r3") HIL_DSP_SCALED("s5", "r2", "r3")

#define HIL_DSP_SCALES_PLAIN_2                                                                     \
    "ldmia %[stream]!, {r0, r1, r2, r3}\n\t"                                                       \
    HIL_DSP_SCALED("s0", "r0", "r1") HIL_DSP_SCALED("s1", "r0", "r1")                              \
    HIL_DSP_SCALED("s3", "r2", "r3") HIL_DSP_SCALED("s4", "r2", "r3")

#define HIL_DSP_SCALED_SIGNED(sum)                                                                 \
    "and r3, r2, %[" sum "], asr #31\n\t"                                                          \
    "sub r3, r1, r3\n\t"                                                                           \
    HIL_DSP_SCALED(sum, "r0", "r3")

#define HIL_DSP_SCALES_SIGNED_3                                                                    \
    "ldmia %[stream]!, {r0, r1, r2}\n\t"                                                           \
    HIL_DSP_SCALED_SIGNED("s0") HIL_DSP_SCALED_SIGNED("s1") HIL_DSP_SCALED_SIGNED("s2")            \
    "ldmia %[stream]!, {r0, r1, r2}\n\t"                                                           \
    HIL_DSP_SCALED_SIGNED("s3") HIL_DSP_SCALED_SIGNED("s4") HIL_DSP_SCALED_SIGNED("s5")

#define HIL_DSP_SCALES_SIGNED_2                                                                    \
    "ldmia %[stream]!, {r0, r1, r2}\n\t"                                                           \
    HIL_DSP_SCALED_SIGNED("s0") HIL_DSP_SCALED_SIGNED("s1")                                        \
    "ldmia %[stream]!, {r0, r1, r2}\n\t"                                                           \
    HIL_DSP_SCALED_SIGNED("s3") HIL_DSP_SCALED_SIGNED("s4")

#define HIL_DSP_SCALES_OWN_2                                                                       \
    "ldmia %[stream]!, {r0, r1, r2, r3, r6, r7}\n\t"                                               \
    HIL_DSP_SCALED("s0", "r0", "r1") HIL_DSP_SCALED("s1", "r0", "r1")                              \
    HIL_DSP_SCALED("s3", "r3", "r6") HIL_DSP_SCALED("s4", "r3", "r6")

#define HIL_DSP_SCALES_PLAIN_1                                                                     \
    "ldmia %[stream]!, {r0, r1, r2, r3}\n\t"                                                       \
    HIL_DSP_SCALED("s0", "r0", "r1") HIL_DSP_SCALED("s3", "r2", "r3")

#define HIL_DSP_SCALES_SIGNED_1                                                                    \
    "ldmia %[stream]!, {r0, r1, r2}\n\t" HIL_DSP_SCALED_SIGNED("s0")                               \
    "ldmia %[stream]!, {r0, r1, r2}\n\t" HIL_DSP_SCALED_SIGNED("s3")

#define HIL_DSP_SCALES_OWN_1                                                                       \
    "ldmia %[stream]!, {r0, r1, r2, r3, r6, r7}\n\t"                                               \
    HIL_DSP_SCALED("s0", "r0", "r1") HIL_DSP_SCALED("s3", "r3", "r6")

/* To the right by a constant, or by what lies in memory. */
#define HIL_DSP_NARROWED_CONSTANT(sum) "ssat %[" sum "], #8, %[" sum "], asr #%c[constant]\n\t"

#define HIL_DSP_NARROWED_VARIABLE(sum)                                                             \
    "asr %[" sum "], %[" sum "], %[w]\n\t"                                                         \
    "ssat %[" sum "], #8, %[" sum "]\n\t"

#define HIL_DSP_SHIFT_CONSTANT
#define HIL_DSP_SHIFT_VARIABLE "ldr %[w], %[shift]\n\t"

/* The outputs of a row that is not wanted go where the first row's go, which come after. */
#define HIL_DSP_STORED_3(NARROWED)                                                                 \
    "ldr r3, %[out]\n\t"                                                                           \
    "ldrd r0, r1, %[steps]\n\t"                                                                    \
    NARROWED("s2") NARROWED("s5") NARROWED("s1") NARROWED("s4") NARROWED("s0") NARROWED("s3")      \
    "strb %[s2], [r3, r1]\n\t"                                                                     \
    "strb %[s1], [r3, r0]\n\t"                                                                     \
    "strb %[s0], [r3], #1\n\t"                                                                     \
    "strb %[s5], [r3, r1]\n\t"                                                                     \
    "strb %[s4], [r3, r0]\n\t"                                                                     \
    "strb %[s3], [r3], #1\n\t"

#define HIL_DSP_STORED_2(NARROWED)                                                                 \
    "ldr r3, %[out]\n\t"                                                                           \
    "ldr r0, %[steps]\n\t"                                                                         \
    NARROWED("s1") NARROWED("s4") NARROWED("s0") NARROWED("s3")                                    \
    "strb %[s1], [r3, r0]\n\t"                                                                     \
    "strb %[s0], [r3], #1\n\t"                                                                     \
    "strb %[s4], [r3, r0]\n\t"                                                                     \
    "strb %[s3], [r3], #1\n\t"

/* The first unit, which starts from both sums in s0 and s3. */
#define HIL_DSP_FIRST_DUAL_3(x0, x1, x2, weights)                                                  \
    "smlad %[" x1 "], r1, " weights ", %[" x0 "]\n\t"                                              \
    "smlad %[" x2 "], r2, " weights ", %[" x0 "]\n\t"                                              \
    "smlad %[" x0 "], r0, " weights ", %[" x0 "]\n\t"

#define HIL_DSP_FIRST_PACKED_3                                                                     \
    "ldrd r3, %[w], [%[stream]], #8\n\t"                                                           \
    "ldmia %[rows]!, {r0, r1, r2}\n\t"                                                             \
    HIL_DSP_FIRST_DUAL_3("s3", "s4", "s5", "r3")                                                   \
    "sxtb16 r3, r3\n\t"                                                                            \
    HIL_DSP_FIRST_DUAL_3("s0", "s1", "s2", "r3")                                                   \
    "ldmia %[rows]!, {r0, r1, r2}\n\t"                                                             \
    HIL_DSP_DUAL_3("s3", "s4", "s5", "%[w]")                                                       \
    "sxtb16 %[w], %[w]\n\t"                                                                        \
    HIL_DSP_DUAL_3("s0", "s1", "s2", "%[w]")

#define HIL_DSP_FIRST_WIDE_3                                                                       \
    "ldrd r3, %[w], [%[stream]], #8\n\t"                                                           \
    "ldmia %[rows]!, {r0, r1, r2}\n\t"                                                             \
    HIL_DSP_FIRST_DUAL_3("s0", "s1", "s2", "r3")                                                   \
    HIL_DSP_FIRST_DUAL_3("s3", "s4", "s5", "%[w]")                                                 \
    HIL_DSP_HALF_WIDE_3

#define HIL_DSP_FIRST_DUAL_2(x0, x1, weights)                                                      \
    "smlad %[" x1 "], r1, " weights ", %[" x0 "]\n\t"                                              \
    "smlad %[" x0 "], r0, " weights ", %[" x0 "]\n\t"

#define HIL_DSP_FIRST_PACKED_2                                                                     \
    "ldrd r3, %[w], [%[stream]], #8\n\t"                                                           \
    "ldrd r0, r1, [%[rows]], #8\n\t"                                                               \
    HIL_DSP_FIRST_DUAL_2("s3", "s4", "r3")                                                         \
    "sxtb16 r3, r3\n\t"                                                                            \
    HIL_DSP_FIRST_DUAL_2("s0", "s1", "r3")                                                         \
    "ldrd r0, r1, [%[rows]], #8\n\t"                                                               \
    HIL_DSP_DUAL_2("s3", "s4", "%[w]")                                                             \
    "sxtb16 %[w], %[w]\n\t"                                                                        \
    HIL_DSP_DUAL_2("s0", "s1", "%[w]")

#define HIL_DSP_FIRST_WIDE_2                                                                       \
    HIL_DSP_LOAD_FIRST_WIDE_2                                                                        \
    HIL_DSP_FIRST_DUAL_2("s0", "s1", "r6")                                                         \
    HIL_DSP_FIRST_DUAL_2("s3", "s4", "r7")                                                         \
    HIL_DSP_ODD_WIDE_2

/* Some units one after the other. */
#define HIL_DSP_X0(U)
#define HIL_DSP_X1(U) U
#define HIL_DSP_X2(U) U U
#define HIL_DSP_X3(U) U U U
#define HIL_DSP_X4(U) U U U U
#define HIL_DSP_X5(U) U U U U U
#define HIL_DSP_X6(U) U U U U U U
#define HIL_DSP_X7(U) U U U U U U U
#define HIL_DSP_X8(U) U U U U U U U U
#define HIL_DSP_X9(U) U U U U U U U U U
#define HIL_DSP_X10(U) HIL_DSP_X9(U) U
#define HIL_DSP_X11(U) HIL_DSP_X9(U) HIL_DSP_X2(U)
#define HIL_DSP_X12(U) HIL_DSP_X9(U) HIL_DSP_X3(U)
#define HIL_DSP_X13(U) HIL_DSP_X9(U) HIL_DSP_X4(U)
#define HIL_DSP_X14(U) HIL_DSP_X9(U) HIL_DSP_X5(U)
#define HIL_DSP_X15(U) HIL_DSP_X9(U) HIL_DSP_X6(U)
#define HIL_DSP_X31(U) HIL_DSP_X15(U) HIL_DSP_X15(U) U

/* Until the rows reach `end`, which lies in memory: there is no register left. */
#define HIL_DSP_UNTIL(units, end)                                                                  \
    units                                                                                          \
    "ldr r0, " end "\n\t"                                                                          \
    "cmp %[rows], r0\n\t"                                                                          \
    "bne 2b\n\t"

/* The first unit, which starts the sums, and TIMES more: all there are; in each turn of a loop, whose
 * first turn begins with the first unit; or before a loop of fours. */
#define HIL_DSP_STRAIGHT(TIMES, U, F, END) F TIMES(U)
#define HIL_DSP_LOOP(TIMES, U, F, END)                                                             \
    F "b 3f\n\t"                                                                                   \
    "2:\n\t" U                                                                                     \
    "3:\n\t" HIL_DSP_UNTIL(TIMES(U), END)
#define HIL_DSP_LOOP_REST(TIMES, U, F, END)                                                        \
    F TIMES(U) "2:\n\t" HIL_DSP_UNTIL(HIL_DSP_X4(U), END)

/* Where rows end, of which a loop asks; else it is whatever a register holds. */
#define HIL_DSP_STRAIGHT_END(end, at) __asm__("" : "=r"(end));
#define HIL_DSP_LOOP_END(end, at) end = at;
#define HIL_DSP_LOOP_REST_END(end, at) end = at;

/* Pairs of columns until the last: with three rows and plain scales 35 instructions, and six for
 * packed weights, besides the units. */
#define HIL_DSP_PAIRS_ANY(MODE, TIMES, WEIGHTS, SCALES, SHIFT, ROWS)                               \
    __asm__ volatile(                                                                              \
        "1:\n\t"                                                                                   \
        "ldrd %[s0], %[s3], [%[stream]], #8\n\t"                                                   \
        "ldr %[rows], %[start]\n\t"                                                                \
        MODE(TIMES, HIL_DSP_UNIT_##WEIGHTS##_##ROWS, HIL_DSP_FIRST_##WEIGHTS##_##ROWS, "%[end]")   \
        HIL_DSP_SPLIT_##WEIGHTS##_##ROWS                                                           \
        HIL_DSP_SCALES_##SCALES##_##ROWS                                                           \
        HIL_DSP_SHIFT_##SHIFT                                                                      \
        HIL_DSP_STORED_##ROWS(HIL_DSP_NARROWED_##SHIFT)                                            \
        "ldr r0, %[last]\n\t"                                                                      \
        "str r3, %[out]\n\t"                                                                       \
        "cmp %[stream], r0\n\t"                                                                    \
        "bne 1b\n\t"                                                                               \
        : [s0] "=&r"(s0), [s1] "=&r"(s1), [s2] "=&r"(s2), [s3] "=&r"(s3), [s4] "=&r"(s4),          \
          [s5] "=&r"(s5), [rows] "=&r"(rows), [w] "=&r"(w), [stream] "+r"(stream),                 \
          [out] "+m"(to.out)                                                                       \
        : [start] "m"(start), [end] "m"(end), [last] "m"(last),                                    \
          [steps] "m"(to.steps), [shift] "m"(shift), [constant] "i"(constant ? p->shift : 0)       \
        : "r0", "r1", "r2", "r3", "cc", "memory")

/* A single row of wide weights starts from both sums, too. */
#define HIL_DSP_FIRST_WIDE_1 HIL_DSP_LOAD_FIRST_WIDE_2 HIL_DSP_EVEN_WIDE_1 HIL_DSP_ODD_WIDE_1

/* Shifts of wide weights for two rows and one: a constant, what lies on the stack, or what the scales
 * end with. */
#define HIL_DSP_TWO_ROWS_SHIFT_CONSTANT
#define HIL_DSP_TWO_ROWS_SHIFT_VARIABLE "ldr %[w], [sp, #20]\n\t"
#define HIL_DSP_TWO_ROWS_SHIFT_OWN
#define HIL_DSP_TWO_ROWS_BY_CONSTANT(sum, own) HIL_DSP_NARROWED_CONSTANT(sum)
#define HIL_DSP_TWO_ROWS_BY_VARIABLE(sum, own) HIL_DSP_NARROWED_VARIABLE(sum)
#define HIL_DSP_TWO_ROWS_BY_OWN(sum, own)                                                            \
    "asr %[" sum "], %[" sum "], " own "\n\t"                                                      \
    "ssat %[" sum "], #8, %[" sum "]\n\t"
#define HIL_DSP_TWO_ROWS_NARROWED_1(BY) BY("s0", "r2") BY("s3", "r7")
#define HIL_DSP_TWO_ROWS_NARROWED_2(BY) BY("s1", "r2") BY("s4", "r7") BY("s0", "r2") BY("s3", "r7")

/* A pair of columns until its outputs, and where these go: one before is in r0, and for a second row
 * in r1. */
#define HIL_DSP_TWO_ROWS_PAIR(MODE, TIMES, SCALES, SHIFT, ROWS)                                      \
    MODE(TIMES, HIL_DSP_UNIT_WIDE_##ROWS, HIL_DSP_FIRST_WIDE_##ROWS, "[sp, #16]")                  \
    HIL_DSP_SCALES_##SCALES##_##ROWS                                                               \
    HIL_DSP_TWO_ROWS_SHIFT_##SHIFT                                                                   \
    HIL_DSP_TWO_ROWS_NARROWED_##ROWS(HIL_DSP_TWO_ROWS_BY_##SHIFT)                                      \
    "ldmia sp, {r0, r1, r2, r11}\n\t"
#define HIL_DSP_TWO_ROWS_STORED(first, second, at, first_place, second_place)                        \
    "strb %[" first "], [" at ", #" first_place "]\n\t"                                            \
    "strb %[" second "], [" at ", #" second_place "\n\t"

#define HIL_DSP_TWO_ROWS_ONCE_1(MODE, TIMES, SCALES, SHIFT)                                          \
    HIL_DSP_TWO_ROWS_PAIR(MODE, TIMES, SCALES, SHIFT, 1)                                             \
    HIL_DSP_TWO_ROWS_STORED("s0", "s3", "r0", "1", "2]!")                                            \
    "str r0, [sp]\n\t"
#define HIL_DSP_TWO_ROWS_ONCE_2(MODE, TIMES, SCALES, SHIFT)                                          \
    HIL_DSP_TWO_ROWS_PAIR(MODE, TIMES, SCALES, SHIFT, 2)                                             \
    HIL_DSP_TWO_ROWS_STORED("s1", "s4", "r1", "1", "2]!")                                            \
    HIL_DSP_TWO_ROWS_STORED("s0", "s3", "r0", "1", "2]!")                                            \
    "strd r0, r1, [sp]\n\t"
#define HIL_DSP_TWO_ROWS_TWICE_2(MODE, TIMES, SCALES, SHIFT)                                         \
    HIL_DSP_TWO_ROWS_PAIR(MODE, TIMES, SCALES, SHIFT, 2)                                             \
    HIL_DSP_TWO_ROWS_STORED("s1", "s4", "r1", "1", "2]")                                             \
    HIL_DSP_TWO_ROWS_STORED("s0", "s3", "r0", "1", "2]")                                             \
    HIL_DSP_TWO_ROWS_PAIR(MODE, TIMES, SCALES, SHIFT, 2)                                             \
    HIL_DSP_TWO_ROWS_STORED("s1", "s4", "r1", "3", "4]!")                                            \
    HIL_DSP_TWO_ROWS_STORED("s0", "s3", "r0", "3", "4]!")                                            \
    "strd r0, r1, [sp]\n\t"

/* Pairs of columns until the last, for two rows of wide weights or one, a pair in a turn or two. A
 * compiler may keep its frame in r7, so that one is saved here, and what else is needed is on the
 * stack: for two rows 17 instructions a pair besides the units, 15.5 of two pairs. */
#define HIL_DSP_TWO_ROWS(TURN, MODE, TIMES, SCALES, SHIFT)                                           \
    MODE##_END(at_end, start + 4 * units)                                                          \
    __asm__ volatile(                                                                              \
        "push {r0, r1, r2, r3, r4, r5, r6, r7}\n\t"                                                \
        "mov %[rows], r3\n\t"                                                                      \
        "1:\n\t"                                                                                   \
        HIL_DSP_TWO_ROWS_##TURN(MODE, TIMES, SCALES, SHIFT)                                          \
        "cmp %[stream], r2\n\t"                                                                    \
        "bne 1b\n\t"                                                                               \
        "ldr r7, [sp, #28]\n\t"                                                                    \
        "add sp, sp, #32\n\t"                                                                      \
        : "+r"(out), "+r"(second), "+r"(at_last), "+r"(at_start), [s0] "+r"(at_end),               \
          [s1] "+r"(by), [s3] "=&r"(s3), [s4] "=&r"(s4), [rows] "=&r"(rows), [w] "=&r"(w),         \
          [stream] "+r"(stream)                                                                    \
        : [constant] "i"(constant ? p->shift : 0)                                                  \
        : "r6", "r10", "cc", "memory")

/* Up to ten units and sixteen one after the other, and any number. */
#define HIL_DSP_TWO_ROWS_FEW(TURN, SCALES, SHIFT)                                                    \
    if (units == 1) {                                                                              \
        HIL_DSP_TWO_ROWS(TURN, HIL_DSP_STRAIGHT, HIL_DSP_X0, SCALES, SHIFT);                         \
    } else if (units == 2) {                                                                       \
        HIL_DSP_TWO_ROWS(TURN, HIL_DSP_STRAIGHT, HIL_DSP_X1, SCALES, SHIFT);                         \
    } else if (units == 3) {                                                                       \
        HIL_DSP_TWO_ROWS(TURN, HIL_DSP_STRAIGHT, HIL_DSP_X2, SCALES, SHIFT);                         \
    }
#define HIL_DSP_TWO_ROWS_SOME(TURN, SCALES, SHIFT)                                                   \
    HIL_DSP_TWO_ROWS_FEW(TURN, SCALES, SHIFT)                                                        \
    else if (units == 4) {                                                                         \
        HIL_DSP_TWO_ROWS(TURN, HIL_DSP_STRAIGHT, HIL_DSP_X3, SCALES, SHIFT);                         \
    } else if (units == 5) {                                                                       \
        HIL_DSP_TWO_ROWS(TURN, HIL_DSP_STRAIGHT, HIL_DSP_X4, SCALES, SHIFT);                         \
    } else if (units == 6) {                                                                       \
        HIL_DSP_TWO_ROWS(TURN, HIL_DSP_STRAIGHT, HIL_DSP_X5, SCALES, SHIFT);                         \
    } else if (units == 7) {                                                                       \
        HIL_DSP_TWO_ROWS(TURN, HIL_DSP_STRAIGHT, HIL_DSP_X6, SCALES, SHIFT);                         \
    } else if (units == 8) {                                                                       \
        HIL_DSP_TWO_ROWS(TURN, HIL_DSP_STRAIGHT, HIL_DSP_X7, SCALES, SHIFT);                         \
    } else if (units == 9) {                                                                       \
        HIL_DSP_TWO_ROWS(TURN, HIL_DSP_STRAIGHT, HIL_DSP_X8, SCALES, SHIFT);                         \
    } else if (units == 10) {                                                                      \
        HIL_DSP_TWO_ROWS(TURN, HIL_DSP_STRAIGHT, HIL_DSP_X9, SCALES, SHIFT);                         \
    } else if (units == 16) {                                                                      \
        HIL_DSP_TWO_ROWS(TURN, HIL_DSP_STRAIGHT, HIL_DSP_X15, SCALES, SHIFT);                        \
    }
/* Eleven to fifteen units and thirty-two are one after the other, too, of one pair in a turn: a second
 * pair saves less than a loop over units costs. */
#define HIL_DSP_TWO_ROWS_LONG(SCALES, SHIFT)                                                         \
    else if (units == 11) {                                                                        \
        HIL_DSP_TWO_ROWS(ONCE_2, HIL_DSP_STRAIGHT, HIL_DSP_X10, SCALES, SHIFT);                      \
    } else if (units == 12) {                                                                      \
        HIL_DSP_TWO_ROWS(ONCE_2, HIL_DSP_STRAIGHT, HIL_DSP_X11, SCALES, SHIFT);                      \
    } else if (units == 13) {                                                                      \
        HIL_DSP_TWO_ROWS(ONCE_2, HIL_DSP_STRAIGHT, HIL_DSP_X12, SCALES, SHIFT);                      \
    } else if (units == 14) {                                                                      \
        HIL_DSP_TWO_ROWS(ONCE_2, HIL_DSP_STRAIGHT, HIL_DSP_X13, SCALES, SHIFT);                      \
    } else if (units == 15) {                                                                      \
        HIL_DSP_TWO_ROWS(ONCE_2, HIL_DSP_STRAIGHT, HIL_DSP_X14, SCALES, SHIFT);                      \
    } else if (units == 32) {                                                                      \
        HIL_DSP_TWO_ROWS(ONCE_2, HIL_DSP_STRAIGHT, HIL_DSP_X31, SCALES, SHIFT);                      \
    } else if (units % 32 == 0) {                                                                  \
        HIL_DSP_TWO_ROWS(ONCE_2, HIL_DSP_LOOP, HIL_DSP_X31, SCALES, SHIFT);                          \
    }
#define HIL_DSP_TWO_ROWS_EIGHTS(TURN, SCALES, SHIFT)                                                 \
    else if (units % 16 == 0) {                                                                    \
        HIL_DSP_TWO_ROWS(TURN, HIL_DSP_LOOP, HIL_DSP_X15, SCALES, SHIFT);                            \
    } else if (units % 8 == 0) {                                                                   \
        HIL_DSP_TWO_ROWS(TURN, HIL_DSP_LOOP, HIL_DSP_X7, SCALES, SHIFT);                             \
    } else if (units % 9 == 0) {                                                                   \
        HIL_DSP_TWO_ROWS(TURN, HIL_DSP_LOOP, HIL_DSP_X8, SCALES, SHIFT);                             \
    }
#define HIL_DSP_TWO_ROWS_FOURS(TURN, SCALES, SHIFT)                                                  \
    else if (units % 4 == 0) {                                                                     \
        HIL_DSP_TWO_ROWS(TURN, HIL_DSP_LOOP, HIL_DSP_X3, SCALES, SHIFT);                             \
    } else if (units % 4 == 1) {                                                                   \
        HIL_DSP_TWO_ROWS(TURN, HIL_DSP_LOOP_REST, HIL_DSP_X0, SCALES, SHIFT);                        \
    } else if (units % 4 == 2) {                                                                   \
        HIL_DSP_TWO_ROWS(TURN, HIL_DSP_LOOP_REST, HIL_DSP_X1, SCALES, SHIFT);                        \
    } else {                                                                                       \
        HIL_DSP_TWO_ROWS(TURN, HIL_DSP_LOOP_REST, HIL_DSP_X2, SCALES, SHIFT);                        \
    }

#define HIL_DSP_TWO_ROWS_ANY(TURN, SCALES, SHIFT)                                                    \
    HIL_DSP_TWO_ROWS_SOME(TURN, SCALES, SHIFT)                                                       \
    HIL_DSP_TWO_ROWS_LONG(SCALES, SHIFT)                                                             \
    HIL_DSP_TWO_ROWS_EIGHTS(TURN, SCALES, SHIFT)                                                     \
    HIL_DSP_TWO_ROWS_FOURS(TURN, SCALES, SHIFT)
#define HIL_DSP_TWO_ROWS_RARE(TURN, SCALES, SHIFT)                                                   \
    HIL_DSP_TWO_ROWS_FEW(TURN, SCALES, SHIFT)                                                        \
    HIL_DSP_TWO_ROWS_FOURS(TURN, SCALES, SHIFT)

/* Unknown depths and shifts take a unit in a turn. */
#define HIL_DSP_TWO_ROWS_UNKNOWN(TURN)                                                               \
    if (p->signs) {                                                                                \
        HIL_DSP_TWO_ROWS(TURN, HIL_DSP_LOOP, HIL_DSP_X0, SIGNED, VARIABLE);                          \
    } else if (p->shift == 0) {                                                                    \
        HIL_DSP_TWO_ROWS(TURN, HIL_DSP_LOOP, HIL_DSP_X0, OWN, OWN);                                  \
    } else {                                                                                       \
        HIL_DSP_TWO_ROWS(TURN, HIL_DSP_LOOP, HIL_DSP_X0, PLAIN, VARIABLE);                           \
    }

#define HIL_DSP_PAIRS_PACKED_3(MODE, TIMES, SCALES, SHIFT)                                         \
    HIL_DSP_PAIRS_ANY(MODE, TIMES, PACKED, SCALES, SHIFT, 3)
#define HIL_DSP_PAIRS_PACKED_2(MODE, TIMES, SCALES, SHIFT)                                         \
    HIL_DSP_PAIRS_ANY(MODE, TIMES, PACKED, SCALES, SHIFT, 2)
#define HIL_DSP_PAIRS_WIDE_3(MODE, TIMES, SCALES, SHIFT)                                           \
    HIL_DSP_PAIRS_ANY(MODE, TIMES, WIDE, SCALES, SHIFT, 3)
#define HIL_DSP_PAIRS(MODE, TIMES, WEIGHTS, SCALES, SHIFT, ROWS)                                   \
    HIL_DSP_PAIRS_##WEIGHTS##_##ROWS(MODE, TIMES, SCALES, SHIFT)

#define HIL_DSP_PAIRS_DEPTHS(WEIGHTS, SCALES, ROWS)                                                \
    if (units == 1) {                                                                              \
        HIL_DSP_PAIRS(HIL_DSP_STRAIGHT, HIL_DSP_X0, WEIGHTS, SCALES, CONSTANT, ROWS);              \
    } else if (units == 2) {                                                                       \
        HIL_DSP_PAIRS(HIL_DSP_STRAIGHT, HIL_DSP_X1, WEIGHTS, SCALES, CONSTANT, ROWS);              \
    } else if (units == 3) {                                                                       \
        HIL_DSP_PAIRS(HIL_DSP_STRAIGHT, HIL_DSP_X2, WEIGHTS, SCALES, CONSTANT, ROWS);              \
    } else if (units == 4) {                                                                       \
        HIL_DSP_PAIRS(HIL_DSP_STRAIGHT, HIL_DSP_X3, WEIGHTS, SCALES, CONSTANT, ROWS);              \
    } else if (units == 5) {                                                                       \
        HIL_DSP_PAIRS(HIL_DSP_STRAIGHT, HIL_DSP_X4, WEIGHTS, SCALES, CONSTANT, ROWS);              \
    } else if (units == 6) {                                                                       \
        HIL_DSP_PAIRS(HIL_DSP_STRAIGHT, HIL_DSP_X5, WEIGHTS, SCALES, CONSTANT, ROWS);              \
    } else if (units == 7) {                                                                       \
        HIL_DSP_PAIRS(HIL_DSP_STRAIGHT, HIL_DSP_X6, WEIGHTS, SCALES, CONSTANT, ROWS);              \
    } else if (units == 8) {                                                                       \
        HIL_DSP_PAIRS(HIL_DSP_STRAIGHT, HIL_DSP_X7, WEIGHTS, SCALES, CONSTANT, ROWS);              \
    } else if (units == 9) {                                                                       \
        HIL_DSP_PAIRS(HIL_DSP_STRAIGHT, HIL_DSP_X8, WEIGHTS, SCALES, CONSTANT, ROWS);              \
    } else if (units == 10) {                                                                      \
        HIL_DSP_PAIRS(HIL_DSP_STRAIGHT, HIL_DSP_X9, WEIGHTS, SCALES, CONSTANT, ROWS);              \
    } else if (units == 16) {                                                                      \
        HIL_DSP_PAIRS(HIL_DSP_STRAIGHT, HIL_DSP_X15, WEIGHTS, SCALES, CONSTANT, ROWS);             \
    } else if (units % 8 == 0) {                                                                   \
        HIL_DSP_PAIRS(HIL_DSP_LOOP, HIL_DSP_X7, WEIGHTS, SCALES, CONSTANT, ROWS);                  \
    } else if (units % 9 == 0) {                                                                   \
        HIL_DSP_PAIRS(HIL_DSP_LOOP, HIL_DSP_X8, WEIGHTS, SCALES, CONSTANT, ROWS);                  \
    } else if (units % 4 == 0) {                                                                   \
        HIL_DSP_PAIRS(HIL_DSP_LOOP, HIL_DSP_X3, WEIGHTS, SCALES, CONSTANT, ROWS);                  \
    } else if (units % 4 == 1) {                                                                   \
        HIL_DSP_PAIRS(HIL_DSP_LOOP_REST, HIL_DSP_X0, WEIGHTS, SCALES, CONSTANT, ROWS);             \
    } else if (units % 4 == 2) {                                                                   \
        HIL_DSP_PAIRS(HIL_DSP_LOOP_REST, HIL_DSP_X1, WEIGHTS, SCALES, CONSTANT, ROWS);             \
    } else {                                                                                       \
        HIL_DSP_PAIRS(HIL_DSP_LOOP_REST, HIL_DSP_X2, WEIGHTS, SCALES, CONSTANT, ROWS);             \
    }

#define HIL_DSP_PAIRS_KINDS_OF(WEIGHTS, ROWS)                                                      \
    if (!constant && p->signs) {                                                                   \
        HIL_DSP_PAIRS(HIL_DSP_LOOP, HIL_DSP_X0, WEIGHTS, SIGNED, VARIABLE, ROWS);                  \
    } else if (!constant) {                                                                        \
        HIL_DSP_PAIRS(HIL_DSP_LOOP, HIL_DSP_X0, WEIGHTS, PLAIN, VARIABLE, ROWS);                   \
    } else if (p->signs) {                                                                         \
        HIL_DSP_PAIRS_DEPTHS(WEIGHTS, SIGNED, ROWS)                                                \
    } else {                                                                                       \
        HIL_DSP_PAIRS_DEPTHS(WEIGHTS, PLAIN, ROWS)                                                 \
    }

/* clang-format on */

/* The outputs of all pairs of columns for two rows of wide weights, or for the first of them. */
HIL_INLINE void hil_dsp_pairs_s8_square(const struct hil_dsp_pairs_s8 *p, const uint32_t *start,
                                        struct hil_dsp_places to) {
    const int constant = __builtin_constant_p(p->shift);
    const int32_t units = p->units;
    /* In the order in which they lie on the stack. */
    register int8_t *out __asm__("r0") = to.out - 1;
    register int8_t *second __asm__("r1") = to.out + to.steps[0] - 1;
    register const int32_t *at_last __asm__("r2") =
        p->stream + hil_dsp_pairs_words(p) * (p->count / 2);
    register const uint32_t *at_start __asm__("r3") = start;
    register const uint32_t *at_end __asm__("r4");
    register int32_t by __asm__("r5");
    if (constant) {
        /* Whatever it holds, as above. */
        __asm__("" : "=r"(by));
    } else {
        by = p->shift;
    }
    register uint32_t s3 __asm__("r8");
    register uint32_t s4 __asm__("r9");
    register const uint32_t *rows __asm__("r11");
    register uint32_t w __asm__("r12");
    register const int32_t *stream __asm__("lr") = p->stream;
    if (!constant && to.single) {
        HIL_DSP_TWO_ROWS_UNKNOWN(ONCE_1)
    } else if (!constant) {
        HIL_DSP_TWO_ROWS_UNKNOWN(ONCE_2)
    } else if (to.single && p->signs) {
        HIL_DSP_TWO_ROWS_RARE(ONCE_1, SIGNED, CONSTANT)
    } else if (to.single && p->shift == 0) {
        HIL_DSP_TWO_ROWS_RARE(ONCE_1, OWN, OWN)
    } else if (to.single) {
        HIL_DSP_TWO_ROWS_RARE(ONCE_1, PLAIN, CONSTANT)
    } else if (p->signs) {
        HIL_DSP_TWO_ROWS_ANY(ONCE_2, SIGNED, CONSTANT)
    } else if (p->shift == 0) {
        HIL_DSP_TWO_ROWS_ANY(ONCE_2, OWN, OWN)
    } else if (p->count % 4 == 0) {
        HIL_DSP_TWO_ROWS_ANY(TWICE_2, PLAIN, CONSTANT)
    } else {
        HIL_DSP_TWO_ROWS_ANY(ONCE_2, PLAIN, CONSTANT)
    }
}

/* The same for two rows of packed weights, or three of any. */
HIL_INLINE void hil_dsp_pairs_s8_columns(const struct hil_dsp_pairs_s8 *p, const uint32_t *start,
                                         struct hil_dsp_places to) {
    const int constant = __builtin_constant_p(p->shift);
    const int32_t units = p->units;
    const uint32_t *const end = start + 2 * p->group * units;
    const int32_t *const last = p->stream + hil_dsp_pairs_words(p) * (p->count / 2);
    const int32_t shift = p->shift;
    register uint32_t s3 __asm__("r8");
    register uint32_t s4 __asm__("r9");
    register const uint32_t *rows __asm__("r11");
    register uint32_t w __asm__("r12");
    register const int32_t *stream __asm__("lr") = p->stream;
    register uint32_t s0 __asm__("r4");
    register uint32_t s1 __asm__("r5");
    register uint32_t s2 __asm__("r6");
    register uint32_t s5 __asm__("r10");
    if (p->group == 2) {
        HIL_DSP_PAIRS_KINDS_OF(PACKED, 2)
    } else if (p->wide) {
        HIL_DSP_PAIRS_KINDS_OF(WIDE, 3)
    } else {
        HIL_DSP_PAIRS_KINDS_OF(PACKED, 3)
    }
}

#endif

/* Sums of some rows by a pair of columns, as 256, or B, times what they are. */
struct hil_dsp_pair_sums {
    int32_t s[2][HIL_DSP_MAX_ROWS];
};

HIL_INLINE struct hil_dsp_pair_sums
hil_dsp_pairs_s8_sums(const struct hil_dsp_pairs_s8 *p, const uint32_t *rows, const int32_t *pair) {
    const int32_t second_bias = p->wide && p->group == 2 ? 3 : 1;
    uint32_t first[HIL_DSP_MAX_ROWS];
    uint32_t second[HIL_DSP_MAX_ROWS];
    for (int32_t i = 0; i < p->group; i++) {
        first[i] = (uint32_t)pair[0];
        second[i] = (uint32_t)pair[second_bias];
    }
    pair += second_bias == 1 ? 2 : 1;
    for (int32_t words = 2 * p->units; words > 0; words--) {
        /* The second sum is among the first unit's weights. */
        pair += words == 2 * p->units - 1 && second_bias != 1;
        const uint32_t both = (uint32_t)*pair++;
        const uint32_t one = p->wide ? both : hil_dsp_even(both);
        const uint32_t other = p->wide ? (uint32_t)*pair++ : both;
        for (int32_t i = 0; i < p->group; i++) {
            first[i] = hil_dsp_dual(rows[i], one, first[i]);
            second[i] = hil_dsp_dual(rows[i], other, second[i]);
        }
        rows += p->group;
    }
    struct hil_dsp_pair_sums sums = {{{0}}};
    for (int32_t i = 0; i < p->group; i++) {
        sums.s[0][i] = (int32_t)(p->wide ? first[i] : first[i] << 8);
        sums.s[1][i] = (int32_t)(p->wide ? second[i] : second[i] - first[i]);
    }
    return sums;
}

/* The outputs of `group` widened rows for all columns. Those of a row that is not wanted go where
 * those of the first row go, which come after. */
HIL_INLINE void hil_dsp_pairs_s8(const struct hil_dsp_pairs_s8 *p, const uint32_t *rows,
                                 struct hil_dsp_places to) {
    const int32_t words = hil_dsp_pairs_words(p);
    int32_t column = 0;
#if HIL_DSP_ASSEMBLY
    if (p->count > 1) {
        if (p->group == 2 && p->wide) {
            hil_dsp_pairs_s8_square(p, rows, to);
        } else {
            hil_dsp_pairs_s8_columns(p, rows, to);
        }
        column = p->count & ~1;
    }
#endif
    for (; column < p->count; column += 2) {
        const int32_t *const pair = p->stream + words * (column / 2);
        const struct hil_dsp_pair_sums sums = hil_dsp_pairs_s8_sums(p, rows, pair);
        const int32_t *scale = pair + words - 2 * hil_dsp_pairs_scale(p);
        for (int32_t i = 0; i < 2 && column + i < p->count; i++) {
            for (int32_t row = p->group - 1; row >= 0; row--) {
                const int32_t sum = sums.s[i][row];
                const struct hil_dsp_affine line = {
                    .multiplier = scale[0],
                    .addend = p->signs && sum < 0 ? scale[1] - scale[2] : scale[1],
                };
                int8_t *const out = row == 0 ? to.out : to.out + to.steps[row - 1];
                out[column + i] = hil_dsp_scaled(sum, line, p->shift == 0 ? scale[2] : p->shift);
            }
            scale += hil_dsp_pairs_scale(p);
        }
    }
}

/* Widens a run of bytes of two or three rows to units next to each other, and says where they end.
 */
HIL_INLINE uint32_t *hil_dsp_pairs_widen(int32_t group, const int8_t *const *from, int32_t depth,
                                         uint32_t *to) {
    if (group == 3) {
        hil_dsp_widen_rows(from[0], from[1], from[2], depth, to);
    } else {
        hil_dsp_widen_two_rows(from[0], from[1], depth, to);
    }
    return to + 2 * group * ((depth + 3) / 4);
}

/* Where the outputs of up to `group` rows of `count` columns go, of which `wanted` are; of `all` in
 * turn. */
HIL_INLINE struct hil_dsp_places hil_dsp_pairs_places(int8_t *out, int32_t count, int32_t wanted,
                                                      int32_t all) {
    return (struct hil_dsp_places){
        .out = out,
        .steps = {wanted > 1 ? count : 0, wanted > 2 ? 2 * count : 0},
        .single = all % 2 != 0 && wanted == 1,
    };
}

#endif
