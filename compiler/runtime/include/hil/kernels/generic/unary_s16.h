/* Functions of single int16 values, whose zero points are 0, in integers. */
#ifndef HIL_KERNELS_GENERIC_UNARY_S16_H
#define HIL_KERNELS_GENERIC_UNARY_S16_H

#include <stdint.h>

#include "hil/quant.h"

/* Each value brought to another scale, with a slope of its own below zero, and clamped. */
/*@kernel
name = "hil_generic_leaky_relu_s16"
requires = []
inputs = ["int16_t"]
outputs = ["int16_t"]
scratch = "0"
order = "elementwise"
code = 104
[cost]
element = "size"
@*/
struct hil_generic_leaky_relu_s16 {
    int32_t size;                /* elements */
    int32_t multiplier;          /* of what is not negative */
    int32_t shift;               /* to the left; negative ones are to the right */
    int32_t negative_multiplier; /* of what is below 0 */
    int32_t negative_shift;      /* likewise, to the left; below 0 to the right */
    int32_t low;                 /* the least output */
    int32_t high;                /* the largest output */
};

HIL_INLINE void hil_generic_leaky_relu_s16(const struct hil_generic_leaky_relu_s16 *p,
                                           const int16_t *in, int16_t *out) {
    for (int32_t i = 0; i < p->size; i++) {
        const int32_t x = in[i];
        const int32_t scaled = x < 0 ? hil_requantize(x, p->negative_multiplier, p->negative_shift)
                                     : hil_requantize(x, p->multiplier, p->shift);
        out[i] = (int16_t)hil_clamp(scaled, p->low, p->high);
    }
}

/*@kernel
name = "hil_generic_clamp_s16"
requires = []
inputs = ["int16_t"]
outputs = ["int16_t"]
scratch = "0"
order = "elementwise"
code = 37
[cost]
element = "size"
@*/
struct hil_generic_clamp_s16 {
    int32_t size; /* elements */
    int32_t low;  /* the least output */
    int32_t high; /* the largest output */
};

HIL_INLINE void hil_generic_clamp_s16(const struct hil_generic_clamp_s16 *p, const int16_t *in,
                                      int16_t *out) {
    for (int32_t i = 0; i < p->size; i++) {
        out[i] = (int16_t)hil_clamp(in[i], p->low, p->high);
    }
}

/*@kernel
name = "hil_generic_lut_s16"
requires = []
inputs = ["int16_t"]
outputs = ["int16_t"]
scratch = "0"
order = "elementwise"
code = 60
[cost]
element = "size"
@*/
struct hil_generic_lut_s16 {
    int32_t size;         /* elements */
    const int16_t *table; /* values at the ends of 512 steps, between which lines are drawn */
};

HIL_INLINE void hil_generic_lut_s16(const struct hil_generic_lut_s16 *p, const int16_t *in,
                                    int16_t *out) {
    for (int32_t i = 0; i < p->size; i++) {
        const int32_t x = in[i] + 32768;
        const int32_t first = p->table[x >> 7];
        /* Sums wrap around, as the reference's do. */
        const int16_t rise = (int16_t)(p->table[(x >> 7) + 1] - first);
        out[i] = (int16_t)(first + ((rise * (x & 127) + 64) >> 7));
    }
}

/* The logistic function less one half, of 1/24 a step, in Q0.16, for what is not negative. */
#define HIL_SIGMOID_S16_FIELDS                                                                     \
    int32_t size;        /* elements */                                                            \
    int32_t multiplier;  /* 2^15 at most */                                                        \
    int32_t shift;       /* to the right */                                                        \
    const int16_t *table /* 256 steps */

/* x on the table's scale; |x| is 2^15 at most. */
HIL_INLINE int32_t hil_sigmoid_s16_scaled(int32_t x, int32_t multiplier, int32_t shift) {
    const int32_t half = shift > 0 ? INT32_C(1) << (shift - 1) : 0;
    return (x * multiplier + half) >> shift;
}

