/* A row of int8 times eight columns of an int8 weight matrix at a time, on cores that multiply 32
 * bits: fully connected layers.
 *
 * Tile: 1 row x 8 columns x 1 element of depth. Three products of words serve four columns.
 *
 * Registers: of gcc's choice: s0 to s5 (three words of sums for each four columns), v and w (the
 * weights of both fours), x (the row's element), t (a factor), the places in row and weights, the
 * mask 0x00ff00ff; where the loop ends is in memory.
 *
 * Data: packed by `_matvec()`: weights uint8 [blocks of 8 columns][depth][8], each 128 more than it
 * is, columns of zeros (bytes of 128) filling up the last block; scales int32 [column][4]. Of a
 * word w3 w2 w1 w0:
 *
 *   factor   word & mask         w0 + 2^16 * w2        adds up   A0 + 2^16 * A2
 *            word >> 8 & mask    w1 + 2^16 * w3                  A1 + 2^16 * A3
 *            word >> 16          w2 + 2^8 * w3                   A2 + 2^8 * A3     modulo 2^32
 *
 * What the raised weights add, 128 times the row's sum, is taken off in advance.
 *
 * Order: rows one after the other, each read whole for its sum and once for each eight columns;
 * outputs are written eight by eight.
 *
 * Bounds: -2^23 <= A < 2^23 without bias: `_matvec()` asks for 128 * sum |w| < 2^23. Then the
 * lowest byte of the third word is that of A2; the first less it, 24 bits signed, is A0, and gives
 * 16 bits of A2; so for A3 and A1; what is left of the third word are the upper bytes of A2 and A3.
 * With the bias the sum is below 2^30 (`_channels()`).
 *
 * Output: as in columns_s8.h.
 *
 * Scratch: none.
 *
 * Cost: an element of 8 MACs takes 14 instructions. Measured (`hil tune` on mps2-an385,
 * instructions under QEMU): 640 to 128 (ad) 1.89 a MAC, 128 to 128 1.98, 128 to 640 1.98.
 *
 * Tests: the twin is the second hil_v7m_matvec_products (tests/c/test_v7m_kernels.py, limits:
 * test_sums_at_their_limits); the assembly: tests/board/test_kernels.py. Layout:
 * tests/c/test_kernel_layouts.py.
 */
#ifndef HIL_KERNELS_V7M_MATVEC_S8_H
#define HIL_KERNELS_V7M_MATVEC_S8_H

#include <string.h>

#include "hil/kernels/generic/fields.h"
#include "hil/v7m.h"

/*@kernel
name = "hil_v7m_matvec_s8"
requires = ["mul32"]
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "0"
order = ["pixels 1", "channels 8"]
reads = "rows"
code = 650
[cost]
row = "rows"
widened = "rows * depth"
eight = "rows * ((columns + 7) // 8)"
eight_tap = "eight * depth"
@*/
struct hil_v7m_matvec_s8 {
    int32_t rows;    /* rows of the input, and of the output */
    int32_t depth;   /* elements of a row */
    int32_t columns; /* outputs of a row */
    HIL_OUTPUT_RANGE_FIELDS;
    int32_t even_shift;     /* as in HIL_V7M_COLUMNS_FIELDS */
    const int32_t *scales;  /* HIL_V7M_SCALE_WORDS a column */
    const uint8_t *weights; /* 128 more than they are, in blocks of eight columns: [depth][8] */
};

/* What three factors of four columns add up, twice. */
struct hil_v7m_matvec_words {
    uint32_t s[6];
};

#if HIL_V7M_ASSEMBLY

#define HIL_V7M_FACTORS(word, first, second, third)                                                \
    "and %[t], %[mask], %[" word "]\n\t"                                                           \
    "mla %[" first "], %[x], %[t], %[" first "]\n\t"                                               \
    "and %[t], %[mask], %[" word "], lsr #8\n\t"                                                   \
    "mla %[" second "], %[x], %[t], %[" second "]\n\t"                                             \
    "lsr %[" word "], %[" word "], #16\n\t"                                                        \
    "mla %[" third "], %[x], %[" word "], %[" third "]\n\t"

/* 14 instructions for 8 products. */
#define HIL_V7M_ELEMENT                                                                            \
    "ldrsb %[x], [%[row]], #1\n\t"                                                                 \
    "ldrd %[v], %[w], [%[weights]], #8\n\t" HIL_V7M_FACTORS("v", "s0", "s1", "s2")                 \
        HIL_V7M_FACTORS("w", "s3", "s4", "s5")

#define HIL_V7M_LOOP(body)                                                                         \
    __asm__ volatile("1:\n\t" body "ldr %[t], %[end]\n\t"                                          \
                     "cmp %[row], %[t]\n\t"                                                        \
                     "bne 1b\n\t"                                                                  \
                     : [s0] "+r"(s0), [s1] "+r"(s1), [s2] "+r"(s2), [s3] "+r"(s3), [s4] "+r"(s4),  \
                       [s5] "+r"(s5), [row] "+r"(row), [weights] "+r"(weights), [x] "=&r"(x),      \
                       [v] "=&r"(v), [w] "=&r"(w), [t] "=&r"(t)                                    \
                     : [mask] "r"(0xff00ffU), [end] "m"(end)                                       \
                     : "cc", "memory")

