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
        /* At most a seventeenth, so four times the product is far from saturating. */
        const int32_t error = (INT32_C(1) << 29) - hil_doubling_high_mul(half_denominator, y);
        y += 4 * hil_doubling_high_mul(y, error);
    }
    /* Between a half and one, which has no number. */
    return y >= INT32_C(1) << 30 ? INT32_MAX : y * 2;
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

/* log(x) in Q5.26, for x from 1 on in Q12.19. */
HIL_INLINE int32_t hil_log_of_sum(int32_t x) {
    const int32_t sqrt_half = 1518500250;
    const int32_t fourth_root_half = 1805811301;
    /* Terms have six integer bits. */
    const int32_t quarter = INT32_C(1) << 23;
    /* x = 2^power * r in two ways, of which the one with the smaller r is nearer to 1. */
    const int zeros = __builtin_clz((uint32_t)x);
    const int32_t a = hil_saturating_left(hil_doubling_high_mul(x << (zeros - 1), sqrt_half), 1);
    const int32_t a_power = hil_saturating_left(12 - zeros, 25) + quarter;
    const int halved = __builtin_clz((uint32_t)hil_doubling_high_mul(x, sqrt_half)) - 1;
    const int32_t b = hil_saturating_left(x, halved);
    const int32_t b_power = hil_saturating_left(12 - halved, 25) - quarter;
    const int32_t r = a < b ? a : b;
    const int32_t power = a_power > b_power ? a_power : b_power;

    const int32_t p = (int32_t)(((int64_t)r + fourth_root_half + 1) >> 1);
    const int32_t q = 2 * (r - fourth_root_half);
    const int32_t square = hil_doubling_high_mul(q, q);
    const int32_t numerator = hil_doubling_high_mul(q, r) +
                              hil_doubling_high_mul(hil_doubling_high_mul(q, square), 117049297);
    const int32_t inner = 1057819769 + q + hil_doubling_high_mul(square, 127690142);
    const int32_t denominator =
        hil_doubling_high_mul(p, inner) + hil_doubling_high_mul(q, 638450708);
    const int32_t term = hil_rounding_divide_by_pot(numerator, 6);
    const int32_t log = hil_doubling_high_mul(power, 1488522236) +
                        hil_doubling_high_mul(term, hil_reciprocal(denominator));
    return hil_saturating_left(log, 1);
}

#endif
