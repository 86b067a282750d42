/* Rows of int16 values times int8 or int16 weights: fully connected layers with 16-bit activations.
 * Zero points of inputs are part of the biases. */
#ifndef HIL_KERNELS_GENERIC_MATMUL_S16_H
#define HIL_KERNELS_GENERIC_MATMUL_S16_H

#include <stdint.h>

#include "hil/kernels/generic/fields.h"
#include "hil/quant.h"

/* Rows of a matrix product, and its weights [columns, depth]; per_channel is 1 where each column
 * has a multiplier and a shift, 0 where there is one for all. */
#define HIL_ROWS_S16_FIELDS                                                                        \
    int32_t rows;         /* rows of the input, and of the output */                               \
    int32_t depth;        /* elements of a row */                                                  \
    int32_t columns;      /* outputs of a row */                                                   \
    int32_t out_min;      /* the least output */                                                   \
    int32_t out_max;      /* the largest output */                                                 \
    int32_t per_channel;  /* 1: each column has a multiplier and a shift; 0: one for all */        \
    const int8_t *weights /* [columns][depth] */

/* Products of which any sum fits 32 bits: each is 2^22 at most. */
#define HIL_MATMUL_S16_RUN 256

HIL_INLINE int32_t hil_matmul_s16_run(const int16_t *in, const int8_t *weights, int32_t count) {
    int32_t sum = 0;
    for (int32_t i = 0; i < count; i++) {
        sum += in[i] * weights[i];
    }
    return sum;
}

/* The sum of all products of a row; depth is any number. */
HIL_INLINE int64_t hil_matmul_s16_sum(const int16_t *in, const int8_t *weights, int32_t depth) {
    int64_t sum = 0;
    for (int32_t from = 0; from < depth; from += HIL_MATMUL_S16_RUN) {
        const int32_t left = depth - from;
        const int32_t count = left < HIL_MATMUL_S16_RUN ? left : HIL_MATMUL_S16_RUN;
        sum += hil_matmul_s16_run(in + from, weights + from, count);
    }
    return sum;
}

/* The bias of a channel, of which the lower word comes first. */
HIL_INLINE int64_t hil_matmul_s16_bias(const int32_t *bias, int32_t channel) {
    const int32_t *const words = bias + 2 * channel;
    return (int64_t)words[1] * (INT64_C(1) << 32) + (uint32_t)words[0];
}

/* Sums of 64 bits, with a multiplier of 15 bits, rounded once. */
/*@kernel
name = "hil_generic_matmul_s16"
requires = []
inputs = ["int16_t"]
outputs = ["int16_t"]
scratch = "0"
order = ["pixels 1", "channels 1"]
reads = "rows"
code = 404
[cost]
row = "rows"
output = "rows * columns"
mac = "output * depth"
@*/
struct hil_generic_matmul_s16 {
    HIL_ROWS_S16_FIELDS;
    const int32_t *bias;        /* of each column the lower word, then the upper one */
    const int16_t *multipliers; /* of 15 bits */
    const int8_t *shifts;       /* to the right, 8 to 46 */
};

HIL_INLINE void hil_generic_matmul_s16(const struct hil_generic_matmul_s16 *p, const int16_t *in,
                                       int16_t *out) {
    for (int32_t row = 0; row < p->rows; row++) {
        const int8_t *weights = p->weights;
        for (int32_t column = 0; column < p->columns; column++) {
            const int64_t sum =
                hil_matmul_s16_bias(p->bias, column) + hil_matmul_s16_sum(in, weights, p->depth);
            const int32_t factor = p->per_channel ? column : 0;
            const int32_t scaled =
                hil_requantize_once(sum, p->multipliers[factor], p->shifts[factor]);
            out[column] = (int16_t)hil_clamp(scaled, p->out_min, p->out_max);
            weights += p->depth;
        }
        in += p->depth;
        out += p->columns;
    }
}

