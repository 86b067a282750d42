/* Arithmetic in double precision, which no core here computes by itself. */
#ifndef HIL_KERNELS_GENERIC_DOUBLE_H
#define HIL_KERNELS_GENERIC_DOUBLE_H

#include <math.h>
#include <stdint.h>

#include "hil/kernels/generic/any.h"
#include "hil/kernels/generic/binary.h"
#include "hil/kernels/generic/cast.h"
#include "hil/kernels/generic/mean.h"
#include "hil/quant.h"

enum hil_double_operation {
    HIL_DOUBLE_ADD,
    HIL_DOUBLE_SUB,
    HIL_DOUBLE_MUL,
    HIL_DOUBLE_DIV,
    HIL_DOUBLE_MAXIMUM,
    HIL_DOUBLE_MINIMUM,
    HIL_DOUBLE_FLOOR_MOD, /* of the sign of the divisor */
    HIL_DOUBLE_POW,
};

/*@kernel
name = "hil_generic_combine_f64"
requires = []
inputs = ["double", "double"]
outputs = ["double"]
scratch = "0"
order = "none"
code = 420
[cost]
row = "rows"
elements = "rows * length"
sum = "elements * (operation <= 2)"
quotient = "elements * (operation == 3)"
chosen = "elements * (operation >= 4) * (operation <= 5)"
remainder = "elements * (operation == 6)"
power = "elements * (operation == 7)"
@*/
struct hil_generic_combine_f64 {
    HIL_BINARY_FIELDS;
    int32_t operation; /* of enum hil_double_operation */
};

HIL_INLINE double hil_combine_f64_remainder(double a, double b) {
    const double rest = fmod(a, b);
    return rest != 0.0 && (b < 0.0) != (rest < 0.0) ? rest + b : rest;
}

HIL_INLINE double hil_combine_f64_element(const struct hil_generic_combine_f64 *p, double a,
                                          double b) {
    switch (p->operation) {
    case HIL_DOUBLE_ADD:
        return a + b;
    case HIL_DOUBLE_SUB:
        return a - b;
    case HIL_DOUBLE_MUL:
        return a * b;
    case HIL_DOUBLE_DIV:
        return a / b;
    case HIL_DOUBLE_MAXIMUM:
        return a > b || isnan(a) ? a : b;
    case HIL_DOUBLE_MINIMUM:
        return a < b || isnan(a) ? a : b;
    case HIL_DOUBLE_FLOOR_MOD:
        return hil_combine_f64_remainder(a, b);
    default:
        return pow(a, b);
    }
}

HIL_INLINE void hil_generic_combine_f64(const struct hil_generic_combine_f64 *p, const double *a,
                                        const double *b, double *out) {
    HIL_BINARY_WALK(p, a, b, out, hil_combine_f64_element);
}

enum hil_double_comparison {
    HIL_DOUBLE_EQUAL,
    HIL_DOUBLE_NOT_EQUAL,
    HIL_DOUBLE_LESS,
    HIL_DOUBLE_LESS_EQUAL,
};

/*@kernel
name = "hil_generic_compare_f64"
requires = []
inputs = ["double", "double"]
outputs = ["uint8_t"]
scratch = "0"
order = "none"
code = 140
[cost]
row = "rows"
element = "rows * length"
@*/
struct hil_generic_compare_f64 {
    HIL_BINARY_FIELDS;
    int32_t comparison; /* of enum hil_double_comparison */
};

HIL_INLINE uint8_t hil_compare_f64_element(const struct hil_generic_compare_f64 *p, double a,
                                           double b) {
    switch (p->comparison) {
    case HIL_DOUBLE_EQUAL:
        return a == b;
    case HIL_DOUBLE_NOT_EQUAL:
        return !(a == b);
    case HIL_DOUBLE_LESS:
        return a < b;
    default:
        return a <= b;
    }
}

