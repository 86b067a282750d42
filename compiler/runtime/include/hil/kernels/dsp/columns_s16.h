/* Pairs of rows of int16 values times pairs of columns of a weight matrix: int16 weights as they
 * lie in flash, or int8 ones that are widened once for some rows.
 *
 * Tile: 2 rows x 2 columns x 4 elements of depth, a unit.
 *
 *                    column 0   column 1                   r0 r1   elements 0 and 1 of the rows
 *            row 0      r4         r5                      r2 r3   elements 2 and 3 of the rows
 *            row 1      r6         r8                      r7 r11  those of the columns, 0 and 1
 *                                                          r12 lr  those of the columns, 2 and 3
 *
 * Registers, at the top of a unit: as drawn; r9 rows, r10 weights; all fourteen are taken. Stack:
 * +0 the block, +4 where fours of units end, +8 where units end, +12 the caller's r7, in which a
 * compiler may keep its frame.
 *
 * Data: `wide_stream()` packs, for each pair of columns
 *
 *   +0 bias 0   +4 bias 1   +8 multiplier 0   +12 multiplier 1   +16 weights; or, where outputs are
 *   shifted, +16 addend 0   +20 addend 1   +24 shift 0   +28 shift 1   +32 weights
 *   weights, wide     16 bytes a unit: w0 of elements 0 1, w1 of 0 1, w0 of 2 3, w1 of 2 3, int16
 *   weights, narrow   8 bytes a unit: w0 of elements 0 2 1 3, w1 likewise, int8
 *   rows, in scratch  16 bytes a unit: a of elements 0 1, b of 0 1, a of 2 3, b of 2 3, int16
 *
 * An odd column is followed by one of zeros, an odd row by itself; the last unit is filled up with
 * zeros.
 *
 * Order: of `group` rows all are read before the first output is written.
 *
 * Bounds: smlad adds modulo 2^32; sums, bias included, are below 2^31 for all inputs
 * (`narrow_sums()`). Layers of which others are possible have long sums: long_s16.h.
 *
 * Output: hil_dsp_s16_scaled: smmulr(sum, m << (32 - s)) is sum * m / 2^s, half up, for a
 * multiplier m below 2^15 and 16 <= s <= 32: the single rounding itself. The product is below 2^30.
 * Shifted: hil_requantize_shifted(), smmla and asr, for a multiplier of 31 bits and any zero point.
 * Of int8: that of columns_s8.h, for sums below 2^29 (`products()`); rounded once, the product is
 * rounded down before the half is added.
 *
 * Scratch: 4 bytes an element of depth and pair of rows; where weights are narrow 4 more an
 * element.
 *
 * Cost: 10 instructions a unit for 16 MACs, 3 for four or eight units, 25 for four outputs; 6 to
 * widen a unit. Measured by `python tools/measure.py wide` (docs/reference/wide.md).
 *
 * Tests: the twin is hil_dsp_columns_s16_rows in C (tests/c/test_wide_kernels.py), the assembly
 * tests/board/test_sixteen_bits.py; both have sums at the limits.
 */
#ifndef HIL_KERNELS_DSP_COLUMNS_S16_H
#define HIL_KERNELS_DSP_COLUMNS_S16_H

#include <stddef.h>

#include "hil/dsp.h"
#include "hil/kernels/dsp/long_s16.h"

/* Fields of the kernels' structs that describe the columns. */
#define HIL_DSP_COLUMNS_S16_FIELDS                                                                 \
    int32_t units;        /* of four elements, the depth rounded up */                             \
    int32_t columns;      /* of the weights */                                                     \
    int32_t group;        /* of rows at a time, an even number */                                  \
    int32_t wide;         /* 1: weights of 16 bits, 0: of 8 */                                     \
    int32_t shifted;      /* 1: outputs have an addend and a shift, 0: they have neither */        \
    int32_t long_sums;    /* 1: sums have 64 bits, as in long_s16.h, 0: 32 */                      \
    int32_t out_min;      /* the least output */                                                   \
    int32_t out_max;      /* the largest output */                                                 \
    const int32_t *stream /* of pairs of columns, as drawn above */

