/* Convolution of int8 images with 3x3 filters on Helium, some rows of outputs at a time: the
 * weights of two filters, one row of the filter and sixteen channels stay in registers while all
 * windows of these rows pass by, whose sums wait in the scratch meanwhile.
 *
 * Tile: a row of windows, four at a time, x 2 filters x one row of the filter x one chunk of 16
 * channels. With stride 1 the last two pixels of four windows are the first two of the next:
 *
 *                pixel   0    1    2    3    4    5          sums of filter 0, filter 1
 *   window 0             t0   t1   t2                          r0   r8
 *   window 1                  t0   t1   t2                     r2   r10
 *   window 2                       t0   t1   t2                r4   r12
 *   window 3                            t0   t1   t2           r6   lr
 *   next window 0                            t0   t1 ...
 *
 * Registers, at the top of four windows: the sums; r1 place in the pixels; r3 place of the sums; r5
 * fours of the row left; r7 rows left; r9 place in the stream; r11 biases; q2 q3 q4 taps 0 1 2 of
 * filter 0, q5 q6 q7 of filter 1; q0 and q1 the pixels in turn, of which q0 holds the first, with
 * stride 1 q1 the second. On the stack: d8-d15 at 0, pixels of the pass at 64, stream at 68, sums
 * at 72, struct hil_mve_lines at 76.
 *
 * Data: the stream, packed by `_lines()`; per pair of filters, n = chunks, in bytes:
 *
 *   +0        int32[8]  bias of filter 0 four times, of filter 1 four times
 *   +32       int8 [3 rows][n chunks][2 filters][3 taps][16], 0 behind the last channel
 *   +32+288n  int32: multiplier 0, multiplier 1, shift 0, shift 1
 *
 * An odd last filter makes a pair with the one before it, a single one with itself.
 *
 *   pixels    in scratch, int8 [rows][n][width][16], the zero point around the image; `width` is
 * that of whole fours of windows sums      in scratch, int32 [lines][fours][2 filters][4 windows]
 *
 * Order: `lines` rows of outputs at a time, under which the pixels are copied first; then pair by
 * pair the sums of all of them, and the outputs.
 *
 * Bounds: a sum is at most |bias| + 128 * sum |w| < 2^31 (`_check_quantized()`). Offsets of a
 * four's outputs are 16 bits, which `_lines()` checks.
 *
 * Output: as in blocks_s8.h, multiplier and shift of a filter in core registers; `linear` takes one
 * from negative products. A predicate of the loop leaves away what is no window of a row's last
 * four.
 *
 * Scratch: pixels and sums.
 *
 * Cost: 31 instructions for four windows (384 MACs) with stride 1 and 35 with stride 2, one more
 * where the fours of a row are odd; 13 for their eight outputs. Measured (`hil bench --per-layer`
 * on mps3-an547, instructions under QEMU) a MAC, layers of ic: 16 channels 32x32 0.098, 32 channels
 * 16x16 0.096, 64 channels 8x8 0.098; stride 2 0.115.
 *
 * Tests: no twin in C; the numpy reference gives what must come out (tests/board/test_kernels.py,
 * buffers between guard bytes). Layout: tests/c/test_kernel_layouts.py.
 */
#ifndef HIL_KERNELS_MVE_CONV2D_S8_3X3_ROWS_H
#define HIL_KERNELS_MVE_CONV2D_S8_3X3_ROWS_H

#include <arm_mve.h>

#include "hil/kernels/mve/conv2d_s8_3x3.h"

/* What the passes of a pair of filters share. The assembly knows the offsets. */
struct hil_mve_lines {
    int32_t lines;     /*  0: rows of outputs */
    int32_t fours;     /*  4: of windows of a row; where these are even, pairs of them */
    int32_t line_step; /*  8: from behind a row's fours to the first pixel of the next row's */
    int32_t pass_step; /* 12: from the pixels of a pass to the next one's */
    int32_t passes;    /* 16: but the first, counted down */
};

