/* Convolutions of float images: the pixels under four windows at a time are gathered into rows,
 * which are multiplied with the filters. */
#ifndef HIL_KERNELS_FPU_CONV2D_F32_H
#define HIL_KERNELS_FPU_CONV2D_F32_H

#include "hil/kernels/fpu/columns_f32.h"
#include "hil/kernels/generic/lanes_f32.h"

/*@kernel
name = "hil_fpu_conv2d_f32"
requires = ["dsp", "fpu"]
inputs = ["float"]
outputs = ["float"]
scratch = "32 * units"
order = ["pixels 4"]
reads = "window"
code = 2060
[cost]
window = "batch * out_h * out_w"
line = "window * filter_h"
copied = "line * filter_w * in_c"
four = "batch * ((out_h * out_w + 3) // 4)"
block = "four * ((columns + 3) // 4)"
unit = "block * units"
@*/
struct hil_fpu_conv2d_f32 {
    HIL_IMAGES_FIELDS;
    HIL_WINDOW_FIELDS;
    HIL_FPU_COLUMNS_F32_FIELDS;
};

HIL_INLINE void hil_fpu_conv2d_f32(const struct hil_fpu_conv2d_f32 *p, const float *in, float *out,
                                   void *scratch) {
    const struct hil_fpu_columns_f32 columns = HIL_FPU_COLUMNS_F32(p);
    const struct hil_windows windows = HIL_WINDOWS(p);
    float *const rows = (float *)scratch;
    for (int32_t images = p->batch; images > 0; images--) {
        struct hil_windows_at at = {-p->pad_top, -p->pad_left, 0};
        for (int32_t left = p->out_h * p->out_w; left > 0; left -= 4) {
            const int32_t count = left < 4 ? left : 4;
            for (int32_t row = 0; row < count; row++) {
                float *const lane = rows + 2 * row;
                const int32_t k =
                    hil_lanes_gather(&windows, in, &at, lane, hil_fpu_place, hil_fpu_place_zeros);
                hil_fpu_place_zeros(lane, k, k % 2);
                hil_windows_next(&windows, &at);
            }
            hil_fpu_columns_f32(&columns, rows, count, out);
            out += count * p->columns;
        }
        in += p->in_h * p->in_w * p->in_c;
    }
}

#endif
