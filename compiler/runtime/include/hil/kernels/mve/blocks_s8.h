/* The blocks that multiply gathered rows by an int8 weight matrix on Helium: four rows by two
 * columns, and one row by eight columns. In assembly because eight sums want all eight even core
 * registers, which the compiler spills.
 *
 * Tile: 4 rows x 2 columns x one chunk of 16; or 1 row x 8 columns x one chunk.
 *
 *   rows     column 0  column 1          vector   columns  0   2   4   6    1   3   5   7
 *   row 0      r0        r8                        sums    r0  r2  r4  r6   r8  r10 r12 lr
 *   row 1      r2        r10                       weights q1  q2  q1  q2   q1  q2  q1  q2
 *   row 2      r4        r12                       row     q0
 *   row 3      r6        lr
 *   weights    q0        q1     rows q2, q3 in turn
 *
 * Registers, at the top of a chunk: the sums; r1 place in x; r3 steps left; r5 address of the slot
 * to jump to; r7 end of x; r9 place in the stream; r11 outputs; q4 offsets of eight outputs, q5
 * zero point, q6 low, q7 high. On the stack: d8-d15 at 0, r0 (x, where r1 starts again) at 64.
 *
 * Data: n chunks, depths filled up with weights of 0. Packed by `columns_of()` and `_vector()`.
 *
 *   x        int8 [n][4][16] of four rows, [n][16] of one
 *   rows     per pair of columns, 32n + 28 bytes: int8 [n][2][16] weights, then int32 +32n bias 0,
 *            bias 1, multiplier 0, multiplier 1, shift 0, shift 1, bytes to the next outputs;
 *            an odd column is a pair with itself; ties: 32n + 44, then place 0, tie 0, place 1,
 *            tie 1
 *   vector   per 8 columns, 128n + 96 bytes: int8 [n][8][16] weights, then int32[8] biases,
 *            multipliers, shifts, all of columns 0 2 4 6 1 3 5 7; uniform: 128n + 40, a multiplier
 *            and a shift behind the biases; ties: 128n + 160, int32[4] places, int32[4] ties of
 *            columns 0 2 4 6, then of 1 3 5 7, between biases and multipliers
 *
 * The first chunk starts the sums; further ones are slots of code, 8 in a round, of which the first
 * jump skips those that a depth does not have: their size is checked by the assembler.
 *
 * Order: x is read whole for each pair (each eight columns); eight outputs are scattered at 16-bit
 * offsets, which `columns_of()` checks against 65535.
 *
 * Bounds: vmladava adds modulo 2^32; a sum, bias included, is at most |bias| + 128 * sum |w| < 2^31
 * (`_check_quantized()`), and so is every part of it.
 *
 * Output: vqrdmulh and vrshl, the reference's double rounding but for halves below zero, which go
 * up instead of away from zero. Where such values remain after the clamp (`linear`,
 * `below_zero_point()`), one is taken from negative products first: exact for shifts below 0
 * (`linear()`). Then saturation to 16 bits, the zero point, the clamp: what saturates lies beyond
 * int8 anyway. The functions `_once` round once, half up, with vqdmulh instead of vqrdmulh. Those
 * of ties do the same once each sum that lies half-way below an odd output has lost one: its bits
 * from `place` on, moved to the upper end of a word, are `tie` (`ties_of()`).
 *
 * Scratch: x, where it is gathered.
 *
 * Cost: 11 instructions for 128 MACs of rows, 13 of the vector; 24 a pair of columns, 36 an eight,
 * 5 more where linear. Measured (`hil tune` on mps3-an547, instructions under QEMU) a MAC: 1x1
 * 25x5x64 to 64 (kws, hil_mve_matmul_s8) 0.167; 3x3 of 64 channels (ic, hil_mve_conv2d_s8) 0.128;
 * 640 to 128 (ad, hil_mve_matvec_s8) 0.140.
 *
 * Tests: no twin in C; the numpy reference gives what must come out (tests/board/test_kernels.py,
 * buffers between guard bytes). Layout: tests/c/test_kernel_layouts.py.
 */
