/* Convolutions of int16 images with int8 or int16 weights; their channels may be in groups. Zero
 * points of inputs are part of the biases. */
#ifndef HIL_KERNELS_GENERIC_CONV2D_S16_H
#define HIL_KERNELS_GENERIC_CONV2D_S16_H

#include "hil/kernels/generic/groups.h"
#include "hil/kernels/generic/matmul_s16.h"

#define HIL_WIDE_CONV2D_FIELDS                                                                     \
    HIL_IMAGES_FIELDS;                                                                             \
    int32_t out_c;  /* channels of the output */                                                   \
    int32_t groups; /* of channels; 1: each output sums over all of the input */                   \
    HIL_WINDOW_FIELDS;                                                                             \
    int32_t out_min;      /* the least output */                                                   \
    int32_t out_max;      /* the largest output */                                                 \
    int32_t per_channel;  /* 1: each channel has a multiplier and a shift, 0: one for all */       \
    const int8_t *weights /* [out_c][filter_h][filter_w][in_c / groups] */

/* Sums of 64 bits, with a multiplier of 15 bits, rounded once. */
/*@kernel
name = "hil_generic_conv2d_s16"
requires = []
inputs = ["int16_t"]
outputs = ["int16_t"]
scratch = "2 * filter_h * filter_w * in_c"
order = ["pixels 1"]
reads = "window"
code = 562
[cost]
window = "batch * out_h * out_w"
copied = "window * filter_h * filter_w * in_c"
output = "window * out_c"
mac = "output * filter_h * filter_w * in_c / groups"
@*/
struct hil_generic_conv2d_s16 {
    HIL_WIDE_CONV2D_FIELDS;
    const int32_t *bias;        /* of each channel the lower word, then the upper one */
    const int16_t *multipliers; /* of each output channel, or one for all */
    const int8_t *shifts;       /* to the right, 8 to 46 */
};

HIL_INLINE int16_t hil_conv2d_s16_finish(const struct hil_generic_conv2d_s16 *p, const int16_t *row,
                                         const int8_t *weights, int32_t depth, int32_t channel) {
    const int64_t sum =
        hil_matmul_s16_bias(p->bias, channel) + hil_matmul_s16_sum(row, weights, depth);
    const int32_t factor = p->per_channel ? channel : 0;
    const int32_t scaled = hil_requantize_once(sum, p->multipliers[factor], p->shifts[factor]);
    return (int16_t)hil_clamp(scaled, p->out_min, p->out_max);
}

HIL_INLINE void hil_generic_conv2d_s16(const struct hil_generic_conv2d_s16 *p, const int16_t *in,
                                       int16_t *out, void *scratch) {
    HIL_GROUPS_WALK(p, in, out, scratch, int16_t, int8_t, 0, hil_conv2d_s16_finish);
}

/* Sums of 32 bits. */
/*@kernel
name = "hil_generic_conv2d_s16_sums32"
requires = []
inputs = ["int16_t"]
outputs = ["int16_t"]
scratch = "2 * filter_h * filter_w * in_c"
order = ["pixels 1"]
reads = "window"
code = 464
[cost]
window = "batch * out_h * out_w"
copied = "window * filter_h * filter_w * in_c"
output = "window * out_c"
mac = "output * filter_h * filter_w * in_c / groups"
@*/
struct hil_generic_conv2d_s16_sums32 {
    HIL_WIDE_CONV2D_FIELDS;
    int32_t in_zero_point;      /* of positions outside the image */
    int32_t out_zero_point;     /* the output that stands for 0.0 */
    int32_t rounding;           /* of sums: HIL_ROUND_TWICE and others (quant.h) */
    const int32_t *bias;        /* of each output channel */
    const int32_t *multipliers; /* of each output channel, or one for all */
    const int8_t *shifts;       /* to the left; negative ones are to the right */
};

HIL_INLINE int16_t hil_conv2d_s16_sums32_finish(const struct hil_generic_conv2d_s16_sums32 *p,
                                                const int16_t *row, const int8_t *weights,
                                                int32_t depth, int32_t channel) {
    const int32_t sum = p->bias[channel] + hil_matmul_s16_run(row, weights, depth);
    const int32_t factor = p->per_channel ? channel : 0;
    const int32_t value = hil_requantize_by(p->rounding, sum, p->multipliers[factor],
                                            p->shifts[factor], p->out_zero_point);
    return (int16_t)hil_clamp(value, p->out_min, p->out_max);
}

HIL_INLINE void hil_generic_conv2d_s16_sums32(const struct hil_generic_conv2d_s16_sums32 *p,
                                              const int16_t *in, int16_t *out, void *scratch) {
    HIL_GROUPS_WALK(p, in, out, scratch, int16_t, int8_t, p->in_zero_point,
                    hil_conv2d_s16_sums32_finish);
}

/* Sums of 64 bits of products with weights of 16 bits, rounded once, ties to even. */
/*@kernel
name = "hil_generic_conv2d_s16_even"
requires = []
inputs = ["int16_t"]
outputs = ["int16_t"]
scratch = "2 * filter_h * filter_w * in_c"
order = ["pixels 1"]
reads = "window"
code = 600
[cost]
window = "batch * out_h * out_w"
copied = "window * filter_h * filter_w * in_c"
output = "window * out_c"
mac = "output * filter_h * filter_w * in_c / groups"
@*/
struct hil_generic_conv2d_s16_even {
    HIL_IMAGES_FIELDS;
    int32_t out_c;  /* channels of the output */
    int32_t groups; /* of channels; 1: each output sums over all of the input */
    HIL_WINDOW_FIELDS;
    int32_t in_zero_point; /* of positions outside the image */
    HIL_OUTPUT_RANGE_FIELDS;
    int32_t per_channel;        /* 1: each channel has a multiplier and a shift, 0: one for all */
    const int16_t *weights;     /* [out_c][filter_h][filter_w][in_c / groups] */
    const int32_t *bias;        /* of each channel the lower word, then the upper one */
    const int32_t *multipliers; /* in Q0.31 */
    const int8_t *shifts;       /* of the products, to the left; below 0 to the right */
};

HIL_INLINE int16_t hil_conv2d_s16_even_finish(const struct hil_generic_conv2d_s16_even *p,
                                              const int16_t *row, const int16_t *weights,
                                              int32_t depth, int32_t channel) {
    const int64_t sum =
        hil_matmul_s16_bias(p->bias, channel) + hil_matmul_s16_long(row, weights, depth);
    const int32_t factor = p->per_channel ? channel : 0;
    const int32_t value = hil_requantize_wide_even(sum, p->multipliers[factor], p->shifts[factor]) +
                          p->out_zero_point;
    return (int16_t)hil_clamp(value, p->out_min, p->out_max);
}

HIL_INLINE void hil_generic_conv2d_s16_even(const struct hil_generic_conv2d_s16_even *p,
                                            const int16_t *in, int16_t *out, void *scratch) {
    HIL_GROUPS_WALK(p, in, out, scratch, int16_t, int16_t, p->in_zero_point,
                    hil_conv2d_s16_even_finish);
}

#endif
