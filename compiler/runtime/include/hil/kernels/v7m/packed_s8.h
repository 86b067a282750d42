/* Two rows of int8 times three columns of an int8 weight matrix that is packed in flash, on cores
 * that multiply 32 bits at a time: the weights of three columns share two words, so that two
 * multiplications serve three products.
 *
 * Tile: 2 rows x 3 columns x 2 elements of depth, 8 multiplications for 12 products.
 *
 *               columns 0 1 2
 *     row a     s0 s1
 *     row b     s2 s3
 *
 * Registers: of gcc's choice s0 to s3 (two words of sums a row) and the places in rows and
 * weights; r4 r5 r6 r8 the values of two elements (a b a b); r9 to r12 their weights. No register
 * is left for where the loop ends, so it is read from memory.
 *
 * Data:
 *
 *   rows     in scratch, by hil_v7m_packed_widen: int32 [depth][2], a and b of an element
 *   weights  uint32 [blocks of 3 columns][parts][1 + depth of the part][2], packed by `_packed()`,
 *            the last block filled up with zeros. Of an element's weights u, v, w of columns 0, 1
 *            and 2, modulo 2^32:
 *
 *              first word   u + 2^11 * w       second word   v + 2^22 * w
 *
 *            The first two words of a part are the same of three numbers that keep each sum of the
 *            part from going below 0, whatever the input.
 *   scales   int32 [column][4], `_scales()`; see hil_v7m_output. The bias takes off what the sums
 *            of all parts begin with.
 *
 * Order: two rows are read whole, then the outputs of both are written three columns by three. A
 * row too many is the one before it again.
 *
 * Bounds: with what a part's sums U, V, W begin with, 0 <= U, V, W < 2^21 for all inputs:
 * `_packed_part()` cuts the depth so (a turn is 16 elements, whose sums span at most
 * 16 * 255 * 128 < 2^21, so a cut always exists). Then, unsigned,
 *
 *   second word of sums   V, the lower 22 bits; above them the lower 10 bits of W
 *   first word            less 2^11 times these 10 bits: U, the lower 21 bits; above them what is
 *                         left of W
 *
 * The sums of parts add up in int32; the whole, bias included, is below 2^30 (`_channels()`).
 *
 * Output: as in columns_s8.h.
 *
 * Scratch: 8 bytes an element of depth.
 *
 * Cost: two elements of 12 MACs take 10 instructions. Measured (`hil bench` on mps2-an385,
 * instructions under QEMU) a MAC: 1x1 25x5x64 to 64 (kws, hil_v7m_matmul_s8_packed) 1.08; 3x3 of 64
 * channels (ic, hil_v7m_conv2d_s8_packed) 1.00; with the kernels of columns_s8.h 1.36, 1.28. The
 * weights take 8 bytes for three.
 *
 * Tests: the twin is the second hil_v7m_packed_products (tests/c/test_v7m_kernels.py, limits:
 * test_sums_at_their_limits, test_packed_parts_end_where_sums_overflow); the assembly:
 * tests/board/test_kernels.py. Layout: tests/c/test_kernel_layouts.py.
 */
#ifndef HIL_KERNELS_V7M_PACKED_S8_H
#define HIL_KERNELS_V7M_PACKED_S8_H

#include "hil/kernels/generic/fields.h"
#include "hil/v7m.h"

/* Fields of the kernels' structs that describe the columns. */
#define HIL_V7M_PACKED_FIELDS                                                                      \
    int32_t part; /* elements of depth after which sums are taken out of their words */            \
    HIL_OUTPUT_RANGE_FIELDS;                                                                       \
    int32_t even_shift;     /* of all columns, or HIL_V7M_OWN_SHIFTS and others (v7m.h) */         \
    const int32_t *scales;  /* HIL_V7M_SCALE_WORDS a column */                                     \
    const uint32_t *weights /* of blocks of three columns */

struct hil_v7m_packed_s8 {
    int32_t depth;
    int32_t count;
    HIL_V7M_PACKED_FIELDS;
};

/* The columns of a kernel whose parameters are `p`. */
#define HIL_V7M_PACKED_OF(p, column_depth, columns)                                                \
    {                                                                                              \
        .depth = (column_depth), .count = (columns), .part = (p)->part,                            \
        .out_zero_point = (p)->out_zero_point, .out_min = (p)->out_min, .out_max = (p)->out_max,   \
        .even_shift = (p)->even_shift, .scales = (p)->scales, .weights = (p)->weights              \
    }

