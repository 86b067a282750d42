/* Averages over the whole height of an image that comes a few rows at a time: each call adds its
 * rows to sums in the scratch, which has to stay as it is between the calls; the last one divides.
 */
#ifndef HIL_KERNELS_GENERIC_ADD_ROWS_H
#define HIL_KERNELS_GENERIC_ADD_ROWS_H

#include <stdint.h>

#include "hil/kernels/generic/clamp_f32.h"
#include "hil/kernels/generic/pool.h"
#include "hil/quant.h"

/* Adds `rows` rows of `count` pixels, rows `line` elements apart, to sums[channels], which start at
 * 0 if `first`. Four channels at a time stay in registers; those of a float are added up pixel by
 * pixel, in the order in which the pixels lie. */
#define HIL_ADD_ROWS(element, accumulator, zero, first, rows, count, line, channels, in, sums)     \
    do {                                                                                           \
        const int32_t whole = (channels) & ~3;                                                     \
        for (int32_t c = 0; c < whole; c += 4) {                                                   \
            accumulator t0 = (first) ? (zero) : (sums)[c];                                         \
            accumulator t1 = (first) ? (zero) : (sums)[c + 1];                                     \
            accumulator t2 = (first) ? (zero) : (sums)[c + 2];                                     \
            accumulator t3 = (first) ? (zero) : (sums)[c + 3];                                     \
            for (int32_t y = 0; y < (rows); y++) {                                                 \
                const element *pixel = (in) + y * (line) + c;                                      \
                for (int32_t x = (count); x > 0; x--) {                                            \
                    t0 += pixel[0];                                                                \
                    t1 += pixel[1];                                                                \
                    t2 += pixel[2];                                                                \
                    t3 += pixel[3];                                                                \
                    pixel += (channels);                                                           \
                }                                                                                  \
            }                                                                                      \
            (sums)[c] = t0;                                                                        \
            (sums)[c + 1] = t1;                                                                    \
            (sums)[c + 2] = t2;                                                                    \
            (sums)[c + 3] = t3;                                                                    \
        }                                                                                          \
        for (int32_t c = whole; c < (channels); c++) {                                             \
            accumulator total = (first) ? (zero) : (sums)[c];                                      \
            for (int32_t y = 0; y < (rows); y++) {                                                 \
                const element *pixel = (in) + y * (line) + c;                                      \
                for (int32_t x = (count); x > 0; x--) {                                            \
                    total += *pixel;                                                               \
                    pixel += (channels);                                                           \
                }                                                                                  \
            }                                                                                      \
            (sums)[c] = total;                                                                     \
        }                                                                                          \
    } while (0)

/* Windows that lie next to each other along the width, each as high as the image. */
#define HIL_AVERAGE_ROWS_FIELDS                                                                    \
    int32_t rows;     /* of this call */                                                           \
    int32_t first;    /* 1: the image begins with them */                                          \
    int32_t last;     /* 1: it ends with them */                                                   \
    int32_t height;   /* of the whole image */                                                     \
    int32_t in_w;     /* columns of an input image */                                              \
    int32_t channels; /* of each pixel */                                                          \
    int32_t out_w;    /* columns of an output image */                                             \
    int32_t filter_w; /* columns of the filter */                                                  \
    int32_t stride_w; /* input columns from a window to the next */                                \
    int32_t pad_left  /* columns by which the first window reaches beyond the image */

