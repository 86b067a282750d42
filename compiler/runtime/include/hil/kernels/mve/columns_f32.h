/* Rows of floats times columns of a weight matrix on Helium: six rows, or four, by four columns,
 * and one row by sixteen columns. In assembly for the reason that blocks_s8.h has: twelve factors
 * in core registers.
 *
 * Tile: 6 rows x 4 columns x 2 elements of depth, a unit, or 4 rows; or 1 row x 16 columns x 8
 * elements.
 *
 *   rows                                          vector
 *   row i, columns 0 to 3: qi                     columns 4i to 4i + 3: qi, weights q4 to q7
 *   weights q6 (element 0), q7 (element 1)        factors of elements 0 to 7: r2 to r9
 *   factors of element 0: r2 to r7, of element 1: r8 to r12, lr
 *
 * Registers: as drawn; r0 place in x, r1 place in the stream. Of rows, on the stack: +0 x, +4 where
 * the first round of eight units begins, +8 where x ends, +80 the block. Of a vector: r11 where
 * eights of elements end, lr where x ends, r12 the block.
 *
 * Data: packed by `float_columns()`; columns and an odd depth are filled up with
 * zeros.
 *
 *   x        rows: in scratch, float [units][2 elements][6 rows]; vector: as it is
 *   rows     per four columns: float [units][2 elements][4 columns], the four biases
 *   vector   per sixteen columns: float [depth][16 columns], the sixteen biases
 *
 * Order: of six rows all are read before the first output is written; of one the whole for each
 * sixteen columns. Rows are stored from the last to the first: those that a tile has too many go
 * where row 0 goes, before it.
 *
 * Bounds: any float. A sum starts at 0 and takes the products in the order of the depth, each
 * product and sum rounded once, then the bias; subnormal numbers are 0. That is what
 * `multiply_add()` computes for the policy SINGLE of a node, to the last bit.
 *
 * Output: clamped; what is no number stays none. A bound that is infinite takes no time.
 *
 * Scratch: x of six rows, 24 bytes an element of depth.
 *
 * Cost: 14 instructions a unit for 48 MACs (10 for 32) and 3 for eight units, 42 for 24 outputs,
 * rectified; 43 for the 128 MACs of a vector, 29 for sixteen outputs. Measured by `python
 * python tools/measure.py wide` (docs/reference/wide.md).
 *
 * Tests: no twin in C; the numpy reference gives what must come out (tests/board/test_kernels.py,
 * buffers between guard bytes).
 */
#ifndef HIL_KERNELS_MVE_COLUMNS_F32_H
#define HIL_KERNELS_MVE_COLUMNS_F32_H

#include <arm_mve.h>

#include "hil/kernels/mve/blocks_s8.h"

/* Rows of a tile, and of one that is less work where there are not more. */
#define HIL_MVE_F32_ROWS 6
#define HIL_MVE_F32_FEW_ROWS 4

/* Units of a round of the loop. */
#define HIL_MVE_F32_ROUND 8

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

/* Some blocks of columns of some rows. The assembly knows the offsets. */
struct hil_mve_block_f32 {
    float *out[HIL_MVE_F32_ROWS]; /*  0: of each row */
    const float *x;               /* 24 */
    const float *end;             /* 28: where x ends */
    const float *last;            /* 32: where the stream ends */
    int32_t skipped;              /* 36: units of a round that the first one does without */
    float low;                    /* 40 */
    float high;                   /* 44 */
};

HIL_MVE_AT(hil_mve_block_f32, out, 0);
HIL_MVE_AT(hil_mve_block_f32, x, 24);
HIL_MVE_AT(hil_mve_block_f32, end, 28);
HIL_MVE_AT(hil_mve_block_f32, last, 32);
HIL_MVE_AT(hil_mve_block_f32, skipped, 36);
HIL_MVE_AT(hil_mve_block_f32, low, 40);
HIL_MVE_AT(hil_mve_block_f32, high, 44);

/* The same of one row. */
struct hil_mve_vector_block_f32 {
    const float *x;    /*  0 */
    float *out;        /*  4 */
    const float *most; /*  8: where eights of elements of x end */
    const float *end;  /* 12: where x ends */
    const float *last; /* 16: where the stream ends */
    float low;         /* 20 */
    float high;        /* 24 */
};

