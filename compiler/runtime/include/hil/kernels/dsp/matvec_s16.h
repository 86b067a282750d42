/* Single rows of int16 values times int8 weights, four columns at a time: two columns share the
 * half-words of a word, which is multiplied as it is, and once more less the upper column.
 *
 * Tile: 1 row x 4 columns x 4 elements of depth, a unit.
 *
 *          column 0    columns 0 and 1    column 2    columns 2 and 3
 *             r4            r5 r6            r8            r9 r10      sums
 *
 * Registers, at the top of a unit: the sums as drawn, pairs of 64 bits; r7 weights, lr the row; r0
 * r1 its elements; r2 r3 r11 r12 weights. Stack: +0 the block, +4 where the weights end, +8 the
 * caller's r7, in which a compiler may keep its frame, +12 nothing.
 *
 * Data: `vector_weights()` packs the weights, for each four columns
 *
 *   +0 four biases   +16 four multipliers   +32 weights; where outputs are shifted
 *   +32 four addends   +48 four shifts   +64 weights
 *   weights, narrow   16 bytes a unit: columns 0 1 of elements 0 1, columns 2 3 of elements 0 1,
 * the same of elements 2 3; a half-word is 256 * w1 + w0 weights, wide     32 bytes a unit: the
 * four columns of elements 0 1, of elements 2 3, int16
 *
 * Columns that are missing are zeros; the last unit is filled up with zeros.
 *
 * Order: a row is read whole before its first output is written.
 *
 * Bounds: 256 * w1 + w0 is a half-word (`vector_weights()` refuses others). smlald adds up 256 * A1
 * + A0 in 64 bits; A0 and A1, biases included, are below 2^31 for all inputs (`narrow_sums()`).
 * Layers of which others are possible have long sums: long_s16.h.
 *
 * Output: that of columns_s16.h.
 *
 * Scratch: the row, filled up to whole units.
 *
 * Cost: 14 instructions a unit for 16 MACs (wide: 11), 3 for up to sixteen units, about 140 for
 * four outputs. Measured by `python tools/measure.py wide` (docs/reference/wide.md).
 *
 * Tests: the twin is hil_dsp_vector_s16_sums in C (tests/c/test_wide_kernels.py), the assembly
 * tests/board/test_sixteen_bits.py.
 */
#ifndef HIL_KERNELS_DSP_MATVEC_S16_H
#define HIL_KERNELS_DSP_MATVEC_S16_H

#include "hil/kernels/dsp/columns_s16.h"

/*@kernel
name = "hil_dsp_matvec_s16"
requires = ["dsp"]
inputs = ["int16_t"]
outputs = ["int16_t"]
scratch = "8 * units"
order = ["pixels 1"]
reads = "rows"
code = 1100
[cost]
row = "rows"
copied = "rows * units"
block = "rows * ((columns + 3) // 4)"
narrow_unit = "block * units * (1 - wide)"
wide_unit = "block * units * wide"
long_block = "block * long_sums"
long_unit = "block * units * long_sums * (1 + wide)"
@*/
struct hil_dsp_matvec_s16 {
    int32_t rows;          /* of values, each by itself */
    int32_t depth;         /* values of a row */
    int32_t units;         /* of four elements, the depth rounded up */
    int32_t columns;       /* of the weights */
    int32_t wide;          /* 1: weights of 16 bits, 0: two of 8 in each half-word */
    int32_t shifted;       /* 1: outputs have an addend and a shift, 0: they have neither */
    int32_t long_sums;     /* 1: sums have 64 bits, as in long_s16.h, 0: 32 */
    int32_t out_min;       /* the least output */
    int32_t out_max;       /* the largest output */
    const int32_t *stream; /* packed weights, biases and multipliers */
};

struct hil_dsp_vector_s16 {
    const uint32_t *row;
    const uint32_t *weights;
    const uint32_t *end; /* of the weights */
    int32_t sums[4];     /* the biases first */
    int64_t both[2];     /* 256 * A1 + A0 of each two columns, less the biases */
};

