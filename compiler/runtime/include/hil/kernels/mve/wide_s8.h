/* The block that multiplies one row of int8 by an int8 weight matrix on Helium, eight columns at a
 * time, to outputs of 16 bits: gates of LSTMs, features of SVDFs. In assembly because eight sums
 * want all eight even core registers, which the compiler spills, and because the row stays in
 * vector registers from one group of columns to the next.
 *
 * Tile: 1 row x 8 columns x one chunk of 16.
 *
 *   columns   0   2   4   6     1   3   5   7
 *   sums      r0  r2  r4  r6    r8  r10 r12 lr
 *   weights   q0 ... q3, four columns in one load
 *   row       q5 ... q7, the last three chunks; chunks before them in q4 in turn
 *
 * Registers, at the top of a group: the sums; r1 place in the row; r3 groups left; r5 address of
 * the code for the depth; r7 where the last three chunks begin; r9 place in the stream; r11
 * outputs. On the stack: d8-d15 at 0, r0 (the row) at 64.
 *
 * Data: n chunks, depths filled up with weights of 0. Packed by `wide_groups()`.
 *
 *   x        int8 [n][16]
 *   stream   per 8 columns, 128n + 48 bytes: int32[8] biases, int8 [n][8][16] weights, both of
 *            columns 0 2 4 6 1 3 5 7, then int32 multiplier, shift (not to the left), what is added
 *            to products below 0 (-1 with a shift, else 0), shift of sums to the left
 *   out      int16[8] a group
 *
 * Sums start with the biases. The slots of code for the last three chunks follow each other, as do
 * the loads of these, and eight slots for chunks before them, in turns; jumps skip those that a
 * depth does not have: the assembler checks the size.
 *
 * Order: the row is read before the first output is written.
 *
 * Bounds: vmladava adds modulo 2^32; a sum, bias included, is below 2^31, also when shifted to the
 * left (`wide_groups()`).
 *
 * Output: the sum, shifted to the left, then vqrdmulh and vrshl, the reference's double rounding
 * but for halves below zero, which go up instead of away from zero: one is taken from negative
 * products first where there is a shift. Then saturation to 16 bits. The functions `_added`
 * add what is at the output, saturated; those without `_raised` shift no sum to the left.
 *
 * Scratch: none.
 *
 * Cost: 10 instructions for 128 MACs, 11 beyond the last three chunks; 20 a group, 22 with
 * addition, 2 more where sums are shifted to the left.
 *
 * Tests: no twin in C; the numpy reference gives what must come out (tests/board/test_kernels.py).
 * Layout: tests/c/test_kernel_layouts.py; size of a slot: tests/c/test_headers.py.
 */
#ifndef HIL_KERNELS_MVE_WIDE_S8_H
#define HIL_KERNELS_MVE_WIDE_S8_H

#include "hil/kernels/mve/blocks_s8.h"

/* What the groups of a layer share. The assembly knows the offsets. */
struct hil_mve_wide_block {
    int32_t groups;    /* 0: of eight columns */
    int32_t skipped;   /* 4: bytes of code to skip for the depth */
    int32_t unloaded;  /* 8: bytes of loads to skip for it */
    int32_t x_bytes;   /* 12: of the row, in whole chunks */
    int32_t far_bytes; /* 16: of its chunks before the last three */
};

HIL_MVE_AT(hil_mve_wide_block, groups, 0);
HIL_MVE_AT(hil_mve_wide_block, skipped, 4);
HIL_MVE_AT(hil_mve_wide_block, unloaded, 8);
HIL_MVE_AT(hil_mve_wide_block, x_bytes, 12);
HIL_MVE_AT(hil_mve_wide_block, far_bytes, 16);

/* Chunks of a row that stay in registers, and the code's size of one; those before them. */
#define HIL_MVE_WIDE_SLOTS 3
#define HIL_MVE_WIDE_SLOT_BYTES 40
#define HIL_MVE_WIDE_FAR_SLOTS 8
#define HIL_MVE_WIDE_FAR_SLOT_BYTES 44

