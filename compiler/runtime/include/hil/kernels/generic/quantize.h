/* From float to integers and back, and from wide integers to others. */
#ifndef HIL_KERNELS_GENERIC_QUANTIZE_H
#define HIL_KERNELS_GENERIC_QUANTIZE_H

#include <math.h>
#include <stdint.h>

#include "hil/kernels/generic/any.h"
#include "hil/quant.h"

/* The integer for a number, from low to high. Clamped before the conversion, which C defines for
 * numbers in int32 only: what is beyond saturates, NaN becomes low. The reference converts first,
 * so that its result for these depends on its host. */
HIL_INLINE int32_t hil_quantized(float x, float scale, int32_t zero_point, int32_t to_even,
                                 int32_t low, int32_t high) {
    const float least = (float)(low - zero_point);
    const float most = (float)(high - zero_point);
    const float steps = to_even ? rintf(x / scale) : roundf(x / scale);
    const float clamped = steps > least ? (steps < most ? steps : most) : least;
    return (int32_t)clamped + zero_point;
}

/*@kernel
name = "hil_generic_quantize_f32_s8"
requires = []
inputs = ["float"]
outputs = ["int8_t"]
scratch = "0"
order = "elementwise"
code = 96
[cost]
element = "size"
@*/
struct hil_generic_quantize_f32_s8 {
    int32_t size;       /* elements */
    float scale;        /* the difference of two neighbouring integers */
    int32_t zero_point; /* the integer that stands for 0.0 */
    int32_t to_even;    /* 1: ties to even; 0: away from zero */
};

HIL_INLINE void hil_generic_quantize_f32_s8(const struct hil_generic_quantize_f32_s8 *p,
                                            const float *in, int8_t *out) {
    for (int32_t i = 0; i < p->size; i++) {
        out[i] =
            (int8_t)hil_quantized(in[i], p->scale, p->zero_point, p->to_even, INT8_MIN, INT8_MAX);
    }
}

/*@kernel
name = "hil_generic_quantize_f32_u8"
requires = []
inputs = ["float"]
outputs = ["uint8_t"]
scratch = "0"
order = "elementwise"
code = 108
[cost]
element = "size"
@*/
struct hil_generic_quantize_f32_u8 {
    int32_t size;       /* elements */
    float scale;        /* the difference of two neighbouring integers */
    int32_t zero_point; /* the integer that stands for 0.0 */
    int32_t to_even;    /* 1: ties to even; 0: away from zero */
};

HIL_INLINE void hil_generic_quantize_f32_u8(const struct hil_generic_quantize_f32_u8 *p,
                                            const float *in, uint8_t *out) {
    for (int32_t i = 0; i < p->size; i++) {
        out[i] = (uint8_t)hil_quantized(in[i], p->scale, p->zero_point, p->to_even, 0, UINT8_MAX);
    }
}

/*@kernel
name = "hil_generic_quantize_f32_s16"
requires = []
inputs = ["float"]
outputs = ["int16_t"]
scratch = "0"
order = "none"
code = 116
[cost]
element = "size"
@*/
struct hil_generic_quantize_f32_s16 {
    int32_t size;       /* elements */
    float scale;        /* the difference of two neighbouring integers */
    int32_t zero_point; /* the integer that stands for 0.0 */
    int32_t to_even;    /* 1: ties to even; 0: away from zero */
};

HIL_INLINE void hil_generic_quantize_f32_s16(const struct hil_generic_quantize_f32_s16 *p,
                                             const float *in, int16_t *out) {
    for (int32_t i = 0; i < p->size; i++) {
        out[i] = (int16_t)hil_quantized(in[i], p->scale, p->zero_point, p->to_even, INT16_MIN,
                                        INT16_MAX);
    }
}

/*@kernel
name = "hil_generic_quantize_f32_u16"
requires = []
inputs = ["float"]
outputs = ["uint16_t"]
scratch = "0"
order = "none"
code = 116
[cost]
element = "size"
@*/
struct hil_generic_quantize_f32_u16 {
    int32_t size;       /* elements */
    float scale;        /* the difference of two neighbouring integers */
    int32_t zero_point; /* the integer that stands for 0.0 */
    int32_t to_even;    /* 1: ties to even; 0: away from zero */
};

HIL_INLINE void hil_generic_quantize_f32_u16(const struct hil_generic_quantize_f32_u16 *p,
                                             const float *in, uint16_t *out) {
    for (int32_t i = 0; i < p->size; i++) {
        out[i] = (uint16_t)hil_quantized(in[i], p->scale, p->zero_point, p->to_even, 0, UINT16_MAX);
    }
}

/*@kernel
name = "hil_generic_dequantize_s8_f32"
requires = []
inputs = ["int8_t"]
outputs = ["float"]
scratch = "0"
order = "none"
code = 44
[cost]
element = "size"
@*/
struct hil_generic_dequantize_s8_f32 {
    int32_t size;       /* elements */
    float scale;        /* the difference of two neighbouring integers */
    int32_t zero_point; /* the integer that stands for 0.0 */
};