HIL_MVE_AT(hil_mve_lines, lines, 0);
HIL_MVE_AT(hil_mve_lines, fours, 4);
HIL_MVE_AT(hil_mve_lines, line_step, 8);
HIL_MVE_AT(hil_mve_lines, pass_step, 12);
HIL_MVE_AT(hil_mve_lines, passes, 16);

/* Four windows, whose sums start from those at `from`; then r1 is at the next ones. */
/* clang-format off */
#define HIL_MVE_LINES_FOUR(from, pixels)                                                           \
    "ldmia " from ", {r0, r2, r4, r6, r8, r10, r12, lr}\n" pixels                                  \
    "stmia r3!, {r0, r2, r4, r6, r8, r10, r12, lr}\n"
#define HIL_MVE_LINES_PIXEL(q, at) "vldrb.8 " q ", [r1, #" at "\n"
#define HIL_MVE_LINES_PIXELS_1                                                                     \
        HIL_MVE_WINDOWS_TAP_0("vmladava.s8", "r0", "r8", "q0")                                     \
        HIL_MVE_WINDOWS_TAP_1("r0", "r8", "q1")                                                    \
        HIL_MVE_WINDOWS_TAP_0("vmladava.s8", "r2", "r10", "q1")                                    \
    HIL_MVE_LINES_PIXEL("q0", "32]")                                                               \
        HIL_MVE_WINDOWS_TAP_2("r0", "r8", "q0")                                                    \
        HIL_MVE_WINDOWS_TAP_1("r2", "r10", "q0")                                                   \
        HIL_MVE_WINDOWS_TAP_0("vmladava.s8", "r4", "r12", "q0")                                    \
    HIL_MVE_LINES_PIXEL("q1", "48]")                                                               \
        HIL_MVE_WINDOWS_TAP_2("r2", "r10", "q1")                                                   \
        HIL_MVE_WINDOWS_TAP_1("r4", "r12", "q1")                                                   \
        HIL_MVE_WINDOWS_TAP_0("vmladava.s8", "r6", "lr", "q1")                                     \
    HIL_MVE_LINES_PIXEL("q0", "64]!")                                                              \
        HIL_MVE_WINDOWS_TAP_2("r4", "r12", "q0")                                                   \
        HIL_MVE_WINDOWS_TAP_1("r6", "lr", "q0")                                                    \
    HIL_MVE_LINES_PIXEL("q1", "16]")                                                               \
        HIL_MVE_WINDOWS_TAP_2("r6", "lr", "q1")
#define HIL_MVE_LINES_PIXELS_2                                                                     \
        HIL_MVE_WINDOWS_TAP_0("vmladava.s8", "r0", "r8", "q0")                                     \
    HIL_MVE_LINES_PIXEL("q1", "16]")                                                               \
        HIL_MVE_WINDOWS_TAP_1("r0", "r8", "q1")                                                    \
    HIL_MVE_LINES_PIXEL("q0", "32]")                                                               \
        HIL_MVE_WINDOWS_TAP_2("r0", "r8", "q0")                                                    \
        HIL_MVE_WINDOWS_TAP_0("vmladava.s8", "r2", "r10", "q0")                                    \
    HIL_MVE_LINES_PIXEL("q1", "48]")                                                               \
        HIL_MVE_WINDOWS_TAP_1("r2", "r10", "q1")                                                   \
    HIL_MVE_LINES_PIXEL("q0", "64]!")                                                              \
        HIL_MVE_WINDOWS_TAP_2("r2", "r10", "q0")                                                   \
        HIL_MVE_WINDOWS_TAP_0("vmladava.s8", "r4", "r12", "q0")                                    \
    HIL_MVE_LINES_PIXEL("q1", "16]")                                                               \
        HIL_MVE_WINDOWS_TAP_1("r4", "r12", "q1")                                                   \
    HIL_MVE_LINES_PIXEL("q0", "32]")                                                               \
        HIL_MVE_WINDOWS_TAP_2("r4", "r12", "q0")                                                   \
        HIL_MVE_WINDOWS_TAP_0("vmladava.s8", "r6", "lr", "q0")                                     \
    HIL_MVE_LINES_PIXEL("q1", "48]")                                                               \
        HIL_MVE_WINDOWS_TAP_1("r6", "lr", "q1")                                                    \
    HIL_MVE_LINES_PIXEL("q0", "64]!")                                                              \
        HIL_MVE_WINDOWS_TAP_2("r6", "lr", "q0")
