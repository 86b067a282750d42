/* The inner blocks of the Helium kernels: dot products of int8 vectors and their requantisation.
 *
 * They are in assembly because eight sums want all eight even core registers, which the compiler
 * spills. vmladava multiplies and adds up 16 pairs, so a block of four rows by two columns takes 14
 * instructions for 128 products. Depths are padded to chunks of 16 with weights of 0.
 *
 * Both blocks requantise by vqrdmulh and vrshl, which round like hil_requantize except that halves
 * below zero go up. Where such values remain after the clamp (out_min < out_zero_point), the blocks
 * whose name ends in `_linear` first take one from what is negative. That is right for shifts below
 * 0, which the compiler checks. */
#ifndef HIL_KERNELS_MVE_BLOCKS_S8_H
#define HIL_KERNELS_MVE_BLOCKS_S8_H

#include <stddef.h>
#include <stdint.h>

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

/* A function that is all assembly, of whose effects the compiler must assume nothing. */
#define HIL_MVE_FUNCTION(name)                                                                     \
    __attribute__((naked, noipa, unused)) static void name(                                        \
        const int8_t *x __attribute__((unused)), const int8_t *stream __attribute__((unused)),     \
        int8_t *out __attribute__((unused)),                                                       \
        const struct hil_mve_block *block __attribute__((unused)))

/* How many chunks are written out behind the first one, and the code's size of one. */
#define HIL_MVE_SLOTS 8
#define HIL_MVE_ROWS_SLOT_BYTES 56
#define HIL_MVE_VECTOR_SLOT_BYTES 68

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

/* Saves what the caller keeps; the arguments x, stream, out, block are in r0 to r3. Then r1 is the
 * place in x, r3 the steps left, r5 the address of the code for the depth, r7 the end of x, r9 the
 * place in the stream, r11 the output; q4 has the offsets, q5 to q7 zero point, low and high. */
#define HIL_MVE_ENTER                                                                              \
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
    "vdup.16 q5, r4\n"                                                                             \
    "vdup.16 q6, r6\n"                                                                             \
    "vdup.16 q7, r8\n"                                                                             \
    "ldr r3, [r3]\n"                                                                               \
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

#define HIL_MVE_AWAY_FROM_ZERO(q, one)                                                             \
    "vpt.s32 lt, " q ", zr\n"                                                                      \
    "vsubt.i32 " q ", " q ", " one "\n"

/* Four rows by two columns: a chunk, the first of them with its own sums. */
#define HIL_MVE_ROWS_CHUNK(multiply)                                                               \
    "vldrb.8 q0, [r9], #16\n"                                                                      \
    "vldrb.8 q1, [r9], #16\n"                                                                      \
    "vldrb.8 q2, [r1], #16\n" multiply " r0, q2, q0\n" multiply " r8, q2, q1\n"                    \
    "vldrb.8 q3, [r1], #16\n" multiply " r2, q3, q0\n" multiply " r10, q3, q1\n"                   \
    "vldrb.8 q2, [r1], #16\n" multiply " r4, q2, q0\n" multiply " r12, q2, q1\n"                   \
    "vldrb.8 q3, [r1], #16\n" multiply " r6, q3, q0\n" multiply " lr, q3, q1\n"

/* clang-format off */

#define HIL_MVE_ROWS(correct)                                                                      \
    HIL_MVE_ENTER                                                                                  \
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
    "vadd.i32 q1, q1, r2\n"                                                                        \
    "vqrdmulh.s32 q0, q0, r4\n"                                                                    \
    "vqrdmulh.s32 q1, q1, r6\n"                                                                    \
    correct                                                                                        \
    "vrshl.s32 q0, r8\n"                                                                           \
    "vrshl.s32 q1, r10\n"                                                                          \
    HIL_MVE_STORE                                                                                  \
    "add r11, r12\n"                                                                               \
    HIL_MVE_NEXT

/* clang-format on */

/* Four rows of x by pairs of columns: x[chunks][4][16]; stream: for each pair weights
 * [chunks][2][16], then int32: two biases, two multipliers, two shifts, the distance of the
 * outputs of the next pair from those of this one. */