#ifndef HIL_KERNELS_MVE_BLOCKS_S8_H
#define HIL_KERNELS_MVE_BLOCKS_S8_H

#include <stddef.h>
#include <stdint.h>

#include "hil/kernels/generic/fields.h"
#include "hil/quant.h"

#define HIL_MVE_CHUNK 16

/* What the blocks of a layer share. The assembly knows the offsets. */
struct hil_mve_block {
    int32_t steps;      /*  0: pairs of columns, or groups of eight */
    int32_t skipped;    /*  4: bytes of code to skip for the depth: hil_mve_skip() */
    int32_t x_bytes;    /*  8 */
    int32_t zero_point; /* 12: of the output */
    int32_t low;        /* 16 */
    int32_t high;       /* 20 */
    uint16_t
        offsets[8]; /* 24: of the outputs of a step: row 0 column 0, row 0 column 1, row 1 ... */
};

/* One whose rows each add something to their sums. */
struct hil_mve_matrix_block {
    struct hil_mve_block block;
    int32_t rows[4]; /* 40 */
};

/* Where the assembly finds a field. */
#ifdef __cplusplus
#define HIL_MVE_AT(type, field, at) static_assert(offsetof(struct type, field) == (at), #field)
#else
#define HIL_MVE_AT(type, field, at) _Static_assert(offsetof(struct type, field) == (at), #field)
#endif

HIL_MVE_AT(hil_mve_block, steps, 0);
HIL_MVE_AT(hil_mve_block, skipped, 4);
HIL_MVE_AT(hil_mve_block, x_bytes, 8);
HIL_MVE_AT(hil_mve_block, zero_point, 12);
HIL_MVE_AT(hil_mve_block, low, 16);
HIL_MVE_AT(hil_mve_block, high, 20);
HIL_MVE_AT(hil_mve_block, offsets, 24);
HIL_MVE_AT(hil_mve_matrix_block, rows, 40);

/* A function that is all assembly, of whose effects the compiler must assume nothing. */
#define HIL_MVE_FUNCTION(name)                                                                     \
    __attribute__((naked, noipa, unused)) static void name(                                        \
        const int8_t *x __attribute__((unused)), const int8_t *stream __attribute__((unused)),     \
        int8_t *out __attribute__((unused)),                                                       \
        const struct hil_mve_block *block __attribute__((unused)))

/* How many chunks are written out behind the first one, and the code's size of one. */
#define HIL_MVE_SLOTS 8
#define HIL_MVE_ROWS_SLOT_BYTES 44
#define HIL_MVE_VECTOR_SLOT_BYTES 52

/* clang-format off */

/* Slots from label 2 on, and a check of what the jump to one of them assumes, at which the assembler
 * stops. clang's knows sizes only once all is laid out: there a negative space is what it refuses. */
#define HIL_MVE_SLOTS_OF(chunk, slot_bytes)                                                        \
    ".p2align 2\n"                                                                                 \
    "2:\n"                                                                                         \
    ".rept " HIL_MVE_TEXT(HIL_MVE_SLOTS) "\n" chunk ".endr\n"                                      \
    "3:\n"                                                                                         \
    HIL_MVE_CHECK_BYTES("3b - 2b", HIL_MVE_TEXT(HIL_MVE_SLOTS * slot_bytes))
#ifdef __clang__
#define HIL_MVE_CHECK_BYTES(is, assumed)                                                           \
    ".space (" is ") - " assumed "\n"                                                              \
    ".space " assumed " - (" is ")\n"
#else
#define HIL_MVE_CHECK_BYTES(is, assumed)                                                           \
    ".if (" is ") != " assumed "\n"                                                                \
    ".error \"the slots do not have the " assumed " bytes that a jump assumes\"\n"                 \
    ".endif\n"
#endif
#define HIL_MVE_TEXT(macro) HIL_MVE_TEXT_OF(macro)
#define HIL_MVE_TEXT_OF(text) #text

/* clang-format on */

/* The bytes of code to skip so that, after the first chunk and whole rounds of slots, `chunks` were
 * taken. */
