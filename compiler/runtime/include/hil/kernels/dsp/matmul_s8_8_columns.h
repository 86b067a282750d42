/* Rows of eight int8 values times int8 weights: 1x1 convolutions of eight channels. The weights of
 * a column stay in registers for many rows, with the requantization by a line of pairs_s8.h.
 *
 * Tile: 1 row x 1 column x 8 elements of depth, eight rows in a turn of the loop.
 *
 * Registers, at the top of a row:
 *
 *   r0 r1 r2 r3   x0|x2, x1|x3, x4|x6, x5|x7 of the row; r0 then is the sum
 *   r4 r5 r6 r8   the same of the column: 256 * w       r9   256 * bias + fraction
 *   r10 r11       multiplier, addend                    r12  output   lr  rows   r7  untouched
 *
 * Data: rows are widened to scratch by hil_dsp_widen_row, 16 bytes each. The stream, packed by
 * `_eight()`; per column, in bytes:
 *
 *   +0 256 * w of elements 0 | 2, 1 | 3, 4 | 6, 5 | 7   +16 256 * bias + 0 to 255
 *   +20 multiplier, addend
 *
 * Order: of `group` rows, all are read to scratch, then outputs written column by column.
 *
 * Bounds: those of wide weights in pairs_s8.h. A strb goes on by up to 255 bytes, which columns may
 * not exceed: `_MOST_COLUMNS`.
 *
 * Output: that of pairs_s8.h, proven by the same `_proven()` and `_lines()`; one shift, a constant,
 * serves all columns, and one addend both signs.
 *
 * Scratch: 16 bytes a row of a group.
 *
 * Cost: a row takes 8 instructions for 8 MACs and their output. Measured (`hil tune` on mps2-an386,
 * instructions under QEMU): 48x48x8 to 16 (vww) 1.14 a MAC.
 *
 * Tests: the twin is hil_dsp_eight_output (tests/c/test_dsp_kernels.py, limits:
 * test_sums_at_their_limits); the assembly: tests/board/test_kernels.py. Layout:
 * tests/c/test_kernel_layouts.py.
 */
#ifndef HIL_KERNELS_DSP_MATMUL_S8_8_COLUMNS_H
#define HIL_KERNELS_DSP_MATMUL_S8_8_COLUMNS_H

#include "hil/kernels/dsp/clamp_s8.h"
#include "hil/kernels/dsp/widen.h"

/*@kernel
name = "hil_dsp_matmul_s8_8_columns"
requires = ["dsp"]
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "16 * group"
order = ["pixels group"]
reads = "rows"
code = 620
band_code = 580
[cost]
row = "rows"
group_columns = "columns * ((rows + group - 1) // group)"
output = "rows * columns"
single = "columns * (rows // group * (group % 8) + rows % group % 8)"
clamped = "output * (high - low != 255)"
@*/
struct hil_dsp_matmul_s8_8_columns {
    int32_t rows;          /* rows of the input, and of the output */
    int32_t columns;       /* outputs of a row, up to 255 */
    int32_t group;         /* rows at a time */
    int32_t shift;         /* to the right, of all columns */
    const int32_t *stream; /* the head draws it */
    HIL_DSP_RANGE_FIELDS;
};

#define HIL_DSP_EIGHT 8
/* Words of the stream for a column. */
#define HIL_DSP_EIGHT_WORDS 7

#if HIL_DSP_ASSEMBLY

/* clang-format off */

#define HIL_DSP_EIGHT_ROW                                                                          \
    "ldmia lr!, {r0, r1, r2, r3}\n\t"                                                              \
    "smlad r0, r0, r4, r9\n\t"                                                                     \
    "smlad r0, r1, r5, r0\n\t"                                                                     \
    "smlad r0, r2, r6, r0\n\t"                                                                     \
    "smlad r0, r3, r8, r0\n\t"                                                                     \
    "smmla r0, r0, r10, r11\n\t"                                                                   \
    "ssat r0, #8, r0, asr #%c[shift]\n\t"                                                          \
    "strb r0, [r12], #%c[columns]\n\t"