#define HIL_MVE_LINES_FIRST_1 "vldrb.8 q0, [r1]\n" "vldrb.8 q1, [r1, #16]\n"
#define HIL_MVE_LINES_FIRST_2 "vldrb.8 q0, [r1]\n"

/* All rows of a pass; labels a and b. */
#define HIL_MVE_LINES_PASS(a, b, first, fours)                                                     \
    HIL_MVE_WINDOWS_WEIGHTS                                                                        \
    "ldr r0, [sp, #76]\n"                                                                          \
    "ldrd r1, r3, [sp, #64]\n"                                                                     \
    "ldr r3, [sp, #72]\n"                                                                          \
    "ldrd r7, r5, [r0]\n"                                                                          \
    "b 8f\n"                                                                                       \
    ".p2align 2\n"                                                                                 \
    a ":\n"                                                                                        \
    "ldr r0, [sp, #76]\n"                                                                          \
    "ldrd r5, r0, [r0, #4]\n"                                                                      \
    "add r1, r0\n"                                                                                 \
    "8:\n"                                                                                         \
    first                                                                                          \
    ".p2align 2\n"                                                                                 \
    b ":\n" fours                                                                                  \
    "subs r5, #1\n"                                                                                \
    "bne.w " b "b\n"                                                                               \
    "subs r7, #1\n"                                                                                \
    "bne.w " a "b\n"

#define HIL_MVE_LINES_FUNCTION(name, first, fours)                                                 \
    __attribute__((naked, noipa, unused)) static void name(                                        \
        const int8_t *x __attribute__((unused)), const int8_t *stream __attribute__((unused)),     \
        int32_t *sums __attribute__((unused)),                                                     \
        struct hil_mve_lines *lines __attribute__((unused))) {                                     \
        __asm__("push {r0-r11, lr}\n"                                                              \
                "vpush {d8-d15}\n"                                                                 \
                "mov r11, r1\n"                                                                    \
                "add r9, r1, #32\n"                                                                \
                HIL_MVE_LINES_PASS("1", "2", first, fours("r11"))                                  \
                "5:\n"                                                                             \
                "ldr r0, [sp, #76]\n"                                                              \
                "ldr r1, [sp, #64]\n"                                                              \
                "ldrd r2, r4, [r0, #12]\n"                                                         \
                "add r1, r2\n"                                                                     \
                "subs r4, #1\n"                                                                    \
                "str r1, [sp, #64]\n"                                                              \
                "str r4, [r0, #16]\n"                                                              \
                "bmi.w 6f\n"                                                                       \
                HIL_MVE_LINES_PASS("3", "4", first, fours("r3"))                                   \
                "b.w 5b\n"                                                                         \
                "6:\n"                                                                             \
                "vpop {d8-d15}\n"                                                                  \
                "pop {r0-r11, pc}\n");                                                             \
    }

#define HIL_MVE_LINES_ODD_1(from) HIL_MVE_LINES_FOUR(from, HIL_MVE_LINES_PIXELS_1)
#define HIL_MVE_LINES_ODD_2(from) HIL_MVE_LINES_FOUR(from, HIL_MVE_LINES_PIXELS_2)
#define HIL_MVE_LINES_EVEN_1(from) HIL_MVE_LINES_ODD_1(from) HIL_MVE_LINES_ODD_1(from)
#define HIL_MVE_LINES_EVEN_2(from) HIL_MVE_LINES_ODD_2(from) HIL_MVE_LINES_ODD_2(from)
/* clang-format on */

