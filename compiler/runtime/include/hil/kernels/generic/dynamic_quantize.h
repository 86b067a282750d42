/* Floats as int8, with a scale and a zero point that follow from their range when the model runs.
 */
#ifndef HIL_KERNELS_GENERIC_DYNAMIC_QUANTIZE_H
#define HIL_KERNELS_GENERIC_DYNAMIC_QUANTIZE_H

#include <math.h>
#include <stdint.h>

#include "hil/quant.h"

#define HIL_DYNAMIC_ONNX 0       /* uint8 of ONNX's DynamicQuantizeLinear, less 128 */
#define HIL_DYNAMIC_ASYMMETRIC 1 /* TFLite's int8 with a zero point */
#define HIL_DYNAMIC_SYMMETRIC 2  /* TFLite's int8 from -127 to 127, with the zero point 0 */

struct hil_dynamic_range {
    float low;  /* of all numbers and 0 */
    float high; /* of all numbers and 0 */
};

/* How a row is quantized: q = round(x / scale) + zero point. */
struct hil_dynamic_scale {
    float scale;
    int32_t zero_point;
};

HIL_INLINE struct hil_dynamic_range hil_dynamic_range_of(const float *in, int32_t count) {
    struct hil_dynamic_range range = {0.0F, 0.0F};
    for (int32_t i = 0; i < count; i++) {
        range.low = in[i] < range.low ? in[i] : range.low;
        range.high = in[i] > range.high ? in[i] : range.high;
    }
    return range;
}

/* A number of whole value, clamped; NaN becomes the least. */
HIL_INLINE int32_t hil_dynamic_clamp(float x, float low, float high) {
    return (int32_t)(x > low ? (x < high ? x : high) : low);
}

HIL_INLINE struct hil_dynamic_scale hil_dynamic_scale_onnx(struct hil_dynamic_range range) {
    const float reach = range.high - range.low;
    const float scale = reach == 0.0F ? 1.0F : reach / 255.0F;
    const float zero_point = rintf(0.0F - range.low / scale);
    return (struct hil_dynamic_scale){scale, hil_dynamic_clamp(zero_point, 0.0F, 255.0F) - 128};
}

/* As TFLite's AsymmetricQuantizeFloats: the difference in float, the others in double. */
HIL_INLINE struct hil_dynamic_scale hil_dynamic_scale_asymmetric(struct hil_dynamic_range range) {
    const double low = (double)range.low;
    const double high = (double)range.high;
    if (range.low == range.high) {
        return (struct hil_dynamic_scale){1.0F, 0};
    }
    const double scale = (double)(range.high - range.low) / 255.0;
    const double from_low = -128.0 - low / scale;
    const double from_high = 127.0 - high / scale;
    /* The one whose terms are smaller is the more accurate one. */
    const double zero_point =
        128.0 + fabs(low / scale) < 127.0 + fabs(high / scale) ? from_low : from_high;
    int32_t nudged = -128;
    if (zero_point >= 127.0) {
        nudged = 127;
    } else if (zero_point > -128.0) {
        nudged = (int32_t)round(zero_point);
    }
    return (struct hil_dynamic_scale){(float)scale, nudged};
}

HIL_INLINE struct hil_dynamic_scale hil_dynamic_scale_symmetric(struct hil_dynamic_range range) {
    const float reach = -range.low > range.high ? -range.low : range.high;
    return (struct hil_dynamic_scale){reach == 0.0F ? 1.0F : reach / 127.0F, 0};
}

/*@kernel
name = "hil_generic_dynamic_quantize_f32"
requires = []
inputs = ["float"]
outputs = ["int8_t", "float", "int32_t"]
scratch = "0"
order = "none"
code = 260
[cost]
row = "rows"
element = "rows * depth"
@*/
struct hil_generic_dynamic_quantize_f32 {
    int32_t rows;       /* that each have a scale and a zero point */
    int32_t depth;      /* elements of a row */
    int32_t definition; /* HIL_DYNAMIC_ONNX and others */
};

HIL_INLINE void hil_dynamic_quantize_row(int32_t definition, const float *in, int32_t depth,
                                         struct hil_dynamic_range range,
                                         struct hil_dynamic_scale scale, int8_t *out) {
    if (definition == HIL_DYNAMIC_ONNX) {
        const float zero_point = (float)(scale.zero_point + 128);
        for (int32_t i = 0; i < depth; i++) {
            const float steps = rintf(in[i] / scale.scale) + zero_point;
            out[i] = (int8_t)(hil_dynamic_clamp(steps, 0.0F, 255.0F) - 128);
        }
        return;
    }
    /* Symmetric scales have an inverse of their own, which is rounded once. */
    const float reach = -range.low > range.high ? -range.low : range.high;
    const float inverse =
        definition == HIL_DYNAMIC_SYMMETRIC && reach != 0.0F ? 127.0F / reach : 1.0F / scale.scale;
    const float low = definition == HIL_DYNAMIC_SYMMETRIC ? -127.0F : -128.0F;
    const float offset = (float)scale.zero_point;
    for (int32_t i = 0; i < depth; i++) {
        out[i] = (int8_t)hil_dynamic_clamp(roundf(offset + in[i] * inverse), low, 127.0F);
    }
}

HIL_INLINE void hil_generic_dynamic_quantize_f32(const struct hil_generic_dynamic_quantize_f32 *p,
                                                 const float *in, int8_t *out, float *scales,
                                                 int32_t *zero_points) {
    for (int32_t row = 0; row < p->rows; row++) {
        const struct hil_dynamic_range range = hil_dynamic_range_of(in, p->depth);
        struct hil_dynamic_scale scale;
        if (p->definition == HIL_DYNAMIC_ONNX) {
            scale = hil_dynamic_scale_onnx(range);
        } else if (p->definition == HIL_DYNAMIC_ASYMMETRIC) {
            scale = hil_dynamic_scale_asymmetric(range);
        } else {
            scale = hil_dynamic_scale_symmetric(range);
        }
        hil_dynamic_quantize_row(p->definition, in, p->depth, range, scale, out);
        scales[row] = scale.scale;
        zero_points[row] = scale.zero_point;
        in += p->depth;
        out += p->depth;
    }
}

#endif
