/* Products and squared differences of int8 tensors, and sums, differences and products of int16
 * tensors, on Helium, with broadcasting.
 *
 * Tile: 8 elements of a row, or the rest of it.
 *
 * Registers: of gcc's choice (intrinsics): a vector of eight 16-bit elements of each operand, two
 * of four 32-bit numbers, those of the even elements and those of the odd ones.
 *
 * Data: plain tensors, walked as generic/binary.h walks them; an operand of which one element
 * serves a row is that element eight times. Gathers look operands of squared differences up.
 *
 * Order: elements in order; eight are read before they are written, so the output may be an input
 * of its size.
 *
 * Bounds: products of int8 less their zero points are below 2^17, those of int16 2^30 at most;
 * operands of squared differences are at most 255 * 2^6 in the common scale, a square 2^30;
 * int16 operands of a sum are raised by 15 bits and halved at least: 2^29, and their sum 2^30.
 * Shifts are to the right or none, which the builders check.
 *
 * Output: the steps of generic/binary.h and generic/binary_s16.h: twice rounded as blocks_s8.h
 * does, or products of int8 once, half up. Narrowing saturates, and so does adding the zero point:
 * what leaves 16 bits lies beyond the bounds that it is clamped to.
 *
 * Scratch: none.
 *
 * Cost, measured (`python tools/measure.py costs measure`, instructions under QEMU): an element of
 * int8 products 3.1, of int8 squared differences 3.4, of int16 products 2.6, of int16 sums 4.0
 * to 4.7; the portable kernels 16, 25 and 42 to 50.
 *
 * Tests: the numpy reference (tests/board/test_kernels.py, buffers between guard bytes).
 */
#ifndef HIL_KERNELS_MVE_ELEMENTWISE_H
#define HIL_KERNELS_MVE_ELEMENTWISE_H

#include "hil/kernels/generic/binary.h"
#include "hil/kernels/generic/binary_s16.h"
#include "hil/kernels/mve/narrow.h"

/* Eight elements of an operand as 16 bits, of bytes (kind b) or of half-words (h). */
#define HIL_MVE_EIGHT(kind, x, step) ((step) == 0 ? vdupq_n_s16(*(x)) : vldr##kind##q_s16(x))
#define HIL_MVE_SOME_OF_EIGHT(kind, x, step, there)                                                \
    ((step) == 0 ? vdupq_n_s16(*(x)) : vldr##kind##q_z_s16((x), (there)))

/* Writes out[] = eight(p, a[], b[]) along the walk of p. */
#define HIL_MVE_BINARY_WALK(p, a, b, out, kind, eight)                                             \
    do {                                                                                           \
        int32_t index[HIL_WALK_LOOPS] = {0};                                                       \
        int32_t i = 0;                                                                             \
        int32_t j = 0;                                                                             \
        for (int32_t rows = (p)->rows; rows > 0; rows--) {                                         \
            __typeof__(a) x = (a) + i;                                                             \
            __typeof__(b) y = (b) + j;                                                             \
            for (int32_t eights = (p)->length / 8; eights > 0; eights--) {                         \
                vstr##kind##q_s16((out), eight((p), HIL_MVE_EIGHT(kind, x, (p)->a_step),           \
                                               HIL_MVE_EIGHT(kind, y, (p)->b_step)));              \
                x += 8 * (p)->a_step;                                                              \
                y += 8 * (p)->b_step;                                                              \
                (out) += 8;                                                                        \
            }                                                                                      \
            if ((p)->length % 8 != 0) {                                                            \
                const mve_pred16_t there = vctp16q((uint32_t)((p)->length % 8));                   \
                vstr##kind##q_p_s16((out),                                                         \
                                    eight((p), HIL_MVE_SOME_OF_EIGHT(kind, x, (p)->a_step, there), \
                                          HIL_MVE_SOME_OF_EIGHT(kind, y, (p)->b_step, there)),     \
                                    there);                                                        \
                (out) += (p)->length % 8;                                                          \
            }                                                                                      \
            const int loop = hil_walk_next(index, (p)->counts);                                    \
            i += (p)->a_jumps[loop];                                                               \
            j += (p)->b_jumps[loop];                                                               \
        }                                                                                          \
    } while (0)

/* hil_requantize(x, multiplier, shift) for shift <= 0. */
HIL_INLINE int32x4_t hil_mve_requantize(int32x4_t x, int32_t multiplier, int32_t shift) {
    const int32x4_t product = vqrdmulhq_n_s32(x, multiplier);
    /* vrshl alone rounds halves up: numbers below 0 are made one less. */
    return shift == 0 ? product : vrshlq_n_s32(vaddq_s32(product, vshrq_n_s32(product, 31)), shift);
}

