/* Gathers the pixels under a window of an NHWC image, so that the loops over them need no bounds:
 * positions outside the image read as a filling. Pixels are bytes here, of whatever type. */
#ifndef HIL_KERNELS_GENERIC_PATCH_H
#define HIL_KERNELS_GENERIC_PATCH_H

#include <stdint.h>
#include <string.h>

#include "hil/copy.h"
#include "hil/kernels/generic/fields.h"
#include "hil/quant.h"

struct hil_patch {
    int32_t in_h;
    int32_t in_w;
    int32_t pixel_step;  /* bytes from one pixel of the image to the next */
    int32_t pixel_bytes; /* how many of them are gathered */
    int32_t filter_h;
    int32_t filter_w;
    int32_t dilation_h;
    int32_t dilation_w;
    int32_t pad_value; /* the element that makes up pixels outside the image */
    int32_t pad_bytes; /* of that: 2, or a byte */
};

/* The window of a convolution whose parameters are `p`; elements of a pixel take so many bytes. */
#define HIL_PATCH_OF(p, element_bytes, padding)                                                    \
    {                                                                                              \
        .in_h = (p)->in_h, .in_w = (p)->in_w, .pixel_step = (p)->in_c * (element_bytes),           \
        .pixel_bytes = (p)->in_c * (element_bytes), .filter_h = (p)->filter_h,                     \
        .filter_w = (p)->filter_w, .dilation_h = (p)->dilation_h, .dilation_w = (p)->dilation_w,   \
        .pad_value = (padding), .pad_bytes = (element_bytes)                                       \
    }

/* Copies of at most this many bytes, if their number is constant, are left to the compiler, which
 * knows whether the core loads unaligned words. */
#if defined(__riscv)
/* Without unaligned loads gcc calls the library for more, which copies bytes. */
#define HIL_COPY_INLINE_BYTES 8
#else
#define HIL_COPY_INLINE_BYTES 64
#endif

HIL_INLINE void hil_patch_copy(uint8_t *to, const uint8_t *from, int32_t bytes) {
    if (__builtin_constant_p(bytes) && bytes <= HIL_COPY_INLINE_BYTES) {
        memcpy(to, from, (size_t)bytes);
        return;
    }
    hil_copy(to, from, bytes);
}

/* Fills so many bytes with the element outside the image; one of 0 is all zeros. */
HIL_INLINE void hil_patch_fill(const struct hil_patch *p, uint8_t *to, int32_t bytes) {
    if (p->pad_bytes != 2 || p->pad_value == 0) {
        hil_fill(to, p->pad_value, bytes);
        return;
    }
    const int16_t element = (int16_t)p->pad_value;
    for (; bytes > 0; bytes -= 2) {
        memcpy(to, &element, sizeof element);
        to += sizeof element;
    }
}

/* The window whose first tap is at row y and column x of the image, as
 * patch[filter_h][filter_w][pixel_bytes]. */
HIL_INLINE void hil_gather_patch(const struct hil_patch *p, const void *image, int32_t y, int32_t x,
                                 void *patch) {
    const int32_t row_bytes = p->filter_w * p->pixel_bytes;
    const int32_t end = x + p->filter_w * p->dilation_w;
    const int32_t inside_end = end < p->in_w ? end : p->in_w;
    uint8_t *to = (uint8_t *)patch;
    for (int32_t rows = p->filter_h; rows > 0; rows--, y += p->dilation_h) {
        if (y < 0 || y >= p->in_h) {
            hil_patch_fill(p, to, row_bytes);
            to += row_bytes;
            continue;
        }
        const uint8_t *const row = (const uint8_t *)image + y * p->in_w * p->pixel_step;
        if (p->dilation_w == 1 && p->pixel_bytes == p->pixel_step && x >= 0 && end <= p->in_w) {
            hil_patch_copy(to, row + x * p->pixel_step, row_bytes);
            to += row_bytes;
            continue;
        }
        int32_t column = x;
        for (; column < 0 && column < end; column += p->dilation_w) {
            hil_patch_fill(p, to, p->pixel_bytes);
            to += p->pixel_bytes;
        }
        for (; column < inside_end; column += p->dilation_w) {
            hil_patch_copy(to, row + column * p->pixel_step, p->pixel_bytes);
            to += p->pixel_bytes;
        }
        for (; column < end; column += p->dilation_w) {
            hil_patch_fill(p, to, p->pixel_bytes);
            to += p->pixel_bytes;
        }
    }
}

#endif
