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
code = 900
[cost.counts]
tile = "batch * ((out_h * out_w + group - 1) // group)"
whole_tile = "tile * (in_c % 4 == 0)"
whole_unit = "whole_tile * units * group"
odd_window = "tile * group * (in_c % 4 != 0)"
odd_unit = "odd_window * units"
odd_border = "odd_unit * filter_w / in_w"
column_pair = "tile * ((out_c + 1) // 2)"
output_pair = "column_pair * (group - 0.5 * wide * (3 - group))"
narrow_pair = "column_pair * group * (1 - wide)"
signed_pair = "column_pair * signs * (1 + 4 * group)"
unit_weights = "column_pair * units * (5 - wide * (7 - 2 * group))"
unit_row = "column_pair * units * group"
long_unit = "column_pair * units * (units > 10) * (units != 16)"
odd_unit_row = "tile * (out_c % 2) * units * group"
[cost.on.cortex-m4]
call = 138.5
whole_tile = 15.94
whole_unit = 5.516
odd_window = 54.36
odd_border = 21.1
column_pair = 10.12
output_pair = 8.053
narrow_pair = 1.936
signed_pair = 0.622
unit_weights = 1.004
unit_row = 3.982
long_unit = 0.2986
@*/
struct hil_dsp_conv2d_pairs_s8 {
    HIL_IMAGES_FIELDS;
    int32_t out_c; /* output channels */
    HIL_WINDOW_FIELDS;
    int32_t in_zero_point; /* the input that stands for 0.0, which pixels outside the image have */
    int32_t units;         /* of four elements under a window */
    HIL_DSP_PAIRS_FIELDS;
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

/* Elements of a row of a window that are whole words. */
HIL_INLINE int32_t hil_dsp_window_whole(const struct hil_dsp_conv2d_pairs_s8 *p) {
    return p->filter_w * p->in_c / 4 * 4;
}

/* Elements that are left of a row. */
HIL_INLINE int32_t hil_dsp_window_rest(const struct hil_dsp_conv2d_pairs_s8 *p) {
    return p->filter_w * p->in_c % 4;
}

/* What is left of the rows of windows goes after all whole words; this is where in half-words, for
 * one of the elements and the first window. What follows the last meets weights of zero. */
HIL_INLINE int32_t hil_dsp_window_left(const struct hil_dsp_conv2d_pairs_s8 *p, int32_t element) {
    const int32_t words = p->filter_h * hil_dsp_window_whole(p) / 2;
    return 2 * p->group * (words + element / 4 * 2 + element % 2) + element % 4 / 2;
}

/* Windows within the image. */
HIL_INLINE void hil_dsp_windows_inside(const struct hil_dsp_conv2d_pairs_s8 *p,
                                       const int8_t *const *windows, uint32_t *to) {
    const int32_t step = p->dilation_h * p->in_w * p->in_c;
    const int32_t whole = hil_dsp_window_whole(p);
    const int32_t rest = hil_dsp_window_rest(p);
    hil_dsp_half *const left = (hil_dsp_half *)to;
    for (int32_t row = 0; row < p->filter_h; row++) {
        const int8_t *from[HIL_DSP_MAX_ROWS] = {NULL};
#pragma GCC unroll 3
        for (int32_t i = 0; i < p->group; i++) {
            from[i] = windows[i] + row * step;
        }
        to = hil_dsp_pairs_widen(p->group, from, whole, to);
    }
#pragma GCC unroll 3
    for (int32_t i = 0; i < p->group; i++) {
#pragma GCC unroll 12
        for (int32_t element = 0; element < p->filter_h * rest; element++) {
            left[hil_dsp_window_left(p, element) + 2 * i] =
                windows[i][element / rest * step + whole + element % rest];
        }
    }
}

/* Windows of whole words, pixel by pixel. */
HIL_INLINE void hil_dsp_windows_of_pixels(const struct hil_dsp_conv2d_pairs_s8 *p, const int8_t *in,
                                          const struct hil_dsp_window *at, uint32_t *to) {
    for (int32_t row = 0; row < p->filter_h; row++) {
        const int32_t y = row * p->dilation_h;
        for (int32_t x = 0; x < p->filter_w * p->dilation_w; x += p->dilation_w) {
            const int8_t *from[HIL_DSP_MAX_ROWS] = {NULL};
            for (int32_t i = 0; i < p->group; i++) {
                from[i] = hil_dsp_window_pixel(p, in, at[i].y + y, at[i].x + x);
            }
            to = hil_dsp_pairs_widen(p->group, from, p->in_c, to);
        }
    }
}

/* Four bytes of a row of the image, some or all of which may lie before it or after. */
HIL_INLINE uint32_t hil_dsp_window_word(const struct hil_dsp_conv2d_pairs_s8 *p, const int8_t *row,
                                        int32_t byte) {
    const uint32_t fill = (uint32_t)(uint8_t)p->in_zero_point * 0x01010101U;
    const int32_t end = p->in_w * p->in_c;
    const int32_t over = byte + 4 - end;
    if (byte <= -4 || over >= 4) {
        return fill;
    }
    if (end < 4) {
        uint32_t word = 0;
        for (int32_t i = 3; i >= 0; i--) {
            const int there = byte + i >= 0 && byte + i < end;
            word = word << 8 | (uint8_t)(there ? row[byte + i] : p->in_zero_point);
        }
        return word;
    }
    if (byte < 0) {
        return hil_dsp_load(row) << (-8 * byte) | fill >> (32 + 8 * byte);
    }
    if (over > 0) {
        return hil_dsp_load(row + byte - over) >> (8 * over) | fill << (32 - 8 * over);
    }
    return hil_dsp_load(row + byte);
}

/* A row of a window of any number of channels and neighbouring pixels, which starts at a byte of a
 * row of the image; `outside` where not all of it may be there. */
HIL_INLINE void hil_dsp_window_row(const struct hil_dsp_conv2d_pairs_s8 *p, const int8_t *from,
                                   int32_t byte, int outside, int32_t row, uint32_t *window) {
    const int32_t whole = hil_dsp_window_whole(p);
    const int32_t rest = hil_dsp_window_rest(p);
    uint32_t *to = window + p->group * (whole / 2) * row;
#pragma GCC unroll 4
    for (int32_t i = 0; i < whole; i += 4) {
        const uint32_t word =
            outside ? hil_dsp_window_word(p, from, byte + i) : hil_dsp_load(from + byte + i);
        to[0] = hil_dsp_even(word);
        to[p->group] = hil_dsp_odd(word);
        to += 2 * p->group;
    }
#pragma GCC unroll 3
    for (int32_t i = 0; i < rest; i++) {
        const int32_t at = byte + whole + i;
        const int there = !outside || (at >= 0 && at < p->in_w * p->in_c);
        ((hil_dsp_half *)window)[hil_dsp_window_left(p, row * rest + i)] =
            (int16_t)(there ? from[at] : p->in_zero_point);
    }
}

/* Such a window, one of the rows of `to`. */
HIL_INLINE void hil_dsp_window_anywhere(const struct hil_dsp_conv2d_pairs_s8 *p, const int8_t *in,
                                        struct hil_dsp_window at, uint32_t *to) {
    const int32_t byte = at.x * p->in_c;
    const int32_t step = p->in_w * p->in_c;
    if (hil_dsp_window_inside(p, at)) {
#pragma GCC unroll 5
        for (int32_t row = 0; row < p->filter_h; row++) {
            hil_dsp_window_row(p, in + (at.y + row * p->dilation_h) * step, byte, 0, row, to);
        }
        return;
    }
    for (int32_t row = 0; row < p->filter_h; row++) {
        const int32_t y = at.y + row * p->dilation_h;
        const int there = y >= 0 && y < p->in_h;
        /* A row outside the image is as one that lies before it. */
        hil_dsp_window_row(p, in + y * step, there ? byte : -p->filter_w * p->in_c, 1, row, to);
    }
}

/* Whether there are groups of windows within the image in every row of outputs. Fewer are not worth
 * code of their own. */
HIL_INLINE int hil_dsp_windows_fit(const struct hil_dsp_conv2d_pairs_s8 *p) {
    const int32_t first = (p->pad_left + p->stride_w - 1) / p->stride_w;
    const int32_t last = (p->in_w - p->filter_w + p->pad_left) / p->stride_w;
    return last - first + 1 >= 2 * p->group - 1;
}

/* Widens `group` windows: each row's whole words, row by row, then what is left of the rows. */
HIL_INLINE void hil_dsp_windows(const struct hil_dsp_conv2d_pairs_s8 *p, const int8_t *in,
                                const struct hil_dsp_window *at, uint32_t *to) {
    /* What lies between two windows of a row that are within the image is, too. */
    const struct hil_dsp_window last = at[p->group - 1];
    if (hil_dsp_windows_fit(p) && at[0].y == last.y && hil_dsp_window_inside(p, at[0]) &&
        hil_dsp_window_inside(p, last)) {
        const int8_t *from[HIL_DSP_MAX_ROWS] = {NULL};
#pragma GCC unroll 3
        for (int32_t i = 0; i < p->group; i++) {
            from[i] = in + (at[i].y * p->in_w + at[i].x) * p->in_c;
        }
        hil_dsp_windows_inside(p, from, to);
        return;
    }
    if (p->in_c % 4 == 0) {
        hil_dsp_windows_of_pixels(p, in, at, to);
        return;
    }
    for (int32_t i = 0; i < p->group; i++) {
        hil_dsp_window_anywhere(p, in, at[i], to + i);
    }
}

/* The windows of the next `group` outputs, of which `left` are left, and where the one after these
 * lies. A window beyond the last is the last once more. */
HIL_INLINE void hil_dsp_windows_next(const struct hil_dsp_conv2d_pairs_s8 *p, int32_t left,
                                     struct hil_dsp_window *next, int32_t *out_x,
                                     struct hil_dsp_window *at) {
    /* Then all lie in a row. */
    const int whole = p->out_w % p->group == 0;
#pragma GCC unroll 3
    for (int32_t i = 0; i < p->group; i++) {
        at[i] = *next;
        if (whole || i + 1 < left) {
            next->x += p->stride_w;
            (*out_x)++;
        }
        if ((!whole || i + 1 == p->group) && *out_x == p->out_w) {
            *out_x = 0;
            next->x = -p->pad_left;
            next->y += p->stride_h;
        }
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
            hil_dsp_windows_next(p, left, &next, &out_x, at);
            hil_dsp_windows(p, in, at, (uint32_t *)scratch);
            hil_dsp_pairs_s8(&pairs, (const uint32_t *)scratch,
                             hil_dsp_pairs_places(out, p->out_c, left));
            out += (left < p->group ? left : p->group) * p->out_c;
        }
        in += p->in_h * p->in_w * p->in_c;
    }
}

#endif
