/* Convolution of int8 images: the pixels under four windows are gathered, each window's into a row,
 * and multiplied with all filters. */
#ifndef HIL_KERNELS_MVE_CONV2D_S8_H
#define HIL_KERNELS_MVE_CONV2D_S8_H

#include "hil/kernels/generic/patch.h"
#include "hil/kernels/mve/columns_s8.h"

/*@kernel
name = "hil_mve_conv2d_s8"
requires = ["mve"]
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "80 * chunks + 16"
order = ["pixels 1 + 3 * (1 // batch)"] # four may be of two images
reads = "window"
code = 1632
shared = {hil_mve_rows_s8 = 548}
[cost]
tile = "(batch * out_h * out_w + 3) // 4"
gathered_row = "4 * tile * filter_h"
gathered_chunk = "4 * tile * chunks"
pair = "tile * (pairs + odd)"
pair_chunk = "pair * chunks"
linear_pair = "pair * (linear == 1)"
@*/
struct hil_mve_conv2d_s8 {
    HIL_IMAGES_FIELDS;
    HIL_WINDOW_FIELDS;
    int32_t in_zero_point; /* the input that stands for 0.0, which pixels outside the image have */
    int32_t run_step; /* of a gathered row, from the pixels under a row of the filter to those under
                       * the next: as many as there are, or, without dilation, whole chunks */
    HIL_MVE_COLUMNS_FIELDS;
};

/* The same of a window that reaches beyond the image, without dilation along rows, as
 * linear[filter_h][run_step]. */
HIL_INLINE void hil_mve_conv2d_s8_border(const struct hil_mve_conv2d_s8 *p, const int8_t *image,
                                         int32_t y, int32_t x, int8_t *linear) {
    const int8x16_t around = vdupq_n_s8((int8_t)p->in_zero_point);
#pragma GCC unroll 4
    for (int32_t chunk = 0; chunk < p->chunks; chunk++) {
        vstrbq_s8(linear + HIL_MVE_CHUNK * chunk, around);
    }
    const int32_t begin = x < 0 ? 0 : x;
    const int32_t end = x + p->filter_w < p->in_w ? x + p->filter_w : p->in_w;
    int8_t *row = linear + (begin - x) * p->in_c;
    for (int32_t i = p->filter_h; i > 0; i--) {
        if (y >= 0 && y < p->in_h) {
            const int8_t *from = image + (y * p->in_w + begin) * p->in_c;
            int8_t *to = row;
            for (int32_t left = (end - begin) * p->in_c; left > 0; left -= HIL_MVE_CHUNK) {
                const mve_pred16_t inside = vctp8q((uint32_t)left);
                vstrbq_p_s8(to, vldrbq_z_s8(from, inside), inside);
                to += HIL_MVE_CHUNK;
                from += HIL_MVE_CHUNK;
            }
        }
        row += p->run_step;
        y += p->dilation_h;
    }
}

/* The window whose first tap is at row y and column x of the image, as row `row` of the group. */
HIL_INLINE void hil_mve_conv2d_s8_gather(const struct hil_mve_conv2d_s8 *p, const int8_t *image,
                                         int32_t y, int32_t x, int8_t *group, int32_t row) {
    const int32_t depth = p->filter_h * p->run_step;
    const int32_t run = p->filter_w * p->in_c;
    int8_t *const linear = group + HIL_MVE_GROUP_BYTES * p->chunks;
    if (p->dilation_w == 1 && y >= 0 && y + (p->filter_h - 1) * p->dilation_h < p->in_h && x >= 0 &&
        x + p->filter_w <= p->in_w) {
        const int8_t *from = image + (y * p->in_w + x) * p->in_c;
        const int32_t step = p->dilation_h * p->in_w * p->in_c;
        if (p->run_step % HIL_MVE_CHUNK == 0) {
            int8_t *to = group + HIL_MVE_CHUNK * row;
            for (int32_t i = p->filter_h; i > 0; i--) {
                to = hil_mve_copy_chunks(to, from, run, HIL_MVE_GROUP_BYTES);
                from += step;
            }
            return;
        }
        /* A run's last chunk reaches into the next run, which comes after it, or into the 16 bytes
         * behind the last one. */
        int8_t *to = linear;
        for (int32_t i = p->filter_h; i > 0; i--) {
            hil_mve_copy_chunks(to, from, run, HIL_MVE_CHUNK);
            to += run;
            from += step;
        }
    } else if (p->dilation_w == 1) {
        hil_mve_conv2d_s8_border(p, image, y, x, linear);
    } else {
        const struct hil_patch window = HIL_PATCH_OF(p, 1, p->in_zero_point);
        hil_gather_patch(&window, image, y, x, linear);
    }
    hil_mve_place_row(group, row, linear, depth);
}

