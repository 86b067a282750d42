/* Averages of int8 windows that lie within the image, four channels at a time, on cores that add
 * pairs of half-words. */
#ifndef HIL_KERNELS_DSP_AVERAGE_POOL_S8_H
#define HIL_KERNELS_DSP_AVERAGE_POOL_S8_H

#include "hil/dsp.h"
#include "hil/kernels/generic/fields.h"

/*@kernel
name = "hil_dsp_average_pool_s8"
requires = ["dsp"]
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "0"
order = ["pixels 1", "channels 4"]
reads = "channel window"
code = 260
[cost]
word = "batches * out_h * out_w * ((channels + 3) // 4)"
filter_row = "word * filter_h"
tap = "filter_row * filter_w"
@*/
struct hil_dsp_average_pool_s8 {
    HIL_POOL_WINDOWS_FIELDS; /* filter_h * filter_w is at most HIL_DSP_POOL_TAPS */
    int32_t low;             /* the least output */
    int32_t high;            /* the largest output */
};

/* So many int8 values add up to half-words. */
#define HIL_DSP_POOL_TAPS 255

/* The average, halves away from zero. */
HIL_INLINE int8_t hil_dsp_average(const struct hil_dsp_average_pool_s8 *p, int32_t total) {
    const int32_t count = p->filter_h * p->filter_w;
    const int32_t half = total > 0 ? count / 2 : -(count / 2);
    return hil_clamp_s8((total + half) / count, p->low, p->high);
}

/* Sums of up to four channels of a window: pairs of half-words. */
struct hil_dsp_pool_sums {
    uint32_t even;
    uint32_t odd;
};

HIL_INLINE struct hil_dsp_pool_sums hil_dsp_pool_window(const int8_t *in, int32_t filter_h,
                                                        int32_t filter_w, int32_t line,
                                                        int32_t pixel_step, int32_t channels) {
    uint32_t even = 0;
    uint32_t odd = 0;
    for (int32_t rows = filter_h; rows > 0; rows--) {
        const int8_t *pixel = in;
#pragma GCC unroll 5
        for (int32_t x = filter_w; x > 0; x--) {
            const uint32_t word =
                channels == 4 ? hil_dsp_load(pixel) : hil_dsp_load_part(pixel, channels);
            even = hil_dsp_add_even(even, word);
            odd = hil_dsp_add_odd(odd, word);
            pixel += pixel_step;
        }
        in += line;
    }
    return (struct hil_dsp_pool_sums){.even = even, .odd = odd};
}

/* Writes out[] = finish(p, sum) for up to four channels of a window. */
#define HIL_DSP_POOL_CHANNELS(p, in, count, out, finish)                                           \
    do {                                                                                           \
        const struct hil_dsp_pool_sums sums =                                                      \
            hil_dsp_pool_window((in), (p)->filter_h, (p)->filter_w, (p)->in_w * (p)->channels,     \
                                (p)->channels, (count));                                           \
        (out)[0] = finish((p), hil_dsp_low(sums.even));                                            \
        if ((count) > 1) {                                                                         \
            (out)[1] = finish((p), hil_dsp_low(sums.odd));                                         \
        }                                                                                          \
        if ((count) > 2) {                                                                         \
            (out)[2] = finish((p), hil_dsp_high(sums.even));                                       \
        }                                                                                          \
        if ((count) > 3) {                                                                         \
            (out)[3] = finish((p), hil_dsp_high(sums.odd));                                        \
        }                                                                                          \
    } while (0)

/* The same for all windows. */
#define HIL_DSP_POOL_WALK(p, in, out, finish)                                                      \
    do {                                                                                           \
        for (int32_t images = (p)->batches; images > 0; images--) {                                \
            for (int32_t y = 0; y < (p)->out_h; y++) {                                             \
                for (int32_t x = 0; x < (p)->out_w; x++) {                                         \
                    const int8_t *const window =                                                   \
                        (in) +                                                                     \
                        (y * (p)->stride_h * (p)->in_w + x * (p)->stride_w) * (p)->channels;       \
                    int32_t channel = 0;                                                           \
                    for (; channel + 4 <= (p)->channels; channel += 4) {                           \
                        HIL_DSP_POOL_CHANNELS(p, window + channel, 4, (out) + channel, finish);    \
                    }                                                                              \
                    if ((p)->channels % 4 != 0) {                                                  \
                        HIL_DSP_POOL_CHANNELS(p, window + channel, (p)->channels % 4,              \
                                              (out) + channel, finish);                            \
                    }                                                                              \
                    (out) += (p)->channels;                                                        \
                }                                                                                  \
            }                                                                                      \
            (in) += (p)->in_h * (p)->in_w * (p)->channels;                                         \
        }                                                                                          \
    } while (0)

HIL_INLINE void hil_dsp_average_pool_s8(const struct hil_dsp_average_pool_s8 *p, const int8_t *in,
                                        int8_t *out) {
    HIL_DSP_POOL_WALK(p, in, out, hil_dsp_average);
}

/* Averages with a scale of their own, rounded once. */
/*@kernel
name = "hil_dsp_average_pool_s8_scaled"
requires = ["dsp"]
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "0"
order = ["pixels 1", "channels 4"]
reads = "channel window"
code = 396
[cost]
word = "batches * out_h * out_w * ((channels + 3) // 4)"
filter_row = "word * filter_h"
tap = "filter_row * filter_w"
@*/
struct hil_dsp_average_pool_s8_scaled {
    HIL_POOL_WINDOWS_FIELDS; /* filter_h * filter_w is at most HIL_DSP_POOL_TAPS */
    int32_t offset;          /* minus the input's zero point of all pixels of a window */
    int32_t multiplier;      /* of the sum, in Q0.31 */
    int32_t shift;           /* of the product, to the left; below 0 to the right */
    int32_t rounding;        /* of that: HIL_ROUND_TWICE and others (quant.h) */
    int32_t out_zero_point;  /* the output that stands for 0.0 */
    int32_t low;             /* the least output */
    int32_t high;            /* the largest output */
};

HIL_INLINE int8_t hil_dsp_scaled_average(const struct hil_dsp_average_pool_s8_scaled *p,
                                         int32_t total) {
    const int32_t average = hil_requantize_by(p->rounding, total + p->offset, p->multiplier,
                                              p->shift, p->out_zero_point);
    return hil_clamp_s8(average, p->low, p->high);
}

HIL_INLINE void hil_dsp_average_pool_s8_scaled(const struct hil_dsp_average_pool_s8_scaled *p,
                                               const int8_t *in, int8_t *out) {
    HIL_DSP_POOL_WALK(p, in, out, hil_dsp_scaled_average);
}

#endif