/* Words of scratch: for the rows, and for a pair of columns where they have to be widened. */
#define HIL_DSP_S16_ROWS_WORDS(p) (2 * (p)->units * (p)->group)

/* sum * multiplier / 2^32, half up, clamped. */
HIL_INLINE int16_t hil_dsp_s16_scaled(int32_t sum, int32_t multiplier, int32_t low, int32_t high) {
    return hil_clamp_s16(hil_dsp_high_mul_add(sum, multiplier, 0), low, high);
}

/* The same with an addend and a shift. */
HIL_INLINE int16_t hil_dsp_s16_shifted(int32_t sum, int32_t multiplier, int32_t addend,
                                       int32_t right, int32_t low, int32_t high) {
    return hil_clamp_s16(hil_dsp_high_mul_add_down(sum, multiplier, addend) >> right, low, high);
}

/* The half-words of a pair of int16 at any even address. */
HIL_INLINE uint32_t hil_dsp_s16_load(const int16_t *from) {
#if HIL_DSP_CORE
    return hil_dsp_load(from);
#else
    return hil_dsp_pair(from[0], from[1]);
#endif
}

/* The first `count` of four elements, zeros for the others. */
HIL_INLINE void hil_dsp_s16_unit(const int16_t *row, int32_t count, uint32_t *low, uint32_t *high) {
    if (count >= 4) {
        *low = hil_dsp_s16_load(row);
        *high = hil_dsp_s16_load(row + 2);
        return;
    }
    *low = count > 0 ? hil_dsp_pair(row[0], count > 1 ? row[1] : 0) : 0;
    *high = count > 2 ? hil_dsp_pair(row[2], 0) : 0;
}

/* Two rows, pair by pair next to each other. */
HIL_INLINE uint32_t *hil_dsp_s16_place(const int16_t *a, const int16_t *b, int32_t depth,
                                       uint32_t *to) {
    for (; depth > 0; depth -= 4) {
        hil_dsp_s16_unit(a, depth, &to[0], &to[2]);
        hil_dsp_s16_unit(b, depth, &to[1], &to[3]);
        a += 4;
        b += 4;
        to += 4;
    }
    return to;
}

/* A pair of columns and pairs of rows, which lie one after the other. */
struct hil_dsp_s16_block {
    const uint32_t *rows;
    const uint32_t *rows_end;
    const uint32_t *fours_end; /* of the weights */
    const uint32_t *end;
    const uint32_t *weights;
    void *out;
    int32_t step; /* bytes from a row's outputs to the next row's */
    int32_t low;  /* the least output */
    int32_t high; /* the largest output */
    int32_t bias[2];
    int32_t multipliers[2];
    /* Of outputs of int8, which have one multiplier: */
    int32_t shift;    /* to the right */
    int32_t rounding; /* (2 * zero point + 1) * 2^(shift - 1) */
    /* Of outputs of int16 that are shifted: */
    int32_t addends[2];
    int32_t rights[2];
};

#if HIL_DSP_ASSEMBLY

_Static_assert(offsetof(struct hil_dsp_s16_block, fours_end) == 8, "columns_s16.h");
_Static_assert(offsetof(struct hil_dsp_s16_block, weights) == 16, "columns_s16.h");
_Static_assert(offsetof(struct hil_dsp_s16_block, out) == 20, "columns_s16.h");
_Static_assert(offsetof(struct hil_dsp_s16_block, low) == 28, "columns_s16.h");
_Static_assert(offsetof(struct hil_dsp_s16_block, bias) == 36, "columns_s16.h");
_Static_assert(offsetof(struct hil_dsp_s16_block, multipliers) == 44, "columns_s16.h");
_Static_assert(offsetof(struct hil_dsp_s16_block, shift) == 52, "columns_s16.h");
_Static_assert(offsetof(struct hil_dsp_s16_block, addends) == 60, "columns_s16.h");
_Static_assert(offsetof(struct hil_dsp_s16_block, rights) == 68, "columns_s16.h");

/* clang-format off */

