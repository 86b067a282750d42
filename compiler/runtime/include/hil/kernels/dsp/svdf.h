/* Layers that see the last inputs (SVDF): features by the rows of matvec_s8.h, two moments or four
 * at a time. */
#ifndef HIL_KERNELS_DSP_SVDF_H
#define HIL_KERNELS_DSP_SVDF_H

#include "hil/kernels/dsp/columns_s16.h"
#include "hil/kernels/dsp/matvec_s8.h"
#include "hil/kernels/generic/svdf.h"

#define HIL_DSP_SVDF_FIELDS                                                                        \
    HIL_SVDF_FIELDS;                                                                               \
    HIL_SVDF_SCALES_FIELDS;                                                                        \
    int32_t groups; /* of four units of depth */                                                   \
    const int32_t                                                                                  \
        *stream;        /* of four filters each: biases and weights, as matvec_s8.h packs them */  \
    const int32_t *bias /* of units, with what zero points of features add */

/* Sums of two columns from A0 and 256 * A1 + A0, twice, to features. */
#define HIL_DSP_SVDF_FEATURES(p, in, type, least, most, rows, features)                            \
    do {                                                                                           \
        const int32_t *stream = (p)->stream;                                                       \
        hil_dsp_widen_row((in), (p)->depth, (rows));                                               \
        for (int32_t filter = 0; filter < (p)->units * (p)->rank; filter += 4) {                   \
            struct hil_dsp_matvec_sums sums;                                                       \
            for (int i = 0; i < 4; i++) {                                                          \
                sums.s[i] = (uint32_t)*stream++;                                                   \
            }                                                                                      \
            const void *const weights = stream;                                                    \
            hil_dsp_matvec_s8_units((rows), 1, (const int16_t *)weights, (p)->groups, &sums);      \
            stream += 4 * (p)->groups;                                                             \
            for (int i = 0; i < 4; i++) {                                                          \
                const int32_t twice = i % 2 == 0 ? (int32_t)(sums.s[i] * 2)                        \
                                                 : (int32_t)(sums.s[i] - sums.s[i - 1]) >> 7;      \
                const int32_t feature =                                                            \
                    hil_dsp_requantized(twice, (p)->feature_multiplier, (p)->feature_shift);       \
                (features)[filter + i] =                                                           \
                    (type)(hil_clamp(feature, (least), (most)) + (p)->state_zero_point);           \
            }                                                                                      \
        }                                                                                          \
    } while (0)

/* Moves a filter's features on and adds their products with the moments to the sum. */
HIL_INLINE uint32_t hil_dsp_svdf_moments_s16(const int16_t *old, const int16_t *moments,
                                             int32_t memory, int16_t newest, int16_t *updated,
                                             uint32_t sum) {
    int32_t i = 1;
    for (; i + 1 < memory; i += 2) {
        const uint32_t kept = hil_dsp_s16_load(old + i);
        sum = hil_dsp_dual(kept, hil_dsp_s16_load(moments + i - 1), sum);
        memcpy(updated + i - 1, &kept, sizeof kept);
    }
    if (i < memory) {
        const int16_t kept = old[i];
        sum += (uint32_t)(kept * moments[i - 1]);
        updated[i - 1] = kept;
    }
    updated[memory - 1] = newest;
    return sum + (uint32_t)(newest * moments[memory - 1]);
}

HIL_INLINE uint32_t hil_dsp_svdf_moments_s8(const int8_t *old, const int8_t *moments,
                                            int32_t memory, int8_t newest, int8_t *updated,
                                            uint32_t sum) {
    int32_t i = 1;
    for (; i + 3 < memory; i += 4) {
        const uint32_t kept = hil_dsp_load(old + i);
        const uint32_t by = hil_dsp_load(moments + i - 1);
        sum = hil_dsp_dual(hil_dsp_even(kept), hil_dsp_even(by), sum);
        sum = hil_dsp_dual(hil_dsp_odd(kept), hil_dsp_odd(by), sum);
        memcpy(updated + i - 1, &kept, sizeof kept);
    }
    for (; i < memory; i++) {
        const int8_t kept = old[i];
        sum += (uint32_t)(kept * moments[i - 1]);
        updated[i - 1] = kept;
    }
    updated[memory - 1] = newest;
    return sum + (uint32_t)(newest * moments[memory - 1]);
}

/*@kernel
name = "hil_dsp_svdf_s8_state_s16"
requires = ["dsp"]
inputs = ["int8_t", "int16_t"]
outputs = ["int8_t", "int16_t"]
scratch = "8 * groups + 8 * ((units * rank + 3) // 4)"
order = "walk"
reads = "svdf"
code = 700
[cost]
unit = "batch * units"
filter = "batch * units * rank"
four = "batch * ((units * rank + 3) // 4)"
four_group = "four * groups"
moment = "batch * units * rank * memory"
@*/
struct hil_dsp_svdf_s8_state_s16 {
    HIL_DSP_SVDF_FIELDS;
    const int16_t *moments; /* weights of features, [filters][memory] */
};

HIL_INLINE void hil_dsp_svdf_s8_state_s16(const struct hil_dsp_svdf_s8_state_s16 *p,
                                          const int8_t *in, const int16_t *state, int8_t *out,
                                          int16_t *new_state, void *scratch) {
    uint32_t *const rows = (uint32_t *)scratch;
    void *const behind = rows + 2 * p->groups;
    int16_t *const features = (int16_t *)behind;
    for (int32_t b = 0; b < p->batch; b++) {
        HIL_DSP_SVDF_FEATURES(p, in, int16_t, INT16_MIN, INT16_MAX, rows, features);
        HIL_SVDF_UNITS(p, features[filter], state, out, new_state, hil_dsp_svdf_moments_s16);
        in += p->depth;
    }
}

/*@kernel
name = "hil_dsp_svdf_s8_state_s8"
requires = ["dsp"]
inputs = ["int8_t", "int8_t"]
outputs = ["int8_t", "int8_t"]
scratch = "8 * groups + 4 * ((units * rank + 3) // 4)"
order = "walk"
reads = "svdf"
code = 700
[cost]
unit = "batch * units"
filter = "batch * units * rank"
four = "batch * ((units * rank + 3) // 4)"
four_group = "four * groups"
moment = "batch * units * rank * memory"
@*/
struct hil_dsp_svdf_s8_state_s8 {
    HIL_DSP_SVDF_FIELDS;
    const int8_t *moments; /* weights of features, [filters][memory] */
};

HIL_INLINE void hil_dsp_svdf_s8_state_s8(const struct hil_dsp_svdf_s8_state_s8 *p, const int8_t *in,
                                         const int8_t *state, int8_t *out, int8_t *new_state,
                                         void *scratch) {
    uint32_t *const rows = (uint32_t *)scratch;
    void *const behind = rows + 2 * p->groups;
    int8_t *const features = (int8_t *)behind;
    for (int32_t b = 0; b < p->batch; b++) {
        HIL_DSP_SVDF_FEATURES(p, in, int8_t, INT8_MIN, INT8_MAX, rows, features);
        HIL_SVDF_UNITS(p, features[filter], state, out, new_state, hil_dsp_svdf_moments_s8);
        in += p->depth;
    }
}

#endif
