/* Convolution of int8 images of three channels with 3x3 filters on Helium: the windows of some rows
 * of outputs are laid out first, then multiplied by all filters as matmul_s8_8x2.h does it.
 *
 * Tile: 4 windows x 2 filters, as in matmul_s8_8x2.h, of two chunks each.
 *
 * Registers, of the sums: those of matmul_s8_8x2.h; q4 to q7 are both chunks of the first filter,
 * then of the second.
 *
 * Data: the stream of matmul_s8_8x2.h, packed by `_windows()`, of 27 weights a filter and 5 zeros.
 *
 *   windows  in scratch, int8 [lines * out_w][32]
 *            +0 row 0 of the window   +9 row 1   +18 row 2   +27 bytes whose weights are 0
 *   sums     in scratch, as in matmul_s8_8x2.h
 *
 * Each row of a window is sixteen bytes that are stored, of which the next store takes seven back;
 * so 16 bytes lie behind the last window.
 *
 * Order: `lines` rows of outputs at a time, whose windows are laid out first.
 *
 * Bounds: 27 * 128 * 128 < 2^19 and the bias, below 2^31 (`_check_quantized()`). Where another row
 * of the image follows a window, its loads may reach into that: then windows are loaded up to the
 * end of a row of outputs, and get the zero point behind the image afterwards. Else the loads of a
 * `direct` window lie within its rows: `_windows()` counts only those as direct. Of others only
 * bytes are loaded that are there. In place of rows outside the image the nearest one is loaded,
 * and the zero point stored over it.
 *
 * Output: that of matmul_s8_8x2.h.
 *
 * Scratch: windows and sums of `lines` rows.
 *
 * Cost: 6.5 instructions a window that lies within the image, 20 for four windows and two filters,
 * 17.5 for 16 outputs, 20.5 with far shifts. Measured (`hil tune` on mps3-an547, instructions under
 * QEMU) a MAC: 96x96x3 to 8, stride 2 (vww) 0.207, 32x32x3 to 16 (ic) 0.198;
 * hil_mve_conv2d_s8_rgb 0.232 and 0.246.
 *
 * Tests: no twin in C; the numpy reference gives what must come out (tests/board/test_kernels.py,
 * buffers between guard bytes). Layout: tests/c/test_kernel_layouts.py.
 */
#ifndef HIL_KERNELS_MVE_CONV2D_S8_RGB_COPIED_H
#define HIL_KERNELS_MVE_CONV2D_S8_RGB_COPIED_H

#include <arm_mve.h>

#include "hil/kernels/mve/matmul_s8_8x2.h"

#define HIL_MVE_WINDOW_BYTES 32

/* Two windows of two chunks. */
#define HIL_MVE_WINDOWS_TWO(first, second, other_first, other_second)                              \
    "vldmia r1!, {d0-d7}\n"                                                                        \
    "vmladava.s8 " first ", q0, q4\n"                                                              \
    "vmladava.s8 " other_first ", q0, q6\n"                                                        \
    "vmladava.s8 " first ", q1, q5\n"                                                              \
    "vmladava.s8 " other_first ", q1, q7\n"                                                        \
    "vmladava.s8 " second ", q2, q4\n"                                                             \
    "vmladava.s8 " other_second ", q2, q6\n"                                                       \
    "vmladava.s8 " second ", q3, q5\n"                                                             \
    "vmladava.s8 " other_second ", q3, q7\n"

HIL_MVE_SHALLOW_FUNCTION(hil_mve_windows_sums,
                         HIL_MVE_WINDOWS_TWO("r0", "r2", "r8", "r10")
                             HIL_MVE_WINDOWS_TWO("r4", "r6", "r12", "lr"),
                         "")