#define HIL_MVE_WIDE_FOUR(a, b, c, d, x)                                                           \
    "vldmia r9!, {d0-d7}\n"                                                                        \
    "vmladava.s8 " a ", " x ", q0\n"                                                               \
    "vmladava.s8 " b ", " x ", q1\n"                                                               \
    "vmladava.s8 " c ", " x ", q2\n"                                                               \
    "vmladava.s8 " d ", " x ", q3\n"

#define HIL_MVE_WIDE_CHUNK(x)                                                                      \
    HIL_MVE_WIDE_FOUR("r0", "r2", "r4", "r6", x)                                                   \
    HIL_MVE_WIDE_FOUR("r8", "r10", "r12", "lr", x)

/* clang-format off */

#define HIL_MVE_WIDE(raise, add)                                                                   \
    "push {r0, r4-r11, lr}\n"                                                                      \
    "vpush {d8-d15}\n"                                                                             \
    "mov r9, r1\n"                                                                                 \
    "mov r1, r0\n"                                                                                 \
    "mov r11, r2\n"                                                                                \
    "ldrd r4, r6, [r3, #4]\n"                                                                      \
    "ldrd r8, r10, [r3, #12]\n"                                                                    \
    "ldr r3, [r3]\n"                                                                               \
    "adr r5, 2f\n"                                                                                 \
    "add r7, r0, r10\n"                                                                            \
    "cmp r10, #0\n"                                                                                \
    "beq 0f\n"                                                                                     \
    "adr r5, 4f\n"                                                                                 \
    "0:\n"                                                                                         \
    "add r5, r5, r4\n"                                                                             \
    "orr r5, r5, #1\n"                                                                             \
    "add r0, r0, r8\n"                                                                             \
    "adr r4, 6f\n"                                                                                 \
    "add r4, r4, r6\n"                                                                             \
    "orr r4, r4, #1\n"                                                                             \
    "bx r4\n"                                                                                      \
    ".p2align 2\n"                                                                                 \
    "6:\n"                                                                                         \
    "vldrb.8 q5, [r0, #-48]\n"                                                                     \
    "vldrb.8 q6, [r0, #-32]\n"                                                                     \
    "vldrb.8 q7, [r0, #-16]\n"                                                                     \
    ".p2align 2\n"                                                                                 \
    "1:\n"                                                                                         \
    "ldmia r9!, {r0, r2, r4, r6, r8, r10, r12, lr}\n"                                              \
    "bx r5\n"                                                                                      \
    ".p2align 2\n"                                                                                 \
    "4:\n"                                                                                         \
    ".rept " HIL_MVE_TEXT(HIL_MVE_WIDE_FAR_SLOTS) "\n"                                             \
    "vldrb.8 q4, [r1], #16\n"                                                                      \
    HIL_MVE_WIDE_CHUNK("q4")                                                                       \
    ".endr\n"                                                                                      \
    "5:\n"                                                                                         \
    HIL_MVE_CHECK_BYTES("5b - 4b",                                                                 \
                        HIL_MVE_TEXT(HIL_MVE_WIDE_FAR_SLOTS * HIL_MVE_WIDE_FAR_SLOT_BYTES))        \
    "cmp r1, r7\n"                                                                                 \
    "blo.w 4b\n"                                                                                   \
    "ldr r1, [sp, #64]\n"                                                                          \
    ".p2align 2\n"                                                                                 \
    "2:\n"                                                                                         \
    HIL_MVE_WIDE_CHUNK("q5")                                                                       \
    HIL_MVE_WIDE_CHUNK("q6")                                                                       \
    HIL_MVE_WIDE_CHUNK("q7")                                                                       \
    "3:\n"                                                                                         \
    HIL_MVE_CHECK_BYTES("3b - 2b", HIL_MVE_TEXT(HIL_MVE_WIDE_SLOTS * HIL_MVE_WIDE_SLOT_BYTES))     \
    "vmov q0[2], q0[0], r0, r4\n"                                                                  \
    "vmov q0[3], q0[1], r2, r6\n"                                                                  \
    "vmov q1[2], q1[0], r8, r12\n"                                                                 \
    "vmov q1[3], q1[1], r10, lr\n"                                                                 \
    "ldmia r9!, {r0, r4, r6, r8}\n"                                                                \
    raise                                                                                          \
    "vqrdmulh.s32 q0, q0, r0\n"                                                                    \
    "vqrdmulh.s32 q1, q1, r0\n"                                                                    \
    "vpt.s32 lt, q0, zr\n"                                                                         \
    "vaddt.i32 q0, q0, r6\n"                                                                       \
    "vpt.s32 lt, q1, zr\n"                                                                         \
    "vaddt.i32 q1, q1, r6\n"                                                                       \
    "vrshl.s32 q0, r4\n"                                                                           \
    "vrshl.s32 q1, r4\n"                                                                           \
    "vqmovnb.s32 q0, q0\n"                                                                         \
    "vqmovnt.s32 q0, q1\n"                                                                         \
    add                                                                                            \
    "vstrh.16 q0, [r11], #16\n"                                                                    \
    "subs r3, #1\n"                                                                                \
    "bne.w 1b\n"                                                                                   \
    "vpop {d8-d15}\n"                                                                              \
    "pop {r0, r4-r11, pc}\n"

