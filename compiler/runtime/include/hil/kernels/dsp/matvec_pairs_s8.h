/* A row or few of int8 times four columns of an int8 weight matrix at a time: fully connected
 * layers, with the requantization by a line of pairs_s8.h.
 *
 * Tile: 1 row x 4 columns x 4 elements of depth, a unit.
 *
 * Registers, at the top of a unit:
 *
 *   r4  s0: A0      r5  s1: 256 * A1 + A0      r11  row: bytes, or widened words
 *   r6  s2: A2      r8  s3: 256 * A3 + A2      r12  stream
 *   r0 r1           weights of columns 0, 1: even elements, odd ones      lr  outputs
 *   r2 r3           the same of columns 2, 3
 *   r9 r10          x0|x2 and x1|x3 of the row                            r7  untouched
 *
 * Data: the stream, packed by `column_stream()` from `paired_weights()`; per four columns, of U
 * units, in bytes:
 *
 *   +0           b0, 256 * b1 + b0, b2, 256 * b3 + b2
 *   +16 + 16u    columns 0, 1: 256 * w1 + w0 of elements 4u | 4u + 2, of 4u + 1 | 4u + 3;
 *                columns 2, 3: the same
 *   +16 + 16U    of each column multiplier, addend and, with signs, lacking
 *
 * Order: a row is read whole to scratch first (`widened`), or once for each four columns, then only
 * for depths of whole units; outputs are written in order.
 *
 * Bounds and
 * Output: those of pairs_s8.h, proven by the same `_proven()` and `_lines()`.
 *
 * Scratch: 8 bytes a unit where widened, otherwise none.
 *
 * Cost: a unit of 16 MACs takes 14 instructions widened and 16 of bytes, four columns 27 more, 37
 * with signs. Measured (`hil tune` on mps2-an386, instructions under QEMU): 640 to 128 (ad) 0.922 a
 * MAC widened, 1.033 of bytes; 128 to 128 0.962, 1.073. Up to three last columns run in C, which
 * costs much of a small layer: 64 to 10 (ic) 2.79 a MAC.
 *
 * Tests: the twin is hil_dsp_matvec_block (tests/c/test_dsp_kernels.py, limits:
 * test_sums_at_their_limits); the assembly: tests/board/test_kernels.py. Layout:
 * tests/c/test_kernel_layouts.py.
 */
#ifndef HIL_KERNELS_DSP_MATVEC_PAIRS_S8_H
#define HIL_KERNELS_DSP_MATVEC_PAIRS_S8_H

#include "hil/kernels/dsp/pairs_s8.h"

/*@kernel
name = "hil_dsp_matvec_pairs_s8"
requires = ["dsp"]
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "8 * units * widened"
order = ["pixels 1", "channels 4 + columns * widened"]
reads = "rows"
code = 700
[cost.counts]
row = "rows"
widened_unit = "rows * units * widened"
four = "rows * ((columns + 3) // 4)"
signed_four = "four * signs"
four_unit = "four * units"
narrow_unit = "four_unit * (1 - widened)"
[cost.on.cortex-m4]
call = 30
row = 10
widened_unit = 8.5
four = 27
signed_four = 10
four_unit = 14.4
narrow_unit = 2
@*/
struct hil_dsp_matvec_pairs_s8 {
    int32_t rows;    /* rows of the input, and of the output */
    int32_t depth;   /* elements of a row */
    int32_t units;   /* of four elements of depth */
    int32_t columns; /* outputs of a row */
    int32_t widened; /* 1: each row is widened to scratch first; 0: four columns at a time, anew,
                        for a depth of whole units */
    int32_t signs;   /* whether negative sums lack something */
    int32_t shift;   /* to the right, of all columns */
    const int32_t *stream; /* the head draws it */
};

#define HIL_DSP_COLUMNS 4

/* Words of the stream for four columns. */
HIL_INLINE int32_t hil_dsp_matvec_words(const struct hil_dsp_matvec_pairs_s8 *p) {
    return HIL_DSP_COLUMNS * (1 + p->units + (p->signs ? 3 : 2));
}

