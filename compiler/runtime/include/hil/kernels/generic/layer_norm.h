/* Rows less their mean, over their deviation; or over the root of their mean square. */
#ifndef HIL_KERNELS_GENERIC_LAYER_NORM_H
#define HIL_KERNELS_GENERIC_LAYER_NORM_H

#include <math.h>
#include <stdint.h>

#include "hil/quant.h"

/*@kernel
name = "hil_generic_layer_norm_f32"
requires = []
inputs = ["float", "float", "float"]
outputs = ["float"]
scratch = "0"
order = "none"
code = 300
[cost]
row = "rows"
element = "rows * depth"
@*/
struct hil_generic_layer_norm_f32 {
    int32_t rows;     /* that each are normalized by themselves */
    int32_t depth;    /* elements of a row */
    float epsilon;    /* what is added to the variance */
    int32_t centered; /* 1: less the mean */
    int32_t shifted;  /* 1: with addends; 0: these are not read */
};

HIL_INLINE void hil_generic_layer_norm_f32(const struct hil_generic_layer_norm_f32 *p,
                                           const float *in, const float *factors,
                                           const float *addends, float *out) {
    const float count = (float)p->depth;
    for (int32_t row = 0; row < p->rows; row++) {
        float sum = 0.0F;
        for (int32_t i = 0; p->centered && i < p->depth; i++) {
            sum += in[i];
        }
        const float mean = p->centered ? sum / count : 0.0F;
        float squares = 0.0F;
        for (int32_t i = 0; i < p->depth; i++) {
            const float rest = p->centered ? in[i] - mean : in[i];
            squares += rest * rest;
        }
        const float inverse = 1.0F / sqrtf(squares / count + p->epsilon);
        for (int32_t i = 0; i < p->depth; i++) {
            const float rest = p->centered ? in[i] - mean : in[i];
            const float scaled = rest * inverse * factors[i];
            out[i] = p->shifted ? scaled + addends[i] : scaled;
        }
        in += p->depth;
        out += p->depth;
    }
}

#define HIL_LAYER_NORM_FIELDS                                                                      \
    int32_t rows;           /* that each are normalized by themselves */                           \
    int32_t depth;          /* elements of a row, below 2^16 */                                    \
    float epsilon;          /* what is added to the squared deviation, in its units */             \
    int32_t centered;       /* 1: less the mean; 0: less the zero point */                         \
    int32_t zero_point;     /* the input that stands for 0.0 */                                    \
    int32_t out_zero_point; /* the output that does */                                             \
    const float *factors;   /* of each element of a row, in steps of the output */                 \
    const float *addends    /* to each element of a row, in steps of the output */

/* What the elements of a row become: (depth * in - centre) * inverse is the real number. */
struct hil_layer_norm_row {
    int32_t centre;
    float inverse;
};

/* Of a row with this sum and this sum of squares. */
HIL_INLINE struct hil_layer_norm_row hil_layer_norm_row(int32_t depth, int32_t centered,
                                                        int32_t zero_point, float epsilon,
                                                        int32_t sum, int64_t squares) {
    int64_t spread = depth * squares;
    struct hil_layer_norm_row row;
    row.centre = sum;
    if (centered) {
        spread -= (int64_t)sum * sum;
    } else {
        /* The squares of q - z add up to squares - 2 * z * sum + depth * z * z. */
        const int64_t shifted =
            squares - (int64_t)2 * zero_point * sum + (int64_t)depth * zero_point * zero_point;
        spread = depth * shifted;
        row.centre = depth * zero_point;
    }
    const float divisor = (float)spread + epsilon;
    row.inverse = divisor > 0.0F ? 1.0F / sqrtf(divisor) : 0.0F;
    return row;
}

/*@kernel
name = "hil_generic_layer_norm_s8"
requires = []
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "0"
order = "none"
code = 330
[cost]
row = "rows"
element = "rows * depth"
@*/
struct hil_generic_layer_norm_s8 {
    HIL_LAYER_NORM_FIELDS;
};

HIL_INLINE void hil_generic_layer_norm_s8(const struct hil_generic_layer_norm_s8 *p,
                                          const int8_t *in, int8_t *out) {
    const float least = (float)(INT8_MIN - p->out_zero_point);
    const float most = (float)(INT8_MAX - p->out_zero_point);
    for (int32_t n = 0; n < p->rows; n++) {
        int32_t sum = 0;
        uint32_t squares = 0;
        for (int32_t i = 0; i < p->depth; i++) {
            sum += in[i];
            squares += (uint32_t)(in[i] * in[i]);
        }
        const struct hil_layer_norm_row row =
            hil_layer_norm_row(p->depth, p->centered, p->zero_point, p->epsilon, sum, squares);
        for (int32_t i = 0; i < p->depth; i++) {
            const float rest = (float)(p->depth * in[i] - row.centre);
            const float steps = rest * row.inverse * p->factors[i] + p->addends[i];
            const float clamped = steps > least ? (steps < most ? steps : most) : least;
            /* Among numbers of 24 bits before the point the sum is the nearest, ties to even. */
            const float rounded = (clamped + 12582912.0F) - 12582912.0F;
            out[i] = (int8_t)((int32_t)rounded + p->out_zero_point);
        }
        in += p->depth;
        out += p->depth;
    }
}

/*@kernel
name = "hil_generic_layer_norm_s16"
requires = []
inputs = ["int16_t"]
outputs = ["int16_t"]
scratch = "0"
order = "none"
code = 340
[cost]
row = "rows"
element = "rows * depth"
@*/
struct hil_generic_layer_norm_s16 {
    HIL_LAYER_NORM_FIELDS;
};

HIL_INLINE void hil_generic_layer_norm_s16(const struct hil_generic_layer_norm_s16 *p,
                                           const int16_t *in, int16_t *out) {
    const float least = (float)(INT16_MIN - p->out_zero_point);
    const float most = (float)(INT16_MAX - p->out_zero_point);
    for (int32_t n = 0; n < p->rows; n++) {
        int32_t sum = 0;
        int64_t squares = 0;
        for (int32_t i = 0; i < p->depth; i++) {
            sum += in[i];
            squares += in[i] * in[i];
        }
        const struct hil_layer_norm_row row =
            hil_layer_norm_row(p->depth, p->centered, p->zero_point, p->epsilon, sum, squares);
        for (int32_t i = 0; i < p->depth; i++) {
            const float rest = (float)(p->depth * in[i] - row.centre);
            const float steps = rest * row.inverse * p->factors[i] + p->addends[i];
            const float clamped = steps > least ? (steps < most ? steps : most) : least;
            /* Among numbers of 24 bits before the point the sum is the nearest, ties to even. */
            const float rounded = (clamped + 12582912.0F) - 12582912.0F;
            out[i] = (int16_t)((int32_t)rounded + p->out_zero_point);
        }
        in += p->depth;
        out += p->depth;
    }
}

#endif
