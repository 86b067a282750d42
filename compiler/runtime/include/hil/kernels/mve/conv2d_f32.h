/* Convolutions of float images: the pixels under six windows at a time are gathered into rows,
 * which are multiplied with the filters. */
#ifndef HIL_KERNELS_MVE_CONV2D_F32_H
#define HIL_KERNELS_MVE_CONV2D_F32_H

#include "hil/kernels/generic/lanes_f32.h"
#include "hil/kernels/mve/columns_f32.h"

/*@kernel
name = "hil_mve_conv2d_f32"
requires = ["mve", "fpu"]
inputs = ["float"]
outputs = ["float"]
scratch = "48 * units"
order = ["pixels 6"]
reads = "window"
code = 1904
shared = {hil_mve_rows_f32 = 716, hil_mve_few_rows_f32 = 532}
[cost]
pixels = "out_h * out_w"
window = "batch * pixels"
line = "window * filter_h"
copied = "line * filter_w * in_c"
six = "batch * ((pixels + 5) // 6)"
columns_of_four = "(columns + 3) // 4"
block = "six * columns_of_four"
unit = "batch * ((pixels + 1) // 6) * columns_of_four * units"
few = "(six - batch * ((pixels + 1) // 6)) * columns_of_four * units"
odd = "six * (columns - columns // 4 * 4)"
@*/
struct hil_mve_conv2d_f32 {
    HIL_IMAGES_FIELDS;
    HIL_WINDOW_FIELDS;
    HIL_MVE_COLUMNS_F32_FIELDS;
};

HIL_INLINE void hil_mve_conv2d_f32(const struct hil_mve_conv2d_f32 *p, const float *in, float *out,
                                   void *scratch) {
    const struct hil_mve_columns_f32 columns = HIL_MVE_COLUMNS_F32(p);
    const struct hil_windows windows = HIL_WINDOWS(p);
    float *const rows = (float *)scratch;
    for (int32_t images = p->batch; images > 0; images--) {
        struct hil_windows_at at = {-p->pad_top, -p->pad_left, 0};
        for (int32_t left = p->out_h * p->out_w; left > 0; left -= HIL_MVE_F32_ROWS) {
            const int32_t count = left < HIL_MVE_F32_ROWS ? left : HIL_MVE_F32_ROWS;
            for (int32_t row = 0; row < count; row++) {
                const int32_t placed = hil_lanes_gather(&windows, in, &at, rows + row,
                                                        hil_mve_place_f32, hil_mve_place_zeros_f32);
                hil_mve_place_zeros_f32(rows + row, placed, placed % 2);
                hil_windows_next(&windows, &at);
            }
            hil_mve_columns_f32(&columns, rows, count, out);
            out += count * p->columns;
        }
        in += p->in_h * p->in_w * p->in_c;
    }
}

#endif
