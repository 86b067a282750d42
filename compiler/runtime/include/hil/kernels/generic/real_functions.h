/* Functions of single floats of the C library, and which floats are infinite or no numbers. */
#ifndef HIL_KERNELS_GENERIC_REAL_FUNCTIONS_H
#define HIL_KERNELS_GENERIC_REAL_FUNCTIONS_H

#include <math.h>
#include <stdint.h>

#include "hil/quant.h"

enum hil_real_functions {
    HIL_REAL_TAN,
    HIL_REAL_ASIN,
    HIL_REAL_ACOS,
    HIL_REAL_ATAN,
    HIL_REAL_SINH,
    HIL_REAL_COSH,
    HIL_REAL_ASINH,
    HIL_REAL_ACOSH,
    HIL_REAL_ATANH,
    HIL_REAL_ERF,
};

enum hil_real_classes {
    HIL_REAL_NAN,
    HIL_REAL_INFINITE,
    HIL_REAL_POSITIVE_INFINITE,
    HIL_REAL_NEGATIVE_INFINITE,
};

/*@kernel
name = "hil_generic_real_function"
requires = []
inputs = ["float"]
outputs = ["float"]
scratch = "0"
order = "elementwise"
code = 40
[cost]
tan = "size * (function == 0)"
arc = "size * (function >= 1) * (function <= 2)"
atan = "size * (function == 3)"
sinh = "size * (function == 4)"
cosh = "size * (function == 5)"
area = "size * (function >= 6) * (function <= 7)"
atanh = "size * (function == 8)"
erf = "size * (function == 9)"
@*/
struct hil_generic_real_function {
    int32_t size;     /* elements */
    int32_t function; /* of enum hil_real_functions */
};

HIL_INLINE float hil_real_value(int32_t function, float x) {
    switch (function) {
    case HIL_REAL_TAN:
        return tanf(x);
    case HIL_REAL_ASIN:
        return asinf(x);
    case HIL_REAL_ACOS:
        return acosf(x);
    case HIL_REAL_ATAN:
        return atanf(x);
    case HIL_REAL_SINH:
        return sinhf(x);
    case HIL_REAL_COSH:
        return coshf(x);
    case HIL_REAL_ASINH:
        return asinhf(x);
    case HIL_REAL_ACOSH:
        return acoshf(x);
    case HIL_REAL_ATANH:
        return atanhf(x);
    default:
        return erff(x);
    }
}

HIL_INLINE void hil_generic_real_function(const struct hil_generic_real_function *p,
                                          const float *in, float *out) {
    for (int32_t i = 0; i < p->size; i++) {
        out[i] = hil_real_value(p->function, in[i]);
    }
}

/*@kernel
name = "hil_generic_real_class"
requires = []
inputs = ["float"]
outputs = ["uint8_t"]
scratch = "0"
order = "elementwise"
code = 40
[cost]
element = "size"
@*/
struct hil_generic_real_class {
    int32_t size; /* elements */
    int32_t kind; /* of enum hil_real_classes */
};

HIL_INLINE void hil_generic_real_class(const struct hil_generic_real_class *p, const float *in,
                                       uint8_t *out) {
    for (int32_t i = 0; i < p->size; i++) {
        const float x = in[i];
        const int positive = x > 0.0f;
        switch (p->kind) {
        case HIL_REAL_NAN:
            out[i] = (uint8_t)(isnan(x) != 0);
            break;
        case HIL_REAL_INFINITE:
            out[i] = (uint8_t)(isinf(x) != 0);
            break;
        case HIL_REAL_POSITIVE_INFINITE:
            out[i] = (uint8_t)(isinf(x) != 0 && positive);
            break;
        default:
            out[i] = (uint8_t)(isinf(x) != 0 && !positive);
            break;
        }
    }
}

#endif
