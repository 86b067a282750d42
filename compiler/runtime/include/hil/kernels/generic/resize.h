/* Images of another size, each pixel between four of the input. */
#ifndef HIL_KERNELS_GENERIC_RESIZE_H
#define HIL_KERNELS_GENERIC_RESIZE_H

#include <stdint.h>

#include "hil/quant.h"

#define HIL_RESIZE_FIELDS                                                                          \
    int32_t images;       /* of input and output */                                                \
    int32_t in_size;      /* elements of an input image */                                         \
    int32_t out_h;        /* rows of an output image */                                            \
    int32_t out_w;        /* columns of an output image */                                         \
    int32_t channels;     /* of each pixel */                                                      \
    const int32_t *above; /* where the row above each output row begins in an input image */       \
    const int32_t *below; /* where the row below it begins */                                      \
    const int32_t *left;  /* where the pixel to the left of each output column is in a row */      \
    const int32_t *right  /* where the pixel to the right is */

/* Writes out[] = finish(p, total) of four values, weighted by how near they are: in parts of
 * `one_down` along a column, of `one_right` along a row. */
#define HIL_RESIZE_WALK(p, in, out, sum, one_down, one_right, finish)                              \
    do {                                                                                           \
        for (int32_t image = 0; image < (p)->images; image++) {                                    \
            for (int32_t row = 0; row < (p)->out_h; row++) {                                       \
                const sum down = (p)->rows[row];                                                   \
                const sum up = (one_down)-down;                                                    \
                for (int32_t column = 0; column < (p)->out_w; column++) {                          \
                    const sum to_right = (p)->columns[column];                                     \
                    const sum to_left = (one_right)-to_right;                                      \
                    const int32_t left = (p)->left[column];                                        \
                    const int32_t right = (p)->right[column];                                      \
                    for (int32_t c = 0; c < (p)->channels; c++) {                                  \
                        sum total = (in)[(p)->above[row] + left + c] * up * to_left;               \
                        total += (in)[(p)->below[row] + left + c] * down * to_left;                \
                        total += (in)[(p)->above[row] + right + c] * up * to_right;                \
                        total += (in)[(p)->below[row] + right + c] * down * to_right;              \
                        *(out)++ = finish(p, total);                                               \
                    }                                                                              \
                }                                                                                  \
            }                                                                                      \
            (in) += (p)->in_size;                                                                  \
        }                                                                                          \
    } while (0)

/*@kernel
name = "hil_generic_resize_s8"
requires = []
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "0"
order = "none"
code = 200
[cost]
pixel = "images * out_h * out_w"
output = "pixel * channels"
@*/
struct hil_generic_resize_s8 {
    HIL_RESIZE_FIELDS;
    const int32_t *rows;    /* how far each output row is from that above it, in 1/1024 */
    const int32_t *columns; /* how far each output column is from that to the left, in 1/1024 */
};

/* Half away from zero. |total| is below 2^30: where a place is outside of the image, by half a
 * pixel at most, both pixels are the same. */
HIL_INLINE int8_t hil_resize_s8_finish(const struct hil_generic_resize_s8 *p, int32_t total) {
    (void)p;
    return (int8_t)((total + (total > 0 ? 1 << 19 : -(1 << 19))) / (1 << 20));
}

HIL_INLINE void hil_generic_resize_s8(const struct hil_generic_resize_s8 *p, const int8_t *in,
                                      int8_t *out) {
    HIL_RESIZE_WALK(p, in, out, int32_t, 1024, 1024, hil_resize_s8_finish);
}

