/* Images that kernels of depthwise convolutions read where they are, all channels of a pixel next
 * to each other: the rows under a row of outputs. Where windows reach beyond the image these are
 * copied, [filter_h][line][in_c], with the input's zero point around.
 */
#ifndef HIL_KERNELS_GENERIC_CHANNEL_ROWS_H
#define HIL_KERNELS_GENERIC_CHANNEL_ROWS_H

#include "hil/copy.h"
#include "hil/kernels/generic/patch.h"

#define HIL_CHANNEL_ROWS_FIELDS                                                                    \
    HIL_IMAGES_FIELDS;                                                                             \
    HIL_WINDOW_FIELDS;                                                                             \
    int32_t padded;       /* 1: windows reach beyond the image, 0: none does */                    \
    int32_t columns;      /* of the image that windows reach, from the first */                    \
    int32_t line;         /* pixels of a row that is copied */                                     \
    int32_t in_zero_point /* of positions outside the image */

struct hil_channel_rows {
    HIL_CHANNEL_ROWS_FIELDS;
};

#define HIL_CHANNEL_ROWS(p)                                                                        \
    {                                                                                              \
        .batch = (p)->batch, .in_h = (p)->in_h, .in_w = (p)->in_w, .in_c = (p)->in_c,              \
        .out_h = (p)->out_h, .out_w = (p)->out_w, .filter_h = (p)->filter_h,                       \
        .filter_w = (p)->filter_w, .stride_h = (p)->stride_h, .stride_w = (p)->stride_w,           \
        .dilation_h = (p)->dilation_h, .dilation_w = (p)->dilation_w, .pad_top = (p)->pad_top,     \
        .pad_left = (p)->pad_left, .padded = (p)->padded, .columns = (p)->columns,                 \
        .line = (p)->line, .in_zero_point = (p)->in_zero_point,                                    \
    }

/* The first of the rows, and the bytes from a row of the filter to the next. */
struct hil_rows_under {
    const int8_t *from;
    int32_t step;
};

/* Makes pixels of the zero point, whose elements have so many bytes. */
HIL_INLINE void hil_channel_rows_clear(const struct hil_channel_rows *p, int32_t bytes,
                                       int32_t pixels, int8_t *to) {
    if (bytes == 1) {
        hil_fill(to, p->in_zero_point, pixels * p->in_c);
        return;
    }
    const int16_t value = (int16_t)p->in_zero_point;
    for (int32_t i = 0; i < pixels * p->in_c; i++) {
        memcpy(to + 2 * i, &value, sizeof value);
    }
}

/* The rows under row y of the outputs: in the image, or in scratch, where hil_channel_rows_clear()
 * has cleared all of them before the first row. */
HIL_INLINE struct hil_rows_under hil_channel_rows_under(const struct hil_channel_rows *p,
                                                        int32_t bytes, int32_t y, const int8_t *in,
                                                        int8_t *scratch) {
    const int32_t pixel = bytes * p->in_c;
    const int32_t top = y * p->stride_h - p->pad_top;
    if (!p->padded) {
        const struct hil_rows_under within = {.from = in + top * p->in_w * pixel,
                                              .step = p->dilation_h * p->in_w * pixel};
        return within;
    }
    int8_t *to = scratch + p->pad_left * pixel;
    for (int32_t i = 0; i < p->filter_h; i++) {
        const int32_t row = top + i * p->dilation_h;
        if (row >= 0 && row < p->in_h) {
            hil_copy(to, in + row * p->in_w * pixel, p->columns * pixel);
        } else {
            hil_channel_rows_clear(p, bytes, p->columns, to);
        }
        to += p->line * pixel;
    }
    const struct hil_rows_under copied = {.from = scratch, .step = p->line * pixel};
    return copied;
}

#endif
