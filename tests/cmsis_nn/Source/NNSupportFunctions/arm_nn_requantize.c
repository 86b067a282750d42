#include "arm_nnsupportfunctions.h"

int32_t arm_nn_requantize(int32_t value, int32_t multiplier, int32_t shift) {
    const int32_t raised = shift > 0 ? (int32_t)((uint32_t)value << shift) : value;
    const int64_t doubled = (int64_t)raised * multiplier * 2;
    const int64_t high = (doubled + (INT64_C(1) << 31)) >> 32;
    if (shift >= 0) {
        return (int32_t)high;
    }
    const int64_t half = INT64_C(1) << (-shift - 1);
    const int64_t magnitude = ((high < 0 ? -high : high) + half) >> -shift;
    return (int32_t)(high < 0 ? -magnitude : magnitude);
}

int8_t arm_nn_output(int32_t sum, int32_t multiplier, int32_t shift, int32_t offset,
                     const cmsis_nn_activation *activation) {
    const int32_t value = arm_nn_requantize(sum, multiplier, shift) + offset;
    if (value < activation->min) {
        return (int8_t)activation->min;
    }
    return (int8_t)(value > activation->max ? activation->max : value);
}