HIL_MVE_AT(hil_mve_vector_block_f32, x, 0);
HIL_MVE_AT(hil_mve_vector_block_f32, out, 4);
HIL_MVE_AT(hil_mve_vector_block_f32, most, 8);
HIL_MVE_AT(hil_mve_vector_block_f32, end, 12);
HIL_MVE_AT(hil_mve_vector_block_f32, last, 16);
HIL_MVE_AT(hil_mve_vector_block_f32, low, 20);
HIL_MVE_AT(hil_mve_vector_block_f32, high, 24);

/* clang-format off */

#define HIL_MVE_F32_FOUR(each) each("q0") each("q1") each("q2") each("q3")
#define HIL_MVE_F32_SIX(each) HIL_MVE_F32_FOUR(each) each("q4") each("q5")
#define HIL_MVE_F32_ZERO(sums) "vmov.i32 " sums ", #0\n"
#define HIL_MVE_F32_BIAS(sums) "vadd.f32 " sums ", " sums ", q6\n"

/* Bounds in r2, in q7 too, and in r3: lt, other than gt, is true of what is no number. */
#define HIL_MVE_F32_NOT_BELOW(sums)                                                                \
    "vpt.f32 gt, q7, " sums "\n"                                                                   \
    "vdupt.32 " sums ", r2\n"
#define HIL_MVE_F32_NOT_ABOVE(sums)                                                                \
    "vpt.f32 gt, " sums ", r3\n"                                                                   \
    "vdupt.32 " sums ", r3\n"

/* Sums within their bounds, which are not looked at where they are -infinity and infinity. */
#define HIL_MVE_F32_CLAMP(ALL)                                                                     \
    "cmn r2, #0x00800000\n"                                                                        \
    "beq 7f\n"                                                                                     \
    "vdup.32 q7, r2\n"                                                                             \
    ALL(HIL_MVE_F32_NOT_BELOW)                                                                     \
    "7:\n"                                                                                         \
    "cmp r3, #0x7f800000\n"                                                                        \
    "beq 8f\n"                                                                                     \
    ALL(HIL_MVE_F32_NOT_ABOVE)                                                                     \
    "8:\n"

/* Two elements of four columns, with the second of them in the first register that is named; of
 * four rows, and of the other two. */
#define HIL_MVE_F32_FACTORS                                                                        \
    "ldmia.w r0!, {r2-r12, lr}\n"                                                                  \
    "vldmia r1!, {d12-d15}\n"
#define HIL_MVE_F32_FIRST_ROWS                                                                     \
    "vfma.f32 q0, q6, r2\n" "vfma.f32 q1, q6, r3\n"                                                \
    "vfma.f32 q2, q6, r4\n" "vfma.f32 q3, q6, r5\n"                                                \
    "vfma.f32 q0, q7, r8\n" "vfma.f32 q1, q7, r9\n"                                                \
    "vfma.f32 q2, q7, r10\n" "vfma.f32 q3, q7, r11\n"
#define HIL_MVE_F32_OTHER_ROWS                                                                     \
    "vfma.f32 q4, q6, r6\n" "vfma.f32 q5, q6, r7\n"                                                \
    "vfma.f32 q4, q7, r12\n" "vfma.f32 q5, q7, lr\n"
#define HIL_MVE_F32_FOUR_UNIT HIL_MVE_F32_FACTORS HIL_MVE_F32_FIRST_ROWS
#define HIL_MVE_F32_SIX_UNIT HIL_MVE_F32_FOUR_UNIT HIL_MVE_F32_OTHER_ROWS
#define HIL_MVE_F32_FOUR_STORE                                                                     \
    "vstrw.32 q3, [r5], #16\n"                                                                     \
    "vstrw.32 q2, [r4], #16\n"                                                                     \
    "vstrw.32 q1, [r3], #16\n"                                                                     \
    "vstrw.32 q0, [r2], #16\n"
#define HIL_MVE_F32_SIX_STORE                                                                      \
    "vstrw.32 q5, [r7], #16\n"                                                                     \
    "vstrw.32 q4, [r6], #16\n"                                                                     \
    HIL_MVE_F32_FOUR_STORE

/* Rows by fours of columns, r0 the block, r1 the stream. All instructions of a unit are of four
 * bytes: the first round is entered where as many are left as it takes. */
