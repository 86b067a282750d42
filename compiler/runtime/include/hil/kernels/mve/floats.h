/* Arithmetic of floats on Helium, whose vectors take subnormal numbers for 0 and give 0 for them,
 * and the predicated instructions of it: compilers take a predicate through a register of the core,
 * which takes longer than the instruction does.
 *
 * Tile: 4 numbers.
 *
 * Registers: of gcc's choice, vectors and core registers; the predicate is said to be lost.
 *
 * Data: vectors alone.
 *
 * Order: nothing is loaded or stored.
 *
 * Bounds: what is no number stays none, and is neither less nor greater than anything.
 *
 * Output: that of `hilc.numerics.floats`: `divide()` has the steps of hil_mve_divided_f32; the
 * nearest float wherever nothing subnormal is left over and the divisor is an integer below 2^22.
 *
 * Scratch: none.
 *
 * Cost: two instructions each, three for what may be infinite, four for a quotient.
 *
 * Tests: the interpreter, to the last bit, on numbers that are infinite, none and subnormal
 * (tests/board/test_float_kernels.py); `divide()` against IEEE's (tests/hilc/test_float_sums.py).
 */
#ifndef HIL_KERNELS_MVE_FLOATS_H
#define HIL_KERNELS_MVE_FLOATS_H

#include <arm_mve.h>
#include <float.h>
#include <math.h>

#include "hil/quant.h"

/* Comparisons are of what is greater: the instruction's "less than" is true of what is no number.
 */

/* x, or `end` where that is greater. */
HIL_INLINE float32x4_t hil_mve_raised_f32(float32x4_t x, float32x4_t end) {
#ifdef __clang__
    return vpselq_f32(end, x, vcmpgtq_f32(end, x));
#else
    __asm__("vpt.f32 gt, %q1, %q0\n\tvmovt %q0, %q1" : "+w"(x) : "w"(end) : "p0");
    return x;
#endif
}

/* x, or `end` where x is greater. */
HIL_INLINE float32x4_t hil_mve_lowered_f32(float32x4_t x, float32x4_t end) {
#ifdef __clang__
    return vpselq_f32(end, x, vcmpgtq_f32(x, end));
#else
    __asm__("vpt.f32 gt, %q0, %q1\n\tvmovt %q0, %q1" : "+w"(x) : "w"(end) : "p0");
    return x;
#endif
}

/* x, or 0 where `end` is greater than y. */
HIL_INLINE float32x4_t hil_mve_zero_below_f32(float32x4_t x, float32x4_t y, float32x4_t end) {
#ifdef __clang__
    return vpselq_f32(vdupq_n_f32(0.0F), x, vcmpgtq_f32(end, y));
#else
    __asm__("vpt.f32 gt, %q2, %q1\n\tveort %q0, %q0, %q0" : "+w"(x) : "w"(y), "w"(end) : "p0");
    return x;
#endif
}

/* x, or `other` where `end` is greater than y. */
HIL_INLINE float32x4_t hil_mve_other_below_f32(float32x4_t x, float32x4_t other, float32x4_t y,
                                               float32x4_t end) {
#ifdef __clang__
    return vpselq_f32(other, x, vcmpgtq_f32(end, y));
#else
    __asm__("vpt.f32 gt, %q3, %q2\n\tvmovt %q0, %q1"
            : "+w"(x)
            : "w"(other), "w"(y), "w"(end)
            : "p0");
    return x;
#endif
}

/* x, or the largest number of its sign where it is infinite: its bits less one. */
HIL_INLINE float32x4_t hil_mve_finite_f32(float32x4_t x) {
    const float32x4_t magnitude = vabsq_f32(x);
#ifdef __clang__
    const int32x4_t bits = vreinterpretq_s32_f32(x);
    const mve_pred16_t infinite = vcmpeqq_n_f32(magnitude, INFINITY);
    return vreinterpretq_f32_s32(vsubq_m_n_s32(bits, bits, 1, infinite));
#else
    __asm__("vpt.f32 eq, %q1, %2\n\tvsubt.i32 %q0, %q0, %3"
            : "+w"(x)
            : "w"(magnitude), "r"(INFINITY), "r"(1)
            : "p0");
    return x;
#endif
}

