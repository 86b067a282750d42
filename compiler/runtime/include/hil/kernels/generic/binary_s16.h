/* Sums, differences and products of two int16 tensors, with broadcasting. Those that round twice
 * have zero points of 0. */
#ifndef HIL_KERNELS_GENERIC_BINARY_S16_H
#define HIL_KERNELS_GENERIC_BINARY_S16_H

#include "hil/kernels/generic/binary.h"

#define HIL_SUM_S16_FIELDS                                                                         \
    HIL_BINARY_FIELDS;                                                                             \
    int32_t a_multiplier;   /* of the first operand, in Q0.31 */                                   \
    int32_t a_shift;        /* of its product, to the left; below 0 to the right */                \
    int32_t b_multiplier;   /* of the second operand, in Q0.31 */                                  \
    int32_t b_shift;        /* of its product, to the left; below 0 to the right */                \
    int32_t out_multiplier; /* of their sum, in Q0.31 */                                           \
    int32_t out_shift;      /* of its product, to the left; below 0 to the right */                \
    int32_t low;            /* the least output */                                                 \
    int32_t high            /* the largest output */

/* An operand raised by 15 bits and brought to twice the larger scale: 2^30 at most. */
HIL_INLINE int32_t hil_sum_s16_operand(int32_t x, int32_t multiplier, int32_t shift) {
    return hil_requantize(x * (INT32_C(1) << 15), multiplier, shift);
}

/*@kernel
name = "hil_generic_add_s16"
requires = []
inputs = ["int16_t", "int16_t"]
outputs = ["int16_t"]
scratch = "0"
order = "elementwise"
code = 178
[cost]
row = "rows"
element = "rows * length"
@*/
struct hil_generic_add_s16 {
    HIL_SUM_S16_FIELDS;
};

HIL_INLINE int16_t hil_add_s16_element(const struct hil_generic_add_s16 *p, int16_t a, int16_t b) {
    const int32_t x = hil_sum_s16_operand(a, p->a_multiplier, p->a_shift);
    const int32_t y = hil_sum_s16_operand(b, p->b_multiplier, p->b_shift);
    const int32_t sum = hil_requantize(x + y, p->out_multiplier, p->out_shift);
    return (int16_t)hil_clamp(sum, p->low, p->high);
}

HIL_INLINE void hil_generic_add_s16(const struct hil_generic_add_s16 *p, const int16_t *a,
                                    const int16_t *b, int16_t *out) {
    HIL_BINARY_WALK(p, a, b, out, hil_add_s16_element);
}

/*@kernel
name = "hil_generic_sub_s16"
requires = []
inputs = ["int16_t", "int16_t"]
outputs = ["int16_t"]
scratch = "0"
order = "elementwise"
code = 164
[cost]
row = "rows"
element = "rows * length"
@*/
struct hil_generic_sub_s16 {
    HIL_SUM_S16_FIELDS;
};

HIL_INLINE int16_t hil_sub_s16_element(const struct hil_generic_sub_s16 *p, int16_t a, int16_t b) {
    const int32_t x = hil_sum_s16_operand(a, p->a_multiplier, p->a_shift);
    const int32_t y = hil_sum_s16_operand(b, p->b_multiplier, p->b_shift);
    const int32_t difference = hil_requantize(x - y, p->out_multiplier, p->out_shift);
    return (int16_t)hil_clamp(difference, p->low, p->high);
}

HIL_INLINE void hil_generic_sub_s16(const struct hil_generic_sub_s16 *p, const int16_t *a,
                                    const int16_t *b, int16_t *out) {
    HIL_BINARY_WALK(p, a, b, out, hil_sub_s16_element);
}

/*@kernel
name = "hil_generic_mul_s16"
requires = []
inputs = ["int16_t", "int16_t"]
outputs = ["int16_t"]
scratch = "0"
order = "elementwise"
code = 106
[cost]
row = "rows"
element = "rows * length"
@*/
struct hil_generic_mul_s16 {
    HIL_BINARY_FIELDS;
    int32_t a_zero_point;   /* the first operand's value that stands for 0.0 */
    int32_t b_zero_point;   /* the second operand's value that stands for 0.0 */
    int32_t out_zero_point; /* the output that stands for 0.0 */
    int32_t multiplier;     /* of the product, whose magnitude is below 2^31, in Q0.31 */
    int32_t shift;          /* to the left; negative ones are to the right */
    int32_t rounding;       /* of that: HIL_ROUND_TWICE and others (quant.h) */
    int32_t low;            /* the least output */
    int32_t high;           /* the largest output */
};

