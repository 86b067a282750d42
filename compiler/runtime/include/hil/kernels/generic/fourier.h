/* Fourier transforms of real signals. N samples are taken for N / 2 complex numbers, which are
 * transformed in steps of radix 4, the first one of radix 2 where that is left; a last step, which
 * for the inverse is the first one, separates the halves. hilc/numerics/fourier.py says the same.
 *
 * Steps work in the scratch. Integers keep the width of their type: each step first halves or
 * quarters its operands, products are rounded half up, sums wrap around. */
#ifndef HIL_KERNELS_GENERIC_FOURIER_H
#define HIL_KERNELS_GENERIC_FOURIER_H

#include <stdint.h>

#include "hil/quant.h"

#define HIL_FOURIER_FIELDS                                                                         \
    int32_t rows;        /* of samples, and of spectra */                                          \
    int32_t samples;     /* that a row has; it is filled up with zeros */                          \
    int32_t length;      /* samples that are transformed, a power of two */                        \
    const int16_t *order /* the number that each place of the steps begins with, or its place */

/* Arithmetic of a type: sums, halves of sums, x / 2 and x / 4, products of complex numbers. */
#define HIL_FOURIER_FIXED(suffix, element, wide, bits)                                             \
    HIL_INLINE element hil_fourier_round_##suffix(wide x) {                                        \
        return (element)((x + ((wide)1 << ((bits)-1))) >> (bits));                                 \
    }                                                                                              \
    HIL_INLINE element hil_fourier_add_##suffix(element a, element b) {                            \
        return (element)((uint32_t)a + (uint32_t)b);                                               \
    }                                                                                              \
    HIL_INLINE element hil_fourier_sub_##suffix(element a, element b) {                            \
        return (element)((uint32_t)a - (uint32_t)b);                                               \
    }                                                                                              \
    HIL_INLINE element hil_fourier_half_add_##suffix(element a, element b) {                       \
        return (element)((int32_t)((uint32_t)a + (uint32_t)b) >> 1);                               \
    }                                                                                              \
    HIL_INLINE element hil_fourier_half_sub_##suffix(element a, element b) {                       \
        return (element)((int32_t)((uint32_t)a - (uint32_t)b) >> 1);                               \
    }                                                                                              \
    HIL_INLINE element hil_fourier_divide_##suffix(element x, int by) {                            \
        return hil_fourier_round_##suffix((wide)x * ((((wide)1 << (bits)) - 1) / by));             \
    }                                                                                              \
    HIL_INLINE element hil_fourier_scale_##suffix(element x, int32_t length) {                     \
        (void)length;                                                                              \
        return x;                                                                                  \
    }

HIL_FOURIER_FIXED(s16, int16_t, int32_t, 15)
HIL_FOURIER_FIXED(s32, int32_t, int64_t, 31)

HIL_INLINE float hil_fourier_round_f32(float x) { return x; }
HIL_INLINE float hil_fourier_add_f32(float a, float b) { return a + b; }
HIL_INLINE float hil_fourier_sub_f32(float a, float b) { return a - b; }
HIL_INLINE float hil_fourier_half_add_f32(float a, float b) { return (a + b) * 0.5F; }
HIL_INLINE float hil_fourier_half_sub_f32(float a, float b) { return (a - b) * 0.5F; }
HIL_INLINE float hil_fourier_divide_f32(float x, int by) {
    (void)by;
    return x;
}
HIL_INLINE float hil_fourier_scale_f32(float x, int32_t length) { return x / (float)length; }