HIL_MVE_FUNCTION(hil_mve_rows_s8) { __asm__(HIL_MVE_ROWS("")); }

HIL_MVE_FUNCTION(hil_mve_rows_s8_linear) {
    __asm__(HIL_MVE_ROWS("mov r0, #1\n" HIL_MVE_AWAY_FROM_ZERO("q0", "r0")
                             HIL_MVE_AWAY_FROM_ZERO("q1", "r0")));
}

#define HIL_MVE_VECTOR_COLUMN(multiply, sum, q)                                                    \
    "vldrb.8 " q ", [r9], #16\n" multiply " " sum ", q0, " q "\n"

#define HIL_MVE_VECTOR_CHUNK(multiply)                                                             \
    "vldrb.8 q0, [r1], #16\n" HIL_MVE_VECTOR_COLUMN(multiply, "r0", "q1")                          \
        HIL_MVE_VECTOR_COLUMN(multiply, "r2", "q2") HIL_MVE_VECTOR_COLUMN(multiply, "r4", "q1")    \
            HIL_MVE_VECTOR_COLUMN(multiply, "r6", "q2")                                            \
                HIL_MVE_VECTOR_COLUMN(multiply, "r8", "q1")                                        \
                    HIL_MVE_VECTOR_COLUMN(multiply, "r10", "q2")                                   \
                        HIL_MVE_VECTOR_COLUMN(multiply, "r12", "q1")                               \
                            HIL_MVE_VECTOR_COLUMN(multiply, "lr", "q2")

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

#define HIL_MVE_VECTOR(correct)                                                                    \
    HIL_MVE_VECTOR_SUMS                                                                            \
    "vldrw.32 q2, [r9], #16\n"                                                                     \
    "vldrw.32 q3, [r9], #16\n"                                                                     \
    "vqrdmulh.s32 q0, q0, q2\n"                                                                    \
    "vqrdmulh.s32 q1, q1, q3\n"                                                                    \
    "vldrw.32 q2, [r9], #16\n"                                                                     \
    "vldrw.32 q3, [r9], #16\n" correct "vrshl.s32 q0, q0, q2\n"                                    \
    "vrshl.s32 q1, q1, q3\n" HIL_MVE_STORE "adds r11, #8\n" HIL_MVE_NEXT

/* The same with one multiplier and one shift behind the biases. */
#define HIL_MVE_VECTOR_UNIFORM(correct)                                                            \
    HIL_MVE_VECTOR_SUMS                                                                            \
    "ldrd r4, r6, [r9], #8\n"                                                                      \
    "vqrdmulh.s32 q0, q0, r4\n"                                                                    \
    "vqrdmulh.s32 q1, q1, r4\n" correct "vrshl.s32 q0, r6\n"                                       \
    "vrshl.s32 q1, r6\n" HIL_MVE_STORE "adds r11, #8\n" HIL_MVE_NEXT

#define HIL_MVE_VECTOR_CORRECT                                                                     \
    "mov r0, #1\n" HIL_MVE_AWAY_FROM_ZERO("q0", "r0") HIL_MVE_AWAY_FROM_ZERO("q1", "r0")

/* A vector x[chunks][16] by groups of eight columns; stream: for each group weights
 * [chunks][8][16], then int32: the biases of columns 0, 2, 4, 6, 1, 3, 5, 7, the multipliers and
 * the shifts in the same order. The weights lie in this order, too, so that a step's outputs
 * leave in their own. */
HIL_MVE_FUNCTION(hil_mve_vector_s8) { __asm__(HIL_MVE_VECTOR("")); }

HIL_MVE_FUNCTION(hil_mve_vector_s8_linear) { __asm__(HIL_MVE_VECTOR(HIL_MVE_VECTOR_CORRECT)); }

HIL_MVE_FUNCTION(hil_mve_vector_s8_uniform) { __asm__(HIL_MVE_VECTOR_UNIFORM("")); }

HIL_MVE_FUNCTION(hil_mve_vector_s8_uniform_linear) {
    __asm__(HIL_MVE_VECTOR_UNIFORM(HIL_MVE_VECTOR_CORRECT));
}

#endif
