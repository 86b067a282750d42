/* Average and maximum of windows over NHWC images; what lies outside an image does not count. */
#ifndef HIL_KERNELS_GENERIC_POOL_H
#define HIL_KERNELS_GENERIC_POOL_H

#include <float.h>
#include <math.h>
#include <stdint.h>

#include "hil/kernels/generic/clamp_f32.h"
#include "hil/kernels/generic/fields.h"
#include "hil/quant.h"

#define HIL_POOL_FIELDS                                                                            \
    HIL_POOL_WINDOWS_FIELDS;                                                                       \
    int32_t pad_top; /* rows by which the first window reaches above the image */                  \
    int32_t pad_left /* columns by which the first window reaches beyond the image */

/* Part of an axis that a window covers. */
struct hil_pool_range {
    int32_t begin;
    int32_t count;
};

HIL_INLINE struct hil_pool_range hil_pool_cover(int32_t start, int32_t filter, int32_t size) {
    const int32_t begin = start < 0 ? 0 : start;
    const int32_t end = start + filter < size ? start + filter : size;
    return (struct hil_pool_range){.begin = begin, .count = end - begin};
}

/* Writes out[] = finish(p, total, covered) for each window and channel, where total starts at
 * `initial` and becomes take(total, x) for each x that the window covers. Four channels at a time
 * share the walk over the window. */
#define HIL_POOL_WALK(p, in, out, element, accumulator, initial, take, finish)                     \
    do {                                                                                           \
        const int32_t line = (p)->in_w * (p)->channels;                                            \
        for (int32_t batch = 0; batch < (p)->batches; batch++) {                                   \
            for (int32_t out_y = 0; out_y < (p)->out_h; out_y++) {                                 \
                const struct hil_pool_range y = hil_pool_cover(                                    \
                    out_y * (p)->stride_h - (p)->pad_top, (p)->filter_h, (p)->in_h);               \
                for (int32_t out_x = 0; out_x < (p)->out_w; out_x++) {                             \
                    const struct hil_pool_range x = hil_pool_cover(                                \
                        out_x * (p)->stride_w - (p)->pad_left, (p)->filter_w, (p)->in_w);          \
                    const element *corner = (in) + y.begin * line + x.begin * (p)->channels;       \
                    const int32_t covered = y.count * x.count;                                     \
                    int32_t c = 0;                                                                 \
                    for (; c + 4 <= (p)->channels; c += 4) {                                       \
                        accumulator t0 = initial;                                                  \
                        accumulator t1 = initial;                                                  \
                        accumulator t2 = initial;                                                  \
                        accumulator t3 = initial;                                                  \
                        for (int32_t i = 0; i < y.count; i++) {                                    \
                            const element *pixel = corner + i * line + c;                          \
                            for (int32_t j = 0; j < x.count; j++) {                                \
                                t0 = take(t0, pixel[0]);                                           \
                                t1 = take(t1, pixel[1]);                                           \
                                t2 = take(t2, pixel[2]);                                           \
                                t3 = take(t3, pixel[3]);                                           \
                                pixel += (p)->channels;                                            \
                            }                                                                      \
                        }                                                                          \
                        *(out)++ = finish((p), t0, covered);                                       \
                        *(out)++ = finish((p), t1, covered);                                       \
                        *(out)++ = finish((p), t2, covered);                                       \
                        *(out)++ = finish((p), t3, covered);                                       \
                    }                                                                              \
                    for (; c < (p)->channels; c++) {                                               \
                        accumulator total = initial;                                               \
                        for (int32_t i = 0; i < y.count; i++) {                                    \
                            const element *pixel = corner + i * line + c;                          \
                            for (int32_t j = 0; j < x.count; j++) {                                \
                                total = take(total, *pixel);                                       \
                                pixel += (p)->channels;                                            \
                            }                                                                      \
                        }                                                                          \
                        *(out)++ = finish((p), total, covered);                                    \
                    }                                                                              \
                }                                                                                  \
            }                                                                                      \
            (in) += (p)->in_h * line;                                                              \
        }                                                                                          \
    } while (0)