/* Bytes under a window that lie together: those of a row of the filter, or of a pixel. */
HIL_INLINE int32_t hil_mve_conv2d_s8_run(const struct hil_mve_conv2d_s8 *p) {
    return p->dilation_w == 1 ? p->filter_w * p->in_c : p->in_c;
}

/* Four windows next to each other, none of which reaches beyond the image, where runs are whole
 * chunks. */
HIL_INLINE void hil_mve_conv2d_s8_gather_four(const struct hil_mve_conv2d_s8 *p, const int8_t *from,
                                              int8_t *group) {
    const int32_t run = hil_mve_conv2d_s8_run(p);
    const int32_t step = p->stride_w * p->in_c;
    for (int32_t i = p->filter_h; i > 0; i--) {
        const int8_t *begin = from;
        for (int32_t taps = p->dilation_w == 1 ? 1 : p->filter_w; taps > 0; taps--) {
            group = hil_mve_place_four(group, begin, run, step);
            begin += p->dilation_w * p->in_c;
        }
        from += p->dilation_h * p->in_w * p->in_c;
    }
}

HIL_INLINE void hil_mve_conv2d_s8(const struct hil_mve_conv2d_s8 *p, const int8_t *in, int8_t *out,
                                  void *scratch) {
    struct hil_mve_columns columns = HIL_MVE_COLUMNS(p);
    hil_mve_columns_rows(&columns, HIL_MVE_ROWS_AT_ONCE);
    int8_t *const group = (int8_t *)scratch;
    int32_t gathered = 0;
    const int whole_chunks =
        p->run_step % HIL_MVE_CHUNK == 0 && (p->dilation_w == 1 || p->in_c % HIL_MVE_CHUNK == 0);
    const int32_t last_x = p->in_w - 1 - (p->filter_w - 1) * p->dilation_w - 3 * p->stride_w;
    const int32_t last_y = p->in_h - 1 - (p->filter_h - 1) * p->dilation_h;
    for (int32_t images = p->batch; images > 0; images--) {
        int32_t y = -p->pad_top;
        for (int32_t out_y = p->out_h; out_y > 0; out_y--) {
            int32_t x = -p->pad_left;
            for (int32_t out_x = p->out_w; out_x > 0; out_x--) {
                if (whole_chunks && gathered == 0 && out_x >= HIL_MVE_ROWS_AT_ONCE && x >= 0 &&
                    x <= last_x && y >= 0 && y <= last_y) {
                    hil_mve_conv2d_s8_gather_four(p, in + (y * p->in_w + x) * p->in_c, group);
                    hil_mve_columns_s8(&columns, p->linear, group, out);
                    out += HIL_MVE_ROWS_AT_ONCE * p->row_step;
                    x += HIL_MVE_ROWS_AT_ONCE * p->stride_w;
                    out_x -= HIL_MVE_ROWS_AT_ONCE - 1;
                    continue;
                }
                hil_mve_conv2d_s8_gather(p, in, y, x, group, gathered);
                x += p->stride_w;
                gathered++;
                if (gathered == HIL_MVE_ROWS_AT_ONCE) {
                    gathered = 0;
                    hil_mve_columns_s8(&columns, p->linear, group, out);
                    out += HIL_MVE_ROWS_AT_ONCE * p->row_step;
                }
            }
            y += p->stride_h;
        }
        in += p->in_h * p->in_w * p->in_c;
    }
    if (gathered != 0) {
        /* The rows that are missing repeat the first one. */
        for (int32_t row = gathered; row < HIL_MVE_ROWS_AT_ONCE; row++) {
            for (int32_t chunk = 0; chunk < p->chunks; chunk++) {
                int8_t *const four = group + HIL_MVE_GROUP_BYTES * chunk;
                vstrbq_s8(four + HIL_MVE_CHUNK * row, vldrbq_s8(four));
            }
        }
        hil_mve_columns_rows(&columns, gathered);
        hil_mve_columns_s8(&columns, p->linear, group, out);
    }
}

#endif
