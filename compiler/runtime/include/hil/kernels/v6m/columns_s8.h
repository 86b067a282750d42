/* Nine rows of int8, or three, times a column of an int8 weight matrix, on cores with Thumb code of
 * 16 bits alone (Armv6-M): three sums share two words, and the rows what is loaded of a weight.
 *
 * Tile: 9 rows x 1 column x 1 element of depth, three of the triples that v7m/columns_s8.h draws;
 * or 3 rows, one of them.
 *
 *   rows   a b c   d e f   g h i
 *   words  s0 s1   s2 s3   s4 s5
 *
 * Registers: r4 r5 r6, words of the rows, which multiplying overwrites; r8 to r12 and lr, the words
 * of the sums; and of gcc's choice w (the weight), the places in rows, weights and sums, and the
 * end.
 *
 * Data:
 *
 *   rows     in scratch, by hil_v6m_widen_steps: [depth][6] words, or [depth][2], of each three
 *            rows x and y as v7m/columns_s8.h has them, not raised
 *   weights  int8 [column][depth], as the model has them
 *   scales   int32 [column][7], `piecewise_scales()`; see hil_v6m_output
 *
 * Order: nine or three rows are read whole, then their outputs are written column by column. A row
 * too many is the one before it again.
 *
 * Bounds: of each part of a column, the sum of each row is of 21 bits, for all inputs:
 * `longest_part()` cuts the depth so. Sums, bias not included, stay below 2^19, 2^21 or 2^23
 * (`piecewise_scales()`).
 *
 * Output: hil_v6m_output multiplies with pieces of the multiplier in words of 32 bits;
 * `piecewise_scales()` proves for each channel that each output begins at the same sum as by the
 * reference's arithmetic, be it rounded once, twice or with ties to even, or yields none.
 *
 * Scratch: 24 or 8 bytes an element of depth.
 *
 * Cost: an element of 9 MACs takes 16 instructions, one of 3 takes 7. Measured (`hil bench` on
 * microbit, instructions under QEMU) a MAC: 1x1 25x5x64 to 64 (kws, hil_v6m_matmul_s8) 2.50, 10x4
 * of one channel (kws, hil_v6m_conv2d_s8) 3.34; the portable kernels 6.5.
 *
 * Tests: the twin is the second hil_v6m_products (tests/c/test_v6m_kernels.py, scales:
 * test_scales_give_the_output_of_every_sum, limits:
 * test_constant_channels_and_sums_at_limits); the assembly:
 * tests/board/test_kernels.py. Layout: tests/c/test_kernel_layouts.py.
 */
#ifndef HIL_KERNELS_V6M_COLUMNS_S8_H
#define HIL_KERNELS_V6M_COLUMNS_S8_H

#include "hil/kernels/v7m/columns_s8.h"
#include "hil/v6m.h"

/* Fields of the kernels' structs that describe the columns. */
#define HIL_V6M_COLUMNS_FIELDS                                                                     \
    int32_t tile;          /* rows at a time: 3 or 9 */                                            \
    int32_t part;          /* elements of depth after which sums are taken out of their words */   \
    int32_t pieces;        /* of the multipliers: 2 or 3 */                                        \
    int32_t bits;          /* of a piece */                                                        \
    int32_t turns;         /* 1: negative products have an addend of their own */                  \
    int32_t out_min;       /* the least output */                                                  \
    int32_t out_max;       /* the largest output */                                                \
    const int32_t *scales; /* HIL_V6M_SCALE_WORDS a column */                                      \
    const int8_t *weights  /* [column][depth] */

struct hil_v6m_columns_s8 {
    int32_t depth;
    int32_t count;
    HIL_V6M_COLUMNS_FIELDS;
};

/* The columns of a kernel whose parameters are `p`. */
#define HIL_V6M_COLUMNS_OF(p, column_depth, columns)                                               \
    {                                                                                              \
        .depth = (column_depth), .count = (columns), .tile = (p)->tile, .part = (p)->part,         \
        .pieces = (p)->pieces, .bits = (p)->bits, .turns = (p)->turns, .out_min = (p)->out_min,    \
        .out_max = (p)->out_max, .scales = (p)->scales, .weights = (p)->weights                    \
    }

/* Rows at a time at most, and the words that an element of them takes. */
#define HIL_V6M_ROWS 9
#define HIL_V6M_WORDS 6

/* The words that an element of so many rows takes. */
HIL_INLINE int32_t hil_v6m_words_of(int32_t tile) { return tile / 3 * 2; }