/* Ten instructions for 16 products. */
#define HIL_DSP_S16_UNIT                                                                           \
    "ldmia r9!, {r0, r1, r2, r3}\n\t"                                                              \
    "ldmia r10!, {r7, r11, r12, lr}\n\t"                                                           \
    "smlad r4, r0, r7, r4\n\t"                                                                     \
    "smlad r5, r0, r11, r5\n\t"                                                                    \
    "smlad r6, r1, r7, r6\n\t"                                                                     \
    "smlad r8, r1, r11, r8\n\t"                                                                    \
    "smlad r4, r2, r12, r4\n\t"                                                                    \
    "smlad r5, r2, lr, r5\n\t"                                                                     \
    "smlad r6, r3, r12, r6\n\t"                                                                    \
    "smlad r8, r3, lr, r8\n\t"
#define HIL_DSP_S16_UNTIL(label, end)                                                              \
    "ldr r0, [sp, #" end "]\n\t"                                                                   \
    "cmp r10, r0\n\t"                                                                              \
    "bne " label "b\n\t"
#define HIL_DSP_S16_FOURS                                                                          \
    "2:\n\t" HIL_DSP_S16_UNIT HIL_DSP_S16_UNIT HIL_DSP_S16_UNIT HIL_DSP_S16_UNIT                   \
    HIL_DSP_S16_UNTIL("2", "4")
#define HIL_DSP_S16_EIGHTS                                                                         \
    "2:\n\t" HIL_DSP_S16_UNIT HIL_DSP_S16_UNIT HIL_DSP_S16_UNIT HIL_DSP_S16_UNIT                   \
    HIL_DSP_S16_UNIT HIL_DSP_S16_UNIT HIL_DSP_S16_UNIT HIL_DSP_S16_UNIT                            \
    HIL_DSP_S16_UNTIL("2", "4")
#define HIL_DSP_S16_ONES "3:\n\t" HIL_DSP_S16_UNIT HIL_DSP_S16_UNTIL("3", "8")

/* Saturated to the type, to what of it is not negative, or to any range. */
#define HIL_DSP_S16_LINEAR                                                                         \
    "ssat r4, #16, r4\n\t"                                                                         \
    "ssat r5, #16, r5\n\t"                                                                         \
    "ssat r6, #16, r6\n\t"                                                                         \
    "ssat r8, #16, r8\n\t"
#define HIL_DSP_S16_RECTIFIED                                                                      \
    "usat r4, #15, r4\n\t"                                                                         \
    "usat r5, #15, r5\n\t"                                                                         \
    "usat r6, #15, r6\n\t"                                                                         \
    "usat r8, #15, r8\n\t"
#define HIL_DSP_S16_WITHIN(sum)                                                                    \
    "cmp " sum ", r1\n\t"                                                                          \
    "it lt\n\t"                                                                                    \
    "movlt " sum ", r1\n\t"                                                                        \
    "cmp " sum ", r2\n\t"                                                                          \
    "it gt\n\t"                                                                                    \
    "movgt " sum ", r2\n\t"
#define HIL_DSP_S16_CLAMPED                                                                        \
    "ldrd r1, r2, [r0, #28]\n\t"                                                                   \
    HIL_DSP_S16_WITHIN("r4") HIL_DSP_S16_WITHIN("r5")                                              \
    HIL_DSP_S16_WITHIN("r6") HIL_DSP_S16_WITHIN("r8")

#define HIL_DSP_S16_SCALED                                                                         \
    "ldrd r1, r2, [r0, #44]\n\t"                                                                   \
    "smmulr r4, r4, r1\n\t"                                                                        \
    "smmulr r5, r5, r2\n\t"                                                                        \
    "smmulr r6, r6, r1\n\t"                                                                        \
    "smmulr r8, r8, r2\n\t"
