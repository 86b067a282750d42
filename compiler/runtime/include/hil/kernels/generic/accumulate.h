/* Sums of several values: of tensors, and of all elements so far along an axis. */
#ifndef HIL_KERNELS_GENERIC_ACCUMULATE_H
#define HIL_KERNELS_GENERIC_ACCUMULATE_H

#include <stdint.h>

#include "hil/quant.h"

/* Sums of int8 start at the number 0, and wrap around; bits that they are raised by. */
#define HIL_ACCUMULATE_BITS 19

#define HIL_ACCUMULATE_S8_FIELDS                                                                   \
    int32_t in_zero_point;  /* the input that stands for 0.0 */                                    \
    int32_t out_zero_point; /* the output that stands for 0.0 */                                   \
    int32_t multiplier;     /* of a raised sum, in Q0.31 */                                        \
    int32_t shift           /* of that product, to the left; 0 or less */

/* The output of a sum of steps from the zero point. */
#define HIL_ACCUMULATED_S8(p, steps)                                                               \
    hil_clamp_s8(hil_requantize((int32_t)((uint32_t)(steps) << HIL_ACCUMULATE_BITS),               \
                                (p)->multiplier, (p)->shift) +                                     \
                     (p)->out_zero_point,                                                          \
                 INT8_MIN, INT8_MAX)

/*@kernel
name = "hil_generic_add_n_s32"
requires = []
inputs = ["int32_t[]"]
outputs = ["int32_t"]
scratch = "0"
order = "elementwise"
code = 38
[cost]
element = "size"
value = "size * parts"
@*/
struct hil_generic_add_n_s32 {
    int32_t size;  /* elements */
    int32_t parts; /* inputs */
};

HIL_INLINE void hil_generic_add_n_s32(const struct hil_generic_add_n_s32 *p,
                                      const int32_t *const *in, int32_t *out) {
    for (int32_t i = 0; i < p->size; i++) {
        int32_t total = in[0][i];
        for (int32_t part = 1; part < p->parts; part++) {
            total = (int32_t)((uint32_t)total + (uint32_t)in[part][i]);
        }
        out[i] = total;
    }
}

/*@kernel
name = "hil_generic_add_n_f32"
requires = []
inputs = ["float[]"]
outputs = ["float"]
scratch = "0"
order = "elementwise"
code = 70
[cost]
element = "size"
value = "size * parts"
@*/
struct hil_generic_add_n_f32 {
    int32_t size;  /* elements */
    int32_t parts; /* inputs */
};

HIL_INLINE void hil_generic_add_n_f32(const struct hil_generic_add_n_f32 *p, const float *const *in,
                                      float *out) {
    for (int32_t i = 0; i < p->size; i++) {
        float total = in[0][i];
        for (int32_t part = 1; part < p->parts; part++) {
            total = total + in[part][i];
        }
        out[i] = total;
    }
}

/*@kernel
name = "hil_generic_add_n_s8"
requires = []
inputs = ["int8_t[]"]
outputs = ["int8_t"]
scratch = "0"
order = "elementwise"
code = 90
[cost]
element = "size"
value = "size * parts"
@*/
struct hil_generic_add_n_s8 {
    int32_t size;  /* elements */
    int32_t parts; /* inputs */
    HIL_ACCUMULATE_S8_FIELDS;
};

HIL_INLINE void hil_generic_add_n_s8(const struct hil_generic_add_n_s8 *p, const int8_t *const *in,
                                     int8_t *out) {
    for (int32_t i = 0; i < p->size; i++) {
        int32_t steps = -p->in_zero_point;
        for (int32_t part = 0; part < p->parts; part++) {
            steps += in[part][i] - p->in_zero_point;
        }
        out[i] = HIL_ACCUMULATED_S8(p, steps);
    }
}

#define HIL_CUMSUM_FIELDS                                                                          \
    int32_t outer;     /* blocks around the axis */                                                \
    int32_t length;    /* of the axis */                                                           \
    int32_t inner;     /* elements from one along the axis to the next */                          \
    int32_t exclusive; /* 1: a sum leaves the element at its place out */                          \
    int32_t reverse    /* 1: the sums begin at the end */

