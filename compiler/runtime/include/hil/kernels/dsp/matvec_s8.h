/* A row or few of int8 times four columns of an int8 weight matrix at a time, outputs of any range:
 * fully connected layers where matvec_s8_column_pairs.h is not proven.
 *
 * Tile: 1 row x 4 columns x 4 elements of depth, a unit.
 *
 * Registers, at the top of a unit:
 *
 *   r4  A0          r5  256 * A1 + A0      r9   row: bytes, or widened words
 *   r6  A2          r8  256 * A3 + A2      r10  weights
 *   r0 r1           weights of columns 0, 1: even elements, odd ones
 *   r2 r3           the same of columns 2, 3
 *   r11 r12         x0|x2 and x1|x3 of the row; r11 also where the loop ends
 *
 * Data: packed by `packed_columns()` and `paired_weights()` in blocks of four columns.
 *
 *   weights      int16 [block][units][2 pairs][4]: 256 * w1 + w0 of elements 4u, 4u + 2, 4u + 1,
 *                4u + 3; 16 bytes a unit
 *   wide         int16 [block][units][2 pairs][4 columns][2]: 2 * w, for LSTMs (lstm.h); sums and
 *                biases are twice what they are
 *   bias         int32 [block][4]: b0, 256 * b1 + b0, b2, 256 * b3 + b2; in parts b0, b1, b2, b3
 *   multipliers  int32, shifts int8 (to the right, less one): one a column or one for all
 *
 * Order: a row is read whole to scratch first (`widened`), or once for each four columns; outputs
 * are written in order.
 *
 * Bounds: those of columns_s8.h: |A| < 2^23, or of each part, and half-words that
 * `paired_weights()` accepts.
 *
 * Output: hil_dsp_requantize as in columns_s8.h, in C.
 *
 * Scratch: 8 bytes a unit where widened, otherwise none.
 *
 * Cost: a unit of 16 MACs takes 14 instructions widened, 11 wide and 16 of bytes, four columns 44
 * more.
 * Measured (`hil tune` on mps2-an386, instructions under QEMU): 640 to 128 (ad) 0.950 a MAC
 * widened, 1.061 of bytes; 128 to 128 1.074, 1.185.
 *
 * Tests: the twin is hil_dsp_matvec_s8_unit (tests/c/test_dsp_kernels.py, limits:
 * test_sums_at_their_limits); the assembly: tests/board/test_kernels.py. Layout:
 * tests/c/test_kernel_layouts.py.
 */
#ifndef HIL_KERNELS_DSP_MATVEC_S8_H
#define HIL_KERNELS_DSP_MATVEC_S8_H

#include "hil/kernels/dsp/columns_s8.h"

/*@kernel
name = "hil_dsp_matvec_s8"
requires = ["dsp"]
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "8 * units * widened"
order = ["pixels 1", "channels 4 + columns * widened"]
reads = "rows"
code = 432
variable = ["out_zero_point"]
[cost]
row = "rows"
widened_unit = "rows * units * widened"
four = "rows * ((columns + 3) // 4)"
four_unit = "four * units"
split = "four * (part < units)"
part_four = "split * ((units + part - 1) // part)"
narrow_unit = "four_unit * (1 - widened)"
@*/
struct hil_dsp_matvec_s8 {
    int32_t rows;    /* rows of the input, and of the output */
    int32_t depth;   /* elements of a row */
    int32_t units;   /* of four elements of depth */
    int32_t part;    /* units of a part of depth; at least as many as there are: no parts */
    int32_t columns; /* outputs of a row */
    int32_t widened; /* 1: each row is widened to scratch first; 0: four columns at a time, anew */
    HIL_OUTPUT_RANGE_FIELDS;
    int32_t per_channel;        /* 1: a multiplier and a shift a column; 0: one for all */
    const int16_t *weights;     /* as in struct hil_dsp_columns_s8, in blocks of four columns */
    const int32_t *bias;        /* of each pair of columns in whole blocks: the head says how */
    const int32_t *multipliers; /* of each column, in Q0.31 */
    const int8_t *shifts;       /* to the right, less one: 0 to 22 */
};

/* Sums of a row by four columns: A0, 256 * A1 + A0, A2, 256 * A3 + A2. */
struct hil_dsp_matvec_sums {
    uint32_t s[4];
};

/* Adds the products of a unit of a row, widened, with four columns. */
HIL_INLINE void hil_dsp_matvec_s8_unit(uint32_t even, uint32_t odd, const int16_t *weights,
                                       struct hil_dsp_matvec_sums *sums) {
    for (int pair = 0; pair < 2; pair++) {
        for (int i = 0; i < 2; i++) {
            const uint32_t both = hil_dsp_pair(weights[0], weights[1]);
            const uint32_t x = i == 0 ? even : odd;
            uint32_t *const s = sums->s + 2 * pair;
            s[0] = hil_dsp_dual(x, hil_dsp_even(both), s[0]);
            s[1] = hil_dsp_dual(x, both, s[1]);
            weights += 2;
        }
    }
}

