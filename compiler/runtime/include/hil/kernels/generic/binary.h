/* Sums, differences and products of two tensors, element by element, with broadcasting. */
#ifndef HIL_KERNELS_GENERIC_BINARY_H
#define HIL_KERNELS_GENERIC_BINARY_H

#include <stdint.h>

#include "hil/kernels/generic/clamp_f32.h"
#include "hil/kernels/generic/walk.h"
#include "hil/quant.h"

/* The walk: rows of `length` outputs; an operand's step is 0 where one element serves the row. */
#define HIL_BINARY_FIELDS                                                                          \
    int32_t rows;                    /* innermost loops of `length` elements */                    \
    int32_t counts[HIL_WALK_LOOPS];  /* turns of the loops around them */                          \
    int32_t a_jumps[HIL_WALK_LOOPS]; /* by which the first operand moves as each loop advances */  \
    int32_t b_jumps[HIL_WALK_LOOPS]; /* the same of the second operand */                          \
    int32_t length;                  /* elements of an innermost loop */                           \
    int32_t a_step; /* from one of the first operand's elements to the next; 0: one for all */     \
    int32_t b_step  /* the same of the second operand */

/* Writes out[] = element(p, a[], b[]) along the walk of p. */
#define HIL_BINARY_WALK(p, a, b, out, element)                                                     \
    do {                                                                                           \
        int32_t index[HIL_WALK_LOOPS] = {0};                                                       \
        int32_t a_row = 0;                                                                         \
        int32_t b_row = 0;                                                                         \
        int32_t o = 0;                                                                             \
        for (int32_t row = 0; row < (p)->rows; row++) {                                            \
            int32_t i = a_row;                                                                     \
            int32_t j = b_row;                                                                     \
            for (int32_t n = 0; n < (p)->length; n++) {                                            \
                (out)[o++] = element((p), (a)[i], (b)[j]);                                         \
                i += (p)->a_step;                                                                  \
                j += (p)->b_step;                                                                  \
            }                                                                                      \
            const int loop = hil_walk_next(index, (p)->counts);                                    \
            a_row += (p)->a_jumps[loop];                                                           \
            b_row += (p)->b_jumps[loop];                                                           \
        }                                                                                          \
    } while (0)

#define HIL_SUM_S8_FIELDS                                                                          \
    HIL_BINARY_FIELDS;                                                                             \
    int32_t a_zero_point; /* the first operand's value that stands for 0.0 */                      \
    int32_t a_multiplier; /* of the first operand, in Q0.31, to twice the larger scale */          \
    int32_t a_shift;      /* of that product, to the left; 0 for a factor of one half, below 0 for \
                             others */                                                             \
    int32_t b_zero_point; /* the second operand's value that stands for 0.0 */                     \
    int32_t b_multiplier; /* of the second operand, in Q0.31 */                                    \
    int32_t b_shift;      /* of that product, as a_shift */                                        \
    int32_t out_zero_point; /* the output that stands for 0.0 */                                   \
    int32_t out_multiplier; /* of the sum, in Q0.31 */                                             \
    int32_t out_shift;      /* of that product, to the left; below 0 to the right */               \
    int32_t low;            /* the least output */                                                 \
    int32_t high            /* the largest output */

/* An operand less its zero point, raised by 20 bits and brought to twice the larger scale. The
 * shift is 0 for the operand with that scale alone: its factor is one half, and the product exact.
 */
HIL_INLINE int32_t hil_sum_s8_operand(int32_t x, int32_t multiplier, int32_t shift) {
    if (shift == 0) {
        return x * (INT32_C(1) << 19);
    }
    return hil_requantize_narrow(x * (INT32_C(1) << 20), multiplier, shift, 0);
}

/* x scaled, plus the zero point, for |x| < 2^30: the short form serves every shift but those to the
 * left, which no sensible quantization leads to. */
HIL_INLINE int32_t hil_binary_s8_scale(int32_t x, int32_t multiplier, int32_t shift,
                                       int32_t zero_point) {
    return shift < 0 ? hil_requantize_narrow(x, multiplier, shift, zero_point)
                     : hil_requantize(x, multiplier, shift) + zero_point;
}

/*@kernel
name = "hil_generic_add_s8"
requires = []
inputs = ["int8_t", "int8_t"]
outputs = ["int8_t"]
scratch = "0"
order = "elementwise"
code = 96
variable = ["a_zero_point", "b_zero_point", "out_zero_point", "out_multiplier"]
[cost]
row = "rows"
element = "rows * length"
@*/
struct hil_generic_add_s8 {
    HIL_SUM_S8_FIELDS;
};

