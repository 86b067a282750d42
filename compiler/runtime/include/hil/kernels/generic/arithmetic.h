/* Arithmetic and comparisons of numbers that stand for themselves, and the quantized quotient,
 * squared difference and comparison, element by element, with broadcasting. */
#ifndef HIL_KERNELS_GENERIC_ARITHMETIC_H
#define HIL_KERNELS_GENERIC_ARITHMETIC_H

#include <math.h>
#include <stdint.h>

#include "hil/kernels/generic/binary.h"
#include "hil/kernels/generic/clamp_f32.h"
#include "hil/kernels/generic/fixed_point.h"
#include "hil/quant.h"

enum hil_operation {
    HIL_ADD,
    HIL_SUB,
    HIL_MUL,
    HIL_MAXIMUM,
    HIL_MINIMUM,
    HIL_SQUARED_DIFFERENCE,
    HIL_QUOTIENT,        /* truncated towards zero */
    HIL_FLOOR_QUOTIENT,  /* truncated downwards */
    HIL_FLOOR_REMAINDER, /* of the sign of the divisor */
    HIL_EQUAL,
    HIL_NOT_EQUAL,
    HIL_LESS,
    HIL_LESS_EQUAL,
};

/* A sum, difference, product or choice of two integers, in unsigned numbers at least as wide, so
 * that what overflows wraps around. */
#define HIL_COMBINED(type, wide, operation, a, b)                                                  \
    ((operation) == HIL_ADD       ? (type)((wide)(a) + (wide)(b))                                  \
     : (operation) == HIL_SUB     ? (type)((wide)(a) - (wide)(b))                                  \
     : (operation) == HIL_MUL     ? (type)((wide)(a) * (wide)(b))                                  \
     : (operation) == HIL_MAXIMUM ? ((a) > (b) ? (a) : (b))                                        \
     : (operation) == HIL_MINIMUM ? ((a) < (b) ? (a) : (b))                                        \
                                  : (type)(((wide)(a) - (wide)(b)) * ((wide)(a) - (wide)(b))))

/*@kernel
name = "hil_generic_combine_s8"
requires = []
inputs = ["int8_t", "int8_t"]
outputs = ["int8_t"]
scratch = "0"
order = "elementwise"
code = 42
[cost]
row = "rows"
element = "rows * length"
@*/
struct hil_generic_combine_s8 {
    HIL_BINARY_FIELDS;
    int32_t operation; /* of enum hil_operation */
};

HIL_INLINE int8_t hil_combine_s8_element(const struct hil_generic_combine_s8 *p, int8_t a,
                                         int8_t b) {
    return HIL_COMBINED(int8_t, uint32_t, p->operation, a, b);
}

HIL_INLINE void hil_generic_combine_s8(const struct hil_generic_combine_s8 *p, const int8_t *a,
                                       const int8_t *b, int8_t *out) {
    HIL_BINARY_WALK(p, a, b, out, hil_combine_s8_element);
}

/*@kernel
name = "hil_generic_combine_u8"
requires = []
inputs = ["uint8_t", "uint8_t"]
outputs = ["uint8_t"]
scratch = "0"
order = "elementwise"
code = 42
[cost]
row = "rows"
element = "rows * length"
@*/
struct hil_generic_combine_u8 {
    HIL_BINARY_FIELDS;
    int32_t operation; /* of enum hil_operation */
};

HIL_INLINE uint8_t hil_combine_u8_element(const struct hil_generic_combine_u8 *p, uint8_t a,
                                          uint8_t b) {
    return HIL_COMBINED(uint8_t, uint32_t, p->operation, a, b);
}

HIL_INLINE void hil_generic_combine_u8(const struct hil_generic_combine_u8 *p, const uint8_t *a,
                                       const uint8_t *b, uint8_t *out) {
    HIL_BINARY_WALK(p, a, b, out, hil_combine_u8_element);
}

/*@kernel
name = "hil_generic_combine_s16"
requires = []
inputs = ["int16_t", "int16_t"]
outputs = ["int16_t"]
scratch = "0"
order = "elementwise"
code = 43
[cost]
row = "rows"
element = "rows * length"
@*/
struct hil_generic_combine_s16 {
    HIL_BINARY_FIELDS;
    int32_t operation; /* of enum hil_operation */
};