#define HIL_DSP_EIGHT_FOUR HIL_DSP_EIGHT_ROW HIL_DSP_EIGHT_ROW HIL_DSP_EIGHT_ROW HIL_DSP_EIGHT_ROW
#define HIL_DSP_EIGHT_UNTIL(label, ROWS, end)                                                      \
    "ldr r0, " end "\n\t"                                                                          \
    "b " label "1f\n\t"                                                                            \
    label "0:\n\t" ROWS                                                                            \
    "ldr r0, " end "\n\t"                                                                          \
    label "1:\n\t"                                                                                 \
    "cmp lr, r0\n\t"                                                                               \
    "bne " label "0b\n\t"

/* clang-format on */

/* The outputs of a column for `rows` widened rows, in eights and one by one. */
HIL_INLINE void hil_dsp_eight_column(const struct hil_dsp_matmul_s8_8_columns *p,
                                     const int32_t *stream, const uint32_t *from, int32_t rows,
                                     int8_t *out) {
    const uint32_t *const middle = from + 4 * (rows - rows % 8);
    const uint32_t *const end = from + 4 * rows;
    const int constant = __builtin_constant_p(p->shift) && __builtin_constant_p(p->columns);
    register const int32_t *column __asm__("r0") = stream;
    register int8_t *to __asm__("r12") = out;
    register const uint32_t *at __asm__("lr") = from;
    __asm__ volatile("ldmia r0, {r4, r5, r6, r8, r9, r10, r11}\n\t" HIL_DSP_EIGHT_UNTIL(
                         "1", HIL_DSP_EIGHT_FOUR HIL_DSP_EIGHT_FOUR, "%[middle]")
                         HIL_DSP_EIGHT_UNTIL("2", HIL_DSP_EIGHT_ROW, "%[end]")
                     : "+r"(column), "+r"(to), "+r"(at)
                     : [middle] "m"(middle), [end] "m"(end), [shift] "i"(constant ? p->shift : 1),
                       [columns] "i"(constant ? p->columns : 1)
                     : "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r11", "cc",
                       "memory");
}

#endif

/* The output of a column for a widened row. */
HIL_INLINE int8_t hil_dsp_eight_output(const struct hil_dsp_matmul_s8_8_columns *p,
                                       const int32_t *stream, const uint32_t *row) {
    uint32_t sum = (uint32_t)stream[4];
    for (int i = 0; i < 4; i++) {
        sum = hil_dsp_dual(row[i], (uint32_t)stream[i], sum);
    }
    const struct hil_dsp_affine line = {.multiplier = stream[5], .addend = stream[6]};
    return hil_dsp_scaled((int32_t)sum, line, p->shift);
}

HIL_INLINE void hil_dsp_matmul_s8_8_columns(const struct hil_dsp_matmul_s8_8_columns *p,
                                            const int8_t *in, int8_t *out, void *scratch) {
    uint32_t *const words = (uint32_t *)scratch;
    for (int32_t left = p->rows; left > 0; left -= p->group) {
        const int32_t rows = left < p->group ? left : p->group;
        const int32_t *stream = p->stream;
        hil_dsp_widen_row(in, HIL_DSP_EIGHT * rows, words);
        for (int32_t column = 0; column < p->columns; column++) {
#if HIL_DSP_ASSEMBLY
            /* Distances and shifts are part of the instructions. */
            if (__builtin_constant_p(p->shift) && __builtin_constant_p(p->columns)) {
                hil_dsp_eight_column(p, stream, words, rows, out + column);
                stream += HIL_DSP_EIGHT_WORDS;
                continue;
            }
#endif
            for (int32_t row = 0; row < rows; row++) {
                out[row * p->columns + column] = hil_dsp_eight_output(p, stream, words + 4 * row);
            }
            stream += HIL_DSP_EIGHT_WORDS;
        }
        hil_dsp_clamp_s8(out, p->columns * rows, p->low, p->high);
        in += HIL_DSP_EIGHT * rows;
        out += p->columns * rows;
    }
}

#endif