#if HIL_DSP_ASSEMBLY

_Static_assert(offsetof(struct hil_dsp_vector_s16, end) == 8, "matvec_s16.h");
_Static_assert(offsetof(struct hil_dsp_vector_s16, sums) == 12, "matvec_s16.h");
_Static_assert(offsetof(struct hil_dsp_vector_s16, both) == 32, "matvec_s16.h");

/* clang-format off */

#define HIL_DSP_VECTOR_S16_PAIR(x, raw, sum, low, high)                                            \
    "smlald " low ", " high ", " x ", " raw "\n\t"                                                 \
    "sxtb16 " raw ", " raw "\n\t"                                                                  \
    "smlad " sum ", " x ", " raw ", " sum "\n\t"
#define HIL_DSP_VECTOR_S16_UNIT                                                                    \
    "ldmia r7!, {r2, r3, r11, r12}\n\t"                                                            \
    "ldrd r0, r1, [lr], #8\n\t"                                                                    \
    HIL_DSP_VECTOR_S16_PAIR("r0", "r2", "r4", "r5", "r6")                                          \
    HIL_DSP_VECTOR_S16_PAIR("r0", "r3", "r8", "r9", "r10")                                         \
    HIL_DSP_VECTOR_S16_PAIR("r1", "r11", "r4", "r5", "r6")                                         \
    HIL_DSP_VECTOR_S16_PAIR("r1", "r12", "r8", "r9", "r10")
#define HIL_DSP_VECTOR_S16_WIDE                                                                    \
    "ldrd r0, r1, [lr], #8\n\t"                                                                    \
    "ldmia r7!, {r2, r3, r11, r12}\n\t"                                                            \
    "smlad r4, r0, r2, r4\n\t"                                                                     \
    "smlad r5, r0, r3, r5\n\t"                                                                     \
    "smlad r6, r0, r11, r6\n\t"                                                                    \
    "smlad r8, r0, r12, r8\n\t"                                                                    \
    "ldmia r7!, {r2, r3, r11, r12}\n\t"                                                            \
    "smlad r4, r1, r2, r4\n\t"                                                                     \
    "smlad r5, r1, r3, r5\n\t"                                                                     \
    "smlad r6, r1, r11, r6\n\t"                                                                    \
    "smlad r8, r1, r12, r8\n\t"
#define HIL_DSP_VECTOR_S16_SIXTEEN(UNIT)                                                           \
    HIL_DSP_VECTOR_S16_EIGHT(UNIT) HIL_DSP_VECTOR_S16_EIGHT(UNIT)
#define HIL_DSP_VECTOR_S16_EIGHT(UNIT) UNIT UNIT UNIT UNIT UNIT UNIT UNIT UNIT
#define HIL_DSP_VECTOR_S16_FOUR(UNIT) UNIT UNIT UNIT UNIT
#define HIL_DSP_VECTOR_S16_ONE(UNIT) UNIT

/* Sums of four columns, from memory to memory. */
#define HIL_DSP_VECTOR_S16_LOOP(body, load, store)                                                 \
    __asm__ volatile("ldr r1, [r0, #8]\n\t"                                                        \
                     "push {r0, r1, r7, r12}\n\t" load                                             \
                     "ldr lr, [r0]\n\t"                                                            \
                     "ldr r7, [r0, #4]\n\t"                                                        \
                     "1:\n\t" body                                                                 \
                     "ldr r0, [sp, #4]\n\t"                                                        \
                     "cmp r7, r0\n\t"                                                              \
                     "bne 1b\n\t"                                                                  \
                     "ldr r0, [sp]\n\t" store                                                      \
                     "pop {r0, r1, r7, r12}\n\t"                                                   \
                     : "+r"(at)                                                                    \
                     :                                                                             \
                     : "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r11", "r12", "lr",  \
                       "cc", "memory")
