/* A row or few of int8 times four columns of an int8 weight matrix at a time: fully connected
 * layers, with the requantization by a line of pairs_s8.h.
 *
 * Tile: 1 row x 4 columns x 8 elements of depth, two units; or one unit, 4 elements.
 *
 *                 column 0     column 1      column 2     column 3
 *      packed     r4: A0       r5: 256 * A1 + A0          r6: A2       r7: 256 * A3 + A2
 *      wide       r4: B * A0     r5: B * A1               r6: B * A2     r7: B * A3
 *
 * Registers, at the top of a unit; all fourteen are taken:
 *
 *   r0 r1    x0|x2 and x1|x3 of the row     r8 r9 r10 r11  weights
 *   r2 r3    the same of the next unit      r12  stream
 *   r4 - r7  sums                           lr   row: bytes, or widened words
 *   stack: +0 the row  +4 its last whole four of units  +8 its end  +12 where the stream ends
 *          +16 outputs  +20 lines  +24 shift  +28 the caller's r7, in which a compiler may keep
 *          its frame
 *
 * Data: weights in a stream of `paired_weights()` or `wide_weights()`, which layers that multiply
 * by the same matrix share, and lines by `_vector_stream()`; per four columns, in bytes:
 *
 *   stream, packed  +16u   columns 0, 1: 256 * w1 + w0 of elements 4u | 4u + 2, of 4u + 1 | 4u + 3;
 *                          columns 2, 3: the same
 *   stream, wide    +32u   B * w of 4u | 4u + 2 of the four columns; of 4u + 1 | 4u + 3
 *   lines           +0     packed: b0, 256 * b1 + b0, b2, 256 * b3 + b2; wide: B * b of the four
 *                          columns, B as in pairs_s8.h
 *                   +16    scales: of each column multiplier, addend and, with signs, correction;
 *                          behind the last four columns, 16 bytes that are read for nothing
 *
 * Order: a row is read whole to scratch first (`widened`), or once for each four columns, then only
 * for depths of whole units; outputs are written in order.
 *
 * Bounds and
 * Output: those of pairs_s8.h, proven by the same `_proven()` and `_lines()`.
 *
 * Scratch: 8 bytes a unit where widened, otherwise none.
 *
 * Cost: two units of 32 MACs take 27 instructions packed and 21 wide, 5 more of bytes; four columns
 * 20 more, 24 packed, 9 more with signs. Measured (`hil tune` on mps2-an386, instructions under
 * QEMU), a MAC: 640 to 128 (ad) 0.874 packed and widened, 0.685 wide and widened, 1.021 packed of
 * bytes; 128 to 128 0.912, 0.717, 1.059. Columns missing from the last four cost what they would.
 *
 * Tests: the twin is hil_dsp_matvec_block (tests/c/test_dsp_kernels.py, limits:
 * test_sums_at_their_limits); the assembly: tests/board/test_kernels.py. Layout:
 * tests/c/test_kernel_layouts.py.
 */
#ifndef HIL_KERNELS_DSP_MATVEC_S8_COLUMN_PAIRS_H
#define HIL_KERNELS_DSP_MATVEC_S8_COLUMN_PAIRS_H

#include "hil/kernels/dsp/pairs_s8.h"

/*@kernel
name = "hil_dsp_matvec_s8_column_pairs"
requires = ["dsp"]
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "8 * units * widened"
order = ["pixels 1", "channels 4 + columns * widened"]
reads = "rows"
code = 700
[cost]
row = "rows"
widened_unit = "rows * units * widened"
four = "rows * ((columns + 3) // 4)"
signed_four = "four * signs"
packed_four = "four * (1 - wide)"
four_unit = "four * units"
packed_unit = "four_unit * (1 - wide)"
bytes_unit = "four_unit * (1 - widened)"
clamped = "rows * columns * (high - low != 255)"
@*/
struct hil_dsp_matvec_s8_column_pairs {
    int32_t rows;    /* rows of the input, and of the output */
    int32_t depth;   /* elements of a row */
    int32_t units;   /* of four elements of depth */
    int32_t columns; /* outputs of a row */
    int32_t widened; /* 1: each row is widened to scratch first; 0: four columns at a time, anew,
                        for a depth of whole units */
    int32_t wide;    /* whether weights are wide */
    int32_t signs;   /* whether negative sums lack something */
    int32_t shift;   /* to the right, of all columns */
    const int32_t *stream; /* weights, as the head draws them */
    const int32_t *lines;  /* starts of sums, and scales */
    HIL_DSP_RANGE_FIELDS;
};

#define HIL_DSP_COLUMNS 4