/* Sums of 32 bits. */
/*@kernel
name = "hil_generic_matmul_s16_sums32"
requires = []
inputs = ["int16_t"]
outputs = ["int16_t"]
scratch = "0"
order = ["pixels 1", "channels 1"]
reads = "rows"
code = 342
[cost]
row = "rows"
output = "rows * columns"
mac = "output * depth"
@*/
struct hil_generic_matmul_s16_sums32 {
    HIL_ROWS_S16_FIELDS;
    int32_t out_zero_point;     /* the output that stands for 0.0 */
    int32_t rounding;           /* of sums: HIL_ROUND_TWICE and others (quant.h) */
    const int32_t *bias;        /* of each column */
    const int32_t *multipliers; /* in Q0.31 */
    const int8_t *shifts;       /* of the products, to the left; below 0 to the right */
};

HIL_INLINE void hil_generic_matmul_s16_sums32(const struct hil_generic_matmul_s16_sums32 *p,
                                              const int16_t *in, int16_t *out) {
    for (int32_t row = 0; row < p->rows; row++) {
        const int8_t *weights = p->weights;
        for (int32_t column = 0; column < p->columns; column++) {
            const int32_t sum = p->bias[column] + hil_matmul_s16_run(in, weights, p->depth);
            const int32_t factor = p->per_channel ? column : 0;
            const int32_t value = hil_requantize_by(p->rounding, sum, p->multipliers[factor],
                                                    p->shifts[factor], p->out_zero_point);
            out[column] = (int16_t)hil_clamp(value, p->out_min, p->out_max);
            weights += p->depth;
        }
        in += p->depth;
        out += p->columns;
    }
}

/* Sums of 64 bits of products with weights of 16 bits, rounded once, ties to even. */
/*@kernel
name = "hil_generic_matmul_s16_even"
requires = []
inputs = ["int16_t"]
outputs = ["int16_t"]
scratch = "0"
order = ["pixels 1", "channels 1"]
reads = "rows"
code = 450
[cost]
row = "rows"
output = "rows * columns"
mac = "output * depth"
@*/
struct hil_generic_matmul_s16_even {
    int32_t rows;    /* of the input, and of the output */
    int32_t depth;   /* elements of a row */
    int32_t columns; /* outputs of a row */
    HIL_OUTPUT_RANGE_FIELDS;
    int32_t per_channel;        /* 1: each column has a multiplier and a shift; 0: one for all */
    const int16_t *weights;     /* [columns][depth] */
    const int32_t *bias;        /* of each column the lower word, then the upper one */
    const int32_t *multipliers; /* in Q0.31 */
    const int8_t *shifts;       /* of the products, to the left; below 0 to the right */
};

/* The sum of products with weights of 16 bits. */
HIL_INLINE int64_t hil_matmul_s16_long(const int16_t *in, const int16_t *weights, int32_t depth) {
    int64_t sum = 0;
    for (int32_t i = 0; i < depth; i++) {
        sum += in[i] * weights[i];
    }
    return sum;
}

HIL_INLINE void hil_generic_matmul_s16_even(const struct hil_generic_matmul_s16_even *p,
                                            const int16_t *in, int16_t *out) {
    for (int32_t row = 0; row < p->rows; row++) {
        const int16_t *weights = p->weights;
        for (int32_t column = 0; column < p->columns; column++) {
            const int64_t sum =
                hil_matmul_s16_bias(p->bias, column) + hil_matmul_s16_long(in, weights, p->depth);
            const int32_t factor = p->per_channel ? column : 0;
            const int32_t value =
                hil_requantize_wide_even(sum, p->multipliers[factor], p->shifts[factor]) +
                p->out_zero_point;
            out[column] = (int16_t)hil_clamp(value, p->out_min, p->out_max);
            weights += p->depth;
        }
        in += p->depth;
        out += p->columns;
    }
}

#endif