#define HIL_DSP_VECTOR_S16_NARROW_LOOP(TIMES)                                                      \
    HIL_DSP_VECTOR_S16_LOOP(TIMES(HIL_DSP_VECTOR_S16_UNIT),                                        \
                            "ldr r4, [r0, #12]\n\t"                                                \
                            "ldr r8, [r0, #20]\n\t"                                                \
                            "ldrd r5, r6, [r0, #32]\n\t"                                           \
                            "ldrd r9, r10, [r0, #40]\n\t",                                         \
                            "str r4, [r0, #12]\n\t"                                                \
                            "str r8, [r0, #20]\n\t"                                                \
                            "strd r5, r6, [r0, #32]\n\t"                                           \
                            "strd r9, r10, [r0, #40]\n\t")
#define HIL_DSP_VECTOR_S16_WIDE_LOOP(TIMES)                                                        \
    HIL_DSP_VECTOR_S16_LOOP(TIMES(HIL_DSP_VECTOR_S16_WIDE),                                        \
                            "ldrd r4, r5, [r0, #12]\n\t"                                           \
                            "ldrd r6, r8, [r0, #20]\n\t",                                          \
                            "strd r4, r5, [r0, #12]\n\t"                                           \
                            "strd r6, r8, [r0, #20]\n\t")
#define HIL_DSP_VECTOR_S16_DEPTHS(LOOP)                                                            \
    if (units % 16 == 0) {                                                                         \
        LOOP(HIL_DSP_VECTOR_S16_SIXTEEN);                                                          \
    } else if (units % 8 == 0) {                                                                   \
        LOOP(HIL_DSP_VECTOR_S16_EIGHT);                                                            \
    } else if (units % 4 == 0) {                                                                   \
        LOOP(HIL_DSP_VECTOR_S16_FOUR);                                                             \
    } else {                                                                                       \
        LOOP(HIL_DSP_VECTOR_S16_ONE);                                                              \
    }

/* clang-format on */

HIL_INLINE void hil_dsp_vector_s16_sums(struct hil_dsp_vector_s16 *sums, int32_t units,
                                        int32_t wide) {
    register struct hil_dsp_vector_s16 *at __asm__("r0") = sums;
    if (wide) {
        HIL_DSP_VECTOR_S16_DEPTHS(HIL_DSP_VECTOR_S16_WIDE_LOOP)
    } else {
        HIL_DSP_VECTOR_S16_DEPTHS(HIL_DSP_VECTOR_S16_NARROW_LOOP)
    }
}

#else

/* Adds the products of a row with four columns: to sums of each, or where half-words are shared to
 * those of columns 0 and 2 and of both. */
HIL_INLINE void hil_dsp_vector_s16_sums(struct hil_dsp_vector_s16 *sums, int32_t units,
                                        int32_t wide) {
    const uint32_t *weights = sums->weights;
    for (int32_t i = 0; i < 2 * units; i++) {
        const uint32_t x = sums->row[i];
        if (wide) {
            for (int c = 0; c < 4; c++) {
                sums->sums[c] = (int32_t)hil_dsp_dual(x, *weights++, (uint32_t)sums->sums[c]);
            }
            continue;
        }
        for (int c = 0; c < 4; c += 2) {
            const uint32_t raw = *weights++;
            const int32_t low = hil_dsp_low(x) * hil_dsp_low(raw);
            sums->both[c / 2] += (int64_t)low + hil_dsp_high(x) * hil_dsp_high(raw);
            sums->sums[c] = (int32_t)hil_dsp_dual(x, hil_dsp_even(raw), (uint32_t)sums->sums[c]);
        }
    }
}

#endif

/* A row, filled up to whole units. */
HIL_INLINE void hil_dsp_vector_s16_row(const int16_t *in, int32_t depth, int32_t units,
                                       uint32_t *row) {
    const int32_t whole = depth / 4;
#pragma GCC unroll 4
    for (int32_t i = 0; i < whole; i++) {
        row[2 * i] = hil_dsp_s16_load(in + 4 * i);
        row[2 * i + 1] = hil_dsp_s16_load(in + 4 * i + 2);
    }
    for (int32_t i = whole; i < units; i++) {
        hil_dsp_s16_unit(in + 4 * i, depth - 4 * i, &row[2 * i], &row[2 * i + 1]);
    }
}

