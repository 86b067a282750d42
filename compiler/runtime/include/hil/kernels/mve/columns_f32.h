/* Rows of floats times columns of a weight matrix on Helium: six rows by four columns, and one row
 * by sixteen columns. In assembly for the reason that blocks_s8.h has: twelve factors in core
 * registers.
 *
 * Tile: 6 rows x 4 columns x 2 elements of depth, a unit; or 1 row x 16 columns x 8 elements.
 *
 *   rows                                          vector
 *   row i, columns 0 to 3: qi                     columns 4i to 4i + 3: qi, weights q4 to q7
 *   weights q6 (element 0), q7 (element 1)        factors of elements 0 to 7: r2, r4 to r10
 *   factors of element 0: r2 to r7, of element 1: r8 to r12, lr
 *
 * Registers: as drawn; r0 place in x, r1 place in the stream. On the stack: +0 where fours (eights)
 * of units end, +4 where x ends, +8 d8 to d15, +72 the block.
 *
 * Data: packed by `float_rows()` and `float_vectors()`; columns and an odd depth are filled up with
 * zeros.
 *
 *   x        rows: in scratch, float [units][2 elements][6 rows]; vector: as it is
 *   rows     per four columns: float [units][2 elements][4 columns], the four biases
 *   vector   per sixteen columns: float [depth][16 columns], the sixteen biases
 *
 * Order: of six rows all are read before the first output is written; of one the whole for each
 * sixteen columns.
 *
 * Bounds: any float. A sum starts at 0 and takes the products in the order of the depth, each
 * product and sum rounded once, then the bias; subnormal numbers are 0. That is what
 * `multiply_add()` computes for the policy SINGLE of a node, to the last bit.
 *
 * Output: clamped; what is no number stays none.
 *
 * Scratch: x of six rows, 24 bytes an element of depth.
 *
 * Cost: 15 instructions a unit for 48 MACs and 3 for four units, 66 for 24 outputs; 65 for the 128
 * MACs of a vector, 56 for sixteen outputs. Measured by `python ci/wide.py`
 * (docs/reference/wide.md).
 *
 * Tests: no twin in C; the numpy reference gives what must come out (tests/board/test_kernels.py,
 * buffers between guard bytes).
 */
#ifndef HIL_KERNELS_MVE_COLUMNS_F32_H
#define HIL_KERNELS_MVE_COLUMNS_F32_H

#include <arm_mve.h>

#include "hil/kernels/mve/blocks_s8.h"

/* Rows of a tile. */
#define HIL_MVE_F32_ROWS 6

/* Fields of the kernels' structs that describe the columns. */
#define HIL_MVE_COLUMNS_F32_FIELDS                                                                 \
    int32_t units;      /* of two elements, the depth rounded up */                                \
    int32_t columns;    /* of the weights */                                                       \
    float out_min;      /* the least output */                                                     \
    float out_max;      /* the largest output */                                                   \
    const float *stream /* of fours of columns, columns_f32.h draws it */

/* The columns that are multiplied at a time. */
struct hil_mve_columns_f32 {
    HIL_MVE_COLUMNS_F32_FIELDS;
    int32_t step; /* floats from a row's outputs to the next row's */
};

#define HIL_MVE_COLUMNS_F32(p)                                                                     \
    {                                                                                              \
        .units = (p)->units, .columns = (p)->columns, .out_min = (p)->out_min,                     \
        .out_max = (p)->out_max, .stream = (p)->stream, .step = (p)->columns,                      \
    }

/* Some blocks of columns. The assembly knows the offsets. */
struct hil_mve_block_f32 {
    const float *x;    /*  0 */
    float *out;        /*  4 */
    int32_t step;      /*  8: bytes from a row's outputs to the next row's */
    int32_t blocks;    /* 12 */
    const float *most; /* 16: where fours of units end, or eights of elements */
    const float *end;  /* 20: where x ends */
    float low;         /* 24 */
    float high;        /* 28 */
};

HIL_MVE_AT(hil_mve_block_f32, x, 0);
HIL_MVE_AT(hil_mve_block_f32, out, 4);
HIL_MVE_AT(hil_mve_block_f32, step, 8);
HIL_MVE_AT(hil_mve_block_f32, blocks, 12);
HIL_MVE_AT(hil_mve_block_f32, most, 16);
HIL_MVE_AT(hil_mve_block_f32, end, 20);
HIL_MVE_AT(hil_mve_block_f32, low, 24);
HIL_MVE_AT(hil_mve_block_f32, high, 28);

/* clang-format off */

/* r0 the block, r1 the stream. */
#define HIL_MVE_F32_ENTER                                                                          \
    "push {r0, r4-r11, lr}\n"                                                                      \
    "vpush {d8-d15}\n"                                                                             \
    "ldrd r2, r3, [r0, #16]\n"                                                                     \
    "push {r2, r3}\n"                                                                              \
    ".p2align 2\n"                                                                                 \
    "1:\n"                                                                                         \
    "ldr r0, [sp, #72]\n"                                                                          \
    "ldr r2, [sp]\n"                                                                               \
    "ldr r0, [r0]\n"

