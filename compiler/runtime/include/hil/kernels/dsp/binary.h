/* Products and squares of differences of int8 tensors, and sums, differences and products of int16
 * tensors, with broadcasting, on cores with DSP: four or two elements of a row at a time. */
#ifndef HIL_KERNELS_DSP_BINARY_H
#define HIL_KERNELS_DSP_BINARY_H

#include <string.h>

#include "hil/dsp.h"
#include "hil/kernels/generic/binary.h"
#include "hil/kernels/generic/binary_s16.h"

/* Writes `many` elements at a time along the walk of p: words(p, a, b, out) for those, where
 * a row's operand that is one element for all stands `many` times in a word, and element(p, a, b)
 * for what is left. */
#define HIL_DSP_BINARY_WALK(p, a, b, out, many, repeated, words, element)                          \
    do {                                                                                           \
        int32_t index[HIL_WALK_LOOPS] = {0};                                                       \
        int32_t i = 0;                                                                             \
        int32_t j = 0;                                                                             \
        for (int32_t rows = (p)->rows; rows > 0; rows--) {                                         \
            __typeof__(a) x = (a) + i;                                                             \
            __typeof__(b) y = (b) + j;                                                             \
            const uint32_t x_word = (p)->a_step == 0 ? repeated(*x) : 0;                           \
            const uint32_t y_word = (p)->b_step == 0 ? repeated(*y) : 0;                           \
            for (int32_t turns = (p)->length / (many); turns > 0; turns--) {                       \
                words((p), (p)->a_step == 0 ? x_word : hil_dsp_load(x),                            \
                      (p)->b_step == 0 ? y_word : hil_dsp_load(y), (out));                         \
                x += (many) * (p)->a_step;                                                         \
                y += (many) * (p)->b_step;                                                         \
                (out) += (many);                                                                   \
            }                                                                                      \
            for (int32_t left = (p)->length % (many); left > 0; left--) {                          \
                *(out)++ = element((p), *x, *y);                                                   \
                x += (p)->a_step;                                                                  \
                y += (p)->b_step;                                                                  \
            }                                                                                      \
            const int loop = hil_walk_next(index, (p)->counts);                                    \
            i += (p)->a_jumps[loop];                                                               \
            j += (p)->b_jumps[loop];                                                               \
        }                                                                                          \
    } while (0)

HIL_INLINE uint32_t hil_dsp_repeated_byte(int8_t x) { return (uint8_t)x * 0x01010101U; }

HIL_INLINE uint32_t hil_dsp_repeated_half(int16_t x) { return hil_dsp_pair(x, x); }

/*@kernel
name = "hil_dsp_mul_s8"
requires = ["dsp"]
inputs = ["int8_t", "int8_t"]
outputs = ["int8_t"]
scratch = "0"
order = "elementwise"
code = 158
variable = ["a_zero_point", "b_zero_point", "out_zero_point", "multiplier"]
[cost]
row = "rows"
four = "rows * (length // 4)"
rest = "rows * (length - length // 4 * 4)"
@*/
struct hil_dsp_mul_s8 {
    HIL_BINARY_FIELDS;
    int32_t a_zero_point;   /* the first operand's value that stands for 0.0 */
    int32_t b_zero_point;   /* the second operand's value that stands for 0.0 */
    int32_t out_zero_point; /* the output that stands for 0.0 */
    int32_t multiplier;     /* of the product, in Q0.31 */
    int32_t shift;          /* of that, to the right, less one: 0 to 21 */
    int32_t once;           /* 1: rounded once, half up; 0: twice */
    int32_t low;            /* the least output */
    int32_t high;           /* the largest output */
};

/* From twice a product, below 2^18: half a unit of the result and the zero point are added to the
 * upper word. Rounded down there and rounded half up by the shift is rounded once; of two roundings
 * the second is away from zero, which takes one from negative products. */