HIL_INLINE int32_t hil_mve_skip(int32_t chunks, int32_t slot_bytes) {
    const int32_t behind = (chunks - 1) % HIL_MVE_SLOTS;
    const int32_t slots = behind == 0 && chunks > 1 ? HIL_MVE_SLOTS : behind;
    return (HIL_MVE_SLOTS - slots) * slot_bytes;
}

/* Saves what the caller keeps and sets r1, r3, r5, r7, r9, r11 and q4 to q7 as the head says. */
#define HIL_MVE_ENTER HIL_MVE_ENTER_WITH("vdup.16 q6, r6\nvdup.16 q7, r8\n")
#define HIL_MVE_ENTER_WITH(q6_and_q7)                                                              \
    "push {r0, r4-r11, lr}\n"                                                                      \
    "vpush {d8-d15}\n"                                                                             \
    "mov r9, r1\n"                                                                                 \
    "mov r11, r2\n"                                                                                \
    "mov r1, r0\n"                                                                                 \
    "vldrh.u16 q4, [r3, #24]\n"                                                                    \
    "ldrd r4, r6, [r3, #4]\n"                                                                      \
    "adr r5, 2f\n"                                                                                 \
    "add r5, r5, r4\n"                                                                             \
    "orr r5, r5, #1\n"                                                                             \
    "add r7, r1, r6\n"                                                                             \
    "ldrd r4, r6, [r3, #12]\n"                                                                     \
    "ldr r8, [r3, #20]\n"                                                                          \
    "vdup.16 q5, r4\n" q6_and_q7 "ldr r3, [r3]\n"                                                  \
    ".p2align 2\n"                                                                                 \
    "1:\n"

/* From q0 and q1, both scaled, to outputs at r11; then the next step. r1 starts again. */
#define HIL_MVE_STORE                                                                              \
    "vqmovnb.s32 q0, q0\n"                                                                         \
    "vqmovnt.s32 q0, q1\n"                                                                         \
    "vqadd.s16 q0, q0, q5\n"                                                                       \
    "vmax.s16 q0, q0, q6\n"                                                                        \
    "vmin.s16 q0, q0, q7\n"                                                                        \
    "vstrb.16 q0, [r11, q4]\n"

#define HIL_MVE_NEXT                                                                               \
    "ldr r1, [sp, #64]\n"                                                                          \
    "subs r3, #1\n"                                                                                \
    "bne.w 1b\n"                                                                                   \
    "vpop {d8-d15}\n"                                                                              \
    "pop {r0, r4-r11, pc}\n"

/* What multiplies sums where they are rounded twice, and once: the shift behind it rounds half up,
 * which is exact if the product was rounded down. */
#define HIL_MVE_TWICE "vqrdmulh"
#define HIL_MVE_ONCE "vqdmulh"

/* The value of `linear` where sums are rounded once, whose signs need no correction, and where ties
 * among them go to even. */
#define HIL_MVE_LINEAR_ONCE 2
#define HIL_MVE_LINEAR_TIES 3
/* Bytes of a pair of columns behind its weights. */
#define HIL_MVE_PAIR_BYTES(linear) ((linear) == HIL_MVE_LINEAR_TIES ? 44 : 28)
/* The same as a bit of `any`, whose lowest one says that outputs may be any. */
#define HIL_MVE_ANY_ONCE 2

#define HIL_MVE_AWAY_FROM_ZERO(q, one)                                                             \
    "vpt.s32 lt, " q ", zr\n"                                                                      \
    "vsubt.i32 " q ", " q ", " one "\n"

/* The sums in q0, and in q1, of which the lower bits moved up by `place` are the tie lose one. */
#define HIL_MVE_ROWS_TIES                                                                          \
    "ldmia r9!, {r0, r1, r2, lr}\n"                                                                \
    "vmov q2, q0\n"                                                                                \
    "vmov q3, q1\n"                                                                                \
    "vshl.s32 q2, r0\n"                                                                            \
    "vshl.s32 q3, r2\n"                                                                            \
    "mov r0, #1\n"                                                                                 \
    "vpt.i32 eq, q2, r1\n"                                                                         \
    "vsubt.i32 q0, q0, r0\n"                                                                       \
    "vpt.i32 eq, q3, lr\n"                                                                         \
    "vsubt.i32 q1, q1, r0\n"
