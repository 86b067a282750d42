/* Single rows of floats times eight columns of a weight matrix at a time, by the floating-point
 * unit.
 *
 * Tile: 1 row x 8 columns x 8 elements of depth; then 1 element at a time.
 *
 *      columns 0 to 7: s0 to s7      x: s24 to s31      w: s8 to s15, s16 to s23 of two elements
 *
 * Registers: as drawn; the core's as columns_f32.h has them, but r3, and r5 and r6 end x.
 *
 * Data: packed by `float_columns()`: for each eight columns [depth][8 columns], then the eight
 * biases. Columns are filled up with zeros.
 *
 * Order: of each eight columns the row is read whole before the first output is written.
 *
 * Bounds: those of columns_f32.h.
 *
 * Output: that of columns_f32.h, but that eight outputs are compared at once where sums may be
 * infinite: the row may already be overwritten.
 *
 * Scratch: none.
 *
 * Cost: 71 instructions for 64 MACs, 12 for the 8 of an element that is left, 32 for eight outputs,
 * 44 rectified. Measured by `python tools/measure.py wide` (docs/reference/wide.md).
 *
 * Tests: those of columns_f32.h: tests/c/test_float_kernels.py, tests/board/test_kernels.py.
 */
#ifndef HIL_KERNELS_FPU_MATVEC_F32_H
#define HIL_KERNELS_FPU_MATVEC_F32_H

#include "hil/kernels/fpu/columns_f32.h"

/*@kernel
name = "hil_fpu_matvec_f32"
requires = ["dsp", "fpu"]
inputs = ["float"]
outputs = ["float"]
scratch = "0"
order = ["pixels 1", "channels 8"]
reads = "rows"
code = 900
[cost]
row = "rows"
block = "rows * ((columns + 7) // 8)"
eight = "block * (depth // 8)"
rest = "block * (depth % 8)"
@*/
struct hil_fpu_matvec_f32 {
    int32_t rows;        /* of values, each by itself */
    int32_t depth;       /* values of a row */
    int32_t columns;     /* of the weights */
    float out_min;       /* the least output */
    float out_max;       /* the largest output */
    const float *stream; /* of eights of columns, as drawn above */
};

#if HIL_FPU_ASSEMBLY

/* clang-format off */

/* Eight columns by two elements, and by one. */
#define HIL_FPU_TWO_TAPS(x0, x1)                                                                   \
    "vldmia r1!, {s8-s23}\n\t"                                                                     \
    "vmla.f32 s0, " x0 ", s8\n\t"                                                                  \
    "vmla.f32 s1, " x0 ", s9\n\t"                                                                  \
    "vmla.f32 s2, " x0 ", s10\n\t"                                                                 \
    "vmla.f32 s3, " x0 ", s11\n\t"                                                                 \
    "vmla.f32 s4, " x0 ", s12\n\t"                                                                 \
    "vmla.f32 s5, " x0 ", s13\n\t"                                                                 \
    "vmla.f32 s6, " x0 ", s14\n\t"                                                                 \
    "vmla.f32 s7, " x0 ", s15\n\t"                                                                 \
    "vmla.f32 s0, " x1 ", s16\n\t"                                                                 \
    "vmla.f32 s1, " x1 ", s17\n\t"                                                                 \
    "vmla.f32 s2, " x1 ", s18\n\t"                                                                 \
    "vmla.f32 s3, " x1 ", s19\n\t"                                                                 \
    "vmla.f32 s4, " x1 ", s20\n\t"                                                                 \
    "vmla.f32 s5, " x1 ", s21\n\t"                                                                 \
    "vmla.f32 s6, " x1 ", s22\n\t"                                                                 \
    "vmla.f32 s7, " x1 ", s23\n\t"
#define HIL_FPU_TAP                                                                                \
    "vldmia r8!, {s24}\n\t"                                                                        \
    "vldmia r1!, {s8-s15}\n\t"                                                                     \
    "vmla.f32 s0, s24, s8\n\t"                                                                     \
    "vmla.f32 s1, s24, s9\n\t"                                                                     \
    "vmla.f32 s2, s24, s10\n\t"                                                                    \
    "vmla.f32 s3, s24, s11\n\t"                                                                    \
    "vmla.f32 s4, s24, s12\n\t"                                                                    \
    "vmla.f32 s5, s24, s13\n\t"                                                                    \
    "vmla.f32 s6, s24, s14\n\t"                                                                    \
    "vmla.f32 s7, s24, s15\n\t"
#define HIL_FPU_ROW_BIAS                                                                           \
    "vldmia r1!, {s8-s15}\n\t"                                                                     \
    "vadd.f32 s0, s0, s8\n\t"                                                                      \
    "vadd.f32 s1, s1, s9\n\t"                                                                      \
    "vadd.f32 s2, s2, s10\n\t"                                                                     \
    "vadd.f32 s3, s3, s11\n\t"                                                                     \
    "vadd.f32 s4, s4, s12\n\t"                                                                     \
    "vadd.f32 s5, s5, s13\n\t"                                                                     \
    "vadd.f32 s6, s6, s14\n\t"                                                                     \
    "vadd.f32 s7, s7, s15\n\t"

