/* Convolution of int8 images with packed filters: the pixels under two windows become two widened
 * rows, which are multiplied with the filters. */
#ifndef HIL_KERNELS_V7M_CONV2D_S8_PACKED_H
#define HIL_KERNELS_V7M_CONV2D_S8_PACKED_H

#include "hil/kernels/v7m/packed_s8.h"
#include "hil/kernels/v7m/windows_s8.h"

/*@kernel
name = "hil_v7m_conv2d_s8_packed"
requires = ["mul32", "thumb2"]
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "8 * filter_h * filter_w * in_c"
order = ["pixels 2"]
reads = "window"
code = 1300
[cost]
depth = "filter_h * filter_w * in_c"
pair = "batch * ((out_h * out_w + 1) // 2)"
line = "pair * filter_h"
copied = "pair * depth"
three = "pair * ((out_c + 2) // 3)"
part_end = "three * ((depth - 1) // part)"
tap = "three * depth"
slow = "three * (1 - (even_shift > 0) * (part >= depth) * (out_min + 128 == 0) * (out_max == 127))"
@*/
struct hil_v7m_conv2d_s8_packed {
    HIL_IMAGES_FIELDS;
    int32_t out_c; /* output channels */
    HIL_WINDOW_FIELDS;
    int32_t in_zero_point; /* the input that stands for 0.0, which pixels outside the image have */
    HIL_V7M_PACKED_FIELDS;
};

/* What lies under two windows as widened rows. */
HIL_INLINE void hil_v7m_conv2d_s8_packed_gather(const struct hil_v7m_conv2d_s8_packed *p,
                                                const int8_t *in, const struct hil_v7m_window *w,
                                                int32_t *to) {
    const struct hil_v7m_image image = HIL_V7M_IMAGE_OF(p, in);
    const int8_t fill = (int8_t)p->in_zero_point;
    const int32_t line = p->in_w * p->in_c;
    if (p->dilation_h == 1 && p->dilation_w == 1 &&
        hil_v7m_inside(&image, w, p->filter_h, p->filter_w) &&
        hil_v7m_inside(&image, w + 1, p->filter_h, p->filter_w)) {
        const int8_t *a = in + w[0].y * line + w[0].x * p->in_c;
        const int8_t *b = in + w[1].y * line + w[1].x * p->in_c;
        for (int32_t ky = 0; ky < p->filter_h; ky++) {
            to = hil_v7m_packed_widen(a, b, p->filter_w * p->in_c, to);
            a += line;
            b += line;
        }
        return;
    }
    for (int32_t ky = 0; ky < p->filter_h; ky++) {
        const int32_t down = ky * p->dilation_h;
        const int32_t ya = w[0].y + down;
        const int32_t yb = w[1].y + down;
        if (p->dilation_w == 1 && hil_v7m_whole(&image, ya, w[0].x, p->filter_w) &&
            hil_v7m_whole(&image, yb, w[1].x, p->filter_w)) {
            to = hil_v7m_packed_widen(in + (ya * p->in_w + w[0].x) * p->in_c,
                                      in + (yb * p->in_w + w[1].x) * p->in_c, p->filter_w * p->in_c,
                                      to);
            continue;
        }
        for (int32_t kx = 0; kx < p->filter_w; kx++) {
            const int32_t right = kx * p->dilation_w;
            struct hil_v7m_pixel a = hil_v7m_pixel(&image, ya, w[0].x + right, &fill);
            struct hil_v7m_pixel b = hil_v7m_pixel(&image, yb, w[1].x + right, &fill);
            for (int32_t left = p->in_c; left > 0; left--) {
                to = hil_v7m_packed_pair(a.from, b.from, to);
                a.from += a.step;
                b.from += b.step;
            }
        }
    }
}

HIL_INLINE void hil_v7m_conv2d_s8_packed(const struct hil_v7m_conv2d_s8_packed *p, const int8_t *in,
                                         int8_t *out, void *scratch) {
    const struct hil_v7m_packed_s8 columns =
        HIL_V7M_PACKED_OF(p, p->filter_h * p->filter_w * p->in_c, p->out_c);
    for (int32_t images = p->batch; images > 0; images--) {
        struct hil_v7m_window at = {.y = -p->pad_top, .x = -p->pad_left};
        int32_t column = 0;
        for (int32_t left = p->out_h * p->out_w; left > 0; left -= 2) {
            struct hil_v7m_window windows[2];
            for (int32_t i = 0; i < 2; i++) {
                /* A window too many is the one before it again. */
                if (i >= left) {
                    windows[i] = windows[i - 1];
                    continue;
                }
                windows[i] = at;
                at.x += p->stride_w;
                if (++column == p->out_w) {
                    column = 0;
                    at.x = -p->pad_left;
                    at.y += p->stride_h;
                }
            }
            hil_v7m_conv2d_s8_packed_gather(p, in, windows, (int32_t *)scratch);
            const int32_t behind = left > 1 ? p->out_c : 0;
            hil_v7m_packed_s8(&columns, (const int32_t *)scratch, out, behind);
            out += behind + p->out_c;
        }
        in += p->in_h * p->in_w * p->in_c;
    }
}

#endif
