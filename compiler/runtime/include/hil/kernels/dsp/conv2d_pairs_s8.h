/* Convolution of int8 images: the pixels under two or three windows are widened to rows, which are
 * multiplied with the filters. */
#ifndef HIL_KERNELS_DSP_CONV2D_PAIRS_S8_H
#define HIL_KERNELS_DSP_CONV2D_PAIRS_S8_H

#include "hil/kernels/dsp/pairs_s8.h"
#include "hil/kernels/generic/patch.h"

/*@kernel
name = "hil_dsp_conv2d_pairs_s8"
requires = ["dsp"]
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "8 * units * group"
order = ["pixels group"]
reads = "window"
cost = """
60
+ 130 * batch * ((out_h * out_w + group - 1) // group) * (in_c % 4 == 0)
+ 14 * batch * ((out_h * out_w + group - 1) // group) * units * (in_c % 4 == 0)
+ 45 * batch * ((out_h * out_w + group - 1) // group) * group * (in_c % 4 != 0)
+ 8 * batch * ((out_h * out_w + group - 1) // group) * group * units * (in_c % 4 != 0)
+ 30 * batch * ((out_h * out_w + group - 1) // group) * group * units * (in_c % 4 != 0) * (units >
16)
+ 9 * batch * ((out_h * out_w + group - 1) // group) * ((out_c + 1) // 2)
+ 6 * batch * ((out_h * out_w + group - 1) // group) * ((out_c + 1) // 2) * group
+ 2 * batch * ((out_h * out_w + group - 1) // group) * ((out_c + 1) // 2) * group * (1 - wide)
+ 1 * batch * ((out_h * out_w + group - 1) // group) * ((out_c + 1) // 2) * signs * (1 + 4 * group)
+ 1 * batch * ((out_h * out_w + group - 1) // group) * ((out_c + 1) // 2) * units * (5 - wide)
+ 4 * batch * ((out_h * out_w + group - 1) // group) * ((out_c + 1) // 2) * units * group
+ 0.5 * batch * ((out_h * out_w + group - 1) // group) * ((out_c + 1) // 2) * units * (units > 10) *
(units != 16)
+ 6 * batch * ((out_h * out_w + group - 1) // group) * (out_c % 2) * units * group"""
code = 900
@*/
struct hil_dsp_conv2d_pairs_s8 {
    HIL_IMAGES_FIELDS;
    int32_t out_c;
    HIL_WINDOW_FIELDS;
    int32_t in_zero_point;
    int32_t units; /* of four elements under a window; this and the rest as in hil_dsp_pairs_s8 */
    int32_t group;
    int32_t wide;
    int32_t signs;
    int32_t shift;
    const int32_t *stream;
    const int8_t *border; /* a pixel outside the image */
};

/* Where a window's first tap lies in the image. */
struct hil_dsp_window {
    int32_t y;
    int32_t x;
};

/* Whether a window lies within the image, its rows without gaps. */
HIL_INLINE int hil_dsp_window_inside(const struct hil_dsp_conv2d_pairs_s8 *p,
                                     struct hil_dsp_window at) {
    const int32_t last_y = p->in_h - 1 - (p->filter_h - 1) * p->dilation_h;
    const int32_t last_x = p->in_w - p->filter_w;
    return (p->dilation_w == 1 || p->filter_w == 1) && last_y >= 0 && last_x >= 0 &&
           (uint32_t)at.y <= (uint32_t)last_y && (uint32_t)at.x <= (uint32_t)last_x;
}

/* The pixel under a tap. */
HIL_INLINE const int8_t *hil_dsp_window_pixel(const struct hil_dsp_conv2d_pairs_s8 *p,
                                              const int8_t *in, int32_t y, int32_t x) {
    return y < 0 || y >= p->in_h || x < 0 || x >= p->in_w ? p->border
                                                          : in + (y * p->in_w + x) * p->in_c;
}

/* Windows of whole words: run by run where all lie within the image, else pixel by pixel. */
HIL_INLINE void hil_dsp_windows_of_words(const struct hil_dsp_conv2d_pairs_s8 *p, const int8_t *in,
                                         const struct hil_dsp_window *at, uint32_t *to) {
    const int8_t *from[HIL_DSP_MAX_ROWS] = {NULL};
    int inside = 1;
    for (int32_t i = 0; i < p->group; i++) {
        inside = inside && hil_dsp_window_inside(p, at[i]);
        from[i] = in + (at[i].y * p->in_w + at[i].x) * p->in_c;
    }
    for (int32_t row = 0; row < p->filter_h; row++) {
        const int32_t y = row * p->dilation_h;
        if (inside) {
            to = hil_dsp_pairs_widen(p->group, from, p->filter_w * p->in_c, to);
            for (int32_t i = 0; i < p->group; i++) {
                from[i] += p->dilation_h * p->in_w * p->in_c;
            }
            continue;
        }
        for (int32_t x = 0; x < p->filter_w * p->dilation_w; x += p->dilation_w) {
            for (int32_t i = 0; i < p->group; i++) {
                from[i] = hil_dsp_window_pixel(p, in, at[i].y + y, at[i].x + x);
            }
            to = hil_dsp_pairs_widen(p->group, from, p->in_c, to);
        }
    }
}

/* Four elements of a window within the image, from element `first` of it on; zeros after the last.
 */
