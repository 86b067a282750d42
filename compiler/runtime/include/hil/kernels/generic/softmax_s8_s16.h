/* Softmax of rows of int8 values with shares of 16 bits. */
#ifndef HIL_KERNELS_GENERIC_SOFTMAX_S8_S16_H
#define HIL_KERNELS_GENERIC_SOFTMAX_S8_S16_H

#include <stdint.h>

#include "hil/kernels/generic/softmax.h"
#include "hil/quant.h"

/*@kernel
name = "hil_generic_softmax_s8_s16"
requires = []
inputs = ["int8_t"]
outputs = ["int16_t"]
scratch = "0"
order = "none"
code = 288
[cost]
element = "rows * depth"
@*/
struct hil_generic_softmax_s8_s16 {
    int32_t rows;  /* that each add up to one */
    int32_t depth; /* elements of a row */
    int32_t near;  /* distances to the row's maximum below this one have an exponential */
    const int32_t *exponentials; /* of minus the distance, in Q0.31; of others nothing is left */
};

/* The output of an exponential: eight more bits of the share than hil_softmax_s8_output leaves. */
HIL_INLINE int16_t hil_softmax_s8_s16_output(int32_t power, int32_t scale, int shift) {
    const uint64_t product = (uint64_t)(uint32_t)power * (uint32_t)scale;
    const uint32_t share = (uint32_t)((product + (UINT32_C(1) << 30)) >> 31);
    /* A shift beyond 31 leaves nothing of a 31-bit number; none is below 15. */
    const uint32_t steps = shift > 31 ? 0 : hil_softmax_s8_rounded(share, shift);
    return (int16_t)hil_clamp((int32_t)steps + INT16_MIN, INT16_MIN, INT16_MAX);
}

HIL_INLINE void hil_generic_softmax_s8_s16(const struct hil_generic_softmax_s8_s16 *p,
                                           const int8_t *in, int16_t *out) {
    const struct hil_generic_softmax_s8 table = {p->rows, p->depth, p->near, p->exponentials};
    for (int32_t row = 0; row < p->rows; row++) {
        int8_t max = INT8_MIN;
        for (int32_t i = 0; i < p->depth; i++) {
            max = in[i] > max ? in[i] : max;
        }
        uint32_t sum = 0;
        for (int32_t i = 0; i < p->depth; i++) {
            const int32_t power = hil_softmax_s8_exponential(&table, max - in[i]);
            sum += hil_softmax_s8_rounded((uint32_t)power, 12);
        }
        int shift;
        const int32_t scale = hil_softmax_s8_scale(sum, &shift);
        for (int32_t i = 0; i < p->depth; i++) {
            const int32_t power = hil_softmax_s8_exponential(&table, max - in[i]);
            out[i] = hil_softmax_s8_s16_output(power, scale, shift - 8);
        }
        in += p->depth;
        out += p->depth;
    }
}

#endif