HIL_INLINE void hil_generic_compare_f64(const struct hil_generic_compare_f64 *p, const double *a,
                                        const double *b, uint8_t *out) {
    HIL_BINARY_WALK(p, a, b, out, hil_compare_f64_element);
}

enum hil_double_function {
    HIL_DOUBLE_ABS,
    HIL_DOUBLE_NEG,
    HIL_DOUBLE_SIGN,
    HIL_DOUBLE_CEIL,
    HIL_DOUBLE_FLOOR,
    HIL_DOUBLE_ROUND,
    HIL_DOUBLE_SQRT,
    HIL_DOUBLE_EXP,
    HIL_DOUBLE_LOG,
    HIL_DOUBLE_SIN,
    HIL_DOUBLE_COS,
    HIL_DOUBLE_TANH,
    HIL_DOUBLE_LOGISTIC,
    HIL_DOUBLE_RELU,
};

/*@kernel
name = "hil_generic_function_f64"
requires = []
inputs = ["double"]
outputs = ["double"]
scratch = "0"
order = "none"
code = 360
[cost]
sign = "size * (function <= 2)"
rounded = "size * (function >= 3) * (function <= 5)"
root = "size * (function == 6)"
exponential = "size * (function == 7)"
logarithm = "size * (function == 8)"
angle = "size * (function >= 9) * (function <= 10)"
tanh = "size * (function == 11)"
logistic = "size * (function == 12)"
relu = "size * (function == 13)"
@*/
struct hil_generic_function_f64 {
    int32_t size;     /* elements */
    int32_t function; /* of enum hil_double_function */
};

HIL_INLINE double hil_function_f64_element(int32_t function, double x) {
    switch (function) {
    case HIL_DOUBLE_ABS:
        return fabs(x);
    case HIL_DOUBLE_NEG:
        return -x;
    case HIL_DOUBLE_SIGN:
        return x > 0.0 ? 1.0 : (x < 0.0 ? -1.0 : x + 0.0);
    case HIL_DOUBLE_CEIL:
        return ceil(x);
    case HIL_DOUBLE_FLOOR:
        return floor(x);
    case HIL_DOUBLE_ROUND:
        return rint(x);
    case HIL_DOUBLE_SQRT:
        return sqrt(x);
    case HIL_DOUBLE_EXP:
        return exp(x);
    case HIL_DOUBLE_LOG:
        return log(x);
    case HIL_DOUBLE_SIN:
        return sin(x);
    case HIL_DOUBLE_COS:
        return cos(x);
    case HIL_DOUBLE_TANH:
        return tanh(x);
    case HIL_DOUBLE_LOGISTIC:
        return 1.0 / (1.0 + exp(-x));
    default:
        return x < 0.0 ? 0.0 : x;
    }
}

HIL_INLINE void hil_generic_function_f64(const struct hil_generic_function_f64 *p, const double *in,
                                         double *out) {
    for (int32_t i = 0; i < p->size; i++) {
        out[i] = hil_function_f64_element(p->function, in[i]);
    }
}

enum hil_double_reduction {
    HIL_DOUBLE_SUM,
    HIL_DOUBLE_MEAN,
    HIL_DOUBLE_LARGEST,
    HIL_DOUBLE_LEAST,
    HIL_DOUBLE_PRODUCT,
};

/*@kernel
name = "hil_generic_reduce_f64"
requires = []
inputs = ["double"]
outputs = ["double"]
scratch = "0"
order = "none"
code = 420
[cost]
output = "size"
row = "size * rows"
value = "row * length"
@*/
struct hil_generic_reduce_f64 {
    HIL_MEAN_FIELDS;
    int32_t way;   /* of enum hil_double_reduction */
    int32_t count; /* values of one output */
};

HIL_INLINE double hil_reduce_f64_initial(const struct hil_generic_reduce_f64 *p) {
    switch (p->way) {
    case HIL_DOUBLE_LARGEST:
        return -INFINITY;
    case HIL_DOUBLE_LEAST:
        return INFINITY;
    default:
        return p->way == HIL_DOUBLE_PRODUCT ? 1.0 : 0.0;
    }
}