/* Writes finish(total) along each line of the axis, where total starts at `initial`. */
#define HIL_CUMSUM_WALK(p, in, out, accumulator, initial, value, finish)                           \
    do {                                                                                           \
        const int32_t step = (p)->reverse ? -(p)->inner : (p)->inner;                              \
        for (int32_t block = 0; block < (p)->outer; block++) {                                     \
            for (int32_t line = 0; line < (p)->inner; line++) {                                    \
                accumulator total = initial;                                                       \
                int32_t i = block * (p)->length * (p)->inner + line;                               \
                i += (p)->reverse ? ((p)->length - 1) * (p)->inner : 0;                            \
                for (int32_t n = 0; n < (p)->length; n++) {                                        \
                    const accumulator before = total;                                              \
                    total += value(p, (in)[i]);                                                    \
                    (out)[i] = finish(p, (p)->exclusive ? before : total);                         \
                    i += step;                                                                     \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    } while (0)

#define HIL_CUMSUM_AS_IT_IS(p, x) (x)
#define HIL_CUMSUM_STEPS(p, x) ((x) - (p)->in_zero_point)

/*@kernel
name = "hil_generic_cumsum_f32"
requires = []
inputs = ["float"]
outputs = ["float"]
scratch = "0"
order = "none"
code = 14
[cost]
line = "outer * inner"
element = "outer * length * inner"
@*/
struct hil_generic_cumsum_f32 {
    HIL_CUMSUM_FIELDS;
};

HIL_INLINE void hil_generic_cumsum_f32(const struct hil_generic_cumsum_f32 *p, const float *in,
                                       float *out) {
    HIL_CUMSUM_WALK(p, in, out, float, 0.0f, HIL_CUMSUM_AS_IT_IS, HIL_CUMSUM_AS_IT_IS);
}

/*@kernel
name = "hil_generic_cumsum_s8"
requires = []
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "0"
order = "none"
code = 71
[cost]
line = "outer * inner"
element = "outer * length * inner"
@*/
struct hil_generic_cumsum_s8 {
    HIL_CUMSUM_FIELDS;
    HIL_ACCUMULATE_S8_FIELDS;
};

HIL_INLINE void hil_generic_cumsum_s8(const struct hil_generic_cumsum_s8 *p, const int8_t *in,
                                      int8_t *out) {
    HIL_CUMSUM_WALK(p, in, out, int32_t, -p->in_zero_point, HIL_CUMSUM_STEPS, HIL_ACCUMULATED_S8);
}

#define HIL_CUMSUM_EVEN_FIELDS                                                                     \
    HIL_CUMSUM_FIELDS;                                                                             \
    int32_t in_zero_point;  /* the input that stands for 0.0 */                                    \
    int32_t out_zero_point; /* the output that stands for 0.0 */                                   \
    int32_t multiplier;     /* input scale / output scale, in Q0.31 */                             \
    int32_t shift           /* of that product, to the left */

/* A sum of steps, rounded once. */
#define HIL_CUMSUM_EVEN(p, steps)                                                                  \
    (hil_requantize_even(steps, (p)->multiplier, (p)->shift) + (p)->out_zero_point)
#define HIL_CUMSUM_EVEN_S8(p, steps) hil_clamp_s8(HIL_CUMSUM_EVEN(p, steps), INT8_MIN, INT8_MAX)
#define HIL_CUMSUM_EVEN_S16(p, steps) (int16_t) hil_saturate_s16(HIL_CUMSUM_EVEN(p, steps))

/*@kernel
name = "hil_generic_cumsum_even_s8"
requires = []
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "0"
order = "none"
code = 90
[cost]
line = "outer * inner"
element = "outer * length * inner"
@*/
struct hil_generic_cumsum_even_s8 {
    HIL_CUMSUM_EVEN_FIELDS;
};

/* length * 255 < 2^31. */
HIL_INLINE void hil_generic_cumsum_even_s8(const struct hil_generic_cumsum_even_s8 *p,
                                           const int8_t *in, int8_t *out) {
    HIL_CUMSUM_WALK(p, in, out, int32_t, 0, HIL_CUMSUM_STEPS, HIL_CUMSUM_EVEN_S8);
}

/*@kernel
name = "hil_generic_cumsum_even_s16"
requires = []
inputs = ["int16_t"]
outputs = ["int16_t"]
scratch = "0"
order = "none"
code = 90
[cost]
line = "outer * inner"
element = "outer * length * inner"
@*/
struct hil_generic_cumsum_even_s16 {
    HIL_CUMSUM_EVEN_FIELDS;
};

/* length * 65535 < 2^31. */
HIL_INLINE void hil_generic_cumsum_even_s16(const struct hil_generic_cumsum_even_s16 *p,
                                            const int16_t *in, int16_t *out) {
    HIL_CUMSUM_WALK(p, in, out, int32_t, 0, HIL_CUMSUM_STEPS, HIL_CUMSUM_EVEN_S16);
}

#endif