HIL_INLINE int8_t hil_dsp_mul_s8_scaled(const struct hil_dsp_mul_s8 *p, int32_t twice) {
    const int32_t half = (int32_t)((uint32_t)(2 * p->out_zero_point + 1) << p->shift);
    int32_t scaled;
    if (p->once) {
        scaled = (int32_t)((int64_t)twice * p->multiplier >> 32) + half;
    } else {
        /* What is less than the zero point may be clamped anyway. */
        const int32_t addend = p->low < p->out_zero_point ? hil_dsp_less_sign(half, twice) : half;
        scaled = hil_dsp_high_mul_add(twice, p->multiplier, addend);
    }
    return hil_clamp_s8(scaled >> (p->shift + 1), p->low, p->high);
}

HIL_INLINE int8_t hil_dsp_mul_s8_element(const struct hil_dsp_mul_s8 *p, int8_t a, int8_t b) {
    return hil_dsp_mul_s8_scaled(p, (a - p->a_zero_point) * (2 * (b - p->b_zero_point)));
}

HIL_INLINE void hil_dsp_mul_s8_four(const struct hil_dsp_mul_s8 *p, uint32_t a, uint32_t b,
                                    int8_t *out) {
    const uint32_t x_offset = hil_dsp_pair(-p->a_zero_point, -p->a_zero_point);
    const uint32_t y_offset = hil_dsp_pair(-p->b_zero_point, -p->b_zero_point);
    const uint32_t x_even = hil_dsp_add_even(x_offset, a);
    const uint32_t x_odd = hil_dsp_add_odd(x_offset, a);
    const uint32_t y_even = hil_dsp_add_even(y_offset, b);
    const uint32_t y_odd = hil_dsp_add_odd(y_offset, b);
    const uint32_t even = hil_dsp_add_pairs(y_even, y_even);
    const uint32_t odd = hil_dsp_add_pairs(y_odd, y_odd);
    out[0] = hil_dsp_mul_s8_scaled(p, hil_dsp_low(x_even) * hil_dsp_low(even));
    out[1] = hil_dsp_mul_s8_scaled(p, hil_dsp_low(x_odd) * hil_dsp_low(odd));
    out[2] = hil_dsp_mul_s8_scaled(p, hil_dsp_high(x_even) * hil_dsp_high(even));
    out[3] = hil_dsp_mul_s8_scaled(p, hil_dsp_high(x_odd) * hil_dsp_high(odd));
}

HIL_INLINE void hil_dsp_mul_s8(const struct hil_dsp_mul_s8 *p, const int8_t *a, const int8_t *b,
                               int8_t *out) {
    HIL_DSP_BINARY_WALK(p, a, b, out, 4, hil_dsp_repeated_byte, hil_dsp_mul_s8_four,
                        hil_dsp_mul_s8_element);
}

/*@kernel
name = "hil_dsp_squared_difference_s8"
requires = ["dsp"]
inputs = ["int8_t", "int8_t"]
outputs = ["int8_t"]
scratch = "0"
order = "elementwise"
code = 160
[cost]
row = "rows"
four = "rows * (length // 4)"
rest = "rows * (length - length // 4 * 4)"
@*/
struct hil_dsp_squared_difference_s8 {
    HIL_BINARY_FIELDS;
    const int16_t *a_table; /* of the first operand from -128 on, brought to the common scale */
    const int16_t *b_table; /* the same of the second operand */
    int32_t out_zero_point; /* the output that stands for 0.0 */
    int32_t multiplier;     /* of the square, in Q0.31 */
    int32_t shift;          /* of that, to the right, less one: 0 to 21 */
};

/* Operands are at most 255 * 2^6 in the common scale: twice a square has 31 bits, and no sign that
 * the second rounding would have to look at. */
