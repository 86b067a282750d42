/* Steps of audio front ends around their Fourier transforms. */
#ifndef HIL_KERNELS_GENERIC_SIGNAL_H
#define HIL_KERNELS_GENERIC_SIGNAL_H

#include <stdint.h>

#include "hil/quant.h"

/* The number of bits of x: 0 for 0. */
HIL_INLINE int32_t hil_signal_bits(uint32_t x) { return x == 0 ? 0 : 32 - __builtin_clz(x); }

/*@kernel
name = "hil_generic_signal_window"
requires = []
inputs = ["int16_t", "int16_t"]
outputs = ["int16_t"]
scratch = "0"
order = "elementwise"
code = 60
[cost]
frame = "frames"
sample = "frames * length"
@*/
struct hil_generic_signal_window {
    int32_t frames; /* of samples */
    int32_t length; /* samples of a frame, and weights */
    int32_t shift;  /* of products, to the right */
};

HIL_INLINE void hil_generic_signal_window(const struct hil_generic_signal_window *p,
                                          const int16_t *in, const int16_t *weights, int16_t *out) {
    for (int32_t frame = 0; frame < p->frames; frame++) {
        for (int32_t i = 0; i < p->length; i++) {
            *out++ = (int16_t)hil_clamp(*in++ * weights[i] >> p->shift, INT16_MIN, INT16_MAX);
        }
    }
}

/*@kernel
name = "hil_generic_signal_auto_scale"
requires = []
inputs = ["int16_t"]
outputs = ["int16_t", "int32_t"]
scratch = "0"
order = "none"
code = 80
[cost]
sample = "length"
@*/
struct hil_generic_signal_auto_scale {
    int32_t length; /* samples */
};

HIL_INLINE void hil_generic_signal_auto_scale(const struct hil_generic_signal_auto_scale *p,
                                              const int16_t *in, int16_t *out, int32_t *scale) {
    /* As the reference: the magnitude of the least number has no place in 16 bits. */
    int16_t loudest = 0;
    for (int32_t i = 0; i < p->length; i++) {
        if (in[i] > loudest) {
            loudest = in[i];
        } else if (-in[i] > loudest) {
            loudest = (int16_t)-in[i];
        }
    }
    const int32_t free = loudest <= 0 ? 0 : 15 - hil_signal_bits((uint32_t)loudest);
    for (int32_t i = 0; i < p->length; i++) {
        out[i] = (int16_t)((uint32_t)in[i] << free);
    }
    *scale = free;
}

/*@kernel
name = "hil_generic_signal_energy"
requires = []
inputs = ["int16_t"]
outputs = ["uint32_t"]
scratch = "0"
order = "none"
code = 60
[cost]
pair = "length"
@*/
struct hil_generic_signal_energy {
    int32_t length; /* frequencies */
    int32_t start;  /* the first one that is wanted; the others have no energy */
    int32_t end;    /* the one behind the last that is wanted */
};

HIL_INLINE void hil_generic_signal_energy(const struct hil_generic_signal_energy *p,
                                          const int16_t *in, uint32_t *out) {
    for (int32_t i = 0; i < p->length; i++) {
        const int32_t re = in[2 * i];
        const int32_t im = in[2 * i + 1];
        const int wanted = i >= p->start && i < p->end;
        out[i] = wanted ? (uint32_t)(re * re) + (uint32_t)(im * im) : 0;
    }
}

/*@kernel
name = "hil_generic_signal_filter_bank"
requires = []
inputs = ["uint32_t"]
outputs = ["uint64_t"]
scratch = "0"
order = "none"
code = 140
[cost]
channel = "channels"
tap = "taps"
@*/
struct hil_generic_signal_filter_bank {
    int32_t channels;             /* outputs; one more than these are added up */
    int32_t taps;                 /* frequencies that channels take, added up */
    const int16_t *weights;       /* of a channel's frequencies in its own sum */
    const int16_t *unweights;     /* of them in the sum of the next channel */
    const int16_t *frequencies;   /* the first one of each channel */
    const int16_t *weight_starts; /* the first weight of each channel */
    const int16_t *widths;        /* frequencies of each channel */
};

HIL_INLINE void hil_generic_signal_filter_bank(const struct hil_generic_signal_filter_bank *p,
                                               const uint32_t *in, uint64_t *out) {
    uint64_t sum = 0;
    for (int32_t channel = 0; channel <= p->channels; channel++) {
        uint64_t next = 0;
        const uint32_t *const heard = in + p->frequencies[channel];
        const int32_t first = p->weight_starts[channel];
        for (int32_t i = 0; i < p->widths[channel]; i++) {
            sum += (uint64_t)p->weights[first + i] * heard[i];
            next += (uint64_t)p->unweights[first + i] * heard[i];
        }
        /* The first sum only begins the next one. */
        if (channel > 0) {
            *out++ = sum;
        }
        sum = next;
    }
}

