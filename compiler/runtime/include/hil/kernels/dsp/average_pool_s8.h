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
[cost.counts]
word = "batches * out_h * out_w * ((channels + 3) // 4)"
filter_row = "word * filter_h"
tap = "filter_row * filter_w"
[cost.on.cortex-m4]
word = 45
filter_row = 5
tap = 3.3
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

/* Up to four channels of a window. */
HIL_INLINE void hil_dsp_average_channels(const struct hil_dsp_average_pool_s8 *p, const int8_t *in,
                                         int32_t channels, int8_t *out) {
    uint32_t even = 0;
    uint32_t odd = 0;
    for (int32_t rows = p->filter_h; rows > 0; rows--) {
        const int8_t *pixel = in;
#pragma GCC unroll 5
        for (int32_t x = p->filter_w; x > 0; x--) {
            const uint32_t word =
                channels == 4 ? hil_dsp_load(pixel) : hil_dsp_load_part(pixel, channels);
            even = hil_dsp_add_even(even, word);
            odd = hil_dsp_add_odd(odd, word);
            pixel += p->channels;
        }
        in += p->in_w * p->channels;
    }
    out[0] = hil_dsp_average(p, hil_dsp_low(even));
    if (channels > 1) {
        out[1] = hil_dsp_average(p, hil_dsp_low(odd));
    }
    if (channels > 2) {
        out[2] = hil_dsp_average(p, hil_dsp_high(even));
    }
    if (channels > 3) {
        out[3] = hil_dsp_average(p, hil_dsp_high(odd));
    }
}

HIL_INLINE void hil_dsp_average_pool_s8(const struct hil_dsp_average_pool_s8 *p, const int8_t *in,
                                        int8_t *out) {
    for (int32_t images = p->batches; images > 0; images--) {
        for (int32_t y = 0; y < p->out_h; y++) {
            for (int32_t x = 0; x < p->out_w; x++) {
                const int8_t *const window =
                    in + (y * p->stride_h * p->in_w + x * p->stride_w) * p->channels;
                int32_t channel = 0;
                for (; channel + 4 <= p->channels; channel += 4) {
                    hil_dsp_average_channels(p, window + channel, 4, out + channel);
                }
                if (p->channels % 4 != 0) {
                    hil_dsp_average_channels(p, window + channel, p->channels % 4, out + channel);
                }
                out += p->channels;
            }
        }
        in += p->in_h * p->in_w * p->channels;
    }
}

#endif
