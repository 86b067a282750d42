/* Convolution of int8 images of few channels on Helium, whose windows lie within the reach of a
 * gather: some rows of outputs at a time the rows of the image under them are laid out with what
 * lies around, from there gathers fetch the windows, which matmul_s8_2x4.h multiplies.
 *
 * Tile: 2 windows x 4 channels, that of matmul_s8_2x4.h.
 *
 * Registers: those of matmul_s8_2x4.h.
 *
 * Data: the stream of matmul_s8_2x4.h, packed by `pixels_of()`.
 *
 *   taps     uint8 [chunks][16]: from a window's first byte to each of its bytes; behind the last
 *            ones 0, whose weights are 0
 *   windows  in scratch, int8 [pairs][chunks][2][16]
 *   rows     in scratch, int8 [(lines - 1) * stride_h + filter_h][row_bytes], the zero point around
 *            the image
 *
 * Order: `lines` rows of outputs at a time, whose windows are laid out first.
 *
 * Bounds: as in matmul_s8_2x4.h; `_gathered_windows()` checks that taps are bytes.
 *
 * Output: that of matmul_s8_2x4.h.
 *
 * Scratch: the windows, the rows.
 *
 * Cost: that of matmul_s8_2x4.h; 4 instructions a window and 7 a chunk of one that is gathered.
 * Measured (`hil bench --per-layer` on mps3-an547, instructions under QEMU) a MAC: 49x10x1 by 10x4
 * to 64, stride 2 (kws) 0.140, hil_mve_conv2d_s8_gathered_2x16 0.183.
 *
 * Tests: no twin in C; the numpy reference gives what must come out (tests/board/test_kernels.py,
 * buffers between guard bytes). Layout: tests/c/test_kernel_layouts.py.
 */
#ifndef HIL_KERNELS_MVE_CONV2D_S8_GATHERED_2X4_H
#define HIL_KERNELS_MVE_CONV2D_S8_GATHERED_2X4_H

#include <arm_mve.h>

#include "hil/kernels/mve/matmul_s8_2x4.h"

/*@kernel
name = "hil_mve_conv2d_s8_gathered_2x4"
requires = ["mve"]
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "32 * chunks * pairs + row_bytes * rows + 16"
order = ["rows lines"]
reads = "window"
code = 1090
shared = {hil_mve_passes = 730}
[cost]
block = "batch * ((out_h + lines - 1) // lines)"
row = "block * rows"
row_chunk = "row * ((row_bytes + 15) // 16)"
window = "batch * out_h * out_w"
window_chunk = "window * chunks"
line = "batch * out_h"
pair = "(window + block) // 2"
sixteen = "pair * ((columns + 15) // 16)"
sixteen_chunk = "sixteen * chunks"
masked = "sixteen * (columns % 16 > 0)"
clamped = "sixteen * (any % 2)"
late_narrowed = "sixteen * (1 - first)"
@*/
struct hil_mve_conv2d_s8_gathered_2x4 {
    HIL_IMAGES_FIELDS;
    int32_t filter_h;      /* rows of the filter */
    int32_t filter_w;      /* columns of the filter */
    int32_t stride_h;      /* input rows from a window to the one below it */
    int32_t stride_w;      /* input columns from a window to the next */
    int32_t pad_top;       /* rows by which the first window reaches above the image */
    int32_t pad_left;      /* columns by which the first window reaches beyond the image */
    int32_t in_zero_point; /* the input that stands for 0.0, which pixels outside the image have */
    int32_t lines;         /* rows of outputs at a time */
    int32_t pairs;         /* of windows at a time */
    int32_t rows;          /* of the image under them */
    int32_t row_bytes;     /* of such a row */
    const uint8_t *taps;   /* the head draws it */
    HIL_MVE_PIXELS_FIELDS;
};

/* The windows of a row of outputs, and where the next one goes; `*step` is from a window to the
 * next, which is the second of a pair or the first of one. */