/* The functions of a type. Complex numbers are pairs of elements. */
#define HIL_FOURIER_FUNCTIONS(suffix, element, wide)                                               \
    HIL_INLINE void hil_fourier_turn_##suffix(const element *x, const element *by,                 \
                                              element *result) {                                   \
        result[0] = hil_fourier_round_##suffix((wide)x[0] * by[0] - (wide)x[1] * by[1]);           \
        result[1] = hil_fourier_round_##suffix((wide)x[0] * by[1] + (wide)x[1] * by[0]);           \
    }                                                                                              \
    HIL_INLINE void hil_fourier_divide_pair_##suffix(element *x, int by) {                         \
        x[0] = hil_fourier_divide_##suffix(x[0], by);                                              \
        x[1] = hil_fourier_divide_##suffix(x[1], by);                                              \
    }                                                                                              \
    HIL_INLINE void hil_fourier_radix2_##suffix(element *x, const element *twiddles, int32_t m,    \
                                                int32_t stride) {                                  \
        for (int32_t k = 0; k < m; k++) {                                                          \
            element *const a = x + 2 * k;                                                          \
            element *const b = a + 2 * m;                                                          \
            element t[2];                                                                          \
            hil_fourier_divide_pair_##suffix(a, 2);                                                \
            hil_fourier_divide_pair_##suffix(b, 2);                                                \
            hil_fourier_turn_##suffix(b, twiddles + 2 * k * stride, t);                            \
            for (int i = 0; i < 2; i++) {                                                          \
                b[i] = hil_fourier_sub_##suffix(a[i], t[i]);                                       \
                a[i] = hil_fourier_add_##suffix(a[i], t[i]);                                       \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    HIL_INLINE void hil_fourier_radix4_##suffix(element *x, const element *twiddles, int32_t m,    \
                                                int32_t stride, int inverse) {                     \
        for (int32_t k = 0; k < m; k++) {                                                          \
            element *const a = x + 2 * k;                                                          \
            element *const b = a + 2 * m;                                                          \
            element *const c = b + 2 * m;                                                          \
            element *const d = c + 2 * m;                                                          \
            element tb[2], tc[2], td[2], less[2], odd[2], rest[2];                                 \
            hil_fourier_divide_pair_##suffix(a, 4);                                                \
            hil_fourier_divide_pair_##suffix(b, 4);                                                \
            hil_fourier_divide_pair_##suffix(c, 4);                                                \
            hil_fourier_divide_pair_##suffix(d, 4);                                                \
            hil_fourier_turn_##suffix(b, twiddles + 2 * k * stride, tb);                           \
            hil_fourier_turn_##suffix(c, twiddles + 4 * k * stride, tc);                           \
            hil_fourier_turn_##suffix(d, twiddles + 6 * k * stride, td);                           \
            for (int i = 0; i < 2; i++) {                                                          \
                less[i] = hil_fourier_sub_##suffix(a[i], tc[i]);                                   \
                a[i] = hil_fourier_add_##suffix(a[i], tc[i]);                                      \
                odd[i] = hil_fourier_add_##suffix(tb[i], td[i]);                                   \
                rest[i] = hil_fourier_sub_##suffix(tb[i], td[i]);                                  \
                c[i] = hil_fourier_sub_##suffix(a[i], odd[i]);                                     \
                a[i] = hil_fourier_add_##suffix(a[i], odd[i]);                                     \
            }                                                                                      \
            element *const next = inverse ? d : b;                                                 \
            element *const last = inverse ? b : d;                                                 \
            next[0] = hil_fourier_add_##suffix(less[0], rest[1]);                                  \
            next[1] = hil_fourier_sub_##suffix(less[1], rest[0]);                                  \
            last[0] = hil_fourier_sub_##suffix(less[0], rest[1]);                                  \
            last[1] = hil_fourier_add_##suffix(less[1], rest[0]);                                  \
        }                                                                                          \
    }                                                                                              \
    HIL_INLINE void hil_fourier_steps_##suffix(element *x, const element *twiddles, int32_t half,  \
                                               int inverse) {                                      \
        int32_t m = 1;                                                                             \
        int32_t odd = half;                                                                        \
        while (odd > 2) {                                                                          \
            odd /= 4;                                                                              \
        }                                                                                          \
        if (odd == 2) {                                                                            \
            for (int32_t at = 0; at < half; at += 2) {                                             \
                hil_fourier_radix2_##suffix(x + 2 * at, twiddles, 1, half / 2);                    \
            }                                                                                      \
            m = 2;                                                                                 \
        }                                                                                          \
        for (; m < half; m *= 4) {                                                                 \
            for (int32_t at = 0; at < half; at += 4 * m) {                                         \
                hil_fourier_radix4_##suffix(x + 2 * at, twiddles, m, half / (4 * m), inverse);     \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    /* The sums and differences of two halves of a spectrum, and these turned. */                  \
    HIL_INLINE void hil_fourier_halves_##suffix(const element *near, const element *far,           \
                                                const element *by, element *sum,                   \
                                                element *turned) {                                 \
        element a[2] = {near[0], near[1]};                                                         \
        element b[2] = {far[0], hil_fourier_sub_##suffix(0, far[1])};                              \
        element rest[2];                                                                           \
        hil_fourier_divide_pair_##suffix(a, 2);                                                    \
        hil_fourier_divide_pair_##suffix(b, 2);                                                    \
        for (int i = 0; i < 2; i++) {                                                              \
            sum[i] = hil_fourier_add_##suffix(a[i], b[i]);                                         \
            rest[i] = hil_fourier_sub_##suffix(a[i], b[i]);                                        \
        }                                                                                          \
        hil_fourier_turn_##suffix(rest, by, turned);                                               \
    }

/* cppcheck takes `inverse`, which is 0, for the pointer that the last step of the call takes. */
/* cppcheck-suppress ctunullpointer */
HIL_FOURIER_FUNCTIONS(s16, int16_t, int32_t)
/* cppcheck-suppress ctunullpointer */
HIL_FOURIER_FUNCTIONS(s32, int32_t, int64_t)
/* cppcheck-suppress ctunullpointer */
HIL_FOURIER_FUNCTIONS(f32, float, float)

#define HIL_FOURIER_SPECTRUM(p, in, out, scratch, suffix, element)                                 \
    do {                                                                                           \
        const int32_t half = (p)->length / 2;                                                      \
        element *const x = (element *)(scratch);                                                   \
        for (int32_t row = 0; row < (p)->rows; row++) {                                            \
            for (int32_t i = 0; i < half; i++) {                                                   \
                const int32_t from = 2 * (p)->order[i];                                            \
                x[2 * i] = from < (p)->samples ? (in)[from] : (element)0;                          \
                x[2 * i + 1] = from + 1 < (p)->samples ? (in)[from + 1] : (element)0;              \
            }                                                                                      \
            hil_fourier_steps_##suffix(x, (p)->twiddles, half, 0);                                 \
            hil_fourier_divide_pair_##suffix(x, 2);                                                \
            (out)[0] = hil_fourier_add_##suffix(x[0], x[1]);                                       \
            (out)[1] = (element)0;                                                                 \
            (out)[2 * half] = hil_fourier_sub_##suffix(x[0], x[1]);                                \
            (out)[2 * half + 1] = (element)0;                                                      \
            for (int32_t k = 1; k <= half / 2; k++) {                                              \
                element sum[2], t[2];                                                              \
                element *const low = (out) + 2 * k;                                                \
                element *const high = (out) + 2 * (half - k);                                      \
                hil_fourier_halves_##suffix(x + 2 * k, x + 2 * (half - k),                         \
                                            (p)->separating + 2 * (k - 1), sum, t);                \
                low[0] = hil_fourier_half_add_##suffix(sum[0], t[0]);                              \
                low[1] = hil_fourier_half_add_##suffix(sum[1], t[1]);                              \
                high[0] = hil_fourier_half_sub_##suffix(sum[0], t[0]);                             \
                high[1] = hil_fourier_half_sub_##suffix(t[1], sum[1]);                             \
            }                                                                                      \
            (in) += (p)->samples;                                                                  \
            (out) += 2 * half + 2;                                                                 \
        }                                                                                          \
    } while (0)

#define HIL_FOURIER_SIGNAL(p, in, out, scratch, suffix, element)                                   \
    do {                                                                                           \
        const int32_t half = (p)->length / 2;                                                      \
        element *const x = (element *)(scratch);                                                   \
        for (int32_t row = 0; row < (p)->rows; row++) {                                            \
            element *const first = x + 2 * (p)->order[0];                                          \
            first[0] = hil_fourier_add_##suffix((in)[0], (in)[2 * half]);                          \
            first[1] = hil_fourier_sub_##suffix((in)[0], (in)[2 * half]);                          \
            hil_fourier_divide_pair_##suffix(first, 2);                                            \
            for (int32_t k = 1; k <= half / 2; k++) {                                              \
                element sum[2], t[2];                                                              \
                element *const low = x + 2 * (p)->order[k];                                        \
                element *const high = x + 2 * (p)->order[half - k];                                \
                hil_fourier_halves_##suffix((in) + 2 * k, (in) + 2 * (half - k),                   \
                                            (p)->separating + 2 * (k - 1), sum, t);                \
                low[0] = hil_fourier_add_##suffix(sum[0], t[0]);                                   \
                low[1] = hil_fourier_add_##suffix(sum[1], t[1]);                                   \
                high[0] = hil_fourier_sub_##suffix(sum[0], t[0]);                                  \
                high[1] = hil_fourier_sub_##suffix(t[1], sum[1]);                                  \
            }                                                                                      \
            hil_fourier_steps_##suffix(x, (p)->twiddles, half, 1);                                 \
            for (int32_t i = 0; i < (p)->length; i++) {                                            \
                (out)[i] = hil_fourier_scale_##suffix(x[i], (p)->length);                          \
            }                                                                                      \
            (in) += 2 * half + 2;                                                                  \
            (out) += (p)->length;                                                                  \
        }                                                                                          \
    } while (0)

/*@kernel
name = "hil_generic_rfft_s16"
requires = []
inputs = ["int16_t"]
outputs = ["int16_t"]
scratch = "2 * length"
order = "none"
code = 1500
[cost]
row = "rows"
sample = "rows * length"
step = "sample * (1 + (length > 8) + (length > 32) + (length > 128) + (length > 512))"
@*/
struct hil_generic_rfft_s16 {
    HIL_FOURIER_FIELDS;
    const int16_t *twiddles;   /* factors of the steps, real and imaginary parts */
    const int16_t *separating; /* factors of the step that separates the halves */
};

HIL_INLINE void hil_generic_rfft_s16(const struct hil_generic_rfft_s16 *p, const int16_t *in,
                                     int16_t *out, void *scratch) {
    HIL_FOURIER_SPECTRUM(p, in, out, scratch, s16, int16_t);
}

/*@kernel
name = "hil_generic_irfft_s16"
requires = []
inputs = ["int16_t"]
outputs = ["int16_t"]
scratch = "2 * length"
order = "none"
code = 1500
[cost]
row = "rows"
sample = "rows * length"
step = "sample * (1 + (length > 8) + (length > 32) + (length > 128) + (length > 512))"
@*/
struct hil_generic_irfft_s16 {
    HIL_FOURIER_FIELDS;
    const int16_t *twiddles;   /* factors of the steps, real and imaginary parts */
    const int16_t *separating; /* factors of the step that separates the halves */
};

HIL_INLINE void hil_generic_irfft_s16(const struct hil_generic_irfft_s16 *p, const int16_t *in,
                                      int16_t *out, void *scratch) {
    HIL_FOURIER_SIGNAL(p, in, out, scratch, s16, int16_t);
}

/*@kernel
name = "hil_generic_rfft_s32"
requires = []
inputs = ["int32_t"]
outputs = ["int32_t"]
scratch = "4 * length"
order = "none"
code = 2200
[cost]
row = "rows"
sample = "rows * length"
step = "sample * (1 + (length > 8) + (length > 32) + (length > 128) + (length > 512))"
@*/
struct hil_generic_rfft_s32 {
    HIL_FOURIER_FIELDS;
    const int32_t *twiddles;   /* factors of the steps, real and imaginary parts */
    const int32_t *separating; /* factors of the step that separates the halves */
};

HIL_INLINE void hil_generic_rfft_s32(const struct hil_generic_rfft_s32 *p, const int32_t *in,
                                     int32_t *out, void *scratch) {
    HIL_FOURIER_SPECTRUM(p, in, out, scratch, s32, int32_t);
}

/*@kernel
name = "hil_generic_irfft_s32"
requires = []
inputs = ["int32_t"]
outputs = ["int32_t"]
scratch = "4 * length"
order = "none"
code = 2200
[cost]
row = "rows"
sample = "rows * length"
step = "sample * (1 + (length > 8) + (length > 32) + (length > 128) + (length > 512))"
@*/
struct hil_generic_irfft_s32 {
    HIL_FOURIER_FIELDS;
    const int32_t *twiddles;   /* factors of the steps, real and imaginary parts */
    const int32_t *separating; /* factors of the step that separates the halves */
};

HIL_INLINE void hil_generic_irfft_s32(const struct hil_generic_irfft_s32 *p, const int32_t *in,
                                      int32_t *out, void *scratch) {
    HIL_FOURIER_SIGNAL(p, in, out, scratch, s32, int32_t);
}

/*@kernel
name = "hil_generic_rfft_f32"
requires = []
inputs = ["float"]
outputs = ["float"]
scratch = "4 * length"
order = "none"
code = 1500
[cost]
row = "rows"
sample = "rows * length"
step = "sample * (1 + (length > 8) + (length > 32) + (length > 128) + (length > 512))"
@*/
struct hil_generic_rfft_f32 {
    HIL_FOURIER_FIELDS;
    const float *twiddles;   /* factors of the steps, real and imaginary parts */
    const float *separating; /* factors of the step that separates the halves */
};

HIL_INLINE void hil_generic_rfft_f32(const struct hil_generic_rfft_f32 *p, const float *in,
                                     float *out, void *scratch) {
    HIL_FOURIER_SPECTRUM(p, in, out, scratch, f32, float);
}

/*@kernel
name = "hil_generic_irfft_f32"
requires = []
inputs = ["float"]
outputs = ["float"]
scratch = "4 * length"
order = "none"
code = 1500
[cost]
row = "rows"
sample = "rows * length"
step = "sample * (1 + (length > 8) + (length > 32) + (length > 128) + (length > 512))"
@*/
struct hil_generic_irfft_f32 {
    HIL_FOURIER_FIELDS;
    const float *twiddles;   /* factors of the steps, real and imaginary parts */
    const float *separating; /* factors of the step that separates the halves */
};

HIL_INLINE void hil_generic_irfft_f32(const struct hil_generic_irfft_f32 *p, const float *in,
                                      float *out, void *scratch) {
    HIL_FOURIER_SIGNAL(p, in, out, scratch, f32, float);
}

#endif