#define HIL_MVE_F32_BLOCKS(ALL, UNIT, BYTES, STORE)                                                \
    "push {r0, r4-r11, lr}\n"                                                                      \
    "vpush {d8-d15}\n"                                                                             \
    "ldrd r2, r4, [r0, #24]\n"                                                                     \
    "ldr r5, [r0, #36]\n"                                                                          \
    "movs r6, #" BYTES "\n"                                                                        \
    "adr.w r3, 2f\n"                                                                               \
    "mla r3, r5, r6, r3\n"                                                                         \
    "orr r3, r3, #1\n"                                                                             \
    "push {r2-r5}\n"                                                                               \
    "1:\n"                                                                                         \
    "ldrd r0, r2, [sp]\n"                                                                          \
    ALL(HIL_MVE_F32_ZERO)                                                                          \
    "bx r2\n"                                                                                      \
    ".p2align 2\n"                                                                                 \
    "2:\n"                                                                                         \
    UNIT UNIT UNIT UNIT UNIT UNIT UNIT UNIT                                                        \
    "ldr r2, [sp, #8]\n"                                                                           \
    "cmp r0, r2\n"                                                                                 \
    "bne.w 2b\n"                                                                                   \
    "vldrw.32 q6, [r1], #16\n"                                                                     \
    "ldr r12, [sp, #80]\n"                                                                         \
    "ldrd r2, r3, [r12, #40]\n"                                                                    \
    ALL(HIL_MVE_F32_BIAS)                                                                          \
    HIL_MVE_F32_CLAMP(ALL)                                                                         \
    "ldmia.w r12, {r2-r7}\n"                                                                       \
    STORE                                                                                          \
    "ldr r8, [r12, #32]\n"                                                                         \
    "stmia.w r12, {r2-r7}\n"                                                                       \
    "cmp r1, r8\n"                                                                                 \
    "bne.w 1b\n"                                                                                   \
    "add sp, #16\n"                                                                                \
    "vpop {d8-d15}\n"                                                                              \
    "pop {r0, r4-r11, pc}\n"

__attribute__((naked, noipa, unused)) static void
hil_mve_rows_f32(struct hil_mve_block_f32 *block __attribute__((unused)),
                 const float *stream __attribute__((unused))) {
    __asm__(
        HIL_MVE_F32_BLOCKS(HIL_MVE_F32_SIX, HIL_MVE_F32_SIX_UNIT, "56", HIL_MVE_F32_SIX_STORE));
}

__attribute__((naked, noipa, unused)) static void
hil_mve_few_rows_f32(struct hil_mve_block_f32 *block __attribute__((unused)),
                     const float *stream __attribute__((unused))) {
    __asm__(
        HIL_MVE_F32_BLOCKS(HIL_MVE_F32_FOUR, HIL_MVE_F32_FOUR_UNIT, "40", HIL_MVE_F32_FOUR_STORE));
}

/* Two elements of six rows, from where q3 to q5 say; then these are at the next two. */
#define HIL_MVE_F32_TWO_OF_SIX                                                                     \
    "vldrw.u32 q0, [q3, #8]!\n"                                                                    \
    "vldrw.u32 q1, [q4, #8]!\n"                                                                    \
    "vldrw.u32 q2, [q5, #8]!\n"                                                                    \
    "vstmia r0!, {d0-d5}\n"

/* Places units of six rows until `end`, four at a time until `most`. `places` are where the elements
 * of a unit are, less two elements. */
__attribute__((naked, noipa, unused)) static void
hil_mve_place_six_f32(float *to __attribute__((unused)), const float *most __attribute__((unused)),
                      const float *end __attribute__((unused)),
                      const uint32_t *places __attribute__((unused))) {
    __asm__(
        "vpush {d8-d11}\n"
        "vldrw.u32 q3, [r3]\n"
        "vldrw.u32 q4, [r3, #16]\n"
        "vldrw.u32 q5, [r3, #32]\n"
        "cmp r0, r1\n"
        "beq 2f\n"
        "1:\n"
        HIL_MVE_F32_TWO_OF_SIX HIL_MVE_F32_TWO_OF_SIX
        HIL_MVE_F32_TWO_OF_SIX HIL_MVE_F32_TWO_OF_SIX
        "cmp r0, r1\n"
        "bne 1b\n"
        "2:\n"
        "cmp r0, r2\n"
        "beq 4f\n"
        "3:\n"
        HIL_MVE_F32_TWO_OF_SIX
        "cmp r0, r2\n"
        "bne 3b\n"
        "4:\n"
        "vpop {d8-d11}\n"
        "bx lr\n");
}

