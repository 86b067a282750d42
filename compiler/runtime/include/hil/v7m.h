/* What kernels for Armv7-M share: how a sum becomes an output, and whether blocks in assembly may
 * be used. Armv7-M multiplies 32 bits at a time; its kernels gain by packing several sums into the
 * words that it adds up, which works modulo 2^32 and is the same in C everywhere. */
#ifndef HIL_V7M_H
#define HIL_V7M_H

#include <stdint.h>

#include "hil/quant.h"

/* The blocks in assembly take nearly every register: a frame pointer, as without optimization, or
 * clang's allocator leave them too few. The same loops in C are beside them. */
#if defined(__thumb2__) && defined(__OPTIMIZE__) && !defined(__clang__)
#define HIL_V7M_ASSEMBLY 1
#else
#define HIL_V7M_ASSEMBLY 0
#endif

/* Words that describe a channel: see hil_v7m_output. */
#define HIL_V7M_SCALE_WORDS 4

/* What a channel does with its sums. */
struct hil_v7m_scale {
    int32_t first;
    int32_t second;
    int32_t multiplier;
    int32_t shift; /* of the upper word, to the right */
};

HIL_INLINE struct hil_v7m_scale hil_v7m_scale(const int32_t *words) {
    return (struct hil_v7m_scale){
        .first = words[0], .second = words[1], .multiplier = words[2], .shift = words[3]};
}

/* hil_requantize(sum + bias, multiplier, -right) + zero point, clamped to [low, high], right > 0.
 *
 * A rectified channel, low >= zero point, needs no care for the rounding of negative numbers: what
 * that would change is clamped. So both roundings are one addition, and bias and zero point are
 * part of it: first and second are the lower and the upper word of what is added to the product,
 * and shift is right - 1.
 *
 * Otherwise first is twice the bias, second half a unit of the result and the zero point, as they
 * stand in the upper word of twice the product, and shift is right. The second rounding is away
 * from zero, which takes one from negative products: nothing is lost where it also takes one from
 * those that the first rounding made 0. */
HIL_INLINE int8_t hil_v7m_output(const struct hil_v7m_scale *scale, int32_t sum, int32_t zero_point,
                                 int32_t low, int32_t high) {
    uint64_t addend;
    int32_t factor;
    if (low >= zero_point) {
        addend = (uint64_t)(uint32_t)scale->second << 32 | (uint32_t)scale->first;
        factor = sum;
    } else {
        factor = scale->first + 2 * sum;
        addend = (uint64_t)(uint32_t)(scale->second - (factor < 0 ? 1 : 0)) << 32 | 0x80000000U;
    }
    const int64_t scaled = (int64_t)addend + (int64_t)factor * scale->multiplier;
    return hil_clamp_s8((int32_t)(scaled >> 32) >> scale->shift, low, high);
}

/* The same rounded once, half up: bias, zero point and half a unit of the result are what first and
 * second add to the product, whatever its sign; shift is right - 1. */
HIL_INLINE int8_t hil_v7m_once_output(const struct hil_v7m_scale *scale, int32_t sum, int32_t low,
                                      int32_t high) {
    const uint64_t addend = (uint64_t)(uint32_t)scale->second << 32 | (uint32_t)scale->first;
    const int64_t scaled = (int64_t)addend + (int64_t)sum * scale->multiplier;
    return hil_clamp_s8((int32_t)(scaled >> 32) >> scale->shift, low, high);
}

/* hil_v7m_once_output, ties to even: a sum that lies half-way between two outputs gives a whole
 * number of units once half of one is added, and loses one where it is odd above the zero point. */
HIL_INLINE int8_t hil_v7m_ties_output(const struct hil_v7m_scale *scale, int32_t sum,
                                      int32_t zero_point, int32_t low, int32_t high) {
    const uint64_t addend = (uint64_t)(uint32_t)scale->second << 32 | (uint32_t)scale->first;
    const int64_t scaled = (int64_t)addend + (int64_t)sum * scale->multiplier;
    const int32_t upper = (int32_t)(scaled >> 32);
    int32_t output = upper >> scale->shift;
    if ((uint32_t)scaled == 0 && (int32_t)((uint32_t)output << scale->shift) == upper) {
        output -= (output ^ zero_point) & 1;
    }
    return hil_clamp_s8(output, low, high);
}

/* hil_v7m_output with one shift for all channels, for those of which the compiler has proven that
 * it gives the same result for every sum that there can be: first and second are the lower and the
 * upper word of what is added to the product. */
HIL_INLINE int8_t hil_v7m_even_output(const struct hil_v7m_scale *scale, int32_t sum, int32_t shift,
                                      int32_t low, int32_t high) {
    const struct hil_v7m_scale shared = {
        .first = scale->first,
        .second = scale->second,
        .multiplier = scale->multiplier,
        .shift = shift,
    };
    return hil_v7m_once_output(&shared, sum, low, high);
}

/* The shifts of channels that have their own, in the place of one for all: sums are rounded twice,
 * once half up, or once with ties to even. */
#define HIL_V7M_OWN_SHIFTS (-1)
#define HIL_V7M_OWN_SHIFTS_ONCE (-2)
#define HIL_V7M_OWN_SHIFTS_TIES (-3)

/* The output of a sum by the layer's shift for all channels, or by the channel's own. */
HIL_INLINE int8_t hil_v7m_output_by(int32_t even_shift, const struct hil_v7m_scale *scale,
                                    int32_t sum, int32_t zero_point, int32_t low, int32_t high) {
    if (even_shift >= 0) {
        return hil_v7m_even_output(scale, sum, even_shift, low, high);
    }
    switch (even_shift) {
    case HIL_V7M_OWN_SHIFTS_ONCE:
        return hil_v7m_once_output(scale, sum, low, high);
    case HIL_V7M_OWN_SHIFTS_TIES:
        return hil_v7m_ties_output(scale, sum, zero_point, low, high);
    default:
        return hil_v7m_output(scale, sum, zero_point, low, high);
    }
}

#endif
