/* Transposed convolutions of int8 images on Helium, phase by phase, four windows of a row at a
 * time. */
#ifndef HIL_KERNELS_MVE_TRANSPOSE_CONV2D_S8_H
#define HIL_KERNELS_MVE_TRANSPOSE_CONV2D_S8_H

#include "hil/kernels/generic/patch.h"
#include "hil/kernels/generic/phases.h"
#include "hil/kernels/mve/columns_s8.h"

/*@kernel
name = "hil_mve_transpose_conv2d_s8"
requires = ["mve"]
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "64 * chunks + 16 * chunks"
order = "none"
code = 1500
shared = {hil_mve_rows_s8 = 548}
[cost]
window = "batch * out_h * out_w"
copied = "batch * in_h * in_w * filter_h * filter_w * in_c"
output = "window * out_c"
mac = "copied * out_c"
@*/
struct hil_mve_transpose_conv2d_s8 {
    HIL_PHASES_FIELDS;
    int32_t in_zero_point; /* the input that stands for 0.0, which pixels outside the image have */
    /* Of the deepest phase; the stream is that of all phases. */
    HIL_MVE_COLUMNS_FIELDS;
};

/* Places four windows next to each other, from row y and column x of the image on; returns 0 if one
 * reaches beyond the image, or if runs are not whole chunks. */
HIL_INLINE int hil_mve_transpose_four(const struct hil_patch *window, const int8_t *image,
                                      int32_t y, int32_t x, int8_t *group) {
    const int32_t run = window->filter_w * window->pixel_bytes;
    if (y < 0 || y + window->filter_h > window->in_h || x < 0 ||
        x + window->filter_w + HIL_MVE_ROWS_AT_ONCE - 1 > window->in_w ||
        (window->filter_h > 1 && run % HIL_MVE_CHUNK != 0)) {
        return 0;
    }
    const int8_t *from = image + (y * window->in_w + x) * window->pixel_bytes;
    for (int32_t rows = window->filter_h; rows > 0; rows--) {
        group = hil_mve_place_four(group, from, run, window->pixel_bytes);
        from += window->in_w * window->pixel_bytes;
    }
    return 1;
}

HIL_INLINE void hil_mve_transpose_conv2d_s8(const struct hil_mve_transpose_conv2d_s8 *p,
                                            const int8_t *in, int8_t *out, void *scratch) {
    int8_t *const group = (int8_t *)scratch;
    int8_t *const gathered = group + HIL_MVE_GROUP_BYTES * p->chunks;
    for (int32_t images = p->batch; images > 0; images--) {
        for (int32_t i = 0; i < p->count; i++) {
            const struct hil_phase phase = hil_phase_of(p->phases + HIL_PHASE_WORDS * i);
            const int32_t depth = phase.filter_h * phase.filter_w * p->in_c;
            struct hil_mve_transpose_conv2d_s8 own = *p;
            own.chunks = (depth + HIL_MVE_CHUNK - 1) / HIL_MVE_CHUNK;
            own.stream = p->stream + phase.weights;
            struct hil_mve_columns columns = HIL_MVE_COLUMNS(&own);
            const struct hil_patch window = {
                .in_h = p->in_h,
                .in_w = p->in_w,
                .pixel_step = p->in_c,
                .pixel_bytes = p->in_c,
                .filter_h = phase.filter_h,
                .filter_w = phase.filter_w,
                .dilation_h = 1,
                .dilation_w = 1,
                .pad_value = p->in_zero_point,
                .pad_bytes = 1,
            };
            for (int32_t row = 0; row < phase.rows; row++) {
                const int32_t y = phase.out_y + row * p->stride_h;
                int8_t *to = out + (y * p->out_w + phase.out_x) * p->out_c;
                int32_t x = phase.in_x;
                hil_mve_columns_rows(&columns, HIL_MVE_ROWS_AT_ONCE);
                for (int32_t left = phase.columns; left > 0; left -= HIL_MVE_ROWS_AT_ONCE) {
                    const int32_t count = left < HIL_MVE_ROWS_AT_ONCE ? left : HIL_MVE_ROWS_AT_ONCE;
                    if (left >= HIL_MVE_ROWS_AT_ONCE &&
                        hil_mve_transpose_four(&window, in, phase.in_y + row, x, group)) {
                        x += count;
                        hil_mve_columns_s8(&columns, p->linear, group, to);
                        to += count * p->row_step;
                        continue;
                    }
                    for (int32_t lane = 0; lane < HIL_MVE_ROWS_AT_ONCE; lane++) {
                        /* Places beyond the last window are the first one's again. */
                        const int32_t taken = lane < left ? lane : 0;
                        hil_gather_patch(&window, in, phase.in_y + row, x + taken, gathered);
                        hil_mve_place_row(group, lane, gathered, depth);
                    }
                    x += count;
                    if (count < HIL_MVE_ROWS_AT_ONCE) {
                        hil_mve_columns_rows(&columns, count);
                    }
                    hil_mve_columns_s8(&columns, p->linear, group, to);
                    to += count * p->row_step;
                }
            }
        }
        in += p->in_h * p->in_w * p->in_c;
        out += p->out_h * p->out_w * p->out_c;
    }
}

#endif
