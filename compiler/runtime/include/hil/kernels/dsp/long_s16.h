/* Sums of 64 bits of products with int16 values: of pairs of rows and pairs of columns, or of a row
 * and four columns; for layers whose sums leave 32 bits.
 *
 * Tile: 2 rows x 2 columns x 4 elements of depth, a unit; or 1 row x 4 columns x 4 elements.
 *
 *              column 0   column 1                     column 0   column 1   column 2   column 3
 *      row 0     r4 r5      r6 r7       one row, wide    r4 r5      r6 r7     r8 r11     r12 lr
 *      row 1    r8 r11     r12 lr               narrow    both      r6 r7      both      r12 lr
 *
 * Registers: the sums as drawn, where `both` is 256 * A1 + A0 beside A0; r9 rows, r10 weights; r0
 * r1 elements of rows, r2 r3 weights. Stack: +0 the sums, +4 where the weights end, +8 the caller's
 * r7, in which a compiler may keep its frame, +12 nothing.
 *
 * Data: rows and weights as columns_s16.h and matvec_s16.h draw them. Before the weights of a block
 * lie, in place of what these have there (`long_sums_of()`)
 *
 *   lower and upper word of the bias of each column, multipliers, shifts to the right
 *
 * Order: that of the kernels.
 *
 * Bounds: a product of two pairs is at most 2^31; smlald adds modulo 2^64. |sum| < 2^47, bias
 * included, for every input (`checked()`).
 *
 * Output: hil_requantize_once(), as in generic/matmul_s16.h.
 *
 * Scratch: none.
 *
 * Cost: 12 instructions a unit of pairs for 16 MACs, 15 of a row (wide: 13), 3 for up to eight
 * units, about 40 for an output. Layers are in docs/how-to/kernels.md, section 7.
 *
 * Tests: the twins are hil_dsp_s16_long_pairs and hil_dsp_s16_long_row in C
 * (tests/c/test_wide_kernels.py), the assembly tests/board/test_sixteen_bits.py; both have sums
 * beyond 32 bits.
 */
#ifndef HIL_KERNELS_DSP_LONG_S16_H
#define HIL_KERNELS_DSP_LONG_S16_H

#include <stddef.h>

#include "hil/dsp.h"
#include "hil/kernels/generic/matmul_s16.h"

struct hil_dsp_s16_long {
    const uint32_t *rows;
    const uint32_t *weights;
    const uint32_t *end; /* of the weights */
    int64_t sums[4];     /* row by row, or those of a row; results, without biases */
};

#if HIL_DSP_ASSEMBLY

_Static_assert(offsetof(struct hil_dsp_s16_long, end) == 8, "long_s16.h");
_Static_assert(offsetof(struct hil_dsp_s16_long, sums) == 16, "long_s16.h");

/* clang-format off */

#define HIL_DSP_S16_LONG_PAIRS_HALF                                                                \
    "ldrd r0, r1, [r9], #8\n\t"                                                                    \
    "ldrd r2, r3, [r10], #8\n\t"                                                                   \
    "smlald r4, r5, r0, r2\n\t"                                                                    \
    "smlald r6, r7, r0, r3\n\t"                                                                    \
    "smlald r8, r11, r1, r2\n\t"                                                                   \
    "smlald r12, lr, r1, r3\n\t"
#define HIL_DSP_S16_LONG_PAIRS HIL_DSP_S16_LONG_PAIRS_HALF HIL_DSP_S16_LONG_PAIRS_HALF

/* A word of the row by four columns. */
#define HIL_DSP_S16_LONG_WIDE_WORD(x)                                                              \
    "ldrd r2, r3, [r10], #8\n\t"                                                                   \
    "smlald r4, r5, " x ", r2\n\t"                                                                 \
    "smlald r6, r7, " x ", r3\n\t"                                                                 \
    "ldrd r2, r3, [r10], #8\n\t"                                                                   \
    "smlald r8, r11, " x ", r2\n\t"                                                                \
    "smlald r12, lr, " x ", r3\n\t"
#define HIL_DSP_S16_LONG_WIDE                                                                      \
    "ldrd r0, r1, [r9], #8\n\t" HIL_DSP_S16_LONG_WIDE_WORD("r0") HIL_DSP_S16_LONG_WIDE_WORD("r1")

#define HIL_DSP_S16_LONG_NARROW_WORD(x)                                                            \
    "ldrd r2, r3, [r10], #8\n\t"                                                                   \
    "smlald r4, r5, " x ", r2\n\t"                                                                 \
    "sxtb16 r2, r2\n\t"                                                                            \
    "smlald r8, r11, " x ", r3\n\t"                                                                \
    "sxtb16 r3, r3\n\t"                                                                            \
    "smlald r6, r7, " x ", r2\n\t"                                                                 \
    "smlald r12, lr, " x ", r3\n\t"
#define HIL_DSP_S16_LONG_NARROW                                                                    \
    "ldrd r0, r1, [r9], #8\n\t"                                                                    \
    HIL_DSP_S16_LONG_NARROW_WORD("r0") HIL_DSP_S16_LONG_NARROW_WORD("r1")