/* Words of the stream for four columns, and of the lines. */
HIL_INLINE int32_t hil_dsp_matvec_words(const struct hil_dsp_matvec_s8_column_pairs *p) {
    return HIL_DSP_COLUMNS * p->units * (p->wide ? 2 : 1);
}

HIL_INLINE int32_t hil_dsp_matvec_line_words(const struct hil_dsp_matvec_s8_column_pairs *p) {
    return HIL_DSP_COLUMNS * (1 + (p->signs ? 3 : 2));
}

#if HIL_DSP_ASSEMBLY

/* clang-format off */

/* Words of a row for one unit and for two, widened before or here. */
#define HIL_DSP_FOURS_ROW_WIDENED_1 "ldrd r0, r1, [lr], #8\n\t"
#define HIL_DSP_FOURS_ROW_WIDENED_2 "ldmia lr!, {r0, r1, r2, r3}\n\t"
#define HIL_DSP_FOURS_ROW_BYTES_1                                                                  \
    "ldr r0, [lr], #4\n\t"                                                                         \
    "sxtb16 r1, r0, ror #8\n\t"                                                                    \
    "sxtb16 r0, r0\n\t"
#define HIL_DSP_FOURS_ROW_BYTES_2                                                                  \
    "ldr r0, [lr], #4\n\t"                                                                         \
    "ldr r2, [lr], #4\n\t"                                                                         \
    "sxtb16 r1, r0, ror #8\n\t"                                                                    \
    "sxtb16 r0, r0\n\t"                                                                            \
    "sxtb16 r3, r2, ror #8\n\t"                                                                    \
    "sxtb16 r2, r2\n\t"

/* Products of a unit: 13 instructions with packed weights, 10 with wide ones. */
#define HIL_DSP_FOURS_SHARED(first, both, x, weights)                                              \
    "smlad " both ", " x ", " weights ", " both "\n\t"                                             \
    "sxtb16 " weights ", " weights "\n\t"                                                          \
    "smlad " first ", " x ", " weights ", " first "\n\t"
#define HIL_DSP_FOURS_PRODUCTS_PACKED(even, odd)                                                   \
    "ldmia r12!, {r8, r9, r10, r11}\n\t"                                                           \
    HIL_DSP_FOURS_SHARED("r4", "r5", even, "r8")                                                   \
    HIL_DSP_FOURS_SHARED("r4", "r5", odd, "r9")                                                    \
    HIL_DSP_FOURS_SHARED("r6", "r7", even, "r10")                                                  \
    HIL_DSP_FOURS_SHARED("r6", "r7", odd, "r11")
#define HIL_DSP_FOURS_EACH(x)                                                                      \
    "ldmia r12!, {r8, r9, r10, r11}\n\t"                                                           \
    "smlad r4, " x ", r8, r4\n\t"                                                                  \
    "smlad r5, " x ", r9, r5\n\t"                                                                  \
    "smlad r6, " x ", r10, r6\n\t"                                                                 \
    "smlad r7, " x ", r11, r7\n\t"
#define HIL_DSP_FOURS_PRODUCTS_WIDE(even, odd) HIL_DSP_FOURS_EACH(even) HIL_DSP_FOURS_EACH(odd)

#define HIL_DSP_FOURS_ONE(ROW, WEIGHTS)                                                            \
    HIL_DSP_FOURS_ROW_##ROW##_1 HIL_DSP_FOURS_PRODUCTS_##WEIGHTS("r0", "r1")
#define HIL_DSP_FOURS_TWO(ROW, WEIGHTS)                                                            \
    HIL_DSP_FOURS_ROW_##ROW##_2                                                                    \
    HIL_DSP_FOURS_PRODUCTS_##WEIGHTS("r0", "r1") HIL_DSP_FOURS_PRODUCTS_##WEIGHTS("r2", "r3")

/* Sums as 256, or B, times what they are. */
#define HIL_DSP_FOURS_SPLIT_PACKED                                                                 \
    "sub r5, r5, r4\n\t"                                                                           \
    "sub r7, r7, r6\n\t"                                                                           \
    "lsl r4, r4, #8\n\t"                                                                           \
    "lsl r6, r6, #8\n\t"
#define HIL_DSP_FOURS_SPLIT_WIDE

#define HIL_DSP_FOURS_PLAIN                                                                        \
    "ldmia lr!, {r0, r1, r2, r3, r8, r9, r10, r11}\n\t"                                           \
    "smmla r4, r4, r0, r1\n\t"                                                                     \
    "smmla r5, r5, r2, r3\n\t"                                                                     \
    "smmla r6, r6, r8, r9\n\t"                                                                     \
    "smmla r7, r7, r10, r11\n\t"

