/* Convolutions of float images: the pixels under four windows at a time are gathered into rows,
 * which are multiplied with the filters. */
#ifndef HIL_KERNELS_FPU_CONV2D_F32_H
#define HIL_KERNELS_FPU_CONV2D_F32_H

#include "hil/kernels/fpu/columns_f32.h"
#include "hil/kernels/generic/fields.h"

/*@kernel
name = "hil_fpu_conv2d_f32"
requires = ["dsp", "fpu"]
inputs = ["float"]
outputs = ["float"]
scratch = "32 * units"
order = ["pixels 4"]
reads = "window"
code = 2600
[cost.counts]
window = "batch * out_h * out_w"
line = "window * filter_h"
copied = "line * filter_w * in_c"
four = "batch * ((out_h * out_w + 3) // 4)"
block = "four * ((columns + 3) // 4)"
unit = "block * units"
[cost.on.cortex-m4]
window = 30
line = 30
copied = 0.9
four = 60
block = 60
unit = 34.6
@*/
struct hil_fpu_conv2d_f32 {
    HIL_IMAGES_FIELDS;
    HIL_WINDOW_FIELDS;
    HIL_FPU_COLUMNS_F32_FIELDS;
};

/* Places what is under the window whose first tap is at row y and column x. */
HIL_INLINE void hil_fpu_gather_f32(const struct hil_fpu_conv2d_f32 *p, const float *in, int32_t y,
                                   int32_t x, float *lane) {
    const int32_t line = p->filter_w * p->in_c;
    int32_t k = 0;
    for (int32_t rows = p->filter_h; rows > 0; rows--, y += p->dilation_h) {
        if (y < 0 || y >= p->in_h) {
            k = hil_fpu_place_zeros(lane, k, line);
            continue;
        }
        const float *const row = in + y * p->in_w * p->in_c;
        /* As many columns at a time as lie next to each other. */
        const int32_t most = p->dilation_w == 1 ? p->filter_w : 1;
        int32_t column = x;
        for (int32_t left = p->filter_w; left > 0;) {
            int32_t many = 1;
            if (column < 0 || column >= p->in_w) {
                k = hil_fpu_place_zeros(lane, k, p->in_c);
            } else {
                many = left < most ? left : most;
                many = p->in_w - column < many ? p->in_w - column : many;
                k = hil_fpu_place(lane, k, row + column * p->in_c, many * p->in_c);
            }
            left -= many;
            column += many * p->dilation_w;
        }
    }
    hil_fpu_place_zeros(lane, k, k % 2);
}

HIL_INLINE void hil_fpu_conv2d_f32(const struct hil_fpu_conv2d_f32 *p, const float *in, float *out,
                                   void *scratch) {
    const struct hil_fpu_columns_f32 columns = HIL_FPU_COLUMNS_F32(p);
    float *const rows = (float *)scratch;
    for (int32_t images = p->batch; images > 0; images--) {
        int32_t y = -p->pad_top;
        int32_t x = -p->pad_left;
        int32_t at = 0;
        for (int32_t left = p->out_h * p->out_w; left > 0; left -= 4) {
            const int32_t count = left < 4 ? left : 4;
            for (int32_t row = 0; row < count; row++) {
                hil_fpu_gather_f32(p, in, y, x, rows + 2 * row);
                x += p->stride_w;
                if (++at == p->out_w) {
                    at = 0;
                    x = -p->pad_left;
                    y += p->stride_h;
                }
            }
            hil_fpu_columns_f32(&columns, rows, count, out);
            out += count * p->columns;
        }
        in += p->in_h * p->in_w * p->in_c;
    }
}

#endif
