/* Groups of channels less their mean, over their deviation, with a factor for each run of elements:
 * those of a channel, or all of a group. */
#ifndef HIL_KERNELS_GENERIC_GROUP_NORM_H
#define HIL_KERNELS_GENERIC_GROUP_NORM_H

#include "hil/kernels/generic/layer_norm.h"

#define HIL_GROUP_NORM_FIELDS                                                                      \
    int32_t rows;   /* groups of all images */                                                     \
    int32_t groups; /* groups of an image */                                                       \
    int32_t each;   /* factors of a group */                                                       \
    int32_t run     /* elements that share a factor */

/*@kernel
name = "hil_generic_group_norm_f32"
requires = []
inputs = ["float", "float", "float"]
outputs = ["float"]
scratch = "0"
order = "none"
code = 300
[cost]
row = "rows"
element = "rows * each * run"
@*/
struct hil_generic_group_norm_f32 {
    HIL_GROUP_NORM_FIELDS;
    float epsilon; /* what is added to the variance */
};

HIL_INLINE void hil_generic_group_norm_f32(const struct hil_generic_group_norm_f32 *p,
                                           const float *in, const float *factors,
                                           const float *addends, float *out) {
    const int32_t depth = p->each * p->run;
    const float count = (float)depth;
    for (int32_t row = 0; row < p->rows; row++) {
        float sum = 0.0F;
        for (int32_t i = 0; i < depth; i++) {
            sum += in[i];
        }
        const float mean = sum / count;
        float squares = 0.0F;
        for (int32_t i = 0; i < depth; i++) {
            const float rest = in[i] - mean;
            squares += rest * rest;
        }
        const float inverse = 1.0F / sqrtf(squares / count + p->epsilon);
        for (int32_t k = 0; k < p->each; k++) {
            const int32_t at = row % p->groups * p->each + k;
            for (int32_t i = 0; i < p->run; i++) {
                const float rest = *in++ - mean;
                *out++ = rest * inverse * factors[at] + addends[at];
            }
        }
    }
}

/* The steps of layer_norm.h, with a factor for each run. */
#define HIL_GROUP_NORM(p, integer, wide, lowest, highest, in, out)                                 \
    do {                                                                                           \
        const float least = (float)((lowest) - (p)->out_zero_point);                               \
        const float most = (float)((highest) - (p)->out_zero_point);                               \
        const int32_t depth = (p)->each * (p)->run;                                                \
        for (int32_t n = 0; n < (p)->rows; n++) {                                                  \
            int32_t sum = 0;                                                                       \
            wide squares = 0;                                                                      \
            for (int32_t i = 0; i < depth; i++) {                                                  \
                sum += (in)[i];                                                                    \
                squares += (wide)((in)[i] * (in)[i]);                                              \
            }                                                                                      \
            const struct hil_layer_norm_row row =                                                  \
                hil_layer_norm_row(depth, 1, 0, (p)->epsilon, sum, (int64_t)squares);              \
            for (int32_t k = 0; k < (p)->each; k++) {                                              \
                const int32_t at = n % (p)->groups * (p)->each + k;                                \
                for (int32_t i = 0; i < (p)->run; i++) {                                           \
                    const float rest = (float)(depth * *(in)++ - row.centre);                      \
                    const float steps = rest * row.inverse * (p)->factors[at] + (p)->addends[at];  \
                    const float clamped = steps > least ? (steps < most ? steps : most) : least;   \
                    /* Of 24 bits before the point the sum is the nearest, ties to even. */        \
                    const float rounded = (clamped + 12582912.0F) - 12582912.0F;                   \
                    *(out)++ = (integer)((int32_t)rounded + (p)->out_zero_point);                  \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    } while (0)

/*@kernel
name = "hil_generic_group_norm_s8"
requires = []
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "0"
order = "none"
code = 380
[cost]
row = "rows"
element = "rows * each * run"
@*/
struct hil_generic_group_norm_s8 {
    HIL_GROUP_NORM_FIELDS;
    float epsilon;          /* what is added to the squared deviation, in its units */
    int32_t out_zero_point; /* the output that stands for 0.0 */
    const float *factors;   /* `each` of a group, in steps of the output */
    const float *addends;   /* likewise */
};

HIL_INLINE void hil_generic_group_norm_s8(const struct hil_generic_group_norm_s8 *p,
                                          const int8_t *in, int8_t *out) {
    HIL_GROUP_NORM(p, int8_t, uint32_t, INT8_MIN, INT8_MAX, in, out);
}

/*@kernel
name = "hil_generic_group_norm_s16"
requires = []
inputs = ["int16_t"]
outputs = ["int16_t"]
scratch = "0"
order = "none"
code = 380
[cost]
row = "rows"
element = "rows * each * run"
@*/
struct hil_generic_group_norm_s16 {
    HIL_GROUP_NORM_FIELDS;
    float epsilon;          /* what is added to the squared deviation, in its units */
    int32_t out_zero_point; /* the output that stands for 0.0 */
    const float *factors;   /* `each` of a group, in steps of the output */
    const float *addends;   /* likewise */
};

HIL_INLINE void hil_generic_group_norm_s16(const struct hil_generic_group_norm_s16 *p,
                                           const int16_t *in, int16_t *out) {
    HIL_GROUP_NORM(p, int16_t, int64_t, INT16_MIN, INT16_MAX, in, out);
}

#endif