/*@kernel
name = "hil_mve_conv2d_s8_rgb_copied"
requires = ["mve"]
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "40 * ((lines * out_w + 15) // 16 * 16) + 16"
order = ["rows lines"]
reads = "window"
window = {filter_h = "3", filter_w = "3"}
code = 1880
shared = {hil_mve_windows_sums = 366}
[cost]
row = "batch * out_h"
direct_window = "row * (out_w - before)"
other_window = "row * out_w - direct_window"
block = "batch * ((out_h + lines - 1) // lines)"
pair = "block * ((columns + 1) // 2)"
whole_sixteens = "out_h // lines * ((lines * out_w + 15) // 16)"
sixteen = "batch * ((columns + 1) // 2) * (whole_sixteens + (out_h % lines * out_w + 15) // 16)"
@*/
struct hil_mve_conv2d_s8_rgb_copied {
    int32_t batch;         /* images */
    int32_t in_h;          /* rows of an input image */
    int32_t in_w;          /* columns of an input image */
    int32_t out_h;         /* rows of an output image */
    int32_t out_w;         /* columns of an output image */
    int32_t stride;        /* 1 or 2 */
    int32_t pad_top;       /* rows by which the first window reaches above the image */
    int32_t pad_left;      /* columns by which the first window reaches beyond the image */
    int32_t in_zero_point; /* the input that stands for 0.0, which pixels outside the image have */
    int32_t columns;       /* outputs of a window, even, at most 36 */
    int32_t lines;         /* rows of outputs at a time */
    int32_t before;        /* windows of a row that reach beyond its begin */
    int32_t direct;        /* windows behind these that may be loaded where they lie */
    int32_t once;          /* 1: sums are rounded once */
    const int8_t *stream;  /* as the head of matmul_s8_8x2.h draws it */
};

/* Windows `step` bytes from each other, whose three rows begin at `x`, `y` and `z`. */
#define HIL_MVE_WINDOWS_NEXT(step)                                                                 \
    "vldrb.8 q0, [%[x]], #" step "\n"                                                              \
    "vldrb.8 q1, [%[y]], #" step "\n"                                                              \
    "vldrb.8 q2, [%[z]], #" step "\n"                                                              \
    "vstrb.8 q0, [%[to]], #9\n"                                                                    \
    "vstrb.8 q1, [%[to]], #9\n"                                                                    \
    "vstrb.8 q2, [%[to]], #14\n"
#define HIL_MVE_WINDOWS(step)                                                                      \
    __asm__ volatile("wls lr, %[pairs], 2f\n"                                                      \
                     "1:\n" HIL_MVE_WINDOWS_NEXT(step) HIL_MVE_WINDOWS_NEXT(                       \
                         step) "le lr, 1b\n"                                                       \
                               "2:\n"                                                              \
                               "cbz %[odd], 3f\n" HIL_MVE_WINDOWS_NEXT(step) "3:\n"                \
                     : [x] "+r"(x), [y] "+r"(y), [z] "+r"(z), [to] "+r"(to)                        \
                     : [pairs] "r"(count / 2), [odd] "l"(count % 2)                                \
                     : "q0", "q1", "q2", "lr", "memory")

/* A row of the image next to row y, if that is not there. */
HIL_INLINE const int8_t *hil_mve_windows_line(const struct hil_mve_conv2d_s8_rgb_copied *p,
                                              const int8_t *image, int32_t y) {
    const int32_t last = p->in_h - 1;
    const int32_t nearest = y > last ? last : y;
    return image + (nearest < 0 ? 0 : nearest) * 3 * p->in_w;
}

/* `count` windows from row y and column x on whose columns lie within the image; says where the
 * next one goes. */
HIL_INLINE int8_t *hil_mve_windows_inside(const struct hil_mve_conv2d_s8_rgb_copied *p,
                                          const int8_t *image, int32_t top, int32_t column,
                                          int32_t count, int8_t *begin) {
    const int outside = top < 0 || top + 3 > p->in_h;
    const int8_t *x = image + 3 * (top * p->in_w + column);
    const int8_t *y = x + 3 * p->in_w;
    const int8_t *z = y + 3 * p->in_w;
    if (outside) {
        x = hil_mve_windows_line(p, image, top) + 3 * column;
        y = hil_mve_windows_line(p, image, top + 1) + 3 * column;
        z = hil_mve_windows_line(p, image, top + 2) + 3 * column;
    }
    int8_t *to = begin;
    if (p->stride == 1) {
        HIL_MVE_WINDOWS("3");
    } else {
        HIL_MVE_WINDOWS("6");
    }
    for (int32_t row = outside ? 0 : 3; row < 3; row++) {
        if (top + row < 0 || top + row >= p->in_h) {
            const int8x16_t around = vdupq_n_s8((int8_t)p->in_zero_point);
            int8_t *window = begin + 9 * row;
            for (int32_t left = count; left > 0; left--) {
                vstrbq_p_s8(window, around, vctp8q(9));
                window += HIL_MVE_WINDOW_BYTES;
            }
        }
    }
    return to;
}