/* The number is the stride. */
HIL_MVE_LINES_FUNCTION(hil_mve_lines_1, HIL_MVE_LINES_FIRST_1, HIL_MVE_LINES_ODD_1)
HIL_MVE_LINES_FUNCTION(hil_mve_lines_2, HIL_MVE_LINES_FIRST_2, HIL_MVE_LINES_ODD_2)
HIL_MVE_LINES_FUNCTION(hil_mve_lines_1_even, HIL_MVE_LINES_FIRST_1, HIL_MVE_LINES_EVEN_1)
HIL_MVE_LINES_FUNCTION(hil_mve_lines_2_even, HIL_MVE_LINES_FIRST_2, HIL_MVE_LINES_EVEN_2)

typedef void hil_mve_lines_function(const int8_t *x, const int8_t *stream, int32_t *sums,
                                    struct hil_mve_lines *lines);

/* The outputs of a pair of filters for a row of windows, or some, from their sums. Two by two lanes
 * of the loop's predicate are a window, as two of 16 bits and one of 32. */
/* clang-format off */
#define HIL_MVE_LINE_OUTPUTS(multiply, correct, clamp)                                             \
    __asm__ volatile("dlstp.16 lr, %[turns]\n"                                                     \
                     "1:\n"                                                                        \
                     "vldrw.32 q0, [%[sums]], #16\n"                                               \
                     "vldrw.32 q1, [%[sums]], #16\n"                                               \
                     multiply ".s32 q0, q0, %[m0]\n"                                               \
                     multiply ".s32 q1, q1, %[m1]\n"                                               \
                     correct                                                                       \
                     "vrshl.s32 q0, %[s0]\n"                                                       \
                     "vrshl.s32 q1, %[s1]\n"                                                       \
                     "vqmovnb.s32 q0, q0\n"                                                        \
                     "vqmovnt.s32 q0, q1\n"                                                        \
                     "vqadd.s16 q0, q0, %[zero]\n"                                                 \
                     clamp                                                                         \
                     "vstrb.16 q0, [%[out], %q[offsets]]\n"                                        \
                     "add %[out], %[step]\n"                                                       \
                     "letp lr, 1b\n"                                                               \
                     : [sums] "+&r"(sums), [out] "+&r"(out), [turns] "+&r"(turns)                  \
                     : [m0] "r"(scale[0]), [m1] "r"(scale[1]),                                     \
                       [s0] "r"(scale[2]), [s1] "r"(scale[3]), [zero] "r"(p->out_zero_point),      \
                       [step] "r"(4 * p->columns), [one] "r"(1), [offsets] "w"(offsets),           \
                       [low] "w"(low), [high] "w"(high)                                            \
                     : "q0", "q1", "cc", "memory")
#define HIL_MVE_LINES_CORRECT                                                                      \
    HIL_MVE_AWAY_FROM_ZERO("q0", "%[one]") HIL_MVE_AWAY_FROM_ZERO("q1", "%[one]")
#define HIL_MVE_LINES_SATURATE "vqmovnb.s16 q0, q0\n"
#define HIL_MVE_LINES_CLAMP                                                                        \
    "vmax.s16 q0, q0, %q[low]\n"                                                                   \
    "vmin.s16 q0, q0, %q[high]\n"
/* clang-format on */

