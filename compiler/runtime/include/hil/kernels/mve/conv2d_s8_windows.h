/* Convolutions of int8 images, and matrix products, whose windows have at most 32 values on Helium:
 * the windows of some rows of outputs are laid out first, in 8, 16 or 32 bytes each. Then two
 * filters at a time are multiplied by all of them, and the sums requantized as conv2d_s8_rows.h
 * does it, whatever the activation. */
#ifndef HIL_KERNELS_MVE_CONV2D_S8_WINDOWS_H
#define HIL_KERNELS_MVE_CONV2D_S8_WINDOWS_H

#include <arm_mve.h>

#include "hil/kernels/mve/conv2d_s8_rgb_copied.h"
#include "hil/kernels/mve/conv2d_s8_rows.h"

#define HIL_MVE_HALF (HIL_MVE_CHUNK / 2)

/* The stream, packed by `window_pairs()`, has for each pair of filters, in bytes:
 *
 *   +0    int32[8]    bias of filter 0 four times, of filter 1 four times
 *   +32   int8[4][16] weights: of 8 values [w, 0] and [0, w] of each filter, of 16 w of each and
 *                     zeros, of 32 both chunks of each
 *   +96   int32       multiplier 0, multiplier 1, shift 0, shift 1
 *
 * An odd last filter makes a pair with the one before it, a single one with itself. */
#define HIL_MVE_WINDOW_PAIR_BYTES 112

/* The columns of a layer of small windows. */
#define HIL_MVE_WINDOW_COLUMNS_FIELDS                                                              \
    int32_t bytes;   /* of a window that is laid out: 8, 16 or 32 */                               \
    int32_t columns; /* filters */                                                                 \
    int32_t any;     /* 1: outputs are clamped to less than int8 */                                \
    int32_t linear;  /* as in HIL_MVE_COLUMNS_FIELDS */                                            \
    HIL_OUTPUT_RANGE_FIELDS;                                                                       \
    const uint8_t *taps; /* where a window's values lie, from its first one; of 8 two windows' */  \
    const int8_t *stream /* the head draws it */

#define HIL_MVE_WINDOW_OUTPUTS(p)                                                                  \
    {                                                                                              \
        .columns = (p)->columns, .distance = (p)->columns, .zero_point = (p)->out_zero_point,      \
        .low = (p)->out_min, .high = (p)->out_max, .any = (p)->any, .linear = (p)->linear,         \
    }

/* `count` windows that are laid out, which are `step` bytes from each other; says where the next
 * one goes. */
HIL_INLINE int8_t *hil_mve_windows_gather(const uint8_t *taps, int32_t bytes, const int8_t *from,
                                          int32_t step, int32_t count, int8_t *to) {
    const uint8x16_t offsets = vldrbq_u8(taps);
    if (bytes == HIL_MVE_HALF) {
        for (int32_t pairs = count / 2; pairs > 0; pairs--) {
            vstrbq_s8(to, vldrbq_gather_offset_s8(from, offsets));
            from += 2 * step;
            to += HIL_MVE_CHUNK;
        }
        if (count % 2) {
            vstrbq_s8(to, vldrbq_gather_offset_z_s8(from, offsets, vctp8q(HIL_MVE_HALF)));
            to += HIL_MVE_HALF;
        }
        return to;
    }
    if (bytes == HIL_MVE_CHUNK) {
        for (; count > 0; count--) {
            vstrbq_s8(to, vldrbq_gather_offset_s8(from, offsets));
            from += step;
            to += HIL_MVE_CHUNK;
        }
        return to;
    }
    const uint8x16_t others = vldrbq_u8(taps + HIL_MVE_CHUNK);
    for (; count > 0; count--) {
        vstrbq_s8(to, vldrbq_gather_offset_s8(from, offsets));
        vstrbq_s8(to + HIL_MVE_CHUNK, vldrbq_gather_offset_s8(from, others));
        from += step;
        to += 2 * HIL_MVE_CHUNK;
    }
    return to;
}

/* All outputs of `count` windows that are laid out; what lies behind them gives sums that are not
 * stored. */
HIL_INLINE void hil_mve_windows_outputs(const struct hil_mve_line_outputs *outputs, int32_t bytes,
                                        const int8_t *stream, int8_t *windows, int32_t *sums,
                                        int8_t *out, int32_t count) {
    hil_mve_shallow_function *const function = bytes == HIL_MVE_HALF    ? hil_mve_shallow_8
                                               : bytes == HIL_MVE_CHUNK ? hil_mve_shallow_16
                                                                        : hil_mve_windows_sums;
    const struct hil_mve_line_walk walk = {
        .lines = 1,
        .windows = count,
        .sums_step = 0,
        .out_step = 0,
    };
    for (int32_t column = 0; column < outputs->columns; column += 2) {
        function(windows, stream, sums, (count + 15) / 16, windows);
        stream += HIL_MVE_WINDOW_PAIR_BYTES;
        const void *const scales_end = stream;
        const int32_t *const scale = (const int32_t *)scales_end - 4;
        hil_mve_lines_outputs(outputs, sums, scale, out + hil_mve_pair_at(column, outputs->columns),
                              &walk);
    }
}