/*@kernel
name = "hil_generic_resize_s8_even"
requires = []
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "0"
order = "none"
code = 260
[cost]
pixel = "images * out_h * out_w"
output = "pixel * channels"
@*/
struct hil_generic_resize_s8_even {
    HIL_RESIZE_FIELDS;
    const int32_t *rows;    /* how far each output row is from that above it, in row_parts */
    const int32_t *columns; /* how far each output column is from that to the left */
    int32_t row_parts;      /* parts of the way from one row to the next */
    int32_t column_parts;   /* the same of columns; row_parts * column_parts <= 2^23 */
    int32_t bias;           /* less the input's zero point, as often as there are parts */
    int32_t multiplier;     /* input scale / output scale / parts */
    int32_t shift;          /* power of two of the multiplier */
    int32_t out_zero_point; /* of the output */
};

/* |total + bias| <= 255 * 2^23, which is below 2^31. */
HIL_INLINE int8_t hil_resize_even_s8_finish(const struct hil_generic_resize_s8_even *p,
                                            int32_t total) {
    const int32_t steps = hil_requantize_even(total + p->bias, p->multiplier, p->shift);
    return hil_clamp_s8(steps + p->out_zero_point, INT8_MIN, INT8_MAX);
}

HIL_INLINE void hil_generic_resize_s8_even(const struct hil_generic_resize_s8_even *p,
                                           const int8_t *in, int8_t *out) {
    HIL_RESIZE_WALK(p, in, out, int32_t, p->row_parts, p->column_parts, hil_resize_even_s8_finish);
}

/*@kernel
name = "hil_generic_resize_s16"
requires = []
inputs = ["int16_t"]
outputs = ["int16_t"]
scratch = "0"
order = "none"
code = 300
[cost]
pixel = "images * out_h * out_w"
output = "pixel * channels"
@*/
struct hil_generic_resize_s16 {
    HIL_RESIZE_FIELDS;
    const int32_t *rows;    /* how far each output row is from that above it, in 1/1024 */
    const int32_t *columns; /* how far each output column is from that to the left, in 1/1024 */
};

HIL_INLINE int16_t hil_resize_s16_finish(const struct hil_generic_resize_s16 *p, int64_t total) {
    (void)p;
    return (int16_t)((total + (total > 0 ? 1 << 19 : -(1 << 19))) / (1 << 20));
}

HIL_INLINE void hil_generic_resize_s16(const struct hil_generic_resize_s16 *p, const int16_t *in,
                                       int16_t *out) {
    HIL_RESIZE_WALK(p, in, out, int64_t, 1024, 1024, hil_resize_s16_finish);
}

/*@kernel
name = "hil_generic_resize_f32"
requires = []
inputs = ["float"]
outputs = ["float"]
scratch = "0"
order = "none"
code = 260
[cost]
pixel = "images * out_h * out_w"
output = "pixel * channels"
@*/
struct hil_generic_resize_f32 {
    HIL_RESIZE_FIELDS;
    const float *rows;    /* how far each output row is from that above it */
    const float *columns; /* how far each output column is from that to the left */
};

HIL_INLINE float hil_resize_f32_finish(const struct hil_generic_resize_f32 *p, float total) {
    (void)p;
    return total;
}

HIL_INLINE void hil_generic_resize_f32(const struct hil_generic_resize_f32 *p, const float *in,
                                       float *out) {
    HIL_RESIZE_WALK(p, in, out, float, 1.0f, 1.0f, hil_resize_f32_finish);
}

#define HIL_RESAMPLE_FIELDS                                                                        \
    int32_t images;              /* of input and output */                                         \
    int32_t in_size;             /* elements of an input image */                                  \
    int32_t out_h;               /* rows of an output image */                                     \
    int32_t out_w;               /* columns of an output image */                                  \
    int32_t channels;            /* of each pixel */                                               \
    int32_t row_taps;            /* input rows that an output row is a sum of */                   \
    int32_t column_taps;         /* input columns that an output column is a sum of */             \
    const int32_t *row_places;   /* where each of these rows begins in an input image */           \
    const int32_t *column_places /* where each of these columns is in a row */