/* Back to the next block. */
#define HIL_MVE_F32_LEAVE                                                                          \
    "ldr r6, [r3, #12]\n"                                                                          \
    "subs r6, #1\n"                                                                                \
    "str r6, [r3, #12]\n"                                                                          \
    "bne.w 1b\n"                                                                                   \
    "add sp, #8\n"                                                                                 \
    "vpop {d8-d15}\n"                                                                              \
    "pop {r0, r4-r11, pc}\n"

#define HIL_MVE_F32_BOUNDS                                                                         \
    "ldr r3, [sp, #72]\n"                                                                          \
    "ldrd r4, r5, [r3, #24]\n"                                                                     \
    "vdup.32 q7, r4\n"

/* Bounds in r4, in q7 too, and in r5: lt, other than gt, is true of what is no number. */
#define HIL_MVE_F32_CLAMP(sums)                                                                    \
    "vpt.f32 gt, q7, " sums "\n"                                                                   \
    "vdupt.32 " sums ", r4\n"                                                                      \
    "vpt.f32 gt, " sums ", r5\n"                                                                   \
    "vdupt.32 " sums ", r5\n"

/* Two elements of six rows and four columns. */
#define HIL_MVE_F32_UNIT                                                                           \
    "ldmia r0!, {r2-r12, lr}\n"                                                                    \
    "vldrw.32 q6, [r1], #16\n"                                                                     \
    "vldrw.32 q7, [r1], #16\n"                                                                     \
    "vfma.f32 q0, q6, r2\n" "vfma.f32 q1, q6, r3\n"                                                \
    "vfma.f32 q2, q6, r4\n" "vfma.f32 q3, q6, r5\n"                                                \
    "vfma.f32 q4, q6, r6\n" "vfma.f32 q5, q6, r7\n"                                                \
    "vfma.f32 q0, q7, r8\n" "vfma.f32 q1, q7, r9\n"                                                \
    "vfma.f32 q2, q7, r10\n" "vfma.f32 q3, q7, r11\n"                                              \
    "vfma.f32 q4, q7, r12\n" "vfma.f32 q5, q7, lr\n"

/* An element of sixteen columns. */
#define HIL_MVE_F32_TAP(x)                                                                         \
    "vldrw.32 q4, [r1], #16\n"                                                                     \
    "vldrw.32 q5, [r1], #16\n"                                                                     \
    "vldrw.32 q6, [r1], #16\n"                                                                     \
    "vldrw.32 q7, [r1], #16\n"                                                                     \
    "vfma.f32 q0, q4, " x "\n"                                                                     \
    "vfma.f32 q1, q5, " x "\n"                                                                     \
    "vfma.f32 q2, q6, " x "\n"                                                                     \
    "vfma.f32 q3, q7, " x "\n"

#define HIL_MVE_F32_ZERO(sums) "vmov.i32 " sums ", #0\n"
#define HIL_MVE_F32_BIAS(sums) "vadd.f32 " sums ", " sums ", q6\n"
#define HIL_MVE_F32_OWN_BIAS(sums)                                                                 \
    "vldrw.32 q6, [r1], #16\n"                                                                     \
    "vadd.f32 " sums ", " sums ", q6\n"
#define HIL_MVE_F32_NEXT_ROW(sums)                                                                 \
    "add r8, r8, r7\n"                                                                             \
    "vstrw.32 " sums ", [r8]\n"
#define HIL_MVE_F32_STORE(sums) "vstrw.32 " sums ", [r6], #16\n"
#define HIL_MVE_F32_FOUR(each) each("q0") each("q1") each("q2") each("q3")
#define HIL_MVE_F32_SIX(each) HIL_MVE_F32_FOUR(each) each("q4") each("q5")

/* Six rows by fours of columns. */
__attribute__((naked, noipa, unused)) static void
hil_mve_rows_f32(struct hil_mve_block_f32 *block __attribute__((unused)),
                 const float *stream __attribute__((unused))) {
    __asm__(
        HIL_MVE_F32_ENTER
        HIL_MVE_F32_SIX(HIL_MVE_F32_ZERO)
        "cmp r0, r2\n"
        "beq.w 3f\n"
        "2:\n"
        HIL_MVE_F32_UNIT HIL_MVE_F32_UNIT HIL_MVE_F32_UNIT HIL_MVE_F32_UNIT
        "ldr r2, [sp]\n"
        "cmp r0, r2\n"
        "bne.w 2b\n"
        "3:\n"
        "ldr r2, [sp, #4]\n"
        "cmp r0, r2\n"
        "beq.w 5f\n"
        "4:\n"
        HIL_MVE_F32_UNIT
        "ldr r2, [sp, #4]\n"
        "cmp r0, r2\n"
        "bne.w 4b\n"
        "5:\n"
        "vldrw.32 q6, [r1], #16\n"
        HIL_MVE_F32_BOUNDS
        HIL_MVE_F32_SIX(HIL_MVE_F32_BIAS)
        HIL_MVE_F32_SIX(HIL_MVE_F32_CLAMP)
        "ldrd r6, r7, [r3, #4]\n"
        "mov r8, r6\n"
        "vstrw.32 q0, [r6], #16\n"
        HIL_MVE_F32_NEXT_ROW("q1")
        HIL_MVE_F32_NEXT_ROW("q2")
        HIL_MVE_F32_NEXT_ROW("q3")
        HIL_MVE_F32_NEXT_ROW("q4")
        HIL_MVE_F32_NEXT_ROW("q5")
        "str r6, [r3, #4]\n"
        HIL_MVE_F32_LEAVE);
}