#define HIL_DSP_FOURS_SCALED_SIGNED(sum, multiplier, addend, correction)                           \
    "and " correction ", " correction ", " sum ", asr #31\n\t"                                     \
    "sub " addend ", " addend ", " correction "\n\t"                                               \
    "smmla " sum ", " sum ", " multiplier ", " addend "\n\t"
#define HIL_DSP_FOURS_SIGNED                                                                       \
    "ldmia lr!, {r0, r1, r2, r3, r8, r9}\n\t"                                                      \
    HIL_DSP_FOURS_SCALED_SIGNED("r4", "r0", "r1", "r2")                                            \
    HIL_DSP_FOURS_SCALED_SIGNED("r5", "r3", "r8", "r9")                                            \
    "ldmia lr!, {r0, r1, r2, r3, r8, r9}\n\t"                                                      \
    HIL_DSP_FOURS_SCALED_SIGNED("r6", "r0", "r1", "r2")                                            \
    HIL_DSP_FOURS_SCALED_SIGNED("r7", "r3", "r8", "r9")

/* To the right by a constant, or by what lies on the stack. */
#define HIL_DSP_FOURS_BY_CONSTANT
#define HIL_DSP_FOURS_BY_VARIABLE "ldr r2, [sp, #24]\n\t"
#define HIL_DSP_FOURS_NARROWED_CONSTANT(sum) "ssat " sum ", #8, " sum ", asr #%c[constant]\n\t"
#define HIL_DSP_FOURS_NARROWED_VARIABLE(sum)                                                       \
    "asr " sum ", " sum ", r2\n\t"                                                                 \
    "ssat " sum ", #8, " sum "\n\t"

/* Units until the row reaches an end, which is on the stack; a rest of up to three. */
#define HIL_DSP_FOURS_UNTIL(end, units)                                                            \
    "2:\n\t" units                                                                                 \
    "ldr r0, " end "\n\t"                                                                          \
    "cmp lr, r0\n\t"                                                                               \
    "bne 2b\n\t"
/* Up to sixteen units, one after the other. */
#define HIL_DSP_FOURS_FROM(count, units) ".if %c[units] >= " #count "\n\t" units ".endif\n\t"
#define HIL_DSP_FOURS_ONCE(ONE, TWO)                                                               \
    HIL_DSP_FOURS_FROM(2, TWO) HIL_DSP_FOURS_FROM(4, TWO)                                          \
    HIL_DSP_FOURS_FROM(6, TWO) HIL_DSP_FOURS_FROM(8, TWO)                                          \
    HIL_DSP_FOURS_FROM(10, TWO) HIL_DSP_FOURS_FROM(12, TWO)                                        \
    HIL_DSP_FOURS_FROM(14, TWO) HIL_DSP_FOURS_FROM(16, TWO)                                        \
    ".if %c[units] & 1\n\t" ONE ".endif\n\t"
#define HIL_DSP_FOURS_ALL(units) HIL_DSP_FOURS_UNTIL("[sp, #8]", units)
#define HIL_DSP_FOURS_MOST(units) HIL_DSP_FOURS_UNTIL("[sp, #4]", units)

/* Four columns after the other: 20 instructions besides the units, 24 with packed weights. A
 * compiler may keep its frame in r7, so that one is saved here. */
#define HIL_DSP_FOURS(UNITS, WEIGHTS, SCALES, SHIFT)                                               \
    __asm__ volatile(                                                                              \
        "push {r0, r1, r2, r3, r4, r5, r6, r7}\n\t"                                                \
        "ldr lr, [sp, #20]\n\t"                                                                    \
        "ldmia lr!, {r4, r5, r6, r7}\n\t"                                                          \
        "str lr, [sp, #20]\n\t"                                                                    \
        "1:\n\t"                                                                                   \
        "ldr lr, [sp]\n\t"                                                                         \
        UNITS                                                                                      \
        HIL_DSP_FOURS_SPLIT_##WEIGHTS                                                              \
        "ldr lr, [sp, #20]\n\t"                                                                    \
        HIL_DSP_FOURS_##SCALES                                                                     \
        "ldrd r0, r1, [sp, #12]\n\t"                                                               \
        HIL_DSP_FOURS_BY_##SHIFT                                                                   \
        HIL_DSP_FOURS_NARROWED_##SHIFT("r4") HIL_DSP_FOURS_NARROWED_##SHIFT("r5")                  \
        HIL_DSP_FOURS_NARROWED_##SHIFT("r6") HIL_DSP_FOURS_NARROWED_##SHIFT("r7")                  \
        "strb r4, [r1], #1\n\t"                                                                    \
        "strb r5, [r1], #1\n\t"                                                                    \
        "strb r6, [r1], #1\n\t"                                                                    \
        "strb r7, [r1], #1\n\t"                                                                    \
        "ldmia lr!, {r4, r5, r6, r7}\n\t"                                                          \
        "strd r1, lr, [sp, #16]\n\t"                                                               \
        "cmp r12, r0\n\t"                                                                          \
        "bne 1b\n\t"                                                                               \
        "ldr r7, [sp, #28]\n\t"                                                                    \
        "add sp, sp, #32\n\t"                                                                      \
        : "+r"(at), "+r"(middle), "+r"(end), "+r"(last), "+r"(to), "+r"(lines), "+r"(shift),       \
          "+r"(stream)                                                                             \
        : [constant] "i"(constant ? p->shift : 0), [units] "i"(constant ? p->units : 0)                                                \
        : "r8", "r9", "r10", "r11", "lr", "cc", "memory")

