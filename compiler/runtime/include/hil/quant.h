/* Quantised arithmetic, stated once; compiler/hilc/quant.py is its twin in Python and holds the
 * explanation. Both are tested on tests/vectors/quant.json. */
#ifndef HIL_QUANT_H
#define HIL_QUANT_H

#include <stdint.h>

#define HIL_INLINE static inline __attribute__((always_inline))

/* round(a * b / 2^31): half away from zero for positive products, half up for negative ones.
 * The one overflow, INT32_MIN squared, saturates; no kernel's mantissa is negative, so callers
 * that pass one never meet it. */
HIL_INLINE int32_t hil_doubling_high_mul(int32_t a, int32_t b) {
    if (a == INT32_MIN && b == INT32_MIN) {
        return INT32_MAX;
    }
    const int64_t product = (int64_t)a * b;
    const int64_t nudge = product >= 0 ? (INT64_C(1) << 30) : 1 - (INT64_C(1) << 30);
    return (int32_t)((product + nudge) / (INT64_C(1) << 31));
}

/* x / 2^exponent, half away from zero; 0 <= exponent <= 31. */
HIL_INLINE int32_t hil_rounding_divide_by_pot(int32_t x, int exponent) {
    const int32_t mask = (int32_t)((INT64_C(1) << exponent) - 1);
    const int32_t remainder = x & mask;
    const int32_t threshold = (mask >> 1) + (x < 0 ? 1 : 0);
    return (x >> exponent) + (remainder > threshold ? 1 : 0);
}

/* x * mantissa * 2^(shift - 31), rounded twice. */
HIL_INLINE int32_t hil_requantize(int32_t x, int32_t mantissa, int shift) {
    const int left = shift > 0 ? shift : 0;
    const int right = shift > 0 ? 0 : -shift;
    const int32_t shifted = (int32_t)((uint32_t)x << left);
    return hil_rounding_divide_by_pot(hil_doubling_high_mul(shifted, mantissa), right);
}

HIL_INLINE int32_t hil_clamp(int32_t x, int32_t low, int32_t high) {
    return x < low ? low : (x > high ? high : x);
}

#endif
