/* Softmax of rows. */
#ifndef HIL_KERNELS_GENERIC_SOFTMAX_H
#define HIL_KERNELS_GENERIC_SOFTMAX_H

#include <math.h>
#include <stdint.h>

#include "hil/kernels/generic/fixed_point.h"
#include "hil/quant.h"

/*@kernel
name = "hil_generic_softmax_s8"
requires = []
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "0"
order = "elementwise"
code = 288
[cost]
element = "rows * depth"
@*/
struct hil_generic_softmax_s8 {
    int32_t rows;  /* that each add up to one */
    int32_t depth; /* elements of a row */
    int32_t near;  /* distances to the row's maximum below this one have an exponential */
    const int32_t *exponentials; /* of minus the distance, in Q0.31; of others nothing is left */
};

HIL_INLINE int32_t hil_softmax_s8_exponential(const struct hil_generic_softmax_s8 *p,
                                              int32_t distance) {
    return distance < p->near ? p->exponentials[distance] : 0;
}

/* One over the sum of a row, in Q0.31, and the shift to the right of a product with it. The sum has
 * 12 integer bits; the maximum's own exponential alone makes it 2^19. */
HIL_INLINE int32_t hil_softmax_s8_scale(uint32_t sum, int *shift) {
    *shift = 31 - 8 + 12;
    while (sum < UINT32_C(1) << 31) {
        sum *= 2;
        --*shift;
    }
    return hil_reciprocal((int32_t)(sum - (UINT32_C(1) << 31)));
}

/* x / 2^exponent, half up, for what is not negative; 1 <= exponent <= 31. */
HIL_INLINE uint32_t hil_softmax_s8_rounded(uint32_t x, int exponent) {
    return (x + (UINT32_C(1) << (exponent - 1))) >> exponent;
}

/* The output of an exponential. */
HIL_INLINE int8_t hil_softmax_s8_output(int32_t power, int32_t scale, int shift) {
    const uint64_t product = (uint64_t)(uint32_t)power * (uint32_t)scale;
    const uint32_t share = (uint32_t)((product + (UINT32_C(1) << 30)) >> 31);
    /* A shift beyond 31 leaves nothing of a 31-bit number; none is below 23. */
    const uint32_t steps = shift > 31 ? 0 : hil_softmax_s8_rounded(share, shift);
    return hil_clamp_s8((int32_t)steps + INT8_MIN, INT8_MIN, INT8_MAX);
}

HIL_INLINE void hil_generic_softmax_s8(const struct hil_generic_softmax_s8 *p, const int8_t *in,
                                       int8_t *out) {
    for (int32_t row = 0; row < p->rows; row++) {
        int8_t max = INT8_MIN;
        for (int32_t i = 0; i < p->depth; i++) {
            max = in[i] > max ? in[i] : max;
        }
        uint32_t sum = 0;
        for (int32_t i = 0; i < p->depth; i++) {
            const int32_t power = hil_softmax_s8_exponential(p, max - in[i]);
            sum += hil_softmax_s8_rounded((uint32_t)power, 12);
        }
        int shift;
        const int32_t scale = hil_softmax_s8_scale(sum, &shift);
        for (int32_t i = 0; i < p->depth; i++) {
            const int32_t power = hil_softmax_s8_exponential(p, max - in[i]);
            out[i] = hil_softmax_s8_output(power, scale, shift);
        }
        in += p->depth;
        out += p->depth;
    }
}

/*@kernel
name = "hil_generic_softmax_s8_even"
requires = []
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "0"
order = "elementwise"
code = 400
[cost]
row = "rows"
element = "rows * depth"
@*/
struct hil_generic_softmax_s8_even {
    int32_t rows;           /* that each add up to one */
    int32_t depth;          /* elements of a row */
    int32_t near;           /* distances to the row's maximum below this one have an exponential */
    int32_t multiplier;     /* of the share, in Q0.31: one over the output's scale */
    int32_t left;           /* shift of the sum that the product is divided by */
    int32_t out_zero_point; /* the output that stands for 0.0 */
    const int32_t *exponentials; /* of minus the distance, in Q1.30; of others nothing is left */
};

/* The share of an exponential, rounded once, ties to even. */
HIL_INLINE int32_t hil_softmax_even_share(uint32_t power, uint32_t multiplier, int32_t left,
                                          uint64_t sum) {
    const uint64_t divisor = sum << left;
    const uint64_t product = (uint64_t)power * multiplier;
    const uint64_t quotient = product / divisor;
    const uint64_t twice = 2 * (product - quotient * divisor);
    const uint64_t up = twice > divisor || (twice == divisor && quotient % 2 != 0);
    return hil_saturate_31((int64_t)(quotient + up));
}

/* How the sum of a row's exponentials makes shares of them. */
struct hil_softmax_even_row {
    uint64_t sum;
    uint32_t multiplier; /* of the share, in Q0.31: one over the output's scale */
    int32_t left;        /* shift of the sum that the product is divided by */
    uint32_t reciprocal;
};

HIL_INLINE struct hil_softmax_even_row hil_softmax_even_row(uint64_t sum, int32_t multiplier,
                                                            int32_t left) {
    const struct hil_softmax_even_row row = {
        .sum = sum,
        .multiplier = (uint32_t)multiplier,
        .left = left,
        .reciprocal = (uint32_t)((((uint64_t)(uint32_t)multiplier << 32) / sum) >> 1),
    };
    return row;
}