#define HIL_MVE_VECTOR_TIES_OF(q)                                                                  \
    "vldrw.32 q2, [r9], #16\n"                                                                     \
    "vldrw.32 q3, [r9], #16\n"                                                                     \
    "vshl.s32 q2, " q ", q2\n"                                                                     \
    "vpt.i32 eq, q2, q3\n"                                                                         \
    "vsubt.i32 " q ", " q ", r0\n"
#define HIL_MVE_VECTOR_TIES "mov r0, #1\n" HIL_MVE_VECTOR_TIES_OF("q0") HIL_MVE_VECTOR_TIES_OF("q1")

/* Four rows by two columns: a chunk, the first of them with its own sums. */
#define HIL_MVE_ROWS_CHUNK(multiply)                                                               \
    "vldmia r9!, {d0-d3}\n"                                                                        \
    "vldmia r1!, {d4-d7}\n" multiply " r0, q2, q0\n" multiply " r8, q2, q1\n" multiply             \
    " r2, q3, q0\n" multiply " r10, q3, q1\n"                                                      \
    "vldmia r1!, {d4-d7}\n" multiply " r4, q2, q0\n" multiply " r12, q2, q1\n" multiply            \
    " r6, q3, q0\n" multiply " lr, q3, q1\n"

/* clang-format off */

#define HIL_MVE_ROWS(multiply, correct)                                                            \
    HIL_MVE_ROWS_OF(HIL_MVE_ENTER, "", multiply, correct, HIL_MVE_STORE)
#define HIL_MVE_ROWS_OF(enter, add, multiply, correct, store)                                      \
    enter                                                                                          \
    HIL_MVE_ROWS_CHUNK("vmladav.s8")                                                               \
    "bx r5\n"                                                                                      \
    HIL_MVE_SLOTS_OF(HIL_MVE_ROWS_CHUNK("vmladava.s8"), HIL_MVE_ROWS_SLOT_BYTES)                   \
    "cmp r1, r7\n"                                                                                 \
    "blo.w 2b\n"                                                                                   \
    "vmov q0[2], q0[0], r0, r4\n"                                                                  \
    "vmov q0[3], q0[1], r2, r6\n"                                                                  \
    "vmov q1[2], q1[0], r8, r12\n"                                                                 \
    "vmov q1[3], q1[1], r10, lr\n"                                                                 \
    "ldmia r9!, {r0, r2, r4, r6, r8, r10, r12}\n"                                                  \
    "vadd.i32 q0, q0, r0\n"                                                                        \
    "vadd.i32 q1, q1, r2\n" add                                                                    \
    multiply ".s32 q0, q0, r4\n"                                                                   \
    multiply ".s32 q1, q1, r6\n"                                                                   \
    correct                                                                                        \
    "vrshl.s32 q0, r8\n"                                                                           \
    "vrshl.s32 q1, r10\n"                                                                          \
    store                                                                                          \
    "add r11, r12\n"                                                                               \
    HIL_MVE_NEXT

/* clang-format on */

HIL_MVE_FUNCTION(hil_mve_rows_s8) { __asm__(HIL_MVE_ROWS(HIL_MVE_TWICE, "")); }

HIL_MVE_FUNCTION(hil_mve_rows_s8_once) { __asm__(HIL_MVE_ROWS(HIL_MVE_ONCE, "")); }

HIL_MVE_FUNCTION(hil_mve_rows_s8_ties) {
    __asm__(HIL_MVE_ROWS_OF(HIL_MVE_ENTER, HIL_MVE_ROWS_TIES, HIL_MVE_ONCE, "", HIL_MVE_STORE));
}

