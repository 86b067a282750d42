/* What lies under windows of a float image, as lanes of a few rows that are multiplied at a time.
 * How the elements of a lane lie is the kernel's: it gives the functions that place them. */
#ifndef HIL_KERNELS_GENERIC_LANES_F32_H
#define HIL_KERNELS_GENERIC_LANES_F32_H

#include <stdint.h>

#include "hil/kernels/generic/fields.h"
#include "hil/quant.h"

/* The windows of a convolution. */
struct hil_windows {
    HIL_IMAGES_FIELDS;
    HIL_WINDOW_FIELDS;
};

#define HIL_WINDOWS(p)                                                                             \
    {                                                                                              \
        .batch = (p)->batch, .in_h = (p)->in_h, .in_w = (p)->in_w, .in_c = (p)->in_c,              \
        .out_h = (p)->out_h, .out_w = (p)->out_w, .filter_h = (p)->filter_h,                       \
        .filter_w = (p)->filter_w, .stride_h = (p)->stride_h, .stride_w = (p)->stride_w,           \
        .dilation_h = (p)->dilation_h, .dilation_w = (p)->dilation_w, .pad_top = (p)->pad_top,     \
        .pad_left = (p)->pad_left,                                                                 \
    }

/* Where the next window is: its first tap, and which of its row it is. */
struct hil_windows_at {
    int32_t y;
    int32_t x;
    int32_t column;
};

/* Place `count` elements, or zeros, from element `k` of a lane on, and return what follows them. */
typedef int32_t hil_lanes_place(float *lane, int32_t k, const float *from, int32_t count);
typedef int32_t hil_lanes_zeros(float *lane, int32_t k, int32_t count);

/* Places what is under a window, and returns how many elements these are. */
HIL_INLINE int32_t hil_lanes_gather(const struct hil_windows *p, const float *in,
                                    const struct hil_windows_at *at, float *lane,
                                    hil_lanes_place place, hil_lanes_zeros zeros) {
    /* As many columns at a time as lie next to each other. */
    const int32_t most = p->dilation_w == 1 ? p->filter_w : 1;
    int32_t y = at->y;
    int32_t placed = 0;
    for (int32_t rows = p->filter_h; rows > 0; rows--, y += p->dilation_h) {
        if (y < 0 || y >= p->in_h) {
            placed = zeros(lane, placed, p->filter_w * p->in_c);
            continue;
        }
        const float *const row = in + y * p->in_w * p->in_c;
        int32_t x = at->x;
        for (int32_t left = p->filter_w; left > 0;) {
            int32_t many = 1;
            if (x < 0 || x >= p->in_w) {
                placed = zeros(lane, placed, p->in_c);
            } else {
                many = left < most ? left : most;
                many = p->in_w - x < many ? p->in_w - x : many;
                placed = place(lane, placed, row + x * p->in_c, many * p->in_c);
            }
            left -= many;
            x += many * p->dilation_w;
        }
    }
    return placed;
}

/* Goes on to the next window. */
HIL_INLINE void hil_windows_next(const struct hil_windows *p, struct hil_windows_at *at) {
    at->x += p->stride_w;
    if (++at->column == p->out_w) {
        at->column = 0;
        at->x = -p->pad_left;
        at->y += p->stride_h;
    }
}

/* Four floats that are next to each other, to be moved as one. */
struct hil_lanes_four {
    float lanes[4];
};

/* Copies four columns of a matrix that are next to each other, and returns what follows. */
HIL_INLINE float *hil_lanes_copy_columns(const float *from, int32_t step, int32_t depth,
                                         float *to) {
#pragma GCC unroll 4
    for (int32_t k = depth; k > 0; k--) {
        *(struct hil_lanes_four *)to = *(const struct hil_lanes_four *)from;
        from += step;
        to += 4;
    }
    return to;
}

/* Packs `count` columns of a matrix as weights are, four after four, without biases: columns, and
 * an odd depth, are filled up with zeros. */
HIL_INLINE void hil_lanes_pack_columns(const float *from, int32_t column_step, int32_t step,
                                       int32_t depth, int32_t count, float *to) {
    for (; count > 0; count -= 4) {
        const float *at = from;
        const int adjacent = count >= 4 && column_step == 1;
        if (adjacent) {
            to = hil_lanes_copy_columns(from, step, depth, to);
        }
        for (int32_t k = adjacent ? depth : 0; k < depth; k++) {
            if (count >= 4) {
                to[0] = at[0];
                to[1] = at[column_step];
                to[2] = at[2 * column_step];
                to[3] = at[3 * column_step];
            } else {
                for (int32_t i = 0; i < 4; i++) {
                    to[i] = i < count ? at[i * column_step] : 0.0F;
                }
            }
            at += step;
            to += 4;
        }
        /* The rest of the last pair of elements, and the biases. */
        for (int32_t left = 4 * (depth % 2) + 4; left > 0; left--) {
            *to++ = 0.0F;
        }
        from += 4 * column_step;
    }
}

#endif
