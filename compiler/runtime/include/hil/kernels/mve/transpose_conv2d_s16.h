/* Transposed convolutions of int16 images on Helium, phase by phase, two windows of a row at a
 * time. */
#ifndef HIL_KERNELS_MVE_TRANSPOSE_CONV2D_S16_H
#define HIL_KERNELS_MVE_TRANSPOSE_CONV2D_S16_H

#include "hil/kernels/generic/patch.h"
#include "hil/kernels/generic/phases.h"
#include "hil/kernels/mve/columns_s16.h"

/*@kernel
name = "hil_mve_transpose_conv2d_s16"
requires = ["mve"]
inputs = ["int16_t"]
outputs = ["int16_t"]
scratch = "32 * chunks + 16 * chunks + 4 * columns"
order = "none"
code = 1650
shared = {hil_mve_rows_s16 = 610}
[cost]
window = "batch * out_h * out_w"
copied = "batch * in_h * in_w * filter_h * filter_w * in_c"
output = "window * columns"
mac = "copied * columns"
@*/
struct hil_mve_transpose_conv2d_s16 {
    HIL_PHASES_FIELDS;
    int32_t in_zero_point; /* of positions outside the image */
    /* Of the deepest phase; the stream is that of all phases. */
    HIL_MVE_COLUMNS_S16_FIELDS;
};

HIL_INLINE void hil_mve_transpose_conv2d_s16(const struct hil_mve_transpose_conv2d_s16 *p,
                                             const int16_t *in, int16_t *out, void *scratch) {
    int16_t *const pair = (int16_t *)scratch;
    int16_t *const gathered = pair + HIL_MVE_S16_PAIR * p->chunks;
    int16_t *const made = gathered + HIL_MVE_S16_CHUNK_SIZE * p->chunks;
    for (int32_t images = p->batch; images > 0; images--) {
        for (int32_t i = 0; i < p->count; i++) {
            const struct hil_phase phase = hil_phase_of(p->phases + HIL_PHASE_WORDS * i);
            const int32_t depth = phase.filter_h * phase.filter_w * p->in_c;
            const struct hil_mve_columns_s16 columns = {
                .chunks = (depth + HIL_MVE_S16_CHUNK_SIZE - 1) / HIL_MVE_S16_CHUNK_SIZE,
                .columns = p->columns,
                .shifted = p->shifted,
                .out_min = p->out_min,
                .out_max = p->out_max,
                .stream = p->stream + phase.weights,
            };
            const struct hil_patch window = {
                .in_h = p->in_h,
                .in_w = p->in_w,
                .pixel_step = p->in_c * (int32_t)sizeof *in,
                .pixel_bytes = p->in_c * (int32_t)sizeof *in,
                .filter_h = phase.filter_h,
                .filter_w = phase.filter_w,
                .dilation_h = 1,
                .dilation_w = 1,
                .pad_value = p->in_zero_point,
                .pad_bytes = 2,
            };
            for (int32_t row = 0; row < phase.rows; row++) {
                const int32_t y = phase.out_y + row * p->stride_h;
                int16_t *at = out + (y * p->out_w + phase.out_x) * p->columns;
                int32_t x = phase.in_x;
                for (int32_t left = phase.columns; left > 0; left -= 2) {
                    const int32_t count = left < 2 ? left : 2;
                    for (int32_t pixel = 0; pixel < 2; pixel++) {
                        /* A single row is there twice. */
                        const int32_t own = pixel < left ? pixel : 0;
                        hil_gather_patch(&window, in, phase.in_y + row, x + own, gathered);
                        hil_mve_place_s16(pair + pixel * HIL_MVE_S16_CHUNK_SIZE, gathered, depth);
                    }
                    x += count;
                    hil_mve_columns_s16(&columns, pair, count, made);
                    for (int32_t pixel = 0; pixel < count; pixel++) {
                        memcpy(at, made + pixel * p->columns, (size_t)p->columns * sizeof *at);
                        at += p->stride_w * p->columns;
                    }
                }
            }
        }
        in += p->in_h * p->in_w * p->in_c;
        out += p->out_h * p->out_w * p->columns;
    }
}

#endif
