/* Rows of int8 values times columns of int8 weights, three rows at a time, on cores that multiply
 * 32 bits.
 *
 * Three sums share two words: with the values a, b, c of three rows and a weight w,
 *
 *     w * (a + 2^21 * b)   adds up   A + 2^21 * B
 *     w * (c + 2^10 * b)   adds up   C + 2^10 * B      both modulo 2^32.
 *
 * As A and C stay within [-2^20, 2^20), the first word gives A and B modulo 2^11, and the second,
 * less what is known of B, gives C and the rest of B: two multiplications for three products.
 * Columns are cut into parts of depth for which that holds.
 *
 * So widened rows are two words an element of depth. Where memory counts they are one word,
 * a + 2^12 * c + 2^20 * b of values made 0 to 255, from which a mask and a shift make
 * a + 2^20 * b and c + 2^8 * b: then sums have 20 bits, and parts are shorter. They begin with
 * what takes the 128 off again.
 *
 * Weights lie in blocks of four columns, each as [depth][4], the last one filled up with zeros. */
#ifndef HIL_KERNELS_V7M_COLUMNS_S8_H
#define HIL_KERNELS_V7M_COLUMNS_S8_H

#include "hil/v7m.h"

struct hil_v7m_columns_s8 {
    int32_t depth;
    int32_t part; /* elements of depth after which sums are taken out of their words */
    int32_t wide; /* words of widened rows an element of depth: 2 or 1 */
    int32_t count;
    int32_t out_zero_point;
    int32_t out_min;
    int32_t out_max;
    int32_t even_shift; /* the shift of hil_v7m_even_output, or -1 where columns have their own */
    const int8_t *weights;
    const int32_t *starts; /* where wide is 1, -128 times the weights' sum: [blocks][parts][4] */
    const int32_t *scales; /* HIL_V7M_SCALE_WORDS a column, of whole blocks */
};

/* Makes one element of three rows words; where to go on. */
HIL_INLINE uint32_t *hil_v7m_widen(int32_t a, int32_t b, int32_t c, int32_t wide, uint32_t *to) {
    if (wide == 2) {
        to[0] = (uint32_t)(a + b * (1 << 21));
        to[1] = (uint32_t)(c + b * (1 << 10));
    } else {
        to[0] =
            (uint32_t)(a + c * (1 << 12) + b * (1 << 20)) + (128U + (128U << 12) + (128U << 20));
    }
    return to + wide;
}

/* Widens `depth` elements of three rows; where to go on. */
HIL_INLINE uint32_t *hil_v7m_widen_rows(const int8_t *a, const int8_t *b, const int8_t *c,
                                        int32_t depth, int32_t wide, uint32_t *to) {
    int32_t left = depth;
    for (; left >= 4; left -= 4) {
        to = hil_v7m_widen(a[0], b[0], c[0], wide, to);
        to = hil_v7m_widen(a[1], b[1], c[1], wide, to);
        to = hil_v7m_widen(a[2], b[2], c[2], wide, to);
        to = hil_v7m_widen(a[3], b[3], c[3], wide, to);
        a += 4;
        b += 4;
        c += 4;
    }
    for (; left > 0; left--) {
        to = hil_v7m_widen(*a++, *b++, *c++, wide, to);
    }
    return to;
}

/* The words of three rows' sums by four columns: two a column. */
struct hil_v7m_words {
    uint32_t s[8];
};

#if HIL_V7M_ASSEMBLY

#define HIL_V7M_COLUMN(first, second)                                                              \
    "ldrsb %[w], [%[weights]], #1\n\t"                                                             \
    "mla %[" first "], %[w], %[x], %[" first "]\n\t"                                               \
    "mla %[" second "], %[w], %[y], %[" second "]\n\t"

/* 13 instructions an element of depth, or 15, for 12 products. */
#define HIL_V7M_WIDE "ldrd %[x], %[y], [%[rows]], #8\n\t"
#define HIL_V7M_NARROW                                                                             \
    "ldr %[x], [%[rows]], #4\n\t"                                                                  \
    "lsr %[y], %[x], #12\n\t"                                                                      \
    "bic %[x], %[x], #0xff000\n\t"
