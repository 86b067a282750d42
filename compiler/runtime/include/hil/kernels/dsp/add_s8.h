/* Sum of two int8 tensors of one shape on cores with DSP. */
#ifndef HIL_KERNELS_DSP_ADD_S8_H
#define HIL_KERNELS_DSP_ADD_S8_H

#include "hil/dsp.h"

/*@kernel
name = "hil_dsp_add_s8"
requires = ["dsp"]
inputs = ["int8_t", "int8_t"]
outputs = ["int8_t"]
scratch = "0"
order = "elementwise"
code = 168
[cost]
element = "length"
@*/
struct hil_dsp_add_s8 {
    int32_t length;         /* elements */
    int32_t swapped;        /* 1: the first operand is the one that the table holds */
    int32_t multiplier;     /* of the sum, in Q0.31 */
    int32_t shift;          /* to the right, less one: 0 to 22 */
    int32_t out_zero_point; /* the output that stands for 0.0 */
    int32_t low;            /* the least output */
    int32_t high;           /* the largest output */
    /* The other operand has the larger scale, so that scaling it is a shift. This has, for each
     * value of the one in question, twice what it adds to the sum, both zero points included. */
    const int32_t *table;
};

HIL_INLINE void hil_dsp_add_s8_element(const struct hil_dsp_add_s8 *p, const int8_t *plain,
                                       const int8_t *scaled, int8_t *out) {
    const int32_t rounding = (int32_t)((uint32_t)(2 * p->out_zero_point + 1) << p->shift);
    const int32_t twice = p->table[128 + *scaled] + *plain * (INT32_C(1) << 20);
    *out = hil_dsp_requantize(twice, p->multiplier, p->shift, rounding, p->out_zero_point, p->low,
                              p->high);
}

HIL_INLINE void hil_dsp_add_s8(const struct hil_dsp_add_s8 *p, const int8_t *a, const int8_t *b,
                               int8_t *out) {
    const int8_t *plain = p->swapped ? b : a;
    const int8_t *scaled = p->swapped ? a : b;
    int32_t left = p->length;
    for (; left >= 4; left -= 4) {
        hil_dsp_add_s8_element(p, plain, scaled, out);
        hil_dsp_add_s8_element(p, plain + 1, scaled + 1, out + 1);
        hil_dsp_add_s8_element(p, plain + 2, scaled + 2, out + 2);
        hil_dsp_add_s8_element(p, plain + 3, scaled + 3, out + 3);
        plain += 4;
        scaled += 4;
        out += 4;
    }
    for (; left > 0; left--) {
        hil_dsp_add_s8_element(p, plain++, scaled++, out++);
    }
}

#endif
