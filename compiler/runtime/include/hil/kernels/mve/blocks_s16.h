/* The blocks that multiply gathered rows of int16 by an int8 weight matrix on Helium: two rows by
 * four columns, and one row, split into bytes, by four columns. In assembly for the reason that
 * blocks_s8.h has.
 *
 * Tile: 2 rows x 4 columns x one chunk of 8; or 1 row x 4 columns x one chunk of 16.
 *
 *             columns  0    1    2    3
 *   row 0 (or high)    r0   r2   r4   r6     rows   q0
 *   row 1 (or low)     r8   r10  r12  lr            q1     weights q2 and q3 in turn
 *
 * Registers, at the top of a chunk: the sums; r1 place in x; r3 steps left; r5 place in the stream,
 * for loads that widen take a low register; r7 end of x; r9 address of the slot to jump to; r11
 * outputs; q4 offsets of the outputs; q5 q6 low and high. The stack is that of blocks_s8.h.
 *
 * Data: n chunks, depths filled up with weights of 0. Packed by `_columns_s16()`,
 * `_split_s16()` and `_long_stream()`.
 *
 *   x        rows: int16 [n][2][8]; vector: int8 [n][2][16], high bytes, low bytes less 128
 *   rows     per four columns, 32n + 32 bytes: int8 [n][4][8] weights, int32[4] biases, multipliers
 *            where outputs are shifted 32 more: int32[4] shifts, below 0, and zero points
 *   vector   per four columns, 64n + 32 bytes: int8 [n][4][16], int32[4] biases, of which 128 times
 *            the sum of the weights is part, int32[4] multipliers; shifted: as of rows
 *   long     per four columns, 64n + 64 bytes: weights as of the vector, then int32[4] biases of
 *            low bytes, 0 to 255, biases of high bytes, multipliers, shifts, below 0
 *
 * The first chunk starts the sums; further ones are slots of code, as in blocks_s8.h.
 *
 * Order: x is read whole for each four columns.
 *
 * Bounds: vmladava adds modulo 2^32; a sum, bias included, is below 2^31 (`narrow_sums()`), of
 * which 256 * high + low is the vector's. Where that leaves 32 bits (long), high and low do not,
 * and neither does a sum / 256 (`_long_stream()`). Offsets are 16 bits, which `_columns_s16()`
 * checks.
 *
 * Output: vqrdmulh by m << (31 - s) is sum * m / 2^s, half up, for a multiplier m below 2^15 and
 * 16 <= s <= 31: the single rounding itself. vqmovn, then the clamp.
 *
 * Shifted: vqdmulh by a multiplier of 31 bits rounds down, vrshl rounds once, half up, and the zero
 * point is added.
 *
 * Long: for a sum 256 h + l and h = 2^16 a + b, m * sum / 2^24 rounded down is a * m plus the upper
 * half of b * m + (l * m >> 8), an unsigned word: 2^16 (2^15 - 1) + 2^15 at most. What rounding
 * down leaves off is less than a unit, half of a step is at least one, so that vrshl by 24 - s
 * rounds the whole once, half up, for 25 <= s <= 46.
 *
 * Scratch: x, where it is gathered.
 *
 * Cost: 13 instructions for 64 MACs of rows, 11 of the vector; 18 for eight outputs of rows, 21 for
 * four of the vector, 35 of a long one.
 * Measured by `python tools/measure.py wide` (docs/reference/wide.md).
 *
 * Tests: no twin in C; the numpy reference gives what must come out
 * (tests/board/test_sixteen_bits.py, buffers between guard bytes).
 */
#ifndef HIL_KERNELS_MVE_BLOCKS_S16_H
#define HIL_KERNELS_MVE_BLOCKS_S16_H

#include "hil/kernels/mve/blocks_s8.h"

/* What the blocks of a layer share. The assembly knows the offsets. */
struct hil_mve_block_s16 {
    int32_t steps;       /*  0: fours of columns */
    int32_t skipped;     /*  4: bytes of code to skip for the depth: hil_mve_skip() */
    int32_t x_bytes;     /*  8 */
    int32_t low;         /* 12 */
    int32_t high;        /* 16 */
    uint16_t offsets[8]; /* 20: of the outputs of a step, in elements: row 0 column 0, row 1 ... */
};

HIL_MVE_AT(hil_mve_block_s16, steps, 0);
HIL_MVE_AT(hil_mve_block_s16, skipped, 4);
HIL_MVE_AT(hil_mve_block_s16, x_bytes, 8);
HIL_MVE_AT(hil_mve_block_s16, low, 12);
HIL_MVE_AT(hil_mve_block_s16, high, 16);
HIL_MVE_AT(hil_mve_block_s16, offsets, 20);