/*@kernel
name = "hil_generic_average_pool_s8"
requires = []
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "0"
order = ["pixels 1", "channels 1"]
reads = "channel window"
code = 226
[cost]
output = "batches * out_h * out_w * channels"
filter_row = "output * filter_h"
tap = "filter_row * filter_w"
@*/
struct hil_generic_average_pool_s8 {
    HIL_POOL_FIELDS;
    int32_t low;  /* the least output */
    int32_t high; /* the largest output */
};

HIL_INLINE int32_t hil_average_pool_s8_take(int32_t total, int8_t x) { return total + x; }

HIL_INLINE int8_t hil_average_pool_s8_finish(const struct hil_generic_average_pool_s8 *p,
                                             int32_t total, int32_t covered) {
    const int32_t half = total > 0 ? covered / 2 : -(covered / 2);
    return hil_clamp_s8((total + half) / covered, p->low, p->high);
}

HIL_INLINE void hil_generic_average_pool_s8(const struct hil_generic_average_pool_s8 *p,
                                            const int8_t *in, int8_t *out) {
    HIL_POOL_WALK(p, in, out, int8_t, int32_t, 0, hil_average_pool_s8_take,
                  hil_average_pool_s8_finish);
}

/*@kernel
name = "hil_generic_average_pool_s8_even"
requires = []
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "0"
order = ["pixels 1", "channels 1"]
reads = "channel window"
code = 260
[cost]
output = "batches * out_h * out_w * channels"
filter_row = "output * filter_h"
tap = "filter_row * filter_w"
@*/
struct hil_generic_average_pool_s8_even {
    HIL_POOL_FIELDS;
    int32_t in_zero_point;      /* the input that stands for 0.0 */
    int32_t out_zero_point;     /* the output that stands for 0.0 */
    int32_t padded;             /* 1: windows reach beyond the image */
    int32_t rounding;           /* of a sum: HIL_ROUND_TWICE and others (quant.h) */
    int32_t low;                /* the least output */
    int32_t high;               /* the largest output */
    const int32_t *multipliers; /* of the sum, in Q0.31; where padded of that of each number of
                                   pixels that a window may cover, from 1 on */
    const int8_t *shifts;       /* of the products, to the left; below 0 to the right */
};

HIL_INLINE int8_t hil_average_pool_even_s8_finish(const struct hil_generic_average_pool_s8_even *p,
                                                  int32_t total, int32_t covered) {
    const int32_t entry = p->padded ? covered - 1 : 0;
    const int32_t average =
        hil_requantize_by(p->rounding, total - covered * p->in_zero_point, p->multipliers[entry],
                          p->shifts[entry], p->out_zero_point);
    return hil_clamp_s8(average, p->low, p->high);
}

HIL_INLINE void hil_generic_average_pool_s8_even(const struct hil_generic_average_pool_s8_even *p,
                                                 const int8_t *in, int8_t *out) {
    HIL_POOL_WALK(p, in, out, int8_t, int32_t, 0, hil_average_pool_s8_take,
                  hil_average_pool_even_s8_finish);
}

/*@kernel
name = "hil_generic_max_pool_s8"
requires = []
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "0"
order = ["pixels 1", "channels 1"]
reads = "channel window"
code = 196
[cost]
output = "batches * out_h * out_w * channels"
tap = "output * filter_h * filter_w"
@*/
struct hil_generic_max_pool_s8 {
    HIL_POOL_FIELDS;
    int32_t low;  /* the least output */
    int32_t high; /* the largest output */
};

HIL_INLINE int32_t hil_max_pool_s8_take(int32_t max, int8_t x) { return x > max ? x : max; }

HIL_INLINE int8_t hil_max_pool_s8_finish(const struct hil_generic_max_pool_s8 *p, int32_t max,
                                         int32_t covered) {
    (void)covered;
    return hil_clamp_s8(max, p->low, p->high);
}