HIL_INLINE int16_t hil_combine_s16_element(const struct hil_generic_combine_s16 *p, int16_t a,
                                           int16_t b) {
    return HIL_COMBINED(int16_t, uint32_t, p->operation, a, b);
}

HIL_INLINE void hil_generic_combine_s16(const struct hil_generic_combine_s16 *p, const int16_t *a,
                                        const int16_t *b, int16_t *out) {
    HIL_BINARY_WALK(p, a, b, out, hil_combine_s16_element);
}

/*@kernel
name = "hil_generic_combine_s32"
requires = []
inputs = ["int32_t", "int32_t"]
outputs = ["int32_t"]
scratch = "0"
order = "elementwise"
code = 42
[cost]
row = "rows"
element = "rows * length"
@*/
struct hil_generic_combine_s32 {
    HIL_BINARY_FIELDS;
    int32_t operation; /* of enum hil_operation */
    int32_t low;       /* the least output */
    int32_t high;      /* the largest output */
};

HIL_INLINE int32_t hil_combine_s32_element(const struct hil_generic_combine_s32 *p, int32_t a,
                                           int32_t b) {
    return hil_clamp(HIL_COMBINED(int32_t, uint32_t, p->operation, a, b), p->low, p->high);
}

HIL_INLINE void hil_generic_combine_s32(const struct hil_generic_combine_s32 *p, const int32_t *a,
                                        const int32_t *b, int32_t *out) {
    HIL_BINARY_WALK(p, a, b, out, hil_combine_s32_element);
}

/*@kernel
name = "hil_generic_combine_s64"
requires = []
inputs = ["int64_t", "int64_t"]
outputs = ["int64_t"]
scratch = "0"
order = "elementwise"
code = 58
[cost]
row = "rows"
element = "rows * length"
@*/
struct hil_generic_combine_s64 {
    HIL_BINARY_FIELDS;
    int32_t operation; /* of enum hil_operation */
};

HIL_INLINE int64_t hil_combine_s64_element(const struct hil_generic_combine_s64 *p, int64_t a,
                                           int64_t b) {
    return HIL_COMBINED(int64_t, uint64_t, p->operation, a, b);
}

HIL_INLINE void hil_generic_combine_s64(const struct hil_generic_combine_s64 *p, const int64_t *a,
                                        const int64_t *b, int64_t *out) {
    HIL_BINARY_WALK(p, a, b, out, hil_combine_s64_element);
}

/*@kernel
name = "hil_generic_combine_f32"
requires = []
inputs = ["float", "float"]
outputs = ["float"]
scratch = "0"
order = "elementwise"
code = 50
[cost]
row = "rows"
element = "rows * length"
difference = "element * (operation == 5)"
@*/
struct hil_generic_combine_f32 {
    HIL_BINARY_FIELDS;
    int32_t operation; /* of enum hil_operation: a choice or the squared difference */
};

HIL_INLINE float hil_combine_f32_element(const struct hil_generic_combine_f32 *p, float a,
                                         float b) {
    return p->operation == HIL_MAXIMUM   ? (a > b ? a : b)
           : p->operation == HIL_MINIMUM ? (a < b ? a : b)
                                         : (a - b) * (a - b);
}

HIL_INLINE void hil_generic_combine_f32(const struct hil_generic_combine_f32 *p, const float *a,
                                        const float *b, float *out) {
    HIL_BINARY_WALK(p, a, b, out, hil_combine_f32_element);
}

/* A quotient or remainder of two integers: 0 where the divisor is, and the largest number for the
 * one quotient that overflows. */
#define HIL_DIVIDE(name, type, least, most)                                                        \
    HIL_INLINE type name(int32_t operation, type a, type b) {                                      \
        if (b == 0) {                                                                              \
            return 0;                                                                              \
        }                                                                                          \
        if (b == -1 && a == (least)) {                                                             \
            return operation == HIL_FLOOR_REMAINDER ? 0 : (most);                                  \
        }                                                                                          \
        const type quotient = (type)(a / b);                                                       \
        const type remainder = (type)(a - quotient * b);                                           \
        const int lower = remainder != 0 && (remainder < 0) != (b < 0);                            \
        if (operation == HIL_FLOOR_REMAINDER) {                                                    \
            return (type)(lower ? remainder + b : remainder);                                      \
        }                                                                                          \
        return (type)(operation == HIL_FLOOR_QUOTIENT && lower ? quotient - 1 : quotient);         \
    }