/* An element of sixteen columns. */
#define HIL_MVE_F32_TAP(x)                                                                         \
    "vldmia r1!, {d8-d15}\n"                                                                       \
    "vfma.f32 q0, q4, " x "\n"                                                                     \
    "vfma.f32 q1, q5, " x "\n"                                                                     \
    "vfma.f32 q2, q6, " x "\n"                                                                     \
    "vfma.f32 q3, q7, " x "\n"

/* One row by sixteens of columns. */
__attribute__((naked, noipa, unused)) static void
hil_mve_row_f32(struct hil_mve_vector_block_f32 *block __attribute__((unused)),
                const float *stream __attribute__((unused))) {
    __asm__(
        "push {r4-r11, lr}\n"
        "vpush {d8-d15}\n"
        "mov r12, r0\n"
        "ldrd r11, lr, [r12, #8]\n"
        "1:\n"
        "ldr r0, [r12]\n"
        HIL_MVE_F32_FOUR(HIL_MVE_F32_ZERO)
        "cmp r0, r11\n"
        "beq.w 3f\n"
        "2:\n"
        "ldmia r0!, {r2-r9}\n"
        HIL_MVE_F32_TAP("r2") HIL_MVE_F32_TAP("r3") HIL_MVE_F32_TAP("r4") HIL_MVE_F32_TAP("r5")
        HIL_MVE_F32_TAP("r6") HIL_MVE_F32_TAP("r7") HIL_MVE_F32_TAP("r8") HIL_MVE_F32_TAP("r9")
        "cmp r0, r11\n"
        "bne.w 2b\n"
        "3:\n"
        "cmp r0, lr\n"
        "beq 5f\n"
        "4:\n"
        "ldr r2, [r0], #4\n"
        HIL_MVE_F32_TAP("r2")
        "cmp r0, lr\n"
        "bne 4b\n"
        "5:\n"
        "vldmia r1!, {d8-d15}\n"
        "ldrd r2, r3, [r12, #20]\n"
        "vadd.f32 q0, q0, q4\n"
        "vadd.f32 q1, q1, q5\n"
        "vadd.f32 q2, q2, q6\n"
        "vadd.f32 q3, q3, q7\n"
        HIL_MVE_F32_CLAMP(HIL_MVE_F32_FOUR)
        "ldr r4, [r12, #4]\n"
        "ldr r5, [r12, #16]\n"
        "vstmia r4!, {d0-d7}\n"
        "str r4, [r12, #4]\n"
        "cmp r1, r5\n"
        "bne.w 1b\n"
        "vpop {d8-d15}\n"
        "pop {r4-r11, pc}\n");
}

/* clang-format on */

/* Places some floats `lanes` apart from each other, from `to` on. */
HIL_INLINE void hil_mve_spread_f32(float *to, int32_t lanes, const float *from, int32_t count) {
    const uint32x4_t first = vdupq_n_u32((uint32_t)(uintptr_t)to);
    const uint32_t bytes = (uint32_t)lanes * (uint32_t)sizeof *to;
    const int four_lanes = lanes == HIL_MVE_F32_FEW_ROWS;
    /* A store steps on before it stores. */
    uint32x4_t places = vmlaq_n_u32(first, vidupq_n_u32(0, 1), bytes);
    places = vsubq_n_u32(places, 4 * bytes);
#pragma GCC unroll 4
    for (int32_t fours = count / 4; fours > 0; fours--) {
        const float32x4_t values = vldrwq_f32(from);
        if (four_lanes) {
            vstrwq_scatter_base_wb_f32(&places, 16 * HIL_MVE_F32_FEW_ROWS, values);
        } else {
            vstrwq_scatter_base_wb_f32(&places, 16 * HIL_MVE_F32_ROWS, values);
        }
        from += 4;
    }
    if (count % 4 != 0) {
        const mve_pred16_t inside = vctp32q((uint32_t)(count % 4));
        const float32x4_t values = vldrwq_z_f32(from, inside);
        if (four_lanes) {
            vstrwq_scatter_base_p_f32(places, 16 * HIL_MVE_F32_FEW_ROWS, values, inside);
        } else {
            vstrwq_scatter_base_p_f32(places, 16 * HIL_MVE_F32_ROWS, values, inside);
        }
    }
}