/* Writes out[] = finish(p, total) of the sums along a row, weighted, of rows, weighted. */
#define HIL_RESAMPLE_WALK(p, in, out, inner, outer, value, finish)                                 \
    do {                                                                                           \
        for (int32_t image = 0; image < (p)->images; image++) {                                    \
            for (int32_t row = 0; row < (p)->out_h; row++) {                                       \
                const int32_t down = row * (p)->row_taps;                                          \
                for (int32_t column = 0; column < (p)->out_w; column++) {                          \
                    const int32_t right = column * (p)->column_taps;                               \
                    for (int32_t c = 0; c < (p)->channels; c++) {                                  \
                        outer total = 0;                                                           \
                        for (int32_t i = down; i < down + (p)->row_taps; i++) {                    \
                            inner sum = 0;                                                         \
                            for (int32_t j = right; j < right + (p)->column_taps; j++) {           \
                                const int32_t place = (p)->row_places[i] + (p)->column_places[j];  \
                                sum += value(p, (in)[place + c]) * (p)->columns[j];                \
                            }                                                                      \
                            total += (outer)sum * (p)->rows[i];                                    \
                        }                                                                          \
                        *(out)++ = finish(p, total);                                               \
                    }                                                                              \
                }                                                                                  \
            }                                                                                      \
            (in) += (p)->in_size;                                                                  \
        }                                                                                          \
    } while (0)

#define HIL_RESAMPLE_STEPS(p, x) ((x) - (p)->in_zero_point)
#define HIL_RESAMPLE_AS_IT_IS(p, x) (x)

/*@kernel
name = "hil_generic_resample_s8_even"
requires = []
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "0"
order = "none"
code = 300
[cost]
output = "images * out_h * out_w * channels"
tap = "output * row_taps * column_taps"
@*/
struct hil_generic_resample_s8_even {
    HIL_RESAMPLE_FIELDS;
    const int32_t *rows;    /* weights of the rows of each output row, in 2^-16 */
    const int32_t *columns; /* weights of the columns of each output column, in 2^-16 */
    int32_t in_zero_point;  /* the input that stands for 0.0 */
    int32_t out_zero_point; /* the output that stands for 0.0 */
    int32_t multiplier;     /* input scale / output scale / 2^32 */
    int32_t shift;          /* power of two of the multiplier */
};

/* The magnitudes of the weights of a row or column add up to 2^18 at most: sums along a row are
 * below 2^26, and the total is below 2^44. */
HIL_INLINE int8_t hil_resample_even_s8_finish(const struct hil_generic_resample_s8_even *p,
                                              int64_t total) {
    const int32_t steps = hil_requantize_wide_even(total, p->multiplier, p->shift);
    return hil_clamp_s8(steps + p->out_zero_point, INT8_MIN, INT8_MAX);
}

HIL_INLINE void hil_generic_resample_s8_even(const struct hil_generic_resample_s8_even *p,
                                             const int8_t *in, int8_t *out) {
    HIL_RESAMPLE_WALK(p, in, out, int32_t, int64_t, HIL_RESAMPLE_STEPS,
                      hil_resample_even_s8_finish);
}

/*@kernel
name = "hil_generic_resample_f32"
requires = []
inputs = ["float"]
outputs = ["float"]
scratch = "0"
order = "none"
code = 260
[cost]
output = "images * out_h * out_w * channels"
tap = "output * row_taps * column_taps"
@*/
struct hil_generic_resample_f32 {
    HIL_RESAMPLE_FIELDS;
    const float *rows;    /* weights of the rows of each output row */
    const float *columns; /* weights of the columns of each output column */
};

HIL_INLINE float hil_resample_f32_finish(const struct hil_generic_resample_f32 *p, float total) {
    (void)p;
    return total;
}

HIL_INLINE void hil_generic_resample_f32(const struct hil_generic_resample_f32 *p, const float *in,
                                         float *out) {
    HIL_RESAMPLE_WALK(p, in, out, float, float, HIL_RESAMPLE_AS_IT_IS, hil_resample_f32_finish);
}

#endif
