/* Convolution of int8 images: the pixels under four windows are gathered, each window's into a row,
 * and multiplied with all filters. */
#ifndef HIL_KERNELS_MVE_CONV2D_S8_H
#define HIL_KERNELS_MVE_CONV2D_S8_H

#include "hil/kernels/generic/patch.h"
#include "hil/kernels/mve/columns_s8.h"

/*@kernel
name = "hil_conv2d_s8_mve"
requires = ["mve"]
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "80 * chunks + 16"
order = "none"
@*/
struct hil_conv2d_s8_mve {
    int32_t batch;
    int32_t in_h;
    int32_t in_w;
    int32_t in_c;
    int32_t out_h;
    int32_t out_w;
    int32_t filter_h;
    int32_t filter_w;
    int32_t stride_h;
    int32_t stride_w;
    int32_t dilation_h;
    int32_t dilation_w;
    int32_t pad_top;
    int32_t pad_left;
    int32_t in_zero_point;
    HIL_MVE_COLUMNS_FIELDS;
};

/* The window whose first tap is at row y and column x of the image, as row `row` of the group. What
 * lies outside the image is gathered byte by byte; few windows reach there. */
HIL_INLINE void hil_conv2d_s8_mve_gather(const struct hil_conv2d_s8_mve *p, const int8_t *image,
                                         int32_t y, int32_t x, int8_t *group, int32_t row) {
    const int32_t depth = p->filter_h * p->filter_w * p->in_c;
    const int32_t run = p->filter_w * p->in_c;
    int8_t *const linear = group + HIL_MVE_GROUP_BYTES * p->chunks;
    if (p->dilation_w == 1 && y >= 0 && y + (p->filter_h - 1) * p->dilation_h < p->in_h && x >= 0 &&
        x + p->filter_w <= p->in_w) {
        const int8_t *from = image + (y * p->in_w + x) * p->in_c;
        const int32_t step = p->dilation_h * p->in_w * p->in_c;
        if (run % HIL_MVE_CHUNK == 0) {
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
    } else {
        const struct hil_patch window = {
            .in_h = p->in_h,
            .in_w = p->in_w,
            .pixel_step = p->in_c,
            .pixel_bytes = p->in_c,
            .filter_h = p->filter_h,
            .filter_w = p->filter_w,
            .dilation_h = p->dilation_h,
            .dilation_w = p->dilation_w,
            .fill = p->in_zero_point,
        };
        hil_gather_patch(&window, image, y, x, linear);
    }
    hil_mve_place_row(group, row, linear, depth);
}

HIL_INLINE void hil_conv2d_s8_mve(const struct hil_conv2d_s8_mve *p, const int8_t *in, int8_t *out,
                                  void *scratch) {
    struct hil_mve_columns columns = HIL_MVE_COLUMNS(p);
    hil_mve_columns_rows(&columns, HIL_MVE_ROWS_AT_ONCE);
    int8_t *const group = scratch;
    int32_t gathered = 0;
    for (int32_t images = p->batch; images > 0; images--) {
        int32_t y = -p->pad_top;
        for (int32_t out_y = p->out_h; out_y > 0; out_y--) {
            int32_t x = -p->pad_left;
            for (int32_t out_x = p->out_w; out_x > 0; out_x--) {
                hil_conv2d_s8_mve_gather(p, in, y, x, group, gathered);
                x += p->stride_w;
                gathered++;
                if (gathered == HIL_MVE_ROWS_AT_ONCE) {
                    gathered = 0;
                    hil_mve_columns_s8(&columns, group, out);
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
        hil_mve_columns_s8(&columns, group, out);
    }
}

#endif