/* Words of the weights of four columns. */
HIL_INLINE int32_t hil_dsp_vector_s16_words(int32_t units, int32_t wide) {
    return (wide ? 8 : 4) * units;
}

/* The sums of a row, as hil_dsp_vector_s16_row() lays it, and four columns, which add to biases. */
HIL_INLINE void hil_dsp_vector_s16_four(const uint32_t *row, const int32_t *bias,
                                        const int32_t *packed, int32_t units, int32_t wide,
                                        int32_t *four) {
    const void *const bytes = packed;
    const uint32_t *const weights = (const uint32_t *)bytes;
    struct hil_dsp_vector_s16 sums = {
        .row = row,
        .weights = weights,
        .end = weights + hil_dsp_vector_s16_words(units, wide),
        .sums = {bias[0], bias[1], bias[2], bias[3]},
        .both = {0, 0},
    };
    hil_dsp_vector_s16_sums(&sums, units, wide);
    for (int i = 0; i < 4; i += 2) {
        four[i] = sums.sums[i];
        four[i + 1] = sums.sums[i + 1];
        if (!wide) {
            const int64_t upper = sums.both[i / 2] - (sums.sums[i] - (int64_t)bias[i]);
            four[i + 1] += (int32_t)(upper >> 8);
        }
    }
}

/* The first `count` outputs of a row and four columns from sums of 64 bits. */
HIL_INLINE void hil_dsp_matvec_s16_long(const struct hil_dsp_matvec_s16 *p, const uint32_t *row,
                                        const int32_t *block, const int32_t *packed, int32_t count,
                                        int16_t *out) {
    const void *const bytes = packed;
    const uint32_t *const weights = (const uint32_t *)bytes;
    struct hil_dsp_s16_long four = {
        .rows = row,
        .weights = weights,
        .end = weights + hil_dsp_vector_s16_words(p->units, p->wide),
        .sums = {0},
    };
    hil_dsp_s16_long_row(&four, p->units, p->wide);
    for (int32_t i = 0; i < count; i++) {
        int64_t sum = four.sums[i];
        if (!p->wide) {
            const int64_t *const two = four.sums + i / 2 * 2;
            sum = i % 2 == 0 ? two[1] : (two[0] - two[1]) >> 8;
        }
        out[i] = hil_dsp_s16_long_output(sum, block, 4, i, p->out_min, p->out_max);
    }
}

HIL_INLINE void hil_dsp_matvec_s16(const struct hil_dsp_matvec_s16 *p, const int16_t *in,
                                   int16_t *out, void *scratch) {
    uint32_t *const row = (uint32_t *)scratch;
    const int32_t head_words = p->shifted || p->long_sums ? 16 : 8;
    const int32_t block_words = head_words + hil_dsp_vector_s16_words(p->units, p->wide);
    for (int32_t rows = p->rows; rows > 0; rows--) {
        hil_dsp_vector_s16_row(in, p->depth, p->units, row);
        const int32_t *block = p->stream;
        for (int32_t column = 0; column < p->columns; column += 4) {
            const int32_t *const weights = block + head_words;
            const int32_t left = p->columns - column;
            if (p->long_sums) {
                hil_dsp_matvec_s16_long(p, row, block, weights, left < 4 ? left : 4, out + column);
                block += block_words;
                continue;
            }
            int32_t sums[4];
            hil_dsp_vector_s16_four(row, block, weights, p->units, p->wide, sums);
            for (int32_t i = 0; i < 4 && (p->columns % 4 == 0 || i < left); i++) {
                out[column + i] =
                    p->shifted ? hil_dsp_s16_shifted(sums[i], block[4 + i], block[8 + i],
                                                     block[12 + i], p->out_min, p->out_max)
                               : hil_dsp_s16_scaled(sums[i], block[4 + i], p->out_min, p->out_max);
            }
            block += block_words;
        }
        in += p->depth;
        out += p->columns;
    }
}

#endif
