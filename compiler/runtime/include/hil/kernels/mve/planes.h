/* Planes of a channel in scratch on Helium: what the depthwise kernels of int8 and int16 share. */
#ifndef HIL_KERNELS_MVE_PLANES_H
#define HIL_KERNELS_MVE_PLANES_H

#include "hil/kernels/generic/patch.h"
#include "hil/kernels/mve/blocks_s8.h"
#include "hil/kernels/mve/narrow.h"

/* Sets `count` elements of so many bytes; the last store reaches up to fifteen bytes beyond. */
HIL_INLINE void hil_mve_plane_clear(int32_t bytes, int32_t value, int32_t count, void *plane) {
    int8_t *to = (int8_t *)plane;
    for (int32_t left = bytes * count; left > 0; left -= 16) {
        void *const place = to;
        if (bytes == 1) {
            vstrbq_s8((int8_t *)place, vdupq_n_s8((int8_t)value));
        } else {
            vstrhq_s16((int16_t *)place, vdupq_n_s16((int16_t)value));
        }
        to += 16;
    }
}

/* Where eight elements are that lie `step` apart: seven steps have at most 16 bits. */
HIL_INLINE uint16x8_t hil_mve_plane_places(int32_t step) {
    return vmulq_n_u16(vidupq_n_u16(0, 1), (uint16_t)step);
}

/* Copies `count` elements of so many bytes, which lie `step` elements apart, to the plane. */
HIL_INLINE void hil_mve_plane_line(int32_t bytes, const void *in, uint16x8_t places, int32_t step,
                                   int32_t count, void *plane) {
    const int8_t *from = (const int8_t *)in;
    int8_t *to = (int8_t *)plane;
#pragma GCC unroll 4
    for (; count >= 8; count -= 8) {
        const void *const pixels = from;
        void *const place = to;
        if (bytes == 1) {
            vstrbq_s16((int8_t *)place, vldrbq_gather_offset_s16((const int8_t *)pixels, places));
        } else {
            vstrhq_s16((int16_t *)place,
                       vldrhq_gather_shifted_offset_s16((const int16_t *)pixels, places));
        }
        from += 8 * bytes * step;
        to += 8 * bytes;
    }
    if (count > 0) {
        const mve_pred16_t here = vctp16q((uint32_t)count);
        const void *const pixels = from;
        void *const place = to;
        if (bytes == 1) {
            vstrbq_p_s16((int8_t *)place,
                         vldrbq_gather_offset_z_s16((const int8_t *)pixels, places, here), here);
        } else {
            vstrhq_p_s16((int16_t *)place,
                         vldrhq_gather_shifted_offset_z_s16((const int16_t *)pixels, places, here),
                         here);
        }
    }
}

/* Four sums of a channel of int16 as outputs that are yet to be saturated. */
HIL_INLINE int32x4_t hil_mve_plane_scaled(int32_t shifted, int32_t multiplier, int32_t shift,
                                          int32_t zero_point, int32x4_t sums) {
    if (!shifted) {
        return vqrdmulhq_n_s32(sums, multiplier);
    }
    return vaddq_n_s32(vrshlq_n_s32(vqdmulhq_n_s32(sums, multiplier), shift), zero_point);
}

#endif