#define HIL_DSP_FOURS_DEPTHS_OF(ONE, TWO, WEIGHTS, SCALES)                                         \
    if (!constant) {                                                                               \
        HIL_DSP_FOURS(HIL_DSP_FOURS_ALL(ONE), WEIGHTS, SCALES, VARIABLE);                          \
    } else if (units <= 16) {                                                                      \
        HIL_DSP_FOURS(HIL_DSP_FOURS_ONCE(ONE, TWO), WEIGHTS, SCALES, CONSTANT);                    \
    } else if (units % 16 == 0) {                                                                  \
        HIL_DSP_FOURS(HIL_DSP_FOURS_ALL(HIL_DSP_X8(TWO)), WEIGHTS, SCALES, CONSTANT);              \
    } else if (units % 8 == 0) {                                                                   \
        HIL_DSP_FOURS(HIL_DSP_FOURS_ALL(HIL_DSP_X4(TWO)), WEIGHTS, SCALES, CONSTANT);              \
    } else if (units % 4 == 0) {                                                                   \
        HIL_DSP_FOURS(HIL_DSP_FOURS_ALL(TWO TWO), WEIGHTS, SCALES, CONSTANT);                      \
    } else if (units % 4 == 1) {                                                                   \
        HIL_DSP_FOURS(HIL_DSP_FOURS_MOST(TWO TWO) ONE, WEIGHTS, SCALES, CONSTANT);                 \
    } else if (units % 4 == 2) {                                                                   \
        HIL_DSP_FOURS(HIL_DSP_FOURS_MOST(TWO TWO) TWO, WEIGHTS, SCALES, CONSTANT);                 \
    } else {                                                                                       \
        HIL_DSP_FOURS(HIL_DSP_FOURS_MOST(TWO TWO) TWO ONE, WEIGHTS, SCALES, CONSTANT);             \
    }

#define HIL_DSP_FOURS_DEPTHS(ROW, WEIGHTS)                                                         \
    if (p->signs) {                                                                                \
        HIL_DSP_FOURS_DEPTHS_OF(HIL_DSP_FOURS_ONE(ROW, WEIGHTS), HIL_DSP_FOURS_TWO(ROW, WEIGHTS),  \
                                WEIGHTS, SIGNED)                                                   \
    } else {                                                                                       \
        HIL_DSP_FOURS_DEPTHS_OF(HIL_DSP_FOURS_ONE(ROW, WEIGHTS), HIL_DSP_FOURS_TWO(ROW, WEIGHTS),  \
                                WEIGHTS, PLAIN)                                                    \
    }

/* clang-format on */

/* The outputs of `blocks` times four columns, one or more, for a row, widened or of bytes. */
HIL_INLINE void hil_dsp_matvec_blocks(const struct hil_dsp_matvec_s8_column_pairs *p,
                                      const void *row, const int32_t *first,
                                      const int32_t *first_line, int32_t blocks, int8_t *out) {
    const int constant = __builtin_constant_p(p->shift) && __builtin_constant_p(p->units);
    const int32_t units = p->units;
    const int32_t unit_bytes = p->widened ? 8 : 4;
    const uint8_t *const start = (const uint8_t *)row;
    /* In the order in which they lie on the stack. */
    register const uint8_t *at __asm__("r0") = start;
    register const uint8_t *middle __asm__("r1") = start + unit_bytes * (units - units % 4);
    register const uint8_t *end __asm__("r2") = start + unit_bytes * units;
    register const int32_t *last __asm__("r3") = first + hil_dsp_matvec_words(p) * blocks;
    register int8_t *to __asm__("r4") = out;
    register const int32_t *lines __asm__("r5") = first_line;
    register int32_t shift __asm__("r6") = p->shift;
    register const int32_t *stream __asm__("r12") = first;
    if (p->widened && p->wide) {
        HIL_DSP_FOURS_DEPTHS(WIDENED, WIDE)
    } else if (p->widened) {
        HIL_DSP_FOURS_DEPTHS(WIDENED, PACKED)
    } else if (p->wide) {
        HIL_DSP_FOURS_DEPTHS(BYTES, WIDE)
    } else {
        HIL_DSP_FOURS_DEPTHS(BYTES, PACKED)
    }
}

