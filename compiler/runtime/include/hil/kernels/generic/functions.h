/* Functions of single elements: those of float32, and of integers that no table serves. */
#ifndef HIL_KERNELS_GENERIC_FUNCTIONS_H
#define HIL_KERNELS_GENERIC_FUNCTIONS_H

#include <math.h>
#include <stdint.h>

#include "hil/copy.h"
#include "hil/kernels/generic/fixed_point.h"
#include "hil/quant.h"

/* A kernel that writes the value for each element x of the input. */
#define HIL_FUNCTION(name, type, value)                                                            \
    HIL_INLINE void name(const struct name *p, const type *in, type *out) {                        \
        for (int32_t i = 0; i < p->size; i++) {                                                    \
            const type x = in[i];                                                                  \
            out[i] = value;                                                                        \
        }                                                                                          \
    }

/*@kernel
name = "hil_generic_abs_f32"
requires = []
inputs = ["float"]
outputs = ["float"]
scratch = "0"
order = "elementwise"
code = 26
[cost]
element = "size"
@*/
struct hil_generic_abs_f32 {
    int32_t size; /* elements */
};

HIL_FUNCTION(hil_generic_abs_f32, float, fabsf(x))

/*@kernel
name = "hil_generic_neg_f32"
requires = []
inputs = ["float"]
outputs = ["float"]
scratch = "0"
order = "elementwise"
code = 18
[cost]
element = "size"
@*/
struct hil_generic_neg_f32 {
    int32_t size; /* elements */
};

HIL_FUNCTION(hil_generic_neg_f32, float, -x)

/*@kernel
name = "hil_generic_sign_f32"
requires = []
inputs = ["float"]
outputs = ["float"]
scratch = "0"
order = "elementwise"
code = 84
[cost]
element = "size"
@*/
/* The sum makes 0 of -0, and keeps what is no number. */
struct hil_generic_sign_f32 {
    int32_t size; /* elements */
};

HIL_FUNCTION(hil_generic_sign_f32, float, x > 0.0f ? 1.0f : (x < 0.0f ? -1.0f : x + 0.0f))

/*@kernel
name = "hil_generic_ceil_f32"
requires = []
inputs = ["float"]
outputs = ["float"]
scratch = "0"
order = "elementwise"
code = 30
[cost]
element = "size"
@*/
struct hil_generic_ceil_f32 {
    int32_t size; /* elements */
};

HIL_FUNCTION(hil_generic_ceil_f32, float, ceilf(x))

/*@kernel
name = "hil_generic_floor_f32"
requires = []
inputs = ["float"]
outputs = ["float"]
scratch = "0"
order = "elementwise"
code = 28
[cost]
element = "size"
@*/
struct hil_generic_floor_f32 {
    int32_t size; /* elements */
};

HIL_FUNCTION(hil_generic_floor_f32, float, floorf(x))

/*@kernel
name = "hil_generic_round_f32"
requires = []
inputs = ["float"]
outputs = ["float"]
scratch = "0"
order = "elementwise"
code = 30
[cost]
element = "size"
@*/
struct hil_generic_round_f32 {
    int32_t size; /* elements */
};

HIL_FUNCTION(hil_generic_round_f32, float, rintf(x))

/*@kernel
name = "hil_generic_sqrt_f32"
requires = []
inputs = ["float"]
outputs = ["float"]
scratch = "0"
order = "elementwise"
code = 30
[cost]
element = "size"
@*/
struct hil_generic_sqrt_f32 {
    int32_t size; /* elements */
};

HIL_FUNCTION(hil_generic_sqrt_f32, float, sqrtf(x))

/*@kernel
name = "hil_generic_rsqrt_f32"
requires = []
inputs = ["float"]
outputs = ["float"]
scratch = "0"
order = "elementwise"
code = 28
[cost]
element = "size"
@*/
struct hil_generic_rsqrt_f32 {
    int32_t size; /* elements */
};

HIL_FUNCTION(hil_generic_rsqrt_f32, float, 1.0f / sqrtf(x))

