/* Images of int8 resized on Helium, eight or four channels at a time.
 *
 * Tile: eight channels (weights of few bits) or four of one pixel of the output, of the four pixels
 * around it in the input, or what is left of the channels.
 *
 * Registers: of gcc's choice (intrinsics): a vector of sums, one of a pixel; four weights and four
 * pointers.
 *
 * Data: plain tensors; fractions are in parts, 2^row_bits of the way from one row to the next and
 * 2^column_bits of that between columns (v7m/resize_s8.h).
 *
 * Order: the output in order; any of the input may be read for any of it.
 *
 * Bounds: the weights add up to 2^bits. With at most 7 bits a sum is at most 128 * 2^7 and rounding
 * adds 2^6: 16 bits hold it. With at most 20 bits it is below 2^28.
 *
 * Output: half away from zero, as the portable kernel divides: of sums below zero one less is
 * rounded half up.
 *
 * Scratch: none.
 *
 * Cost, measured (`python tools/measure.py costs measure`, instructions under QEMU): 12 of eight
 * channels, or of four; the portable kernel 17 an element.
 *
 * Tests: the numpy reference (tests/board/test_kernels.py, buffers between guard bytes).
 */
#ifndef HIL_KERNELS_MVE_RESIZE_S8_H
#define HIL_KERNELS_MVE_RESIZE_S8_H

#include <arm_mve.h>

#include "hil/kernels/v7m/resize_s8.h"

/* The sums of four vectors of channels by their weights, rounded: half away from zero. */
HIL_INLINE int16x8_t hil_mve_resized_s16(const int16x8_t pixels[4], const int32_t weights[4],
                                         int32_t bits) {
    int16x8_t total = vmulq_n_s16(pixels[0], (int16_t)weights[0]);
    total = vmlaq_n_s16(total, pixels[1], (int16_t)weights[1]);
    total = vmlaq_n_s16(total, pixels[2], (int16_t)weights[2]);
    total = vmlaq_n_s16(total, pixels[3], (int16_t)weights[3]);
    return vrshlq_n_s16(vaddq_s16(total, vshrq_n_s16(total, 15)), -bits);
}

HIL_INLINE int32x4_t hil_mve_resized_s32(const int32x4_t pixels[4], const int32_t weights[4],
                                         int32_t bits) {
    int32x4_t total = vmulq_n_s32(pixels[0], weights[0]);
    total = vmlaq_n_s32(total, pixels[1], weights[1]);
    total = vmlaq_n_s32(total, pixels[2], weights[2]);
    total = vmlaq_n_s32(total, pixels[3], weights[3]);
    return vrshlq_n_s32(vaddq_s32(total, vshrq_n_s32(total, 31)), -bits);
}

/* Each pixel of the output in turn, by vectors of so many channels. */
#define HIL_MVE_RESIZE_WALK(p, in, out, lanes, vector, type, predicate)                            \
    do {                                                                                           \
        const int32_t bits = (p)->row_bits + (p)->column_bits;                                     \
        for (int32_t image = 0; image < (p)->images; image++) {                                    \
            for (int32_t row = 0; row < (p)->out_h; row++) {                                       \
                const int32_t down = (p)->rows[row];                                               \
                const int32_t up = (1 << (p)->row_bits) - down;                                    \
                const int8_t *above = (in) + (p)->above[row];                                      \
                const int8_t *below = (in) + (p)->below[row];                                      \
                for (int32_t column = 0; column < (p)->out_w; column++) {                          \
                    const int32_t to_right = (p)->columns[column];                                 \
                    const int32_t to_left = (1 << (p)->column_bits) - to_right;                    \
                    const int32_t weights[4] = {up * to_left, up * to_right, down * to_left,       \
                                                down * to_right};                                  \
                    const int32_t left = (p)->left[column];                                        \
                    const int32_t right = (p)->right[column];                                      \
                    for (int32_t c = 0; c + (lanes) <= (p)->channels; c += (lanes)) {              \
                        const vector pixels[4] = {                                                 \
                            vldrbq_##type(above + left + c), vldrbq_##type(above + right + c),     \
                            vldrbq_##type(below + left + c), vldrbq_##type(below + right + c)};    \
                        vstrbq_##type((out), hil_mve_resized_##type(pixels, weights, bits));       \
                        (out) += (lanes);                                                          \
                    }                                                                              \
                    if ((p)->channels % (lanes) != 0) {                                            \
                        const int32_t c = (p)->channels / (lanes) * (lanes);                       \
                        const mve_pred16_t there = predicate((uint32_t)((p)->channels - c));       \
                        const vector pixels[4] = {vldrbq_z_##type(above + left + c, there),        \
                                                  vldrbq_z_##type(above + right + c, there),       \
                                                  vldrbq_z_##type(below + left + c, there),        \
                                                  vldrbq_z_##type(below + right + c, there)};      \
                        vstrbq_p_##type((out), hil_mve_resized_##type(pixels, weights, bits),      \
                                        there);                                                    \
                        (out) += (p)->channels % (lanes);                                          \
                    }                                                                              \
                }                                                                                  \
            }                                                                                      \
            (in) += (p)->in_size;                                                                  \
        }                                                                                          \
    } while (0)

/*@kernel
name = "hil_mve_resize_s8"
requires = ["mve"]
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "0"
order = "none"
code = 260
[cost]
row = "images * out_h"
pixel = "images * out_h * out_w"
vector = "pixel * (channels // 8)"
partial = "pixel * (channels % 8 > 0)"
@*/
struct hil_mve_resize_s8 {
    HIL_RESIZE_PARTS_FIELDS;
};

HIL_INLINE void hil_mve_resize_s8(const struct hil_mve_resize_s8 *p, const int8_t *in,
                                  int8_t *out) {
    HIL_MVE_RESIZE_WALK(p, in, out, 8, int16x8_t, s16, vctp16q);
}

/*@kernel
name = "hil_mve_resize_s8_fine"
requires = ["mve"]
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "0"
order = "none"
code = 260
[cost]
row = "images * out_h"
pixel = "images * out_h * out_w"
vector = "pixel * (channels // 4)"
partial = "pixel * (channels % 4 > 0)"
@*/
struct hil_mve_resize_s8_fine {
    HIL_RESIZE_PARTS_FIELDS;
};

HIL_INLINE void hil_mve_resize_s8_fine(const struct hil_mve_resize_s8_fine *p, const int8_t *in,
                                       int8_t *out) {
    HIL_MVE_RESIZE_WALK(p, in, out, 4, int32x4_t, s32, vctp32q);
}

#endif