/* A function that is all assembly, of whose effects the compiler must assume nothing. */
#define HIL_MVE_S16_FUNCTION(name)                                                                 \
    __attribute__((naked, noipa, unused)) static void name(                                        \
        const void *x __attribute__((unused)), const int8_t *stream __attribute__((unused)),       \
        int16_t *out __attribute__((unused)),                                                      \
        const struct hil_mve_block_s16 *block __attribute__((unused)))

/* clang-format off */

#define HIL_MVE_S16_ENTER                                                                          \
    "push {r0, r4-r11, lr}\n"                                                                      \
    "vpush {d8-d15}\n"                                                                             \
    "mov r8, r1\n"                                                                                 \
    "mov r11, r2\n"                                                                                \
    "mov r1, r0\n"                                                                                 \
    "add r4, r3, #20\n"                                                                            \
    "vldrh.u16 q4, [r4]\n"                                                                         \
    "ldrd r4, r6, [r3, #4]\n"                                                                      \
    "adr r9, 2f\n"                                                                                 \
    "add r9, r9, r4\n"                                                                             \
    "orr r9, r9, #1\n"                                                                             \
    "mov r5, r8\n"                                                                                 \
    "add r7, r1, r6\n"                                                                             \
    "ldrd r4, r6, [r3, #12]\n"                                                                     \
    "vdup.16 q5, r4\n"                                                                             \
    "vdup.16 q6, r6\n"                                                                             \
    "ldr r3, [r3]\n"                                                                               \
    ".p2align 2\n"                                                                                 \
    "1:\n"

/* A chunk: two vectors of x, four of weights, which are loaded one after the other where they are
 * widened. Sums r0 r2 r4 r6 are of the first, r8 r10 r12 lr of the second. */
#define HIL_MVE_S16_ROWS_CHUNK(multiply)                                                           \
    "vldmia r1!, {d0-d3}\n"                                                                        \
    "vldrb.s16 q2, [r5], #8\n" multiply " r0, q0, q2\n" multiply " r8, q1, q2\n"                   \
    "vldrb.s16 q3, [r5], #8\n" multiply " r2, q0, q3\n" multiply " r10, q1, q3\n"                  \
    "vldrb.s16 q2, [r5], #8\n" multiply " r4, q0, q2\n" multiply " r12, q1, q2\n"                  \
    "vldrb.s16 q3, [r5], #8\n" multiply " r6, q0, q3\n" multiply " lr, q1, q3\n"
#define HIL_MVE_S16_VECTOR_CHUNK(multiply)                                                         \
    "vldmia r1!, {d0-d3}\n"                                                                        \
    "vldmia r5!, {d4-d7}\n"                                                                        \
    multiply " r0, q0, q2\n" multiply " r8, q1, q2\n"                                              \
    multiply " r2, q0, q3\n" multiply " r10, q1, q3\n"                                             \
    "vldmia r5!, {d4-d7}\n"                                                                        \
    multiply " r4, q0, q2\n" multiply " r12, q1, q2\n"                                             \
    multiply " r6, q0, q3\n" multiply " lr, q1, q3\n"
#define HIL_MVE_S16_ROWS_SLOT_BYTES 52
#define HIL_MVE_S16_VECTOR_SLOT_BYTES 44

/* Sums of four columns: of row 0 in q0, of row 1 in q1. */
#define HIL_MVE_S16_SUMS(CHUNK, type, slot_bytes)                                                              \
    HIL_MVE_S16_ENTER                                                                              \
    CHUNK("vmladav." type)                                                                         \
    "bx r9\n"                                                                                      \
    HIL_MVE_SLOTS_OF(CHUNK("vmladava." type), slot_bytes)                             \
    "cmp r1, r7\n"                                                                                 \
    "blo.w 2b\n"                                                                                   \
    "vmov q0[2], q0[0], r0, r4\n"                                                                  \
    "vmov q0[3], q0[1], r2, r6\n"                                                                  \
    "vmov q1[2], q1[0], r8, r12\n"                                                                 \
    "vmov q1[3], q1[1], r10, lr\n"                                                                 \
    "vldmia r5!, {d4-d7}\n"

/* Scaled sums of two rows, and of a vector, as outputs; `place` makes a scaled sum one. */
#define HIL_MVE_S16_SCALED(sum) "vqrdmulh.s32 " sum ", " sum ", q3\n"
#define HIL_MVE_S16_PRODUCT(sum) "vqdmulh.s32 " sum ", " sum ", q3\n"
#define HIL_MVE_S16_PLACED(sum)                                                                    \
    "vrshl.s32 " sum ", " sum ", q2\n"                                                             \
    "vadd.i32 " sum ", " sum ", q3\n"
#define HIL_MVE_S16_SHIFTS "vldmia r5!, {d4-d7}\n"
#define HIL_MVE_S16_NOTHING(sum) ""

