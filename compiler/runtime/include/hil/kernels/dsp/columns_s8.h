/* Three rows of int8 times pairs of columns of an int8 weight matrix, for outputs of any range:
 * what pairs_s8.h does where its single line of requantization is not proven.
 *
 * Tile: 3 rows x 2 columns x 4 elements of depth, a unit.
 *
 *                    column 0   packed columns                  r0 r1 r2   a word of each row
 *            row 0      r4         r8                           lr r3      weights, even and odd
 *            row 1      r5         r9
 *            row 2      r6         r10
 *
 * Registers, at the top of a unit: r4 r5 r6 = A0 of the rows; r8 r9 r10 = 256 * A1 + A0; r11 the
 * widened rows; r12 the weights; r0 to r2, r3, lr as above; r7 untouched, for a frame. In memory:
 * the rows' start and end, the pairs' place and end, half a unit of output, the outputs and steps.
 *
 * Data: rows as widen.h lays them. Columns are packed by `packed_columns()` and `paired_weights()`:
 *
 *   weights  per block of columns, int16 [units][pairs of the block][4]: 256 * w1 + w0 of elements
 *            4u, 4u + 2, 4u + 1, 4u + 3; +8 bytes a unit and pair. Blocks are of 2 columns here.
 *   pairs    per pair of columns, 20 bytes: +0 b0  +4 256 * b1 + b0, in parts b1
 *            +8 multiplier 0  +12 multiplier 1  +16 (shift 1) * 256 + shift 0, to the right, less
 *            one
 *
 * Order: as pairs_s8.h: three rows are read whole, outputs are written pair by pair, the last row's
 * first. An extra row is written over the previous one.
 *
 * Bounds: smlad adds modulo 2^32. 256 * w1 + w0 is a half-word (`paired_weights()` refuses others);
 * sums are below 2^23 in magnitude, bias included, for all inputs (`rounds_twice`), so the
 * difference of both words is 256 * A1 exactly, and 2 * A below 2^24. Where sums may be larger, up
 * to 2^29, depth is divided into parts whose sums, without the bias, are below 2^23 (`part_of()`):
 * after each A1 is a word that the part's is added to. Shifts are 1 to 23 (`MAX_SHIFT`): |2 * zero
 * point + 1| * 2^22 <= 255 * 2^22 < 2^30, and smmlar's product is below 2^29, so their sum fits 32
 * bits.
 *
 * Output: hil_dsp_requantize of 2 * A, the double rounding itself, two instructions longer where
 * values below the zero point remain; saturated by ssat. Kernels clamp all their outputs to a
 * narrower range at their end (clamp_s8.h). No proof a channel is needed.
 *
 * Scratch: none of its own; rows are 8 bytes a unit each.
 *
 * Cost: 17 instructions a unit for 24 MACs, 55 to 61 a pair of columns; in parts about 130, and 45
 * a part. Measured (`hil tune` on
 * mps2-an386, instructions under QEMU) a MAC: 1x1 25x5x64 to 64 (kws, hil_dsp_matmul_s8) 0.914; 3x3
 * of 64 channels (ic, hil_dsp_conv2d_s8) 0.815.
 *
 * Tests: the twin is hil_dsp_columns_s8_pair with hil_dsp_columns_s8_store
 * (tests/c/test_dsp_kernels.py, limits: test_sums_at_their_limits); the assembly:
 * tests/board/test_kernels.py. Layout: tests/c/test_kernel_layouts.py.
 */
#ifndef HIL_KERNELS_DSP_COLUMNS_S8_H
#define HIL_KERNELS_DSP_COLUMNS_S8_H

#include "hil/kernels/dsp/widen.h"

/* Words of a widened row. */
#define HIL_DSP_ROW_WORDS(depth) (((depth) + 3) / 4 * 2)

struct hil_dsp_columns_s8 {
    int32_t depth;
    int32_t part; /* units of a part of depth; at least as many as there are: no parts */
    int32_t count;
    HIL_OUTPUT_RANGE_FIELDS;
    const int16_t *weights;
    const int32_t *pairs; /* HIL_DSP_PAIR_WORDS a pair of columns */
};

/* Of a pair of columns: b0, 256 * b1 + b0 or, in parts, b1, both multipliers, both shifts to the
 * right, less one (0 to 22), as s1 * 256 + s0. A column without its like is followed by zeros. */
#define HIL_DSP_PAIR_WORDS 5

/* What a column does with its sums. */
struct hil_dsp_scale {
    int32_t multiplier;
    int32_t shift;
    int32_t rounding;
};

