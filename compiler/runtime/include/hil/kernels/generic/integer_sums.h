/* Exact int32 sums of int8 times constant weights, less a zero point that is known when the model
 * runs: sum(w * x) - zero point * sum(w). Matrices are images of one row, whose windows are pixels.
 */
#ifndef HIL_KERNELS_GENERIC_INTEGER_SUMS_H
#define HIL_KERNELS_GENERIC_INTEGER_SUMS_H

#include "hil/kernels/generic/fields.h"
#include "hil/kernels/generic/patch.h"
#include "hil/quant.h"

#define HIL_INTEGER_SUMS_FIELDS                                                                    \
    HIL_IMAGES_FIELDS;                                                                             \
    int32_t out_c;    /* output channels */                                                        \
    int32_t gathered; /* 1: windows are copied to scratch; 0: they are the image's pixels */       \
    int32_t shared    /* 1: all images have one zero point; 0: each has its own */

/* Adds to the sums of four columns. */
#define HIL_INTEGER_SUMS_STEP(sums, x, w)                                                          \
    do {                                                                                           \
        const int32_t factor = (x);                                                                \
        (sums)[0] += factor * (w)[0];                                                              \
        (sums)[1] += factor * (w)[1];                                                              \
        (sums)[2] += factor * (w)[2];                                                              \
        (sums)[3] += factor * (w)[3];                                                              \
    } while (0)

/* Two rows, one behind the other, times all columns; with `both` 0 only the first one. Weights are
 * interleaved as columns_s8.h says. */
HIL_INLINE void hil_integer_sums_rows(const int8_t *weights, const int32_t *totals, int32_t columns,
                                      int32_t depth, int32_t both, const int8_t *rows,
                                      int32_t zero_point, int32_t *out) {
    const int8_t *w = weights;
    const int32_t blocked = columns - columns % 4;
    for (int32_t column = 0; column < blocked; column += 4) {
        int32_t a[4] = {0, 0, 0, 0};
        int32_t b[4] = {0, 0, 0, 0};
        const int8_t *const second = both ? rows + depth : rows;
        for (int32_t k = 0; k < depth; k++) {
            HIL_INTEGER_SUMS_STEP(a, rows[k], w);
            if (both) {
                HIL_INTEGER_SUMS_STEP(b, second[k], w);
            }
            w += 4;
        }
        for (int32_t i = 0; i < 4; i++) {
            const int32_t offset = zero_point * totals[column + i];
            out[column + i] = a[i] - offset;
            if (both) {
                out[columns + column + i] = b[i] - offset;
            }
        }
    }
    for (int32_t column = blocked; column < columns; column++) {
        int32_t a = 0;
        int32_t b = 0;
        for (int32_t k = 0; k < depth; k++) {
            const int32_t w0 = *w++;
            a += rows[k] * w0;
            b += both ? rows[depth + k] * w0 : 0;
        }
        const int32_t offset = zero_point * totals[column];
        out[column] = a - offset;
        if (both) {
            out[columns + column] = b - offset;
        }
    }
}

/* For each window, `body` with its pixels, `row`, and its outputs, `out`. Pixels outside the image
 * have the zero point, so that they add nothing. */
#define HIL_INTEGER_SUMS_WALK(p, in, zero_points, out, scratch, body)                              \
    for (int32_t image = 0; image < (p)->batch; image++) {                                         \
        const int32_t zero_point = (zero_points)[(p)->shared ? 0 : image];                         \
        const struct hil_patch window = HIL_PATCH_OF(p, 1, zero_point);                            \
        for (int32_t out_y = 0; out_y < (p)->out_h; out_y++) {                                     \
            for (int32_t out_x = 0; out_x < (p)->out_w; out_x++) {                                 \
                const int8_t *row = (in) + (out_y * (p)->in_w + out_x) * (p)->in_c;                \
                if ((p)->gathered) {                                                               \
                    row = (const int8_t *)(scratch);                                               \
                    hil_gather_patch(&window, in, out_y *(p)->stride_h - (p)->pad_top,             \
                                     out_x * (p)->stride_w - (p)->pad_left, scratch);              \
                }                                                                                  \
                body;                                                                              \
                (out) += (p)->out_c;                                                               \
            }                                                                                      \
        }                                                                                          \
        (in) += (p)->in_h * (p)->in_w * (p)->in_c;                                                 \
    }

/*@kernel
name = "hil_generic_integer_sums_s8"
requires = []
inputs = ["int8_t", "int32_t"]
outputs = ["int32_t"]
scratch = "gathered * 2 * filter_h * filter_w * in_c"
order = "none"
code = 900
[cost]
copied = "gathered * batch * out_h * out_w * filter_h * filter_w * in_c"
pair = "batch * ((out_h * out_w + 1) // 2)"
pair_column = "pair * out_c"
block_tap = "batch * (out_h * out_w // 2) * (out_c // 4) * filter_h * filter_w * in_c"
column_tap = "batch * (out_h * out_w // 2) * (out_c % 4) * filter_h * filter_w * in_c"
last_mac = "batch * (out_h * out_w % 2) * out_c * filter_h * filter_w * in_c"
@*/
struct hil_generic_integer_sums_s8 {
    HIL_INTEGER_SUMS_FIELDS;
    HIL_WINDOW_FIELDS;
    const int8_t *weights; /* a column is an output channel, interleaved as columns_s8.h says */
    const int32_t *totals; /* the sum of the weights of each output channel */
};