/* Widens elements of three rows, to so many words from one to the next; their steps are 1, or 0 for
 * a filling. */
HIL_INLINE void hil_v6m_widen_steps(const int8_t *const *from, const int32_t *steps,
                                    int32_t elements, int32_t words, uint32_t *to) {
    const int8_t *a = from[0];
    const int8_t *b = from[1];
    const int8_t *c = from[2];
    for (; elements > 0; elements--) {
        (void)hil_v7m_widen(*a, *b, *c, 0, 2, to);
        a += steps[0];
        b += steps[1];
        c += steps[2];
        to += words;
    }
}

/* Widens elements of three rows. */
HIL_INLINE void hil_v6m_widen_rows(const int8_t *const *from, int32_t elements, int32_t words,
                                   uint32_t *to) {
    const int32_t steps[3] = {1, 1, 1};
    hil_v6m_widen_steps(from, steps, elements, words, to);
}

/* The words of nine rows' sums by a column. */
struct hil_v6m_words {
    uint32_t s[HIL_V6M_WORDS];
};

#if HIL_V6M_ASSEMBLY

/* An element of depth, 9 products: 16 instructions. */
#define HIL_V6M_ELEMENT(at)                                                                        \
    "ldrb %[w], [%[weights], #" at "]\n\t"                                                         \
    "sxtb %[w], %[w]\n\t"                                                                          \
    "ldmia %[rows]!, {r4, r5, r6}\n\t"                                                             \
    "muls r4, %[w], r4\n\t"                                                                        \
    "add r8, r4\n\t"                                                                               \
    "muls r5, %[w], r5\n\t"                                                                        \
    "add r9, r5\n\t"                                                                               \
    "muls r6, %[w], r6\n\t"                                                                        \
    "add r10, r6\n\t"                                                                              \
    "ldmia %[rows]!, {r4, r5, r6}\n\t"                                                             \
    "muls r4, %[w], r4\n\t"                                                                        \
    "add r11, r4\n\t"                                                                              \
    "muls r5, %[w], r5\n\t"                                                                        \
    "add r12, r5\n\t"                                                                              \
    "muls r6, %[w], r6\n\t"                                                                        \
    "add lr, r6\n\t"
/* The same of three rows: 7 instructions. */
#define HIL_V6M_SLIM(at)                                                                           \
    "ldrb %[w], [%[weights], #" at "]\n\t"                                                         \
    "sxtb %[w], %[w]\n\t"                                                                          \
    "ldmia %[rows]!, {r4, r5}\n\t"                                                                 \
    "muls r4, %[w], r4\n\t"                                                                        \
    "add r8, r4\n\t"                                                                               \
    "muls r5, %[w], r5\n\t"                                                                        \
    "add r9, r5\n\t"
#define HIL_V6M_EIGHT(element)                                                                     \
    element("0") element("1") element("2") element("3") element("4") element("5") element("6")     \
        element("7")
/* Elements up to the end, `count` in a turn; the sums pass through memory before and after. */
#define HIL_V6M_ALL(turn, count)                                                                   \
    __asm__ volatile(".syntax unified\n\t"                                                         \
                     "ldmia %[sums]!, {r4, r5, r6}\n\t"                                            \
                     "mov r8, r4\n\t"                                                              \
                     "mov r9, r5\n\t"                                                              \
                     "mov r10, r6\n\t"                                                             \
                     "ldmia %[sums]!, {r4, r5, r6}\n\t"                                            \
                     "mov r11, r4\n\t"                                                             \
                     "mov r12, r5\n\t"                                                             \
                     "mov lr, r6\n\t"                                                              \
                     "1:\n\t" turn "adds %[weights], #" count "\n\t"                               \
                     "cmp %[weights], %[end]\n\t"                                                  \
                     "beq 2f\n\t"                                                                  \
                     "b 1b\n\t" /* a conditional branch does not reach as far */                   \
                     "2:\n\t"                                                                      \
                     "subs %[sums], #24\n\t"                                                       \
                     "mov r4, r8\n\t"                                                              \
                     "mov r5, r9\n\t"                                                              \
                     "mov r6, r10\n\t"                                                             \
                     "stmia %[sums]!, {r4, r5, r6}\n\t"                                            \
                     "mov r4, r11\n\t"                                                             \
                     "mov r5, r12\n\t"                                                             \
                     "mov r6, lr\n\t"                                                              \
                     "stmia %[sums]!, {r4, r5, r6}\n\t"                                            \
                     : [rows] "+l"(rows), [weights] "+l"(weights), [sums] "+l"(sums), [w] "=&l"(w) \
                     : [end] "l"(end)                                                              \
                     : "r4", "r5", "r6", "r8", "r9", "r10", "r11", "r12", "lr", "cc", "memory")

