/* Functions of single elements. For int8 each is a table, whatever the function. */
#ifndef HIL_KERNELS_GENERIC_UNARY_H
#define HIL_KERNELS_GENERIC_UNARY_H

#include <math.h>
#include <stdint.h>

#include "hil/kernels/generic/clamp_f32.h"
#include "hil/quant.h"

/*@kernel
name = "hil_lut_s8"
requires = []
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "0"
order = "elementwise"
code = 32
[cost.counts]
element = "size"
[cost.on.cortex-m3]
call = 22.64
element = 5.012
[cost.on.cortex-m4]
factor = 1.0
[cost.on.cortex-m33]
factor = 1.0
[cost.on.cortex-m55]
factor = 0.83
[cost.on.cortex-m0]
factor = 1.06
[cost.on.rv32imac]
factor = 1.03
@*/
struct hil_lut_s8 {
    int32_t size;        /* elements */
    const int8_t *table; /* the values for the bytes 0x00 to 0xff */
};

HIL_INLINE void hil_lut_s8(const struct hil_lut_s8 *p, const int8_t *in, int8_t *out) {
    for (int32_t i = 0; i < p->size; i++) {
        out[i] = p->table[(uint8_t)in[i]];
    }
}

/*@kernel
name = "hil_clamp_f32_each"
requires = []
inputs = ["float"]
outputs = ["float"]
scratch = "0"
order = "elementwise"
code = 80
[cost.counts]
element = "size"
[cost.on.cortex-m3]
element = 63.98
[cost.on.cortex-m4]
factor = 0.18
[cost.on.cortex-m33]
factor = 0.17
[cost.on.cortex-m55]
factor = 0.17
[cost.on.cortex-m0]
factor = 0.98
[cost.on.rv32imac]
factor = 0.65
@*/
struct hil_clamp_f32_each {
    int32_t size; /* elements */
    float low;    /* the least output */
    float high;   /* the largest output */
};

HIL_INLINE void hil_clamp_f32_each(const struct hil_clamp_f32_each *p, const float *in,
                                   float *out) {
    for (int32_t i = 0; i < p->size; i++) {
        out[i] = hil_clamp_f32(in[i], p->low, p->high);
    }
}

/*@kernel
name = "hil_leaky_relu_f32"
requires = []
inputs = ["float"]
outputs = ["float"]
scratch = "0"
order = "elementwise"
code = 50
[cost.counts]
element = "size"
[cost.on.cortex-m3]
call = 79.47
[cost.on.cortex-m4]
call = 15.96
element = 8.016
[cost.on.cortex-m33]
call = 15.96
element = 8.016
[cost.on.cortex-m55]
factor = 0.66
[cost.on.cortex-m0]
factor = 4.28
[cost.on.rv32imac]
factor = 3.51
@*/
struct hil_leaky_relu_f32 {
    int32_t size; /* elements */
    float alpha;  /* factor of values below 0 */
};

HIL_INLINE void hil_leaky_relu_f32(const struct hil_leaky_relu_f32 *p, const float *in,
                                   float *out) {
    for (int32_t i = 0; i < p->size; i++) {
        out[i] = in[i] > 0.0f ? in[i] : in[i] * p->alpha;
    }
}

/*@kernel
name = "hil_logistic_f32"
requires = []
inputs = ["float"]
outputs = ["float"]
scratch = "0"
order = "elementwise"
code = 120
[cost.counts]
element = "size"
[cost.on.cortex-m3]
call = 30.84
element = 1287.0
[cost.on.cortex-m4]
factor = 0.06
[cost.on.cortex-m33]
factor = 0.06
[cost.on.cortex-m55]
factor = 0.04
[cost.on.cortex-m0]
factor = 2.06
[cost.on.rv32imac]
factor = 1.55
@*/
struct hil_logistic_f32 {
    int32_t size; /* elements */
};

HIL_INLINE void hil_logistic_f32(const struct hil_logistic_f32 *p, const float *in, float *out) {
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
name = "hil_tanh_f32"
requires = []
inputs = ["float"]
outputs = ["float"]
scratch = "0"
order = "elementwise"
code = 30
[cost.counts]
element = "size"
[cost.on.cortex-m3]
element = 1798.0
[cost.on.cortex-m4]
factor = 0.06
[cost.on.cortex-m33]
factor = 0.06
[cost.on.cortex-m55]
factor = 0.06
[cost.on.cortex-m0]
factor = 2.19
[cost.on.rv32imac]
factor = 1.83
@*/
struct hil_tanh_f32 {
    int32_t size; /* elements */
};

HIL_INLINE void hil_tanh_f32(const struct hil_tanh_f32 *p, const float *in, float *out) {
    for (int32_t i = 0; i < p->size; i++) {
        out[i] = tanhf(in[i]);
    }
}

/*@kernel
name = "hil_hard_swish_f32"
requires = []
inputs = ["float"]
outputs = ["float"]
scratch = "0"
order = "elementwise"
code = 104
[cost.counts]
element = "size"
[cost.on.cortex-m3]
call = 21.99
element = 316.3
[cost.on.cortex-m4]
factor = 0.06
[cost.on.cortex-m33]
call = 18.03
element = 13.07
[cost.on.cortex-m55]
call = 18.03
element = 13.07
[cost.on.cortex-m0]
factor = 2.04
[cost.on.rv32imac]
factor = 1.07
@*/
struct hil_hard_swish_f32 {
    int32_t size; /* elements */
};

HIL_INLINE void hil_hard_swish_f32(const struct hil_hard_swish_f32 *p, const float *in,
                                   float *out) {
    for (int32_t i = 0; i < p->size; i++) {
        out[i] = in[i] * hil_clamp_f32(in[i] + 3.0f, 0.0f, 6.0f) / 6.0f;
    }
}

#endif