/*@kernel
name = "hil_generic_square_f32"
requires = []
inputs = ["float"]
outputs = ["float"]
scratch = "0"
order = "elementwise"
code = 32
[cost]
element = "size"
@*/
struct hil_generic_square_f32 {
    int32_t size; /* elements */
};

HIL_FUNCTION(hil_generic_square_f32, float, x *x)

/*@kernel
name = "hil_generic_exp_f32"
requires = []
inputs = ["float"]
outputs = ["float"]
scratch = "0"
order = "elementwise"
code = 30
[cost]
element = "size"
@*/
struct hil_generic_exp_f32 {
    int32_t size; /* elements */
};

HIL_FUNCTION(hil_generic_exp_f32, float, expf(x))

/*@kernel
name = "hil_generic_log_f32"
requires = []
inputs = ["float"]
outputs = ["float"]
scratch = "0"
order = "elementwise"
code = 30
[cost]
element = "size"
@*/
struct hil_generic_log_f32 {
    int32_t size; /* elements */
};

HIL_FUNCTION(hil_generic_log_f32, float, logf(x))

/*@kernel
name = "hil_generic_sin_f32"
requires = []
inputs = ["float"]
outputs = ["float"]
scratch = "0"
order = "elementwise"
code = 29
[cost]
element = "size"
@*/
struct hil_generic_sin_f32 {
    int32_t size; /* elements */
};

HIL_FUNCTION(hil_generic_sin_f32, float, sinf(x))

/*@kernel
name = "hil_generic_cos_f32"
requires = []
inputs = ["float"]
outputs = ["float"]
scratch = "0"
order = "elementwise"
code = 30
[cost]
element = "size"
@*/
struct hil_generic_cos_f32 {
    int32_t size; /* elements */
};

HIL_FUNCTION(hil_generic_cos_f32, float, cosf(x))

/*@kernel
name = "hil_generic_elu_f32"
requires = []
inputs = ["float"]
outputs = ["float"]
scratch = "0"
order = "elementwise"
code = 36
[cost]
element = "size"
@*/
struct hil_generic_elu_f32 {
    int32_t size; /* elements */
};

HIL_FUNCTION(hil_generic_elu_f32, float, x < 0.0f ? expm1f(x) : x)

/*@kernel
name = "hil_generic_gelu_f32"
requires = []
inputs = ["float"]
outputs = ["float"]
scratch = "0"
order = "elementwise"
code = 72
[cost]
element = "size"
@*/
struct hil_generic_gelu_f32 {
    int32_t size; /* elements */
};

HIL_FUNCTION(hil_generic_gelu_f32, float, 0.5f * x * erfcf(x * -0.707106769084930419921875f))

/*@kernel
name = "hil_generic_gelu_tanh_f32"
requires = []
inputs = ["float"]
outputs = ["float"]
scratch = "0"
order = "elementwise"
code = 112
[cost]
element = "size"
@*/
struct hil_generic_gelu_tanh_f32 {
    int32_t size; /* elements */
};

HIL_FUNCTION(hil_generic_gelu_tanh_f32, float,
             x / (1.0f + expf(-2.0f * (0.797884583473205566f * (x + 0.044715f * x * x * x)))))

/*@kernel
name = "hil_generic_abs_s32"
requires = []
inputs = ["int32_t"]
outputs = ["int32_t"]
scratch = "0"
order = "elementwise"
code = 28
[cost]
element = "size"
@*/
struct hil_generic_abs_s32 {
    int32_t size; /* elements */
};

HIL_FUNCTION(hil_generic_abs_s32, int32_t, (int32_t)(x < 0 ? 0u - (uint32_t)x : (uint32_t)x))

/*@kernel
name = "hil_generic_neg_s32"
requires = []
inputs = ["int32_t"]
outputs = ["int32_t"]
scratch = "0"
order = "elementwise"
code = 24
[cost]
element = "size"
@*/
struct hil_generic_neg_s32 {
    int32_t size; /* elements */
};

HIL_FUNCTION(hil_generic_neg_s32, int32_t, (int32_t)(0u - (uint32_t)x))

