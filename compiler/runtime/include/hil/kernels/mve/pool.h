/* Averages of int8 images over windows that all lie within the image, and maxima of int8 and int16
 * images over any windows, on Helium.
 *
 * Tile: 16 channels of one window, or 4; of maxima 16, or 8 of int16.
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
 * Cost, measured (`hil tune` on mps3-an547, instructions under QEMU): 125 pixels 44 an output
 * (kws), 64 pixels 25 (ic). Maxima of 2x2, 24x24 of 16 channels: 1.4 an output
 * (`python tools/measure.py costs measure`), the portable kernel 22.8.
 *
 * Tests: the numpy reference (tests/board/test_kernels.py, buffers between guard bytes).
 */
#ifndef HIL_KERNELS_MVE_POOL_H
#define HIL_KERNELS_MVE_POOL_H

#include <arm_mve.h>

/* Between accesses to an array as a vector and as elements: GCC 12 may move a load of other
 * elements than the first in front of a vector's store. */
#define HIL_MVE_KEEP_ORDER() __asm__ volatile("" : : : "memory")

#include "hil/kernels/generic/fields.h"
#include "hil/kernels/generic/pool.h"
#include "hil/quant.h"

/*@kernel
name = "hil_mve_average_pool_s8"
requires = ["mve"]
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "0"
order = ["pixels 1", "channels 4"]
reads = "channel window"
code = 230
[cost]
pixel = "batches * out_h * out_w"
sixteen = "pixel * ((channels + 15) // 16)"
tap = "sixteen * filter_h * filter_w"
@*/
struct hil_mve_average_pool_s8 {
    HIL_POOL_WINDOWS_FIELDS;
    int32_t reciprocal; /* 2^24 over the window's size, rounded up */
    int32_t low;        /* the least output */
    int32_t high;       /* the largest output */
};

/* The averages for four totals. */
HIL_INLINE int32x4_t hil_mve_average(const struct hil_mve_average_pool_s8 *p, int32x4_t total) {
    /* Half away from zero: the magnitude and a half, divided, with the sign of the sum. */
    const int32x4_t raised = vaddq_n_s32(vabsq_s32(total), p->filter_h * p->filter_w / 2);
    const int32x4_t quotient = vmulhq_s32(vshlq_n_s32(raised, 8), vdupq_n_s32(p->reciprocal));
    const int32x4_t sign = vshrq_n_s32(total, 31);
    const int32x4_t average = vsubq_s32(veorq_s32(quotient, sign), sign);
    return vminq_s32(vmaxq_s32(average, vdupq_n_s32(p->low)), vdupq_n_s32(p->high));
}

/* The sums of the channels of `mask`, at most four, over a window that begins at `pixel`. */
HIL_INLINE int32x4_t hil_mve_sums_four(const int8_t *pixel, int32_t filter_h, int32_t filter_w,
                                       int32_t line, int32_t pixel_step, mve_pred16_t mask) {
    int32x4_t total = vdupq_n_s32(0);
    for (int32_t y = filter_h; y > 0; y--) {
        const int8_t *x = pixel;
        for (int32_t left = filter_w; left > 0; left--) {
            total = vaddq_s32(total, vldrbq_z_s32(x, mask));
            x += pixel_step;
        }
        pixel += line;
    }
    return total;
}

/* The same of sixteen channels and at most 256 pixels, whose sums fit 16 bits. */
HIL_INLINE void hil_mve_sums_sixteen(const int8_t *pixel, int32_t filter_h, int32_t filter_w,
                                     int32_t line, int32_t pixel_step, int16_t *totals) {
    int16x8_t low = vdupq_n_s16(0);
    int16x8_t high = low;
    const int32_t whole = filter_w * pixel_step == line;
    const int32_t width = whole ? filter_h * filter_w : filter_w;
    for (int32_t y = whole ? 1 : filter_h; y > 0; y--) {
        const int8_t *x = pixel;
        for (int32_t left = width; left > 0; left--) {
            low = vaddq_s16(low, vldrbq_s16(x));
            x += 8;
            /* GCC 12 would copy the pointer before it moves it, in each turn. */
            __asm__("" : "+r"(x));
            high = vaddq_s16(high, vldrbq_s16(x));
            x += pixel_step - 8;
        }
        pixel += line;
    }
    vstrhq_s16(totals, low);
    vstrhq_s16(totals + 8, high);
    HIL_MVE_KEEP_ORDER();
}

