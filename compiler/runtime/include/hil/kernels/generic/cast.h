/* Numbers in another type. */
#ifndef HIL_KERNELS_GENERIC_CAST_H
#define HIL_KERNELS_GENERIC_CAST_H

#include <stdint.h>

#include "hil/kernels/generic/any.h"
#include "hil/quant.h"

enum hil_cast_type {
    HIL_CAST_S8,
    HIL_CAST_U8,
    HIL_CAST_S16,
    HIL_CAST_S32,
    HIL_CAST_S64,
    HIL_CAST_F32,
    HIL_CAST_BOOL,
    HIL_CAST_U16,
    HIL_CAST_U32,
    HIL_CAST_U64,
};

/*@kernel
name = "hil_generic_cast"
requires = []
inputs = ["void"]
outputs = ["void"]
scratch = "0"
order = "elementwise"
code = 22
[cost]
element = "size"
from_float = "size * (source == 5)"
to_float = "size * (target == 5)"
@*/
struct hil_generic_cast {
    int32_t size;   /* elements */
    int32_t source; /* type of the input, of enum hil_cast_type */
    int32_t target; /* type of the output, likewise */
};

HIL_INLINE int64_t hil_cast_integer(const void *in, int32_t source, int32_t i) {
    switch (source) {
    case HIL_CAST_S8:
        return ((const int8_t *)in)[i];
    case HIL_CAST_S16:
        return ((const hil_any_s16 *)in)[i];
    case HIL_CAST_S32:
        return ((const hil_any_s32 *)in)[i];
    case HIL_CAST_S64:
        return ((const hil_any_s64 *)in)[i];
    case HIL_CAST_U16:
        return ((const hil_any_u16 *)in)[i];
    case HIL_CAST_U32:
        return ((const hil_any_u32 *)in)[i];
    case HIL_CAST_U64:
        return (int64_t)((const hil_any_u64 *)in)[i];
    default: /* bytes from 0 on */
        return ((const uint8_t *)in)[i];
    }
}

/* x truncated to the range from low to high, within 24 bits; 0 for what is no number. */
HIL_INLINE int32_t hil_cast_saturated(float x, float low, float high) {
    return x >= low ? (int32_t)(x > high ? high : x) : (x < low ? (int32_t)low : 0);
}

HIL_INLINE int32_t hil_cast_saturated_s32(float x) {
    return x >= 2147483648.0f ? INT32_MAX : hil_cast_saturated(x, -2147483648.0f, 2147483520.0f);
}

HIL_INLINE int64_t hil_cast_saturated_s64(float x) {
    if (x >= 9223372036854775808.0f) {
        return INT64_MAX;
    }
    return x >= -9223372036854775808.0f ? (int64_t)x : (x < 0.0f ? INT64_MIN : 0);
}

HIL_INLINE uint32_t hil_cast_saturated_u32(float x) {
    return x >= 4294967296.0f ? UINT32_MAX : (x >= 0.0f ? (uint32_t)x : 0u);
}

HIL_INLINE uint64_t hil_cast_saturated_u64(float x) {
    return x >= 18446744073709551616.0f ? UINT64_MAX : (x >= 0.0f ? (uint64_t)x : 0u);
}

/* An integer of a type as a float: those of 64 bits and of uint32 need more than 32. */
HIL_INLINE float hil_cast_real(int64_t integer, int32_t source) {
    if (source == HIL_CAST_U64) {
        return (float)(uint64_t)integer;
    }
    return source == HIL_CAST_S64 || source == HIL_CAST_U32 ? (float)integer
                                                            : (float)(int32_t)integer;
}

HIL_INLINE void hil_cast_element(const struct hil_generic_cast *p, const void *in, void *out,
                                 int32_t i) {
    const int from_float = p->source == HIL_CAST_F32;
    const float real = from_float ? ((const hil_any_f32 *)in)[i] : 0.0f;
    const int64_t integer = from_float ? 0 : hil_cast_integer(in, p->source, i);
    switch (p->target) {
    case HIL_CAST_S8:
        ((int8_t *)out)[i] =
            (int8_t)(from_float ? hil_cast_saturated(real, -128.0f, 127.0f) : (int32_t)integer);
        break;
    case HIL_CAST_U8:
        ((uint8_t *)out)[i] =
            (uint8_t)(from_float ? hil_cast_saturated(real, 0.0f, 255.0f) : (int32_t)integer);
        break;
    case HIL_CAST_S16:
        ((hil_any_s16 *)out)[i] =
            (int16_t)(from_float ? hil_cast_saturated(real, -32768.0f, 32767.0f)
                                 : (int32_t)integer);
        break;
    case HIL_CAST_S32:
        ((hil_any_s32 *)out)[i] = from_float ? hil_cast_saturated_s32(real) : (int32_t)integer;
        break;
    case HIL_CAST_S64:
        ((hil_any_s64 *)out)[i] = from_float ? hil_cast_saturated_s64(real) : integer;
        break;
    case HIL_CAST_F32:
        ((hil_any_f32 *)out)[i] = from_float ? real : hil_cast_real(integer, p->source);
        break;
    case HIL_CAST_U16:
        ((hil_any_u16 *)out)[i] =
            (uint16_t)(from_float ? hil_cast_saturated(real, 0.0f, 65535.0f) : (int32_t)integer);
        break;
    case HIL_CAST_U32:
        ((hil_any_u32 *)out)[i] = from_float ? hil_cast_saturated_u32(real) : (uint32_t)integer;
        break;
    case HIL_CAST_U64:
        ((hil_any_u64 *)out)[i] = from_float ? hil_cast_saturated_u64(real) : (uint64_t)integer;
        break;
    default:
        /* What is no number is not zero. */
        ((uint8_t *)out)[i] = from_float ? !(real == 0.0f) : integer != 0;
        break;
    }
}

HIL_INLINE void hil_generic_cast(const struct hil_generic_cast *p, const void *in, void *out) {
    for (int32_t i = 0; i < p->size; i++) {
        hil_cast_element(p, in, out, i);
    }
}

#endif