#define HIL_MVE_S16_TWO_ROWS(scaled, shifts, placed)                                               \
    HIL_MVE_S16_SUMS(HIL_MVE_S16_ROWS_CHUNK, "s16", HIL_MVE_S16_ROWS_SLOT_BYTES)                   \
    "vadd.i32 q0, q0, q2\n"                                                                        \
    "vadd.i32 q1, q1, q2\n" scaled("q0") scaled("q1") shifts placed("q0") placed("q1")             \
    "vqmovnb.s32 q0, q0\n"                                                                         \
    "vqmovnt.s32 q0, q1\n"                                                                         \
    "vmax.s16 q0, q0, q5\n"                                                                        \
    "vmin.s16 q0, q0, q6\n"                                                                        \
    "vstrh.16 q0, [r11, q4, uxtw #1]\n"                                                            \
    "adds r11, #8\n" HIL_MVE_NEXT

/* The sum of a vector's high and low bytes in 32 bits, scaled. */
#define HIL_MVE_S16_WORD(scaled, shifts, placed)                                                   \
    "vshl.i32 q0, q0, #8\n"                                                                        \
    "vadd.i32 q0, q0, q1\n"                                                                        \
    "vadd.i32 q0, q0, q2\n" scaled("q0") shifts placed("q0")

/* The sum 256 * h + l, 0 <= l < 256, in h (q0) and l (q1), then 2^16 times what becomes the output
 * in q0: the upper half of h times m, plus the upper half of (the lower half of h) * m + l * m / 256. */
#define HIL_MVE_S16_LONG_SUM                                                                       \
    "vadd.i32 q1, q1, q2\n"                                                                        \
    "vadd.i32 q0, q0, q3\n"                                                                        \
    "vldmia r5!, {d4-d7}\n"                                                                        \
    "vshr.s32 q7, q1, #8\n"                                                                        \
    "vadd.i32 q0, q0, q7\n"                                                                        \
    "vmovlb.u8 q1, q1\n"                                                                           \
    "vmovlb.u16 q1, q1\n"                                                                          \
    "vmul.i32 q1, q1, q2\n"                                                                        \
    "vshr.u32 q1, q1, #8\n"                                                                        \
    "vmovlb.u16 q7, q0\n"                                                                          \
    "vmul.i32 q7, q7, q2\n"                                                                        \
    "vadd.i32 q1, q1, q7\n"                                                                        \
    "vshr.u32 q1, q1, #16\n"                                                                       \
    "vshr.s32 q0, q0, #16\n"                                                                       \
    "vmul.i32 q0, q0, q2\n"                                                                        \
    "vadd.i32 q0, q0, q1\n"                                                                        \
    "vrshl.s32 q0, q0, q3\n"

#define HIL_MVE_S16_ONE_VECTOR(outputs)                                                            \
    HIL_MVE_S16_SUMS(HIL_MVE_S16_VECTOR_CHUNK, "s8", HIL_MVE_S16_VECTOR_SLOT_BYTES)                \
    outputs                                                                                        \
    "vqmovnb.s32 q0, q0\n"                                                                         \
    "vmax.s16 q0, q0, q5\n"                                                                        \
    "vmin.s16 q0, q0, q6\n"                                                                        \
    "vstrh.32 q0, [r11, q4, uxtw #1]\n"                                                            \
    "adds r11, #8\n" HIL_MVE_NEXT

/* clang-format on */

/* Two rows of x by fours of columns. */
HIL_MVE_S16_FUNCTION(hil_mve_rows_s16) {
    __asm__(HIL_MVE_S16_TWO_ROWS(HIL_MVE_S16_SCALED, "", HIL_MVE_S16_NOTHING));
}

HIL_MVE_S16_FUNCTION(hil_mve_rows_s16_shifted) {
    __asm__(HIL_MVE_S16_TWO_ROWS(HIL_MVE_S16_PRODUCT, HIL_MVE_S16_SHIFTS, HIL_MVE_S16_PLACED));
}

/* A vector x, split into bytes, by fours of columns. */
HIL_MVE_S16_FUNCTION(hil_mve_vector_s16) {
    __asm__(HIL_MVE_S16_ONE_VECTOR(HIL_MVE_S16_WORD(HIL_MVE_S16_SCALED, "", HIL_MVE_S16_NOTHING)));
}

HIL_MVE_S16_FUNCTION(hil_mve_vector_s16_shifted) {
    __asm__(HIL_MVE_S16_ONE_VECTOR(
        HIL_MVE_S16_WORD(HIL_MVE_S16_PRODUCT, HIL_MVE_S16_SHIFTS, HIL_MVE_S16_PLACED)));
}

/* The same where sums leave 32 bits. */
HIL_MVE_S16_FUNCTION(hil_mve_vector_s16_long) {
    __asm__(HIL_MVE_S16_ONE_VECTOR(HIL_MVE_S16_LONG_SUM));
}

#endif
