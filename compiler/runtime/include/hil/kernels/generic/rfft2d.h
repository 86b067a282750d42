/* Fourier transforms of real images in double precision, and magnitudes of complex numbers. */
#ifndef HIL_KERNELS_GENERIC_RFFT2D_H
#define HIL_KERNELS_GENERIC_RFFT2D_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "hil/quant.h"

/* Factor k of a table of cosines and sines, each the sum of two floats. */
HIL_INLINE double hil_rfft2d_factor(const float *factors, int32_t k, int32_t part) {
    return (double)factors[4 * k + 2 * part] + (double)factors[4 * k + 2 * part + 1];
}

/* Transforms `count` complex numbers, a power of two, where they are. The factors are those of
 * `step` times as many. */
HIL_INLINE void hil_fft_f64(double *x, int32_t count, const float *factors, int32_t step) {
    int32_t place = 0;
    for (int32_t i = 1; i < count; i++) {
        int32_t bit = count / 2;
        for (; place & bit; bit /= 2) {
            place ^= bit;
        }
        place ^= bit;
        if (i < place) {
            for (int32_t part = 0; part < 2; part++) {
                const double kept = x[2 * i + part];
                x[2 * i + part] = x[2 * place + part];
                x[2 * place + part] = kept;
            }
        }
    }
    for (int32_t half = 1; half < count; half *= 2) {
        for (int32_t k = 0; k < half; k++) {
            const int32_t factor = k * (count / half / 2) * step;
            const double re = hil_rfft2d_factor(factors, factor, 0);
            const double im = hil_rfft2d_factor(factors, factor, 1);
            for (int32_t i = k; i < count; i += 2 * half) {
                double *const a = &x[2 * i];
                double *const b = &x[2 * (i + half)];
                const double b_re = b[0] * re - b[1] * im;
                const double b_im = b[0] * im + b[1] * re;
                b[0] = a[0] - b_re;
                b[1] = a[1] - b_im;
                a[0] += b_re;
                a[1] += b_im;
            }
        }
    }
}

/*@kernel
name = "hil_generic_rfft2d"
requires = []
inputs = ["float"]
outputs = ["float"]
scratch = "16 * (plane + longest)"
order = "none"
code = 900
[cost]
number = "images * height * width"
butterfly = "number * bits"
@*/
struct hil_generic_rfft2d {
    int32_t images;       /* that are transformed */
    int32_t in_h;         /* rows of an image that there are */
    int32_t in_w;         /* numbers of a row that there are */
    int32_t height;       /* rows that are transformed */
    int32_t width;        /* numbers of a row that are transformed */
    int32_t plane;        /* complex numbers that are kept of an image; none where it has one row */
    int32_t longest;      /* the larger of height and width */
    int32_t bits;         /* steps of both transforms */
    const float *factors; /* of the longest: cosines and minus sines, each the sum of two floats */
};

HIL_INLINE void hil_generic_rfft2d(const struct hil_generic_rfft2d *p, const float *in, float *out,
                                   void *scratch) {
    double *const line = (double *)scratch;
    double *const plane = &line[2 * p->longest];
    const int32_t columns = p->width / 2 + 1;
    for (int32_t image = 0; image < p->images; image++) {
        for (int32_t row = 0; row < p->height; row++) {
            memset(line, 0, 2 * sizeof(double) * (size_t)p->width);
            for (int32_t i = 0; row < p->in_h && i < p->in_w && i < p->width; i++) {
                line[2 * i] = (double)in[row * p->in_w + i];
            }
            hil_fft_f64(line, p->width, p->factors, p->longest / p->width);
            if (p->height == 1) {
                for (int32_t i = 0; i < 2 * columns; i++) {
                    out[i] = (float)line[i];
                }
            } else {
                memcpy(&plane[row * 2 * columns], line, 2 * sizeof(double) * (size_t)columns);
            }
        }
        for (int32_t column = 0; p->height > 1 && column < columns; column++) {
            for (int32_t row = 0; row < p->height; row++) {
                line[2 * row] = plane[2 * (row * columns + column)];
                line[2 * row + 1] = plane[2 * (row * columns + column) + 1];
            }
            hil_fft_f64(line, p->height, p->factors, p->longest / p->height);
            for (int32_t row = 0; row < p->height; row++) {
                out[2 * (row * columns + column)] = (float)line[2 * row];
                out[2 * (row * columns + column) + 1] = (float)line[2 * row + 1];
            }
        }
        in += p->in_h * p->in_w;
        out += p->height * columns * 2;
    }
}

/*@kernel
name = "hil_generic_complex_abs"
requires = []
inputs = ["float"]
outputs = ["float"]
scratch = "0"
order = "none"
code = 60
[cost]
number = "size"
@*/
struct hil_generic_complex_abs {
    int32_t size; /* complex numbers */
};

HIL_INLINE void hil_generic_complex_abs(const struct hil_generic_complex_abs *p, const float *in,
                                        float *out) {
    for (int32_t i = 0; i < p->size; i++) {
        out[i] = hypotf(in[2 * i], in[2 * i + 1]);
    }
}

#endif
