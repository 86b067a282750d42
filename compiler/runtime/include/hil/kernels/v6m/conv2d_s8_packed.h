/* Convolution of int8 images with a stream of int8 weights: what is under a window is a row. */
#ifndef HIL_KERNELS_V6M_CONV2D_S8_PACKED_H
#define HIL_KERNELS_V6M_CONV2D_S8_PACKED_H

#include "hil/kernels/generic/fields.h"
#include "hil/kernels/v6m/stream_s8.h"

/*@kernel
name = "hil_v6m_conv2d_s8_packed"
requires = ["thumb1"]
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "filter_h * filter_w * in_c"
order = ["pixels 1"]
reads = "window"
code = 3488
shared = {hil_v6m_stream_row = 3208}
[cost]
row = "batch * out_h * out_w"
filter_row = "row * filter_h"
copied = "row * filter_h * filter_w * in_c"
nine = "row * (out_c // 9)"
three = "row * ((out_c % 9 + 2) // 3)"
rest = "row * (out_c % 9)"
nine_tap = "nine * filter_h * filter_w * in_c"
three_tap = "three * filter_h * filter_w * in_c"
@*/
struct hil_v6m_conv2d_s8_packed {
    HIL_IMAGES_FIELDS;
    int32_t out_c; /* output channels */
    HIL_WINDOW_FIELDS;
    int32_t in_zero_point; /* the input that stands for 0.0, which pixels outside the image have */
    const int32_t *stream; /* weights and scales, see stream_s8.h */
};

/* Copies elements that lie next to each other; where to go on. */
HIL_INLINE int8_t *hil_v6m_conv2d_stream_copy(const int8_t *from, int32_t elements, int8_t *to) {
#pragma GCC unroll 4
    for (int32_t i = 0; i < elements; i++) {
        to[i] = from[i];
    }
    return to + elements;
}

/* What lies under a window whose first tap is at row y and column x. */
HIL_INLINE void hil_v6m_conv2d_stream_gather(const struct hil_v6m_conv2d_s8_packed *p,
                                             const int8_t *in, int32_t y, int32_t x, int8_t *to) {
    const int32_t beyond = x + (p->filter_w - 1) * p->dilation_w;
    const int is_whole = p->dilation_w == 1 && x >= 0 && beyond < p->in_w;
    for (int32_t ky = 0; ky < p->filter_h; ky++) {
        const int is_inside = (uint32_t)y < (uint32_t)p->in_h;
        if (is_inside && is_whole) {
            const int8_t *from = in + (y * p->in_w + x) * p->in_c;
            to = hil_v6m_conv2d_stream_copy(from, p->filter_w * p->in_c, to);
        } else {
            int32_t at = x;
            for (int32_t kx = 0; kx < p->filter_w; kx++) {
                if (is_inside && (uint32_t)at < (uint32_t)p->in_w) {
                    const int8_t *from = in + (y * p->in_w + at) * p->in_c;
                    to = hil_v6m_conv2d_stream_copy(from, p->in_c, to);
                } else {
                    for (int32_t i = 0; i < p->in_c; i++) {
                        *to++ = (int8_t)p->in_zero_point;
                    }
                }
                at += p->dilation_w;
            }
        }
        y += p->dilation_h;
    }
}

HIL_INLINE void hil_v6m_conv2d_s8_packed(const struct hil_v6m_conv2d_s8_packed *p, const int8_t *in,
                                         int8_t *out, void *scratch) {
    const struct hil_v6m_stream_s8 columns =
        hil_v6m_stream_s8(p->stream, p->filter_h * p->filter_w * p->in_c, p->out_c);
    for (int32_t images = p->batch; images > 0; images--) {
        int32_t y = -p->pad_top;
        for (int32_t rows = p->out_h; rows > 0; rows--) {
            int32_t x = -p->pad_left;
            for (int32_t pixels = p->out_w; pixels > 0; pixels--) {
                hil_v6m_conv2d_stream_gather(p, in, y, x, (int8_t *)scratch);
                hil_v6m_stream_row(&columns, (const int8_t *)scratch, out);
                out += p->out_c;
                x += p->stride_w;
            }
            y += p->stride_h;
        }
        in += p->in_h * p->in_w * p->in_c;
    }
}

#endif