#define HIL_DSP_S16_SHIFTED                                                                        \
    "ldrd r1, r2, [r0, #44]\n\t"                                                                   \
    "ldrd r3, r7, [r0, #60]\n\t"                                                                   \
    "ldrd r11, r12, [r0, #68]\n\t"                                                                 \
    "smmla r4, r4, r1, r3\n\t"                                                                     \
    "smmla r5, r5, r2, r7\n\t"                                                                     \
    "smmla r6, r6, r1, r3\n\t"                                                                     \
    "smmla r8, r8, r2, r7\n\t"                                                                     \
    "asr r4, r4, r11\n\t"                                                                          \
    "asr r5, r5, r12\n\t"                                                                          \
    "asr r6, r6, r11\n\t"                                                                          \
    "asr r8, r8, r12\n\t"

#define HIL_DSP_S16_OUTPUTS(SCALED, CLAMP)                                                         \
    SCALED CLAMP                                                                                   \
    "ldrd r1, r2, [r0, #20]\n\t"                                                                   \
    "pkhbt r4, r4, r5, lsl #16\n\t"                                                                \
    "pkhbt r6, r6, r8, lsl #16\n\t"                                                                \
    "ldr r3, [r0, #4]\n\t"                                                                         \
    "str r4, [r1]\n\t"                                                                             \
    "str r6, [r1, r2]\n\t"                                                                         \
    "add r1, r1, r2, lsl #1\n\t"

/* Rounded twice, as hil_dsp_requantize() does it, to int8. */
#define HIL_DSP_S16_TWICE(sum)                                                                     \
    "lsl " sum ", " sum ", #1\n\t"                                                                 \
    "sub r7, r3, " sum ", lsr #31\n\t"                                                             \
    "smmlar " sum ", " sum ", r1, r7\n\t"                                                          \
    "asr " sum ", " sum ", r2\n\t"                                                                 \
    "ssat " sum ", #8, " sum "\n\t"
/* Rounded once, half up: the product is rounded down. */
#define HIL_DSP_S16_ONCE(sum)                                                                      \
    "lsl " sum ", " sum ", #1\n\t"                                                                 \
    "smmla " sum ", " sum ", r1, r3\n\t"                                                           \
    "asr " sum ", " sum ", r2\n\t"                                                                 \
    "ssat " sum ", #8, " sum "\n\t"
#define HIL_DSP_S16_BYTES(rounded)                                                                 \
    "ldr r1, [r0, #44]\n\t"                                                                        \
    "ldrd r2, r3, [r0, #52]\n\t" rounded("r4") rounded("r5") rounded("r6") rounded("r8")           \
    "ldrd r1, r2, [r0, #20]\n\t"                                                                   \
    "ldr r3, [r0, #4]\n\t"                                                                         \
    "strb r4, [r1]\n\t"                                                                            \
    "strb r5, [r1, #1]\n\t"                                                                        \
    "add r1, r1, r2\n\t"                                                                           \
    "strb r6, [r1]\n\t"                                                                            \
    "strb r8, [r1, #1]\n\t"                                                                        \
    "add r1, r1, r2\n\t"

#define HIL_DSP_S16_ROWS(FOURS, ONES, OUTPUTS)                                                     \
    __asm__ volatile("ldrd r1, r2, [r0, #8]\n\t"                                                   \
                     "push {r0, r1, r2, r7}\n\t"                                                   \
                     "ldr r9, [r0]\n\t"                                                            \
                     "1:\n\t"                                                                      \
                     "ldrd r4, r5, [r0, #36]\n\t"                                                  \
                     "ldr r10, [r0, #16]\n\t"                                                      \
                     "mov r6, r4\n\t"                                                              \
                     "mov r8, r5\n\t" FOURS ONES                                                   \
                     "ldr r0, [sp]\n\t" OUTPUTS                                                    \
                     "str r1, [r0, #20]\n\t"                                                       \
                     "cmp r9, r3\n\t"                                                              \
                     "bne 1b\n\t"                                                                  \
                     "pop {r0, r1, r2, r7}\n\t"                                                    \
                     : "+r"(at)                                                                    \
                     :                                                                             \
                     : "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r11", "r12", "lr",  \
                       "cc", "memory")