HIL_INLINE int16_t hil_mul_s16_element(const struct hil_generic_mul_s16 *p, int16_t a, int16_t b) {
    const int32_t product = (a - p->a_zero_point) * (b - p->b_zero_point);
    const int32_t scaled =
        hil_requantize_by(p->rounding, product, p->multiplier, p->shift, p->out_zero_point);
    return (int16_t)hil_clamp(scaled, p->low, p->high);
}

HIL_INLINE void hil_generic_mul_s16(const struct hil_generic_mul_s16 *p, const int16_t *a,
                                    const int16_t *b, int16_t *out) {
    HIL_BINARY_WALK(p, a, b, out, hil_mul_s16_element);
}

/* Products of up to 34 bits, rounded once, ties to even. */
/*@kernel
name = "hil_generic_mul_s16_even"
requires = []
inputs = ["int16_t", "int16_t"]
outputs = ["int16_t"]
scratch = "0"
order = "elementwise"
code = 180
[cost]
row = "rows"
element = "rows * length"
@*/
struct hil_generic_mul_s16_even {
    HIL_BINARY_FIELDS;
    int32_t a_zero_point;   /* the first operand's value that stands for 0.0 */
    int32_t b_zero_point;   /* the second operand's value that stands for 0.0 */
    int32_t out_zero_point; /* the output that stands for 0.0 */
    int32_t multiplier;     /* of the product, in Q0.31 */
    int32_t shift;          /* to the left; negative ones are to the right */
    int32_t low;            /* the least output */
    int32_t high;           /* the largest output */
};

HIL_INLINE int16_t hil_mul_s16_even_element(const struct hil_generic_mul_s16_even *p, int16_t a,
                                            int16_t b) {
    const int64_t product = (int64_t)(a - p->a_zero_point) * (b - p->b_zero_point);
    const int32_t scaled = hil_requantize_wide_even(product, p->multiplier, p->shift);
    return (int16_t)hil_clamp(scaled + p->out_zero_point, p->low, p->high);
}

HIL_INLINE void hil_generic_mul_s16_even(const struct hil_generic_mul_s16_even *p, const int16_t *a,
                                         const int16_t *b, int16_t *out) {
    HIL_BINARY_WALK(p, a, b, out, hil_mul_s16_even_element);
}

/* A sum or difference that is rounded once, ties to even. */
/*@kernel
name = "hil_generic_sum_s16_even"
requires = []
inputs = ["int16_t", "int16_t"]
outputs = ["int16_t"]
scratch = "0"
order = "elementwise"
code = 140
[cost]
row = "rows"
element = "rows * length"
@*/
struct hil_generic_sum_s16_even {
    HIL_BINARY_FIELDS;
    int32_t a_zero_point;   /* the first operand's value that stands for 0.0 */
    int32_t b_zero_point;   /* the second operand's value that stands for 0.0 */
    int32_t a_factor;       /* of the first operand less its zero point */
    int32_t b_factor;       /* of the second one */
    int32_t right;          /* shift of the sum, 1 to 62 */
    int32_t out_zero_point; /* the output that stands for 0.0 */
    int32_t low;            /* the least output */
    int32_t high;           /* the largest output */
};

HIL_INLINE int16_t hil_even_sum_s16_element(const struct hil_generic_sum_s16_even *p, int16_t a,
                                            int16_t b) {
    const int64_t sum =
        (int64_t)(a - p->a_zero_point) * p->a_factor + (int64_t)(b - p->b_zero_point) * p->b_factor;
    return (int16_t)hil_clamp(hil_round_even(sum, p->right) + p->out_zero_point, p->low, p->high);
}

HIL_INLINE void hil_generic_sum_s16_even(const struct hil_generic_sum_s16_even *p, const int16_t *a,
                                         const int16_t *b, int16_t *out) {
    HIL_BINARY_WALK(p, a, b, out, hil_even_sum_s16_element);
}

#endif
