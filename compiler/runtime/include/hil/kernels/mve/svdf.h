/* Layers that see the last inputs (SVDF): features by the block of wide_s8.h, moments a vector
 * at a time. */
#ifndef HIL_KERNELS_MVE_SVDF_H
#define HIL_KERNELS_MVE_SVDF_H

#include "hil/kernels/generic/svdf.h"
#include "hil/kernels/mve/columns_s8.h"
#include "hil/kernels/mve/wide_s8.h"

#define HIL_MVE_SVDF_FIELDS                                                                        \
    HIL_SVDF_FIELDS;                                                                               \
    HIL_SVDF_SCALES_FIELDS;                                                                        \
    int32_t chunks;       /* of 16 elements of an input, the depth rounded up */                   \
    int32_t eights;       /* of filters, their number rounded up */                                \
    const int8_t *stream; /* of the filters, as wide_s8.h draws it */                              \
    const int32_t *bias   /* of units, with what zero points of features add */

/* The features of an input, saturated to int16. */
HIL_INLINE void hil_mve_svdf_features(const int8_t *in, int32_t depth, const int8_t *stream,
                                      int32_t chunks, int32_t eights, int16_t *features,
                                      int8_t *row) {
    hil_mve_copy_chunks(row, in, depth, HIL_MVE_CHUNK);
    hil_mve_wide(1, 0, row, stream, chunks, eights, features);
}

/* Moves a filter's features on and adds their products with the moments to the sum. */
HIL_INLINE uint32_t hil_mve_svdf_moments_s16(const int16_t *old, const int16_t *moments,
                                             int32_t memory, int16_t newest, int16_t *updated,
                                             uint32_t sum) {
    int32_t total = (int32_t)sum;
    for (int32_t i = 1; i < memory; i += 8) {
        const mve_pred16_t inside = vctp16q((uint32_t)(memory - i));
        const int16x8_t kept = vldrhq_z_s16(old + i, inside);
        total = vmladavaq_s16(total, kept, vldrhq_z_s16(moments + i - 1, inside));
        vstrhq_p_s16(updated + i - 1, kept, inside);
    }
    updated[memory - 1] = newest;
    return (uint32_t)total + (uint32_t)(newest * moments[memory - 1]);
}

HIL_INLINE uint32_t hil_mve_svdf_moments_s8(const int8_t *old, const int8_t *moments,
                                            int32_t memory, int8_t newest, int8_t *updated,
                                            uint32_t sum) {
    int32_t total = (int32_t)sum;
    for (int32_t i = 1; i < memory; i += 16) {
        const mve_pred16_t inside = vctp8q((uint32_t)(memory - i));
        const int8x16_t kept = vldrbq_z_s8(old + i, inside);
        total = vmladavaq_s8(total, kept, vldrbq_z_s8(moments + i - 1, inside));
        vstrbq_p_s8(updated + i - 1, kept, inside);
    }
    updated[memory - 1] = newest;
    return (uint32_t)total + (uint32_t)(newest * moments[memory - 1]);
}

/*@kernel
name = "hil_mve_svdf_s8_state_s16"
requires = ["mve"]
inputs = ["int8_t", "int16_t"]
outputs = ["int8_t", "int16_t"]
scratch = "16 * chunks + 16 * eights"
order = "walk"
reads = "svdf"
code = 900
[cost]
unit = "batch * units"
filter = "batch * units * rank"
eight = "batch * eights"
eight_chunk = "eight * chunks"
vector = "filter * ((memory + 6) // 8)"
@*/
struct hil_mve_svdf_s8_state_s16 {
    HIL_MVE_SVDF_FIELDS;
    const int16_t *moments; /* weights of features, [filters][memory] */
};

HIL_INLINE void hil_mve_svdf_s8_state_s16(const struct hil_mve_svdf_s8_state_s16 *p,
                                          const int8_t *in, const int16_t *state, int8_t *out,
                                          int16_t *new_state, void *scratch) {
    int16_t *const wide = (int16_t *)scratch;
    void *const behind = wide + 8 * p->eights;
    int16_t *const features = (int16_t *)scratch;
    for (int32_t b = 0; b < p->batch; b++) {
        hil_mve_svdf_features(in, p->depth, p->stream, p->chunks, p->eights, wide,
                              (int8_t *)behind);
        for (int32_t filter = 0; filter < p->units * p->rank; filter++) {
            features[filter] = (int16_t)(wide[filter] + p->state_zero_point);
        }
        HIL_SVDF_UNITS(p, features[filter], state, out, new_state, hil_mve_svdf_moments_s16);
        in += p->depth;
    }
}

/*@kernel
name = "hil_mve_svdf_s8_state_s8"
requires = ["mve"]
inputs = ["int8_t", "int8_t"]
outputs = ["int8_t", "int8_t"]
scratch = "16 * chunks + 16 * eights"
order = "walk"
reads = "svdf"
code = 900
[cost]
unit = "batch * units"
filter = "batch * units * rank"
eight = "batch * eights"
eight_chunk = "eight * chunks"
vector = "filter * ((memory + 14) // 16)"
@*/
struct hil_mve_svdf_s8_state_s8 {
    HIL_MVE_SVDF_FIELDS;
    const int8_t *moments; /* weights of features, [filters][memory] */
};

HIL_INLINE void hil_mve_svdf_s8_state_s8(const struct hil_mve_svdf_s8_state_s8 *p, const int8_t *in,
                                         const int8_t *state, int8_t *out, int8_t *new_state,
                                         void *scratch) {
    int16_t *const wide = (int16_t *)scratch;
    void *const behind = wide + 8 * p->eights;
    int8_t *const features = (int8_t *)scratch;
    for (int32_t b = 0; b < p->batch; b++) {
        hil_mve_svdf_features(in, p->depth, p->stream, p->chunks, p->eights, wide,
                              (int8_t *)behind);
        for (int32_t filter = 0; filter < p->units * p->rank; filter++) {
            features[filter] =
                (int8_t)(hil_clamp(wide[filter], INT8_MIN, INT8_MAX) + p->state_zero_point);
        }
        HIL_SVDF_UNITS(p, features[filter], state, out, new_state, hil_mve_svdf_moments_s8);
        in += p->depth;
    }
}

#endif