#define HIL_MVE_ROWS_LINEAR                                                                        \
    "mov r0, #1\n" HIL_MVE_AWAY_FROM_ZERO("q0", "r0") HIL_MVE_AWAY_FROM_ZERO("q1", "r0")

HIL_MVE_FUNCTION(hil_mve_rows_s8_linear) {
    __asm__(HIL_MVE_ROWS(HIL_MVE_TWICE, HIL_MVE_ROWS_LINEAR));
}

/* Four rows of x by pairs of columns. */
HIL_INLINE void hil_mve_rows(int32_t linear, const int8_t *x, const int8_t *stream, int8_t *out,
                             const struct hil_mve_block *block) {
    (linear == HIL_MVE_LINEAR_TIES   ? hil_mve_rows_s8_ties
     : linear == HIL_MVE_LINEAR_ONCE ? hil_mve_rows_s8_once
     : linear                        ? hil_mve_rows_s8_linear
                                     : hil_mve_rows_s8)(x, stream, out, block);
}

/* Where rows add something to their sums, and outputs have the whole range of int8: the block is
 * the first part of struct hil_mve_matrix_block. */
#define HIL_MVE_ROWS_MATRIX(multiply, correct)                                                     \
    HIL_MVE_ROWS_OF(HIL_MVE_ENTER_WITH("vldrw.32 q6, [r3, #40]\n"),                                \
                    "vadd.i32 q0, q0, q6\n"                                                        \
                    "vadd.i32 q1, q1, q6\n",                                                       \
                    multiply, correct,                                                             \
                    "vqmovnb.s32 q0, q0\n"                                                         \
                    "vqmovnt.s32 q0, q1\n"                                                         \
                    "vqadd.s16 q0, q0, q5\n"                                                       \
                    "vqmovnb.s16 q0, q0\n"                                                         \
                    "vstrb.16 q0, [r11, q4]\n")

HIL_MVE_FUNCTION(hil_mve_rows_s8_matrix) {
    __asm__(HIL_MVE_ROWS_MATRIX(HIL_MVE_TWICE, HIL_MVE_ROWS_LINEAR));
}

HIL_MVE_FUNCTION(hil_mve_rows_s8_matrix_once) { __asm__(HIL_MVE_ROWS_MATRIX(HIL_MVE_ONCE, "")); }

#define HIL_MVE_VECTOR_TWO(multiply, first, second)                                                \
    "vldmia r9!, {d2-d5}\n" multiply " " first ", q0, q1\n" multiply " " second ", q0, q2\n"

#define HIL_MVE_VECTOR_CHUNK(multiply)                                                             \
    "vldrb.8 q0, [r1], #16\n" HIL_MVE_VECTOR_TWO(multiply, "r0", "r2")                             \
        HIL_MVE_VECTOR_TWO(multiply, "r4", "r6") HIL_MVE_VECTOR_TWO(multiply, "r8", "r10")         \
            HIL_MVE_VECTOR_TWO(multiply, "r12", "lr")

/* clang-format off */

/* Sums of eight columns, biases included, in q0 and q1. */
#define HIL_MVE_VECTOR_SUMS                                                                        \
    HIL_MVE_ENTER                                                                                  \
    HIL_MVE_VECTOR_CHUNK("vmladav.s8")                                                             \
    "bx r5\n"                                                                                      \
    HIL_MVE_SLOTS_OF(HIL_MVE_VECTOR_CHUNK("vmladava.s8"), HIL_MVE_VECTOR_SLOT_BYTES)               \
    "cmp r1, r7\n"                                                                                 \
    "blo.w 2b\n"                                                                                   \
    "vmov q0[2], q0[0], r0, r4\n"                                                                  \
    "vmov q0[3], q0[1], r2, r6\n"                                                                  \
    "vmov q1[2], q1[0], r8, r12\n"                                                                 \
    "vmov q1[3], q1[1], r10, lr\n"                                                                 \
    "vldrw.32 q2, [r9], #16\n"                                                                     \
    "vldrw.32 q3, [r9], #16\n"                                                                     \
    "vadd.i32 q0, q0, q2\n"                                                                        \
    "vadd.i32 q1, q1, q3\n"

