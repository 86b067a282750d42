/* Convolution of int8 images: the pixels under nine or three windows become widened rows, which are
 * multiplied with the filters. */
#ifndef HIL_KERNELS_V6M_CONV2D_S8_H
#define HIL_KERNELS_V6M_CONV2D_S8_H

#include "hil/kernels/v6m/columns_s8.h"

/*@kernel
name = "hil_v6m_conv2d_s8"
requires = ["thumb1"]
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "8 * (tile // 3) * filter_h * filter_w * in_c"
order = ["pixels tile"]
reads = "window"
code = 1400
[cost]
tiles = "batch * ((out_h * out_w + tile - 1) // tile)"
pixel = "tiles * tile * filter_h * filter_w"
copied = "pixel * in_c"
column = "tiles * out_c"
output = "column * tile"
third_piece = "output * (pieces == 3)"
part_end = "output * ((filter_h * filter_w * in_c - 1) // part)"
rest = "column * ((filter_h * filter_w * in_c) % 8)"
tap = "column * (tile == 9) * filter_h * filter_w * in_c"
slim_tap = "column * (tile == 3) * filter_h * filter_w * in_c"
@*/
struct hil_v6m_conv2d_s8 {
    HIL_IMAGES_FIELDS;
    int32_t out_c; /* output channels */
    HIL_WINDOW_FIELDS;
    int32_t in_zero_point; /* the input that stands for 0.0, which pixels outside the image have */
    HIL_V6M_COLUMNS_FIELDS;
};

/* A window: row and column of its first tap in the image. */
struct hil_v6m_window {
    int32_t y;
    int32_t x;
};

HIL_INLINE int hil_v6m_conv2d_s8_is_inside(const struct hil_v6m_conv2d_s8 *p, int32_t y,
                                           int32_t x) {
    return (uint32_t)y < (uint32_t)p->in_h && (uint32_t)x < (uint32_t)p->in_w;
}

/* What lies under three windows as widened rows. */
HIL_INLINE void hil_v6m_conv2d_s8_gather(const struct hil_v6m_conv2d_s8 *p, const int8_t *in,
                                         const struct hil_v6m_window *w, uint32_t *to) {
    const int8_t fill = (int8_t)p->in_zero_point;
    const int32_t words = hil_v6m_words_of(p->tile);
    for (int32_t ky = 0; ky < p->filter_h; ky++) {
        for (int32_t kx = 0; kx < p->filter_w;) {
            /* Taps of a row that lie next to each other in all three are widened together. */
            int32_t taps = p->dilation_w == 1 ? p->filter_w - kx : 1;
            const int8_t *from[3];
            int32_t steps[3];
            for (int32_t i = 0; i < 3; i++) {
                const int32_t y = w[i].y + ky * p->dilation_h;
                const int32_t x = w[i].x + kx * p->dilation_w;
                const int inside = hil_v6m_conv2d_s8_is_inside(p, y, x);
                if (!inside || x + taps > p->in_w) {
                    taps = 1;
                }
                from[i] = inside ? in + (y * p->in_w + x) * p->in_c : &fill;
                steps[i] = inside;
            }
            const int32_t elements = taps * p->in_c;
            hil_v6m_widen_steps(from, steps, elements, words, to);
            to += words * elements;
            kx += taps;
        }
    }
}

HIL_INLINE void hil_v6m_conv2d_s8(const struct hil_v6m_conv2d_s8 *p, const int8_t *in, int8_t *out,
                                  void *scratch) {
    const struct hil_v6m_columns_s8 columns =
        HIL_V6M_COLUMNS_OF(p, p->filter_h * p->filter_w * p->in_c, p->out_c);
    for (int32_t images = p->batch; images > 0; images--) {
        struct hil_v6m_window at = {.y = -p->pad_top, .x = -p->pad_left};
        int32_t column = 0;
        for (int32_t left = p->out_h * p->out_w; left > 0; left -= p->tile) {
            struct hil_v6m_window windows[HIL_V6M_ROWS];
            int8_t *to[HIL_V6M_ROWS];
            for (int32_t i = 0; i < p->tile; i++) {
                /* A window too many is the one before it again. */
                if (i >= left) {
                    windows[i] = windows[i - 1];
                    to[i] = to[i - 1];
                    continue;
                }
                windows[i] = at;
                to[i] = out;
                out += p->out_c;
                at.x += p->stride_w;
                if (++column == p->out_w) {
                    column = 0;
                    at.x = -p->pad_left;
                    at.y += p->stride_h;
                }
            }
            for (int32_t i = 0; i < p->tile; i += 3) {
                hil_v6m_conv2d_s8_gather(p, in, windows + i, (uint32_t *)scratch + 2 * (i / 3));
            }
            hil_v6m_columns_s8(&columns, (const uint32_t *)scratch, to);
        }
        in += p->in_h * p->in_w * p->in_c;
    }
}

#endif
