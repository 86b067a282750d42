/* Transposed convolutions: each pixel of the input adds to all outputs under its window. For each
 * output the pixels that reach it are added up, so that no sums are kept. */
#ifndef HIL_KERNELS_GENERIC_TRANSPOSE_CONV2D_H
#define HIL_KERNELS_GENERIC_TRANSPOSE_CONV2D_H

#include "hil/kernels/generic/clamp_f32.h"
#include "hil/kernels/generic/fields.h"
#include "hil/kernels/generic/matmul_s16.h"

/* The windows on the output, one for each pixel of the input. */
#define HIL_TRANSPOSED_FIELDS                                                                      \
    HIL_IMAGES_FIELDS;                                                                             \
    int32_t out_c;    /* channels of the output */                                                 \
    int32_t filter_h; /* rows of the filter */                                                     \
    int32_t filter_w; /* columns of the filter */                                                  \
    int32_t stride_h; /* output rows from a window to the one below it */                          \
    int32_t stride_w; /* output columns from a window to the next */                               \
    int32_t pad_top;  /* rows by which the first window reaches above the output */                \
    int32_t pad_left  /* columns by which the first window reaches beyond the output */

/* The first window that covers a position, which is counted from where the first window begins. */
HIL_INLINE int32_t hil_transposed_first(int32_t place, int32_t filter, int32_t stride) {
    return place < filter ? 0 : (place - filter + stride) / stride;
}

/* The number of windows of which none after them begins at a position or before it. */
HIL_INLINE int32_t hil_transposed_end(int32_t place, int32_t stride, int32_t windows) {
    const int32_t end = place / stride + 1;
    return end < windows ? end : windows;
}

/* Writes out[] = finish(p, sum, channel) for every output, where sum begins with `start` and takes
 * sum = add(p, sum, pixel, weights) for each pixel of the input whose window covers the output. */
#define HIL_TRANSPOSED_WALK(p, in, out, total, start, add, finish)                                 \
    do {                                                                                           \
        const int32_t in_c = (p)->in_c;                                                            \
        const int32_t taps = (p)->filter_h * (p)->filter_w * in_c;                                 \
        for (int32_t images = (p)->batch; images > 0; images--) {                                  \
            for (int32_t y = (p)->pad_top; y < (p)->pad_top + (p)->out_h; y++) {                   \
                const int32_t first_row = hil_transposed_first(y, (p)->filter_h, (p)->stride_h);   \
                const int32_t end_row = hil_transposed_end(y, (p)->stride_h, (p)->in_h);           \
                for (int32_t x = (p)->pad_left; x < (p)->pad_left + (p)->out_w; x++) {             \
                    const int32_t first = hil_transposed_first(x, (p)->filter_w, (p)->stride_w);   \
                    const int32_t end = hil_transposed_end(x, (p)->stride_w, (p)->in_w);           \
                    for (int32_t channel = 0; channel < (p)->out_c; channel++) {                   \
                        total sum = start;                                                         \
                        for (int32_t row = first_row; row < end_row; row++) {                      \
                            const int32_t tap = (y - row * (p)->stride_h) * (p)->filter_w + x;     \
                            for (int32_t column = first; column < end; column++) {                 \
                                sum = add((p), sum, (in) + (row * (p)->in_w + column) * in_c,      \
                                          (p)->weights + channel * taps +                          \
                                              (tap - column * (p)->stride_w) * in_c);              \
                            }                                                                      \
                        }                                                                          \
                        *(out)++ = finish((p), sum, channel);                                      \
                    }                                                                              \
                }                                                                                  \
            }                                                                                      \
            (in) += (p)->in_h * (p)->in_w * in_c;                                                  \
        }                                                                                          \
    } while (0)