/* The scale of the first or the second column of a pair. */
HIL_INLINE struct hil_dsp_scale hil_dsp_columns_s8_scale(const struct hil_dsp_columns_s8 *p,
                                                         const int32_t *pair, int second) {
    const int32_t shift = second ? pair[4] >> 8 : pair[4] & 0xff;
    return (struct hil_dsp_scale){
        .multiplier = pair[2 + second],
        .shift = shift,
        .rounding = (int32_t)((uint32_t)(2 * p->out_zero_point + 1) << shift),
    };
}

HIL_INLINE int8_t hil_dsp_columns_s8_output(const struct hil_dsp_columns_s8 *p, int32_t twice,
                                            const struct hil_dsp_scale *scale) {
    return hil_dsp_requantize(twice, scale->multiplier, scale->shift, scale->rounding,
                              p->out_zero_point, p->out_min, p->out_max);
}

/* The outputs of a pair of columns from A0 and 2 * A1, the second only where `both`. */
HIL_INLINE void hil_dsp_columns_s8_store(const struct hil_dsp_columns_s8 *p, uint32_t first,
                                         int32_t twice_1, const struct hil_dsp_scale *scale_0,
                                         const struct hil_dsp_scale *scale_1, int both,
                                         int8_t *out) {
    out[0] = hil_dsp_columns_s8_output(p, (int32_t)(first * 2U), scale_0);
    if (both) {
        out[1] = hil_dsp_columns_s8_output(p, twice_1, scale_1);
    }
}

/* 2 * A1 from 256 * A1 + A0. */
HIL_INLINE int32_t hil_dsp_columns_s8_twice(uint32_t first, uint32_t packed) {
    return (int32_t)(packed - first) >> 7;
}

/* Sums of three rows by a pair of columns: the first three are A0 of each row, then follow
 * 256 * A1 + A0. */
struct hil_dsp_sums {
    uint32_t s[6];
};

#if HIL_DSP_ASSEMBLY

/* Two words of rows by one of weights, in as many registers as there are: 17 instructions a unit of
 * 24 products. */
#define HIL_DSP_COLUMNS_UNIT                                                                       \
    "ldrd %[v], %[w], [%[weights]], #8\n\t"                                                        \
    "ldmia %[rows]!, {r0, r1, r2}\n\t"                                                             \
    "smlad %[s3], r0, %[v], %[s3]\n\t"                                                             \
    "smlad %[s4], r1, %[v], %[s4]\n\t"                                                             \
    "smlad %[s5], r2, %[v], %[s5]\n\t"                                                             \
    "sxtb16 %[v], %[v]\n\t"                                                                        \
    "smlad %[s0], r0, %[v], %[s0]\n\t"                                                             \
    "smlad %[s1], r1, %[v], %[s1]\n\t"                                                             \
    "smlad %[s2], r2, %[v], %[s2]\n\t"                                                             \
    "ldmia %[rows]!, {r0, r1, r2}\n\t"                                                             \
    "smlad %[s3], r0, %[w], %[s3]\n\t"                                                             \
    "smlad %[s4], r1, %[w], %[s4]\n\t"                                                             \
    "smlad %[s5], r2, %[w], %[s5]\n\t"                                                             \
    "sxtb16 %[w], %[w]\n\t"                                                                        \
    "smlad %[s0], r0, %[w], %[s0]\n\t"                                                             \
    "smlad %[s1], r1, %[w], %[s1]\n\t"                                                             \
    "smlad %[s2], r2, %[w], %[s2]\n\t"

/* `units` until the rows reach `end`, which lies in memory: all registers are taken. */
#define HIL_DSP_COLUMNS_LOOP(label, units, end)                                                    \
    label ":\n\t" units "ldr r0, %[" end "]\n\t"                                                   \
          "cmp %[rows], r0\n\t"                                                                    \
          "bne " label "b\n\t"

#define HIL_DSP_COLUMNS_TWO HIL_DSP_COLUMNS_UNIT HIL_DSP_COLUMNS_UNIT
#define HIL_DSP_COLUMNS_FOURS                                                                      \
    HIL_DSP_COLUMNS_LOOP("2", HIL_DSP_COLUMNS_TWO HIL_DSP_COLUMNS_TWO, "middle")
#define HIL_DSP_COLUMNS_ONES HIL_DSP_COLUMNS_LOOP("3", HIL_DSP_COLUMNS_UNIT, "end")

/* A sum by its multiplier. Where results may lie below the zero point, negative ones first lose
 * one: see hil_dsp_requantize. */
#define HIL_DSP_SCALE_RECTIFIED(sum, multiplier)                                                   \
    "smmlar %[" sum "], %[" sum "], " multiplier ", %[w]\n\t"