HIL_INLINE uint32_t hil_dsp_window_word(const struct hil_dsp_conv2d_pairs_s8 *p, const int8_t *from,
                                        int32_t first) {
    const int32_t run = p->filter_w * p->in_c;
    const int32_t step = p->dilation_h * p->in_w * p->in_c;
    const int32_t end = p->filter_h * run;
    if (first % run + 4 <= run) {
        return hil_dsp_load(from + first / run * step + first % run);
    }
    uint32_t word = 0;
#pragma GCC unroll 4
    for (int32_t i = 0; i < 4; i++) {
        const int32_t place = first + i;
        if (place < end) {
            word |= (uint32_t)(uint8_t)from[place / run * step + place % run] << (8 * i);
        }
    }
    return word;
}

/* A row of a window that takes four bytes, of which some or all may lie outside the image. */
HIL_INLINE uint32_t hil_dsp_window_row(const struct hil_dsp_conv2d_pairs_s8 *p, const int8_t *in,
                                       int32_t y, int32_t x) {
    const uint32_t fill = (uint32_t)(uint8_t)p->in_zero_point * 0x01010101U;
    const int8_t *const row = in + y * p->in_w * p->in_c;
    const int32_t over = x + p->filter_w - p->in_w;
    if (y < 0 || y >= p->in_h || x <= -p->filter_w || over >= p->filter_w) {
        return fill;
    }
    if (x < 0) {
        const int32_t bits = -8 * x * p->in_c;
        return hil_dsp_load(row) << bits | fill >> (32 - bits);
    }
    if (over > 0) {
        const int32_t bits = 8 * over * p->in_c;
        return hil_dsp_load(row + p->in_w * p->in_c - 4) >> bits | fill << (32 - bits);
    }
    return hil_dsp_load(row + x * p->in_c);
}

/* What a window of few elements takes to be unrolled. */
#define HIL_DSP_WINDOW_UNITS 16

/* A window of any number of channels, one of the rows of `to`. */
HIL_INLINE void hil_dsp_window_of_bytes(const struct hil_dsp_conv2d_pairs_s8 *p, const int8_t *in,
                                        struct hil_dsp_window at, uint32_t *to) {
    if (p->units <= HIL_DSP_WINDOW_UNITS && hil_dsp_window_inside(p, at)) {
        const int8_t *const from = in + (at.y * p->in_w + at.x) * p->in_c;
#pragma GCC unroll 16
        for (int32_t unit = 0; unit < p->units; unit++) {
            const uint32_t word = hil_dsp_window_word(p, from, 4 * unit);
            to[2 * p->group * unit] = hil_dsp_even(word);
            to[2 * p->group * unit + p->group] = hil_dsp_odd(word);
        }
        return;
    }
    if (p->filter_w * p->in_c == 4 && p->dilation_w == 1 && p->in_w * p->in_c >= 4) {
        for (int32_t row = 0; row < p->filter_h; row++) {
            const uint32_t word = hil_dsp_window_row(p, in, at.y + row * p->dilation_h, at.x);
            to[0] = hil_dsp_even(word);
            to[p->group] = hil_dsp_odd(word);
            to += 2 * p->group;
        }
        return;
    }
    uint32_t word = 0;
    int32_t bits = 0;
    for (int32_t row = 0; row < p->filter_h; row++) {
        for (int32_t x = 0; x < p->filter_w; x++) {
            const int8_t *const pixel =
                hil_dsp_window_pixel(p, in, at.y + row * p->dilation_h, at.x + x * p->dilation_w);
            for (int32_t channel = 0; channel < p->in_c; channel++) {
                word |= (uint32_t)(uint8_t)pixel[channel] << bits;
                bits += 8;
                if (bits == 32) {
                    to[0] = hil_dsp_even(word);
                    to[p->group] = hil_dsp_odd(word);
                    to += 2 * p->group;
                    word = 0;
                    bits = 0;
                }
            }
        }
    }
    if (bits != 0) {
        to[0] = hil_dsp_even(word);
        to[p->group] = hil_dsp_odd(word);
    }
}

HIL_INLINE void hil_dsp_conv2d_pairs_s8(const struct hil_dsp_conv2d_pairs_s8 *p, const int8_t *in,
                                        int8_t *out, void *scratch) {
    const struct hil_dsp_pairs_s8 pairs = {
        .units = p->units,
        .count = p->out_c,
        .group = p->group,
        .wide = p->wide,
        .signs = p->signs,
        .shift = p->shift,
        .stream = p->stream,
    };
    for (int32_t images = p->batch; images > 0; images--) {
        struct hil_dsp_window next = {.y = -p->pad_top, .x = -p->pad_left};
        int32_t out_x = 0;
        for (int32_t left = p->out_h * p->out_w; left > 0; left -= p->group) {
            struct hil_dsp_window at[HIL_DSP_MAX_ROWS];
            for (int32_t i = 0; i < p->group; i++) {
                at[i] = next;
                if (p->in_c % 4 != 0) {
                    hil_dsp_window_of_bytes(p, in, next, (uint32_t *)scratch + i);
                }
                /* A window beyond the last is the last once more. */
                if (i + 1 < left) {
                    next.x += p->stride_w;
                    out_x++;
                }
                if (out_x == p->out_w) {
                    out_x = 0;
                    next.x = -p->pad_left;
                    next.y += p->stride_h;
                }
            }
            if (p->in_c % 4 == 0) {
                hil_dsp_windows_of_words(p, in, at, scratch);
            }
            hil_dsp_pairs_s8(&pairs, scratch, hil_dsp_pairs_places(out, p->out_c, left));
            out += (left < p->group ? left : p->group) * p->out_c;
        }
        in += p->in_h * p->in_w * p->in_c;
    }
}

#endif