#define HIL_DSP_S16_LONG_ONE(UNIT) UNIT
#define HIL_DSP_S16_LONG_FOUR(UNIT) UNIT UNIT UNIT UNIT
#define HIL_DSP_S16_LONG_EIGHT(UNIT) UNIT UNIT UNIT UNIT UNIT UNIT UNIT UNIT

#define HIL_DSP_S16_LONG_LOOP(body)                                                                \
    __asm__ volatile("ldr r1, [r0, #8]\n\t"                                                        \
                     "push {r0, r1, r7, r12}\n\t"                                                  \
                     "ldrd r9, r10, [r0]\n\t"                                                      \
                     "mov r4, #0\n\t"                                                              \
                     "mov r5, #0\n\t"                                                              \
                     "mov r6, #0\n\t"                                                              \
                     "mov r7, #0\n\t"                                                              \
                     "mov r8, #0\n\t"                                                              \
                     "mov r11, #0\n\t"                                                             \
                     "mov r12, #0\n\t"                                                             \
                     "mov lr, #0\n\t"                                                              \
                     "1:\n\t" body                                                                 \
                     "ldr r0, [sp, #4]\n\t"                                                        \
                     "cmp r10, r0\n\t"                                                             \
                     "bne 1b\n\t"                                                                  \
                     "ldr r0, [sp]\n\t"                                                            \
                     "strd r4, r5, [r0, #16]\n\t"                                                  \
                     "strd r6, r7, [r0, #24]\n\t"                                                  \
                     "strd r8, r11, [r0, #32]\n\t"                                                 \
                     "strd r12, lr, [r0, #40]\n\t"                                                 \
                     "pop {r0, r1, r7, r12}\n\t"                                                   \
                     : "+r"(at)                                                                    \
                     :                                                                             \
                     : "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r11", "r12", "lr",  \
                       "cc", "memory")

#define HIL_DSP_S16_LONG_DEPTHS(UNIT)                                                              \
    if (units % 8 == 0) {                                                                          \
        HIL_DSP_S16_LONG_LOOP(HIL_DSP_S16_LONG_EIGHT(UNIT));                                       \
    } else if (units % 4 == 0) {                                                                   \
        HIL_DSP_S16_LONG_LOOP(HIL_DSP_S16_LONG_FOUR(UNIT));                                        \
    } else {                                                                                       \
        HIL_DSP_S16_LONG_LOOP(HIL_DSP_S16_LONG_ONE(UNIT));                                         \
    }

/* clang-format on */

/* The sums of two rows and two columns. */
HIL_INLINE void hil_dsp_s16_long_pairs(struct hil_dsp_s16_long *sums, int32_t units) {
    register struct hil_dsp_s16_long *at __asm__("r0") = sums;
    HIL_DSP_S16_LONG_DEPTHS(HIL_DSP_S16_LONG_PAIRS)
}

/* Those of a row and four columns; where half-words are shared those of both columns in the place
 * of the upper one. */
HIL_INLINE void hil_dsp_s16_long_row(struct hil_dsp_s16_long *sums, int32_t units, int32_t wide) {
    register struct hil_dsp_s16_long *at __asm__("r0") = sums;
    if (wide) {
        HIL_DSP_S16_LONG_DEPTHS(HIL_DSP_S16_LONG_WIDE)
    } else {
        HIL_DSP_S16_LONG_DEPTHS(HIL_DSP_S16_LONG_NARROW)
    }
}

#else

/* Two products, in 64 bits. */
HIL_INLINE int64_t hil_dsp_s16_long_dual(uint32_t a, uint32_t b) {
    return (int64_t)hil_dsp_low(a) * hil_dsp_low(b) + (int64_t)hil_dsp_high(a) * hil_dsp_high(b);
}

HIL_INLINE void hil_dsp_s16_long_pairs(struct hil_dsp_s16_long *sums, int32_t units) {
    for (int i = 0; i < 4; i++) {
        int64_t sum = 0;
        for (int32_t word = 0; word < 2 * units; word++) {
            sum += hil_dsp_s16_long_dual(sums->rows[2 * word + i / 2],
                                         sums->weights[2 * word + i % 2]);
        }
        sums->sums[i] = sum;
    }
}

HIL_INLINE void hil_dsp_s16_long_row(struct hil_dsp_s16_long *sums, int32_t units, int32_t wide) {
    const int32_t words = wide ? 4 : 2;
    for (int i = 0; i < 4; i++) {
        int64_t sum = 0;
        for (int32_t word = 0; word < 2 * units; word++) {
            const uint32_t *const weights = sums->weights + words * word;
            const uint32_t own = wide ? weights[i] : weights[i / 2];
            sum += hil_dsp_s16_long_dual(sums->rows[word],
                                         wide || i % 2 == 0 ? own : hil_dsp_even(own));
        }
        sums->sums[i] = sum;
    }
}

#endif

/* The output of a sum of column `i` of a block of so many: `head` has biases, multipliers and
 * shifts. */
HIL_INLINE int16_t hil_dsp_s16_long_output(int64_t sum, const int32_t *head, int32_t block,
                                           int32_t i, int32_t low, int32_t high) {
    const int32_t scaled = hil_requantize_once(sum + hil_matmul_s16_bias(head, i),
                                               head[2 * block + i], head[3 * block + i]);
    return (int16_t)hil_clamp(scaled, low, high);
}

#endif
