/* Three rows of int8 times four columns of an int8 weight matrix, on cores that multiply 32 bits at
 * a time (Armv7-M without DSP): three sums share two words, so two multiplications serve three
 * products.
 *
 * Tile: 3 rows x 4 columns x 1 element of depth.
 *
 * Registers: of gcc's choice, fourteen in all: s0 to s7 (two words of sums a column), x and y (the
 * two factors of an element), w (a weight), the places in rows and weights, and in the narrow form
 * the mask. No register is left for where the loop ends, so it is read from memory. Of an element
 * of three rows a, b, c:
 *
 *   bit   31        21 20       11 10        0          31    22 21                 0
 *   x     |     b     |     c     |     a    |     y    |  c   |         b          |
 *   s0    A + 2^11 * C + 2^21 * B, modulo 2^32     s1    B + 2^22 * C, modulo 2^32
 *
 *   columns 0 1 2 3: s0 s1, s2 s3, s4 s5, s6 s7
 *
 * Data:
 *
 *   rows     in scratch, by hil_v7m_widen_rows: wide, x and y of an element, 8 bytes; narrow, x
 *            alone, 4 bytes, its values raised by 128 so that none borrows from the next: y is x
 *            turned by 21 bits under a mask, b and c in place
 *   weights  int8 [blocks of 4 columns][depth][4], packed by `_interleaved()`, the last filled
 *            up with zeros
 *   scales   int32 [column][4], `scales()` or `even_scales()`; see hil_v7m_output
 *
 * Order: three rows are read whole, then the outputs of all three are written four columns by four.
 * An extra row repeats the previous one.
 *
 * Bounds: of each part of a column -2^20 <= A, B, C < 2^20, for all inputs: `_part()` cuts the
 * depth so (a turn of the loop is 8 elements, at most 8 * 255 * 128 < 2^20, so a cut always
 * exists). Then
 *   B  is the lower 22 bits of s1, signed; above it s1 has the lower 10 bits of C;
 *   A  is the lower 21 bits, signed, of s0 - 2^11 * (those 10 bits of C, signed) - 2^21 * B;
 *   C  is what is left of s0, shifted by 11.
 * The sums of parts add up in int32; the whole, bias included, is below 2^30 (`_channels()`), the
 * 128 * sum of weights that raised values add is in the bias.
 *
 * Output: hil_v7m_output rounds twice as TensorFlow Lite does, hil_v7m_once_output once, half up,
 * hil_v7m_ties_output with ties to even; hil_v7m_even_output has one shift for all channels, where
 * `even_scales()` has proven for each channel that each output begins at the same sum.
 *
 * Scratch: 8 or 4 bytes an element of depth.
 *
 * Cost: an element of 12 MACs takes 13 instructions wide, 14 narrow. Measured (`hil tune` on
 * mps2-an385, instructions under QEMU) a MAC: 1x1 25x5x64 to 64 (kws, hil_v7m_matmul_s8) 1.36 wide,
 * 1.44 narrow; 3x3 of 64 channels (ic, hil_v7m_conv2d_s8) 1.28, 1.36.
 *
 * Tests: the twin is the second hil_v7m_products (tests/c/test_v7m_kernels.py, limits:
 * test_sums_at_their_limits, test_parts_are_cut_where_sums_leave_their_bits); the assembly:
 * tests/board/test_kernels.py. Layout: tests/c/test_kernel_layouts.py.
 */
#ifndef HIL_KERNELS_V7M_COLUMNS_S8_H
#define HIL_KERNELS_V7M_COLUMNS_S8_H

#include "hil/kernels/generic/fields.h"
#include "hil/v7m.h"

/* Fields of the kernels' structs that describe the columns. */
#define HIL_V7M_COLUMNS_FIELDS                                                                     \
    int32_t part; /* elements of depth after which sums are taken out of their words */            \
    int32_t wide; /* words of widened rows an element of depth: 2 or 1 */                          \
    HIL_OUTPUT_RANGE_FIELDS;                                                                       \
    int32_t even_shift;    /* of all columns, or HIL_V7M_OWN_SHIFTS and others (v7m.h) */          \
    const int32_t *scales; /* HIL_V7M_SCALE_WORDS a column, of whole blocks */                     \
    const int8_t *weights  /* [blocks of four columns][depth][4] */

struct hil_v7m_columns_s8 {
    int32_t depth;
    int32_t count;
    HIL_V7M_COLUMNS_FIELDS;
};

/* The columns of a kernel whose parameters are `p`. */
#define HIL_V7M_COLUMNS_OF(p, column_depth, columns)                                               \
    {                                                                                              \
        .depth = (column_depth), .count = (columns), .part = (p)->part, .wide = (p)->wide,         \
        .out_zero_point = (p)->out_zero_point, .out_min = (p)->out_min, .out_max = (p)->out_max,   \
        .even_shift = (p)->even_shift, .scales = (p)->scales, .weights = (p)->weights              \
    }

