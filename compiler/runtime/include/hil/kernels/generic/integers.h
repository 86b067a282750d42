/* Arithmetic, bits and comparisons of integers of every type, element by element, with
 * broadcasting. What overflows wraps around. */
#ifndef HIL_KERNELS_GENERIC_INTEGERS_H
#define HIL_KERNELS_GENERIC_INTEGERS_H

#include <stdint.h>

#include "hil/kernels/generic/any.h"
#include "hil/kernels/generic/binary.h"
#include "hil/quant.h"

enum hil_integer_type {
    HIL_INTEGER_S8,
    HIL_INTEGER_U8,
    HIL_INTEGER_S16,
    HIL_INTEGER_U16,
    HIL_INTEGER_S32,
    HIL_INTEGER_U32,
    HIL_INTEGER_S64,
    HIL_INTEGER_U64,
};

enum hil_integer_operation {
    HIL_INTEGER_ADD,
    HIL_INTEGER_SUB,
    HIL_INTEGER_MUL,
    HIL_INTEGER_DIV,  /* truncated towards zero; 0 where the divisor is */
    HIL_INTEGER_MOD,  /* of the sign of the divisor; 0 where that is 0 */
    HIL_INTEGER_FMOD, /* of the sign of the dividend, likewise */
    HIL_INTEGER_MAX,
    HIL_INTEGER_MIN,
    HIL_INTEGER_POW, /* 0 for exponents below 0 */
    HIL_INTEGER_AND,
    HIL_INTEGER_OR,
    HIL_INTEGER_XOR,
    HIL_INTEGER_SHIFT_LEFT,  /* 0 for as many bits as the type has, and more */
    HIL_INTEGER_SHIFT_RIGHT, /* the sign alone for so many bits; those below 0 count as such */
    HIL_INTEGER_EQUAL,
    HIL_INTEGER_LESS,
    HIL_INTEGER_LESS_EQUAL,
};

/*@kernel
name = "hil_generic_integer"
requires = []
inputs = ["void", "void"]
outputs = ["void"]
scratch = "0"
order = "elementwise"
code = 110
[cost]
row = "rows"
elements = "rows * length"
sum = "elements * (operation != 8) * ((operation < 3) + (operation > 5))"
quotient = "elements * (operation >= 3) * (operation <= 5) * (type < 6)"
long_quotient = "elements * (operation >= 3) * (operation <= 5) * (type >= 6)"
power = "elements * (operation == 8)"
long = "elements * (type >= 6)"
@*/
struct hil_generic_integer {
    HIL_BINARY_FIELDS;
    int32_t type;      /* of the operands and the output, of enum hil_integer_type */
    int32_t operation; /* of enum hil_integer_operation, no comparison */
};

/*@kernel
name = "hil_generic_integer_compare"
requires = []
inputs = ["void", "void"]
outputs = ["uint8_t"]
scratch = "0"
order = "elementwise"
code = 60
[cost]
row = "rows"
element = "rows * length"
@*/
struct hil_generic_integer_compare {
    HIL_BINARY_FIELDS;
    int32_t type;      /* of the operands, of enum hil_integer_type */
    int32_t operation; /* of enum hil_integer_operation, a comparison */
};

/* The functions of one type: `wide` is unsigned, and at least as wide as an int. The quotient of
 * the least number by -1 wraps around, as a difference from 0 does. */
#define HIL_INTEGER_FUNCTIONS(suffix, type, wide, bits, is_signed)                                 \
    HIL_INLINE type hil_integer_divided_##suffix(type a, type b) {                                 \
        return (type)((is_signed) && b == (type)-1 ? (type)(0 - (wide)a) : (type)(a / b));         \
    }                                                                                              \
    HIL_INLINE type hil_integer_remainder_##suffix(type a, type b, int floor) {                    \
        const type rest = (type)((is_signed) && b == (type)-1 ? 0 : a % b);                        \
        const int other = (is_signed) && rest != 0 && (rest > 0) != (b > 0);                       \
        return (type)(floor && other ? rest + b : rest);                                           \
    }                                                                                              \
    HIL_INLINE type hil_integer_power_##suffix(type a, type b) {                                   \
        wide power = 1;                                                                            \
        wide base = (wide)a;                                                                       \
        if ((is_signed) && !(b > 0) && b != 0) {                                                   \
            return 0;                                                                              \
        }                                                                                          \
        for (type exponent = b; exponent != 0; exponent = (type)(exponent / 2)) {                  \
            power *= exponent % 2 != 0 ? base : 1;                                                 \
            base *= base;                                                                          \
        }                                                                                          \
        return (type)power;                                                                        \
    }                                                                                              \
    HIL_INLINE type hil_integer_element_##suffix(const struct hil_generic_integer *p, type a,      \
                                                 type b) {                                         \
        switch (p->operation) {                                                                    \
        case HIL_INTEGER_ADD:                                                                      \
            return (type)((wide)a + (wide)b);                                                      \
        case HIL_INTEGER_SUB:                                                                      \
            return (type)((wide)a - (wide)b);                                                      \
        case HIL_INTEGER_MUL:                                                                      \
            return (type)((wide)a * (wide)b);                                                      \
        case HIL_INTEGER_DIV:                                                                      \
            return b == 0 ? (type)0 : hil_integer_divided_##suffix(a, b);                          \
        case HIL_INTEGER_MOD:                                                                      \
            return b == 0 ? (type)0 : hil_integer_remainder_##suffix(a, b, 1);                     \
        case HIL_INTEGER_FMOD:                                                                     \
            return b == 0 ? (type)0 : hil_integer_remainder_##suffix(a, b, 0);                     \
        case HIL_INTEGER_MAX:                                                                      \
            return a > b ? a : b;                                                                  \
        case HIL_INTEGER_MIN:                                                                      \
            return a < b ? a : b;                                                                  \
        case HIL_INTEGER_POW:                                                                      \
            return hil_integer_power_##suffix(a, b);                                               \
        case HIL_INTEGER_AND:                                                                      \
            return (type)(a & b);                                                                  \
        case HIL_INTEGER_OR:                                                                       \
            return (type)(a | b);                                                                  \
        case HIL_INTEGER_XOR:                                                                      \
            return (type)(a ^ b);                                                                  \
        case HIL_INTEGER_SHIFT_LEFT:                                                               \
            return (type)((wide)b < (bits) ? (wide)a << b : 0);                                    \
        default:                                                                                   \
            return (type)((wide)b < (bits) ? (type)(a >> b)                                        \
                                           : (type)(a != 0 && !(a > 0) ? -1 : 0));                 \
        }                                                                                          \
    }                                                                                              \
    HIL_INLINE uint8_t hil_integer_compared_##suffix(const struct hil_generic_integer_compare *p,  \
                                                     type a, type b) {                             \
        return p->operation == HIL_INTEGER_EQUAL  ? a == b                                         \
               : p->operation == HIL_INTEGER_LESS ? a < b                                          \
                                                  : a <= b;                                        \
    }