/* clang-format on */

#define HIL_MVE_VECTOR(multiply, correct) HIL_MVE_VECTOR_OF("", multiply, correct)
#define HIL_MVE_VECTOR_OF(add, multiply, correct)                                                  \
    HIL_MVE_VECTOR_SUMS add "vldrw.32 q2, [r9], #16\n"                                             \
                            "vldrw.32 q3, [r9], #16\n" multiply ".s32 q0, q0, q2\n" multiply       \
                            ".s32 q1, q1, q3\n"                                                    \
                            "vldrw.32 q2, [r9], #16\n"                                             \
                            "vldrw.32 q3, [r9], #16\n" correct "vrshl.s32 q0, q0, q2\n"            \
                            "vrshl.s32 q1, q1, q3\n" HIL_MVE_STORE "adds r11, #8\n" HIL_MVE_NEXT

/* The same with one multiplier and one shift behind the biases. */
#define HIL_MVE_VECTOR_UNIFORM(multiply, correct)                                                  \
    HIL_MVE_VECTOR_SUMS                                                                            \
    "ldrd r4, r6, [r9], #8\n" multiply ".s32 q0, q0, r4\n" multiply ".s32 q1, q1, r4\n" correct    \
    "vrshl.s32 q0, r6\n"                                                                           \
    "vrshl.s32 q1, r6\n" HIL_MVE_STORE "adds r11, #8\n" HIL_MVE_NEXT

#define HIL_MVE_VECTOR_CORRECT                                                                     \
    "mov r0, #1\n" HIL_MVE_AWAY_FROM_ZERO("q0", "r0") HIL_MVE_AWAY_FROM_ZERO("q1", "r0")

HIL_MVE_FUNCTION(hil_mve_vector_s8) { __asm__(HIL_MVE_VECTOR(HIL_MVE_TWICE, "")); }

HIL_MVE_FUNCTION(hil_mve_vector_s8_once) { __asm__(HIL_MVE_VECTOR(HIL_MVE_ONCE, "")); }

HIL_MVE_FUNCTION(hil_mve_vector_s8_ties) {
    __asm__(HIL_MVE_VECTOR_OF(HIL_MVE_VECTOR_TIES, HIL_MVE_ONCE, ""));
}

HIL_MVE_FUNCTION(hil_mve_vector_s8_linear) {
    __asm__(HIL_MVE_VECTOR(HIL_MVE_TWICE, HIL_MVE_VECTOR_CORRECT));
}

HIL_MVE_FUNCTION(hil_mve_vector_s8_uniform) { __asm__(HIL_MVE_VECTOR_UNIFORM(HIL_MVE_TWICE, "")); }

HIL_MVE_FUNCTION(hil_mve_vector_s8_uniform_once) {
    __asm__(HIL_MVE_VECTOR_UNIFORM(HIL_MVE_ONCE, ""));
}

HIL_MVE_FUNCTION(hil_mve_vector_s8_uniform_linear) {
    __asm__(HIL_MVE_VECTOR_UNIFORM(HIL_MVE_TWICE, HIL_MVE_VECTOR_CORRECT));
}

/* A vector x by groups of eight columns, of which all have one multiplier and shift or each has. */
HIL_INLINE void hil_mve_vector(int32_t uniform, int32_t linear, const int8_t *x,
                               const int8_t *stream, int8_t *out,
                               const struct hil_mve_block *block) {
    if (uniform) {
        (linear == HIL_MVE_LINEAR_ONCE ? hil_mve_vector_s8_uniform_once
         : linear                      ? hil_mve_vector_s8_uniform_linear
                                       : hil_mve_vector_s8_uniform)(x, stream, out, block);
    } else {
        (linear == HIL_MVE_LINEAR_TIES   ? hil_mve_vector_s8_ties
         : linear == HIL_MVE_LINEAR_ONCE ? hil_mve_vector_s8_once
         : linear                        ? hil_mve_vector_s8_linear
                                         : hil_mve_vector_s8)(x, stream, out, block);
    }
}

#endif