/* Where fields of words begin; what raises all three, and which of a turned word are kept. */
#define HIL_V7M_FIELD_C 11
#define HIL_V7M_FIELD_B 21
#define HIL_V7M_RAISE (128U + (128U << HIL_V7M_FIELD_C) + (128U << HIL_V7M_FIELD_B))
#define HIL_V7M_KEEP (0xffU | 0xffU << (32 + HIL_V7M_FIELD_C - HIL_V7M_FIELD_B))

/* The constant, which the compiler is to keep in a register instead of making it again. */
HIL_INLINE uint32_t hil_v7m_constant(uint32_t constant) {
#if HIL_V7M_ASSEMBLY
    __asm__("" : "+r"(constant));
#endif
    return constant;
}

/* Makes one element of three rows words; where to go on. */
HIL_INLINE uint32_t *hil_v7m_widen(int32_t a, int32_t b, int32_t c, uint32_t raise, int32_t wide,
                                   uint32_t *to) {
    const uint32_t word = (uint32_t)(a + c * (1 << HIL_V7M_FIELD_C) + b * (1 << HIL_V7M_FIELD_B));
    if (wide == 2) {
        to[0] = word;
        to[1] = (uint32_t)(b + c * (1 << (32 + HIL_V7M_FIELD_C - HIL_V7M_FIELD_B)));
    } else {
        to[0] = word + raise;
    }
    return to + wide;
}