HIL_INLINE int8_t hil_add_s8_element(const struct hil_generic_add_s8 *p, int8_t a, int8_t b) {
    const int32_t x = hil_sum_s8_operand(a - p->a_zero_point, p->a_multiplier, p->a_shift);
    const int32_t y = hil_sum_s8_operand(b - p->b_zero_point, p->b_multiplier, p->b_shift);
    const int32_t sum =
        hil_binary_s8_scale(x + y, p->out_multiplier, p->out_shift, p->out_zero_point);
    return hil_clamp_s8(sum, p->low, p->high);
}

HIL_INLINE void hil_generic_add_s8(const struct hil_generic_add_s8 *p, const int8_t *a,
                                   const int8_t *b, int8_t *out) {
    HIL_BINARY_WALK(p, a, b, out, hil_add_s8_element);
}

/*@kernel
name = "hil_generic_sub_s8"
requires = []
inputs = ["int8_t", "int8_t"]
outputs = ["int8_t"]
scratch = "0"
order = "elementwise"
code = 104
variable = ["a_zero_point", "b_zero_point", "out_zero_point", "out_multiplier"]
[cost]
row = "rows"
element = "rows * length"
@*/
struct hil_generic_sub_s8 {
    HIL_SUM_S8_FIELDS;
};

HIL_INLINE int8_t hil_sub_s8_element(const struct hil_generic_sub_s8 *p, int8_t a, int8_t b) {
    const int32_t x = hil_sum_s8_operand(a - p->a_zero_point, p->a_multiplier, p->a_shift);
    const int32_t y = hil_sum_s8_operand(b - p->b_zero_point, p->b_multiplier, p->b_shift);
    const int32_t difference =
        hil_binary_s8_scale(x - y, p->out_multiplier, p->out_shift, p->out_zero_point);
    return hil_clamp_s8(difference, p->low, p->high);
}

HIL_INLINE void hil_generic_sub_s8(const struct hil_generic_sub_s8 *p, const int8_t *a,
                                   const int8_t *b, int8_t *out) {
    HIL_BINARY_WALK(p, a, b, out, hil_sub_s8_element);
}

/* Sums and differences that are rounded once: a line of both values, where the compiler has
 * compared one with what is wanted for all pairs of values, or products of 64 bits, whose ties go
 * to even. */
/*@kernel
name = "hil_generic_sum_s8_affine"
requires = []
inputs = ["int8_t", "int8_t"]
outputs = ["int8_t"]
scratch = "0"
order = "elementwise"
code = 90
[cost]
row = "rows"
element = "rows * length"
@*/
struct hil_generic_sum_s8_affine {
    HIL_BINARY_FIELDS;
    int32_t first;  /* factor of the first operand */
    int32_t second; /* factor of the second operand */
    int32_t addend; /* added to both products, within int32 for every pair */
    int32_t shift;  /* to the right, of the sum */
    int32_t low;    /* the least output */
    int32_t high;   /* the largest output */
};

HIL_INLINE int8_t hil_line_sum_s8_element(const struct hil_generic_sum_s8_affine *p, int8_t a,
                                          int8_t b) {
    const int32_t sum = a * p->first + (b * p->second + p->addend);
    return hil_clamp_s8(sum >> p->shift, p->low, p->high);
}

HIL_INLINE void hil_generic_sum_s8_affine(const struct hil_generic_sum_s8_affine *p,
                                          const int8_t *a, const int8_t *b, int8_t *out) {
    HIL_BINARY_WALK(p, a, b, out, hil_line_sum_s8_element);
}