#if HIL_DSP_ASSEMBLY

/* 14 instructions a unit of 16 products for a widened row, 16 for one of bytes. */
#define HIL_DSP_MATVEC_WIDENED "ldrd %[x], %[y], [%[row]], #8\n\t"
#define HIL_DSP_MATVEC_BYTES                                                                       \
    "ldr %[x], [%[row]], #4\n\t"                                                                   \
    "sxtb16 %[y], %[x], ror #8\n\t"                                                                \
    "sxtb16 %[x], %[x]\n\t"
#define HIL_DSP_MATVEC_UNIT(load)                                                                  \
    "ldmia %[weights]!, {r0, r1, r2, r3}\n\t" load "smlad %[s1], %[x], r0, %[s1]\n\t"              \
    "sxtb16 r0, r0\n\t"                                                                            \
    "smlad %[s3], %[x], r2, %[s3]\n\t"                                                             \
    "sxtb16 r2, r2\n\t"                                                                            \
    "smlad %[s0], %[x], r0, %[s0]\n\t"                                                             \
    "smlad %[s2], %[x], r2, %[s2]\n\t"                                                             \
    "smlad %[s1], %[y], r1, %[s1]\n\t"                                                             \
    "sxtb16 r1, r1\n\t"                                                                            \
    "smlad %[s3], %[y], r3, %[s3]\n\t"                                                             \
    "sxtb16 r3, r3\n\t"                                                                            \
    "smlad %[s0], %[y], r1, %[s0]\n\t"                                                             \
    "smlad %[s2], %[y], r3, %[s2]\n\t"

#define HIL_DSP_MATVEC_LOOP(body)                                                                  \
    __asm__ volatile("1:\n\t" body "ldr %[x], %[end]\n\t"                                          \
                     "cmp %[weights], %[x]\n\t"                                                    \
                     "bne 1b\n\t"                                                                  \
                     : [s0] "+r"(s0), [s1] "+r"(s1), [s2] "+r"(s2), [s3] "+r"(s3),                 \
                       [row] "+r"(from), [weights] "+r"(stream), [x] "=&r"(x), [y] "=&r"(y)        \
                     : [end] "m"(end)                                                              \
                     : "r0", "r1", "r2", "r3", "cc", "memory")
#define HIL_DSP_MATVEC_ONCE(body)                                                                  \
    __asm__ volatile(body                                                                          \
                     : [s0] "+r"(s0), [s1] "+r"(s1), [s2] "+r"(s2), [s3] "+r"(s3),                 \
                       [row] "+r"(from), [weights] "+r"(stream), [x] "=&r"(x), [y] "=&r"(y)        \
                     :                                                                             \
                     : "r0", "r1", "r2", "r3", "memory")
#define HIL_DSP_MATVEC_FOUR(load)                                                                  \
    HIL_DSP_MATVEC_UNIT(load)                                                                      \
    HIL_DSP_MATVEC_UNIT(load) HIL_DSP_MATVEC_UNIT(load) HIL_DSP_MATVEC_UNIT(load)
#define HIL_DSP_MATVEC_UNITS(load)                                                                 \
    if (units % 8 == 0 && units != 0) {                                                            \
        HIL_DSP_MATVEC_LOOP(HIL_DSP_MATVEC_FOUR(load) HIL_DSP_MATVEC_FOUR(load));                  \
    } else if (fours != 0) {                                                                       \
        HIL_DSP_MATVEC_LOOP(HIL_DSP_MATVEC_FOUR(load));                                            \
    }                                                                                              \
    if (units % 4 != 0) {                                                                          \
        end += 8 * (units % 4);                                                                    \
        HIL_DSP_MATVEC_LOOP(HIL_DSP_MATVEC_UNIT(load));                                            \
    }

/* Adds the products of whole units of a row, which is widened or bytes, with four columns. */
HIL_INLINE void hil_dsp_matvec_s8_units(const void *row, int32_t widened, const int16_t *weights,
                                        int32_t units, struct hil_dsp_matvec_sums *sums) {
    const int32_t fours = units / 4;
    const int16_t *end = weights + 32 * fours;
    register uint32_t s0 __asm__("r4") = sums->s[0];
    register uint32_t s1 __asm__("r5") = sums->s[1];
    register uint32_t s2 __asm__("r6") = sums->s[2];
    register uint32_t s3 __asm__("r8") = sums->s[3];
    register const void *from __asm__("r9") = row;
    register const int16_t *stream __asm__("r10") = weights;
    register uint32_t x __asm__("r11");
    register uint32_t y __asm__("r12");
    if (widened) {
        HIL_DSP_MATVEC_UNITS(HIL_DSP_MATVEC_WIDENED)
    } else {
        HIL_DSP_MATVEC_UNITS(HIL_DSP_MATVEC_BYTES)
    }
    *sums = (struct hil_dsp_matvec_sums){{s0, s1, s2, s3}};
}

