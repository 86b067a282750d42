/* Products of two matrices, both computed when the model runs, and of many such pairs. A transposed
 * matrix is one with other steps. */
#ifndef HIL_KERNELS_GENERIC_BATCH_MATMUL_H
#define HIL_KERNELS_GENERIC_BATCH_MATMUL_H

#include <stdint.h>

#include "hil/kernels/generic/fields.h"
#include "hil/kernels/generic/walk.h"
#include "hil/quant.h"

#define HIL_BATCH_MATMUL_FIELDS                                                                    \
    int32_t batches;                /* pairs of matrices */                                        \
    int32_t counts[HIL_WALK_LOOPS]; /* turns of the loops over the pairs */                        \
    int32_t                                                                                        \
        a_jumps[HIL_WALK_LOOPS]; /* by which the first matrix moves as each of them advances */    \
    int32_t b_jumps[HIL_WALK_LOOPS]; /* by which the second one does */                            \
    int32_t rows;                    /* of the first matrix, and of the product */                 \
    int32_t depth;                   /* elements of a row, products of a sum */                    \
    int32_t columns;                 /* of the second matrix, and of the product */                \
    int32_t a_row;                   /* from a row of the first matrix to the next */              \
    int32_t a_step;                  /* from one element of its rows to the next */                \
    int32_t b_column;                /* from a column of the second matrix to the next */          \
    int32_t b_step                   /* from one element of its columns to the next */

/* Makes a product of each pair of matrices, at `a` and `b`. */
#define HIL_BATCH_MATMUL_EACH(p, a, b, product)                                                    \
    do {                                                                                           \
        int32_t index[HIL_WALK_LOOPS] = {0};                                                       \
        for (int32_t batch = 0; batch < (p)->batches; batch++) {                                   \
            product;                                                                               \
            const int loop = hil_walk_next(index, (p)->counts);                                    \
            (a) += (p)->a_jumps[loop];                                                             \
            (b) += (p)->b_jumps[loop];                                                             \
        }                                                                                          \
    } while (0)

/* Writes out[] = finish(p, sum(p, row, column)) for every element of a product. */
#define HIL_BATCH_MATMUL_PRODUCT(p, a, b, out, sum, finish)                                        \
    for (int32_t row = 0; row < (p)->rows; row++) {                                                \
        for (int32_t column = 0; column < (p)->columns; column++) {                                \
            *(out)++ =                                                                             \
                finish((p), sum((p), (a) + row * (p)->a_row, (b) + column * (p)->b_column));       \
        }                                                                                          \
    }

/*@kernel
name = "hil_generic_batch_matmul_s8"
requires = []
inputs = ["int8_t", "int8_t"]
outputs = ["int8_t"]
scratch = "0"
order = "none"
code = 330
[cost]
batch = "batches"
output = "batches * rows * columns"
mac = "output * depth"
@*/
struct hil_generic_batch_matmul_s8 {
    HIL_BATCH_MATMUL_FIELDS;
    int32_t a_offset; /* what is added to each element of the first matrix */
    int32_t b_offset; /* what is added to each element of the second one */
    HIL_OUTPUT_RANGE_FIELDS;
    int32_t multiplier; /* in Q0.31 */
    int32_t shift;      /* of the products, to the left; below 0 to the right */
    int32_t rounding;   /* of those: HIL_ROUND_TWICE and others (quant.h) */
};

HIL_INLINE int32_t hil_batch_matmul_s8_sum(const struct hil_generic_batch_matmul_s8 *p,
                                           const int8_t *a, const int8_t *b) {
    int32_t sum = 0;
    for (int32_t i = 0; i < p->depth; i++) {
        sum += (*a + p->a_offset) * (*b + p->b_offset);
        a += p->a_step;
        b += p->b_step;
    }
    return sum;
}

HIL_INLINE int8_t hil_batch_matmul_s8_finish(const struct hil_generic_batch_matmul_s8 *p,
                                             int32_t sum) {
    const int32_t value =
        hil_requantize_by(p->rounding, sum, p->multiplier, p->shift, p->out_zero_point);
    return (int8_t)hil_clamp(value, p->out_min, p->out_max);
}

HIL_INLINE void hil_generic_batch_matmul_s8(const struct hil_generic_batch_matmul_s8 *p,
                                            const int8_t *a, const int8_t *b, int8_t *out) {
    HIL_BATCH_MATMUL_EACH(p, a, b,
                          HIL_BATCH_MATMUL_PRODUCT(p, a, b, out, hil_batch_matmul_s8_sum,
                                                   hil_batch_matmul_s8_finish));
}

/*@kernel
name = "hil_generic_batch_matmul_s16"
requires = []
inputs = ["int16_t", "int16_t"]
outputs = ["int16_t"]
scratch = "0"
order = "none"
code = 330
[cost]
batch = "batches"
output = "batches * rows * columns"
mac = "output * depth"
@*/
struct hil_generic_batch_matmul_s16 {
    HIL_BATCH_MATMUL_FIELDS;
    int32_t multiplier; /* of 15 bits */
    int32_t shift;      /* to the right, 8 to 46 */
};