/* Places some elements of a row, whose first one is at `lane`, from its element `k` on, and returns
 * what follows them. */
HIL_INLINE int32_t hil_mve_place_f32(float *lane, int32_t k, const float *from, int32_t count) {
    hil_mve_spread_f32(lane + HIL_MVE_F32_ROWS * k, HIL_MVE_F32_ROWS, from, count);
    return k + count;
}

HIL_INLINE int32_t hil_mve_place_zeros_f32(float *lane, int32_t k, int32_t count) {
    const int32_t end = k + count;
    for (; k < end; k++) {
        lane[HIL_MVE_F32_ROWS * k] = 0.0F;
    }
    return end;
}

/* Places up to six rows of a matrix, `step` floats apart. */
HIL_INLINE void hil_mve_place_rows_f32(float *x, const float *from, int32_t step, int32_t depth,
                                       int32_t rows) {
    /* Of the twelve elements of a unit. */
    static const uint32_t row_of[12] = {0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5};
    static const uint32_t back_of[12] = {8, 8, 8, 8, 8, 8, 4, 4, 4, 4, 4, 4};
    uint32_t places[12];
    for (int32_t i = 0; i < 12; i += 4) {
        /* Rows that are not there are the last one again. */
        const uint32x4_t row = vminq_u32(vldrwq_u32(row_of + i), vdupq_n_u32((uint32_t)(rows - 1)));
        const uint32x4_t base =
            vsubq_u32(vdupq_n_u32((uint32_t)(uintptr_t)from), vldrwq_u32(back_of + i));
        vstrwq_u32(places + i, vmlaq_n_u32(base, row, (uint32_t)step * (uint32_t)sizeof *from));
    }
    hil_mve_place_six_f32(x, x + depth / 8 * (8 * HIL_MVE_F32_ROWS),
                          x + depth / 2 * (2 * HIL_MVE_F32_ROWS), places);
    if (depth % 2 != 0) {
        float *const last = x + (depth - 1) * HIL_MVE_F32_ROWS;
        for (int32_t row = 0; row < HIL_MVE_F32_ROWS; row++) {
            last[row] = row < rows ? from[row * step + depth - 1] : 0.0F;
            last[row + HIL_MVE_F32_ROWS] = 0.0F;
        }
    }
}

/* Up to six rows, placed in x, by all columns. */
HIL_INLINE void hil_mve_columns_f32(const struct hil_mve_columns_f32 *p, const float *x,
                                    int32_t rows, float *out) {
    float some[4 * HIL_MVE_F32_ROWS];
    for (int32_t column = 0; column < p->columns;) {
        const int direct = column + 4 <= p->columns;
        const int32_t count = direct ? (p->columns - column) / 4 * 4 : p->columns - column;
        const float *const stream = p->stream + column * (2 * p->units + 1);
        /* Assembly writes it. */
        /* cppcheck-suppress legacyUninitvar */
        float *const to = direct ? out + column : some;
        const int32_t step = direct ? p->step : 4;
        struct hil_mve_block_f32 block = {
            .out = {to, 1 < rows ? to + step : to, 2 < rows ? to + 2 * step : to,
                    3 < rows ? to + 3 * step : to, 4 < rows ? to + 4 * step : to,
                    5 < rows ? to + 5 * step : to},
            .x = x,
            .end = x + p->units * (2 * HIL_MVE_F32_ROWS),
            .last = stream + (count + 3) / 4 * 4 * (2 * p->units + 1),
            .skipped = -p->units & (HIL_MVE_F32_ROUND - 1),
            .low = p->out_min,
            .high = p->out_max,
        };
        if (rows > HIL_MVE_F32_FEW_ROWS) {
            hil_mve_rows_f32(&block, stream);
        } else {
            hil_mve_few_rows_f32(&block, stream);
        }
        for (int32_t row = 0; !direct && row < rows; row++) {
            for (int32_t i = 0; i < count; i++) {
                /* cppcheck-suppress uninitvar */
                out[row * p->step + column + i] = some[4 * row + i];
            }
        }
        column += count;
    }
}

#endif