/* The zero point behind the image, in the last of the windows that end at `end`. */
HIL_INLINE void hil_mve_windows_behind(const struct hil_mve_conv2d_s8_rgb_copied *p, int8_t *end) {
    const int8x16_t around = vdupq_n_s8((int8_t)p->in_zero_point);
    int32_t behind = 3 * ((p->out_w - 1) * p->stride - p->pad_left + 3 - p->in_w);
    while (behind > 0) {
        const mve_pred16_t some = vctp8q((uint32_t)behind);
        end -= HIL_MVE_WINDOW_BYTES;
        vstrbq_p_s8(end + 9 - behind, around, some);
        vstrbq_p_s8(end + 18 - behind, around, some);
        vstrbq_p_s8(end + 27 - behind, around, some);
        behind -= 3 * p->stride;
    }
}

/* `count` windows from row y and column x on, the zero point around the image; says where the next
 * one goes. */
HIL_INLINE int8_t *hil_mve_windows_anywhere(const struct hil_mve_conv2d_s8_rgb_copied *p,
                                            const int8_t *image, int32_t y, int32_t x,
                                            int32_t count, int8_t *to) {
    const int8x16_t around = vdupq_n_s8((int8_t)p->in_zero_point);
    const int32_t line = 3 * p->in_w;
    for (; count > 0; count--) {
        const int32_t before = x < 0 ? -3 * x : 0;
        const int32_t inside = line - 3 * x;
        const mve_pred16_t there =
            vctp8q(inside > 0 ? (uint32_t)inside : 0) & ~vctp8q((uint32_t)before);
        const int8_t *from = image + y * line + 3 * x;
        for (int32_t row = y; row < y + 3; row++) {
            int8x16_t values = around;
            if (row >= 0 && row < p->in_h) {
                values = vpselq_s8(vldrbq_z_s8(from, there), around, there);
            }
            vstrbq_s8(to, values);
            to += 9;
            from += line;
        }
        to += HIL_MVE_WINDOW_BYTES - 27;
        x += p->stride;
    }
    return to;
}

/* The windows of a row of outputs, from row y of the image on. */
HIL_INLINE int8_t *hil_mve_windows_row(const struct hil_mve_conv2d_s8_rgb_copied *p,
                                       const int8_t *image, int32_t y, int8_t *to) {
    const int followed = y + 3 < p->in_h;
    const int32_t inside = followed ? p->out_w - p->before : p->direct;
    const int32_t x = p->before * p->stride - p->pad_left;
    to = hil_mve_windows_anywhere(p, image, y, -p->pad_left, p->before, to);
    to = hil_mve_windows_inside(p, image, y, x, inside, to);
    if (followed) {
        hil_mve_windows_behind(p, to);
        return to;
    }
    return hil_mve_windows_anywhere(p, image, y, x + inside * p->stride,
                                    p->out_w - p->before - inside, to);
}

HIL_INLINE void hil_mve_conv2d_s8_rgb_copied(const struct hil_mve_conv2d_s8_rgb_copied *p,
                                             const int8_t *in, int8_t *out, void *scratch) {
    const int32_t most = (p->lines * p->out_w + 15) / 16 * 16;
    int32_t *const sums = (int32_t *)scratch;
    int8_t *const windows = (int8_t *)scratch + 8 * most;
    for (int32_t images = p->batch; images > 0; images--) {
        int32_t y = -p->pad_top;
        for (int32_t left = p->out_h; left > 0; left -= p->lines) {
            const int32_t lines = left < p->lines ? left : p->lines;
            int8_t *to = windows;
            for (int32_t line = 0; line < lines; line++) {
                to = hil_mve_windows_row(p, in, y, to);
                y += p->stride;
            }
            const int32_t count = lines * p->out_w;
            hil_mve_shallow_pairs(hil_mve_windows_sums, hil_mve_windows_sums, p->once, p->columns,
                                  p->stream, windows, windows, sums, out, count);
            out += count * p->columns;
        }
        in += p->in_h * p->in_w * 3;
    }
}

#endif