HIL_DIVIDE(hil_divided_s8, int8_t, INT8_MIN, INT8_MAX)

/*@kernel
name = "hil_generic_divide_s8"
requires = []
inputs = ["int8_t", "int8_t"]
outputs = ["int8_t"]
scratch = "0"
order = "elementwise"
code = 93
[cost]
row = "rows"
element = "rows * length"
@*/
struct hil_generic_divide_s8 {
    HIL_BINARY_FIELDS;
    int32_t operation; /* of enum hil_operation: a quotient or the remainder */
};

HIL_INLINE int8_t hil_divide_s8_element(const struct hil_generic_divide_s8 *p, int8_t a, int8_t b) {
    return hil_divided_s8(p->operation, a, b);
}

HIL_INLINE void hil_generic_divide_s8(const struct hil_generic_divide_s8 *p, const int8_t *a,
                                      const int8_t *b, int8_t *out) {
    HIL_BINARY_WALK(p, a, b, out, hil_divide_s8_element);
}

HIL_DIVIDE(hil_divided_s16, int16_t, INT16_MIN, INT16_MAX)

/*@kernel
name = "hil_generic_divide_s16"
requires = []
inputs = ["int16_t", "int16_t"]
outputs = ["int16_t"]
scratch = "0"
order = "elementwise"
code = 95
[cost]
row = "rows"
element = "rows * length"
@*/
struct hil_generic_divide_s16 {
    HIL_BINARY_FIELDS;
    int32_t operation; /* of enum hil_operation: a quotient or the remainder */
};

HIL_INLINE int16_t hil_divide_s16_element(const struct hil_generic_divide_s16 *p, int16_t a,
                                          int16_t b) {
    return hil_divided_s16(p->operation, a, b);
}

HIL_INLINE void hil_generic_divide_s16(const struct hil_generic_divide_s16 *p, const int16_t *a,
                                       const int16_t *b, int16_t *out) {
    HIL_BINARY_WALK(p, a, b, out, hil_divide_s16_element);
}

HIL_DIVIDE(hil_divided_s32, int32_t, INT32_MIN, INT32_MAX)

/*@kernel
name = "hil_generic_divide_s32"
requires = []
inputs = ["int32_t", "int32_t"]
outputs = ["int32_t"]
scratch = "0"
order = "elementwise"
code = 78
[cost]
row = "rows"
element = "rows * length"
@*/
struct hil_generic_divide_s32 {
    HIL_BINARY_FIELDS;
    int32_t operation; /* of enum hil_operation: a quotient or the remainder */
    int32_t low;       /* the least output */
    int32_t high;      /* the largest output */
};

HIL_INLINE int32_t hil_divide_s32_element(const struct hil_generic_divide_s32 *p, int32_t a,
                                          int32_t b) {
    return hil_clamp(hil_divided_s32(p->operation, a, b), p->low, p->high);
}

HIL_INLINE void hil_generic_divide_s32(const struct hil_generic_divide_s32 *p, const int32_t *a,
                                       const int32_t *b, int32_t *out) {
    HIL_BINARY_WALK(p, a, b, out, hil_divide_s32_element);
}

HIL_DIVIDE(hil_divided_s64, int64_t, INT64_MIN, INT64_MAX)

/*@kernel
name = "hil_generic_divide_s64"
requires = []
inputs = ["int64_t", "int64_t"]
outputs = ["int64_t"]
scratch = "0"
order = "elementwise"
code = 101
[cost]
row = "rows"
element = "rows * length"
@*/
struct hil_generic_divide_s64 {
    HIL_BINARY_FIELDS;
    int32_t operation; /* of enum hil_operation: a quotient or the remainder */
};

HIL_INLINE int64_t hil_divide_s64_element(const struct hil_generic_divide_s64 *p, int64_t a,
                                          int64_t b) {
    return hil_divided_s64(p->operation, a, b);
}

