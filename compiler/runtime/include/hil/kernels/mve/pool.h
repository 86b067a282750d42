/* Averages of int8 images over windows that all lie within the image, on Helium.
 *
 * Tile: 16 channels of one window, or 4.
 *
 * Registers: of gcc's choice (intrinsics): two vectors of eight 16-bit sums, or one of four 32-bit.
 *
 * Data: plain tensors; reciprocal = 2^24 / window size, rounded up.
 *
 * Order: windows in order; a window's channels are read sixteen by sixteen, then written.
 *
 * Bounds: 256 pixels * -128 = -2^15 is the least 16-bit sum, so larger windows add up in 32 bits.
 * For windows of at most 4096 pixels (`_LARGEST_POOL`) |sum| + half is at most 2^19 + 2^11, and
 * times 2^8 below 2^28.
 *
 * Output: (|sum| + half) * reciprocal >> 24 with the sum's sign: half away from zero.
 * `average_pool()` compares the product with the division for every sum that there is.
 *
 * Scratch: none.
 *
 * Cost, measured (`hil tune` on mps3-an547, instructions under QEMU): 125 pixels 60 an output
 * (kws), 64 pixels 34 (ic).
 *
 * Tests: the numpy reference (tests/board/test_kernels.py, buffers between guard bytes).
 */
#ifndef HIL_KERNELS_MVE_POOL_H
#define HIL_KERNELS_MVE_POOL_H

#include <arm_mve.h>

#include "hil/kernels/generic/fields.h"
#include "hil/quant.h"

/*@kernel
name = "hil_average_pool_s8_mve"
requires = ["mve"]
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "0"
order = ["pixels 1", "channels 4"]
reads = "channel window"
[cost.counts]
pixel = "batches * out_h * out_w"
sixteen = "pixel * ((channels + 15) // 16)"
tap = "sixteen * filter_h * filter_w"
[cost.on.cortex-m55]
call = 60
pixel = 20
sixteen = 70
tap = 5
@*/
struct hil_average_pool_s8_mve {
    HIL_POOL_WINDOWS_FIELDS;
    int32_t reciprocal; /* 2^24 over the window's size, rounded up */
    int32_t low;        /* the least output */
    int32_t high;       /* the largest output */
};

/* The averages for four totals. */
HIL_INLINE int32x4_t hil_mve_average(const struct hil_average_pool_s8_mve *p, int32x4_t total) {
    /* Half away from zero: the magnitude and a half, divided, with the sign of the sum. */
    const int32x4_t raised = vaddq_n_s32(vabsq_s32(total), p->filter_h * p->filter_w / 2);
    const int32x4_t quotient = vmulhq_s32(vshlq_n_s32(raised, 8), vdupq_n_s32(p->reciprocal));
    const int32x4_t average = vnegq_m_s32(quotient, quotient, vcmpltq_n_s32(total, 0));
    return vminq_s32(vmaxq_s32(average, vdupq_n_s32(p->low)), vdupq_n_s32(p->high));
}

/* The averages of the channels of `mask`, at most four, over the window that begins at `pixel`. */
HIL_INLINE void hil_mve_average_four(const struct hil_average_pool_s8_mve *p, const int8_t *pixel,
                                     mve_pred16_t mask, int8_t *out) {
    int32x4_t total = vdupq_n_s32(0);
    for (int32_t y = p->filter_h; y > 0; y--) {
        const int8_t *x = pixel;
        for (int32_t left = p->filter_w; left > 0; left--) {
            total = vaddq_s32(total, vldrbq_z_s32(x, mask));
            x += p->channels;
        }
        pixel += p->in_w * p->channels;
    }
    vstrbq_p_s32(out, hil_mve_average(p, total), mask);
}

/* The same of sixteen channels and at most 256 pixels, whose sums fit 16 bits. */
HIL_INLINE void hil_mve_average_sixteen(const struct hil_average_pool_s8_mve *p,
                                        const int8_t *pixel, int8_t *out) {
    int16x8_t low = vdupq_n_s16(0);
    int16x8_t high = low;
    const int32_t whole = p->filter_w == p->in_w;
    const int32_t width = whole ? p->filter_h * p->filter_w : p->filter_w;
    for (int32_t y = whole ? 1 : p->filter_h; y > 0; y--) {
        const int8_t *x = pixel;
        for (int32_t left = width; left > 0; left--) {
            low = vaddq_s16(low, vldrbq_s16(x));
            high = vaddq_s16(high, vldrbq_s16(x + 8));
            x += p->channels;
        }
        pixel += p->in_w * p->channels;
    }
    int16_t totals[16];
    vstrhq_s16(totals, low);
    vstrhq_s16(totals + 8, high);
    for (int32_t i = 0; i < 16; i += 4) {
        vstrbq_s32(out + i, hil_mve_average(p, vldrhq_s32(totals + i)));
    }
}

HIL_INLINE void hil_average_pool_s8_mve(const struct hil_average_pool_s8_mve *p, const int8_t *in,
                                        int8_t *out) {
    const int32_t line = p->in_w * p->channels;
    for (int32_t batch = 0; batch < p->batches; batch++) {
        for (int32_t y = 0; y < p->out_h; y++) {
            for (int32_t x = 0; x < p->out_w; x++) {
                const int8_t *window = in + y * p->stride_h * line + x * p->stride_w * p->channels;
                int32_t left = p->channels;
                for (; left >= 16 && p->filter_h * p->filter_w <= 256; left -= 16) {
                    hil_mve_average_sixteen(p, window, out);
                    window += 16;
                    out += 16;
                }
                for (; left > 0; left -= 4) {
                    hil_mve_average_four(p, window, vctp32q((uint32_t)left), out);
                    const int32_t count = left < 4 ? left : 4;
                    window += count;
                    out += count;
                }
            }
        }
        in += p->in_h * line;
    }
}

#endif