/* Widened rows, `tile` of them, times `depth` elements of a column. */
HIL_INLINE struct hil_v6m_words hil_v6m_products(const uint32_t *rows, const int8_t *weights,
                                                 int32_t depth, int32_t tile) {
    struct hil_v6m_words words = {{0, 0, 0, 0, 0, 0}};
    uint32_t w;
    if (depth >= 8) {
        const int8_t *const end = weights + (depth & ~7);
        uint32_t *sums = words.s;
        if (tile == HIL_V6M_ROWS) {
            HIL_V6M_ALL(HIL_V6M_EIGHT(HIL_V6M_ELEMENT), "8");
        } else {
            HIL_V6M_ALL(HIL_V6M_EIGHT(HIL_V6M_SLIM), "8");
        }
    }
    if ((depth & 7) != 0) {
        const int8_t *const end = weights + (depth & 7);
        uint32_t *sums = words.s;
        if (tile == HIL_V6M_ROWS) {
            HIL_V6M_ALL(HIL_V6M_ELEMENT("0"), "1");
        } else {
            HIL_V6M_ALL(HIL_V6M_SLIM("0"), "1");
        }
    }
    return words;
}

#undef HIL_V6M_ELEMENT
#undef HIL_V6M_SLIM
#undef HIL_V6M_EIGHT
#undef HIL_V6M_ALL

#else

HIL_INLINE struct hil_v6m_words hil_v6m_products(const uint32_t *rows, const int8_t *weights,
                                                 int32_t depth, int32_t tile) {
    struct hil_v6m_words words = {{0, 0, 0, 0, 0, 0}};
    const int32_t count = hil_v6m_words_of(tile);
    for (; depth > 0; depth--) {
#pragma GCC unroll 6
        for (int32_t i = 0; i < count; i++) {
            words.s[i] += (uint32_t)*weights * rows[i];
        }
        rows += count;
        weights++;
    }
    return words;
}

#endif

/* The same, each sum by itself. */
HIL_INLINE void hil_v6m_sums(const uint32_t *rows, const int8_t *weights, int32_t depth,
                             int32_t tile, int32_t *sums) {
    const struct hil_v6m_words words = hil_v6m_products(rows, weights, depth, tile);
#ifdef __OPTIMIZE__ /* gcc warns of it otherwise */
#pragma GCC unroll 3
#endif
    for (int32_t i = 0; i < tile / 3; i++) {
        const struct hil_v7m_sums three = hil_v7m_sums(words.s[2 * i], words.s[2 * i + 1]);
        sums[3 * i] = three.a;
        sums[3 * i + 1] = three.b;
        sums[3 * i + 2] = three.c;
    }
}

/* Widened rows times all columns; `out` has where the outputs of each row begin. */
HIL_INLINE void hil_v6m_columns_s8(const struct hil_v6m_columns_s8 *p, const uint32_t *rows,
                                   int8_t *const *out) {
    const int8_t *weights = p->weights;
    const int32_t *scales = p->scales;
    for (int32_t column = 0; column < p->count; column++) {
        int32_t sums[HIL_V6M_ROWS];
        hil_v6m_sums(rows, weights, p->part < p->depth ? p->part : p->depth, p->tile, sums);
        for (int32_t done = p->part; done < p->depth; done += p->part) {
            const int32_t left = p->depth - done;
            int32_t more[HIL_V6M_ROWS];
            hil_v6m_sums(rows + hil_v6m_words_of(p->tile) * done, weights + done,
                         left < p->part ? left : p->part, p->tile, more);
            for (int32_t i = 0; i < p->tile; i++) {
                sums[i] += more[i];
            }
        }
        weights += p->depth;
        const struct hil_v6m_scale scale = hil_v6m_scale(scales);
        scales += HIL_V6M_SCALE_WORDS;
#pragma GCC unroll 9
        for (int32_t i = 0; i < p->tile; i++) {
            out[i][column] = hil_v6m_output(&scale, sums[i], p->pieces, p->bits, p->turns,
                                            p->out_min, p->out_max);
        }
    }
}

#endif
