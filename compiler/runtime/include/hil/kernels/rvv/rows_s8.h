/* Windows of int8 images as rows for emitted kernels with vectors. */
#ifndef HIL_KERNELS_RVV_ROWS_S8_H
#define HIL_KERNELS_RVV_ROWS_S8_H

#include "hil/kernels/generic/fields.h"
#include "hil/rvv.h"

/* The windows of a convolution, and where the next is. */
struct hil_rvv_windows {
    int32_t in_h;
    int32_t in_w;
    int32_t in_c;
    int32_t out_w;
    int32_t filter_h;
    int32_t filter_w;
    int32_t stride_h;
    int32_t stride_w;
    int32_t dilation_h;
    int32_t dilation_w;
    int32_t pad_left;
    int32_t in_zero_point;
    int32_t y;
    int32_t x;
    int32_t column;
};

/* The windows of a kernel whose parameters are `p`. */
#define HIL_RVV_WINDOWS_OF(p)                                                                      \
    {                                                                                              \
        .in_h = (p)->in_h, .in_w = (p)->in_w, .in_c = (p)->in_c, .out_w = (p)->out_w,              \
        .filter_h = (p)->filter_h, .filter_w = (p)->filter_w, .stride_h = (p)->stride_h,           \
        .stride_w = (p)->stride_w, .dilation_h = (p)->dilation_h, .dilation_w = (p)->dilation_w,   \
        .pad_left = (p)->pad_left, .in_zero_point = (p)->in_zero_point, .y = -(p)->pad_top,        \
        .x = -(p)->pad_left, .column = 0                                                           \
    }

/* Copies bytes; emitted for the core. */
typedef void hil_rvv_copy(const int8_t *from, int8_t *to, uint32_t bytes);

/* Fills so many pixels with the zero point. Returns where to go on. */
HIL_INLINE int8_t *hil_rvv_fill(const struct hil_rvv_windows *w, int32_t pixels, int8_t *to) {
    const int32_t bytes = pixels * w->in_c;
    if (bytes > 0) {
        memset(to, w->in_zero_point, (size_t)bytes);
    }
    return to + bytes;
}

/* A row of pixels under a window, of the row of the image; where to go on. */
HIL_INLINE int8_t *hil_rvv_gather_row(const struct hil_rvv_windows *w, const int8_t *row,
                                      hil_rvv_copy *copy, int8_t *to) {
    if (w->dilation_w != 1) {
        for (int32_t kx = 0; kx < w->filter_w; kx++) {
            const int32_t x = w->x + kx * w->dilation_w;
            if ((uint32_t)x < (uint32_t)w->in_w) {
                copy(row + x * w->in_c, to, (uint32_t)w->in_c);
                to += w->in_c;
            } else {
                to = hil_rvv_fill(w, 1, to);
            }
        }
        return to;
    }
    const int32_t end = w->x + w->filter_w;
    if (w->x >= 0 && end <= w->in_w) {
        copy(row + w->x * w->in_c, to, (uint32_t)(w->filter_w * w->in_c));
        return to + w->filter_w * w->in_c;
    }
    const int32_t first = w->x < 0 ? 0 : w->x;
    const int32_t last = end < w->in_w ? end : w->in_w;
    const int32_t inside = last > first ? last - first : 0;
    const int32_t before = w->x < 0 ? (end < 0 ? w->filter_w : -w->x) : 0;
    to = hil_rvv_fill(w, before, to);
    if (inside > 0) {
        copy(row + first * w->in_c, to, (uint32_t)(inside * w->in_c));
        to += inside * w->in_c;
    }
    return hil_rvv_fill(w, w->filter_w - before - inside, to);
}

/* The next `count` windows, each in `depth` bytes. */
HIL_INLINE void hil_rvv_gather(struct hil_rvv_windows *w, const int8_t *image, int32_t count,
                               int32_t depth, hil_rvv_copy *copy, int8_t *to) {
    for (int32_t i = 0; i < count; i++) {
        int8_t *at = to;
        int32_t y = w->y;
        for (int32_t ky = 0; ky < w->filter_h; ky++) {
            if ((uint32_t)y < (uint32_t)w->in_h) {
                at = hil_rvv_gather_row(w, image + y * w->in_w * w->in_c, copy, at);
            } else {
                at = hil_rvv_fill(w, w->filter_w, at);
            }
            y += w->dilation_h;
        }
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
