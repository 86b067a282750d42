/* Convolutions of int16 images with int8 weights: the pixels under two windows at a time, or under
 * one, are gathered into rows, which are multiplied with the filters. */
#ifndef HIL_KERNELS_MVE_CONV2D_S16_H
#define HIL_KERNELS_MVE_CONV2D_S16_H

#include "hil/kernels/generic/patch.h"
#include "hil/kernels/mve/columns_s16.h"
#include "hil/kernels/mve/split_s16.h"

/*@kernel
name = "hil_mve_conv2d_s16"
requires = ["mve"]
inputs = ["int16_t"]
outputs = ["int16_t"]
scratch = "32 * chunks + 4 * ((filter_h * filter_w * in_c + 1) // 2)"
order = ["pixels 2"]
reads = "window"
code = 1204
shared = {hil_mve_rows_s16 = 610}
[cost]
window = "batch * out_h * out_w"
window_row = "window * filter_h"
copied = "window * filter_h * filter_w * in_c"
four = "(window + 1) // 2 * ((columns + 3) // 4)"
chunk = "four * chunks"
@*/
struct hil_mve_conv2d_s16 {
    HIL_IMAGES_FIELDS;
    HIL_WINDOW_FIELDS;
    int32_t in_zero_point; /* of positions outside the image */
    HIL_MVE_COLUMNS_S16_FIELDS;
};

HIL_INLINE void hil_mve_conv2d_s16(const struct hil_mve_conv2d_s16 *p, const int16_t *in,
                                   int16_t *out, void *scratch) {
    const struct hil_mve_columns_s16 columns = HIL_MVE_COLUMNS_S16(p);
    const struct hil_patch window = HIL_PATCH_OF(p, (int32_t)sizeof(int16_t), p->in_zero_point);
    const int32_t depth = p->filter_h * p->filter_w * p->in_c;
    int16_t *const x = (int16_t *)scratch;
    int16_t *const gathered = x + HIL_MVE_S16_PAIR * p->chunks;
    for (int32_t images = p->batch; images > 0; images--) {
        int32_t row = -p->pad_top;
        int32_t column = -p->pad_left;
        int32_t at = 0;
        for (int32_t left = p->out_h * p->out_w; left > 0; left -= 2) {
            for (int32_t i = 0; i < 2; i++) {
                if (i < left) {
                    hil_gather_patch(&window, in, row, column, gathered);
                    column += p->stride_w;
                    if (++at == p->out_w) {
                        at = 0;
                        column = -p->pad_left;
                        row += p->stride_h;
                    }
                }
                hil_mve_place_s16(x + i * HIL_MVE_S16_CHUNK_SIZE, gathered, depth);
            }
            hil_mve_columns_s16(&columns, x, left, out);
            out += (left > 1 ? 2 : 1) * p->columns;
        }
        in += p->in_h * p->in_w * p->in_c;
    }
}

/*@kernel
name = "hil_mve_conv2d_s16_split"
requires = ["mve"]
inputs = ["int16_t"]
outputs = ["int16_t"]
scratch = "32 * chunks + 4 * ((filter_h * filter_w * in_c + 1) // 2)"
order = ["pixels 1"]
reads = "window"
code = 1240
shared = {hil_mve_rows_s16 = 610}
[cost]
window = "batch * out_h * out_w"
window_row = "window * filter_h"
copied = "window * filter_h * filter_w * in_c"
four = "window * ((columns + 3) // 4)"
chunk = "four * chunks"
@*/
struct hil_mve_conv2d_s16_split {
    HIL_IMAGES_FIELDS;
    HIL_WINDOW_FIELDS;
    int32_t in_zero_point; /* of positions outside the image */
    HIL_MVE_SPLIT_S16_FIELDS;
};

HIL_INLINE void hil_mve_conv2d_s16_split(const struct hil_mve_conv2d_s16_split *p,
                                         const int16_t *in, int16_t *out, void *scratch) {
    const struct hil_mve_split_s16 columns = HIL_MVE_SPLIT_S16(p);
    const struct hil_patch window = HIL_PATCH_OF(p, (int32_t)sizeof(int16_t), p->in_zero_point);
    const int32_t depth = p->filter_h * p->filter_w * p->in_c;
    int16_t *const gathered = (int16_t *)scratch;
    int8_t *const x = (int8_t *)scratch + 4 * ((depth + 1) / 2);
    hil_mve_clear_split_s16(x, depth, p->chunks);
    for (int32_t images = p->batch; images > 0; images--) {
        for (int32_t y = 0; y < p->out_h; y++) {
            for (int32_t column = 0; column < p->out_w; column++) {
                hil_gather_patch(&window, in, y * p->stride_h - p->pad_top,
                                 column * p->stride_w - p->pad_left, gathered);
                hil_mve_split_s16(x, gathered, depth);
                hil_mve_columns_of_split_s16(&columns, x, out);
                out += p->columns;
            }
        }
        in += p->in_h * p->in_w * p->in_c;
    }
}

#endif