/*@kernel
name = "hil_generic_neg_s64"
requires = []
inputs = ["int64_t"]
outputs = ["int64_t"]
scratch = "0"
order = "elementwise"
code = 28
[cost]
element = "size"
@*/
struct hil_generic_neg_s64 {
    int32_t size; /* elements */
};

HIL_FUNCTION(hil_generic_neg_s64, int64_t, (int64_t)(UINT64_C(0) - (uint64_t)x))

/*@kernel
name = "hil_generic_sign_s32"
requires = []
inputs = ["int32_t"]
outputs = ["int32_t"]
scratch = "0"
order = "elementwise"
code = 36
[cost]
element = "size"
@*/
struct hil_generic_sign_s32 {
    int32_t size; /* elements */
};

HIL_FUNCTION(hil_generic_sign_s32, int32_t, (x > 0) - (x < 0))

/*@kernel
name = "hil_generic_not_bool"
requires = []
inputs = ["uint8_t"]
outputs = ["uint8_t"]
scratch = "0"
order = "elementwise"
code = 23
[cost]
element = "size"
@*/
struct hil_generic_not_bool {
    int32_t size; /* elements */
};

HIL_FUNCTION(hil_generic_not_bool, uint8_t, (uint8_t)(x == 0))

/*@kernel
name = "hil_generic_abs_s16"
requires = []
inputs = ["int16_t"]
outputs = ["int16_t"]
scratch = "0"
order = "elementwise"
code = 72
[cost]
element = "size"
@*/
struct hil_generic_abs_s16 {
    int32_t size;           /* elements */
    int32_t in_zero_point;  /* the input that stands for 0.0 */
    int32_t multiplier;     /* of the result, in Q0.31, to the output's scale */
    int32_t shift;          /* of that product, to the left; below 0 to the right */
    int32_t out_zero_point; /* the output that stands for 0.0 */
};

HIL_INLINE void hil_generic_abs_s16(const struct hil_generic_abs_s16 *p, const int16_t *in,
                                    int16_t *out) {
    for (int32_t i = 0; i < p->size; i++) {
        const int32_t steps = in[i] - p->in_zero_point;
        const int32_t scaled = hil_requantize(steps < 0 ? -steps : steps, p->multiplier, p->shift);
        out[i] = (int16_t)hil_clamp(scaled + p->out_zero_point, INT16_MIN, INT16_MAX);
    }
}

/* What is not above zero has no inverse root: it has that of zero, the largest output. */
/*@kernel
name = "hil_generic_rsqrt_s16"
requires = []
inputs = ["int16_t"]
outputs = ["int16_t"]
scratch = "0"
order = "elementwise"
code = 420
[cost]
element = "size"
@*/
struct hil_generic_rsqrt_s16 {
    int32_t size;          /* elements */
    int32_t in_zero_point; /* the input that stands for 0.0 */
    int32_t multiplier; /* of an inverse root raised by 20 bits, in Q0.31, to the output's scale */
    int32_t shift;      /* of that product, to the right where below 0, which it always is or 0 */
    int32_t out_zero_point; /* the output that stands for 0.0 */
};

HIL_INLINE void hil_generic_rsqrt_s16(const struct hil_generic_rsqrt_s16 *p, const int16_t *in,
                                      int16_t *out) {
    for (int32_t i = 0; i < p->size; i++) {
        const int32_t steps = in[i] - p->in_zero_point;
        int32_t y = INT16_MAX;
        if (steps > 0) {
            int shift = 0;
            const int32_t root = hil_inverse_sqrt(steps, &shift);
            const int32_t raised = hil_requantize(1, root, shift + 20);
            y = hil_requantize(raised, p->multiplier, p->shift) + p->out_zero_point;
        }
        out[i] = (int16_t)hil_clamp(y, INT16_MIN, INT16_MAX);
    }
}

/*@kernel
name = "hil_generic_zeros"
requires = []
inputs = []
outputs = ["void"]
scratch = "0"
order = "none"
code = 13
[cost]
byte = "bytes"
@*/
struct hil_generic_zeros {
    int32_t bytes; /* of the output */
};

HIL_INLINE void hil_generic_zeros(const struct hil_generic_zeros *p, void *out) {
    hil_fill(out, 0, p->bytes);
}

#endif
