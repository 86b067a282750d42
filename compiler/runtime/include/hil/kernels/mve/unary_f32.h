/* Functions of single floats on Helium, four elements at a time: those of several steps by the
 * steps of hilc.numerics.floats, without the C library. */
#ifndef HIL_KERNELS_MVE_UNARY_F32_H
#define HIL_KERNELS_MVE_UNARY_F32_H

#include "hil/kernels/mve/functions_f32.h"

/* hilc.numerics.floats.exp_on_vectors(). */
HIL_INLINE float32x4_t hil_mve_exp_of_f32(float32x4_t x) {
    return hil_mve_other_below_f32(hil_mve_exp_of_negative(x), vdupq_n_f32(INFINITY),
                                   vdupq_n_f32(0x1.62e42ep+6F), x);
}

/* hilc.numerics.floats.elu_on_vectors(). */
HIL_INLINE float32x4_t hil_mve_elu_of_f32(float32x4_t x) {
    const float32x4_t half = vmulq_n_f32(vabsq_f32(x), 0.5F);
    const float32x4_t e = hil_mve_exp_less_one(hil_mve_lowered_f32(half, vdupq_n_f32(10.0F)));
    return hil_mve_other_below_f32(x, e, x, vdupq_n_f32(0.0F));
}

/* 1 / x from the negated bits, which are off by an eighth, and three steps of Newton's method. */
HIL_INLINE float32x4_t hil_mve_wide_reciprocal_f32(float32x4_t x) {
    const float32x4_t minus_x = vnegq_f32(x);
    const float32x4_t one = vdupq_n_f32(1.0F);
    float32x4_t guess =
        vreinterpretq_f32_s32(vsubq_s32(vdupq_n_s32(0x7ef311c7), vreinterpretq_s32_f32(x)));
    guess = vfmaq_f32(guess, guess, vfmaq_f32(one, guess, minus_x));
    guess = vfmaq_f32(guess, guess, vfmaq_f32(one, guess, minus_x));
    return vfmaq_f32(guess, guess, vfmaq_f32(one, guess, minus_x));
}

/* hilc.numerics.floats.gelu_on_vectors(). */
HIL_INLINE float32x4_t hil_mve_gelu_of_f32(float32x4_t x) {
    const float32x4_t size = hil_mve_lowered_f32(vabsq_f32(x), vdupq_n_f32(14.0F));
    const float32x4_t power = hil_mve_exp_of_negative(vmulq_n_f32(vmulq_f32(size, size), -0.5F));
    const float32x4_t t = hil_mve_wide_reciprocal_f32(vfmaq_n_f32(vdupq_n_f32(1.0F), size, 0.25F));
    float32x4_t tail = vfmasq_n_f32(vdupq_n_f32(0x1.1c3218p-5F), t, -0x1.9a05d2p-3F);
    tail = vfmasq_n_f32(tail, t, 0x1.9e274ap-2F);
    tail = vfmasq_n_f32(tail, t, -0x1.625ab2p-2F);
    tail = vfmasq_n_f32(tail, t, 0x1.428520p-2F);
    tail = vfmasq_n_f32(tail, t, -0x1.aa7844p-6F);
    tail = vfmasq_n_f32(tail, t, 0x1.fa0048p-4F);
    tail = vfmasq_n_f32(tail, t, 0x1.82a26ep-4F);
    tail = vfmasq_n_f32(tail, t, 0x1.9ac0a0p-4F);
    tail = vfmasq_n_f32(tail, t, -0x1.98b8e6p-16F);
    const float32x4_t share = vmulq_f32(tail, power);
    const float32x4_t other = vsubq_f32(vdupq_n_f32(1.0F), share);
    return vmulq_f32(x, hil_mve_other_below_f32(other, share, x, vdupq_n_f32(0.0F)));
}