HIL_INLINE void hil_generic_max_pool_s8(const struct hil_generic_max_pool_s8 *p, const int8_t *in,
                                        int8_t *out) {
    HIL_POOL_WALK(p, in, out, int8_t, int32_t, INT8_MIN, hil_max_pool_s8_take,
                  hil_max_pool_s8_finish);
}

/*@kernel
name = "hil_generic_average_pool_s16"
requires = []
inputs = ["int16_t"]
outputs = ["int16_t"]
scratch = "0"
order = ["pixels 1", "channels 1"]
reads = "channel window"
code = 334
[cost]
output = "batches * out_h * out_w * channels"
filter_row = "output * filter_h"
tap = "filter_row * filter_w"
@*/
struct hil_generic_average_pool_s16 {
    HIL_POOL_FIELDS;
    int32_t low;  /* the least output */
    int32_t high; /* the largest output */
};

HIL_INLINE int32_t hil_average_pool_s16_take(int32_t total, int16_t x) { return total + x; }

HIL_INLINE int16_t hil_average_pool_s16_finish(const struct hil_generic_average_pool_s16 *p,
                                               int32_t total, int32_t covered) {
    const int32_t half = total > 0 ? covered / 2 : -(covered / 2);
    return (int16_t)hil_clamp((total + half) / covered, p->low, p->high);
}

HIL_INLINE void hil_generic_average_pool_s16(const struct hil_generic_average_pool_s16 *p,
                                             const int16_t *in, int16_t *out) {
    HIL_POOL_WALK(p, in, out, int16_t, int32_t, 0, hil_average_pool_s16_take,
                  hil_average_pool_s16_finish);
}

/*@kernel
name = "hil_generic_average_pool_s16_even"
requires = []
inputs = ["int16_t"]
outputs = ["int16_t"]
scratch = "0"
order = ["pixels 1", "channels 1"]
reads = "channel window"
code = 280
[cost]
output = "batches * out_h * out_w * channels"
filter_row = "output * filter_h"
tap = "filter_row * filter_w"
@*/
struct hil_generic_average_pool_s16_even {
    HIL_POOL_FIELDS;
    int32_t in_zero_point;      /* the input that stands for 0.0 */
    int32_t out_zero_point;     /* the output that stands for 0.0 */
    int32_t padded;             /* 1: windows reach beyond the image */
    int32_t rounding;           /* of a sum: HIL_ROUND_TWICE and others (quant.h) */
    int32_t low;                /* the least output */
    int32_t high;               /* the largest output */
    const int32_t *multipliers; /* of the sum, in Q0.31; where padded of that of each number of
                                   pixels that a window may cover, from 1 on */
    const int8_t *shifts;       /* of the products, to the left; below 0 to the right */
};

HIL_INLINE int16_t hil_average_pool_even_s16_finish(
    const struct hil_generic_average_pool_s16_even *p, int32_t total, int32_t covered) {
    const int32_t entry = p->padded ? covered - 1 : 0;
    const int32_t average =
        hil_requantize_by(p->rounding, total - covered * p->in_zero_point, p->multipliers[entry],
                          p->shifts[entry], p->out_zero_point);
    return (int16_t)hil_clamp(average, p->low, p->high);
}

HIL_INLINE void hil_generic_average_pool_s16_even(const struct hil_generic_average_pool_s16_even *p,
                                                  const int16_t *in, int16_t *out) {
    HIL_POOL_WALK(p, in, out, int16_t, int32_t, 0, hil_average_pool_s16_take,
                  hil_average_pool_even_s16_finish);
}

/*@kernel
name = "hil_generic_max_pool_s16"
requires = []
inputs = ["int16_t"]
outputs = ["int16_t"]
scratch = "0"
order = ["pixels 1", "channels 1"]
reads = "channel window"
code = 224
[cost]
output = "batches * out_h * out_w * channels"
tap = "output * filter_h * filter_w"
@*/
struct hil_generic_max_pool_s16 {
    HIL_POOL_FIELDS;
    int32_t low;  /* the least output */
    int32_t high; /* the largest output */
};

HIL_INLINE int32_t hil_max_pool_s16_take(int32_t max, int16_t x) { return x > max ? x : max; }

