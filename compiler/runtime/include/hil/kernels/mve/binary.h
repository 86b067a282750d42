/* Sums and differences of two int8 tensors of one shape on Helium: hil_mve_sum_s8 in the
 * reference's own steps, hil_mve_sum_s8_scaled as one scaled sum of both.
 *
 * Tile: 4 elements by intrinsics; 16 elements in assembly.
 *
 * Registers, of the assembly: q0 q1 q2 four values of a, then sums; q3 four of b; vectors of gcc's
 * choice with the factor of a, the places of the outputs and both bounds; core registers a, b, out,
 * constant, factor of b, shift; lr the sixteens left.
 *
 * Data: plain tensors; the factors are searched by `_scaled_sum()`.
 *
 * Order: elements in order; sixteen are read before they are written, so the output may be an
 * input.
 *
 * Bounds: 128 * (|factor of a| + |factor of b|) + |constant| < 2^31, checked by `_scaled_sum()`. In
 * the reference's steps operands are at most 255 * 2^20 < 2^28.
 *
 * Output: (a * factor + b * factor + constant) >> shift, clamped: the upper half of the sum, then
 * moved so that the output is its upper byte, where it saturates; shifts are 16 to 24.
 * `_scaled_sum()` compares it with the reference for all 65,536 pairs of values and gives it up
 * where one differs. hil_mve_sum_s8 rounds as blocks_s8.h does, with the correction where negatives
 * remain.
 *
 * Scratch: none.
 *
 * Cost, measured (`hil tune` on mps3-an547, instructions under QEMU): scaled 1.63 an element, in
 * steps 6.00 (ic, 32x32x16).
 *
 * Tests: the numpy reference (tests/board/test_kernels.py, buffers between guard bytes); the last
 * elements of the scaled sum are its twin in C.
 */
#ifndef HIL_KERNELS_MVE_BINARY_H
#define HIL_KERNELS_MVE_BINARY_H

#include <arm_mve.h>

#include "hil/quant.h"

/*@kernel
name = "hil_mve_sum_s8"
requires = ["mve"]
inputs = ["int8_t", "int8_t"]
outputs = ["int8_t"]
scratch = "0"
order = "elementwise"
code = 184
[cost]
element = "size"
@*/
struct hil_mve_sum_s8 {
    int32_t size;           /* elements */
    int32_t subtract;       /* 1: b is taken from a */
    int32_t a_zero_point;   /* the first operand's value that stands for 0.0 */
    int32_t a_multiplier;   /* of the first operand, in Q0.31 */
    int32_t a_shift;        /* 0 for a factor of one half, below 0 for others; the same for b */
    int32_t b_zero_point;   /* the second operand's value that stands for 0.0 */
    int32_t b_multiplier;   /* of the second operand, in Q0.31 */
    int32_t b_shift;        /* of that product, as a_shift */
    int32_t out_zero_point; /* the output that stands for 0.0 */
    int32_t out_multiplier; /* of the sum, in Q0.31 */
    int32_t out_shift;      /* below 0 */
    int32_t low;            /* the least output */
    int32_t high;           /* the largest output */
};

/* hil_rounding_divide_by_pot(x, -shift) for shift < 0: vrshl alone rounds halves up. */
HIL_INLINE int32x4_t hil_mve_divide_by_pot(int32x4_t x, int32_t shift) {
    const int32x4_t away = vsubq_m_n_s32(x, x, 1, vcmpltq_n_s32(x, 0));
    return vrshlq_n_s32(away, shift);
}

/* hil_sum_s8_operand() of x less its zero point. */
HIL_INLINE int32x4_t hil_mve_sum_operand(int32x4_t x, int32_t zero_point, int32_t multiplier,
                                         int32_t shift) {
    if (shift == 0) {
        return vaddq_n_s32(vshlq_n_s32(x, 19), -zero_point * (INT32_C(1) << 19));
    }
    const int32x4_t raised = vaddq_n_s32(vshlq_n_s32(x, 20), -zero_point * (INT32_C(1) << 20));
    return hil_mve_divide_by_pot(vqrdmulhq_n_s32(raised, multiplier), shift);
}

HIL_INLINE int32x4_t hil_mve_sum(const struct hil_mve_sum_s8 *p, int32x4_t a, int32x4_t b) {
    const int32x4_t x = hil_mve_sum_operand(a, p->a_zero_point, p->a_multiplier, p->a_shift);
    const int32x4_t y = hil_mve_sum_operand(b, p->b_zero_point, p->b_multiplier, p->b_shift);
    const int32x4_t sum = p->subtract ? vsubq_s32(x, y) : vaddq_s32(x, y);
    const int32x4_t product = vqrdmulhq_n_s32(sum, p->out_multiplier);
    /* Where nothing below the zero point remains, how that rounds does not matter. */
    const int32x4_t scaled = p->low < p->out_zero_point
                                 ? hil_mve_divide_by_pot(product, p->out_shift)
                                 : vrshlq_n_s32(product, p->out_shift);
    const int32x4_t moved = vaddq_n_s32(scaled, p->out_zero_point);
    return vminq_s32(vmaxq_s32(moved, vdupq_n_s32(p->low)), vdupq_n_s32(p->high));
}

