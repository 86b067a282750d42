/* Functions of single elements. For int8 each is a table, whatever the function. */
#ifndef HIL_KERNELS_GENERIC_UNARY_H
#define HIL_KERNELS_GENERIC_UNARY_H

#include <math.h>
#include <stdint.h>

#include "hil/kernels/generic/clamp_f32.h"
#include "hil/quant.h"

/*@kernel
name = "hil_generic_lut_s8"
requires = []
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "0"
order = "elementwise"
code = 32
[cost]
element = "size"
@*/
struct hil_generic_lut_s8 {
    int32_t size;        /* elements */
    const int8_t *table; /* the values for the bytes 0x00 to 0xff */
};

HIL_INLINE void hil_generic_lut_s8(const struct hil_generic_lut_s8 *p, const int8_t *in,
                                   int8_t *out) {
    for (int32_t i = 0; i < p->size; i++) {
        out[i] = p->table[(uint8_t)in[i]];
    }
}

/*@kernel
name = "hil_generic_clamp_f32_each"
requires = []
inputs = ["float"]
outputs = ["float"]
scratch = "0"
order = "elementwise"
code = 80
[cost]
element = "size"
@*/
struct hil_generic_clamp_f32_each {
    int32_t size; /* elements */
    float low;    /* the least output */
    float high;   /* the largest output */
};

HIL_INLINE void hil_generic_clamp_f32_each(const struct hil_generic_clamp_f32_each *p,
                                           const float *in, float *out) {
    for (int32_t i = 0; i < p->size; i++) {
        out[i] = hil_clamp_f32(in[i], p->low, p->high);
    }
}

/*@kernel
name = "hil_generic_leaky_relu_f32"
requires = []
inputs = ["float"]
outputs = ["float"]
scratch = "0"
order = "elementwise"
code = 50
[cost]
element = "size"
@*/
struct hil_generic_leaky_relu_f32 {
    int32_t size; /* elements */
    float alpha;  /* factor of values below 0 */
};

HIL_INLINE void hil_generic_leaky_relu_f32(const struct hil_generic_leaky_relu_f32 *p,
                                           const float *in, float *out) {
    for (int32_t i = 0; i < p->size; i++) {
        out[i] = in[i] > 0.0f ? in[i] : in[i] * p->alpha;
    }
}

/*@kernel
name = "hil_generic_logistic_f32"
requires = []
inputs = ["float"]
outputs = ["float"]
scratch = "0"
order = "elementwise"
code = 120
[cost]
element = "size"
@*/
struct hil_generic_logistic_f32 {
    int32_t size; /* elements */
};

HIL_INLINE void hil_generic_logistic_f32(const struct hil_generic_logistic_f32 *p, const float *in,
                                         float *out) {
    for (int32_t i = 0; i < p->size; i++) {
        /* The reference's borders: what it computes beyond them differs by more than rounding. */
        if (in[i] > 16.619047164916992f) {
            out[i] = 1.0f;
        } else if (in[i] < -9.0f) {
            out[i] = expf(in[i]);
        } else {
            out[i] = 1.0f / (1.0f + expf(-in[i]));
        }
    }
}

/*@kernel
name = "hil_generic_tanh_f32"
requires = []
inputs = ["float"]
outputs = ["float"]
scratch = "0"
order = "elementwise"
code = 30
[cost]
element = "size"
@*/
struct hil_generic_tanh_f32 {
    int32_t size; /* elements */
};

HIL_INLINE void hil_generic_tanh_f32(const struct hil_generic_tanh_f32 *p, const float *in,
                                     float *out) {
    for (int32_t i = 0; i < p->size; i++) {
        out[i] = tanhf(in[i]);
    }
}

/*@kernel
name = "hil_generic_hard_swish_f32"
requires = []
inputs = ["float"]
outputs = ["float"]
scratch = "0"
order = "elementwise"
code = 104
[cost]
element = "size"
@*/
struct hil_generic_hard_swish_f32 {
    int32_t size; /* elements */
};

HIL_INLINE void hil_generic_hard_swish_f32(const struct hil_generic_hard_swish_f32 *p,
                                           const float *in, float *out) {
    for (int32_t i = 0; i < p->size; i++) {
        out[i] = in[i] * hil_clamp_f32(in[i] + 3.0f, 0.0f, 6.0f) / 6.0f;
    }
}

#endif
