/* Normalization of rows: the logarithm of softmax, and division by the Euclidean norm. */
#ifndef HIL_KERNELS_GENERIC_NORMALIZATION_H
#define HIL_KERNELS_GENERIC_NORMALIZATION_H

#include <math.h>
#include <stdint.h>

#include "hil/kernels/generic/fixed_point.h"
#include "hil/quant.h"

#define HIL_NORMALIZED_FIELDS                                                                      \
    int32_t rows; /* that each are normalized by themselves */                                     \
    int32_t depth /* elements of a row */

/*@kernel
name = "hil_generic_log_softmax_s8"
requires = []
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "0"
order = "elementwise"
code = 1064
[cost]
row = "rows"
element = "rows * depth"
@*/
struct hil_generic_log_softmax_s8 {
    HIL_NORMALIZED_FIELDS;
    int32_t near;                /* distances to the row's maximum below this have an exponential */
    const int32_t *exponentials; /* of minus the distance, in Q0.31; of others nothing is left */
    int32_t multiplier;          /* of a difference, in Q0.31, to Q5.26 */
    int32_t shift;               /* of that product, to the left; 0 or more */
    int32_t inverse_multiplier;  /* from Q5.26 back to a difference, in Q0.31 */
    int32_t inverse_shift;       /* of that product, to the left; 0 or less */
    int32_t least;               /* the first difference that does not count */
    int32_t out_zero_point;      /* the output that stands for 0.0 */
};

HIL_INLINE void hil_generic_log_softmax_s8(const struct hil_generic_log_softmax_s8 *p,
                                           const int8_t *in, int8_t *out) {
    for (int32_t row = 0; row < p->rows; row++) {
        int8_t max = INT8_MIN;
        for (int32_t i = 0; i < p->depth; i++) {
            max = in[i] > max ? in[i] : max;
        }
        int32_t sum = 0;
        for (int32_t i = 0; i < p->depth; i++) {
            const int32_t distance = max - in[i];
            sum +=
                distance < p->near ? hil_rounding_divide_by_pot(p->exponentials[distance], 12) : 0;
        }
        const int32_t log = hil_log_of_sum(sum);
        const int32_t reach =
            hil_requantize(log + INT32_MIN, p->inverse_multiplier, p->inverse_shift);
        const int32_t least = reach > p->least ? reach : p->least;
        for (int32_t i = 0; i < p->depth; i++) {
            const int32_t difference = in[i] - max;
            int32_t y = INT8_MIN;
            if (difference > least) {
                const int32_t scaled = hil_doubling_high_mul(
                    (int32_t)((uint32_t)difference << p->shift), p->multiplier);
                y = hil_rounding_divide_by_pot(scaled - log, 22) + p->out_zero_point;
            }
            out[i] = hil_clamp_s8(y, INT8_MIN, INT8_MAX);
        }
        in += p->depth;
        out += p->depth;
    }
}

/*@kernel
name = "hil_generic_log_softmax_f32"
requires = []
inputs = ["float"]
outputs = ["float"]
scratch = "0"
order = "elementwise"
code = 113
[cost]
row = "rows"
element = "rows * depth"
@*/
struct hil_generic_log_softmax_f32 {
    HIL_NORMALIZED_FIELDS;
};

HIL_INLINE void hil_generic_log_softmax_f32(const struct hil_generic_log_softmax_f32 *p,
                                            const float *in, float *out) {
    for (int32_t row = 0; row < p->rows; row++) {
        float max = in[0];
        for (int32_t i = 1; i < p->depth; i++) {
            max = in[i] > max ? in[i] : max;
        }
        float sum = 0.0f;
        for (int32_t i = 0; i < p->depth; i++) {
            sum += expf(in[i] - max);
        }
        /* A row has a largest element, which adds 1. */
        /* cppcheck-suppress invalidFunctionArg */
        const float log = logf(sum);
        for (int32_t i = 0; i < p->depth; i++) {
            out[i] = in[i] - max - log;
        }
        in += p->depth;
        out += p->depth;
    }
}

/*@kernel
name = "hil_generic_l2_normalization_s8"
requires = []
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "0"
order = "elementwise"
code = 538
[cost]
row = "rows"
element = "rows * depth"
@*/
struct hil_generic_l2_normalization_s8 {
    HIL_NORMALIZED_FIELDS;
    int32_t in_zero_point; /* the input that stands for 0.0 */
};

HIL_INLINE void hil_generic_l2_normalization_s8(const struct hil_generic_l2_normalization_s8 *p,
                                                const int8_t *in, int8_t *out) {
    for (int32_t row = 0; row < p->rows; row++) {
        int32_t squares = 0;
        for (int32_t i = 0; i < p->depth; i++) {
            const int32_t steps = in[i] - p->in_zero_point;
            squares += steps * steps;
        }
        int shift = 0;
        const int32_t multiplier = hil_inverse_sqrt(squares, &shift);
        for (int32_t i = 0; i < p->depth; i++) {
            /* In steps of 1/128. */
            const int32_t y = hil_requantize(in[i] - p->in_zero_point, multiplier, shift + 7);
            out[i] = hil_clamp_s8(y, INT8_MIN, INT8_MAX);
        }
        in += p->depth;
        out += p->depth;
    }
}

/*@kernel
name = "hil_generic_l2_normalization_f32"
requires = []
inputs = ["float"]
outputs = ["float"]
scratch = "0"
order = "elementwise"
code = 98
[cost]
row = "rows"
element = "rows * depth"
@*/
struct hil_generic_l2_normalization_f32 {
    HIL_NORMALIZED_FIELDS;
    float least; /* that a row is divided by */
};

HIL_INLINE void hil_generic_l2_normalization_f32(const struct hil_generic_l2_normalization_f32 *p,
                                                 const float *in, float *out) {
    for (int32_t row = 0; row < p->rows; row++) {
        float squares = 0.0f;
        for (int32_t i = 0; i < p->depth; i++) {
            squares += in[i] * in[i];
        }
        const float root = sqrtf(squares);
        const float norm = root > p->least ? root : p->least;
        for (int32_t i = 0; i < p->depth; i++) {
            out[i] = in[i] / norm;
        }
        in += p->depth;
        out += p->depth;
    }
}

#endif