HIL_INLINE double hil_reduce_f64_fold(const struct hil_generic_reduce_f64 *p, double total,
                                      double value) {
    switch (p->way) {
    case HIL_DOUBLE_LARGEST:
        return value > total || isnan(value) ? value : total;
    case HIL_DOUBLE_LEAST:
        return value < total || isnan(value) ? value : total;
    case HIL_DOUBLE_PRODUCT:
        return total * value;
    default:
        return total + value;
    }
}

HIL_INLINE double hil_reduce_f64_finish(const struct hil_generic_reduce_f64 *p, double total) {
    return p->way == HIL_DOUBLE_MEAN ? total / (double)p->count : total;
}

HIL_INLINE void hil_generic_reduce_f64(const struct hil_generic_reduce_f64 *p, const double *in,
                                       double *out) {
    HIL_REDUCE_WALK(p, in, out, double, hil_reduce_f64_initial(p), hil_reduce_f64_fold,
                    hil_reduce_f64_finish);
}

/*@kernel
name = "hil_generic_cast_f64"
requires = []
inputs = ["void"]
outputs = ["void"]
scratch = "0"
order = "none"
code = 320
[cost]
element = "size"
@*/
struct hil_generic_cast_f64 {
    int32_t size;   /* elements */
    int32_t source; /* type of the input: of enum hil_cast_type, or the number after for double */
    int32_t target; /* type of the output, likewise; one of them is double */
};

/* x truncated to the range from low to high; 0 for what is no number. */
HIL_INLINE int32_t hil_cast_f64_saturated(double x, double low, double high) {
    return x >= low ? (int32_t)(x > high ? high : x) : (x < low ? (int32_t)low : 0);
}

HIL_INLINE int64_t hil_cast_f64_saturated_s64(double x) {
    if (x >= 9223372036854775808.0) {
        return INT64_MAX;
    }
    return x >= -9223372036854775808.0 ? (int64_t)x : (x < 0.0 ? INT64_MIN : 0);
}

HIL_INLINE void hil_cast_f64_narrowed(int32_t target, double x, void *out, int32_t i) {
    switch (target) {
    case HIL_CAST_S8:
        ((int8_t *)out)[i] = (int8_t)hil_cast_f64_saturated(x, -128.0, 127.0);
        break;
    case HIL_CAST_U8:
        ((uint8_t *)out)[i] = (uint8_t)hil_cast_f64_saturated(x, 0.0, 255.0);
        break;
    case HIL_CAST_S16:
        ((hil_any_s16 *)out)[i] = (int16_t)hil_cast_f64_saturated(x, -32768.0, 32767.0);
        break;
    case HIL_CAST_S32:
        ((hil_any_s32 *)out)[i] = hil_cast_f64_saturated(x, -2147483648.0, 2147483647.0);
        break;
    case HIL_CAST_S64:
        ((hil_any_s64 *)out)[i] = hil_cast_f64_saturated_s64(x);
        break;
    case HIL_CAST_F32:
        ((hil_any_f32 *)out)[i] = (float)x;
        break;
    default:
        /* What is no number is not zero. */
        ((uint8_t *)out)[i] = !(x == 0.0);
        break;
    }
}

HIL_INLINE void hil_generic_cast_f64(const struct hil_generic_cast_f64 *p, const void *in,
                                     void *out) {
    for (int32_t i = 0; i < p->size; i++) {
        if (p->source > HIL_CAST_BOOL) {
            hil_cast_f64_narrowed(p->target, ((const double *)in)[i], out, i);
        } else if (p->source == HIL_CAST_F32) {
            ((double *)out)[i] = (double)((const hil_any_f32 *)in)[i];
        } else {
            ((double *)out)[i] = (double)hil_cast_integer(in, p->source, i);
        }
    }
}

#endif
