/* Convolutions of int8 and float images whose channels are in groups. */
#ifndef HIL_KERNELS_GENERIC_CONV2D_GROUPS_H
#define HIL_KERNELS_GENERIC_CONV2D_GROUPS_H

#include "hil/kernels/generic/clamp_f32.h"
#include "hil/kernels/generic/groups.h"

/*@kernel
name = "hil_generic_conv2d_s8_groups"
requires = []
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "filter_h * filter_w * in_c"
order = ["pixels 1"]
reads = "window"
code = 446
[cost]
window = "batch * out_h * out_w"
copied = "window * filter_h * filter_w * in_c"
output = "window * out_c"
mac = "output * filter_h * filter_w * in_c / groups"
@*/
struct hil_generic_conv2d_s8_groups {
    HIL_IMAGES_FIELDS;
    int32_t out_c;  /* channels of the output */
    int32_t groups; /* of channels; 1: each output sums over all of the input */
    HIL_WINDOW_FIELDS;
    int32_t in_zero_point; /* the input that stands for 0.0 */
    HIL_REQUANTIZATION_FIELDS;
    const int8_t *weights; /* [out_c][filter_h][filter_w][in_c / groups] */
};

HIL_INLINE int8_t hil_conv2d_groups_s8_finish(const struct hil_generic_conv2d_s8_groups *p,
                                              const int8_t *row, const int8_t *weights,
                                              int32_t depth, int32_t channel) {
    int32_t sum = p->bias[channel];
    for (int32_t i = 0; i < depth; i++) {
        sum += row[i] * weights[i];
    }
    const int32_t factor = p->per_channel ? channel : 0;
    const int32_t value = hil_requantize_by(p->narrow, sum, p->multipliers[factor],
                                            p->shifts[factor], p->out_zero_point);
    return (int8_t)hil_clamp(value, p->out_min, p->out_max);
}

HIL_INLINE void hil_generic_conv2d_s8_groups(const struct hil_generic_conv2d_s8_groups *p,
                                             const int8_t *in, int8_t *out, void *scratch) {
    HIL_GROUPS_WALK(p, in, out, scratch, int8_t, int8_t, p->in_zero_point,
                    hil_conv2d_groups_s8_finish);
}

/*@kernel
name = "hil_generic_conv2d_f32_groups"
requires = []
inputs = ["float"]
outputs = ["float"]
scratch = "4 * filter_h * filter_w * in_c"
order = ["pixels 1"]
reads = "window"
code = 448
[cost]
window = "batch * out_h * out_w"
output = "window * out_c"
mac = "output * filter_h * filter_w * in_c / groups"
@*/
struct hil_generic_conv2d_f32_groups {
    HIL_IMAGES_FIELDS;
    int32_t out_c;  /* channels of the output */
    int32_t groups; /* of channels; 1: each output sums over all of the input */
    HIL_WINDOW_FIELDS;
    float out_min;        /* the least output */
    float out_max;        /* the largest output */
    const float *weights; /* [out_c][filter_h][filter_w][in_c / groups] */
    const float *bias;    /* of each output channel */
};

HIL_INLINE float hil_conv2d_groups_f32_finish(const struct hil_generic_conv2d_f32_groups *p,
                                              const float *row, const float *weights, int32_t depth,
                                              int32_t channel) {
    float sum = 0.0F;
    for (int32_t i = 0; i < depth; i++) {
        sum += row[i] * weights[i];
    }
    return hil_clamp_f32(sum + p->bias[channel], p->out_min, p->out_max);
}

HIL_INLINE void hil_generic_conv2d_f32_groups(const struct hil_generic_conv2d_f32_groups *p,
                                              const float *in, float *out, void *scratch) {
    HIL_GROUPS_WALK(p, in, out, scratch, float, float, 0, hil_conv2d_groups_f32_finish);
}

#endif