#define HIL_DSP_SCALE_SIGNED(sum, multiplier)                                                      \
    "add %[rows], %[w], %[" sum "], asr #31\n\t"                                                   \
    "smmlar %[" sum "], %[" sum "], " multiplier ", %[rows]\n\t"

/* Three rows by pairs of columns until the last, outputs included: 55 to 61 instructions a pair
 * besides the units. */
#define HIL_DSP_COLUMNS_PAIRS(units, SCALE)                                                        \
    __asm__ volatile(                                                                              \
        "1:\n\t"                                                                                   \
        "ldr %[v], %[pairs]\n\t"                                                                   \
        "ldr %[rows], %[start]\n\t"                                                                \
        "ldrd %[s0], %[s3], [%[v]]\n\t"                                                            \
        "mov %[s1], %[s0]\n\t"                                                                     \
        "mov %[s2], %[s0]\n\t"                                                                     \
        "mov %[s4], %[s3]\n\t"                                                                     \
        "mov %[s5], %[s3]\n\t" units "ldr %[v], %[pairs]\n\t"                                      \
        "sub %[s3], %[s3], %[s0]\n\t"                                                              \
        "sub %[s4], %[s4], %[s1]\n\t"                                                              \
        "add %[v], #8\n\t"                                                                         \
        "sub %[s5], %[s5], %[s2]\n\t"                                                              \
        "ldmia %[v]!, {r0, r1, r2}\n\t"                                                            \
        "lsl %[s0], %[s0], #1\n\t"                                                                 \
        "lsl %[s1], %[s1], #1\n\t"                                                                 \
        "lsl %[s2], %[s2], #1\n\t"                                                                 \
        "str %[v], %[pairs]\n\t"                                                                   \
        "ldr %[v], %[half]\n\t"                                                                    \
        "asr %[s3], %[s3], #7\n\t"                                                                 \
        "asr %[s4], %[s4], #7\n\t"                                                                 \
        "asr %[s5], %[s5], #7\n\t"                                                                 \
        "lsl %[w], %[v], r2\n\t" SCALE("s0", "r0") SCALE("s1", "r0")                               \
            SCALE("s2", "r0") "asr %[s0], %[s0], r2\n\t"                                           \
                              "asr %[s1], %[s1], r2\n\t"                                           \
                              "asr %[s2], %[s2], r2\n\t"                                           \
                              "lsr r2, r2, #8\n\t"                                                 \
                              "lsl %[w], %[v], r2\n\t" SCALE("s3", "r1") SCALE("s4", "r1")         \
                                  SCALE("s5", "r1") "ldr %[v], %[out]\n\t"                         \
                                                    "ldr r0, %[step_b]\n\t"                        \
                                                    "ldr r1, %[step_c]\n\t"                        \
                                                    "asr %[s3], %[s3], r2\n\t"                     \
                                                    "asr %[s4], %[s4], r2\n\t"                     \
                                                    "asr %[s5], %[s5], r2\n\t"                     \
                                                    "ssat %[s2], #8, %[s2], asr #1\n\t"            \
                                                    "ssat %[s5], #8, %[s5], asr #1\n\t"            \
                                                    "ssat %[s1], #8, %[s1], asr #1\n\t"            \
                                                    "ssat %[s4], #8, %[s4], asr #1\n\t"            \
                                                    "ssat %[s0], #8, %[s0], asr #1\n\t"            \
                                                    "ssat %[s3], #8, %[s3], asr #1\n\t"            \
                                                    "add r0, %[v], r0\n\t"                         \
                                                    "add r1, r0, r1\n\t"                           \
                                                    "strb %[s2], [r1]\n\t"                         \
                                                    "strb %[s5], [r1, #1]\n\t"                     \
                                                    "strb %[s1], [r0]\n\t"                         \
                                                    "strb %[s4], [r0, #1]\n\t"                     \
                                                    "strb %[s0], [%[v]], #1\n\t"                   \
                                                    "strb %[s3], [%[v]], #1\n\t"                   \
                                                    "ldr r0, %[pairs]\n\t"                         \
                                                    "ldr r1, %[last]\n\t"                          \
                                                    "str %[v], %[out]\n\t"                         \
                                                    "cmp r0, r1\n\t"                               \
                                                    "bne 1b\n\t"                                   \
        : [s0] "=&r"(s0), [s1] "=&r"(s1), [s2] "=&r"(s2), [s3] "=&r"(s3), [s4] "=&r"(s4),          \
          [s5] "=&r"(s5), [rows] "=&r"(rows), [weights] "+r"(weights), [v] "=&r"(v), [w] "=&r"(w), \
          [pairs] "+m"(pairs), [out] "+m"(out)                                                     \
        : [start] "m"(start), [middle] "m"(middle), [end] "m"(end), [half] "m"(half),              \
          [step_b] "m"(step_b), [step_c] "m"(step_c), [last] "m"(last)                             \
        : "r0", "r1", "r2", "cc", "memory")

