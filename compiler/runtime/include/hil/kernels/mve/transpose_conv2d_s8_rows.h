/* Transposed convolution of int8 images on Helium, phase by phase and some rows at a time, as
 * conv2d_s8_rows.h does convolutions.
 *
 * Tile: a row of a phase's windows, four at a time, x 2 filters x one row of the phase's filter,
 * of one, two or three taps, x one chunk of 16 channels:
 *
 *                pixel   0    1    2    3    4          sums of filter 0, filter 1
 *   window 0             t0   t1                        r0   r8
 *   window 1                  t0   t1                   r2   r10
 *   window 2                       t0   t1              r4   r12
 *   window 3                            t0   t1         r6   lr
 *
 * Registers: those of conv2d_s8_rows.h; of one tap q2 and q5 are the weights, of two q2 q3 and q5
 * q6.
 *
 * Data: the stream, packed by `line_pairs()`, phase after phase; per pair of filters, p = rows of
 * the phase's filter x chunks, t = its taps, in bytes:
 *
 *   +0         int32[8]  bias of filter 0 four times, of filter 1 four times
 *   +32        int8 [p][2 filters][t][16], 0 behind the last channel
 *   +32+32tp   int32: multiplier 0, multiplier 1, shift 0, shift 1
 *
 *   pixels     in scratch, int8 [planes][chunks][width][16], the zero point around the image, which
 *              all phases read
 *   sums       in scratch, int32 [lines][fours][2 filters][4 windows]
 *
 * Order: `lines` rows of each phase at a time, under which the pixels are copied first.
 *
 * Bounds: a sum is at most |bias| + 128 * sum |w| < 2^31 (`_check_quantized()`). Offsets of a
 * four's outputs are 16 bits, which `_rows()` checks.
 *
 * Output: that of conv2d_s8_rows.h, windows of a row `stride_w` outputs from each other.
 *
 * Scratch: pixels and sums.
 *
 * Cost: 16.5 instructions for four windows and one tap (128 MACs), 25.5 for two taps, 32 for three;
 * 13 for their eight outputs. Measured (`hil bench --per-layer` on mps3-an547, instructions under
 * QEMU) a MAC: 12x12x32 to 16, filter 2x2, stride 2: 0.240; 24x24x16 to 8, 3x3, stride 2: 0.186;
 * hil_mve_transpose_conv2d_s8 0.305 and 0.372.
 *
 * Tests: no twin in C; the numpy reference gives what must come out (tests/board/test_kernels.py,
 * buffers between guard bytes). Layout: tests/c/test_kernel_layouts.py.
 */
#ifndef HIL_KERNELS_MVE_TRANSPOSE_CONV2D_S8_ROWS_H
#define HIL_KERNELS_MVE_TRANSPOSE_CONV2D_S8_ROWS_H

#include <arm_mve.h>

#include "hil/kernels/generic/phases.h"
#include "hil/kernels/mve/conv2d_s8_rows.h"

/* clang-format off */
#define HIL_MVE_LINES_WEIGHT(q) "vldrb.8 " q ", [r9], #16\n"
#define HIL_MVE_LINES_WEIGHTS_OF_ONE HIL_MVE_LINES_WEIGHT("q2") HIL_MVE_LINES_WEIGHT("q5")
#define HIL_MVE_LINES_WEIGHTS_OF_TWO                                                               \
    HIL_MVE_LINES_WEIGHT("q2") HIL_MVE_LINES_WEIGHT("q3")                                          \
    HIL_MVE_LINES_WEIGHT("q5") HIL_MVE_LINES_WEIGHT("q6")
#define HIL_MVE_LINES_PIXELS_OF_ONE                                                                \
    HIL_MVE_LINES_PIXEL("q1", "16]")                                                               \
        HIL_MVE_WINDOWS_TAP_0("vmladava.s8", "r0", "r8", "q0")                                     \
        HIL_MVE_WINDOWS_TAP_0("vmladava.s8", "r2", "r10", "q1")                                    \
    HIL_MVE_LINES_PIXEL("q0", "32]")                                                               \
    HIL_MVE_LINES_PIXEL("q1", "48]")                                                               \
        HIL_MVE_WINDOWS_TAP_0("vmladava.s8", "r4", "r12", "q0")                                    \
        HIL_MVE_WINDOWS_TAP_0("vmladava.s8", "r6", "lr", "q1")                                     \
    HIL_MVE_LINES_PIXEL("q0", "64]!")