/*@kernel
name = "hil_mve_conv2d_s8_windows"
requires = ["mve"]
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "(8 + bytes) * ((lines * out_w + 15) // 16 * 16) + row_bytes * rows + 16"
order = ["rows lines"]
reads = "window"
code = 1650
shared = {hil_mve_near_line_outputs = 720, hil_mve_windows_sums = 366}
[cost]
block = "batch * ((out_h + lines - 1) // lines)"
row = "block * rows"
row_chunk = "row * ((row_bytes + 15) // 16)"
line = "batch * out_h"
window_chunk = "line * out_w * bytes // 16"
pair = "block * ((columns + 1) // 2)"
sixteen = "pair * ((lines * out_w + 15) // 16)"
sixteen_bytes = "sixteen * bytes"
four = "batch * out_h * out_w * ((columns + 1) // 2) // 4"
linear_four = "four * (linear == 1)"
clamped_four = "four * any"
@*/
struct hil_mve_conv2d_s8_windows {
    HIL_IMAGES_FIELDS;
    HIL_WINDOW_FIELDS;
    int32_t in_zero_point; /* the input that stands for 0.0, which pixels outside the image have */
    int32_t lines;         /* rows of outputs at a time */
    int32_t rows;          /* of the image under them */
    int32_t row_bytes;     /* of such a row, at most as far as windows reach */
    HIL_MVE_WINDOW_COLUMNS_FIELDS;
};

HIL_INLINE void hil_mve_conv2d_s8_windows(const struct hil_mve_conv2d_s8_windows *p,
                                          const int8_t *in, int8_t *out, void *scratch) {
    const struct hil_mve_line_outputs outputs = HIL_MVE_WINDOW_OUTPUTS(p);
    const int32_t most = (p->lines * p->out_w + 15) / 16 * 16;
    int32_t *const sums = (int32_t *)scratch;
    int8_t *const windows = (int8_t *)scratch + 8 * most;
    int8_t *const rows = windows + p->bytes * most;
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
            const int32_t unused = (p->lines - lines) * p->stride_h;
            hil_mve_copy_rows(&padded, in, y, p->rows - unused, rows);
            int8_t *to = windows;
            for (int32_t n = 0; n < lines; n++) {
                to =
                    hil_mve_windows_gather(p->taps, p->bytes, rows + n * p->stride_h * p->row_bytes,
                                           p->stride_w * p->in_c, p->out_w, to);
            }
            const int32_t count = lines * p->out_w;
            hil_mve_windows_outputs(&outputs, p->bytes, p->stream, windows, sums, out, count);
            out += count * p->columns;
            y += lines * p->stride_h;
        }
        in += p->in_h * p->in_w * p->in_c;
    }
}

/*@kernel
name = "hil_mve_matmul_s8_windows"
requires = ["mve"]
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "(8 + bytes) * block"
order = ["pixels block"]
reads = "rows"
code = 1306
shared = {hil_mve_near_line_outputs = 720, hil_mve_shallow = 222}
[cost]
part = "(rows + block - 1) // block"
window_chunk = "rows * bytes // 16"
pair = "part * ((columns + 1) // 2)"
sixteen = "(rows + 15) // 16 * ((columns + 1) // 2)"
sixteen_bytes = "sixteen * bytes"
four = "rows * ((columns + 1) // 2) // 4"
linear_four = "four * (linear == 1)"
clamped_four = "four * any"
@*/
struct hil_mve_matmul_s8_windows {
    int32_t rows;  /* rows of the input, and of the output */
    int32_t depth; /* elements of a row, at most 32 */
    int32_t block; /* rows at a time, whole sixteens */
    HIL_MVE_WINDOW_COLUMNS_FIELDS;
};

HIL_INLINE void hil_mve_matmul_s8_windows(const struct hil_mve_matmul_s8_windows *p,
                                          const int8_t *in, int8_t *out, void *scratch) {
    const struct hil_mve_line_outputs outputs = HIL_MVE_WINDOW_OUTPUTS(p);
    int32_t *const sums = (int32_t *)scratch;
    int8_t *const windows = (int8_t *)scratch + 8 * p->block;
    for (int32_t row = 0; row < p->rows; row += p->block) {
        const int32_t left = p->rows - row;
        const int32_t rows = left < p->block ? left : p->block;
        if (p->depth == p->bytes) {
            hil_mve_copy_chunks(windows, in, rows * p->depth, HIL_MVE_CHUNK);
        } else {
            hil_mve_windows_gather(p->taps, p->bytes, in, p->depth, rows, windows);
        }
        hil_mve_windows_outputs(&outputs, p->bytes, p->stream, windows, sums, out, rows);
        in += rows * p->depth;
        out += rows * p->columns;
    }
}

#endif