/*@kernel
name = "hil_generic_transpose_conv2d_s8"
requires = []
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "0"
order = "walk"
reads = "transposed"
code = 420
[cost]
window = "batch * out_h * out_w"
output = "window * out_c"
tap = "batch * in_h * in_w * filter_h * filter_w * out_c"
mac = "tap * in_c"
@*/
struct hil_generic_transpose_conv2d_s8 {
    HIL_TRANSPOSED_FIELDS;
    int32_t in_offset; /* what is added to each input: less its zero point */
    HIL_OUTPUT_RANGE_FIELDS;
    int32_t rounding;    /* of sums: HIL_ROUND_TWICE and others (quant.h) */
    int32_t per_channel; /* 1: each output channel has a multiplier and a shift; 0: one for all */
    const int32_t *bias; /* of each output channel */
    const int32_t *multipliers; /* in Q0.31 */
    const int8_t *shifts;       /* of the products, to the left; below 0 to the right */
    const int8_t *weights;      /* [out_c][filter_h][filter_w][in_c] */
};

HIL_INLINE int32_t hil_transpose_conv2d_s8_add(const struct hil_generic_transpose_conv2d_s8 *p,
                                               int32_t sum, const int8_t *in,
                                               const int8_t *weights) {
    for (int32_t i = 0; i < p->in_c; i++) {
        sum += (in[i] + p->in_offset) * weights[i];
    }
    return sum;
}

HIL_INLINE int8_t hil_transpose_conv2d_s8_finish(const struct hil_generic_transpose_conv2d_s8 *p,
                                                 int32_t sum, int32_t channel) {
    const int32_t factor = p->per_channel ? channel : 0;
    const int32_t value =
        hil_requantize_by(p->rounding, sum + p->bias[channel], p->multipliers[factor],
                          p->shifts[factor], p->out_zero_point);
    return (int8_t)hil_clamp(value, p->out_min, p->out_max);
}

HIL_INLINE void hil_generic_transpose_conv2d_s8(const struct hil_generic_transpose_conv2d_s8 *p,
                                                const int8_t *in, int8_t *out) {
    HIL_TRANSPOSED_WALK(p, in, out, int32_t, 0, hil_transpose_conv2d_s8_add,
                        hil_transpose_conv2d_s8_finish);
}

/*@kernel
name = "hil_generic_transpose_conv2d_s16"
requires = []
inputs = ["int16_t"]
outputs = ["int16_t"]
scratch = "0"
order = "walk"
reads = "transposed"
code = 520
[cost]
window = "batch * out_h * out_w"
output = "window * out_c"
tap = "batch * in_h * in_w * filter_h * filter_w * out_c"
mac = "tap * in_c"
@*/
struct hil_generic_transpose_conv2d_s16 {
    HIL_TRANSPOSED_FIELDS;
    int32_t out_min;            /* the least output */
    int32_t out_max;            /* the largest output */
    int32_t per_channel;        /* 1: each channel has a multiplier and a shift, 0: one for all */
    const int32_t *bias;        /* of each channel the lower word, then the upper one */
    const int16_t *multipliers; /* of 15 bits */
    const int8_t *shifts;       /* to the right, 8 to 46 */
    const int8_t *weights;      /* [out_c][filter_h][filter_w][in_c] */
};

HIL_INLINE int64_t hil_transpose_conv2d_s16_add(const struct hil_generic_transpose_conv2d_s16 *p,
                                                int64_t sum, const int16_t *in,
                                                const int8_t *weights) {
    return sum + hil_matmul_s16_sum(in, weights, p->in_c);
}

HIL_INLINE int16_t hil_transpose_conv2d_s16_finish(const struct hil_generic_transpose_conv2d_s16 *p,
                                                   int64_t sum, int32_t channel) {
    const int32_t factor = p->per_channel ? channel : 0;
    const int32_t scaled = hil_requantize_once(sum + hil_matmul_s16_bias(p->bias, channel),
                                               p->multipliers[factor], p->shifts[factor]);
    return (int16_t)hil_clamp(scaled, p->out_min, p->out_max);
}

HIL_INLINE void hil_generic_transpose_conv2d_s16(const struct hil_generic_transpose_conv2d_s16 *p,
                                                 const int16_t *in, int16_t *out) {
    HIL_TRANSPOSED_WALK(p, in, out, int64_t, 0, hil_transpose_conv2d_s16_add,
                        hil_transpose_conv2d_s16_finish);
}