HIL_INLINE struct hil_v7m_matvec_words hil_v7m_matvec_products(struct hil_v7m_matvec_words words,
                                                               const int8_t *row, int32_t depth,
                                                               const uint8_t *weights) {
    uint32_t s0 = words.s[0];
    uint32_t s1 = words.s[1];
    uint32_t s2 = words.s[2];
    uint32_t s3 = words.s[3];
    uint32_t s4 = words.s[4];
    uint32_t s5 = words.s[5];
    uint32_t x;
    uint32_t v;
    uint32_t w;
    uint32_t t;
    const int8_t *end = row + depth - depth % 4;
    if (depth >= 4) {
        HIL_V7M_LOOP(HIL_V7M_ELEMENT HIL_V7M_ELEMENT HIL_V7M_ELEMENT HIL_V7M_ELEMENT);
    }
    if (depth % 4 != 0) {
        end += depth % 4;
        HIL_V7M_LOOP(HIL_V7M_ELEMENT);
    }
    return (struct hil_v7m_matvec_words){{s0, s1, s2, s3, s4, s5}};
}

#undef HIL_V7M_FACTORS
#undef HIL_V7M_ELEMENT
#undef HIL_V7M_LOOP

#else

HIL_INLINE struct hil_v7m_matvec_words hil_v7m_matvec_products(struct hil_v7m_matvec_words words,
                                                               const int8_t *row, int32_t depth,
                                                               const uint8_t *weights) {
    /* Each sum by its name: compilers keep an array in memory. */
    uint32_t s0 = words.s[0];
    uint32_t s1 = words.s[1];
    uint32_t s2 = words.s[2];
    uint32_t s3 = words.s[3];
    uint32_t s4 = words.s[4];
    uint32_t s5 = words.s[5];
#pragma GCC unroll 4
    for (const int8_t *const end = row + depth; row != end; row++) {
        const uint32_t x = (uint32_t)*row;
        uint32_t v;
        uint32_t w;
        /* Constants are aligned so, and cores of this family are little-endian. */
        const uint8_t *const block = (const uint8_t *)__builtin_assume_aligned(weights, 4);
        memcpy(&v, block, sizeof v);
        memcpy(&w, block + 4, sizeof w);
        weights += 8;
        s0 += x * (v & 0xff00ffU);
        s1 += x * (v >> 8 & 0xff00ffU);
        s2 += x * (v >> 16);
        s3 += x * (w & 0xff00ffU);
        s4 += x * (w >> 8 & 0xff00ffU);
        s5 += x * (w >> 16);
    }
    return (struct hil_v7m_matvec_words){{s0, s1, s2, s3, s4, s5}};
}

#endif

/* The lowest 24 bits of a word, as a signed number. */
HIL_INLINE int32_t hil_v7m_low24(uint32_t word) { return (int32_t)(word << 8) >> 8; }

/* The four sums in three words. */
HIL_INLINE void hil_v7m_matvec_sums(const uint32_t *words, int32_t *sums) {
    /* The lowest byte of A2, then its lower half. */
    const uint32_t byte_2 = words[2] & 0xffU;
    const uint32_t first = words[0] - (byte_2 << 16);
    sums[0] = hil_v7m_low24(first);
    const uint32_t half_2 = byte_2 + ((first - (uint32_t)sums[0]) >> 16);
    /* The same of A3. */
    const uint32_t third = words[2] - half_2;
    const uint32_t byte_3 = third >> 8 & 0xffU;
    const uint32_t second = words[1] - (byte_3 << 16);
    sums[1] = hil_v7m_low24(second);
    const uint32_t half_3 = byte_3 + ((second - (uint32_t)sums[1]) >> 16);
    /* What is left are the upper bytes of both. */
    const uint32_t upper = third - (half_3 << 8);
    const int32_t above_2 = (int32_t)(upper << 8) >> 24;
    const uint32_t above_3 = upper - ((uint32_t)above_2 << 16);
    sums[2] = (int32_t)(half_2 + ((uint32_t)above_2 << 16));
    sums[3] = (int32_t)half_3 + ((int32_t)above_3 >> 8);
}

HIL_INLINE void hil_v7m_matvec_s8(const struct hil_v7m_matvec_s8 *p, const int8_t *in,
                                  int8_t *out) {
    for (int32_t rows = p->rows; rows > 0; rows--) {
        int32_t total = 0;
        for (int32_t i = 0; i < p->depth; i++) {
            total += in[i];
        }
        const uint32_t raised = 128U * (uint32_t)total;
        const uint32_t pair = 0U - (raised + (raised << 16));
        const uint32_t upper = 0U - (raised + (raised << 8));
        const uint8_t *weights = p->weights;
        const int32_t *scales = p->scales;
        for (int32_t column = 0; column < p->columns; column += 8) {
            const struct hil_v7m_matvec_words words = hil_v7m_matvec_products(
                (struct hil_v7m_matvec_words){{pair, pair, upper, pair, pair, upper}}, in, p->depth,
                weights);
            int32_t sums[8];
            hil_v7m_matvec_sums(words.s, sums);
            hil_v7m_matvec_sums(words.s + 3, sums + 4);
            const int32_t left = p->columns - column;
#pragma GCC unroll 8
            for (int32_t i = 0; i < 8; i++) {
                if (p->columns % 8 == 0 || i < left) {
                    const struct hil_v7m_scale scale = hil_v7m_scale(scales);
                    out[column + i] = hil_v7m_output_by(p->even_shift, &scale, sums[i],
                                                        p->out_zero_point, p->out_min, p->out_max);
                    scales += HIL_V7M_SCALE_WORDS;
                }
            }
            weights += 8 * p->depth;
        }
        in += p->depth;
        out += p->columns;
    }
}

#endif
