/* Convolution of int8 images: the pixels under three windows become three widened rows, which are
 * multiplied with the filters. */
#ifndef HIL_KERNELS_V7M_CONV2D_S8_H
#define HIL_KERNELS_V7M_CONV2D_S8_H

#include "hil/kernels/v7m/columns_s8.h"
#include "hil/kernels/v7m/windows_s8.h"

/*@kernel
name = "hil_v7m_conv2d_s8"
requires = ["mul32"]
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "4 * wide * filter_h * filter_w * in_c"
order = ["pixels 3"]
reads = "window"
code = 1330
[cost]
window = "batch * out_h * out_w"
pixel = "window * filter_h * filter_w"
copied = "pixel * in_c"
four = "window * ((out_c + 3) // 4)"
part_end = "four * ((filter_h * filter_w * in_c - 1) // part)"
wide_tap = "four * filter_h * filter_w * in_c * (wide == 2)"
narrow_tap = "four * filter_h * filter_w * in_c * (wide == 1)"
@*/
struct hil_v7m_conv2d_s8 {
    HIL_IMAGES_FIELDS;
    int32_t out_c; /* output channels */
    HIL_WINDOW_FIELDS;
    int32_t in_zero_point; /* the input that stands for 0.0, which pixels outside the image have */
    HIL_V7M_COLUMNS_FIELDS;
};

/* What lies under three windows as widened rows. */
HIL_INLINE void hil_v7m_conv2d_s8_gather(const struct hil_v7m_conv2d_s8 *p, const int8_t *in,
                                         const struct hil_v7m_window *w, uint32_t *to) {
    const struct hil_v7m_image image = HIL_V7M_IMAGE_OF(p, in);
    const int8_t fill = (int8_t)p->in_zero_point;
    const uint32_t raise = hil_v7m_constant(HIL_V7M_RAISE);
    const int32_t pixel = p->in_c;
    for (int32_t ky = 0; ky < p->filter_h; ky++) {
        const int32_t down = ky * p->dilation_h;
        const int32_t ya = w[0].y + down;
        const int32_t yb = w[1].y + down;
        const int32_t yc = w[2].y + down;
        if (p->dilation_w == 1 && hil_v7m_whole(&image, ya, w[0].x, p->filter_w) &&
            hil_v7m_whole(&image, yb, w[1].x, p->filter_w) &&
            hil_v7m_whole(&image, yc, w[2].x, p->filter_w)) {
            to = hil_v7m_widen_rows(
                in + (ya * p->in_w + w[0].x) * pixel, in + (yb * p->in_w + w[1].x) * pixel,
                in + (yc * p->in_w + w[2].x) * pixel, p->filter_w * pixel, p->wide, to);
            continue;
        }
        for (int32_t kx = 0; kx < p->filter_w; kx++) {
            const int32_t right = kx * p->dilation_w;
            struct hil_v7m_pixel a = hil_v7m_pixel(&image, ya, w[0].x + right, &fill);
            struct hil_v7m_pixel b = hil_v7m_pixel(&image, yb, w[1].x + right, &fill);
            struct hil_v7m_pixel c = hil_v7m_pixel(&image, yc, w[2].x + right, &fill);
            for (int32_t left = pixel; left > 0; left--) {
                to = hil_v7m_widen(*a.from, *b.from, *c.from, raise, p->wide, to);
                a.from += a.step;
                b.from += b.step;
                c.from += c.step;
            }
        }
    }
}

HIL_INLINE void hil_v7m_conv2d_s8(const struct hil_v7m_conv2d_s8 *p, const int8_t *in, int8_t *out,
                                  void *scratch) {
    const struct hil_v7m_columns_s8 columns =
        HIL_V7M_COLUMNS_OF(p, p->filter_h * p->filter_w * p->in_c, p->out_c);
    for (int32_t images = p->batch; images > 0; images--) {
        struct hil_v7m_window at = {.y = -p->pad_top, .x = -p->pad_left};
        int32_t column = 0;
        for (int32_t left = p->out_h * p->out_w; left > 0; left -= 3) {
            struct hil_v7m_window windows[3];
            for (int32_t i = 0; i < 3; i++) {
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
            hil_v7m_conv2d_s8_gather(p, in, windows, (uint32_t *)scratch);
            int8_t *const out_b = left > 1 ? out + p->out_c : out;
            int8_t *const out_c = left > 2 ? out_b + p->out_c : out_b;
            hil_v7m_columns_s8(&columns, (const uint32_t *)scratch, out, out_b, out_c);
            out = out_c + p->out_c;
        }
        in += p->in_h * p->in_w * p->in_c;
    }
}

#endif
