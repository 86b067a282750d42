/* Softmax of rows of int16 values, by tables between whose entries it interpolates. */
#ifndef HIL_KERNELS_GENERIC_SOFTMAX_S16_H
#define HIL_KERNELS_GENERIC_SOFTMAX_S16_H

#include <stdint.h>

#include "hil/quant.h"

/*@kernel
name = "hil_generic_softmax_s16"
requires = []
inputs = ["int16_t"]
outputs = ["int16_t"]
scratch = "0"
order = "elementwise"
code = 384
[cost]
row = "rows"
element = "rows * depth"
@*/
struct hil_generic_softmax_s16 {
    int32_t rows;                /* of values, each by itself */
    int32_t depth;               /* values of a row */
    int32_t multiplier;          /* of the distance to the row's maximum: 10 become 65535 */
    int32_t shift;               /* to the left; negative ones are to the right */
    const int16_t *exponentials; /* of -10 to 0, in 512 steps of Q0.15 */
    const int16_t *reciprocals;  /* 1 / (1 + x) for x from 0 to 1, likewise */
};

/* Between two of 512 steps, x from -2^15 on. */
HIL_INLINE int32_t hil_softmax_s16_between(const int16_t *table, int32_t x) {
    const int32_t step = (x + 32768) >> 7;
    const int32_t first = table[step];
    return first + (((table[step + 1] - first) * (x & 127) + 64) >> 7);
}

HIL_INLINE int32_t hil_softmax_s16_exponential(const struct hil_generic_softmax_s16 *p,
                                               int32_t distance) {
    const int32_t scaled = hil_requantize(distance, p->multiplier, p->shift);
    return hil_softmax_s16_between(
        p->exponentials, scaled < -INT16_MAX + INT16_MIN ? INT16_MIN : scaled + INT16_MAX);
}

HIL_INLINE void hil_generic_softmax_s16(const struct hil_generic_softmax_s16 *p, const int16_t *in,
                                        int16_t *out) {
    for (int32_t row = 0; row < p->rows; row++) {
        int32_t max = INT16_MIN;
        for (int32_t i = 0; i < p->depth; i++) {
            max = in[i] > max ? in[i] : max;
        }
        /* Q16.15; the maximum's own exponential alone makes it 2^15 - 1. */
        uint32_t sum = 0;
        for (int32_t i = 0; i < p->depth; i++) {
            sum += (uint32_t)hil_softmax_s16_exponential(p, in[i] - max);
        }
        int shift = 31;
        while (sum < UINT32_C(1) << 31) {
            sum *= 2;
            shift--;
        }
        /* What follows the sum's leading one, in 16 bits; rounded up to the next, saturated. */
        const int32_t above = (int32_t)((sum / 2 + (1U << 13)) >> 14) - 3 * (INT32_C(1) << 15);
        const int32_t reciprocal =
            hil_softmax_s16_between(p->reciprocals, above > INT16_MAX ? INT16_MAX : above);
        for (int32_t i = 0; i < p->depth; i++) {
            const int32_t share = hil_softmax_s16_exponential(p, in[i] - max) * reciprocal;
            const int32_t rounded = (share + (INT32_C(1) << (shift - 1))) >> shift;
            out[i] = (int16_t)hil_clamp(rounded, 0, INT16_MAX);
        }
        in += p->depth;
        out += p->depth;
    }
}

#endif