HIL_INLINE int8_t hil_dsp_squared_difference_s8_element(
    const struct hil_dsp_squared_difference_s8 *p, int8_t a, int8_t b) {
    const int32_t difference = p->a_table[a + 128] - p->b_table[b + 128];
    const int32_t half = (int32_t)((uint32_t)(2 * p->out_zero_point + 1) << p->shift);
    const int32_t scaled = hil_dsp_high_mul_add(difference * (2 * difference), p->multiplier, half);
    return hil_clamp_s8(scaled >> (p->shift + 1), INT8_MIN, INT8_MAX);
}

HIL_INLINE void hil_dsp_squared_difference_s8_four(const struct hil_dsp_squared_difference_s8 *p,
                                                   uint32_t a, uint32_t b, int8_t *out) {
#pragma GCC unroll 4
    for (int32_t i = 0; i < 4; i++) {
        out[i] = hil_dsp_squared_difference_s8_element(p, (int8_t)(a >> (8 * i) & 0xffU),
                                                       (int8_t)(b >> (8 * i) & 0xffU));
    }
}

HIL_INLINE void hil_dsp_squared_difference_s8(const struct hil_dsp_squared_difference_s8 *p,
                                              const int8_t *a, const int8_t *b, int8_t *out) {
    HIL_DSP_BINARY_WALK(p, a, b, out, 4, hil_dsp_repeated_byte, hil_dsp_squared_difference_s8_four,
                        hil_dsp_squared_difference_s8_element);
}

/*@kernel
name = "hil_dsp_sum_s16"
requires = ["dsp"]
inputs = ["int16_t", "int16_t"]
outputs = ["int16_t"]
scratch = "0"
order = "elementwise"
code = 150
[cost]
row = "rows"
two = "rows * (length // 2)"
rest = "rows * (length - length // 2 * 2)"
@*/
struct hil_dsp_sum_s16 {
    HIL_SUM_S16_FIELDS; /* shifts of -29 to 0, 0 of an operand for a factor of one half alone */
    int32_t subtract;   /* 1: the second operand is taken from the first */
};

/* hil_requantize(x, multiplier, shift) from 2 * x, for |x| <= 2^30 and -29 <= shift <= 0: half a
 * unit of the result is added to the upper word, and the second rounding is away from zero, which
 * takes one from negative numbers; not where these will be clamped to 0. */
HIL_INLINE int32_t hil_dsp_twice_rounded(int32_t twice, int32_t multiplier, int32_t shift,
                                         int32_t clamped) {
    const int32_t half = shift < 0 ? INT32_C(1) << (-shift - 1) : 0;
    const int32_t addend = shift < 0 && !clamped ? hil_dsp_less_sign(half, twice) : half;
    return hil_dsp_high_mul_add(twice, multiplier, addend) >> -shift;
}

/* Clamped to a range within int16: where that is all of it, by one instruction. */
HIL_INLINE int32_t hil_dsp_clamp_s16(int32_t x, int32_t low, int32_t high) {
    x = hil_saturate_s16(x);
    x = low > INT16_MIN && x < low ? low : x;
    return high < INT16_MAX && x > high ? high : x;
}

/* hil_sum_s16_operand() of the upper half-word of `raised`, whose lower one is 0. */
HIL_INLINE int32_t hil_dsp_sum_s16_operand(int32_t raised, int32_t multiplier, int32_t shift) {
    return shift == 0 ? raised >> 2 : hil_dsp_twice_rounded(raised, multiplier, shift, 0);
}

HIL_INLINE int32_t hil_dsp_sum_s16_of(const struct hil_dsp_sum_s16 *p, uint32_t a, uint32_t b) {
    const int32_t x = hil_dsp_sum_s16_operand((int32_t)a, p->a_multiplier, p->a_shift);
    const int32_t y = hil_dsp_sum_s16_operand((int32_t)b, p->b_multiplier, p->b_shift);
    const int32_t sum = p->subtract ? x - y : x + y;
    const int32_t scaled =
        hil_dsp_twice_rounded(2 * sum, p->out_multiplier, p->out_shift, p->low >= 0);
    return hil_dsp_clamp_s16(scaled, p->low, p->high);
}

