/* Numbers below zero times a slope, with broadcasting of the slopes. */
#ifndef HIL_KERNELS_GENERIC_PRELU_H
#define HIL_KERNELS_GENERIC_PRELU_H

#include <stdint.h>

#include "hil/kernels/generic/binary.h"
#include "hil/quant.h"

/*@kernel
name = "hil_generic_prelu_f32"
requires = []
inputs = ["float", "float"]
outputs = ["float"]
scratch = "0"
order = "elementwise"
code = 66
[cost]
row = "rows"
element = "rows * length"
@*/
struct hil_generic_prelu_f32 {
    HIL_BINARY_FIELDS;
};

HIL_INLINE float hil_prelu_f32_element(const struct hil_generic_prelu_f32 *p, float x,
                                       float slope) {
    (void)p;
    return x >= 0.0f ? x : x * slope;
}

HIL_INLINE void hil_generic_prelu_f32(const struct hil_generic_prelu_f32 *p, const float *a,
                                      const float *b, float *out) {
    HIL_BINARY_WALK(p, a, b, out, hil_prelu_f32_element);
}

/*@kernel
name = "hil_generic_prelu_s8"
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
struct hil_generic_prelu_s8 {
    HIL_BINARY_FIELDS;
    int32_t in_zero_point;       /* the input that stands for 0.0 */
    int32_t slope_zero_point;    /* the slope that stands for 0.0 */
    int32_t out_zero_point;      /* the output that stands for 0.0 */
    int32_t positive_multiplier; /* of numbers from 0 on, in Q0.31 */
    int32_t positive_shift;      /* of that product, to the left; below 0 to the right */
    int32_t product_multiplier;  /* of products with a slope, in Q0.31 */
    int32_t product_shift;       /* of that product, likewise */
    int32_t rounding;            /* HIL_ROUND_TWICE or HIL_ROUND_EVEN */
};

HIL_INLINE int8_t hil_prelu_s8_element(const struct hil_generic_prelu_s8 *p, int8_t x,
                                       int8_t slope) {
    const int32_t steps = x - p->in_zero_point;
    const int32_t placed =
        steps >= 0 ? hil_requantize_by(p->rounding, steps, p->positive_multiplier,
                                       p->positive_shift, p->out_zero_point)
                   : hil_requantize_by(p->rounding, steps * (slope - p->slope_zero_point),
                                       p->product_multiplier, p->product_shift, p->out_zero_point);
    return hil_clamp_s8(placed, INT8_MIN, INT8_MAX);
}

HIL_INLINE void hil_generic_prelu_s8(const struct hil_generic_prelu_s8 *p, const int8_t *a,
                                     const int8_t *b, int8_t *out) {
    HIL_BINARY_WALK(p, a, b, out, hil_prelu_s8_element);
}

/*@kernel
name = "hil_generic_prelu_s8_f32"
requires = []
inputs = ["int8_t", "float"]
outputs = ["int8_t"]
scratch = "0"
order = "elementwise"
code = 160
[cost]
row = "rows"
element = "rows * length"
@*/
struct hil_generic_prelu_s8_f32 {
    HIL_BINARY_FIELDS;
    int32_t in_zero_point;  /* the input that stands for 0.0 */
    int32_t out_zero_point; /* the output that stands for 0.0 */
    float ratio;            /* the input's scale over the output's */
};

HIL_INLINE int8_t hil_prelu_s8_f32_element(const struct hil_generic_prelu_s8_f32 *p, int8_t x,
                                           float slope) {
    const int32_t steps = x - p->in_zero_point;
    const float least = (float)(INT8_MIN - p->out_zero_point);
    const float most = (float)(INT8_MAX - p->out_zero_point);
    const float scaled = (float)steps * (steps >= 0 ? p->ratio : slope * p->ratio);
    const float clamped = scaled > least ? (scaled < most ? scaled : most) : least;
    /* Among numbers of 24 bits before the point the sum is the nearest, ties to even. */
    const float rounded = (clamped + 12582912.0F) - 12582912.0F;
    return (int8_t)((int32_t)rounded + p->out_zero_point);
}

HIL_INLINE void hil_generic_prelu_s8_f32(const struct hil_generic_prelu_s8_f32 *p, const int8_t *a,
                                         const float *b, int8_t *out) {
    HIL_BINARY_WALK(p, a, b, out, hil_prelu_s8_f32_element);
}

#endif