HIL_INLINE void hil_generic_divide_s64(const struct hil_generic_divide_s64 *p, const int64_t *a,
                                       const int64_t *b, int64_t *out) {
    HIL_BINARY_WALK(p, a, b, out, hil_divide_s64_element);
}

/*@kernel
name = "hil_generic_div_f32"
requires = []
inputs = ["float", "float"]
outputs = ["float"]
scratch = "0"
order = "elementwise"
code = 90
[cost]
row = "rows"
element = "rows * length"
@*/
struct hil_generic_div_f32 {
    HIL_BINARY_FIELDS;
    float low;  /* the least output */
    float high; /* the largest output */
};

HIL_INLINE float hil_div_f32_element(const struct hil_generic_div_f32 *p, float a, float b) {
    return hil_clamp_f32(a / b, p->low, p->high);
}

HIL_INLINE void hil_generic_div_f32(const struct hil_generic_div_f32 *p, const float *a,
                                    const float *b, float *out) {
    HIL_BINARY_WALK(p, a, b, out, hil_div_f32_element);
}

/*@kernel
name = "hil_generic_floor_div_f32"
requires = []
inputs = ["float", "float"]
outputs = ["float"]
scratch = "0"
order = "elementwise"
code = 40
[cost]
row = "rows"
element = "rows * length"
@*/
struct hil_generic_floor_div_f32 {
    HIL_BINARY_FIELDS;
};

HIL_INLINE float hil_floor_div_f32_element(const struct hil_generic_floor_div_f32 *p, float a,
                                           float b) {
    (void)p;
    return floorf(a / b);
}

HIL_INLINE void hil_generic_floor_div_f32(const struct hil_generic_floor_div_f32 *p, const float *a,
                                          const float *b, float *out) {
    HIL_BINARY_WALK(p, a, b, out, hil_floor_div_f32_element);
}

/*@kernel
name = "hil_generic_floor_mod_f32"
requires = []
inputs = ["float", "float"]
outputs = ["float"]
scratch = "0"
order = "elementwise"
code = 133
[cost]
row = "rows"
element = "rows * length"
@*/
struct hil_generic_floor_mod_f32 {
    HIL_BINARY_FIELDS;
};

HIL_INLINE float hil_floor_mod_f32_element(const struct hil_generic_floor_mod_f32 *p, float a,
                                           float b) {
    (void)p;
    const float remainder = fmodf(a, b);
    const int lower = remainder != 0.0f && (remainder < 0.0f) != (b < 0.0f);
    return lower ? remainder + b : remainder;
}

HIL_INLINE void hil_generic_floor_mod_f32(const struct hil_generic_floor_mod_f32 *p, const float *a,
                                          const float *b, float *out) {
    HIL_BINARY_WALK(p, a, b, out, hil_floor_mod_f32_element);
}

/*@kernel
name = "hil_generic_pow_f32"
requires = []
inputs = ["float", "float"]
outputs = ["float"]
scratch = "0"
order = "elementwise"
code = 35
[cost]
row = "rows"
element = "rows * length"
@*/
struct hil_generic_pow_f32 {
    HIL_BINARY_FIELDS;
};

HIL_INLINE float hil_pow_f32_element(const struct hil_generic_pow_f32 *p, float a, float b) {
    (void)p;
    return powf(a, b);
}

HIL_INLINE void hil_generic_pow_f32(const struct hil_generic_pow_f32 *p, const float *a,
                                    const float *b, float *out) {
    HIL_BINARY_WALK(p, a, b, out, hil_pow_f32_element);
}

/*@kernel
name = "hil_generic_pow_s32"
requires = []
inputs = ["int32_t", "int32_t"]
outputs = ["int32_t"]
scratch = "0"
order = "elementwise"
code = 64
[cost]
row = "rows"
element = "rows * length"
@*/
struct hil_generic_pow_s32 {
    HIL_BINARY_FIELDS;
};

HIL_INLINE int32_t hil_pow_s32_element(const struct hil_generic_pow_s32 *p, int32_t a, int32_t b) {
    (void)p;
    /* Wraps around; 0 for exponents below 0. */
    uint32_t power = b < 0 ? 0 : 1;
    uint32_t base = (uint32_t)a;
    for (uint32_t exponent = b < 0 ? 0 : (uint32_t)b; exponent != 0; exponent >>= 1) {
        power *= exponent & 1 ? base : 1;
        base *= base;
    }
    return (int32_t)power;
}