HIL_INLINE void hil_generic_dequantize_s8_f32(const struct hil_generic_dequantize_s8_f32 *p,
                                              const int8_t *in, float *out) {
    for (int32_t i = 0; i < p->size; i++) {
        out[i] = p->scale * (float)(in[i] - p->zero_point);
    }
}

/*@kernel
name = "hil_generic_dequantize_u8_f32"
requires = []
inputs = ["uint8_t"]
outputs = ["float"]
scratch = "0"
order = "none"
code = 42
[cost]
element = "size"
@*/
struct hil_generic_dequantize_u8_f32 {
    int32_t size;       /* elements */
    float scale;        /* the difference of two neighbouring integers */
    int32_t zero_point; /* the integer that stands for 0.0 */
};

HIL_INLINE void hil_generic_dequantize_u8_f32(const struct hil_generic_dequantize_u8_f32 *p,
                                              const uint8_t *in, float *out) {
    for (int32_t i = 0; i < p->size; i++) {
        out[i] = p->scale * (float)(in[i] - p->zero_point);
    }
}

/*@kernel
name = "hil_generic_dequantize_s16_f32"
requires = []
inputs = ["int16_t"]
outputs = ["float"]
scratch = "0"
order = "none"
code = 44
[cost]
element = "size"
@*/
struct hil_generic_dequantize_s16_f32 {
    int32_t size;       /* elements */
    float scale;        /* the difference of two neighbouring integers */
    int32_t zero_point; /* the integer that stands for 0.0 */
};

HIL_INLINE void hil_generic_dequantize_s16_f32(const struct hil_generic_dequantize_s16_f32 *p,
                                               const int16_t *in, float *out) {
    for (int32_t i = 0; i < p->size; i++) {
        out[i] = p->scale * (float)(in[i] - p->zero_point);
    }
}

/*@kernel
name = "hil_generic_dequantize_u16_f32"
requires = []
inputs = ["uint16_t"]
outputs = ["float"]
scratch = "0"
order = "none"
code = 44
[cost]
element = "size"
@*/
struct hil_generic_dequantize_u16_f32 {
    int32_t size;       /* elements */
    float scale;        /* the difference of two neighbouring integers */
    int32_t zero_point; /* the integer that stands for 0.0 */
};

HIL_INLINE void hil_generic_dequantize_u16_f32(const struct hil_generic_dequantize_u16_f32 *p,
                                               const uint16_t *in, float *out) {
    for (int32_t i = 0; i < p->size; i++) {
        out[i] = p->scale * (float)(in[i] - p->zero_point);
    }
}

/* From one quantization to another. low and high are the output's range less its zero point, so
 * that adding it overflows nothing. */
/*@kernel
name = "hil_generic_requantize_wide"
requires = []
inputs = ["void"]
outputs = ["void"]
scratch = "0"
order = "elementwise"
code = 82
[cost]
element = "size"
@*/
struct hil_generic_requantize_wide {
    int32_t size;           /* elements */
    int32_t in_bytes;       /* 1, 2 or 4 */
    int32_t in_mask;        /* -1, or the bits of an input that has no sign */
    int32_t out_bytes;      /* 1, 2 or 4 */
    int32_t in_zero_point;  /* the input that stands for 0.0 */
    int32_t multiplier;     /* of the input less its zero point, in Q0.31 */
    int32_t shift;          /* of the product, to the left; below 0 to the right */
    int32_t rounding;       /* of that: HIL_ROUND_TWICE and others (quant.h) */
    int32_t low;            /* the least output */
    int32_t high;           /* the largest output */
    int32_t out_zero_point; /* the output that stands for 0.0 */
};

HIL_INLINE void hil_generic_requantize_wide(const struct hil_generic_requantize_wide *p,
                                            const void *in, void *out) {
    for (int32_t i = 0; i < p->size; i++) {
        const int32_t read = p->in_bytes == 1   ? ((const int8_t *)in)[i]
                             : p->in_bytes == 2 ? ((const hil_any_s16 *)in)[i]
                                                : ((const hil_any_s32 *)in)[i];
        const int32_t x = read & p->in_mask;
        /* Wraps around at the ends of 32 bits, as the reference does. */
        const int32_t steps = (int32_t)((uint32_t)x - (uint32_t)p->in_zero_point);
        const int32_t scaled = hil_requantize_by(p->rounding, steps, p->multiplier, p->shift, 0);
        const int32_t y = hil_clamp(scaled, p->low, p->high) + p->out_zero_point;
        if (p->out_bytes == 1) {
            ((int8_t *)out)[i] = (int8_t)y;
        } else if (p->out_bytes == 2) {
            ((hil_any_s16 *)out)[i] = (int16_t)y;
        } else {
            ((hil_any_s32 *)out)[i] = y;
        }
    }
}

#endif