/* One row by sixteens of columns. */
__attribute__((naked, noipa, unused)) static void
hil_mve_row_f32(struct hil_mve_block_f32 *block __attribute__((unused)),
                const float *stream __attribute__((unused))) {
    __asm__(
        HIL_MVE_F32_ENTER
        HIL_MVE_F32_FOUR(HIL_MVE_F32_ZERO)
        "cmp r0, r2\n"
        "beq.w 3f\n"
        "2:\n"
        "ldmia r0!, {r2, r4-r10}\n"
        HIL_MVE_F32_TAP("r2") HIL_MVE_F32_TAP("r4") HIL_MVE_F32_TAP("r5") HIL_MVE_F32_TAP("r6")
        HIL_MVE_F32_TAP("r7") HIL_MVE_F32_TAP("r8") HIL_MVE_F32_TAP("r9") HIL_MVE_F32_TAP("r10")
        "ldr r2, [sp]\n"
        "cmp r0, r2\n"
        "bne.w 2b\n"
        "3:\n"
        "ldr r3, [sp, #4]\n"
        "cmp r0, r3\n"
        "beq.w 5f\n"
        "4:\n"
        "ldr r2, [r0], #4\n"
        HIL_MVE_F32_TAP("r2")
        "cmp r0, r3\n"
        "bne.w 4b\n"
        "5:\n"
        HIL_MVE_F32_BOUNDS
        HIL_MVE_F32_FOUR(HIL_MVE_F32_OWN_BIAS)
        HIL_MVE_F32_FOUR(HIL_MVE_F32_CLAMP)
        "ldr r6, [r3, #4]\n"
        HIL_MVE_F32_FOUR(HIL_MVE_F32_STORE)
        "str r6, [r3, #4]\n"
        HIL_MVE_F32_LEAVE);
}

/* clang-format on */

/* Places some elements of a row, whose first one is at `lane`, from its element `k` on, and returns
 * what follows them. */
HIL_INLINE int32_t hil_mve_place_f32(float *lane, int32_t k, const float *from, int32_t count) {
    const uint32x4_t places = vmulq_n_u32(vidupq_n_u32(0, 1), HIL_MVE_F32_ROWS);
    float *to = lane + HIL_MVE_F32_ROWS * k;
#pragma GCC unroll 4
    for (int32_t fours = count / 4; fours > 0; fours--) {
        vstrwq_scatter_shifted_offset_f32(to, places, vldrwq_f32(from));
        from += 4;
        to += 4 * HIL_MVE_F32_ROWS;
    }
    if (count % 4 != 0) {
        const mve_pred16_t inside = vctp32q((uint32_t)(count % 4));
        vstrwq_scatter_shifted_offset_p_f32(to, places, vldrwq_z_f32(from, inside), inside);
    }
    return k + count;
}

HIL_INLINE int32_t hil_mve_place_zeros_f32(float *lane, int32_t k, int32_t count) {
    const int32_t end = k + count;
    for (; k < end; k++) {
        lane[HIL_MVE_F32_ROWS * k] = 0.0F;
    }
    return end;
}

/* Up to six rows, placed in x, by all columns. */
HIL_INLINE void hil_mve_columns_f32(const struct hil_mve_columns_f32 *p, const float *x,
                                    int32_t rows, float *out) {
    float some[4 * HIL_MVE_F32_ROWS] = {0.0F};
    int32_t blocks;
    for (int32_t column = 0; column < p->columns; column += 4 * blocks) {
        const int direct = rows == HIL_MVE_F32_ROWS && column + 4 <= p->columns;
        blocks = direct ? (p->columns - column) / 4 : 1;
        struct hil_mve_block_f32 block = {
            .x = x,
            .out = direct ? out + column : some,
            .step = direct ? p->step * (int32_t)sizeof *out : 16,
            .blocks = blocks,
            .most = x + p->units / 4 * (8 * HIL_MVE_F32_ROWS),
            .end = x + p->units * (2 * HIL_MVE_F32_ROWS),
            .low = p->out_min,
            .high = p->out_max,
        };
        hil_mve_rows_f32(&block, p->stream + column * (2 * p->units + 1));
        if (!direct) {
            const int32_t count = p->columns - column < 4 ? p->columns - column : 4;
            for (int32_t row = 0; row < rows; row++) {
                for (int32_t i = 0; i < count; i++) {
                    out[row * p->step + column + i] = some[4 * row + i];
                }
            }
        }
    }
}

#endif