#define HIL_MVE_LINES_PIXELS_OF_TWO                                                                \
        HIL_MVE_WINDOWS_TAP_0("vmladava.s8", "r0", "r8", "q0")                                     \
    HIL_MVE_LINES_PIXEL("q1", "16]")                                                               \
        HIL_MVE_WINDOWS_TAP_1("r0", "r8", "q1")                                                    \
        HIL_MVE_WINDOWS_TAP_0("vmladava.s8", "r2", "r10", "q1")                                    \
    HIL_MVE_LINES_PIXEL("q0", "32]")                                                               \
        HIL_MVE_WINDOWS_TAP_1("r2", "r10", "q0")                                                   \
        HIL_MVE_WINDOWS_TAP_0("vmladava.s8", "r4", "r12", "q0")                                    \
    HIL_MVE_LINES_PIXEL("q1", "48]")                                                               \
        HIL_MVE_WINDOWS_TAP_1("r4", "r12", "q1")                                                   \
        HIL_MVE_WINDOWS_TAP_0("vmladava.s8", "r6", "lr", "q1")                                     \
    HIL_MVE_LINES_PIXEL("q0", "64]!")                                                              \
        HIL_MVE_WINDOWS_TAP_1("r6", "lr", "q0")
#define HIL_MVE_LINES_OF_ONE(from) HIL_MVE_LINES_FOUR(from, HIL_MVE_LINES_PIXELS_OF_ONE)
#define HIL_MVE_LINES_OF_TWO(from) HIL_MVE_LINES_FOUR(from, HIL_MVE_LINES_PIXELS_OF_TWO)
/* clang-format on */

HIL_MVE_LINES_FUNCTION(hil_mve_lines_of_one, HIL_MVE_LINES_WEIGHTS_OF_ONE, HIL_MVE_LINES_FIRST_2,
                       HIL_MVE_LINES_OF_ONE)
HIL_MVE_LINES_FUNCTION(hil_mve_lines_of_two, HIL_MVE_LINES_WEIGHTS_OF_TWO, HIL_MVE_LINES_FIRST_2,
                       HIL_MVE_LINES_OF_TWO)

/*@kernel
name = "hil_mve_transpose_conv2d_s8_rows"
requires = ["mve"]
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "16 * chunks * planes * width + 32 * lines * fours"
order = "none"
code = 2000
[cost]
block = "batch * ((down + lines - 1) // lines)"
copied_pixel = "block * planes * chunks * width"
pair = "block * ((out_c + 1) // 2)"
pair_phase = "pair * count"
pair_pass = "pair * filter_h * stride_w * chunks"
row = "batch * down * ((out_c + 1) // 2)"
row_phase = "row * count"
row_pass = "row * filter_h * stride_w * chunks"
four_pass = "row_pass * fours"
four_tap = "row * fours * filter_h * filter_w * chunks"
four = "row_phase * fours"
linear_four = "four * (linear == 1)"
clamped_four = "four * any"
@*/
struct hil_mve_transpose_conv2d_s8_rows {
    HIL_PHASES_FIELDS;
    int32_t in_zero_point; /* the input that stands for 0.0, which pixels outside the image have */
    int32_t top;           /* first row of the input under the first windows; may be outside */
    int32_t left;          /* the same of columns */
    int32_t down;          /* rows of the phase with most */
    int32_t lines;         /* rows of a phase at a time */
    int32_t planes;        /* lines of pixels under those of all phases */
    int32_t chunks;        /* of 16 channels, rounded up */
    int32_t fours;         /* of windows of a line, rounded up */
    int32_t width;         /* pixels under whole fours of windows */
    int32_t any;           /* 1: outputs are clamped to less than int8 */
    int32_t linear;        /* as in HIL_MVE_COLUMNS_FIELDS */
    HIL_OUTPUT_RANGE_FIELDS;
    const int8_t *stream; /* the head draws it */
};