HIL_INLINE int64_t hil_batch_matmul_s16_sum(const struct hil_generic_batch_matmul_s16 *p,
                                            const int16_t *a, const int16_t *b) {
    int64_t sum = 0;
    for (int32_t i = 0; i < p->depth; i++) {
        sum += *a * *b;
        a += p->a_step;
        b += p->b_step;
    }
    return sum;
}

HIL_INLINE int16_t hil_batch_matmul_s16_finish(const struct hil_generic_batch_matmul_s16 *p,
                                               int64_t sum) {
    const int32_t scaled = hil_requantize_once(sum, p->multiplier, p->shift);
    return (int16_t)hil_clamp(scaled, INT16_MIN, INT16_MAX);
}

HIL_INLINE void hil_generic_batch_matmul_s16(const struct hil_generic_batch_matmul_s16 *p,
                                             const int16_t *a, const int16_t *b, int16_t *out) {
    HIL_BATCH_MATMUL_EACH(p, a, b,
                          HIL_BATCH_MATMUL_PRODUCT(p, a, b, out, hil_batch_matmul_s16_sum,
                                                   hil_batch_matmul_s16_finish));
}

/* Sums of 64 bits, rounded once, ties to even. */
/*@kernel
name = "hil_generic_batch_matmul_s16_even"
requires = []
inputs = ["int16_t", "int16_t"]
outputs = ["int16_t"]
scratch = "0"
order = "none"
code = 400
[cost]
batch = "batches"
output = "batches * rows * columns"
mac = "output * depth"
@*/
struct hil_generic_batch_matmul_s16_even {
    HIL_BATCH_MATMUL_FIELDS;
    int32_t a_offset; /* what is added to each element of the first matrix */
    int32_t b_offset; /* what is added to each element of the second one */
    HIL_OUTPUT_RANGE_FIELDS;
    int32_t multiplier; /* in Q0.31 */
    int32_t shift;      /* of the products, to the left; below 0 to the right */
};

HIL_INLINE int64_t hil_batch_matmul_s16_even_sum(const struct hil_generic_batch_matmul_s16_even *p,
                                                 const int16_t *a, const int16_t *b) {
    int64_t sum = 0;
    for (int32_t i = 0; i < p->depth; i++) {
        sum += (int64_t)(*a + p->a_offset) * (*b + p->b_offset);
        a += p->a_step;
        b += p->b_step;
    }
    return sum;
}

HIL_INLINE int16_t
hil_batch_matmul_s16_even_finish(const struct hil_generic_batch_matmul_s16_even *p, int64_t sum) {
    const int32_t value =
        hil_requantize_wide_even(sum, p->multiplier, p->shift) + p->out_zero_point;
    return (int16_t)hil_clamp(value, p->out_min, p->out_max);
}

HIL_INLINE void hil_generic_batch_matmul_s16_even(const struct hil_generic_batch_matmul_s16_even *p,
                                                  const int16_t *a, const int16_t *b,
                                                  int16_t *out) {
    HIL_BATCH_MATMUL_EACH(p, a, b,
                          HIL_BATCH_MATMUL_PRODUCT(p, a, b, out, hil_batch_matmul_s16_even_sum,
                                                   hil_batch_matmul_s16_even_finish));
}

/*@kernel
name = "hil_generic_batch_matmul_f32"
requires = []
inputs = ["float", "float"]
outputs = ["float"]
scratch = "0"
order = "none"
code = 250
[cost]
batch = "batches"
output = "batches * rows * columns"
mac = "output * depth"
@*/
struct hil_generic_batch_matmul_f32 {
    HIL_BATCH_MATMUL_FIELDS;
};

HIL_INLINE float hil_batch_matmul_f32_sum(const struct hil_generic_batch_matmul_f32 *p,
                                          const float *a, const float *b) {
    float sum = 0.0F;
    for (int32_t i = 0; i < p->depth; i++) {
        sum += *a * *b;
        a += p->a_step;
        b += p->b_step;
    }
    return sum;
}

HIL_INLINE float hil_batch_matmul_f32_finish(const struct hil_generic_batch_matmul_f32 *p,
                                             float sum) {
    (void)p;
    return sum;
}

HIL_INLINE void hil_generic_batch_matmul_f32(const struct hil_generic_batch_matmul_f32 *p,
                                             const float *a, const float *b, float *out) {
    HIL_BATCH_MATMUL_EACH(p, a, b,
                          HIL_BATCH_MATMUL_PRODUCT(p, a, b, out, hil_batch_matmul_f32_sum,
                                                   hil_batch_matmul_f32_finish));
}

#endif
