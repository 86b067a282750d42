/* Sums of products of int8 values and weights, as layers that keep states have them. */
#ifndef HIL_KERNELS_GENERIC_SUM_S8_H
#define HIL_KERNELS_GENERIC_SUM_S8_H

#include <stdint.h>

#include "hil/quant.h"

/* What leaves 32 bits wraps around, in the references as well. */
HIL_INLINE int32_t hil_sum_s8(const int8_t *values, const int8_t *weights, int32_t count,
                              int32_t bias) {
    uint32_t sum = (uint32_t)bias;
    for (int32_t i = 0; i < count; i++) {
        sum += (uint32_t)(values[i] * weights[i]);
    }
    return (int32_t)sum;
}

#endif
