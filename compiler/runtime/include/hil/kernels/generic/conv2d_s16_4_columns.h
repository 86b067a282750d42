/* Linear layers of int16 activations, for cores that multiply words alone. */
#ifndef HIL_KERNELS_GENERIC_CONV2D_S16_4_COLUMNS_H
#define HIL_KERNELS_GENERIC_CONV2D_S16_4_COLUMNS_H

#include "hil/kernels/generic/fields.h"
#include "hil/kernels/generic/four_columns.h"
#include "hil/kernels/generic/matmul_s16.h"
#include "hil/kernels/generic/patch.h"

/* Fields of the kernels' structs that describe the columns. */
#define HIL_FOUR_COLUMNS_FIELDS                                                                    \
    int32_t columns;        /* of the weights */                                                   \
    int32_t out_min;        /* the least output */                                                 \
    int32_t out_max;        /* the largest output */                                               \
    const uint8_t *weights; /* in fours of columns, as fours.h draws them */                       \
    const int32_t *bias;    /* of each column, in whole fours; of long sums the lower word, */     \
                            /* then the upper one */                                               \
    int32_t in_zero_point;  /* of positions outside the image */                                   \
    int32_t shifted;        /* 1: `words` make outputs, 0: `scales` do */                          \
    int32_t long_sums;      /* 1: sums have 64 bits, 0: 32 */                                      \
    const int16_t                                                                                  \
        *scales;         /* of each column the multiplier and the shift to the right, 16 to 46; */ \
                         /* of long sums 8 to 46 */                                                \
    const int32_t *words /* of each column the multiplier, the addend and the shift behind it */

struct hil_four_columns {
    HIL_FOUR_COLUMNS_FIELDS;
};

#define HIL_FOUR_COLUMNS(p)                                                                        \
    {                                                                                              \
        .columns = (p)->columns, .out_min = (p)->out_min, .out_max = (p)->out_max,                 \
        .weights = (p)->weights, .bias = (p)->bias, .in_zero_point = (p)->in_zero_point,           \
        .shifted = (p)->shifted, .long_sums = (p)->long_sums, .scales = (p)->scales,               \
        .words = (p)->words,                                                                       \
    }

/* The output of a sum of a channel, as the fields of p say. */
#define HIL_FOUR_OUTPUT(p, sum, channel)                                                           \
    ((int16_t)hil_clamp((p)->shifted                                                               \
                            ? hil_four_shifted((int32_t)(sum), (p)->words + 3 * (channel))         \
                            : hil_four_requantize((int32_t)(sum), (p)->scales[2 * (channel)],      \
                                                  (p)->scales[2 * (channel) + 1]),                 \
                        (p)->out_min, (p)->out_max))

/* A row times all columns, with sums of 64 bits. */
HIL_INLINE void hil_four_long_row(const struct hil_four_columns *p, const int16_t *x, int32_t depth,
                                  int16_t *out) {
    const int64_t raised = hil_four_long_raised(x, depth);
    const uint8_t *weights = p->weights;
    for (int32_t column = 0; column < p->columns; column += HIL_FOURS) {
        int64_t sums[HIL_FOURS] = {0, 0, 0, 0};
        hil_four_long_sums(x, weights, depth, sums);
        weights += HIL_FOURS * depth;
        const int32_t left = p->columns - column;
        for (int32_t i = 0; i < HIL_FOURS && (p->columns % HIL_FOURS == 0 || i < left); i++) {
            const int64_t sum = sums[i] - raised + hil_matmul_s16_bias(p->bias, column + i);
            const int16_t *const scale = p->scales + 2 * (column + i);
            out[column + i] = (int16_t)hil_clamp(hil_requantize_once(sum, scale[0], scale[1]),
                                                 p->out_min, p->out_max);
        }
    }
}

