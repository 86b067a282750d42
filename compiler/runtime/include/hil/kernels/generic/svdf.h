/* Layers that see the last inputs (SVDF): each filter keeps a number of every input, its feature,
 * and adds up the last ones by weights. The filters of a unit follow each other.
 *
 * The state is [batch][filters][memory], the newest feature last. Each row is shifted to the left
 * where it lies, or from the old state to the new one: element i is written after element i + 1 was
 * read, and never read later. */
#ifndef HIL_KERNELS_GENERIC_SVDF_H
#define HIL_KERNELS_GENERIC_SVDF_H

#include <stdint.h>

#include "hil/kernels/generic/clamp_f32.h"
#include "hil/kernels/generic/sum_s8.h"
#include "hil/quant.h"

#define HIL_SVDF_FIELDS                                                                            \
    int32_t batch; /* inputs */                                                                    \
    int32_t depth; /* elements of an input */                                                      \
    int32_t units; /* elements of an output */                                                     \
    int32_t rank;  /* filters of a unit */                                                         \
    int32_t memory /* features that a filter keeps */

#define HIL_SVDF_SCALES_FIELDS                                                                     \
    int32_t feature_multiplier; /* from sums to features */                                        \
    int32_t feature_shift;      /* to the left; below 0 to the right */                            \
    int32_t out_multiplier;     /* from sums to outputs */                                         \
    int32_t out_shift;          /* to the left; below 0 to the right */                            \
    int32_t state_zero_point;   /* of features */                                                  \
    int32_t out_zero_point      /* of outputs */

#define HIL_SVDF_S8_FIELDS                                                                         \
    HIL_SVDF_SCALES_FIELDS;                                                                        \
    const int8_t *weights;  /* of features, [filters][depth] */                                    \
    const int32_t *offsets; /* of features: their sums for inputs of all zeros */                  \
    const int32_t *bias     /* of units, with what zero points of features add */

HIL_INLINE int8_t hil_svdf_s8_out(int32_t sum, int32_t multiplier, int32_t shift,
                                  int32_t zero_point) {
    return hil_clamp_s8(hil_requantize(sum, multiplier, shift) + zero_point, INT8_MIN, INT8_MAX);
}

/* name(old, moments, memory, newest, updated, sum): puts a filter's newest feature behind those
 * that are kept, and adds their products with the moments to the sum. */
#define HIL_SVDF_MOMENTS(name, element)                                                            \
    HIL_INLINE uint32_t name(const element *old, const element *moments, int32_t memory,           \
                             element newest, element *updated, uint32_t sum) {                     \
        for (int32_t i = 1; i < memory; i++) {                                                     \
            const element kept = old[i];                                                           \
            sum += (uint32_t)(kept * moments[i - 1]);                                              \
            updated[i - 1] = kept;                                                                 \
        }                                                                                          \
        updated[memory - 1] = newest;                                                              \
        return sum + (uint32_t)(newest * moments[memory - 1]);                                     \
    }

/* The outputs and the new state of an input; `newest` is the feature of the filter `filter`, `add`
 * a function as above. All three pointers move to what is the next input's. */
#define HIL_SVDF_UNITS(p, newest, state, out, new_state, add)                                      \
    do {                                                                                           \
        int32_t filter = 0;                                                                        \
        for (int32_t unit = 0; unit < (p)->units; unit++) {                                        \
            uint32_t sum = (uint32_t)(p)->bias[unit];                                              \
            for (int32_t i = 0; i < (p)->rank; i++) {                                              \
                sum = add((state), (p)->moments + filter * (p)->memory, (p)->memory, (newest),     \
                          (new_state), sum);                                                       \
                (state) += (p)->memory;                                                            \
                (new_state) += (p)->memory;                                                        \
                filter++;                                                                          \
            }                                                                                      \
            *(out)++ = hil_svdf_s8_out((int32_t)sum, (p)->out_multiplier, (p)->out_shift,          \
                                       (p)->out_zero_point);                                       \
        }                                                                                          \
    } while (0)

/* The newest feature of a filter, of a state of [least, most]. */
#define HIL_SVDF_FEATURE(p, in, filter, least, most)                                               \
    (hil_clamp(hil_requantize(hil_sum_s8((in), (p)->weights + (filter) * (p)->depth, (p)->depth,   \
                                         (p)->offsets[filter]),                                    \
                              (p)->feature_multiplier, (p)->feature_shift),                        \
               (least), (most)) +                                                                  \
     (p)->state_zero_point)