#define HIL_DSP_S16_DEPTHS(OUTPUTS)                                                                  \
    if (units % 8 == 0) {                                                                          \
        HIL_DSP_S16_ROWS(HIL_DSP_S16_EIGHTS, "", OUTPUTS);                                           \
    } else if (units % 4 == 0) {                                                                   \
        HIL_DSP_S16_ROWS(HIL_DSP_S16_FOURS, "", OUTPUTS);                                            \
    } else if (units < 4) {                                                                        \
        HIL_DSP_S16_ROWS("", HIL_DSP_S16_ONES, OUTPUTS);                                             \
    } else {                                                                                       \
        HIL_DSP_S16_ROWS(HIL_DSP_S16_FOURS, HIL_DSP_S16_ONES, OUTPUTS);                              \
    }

/* clang-format on */

/* The outputs of all pairs of rows by a pair of columns; the limits are those of the block. */
HIL_INLINE void hil_dsp_columns_s16_rows(struct hil_dsp_s16_block *block, int32_t units,
                                         int32_t shifted, int32_t low, int32_t high) {
    register struct hil_dsp_s16_block *at __asm__("r0") = block;
    if (shifted && low == INT16_MIN && high == INT16_MAX) {
        HIL_DSP_S16_DEPTHS(HIL_DSP_S16_OUTPUTS(HIL_DSP_S16_SHIFTED, HIL_DSP_S16_LINEAR))
    } else if (shifted && low == 0 && high == INT16_MAX) {
        HIL_DSP_S16_DEPTHS(HIL_DSP_S16_OUTPUTS(HIL_DSP_S16_SHIFTED, HIL_DSP_S16_RECTIFIED))
    } else if (shifted) {
        HIL_DSP_S16_DEPTHS(HIL_DSP_S16_OUTPUTS(HIL_DSP_S16_SHIFTED, HIL_DSP_S16_CLAMPED))
    } else if (low == INT16_MIN && high == INT16_MAX) {
        HIL_DSP_S16_DEPTHS(HIL_DSP_S16_OUTPUTS(HIL_DSP_S16_SCALED, HIL_DSP_S16_LINEAR))
    } else if (low == 0 && high == INT16_MAX) {
        HIL_DSP_S16_DEPTHS(HIL_DSP_S16_OUTPUTS(HIL_DSP_S16_SCALED, HIL_DSP_S16_RECTIFIED))
    } else {
        HIL_DSP_S16_DEPTHS(HIL_DSP_S16_OUTPUTS(HIL_DSP_S16_SCALED, HIL_DSP_S16_CLAMPED))
    }
}

/* The same with outputs of int8, for the whole range. */
HIL_INLINE void hil_dsp_columns_s16_bytes(struct hil_dsp_s16_block *block, int32_t units,
                                          int32_t once) {
    register struct hil_dsp_s16_block *at __asm__("r0") = block;
    if (once) {
        HIL_DSP_S16_DEPTHS(HIL_DSP_S16_BYTES(HIL_DSP_S16_ONCE))
    } else {
        HIL_DSP_S16_DEPTHS(HIL_DSP_S16_BYTES(HIL_DSP_S16_TWICE))
    }
}

/* Widens a pair of columns: six instructions a unit. */
HIL_INLINE void hil_dsp_s16_widen(const int32_t *weights, int32_t units, uint32_t *wide) {
    register const int32_t *from __asm__("r0") = weights;
    register uint32_t *to __asm__("r1") = wide;
    register const int32_t *end __asm__("r12") = weights + 2 * units;
    __asm__ volatile("1:\n\t"
                     "ldmia r0!, {r2, r3}\n\t"
                     "sxtb16 r4, r2\n\t"
                     "sxtb16 r5, r3\n\t"
                     "sxtb16 r6, r2, ror #8\n\t"
                     "sxtb16 r8, r3, ror #8\n\t"
                     "stmia r1!, {r4, r5, r6, r8}\n\t"
                     "cmp r0, r12\n\t"
                     "bne 1b\n\t"
                     : "+r"(from), "+r"(to)
                     : "r"(end)
                     : "r2", "r3", "r4", "r5", "r6", "r8", "cc", "memory");
}