HIL_INTEGER_FUNCTIONS(s8, int8_t, uint32_t, 8, 1)
HIL_INTEGER_FUNCTIONS(u8, uint8_t, uint32_t, 8, 0)
HIL_INTEGER_FUNCTIONS(s16, int16_t, uint32_t, 16, 1)
HIL_INTEGER_FUNCTIONS(u16, uint16_t, uint32_t, 16, 0)
HIL_INTEGER_FUNCTIONS(s32, int32_t, uint32_t, 32, 1)
HIL_INTEGER_FUNCTIONS(u32, uint32_t, uint32_t, 32, 0)
HIL_INTEGER_FUNCTIONS(s64, int64_t, uint64_t, 64, 1)
HIL_INTEGER_FUNCTIONS(u64, uint64_t, uint64_t, 64, 0)

/* The walk over operands of a type, seen as `type`. */
#define HIL_INTEGER_CASE(name, type, suffix, p, a, b, out, out_type)                               \
    case name:                                                                                     \
        HIL_BINARY_WALK(p, (const type *)(a), (const type *)(b), (out_type *)(out), suffix);       \
        break

HIL_INLINE void hil_generic_integer(const struct hil_generic_integer *p, const void *a,
                                    const void *b, void *out) {
    switch (p->type) {
        HIL_INTEGER_CASE(HIL_INTEGER_S8, int8_t, hil_integer_element_s8, p, a, b, out, int8_t);
        HIL_INTEGER_CASE(HIL_INTEGER_U8, uint8_t, hil_integer_element_u8, p, a, b, out, uint8_t);
        HIL_INTEGER_CASE(HIL_INTEGER_S16, hil_any_s16, hil_integer_element_s16, p, a, b, out,
                         hil_any_s16);
        HIL_INTEGER_CASE(HIL_INTEGER_U16, hil_any_u16, hil_integer_element_u16, p, a, b, out,
                         hil_any_u16);
        HIL_INTEGER_CASE(HIL_INTEGER_S32, hil_any_s32, hil_integer_element_s32, p, a, b, out,
                         hil_any_s32);
        HIL_INTEGER_CASE(HIL_INTEGER_U32, hil_any_u32, hil_integer_element_u32, p, a, b, out,
                         hil_any_u32);
        HIL_INTEGER_CASE(HIL_INTEGER_S64, hil_any_s64, hil_integer_element_s64, p, a, b, out,
                         hil_any_s64);
    default:
        HIL_BINARY_WALK(p, (const hil_any_u64 *)a, (const hil_any_u64 *)b, (hil_any_u64 *)out,
                        hil_integer_element_u64);
    }
}

HIL_INLINE void hil_generic_integer_compare(const struct hil_generic_integer_compare *p,
                                            const void *a, const void *b, uint8_t *out) {
    switch (p->type) {
        HIL_INTEGER_CASE(HIL_INTEGER_S8, int8_t, hil_integer_compared_s8, p, a, b, out, uint8_t);
        HIL_INTEGER_CASE(HIL_INTEGER_U8, uint8_t, hil_integer_compared_u8, p, a, b, out, uint8_t);
        HIL_INTEGER_CASE(HIL_INTEGER_S16, hil_any_s16, hil_integer_compared_s16, p, a, b, out,
                         uint8_t);
        HIL_INTEGER_CASE(HIL_INTEGER_U16, hil_any_u16, hil_integer_compared_u16, p, a, b, out,
                         uint8_t);
        HIL_INTEGER_CASE(HIL_INTEGER_S32, hil_any_s32, hil_integer_compared_s32, p, a, b, out,
                         uint8_t);
        HIL_INTEGER_CASE(HIL_INTEGER_U32, hil_any_u32, hil_integer_compared_u32, p, a, b, out,
                         uint8_t);
        HIL_INTEGER_CASE(HIL_INTEGER_S64, hil_any_s64, hil_integer_compared_s64, p, a, b, out,
                         uint8_t);
    default:
        HIL_BINARY_WALK(p, (const hil_any_u64 *)a, (const hil_any_u64 *)b, out,
                        hil_integer_compared_u64);
    }
}

#endif