/* The square root of x, rounded to the nearest of 16 bits, or of 32 where x has more than 32. */
HIL_INLINE uint32_t hil_signal_root(uint64_t x) {
    const uint64_t largest = x >> 32 ? UINT32_MAX : UINT16_MAX;
    uint64_t root = 0;
    for (uint64_t bit = x >> 32 ? UINT64_C(1) << 62 : UINT64_C(1) << 30; bit != 0; bit >>= 2) {
        if (x >= root + bit) {
            x -= root + bit;
            root = (root >> 1) + bit;
        } else {
            root >>= 1;
        }
    }
    return (uint32_t)(x > root && root != largest ? root + 1 : root);
}

/*@kernel
name = "hil_generic_signal_square_root"
requires = []
inputs = ["uint64_t", "int32_t"]
outputs = ["uint32_t"]
scratch = "0"
order = "none"
code = 160
[cost]
channel = "length"
@*/
struct hil_generic_signal_square_root {
    int32_t length; /* channels */
};

HIL_INLINE void hil_generic_signal_square_root(const struct hil_generic_signal_square_root *p,
                                               const uint64_t *in, const int32_t *shift,
                                               uint32_t *out) {
    const uint32_t bits = (uint32_t)*shift & 31U;
    for (int32_t i = 0; i < p->length; i++) {
        out[i] = hil_signal_root(in[i]) >> bits;
    }
}

/*@kernel
name = "hil_generic_signal_log"
requires = []
inputs = ["uint32_t"]
outputs = ["int16_t"]
scratch = "0"
order = "none"
code = 160
[cost]
channel = "length"
@*/
struct hil_generic_signal_log {
    int32_t length;       /* channels */
    int32_t correction;   /* bits by which inputs are raised */
    int32_t scale;        /* what a logarithm of one is in the output */
    int32_t coefficient;  /* ln(2) in Q16 */
    const int16_t *table; /* log2(1 + i / 128) - i / 128 in Q16 */
};

HIL_INLINE void hil_generic_signal_log(const struct hil_generic_signal_log *p, const uint32_t *in,
                                       int16_t *out) {
    for (int32_t i = 0; i < p->length; i++) {
        const uint32_t x = in[i] << p->correction;
        if (x <= 1) {
            out[i] = 0;
            continue;
        }
        const int32_t whole = hil_signal_bits(x) - 1;
        const uint32_t rest = x - (UINT32_C(1) << whole);
        const int32_t fraction =
            (int32_t)(whole < 16 ? rest << (16 - whole) : rest >> (whole - 16));
        const int32_t segment = fraction >> 9;
        const int32_t low = p->table[segment];
        const int32_t slope = p->table[segment + 1] - low;
        const int32_t part = fraction + low + (slope * (fraction - (segment << 9)) >> 16);
        const uint64_t binary = (uint32_t)(whole << 16) + (uint32_t)part;
        const uint32_t natural = (uint32_t)(((uint32_t)p->coefficient * binary + 0x8000) >> 16);
        const uint32_t scaled = ((uint32_t)p->scale * natural + 0x8000) >> 16;
        out[i] = (int16_t)(scaled < INT16_MAX ? scaled : INT16_MAX);
    }
}

/* The gain at a level of noise: by interpolation between entries for its number of bits. */
HIL_INLINE uint32_t hil_signal_gain(const int16_t *gains, uint32_t level) {
    if (level <= 2) {
        return (uint32_t)gains[level];
    }
    const int32_t bits = hil_signal_bits(level);
    const int16_t *const entry = gains + 4 * bits - 6;
    const int32_t fraction =
        (int32_t)((bits < 11 ? level << (11 - bits) : level >> (bits - 11)) & 0x3FF);
    const int32_t sum = (entry[2] * fraction >> 5) + entry[1] * 32;
    return (uint32_t)(int16_t)(((sum * fraction + (1 << 14)) >> 15) + entry[0]);
}

/*@kernel
name = "hil_generic_signal_pcan"
requires = []
inputs = ["uint32_t", "uint32_t"]
outputs = ["uint32_t"]
scratch = "0"
order = "elementwise"
code = 160
[cost]
channel = "length"
@*/
struct hil_generic_signal_pcan {
    int32_t length;       /* channels */
    int32_t shift;        /* of products with gains, to the right */
    const int16_t *gains; /* entries for each number of bits of a level of noise */
};

HIL_INLINE void hil_generic_signal_pcan(const struct hil_generic_signal_pcan *p, const uint32_t *in,
                                        const uint32_t *noise, uint32_t *out) {
    for (int32_t i = 0; i < p->length; i++) {
        const uint64_t product = (uint64_t)in[i] * hil_signal_gain(p->gains, noise[i]);
        const uint32_t ratio = (uint32_t)(product >> p->shift);
        out[i] = ratio < (2U << 12) ? (ratio * ratio) >> 20 : (ratio >> 6) - 64U;
    }
}

#endif
