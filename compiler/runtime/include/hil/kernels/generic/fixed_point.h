/* Fixed-point functions on 32-bit numbers; compiler/hilc/numerics/fixed_point.py is the twin in
 * Python. */
#ifndef HIL_KERNELS_GENERIC_FIXED_POINT_H
#define HIL_KERNELS_GENERIC_FIXED_POINT_H

#include <stdint.h>

#include "hil/quant.h"

HIL_INLINE int32_t hil_saturating_left(int32_t x, int bits) {
    const int32_t most = INT32_MAX >> bits;
    return x > most ? INT32_MAX : (x < -most - 1 ? INT32_MIN : (int32_t)((uint32_t)x << bits));
}

/* 1 / (1 + x) for 0 <= x < 1, both in Q0.31: three Newton steps on a number in Q2.29. */
HIL_INLINE int32_t hil_reciprocal(int32_t x) {
    const int32_t half_denominator = (int32_t)(((int64_t)x + INT32_MAX + 1) / 2);
    /* 48/17 - 32/17 * half_denominator */
    int32_t y = 1515870810 + hil_doubling_high_mul(half_denominator, -1010580540);
    for (int step = 0; step < 3; step++) {
        const int32_t error = (INT32_C(1) << 29) - hil_doubling_high_mul(half_denominator, y);
        y += hil_saturating_left(hil_doubling_high_mul(y, error), 2);
    }
    return hil_saturating_left(y, 1);
}

/* The multiplier of 1 / sqrt(x) in Q0.31, and its left shift; the largest for x from 0 to 1. */
HIL_INLINE int32_t hil_inverse_sqrt(int32_t x, int *shift) {
    if (x <= 1) {
        *shift = 0;
        return INT32_MAX;
    }
    int right = 11;
    while (x >= INT32_C(1) << 29) {
        x /= 4;
        right++;
    }
    /* To 27 or 28 bits, by an even shift. */
    while (x < INT32_C(1) << 27) {
        x *= 4;
        right--;
    }
    /* Five Newton steps in Q3.28, from 1. */
    const int32_t half = hil_rounding_divide_by_pot(x >> 1, 1);
    int32_t y = INT32_C(1) << 28;
    for (int step = 0; step < 5; step++) {
        const int32_t square = hil_doubling_high_mul(y, y);
        const int32_t cube = hil_saturating_left(hil_doubling_high_mul(square, y), 6);
        const int32_t three_halves = (INT32_C(1) << 28) + (INT32_C(1) << 27);
        y = hil_saturating_left(
            hil_doubling_high_mul(three_halves, y) - hil_doubling_high_mul(half, cube), 3);
    }
    y = hil_doubling_high_mul(y, 1518500250);
    if (right < 0) {
        y = (int32_t)((uint32_t)y << -right);
        right = 0;
    }
    *shift = -right;
    return y;
}

#endif