HIL_INLINE void hil_mve_sum_s8(const struct hil_mve_sum_s8 *p, const int8_t *a, const int8_t *b,
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

/* The same as one scaled sum of both, where the compiler found factors that are right for every
 * pair of values. */
/*@kernel
name = "hil_mve_sum_s8_scaled"
requires = ["mve"]
inputs = ["int8_t", "int8_t"]
outputs = ["int8_t"]
scratch = "0"
order = "elementwise"
code = 144
variable = ["a_factor", "b_factor", "constant", "shift"]
[cost]
sixteen = "size // 16"
four = "(size % 16 + 3) // 4"
@*/
struct hil_mve_sum_s8_scaled {
    int32_t size;     /* elements */
    int32_t a_factor; /* of the first operand; the output is (a * a_factor + b * b_factor +
                         constant) >> shift, within int32 for every pair, then clamped */
    int32_t b_factor; /* of the second operand */
    int32_t constant; /* added to both products */
    int32_t shift;    /* to the right, of the sum, 16 to 24 */
    int32_t low;      /* the least output */
    int32_t high;     /* the largest output */
};

/* Sixteen sums a turn. Narrowed they alternate: element 0, 8, 1, 9, ... in q0, 4, 12, 5, 13, ... in
 * q1, and then 0, 4, 8, 12, 1, ... */
/* clang-format off */
#define HIL_MVE_SCALED_SUM(q, next)                                                                \
    "vldrb.s32 " q ", [%[a]], " next "\n"                                                          \
    "vldrb.s32 q3, [%[b]], " next "\n"                                                             \
    "vmlas.s32 " q ", %q[factor], %[constant]\n"                                                   \
    "vmla.s32 " q ", q3, %[b_factor]\n"
#define HIL_MVE_SCALED_SUMS(clamp)                                                                 \
    __asm__ volatile("dls lr, %[sixteens]\n"                                                       \
                     "1:\n"                                                                        \
                     HIL_MVE_SCALED_SUM("q0", "#8")                                                \
                     HIL_MVE_SCALED_SUM("q1", "#-4")                                               \
                     "vshrnb.i32 q0, q0, #16\n"                                                    \
                     "vshrnt.i32 q0, q1, #16\n"                                                    \
                     HIL_MVE_SCALED_SUM("q1", "#8")                                                \
                     HIL_MVE_SCALED_SUM("q2", "#4")                                                \
                     "vshrnb.i32 q1, q1, #16\n"                                                    \
                     "vshrnt.i32 q1, q2, #16\n"                                                    \
                     "vqshl.s16 q0, %[left]\n"                                                     \
                     "vqshl.s16 q1, %[left]\n"                                                     \
                     "vsri.16 q1, q0, #8\n" clamp                                                  \
                     "vstrb.8 q1, [%[out], %q[places]]\n"                                          \
                     "adds %[out], #16\n"                                                          \
                     "le lr, 1b\n"                                                                 \
                     : [a] "+l"(a), [b] "+l"(b), [out] "+l"(out)                                   \
                     : [factor] "w"(factor), [places] "w"(places), [low] "w"(low),                 \
                       [high] "w"(high), [constant] "r"(p->constant),                              \
                       [b_factor] "r"(p->b_factor), [left] "r"(24 - p->shift),                     \
                       [sixteens] "r"(sixteens)                                                    \
                     : "q0", "q1", "q2", "q3", "lr", "cc", "memory")
/* clang-format on */
#define HIL_MVE_SCALED_SUMS_CLAMP                                                                  \
    "vmax.s8 q1, q1, %q[low]\n"                                                                    \
    "vmin.s8 q1, q1, %q[high]\n"

/* Up to four sums. */
HIL_INLINE void hil_mve_scaled_sum(const struct hil_mve_sum_s8_scaled *p, const int8_t *a,
                                   const int8_t *b, int8_t *out, int32_t count) {
    const mve_pred16_t some = vctp32q((uint32_t)count);
    const int32x4_t first = vdupq_n_s32(p->a_factor);
    const int32x4_t one = vmlasq_n_s32(vldrbq_z_s32(a, some), first, p->constant);
    const int32x4_t both = vmlaq_n_s32(one, vldrbq_z_s32(b, some), p->b_factor);
    const int32x4_t scaled = vshlq_r_s32(both, -p->shift);
    const int32x4_t raised = vmaxq_s32(scaled, vdupq_n_s32(p->low));
    vstrbq_p_s32(out, vminq_s32(raised, vdupq_n_s32(p->high)), some);
}

HIL_INLINE void hil_mve_sum_s8_scaled(const struct hil_mve_sum_s8_scaled *p, const int8_t *a,
                                      const int8_t *b, int8_t *out) {
    const int32_t sixteens = p->size / 16;
    if (sixteens > 0) {
        const uint8x16_t lane = vidupq_n_u8(0, 1);
        const uint8x16_t four = vshlq_n_u8(vandq_u8(lane, vdupq_n_u8(3)), 2);
        const uint8x16_t places = vaddq_u8(vshrq_n_u8(lane, 2), four);
        const int32x4_t factor = vdupq_n_s32(p->a_factor);
        const int8x16_t low = vdupq_n_s8((int8_t)p->low);
        const int8x16_t high = vdupq_n_s8((int8_t)p->high);
        if (p->low == INT8_MIN && p->high == INT8_MAX) {
            HIL_MVE_SCALED_SUMS("");
        } else {
            HIL_MVE_SCALED_SUMS(HIL_MVE_SCALED_SUMS_CLAMP);
        }
    }
    for (int32_t left = p->size % 16; left > 0; left -= 4) {
        hil_mve_scaled_sum(p, a, b, out, left);
        a += 4;
        b += 4;
        out += 4;
    }
}

#endif