#else

/* The sums of the next pair of rows and a pair of columns. */
HIL_INLINE const uint32_t *hil_dsp_s16_sums(const struct hil_dsp_s16_block *block,
                                            const uint32_t *rows, int32_t units, uint32_t *sums) {
    for (int i = 0; i < 4; i++) {
        sums[i] = (uint32_t)block->bias[i % 2];
    }
    for (int32_t i = 0; i < 2 * units; i++) {
        const uint32_t *const weights = block->weights + 2 * i;
        sums[0] = hil_dsp_dual(rows[0], weights[0], sums[0]);
        sums[1] = hil_dsp_dual(rows[0], weights[1], sums[1]);
        sums[2] = hil_dsp_dual(rows[1], weights[0], sums[2]);
        sums[3] = hil_dsp_dual(rows[1], weights[1], sums[3]);
        rows += 2;
    }
    return rows;
}

HIL_INLINE void hil_dsp_columns_s16_rows(struct hil_dsp_s16_block *block, int32_t units,
                                         int32_t shifted, int32_t low, int32_t high) {
    const uint32_t *rows = block->rows;
    void *const outputs = block->out;
    int16_t *to = (int16_t *)outputs;
    while (rows != block->rows_end) {
        uint32_t sums[4];
        rows = hil_dsp_s16_sums(block, rows, units, sums);
        for (int32_t i = 0; i < 4; i++) {
            int16_t *const out = to + (i / 2) * (block->step / 2);
            const int32_t sum = (int32_t)sums[i];
            const int32_t multiplier = block->multipliers[i % 2];
            out[i % 2] = shifted ? hil_dsp_s16_shifted(sum, multiplier, block->addends[i % 2],
                                                       block->rights[i % 2], low, high)
                                 : hil_dsp_s16_scaled(sum, multiplier, low, high);
        }
        to += block->step;
    }
}

HIL_INLINE void hil_dsp_columns_s16_bytes(struct hil_dsp_s16_block *block, int32_t units,
                                          int32_t once) {
    const uint32_t *rows = block->rows;
    int8_t *to = (int8_t *)block->out;
    while (rows != block->rows_end) {
        uint32_t sums[4];
        rows = hil_dsp_s16_sums(block, rows, units, sums);
        for (int32_t i = 0; i < 4; i++) {
            const int32_t twice = (int32_t)(2 * sums[i]);
            const int32_t addend = block->rounding - (twice < 0 && !once ? 1 : 0);
            const int64_t product = (int64_t)twice * block->multipliers[0];
            const int32_t high = once ? (int32_t)(product >> 32) + addend
                                      : hil_dsp_high_mul_add(twice, block->multipliers[0], addend);
            const int32_t scaled = high >> block->shift;
            to[(i / 2) * block->step + i % 2] = hil_clamp_s8(scaled, INT8_MIN, INT8_MAX);
        }
        to += 2 * block->step;
    }
}

HIL_INLINE void hil_dsp_s16_widen(const int32_t *weights, int32_t units, uint32_t *wide) {
    for (int32_t i = 0; i < units; i++) {
        const uint32_t first = (uint32_t)weights[2 * i];
        const uint32_t second = (uint32_t)weights[2 * i + 1];
        wide[4 * i] = hil_dsp_even(first);
        wide[4 * i + 1] = hil_dsp_even(second);
        wide[4 * i + 2] = hil_dsp_odd(first);
        wide[4 * i + 3] = hil_dsp_odd(second);
    }
}

#endif

/* The columns of a kernel, as its fields have them. */
struct hil_dsp_columns_s16 {
    HIL_DSP_COLUMNS_S16_FIELDS;
};

#define HIL_DSP_COLUMNS_S16(p)                                                                     \
    {                                                                                              \
        .units = (p)->units, .columns = (p)->columns, .group = (p)->group, .wide = (p)->wide,      \
        .shifted = (p)->shifted, .long_sums = (p)->long_sums, .out_min = (p)->out_min,             \
        .out_max = (p)->out_max, .stream = (p)->stream,                                            \
    }

