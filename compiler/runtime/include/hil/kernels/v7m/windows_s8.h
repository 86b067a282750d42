/* What lies under the windows of a convolution of int8 images, row by row of the filter. */
#ifndef HIL_KERNELS_V7M_WINDOWS_S8_H
#define HIL_KERNELS_V7M_WINDOWS_S8_H

#include <stdint.h>

#include "hil/quant.h"

/* An image, NHWC. */
struct hil_v7m_image {
    const int8_t *data;
    int32_t h;
    int32_t w;
    int32_t c;
};

/* The image `in` of a kernel whose parameters are `p`. */
#define HIL_V7M_IMAGE_OF(p, in)                                                                    \
    { .data = (in), .h = (p)->in_h, .w = (p)->in_w, .c = (p)->in_c }

/* A window: row and column of its first tap in the image. */
struct hil_v7m_window {
    int32_t y;
    int32_t x;
};

/* Where the channels of a pixel lie, one after the other, or the filling, again and again. */
struct hil_v7m_pixel {
    const int8_t *from;
    int32_t step;
};

HIL_INLINE struct hil_v7m_pixel hil_v7m_pixel(const struct hil_v7m_image *image, int32_t y,
                                              int32_t x, const int8_t *fill) {
    if ((uint32_t)y < (uint32_t)image->h && (uint32_t)x < (uint32_t)image->w) {
        return (struct hil_v7m_pixel){.from = image->data + (y * image->w + x) * image->c,
                                      .step = 1};
    }
    return (struct hil_v7m_pixel){.from = fill, .step = 0};
}

/* Whether `taps` pixels of row y from column x on lie in the image. */
HIL_INLINE int hil_v7m_whole(const struct hil_v7m_image *image, int32_t y, int32_t x,
                             int32_t taps) {
    return (uint32_t)y < (uint32_t)image->h && x >= 0 && x + taps <= image->w;
}

/* Whether all of a window of so many rows and columns of pixels lies in the image. */
HIL_INLINE int hil_v7m_inside(const struct hil_v7m_image *image, const struct hil_v7m_window *at,
                              int32_t rows, int32_t columns) {
    return at->y >= 0 && at->y + rows <= image->h && at->x >= 0 && at->x + columns <= image->w;
}

#endif