#if HIL_DSP_ASSEMBLY

/* clang-format off */

/* A unit: 14 instructions for 16 products of a widened row, 16 for those of one of bytes. */
#define HIL_DSP_FOURS_LOAD_WIDENED "ldrd %[x], %[w], [%[rows]], #8\n\t"
#define HIL_DSP_FOURS_LOAD_BYTES                                                                   \
    "ldr %[x], [%[rows]], #4\n\t"                                                                  \
    "sxtb16 %[w], %[x], ror #8\n\t"                                                                \
    "sxtb16 %[x], %[x]\n\t"

#define HIL_DSP_FOURS_UNIT_OF(LOAD)                                                                \
    "ldmia %[stream]!, {r0, r1, r2, r3}\n\t"                                                       \
    LOAD                                                                                           \
    "smlad %[s1], %[x], r0, %[s1]\n\t"                                                             \
    "sxtb16 r0, r0\n\t"                                                                            \
    "smlad %[s3], %[x], r2, %[s3]\n\t"                                                             \
    "sxtb16 r2, r2\n\t"                                                                            \
    "smlad %[s0], %[x], r0, %[s0]\n\t"                                                             \
    "smlad %[s2], %[x], r2, %[s2]\n\t"                                                             \
    "smlad %[s1], %[w], r1, %[s1]\n\t"                                                             \
    "sxtb16 r1, r1\n\t"                                                                            \
    "smlad %[s3], %[w], r3, %[s3]\n\t"                                                             \
    "sxtb16 r3, r3\n\t"                                                                            \
    "smlad %[s0], %[w], r1, %[s0]\n\t"                                                             \
    "smlad %[s2], %[w], r3, %[s2]\n\t"

#define HIL_DSP_FOURS_WIDENED HIL_DSP_FOURS_UNIT_OF(HIL_DSP_FOURS_LOAD_WIDENED)
#define HIL_DSP_FOURS_BYTES HIL_DSP_FOURS_UNIT_OF(HIL_DSP_FOURS_LOAD_BYTES)

#define HIL_DSP_FOURS_PLAIN                                                                        \
    "ldmia %[stream]!, {r0, r1, r2, r3}\n\t"                                                       \
    HIL_DSP_SCALED("s0", "r0", "r1") HIL_DSP_SCALED("s1", "r2", "r3")                              \
    "ldmia %[stream]!, {r0, r1, r2, r3}\n\t"                                                       \
    HIL_DSP_SCALED("s2", "r0", "r1") HIL_DSP_SCALED("s3", "r2", "r3")

#define HIL_DSP_FOURS_SIGNED                                                                       \
    "ldmia %[stream]!, {r0, r1, r2}\n\t" HIL_DSP_SCALED_SIGNED("s0")                               \
    "ldmia %[stream]!, {r0, r1, r2}\n\t" HIL_DSP_SCALED_SIGNED("s1")                               \
    "ldmia %[stream]!, {r0, r1, r2}\n\t" HIL_DSP_SCALED_SIGNED("s2")                               \
    "ldmia %[stream]!, {r0, r1, r2}\n\t" HIL_DSP_SCALED_SIGNED("s3")

