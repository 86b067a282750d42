/* Softmax of rows. */
#ifndef HIL_KERNELS_GENERIC_SOFTMAX_H
#define HIL_KERNELS_GENERIC_SOFTMAX_H

#include <math.h>
#include <stdint.h>

#include "hil/kernels/generic/fixed_point.h"
#include "hil/quant.h"

/*@kernel
name = "hil_softmax_s8"
requires = []
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "0"
order = "elementwise"
code = 432
[cost.counts]
element = "rows * depth"
[cost.on.cortex-m3]
call = 153.9
element = 40.65
[cost.on.cortex-m4]
factor = 1.14
[cost.on.cortex-m55]
factor = 1.11
[cost.on.cortex-m33]
factor = 1.11
[cost.on.cortex-m0]
factor = 2.99
[cost.on.rv32imac]
factor = 1.34
@*/
struct hil_softmax_s8 {
    int32_t rows;  /* that each add up to one */
    int32_t depth; /* elements of a row */
    int32_t near;  /* distances to the row's maximum below this one have an exponential */
    const int32_t *exponentials; /* of minus the distance, in Q0.31; of others nothing is left */
};

HIL_INLINE int32_t hil_softmax_s8_exponential(const struct hil_softmax_s8 *p, int32_t distance) {
    return distance < p->near ? p->exponentials[distance] : 0;
}

HIL_INLINE void hil_softmax_s8(const struct hil_softmax_s8 *p, const int8_t *in, int8_t *out) {
    for (int32_t row = 0; row < p->rows; row++) {
        int8_t max = INT8_MIN;
        for (int32_t i = 0; i < p->depth; i++) {
            max = in[i] > max ? in[i] : max;
        }
        /* With 12 integer bits; the maximum's own exponential alone makes it 2^19. */
        uint32_t sum = 0;
        for (int32_t i = 0; i < p->depth; i++) {
            const int32_t power = hil_softmax_s8_exponential(p, max - in[i]);
            sum += (uint32_t)hil_rounding_divide_by_pot(power, 12);
        }
        int shift = 31 - 8 + 12;
        while (sum < UINT32_C(1) << 31) {
            sum *= 2;
            shift--;
        }
        const int32_t scale = hil_reciprocal((int32_t)(sum - (UINT32_C(1) << 31)));
        for (int32_t i = 0; i < p->depth; i++) {
            const int32_t power = hil_softmax_s8_exponential(p, max - in[i]);
            const int32_t share = hil_doubling_high_mul(power, scale);
            /* A shift beyond 31 leaves nothing of a 31-bit number. */
            const int32_t steps = shift > 31 ? 0 : hil_rounding_divide_by_pot(share, shift);
            out[i] = hil_clamp_s8(steps + INT8_MIN, INT8_MIN, INT8_MAX);
        }
        in += p->depth;
        out += p->depth;
    }
}

/*@kernel
name = "hil_softmax_f32"
requires = []
inputs = ["float"]
outputs = ["float"]
scratch = "0"
order = "elementwise"
code = 139
[cost.counts]
element = "rows * depth"
[cost.on.cortex-m3]
element = 1379.0
[cost.on.cortex-m4]
factor = 0.07
[cost.on.cortex-m33]
factor = 0.07
[cost.on.cortex-m55]
factor = 0.04
[cost.on.cortex-m0]
factor = 2.23
[cost.on.rv32imac]
factor = 1.68
@*/
struct hil_softmax_f32 {
    int32_t rows;  /* that each add up to one */
    int32_t depth; /* elements of a row */
    float beta;    /* factor of the exponents */
};

HIL_INLINE void hil_softmax_f32(const struct hil_softmax_f32 *p, const float *in, float *out) {
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