HIL_INLINE int16x8_t hil_mve_clamped_s16(int16x8_t x, int32_t low, int32_t high) {
    const int16x8_t raised = low > INT16_MIN ? vmaxq_s16(x, vdupq_n_s16((int16_t)low)) : x;
    return high < INT16_MAX ? vminq_s16(raised, vdupq_n_s16((int16_t)high)) : raised;
}

/*@kernel
name = "hil_mve_mul_s8"
requires = ["mve"]
inputs = ["int8_t", "int8_t"]
outputs = ["int8_t"]
scratch = "0"
order = "elementwise"
code = 300
variable = ["a_zero_point", "b_zero_point", "out_zero_point", "multiplier"]
[cost]
row = "rows"
eight = "rows * (length // 8)"
rest = "rows * (length - length // 8 * 8 + 7) // 8"
@*/
struct hil_mve_mul_s8 {
    HIL_BINARY_FIELDS;
    int32_t a_zero_point;   /* the first operand's value that stands for 0.0 */
    int32_t b_zero_point;   /* the second operand's value that stands for 0.0 */
    int32_t out_zero_point; /* the output that stands for 0.0 */
    int32_t multiplier;     /* of the product, in Q0.31 */
    int32_t shift;          /* of that, 0 or below: to the right */
    int32_t once;           /* 1: rounded once, half up, with a shift below 0; 0: twice */
    int32_t low;            /* the least output */
    int32_t high;           /* the largest output */
};

HIL_INLINE int32x4_t hil_mve_mul_s8_scaled(const struct hil_mve_mul_s8 *p, int32x4_t product) {
    if (p->once) {
        return vrshlq_n_s32(vqdmulhq_n_s32(product, p->multiplier), p->shift);
    }
    return hil_mve_requantize(product, p->multiplier, p->shift);
}

HIL_INLINE int16x8_t hil_mve_mul_s8_eight(const struct hil_mve_mul_s8 *p, int16x8_t a,
                                          int16x8_t b) {
    const int16x8_t x = vsubq_n_s16(a, (int16_t)p->a_zero_point);
    const int16x8_t y = vsubq_n_s16(b, (int16_t)p->b_zero_point);
    const int32x4_t even = hil_mve_mul_s8_scaled(p, vmullbq_int_s16(x, y));
    const int32x4_t odd = hil_mve_mul_s8_scaled(p, vmulltq_int_s16(x, y));
    const int16x8_t made = vqaddq_n_s16(hil_mve_narrowed(even, odd), (int16_t)p->out_zero_point);
    return hil_mve_clamped_s16(made, p->low, p->high);
}

HIL_INLINE void hil_mve_mul_s8(const struct hil_mve_mul_s8 *p, const int8_t *a, const int8_t *b,
                               int8_t *out) {
    HIL_MVE_BINARY_WALK(p, a, b, out, b, hil_mve_mul_s8_eight);
}

/*@kernel
name = "hil_mve_squared_difference_s8"
requires = ["mve"]
inputs = ["int8_t", "int8_t"]
outputs = ["int8_t"]
scratch = "0"
order = "elementwise"
code = 300
variable = ["out_zero_point", "multiplier", "shift"]
[cost]
row = "rows"
eight = "rows * (length // 8)"
rest = "rows * (length - length // 8 * 8 + 7) // 8"
@*/
struct hil_mve_squared_difference_s8 {
    HIL_BINARY_FIELDS;
    const int16_t *a_table; /* of the first operand from -128 on, brought to the common scale */
    const int16_t *b_table; /* the same of the second operand */
    int32_t out_zero_point; /* the output that stands for 0.0 */
    int32_t multiplier;     /* of the square, in Q0.31 */
    int32_t shift;          /* of that, 0 or below: to the right */
};

HIL_INLINE int16x8_t hil_mve_looked_up(const int16_t *table, int16x8_t x) {
    return vldrhq_gather_shifted_offset_s16(table, vreinterpretq_u16_s16(vaddq_n_s16(x, 128)));
}

HIL_INLINE int16x8_t hil_mve_squared_difference_s8_eight(
    const struct hil_mve_squared_difference_s8 *p, int16x8_t a, int16x8_t b) {
    const int16x8_t difference =
        vsubq_s16(hil_mve_looked_up(p->a_table, a), hil_mve_looked_up(p->b_table, b));
    /* No square has a sign that the second rounding would have to look at. */
    const int32x4_t even = vqrdmulhq_n_s32(vmullbq_int_s16(difference, difference), p->multiplier);
    const int32x4_t odd = vqrdmulhq_n_s32(vmulltq_int_s16(difference, difference), p->multiplier);
    const int16x8_t square =
        hil_mve_narrowed(vrshlq_n_s32(even, p->shift), vrshlq_n_s32(odd, p->shift));
    return hil_mve_clamped_s16(vqaddq_n_s16(square, (int16_t)p->out_zero_point), INT8_MIN,
                               INT8_MAX);
}