/* Writes four outputs of finish(p, sums) a time, for all windows. */
#define HIL_MVE_POOL_WALK(p, in, out, finish)                                                      \
    do {                                                                                           \
        const int32_t line = (p)->in_w * (p)->channels;                                            \
        for (int32_t batch = 0; batch < (p)->batches; batch++) {                                   \
            for (int32_t y = 0; y < (p)->out_h; y++) {                                             \
                for (int32_t x = 0; x < (p)->out_w; x++) {                                         \
                    const int8_t *window =                                                         \
                        (in) + y * (p)->stride_h * line + x * (p)->stride_w * (p)->channels;       \
                    int32_t left = (p)->channels;                                                  \
                    for (; left >= 16 && (p)->filter_h * (p)->filter_w <= 256; left -= 16) {       \
                        int16_t totals[16];                                                        \
                        hil_mve_sums_sixteen(window, (p)->filter_h, (p)->filter_w, line,           \
                                             (p)->channels, totals);                               \
                        for (int32_t i = 0; i < 16; i += 4) {                                      \
                            vstrbq_s32((out) + i, finish((p), vldrhq_s32(totals + i)));            \
                        }                                                                          \
                        window += 16;                                                              \
                        (out) += 16;                                                               \
                    }                                                                              \
                    for (; left > 0; left -= 4) {                                                  \
                        const mve_pred16_t mask = vctp32q((uint32_t)left);                         \
                        const int32x4_t sums = hil_mve_sums_four(                                  \
                            window, (p)->filter_h, (p)->filter_w, line, (p)->channels, mask);      \
                        vstrbq_p_s32((out), finish((p), sums), mask);                              \
                        const int32_t count = left < 4 ? left : 4;                                 \
                        window += count;                                                           \
                        (out) += count;                                                            \
                    }                                                                              \
                }                                                                                  \
            }                                                                                      \
            (in) += (p)->in_h * line;                                                              \
        }                                                                                          \
    } while (0)

HIL_INLINE void hil_mve_average_pool_s8(const struct hil_mve_average_pool_s8 *p, const int8_t *in,
                                        int8_t *out) {
    HIL_MVE_POOL_WALK(p, in, out, hil_mve_average);
}

/* Averages with a scale of their own, rounded once; the four of a vector one by one, as only 64
 * bits tell a tie. */
/*@kernel
name = "hil_mve_average_pool_s8_scaled"
requires = ["mve"]
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "0"
order = ["pixels 1", "channels 4"]
reads = "channel window"
code = 532
[cost]
pixel = "batches * out_h * out_w"
sixteen = "pixel * ((channels + 15) // 16)"
tap = "sixteen * filter_h * filter_w"
@*/
struct hil_mve_average_pool_s8_scaled {
    HIL_POOL_WINDOWS_FIELDS;
    int32_t offset;         /* minus the input's zero point of all pixels of a window */
    int32_t multiplier;     /* of the sum, in Q0.31 */
    int32_t shift;          /* of the product, to the left; below 0 to the right */
    int32_t rounding;       /* of that: HIL_ROUND_TWICE and others (quant.h) */
    int32_t out_zero_point; /* the output that stands for 0.0 */
    int32_t low;            /* the least output */
    int32_t high;           /* the largest output */
};

HIL_INLINE int32x4_t hil_mve_scaled_average(const struct hil_mve_average_pool_s8_scaled *p,
                                            int32x4_t total) {
    int32_t values[4];
    vstrwq_s32(values, total);
    HIL_MVE_KEEP_ORDER();
#pragma GCC unroll 4
    for (int32_t i = 0; i < 4; i++) {
        values[i] = hil_requantize_by(p->rounding, values[i] + p->offset, p->multiplier, p->shift,
                                      p->out_zero_point);
    }
    HIL_MVE_KEEP_ORDER();
    return vminq_s32(vmaxq_s32(vldrwq_s32(values), vdupq_n_s32(p->low)), vdupq_n_s32(p->high));
}

HIL_INLINE void hil_mve_average_pool_s8_scaled(const struct hil_mve_average_pool_s8_scaled *p,
                                               const int8_t *in, int8_t *out) {
    HIL_MVE_POOL_WALK(p, in, out, hil_mve_scaled_average);
}