/* Widens `depth` elements of three rows; where to go on. */
HIL_INLINE uint32_t *hil_v7m_widen_rows(const int8_t *a, const int8_t *b, const int8_t *c,
                                        int32_t depth, int32_t wide, uint32_t *to) {
    const uint32_t raise = hil_v7m_constant(HIL_V7M_RAISE);
    int32_t left = depth;
    for (; left >= 4; left -= 4) {
        to = hil_v7m_widen(a[0], b[0], c[0], raise, wide, to);
        to = hil_v7m_widen(a[1], b[1], c[1], raise, wide, to);
        to = hil_v7m_widen(a[2], b[2], c[2], raise, wide, to);
        to = hil_v7m_widen(a[3], b[3], c[3], raise, wide, to);
        a += 4;
        b += 4;
        c += 4;
    }
    for (; left > 0; left--) {
        to = hil_v7m_widen(*a++, *b++, *c++, raise, wide, to);
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

/* An element of depth, 12 products: 13 instructions with two words, 14 with one. */
#define HIL_V7M_WIDE                                                                               \
    __asm__ volatile("ldrd %[x], %[y], [%[rows]], #8"                                              \
                     : [rows] "+r"(rows), [x] "=&r"(x), [y] "=&r"(y)                               \
                     :                                                                             \
                     : "memory")
#define HIL_V7M_NARROW                                                                             \
    __asm__ volatile("ldr %[x], [%[rows]], #4\n\t"                                                 \
                     "and %[y], %[keep], %[x], ror %[turn]"                                        \
                     : [rows] "+r"(rows), [x] "=&r"(x), [y] "=r"(y)                                \
                     : [keep] "r"(keep), [turn] "I"(HIL_V7M_FIELD_B)                               \
                     : "memory")
#define HIL_V7M_ELEMENT(words)                                                                     \
    words;                                                                                         \
    __asm__ volatile(                                                                              \
        HIL_V7M_COLUMN("s0", "s1") HIL_V7M_COLUMN("s2", "s3") HIL_V7M_COLUMN("s4", "s5")           \
            HIL_V7M_COLUMN("s6", "s7")                                                             \
        : [s0] "+r"(s0), [s1] "+r"(s1), [s2] "+r"(s2), [s3] "+r"(s3), [s4] "+r"(s4),               \
          [s5] "+r"(s5), [s6] "+r"(s6), [s7] "+r"(s7), [weights] "+r"(weights), [w] "=&r"(w)       \
        : [x] "r"(x), [y] "r"(y)                                                                   \
        : "memory")
#define HIL_V7M_FOUR(words)                                                                        \
    HIL_V7M_ELEMENT(words);                                                                        \
    HIL_V7M_ELEMENT(words);                                                                        \
    HIL_V7M_ELEMENT(words);                                                                        \
    HIL_V7M_ELEMENT(words)
#define HIL_V7M_EIGHT(words)                                                                       \
    HIL_V7M_FOUR(words);                                                                           \
    HIL_V7M_FOUR(words)
#define HIL_V7M_ALL(turn, words)                                                                   \
    for (const uint32_t *const end = rows + (words); rows != end;) {                               \
        turn;                                                                                      \
    }

HIL_INLINE struct hil_v7m_words hil_v7m_products(const uint32_t *rows, const int8_t *weights,
                                                 int32_t depth, int32_t wide) {
    uint32_t s0 = 0;
    uint32_t s1 = 0;
    uint32_t s2 = 0;
    uint32_t s3 = 0;
    uint32_t s4 = 0;
    uint32_t s5 = 0;
    uint32_t s6 = 0;
    uint32_t s7 = 0;
    uint32_t w;
    uint32_t x;
    uint32_t y;
    if (wide == 2) {
        HIL_V7M_ALL(HIL_V7M_FOUR(HIL_V7M_WIDE), 2 * (depth - depth % 4))
        HIL_V7M_ALL(HIL_V7M_ELEMENT(HIL_V7M_WIDE), 2 * (depth % 4))
    } else {
        const uint32_t keep = hil_v7m_constant(HIL_V7M_KEEP);
        /* Longer turns, as no register is left for where they end. */
        HIL_V7M_ALL(HIL_V7M_EIGHT(HIL_V7M_NARROW), depth - depth % 8)
        HIL_V7M_ALL(HIL_V7M_ELEMENT(HIL_V7M_NARROW), depth % 8)
    }
    return (struct hil_v7m_words){{s0, s1, s2, s3, s4, s5, s6, s7}};
}

#undef HIL_V7M_COLUMN
#undef HIL_V7M_WIDE
#undef HIL_V7M_NARROW
#undef HIL_V7M_ELEMENT
#undef HIL_V7M_FOUR
#undef HIL_V7M_EIGHT
#undef HIL_V7M_ALL

#else

HIL_INLINE struct hil_v7m_words hil_v7m_products(const uint32_t *rows, const int8_t *weights,
                                                 int32_t depth, int32_t wide) {
    /* Each sum by its name: compilers keep an array in memory. */
    uint32_t s0 = 0;
    uint32_t s1 = 0;
    uint32_t s2 = 0;
    uint32_t s3 = 0;
    uint32_t s4 = 0;
    uint32_t s5 = 0;
    uint32_t s6 = 0;
    uint32_t s7 = 0;
#pragma GCC unroll 4
    for (const uint32_t *const end = rows + wide * depth; rows != end; rows += wide) {
        const uint32_t x = rows[0];
        const uint32_t turned = x >> HIL_V7M_FIELD_B | x << (32 - HIL_V7M_FIELD_B);
        const uint32_t y = wide == 2 ? rows[1] : turned & HIL_V7M_KEEP;
        s0 += (uint32_t)weights[0] * x;
        s1 += (uint32_t)weights[0] * y;
        s2 += (uint32_t)weights[1] * x;
        s3 += (uint32_t)weights[1] * y;
        s4 += (uint32_t)weights[2] * x;
        s5 += (uint32_t)weights[2] * y;
        s6 += (uint32_t)weights[3] * x;
        s7 += (uint32_t)weights[3] * y;
        weights += 4;
    }
    return (struct hil_v7m_words){{s0, s1, s2, s3, s4, s5, s6, s7}};
}

#endif

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
HIL_INLINE struct hil_v7m_sums hil_v7m_sums(uint32_t first, uint32_t second) {
    const int32_t b = hil_v7m_low(second, 32 + HIL_V7M_FIELD_C - HIL_V7M_FIELD_B);
    const int32_t above_b = (int32_t)(second - (uint32_t)b);
    const uint32_t without_b = first - ((uint32_t)b << HIL_V7M_FIELD_B);
    /* What is above B in the second word are the lower bits of C, so much higher than here. */
    const uint32_t lower_c = (uint32_t)(above_b >> (32 - HIL_V7M_FIELD_B));
    const int32_t a = hil_v7m_low(without_b - lower_c, HIL_V7M_FIELD_B);
    return (struct hil_v7m_sums){
        .a = a, .b = b, .c = (int32_t)(without_b - (uint32_t)a) >> HIL_V7M_FIELD_C};
}

HIL_INLINE int8_t hil_v7m_columns_s8_output(const struct hil_v7m_columns_s8 *p,
                                            const struct hil_v7m_scale *scale, int32_t sum) {
    return hil_v7m_output_by(p->even_shift, scale, sum, p->out_zero_point, p->out_min, p->out_max);
}

/* Three widened rows times all columns. */
HIL_INLINE void hil_v7m_columns_s8(const struct hil_v7m_columns_s8 *p, const uint32_t *rows,
                                   int8_t *out_a, int8_t *out_b, int8_t *out_c) {
    const int8_t *weights = p->weights;
    const int32_t *scales = p->scales;
    for (int32_t column = 0; column < p->count; column += 4) {
        struct hil_v7m_words words =
            hil_v7m_products(rows, weights, p->part < p->depth ? p->part : p->depth, p->wide);
        struct hil_v7m_sums sums[4];
#pragma GCC unroll 4
        for (int32_t i = 0; i < 4; i++) {
            sums[i] = hil_v7m_sums(words.s[2 * i], words.s[2 * i + 1]);
        }
        for (int32_t done = p->part; done < p->depth; done += p->part) {
            const int32_t left = p->depth - done;
            words = hil_v7m_products(rows + p->wide * done, weights + 4 * done,
                                     left < p->part ? left : p->part, p->wide);
#pragma GCC unroll 4
            for (int32_t i = 0; i < 4; i++) {
                const struct hil_v7m_sums more = hil_v7m_sums(words.s[2 * i], words.s[2 * i + 1]);
                sums[i].a += more.a;
                sums[i].b += more.b;
                sums[i].c += more.c;
            }
        }
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
