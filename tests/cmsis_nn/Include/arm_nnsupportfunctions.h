/* What the stand-in's operators share. */
#ifndef ARM_NNSUPPORTFUNCTIONS_H
#define ARM_NNSUPPORTFUNCTIONS_H

#include "arm_nn_types.h"

/* value * multiplier * 2^(shift - 31), rounded twice. */
int32_t arm_nn_requantize(int32_t value, int32_t multiplier, int32_t shift);

/* The output for a sum. */
int8_t arm_nn_output(int32_t sum, int32_t multiplier, int32_t shift, int32_t offset,
                     const cmsis_nn_activation *activation);

#endif