HIL_INLINE void hil_generic_pow_s32(const struct hil_generic_pow_s32 *p, const int32_t *a,
                                    const int32_t *b, int32_t *out) {
    HIL_BINARY_WALK(p, a, b, out, hil_pow_s32_element);
}

/* Bits of x, from 0 on. */
HIL_INLINE int hil_bits(uint32_t x) { return x == 0 ? 0 : 32 - __builtin_clz(x); }

/*@kernel
name = "hil_generic_div_s8"
requires = []
inputs = ["int8_t", "int8_t"]
outputs = ["int8_t"]
scratch = "0"
order = "elementwise"
code = 458
[cost]
row = "rows"
element = "rows * length"
@*/
struct hil_generic_div_s8 {
    HIL_BINARY_FIELDS;
    int32_t a_zero_point;   /* the first operand's value that stands for 0.0 */
    int32_t b_zero_point;   /* the second operand's value that stands for 0.0 */
    int32_t out_zero_point; /* the output that stands for 0.0 */
    int32_t multiplier;     /* of the quotient, in Q0.31, to the output's scale */
    int32_t shift;          /* of that, to the left; 22 at most */
    int32_t low;            /* the least output */
    int32_t high;           /* the largest output */
};

HIL_INLINE int8_t hil_div_s8_element(const struct hil_generic_div_s8 *p, int8_t a, int8_t b) {
    int32_t x = a - p->a_zero_point;
    int32_t y = b - p->b_zero_point;
    if (y < 0) {
        x = -x;
        y = -y;
    }
    int32_t quotient = 0;
    if (y != 0) {
        const int bits = hil_bits((uint32_t)y);
        const int32_t inverse =
            hil_reciprocal((int32_t)(((uint32_t)y << (32 - bits)) - (UINT32_C(1) << 31)));
        const int headroom = 31 - (x < 0 ? hil_bits(2 * (uint32_t)-x - 1) : hil_bits((uint32_t)x));
        const int32_t raised = hil_doubling_high_mul((int32_t)((uint32_t)x << headroom), inverse);
        const int right = bits - 1 + headroom - p->shift;
        /* The reference shifts by more than C defines where less than 2^-31 is left. */
        quotient =
            right > 31
                ? 0
                : hil_rounding_divide_by_pot(hil_doubling_high_mul(raised, p->multiplier), right);
    }
    return hil_clamp_s8(quotient + p->out_zero_point, p->low, p->high);
}

HIL_INLINE void hil_generic_div_s8(const struct hil_generic_div_s8 *p, const int8_t *a,
                                   const int8_t *b, int8_t *out) {
    HIL_BINARY_WALK(p, a, b, out, hil_div_s8_element);
}

/* x / y * multiplier / 2^right, rounded once, ties to even, saturated to 31 bits: |x| and |y| <
 * 2^17, 0 < multiplier < 2^31, 1 <= right <= 44. By 0 it is the end on the side of x, for 0 / 0 the
 * lower one. */
HIL_INLINE int32_t hil_quotient_even(int32_t x, int32_t y, int32_t multiplier, int right) {
    if (y == 0) {
        return hil_saturate_31(x > 0 ? INT32_MAX : INT32_MIN);
    }
    const int64_t numerator = (int64_t)(y < 0 ? -x : x) * multiplier;
    const int64_t divisor = (int64_t)(y < 0 ? -y : y) << right;
    int64_t quotient = numerator / divisor;
    int64_t rest = numerator - quotient * divisor;
    if (rest < 0) {
        quotient--;
        rest += divisor;
    }
    if (2 * rest > divisor || (2 * rest == divisor && (quotient & 1) != 0)) {
        quotient++;
    }
    return hil_saturate_31(quotient);
}

#define HIL_DIV_EVEN_FIELDS                                                                        \
    HIL_BINARY_FIELDS;                                                                             \
    int32_t a_zero_point;   /* the first operand's value that stands for 0.0 */                    \
    int32_t b_zero_point;   /* the second operand's value that stands for 0.0 */                   \
    int32_t out_zero_point; /* the output that stands for 0.0 */                                   \
    int32_t multiplier;     /* of the quotient, to the output's scale */                           \
    int32_t right;          /* of that product, to the right; 1 to 44 */                           \
    int32_t low;            /* the least output */                                                 \
    int32_t high            /* the largest output */

