/* From float to int8 and back. */
#ifndef HIL_KERNELS_GENERIC_QUANTIZE_H
#define HIL_KERNELS_GENERIC_QUANTIZE_H

#include <math.h>
#include <stdint.h>

#include "hil/quant.h"

/*@kernel
name = "hil_quantize_f32_s8"
requires = []
inputs = ["float"]
outputs = ["int8_t"]
scratch = "0"
order = "elementwise"
@*/
struct hil_quantize_f32_s8 {
    int32_t size;
    float scale;
    int32_t zero_point;
};

HIL_INLINE void hil_quantize_f32_s8(const struct hil_quantize_f32_s8 *p, const float *in,
                                    int8_t *out) {
    const float low = (float)(INT8_MIN - p->zero_point);
    const float high = (float)(INT8_MAX - p->zero_point);
    for (int32_t i = 0; i < p->size; i++) {
        const float steps = roundf(in[i] / p->scale);
        /* Before the conversion, which only numbers in range survive; no number becomes low. */
        const float clamped = steps > low ? (steps < high ? steps : high) : low;
        out[i] = (int8_t)((int32_t)clamped + p->zero_point);
    }
}

/*@kernel
name = "hil_dequantize_s8_f32"
requires = []
inputs = ["int8_t"]
outputs = ["float"]
scratch = "0"
order = "none"
@*/
struct hil_dequantize_s8_f32 {
    int32_t size;
    float scale;
    int32_t zero_point;
};

HIL_INLINE void hil_dequantize_s8_f32(const struct hil_dequantize_s8_f32 *p, const int8_t *in,
                                      float *out) {
    for (int32_t i = 0; i < p->size; i++) {
        out[i] = p->scale * (float)(in[i] - p->zero_point);
    }
}

#endif
