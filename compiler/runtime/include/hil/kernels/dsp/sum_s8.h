/* Sum or difference of two int8 tensors of one shape, as one sum of products on cores that
 * multiply 32 bits. */
#ifndef HIL_KERNELS_DSP_SUM_S8_H
#define HIL_KERNELS_DSP_SUM_S8_H

#include "hil/quant.h"

/*@kernel
name = "hil_dsp_sum_s8"
requires = ["mul32"]
inputs = ["int8_t", "int8_t"]
outputs = ["int8_t"]
scratch = "0"
order = "elementwise"
code = 228
band_code = 230
variable = ["first", "second", "addend"]
[cost]
element = "length"
@*/
struct hil_dsp_sum_s8 {
    int32_t length; /* elements */
    /* The output is (a * first + b * second + addend) >> shift, saturated, which the compiler has
     * compared with the reference for all pairs of values. */
    int32_t first;
    int32_t second; /* factor of the second operand */
    int32_t addend; /* added to both products */
    int32_t shift;  /* to the right, of the sum */
};

HIL_INLINE void hil_dsp_sum_s8(const struct hil_dsp_sum_s8 *p, const int8_t *a, const int8_t *b,
                               int8_t *out) {
#pragma GCC unroll 8
    for (int32_t i = 0; i < p->length; i++) {
        const int32_t sum = a[i] * p->first + (b[i] * p->second + p->addend);
        out[i] = hil_clamp_s8(sum >> p->shift, INT8_MIN, INT8_MAX);
    }
}

#endif