/* Where fields of words begin. */
#define HIL_V7M_PACKED_FIRST 11
#define HIL_V7M_PACKED_SECOND 22

/* Makes an element of two rows words; where to go on. */
HIL_INLINE int32_t *hil_v7m_packed_pair(const int8_t *a, const int8_t *b, int32_t *to) {
    const int32_t first = *a;
    const int32_t second = *b;
#if HIL_V7M_ASSEMBLY
    /* gcc stores them one after the other. */
    __asm__ volatile("strd %[a], %[b], [%[to]], #8"
                     : [to] "+r"(to)
                     : [a] "r"(first), [b] "r"(second)
                     : "memory");
    return to;
#else
    to[0] = first;
    to[1] = second;
    return to + 2;
#endif
}

/* Makes `depth` elements of two rows words, which lie next to each other; where to go on. */
HIL_INLINE int32_t *hil_v7m_packed_widen(const int8_t *a, const int8_t *b, int32_t depth,
                                         int32_t *to) {
    int32_t left = depth;
    for (; left >= 4; left -= 4) {
        to = hil_v7m_packed_pair(a++, b++, to);
        to = hil_v7m_packed_pair(a++, b++, to);
        to = hil_v7m_packed_pair(a++, b++, to);
        to = hil_v7m_packed_pair(a++, b++, to);
    }
    for (; left > 0; left--) {
        to = hil_v7m_packed_pair(a++, b++, to);
    }
    return to;
}

/* The words of two rows' sums by three columns: two a row. */
struct hil_v7m_packed_words {
    uint32_t s[4];
};

/* Where a loop over whole turns of so many elements of depth ends. */
HIL_INLINE const int32_t *hil_v7m_packed_end(const int32_t *rows, int32_t depth) {
    return rows + 2 * (depth - depth % 16);
}

#if HIL_V7M_ASSEMBLY

/* Two elements of depth, 12 products: 10 instructions. */
#define HIL_V7M_TWO                                                                                \
    "ldmia %[rows]!, {r4, r5, r6, r8}\n\t"                                                         \
    "ldmia %[weights]!, {r9, r10, r11, r12}\n\t"                                                   \
    "mla %[s0], r4, r9, %[s0]\n\t"                                                                 \
    "mla %[s1], r4, r10, %[s1]\n\t"                                                                \
    "mla %[s2], r5, r9, %[s2]\n\t"                                                                 \
    "mla %[s3], r5, r10, %[s3]\n\t"                                                                \
    "mla %[s0], r6, r11, %[s0]\n\t"                                                                \
    "mla %[s1], r6, r12, %[s1]\n\t"                                                                \
    "mla %[s2], r8, r11, %[s2]\n\t"                                                                \
    "mla %[s3], r8, r12, %[s3]\n\t"
#define HIL_V7M_FOUR HIL_V7M_TWO HIL_V7M_TWO
#define HIL_V7M_EIGHT HIL_V7M_FOUR HIL_V7M_FOUR
#define HIL_V7M_ONE                                                                                \
    "ldrd r4, r5, [%[rows]], #8\n\t"                                                               \
    "ldrd r9, r10, [%[weights]], #8\n\t"                                                           \
    "mla %[s0], r4, r9, %[s0]\n\t"                                                                 \
    "mla %[s1], r4, r10, %[s1]\n\t"                                                                \
    "mla %[s2], r5, r9, %[s2]\n\t"                                                                 \
    "mla %[s3], r5, r10, %[s3]\n\t"
#define HIL_V7M_BEGIN                                                                              \
    "ldrd %[s0], %[s1], [%[weights]], #8\n\t"                                                      \
    "mov %[s2], %[s0]\n\t"                                                                         \
    "mov %[s3], %[s1]\n\t"
#define HIL_V7M_ELEMENTS(elements)                                                                 \
    __asm__ volatile(elements                                                                      \
                     : [s0] "+r"(s0), [s1] "+r"(s1), [s2] "+r"(s2), [s3] "+r"(s3),                 \
                       [rows] "+r"(rows), [weights] "+r"(weights)                                  \
                     : [end] "m"(*end)                                                             \
                     : "r4", "r5", "r6", "r8", "r9", "r10", "r11", "r12", "cc", "memory")

/* The products of `depth` elements, of which the loop over whole turns ends at `*end`, and where
 * their weights end. */