#else

/* The outputs of up to four columns for a row, widened or of bytes. */
HIL_INLINE void hil_dsp_matvec_block(const struct hil_dsp_matvec_s8_column_pairs *p,
                                     const void *row, const int32_t *stream, const int32_t *lines,
                                     int32_t columns, int8_t *out) {
    uint32_t sums[HIL_DSP_COLUMNS];
    for (int i = 0; i < HIL_DSP_COLUMNS; i++) {
        sums[i] = (uint32_t)*lines++;
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
        for (int i = 0; p->wide && i < 2 * HIL_DSP_COLUMNS; i++) {
            uint32_t *const sum = sums + i % HIL_DSP_COLUMNS;
            *sum = hil_dsp_dual(halves[i / HIL_DSP_COLUMNS], (uint32_t)*stream++, *sum);
        }
        for (int i = 0; !p->wide && i < HIL_DSP_COLUMNS; i++) {
            const uint32_t both = (uint32_t)*stream++;
            uint32_t *const pair = sums + i / 2 * 2;
            pair[0] = hil_dsp_dual(halves[i % 2], hil_dsp_even(both), pair[0]);
            pair[1] = hil_dsp_dual(halves[i % 2], both, pair[1]);
        }
    }
    for (int i = 0; !p->wide && i < HIL_DSP_COLUMNS; i += 2) {
        sums[i + 1] -= sums[i];
        sums[i] <<= 8;
    }
    for (int32_t i = 0; i < columns; i++) {
        const int32_t sum = (int32_t)sums[i];
        const struct hil_dsp_affine line = {
            .multiplier = lines[0],
            .addend = p->signs && sum < 0 ? lines[1] - lines[2] : lines[1],
        };
        out[i] = hil_dsp_scaled(sum, line, p->shift);
        lines += p->signs ? 3 : 2;
    }
}

#endif

/* The outputs of all columns for a row, widened or of bytes. */
HIL_INLINE void hil_dsp_matvec_row(const struct hil_dsp_matvec_s8_column_pairs *p, const void *row,
                                   int8_t *out) {
    const int32_t *stream = p->stream;
    const int32_t *lines = p->lines;
#if HIL_DSP_ASSEMBLY
    for (int32_t left = p->columns; left > 0;) {
        /* Of the last four columns not all may have outputs. */
        int8_t last[HIL_DSP_COLUMNS];
        const int32_t blocks = left < HIL_DSP_COLUMNS ? 1 : left / HIL_DSP_COLUMNS;
        hil_dsp_matvec_blocks(p, row, stream, lines, blocks, left < HIL_DSP_COLUMNS ? last : out);
        if (left < HIL_DSP_COLUMNS) {
            memcpy(out, last, (size_t)left);
        }
        stream += hil_dsp_matvec_words(p) * blocks;
        lines += hil_dsp_matvec_line_words(p) * blocks;
        out += HIL_DSP_COLUMNS * blocks;
        left -= HIL_DSP_COLUMNS * blocks;
    }
#else
    for (int32_t left = p->columns; left > 0; left -= HIL_DSP_COLUMNS) {
        const int32_t count = left < HIL_DSP_COLUMNS ? left : HIL_DSP_COLUMNS;
        hil_dsp_matvec_block(p, row, stream, lines, count, out);
        stream += hil_dsp_matvec_words(p);
        lines += hil_dsp_matvec_line_words(p);
        out += count;
    }
#endif
}

HIL_INLINE void hil_dsp_matvec_s8_column_pairs(const struct hil_dsp_matvec_s8_column_pairs *p,
                                               const int8_t *in, int8_t *out, void *scratch) {
    for (int32_t rows = p->rows; rows > 0; rows--) {
        if (p->widened) {
            hil_dsp_widen_row(in, p->depth, (uint32_t *)scratch);
        }
        hil_dsp_matvec_row(p, p->widened ? scratch : (const void *)in, out);
        hil_dsp_clamp_s8(out, p->columns, p->low, p->high);
        in += p->depth;
        out += p->columns;
    }
}

#endif