/* 11 instructions a unit of 16 products with weights in half-words of their own. */
#define HIL_DSP_MATVEC_EACH(x)                                                                     \
    "ldmia %[weights]!, {r0, r1, r2, r3}\n\t"                                                      \
    "smlad %[s0], " x ", r0, %[s0]\n\t"                                                            \
    "smlad %[s1], " x ", r1, %[s1]\n\t"                                                            \
    "smlad %[s2], " x ", r2, %[s2]\n\t"                                                            \
    "smlad %[s3], " x ", r3, %[s3]\n\t"
#define HIL_DSP_MATVEC_WIDE                                                                        \
    HIL_DSP_MATVEC_WIDENED HIL_DSP_MATVEC_EACH("%[x]") HIL_DSP_MATVEC_EACH("%[y]")
#define HIL_DSP_MATVEC_WIDE_FOUR                                                                   \
    HIL_DSP_MATVEC_WIDE HIL_DSP_MATVEC_WIDE HIL_DSP_MATVEC_WIDE HIL_DSP_MATVEC_WIDE

/* As hil_dsp_matvec_s8_units(), of a widened row and weights in half-words of their own. */
HIL_INLINE void hil_dsp_matvec_s8_wide_units(const uint32_t *row, const uint32_t *weights,
                                             int32_t units, struct hil_dsp_matvec_sums *sums) {
    const uint32_t *end = weights + 32 * (units / 4);
    register uint32_t s0 __asm__("r4") = sums->s[0];
    register uint32_t s1 __asm__("r5") = sums->s[1];
    register uint32_t s2 __asm__("r6") = sums->s[2];
    register uint32_t s3 __asm__("r8") = sums->s[3];
    register const void *from __asm__("r9") = row;
    register const uint32_t *stream __asm__("r10") = weights;
    register uint32_t x __asm__("r11");
    register uint32_t y __asm__("r12");
    if (units >= 4) {
        HIL_DSP_MATVEC_LOOP(HIL_DSP_MATVEC_WIDE_FOUR);
    }
    if (units % 4 == 1) {
        HIL_DSP_MATVEC_ONCE(HIL_DSP_MATVEC_WIDE);
    } else if (units % 4 == 2) {
        HIL_DSP_MATVEC_ONCE(HIL_DSP_MATVEC_WIDE HIL_DSP_MATVEC_WIDE);
    } else if (units % 4 == 3) {
        HIL_DSP_MATVEC_ONCE(HIL_DSP_MATVEC_WIDE HIL_DSP_MATVEC_WIDE HIL_DSP_MATVEC_WIDE);
    }
    *sums = (struct hil_dsp_matvec_sums){{s0, s1, s2, s3}};
}

#undef HIL_DSP_MATVEC_WIDE_FOUR
#undef HIL_DSP_MATVEC_WIDE
#undef HIL_DSP_MATVEC_EACH
#undef HIL_DSP_MATVEC_UNITS
#undef HIL_DSP_MATVEC_FOUR
#undef HIL_DSP_MATVEC_ONCE
#undef HIL_DSP_MATVEC_LOOP
#undef HIL_DSP_MATVEC_UNIT
#undef HIL_DSP_MATVEC_BYTES
#undef HIL_DSP_MATVEC_WIDENED

#else

HIL_INLINE void hil_dsp_matvec_s8_units(const void *row, int32_t widened, const int16_t *weights,
                                        int32_t units, struct hil_dsp_matvec_sums *sums) {
    for (int32_t i = 0; i < units; i++) {
        if (widened) {
            const uint32_t *const words = (const uint32_t *)row;
            hil_dsp_matvec_s8_unit(words[2 * i], words[2 * i + 1], weights, sums);
        } else {
            const uint32_t word = hil_dsp_load((const int8_t *)row + 4 * i);
            hil_dsp_matvec_s8_unit(hil_dsp_even(word), hil_dsp_odd(word), weights, sums);
        }
        weights += 8;
    }
}

HIL_INLINE void hil_dsp_matvec_s8_wide_units(const uint32_t *row, const uint32_t *weights,
                                             int32_t units, struct hil_dsp_matvec_sums *sums) {
    for (int32_t i = 0; i < 2 * units; i++) {
        for (int column = 0; column < 4; column++) {
            sums->s[column] = hil_dsp_dual(row[i], *weights++, sums->s[column]);
        }
    }
}