/* To the right by a constant or, in %[w], by what lies in memory, as in pairs_s8.h. */
#define HIL_DSP_FOURS(MODE, TIMES, UNIT, SCALES, SHIFT)                                            \
    __asm__ volatile(                                                                              \
        "1:\n\t"                                                                                   \
        "ldrd %[s0], %[s1], [%[stream]], #8\n\t"                                                   \
        "ldrd %[s2], %[s3], [%[stream]], #8\n\t"                                                   \
        "ldr %[rows], %[start]\n\t"                                                                \
        MODE(TIMES, HIL_DSP_FOURS_##UNIT, HIL_DSP_FOURS_##UNIT, , "%[middle]", "%[end]")           \
        "sub %[s1], %[s1], %[s0]\n\t"                                                              \
        "sub %[s3], %[s3], %[s2]\n\t"                                                              \
        "lsl %[s0], %[s0], #8\n\t"                                                                 \
        "lsl %[s2], %[s2], #8\n\t"                                                                 \
        HIL_DSP_FOURS_##SCALES                                                                     \
        HIL_DSP_SHIFT_##SHIFT                                                                      \
        HIL_DSP_NARROWED_##SHIFT("s0") HIL_DSP_NARROWED_##SHIFT("s1")                              \
        HIL_DSP_NARROWED_##SHIFT("s2") HIL_DSP_NARROWED_##SHIFT("s3")                              \
        "strb %[s0], [%[out]], #1\n\t"                                                             \
        "strb %[s1], [%[out]], #1\n\t"                                                             \
        "strb %[s2], [%[out]], #1\n\t"                                                             \
        "strb %[s3], [%[out]], #1\n\t"                                                             \
        "ldr r0, %[last]\n\t"                                                                      \
        "cmp %[stream], r0\n\t"                                                                    \
        "bne 1b\n\t"                                                                               \
        : [s0] "=&r"(s0), [s1] "=&r"(s1), [s2] "=&r"(s2), [s3] "=&r"(s3), [x] "=&r"(x),            \
          [w] "=&r"(y), [rows] "=&r"(at), [stream] "+r"(stream), [out] "+r"(to)                   \
        : [start] "m"(row), [middle] "m"(middle), [end] "m"(end), [last] "m"(last),                \
          [shift] "m"(shift), [constant] "i"(constant ? p->shift : 0)                              \
        : "r0", "r1", "r2", "r3", "cc", "memory")

#define HIL_DSP_FOURS_DEPTHS(UNIT, SCALES)                                                         \
    if (!constant) {                                                                               \
        HIL_DSP_FOURS(HIL_DSP_LOOP, HIL_DSP_X1, UNIT, SCALES, VARIABLE);                           \
    } else if (units % 8 == 0) {                                                                   \
        HIL_DSP_FOURS(HIL_DSP_LOOP, HIL_DSP_X8, UNIT, SCALES, CONSTANT);                           \
    } else if (units == 1) {                                                                       \
        HIL_DSP_FOURS(HIL_DSP_STRAIGHT, HIL_DSP_X0, UNIT, SCALES, CONSTANT);                       \
    } else if (units == 2) {                                                                       \
        HIL_DSP_FOURS(HIL_DSP_STRAIGHT, HIL_DSP_X1, UNIT, SCALES, CONSTANT);                       \
    } else if (units == 3) {                                                                       \
        HIL_DSP_FOURS(HIL_DSP_STRAIGHT, HIL_DSP_X2, UNIT, SCALES, CONSTANT);                       \
    } else if (units % 4 == 0) {                                                                   \
        HIL_DSP_FOURS(HIL_DSP_LOOP, HIL_DSP_X4, UNIT, SCALES, CONSTANT);                           \
    } else if (units % 4 == 1) {                                                                   \
        HIL_DSP_FOURS(HIL_DSP_LOOP_REST, HIL_DSP_X1, UNIT, SCALES, CONSTANT);                      \
    } else if (units % 4 == 2) {                                                                   \
        HIL_DSP_FOURS(HIL_DSP_LOOP_REST, HIL_DSP_X2, UNIT, SCALES, CONSTANT);                      \
    } else {                                                                                       \
        HIL_DSP_FOURS(HIL_DSP_LOOP_REST, HIL_DSP_X3, UNIT, SCALES, CONSTANT);                      \
    }

/* clang-format on */

/* The outputs of `blocks` times four columns, one or more, for a row, widened or of bytes. */
HIL_INLINE void hil_dsp_matvec_blocks(const struct hil_dsp_matvec_pairs_s8 *p, const void *row,
                                      int32_t blocks, int8_t *out) {
    const int constant = __builtin_constant_p(p->shift);
    const int32_t units = p->units;
    const int32_t unit_bytes = p->widened ? 8 : 4;
    const uint8_t *const end = (const uint8_t *)row + unit_bytes * units;
    const uint8_t *const middle = (const uint8_t *)row + unit_bytes * (units - units % 4);
    const int32_t *const last = p->stream + hil_dsp_matvec_words(p) * blocks;
    const int32_t shift = p->shift;
    register uint32_t s0 __asm__("r4");
    register uint32_t s1 __asm__("r5");
    register uint32_t s2 __asm__("r6");
    register uint32_t s3 __asm__("r8");
    register uint32_t x __asm__("r9");
    register uint32_t y __asm__("r10");
    register const uint8_t *at __asm__("r11");
    register const int32_t *stream __asm__("r12") = p->stream;
    register int8_t *to __asm__("lr") = out;
    if (p->widened && p->signs) {
        HIL_DSP_FOURS_DEPTHS(WIDENED, SIGNED)
    } else if (p->widened) {
        HIL_DSP_FOURS_DEPTHS(WIDENED, PLAIN)
    } else if (p->signs) {
        HIL_DSP_FOURS_DEPTHS(BYTES, SIGNED)
    } else {
        HIL_DSP_FOURS_DEPTHS(BYTES, PLAIN)
    }
}

#endif

/* The outputs of up to four columns for a row, widened or of bytes. */
HIL_INLINE void hil_dsp_matvec_block(const struct hil_dsp_matvec_pairs_s8 *p, const void *row,
                                     const int32_t *stream, int32_t columns, int8_t *out) {
    uint32_t sums[HIL_DSP_COLUMNS];
    for (int i = 0; i < HIL_DSP_COLUMNS; i++) {
        sums[i] = (uint32_t)*stream++;
    }
    for (int32_t unit = 0; unit < p->units; unit++) {
        uint32_t halves[2];
        if (p->widened) {
            const uint32_t *const words = (const uint32_t *)row;
            halves[0] = words[2 * unit];
            halves[1] = words[2 * unit + 1];
        } else {
            const uint32_t bytes = hil_dsp_load((const int8_t *)row + 4 * unit);
            halves[0] = hil_dsp_even(bytes);
            halves[1] = hil_dsp_odd(bytes);
        }
        for (int i = 0; i < HIL_DSP_COLUMNS; i++) {
            const uint32_t both = (uint32_t)*stream++;
            uint32_t *const pair = sums + i / 2 * 2;
            pair[0] = hil_dsp_dual(halves[i % 2], hil_dsp_even(both), pair[0]);
            pair[1] = hil_dsp_dual(halves[i % 2], both, pair[1]);
        }
    }
    for (int32_t i = 0; i < columns; i++) {
        const int32_t sum = (int32_t)(i % 2 == 0 ? sums[i] << 8 : sums[i] - sums[i - 1]);
        const struct hil_dsp_affine line = {
            .multiplier = stream[0],
            .addend = p->signs && sum < 0 ? stream[1] - stream[2] : stream[1],
        };
        out[i] = hil_dsp_scaled(sum, line, p->shift);
        stream += p->signs ? 3 : 2;
    }
}

HIL_INLINE void hil_dsp_matvec_pairs_s8(const struct hil_dsp_matvec_pairs_s8 *p, const int8_t *in,
                                        int8_t *out, void *scratch) {
    for (int32_t rows = p->rows; rows > 0; rows--) {
        int32_t column = 0;
        const void *const row = p->widened ? scratch : (const void *)in;
        if (p->widened) {
            hil_dsp_widen_row(in, p->depth, (uint32_t *)scratch);
        }
#if HIL_DSP_ASSEMBLY
        if (p->columns >= HIL_DSP_COLUMNS) {
            hil_dsp_matvec_blocks(p, row, p->columns / HIL_DSP_COLUMNS, out);
            column = p->columns / HIL_DSP_COLUMNS * HIL_DSP_COLUMNS;
        }
#endif
        for (; column < p->columns; column += HIL_DSP_COLUMNS) {
            const int32_t left = p->columns - column;
            hil_dsp_matvec_block(p, row,
                                 p->stream + hil_dsp_matvec_words(p) * (column / HIL_DSP_COLUMNS),
                                 left < HIL_DSP_COLUMNS ? left : HIL_DSP_COLUMNS, out + column);
        }
        in += p->depth;
        out += p->columns;
    }
}

#endif