/* hilc.numerics.floats.gelu_tanh_on_vectors(). */
HIL_INLINE float32x4_t hil_mve_gelu_tanh_of_f32(float32x4_t x) {
    const float32x4_t one = vdupq_n_f32(1.0F);
    const float32x4_t factor =
        vfmaq_n_f32(vdupq_n_f32(0x1.988454p+0F), vmulq_f32(x, x), 0x1.2444f2p-4F);
    const float32x4_t inner = vmulq_f32(factor, x);
    const float32x4_t power = hil_mve_exp_of_negative(vnegq_f32(vabsq_f32(inner)));
    const float32x4_t top = hil_mve_other_below_f32(one, power, inner, vdupq_n_f32(0.0F));
    return vmulq_f32(x, hil_mve_quotient_f32(top, vaddq_f32(one, power)));
}

/* hilc.numerics.floats.log_on_vectors(). */
HIL_INLINE float32x4_t hil_mve_log_of_f32(float32x4_t x) {
    const int32x4_t place = vsubq_n_s32(vreinterpretq_s32_f32(x), 0x3f3504f3);
    const float32x4_t n = vcvtq_f32_s32(vshrq_n_s32(place, 23));
    const int32x4_t significand = vaddq_n_s32(vandq_s32(place, vdupq_n_s32(0x7fffff)), 0x3f3504f3);
    const float32x4_t f = vaddq_n_f32(vreinterpretq_f32_s32(significand), -1.0F);
    const float32x4_t square = vmulq_f32(f, f);
    float32x4_t rest = vfmasq_n_f32(vdupq_n_f32(-0x1.38b58cp-4F), f, 0x1.055b70p-3F);
    rest = vfmasq_n_f32(rest, f, -0x1.0d8542p-3F);
    rest = vfmasq_n_f32(rest, f, 0x1.22da1cp-3F);
    rest = vfmasq_n_f32(rest, f, -0x1.547244p-3F);
    rest = vfmasq_n_f32(rest, f, 0x1.99a008p-3F);
    rest = vfmasq_n_f32(rest, f, -0x1.000226p-2F);
    rest = vfmasq_n_f32(rest, f, 0x1.555554p-2F);
    rest = vmulq_f32(rest, vmulq_f32(square, f));
    rest = vfmaq_n_f32(rest, n, 0x1.7f7d1cp-20F);
    rest = vfmaq_n_f32(rest, square, -0.5F);
    float32x4_t y = vfmaq_n_f32(vaddq_f32(rest, f), n, 0x1.62e4p-1F);
    /* What is no number stays none; what is infinite does below. */
    y = vaddq_f32(y, vsubq_f32(x, x));
    y = hil_mve_other_below_f32(y, x, vdupq_n_f32(FLT_MAX), x);
    y = hil_mve_other_below_f32(y, vdupq_n_f32(NAN), x, vdupq_n_f32(0.0F));
    return hil_mve_other_below_f32(y, vdupq_n_f32(-INFINITY), vabsq_f32(x), vdupq_n_f32(FLT_MIN));
}

/* hilc.numerics.floats.hard_swish_on_vectors(). */
HIL_INLINE float32x4_t hil_mve_hard_swish_of_f32(float32x4_t x) {
    const float32x4_t ramp = hil_mve_lowered_f32(
        hil_mve_raised_f32(vaddq_n_f32(x, 3.0F), vdupq_n_f32(0.0F)), vdupq_n_f32(6.0F));
    return hil_mve_divided_f32(vmulq_f32(x, ramp), 6.0F, 1.0F / 6.0F);
}

/*@kernel
name = "hil_mve_exp_f32"
requires = ["mve", "fpu"]
inputs = ["float"]
outputs = ["float"]
scratch = "0"
order = "elementwise"
code = 300
[cost]
four = "size // 4"
rest = "(size - size // 4 * 4 + 3) // 4"
@*/
struct hil_mve_exp_f32 {
    int32_t size; /* elements */
};

HIL_MVE_FUNCTION_F32(hil_mve_exp_f32, hil_mve_exp_of_f32)

