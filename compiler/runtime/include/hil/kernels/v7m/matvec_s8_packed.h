/* A row of int8 times six columns at a time of an int8 weight matrix that is packed in flash, on
 * cores that multiply 32 bits: fully connected layers.
 *
 * Tile: 1 row x 6 columns x 4 elements of depth, 16 multiplications for 24 products.
 *
 *               columns 0 1 2    3 4 5
 *     the row   s0 s1            s2 s3
 *
 * Registers: of gcc's choice s0 to s3 (two words of sums for each three columns) and the places in
 * row and weights; r4 r5 r6 r8 the values of four elements; r9 to r12 the weights of one. No
 * register is left for where the loop ends, so it is read from memory.
 *
 * Data: packed by `_packed()`: the row in scratch, int32 [depth]; weights uint32 [blocks of 6
 * columns][parts][1 + depth of the part][4], the words of columns 0 1 2, then those of 3 4 5, each
 * two as packed_s8.h draws them; scales int32 [column][4].
 *
 * Order: rows one after the other, each read whole; outputs are written six by six.
 *
 * Bounds: as in packed_s8.h.
 *
 * Output: as in columns_s8.h.
 *
 * Scratch: 4 bytes an element of depth.
 *
 * Cost: four elements of 24 MACs take 21 instructions. Measured (`hil bench` on mps2-an385,
 * instructions under QEMU): 640 to 128 (ad) 0.99 a MAC, 128 to 128 1.02; hil_v7m_matvec_s8 1.89,
 * 1.98. The weights take 8 bytes for three: see packed_s8.h.
 *
 * Tests: as of packed_s8.h.
 */
#ifndef HIL_KERNELS_V7M_MATVEC_S8_PACKED_H
#define HIL_KERNELS_V7M_MATVEC_S8_PACKED_H

#include "hil/kernels/v7m/packed_s8.h"

/*@kernel
name = "hil_v7m_matvec_s8_packed"
requires = ["mul32", "thumb2"]
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "4 * depth"
order = ["pixels 1"]
reads = "rows"
code = 800
[cost]
row = "rows"
widened = "rows * depth"
six = "rows * ((columns + 5) // 6)"
part_end = "six * ((depth - 1) // part)"
tap = "six * depth"
slow = "six * (1 - (even_shift > 0) * (part >= depth) * (out_min + 128 == 0) * (out_max == 127))"
@*/
struct hil_v7m_matvec_s8_packed {
    int32_t rows;    /* rows of the input, and of the output */
    int32_t depth;   /* elements of a row */
    int32_t columns; /* outputs of a row */
    HIL_V7M_PACKED_FIELDS;
};

#if HIL_V7M_ASSEMBLY

/* Four elements of depth, 24 products: 21 instructions. */
#define HIL_V7M_WEIGHTS(x)                                                                         \
    "ldmia %[weights]!, {r9, r10, r11, r12}\n\t"                                                   \
    "mla %[s0], " x ", r9, %[s0]\n\t"                                                              \
    "mla %[s1], " x ", r10, %[s1]\n\t"                                                             \
    "mla %[s2], " x ", r11, %[s2]\n\t"                                                             \
    "mla %[s3], " x ", r12, %[s3]\n\t"
#define HIL_V7M_FOUR                                                                               \
    "ldmia %[row]!, {r4, r5, r6, r8}\n\t" HIL_V7M_WEIGHTS("r4") HIL_V7M_WEIGHTS("r5")              \
        HIL_V7M_WEIGHTS("r6") HIL_V7M_WEIGHTS("r8")
#define HIL_V7M_ONE "ldr r4, [%[row]], #4\n\t" HIL_V7M_WEIGHTS("r4")
#define HIL_V7M_BEGIN                                                                              \
    "ldrd %[s0], %[s1], [%[weights]], #8\n\t"                                                      \
    "ldrd %[s2], %[s3], [%[weights]], #8\n\t"
#define HIL_V7M_ELEMENTS(elements)                                                                 \
    __asm__ volatile(elements                                                                      \
                     : [s0] "+r"(s0), [s1] "+r"(s1), [s2] "+r"(s2), [s3] "+r"(s3),                 \
                       [row] "+r"(row), [weights] "+r"(weights)                                    \
                     : [end] "m"(*end)                                                             \
                     : "r4", "r5", "r6", "r8", "r9", "r10", "r11", "r12", "cc", "memory")

/* The products of `depth` elements, of which the loop over whole turns ends at `*end`, and where
 * their weights end. */
HIL_INLINE struct hil_v7m_packed_words hil_v7m_matvec_packed_products(const int32_t *row,
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
        HIL_V7M_ELEMENTS("1:\n\t" HIL_V7M_FOUR HIL_V7M_FOUR HIL_V7M_FOUR HIL_V7M_FOUR
                         "ldr r4, %[end]\n\t"
                         "cmp %[row], r4\n\t"
                         "bne 1b\n\t");
    }
    if (depth & 8) {
        HIL_V7M_ELEMENTS(HIL_V7M_FOUR HIL_V7M_FOUR);
    }
    if (depth & 4) {
        HIL_V7M_ELEMENTS(HIL_V7M_FOUR);
    }
    if (depth & 2) {
        HIL_V7M_ELEMENTS(HIL_V7M_ONE HIL_V7M_ONE);
    }
    if (depth & 1) {
        HIL_V7M_ELEMENTS(HIL_V7M_ONE);
    }
    *packed = weights;
    return (struct hil_v7m_packed_words){{s0, s1, s2, s3}};
}

