/* Convolution of float volumes. */
#ifndef HIL_KERNELS_GENERIC_CONV3D_F32_H
#define HIL_KERNELS_GENERIC_CONV3D_F32_H

#include <stdint.h>

#include "hil/kernels/generic/clamp_f32.h"
#include "hil/quant.h"

/*@kernel
name = "hil_generic_conv3d_f32"
requires = []
inputs = ["float"]
outputs = ["float"]
scratch = "0"
order = "none"
code = 500
[cost]
output = "batch * out_d * out_h * out_w * out_c"
row = "output * filter_d * filter_h * filter_w"
mac = "row * in_c"
@*/
struct hil_generic_conv3d_f32 {
    int32_t batch;        /* volumes */
    int32_t in_d;         /* slices of a volume */
    int32_t in_h;         /* rows of a slice */
    int32_t in_w;         /* columns of a slice */
    int32_t in_c;         /* channels */
    int32_t out_d;        /* slices of the output */
    int32_t out_h;        /* rows of the output */
    int32_t out_w;        /* columns of the output */
    int32_t out_c;        /* channels of the output */
    int32_t filter_d;     /* slices of the filter */
    int32_t filter_h;     /* rows of the filter */
    int32_t filter_w;     /* columns of the filter */
    int32_t stride_d;     /* slices from one position of the filter to the next */
    int32_t stride_h;     /* rows from one position of the filter to the next */
    int32_t stride_w;     /* columns from one position of the filter to the next */
    int32_t dilation_d;   /* slices from one tap to the next */
    int32_t dilation_h;   /* rows from one tap to the next */
    int32_t dilation_w;   /* columns from one tap to the next */
    int32_t pad_front;    /* slices before the volume, which are zero */
    int32_t pad_top;      /* rows above it */
    int32_t pad_left;     /* columns left of it */
    float out_min;        /* the least output */
    float out_max;        /* the largest output */
    const float *bias;    /* of each output channel */
    const float *weights; /* of each output channel: its taps, each with the input channels */
};

/* Sum of an output channel's products, its filter at slice z, row y and column x. */
HIL_INLINE float hil_conv3d_f32_sum(const struct hil_generic_conv3d_f32 *p, const float *in,
                                    const float *weights, int32_t z, int32_t y, int32_t x) {
    float sum = 0.0f;
    for (int32_t d = 0; d < p->filter_d; d++) {
        const int32_t slice = z + d * p->dilation_d;
        for (int32_t h = 0; h < p->filter_h; h++) {
            const int32_t row = y + h * p->dilation_h;
            for (int32_t w = 0; w < p->filter_w; w++, weights += p->in_c) {
                const int32_t column = x + w * p->dilation_w;
                if (slice < 0 || slice >= p->in_d || row < 0 || row >= p->in_h || column < 0 ||
                    column >= p->in_w) {
                    continue;
                }
                const float *const pixel =
                    &in[((slice * p->in_h + row) * p->in_w + column) * p->in_c];
                for (int32_t c = 0; c < p->in_c; c++) {
                    sum += pixel[c] * weights[c];
                }
            }
        }
    }
    return sum;
}

HIL_INLINE void hil_generic_conv3d_f32(const struct hil_generic_conv3d_f32 *p, const float *in,
                                       float *out) {
    const int32_t taps = p->filter_d * p->filter_h * p->filter_w * p->in_c;
    for (int32_t batch = 0; batch < p->batch; batch++) {
        for (int32_t z = 0; z < p->out_d; z++) {
            for (int32_t y = 0; y < p->out_h; y++) {
                for (int32_t x = 0; x < p->out_w; x++) {
                    for (int32_t channel = 0; channel < p->out_c; channel++) {
                        const float sum = hil_conv3d_f32_sum(
                            p, in, &p->weights[channel * taps], z * p->stride_d - p->pad_front,
                            y * p->stride_h - p->pad_top, x * p->stride_w - p->pad_left);
                        *out++ = hil_clamp_f32(sum + p->bias[channel], p->out_min, p->out_max);
                    }
                }
            }
        }
        in += p->in_d * p->in_h * p->in_w * p->in_c;
    }
}

#endif