/*@kernel
name = "hil_generic_svdf_s8_state_s16"
requires = []
inputs = ["int8_t", "int16_t"]
outputs = ["int8_t", "int16_t"]
scratch = "0"
order = "walk"
reads = "svdf"
code = 300
[cost]
unit = "batch * units"
filter = "batch * units * rank"
input = "batch * units * rank * depth"
moment = "batch * units * rank * memory"
@*/
struct hil_generic_svdf_s8_state_s16 {
    HIL_SVDF_FIELDS;
    HIL_SVDF_S8_FIELDS;
    const int16_t *moments; /* weights of features, [filters][memory] */
};

HIL_SVDF_MOMENTS(hil_svdf_moments_s16, int16_t)

HIL_INLINE void hil_generic_svdf_s8_state_s16(const struct hil_generic_svdf_s8_state_s16 *p,
                                              const int8_t *in, const int16_t *state, int8_t *out,
                                              int16_t *new_state) {
    for (int32_t b = 0; b < p->batch; b++) {
        HIL_SVDF_UNITS(p, (int16_t)HIL_SVDF_FEATURE(p, in, filter, INT16_MIN, INT16_MAX), state,
                       out, new_state, hil_svdf_moments_s16);
        in += p->depth;
    }
}

/*@kernel
name = "hil_generic_svdf_s8_state_s8"
requires = []
inputs = ["int8_t", "int8_t"]
outputs = ["int8_t", "int8_t"]
scratch = "0"
order = "walk"
reads = "svdf"
code = 300
[cost]
unit = "batch * units"
filter = "batch * units * rank"
input = "batch * units * rank * depth"
moment = "batch * units * rank * memory"
@*/
struct hil_generic_svdf_s8_state_s8 {
    HIL_SVDF_FIELDS;
    HIL_SVDF_S8_FIELDS;
    const int8_t *moments; /* weights of features, [filters][memory] */
};

HIL_SVDF_MOMENTS(hil_svdf_moments_s8, int8_t)

HIL_INLINE void hil_generic_svdf_s8_state_s8(const struct hil_generic_svdf_s8_state_s8 *p,
                                             const int8_t *in, const int8_t *state, int8_t *out,
                                             int8_t *new_state) {
    for (int32_t b = 0; b < p->batch; b++) {
        HIL_SVDF_UNITS(p, (int8_t)HIL_SVDF_FEATURE(p, in, filter, INT8_MIN, INT8_MAX), state, out,
                       new_state, hil_svdf_moments_s8);
        in += p->depth;
    }
}

/*@kernel
name = "hil_generic_svdf_f32"
requires = []
inputs = ["float", "float"]
outputs = ["float", "float"]
scratch = "0"
order = "walk"
reads = "svdf"
code = 260
[cost]
unit = "batch * units"
filter = "batch * units * rank"
input = "batch * units * rank * depth"
moment = "batch * units * rank * memory"
@*/
struct hil_generic_svdf_f32 {
    HIL_SVDF_FIELDS;
    float low;            /* the least output */
    float high;           /* the largest output */
    const float *weights; /* of features, [filters][depth] */
    const float *moments; /* weights of features, [filters][memory] */
    const float *bias;    /* of units */
};

HIL_INLINE void hil_generic_svdf_f32(const struct hil_generic_svdf_f32 *p, const float *in,
                                     const float *state, float *out, float *new_state) {
    for (int32_t b = 0; b < p->batch; b++) {
        const float *weights = p->weights;
        const float *moments = p->moments;
        for (int32_t unit = 0; unit < p->units; unit++) {
            float total = p->bias[unit];
            for (int32_t filter = 0; filter < p->rank; filter++) {
                float feature = 0.0f;
                for (int32_t i = 0; i < p->depth; i++) {
                    feature += *weights++ * in[i];
                }
                float sum = 0.0f;
                for (int32_t i = 1; i < p->memory; i++) {
                    const float kept = state[i];
                    sum += kept * *moments++;
                    new_state[i - 1] = kept;
                }
                sum += feature * *moments++;
                new_state[p->memory - 1] = feature;
                total += sum;
                state += p->memory;
                new_state += p->memory;
            }
            *out++ = hil_clamp_f32(total, p->low, p->high);
        }
        in += p->depth;
    }
}

#endif