#define HIL_FPU_ROW_STORE "vstmia r8, {s0-s7}\n\t"
#define HIL_FPU_ROW_RECTIFIED                                                                      \
    HIL_FPU_RECTIFY("s0, s1", "s2, s3")                                                            \
    "stmia r8!, {r10, r11, r12, lr}\n\t"                                                           \
    HIL_FPU_RECTIFY("s4, s5", "s6, s7")                                                            \
    "stmia r8, {r10, r11, r12, lr}\n\t"


/* Sums are compared with the ends of the type after an overflow, or if the first one is infinite:
 * by itself it is then no number, which is invalid. */
#define HIL_FPU_ROW_UNLESS                                                                         \
    "vsub.f32 s16, s0, s0\n\t"                                                                     \
    "vmrs r11, fpscr\n\t"                                                                          \
    "tst r11, #5\n\t"                                                                              \
    "it ne\n\t"                                                                                    \
    "orrne r10, r10, #2\n\t"

/* clang-format on */

HIL_INLINE void hil_fpu_run_row(struct hil_fpu_block *block) {
    register struct hil_fpu_block *at __asm__("r0") = block;
    __asm__ volatile(
        HIL_FPU_ENTER
        "ldmia r0, {r1, r2, r3, r4, r5, r6, r9}\n\t"
        "1:\n\t"
        "ldr r10, [r0, #28]\n\t"
        "mov r8, r4\n\t"
        "cmp r8, r5\n\t"
        "vldmia r10, {s0-s7}\n\t"
        "beq 3f\n\t"
        "2:\n\t"
        "vldmia r8!, {s24-s31}\n\t" HIL_FPU_TWO_TAPS("s24", "s25") HIL_FPU_TWO_TAPS("s26", "s27")
            HIL_FPU_TWO_TAPS("s28", "s29") HIL_FPU_TWO_TAPS(
                "s30", "s31") "cmp r8, r5\n\t"
                              "bne 2b\n\t"
                              "3:\n\t"
                              "cmp r8, r6\n\t"
                              "beq 5f\n\t"
                              "4:\n\t" HIL_FPU_TAP "cmp r8, r6\n\t"
                              "bne 4b\n\t"
                              "5:\n\t" HIL_FPU_ROW_BIAS "mov r8, r2\n\t"
                              "add r2, r2, #32\n\t" HIL_FPU_FINISH(
                                  HIL_FPU_ROW_UNLESS, HIL_FPU_EIGHT, HIL_FPU_ROW_STORE,
                                  HIL_FPU_ROW_RECTIFIED) "subs r9, r9, #1\n\t"
                                                         "bne 1b\n\t"
                                                         "vmov.f32 s16, s0\n\t" HIL_FPU_LEAVE
        : "+r"(at)
        :
        : HIL_FPU_CLOBBERED);
}

#else

HIL_INLINE void hil_fpu_run_row(struct hil_fpu_block *block) {
    const float *w = block->weights;
    for (int32_t left = block->blocks; left > 0; left--) {
        float sums[8] = {0.0F};
        for (const float *x = block->x; x != block->end; x++) {
            for (int32_t i = 0; i < 8; i++) {
                sums[i] += *x * w[i];
            }
            w += 8;
        }
        for (int32_t i = 0; i < 8; i++) {
            block->out[i] = hil_clamp_f32(sums[i] + w[i], block->low, block->high);
        }
        w += 8;
        block->out += 8;
    }
}

#endif

HIL_INLINE void hil_fpu_matvec_f32(const struct hil_fpu_matvec_f32 *p, const float *in,
                                   float *out) {
    float some[8] = {0.0F};
    for (int32_t rows = p->rows; rows > 0; rows--) {
        int32_t blocks;
        for (int32_t column = 0; column < p->columns; column += 8 * blocks) {
            const int direct = column + 8 <= p->columns;
            blocks = direct ? (p->columns - column) / 8 : 1;
            struct hil_fpu_block block = {
                .weights = p->stream + column * (p->depth + 1),
                .out = direct ? out + column : some,
                .step = 0,
                .x = in,
                .fours_end = in + p->depth / 8 * 8,
                .end = in + p->depth,
                .blocks = blocks,
                .zeros = hil_fpu_zeros,
                .bounds = hil_fpu_bounds(p->out_min, p->out_max, 0),
                .low = p->out_min,
                .high = p->out_max,
                .beyond = 0,
            };
            hil_fpu_run_row(&block);
            for (int32_t i = column; !direct && i < p->columns; i++) {
                out[i] = some[i - column];
            }
        }
        in += p->depth;
        out += p->columns;
    }
}

#endif