/* Maxima of sixteen channels at a time, or of the last ones; what lies outside an image does not
 * count. */
/*@kernel
name = "hil_mve_max_pool_s8"
requires = ["mve"]
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "0"
order = ["pixels 1", "channels 16"]
reads = "channel window"
code = 112
[cost]
pixel = "batches * out_h * out_w"
sixteen = "pixel * ((channels + 15) // 16)"
filter_row = "sixteen * filter_h"
tap = "filter_row * filter_w"
@*/
struct hil_mve_max_pool_s8 {
    HIL_POOL_FIELDS;
    int32_t low;  /* the least output */
    int32_t high; /* the largest output */
};

/* Writes the maxima of all windows, of as many channels as a vector has elements at a time: of
 * bytes (kind b) or of half-words (h), whose elements have so many bits. */
#define HIL_MVE_LANES_8 int8x16_t
#define HIL_MVE_LANES_16 int16x8_t
#define HIL_MVE_MAX_POOL(p, in, out, kind, bits)                                                   \
    do {                                                                                           \
        enum { LANES = 128 / (bits) };                                                             \
        const int32_t line = (p)->in_w * (p)->channels;                                            \
        for (int32_t batch = 0; batch < (p)->batches; batch++) {                                   \
            for (int32_t out_y = 0; out_y < (p)->out_h; out_y++) {                                 \
                const struct hil_pool_range y = hil_pool_cover(                                    \
                    out_y * (p)->stride_h - (p)->pad_top, (p)->filter_h, (p)->in_h);               \
                for (int32_t out_x = 0; out_x < (p)->out_w; out_x++) {                             \
                    const struct hil_pool_range x = hil_pool_cover(                                \
                        out_x * (p)->stride_w - (p)->pad_left, (p)->filter_w, (p)->in_w);          \
                    __typeof__(in) corner = (in) + y.begin * line + x.begin * (p)->channels;       \
                    for (int32_t c = 0; c < (p)->channels; c += LANES) {                           \
                        const mve_pred16_t mask = vctp##bits##q((uint32_t)((p)->channels - c));    \
                        /* Where the outputs may not be less, nor may what they start from. */     \
                        HIL_MVE_LANES_##bits most = vdupq_n_s##bits((int##bits##_t)(p)->low);      \
                        __typeof__(in) row = corner + c;                                           \
                        for (int32_t rows = y.count; rows > 0; rows--) {                           \
                            __typeof__(in) pixel = row;                                            \
                            for (int32_t left = x.count; left > 0; left--) {                       \
                                most = vmaxq_s##bits(most, vldr##kind##q_z_s##bits(pixel, mask));  \
                                pixel += (p)->channels;                                            \
                            }                                                                      \
                            row += line;                                                           \
                        }                                                                          \
                        most = vminq_s##bits(most, vdupq_n_s##bits((int##bits##_t)(p)->high));     \
                        vstr##kind##q_p_s##bits((out) + c, most, mask);                            \
                    }                                                                              \
                    (out) += (p)->channels;                                                        \
                }                                                                                  \
            }                                                                                      \
            (in) += (p)->in_h * line;                                                              \
        }                                                                                          \
    } while (0)

HIL_INLINE void hil_mve_max_pool_s8(const struct hil_mve_max_pool_s8 *p, const int8_t *in,
                                    int8_t *out) {
    HIL_MVE_MAX_POOL(p, in, out, b, 8);
}

/*@kernel
name = "hil_mve_max_pool_s16"
requires = ["mve"]
inputs = ["int16_t"]
outputs = ["int16_t"]
scratch = "0"
order = ["pixels 1", "channels 8"]
reads = "channel window"
code = 116
[cost]
pixel = "batches * out_h * out_w"
eight = "pixel * ((channels + 7) // 8)"
filter_row = "eight * filter_h"
tap = "filter_row * filter_w"
@*/
struct hil_mve_max_pool_s16 {
    HIL_POOL_FIELDS;
    int32_t low;  /* the least output */
    int32_t high; /* the largest output */
};

HIL_INLINE void hil_mve_max_pool_s16(const struct hil_mve_max_pool_s16 *p, const int16_t *in,
                                     int16_t *out) {
    HIL_MVE_MAX_POOL(p, in, out, h, 16);
}

#endif
