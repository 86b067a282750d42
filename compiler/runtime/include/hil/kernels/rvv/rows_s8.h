/* Windows of int8 images as rows for emitted kernels with vectors. */
#ifndef HIL_KERNELS_RVV_ROWS_S8_H
#define HIL_KERNELS_RVV_ROWS_S8_H

#include "hil/kernels/generic/patch.h"
#include "hil/rvv.h"

/* Where the next window of a convolution is. */
struct hil_rvv_windows {
    int32_t out_w;
    int32_t stride_h;
    int32_t stride_w;
    int32_t pad_left;
    int32_t y;
    int32_t x;
    int32_t column;
};

/* The windows of a kernel whose parameters are `p`. */
#define HIL_RVV_WINDOWS_OF(p)                                                                      \
    {                                                                                              \
        .out_w = (p)->out_w, .stride_h = (p)->stride_h, .stride_w = (p)->stride_w,                 \
        .pad_left = (p)->pad_left, .y = -(p)->pad_top, .x = -(p)->pad_left, .column = 0            \
    }

/* The next `count` windows, each in `depth` bytes. */
HIL_INLINE void hil_rvv_gather(const struct hil_patch *patch, struct hil_rvv_windows *w,
                               const int8_t *image, int32_t count, int32_t depth, int8_t *to) {
    for (int32_t i = 0; i < count; i++) {
        hil_gather_patch(patch, image, w->y, w->x, to);
        to += depth;
        w->x += w->stride_w;
        if (++w->column == w->out_w) {
            w->column = 0;
            w->x = -w->pad_left;
            w->y += w->stride_h;
        }
    }
}

#endif
