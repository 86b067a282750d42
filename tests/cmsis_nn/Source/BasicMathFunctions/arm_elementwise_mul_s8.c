#include "arm_nnfunctions.h"

int8_t arm_elementwise_mul_s8(int8_t a, int8_t b);

int8_t arm_elementwise_mul_s8(int8_t a, int8_t b) { return (int8_t)(a * b); }
