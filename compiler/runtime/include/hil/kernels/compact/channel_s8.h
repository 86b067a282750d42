/* What the kernels that are small rather than fast have in common: they read the model's own
 * weights, skip what lies outside the image, and need no scratch. */
#ifndef HIL_KERNELS_COMPACT_CHANNEL_S8_H
#define HIL_KERNELS_COMPACT_CHANNEL_S8_H

#include "hil/dsp.h"
#include "hil/quant.h"

/* Fields of the kernels' structs that describe the output channels. */
#define HIL_COMPACT_FIELDS                                                                         \
    int32_t in_zero_point;                                                                         \
    int32_t out_zero_point;                                                                        \
    int32_t out_min;                                                                               \
    int32_t out_max;                                                                               \
    int32_t narrow; /* 1: every |accumulator| < 2^30 and every shift < 0 */                        \
    const int8_t *weights;                                                                         \
    const int32_t *scales /* [channels][2]: 64 * bias + shift + 32, mantissa */

/* An output channel: two words that hold its bias, its shift and its mantissa. */
HIL_INLINE int32_t hil_compact_bias(const int32_t *channel) { return channel[0] >> 6; }

HIL_INLINE int8_t hil_compact_output(int32_t sum, const int32_t *channel, int32_t narrow,
                                     int32_t zero_point, int32_t low, int32_t high) {
    const int shift = (channel[0] & 63) - 32;
    const int32_t value = narrow ? hil_requantize_narrow(sum, channel[1], shift, zero_point)
                                 : hil_requantize(sum, channel[1], shift) + zero_point;
    return hil_clamp_s8(value, low, high);
}

/* sum + the products of `count` weights with as many inputs less their zero point. */
HIL_INLINE int32_t hil_compact_dot(const int8_t *in, const int8_t *weights, int32_t count,
                                   int32_t zero_point, int32_t sum) {
#if HIL_DSP_CORE
    const uint32_t less = hil_dsp_pair(-zero_point, -zero_point);
    for (; count >= 4; count -= 4) {
        const uint32_t x = hil_dsp_load(in);
        const uint32_t w = hil_dsp_load(weights);
        uint32_t even;
        uint32_t odd;
        __asm__("sxtab16 %0, %1, %2" : "=r"(even) : "r"(less), "r"(x));
        __asm__("sxtab16 %0, %1, %2, ror #8" : "=r"(odd) : "r"(less), "r"(x));
        sum = (int32_t)hil_dsp_dual(even, hil_dsp_even(w), (uint32_t)sum);
        sum = (int32_t)hil_dsp_dual(odd, hil_dsp_odd(w), (uint32_t)sum);
        in += 4;
        weights += 4;
    }
#endif
    for (; count > 0; count--) {
        sum += (*in++ - zero_point) * *weights++;
    }
    return sum;
}

#endif