#define HIL_V7M_COLUMNS                                                                            \
    HIL_V7M_COLUMN("s0", "s1")                                                                     \
    HIL_V7M_COLUMN("s2", "s3") HIL_V7M_COLUMN("s4", "s5") HIL_V7M_COLUMN("s6", "s7")

#define HIL_V7M_LOOP(body)                                                                         \
    __asm__ volatile("1:\n\t" body "ldr %[w], %[end]\n\t"                                          \
                     "cmp %[rows], %[w]\n\t"                                                       \
                     "bne 1b\n\t"                                                                  \
                     : [s0] "+r"(s0), [s1] "+r"(s1), [s2] "+r"(s2), [s3] "+r"(s3), [s4] "+r"(s4),  \
                       [s5] "+r"(s5), [s6] "+r"(s6), [s7] "+r"(s7), [rows] "+r"(rows),             \
                       [weights] "+r"(weights), [w] "=&r"(w), [x] "=&r"(x), [y] "=&r"(y)           \
                     : [end] "m"(end)                                                              \
                     : "cc", "memory")
#define HIL_V7M_FOUR(body) body body body body

HIL_INLINE struct hil_v7m_words hil_v7m_products(struct hil_v7m_words words, const uint32_t *rows,
                                                 const int8_t *weights, int32_t depth,
                                                 int32_t wide) {
    uint32_t s0 = words.s[0];
    uint32_t s1 = words.s[1];
    uint32_t s2 = words.s[2];
    uint32_t s3 = words.s[3];
    uint32_t s4 = words.s[4];
    uint32_t s5 = words.s[5];
    uint32_t s6 = words.s[6];
    uint32_t s7 = words.s[7];
    uint32_t w;
    uint32_t x;
    uint32_t y;
    const int32_t fours = depth / 4;
    const int32_t rest = depth % 4;
    const uint32_t *end = rows + 4 * wide * fours;
    if (fours != 0) {
        if (wide == 2) {
            HIL_V7M_LOOP(HIL_V7M_FOUR(HIL_V7M_WIDE HIL_V7M_COLUMNS));
        } else {
            HIL_V7M_LOOP(HIL_V7M_FOUR(HIL_V7M_NARROW HIL_V7M_COLUMNS));
        }
    }
    if (rest != 0) {
        end += wide * rest;
        if (wide == 2) {
            HIL_V7M_LOOP(HIL_V7M_WIDE HIL_V7M_COLUMNS);
        } else {
            HIL_V7M_LOOP(HIL_V7M_NARROW HIL_V7M_COLUMNS);
        }
    }
    return (struct hil_v7m_words){{s0, s1, s2, s3, s4, s5, s6, s7}};
}

#undef HIL_V7M_COLUMN
#undef HIL_V7M_WIDE
#undef HIL_V7M_NARROW
#undef HIL_V7M_COLUMNS
#undef HIL_V7M_LOOP
#undef HIL_V7M_FOUR

#else

HIL_INLINE struct hil_v7m_words hil_v7m_products(struct hil_v7m_words words, const uint32_t *rows,
                                                 const int8_t *weights, int32_t depth,
                                                 int32_t wide) {
    for (int32_t left = depth; left > 0; left--) {
        const uint32_t x = wide == 2 ? rows[0] : rows[0] & ~0xff000U;
        const uint32_t y = wide == 2 ? rows[1] : rows[0] >> 12;
        for (int i = 0; i < 4; i++) {
            words.s[2 * i] += (uint32_t)weights[i] * x;
            words.s[2 * i + 1] += (uint32_t)weights[i] * y;
        }
        rows += wide;
        weights += 4;
    }
    return words;
}

#endif

