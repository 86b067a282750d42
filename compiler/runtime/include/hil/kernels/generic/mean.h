/* Means and sums over any axes: a walk over the outputs, and for each a walk over what it averages.
 */
#ifndef HIL_KERNELS_GENERIC_MEAN_H
#define HIL_KERNELS_GENERIC_MEAN_H

#include <stdint.h>

#include "hil/kernels/generic/walk.h"
#include "hil/quant.h"

#define HIL_MEAN_FIELDS                                                                            \
    int32_t size;                       /* of the output */                                        \
    int32_t counts[HIL_WALK_LOOPS];     /* turns of the loops over the outputs */                  \
    int32_t jumps[HIL_WALK_LOOPS];      /* by which the input moves as each of them advances */    \
    int32_t rows;                       /* of `length` values, averaged into one output */         \
    int32_t row_counts[HIL_WALK_LOOPS]; /* turns of the loops over the rows of an output */        \
    int32_t row_jumps[HIL_WALK_LOOPS];  /* by which the input moves as each of those advances */   \
    int32_t length;                     /* values of a row */                                      \
    int32_t step                        /* from one value of a row to the next */

/* Fields of kernels of quantized means. */
#define HIL_MEAN_SCALE_FIELDS                                                                      \
    int32_t offset;        /* minus the zero point of all values of one output */                  \
    int32_t multiplier;    /* of the sum, in Q0.31 */                                              \
    int32_t shift;         /* of the product, to the left; below 0 to the right */                 \
    int32_t rounding;      /* of that: HIL_ROUND_TWICE and others (quant.h) */                     \
    int32_t out_zero_point /* the output that stands for 0.0 */

/* Means of values side by side. */
#define HIL_MEAN_BLOCK_FIELDS                                                                      \
    int32_t blocks;  /* one after the other, each with an output for each of its channels */       \
    int32_t count;   /* pixels of a block, averaged into one output */                             \
    int32_t channels /* of a pixel */

/* Pixels whose sums of bytes fit 16 bits. */
#define HIL_MEAN_PIXELS 255

/* The mean of a sum less its zero points. */
HIL_INLINE int8_t hil_mean_s8(int32_t total, int32_t multiplier, int32_t shift, int32_t rounding,
                              int32_t out_zero_point) {
    const int32_t mean = hil_requantize_by(rounding, total, multiplier, shift, out_zero_point);
    return hil_clamp_s8(mean, INT8_MIN, INT8_MAX);
}

/* Writes out[] = finish(p, total), where total starts at `initial` and takes in each value by
 * fold(p, total, value). */
#define HIL_REDUCE_WALK(p, in, out, accumulator, initial, fold, finish)                            \
    do {                                                                                           \
        int32_t index[HIL_WALK_LOOPS] = {0};                                                       \
        int32_t first = 0;                                                                         \
        for (int32_t o = 0; o < (p)->size; o++) {                                                  \
            int32_t row_index[HIL_WALK_LOOPS] = {0};                                               \
            int32_t start = first;                                                                 \
            accumulator total = initial;                                                           \
            for (int32_t row = 0; row < (p)->rows; row++) {                                        \
                int32_t i = start;                                                                 \
                for (int32_t n = 0; n < (p)->length; n++) {                                        \
                    total = fold((p), total, (in)[i]);                                             \
                    i += (p)->step;                                                                \
                }                                                                                  \
                start += (p)->row_jumps[hil_walk_next(row_index, (p)->row_counts)];                \
            }                                                                                      \
            (out)[o] = finish((p), total);                                                         \
            first += (p)->jumps[hil_walk_next(index, (p)->counts)];                                \
        }                                                                                          \
    } while (0)

#define HIL_MEAN_FOLD(p, total, value) ((total) + (value))

#define HIL_MEAN_WALK(p, in, out, accumulator, initial, finish)                                    \
    HIL_REDUCE_WALK(p, in, out, accumulator, initial, HIL_MEAN_FOLD, finish)

/*@kernel
name = "hil_generic_mean_s8"
requires = []
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "0"
order = "walk"
reads = "mean"
code = 226
[cost]
output = "size"
row = "size * rows"
value = "row * length"
@*/
struct hil_generic_mean_s8 {
    HIL_MEAN_FIELDS;
    HIL_MEAN_SCALE_FIELDS;
};

#define hil_mean_s8_finish(p, total)                                                               \
    hil_mean_s8((total), (p)->multiplier, (p)->shift, (p)->rounding, (p)->out_zero_point)

HIL_INLINE void hil_generic_mean_s8(const struct hil_generic_mean_s8 *p, const int8_t *in,
                                    int8_t *out) {
    HIL_MEAN_WALK(p, in, out, int32_t, p->offset, hil_mean_s8_finish);
}

/*@kernel
name = "hil_generic_mean_s16"
requires = []
inputs = ["int16_t"]
outputs = ["int16_t"]
scratch = "0"
order = "walk"
reads = "mean"
code = 236
[cost]
output = "size"
row = "size * rows"
value = "row * length"
@*/
struct hil_generic_mean_s16 {
    HIL_MEAN_FIELDS;
    int32_t offset;         /* minus the zero point of all values of one output */
    int32_t multiplier;     /* of the sum, in Q0.31 */
    int32_t shift;          /* of the product, to the left; below 0 to the right */
    int32_t rounding;       /* of that: HIL_ROUND_TWICE and others (quant.h) */
    int32_t out_zero_point; /* the output that stands for 0.0 */
};

HIL_INLINE int16_t hil_mean_s16_finish(const struct hil_generic_mean_s16 *p, int32_t total) {
    const int32_t mean =
        hil_requantize_by(p->rounding, total, p->multiplier, p->shift, p->out_zero_point);
    return (int16_t)hil_clamp(mean, INT16_MIN, INT16_MAX);
}

HIL_INLINE void hil_generic_mean_s16(const struct hil_generic_mean_s16 *p, const int16_t *in,
                                     int16_t *out) {
    HIL_MEAN_WALK(p, in, out, int32_t, p->offset, hil_mean_s16_finish);
}

/*@kernel
name = "hil_generic_mean_f32"
requires = []
inputs = ["float"]
outputs = ["float"]
scratch = "0"
order = "walk"
reads = "mean"
code = 182
[cost]
output = "size"
row = "size * rows"
value = "row * length"
@*/
struct hil_generic_mean_f32 {
    HIL_MEAN_FIELDS;
    float count; /* values averaged into one output */
};

HIL_INLINE float hil_mean_f32_finish(const struct hil_generic_mean_f32 *p, float total) {
    return total / p->count;
}

HIL_INLINE void hil_generic_mean_f32(const struct hil_generic_mean_f32 *p, const float *in,
                                     float *out) {
    HIL_MEAN_WALK(p, in, out, float, 0.0f, hil_mean_f32_finish);
}

#endif