#undef HIL_V7M_BEGIN
#undef HIL_V7M_WEIGHTS
#undef HIL_V7M_ONE
#undef HIL_V7M_FOUR
#undef HIL_V7M_ELEMENTS

/* An output: 4 instructions. */
#define HIL_V7M_OUTPUT(sum)                                                                        \
    "ldmia %[scales]!, {r8, r9, r10, r11}\n\t"                                                     \
    "smlal r8, r9, " sum ", r10\n\t"                                                               \
    "ssat r9, #8, r9, asr %[shift]\n\t"                                                            \
    "strb r9, [%[out]], #1\n\t"

/* The outputs of six columns, if HIL_V7M_PACKED_FAST. */
HIL_INLINE int8_t *hil_v7m_matvec_packed_outputs(const struct hil_v7m_matvec_s8_packed *p,
                                                 const int32_t **scales,
                                                 struct hil_v7m_packed_words words, int8_t *out) {
    __asm__ volatile(HIL_V7M_PACKED_SUMS("r4", "%[s0]", "%[s1]")
                         HIL_V7M_PACKED_SUMS("r5", "%[s2]", "%[s3]") HIL_V7M_OUTPUT("r4")
                             HIL_V7M_OUTPUT("%[s1]") HIL_V7M_OUTPUT("%[s0]") HIL_V7M_OUTPUT("r5")
                                 HIL_V7M_OUTPUT("%[s3]") HIL_V7M_OUTPUT("%[s2]")
                     : [s0] "+r"(words.s[0]), [s1] "+r"(words.s[1]), [s2] "+r"(words.s[2]),
                       [s3] "+r"(words.s[3]), [scales] "+r"(*scales), [out] "+r"(out)
                     : [shift] "i"(p->even_shift)
                     : "r4", "r5", "r8", "r9", "r10", "r11", "memory");
    return out;
}

#undef HIL_V7M_OUTPUT

#else

HIL_INLINE struct hil_v7m_packed_words hil_v7m_matvec_packed_products(const int32_t *row,
                                                                      const int32_t *const *end,
                                                                      const uint32_t **packed,
                                                                      int32_t depth) {
    (void)end;
    /* Each sum by its name: compilers keep an array in memory. */
    const uint32_t *weights = *packed;
    uint32_t s0 = weights[0];
    uint32_t s1 = weights[1];
    uint32_t s2 = weights[2];
    uint32_t s3 = weights[3];
#pragma GCC unroll 4
    for (const int32_t *const last = row + depth; row != last; row++) {
        weights += 4;
        s0 += (uint32_t)*row * weights[0];
        s1 += (uint32_t)*row * weights[1];
        s2 += (uint32_t)*row * weights[2];
        s3 += (uint32_t)*row * weights[3];
    }
    *packed = weights + 4;
    return (struct hil_v7m_packed_words){{s0, s1, s2, s3}};
}

#endif

/* A widened row times all columns. */
HIL_INLINE void hil_v7m_matvec_packed_row(const struct hil_v7m_matvec_s8_packed *p,
                                          const int32_t *row, int8_t *out) {
    const uint32_t *weights = p->weights;
    const int32_t *scales = p->scales;
    const int32_t *const end = row + (p->part - p->part % 16);
    const int8_t *const whole = out + p->columns / 6 * 6;
    const int32_t rest = p->columns % 6;
    while (rest != 0 || out != whole) {
        struct hil_v7m_packed_words words =
            hil_v7m_matvec_packed_products(row, &end, &weights, p->part);
        const int32_t columns = rest == 0 || out != whole ? 6 : rest;
#if HIL_V7M_ASSEMBLY
        if (HIL_V7M_PACKED_FAST(p) && columns == 6) {
            out = hil_v7m_matvec_packed_outputs(p, &scales, words, out);
            continue;
        }
#endif
        int32_t sums[6] = {0};
        hil_v7m_packed_sums(words.s[0], words.s[1], sums);
        hil_v7m_packed_sums(words.s[2], words.s[3], sums + 3);
        for (int32_t done = p->part; done < p->depth; done += p->part) {
            const int32_t left = p->depth - done;
            const int32_t depth = left < p->part ? left : p->part;
            const int32_t *const part_end = row + done + (depth - depth % 16);
            words = hil_v7m_matvec_packed_products(row + done, &part_end, &weights, depth);
            hil_v7m_packed_sums(words.s[0], words.s[1], sums);
            hil_v7m_packed_sums(words.s[2], words.s[3], sums + 3);
        }
#pragma GCC unroll 6
        for (int32_t i = 0; i < 6; i++) {
            if (i < columns) {
                const struct hil_v7m_scale scale = hil_v7m_scale(scales);
                *out++ = hil_v7m_output_by(p->even_shift, &scale, sums[i], p->out_zero_point,
                                           p->out_min, p->out_max);
                scales += HIL_V7M_SCALE_WORDS;
            }
        }
        if (columns < 6) {
            return;
        }
    }
}

HIL_INLINE void hil_v7m_matvec_s8_packed(const struct hil_v7m_matvec_s8_packed *p, const int8_t *in,
                                         int8_t *out, void *scratch) {
    int32_t *const row = (int32_t *)scratch;
    for (int32_t rows = p->rows; rows > 0; rows--) {
#pragma GCC unroll 8
        for (int32_t i = 0; i < p->depth; i++) {
            row[i] = in[i];
        }
        hil_v7m_matvec_packed_row(p, row, out);
        in += p->depth;
        out += p->columns;
    }
}

#endif