/* A loop over units alone. */
#define HIL_DSP_COLUMNS_UNITS(units)                                                               \
    __asm__ volatile(                                                                              \
        units                                                                                      \
        : [s0] "+r"(s0), [s1] "+r"(s1), [s2] "+r"(s2), [s3] "+r"(s3), [s4] "+r"(s4),               \
          [s5] "+r"(s5), [rows] "+r"(rows), [weights] "+r"(weights), [v] "=&r"(v), [w] "=&r"(w)    \
        : [middle] "m"(middle), [end] "m"(end)                                                     \
        : "r0", "r1", "r2", "cc", "memory")

/* The outputs of three rows for an even number of columns, saturated. */
HIL_INLINE void hil_dsp_columns_s8_pairs(const struct hil_dsp_columns_s8 *p, const uint32_t *start,
                                         int8_t *out, int32_t step_b, int32_t step_c) {
    const int32_t units = (p->depth + 3) / 4;
    const uint32_t *const middle = start + 6 * (units - units % 4);
    const uint32_t *const end = start + 6 * units;
    const int32_t half = 2 * p->out_zero_point + 1;
    const int32_t *pairs = p->pairs;
    const int32_t *const last = pairs + HIL_DSP_PAIR_WORDS * (p->count / 2);
    register uint32_t s0 __asm__("r4");
    register uint32_t s1 __asm__("r5");
    register uint32_t s2 __asm__("r6");
    register uint32_t s3 __asm__("r8");
    register uint32_t s4 __asm__("r9");
    register uint32_t s5 __asm__("r10");
    register const uint32_t *rows __asm__("r11");
    register const int16_t *weights __asm__("r12") = p->weights;
    register uint32_t v __asm__("lr");
    register uint32_t w __asm__("r3");
    if (p->out_min >= p->out_zero_point) {
        if (units % 4 == 0) {
            HIL_DSP_COLUMNS_PAIRS(HIL_DSP_COLUMNS_FOURS, HIL_DSP_SCALE_RECTIFIED);
        } else if (units == 2) {
            HIL_DSP_COLUMNS_PAIRS(HIL_DSP_COLUMNS_TWO, HIL_DSP_SCALE_RECTIFIED);
        } else if (units < 4) {
            HIL_DSP_COLUMNS_PAIRS(HIL_DSP_COLUMNS_ONES, HIL_DSP_SCALE_RECTIFIED);
        } else {
            HIL_DSP_COLUMNS_PAIRS(HIL_DSP_COLUMNS_FOURS HIL_DSP_COLUMNS_ONES,
                                  HIL_DSP_SCALE_RECTIFIED);
        }
    } else {
        if (units % 4 == 0) {
            HIL_DSP_COLUMNS_PAIRS(HIL_DSP_COLUMNS_FOURS, HIL_DSP_SCALE_SIGNED);
        } else if (units < 4) {
            HIL_DSP_COLUMNS_PAIRS(HIL_DSP_COLUMNS_ONES, HIL_DSP_SCALE_SIGNED);
        } else {
            HIL_DSP_COLUMNS_PAIRS(HIL_DSP_COLUMNS_FOURS HIL_DSP_COLUMNS_ONES, HIL_DSP_SCALE_SIGNED);
        }
    }
}

/* Adds the products of units of three rows with a pair of columns. */
HIL_INLINE void hil_dsp_columns_s8_units(const uint32_t *from, const int16_t *columns,
                                         int32_t units, struct hil_dsp_sums *sums) {
    const uint32_t *const middle = from + 6 * (units - units % 4);
    const uint32_t *const end = from + 6 * units;
    register uint32_t s0 __asm__("r4") = sums->s[0];
    register uint32_t s1 __asm__("r5") = sums->s[1];
    register uint32_t s2 __asm__("r6") = sums->s[2];
    register uint32_t s3 __asm__("r8") = sums->s[3];
    register uint32_t s4 __asm__("r9") = sums->s[4];
    register uint32_t s5 __asm__("r10") = sums->s[5];
    register const uint32_t *rows __asm__("r11") = from;
    register const int16_t *weights __asm__("r12") = columns;
    register uint32_t v __asm__("lr");
    register uint32_t w __asm__("r3");
    if (units >= 4) {
        HIL_DSP_COLUMNS_UNITS(HIL_DSP_COLUMNS_FOURS);
    }
    if (units % 4 != 0) {
        HIL_DSP_COLUMNS_UNITS(HIL_DSP_COLUMNS_ONES);
    }
    *sums = (struct hil_dsp_sums){{s0, s1, s2, s3, s4, s5}};
}