/* A row times all columns. */
HIL_INLINE void hil_four_row(const struct hil_four_columns *p, const int16_t *x, int32_t depth,
                             int16_t *out) {
    if (p->long_sums) {
        hil_four_long_row(p, x, depth, out);
        return;
    }
    const uint32_t raised = hil_four_sums_s16_raised(x, depth);
    const uint8_t *weights = p->weights;
    for (int32_t column = 0; column < p->columns; column += HIL_FOURS) {
        uint32_t sums[HIL_FOURS];
        for (int32_t i = 0; i < HIL_FOURS; i++) {
            sums[i] = (uint32_t)p->bias[column + i] - raised;
        }
        hil_four_sums_s16(x, weights, depth, sums);
        weights += HIL_FOURS * depth;
        const int32_t left = p->columns - column;
        for (int32_t i = 0; i < HIL_FOURS && (p->columns % HIL_FOURS == 0 || i < left); i++) {
            out[column + i] = HIL_FOUR_OUTPUT(p, sums[i], column + i);
        }
    }
}

/*@kernel
name = "hil_generic_matmul_s16_4_columns"
requires = []
inputs = ["int16_t"]
outputs = ["int16_t"]
scratch = "0"
order = ["pixels 1", "channels 4"]
reads = "rows"
code = 500
[cost]
row = "rows"
value = "rows * depth"
four = "rows * ((columns + 3) // 4)"
four_value = "four * depth"
long_input = "value * long_sums"
long_four = "four * long_sums"
long_value = "four_value * long_sums"
@*/
struct hil_generic_matmul_s16_4_columns {
    int32_t rows;  /* of the input, and of the output */
    int32_t depth; /* elements of a row */
    HIL_FOUR_COLUMNS_FIELDS;
};

HIL_INLINE void hil_generic_matmul_s16_4_columns(const struct hil_generic_matmul_s16_4_columns *p,
                                                 const int16_t *in, int16_t *out) {
    const struct hil_four_columns columns = HIL_FOUR_COLUMNS(p);
    for (int32_t row = 0; row < p->rows; row++) {
        hil_four_row(&columns, in, p->depth, out);
        in += p->depth;
        out += p->columns;
    }
}

/*@kernel
name = "hil_generic_conv2d_s16_4_columns"
requires = []
inputs = ["int16_t"]
outputs = ["int16_t"]
scratch = "2 * filter_h * filter_w * in_c"
order = ["pixels 1"]
reads = "window"
code = 800
[cost]
window = "batch * out_h * out_w"
depth = "filter_h * filter_w * in_c"
value = "window * depth"
four = "window * ((columns + 3) // 4)"
four_value = "four * depth"
long_input = "value * long_sums"
long_four = "four * long_sums"
long_value = "four_value * long_sums"
@*/
struct hil_generic_conv2d_s16_4_columns {
    HIL_IMAGES_FIELDS;
    HIL_WINDOW_FIELDS;
    HIL_FOUR_COLUMNS_FIELDS;
};

HIL_INLINE void hil_generic_conv2d_s16_4_columns(const struct hil_generic_conv2d_s16_4_columns *p,
                                                 const int16_t *in, int16_t *out, void *scratch) {
    const struct hil_four_columns columns = HIL_FOUR_COLUMNS(p);
    const struct hil_patch window = HIL_PATCH_OF(p, (int32_t)sizeof(int16_t), p->in_zero_point);
    for (int32_t image = 0; image < p->batch; image++) {
        for (int32_t out_y = 0; out_y < p->out_h; out_y++) {
            for (int32_t out_x = 0; out_x < p->out_w; out_x++) {
                hil_gather_patch(&window, in, out_y * p->stride_h - p->pad_top,
                                 out_x * p->stride_w - p->pad_left, scratch);
                hil_four_row(&columns, (const int16_t *)scratch,
                             p->filter_h * p->filter_w * p->in_c, out);
                out += p->columns;
            }
        }
        in += p->in_h * p->in_w * p->in_c;
    }
}