/* Sums of 64 bits of products with weights of 16 bits, rounded once, ties to even. */
/*@kernel
name = "hil_generic_transpose_conv2d_s16_even"
requires = []
inputs = ["int16_t"]
outputs = ["int16_t"]
scratch = "0"
order = "walk"
reads = "transposed"
code = 560
[cost]
window = "batch * out_h * out_w"
output = "window * out_c"
tap = "batch * in_h * in_w * filter_h * filter_w * out_c"
mac = "tap * in_c"
@*/
struct hil_generic_transpose_conv2d_s16_even {
    HIL_TRANSPOSED_FIELDS;
    int32_t in_offset; /* what is added to each input: less its zero point */
    HIL_OUTPUT_RANGE_FIELDS;
    int32_t per_channel;        /* 1: each channel has a multiplier and a shift, 0: one for all */
    const int32_t *bias;        /* of each channel the lower word, then the upper one */
    const int32_t *multipliers; /* in Q0.31 */
    const int8_t *shifts;       /* of the products, to the left; below 0 to the right */
    const int16_t *weights;     /* [out_c][filter_h][filter_w][in_c] */
};

HIL_INLINE int64_t
hil_transpose_conv2d_s16_even_add(const struct hil_generic_transpose_conv2d_s16_even *p,
                                  int64_t sum, const int16_t *in, const int16_t *weights) {
    for (int32_t i = 0; i < p->in_c; i++) {
        sum += (int64_t)(in[i] + p->in_offset) * weights[i];
    }
    return sum;
}

HIL_INLINE int16_t hil_transpose_conv2d_s16_even_finish(
    const struct hil_generic_transpose_conv2d_s16_even *p, int64_t sum, int32_t channel) {
    const int32_t factor = p->per_channel ? channel : 0;
    const int32_t value = hil_requantize_wide_even(sum + hil_matmul_s16_bias(p->bias, channel),
                                                   p->multipliers[factor], p->shifts[factor]) +
                          p->out_zero_point;
    return (int16_t)hil_clamp(value, p->out_min, p->out_max);
}

HIL_INLINE void
hil_generic_transpose_conv2d_s16_even(const struct hil_generic_transpose_conv2d_s16_even *p,
                                      const int16_t *in, int16_t *out) {
    HIL_TRANSPOSED_WALK(p, in, out, int64_t, 0, hil_transpose_conv2d_s16_even_add,
                        hil_transpose_conv2d_s16_even_finish);
}

/* Floats are added in the order in which the reference meets the pixels. */
/*@kernel
name = "hil_generic_transpose_conv2d_f32"
requires = []
inputs = ["float"]
outputs = ["float"]
scratch = "0"
order = "walk"
reads = "transposed"
code = 420
[cost]
window = "batch * out_h * out_w"
output = "window * out_c"
tap = "batch * in_h * in_w * filter_h * filter_w * out_c"
mac = "tap * in_c"
@*/
struct hil_generic_transpose_conv2d_f32 {
    HIL_TRANSPOSED_FIELDS;
    float out_min;        /* the least output */
    float out_max;        /* the largest output */
    const float *bias;    /* of each output channel */
    const float *weights; /* [out_c][filter_h][filter_w][in_c] */
};

HIL_INLINE float hil_transpose_conv2d_f32_add(const struct hil_generic_transpose_conv2d_f32 *p,
                                              float sum, const float *in, const float *weights) {
    for (int32_t i = 0; i < p->in_c; i++) {
        sum += in[i] * weights[i];
    }
    return sum;
}

HIL_INLINE float hil_transpose_conv2d_f32_finish(const struct hil_generic_transpose_conv2d_f32 *p,
                                                 float sum, int32_t channel) {
    return hil_clamp_f32(sum + p->bias[channel], p->out_min, p->out_max);
}

HIL_INLINE void hil_generic_transpose_conv2d_f32(const struct hil_generic_transpose_conv2d_f32 *p,
                                                 const float *in, float *out) {
    HIL_TRANSPOSED_WALK(p, in, out, float, 0.0F, hil_transpose_conv2d_f32_add,
                        hil_transpose_conv2d_f32_finish);
}

#endif