HIL_INLINE int16_t hil_max_pool_s16_finish(const struct hil_generic_max_pool_s16 *p, int32_t max,
                                           int32_t covered) {
    (void)covered;
    return (int16_t)hil_clamp(max, p->low, p->high);
}

HIL_INLINE void hil_generic_max_pool_s16(const struct hil_generic_max_pool_s16 *p,
                                         const int16_t *in, int16_t *out) {
    HIL_POOL_WALK(p, in, out, int16_t, int32_t, INT16_MIN, hil_max_pool_s16_take,
                  hil_max_pool_s16_finish);
}

/*@kernel
name = "hil_generic_average_pool_f32"
requires = []
inputs = ["float"]
outputs = ["float"]
scratch = "0"
order = ["pixels 1", "channels 1"]
reads = "channel window"
code = 360
[cost]
output = "batches * out_h * out_w * channels"
tap = "output * min(filter_h, in_h) * min(filter_w, in_w)"
@*/
struct hil_generic_average_pool_f32 {
    HIL_POOL_FIELDS;
    float low;  /* the least output */
    float high; /* the largest output */
};

HIL_INLINE float hil_average_pool_f32_take(float total, float x) { return total + x; }

HIL_INLINE float hil_average_pool_f32_finish(const struct hil_generic_average_pool_f32 *p,
                                             float total, int32_t covered) {
    return hil_clamp_f32(total / (float)covered, p->low, p->high);
}

HIL_INLINE void hil_generic_average_pool_f32(const struct hil_generic_average_pool_f32 *p,
                                             const float *in, float *out) {
    HIL_POOL_WALK(p, in, out, float, float, 0.0f, hil_average_pool_f32_take,
                  hil_average_pool_f32_finish);
}

/*@kernel
name = "hil_generic_l2_pool_f32"
requires = []
inputs = ["float"]
outputs = ["float"]
scratch = "0"
order = ["pixels 1", "channels 1"]
reads = "channel window"
code = 420
[cost]
output = "batches * out_h * out_w * channels"
tap = "output * min(filter_h, in_h) * min(filter_w, in_w)"
@*/
struct hil_generic_l2_pool_f32 {
    HIL_POOL_FIELDS;
    float low;  /* the least output */
    float high; /* the largest output */
};

HIL_INLINE float hil_l2_pool_f32_take(float total, float x) { return total + x * x; }

HIL_INLINE float hil_l2_pool_f32_finish(const struct hil_generic_l2_pool_f32 *p, float total,
                                        int32_t covered) {
    return hil_clamp_f32(sqrtf(total / (float)covered), p->low, p->high);
}

HIL_INLINE void hil_generic_l2_pool_f32(const struct hil_generic_l2_pool_f32 *p, const float *in,
                                        float *out) {
    HIL_POOL_WALK(p, in, out, float, float, 0.0f, hil_l2_pool_f32_take, hil_l2_pool_f32_finish);
}

/*@kernel
name = "hil_generic_max_pool_f32"
requires = []
inputs = ["float"]
outputs = ["float"]
scratch = "0"
order = ["pixels 1", "channels 1"]
reads = "channel window"
code = 380
[cost]
output = "batches * out_h * out_w * channels"
tap = "output * min(filter_h, in_h) * min(filter_w, in_w)"
@*/
struct hil_generic_max_pool_f32 {
    HIL_POOL_FIELDS;
    float low;  /* the least output */
    float high; /* the largest output */
};

HIL_INLINE float hil_max_pool_f32_take(float max, float x) { return x > max ? x : max; }

HIL_INLINE float hil_max_pool_f32_finish(const struct hil_generic_max_pool_f32 *p, float max,
                                         int32_t covered) {
    (void)covered;
    return hil_clamp_f32(max, p->low, p->high);
}

HIL_INLINE void hil_generic_max_pool_f32(const struct hil_generic_max_pool_f32 *p, const float *in,
                                         float *out) {
    HIL_POOL_WALK(p, in, out, float, float, -INFINITY, hil_max_pool_f32_take,
                  hil_max_pool_f32_finish);
}

#endif