#define HIL_DIV_EVEN(p, a, b)                                                                      \
    hil_clamp(hil_quotient_even((a) - (p)->a_zero_point, (b) - (p)->b_zero_point, (p)->multiplier, \
                                (p)->right) +                                                      \
                  (p)->out_zero_point,                                                             \
              (p)->low, (p)->high)

/*@kernel
name = "hil_generic_div_s8_even"
requires = []
inputs = ["int8_t", "int8_t"]
outputs = ["int8_t"]
scratch = "0"
order = "elementwise"
code = 420
[cost]
row = "rows"
element = "rows * length"
@*/
struct hil_generic_div_s8_even {
    HIL_DIV_EVEN_FIELDS;
};

HIL_INLINE int8_t hil_div_s8_even_element(const struct hil_generic_div_s8_even *p, int8_t a,
                                          int8_t b) {
    return (int8_t)HIL_DIV_EVEN(p, a, b);
}

HIL_INLINE void hil_generic_div_s8_even(const struct hil_generic_div_s8_even *p, const int8_t *a,
                                        const int8_t *b, int8_t *out) {
    HIL_BINARY_WALK(p, a, b, out, hil_div_s8_even_element);
}

/*@kernel
name = "hil_generic_div_s16_even"
requires = []
inputs = ["int16_t", "int16_t"]
outputs = ["int16_t"]
scratch = "0"
order = "elementwise"
code = 420
[cost]
row = "rows"
element = "rows * length"
@*/
struct hil_generic_div_s16_even {
    HIL_DIV_EVEN_FIELDS;
};

HIL_INLINE int16_t hil_div_s16_even_element(const struct hil_generic_div_s16_even *p, int16_t a,
                                            int16_t b) {
    return (int16_t)HIL_DIV_EVEN(p, a, b);
}

HIL_INLINE void hil_generic_div_s16_even(const struct hil_generic_div_s16_even *p, const int16_t *a,
                                         const int16_t *b, int16_t *out) {
    HIL_BINARY_WALK(p, a, b, out, hil_div_s16_even_element);
}

/* The square of a difference, its operands raised by some bits and brought to one scale. */
#define HIL_SQUARED_DIFFERENCE_STEPS(p, a, b, raised)                                              \
    const int32_t x = hil_requantize(((a) - (p)->a_zero_point) * (INT32_C(1) << (raised)),         \
                                     (p)->a_multiplier, (p)->a_shift);                             \
    const int32_t y = hil_requantize(((b) - (p)->b_zero_point) * (INT32_C(1) << (raised)),         \
                                     (p)->b_multiplier, (p)->b_shift);                             \
    const int32_t steps = hil_requantize((x - y) * (x - y), (p)->out_multiplier, (p)->out_shift) + \
                          (p)->out_zero_point

/*@kernel
name = "hil_generic_squared_difference_s8"
requires = []
inputs = ["int8_t", "int8_t"]
outputs = ["int8_t"]
scratch = "0"
order = "elementwise"
code = 170
[cost]
row = "rows"
element = "rows * length"
@*/
struct hil_generic_squared_difference_s8 {
    HIL_BINARY_FIELDS;
    int32_t a_zero_point;   /* the first operand's value that stands for 0.0 */
    int32_t b_zero_point;   /* the second operand's value that stands for 0.0 */
    int32_t a_multiplier;   /* of the first operand, in Q0.31, to twice the larger scale */
    int32_t a_shift;        /* of that product, to the left; 0 or less */
    int32_t b_multiplier;   /* of the second operand, in Q0.31 */
    int32_t b_shift;        /* of that product, to the left; 0 or less */
    int32_t out_zero_point; /* the output that stands for 0.0 */
    int32_t out_multiplier; /* of the square, in Q0.31 */
    int32_t out_shift;      /* of that product, to the left; 0 or less */
};

HIL_INLINE int8_t hil_squared_difference_s8_element(
    const struct hil_generic_squared_difference_s8 *p, int8_t a, int8_t b) {
    HIL_SQUARED_DIFFERENCE_STEPS(p, a, b, 7);
    return hil_clamp_s8(steps, INT8_MIN, INT8_MAX);
}