/*@kernel
name = "hil_generic_sum_s8_even"
requires = []
inputs = ["int8_t", "int8_t"]
outputs = ["int8_t"]
scratch = "0"
order = "elementwise"
code = 140
[cost]
row = "rows"
element = "rows * length"
@*/
struct hil_generic_sum_s8_even {
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

HIL_INLINE int8_t hil_even_sum_s8_element(const struct hil_generic_sum_s8_even *p, int8_t a,
                                          int8_t b) {
    const int64_t sum =
        (int64_t)(a - p->a_zero_point) * p->a_factor + (int64_t)(b - p->b_zero_point) * p->b_factor;
    return hil_clamp_s8(hil_round_even(sum, p->right) + p->out_zero_point, p->low, p->high);
}

HIL_INLINE void hil_generic_sum_s8_even(const struct hil_generic_sum_s8_even *p, const int8_t *a,
                                        const int8_t *b, int8_t *out) {
    HIL_BINARY_WALK(p, a, b, out, hil_even_sum_s8_element);
}

/*@kernel
name = "hil_generic_mul_s8"
requires = []
inputs = ["int8_t", "int8_t"]
outputs = ["int8_t"]
scratch = "0"
order = "elementwise"
code = 70
variable = ["a_zero_point", "b_zero_point", "out_zero_point", "multiplier"]
[cost]
row = "rows"
element = "rows * length"
@*/
struct hil_generic_mul_s8 {
    HIL_BINARY_FIELDS;
    int32_t a_zero_point;   /* the first operand's value that stands for 0.0 */
    int32_t b_zero_point;   /* the second operand's value that stands for 0.0 */
    int32_t out_zero_point; /* the output that stands for 0.0 */
    int32_t multiplier;     /* of the product, in Q0.31 */
    int32_t shift;          /* of that, to the left; below 0 to the right */
    int32_t rounding;       /* of that: HIL_ROUND_TWICE and others (quant.h) */
    int32_t low;            /* the least output */
    int32_t high;           /* the largest output */
};

HIL_INLINE int8_t hil_mul_s8_element(const struct hil_generic_mul_s8 *p, int8_t a, int8_t b) {
    const int32_t product = (a - p->a_zero_point) * (b - p->b_zero_point);
    const int32_t scaled =
        hil_requantize_by(p->rounding, product, p->multiplier, p->shift, p->out_zero_point);
    return hil_clamp_s8(scaled, p->low, p->high);
}

HIL_INLINE void hil_generic_mul_s8(const struct hil_generic_mul_s8 *p, const int8_t *a,
                                   const int8_t *b, int8_t *out) {
    HIL_BINARY_WALK(p, a, b, out, hil_mul_s8_element);
}

#define HIL_BINARY_F32_FIELDS                                                                      \
    HIL_BINARY_FIELDS;                                                                             \
    float low; /* the least output */                                                              \
    float high /* the largest output */

/*@kernel
name = "hil_generic_add_f32"
requires = []
inputs = ["float", "float"]
outputs = ["float"]
scratch = "0"
order = "elementwise"
code = 88
[cost]
row = "rows"
element = "rows * length"
@*/
struct hil_generic_add_f32 {
    HIL_BINARY_F32_FIELDS;
};

HIL_INLINE float hil_add_f32_element(const struct hil_generic_add_f32 *p, float a, float b) {
    return hil_clamp_f32(a + b, p->low, p->high);
}

HIL_INLINE void hil_generic_add_f32(const struct hil_generic_add_f32 *p, const float *a,
                                    const float *b, float *out) {
    HIL_BINARY_WALK(p, a, b, out, hil_add_f32_element);
}

/*@kernel
name = "hil_generic_sub_f32"
requires = []
inputs = ["float", "float"]
outputs = ["float"]
scratch = "0"
order = "elementwise"
code = 88
[cost]
row = "rows"
element = "rows * length"
@*/
struct hil_generic_sub_f32 {
    HIL_BINARY_F32_FIELDS;
};

HIL_INLINE float hil_sub_f32_element(const struct hil_generic_sub_f32 *p, float a, float b) {
    return hil_clamp_f32(a - b, p->low, p->high);
}

HIL_INLINE void hil_generic_sub_f32(const struct hil_generic_sub_f32 *p, const float *a,
                                    const float *b, float *out) {
    HIL_BINARY_WALK(p, a, b, out, hil_sub_f32_element);
}

/*@kernel
name = "hil_generic_mul_f32"
requires = []
inputs = ["float", "float"]
outputs = ["float"]
scratch = "0"
order = "elementwise"
code = 94
[cost]
row = "rows"
element = "rows * length"
@*/
struct hil_generic_mul_f32 {
    HIL_BINARY_F32_FIELDS;
};

HIL_INLINE float hil_mul_f32_element(const struct hil_generic_mul_f32 *p, float a, float b) {
    return hil_clamp_f32(a * b, p->low, p->high);
}

HIL_INLINE void hil_generic_mul_f32(const struct hil_generic_mul_f32 *p, const float *a,
                                    const float *b, float *out) {
    HIL_BINARY_WALK(p, a, b, out, hil_mul_f32_element);
}

#endif