/* x, or `other` where x is negative. */
HIL_INLINE int32x4_t hil_mve_if_negative_s32(int32x4_t x, int32x4_t other) {
#ifdef __clang__
    return vpselq_s32(other, x, vcmpltq_n_s32(x, 0));
#else
    __asm__("vpt.s32 lt, %q0, zr\n\tvmovt %q0, %q1" : "+w"(x) : "w"(other) : "p0");
    return x;
#endif
}

/* sum + x * y, or `sum` where x is no number. */
HIL_INLINE float32x4_t hil_mve_add_if_number_f32(float32x4_t sum, float32x4_t x, float y) {
#ifdef __clang__
    return vfmaq_m_n_f32(sum, x, y, vcmpeqq_f32(x, x));
#else
    __asm__("vpt.f32 eq, %q1, %q1\n\tvfmat.f32 %q0, %q1, %2" : "+w"(sum) : "w"(x), "r"(y) : "p0");
    return sum;
#endif
}

/* hil_clamp_f32() of four numbers, of which none is subnormal; what is no number stays none. */
HIL_INLINE float32x4_t hil_mve_clamped_f32(float32x4_t x, float low, float high) {
    if (low == -FLT_MAX && high == FLT_MAX) {
        return hil_mve_finite_f32(x);
    }
    if (low > -INFINITY) {
        x = hil_mve_raised_f32(x, vdupq_n_f32(low));
    }
    if (high < INFINITY) {
        x = hil_mve_lowered_f32(x, vdupq_n_f32(high));
    }
    return x;
}

/* x / divisor from the divisor's reciprocal, rounded: what the first quotient leaves over corrects
 * it. That is no number where the quotient is infinite. */
HIL_INLINE float32x4_t hil_mve_divided_f32(float32x4_t x, float divisor, float reciprocal) {
    const float32x4_t quotient = vmulq_n_f32(x, reciprocal);
    const float32x4_t rest = vfmaq_n_f32(x, quotient, -divisor);
    return hil_mve_add_if_number_f32(quotient, rest, reciprocal);
}

/* A function of four numbers by the scalar instruction of each, which takes subnormal numbers as
 * they are: vectors have none for roots and quotients, and no other for the rest. */
#define HIL_MVE_LANES_F32(name, each)                                                              \
    HIL_INLINE float32x4_t name(float32x4_t x) {                                                   \
        register float32x4_t lanes __asm__("q0") = x;                                              \
        __asm__(each("s0") each("s1") each("s2") each("s3") : "+w"(lanes) : : HIL_MVE_LANES_LOST); \
        return lanes;                                                                              \
    }
#define HIL_MVE_LANES_LOST "s4", "s5"
#define HIL_MVE_ROOT_F32(s) "vsqrt.f32 " s ", " s "\n\t"
#define HIL_MVE_INVERSE_ROOT_F32(s)                                                                \
    "vmov.f32 s4, #1.0\n\tvsqrt.f32 s5, " s "\n\tvdiv.f32 " s ", s4, s5\n\t"
#define HIL_MVE_FLOOR_F32(s) "vrintm.f32 " s ", " s "\n\t"
#define HIL_MVE_CEIL_F32(s) "vrintp.f32 " s ", " s "\n\t"
#define HIL_MVE_ROUND_F32(s) "vrintn.f32 " s ", " s "\n\t"
#define HIL_MVE_SQUARE_F32(s) "vmul.f32 " s ", " s ", " s "\n\t"

HIL_MVE_LANES_F32(hil_mve_root_of_f32, HIL_MVE_ROOT_F32)
HIL_MVE_LANES_F32(hil_mve_inverse_root_of_f32, HIL_MVE_INVERSE_ROOT_F32)
HIL_MVE_LANES_F32(hil_mve_floor_of_f32, HIL_MVE_FLOOR_F32)
HIL_MVE_LANES_F32(hil_mve_ceil_of_f32, HIL_MVE_CEIL_F32)
HIL_MVE_LANES_F32(hil_mve_round_of_f32, HIL_MVE_ROUND_F32)
HIL_MVE_LANES_F32(hil_mve_square_of_f32, HIL_MVE_SQUARE_F32)

#endif
