/* Rows of int8 as words for emitted kernels: three rows a, b, c share two words, so that two
 * products serve three sums.
 *
 *   bit   31        21 20       11 10        0     31       21 20                 0
 *   x     |     b     |     c     |     a    |  y  |    c     |         b          |
 */
#ifndef HIL_KERNELS_RISCV_ROWS_S8_H
#define HIL_KERNELS_RISCV_ROWS_S8_H

#include "hil/kernels/generic/fields.h"
#include "hil/kernels/v7m/windows_s8.h"
#include "hil/riscv.h"

/* Where fields of words begin. */
#define HIL_RISCV_FIELD_C 11
#define HIL_RISCV_FIELD_B 21

/* One element of three rows. */
HIL_INLINE void hil_riscv_widen(int32_t a, int32_t b, int32_t c, uint32_t *to) {
    const uint32_t high_b = (uint32_t)b << HIL_RISCV_FIELD_B;
    to[0] = (uint32_t)a + ((uint32_t)c << HIL_RISCV_FIELD_C) + high_b;
    to[1] = (uint32_t)b + ((uint32_t)c << HIL_RISCV_FIELD_B);
}

/* `depth` elements of three rows; `step` words from one to the next. Returns where to go on. */
HIL_INLINE uint32_t *hil_riscv_widen_rows(const int8_t *a, const int8_t *b, const int8_t *c,
                                          int32_t depth, int32_t step, uint32_t *to) {
    const int8_t *const end = a + (depth & ~3);
    while (a != end) {
        hil_riscv_widen(a[0], b[0], c[0], to);
        hil_riscv_widen(a[1], b[1], c[1], to + step);
        hil_riscv_widen(a[2], b[2], c[2], to + 2 * step);
        hil_riscv_widen(a[3], b[3], c[3], to + 3 * step);
        a += 4;
        b += 4;
        c += 4;
        to += 4 * step;
    }
    for (int32_t left = depth & 3; left > 0; left--) {
        hil_riscv_widen(*a++, *b++, *c++, to);
        to += step;
    }
    return to;
}

/* `count` rows of a matrix, three after three; what is missing of the last three is the last row
 * again. */
HIL_INLINE void hil_riscv_widen_matrix(const int8_t *in, int32_t count, int32_t depth,
                                       int32_t triples, uint32_t *to) {
    for (int32_t i = 0; i < triples; i++) {
        const int8_t *const a = in + (3 * i < count ? 3 * i : count - 1) * depth;
        const int8_t *const b = in + (3 * i + 1 < count ? 3 * i + 1 : count - 1) * depth;
        const int8_t *const c = in + (3 * i + 2 < count ? 3 * i + 2 : count - 1) * depth;
        (void)hil_riscv_widen_rows(a, b, c, depth, 2 * triples, to + 2 * i);
    }
}

/* The windows of a convolution, and where the next is. */
struct hil_riscv_windows {
    struct hil_v7m_image image;
    int32_t out_w;
    int32_t filter_h;
    int32_t filter_w;
    int32_t stride_h;
    int32_t stride_w;
    int32_t dilation_h;
    int32_t dilation_w;
    int32_t pad_left;
    int32_t in_zero_point;
    struct hil_v7m_window at;
    int32_t column;
};

/* The windows of a kernel whose parameters are `p`, on the image `in`. */
#define HIL_RISCV_WINDOWS_OF(p, in)                                                                \
    {                                                                                              \
        .image = HIL_V7M_IMAGE_OF(p, in), .out_w = (p)->out_w, .filter_h = (p)->filter_h,          \
        .filter_w = (p)->filter_w, .stride_h = (p)->stride_h, .stride_w = (p)->stride_w,           \
        .dilation_h = (p)->dilation_h, .dilation_w = (p)->dilation_w, .pad_left = (p)->pad_left,   \
        .in_zero_point = (p)->in_zero_point, .at = {.y = -(p)->pad_top, .x = -(p)->pad_left},      \
        .column = 0                                                                                \
    }

/* The next window. */
HIL_INLINE struct hil_v7m_window hil_riscv_next_window(struct hil_riscv_windows *w) {
    const struct hil_v7m_window found = w->at;
    w->at.x += w->stride_w;
    if (++w->column == w->out_w) {
        w->column = 0;
        w->at.x = -w->pad_left;
        w->at.y += w->stride_h;
    }
    return found;
}

/* What lies under three windows. */
HIL_INLINE void hil_riscv_gather(const struct hil_riscv_windows *w, const struct hil_v7m_window *at,
                                 int32_t step, uint32_t *to) {
    const struct hil_v7m_image *const image = &w->image;
    const int8_t fill = (int8_t)w->in_zero_point;
    for (int32_t ky = 0; ky < w->filter_h; ky++) {
        const int32_t down = ky * w->dilation_h;
        const int32_t ya = at[0].y + down;
        const int32_t yb = at[1].y + down;
        const int32_t yc = at[2].y + down;
        if (w->dilation_w == 1 && hil_v7m_whole(image, ya, at[0].x, w->filter_w) &&
            hil_v7m_whole(image, yb, at[1].x, w->filter_w) &&
            hil_v7m_whole(image, yc, at[2].x, w->filter_w)) {
            to = hil_riscv_widen_rows(image->data + (ya * image->w + at[0].x) * image->c,
                                      image->data + (yb * image->w + at[1].x) * image->c,
                                      image->data + (yc * image->w + at[2].x) * image->c,
                                      w->filter_w * image->c, step, to);
            continue;
        }
        for (int32_t kx = 0; kx < w->filter_w; kx++) {
            const int32_t right = kx * w->dilation_w;
            struct hil_v7m_pixel a = hil_v7m_pixel(image, ya, at[0].x + right, &fill);
            struct hil_v7m_pixel b = hil_v7m_pixel(image, yb, at[1].x + right, &fill);
            struct hil_v7m_pixel c = hil_v7m_pixel(image, yc, at[2].x + right, &fill);
            for (int32_t left = image->c; left > 0; left--) {
                hil_riscv_widen(*a.from, *b.from, *c.from, to);
                a.from += a.step;
                b.from += b.step;
                c.from += c.step;
                to += step;
            }
        }
    }
}

/* `count` windows, three after three; what is missing of the last three is the last window
 * again. */
HIL_INLINE void hil_riscv_gather_windows(struct hil_riscv_windows *w, int32_t count,
                                         int32_t triples, uint32_t *to) {
    struct hil_v7m_window at[3] = {{0, 0}, {0, 0}, {0, 0}};
    for (int32_t i = 0; i < triples; i++) {
        for (int32_t j = 0; j < 3; j++) {
            if (3 * i + j < count) {
                at[j] = hil_riscv_next_window(w);
            } else {
                at[j] = at[j == 0 ? 2 : j - 1];
            }
        }
        hil_riscv_gather(w, at, 2 * triples, to + 2 * i);
    }
}

#endif