HIL_INLINE void hil_generic_squared_difference_s8(const struct hil_generic_squared_difference_s8 *p,
                                                  const int8_t *a, const int8_t *b, int8_t *out) {
    HIL_BINARY_WALK(p, a, b, out, hil_squared_difference_s8_element);
}

/*@kernel
name = "hil_generic_squared_difference_s16"
requires = []
inputs = ["int16_t", "int16_t"]
outputs = ["int16_t"]
scratch = "0"
order = "elementwise"
code = 204
[cost]
row = "rows"
element = "rows * length"
@*/
struct hil_generic_squared_difference_s16 {
    HIL_BINARY_FIELDS;
    int32_t a_zero_point;   /* the first operand's value that stands for 0.0 */
    int32_t b_zero_point;   /* the second operand's value that stands for 0.0 */
    int32_t a_multiplier;   /* of the first operand, in Q0.31, to twice the larger scale */
    int32_t a_shift;        /* of that product, to the left; 0 or less */
    int32_t b_multiplier;   /* of the second operand, in Q0.31 */
    int32_t b_shift;        /* of that product, to the left; 0 or less */
    int32_t out_zero_point; /* the output that stands for 0.0 */
    int32_t out_multiplier; /* of the square, in Q0.31 */
    int32_t out_shift;      /* of that product, to the left; 0 or less */
};

HIL_INLINE int16_t hil_squared_difference_s16_element(
    const struct hil_generic_squared_difference_s16 *p, int16_t a, int16_t b) {
    HIL_SQUARED_DIFFERENCE_STEPS(p, a, b, 0);
    return (int16_t)hil_clamp(steps, INT16_MIN, INT16_MAX);
}

HIL_INLINE void
hil_generic_squared_difference_s16(const struct hil_generic_squared_difference_s16 *p,
                                   const int16_t *a, const int16_t *b, int16_t *out) {
    HIL_BINARY_WALK(p, a, b, out, hil_squared_difference_s16_element);
}

#define HIL_COMPARED(operation, a, b)                                                              \
    ((operation) == HIL_EQUAL       ? (a) == (b)                                                   \
     : (operation) == HIL_NOT_EQUAL ? (a) != (b)                                                   \
     : (operation) == HIL_LESS      ? (a) < (b)                                                    \
                                    : (a) <= (b))

/*@kernel
name = "hil_generic_compare_u8"
requires = []
inputs = ["uint8_t", "uint8_t"]
outputs = ["uint8_t"]
scratch = "0"
order = "elementwise"
code = 46
[cost]
row = "rows"
element = "rows * length"
@*/
struct hil_generic_compare_u8 {
    HIL_BINARY_FIELDS;
    int32_t operation; /* of enum hil_operation: a comparison */
};

HIL_INLINE uint8_t hil_compare_u8_element(const struct hil_generic_compare_u8 *p, uint8_t a,
                                          uint8_t b) {
    return HIL_COMPARED(p->operation, a, b);
}

HIL_INLINE void hil_generic_compare_u8(const struct hil_generic_compare_u8 *p, const uint8_t *a,
                                       const uint8_t *b, uint8_t *out) {
    HIL_BINARY_WALK(p, a, b, out, hil_compare_u8_element);
}

/*@kernel
name = "hil_generic_compare_s16"
requires = []
inputs = ["int16_t", "int16_t"]
outputs = ["uint8_t"]
scratch = "0"
order = "elementwise"
code = 44
[cost]
row = "rows"
element = "rows * length"
@*/
struct hil_generic_compare_s16 {
    HIL_BINARY_FIELDS;
    int32_t operation; /* of enum hil_operation: a comparison */
};

HIL_INLINE uint8_t hil_compare_s16_element(const struct hil_generic_compare_s16 *p, int16_t a,
                                           int16_t b) {
    return HIL_COMPARED(p->operation, a, b);
}

HIL_INLINE void hil_generic_compare_s16(const struct hil_generic_compare_s16 *p, const int16_t *a,
                                        const int16_t *b, uint8_t *out) {
    HIL_BINARY_WALK(p, a, b, out, hil_compare_s16_element);
}

