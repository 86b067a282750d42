/* Convolutions of int16 images with int8 weights: the pixels under some windows are gathered into
 * rows, which are multiplied with the filters. */
#ifndef HIL_KERNELS_DSP_CONV2D_S16_H
#define HIL_KERNELS_DSP_CONV2D_S16_H

#include "hil/kernels/dsp/columns_s16.h"
#include "hil/kernels/generic/patch.h"

/*@kernel
name = "hil_dsp_conv2d_s16"
requires = ["dsp"]
inputs = ["int16_t"]
outputs = ["int16_t"]
scratch = "8 * units * group + 16 * units + 8 * filter_h * filter_w * in_c"
order = ["pixels group"]
reads = "window"
code = 1400
[cost]
window = "batch * out_h * out_w"
copied = "window * filter_h * filter_w * in_c"
block = "(window + group - 1) // group"
block_pair = "block * ((columns + 1) // 2)"
widened = "block_pair * units * (1 - wide)"
tile = "((columns + 1) // 2) * ((window + 1) // 2)"
unit = "tile * units"
long_tile = "tile * long_sums"
long_unit = "unit * long_sums"
@*/
struct hil_dsp_conv2d_s16 {
    HIL_IMAGES_FIELDS;
    HIL_WINDOW_FIELDS;
    int32_t in_zero_point; /* of positions outside the image */
    HIL_DSP_COLUMNS_S16_FIELDS;
};

HIL_INLINE void hil_dsp_conv2d_s16(const struct hil_dsp_conv2d_s16 *p, const int16_t *in,
                                   int16_t *out, void *scratch) {
    const struct hil_dsp_columns_s16 columns = HIL_DSP_COLUMNS_S16(p);
    const struct hil_patch window = HIL_PATCH_OF(p, (int32_t)sizeof(int16_t), p->in_zero_point);
    const int32_t depth = p->filter_h * p->filter_w * p->in_c;
    uint32_t *const rows = (uint32_t *)scratch;
    /* Behind the rows and the widened columns: two windows, at multiples of four bytes. */
    void *const behind = rows + HIL_DSP_S16_ROWS_WORDS(p) + 4 * p->units;
    int16_t *const gathered = (int16_t *)behind;
    int16_t *const second = gathered + (depth + 1) / 2 * 2;
    for (int32_t images = p->batch; images > 0; images--) {
        const int32_t pixels = p->out_h * p->out_w;
        int32_t y = -p->pad_top;
        int32_t x = -p->pad_left;
        int32_t at = 0;
        for (int32_t left = pixels; left > 0; left -= p->group) {
            const int32_t count = left < p->group ? left : p->group;
            uint32_t *to = rows;
            for (int32_t row = 0; row < count; row++) {
                hil_gather_patch(&window, in, y, x, row % 2 == 0 ? gathered : second);
                x += p->stride_w;
                if (++at == p->out_w) {
                    at = 0;
                    x = -p->pad_left;
                    y += p->stride_h;
                }
                if (row % 2 != 0) {
                    to = hil_dsp_s16_place(gathered, second, depth, to);
                } else if (row + 1 == count) {
                    to = hil_dsp_s16_place(gathered, gathered, depth, to);
                }
            }
            hil_dsp_columns_s16(&columns, rows, count, out);
            out += count * p->columns;
        }
        in += p->in_h * p->in_w * p->in_c;
    }
}

#endif
