/* Means and sums of int8 over pixels side by side on Helium, eight channels at a time; of single
 * values sixteen of them.
 *
 * Tile: 8 channels x 1 pixel, or what is left of them; 16 values of a row.
 *
 * Registers: of gcc's choice (intrinsics): a vector of pixels and one of sums, two of sums of 32
 * bits.
 *
 * Data: plain tensors.
 *
 * Order: the outputs of a block are written after all of its pixels of these channels are read.
 *
 * Bounds: the sums of 255 bytes fit 16 bits; then they are added to sums of 32 bits, which
 * hilc.ops.mean checks.
 *
 * Output: that of the portable kernel (generic/mean.h).
 *
 * Scratch: none.
 *
 * Cost, measured (`python tools/measure.py costs measure`, instructions under QEMU): 0.5 a value of
 * eight channels and 20 an output; the portable kernel 4.3 a value.
 *
 * Tests: the numpy reference (tests/board/test_kernels.py, buffers between guard bytes).
 */
#ifndef HIL_KERNELS_MVE_MEAN_H
#define HIL_KERNELS_MVE_MEAN_H

#include <arm_mve.h>

#include "hil/kernels/generic/mean.h"

#define HIL_MVE_MEAN_CHANNELS 8

/*@kernel
name = "hil_mve_mean_s8"
requires = ["mve"]
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "0"
order = "none"
code = 224
[cost]
output = "blocks * channels"
eight = "blocks * ((channels + 7) // 8) * (channels > 1)"
vector = "eight * count"
partial = "blocks * (channels % 8 > 0) * (channels > 1) * count"
sixteen = "blocks * (channels == 1) * ((count + 15) // 16)"
@*/
struct hil_mve_mean_s8 {
    HIL_MEAN_BLOCK_FIELDS;
    HIL_MEAN_SCALE_FIELDS;
};

/* Adds up so many values of a row. */
HIL_INLINE int32_t hil_mve_mean_row(const int8_t *from, int32_t count, int32_t total) {
    for (; count >= 16; count -= 16) {
        total = vaddvaq_s8(total, vldrbq_s8(from));
        from += 16;
    }
    if (count > 0) {
        const mve_pred16_t there = vctp8q((uint32_t)count);
        total = vaddvaq_s8(total, vldrbq_z_s8(from, there));
    }
    return total;
}

/* Adds up so many pixels' channels, eight or fewer, to the totals of the even and of the odd ones.
 */
HIL_INLINE void hil_mve_mean_eight(const int8_t *from, int32_t count, int32_t step,
                                   int32_t channels, int32x4_t totals[2]) {
    const mve_pred16_t there = vctp16q((uint32_t)channels);
    while (count > 0) {
        const int32_t part = count < HIL_MEAN_PIXELS ? count : HIL_MEAN_PIXELS;
        int16x8_t sums = vdupq_n_s16(0);
        if (channels >= HIL_MVE_MEAN_CHANNELS) {
            for (int32_t n = part; n > 0; n--) {
                sums = vaddq_s16(sums, vldrbq_s16(from));
                from += step;
            }
        } else {
            for (int32_t n = part; n > 0; n--) {
                sums = vaddq_s16(sums, vldrbq_z_s16(from, there));
                from += step;
            }
        }
        totals[0] = vaddq_s32(totals[0], vmovlbq_s16(sums));
        totals[1] = vaddq_s32(totals[1], vmovltq_s16(sums));
        count -= part;
    }
}

HIL_INLINE void hil_mve_mean_s8(const struct hil_mve_mean_s8 *p, const int8_t *in, int8_t *out) {
    for (int32_t block = 0; block < p->blocks; block++) {
        for (int32_t c = 0; c < p->channels && p->channels > 1; c += HIL_MVE_MEAN_CHANNELS) {
            const int32_t left = p->channels - c;
            int32x4_t totals[2] = {vdupq_n_s32(p->offset), vdupq_n_s32(p->offset)};
            hil_mve_mean_eight(in + c, p->count, p->channels, left, totals);
            int32_t sums[HIL_MVE_MEAN_CHANNELS];
            int32x4x2_t both;
            both.val[0] = totals[0];
            both.val[1] = totals[1];
            vst2q_s32(sums, both);
            for (int32_t n = 0; n < HIL_MVE_MEAN_CHANNELS && n < left; n++) {
                *out++ = hil_mean_s8_finish(p, sums[n]);
            }
        }
        if (p->channels == 1) {
            const int32_t total = hil_mve_mean_row(in, p->count, p->offset);
            *out++ = hil_mean_s8_finish(p, total);
        }
        in += p->count * p->channels;
    }
}

#endif