HIL_INLINE void hil_generic_integer_sums_s8(const struct hil_generic_integer_sums_s8 *p,
                                            const int8_t *in, const int32_t *zero_points,
                                            int32_t *out, void *scratch) {
    const int32_t depth = p->filter_h * p->filter_w * p->in_c;
    int8_t *const rows = (int8_t *)scratch;
    for (int32_t image = 0; image < p->batch; image++) {
        const int32_t zero_point = zero_points[p->shared ? 0 : image];
        const struct hil_patch window = HIL_PATCH_OF(p, 1, zero_point);
        const int8_t *pixels = in;
        int32_t x = 0;
        int32_t y = 0;
        for (int32_t left = p->out_h * p->out_w; left > 0; left -= 2) {
            const int32_t count = left > 1 ? 2 : 1;
            for (int32_t i = 0; i < count && p->gathered; i++) {
                hil_gather_patch(&window, in, y * p->stride_h - p->pad_top,
                                 x * p->stride_w - p->pad_left, rows + i * depth);
                x = x + 1 < p->out_w ? x + 1 : 0;
                y += x == 0 ? 1 : 0;
            }
            hil_integer_sums_rows(p->weights, p->totals, p->out_c, depth, count - 1,
                                  p->gathered ? rows : pixels, zero_point, out);
            pixels += count * depth;
            out += count * p->out_c;
        }
        in += p->in_h * p->in_w * p->in_c;
    }
}

/* An output channel of a window: `depth` channels of each of `taps` pixels, `step` apart. */
#define HIL_INTEGER_SUMS_GROUP(sum, row, weights, taps, depth, step)                               \
    for (int32_t tap = 0; tap < (taps); tap++) {                                                   \
        for (int32_t i = 0; i < (depth); i++) {                                                    \
            (sum) += (row)[tap * (step) + i] * *(weights)++;                                       \
        }                                                                                          \
    }

/* All output channels of a window whose channels are in groups. */
#define HIL_INTEGER_SUMS_GROUPS(p, row, zero_point, out)                                           \
    for (int32_t channel = 0; channel < (p)->out_c; channel++) {                                   \
        const int32_t group = channel / ((p)->out_c / (p)->groups);                                \
        const int32_t depth = (p)->in_c / (p)->groups;                                             \
        int32_t sum = -(zero_point) * (p)->totals[channel];                                        \
        HIL_INTEGER_SUMS_GROUP(sum, (row) + group * depth, weights, (p)->filter_h * (p)->filter_w, \
                               depth, (p)->in_c);                                                  \
        (out)[channel] = sum;                                                                      \
    }

/*@kernel
name = "hil_generic_integer_sums_s8_groups"
requires = []
inputs = ["int8_t", "int32_t"]
outputs = ["int32_t"]
scratch = "gathered * filter_h * filter_w * in_c"
order = "none"
code = 420
[cost]
copied = "gathered * batch * out_h * out_w * filter_h * filter_w * in_c"
output = "batch * out_h * out_w * out_c"
tap = "output * filter_h * filter_w"
mac = "tap * in_c / groups"
@*/
struct hil_generic_integer_sums_s8_groups {
    HIL_INTEGER_SUMS_FIELDS;
    HIL_WINDOW_FIELDS;
    int32_t groups;        /* of channels */
    const int8_t *weights; /* [out_c][filter_h][filter_w][in_c / groups] */
    const int32_t *totals; /* the sum of the weights of each output channel */
};

HIL_INLINE void
hil_generic_integer_sums_s8_groups(const struct hil_generic_integer_sums_s8_groups *p,
                                   const int8_t *in, const int32_t *zero_points, int32_t *out,
                                   void *scratch) {
    HIL_INTEGER_SUMS_WALK(p, in, zero_points, out, scratch, {
        const int8_t *weights = p->weights;
        HIL_INTEGER_SUMS_GROUPS(p, row, zero_point, out);
    });
}

/*@kernel
name = "hil_generic_integer_sums_s8_s16"
requires = []
inputs = ["int8_t", "int32_t"]
outputs = ["int32_t"]
scratch = "gathered * filter_h * filter_w * in_c"
order = "none"
code = 420
[cost]
copied = "gathered * batch * out_h * out_w * filter_h * filter_w * in_c"
output = "batch * out_h * out_w * out_c"
tap = "output * filter_h * filter_w"
mac = "tap * in_c / groups"
@*/
struct hil_generic_integer_sums_s8_s16 {
    HIL_INTEGER_SUMS_FIELDS;
    HIL_WINDOW_FIELDS;
    int32_t groups;         /* of channels */
    const int16_t *weights; /* [out_c][filter_h][filter_w][in_c / groups] */
    const int32_t *totals;  /* the sum of the weights of each output channel */
};

HIL_INLINE void hil_generic_integer_sums_s8_s16(const struct hil_generic_integer_sums_s8_s16 *p,
                                                const int8_t *in, const int32_t *zero_points,
                                                int32_t *out, void *scratch) {
    HIL_INTEGER_SUMS_WALK(p, in, zero_points, out, scratch, {
        const int16_t *weights = p->weights;
        HIL_INTEGER_SUMS_GROUPS(p, row, zero_point, out);
    });
}

#endif
