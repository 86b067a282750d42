/* Sums and differences of two int8 tensors of one shape, four elements at a time. */
#ifndef HIL_KERNELS_MVE_BINARY_H
#define HIL_KERNELS_MVE_BINARY_H

#include <arm_mve.h>

#include "hil/quant.h"

/*@kernel
name = "hil_sum_s8_mve"
requires = ["mve"]
inputs = ["int8_t", "int8_t"]
outputs = ["int8_t"]
scratch = "0"
order = "elementwise"
@*/
struct hil_sum_s8_mve {
    int32_t size;
    int32_t subtract; /* 1: b is taken from a */
    int32_t a_zero_point;
    int32_t a_mantissa;
    int32_t a_shift; /* 0 for a factor of one half, below 0 for others; the same for b */
    int32_t b_zero_point;
    int32_t b_mantissa;
    int32_t b_shift;
    int32_t out_zero_point;
    int32_t out_mantissa;
    int32_t out_shift; /* below 0 */
    int32_t low;
    int32_t high;
};

/* hil_rounding_divide_by_pot(x, -shift) for shift < 0: vrshl alone rounds halves up. */
HIL_INLINE int32x4_t hil_mve_divide_by_pot(int32x4_t x, int32_t shift) {
    const int32x4_t away = vsubq_m_n_s32(x, x, 1, vcmpltq_n_s32(x, 0));
    return vrshlq_n_s32(away, shift);
}

/* hil_sum_s8_operand() of x less its zero point. */
HIL_INLINE int32x4_t hil_mve_sum_operand(int32x4_t x, int32_t zero_point, int32_t mantissa,
                                         int32_t shift) {
    if (shift == 0) {
        return vaddq_n_s32(vshlq_n_s32(x, 19), -zero_point * (INT32_C(1) << 19));
    }
    const int32x4_t raised = vaddq_n_s32(vshlq_n_s32(x, 20), -zero_point * (INT32_C(1) << 20));
    return hil_mve_divide_by_pot(vqrdmulhq_n_s32(raised, mantissa), shift);
}

HIL_INLINE int32x4_t hil_mve_sum(const struct hil_sum_s8_mve *p, int32x4_t a, int32x4_t b) {
    const int32x4_t x = hil_mve_sum_operand(a, p->a_zero_point, p->a_mantissa, p->a_shift);
    const int32x4_t y = hil_mve_sum_operand(b, p->b_zero_point, p->b_mantissa, p->b_shift);
    const int32x4_t sum = p->subtract ? vsubq_s32(x, y) : vaddq_s32(x, y);
    const int32x4_t product = vqrdmulhq_n_s32(sum, p->out_mantissa);
    /* Where nothing below the zero point remains, how that rounds does not matter. */
    const int32x4_t scaled = p->low < p->out_zero_point
                                 ? hil_mve_divide_by_pot(product, p->out_shift)
                                 : vrshlq_n_s32(product, p->out_shift);
    const int32x4_t moved = vaddq_n_s32(scaled, p->out_zero_point);
    return vminq_s32(vmaxq_s32(moved, vdupq_n_s32(p->low)), vdupq_n_s32(p->high));
}

HIL_INLINE void hil_sum_s8_mve(const struct hil_sum_s8_mve *p, const int8_t *a, const int8_t *b,
                               int8_t *out) {
    for (int32_t fours = p->size / 4; fours > 0; fours--) {
        vstrbq_s32(out, hil_mve_sum(p, vldrbq_s32(a), vldrbq_s32(b)));
        a += 4;
        b += 4;
        out += 4;
    }
    if (p->size % 4 != 0) {
        const mve_pred16_t rest = vctp32q((uint32_t)(p->size % 4));
        vstrbq_p_s32(out, hil_mve_sum(p, vldrbq_z_s32(a, rest), vldrbq_z_s32(b, rest)), rest);
    }
}

/* The same as one scaled sum of both, where the compiler found factors that are right for every pair
 * of values. */
/*@kernel
name = "hil_scaled_sum_s8_mve"
requires = ["mve"]
inputs = ["int8_t", "int8_t"]
outputs = ["int8_t"]
scratch = "0"
order = "elementwise"
@*/
struct hil_scaled_sum_s8_mve {
    int32_t size;
    int32_t a_factor; /* of the values as they are; the output is (a * a_factor + b * b_factor + */
    int32_t b_factor; /* constant) >> shift, within int32 for every pair, then clamped */
    int32_t constant;
    int32_t shift;
    int32_t low;
    int32_t high;
};

/* Eight sums of values at even and at odd places, as 16-bit values that alternate. */
HIL_INLINE int16x8_t hil_mve_scaled_sums(const struct hil_scaled_sum_s8_mve *p, int32x4_t even_a,
                                         int32x4_t odd_a, int32x4_t even_b, int32x4_t odd_b) {
    const int32x4_t factor = vdupq_n_s32(p->a_factor);
    int32x4_t even = vmlasq_n_s32(even_a, factor, p->constant);
    int32x4_t odd = vmlasq_n_s32(odd_a, factor, p->constant);
    even = vshlq_r_s32(vmlaq_n_s32(even, even_b, p->b_factor), -p->shift);
    odd = vshlq_r_s32(vmlaq_n_s32(odd, odd_b, p->b_factor), -p->shift);
    return vqmovntq_s32(vqmovnbq_s32(vuninitializedq_s16(), even), odd);
}

/* Within the bounds, in the lower bytes. */
HIL_INLINE int8x16_t hil_mve_bounded(const struct hil_scaled_sum_s8_mve *p, int16x8_t x) {
    if (p->low == INT8_MIN && p->high == INT8_MAX) {
        return vqmovnbq_s16(vuninitializedq_s8(), x);
    }
    x = vmaxq_s16(x, vdupq_n_s16((int16_t)p->low));
    return vreinterpretq_s8_s16(vminq_s16(x, vdupq_n_s16((int16_t)p->high)));
}

HIL_INLINE void hil_scaled_sum_s8_mve(const struct hil_scaled_sum_s8_mve *p, const int8_t *a,
                                      const int8_t *b, int8_t *out) {
    /* Four values and the four behind them; the outputs alternate. */
    const uint16x8_t lane = vidupq_n_u16(0, 1);
    const uint16x8_t places = vaddq_u16(vshrq_n_u16(lane, 1), vshlq_n_u16(vandq_u16(lane, vdupq_n_u16(1)), 2));
    for (int32_t eights = p->size / 8; eights > 0; eights--) {
        const int16x8_t sums = hil_mve_scaled_sums(p, vldrbq_s32(a), vldrbq_s32(a + 4),
                                                   vldrbq_s32(b), vldrbq_s32(b + 4));
        vstrbq_scatter_offset_s16(out, places, vreinterpretq_s16_s8(hil_mve_bounded(p, sums)));
        a += 8;
        b += 8;
        out += 8;
    }
    for (int32_t i = p->size % 8; i > 0; i--) {
        const int32_t scaled = (*a++ * p->a_factor + *b++ * p->b_factor + p->constant) >> p->shift;
        *out++ = hil_clamp_s8(scaled, p->low, p->high);
    }
}

#endif