/*@kernel
name = "hil_mve_conv2d_s8_3x3_rows"
requires = ["mve"]
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "16 * chunks * (stride * (lines - 1) + 3) * width + 32 * lines * fours"
order = ["rows lines"]
reads = "window"
window = {filter_h = "3", filter_w = "3"}
code = 1500
[cost]
block = "batch * ((out_h + lines - 1) // lines)"
copied_row = "block * (stride * (lines - 1) + 3) * chunks"
copied_pixel = "copied_row * width"
pair = "block * ((columns + 1) // 2)"
pair_pass = "pair * 3 * chunks"
row = "batch * out_h * ((columns + 1) // 2)"
row_pass = "row * 3 * chunks"
tail_row = "row * (4 * fours - out_w)"
four_pass = "row_pass * fours"
odd_four_pass = "four_pass * (fours % 2)"
strided_four_pass = "four_pass * (stride - 1)"
four = "row * fours"
linear_four = "four * (linear == 1)"
clamped_four = "four * any"
@*/
struct hil_mve_conv2d_s8_3x3_rows {
    HIL_IMAGES_FIELDS;
    int32_t stride;        /* 1 or 2 */
    int32_t pad_top;       /* rows by which the first window reaches above the image */
    int32_t pad_left;      /* columns by which the first window reaches beyond the image */
    int32_t in_zero_point; /* the input that stands for 0.0, which pixels outside the image have */
    int32_t lines;         /* rows of outputs at a time */
    int32_t chunks;        /* of 16 channels, rounded up */
    int32_t fours;         /* of windows of a row, rounded up */
    int32_t width;         /* columns under whole fours of windows */
    int32_t columns;       /* filters */
    int32_t any;           /* 1: outputs are clamped to less than int8 */
    int32_t linear;        /* as in HIL_MVE_COLUMNS_FIELDS */
    HIL_OUTPUT_RANGE_FIELDS;
    const int8_t *stream; /* the head draws it */
};

/* `count` pixels' chunk at `from`, of which the channels in the mask. */
HIL_INLINE int8_t *hil_mve_conv2d_s8_3x3_rows_pixels(int8_t *to, const int8_t *from, int32_t step,
                                                     int32_t count, uint32_t channels) {
    if (count > 0) {
        __asm__ volatile("vctp.8 %[channels]\n"
                         "dls lr, %[count]\n"
                         "1:\n"
                         "vpst\n"
                         "vldrbt.8 q0, [%[from]]\n"
                         "add %[from], %[step]\n"
                         "vstrb.8 q0, [%[to]], #16\n"
                         "le lr, 1b\n"
                         : [to] "+&r"(to), [from] "+&r"(from)
                         : [count] "r"(count), [step] "r"(step), [channels] "r"(channels)
                         : "q0", "lr", "cc", "memory");
    }
    return to;
}

/* `rows` rows of pixels from row y and column x on. */
HIL_INLINE void hil_mve_conv2d_s8_3x3_rows_copy(const struct hil_mve_conv2d_s8_3x3_rows *p,
                                                const int8_t *image, int32_t y, int32_t rows,
                                                int8_t *to) {
    const int8x16_t around = vdupq_n_s8((int8_t)p->in_zero_point);
    const int32_t before = p->pad_left < p->width ? p->pad_left : p->width;
    const int32_t inside = p->in_w < p->width - before ? p->in_w : p->width - before;
    const int8_t *from = image + y * p->in_w * p->in_c;
    for (; rows > 0; rows--) {
        if (y < 0 || y >= p->in_h) {
            to = hil_mve_fill(to, around, p->chunks * p->width);
        } else {
            for (int32_t channel = 0; channel < p->in_c; channel += HIL_MVE_CHUNK) {
                to = hil_mve_fill(to, around, before);
                to = hil_mve_conv2d_s8_3x3_rows_pixels(to, from + channel, p->in_c, inside,
                                                       (uint32_t)(p->in_c - channel));
                to = hil_mve_fill(to, around, p->width - before - inside);
            }
        }
        from += p->in_w * p->in_c;
        y++;
    }
}