#define HIL_AVERAGE_ROWS(p, element, accumulator, zero, in, out, sums, finish)                     \
    do {                                                                                           \
        for (int32_t out_x = 0; out_x < (p)->out_w; out_x++) {                                     \
            const struct hil_pool_range cover =                                                    \
                hil_pool_cover(out_x * (p)->stride_w - (p)->pad_left, (p)->filter_w, (p)->in_w);   \
            HIL_ADD_ROWS(element, accumulator, zero, (p)->first, (p)->rows, cover.count,           \
                         (p)->in_w *(p)->channels, (p)->channels,                                  \
                         (in) + cover.begin * (p)->channels, sums);                                \
            if ((p)->last) {                                                                       \
                for (int32_t c = 0; c < (p)->channels; c++) {                                      \
                    (out)[c] = finish((p), (sums)[c], (p)->height * cover.count);                  \
                }                                                                                  \
            }                                                                                      \
            (sums) += (p)->channels;                                                               \
            (out) += (p)->channels;                                                                \
        }                                                                                          \
    } while (0)

/*@kernel
name = "hil_generic_average_rows_s8"
requires = []
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "4 * out_w * channels"
order = "none"
code = 230
band_code = 230
[cost]
pixel = "out_w"
sum = "pixel * channels"
tap = "sum * filter_w * rows"
output = "sum * last"
@*/
struct hil_generic_average_rows_s8 {
    HIL_AVERAGE_ROWS_FIELDS;
    int32_t low;  /* the least output */
    int32_t high; /* the largest output */
};

HIL_INLINE int8_t hil_average_rows_s8_finish(const struct hil_generic_average_rows_s8 *p,
                                             int32_t total, int32_t covered) {
    const int32_t half = total > 0 ? covered / 2 : -(covered / 2);
    return hil_clamp_s8((total + half) / covered, p->low, p->high);
}

HIL_INLINE void hil_generic_average_rows_s8(const struct hil_generic_average_rows_s8 *p,
                                            const int8_t *in, int8_t *out, void *scratch) {
    int32_t *sums = (int32_t *)scratch;
    HIL_AVERAGE_ROWS(p, int8_t, int32_t, 0, in, out, sums, hil_average_rows_s8_finish);
}

/*@kernel
name = "hil_generic_average_rows_s16"
requires = []
inputs = ["int16_t"]
outputs = ["int16_t"]
scratch = "4 * out_w * channels"
order = "none"
code = 180
[cost]
pixel = "out_w"
sum = "pixel * channels"
tap = "sum * filter_w * rows"
output = "sum * last"
@*/
struct hil_generic_average_rows_s16 {
    HIL_AVERAGE_ROWS_FIELDS;
    int32_t low;  /* the least output */
    int32_t high; /* the largest output */
};

HIL_INLINE int16_t hil_average_rows_s16_finish(const struct hil_generic_average_rows_s16 *p,
                                               int32_t total, int32_t covered) {
    const int32_t half = total > 0 ? covered / 2 : -(covered / 2);
    return (int16_t)hil_clamp((total + half) / covered, p->low, p->high);
}

HIL_INLINE void hil_generic_average_rows_s16(const struct hil_generic_average_rows_s16 *p,
                                             const int16_t *in, int16_t *out, void *scratch) {
    int32_t *sums = (int32_t *)scratch;
    HIL_AVERAGE_ROWS(p, int16_t, int32_t, 0, in, out, sums, hil_average_rows_s16_finish);
}

/*@kernel
name = "hil_generic_average_rows_f32"
requires = []
inputs = ["float"]
outputs = ["float"]
scratch = "4 * out_w * channels"
order = "none"
code = 236
[cost]
pixel = "out_w"
sum = "pixel * channels"
tap = "sum * filter_w * rows"
output = "sum * last"
@*/
struct hil_generic_average_rows_f32 {
    HIL_AVERAGE_ROWS_FIELDS;
    float low;  /* the least output */
    float high; /* the largest output */
};

HIL_INLINE float hil_average_rows_f32_finish(const struct hil_generic_average_rows_f32 *p,
                                             float total, int32_t covered) {
    return hil_clamp_f32(total / (float)covered, p->low, p->high);
}

HIL_INLINE void hil_generic_average_rows_f32(const struct hil_generic_average_rows_f32 *p,
                                             const float *in, float *out, void *scratch) {
    float *sums = (float *)scratch;
    HIL_AVERAGE_ROWS(p, float, float, 0.0f, in, out, sums, hil_average_rows_f32_finish);
}