HIL_INLINE struct hil_v7m_packed_words hil_v7m_packed_products(const int32_t *rows,
                                                               const int32_t *const *end,
                                                               const uint32_t **packed,
                                                               int32_t depth) {
    const uint32_t *weights = *packed;
    uint32_t s0;
    uint32_t s1;
    uint32_t s2;
    uint32_t s3;
    __asm__ volatile(
        HIL_V7M_BEGIN
        : [s0] "=&r"(s0), [s1] "=&r"(s1), [s2] "=&r"(s2), [s3] "=&r"(s3), [weights] "+r"(weights)
        :
        : "memory");
    if (depth >= 16) {
        HIL_V7M_ELEMENTS("1:\n\t" HIL_V7M_EIGHT HIL_V7M_EIGHT "ldr r4, %[end]\n\t"
                         "cmp %[rows], r4\n\t"
                         "bne 1b\n\t");
    }
    if (depth & 8) {
        HIL_V7M_ELEMENTS(HIL_V7M_EIGHT);
    }
    if (depth & 4) {
        HIL_V7M_ELEMENTS(HIL_V7M_FOUR);
    }
    if (depth & 2) {
        HIL_V7M_ELEMENTS(HIL_V7M_TWO);
    }
    if (depth & 1) {
        HIL_V7M_ELEMENTS(HIL_V7M_ONE);
    }
    *packed = weights;
    return (struct hil_v7m_packed_words){{s0, s1, s2, s3}};
}

#undef HIL_V7M_BEGIN
#undef HIL_V7M_ONE
#undef HIL_V7M_TWO
#undef HIL_V7M_FOUR
#undef HIL_V7M_EIGHT
#undef HIL_V7M_ELEMENTS

#else

HIL_INLINE struct hil_v7m_packed_words hil_v7m_packed_products(const int32_t *rows,
                                                               const int32_t *const *end,
                                                               const uint32_t **packed,
                                                               int32_t depth) {
    (void)end;
    /* Each sum by its name: compilers keep an array in memory. */
    const uint32_t *weights = *packed;
    uint32_t s0 = weights[0];
    uint32_t s1 = weights[1];
    uint32_t s2 = s0;
    uint32_t s3 = s1;
#pragma GCC unroll 4
    for (const int32_t *const last = rows + 2 * depth; rows != last; rows += 2) {
        weights += 2;
        s0 += (uint32_t)rows[0] * weights[0];
        s1 += (uint32_t)rows[0] * weights[1];
        s2 += (uint32_t)rows[1] * weights[0];
        s3 += (uint32_t)rows[1] * weights[1];
    }
    *packed = weights + 2;
    return (struct hil_v7m_packed_words){{s0, s1, s2, s3}};
}

#endif

/* The sum, of which the compiler is not to know that it is not below 0: gcc takes several
 * instructions for the product of such a one. */
HIL_INLINE int32_t hil_v7m_packed_sum(int32_t sum) {
#if HIL_V7M_ASSEMBLY
    __asm__("" : "+r"(sum));
#endif
    return sum;
}

/* Adds the three sums in two words to those of a row. */
HIL_INLINE void hil_v7m_packed_sums(uint32_t first, uint32_t second, int32_t *sums) {
    const uint32_t lower_w = second >> HIL_V7M_PACKED_SECOND;
    const uint32_t without_w = first - (lower_w << HIL_V7M_PACKED_FIRST);
    const uint32_t u = without_w & ((1U << 21) - 1);
    const uint32_t v = second & ((1U << HIL_V7M_PACKED_SECOND) - 1);
    const uint32_t w = lower_w + (without_w >> 21 << (32 - HIL_V7M_PACKED_SECOND));
    sums[0] += hil_v7m_packed_sum((int32_t)u);
    sums[1] += hil_v7m_packed_sum((int32_t)v);
    sums[2] += hil_v7m_packed_sum((int32_t)w);
}

#if HIL_V7M_ASSEMBLY

/* Whether the outputs of a kernel whose parameters are `p` can be made in assembly: their shift is
 * a constant of the code, every value of int8 is one, and a sum is of one part. */
#define HIL_V7M_PACKED_FAST(p)                                                                     \
    (__builtin_constant_p((p)->even_shift) && (p)->even_shift > 0 && (p)->out_min == INT8_MIN &&   \
     (p)->out_max == INT8_MAX && (p)->part >= (p)->depth)

/* Makes of a row's words, of which the second has U and W, the sums: U in `u`. */
#define HIL_V7M_PACKED_SUMS(u, first, second)                                                      \
    "lsr r8, " second ", #22\n\t"                                                                  \
    "sub " first ", " first ", r8, lsl #11\n\t"                                                    \
    "ubfx " u ", " first ", #0, #21\n\t"                                                           \
    "lsr " first ", " first ", #21\n\t"                                                            \
    "add " first ", r8, " first ", lsl #10\n\t"                                                    \
    "ubfx " second ", " second ", #0, #22\n\t"