HIL_INLINE void hil_mve_squared_difference_s8(const struct hil_mve_squared_difference_s8 *p,
                                              const int8_t *a, const int8_t *b, int8_t *out) {
    HIL_MVE_BINARY_WALK(p, a, b, out, b, hil_mve_squared_difference_s8_eight);
}

/*@kernel
name = "hil_mve_sum_s16"
requires = ["mve"]
inputs = ["int16_t", "int16_t"]
outputs = ["int16_t"]
scratch = "0"
order = "elementwise"
code = 168
[cost]
row = "rows"
eight = "rows * (length // 8)"
rest = "rows * (length - length // 8 * 8 + 7) // 8"
@*/
struct hil_mve_sum_s16 {
    HIL_SUM_S16_FIELDS;
    int32_t subtract; /* 1: the second operand is taken from the first */
};

/* Four elements of an operand, the even ones or the odd ones of eight. The shift is 0 for a factor
 * of one half alone. */
#define HIL_SUM_S16_MVE_OPERAND(four, x, multiplier, shift)                                        \
    ((shift) == 0 ? four((x), 14) : hil_mve_requantize(four((x), 15), (multiplier), (shift)))

HIL_INLINE int32x4_t hil_mve_sum_s16_four(const struct hil_mve_sum_s16 *p, int32x4_t x,
                                          int32x4_t y) {
    const int32x4_t sum = p->subtract ? vsubq_s32(x, y) : vaddq_s32(x, y);
    return hil_mve_requantize(sum, p->out_multiplier, p->out_shift);
}

HIL_INLINE int16x8_t hil_mve_sum_s16_eight(const struct hil_mve_sum_s16 *p, int16x8_t a,
                                           int16x8_t b) {
    const int32x4_t even = hil_mve_sum_s16_four(
        p, HIL_SUM_S16_MVE_OPERAND(vshllbq_n_s16, a, p->a_multiplier, p->a_shift),
        HIL_SUM_S16_MVE_OPERAND(vshllbq_n_s16, b, p->b_multiplier, p->b_shift));
    const int32x4_t odd = hil_mve_sum_s16_four(
        p, HIL_SUM_S16_MVE_OPERAND(vshlltq_n_s16, a, p->a_multiplier, p->a_shift),
        HIL_SUM_S16_MVE_OPERAND(vshlltq_n_s16, b, p->b_multiplier, p->b_shift));
    return hil_mve_clamped_s16(hil_mve_narrowed(even, odd), p->low, p->high);
}

HIL_INLINE void hil_mve_sum_s16(const struct hil_mve_sum_s16 *p, const int16_t *a, const int16_t *b,
                                int16_t *out) {
    HIL_MVE_BINARY_WALK(p, a, b, out, h, hil_mve_sum_s16_eight);
}

/*@kernel
name = "hil_mve_mul_s16"
requires = ["mve"]
inputs = ["int16_t", "int16_t"]
outputs = ["int16_t"]
scratch = "0"
order = "elementwise"
code = 260
[cost]
row = "rows"
eight = "rows * (length // 8)"
rest = "rows * (length - length // 8 * 8 + 7) // 8"
@*/
struct hil_mve_mul_s16 {
    HIL_BINARY_FIELDS;
    int32_t multiplier; /* of the product, in Q0.31 */
    int32_t shift;      /* of that, 0 or below: to the right */
    int32_t low;        /* the least output */
    int32_t high;       /* the largest output */
};

HIL_INLINE int16x8_t hil_mve_mul_s16_eight(const struct hil_mve_mul_s16 *p, int16x8_t a,
                                           int16x8_t b) {
    const int32x4_t even = hil_mve_requantize(vmullbq_int_s16(a, b), p->multiplier, p->shift);
    const int32x4_t odd = hil_mve_requantize(vmulltq_int_s16(a, b), p->multiplier, p->shift);
    return hil_mve_clamped_s16(hil_mve_narrowed(even, odd), p->low, p->high);
}

HIL_INLINE void hil_mve_mul_s16(const struct hil_mve_mul_s16 *p, const int16_t *a, const int16_t *b,
                                int16_t *out) {
    HIL_MVE_BINARY_WALK(p, a, b, out, h, hil_mve_mul_s16_eight);
}

#endif