#undef HIL_DSP_COLUMNS_PAIRS
#undef HIL_DSP_COLUMNS_UNITS
#undef HIL_DSP_SCALE_SIGNED
#undef HIL_DSP_SCALE_RECTIFIED
#undef HIL_DSP_COLUMNS_ONES
#undef HIL_DSP_COLUMNS_FOURS
#undef HIL_DSP_COLUMNS_TWO
#undef HIL_DSP_COLUMNS_LOOP
#undef HIL_DSP_COLUMNS_UNIT

#else

HIL_INLINE void hil_dsp_columns_s8_units(const uint32_t *rows, const int16_t *weights,
                                         int32_t units, struct hil_dsp_sums *sums) {
    for (int32_t words = 2 * units; words > 0; words--) {
        const uint32_t both = hil_dsp_pair(weights[0], weights[1]);
        const uint32_t first = hil_dsp_even(both);
        for (int i = 0; i < 3; i++) {
            sums->s[i] = hil_dsp_dual(rows[i], first, sums->s[i]);
            sums->s[3 + i] = hil_dsp_dual(rows[i], both, sums->s[3 + i]);
        }
        rows += 3;
        weights += 2;
    }
}

#endif

/* A0 and 2 * A1 of three rows by a pair of columns. */
HIL_INLINE struct hil_dsp_sums hil_dsp_columns_s8_pair(const struct hil_dsp_columns_s8 *p,
                                                       const uint32_t *rows, int32_t column,
                                                       const int32_t *bias) {
    const int32_t units = (p->depth + 3) / 4;
    const int16_t *const weights = p->weights + 2 * units * column;
    const int parts = p->part < units;
    struct hil_dsp_sums sums;
    int32_t twice[3];
    for (int i = 0; i < 3; i++) {
        sums.s[i] = (uint32_t)bias[0];
        sums.s[3 + i] = (uint32_t)bias[parts ? 0 : 1];
        twice[i] = parts ? 2 * bias[1] : 0;
    }
    for (int32_t at = 0; at < units; at += p->part) {
        const int32_t left = units - at;
        hil_dsp_columns_s8_units(rows + 6 * at, weights + 4 * at, left < p->part ? left : p->part,
                                 &sums);
        for (int i = 0; i < 3; i++) {
            twice[i] += hil_dsp_columns_s8_twice(sums.s[i], sums.s[3 + i]);
            sums.s[3 + i] = sums.s[i];
        }
    }
    for (int i = 0; i < 3; i++) {
        sums.s[3 + i] = (uint32_t)twice[i];
    }
    return sums;
}

/* Three widened rows times all columns; weights in blocks of two columns. The outputs of a row that
 * is not wanted go where those of the row before go, which come after. A range within that of int8
 * is left to the caller: hil_dsp_clamp_s8. */
HIL_INLINE void hil_dsp_columns_s8_three_rows(const struct hil_dsp_columns_s8 *p,
                                              const uint32_t *rows, int8_t *out_a, int8_t *out_b,
                                              int8_t *out_c) {
    int32_t column = 0;
#if HIL_DSP_ASSEMBLY
    if (p->count > 1 && p->part >= (p->depth + 3) / 4) {
        hil_dsp_columns_s8_pairs(p, rows, out_a, (int32_t)(out_b - out_a),
                                 (int32_t)(out_c - out_b));
        column = p->count & ~1;
    }
#endif
    for (; column < p->count; column += 2) {
        const int32_t *const pair = p->pairs + HIL_DSP_PAIR_WORDS * (column / 2);
        const struct hil_dsp_sums sums = hil_dsp_columns_s8_pair(p, rows, column, pair);
        const struct hil_dsp_scale scale_0 = hil_dsp_columns_s8_scale(p, pair, 0);
        const struct hil_dsp_scale scale_1 = hil_dsp_columns_s8_scale(p, pair, 1);
        const int both = p->count % 2 == 0 || column + 1 < p->count;
        int8_t *const rows_out[] = {out_a, out_b, out_c};
        for (int i = 2; i >= 0; i--) {
            hil_dsp_columns_s8_store(p, sums.s[i], (int32_t)sums.s[3 + i], &scale_0, &scale_1, both,
                                     rows_out[i] + column);
        }
    }
}

#endif