/* hil_dsp_columns_s16_pair() with sums of 64 bits. */
HIL_INLINE void hil_dsp_columns_s16_long(const struct hil_dsp_columns_s16 *p, const int32_t *pair,
                                         const uint32_t *weights, const uint32_t *rows,
                                         int32_t pairs, int32_t step, int16_t *out) {
    for (; pairs > 0; pairs--) {
        struct hil_dsp_s16_long tile = {
            .rows = rows, .weights = weights, .end = weights + 4 * p->units, .sums = {0}};
        hil_dsp_s16_long_pairs(&tile, p->units);
        for (int32_t i = 0; i < 4; i++) {
            out[i / 2 * step + i % 2] =
                hil_dsp_s16_long_output(tile.sums[i], pair, 2, i % 2, p->out_min, p->out_max);
        }
        rows += 4 * p->units;
        out += 2 * step;
    }
}

/* Pairs of rows by a pair of columns, whose outputs lie `step` elements apart from row to row. */
HIL_INLINE void hil_dsp_columns_s16_pair(const struct hil_dsp_columns_s16 *p, const int32_t *pair,
                                         const uint32_t *weights, const uint32_t *rows,
                                         int32_t pairs, int32_t step, int16_t *out) {
    if (p->long_sums) {
        hil_dsp_columns_s16_long(p, pair, weights, rows, pairs, step, out);
        return;
    }
    struct hil_dsp_s16_block block = {
        .rows = rows,
        .rows_end = rows + 4 * p->units * pairs,
        .fours_end = weights + 4 * (p->units / 4 * 4),
        .end = weights + 4 * p->units,
        .weights = weights,
        .out = out,
        .step = 2 * step,
        .low = p->out_min,
        .high = p->out_max,
        .bias = {pair[0], pair[1]},
        .multipliers = {pair[2], pair[3]},
        .shift = 0,
        .rounding = 0,
        .addends = {p->shifted ? pair[4] : 0, p->shifted ? pair[5] : 0},
        .rights = {p->shifted ? pair[6] : 0, p->shifted ? pair[7] : 0},
    };
    hil_dsp_columns_s16_rows(&block, p->units, p->shifted, p->out_min, p->out_max);
}

/* `count` rows, which lie in scratch, by all columns. */
HIL_INLINE void hil_dsp_columns_s16(const struct hil_dsp_columns_s16 *p, uint32_t *scratch,
                                    int32_t count, int16_t *out) {
    uint32_t *const wide = scratch + HIL_DSP_S16_ROWS_WORDS(p);
    const int32_t *pair = p->stream;
    const int32_t head_words = p->shifted || p->long_sums ? 8 : 4;
    const int32_t pair_words = head_words + (p->wide ? 4 : 2) * p->units;
    for (int32_t column = 0; column < p->columns; column += 2) {
        const void *const packed = pair + head_words;
        const uint32_t *weights = (const uint32_t *)packed;
        if (!p->wide) {
            hil_dsp_s16_widen(pair + head_words, p->units, wide);
            weights = wide;
        }
        const uint32_t *const last = scratch + 4 * p->units * (count / 2);
        int16_t *const to = out + column;
        if (p->columns % 2 == 0 || column + 1 < p->columns) {
            if (count > 1) {
                hil_dsp_columns_s16_pair(p, pair, weights, scratch, count / 2, p->columns, to);
            }
            if (count % 2 != 0) {
                /* Both rows are the last one. */
                hil_dsp_columns_s16_pair(p, pair, weights, last, 1, 0,
                                         to + (count - 1) * p->columns);
            }
        } else {
            /* Two rows at a time, elsewhere: the second column is none. */
            for (int32_t row = 0; row < count; row += 2) {
                int16_t outputs[4];
                hil_dsp_columns_s16_pair(p, pair, weights, scratch + 2 * p->units * row, 1, 2,
                                         outputs);
                to[row * p->columns] = outputs[0];
                if (row + 1 < count) {
                    to[(row + 1) * p->columns] = outputs[2];
                }
            }
        }
        pair += pair_words;
    }
}

#endif