/* Between two steps of the table, 2^bits positions a step; the last step is where it ends. */
HIL_INLINE int32_t hil_sigmoid_s16_between(const int16_t *table, int32_t position, int bits,
                                           int32_t end) {
    const int32_t step = position >> bits;
    if (step >= 255) {
        return end;
    }
    const int32_t rise = table[step + 1] - table[step];
    return ((table[step] + (INT32_C(1) << 15)) << bits) + (position & ((1 << bits) - 1)) * rise;
}

/*@kernel
name = "hil_generic_logistic_s16"
requires = []
inputs = ["int16_t"]
outputs = ["int16_t"]
scratch = "0"
order = "elementwise"
code = 136
[cost]
element = "size"
@*/
struct hil_generic_logistic_s16 {
    HIL_SIGMOID_S16_FIELDS;
};

HIL_INLINE void hil_generic_logistic_s16(const struct hil_generic_logistic_s16 *p,
                                         const int16_t *in, int16_t *out) {
    for (int32_t i = 0; i < p->size; i++) {
        const int32_t x = hil_sigmoid_s16_scaled(in[i], p->multiplier, p->shift);
        const int32_t y =
            hil_sigmoid_s16_between(p->table, x < 0 ? -x : x, 9, INT32_C(0x7FFF) << 10);
        /* Q0.25, brought to Q0.15. */
        out[i] = (int16_t)((x < 0 ? (INT32_C(1) << 25) - y + 511 : y + 512) >> 10);
    }
}

/*@kernel
name = "hil_generic_tanh_s16"
requires = []
inputs = ["int16_t"]
outputs = ["int16_t"]
scratch = "0"
order = "elementwise"
code = 156
[cost]
element = "size"
@*/
struct hil_generic_tanh_s16 {
    HIL_SIGMOID_S16_FIELDS;
};

HIL_INLINE void hil_generic_tanh_s16(const struct hil_generic_tanh_s16 *p, const int16_t *in,
                                     int16_t *out) {
    for (int32_t i = 0; i < p->size; i++) {
        const int32_t x = hil_sigmoid_s16_scaled(in[i], p->multiplier, p->shift);
        const int32_t y =
            hil_sigmoid_s16_between(p->table, x < 0 ? -x : x, 8, INT32_C(0xFFFF) << 8);
        /* 2 * sigmoid - 1 in Q1.23, brought to Q0.15. */
        const int32_t above = y - (INT32_C(1) << 23);
        out[i] = (int16_t)((x < 0 ? 127 - above : above + 128) >> 8);
    }
}

/* Any function of int16: lines between its values at equal distances, and what it exceeds them by,
 * in few bits for a function that is smooth. */
/*@kernel
name = "hil_generic_curve_s16"
requires = []
inputs = ["int16_t"]
outputs = ["int16_t"]
scratch = "0"
order = "elementwise"
code = 120
[cost]
element = "size"
@*/
struct hil_generic_curve_s16 {
    int32_t size;           /* elements */
    int32_t bits;           /* inputs from one height to the next are 2^bits */
    int32_t rest_bits;      /* of what is added to the line: 0, 1, 2, 4, 8 or 16 */
    int32_t least;          /* what is added beside it */
    const int16_t *heights; /* values of the least input and of those 2^bits apart; one more */
    const uint8_t *rests;   /* of each input, from the least one on; the lower bits first */
};

HIL_INLINE int16_t hil_curve_s16_value(const struct hil_generic_curve_s16 *p, int32_t place) {
    const int32_t step = place >> p->bits;
    const int32_t part = place & ((INT32_C(1) << p->bits) - 1);
    const int32_t low = p->heights[step];
    int32_t value = low + (((p->heights[step + 1] - low) * part) >> p->bits) + p->least;
    if (p->rest_bits == 16) {
        value += p->rests[2 * place] + 256 * p->rests[2 * place + 1];
    } else if (p->rest_bits > 0) {
        const int32_t bit = place * p->rest_bits;
        value += (p->rests[bit >> 3] >> (bit & 7)) & ((1 << p->rest_bits) - 1);
    }
    return (int16_t)value;
}

HIL_INLINE void hil_generic_curve_s16(const struct hil_generic_curve_s16 *p, const int16_t *in,
                                      int16_t *out) {
    for (int32_t i = 0; i < p->size; i++) {
        out[i] = hil_curve_s16_value(p, in[i] - INT16_MIN);
    }
}

#endif