/*@kernel
name = "hil_mve_log_f32"
requires = ["mve", "fpu"]
inputs = ["float"]
outputs = ["float"]
scratch = "0"
order = "elementwise"
code = 340
[cost]
four = "size // 4"
rest = "(size - size // 4 * 4 + 3) // 4"
@*/
struct hil_mve_log_f32 {
    int32_t size; /* elements */
};

HIL_MVE_FUNCTION_F32(hil_mve_log_f32, hil_mve_log_of_f32)

/*@kernel
name = "hil_mve_elu_f32"
requires = ["mve", "fpu"]
inputs = ["float"]
outputs = ["float"]
scratch = "0"
order = "elementwise"
code = 320
[cost]
four = "size // 4"
rest = "(size - size // 4 * 4 + 3) // 4"
@*/
struct hil_mve_elu_f32 {
    int32_t size; /* elements */
};

HIL_MVE_FUNCTION_F32(hil_mve_elu_f32, hil_mve_elu_of_f32)

/*@kernel
name = "hil_mve_gelu_f32"
requires = ["mve", "fpu"]
inputs = ["float"]
outputs = ["float"]
scratch = "0"
order = "elementwise"
code = 560
[cost]
four = "size // 4"
rest = "(size - size // 4 * 4 + 3) // 4"
@*/
struct hil_mve_gelu_f32 {
    int32_t size; /* elements */
};

HIL_MVE_FUNCTION_F32(hil_mve_gelu_f32, hil_mve_gelu_of_f32)

/*@kernel
name = "hil_mve_gelu_tanh_f32"
requires = ["mve", "fpu"]
inputs = ["float"]
outputs = ["float"]
scratch = "0"
order = "elementwise"
code = 420
[cost]
four = "size // 4"
rest = "(size - size // 4 * 4 + 3) // 4"
@*/
struct hil_mve_gelu_tanh_f32 {
    int32_t size; /* elements */
};

HIL_MVE_FUNCTION_F32(hil_mve_gelu_tanh_f32, hil_mve_gelu_tanh_of_f32)

/*@kernel
name = "hil_mve_hard_swish_f32"
requires = ["mve", "fpu"]
inputs = ["float"]
outputs = ["float"]
scratch = "0"
order = "elementwise"
code = 200
[cost]
four = "size // 4"
rest = "(size - size // 4 * 4 + 3) // 4"
@*/
struct hil_mve_hard_swish_f32 {
    int32_t size; /* elements */
};

HIL_MVE_FUNCTION_F32(hil_mve_hard_swish_f32, hil_mve_hard_swish_of_f32)

/*@kernel
name = "hil_mve_sqrt_f32"
requires = ["mve", "fpu"]
inputs = ["float"]
outputs = ["float"]
scratch = "0"
order = "elementwise"
code = 90
[cost]
four = "size // 4"
rest = "(size - size // 4 * 4 + 3) // 4"
@*/
struct hil_mve_sqrt_f32 {
    int32_t size; /* elements */
};

HIL_MVE_FUNCTION_F32(hil_mve_sqrt_f32, hil_mve_root_of_f32)

/*@kernel
name = "hil_mve_rsqrt_f32"
requires = ["mve", "fpu"]
inputs = ["float"]
outputs = ["float"]
scratch = "0"
order = "elementwise"
code = 90
[cost]
four = "size // 4"
rest = "(size - size // 4 * 4 + 3) // 4"
@*/
struct hil_mve_rsqrt_f32 {
    int32_t size; /* elements */
};

HIL_MVE_FUNCTION_F32(hil_mve_rsqrt_f32, hil_mve_inverse_root_of_f32)

/*@kernel
name = "hil_mve_floor_f32"
requires = ["mve", "fpu"]
inputs = ["float"]
outputs = ["float"]
scratch = "0"
order = "elementwise"
code = 90
[cost]
four = "size // 4"
rest = "(size - size // 4 * 4 + 3) // 4"
@*/
struct hil_mve_floor_f32 {
    int32_t size; /* elements */
};

HIL_MVE_FUNCTION_F32(hil_mve_floor_f32, hil_mve_floor_of_f32)

