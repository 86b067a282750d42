/* Gathers the pixels under a window of an NHWC int8 image, so that the loops over them need no
 * bounds: positions outside the image read as the zero point. */
#ifndef HIL_KERNELS_GENERIC_PATCH_S8_H
#define HIL_KERNELS_GENERIC_PATCH_S8_H

#include <stdint.h>
#include <string.h>

#include "hil/quant.h"

struct hil_patch_s8 {
    int32_t in_h;
    int32_t in_w;
    int32_t channels;
    int32_t filter_h;
    int32_t filter_w;
    int32_t dilation_h;
    int32_t dilation_w;
    int32_t zero_point;
};

/* Copies of at most this many bytes, if their number is constant, are left to the compiler, which
 * knows whether the core loads unaligned words. */
#define HIL_COPY_INLINE_BYTES 64

/* Copy words where both ends allow it: the library's memcpy may be one that copies bytes. */
HIL_INLINE void hil_copy_s8(int8_t *to, const int8_t *from, int32_t bytes) {
    if (__builtin_constant_p(bytes) && bytes <= HIL_COPY_INLINE_BYTES) {
        memcpy(to, from, (size_t)bytes);
        return;
    }
    if ((((uintptr_t)to | (uintptr_t)from) & 3U) == 0U) {
        for (; bytes >= 4; bytes -= 4) {
            memcpy(__builtin_assume_aligned(to, 4), __builtin_assume_aligned(from, 4), 4);
            to += 4;
            from += 4;
        }
    }
    for (; bytes > 0; bytes--) {
        *to++ = *from++;
    }
}

HIL_INLINE void hil_fill_s8(int8_t *to, int32_t value, int32_t bytes) {
    for (; bytes > 0; bytes--) {
        *to++ = (int8_t)value;
    }
}

/* The window whose first tap is at row y and column x of the image, as
 * patch[filter_h][filter_w][channels]. */
HIL_INLINE void hil_gather_patch_s8(const struct hil_patch_s8 *p, const int8_t *image, int32_t y,
                                    int32_t x, int8_t *patch) {
    const int32_t row_bytes = p->filter_w * p->channels;
    const int32_t span = (p->filter_w - 1) * p->dilation_w + 1;
    for (int32_t tap_y = 0; tap_y < p->filter_h; tap_y++, y += p->dilation_h, patch += row_bytes) {
        if (y < 0 || y >= p->in_h) {
            hil_fill_s8(patch, p->zero_point, row_bytes);
            continue;
        }
        const int8_t *row = image + y * p->in_w * p->channels;
        if (p->dilation_w == 1 && x >= 0 && x + span <= p->in_w) {
            hil_copy_s8(patch, row + x * p->channels, row_bytes);
            continue;
        }
        int8_t *to = patch;
        int32_t column = x;
        for (int32_t taps = p->filter_w; taps > 0; taps--) {
            if (column < 0 || column >= p->in_w) {
                hil_fill_s8(to, p->zero_point, p->channels);
            } else {
                hil_copy_s8(to, row + column * p->channels, p->channels);
            }
            to += p->channels;
            column += p->dilation_w;
        }
    }
}

#endif
