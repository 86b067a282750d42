/* Which interval between boundaries a number is in. */
#ifndef HIL_KERNELS_GENERIC_BUCKETIZE_H
#define HIL_KERNELS_GENERIC_BUCKETIZE_H

#include <stdint.h>

#include "hil/quant.h"

#define HIL_BUCKETIZE_FIELDS                                                                       \
    int32_t size;           /* elements */                                                         \
    int32_t count;          /* boundaries */                                                       \
    const float *boundaries /* ascending */

/* How many boundaries are not above x. */
HIL_INLINE int32_t hil_bucket(const float *boundaries, int32_t count, float x) {
    int32_t first = 0;
    while (count > 0) {
        const int32_t half = count / 2;
        if (x < boundaries[first + half]) {
            count = half;
        } else {
            first += half + 1;
            count -= half + 1;
        }
    }
    return first;
}

#define HIL_BUCKETIZE(p, in, out)                                                                  \
    for (int32_t i = 0; i < (p)->size; i++) {                                                      \
        (out)[i] = hil_bucket((p)->boundaries, (p)->count, (float)(in)[i]);                        \
    }

/*@kernel
name = "hil_generic_bucketize_f32"
requires = []
inputs = ["float"]
outputs = ["int32_t"]
scratch = "0"
order = "none"
code = 80
[cost]
element = "size"
@*/
struct hil_generic_bucketize_f32 {
    HIL_BUCKETIZE_FIELDS;
};

HIL_INLINE void hil_generic_bucketize_f32(const struct hil_generic_bucketize_f32 *p,
                                          const float *in, int32_t *out) {
    HIL_BUCKETIZE(p, in, out);
}

/*@kernel
name = "hil_generic_bucketize_s32"
requires = []
inputs = ["int32_t"]
outputs = ["int32_t"]
scratch = "0"
order = "elementwise"
code = 80
[cost]
element = "size"
@*/
struct hil_generic_bucketize_s32 {
    HIL_BUCKETIZE_FIELDS;
};

HIL_INLINE void hil_generic_bucketize_s32(const struct hil_generic_bucketize_s32 *p,
                                          const int32_t *in, int32_t *out) {
    HIL_BUCKETIZE(p, in, out);
}

/*@kernel
name = "hil_generic_bucketize_s64"
requires = []
inputs = ["int64_t"]
outputs = ["int32_t"]
scratch = "0"
order = "none"
code = 80
[cost]
element = "size"
@*/
struct hil_generic_bucketize_s64 {
    HIL_BUCKETIZE_FIELDS;
};

HIL_INLINE void hil_generic_bucketize_s64(const struct hil_generic_bucketize_s64 *p,
                                          const int64_t *in, int32_t *out) {
    HIL_BUCKETIZE(p, in, out);
}

#endif