/* The exponential over the sum, times one over the output's scale, is rounded once, ties to even.
 *
 * A product with the sum's reciprocal, rounded down, is a share with left - 1 bits behind the
 * point, which the true one exceeds by less than 1.25 units: the reciprocal lacks less than a unit,
 * a quarter of which an exponential of at most 2^30 makes. As the multiplier is below 2^31 and a
 * sum has the exponential of its maximum, 2^30, the reciprocal is below 2^32 and the share below
 * 2^30. Only a share that may be half a step is divided. */
HIL_INLINE int32_t hil_softmax_even_steps(const struct hil_softmax_even_row *row, uint32_t power) {
    const int with_reciprocal = row->left >= 4 && row->left <= 31;
    const int32_t bits = with_reciprocal ? row->left - 1 : 3;
    const uint32_t half = 1U << (bits - 1);
    const uint32_t share = (uint32_t)(((uint64_t)power * row->reciprocal) >> 32);
    const uint32_t beyond = (share - (half - 2)) & (2 * half - 1);
    return with_reciprocal && beyond > 2
               ? (int32_t)((share + half) >> bits)
               : hil_softmax_even_share(power, row->multiplier, row->left, row->sum);
}

HIL_INLINE void hil_generic_softmax_s8_even(const struct hil_generic_softmax_s8_even *p,
                                            const int8_t *in, int8_t *out) {
    for (int32_t row = 0; row < p->rows; row++) {
        int8_t max = INT8_MIN;
        for (int32_t i = 0; i < p->depth; i++) {
            max = in[i] > max ? in[i] : max;
        }
        uint64_t sum = 0;
        for (int32_t i = 0; i < p->depth; i++) {
            const int32_t distance = max - in[i];
            sum += distance < p->near ? (uint32_t)p->exponentials[distance] : 0;
        }
        const struct hil_softmax_even_row shares =
            hil_softmax_even_row(sum, p->multiplier, p->left);
        for (int32_t i = 0; i < p->depth; i++) {
            const int32_t distance = max - in[i];
            int32_t steps = 0;
            if (distance < p->near) {
                steps = hil_softmax_even_steps(&shares, (uint32_t)p->exponentials[distance]);
            }
            out[i] = hil_clamp_s8(steps + p->out_zero_point, INT8_MIN, INT8_MAX);
        }
        in += p->depth;
        out += p->depth;
    }
}

/* The same of int16, whose exponentials are products of two. */
/*@kernel
name = "hil_generic_softmax_s16_even"
requires = []
inputs = ["int16_t"]
outputs = ["int16_t"]
scratch = "0"
order = "elementwise"
code = 450
[cost]
row = "rows"
element = "rows * depth"
@*/
struct hil_generic_softmax_s16_even {
    int32_t rows;           /* that each add up to one */
    int32_t depth;          /* elements of a row */
    int32_t near;           /* distances to the row's maximum whose upper byte is below this one
                               have an exponential */
    int32_t multiplier;     /* of the share, in Q0.31: one over the output's scale */
    int32_t left;           /* shift of the sum that the product is divided by */
    int32_t out_zero_point; /* the output that stands for 0.0 */
    const int32_t *coarse;  /* exponentials of minus the upper byte, in Q1.30 */
    const int32_t *fine;    /* those of minus each lower byte */
};

HIL_INLINE uint32_t hil_softmax_even_s16_power(const struct hil_generic_softmax_s16_even *p,
                                               int32_t distance) {
    const int32_t upper = distance >> 8;
    if (upper >= p->near) {
        return 0;
    }
    const int64_t product = (int64_t)p->coarse[upper] * p->fine[distance & 255];
    return (uint32_t)((product + (INT64_C(1) << 29)) >> 30);
}

HIL_INLINE void hil_generic_softmax_s16_even(const struct hil_generic_softmax_s16_even *p,
                                             const int16_t *in, int16_t *out) {
    for (int32_t row = 0; row < p->rows; row++) {
        int16_t max = INT16_MIN;
        for (int32_t i = 0; i < p->depth; i++) {
            max = in[i] > max ? in[i] : max;
        }
        uint64_t sum = 0;
        for (int32_t i = 0; i < p->depth; i++) {
            sum += hil_softmax_even_s16_power(p, max - in[i]);
        }
        const struct hil_softmax_even_row shares =
            hil_softmax_even_row(sum, p->multiplier, p->left);
        for (int32_t i = 0; i < p->depth; i++) {
            const uint32_t power = hil_softmax_even_s16_power(p, max - in[i]);
            const int32_t steps = hil_softmax_even_steps(&shares, power);
            out[i] = (int16_t)hil_clamp(steps + p->out_zero_point, INT16_MIN, INT16_MAX);
        }
        in += p->depth;
        out += p->depth;
    }
}

/*@kernel
name = "hil_generic_softmax_f32"
requires = []
inputs = ["float"]
outputs = ["float"]
scratch = "0"
order = "elementwise"
code = 139
[cost]
element = "rows * depth"
@*/
struct hil_generic_softmax_f32 {
    int32_t rows;  /* that each add up to one */
    int32_t depth; /* elements of a row */
    float beta;    /* factor of the exponents */
};

HIL_INLINE void hil_generic_softmax_f32(const struct hil_generic_softmax_f32 *p, const float *in,
                                        float *out) {
    for (int32_t row = 0; row < p->rows; row++) {
        float max = in[0];
        for (int32_t i = 1; i < p->depth; i++) {
            max = in[i] > max ? in[i] : max;
        }
        float sum = 0.0f;
        for (int32_t i = 0; i < p->depth; i++) {
            const float power = expf((in[i] - max) * p->beta);
            sum += power;
            out[i] = power;
        }
        for (int32_t i = 0; i < p->depth; i++) {
            out[i] /= sum;
        }
        in += p->depth;
        out += p->depth;
    }
}

#endif