HIL_INLINE int16_t hil_dsp_sum_s16_element(const struct hil_dsp_sum_s16 *p, int16_t a, int16_t b) {
    return (int16_t)hil_dsp_sum_s16_of(p, (uint32_t)a << 16, (uint32_t)b << 16);
}

HIL_INLINE void hil_dsp_sum_s16_two(const struct hil_dsp_sum_s16 *p, uint32_t a, uint32_t b,
                                    int16_t *out) {
    const int32_t low = hil_dsp_sum_s16_of(p, a << 16, b << 16);
    const int32_t high = hil_dsp_sum_s16_of(p, a & 0xffff0000U, b & 0xffff0000U);
    const uint32_t pair = hil_dsp_lows((uint32_t)low, (uint32_t)high);
    memcpy(out, &pair, sizeof pair);
}

HIL_INLINE void hil_dsp_sum_s16(const struct hil_dsp_sum_s16 *p, const int16_t *a, const int16_t *b,
                                int16_t *out) {
    HIL_DSP_BINARY_WALK(p, a, b, out, 2, hil_dsp_repeated_half, hil_dsp_sum_s16_two,
                        hil_dsp_sum_s16_element);
}

/*@kernel
name = "hil_dsp_mul_s16"
requires = ["dsp"]
inputs = ["int16_t", "int16_t"]
outputs = ["int16_t"]
scratch = "0"
order = "elementwise"
code = 90
[cost]
row = "rows"
two = "rows * (length // 2)"
rest = "rows * (length - length // 2 * 2)"
@*/
struct hil_dsp_mul_s16 {
    HIL_BINARY_FIELDS;
    int32_t multiplier; /* of the product, in Q0.31 */
    int32_t shift;      /* of that, to the left: -29 to 0 */
    int32_t low;        /* the least output */
    int32_t high;       /* the largest output */
};

/* hil_requantize() of a product of half-words, as above: minus twice the product has 32 bits, twice
 * the product of the two least numbers has not. */
HIL_INLINE int32_t hil_dsp_mul_s16_scaled(const struct hil_dsp_mul_s16 *p, int32_t product) {
    const int32_t minus_twice = (int32_t)((uint32_t)hil_dsp_kept(0) - ((uint32_t)product << 1));
    const int32_t half = p->shift < 0 ? INT32_C(1) << (-p->shift - 1) : 0;
    const int32_t addend = p->shift < 0 && p->low < 0 ? hil_dsp_less_sign(half, product) : half;
    const int32_t scaled = hil_dsp_high_mul_sub(minus_twice, p->multiplier, addend) >> -p->shift;
    return hil_dsp_clamp_s16(scaled, p->low, p->high);
}

HIL_INLINE int16_t hil_dsp_mul_s16_element(const struct hil_dsp_mul_s16 *p, int16_t a, int16_t b) {
    return (int16_t)hil_dsp_mul_s16_scaled(p, a * b);
}

HIL_INLINE void hil_dsp_mul_s16_two(const struct hil_dsp_mul_s16 *p, uint32_t a, uint32_t b,
                                    int16_t *out) {
    const int32_t low = hil_dsp_mul_s16_scaled(p, hil_dsp_low(a) * hil_dsp_low(b));
    const int32_t high = hil_dsp_mul_s16_scaled(p, hil_dsp_high(a) * hil_dsp_high(b));
    const uint32_t pair = hil_dsp_lows((uint32_t)low, (uint32_t)high);
    memcpy(out, &pair, sizeof pair);
}

HIL_INLINE void hil_dsp_mul_s16(const struct hil_dsp_mul_s16 *p, const int16_t *a, const int16_t *b,
                                int16_t *out) {
    HIL_DSP_BINARY_WALK(p, a, b, out, 2, hil_dsp_repeated_half, hil_dsp_mul_s16_two,
                        hil_dsp_mul_s16_element);
}

#endif