/*@kernel
name = "hil_generic_compare_s32"
requires = []
inputs = ["int32_t", "int32_t"]
outputs = ["uint8_t"]
scratch = "0"
order = "elementwise"
code = 44
[cost]
row = "rows"
element = "rows * length"
@*/
struct hil_generic_compare_s32 {
    HIL_BINARY_FIELDS;
    int32_t operation; /* of enum hil_operation: a comparison */
};

HIL_INLINE uint8_t hil_compare_s32_element(const struct hil_generic_compare_s32 *p, int32_t a,
                                           int32_t b) {
    return HIL_COMPARED(p->operation, a, b);
}

HIL_INLINE void hil_generic_compare_s32(const struct hil_generic_compare_s32 *p, const int32_t *a,
                                        const int32_t *b, uint8_t *out) {
    HIL_BINARY_WALK(p, a, b, out, hil_compare_s32_element);
}

/*@kernel
name = "hil_generic_compare_s64"
requires = []
inputs = ["int64_t", "int64_t"]
outputs = ["uint8_t"]
scratch = "0"
order = "elementwise"
code = 52
[cost]
row = "rows"
element = "rows * length"
@*/
struct hil_generic_compare_s64 {
    HIL_BINARY_FIELDS;
    int32_t operation; /* of enum hil_operation: a comparison */
};

HIL_INLINE uint8_t hil_compare_s64_element(const struct hil_generic_compare_s64 *p, int64_t a,
                                           int64_t b) {
    return HIL_COMPARED(p->operation, a, b);
}

HIL_INLINE void hil_generic_compare_s64(const struct hil_generic_compare_s64 *p, const int64_t *a,
                                        const int64_t *b, uint8_t *out) {
    HIL_BINARY_WALK(p, a, b, out, hil_compare_s64_element);
}

/*@kernel
name = "hil_generic_compare_f32"
requires = []
inputs = ["float", "float"]
outputs = ["uint8_t"]
scratch = "0"
order = "elementwise"
code = 42
[cost]
row = "rows"
element = "rows * length"
@*/
struct hil_generic_compare_f32 {
    HIL_BINARY_FIELDS;
    int32_t operation; /* of enum hil_operation: a comparison */
};

HIL_INLINE uint8_t hil_compare_f32_element(const struct hil_generic_compare_f32 *p, float a,
                                           float b) {
    return HIL_COMPARED(p->operation, a, b);
}

HIL_INLINE void hil_generic_compare_f32(const struct hil_generic_compare_f32 *p, const float *a,
                                        const float *b, uint8_t *out) {
    HIL_BINARY_WALK(p, a, b, out, hil_compare_f32_element);
}

/*@kernel
name = "hil_generic_compare_s8_scaled"
requires = []
inputs = ["int8_t", "int8_t"]
outputs = ["uint8_t"]
scratch = "0"
order = "elementwise"
code = 146
[cost]
row = "rows"
element = "rows * length"
@*/
struct hil_generic_compare_s8_scaled {
    HIL_BINARY_FIELDS;
    int32_t operation;    /* of enum hil_operation: a comparison */
    int32_t a_zero_point; /* the first operand's value that stands for 0.0 */
    int32_t a_multiplier; /* its scale, in Q0.31 */
    int32_t a_shift;      /* of that, to the left; 0 or less */
    int32_t b_zero_point; /* the second operand's value that stands for 0.0 */
    int32_t b_multiplier; /* its scale, in Q0.31 */
    int32_t b_shift;      /* of that, to the left; 0 or less */
};

HIL_INLINE uint8_t hil_compare_scaled_s8_element(const struct hil_generic_compare_s8_scaled *p,
                                                 int8_t a, int8_t b) {
    const int32_t x = hil_requantize((a - p->a_zero_point) * 256, p->a_multiplier, p->a_shift);
    const int32_t y = hil_requantize((b - p->b_zero_point) * 256, p->b_multiplier, p->b_shift);
    return HIL_COMPARED(p->operation, x, y);
}

HIL_INLINE void hil_generic_compare_s8_scaled(const struct hil_generic_compare_s8_scaled *p,
                                              const int8_t *a, const int8_t *b, uint8_t *out) {
    HIL_BINARY_WALK(p, a, b, out, hil_compare_scaled_s8_element);
}

#endif