/*@kernel
name = "hil_mve_ceil_f32"
requires = ["mve", "fpu"]
inputs = ["float"]
outputs = ["float"]
scratch = "0"
order = "elementwise"
code = 90
[cost]
four = "size // 4"
rest = "(size - size // 4 * 4 + 3) // 4"
@*/
struct hil_mve_ceil_f32 {
    int32_t size; /* elements */
};

HIL_MVE_FUNCTION_F32(hil_mve_ceil_f32, hil_mve_ceil_of_f32)

/*@kernel
name = "hil_mve_round_f32"
requires = ["mve", "fpu"]
inputs = ["float"]
outputs = ["float"]
scratch = "0"
order = "elementwise"
code = 90
[cost]
four = "size // 4"
rest = "(size - size // 4 * 4 + 3) // 4"
@*/
struct hil_mve_round_f32 {
    int32_t size; /* elements */
};

HIL_MVE_FUNCTION_F32(hil_mve_round_f32, hil_mve_round_of_f32)

/*@kernel
name = "hil_mve_square_f32"
requires = ["mve", "fpu"]
inputs = ["float"]
outputs = ["float"]
scratch = "0"
order = "elementwise"
code = 90
[cost]
four = "size // 4"
rest = "(size - size // 4 * 4 + 3) // 4"
@*/
struct hil_mve_square_f32 {
    int32_t size; /* elements */
};

HIL_MVE_FUNCTION_F32(hil_mve_square_f32, hil_mve_square_of_f32)

/*@kernel
name = "hil_mve_abs_f32"
requires = ["mve", "fpu"]
inputs = ["float"]
outputs = ["float"]
scratch = "0"
order = "elementwise"
code = 90
[cost]
four = "size // 4"
rest = "(size - size // 4 * 4 + 3) // 4"
@*/
struct hil_mve_abs_f32 {
    int32_t size; /* elements */
};

HIL_MVE_FUNCTION_F32(hil_mve_abs_f32, vabsq_f32)

/*@kernel
name = "hil_mve_neg_f32"
requires = ["mve", "fpu"]
inputs = ["float"]
outputs = ["float"]
scratch = "0"
order = "elementwise"
code = 90
[cost]
four = "size // 4"
rest = "(size - size // 4 * 4 + 3) // 4"
@*/
struct hil_mve_neg_f32 {
    int32_t size; /* elements */
};

HIL_MVE_FUNCTION_F32(hil_mve_neg_f32, vnegq_f32)

/* Functions with parameters. */
#define HIL_MVE_LEAKY_F32(x)                                                                       \
    hil_mve_other_below_f32(vmulq_n_f32((x), p->alpha), (x), vdupq_n_f32(0.0F), (x))
#define HIL_MVE_CLAMP_F32(x) hil_mve_clamped_f32((x), p->low, p->high)

/*@kernel
name = "hil_mve_leaky_relu_f32"
requires = ["mve", "fpu"]
inputs = ["float"]
outputs = ["float"]
scratch = "0"
order = "elementwise"
code = 120
[cost]
four = "size // 4"
rest = "(size - size // 4 * 4 + 3) // 4"
@*/
struct hil_mve_leaky_relu_f32 {
    int32_t size; /* elements */
    float alpha;  /* factor of values below 0 */
};

HIL_MVE_FUNCTION_F32(hil_mve_leaky_relu_f32, HIL_MVE_LEAKY_F32)

/*@kernel
name = "hil_mve_clamp_f32"
requires = ["mve", "fpu"]
inputs = ["float"]
outputs = ["float"]
scratch = "0"
order = "elementwise"
code = 120
[cost]
four = "size // 4"
rest = "(size - size // 4 * 4 + 3) // 4"
@*/
struct hil_mve_clamp_f32 {
    int32_t size; /* elements */
    float low;    /* the least output */
    float high;   /* the largest output */
};

HIL_MVE_FUNCTION_F32(hil_mve_clamp_f32, HIL_MVE_CLAMP_F32)

#endif