/*@kernel
name = "hil_generic_depthwise_conv2d_s16_sums32"
requires = []
inputs = ["int16_t"]
outputs = ["int16_t"]
scratch = "2 * filter_h * filter_w * in_c"
order = ["pixels 1", "channels 1"]
reads = "channel window"
code = 900
[cost]
pixel = "batch * out_h * out_w"
output = "pixel * in_c * depth_multiplier"
mac = "output * filter_h * filter_w"
@*/
struct hil_generic_depthwise_conv2d_s16_sums32 {
    HIL_IMAGES_FIELDS;
    int32_t depth_multiplier; /* outputs of each input channel, next to each other */
    HIL_WINDOW_FIELDS;
    int32_t out_min;       /* the least output */
    int32_t out_max;       /* the largest output */
    const int8_t *weights; /* [in_c * depth_multiplier][filter_h][filter_w] */
    const int32_t *bias;   /* of each output channel */
    int32_t in_zero_point; /* of positions outside the image */
    int32_t shifted;       /* 1: `words` make outputs, 0: `scales` do */
    const int16_t *scales; /* of each channel the multiplier and the shift to the right, 16 to 46 */
    const int32_t *words;  /* of each channel the multiplier, the addend and the shift behind it */
};

/* All channels of an output pixel; the taps lie row_step and column_step elements apart. */
HIL_INLINE void hil_four_depthwise_pixel(const struct hil_generic_depthwise_conv2d_s16_sums32 *p,
                                         const int16_t *in, int32_t row_step, int32_t column_step,
                                         int16_t *out) {
    const int8_t *weights = p->weights;
    int32_t channel = 0;
    for (int32_t in_channel = 0; in_channel < p->in_c; in_channel++) {
        for (int32_t filters = p->depth_multiplier; filters > 0; filters--) {
            uint32_t sum = (uint32_t)p->bias[channel];
            const int16_t *row = in + in_channel;
#pragma GCC unroll 3
            for (int32_t y = 0; y < p->filter_h; y++) {
#pragma GCC unroll 3
                for (int32_t x = 0; x < p->filter_w; x++) {
                    sum += (uint32_t)(row[x * column_step] * weights[x]);
                }
                row += row_step;
                weights += p->filter_w;
            }
            out[channel] = HIL_FOUR_OUTPUT(p, sum, channel);
            channel++;
        }
    }
}

HIL_INLINE void
hil_generic_depthwise_conv2d_s16_sums32(const struct hil_generic_depthwise_conv2d_s16_sums32 *p,
                                        const int16_t *in, int16_t *out, void *scratch) {
    const struct hil_patch window = HIL_PATCH_OF(p, (int32_t)sizeof(int16_t), p->in_zero_point);
    /* Windows that start within these are inside the image. */
    const int32_t last_y = p->in_h - ((p->filter_h - 1) * p->dilation_h + 1);
    const int32_t last_x = p->in_w - ((p->filter_w - 1) * p->dilation_w + 1);
    for (int32_t image = 0; image < p->batch; image++) {
        for (int32_t out_y = 0; out_y < p->out_h; out_y++) {
            const int32_t y = out_y * p->stride_h - p->pad_top;
            for (int32_t out_x = 0; out_x < p->out_w; out_x++) {
                const int32_t x = out_x * p->stride_w - p->pad_left;
                if (y >= 0 && y <= last_y && x >= 0 && x <= last_x) {
                    hil_four_depthwise_pixel(p, in + (y * p->in_w + x) * p->in_c,
                                             p->dilation_h * p->in_w * p->in_c,
                                             p->dilation_w * p->in_c, out);
                } else {
                    hil_gather_patch(&window, in, y, x, scratch);
                    hil_four_depthwise_pixel(p, (const int16_t *)scratch, p->filter_w * p->in_c,
                                             p->in_c, out);
                }
                out += p->in_c * p->depth_multiplier;
            }
        }
        in += p->in_h * p->in_w * p->in_c;
    }
}

#endif