HIL_INLINE int8_t *hil_mve_conv2d_pairs_gather(const struct hil_mve_conv2d_s8_gathered_2x4 *p,
                                               const int8_t *window, int8_t *to, int32_t *step) {
    const int32_t pair_bytes = 2 * HIL_MVE_CHUNK * p->chunks;
    const uint8x16_t first = vldrbq_u8(p->taps);
    const uint8x16_t second = vldrbq_u8(p->taps + HIL_MVE_CHUNK);
    const uint8x16_t third = vldrbq_u8(p->taps + (p->chunks > 2 ? 2 * HIL_MVE_CHUNK : 0));
    for (int32_t count = p->out_w; count > 0; count--) {
        vstrbq_s8(to, vldrbq_gather_offset_s8(window, first));
        vstrbq_s8(to + 2 * HIL_MVE_CHUNK, vldrbq_gather_offset_s8(window, second));
        if (p->chunks > 2) {
            vstrbq_s8(to + 4 * HIL_MVE_CHUNK, vldrbq_gather_offset_s8(window, third));
        }
        for (int32_t chunk = 3; chunk < p->chunks; chunk++) {
            const uint8x16_t taps = vldrbq_u8(p->taps + HIL_MVE_CHUNK * chunk);
            vstrbq_s8(to + 2 * HIL_MVE_CHUNK * chunk, vldrbq_gather_offset_s8(window, taps));
        }
        to += *step;
        *step = pair_bytes - *step;
        window += p->stride_w * p->in_c;
    }
    return to;
}

HIL_INLINE void hil_mve_conv2d_s8_gathered_2x4(const struct hil_mve_conv2d_s8_gathered_2x4 *p,
                                               const int8_t *in, int8_t *out, void *scratch) {
    hil_mve_pixels_function *const function =
        hil_mve_passes_of(p->chunks, p->columns, p->any, p->first);
    const int32_t line = p->stride_h * p->row_bytes;
    int8_t *const windows = (int8_t *)scratch;
    int8_t *const rows = windows + 2 * HIL_MVE_CHUNK * p->chunks * p->pairs;
    struct hil_mve_pixels pixels = HIL_MVE_PIXELS(p, HIL_MVE_CHUNK * p->chunks);
    const struct hil_mve_padded_rows padded = {
        .in_h = p->in_h,
        .line = p->in_w * p->in_c,
        .before = p->pad_left * p->in_c,
        .row_bytes = p->row_bytes,
        .zero_point = p->in_zero_point,
    };
    hil_mve_fill(rows, vdupq_n_s8((int8_t)p->in_zero_point),
                 (p->rows * p->row_bytes + HIL_MVE_CHUNK - 1) / HIL_MVE_CHUNK);
    for (int32_t images = p->batch; images > 0; images--) {
        int32_t y = -p->pad_top;
        for (int32_t left = p->out_h; left > 0; left -= p->lines) {
            const int32_t lines = left < p->lines ? left : p->lines;
            hil_mve_copy_rows(&padded, in, y, (lines - 1) * p->stride_h + p->filter_h, rows);
            int8_t *to = windows;
            int32_t step = HIL_MVE_CHUNK;
            for (int32_t n = 0; n < lines; n++) {
                to = hil_mve_conv2d_pairs_gather(p, rows + n * line, to, &step);
            }
            const int32_t count = lines * p->out_w;
            if (count % 2 != 0) {
                /* The last window is both of its pair. */
                const int8_t *const last = to - HIL_MVE_CHUNK;
                for (int32_t chunk = 0; chunk < p->chunks; chunk++) {
                    vstrbq_s8(to + 2 * HIL_MVE_CHUNK * chunk,
                              vldrbq_s8(last + 2 * HIL_MVE_CHUNK * chunk));
                }
            }
            hil_mve_passes(function, &pixels, windows, p->stream, out, count);
            out += count * p->columns;
            y += lines * p->stride_h;
        }
        in += p->in_h * p->in_w * p->in_c;
    }
}

#endif
