/* Sums over decision trees. */
#ifndef HIL_KERNELS_GENERIC_TREES_H
#define HIL_KERNELS_GENERIC_TREES_H

#include <stdint.h>
#include <string.h>

#include "hil/quant.h"

/* What is no number, above all numbers. */
#define HIL_TREES_NAN INT32_MAX

/* A float as an integer of the same order: cores without a unit for floats compare it as fast, and
 * both zeros become the same. */
HIL_INLINE int32_t hil_trees_ordered(float x) {
    int32_t bits;
    memcpy(&bits, &x, sizeof bits);
    const uint32_t magnitude = (uint32_t)bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) {
        return HIL_TREES_NAN;
    }
    return bits < 0 ? -(int32_t)magnitude : (int32_t)magnitude;
}

/*@kernel
name = "hil_generic_trees_f32"
requires = []
inputs = ["float"]
outputs = ["float"]
scratch = "4 * features"
order = "none"
code = 150
[cost]
feature = "rows * features"
visit = "rows * visited"
tree = "rows * trees"
@*/
struct hil_generic_trees_f32 {
    int32_t rows;          /* of the input */
    int32_t features;      /* of a row */
    int32_t targets;       /* sums of a row */
    int32_t trees;         /* added up */
    int32_t visited;       /* nodes that a row visits, by estimate */
    const int32_t *roots;  /* [trees] places of their first nodes */
    const int32_t *values; /* [nodes] what a feature is at most, as an integer of its order; of a
                              leaf the bits of the float that is added */
    const int16_t *tests;  /* [nodes] twice the feature, and 1 where what is no number counts as
                              small; -1 for the last entry of a leaf, -2 for others */
    const int16_t *nexts; /* [nodes] how far on the node is that follows where the feature is above;
                             of a leaf the sum that it is added to */
};

HIL_INLINE void hil_generic_trees_f32(const struct hil_generic_trees_f32 *p, const float *in,
                                      float *out, void *scratch) {
    int32_t *ordered = (int32_t *)scratch;
    for (int32_t row = 0; row < p->rows; row++) {
        for (int32_t i = 0; i < p->features; i++) {
            ordered[i] = hil_trees_ordered(in[i]);
        }
        for (int32_t i = 0; i < p->targets; i++) {
            out[i] = 0.0f;
        }
        for (int32_t tree = 0; tree < p->trees; tree++) {
            int32_t node = p->roots[tree];
            int32_t test = p->tests[node];
            while (test >= 0) {
                const int32_t x = ordered[test >> 1];
                const int is_above =
                    x > p->values[node] && !((test & 1) != 0 && x == HIL_TREES_NAN);
                node += is_above ? p->nexts[node] : 1;
                test = p->tests[node];
            }
            for (;;) {
                float value;
                memcpy(&value, &p->values[node], sizeof value);
                out[p->nexts[node]] += value;
                if (test == -1) {
                    break;
                }
                node++;
                test = p->tests[node];
            }
        }
        in += p->features;
        out += p->targets;
    }
}

#endif
