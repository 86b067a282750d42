/* Floats of 16 bits, which are stored only: widened before and rounded after arithmetic. */
#ifndef HIL_KERNELS_GENERIC_HALF_H
#define HIL_KERNELS_GENERIC_HALF_H

#include <stdint.h>
#include <string.h>

#include "hil/quant.h"

/*@kernel
name = "hil_generic_cast_f16_f32"
requires = []
inputs = ["uint16_t"]
outputs = ["float"]
scratch = "0"
order = "none"
code = 90
[cost]
element = "size"
@*/
struct hil_generic_cast_f16_f32 {
    int32_t size; /* elements */
};

HIL_INLINE float hil_widened_f16(uint16_t half) {
    const uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
    const uint32_t exponent = (uint32_t)(half >> 10) & 31u;
    uint32_t fraction = half & 0x3FFu;
    uint32_t bits;
    float value;
    if (exponent == 31u) {
        bits = sign | 0x7F800000u | fraction << 13;
    } else if (exponent != 0u) {
        bits = sign | (exponent + 112u) << 23 | fraction << 13;
    } else if (fraction != 0u) {
        uint32_t shift = 113u;
        while ((fraction & 0x400u) == 0u) {
            fraction <<= 1;
            shift--;
        }
        bits = sign | shift << 23 | (fraction & 0x3FFu) << 13;
    } else {
        bits = sign;
    }
    memcpy(&value, &bits, sizeof value);
    return value;
}

HIL_INLINE void hil_generic_cast_f16_f32(const struct hil_generic_cast_f16_f32 *p,
                                         const uint16_t *in, float *out) {
    for (int32_t i = 0; i < p->size; i++) {
        out[i] = hil_widened_f16(in[i]);
    }
}

/*@kernel
name = "hil_generic_cast_f32_f16"
requires = []
inputs = ["float"]
outputs = ["uint16_t"]
scratch = "0"
order = "none"
code = 130
[cost]
element = "size"
@*/
struct hil_generic_cast_f32_f16 {
    int32_t size; /* elements */
};

/* x rounded to the nearest number of 16 bits, ties to even. */
HIL_INLINE uint16_t hil_narrowed_f16(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    const uint32_t sign = bits >> 16 & 0x8000u;
    const uint32_t magnitude = bits & 0x7FFFFFFFu;
    if (magnitude > 0x7F800000u) {
        return (uint16_t)(sign | 0x7E00u | (magnitude >> 13 & 0x1FFu));
    }
    if (magnitude >= 0x477FF000u) {
        return (uint16_t)(sign | 0x7C00u); /* from 65520 on */
    }
    if (magnitude < 0x33000001u) {
        return (uint16_t)sign; /* up to half of the least number */
    }
    /* Below the least normal number the leading bit counts, too. */
    const int is_small = magnitude < 0x38800000u;
    const uint32_t dropped = is_small ? 126u - (magnitude >> 23) : 13u;
    const uint32_t fraction =
        is_small ? (magnitude & 0x7FFFFFu) | 0x800000u : magnitude - 0x38000000u;
    const uint32_t kept = fraction >> dropped;
    const uint32_t rest = fraction & ((UINT32_C(1) << dropped) - 1u);
    const uint32_t half = UINT32_C(1) << (dropped - 1u);
    return (uint16_t)(sign | (kept + (rest > half || (rest == half && (kept & 1u) != 0u))));
}

HIL_INLINE void hil_generic_cast_f32_f16(const struct hil_generic_cast_f32_f16 *p, const float *in,
                                         uint16_t *out) {
    for (int32_t i = 0; i < p->size; i++) {
        out[i] = hil_narrowed_f16(in[i]);
    }
}

#endif