/* A column's outputs of two sums: 9 instructions. */
#define HIL_V7M_OUTPUTS(a, b)                                                                      \
    "ldmia %[scales]!, {r8, r9, r10, r11}\n\t"                                                     \
    "mov r11, r8\n\t"                                                                              \
    "mov r12, r9\n\t"                                                                              \
    "smlal r8, r9, " a ", r10\n\t"                                                                 \
    "smlal r11, r12, " b ", r10\n\t"                                                               \
    "ssat r9, #8, r9, asr %[shift]\n\t"                                                            \
    "ssat r12, #8, r12, asr %[shift]\n\t"                                                          \
    "strb r12, [%[out], %[behind]]\n\t"                                                            \
    "strb r9, [%[out]], #1\n\t"

/* The outputs of two rows' sums by three columns, if HIL_V7M_PACKED_FAST. */
HIL_INLINE int8_t *hil_v7m_packed_outputs(const struct hil_v7m_packed_s8 *p, const int32_t **scales,
                                          struct hil_v7m_packed_words words, int8_t *out,
                                          int32_t behind) {
    __asm__ volatile(HIL_V7M_PACKED_SUMS("r4", "%[s0]", "%[s1]")
                         HIL_V7M_PACKED_SUMS("r5", "%[s2]", "%[s3]") HIL_V7M_OUTPUTS("r4", "r5")
                             HIL_V7M_OUTPUTS("%[s1]", "%[s3]") HIL_V7M_OUTPUTS("%[s0]", "%[s2]")
                     : [s0] "+r"(words.s[0]), [s1] "+r"(words.s[1]), [s2] "+r"(words.s[2]),
                       [s3] "+r"(words.s[3]), [scales] "+r"(*scales), [out] "+r"(out)
                     : [behind] "r"(behind), [shift] "i"(p->even_shift)
                     : "r4", "r5", "r8", "r9", "r10", "r11", "r12", "memory");
    return out;
}

#undef HIL_V7M_OUTPUTS

#endif

/* Two widened rows times all columns: outputs of the second lie so many bytes behind the first's.
 */
HIL_INLINE void hil_v7m_packed_s8(const struct hil_v7m_packed_s8 *p, const int32_t *rows,
                                  int8_t *out, int32_t behind) {
    const uint32_t *weights = p->weights;
    const int32_t *scales = p->scales;
    const int32_t *const end = hil_v7m_packed_end(rows, p->part);
    const int8_t *const whole = out + p->count / 3 * 3;
    const int32_t rest = p->count % 3;
    while (rest != 0 || out != whole) {
        struct hil_v7m_packed_words words = hil_v7m_packed_products(rows, &end, &weights, p->part);
        const int32_t columns = rest == 0 || out != whole ? 3 : rest;
#if HIL_V7M_ASSEMBLY
        if (HIL_V7M_PACKED_FAST(p) && columns == 3) {
            out = hil_v7m_packed_outputs(p, &scales, words, out, behind);
            continue;
        }
#endif
        int32_t a[3] = {0};
        int32_t b[3] = {0};
        hil_v7m_packed_sums(words.s[0], words.s[1], a);
        hil_v7m_packed_sums(words.s[2], words.s[3], b);
        for (int32_t done = p->part; done < p->depth; done += p->part) {
            const int32_t left = p->depth - done;
            const int32_t depth = left < p->part ? left : p->part;
            const int32_t *const from = rows + 2 * done;
            const int32_t *const part_end = hil_v7m_packed_end(from, depth);
            words = hil_v7m_packed_products(from, &part_end, &weights, depth);
            hil_v7m_packed_sums(words.s[0], words.s[1], a);
            hil_v7m_packed_sums(words.s[2], words.s[3], b);
        }
#pragma GCC unroll 3
        for (int32_t i = 0; i < 3; i++) {
            if (i < columns) {
                const struct hil_v7m_scale scale = hil_v7m_scale(scales);
                out[behind] = hil_v7m_output_by(p->even_shift, &scale, b[i], p->out_zero_point,
                                                p->out_min, p->out_max);
                *out++ = hil_v7m_output_by(p->even_shift, &scale, a[i], p->out_zero_point,
                                           p->out_min, p->out_max);
                scales += HIL_V7M_SCALE_WORDS;
            }
        }
        if (columns < 3) {
            return;
        }
    }
}

#endif