/* The outputs of `rows` rows of a phase's windows, the first of which go to `out`. */
HIL_INLINE void
hil_mve_transpose_conv2d_s8_rows_phase(const struct hil_mve_transpose_conv2d_s8_rows *p,
                                       const struct hil_phase *phase, const int8_t *pixels,
                                       int32_t *sums, int8_t *out, int32_t rows) {
    const struct hil_mve_line_outputs outputs = {
        .columns = p->out_c,
        .distance = p->stride_w * p->out_c,
        .zero_point = p->out_zero_point,
        .low = p->out_min,
        .high = p->out_max,
        .any = p->any,
        .linear = p->linear,
    };
    hil_mve_lines_function *const function = phase->filter_w == 1   ? hil_mve_lines_of_one
                                             : phase->filter_w == 2 ? hil_mve_lines_of_two
                                                                    : hil_mve_lines_1;
    const int32_t plane_bytes = HIL_MVE_CHUNK * p->width;
    const int32_t passes = phase->filter_h * p->chunks;
    struct hil_mve_lines lines = {
        .lines = rows,
        .fours = p->fours,
        .line_step = p->chunks * plane_bytes - 4 * HIL_MVE_CHUNK * p->fours,
        .pass_step = plane_bytes,
        .passes = 0,
    };
    const struct hil_mve_line_walk walk = {
        .lines = rows,
        .windows = phase->columns,
        .sums_step = 8 * p->fours,
        .out_step = p->stride_h * p->out_w * p->out_c,
    };
    const int8_t *pair = p->stream + phase->weights;
    for (int32_t column = 0; column < p->out_c; column += 2) {
        lines.passes = passes - 1;
        function(pixels, pair, sums, &lines);
        pair += 48 + 2 * HIL_MVE_CHUNK * phase->filter_w * passes;
        const void *const scales_end = pair;
        const int32_t *const scale = (const int32_t *)scales_end - 4;
        hil_mve_lines_outputs(&outputs, sums, scale, out + hil_mve_pair_at(column, p->out_c),
                              &walk);
    }
}

HIL_INLINE void hil_mve_transpose_conv2d_s8_rows(const struct hil_mve_transpose_conv2d_s8_rows *p,
                                                 const int8_t *in, int8_t *out, void *scratch) {
    const struct hil_mve_planes planes = {
        .in_h = p->in_h,
        .in_w = p->in_w,
        .in_c = p->in_c,
        .zero_point = p->in_zero_point,
        .dilation = 1,
        .width = p->width,
        .chunks = p->chunks,
        .paired = 0,
    };
    const int32_t plane_bytes = HIL_MVE_CHUNK * p->width;
    int32_t *const sums = (int32_t *)scratch;
    int8_t *const pixels = (int8_t *)scratch + 32 * p->lines * p->fours;
    for (int32_t images = p->batch; images > 0; images--) {
        for (int32_t row = 0; row < p->down; row += p->lines) {
            hil_mve_planes_copy(&planes, in, p->top + row, 1, p->planes, p->left, pixels);
            for (int32_t i = 0; i < p->count; i++) {
                const struct hil_phase phase = hil_phase_of(p->phases + HIL_PHASE_WORDS * i);
                const int32_t below = phase.rows - row;
                if (below <= 0) {
                    continue; /* phases differ by a row, which alone is in the last block */
                }
                const int32_t y = phase.out_y + row * p->stride_h;
                hil_mve_transpose_conv2d_s8_rows_phase(
                    p, &phase,
                    pixels + (phase.in_y - p->top) * p->chunks * plane_bytes +
                        (phase.in_x - p->left) * HIL_MVE_CHUNK,
                    sums, out + (y * p->out_w + phase.out_x) * p->out_c,
                    below < p->lines ? below : p->lines);
            }
        }
        in += p->in_h * p->in_w * p->in_c;
        out += p->out_h * p->out_w * p->out_c;
    }
}

#endif