#endif

/* Adds the products of a row of bytes, or of what it was widened to, with four columns: of `count`
 * units from the unit `at` on. */
HIL_INLINE void hil_dsp_matvec_s8_part(const struct hil_dsp_matvec_s8 *p, const int8_t *in,
                                       const uint32_t *wide, const int16_t *weights, int32_t at,
                                       int32_t count, struct hil_dsp_matvec_sums *sums) {
    if (p->widened) {
        hil_dsp_matvec_s8_units(wide + 2 * at, 1, weights + 8 * at, count, sums);
        return;
    }
    const int last = p->depth % 4 != 0 && at + count == p->units;
    const int32_t whole = last ? count - 1 : count;
    hil_dsp_matvec_s8_units(in + 4 * at, 0, weights + 8 * at, whole, sums);
    if (last) {
        at += whole;
        const uint32_t word = hil_dsp_load_part(in + 4 * at, p->depth % 4);
        hil_dsp_matvec_s8_unit(hil_dsp_even(word), hil_dsp_odd(word), weights + 8 * at, sums);
    }
}

/* A0, 2 * A1, A2, 2 * A3 of a row by four columns. */
HIL_INLINE struct hil_dsp_matvec_sums
hil_dsp_matvec_s8_block(const struct hil_dsp_matvec_s8 *p, const int8_t *in, const uint32_t *wide,
                        const int16_t *weights, const int32_t *bias) {
    const int parts = p->part < p->units;
    struct hil_dsp_matvec_sums sums;
    int32_t twice[2];
    for (int i = 0; i < 2; i++) {
        sums.s[2 * i] = (uint32_t)bias[2 * i];
        sums.s[2 * i + 1] = (uint32_t)bias[2 * i + (parts ? 0 : 1)];
        twice[i] = parts ? 2 * bias[2 * i + 1] : 0;
    }
    for (int32_t at = 0; at < p->units; at += p->part) {
        const int32_t left = p->units - at;
        hil_dsp_matvec_s8_part(p, in, wide, weights, at, left < p->part ? left : p->part, &sums);
        for (int i = 0; i < 2; i++) {
            twice[i] += hil_dsp_columns_s8_twice(sums.s[2 * i], sums.s[2 * i + 1]);
            sums.s[2 * i + 1] = sums.s[2 * i];
        }
    }
    for (int i = 0; i < 2; i++) {
        sums.s[2 * i + 1] = (uint32_t)twice[i];
    }
    return sums;
}

HIL_INLINE struct hil_dsp_scale hil_dsp_matvec_s8_scale(const struct hil_dsp_matvec_s8 *p,
                                                        int32_t column) {
    const int32_t entry = p->per_channel ? column : 0;
    const int32_t shift = p->shifts[entry];
    return (struct hil_dsp_scale){
        .multiplier = p->multipliers[entry],
        .shift = shift,
        .rounding = (int32_t)((uint32_t)(2 * p->out_zero_point + 1) << shift),
    };
}

HIL_INLINE void hil_dsp_matvec_s8(const struct hil_dsp_matvec_s8 *p, const int8_t *in, int8_t *out,
                                  void *scratch) {
    const struct hil_dsp_columns_s8 columns = {
        .depth = 0, /* what storing does not need */
        .part = 0,
        .count = 0,
        .out_zero_point = p->out_zero_point,
        .out_min = p->out_min,
        .out_max = p->out_max,
        .weights = NULL,
        .pairs = NULL,
    };
    for (int32_t rows = p->rows; rows > 0; rows--) {
        if (p->widened) {
            hil_dsp_widen_row(in, p->depth, (uint32_t *)scratch);
        }
        const int16_t *weights = p->weights;
        for (int32_t column = 0; column < p->columns; column += 4) {
            const struct hil_dsp_matvec_sums sums = hil_dsp_matvec_s8_block(
                p, in, (const uint32_t *)scratch, weights, p->bias + column);
            const int32_t left = p->columns - column;
            for (int32_t i = 0; i < 4 && (p->columns % 4 == 0 || i < left); i += 2) {
                const struct hil_dsp_scale scale_0 = hil_dsp_matvec_s8_scale(p, column + i);
                const struct hil_dsp_scale scale_1 = hil_dsp_matvec_s8_scale(p, column + i + 1);
                const int both = p->columns % 2 == 0 || i + 1 < left;
                hil_dsp_columns_s8_store(&columns, sums.s[i], (int32_t)sums.s[i + 1], &scale_0,
                                         &scale_1, both, out + column + i);
            }
            weights += 8 * p->units;
        }
        in += p->depth;
        out += p->columns;
    }
}

#endif