/* The outputs of a pair of filters, of `count` / 2 windows. */
HIL_INLINE_BLOCK int8_t *
hil_mve_conv2d_s8_3x3_rows_store(const struct hil_mve_conv2d_s8_3x3_rows *p, const int32_t *sums,
                                 const int32_t *scale, int8_t *out, int32_t count) {
    /* Of the outputs of four windows: window 0 filter 0, 0 1, 1 0, ... */
    const uint16x8_t numbers = vidupq_n_u16(0, 1);
    const uint16x8_t offsets = vmlaq_n_u16(vandq_u16(numbers, vdupq_n_u16(p->columns > 1)),
                                           vshrq_n_u16(numbers, 1), (uint16_t)p->columns);
    const int16x8_t low = vdupq_n_s16((int16_t)p->out_min);
    const int16x8_t high = vdupq_n_s16((int16_t)p->out_max);
    register int32_t turns __asm__("lr") = count; /* gcc's debugging levels have no other left */
    if (p->linear == HIL_MVE_LINEAR_ONCE) {
        if (p->any) {
            HIL_MVE_LINE_OUTPUTS(HIL_MVE_ONCE, "", HIL_MVE_LINES_CLAMP);
        } else {
            HIL_MVE_LINE_OUTPUTS(HIL_MVE_ONCE, "", HIL_MVE_LINES_SATURATE);
        }
    } else if (p->any) {
        HIL_MVE_LINE_OUTPUTS(HIL_MVE_TWICE, HIL_MVE_LINES_CORRECT, HIL_MVE_LINES_CLAMP);
    } else if (p->linear) {
        HIL_MVE_LINE_OUTPUTS(HIL_MVE_TWICE, HIL_MVE_LINES_CORRECT, HIL_MVE_LINES_SATURATE);
    } else {
        HIL_MVE_LINE_OUTPUTS(HIL_MVE_TWICE, "", HIL_MVE_LINES_SATURATE);
    }
    return out;
}

HIL_INLINE void hil_mve_conv2d_s8_3x3_rows(const struct hil_mve_conv2d_s8_3x3_rows *p,
                                           const int8_t *in, int8_t *out, void *scratch) {
    const int32_t even = p->fours % 2 == 0;
    hil_mve_lines_function *const function = p->stride == 1
                                                 ? (even ? hil_mve_lines_1_even : hil_mve_lines_1)
                                                 : (even ? hil_mve_lines_2_even : hil_mve_lines_2);
    const int32_t pass_step = HIL_MVE_CHUNK * p->width;
    const int32_t line_bytes = p->chunks * pass_step;
    const int32_t pair_bytes = 48 + 288 * p->chunks;
    int8_t *const pixels = (int8_t *)scratch;
    void *const behind = pixels + (p->stride * (p->lines - 1) + 3) * line_bytes;
    int32_t *const sums = (int32_t *)behind;
    struct hil_mve_lines lines = {
        .lines = 0,
        .fours = even ? p->fours / 2 : p->fours,
        .line_step = p->stride * line_bytes - 4 * p->stride * HIL_MVE_CHUNK * p->fours,
        .pass_step = pass_step,
        .passes = 0,
    };
    for (int32_t images = p->batch; images > 0; images--) {
        for (int32_t row = 0; row < p->out_h; row += p->lines) {
            const int32_t below = p->out_h - row;
            lines.lines = below < p->lines ? below : p->lines;
            hil_mve_conv2d_s8_3x3_rows_copy(p, in, row * p->stride - p->pad_top,
                                            p->stride * (lines.lines - 1) + 3, pixels);
            const int8_t *pair = p->stream;
            for (int32_t column = 0; column < p->columns; column += 2) {
                lines.passes = 3 * p->chunks - 1;
                function(pixels, pair, sums, &lines);
                pair += pair_bytes;
                const void *const scales_end = pair;
                const int32_t *const scale = (const int32_t *)scales_end - 4;
                int8_t *const pair_out = out + hil_mve_pair_at(column, p->columns);
                if (p->out_w % 4 == 0) {
                    /* Rows follow each other without a gap. */
                    hil_mve_conv2d_s8_3x3_rows_store(p, sums, scale, pair_out,
                                                     2 * lines.lines * p->out_w);
                } else {
                    const int32_t *from = sums;
                    int8_t *to = pair_out;
                    for (int32_t line = lines.lines; line > 0; line--) {
                        hil_mve_conv2d_s8_3x3_rows_store(p, from, scale, to, 2 * p->out_w);
                        from += 8 * p->fours;
                        to += p->out_w * p->columns;
                    }
                }
            }
            out += lines.lines * p->out_w * p->columns;
        }
        in += p->in_h * p->in_w * p->in_c;
    }
}

#endif