/* What the words of four columns begin with. */
HIL_INLINE struct hil_v7m_words hil_v7m_starts(const int32_t *starts, int32_t wide) {
    struct hil_v7m_words words = {{0}};
    if (wide == 1) {
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) {
            const uint32_t start = (uint32_t)starts[i];
            words.s[2 * i] = start + (start << 20);
            words.s[2 * i + 1] = start + (start << 8);
        }
    }
    return words;
}

/* The lowest bits of a word, `bits` of them, as a signed number. */
HIL_INLINE int32_t hil_v7m_low(uint32_t word, int32_t bits) {
    return (int32_t)(word << (32 - bits)) >> (32 - bits);
}

struct hil_v7m_sums {
    int32_t a;
    int32_t b;
    int32_t c;
};

/* The three sums in two words. */
HIL_INLINE struct hil_v7m_sums hil_v7m_sums(uint32_t first, uint32_t second, int32_t wide) {
    const int32_t bits = wide == 2 ? 21 : 20;
    /* The second word holds B that much lower than the first. */
    const int32_t lower = wide == 2 ? 11 : 12;
    const int32_t a = hil_v7m_low(first, bits);
    const uint32_t above_a = first - (uint32_t)a;
    const uint32_t rest = second - (above_a >> lower);
    const int32_t c = hil_v7m_low(rest, bits);
    const int32_t above_c = (int32_t)(rest - (uint32_t)c);
    return (struct hil_v7m_sums){
        .a = a, .b = (above_c >> (bits - lower)) + (int32_t)(above_a >> bits), .c = c};
}

HIL_INLINE int8_t hil_v7m_columns_s8_output(const struct hil_v7m_columns_s8 *p,
                                            const struct hil_v7m_scale *scale, int32_t sum) {
    return p->even_shift >= 0
               ? hil_v7m_even_output(scale, sum, p->even_shift, p->out_min, p->out_max)
               : hil_v7m_output(scale, sum, p->out_zero_point, p->out_min, p->out_max);
}

/* Three widened rows times all columns. */
HIL_INLINE void hil_v7m_columns_s8(const struct hil_v7m_columns_s8 *p, const uint32_t *rows,
                                   int8_t *out_a, int8_t *out_b, int8_t *out_c) {
    const int8_t *weights = p->weights;
    const int32_t *starts = p->starts;
    const int32_t *scales = p->scales;
    for (int32_t column = 0; column < p->count; column += 4) {
        struct hil_v7m_words words =
            hil_v7m_products(hil_v7m_starts(starts, p->wide), rows, weights,
                             p->part < p->depth ? p->part : p->depth, p->wide);
        struct hil_v7m_sums sums[4];
#pragma GCC unroll 4
        for (int32_t i = 0; i < 4; i++) {
            sums[i] = hil_v7m_sums(words.s[2 * i], words.s[2 * i + 1], p->wide);
        }
        for (int32_t done = p->part; done < p->depth; done += p->part) {
            const int32_t left = p->depth - done;
            starts += 4;
            words = hil_v7m_products(hil_v7m_starts(starts, p->wide), rows + p->wide * done,
                                     weights + 4 * done, left < p->part ? left : p->part, p->wide);
#pragma GCC unroll 4
            for (int32_t i = 0; i < 4; i++) {
                const struct hil_v7m_sums more =
                    hil_v7m_sums(words.s[2 * i], words.s[2 * i + 1], p->wide);
                sums[i].a += more.a;
                sums[i].b += more.b;
                sums[i].c += more.c;
            }
        }
        starts += 4;
        weights += 4 * p->depth;
        const int32_t left = p->count - column;
#pragma GCC unroll 4
        for (int32_t i = 0; i < 4; i++) {
            if (p->count % 4 == 0 || i < left) {
                const struct hil_v7m_scale scale = hil_v7m_scale(scales);
                out_a[column + i] = hil_v7m_columns_s8_output(p, &scale, sums[i].a);
                out_b[column + i] = hil_v7m_columns_s8_output(p, &scale, sums[i].b);
                out_c[column + i] = hil_v7m_columns_s8_output(p, &scale, sums[i].c);
                scales += HIL_V7M_SCALE_WORDS;
            }
        }
    }
}

#endif
