/* What the kernels that are small rather than fast have in common: they read the model's own
 * weights, skip what lies outside the image, and need no scratch.
 *
 * Tile: 1 output; 4 elements of depth at a time where the core multiplies pairs of half-words.
 *
 * Registers: of gcc's choice; the assembly is single instructions.
 *
 * Data: weights as the model has them. scales, packed by `_compact()`: the least shift as an int16,
 * then per channel 6 bytes, the lower half-word of a word first:
 *
 *   word  +0  4 * (multiplier - 2^30) + shift - least     bits 31..2 multiplier, 1..0 shift
 *   int16 +4  bias
 *
 * or, if `wide` since a channel of the layer exceeds these, only per channel 8 bytes:
 *
 *   word  +0  multiplier
 *   word  +4  64 * bias + shift + 32     bits 31..6 bias, 5..0 shift + 32
 *
 * Order: outputs in order, each after its whole window was read.
 *
 * Bounds: 6 bytes for 2^30 <= multiplier < 2^31, four shifts next to each other and |bias| < 2^15.
 * 8 bytes for |bias| < 2^25 and -32 <= shift < 32; `_compact()` turns a channel with a larger bias
 * into one without weights where its output never changes, and refuses others. x - zero point is
 * within 255, a half-word. A sum is below 2^31 (`_check_quantized()`).
 *
 * Output: hil_requantize_by, as `_requantization_parameters()` chooses for the layer: the double
 * rounding of hil_requantize, or a single one.
 *
 * Scratch: none.
 *
 * Cost, measured (`hil tune`, instructions under QEMU) for 1x1 25x5x64 to 64 (kws): M3 6.36 a MAC,
 * M4 2.91, M55 2.75.
 *
 * Tests: tests/c/test_compact_kernels.py on the host; tests/board/test_kernels.py on cores with
 * DSP.
 */
#ifndef HIL_KERNELS_COMPACT_CHANNEL_S8_H
#define HIL_KERNELS_COMPACT_CHANNEL_S8_H

#include "hil/dsp.h"
#include "hil/kernels/generic/fields.h"
#include "hil/quant.h"

/* Fields of the kernels' structs that describe the output channels. */
#define HIL_COMPACT_FIELDS                                                                         \
    int32_t in_zero_point; /* the input that stands for 0.0 */                                     \
    HIL_OUTPUT_RANGE_FIELDS;                                                                       \
    int32_t narrow;        /* how sums are rounded: HIL_ROUND_TWICE and others (quant.h) */        \
    int32_t wide;          /* whether a channel has 8 bytes of scales, not 6 */                    \
    const int8_t *weights; /* of each channel, as the model has them */                            \
    const int16_t *scales  /* multiplier, shift and bias of each channel */

/* The scales of the first channel, and of the one behind. */
HIL_INLINE const int16_t *hil_compact_first(const int16_t *scales, int32_t wide) {
    return wide ? scales : scales + 1;
}

HIL_INLINE const int16_t *hil_compact_next(const int16_t *channel, int32_t wide) {
    return channel + (wide ? 4 : 3);
}

/* Two half-words as a word. */
HIL_INLINE uint32_t hil_compact_word(const int16_t *halves) {
#if HIL_DSP_CORE
    return hil_dsp_load(halves);
#else
    return (uint16_t)halves[0] | (uint32_t)(uint16_t)halves[1] << 16;
#endif
}

HIL_INLINE int32_t hil_compact_bias(const int16_t *channel, int32_t wide) {
    return wide ? (int32_t)hil_compact_word(channel + 2) >> 6 : channel[2];
}

HIL_INLINE int8_t hil_compact_output(int32_t sum, const int16_t *channel, const int16_t *scales,
                                     int32_t wide, int32_t narrow, int32_t zero_point, int32_t low,
                                     int32_t high) {
    const uint32_t word = hil_compact_word(channel);
    const int32_t multiplier = (int32_t)(wide ? word : word >> 2 | UINT32_C(1) << 30);
    const int shift = wide ? (channel[2] & 63) - 32 : scales[0] + (int)(word & 3);
    const int32_t value = hil_requantize_by(narrow, sum, multiplier, shift, zero_point);
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
