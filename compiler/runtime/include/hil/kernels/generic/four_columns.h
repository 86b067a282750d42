/* Sums of four columns at a time, for cores that multiply words alone: values are loaded
 * once for four weights, which have no sign, since every core loads those with an offset.
 *
 * Data: packed by `four_weights()`: uint8 [blocks][depth][4], 128 more than the weights, columns
 * filled up with weights of 0. What that adds, 128 times the sum of the values, is taken off each
 * sum. Sums of 32 bits are modulo 2^32; those of 64 bits are added up from runs of 32 bits. */
#ifndef HIL_KERNELS_GENERIC_FOUR_COLUMNS_H
#define HIL_KERNELS_GENERIC_FOUR_COLUMNS_H

#include <stdint.h>

#include "hil/quant.h"

#define HIL_FOURS 4
#define HIL_FOURS_RAISED 128U

/* name(x, weights, depth, sums): adds the products of a row and four columns to their sums;
 * name_raised(x, depth): what is taken off each of them. */
#define HIL_FOUR_SUMS(name, type)                                                                  \
    HIL_INLINE void name(const type *x, const uint8_t *weights, int32_t depth, uint32_t *sums) {   \
        uint32_t a = sums[0];                                                                      \
        uint32_t b = sums[1];                                                                      \
        uint32_t c = sums[2];                                                                      \
        uint32_t d = sums[3];                                                                      \
        _Pragma("GCC unroll 4") for (int32_t i = 0; i < depth; i++) {                              \
            const uint32_t value = (uint32_t)(int32_t)x[i];                                        \
            a += value * (uint32_t)weights[0];                                                     \
            b += value * (uint32_t)weights[1];                                                     \
            c += value * (uint32_t)weights[2];                                                     \
            d += value * (uint32_t)weights[3];                                                     \
            weights += HIL_FOURS;                                                                  \
        }                                                                                          \
        sums[0] = a;                                                                               \
        sums[1] = b;                                                                               \
        sums[2] = c;                                                                               \
        sums[3] = d;                                                                               \
    }                                                                                              \
    HIL_INLINE uint32_t name##_raised(const type *x, int32_t depth) {                              \
        uint32_t total = 0;                                                                        \
        for (int32_t i = 0; i < depth; i++) {                                                      \
            const int32_t value = x[i];                                                            \
            total += (uint32_t)value;                                                              \
        }                                                                                          \
        return HIL_FOURS_RAISED * total;                                                           \
    }

HIL_FOUR_SUMS(hil_four_sums_s8, int8_t)
HIL_FOUR_SUMS(hil_four_sums_s16, int16_t)

/* Products of which the sums fit 32 bits before anything is taken off: each is below 2^23. */
#define HIL_FOURS_RUN 252

/* The products of a row and four columns in 64 bits, run by run; what is taken off them. */
HIL_INLINE void hil_four_long_sums(const int16_t *x, const uint8_t *weights, int32_t depth,
                                   int64_t *sums) {
    for (int32_t from = 0; from < depth; from += HIL_FOURS_RUN) {
        const int32_t left = depth - from;
        uint32_t run[HIL_FOURS] = {0, 0, 0, 0};
        hil_four_sums_s16(x + from, weights + HIL_FOURS * from,
                          left < HIL_FOURS_RUN ? left : HIL_FOURS_RUN, run);
        for (int32_t i = 0; i < HIL_FOURS; i++) {
            sums[i] += (int32_t)run[i];
        }
    }
}

HIL_INLINE int64_t hil_four_long_raised(const int16_t *x, int32_t depth) {
    int64_t total = 0;
    for (int32_t i = 0; i < depth; i++) {
        total += x[i];
    }
    return (int64_t)HIL_FOURS_RAISED * total;
}

/* hil_requantize_once(sum, multiplier, shift) for a sum of 32 bits and a shift of 16 to 46, in
 * words: the upper and the lower half of the sum times 15 bits. */
HIL_INLINE int32_t hil_four_requantize(int32_t sum, int32_t multiplier, int32_t shift) {
    const int32_t upper = (sum >> 16) * multiplier;
    const uint32_t lower = ((uint32_t)sum & 0xffffU) * (uint32_t)multiplier;
    const uint32_t half = shift == 16 ? 0x8000U : 0;
    const int32_t product = upper + (int32_t)((lower + half) >> 16);
    const int32_t rounding = shift == 16 ? 0 : INT32_C(1) << (shift - 17);
    return (product + rounding) >> (shift - 16);
}

/* hil_requantize_shifted(), by multiplier, addend and shift. */
HIL_INLINE int32_t hil_four_shifted(int32_t sum, const int32_t *words) {
#if defined(__ARM_ARCH) && __ARM_ARCH == 6
    return (hil_high_word_halves(sum, words[0]) + words[1]) >> words[2];
#else
    return hil_requantize_shifted(sum, words[0], words[1], words[2]);
#endif
}

/* hil_requantize(), on cores that multiply to 64 bits and on others. */
HIL_INLINE int32_t hil_four_requantize_twice(int32_t x, int32_t multiplier, int32_t shift) {
#if defined(__ARM_ARCH) && __ARM_ARCH == 6
    return hil_requantize_halves(x, multiplier, shift);
#else
    return hil_requantize(x, multiplier, shift);
#endif
}

#endif