/* The mean of all pixels. */
#define HIL_MEAN_ROWS_FIELDS                                                                       \
    int32_t first;   /* 1: the image begins with these rows */                                     \
    int32_t last;    /* 1: it ends with them */                                                    \
    int32_t pixels;  /* of this call */                                                            \
    int32_t channels /* of each pixel */

/*@kernel
name = "hil_generic_mean_rows_s8"
requires = []
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "4 * channels"
order = "none"
code = 160
[cost]
channel = "channels"
element = "channels * pixels"
output = "channels * last"
@*/
struct hil_generic_mean_rows_s8 {
    HIL_MEAN_ROWS_FIELDS;
    int32_t offset;         /* minus the zero point of all values of one output */
    int32_t multiplier;     /* of the sum, in Q0.31 */
    int32_t shift;          /* of the product, to the left; below 0 to the right */
    int32_t out_zero_point; /* the output that stands for 0.0 */
};

HIL_INLINE void hil_generic_mean_rows_s8(const struct hil_generic_mean_rows_s8 *p, const int8_t *in,
                                         int8_t *out, void *scratch) {
    int32_t *const sums = (int32_t *)scratch;
    HIL_ADD_ROWS(int8_t, int32_t, p->offset, p->first, 1, p->pixels, 0, p->channels, in, sums);
    if (p->last) {
        for (int32_t c = 0; c < p->channels; c++) {
            const int32_t mean = hil_requantize(sums[c], p->multiplier, p->shift);
            out[c] = hil_clamp_s8(mean + p->out_zero_point, INT8_MIN, INT8_MAX);
        }
    }
}

/*@kernel
name = "hil_generic_mean_rows_s16"
requires = []
inputs = ["int16_t"]
outputs = ["int16_t"]
scratch = "4 * channels"
order = "none"
code = 176
[cost]
channel = "channels"
element = "channels * pixels"
output = "channels * last"
@*/
struct hil_generic_mean_rows_s16 {
    HIL_MEAN_ROWS_FIELDS;
    int32_t multiplier; /* of what the scales say, in Q0.31 */
    int32_t shift;      /* of the product, to the left; below 0 to the right */
};

HIL_INLINE void hil_generic_mean_rows_s16(const struct hil_generic_mean_rows_s16 *p,
                                          const int16_t *in, int16_t *out, void *scratch) {
    int32_t *const sums = (int32_t *)scratch;
    HIL_ADD_ROWS(int16_t, int32_t, 0, p->first, 1, p->pixels, 0, p->channels, in, sums);
    if (p->last) {
        for (int32_t c = 0; c < p->channels; c++) {
            const int32_t mean = hil_requantize(sums[c], p->multiplier, p->shift);
            out[c] = (int16_t)hil_clamp(mean, INT16_MIN, INT16_MAX);
        }
    }
}

/*@kernel
name = "hil_generic_mean_rows_f32"
requires = []
inputs = ["float"]
outputs = ["float"]
scratch = "4 * channels"
order = "none"
code = 164
[cost]
channel = "channels"
element = "channels * pixels"
output = "channels * last"
@*/
struct hil_generic_mean_rows_f32 {
    HIL_MEAN_ROWS_FIELDS;
    float count; /* values averaged into one output */
};

HIL_INLINE void hil_generic_mean_rows_f32(const struct hil_generic_mean_rows_f32 *p,
                                          const float *in, float *out, void *scratch) {
    float *const sums = (float *)scratch;
    HIL_ADD_ROWS(float, float, 0.0f, p->first, 1, p->pixels, 0, p->channels, in, sums);
    if (p->last) {
        for (int32_t c = 0; c < p->channels; c++) {
            out[c] = sums[c] / p->count;
        }
    }
}

#endif