/* clang-format on */

#define HIL_MVE_WIDE_FUNCTION(name)                                                                \
    __attribute__((naked, noipa, unused)) static void name(                                        \
        const int8_t *x __attribute__((unused)), const int8_t *stream __attribute__((unused)),     \
        int16_t *out __attribute__((unused)),                                                      \
        const struct hil_mve_wide_block *block __attribute__((unused)))

#define HIL_MVE_WIDE_RAISED "vshl.s32 q0, r8\nvshl.s32 q1, r8\n"
#define HIL_MVE_WIDE_ADDED "vldrh.16 q1, [r11]\nvqadd.s16 q0, q0, q1\n"

HIL_MVE_WIDE_FUNCTION(hil_mve_wide_s8) { __asm__(HIL_MVE_WIDE("", "")); }

HIL_MVE_WIDE_FUNCTION(hil_mve_wide_s8_added) { __asm__(HIL_MVE_WIDE("", HIL_MVE_WIDE_ADDED)); }

HIL_MVE_WIDE_FUNCTION(hil_mve_wide_s8_raised) { __asm__(HIL_MVE_WIDE(HIL_MVE_WIDE_RAISED, "")); }

HIL_MVE_WIDE_FUNCTION(hil_mve_wide_s8_raised_added) {
    __asm__(HIL_MVE_WIDE(HIL_MVE_WIDE_RAISED, HIL_MVE_WIDE_ADDED));
}

/* The outputs of a row of `chunks`, in groups of eight; `raised`: sums are shifted to the left;
 * `added` adds outputs to what is there. */
HIL_INLINE void hil_mve_wide(int32_t raised, int32_t added, const int8_t *x, const int8_t *stream,
                             int32_t chunks, int32_t groups, int16_t *out) {
    const int32_t far = chunks > HIL_MVE_WIDE_SLOTS ? chunks - HIL_MVE_WIDE_SLOTS : 0;
    const int32_t without = HIL_MVE_WIDE_SLOTS - (chunks - far);
    const int32_t far_without =
        (HIL_MVE_WIDE_FAR_SLOTS - far % HIL_MVE_WIDE_FAR_SLOTS) % HIL_MVE_WIDE_FAR_SLOTS;
    const struct hil_mve_wide_block block = {
        .groups = groups,
        .skipped =
            far > 0 ? far_without * HIL_MVE_WIDE_FAR_SLOT_BYTES : without * HIL_MVE_WIDE_SLOT_BYTES,
        .unloaded = 4 * without,
        .x_bytes = HIL_MVE_CHUNK * chunks,
        .far_bytes = HIL_MVE_CHUNK * far,
    };
    if (raised) {
        (added ? hil_mve_wide_s8_raised_added : hil_mve_wide_s8_raised)(x, stream, out, &block);
    } else {
        (added ? hil_mve_wide_s8_added : hil_mve_wide_s8)(x, stream, out, &block);
    }
}

#endif
