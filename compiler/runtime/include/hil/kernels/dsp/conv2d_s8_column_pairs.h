/* Convolution of int8 images: the pixels under two or three windows are widened to rows, which are
 * multiplied with the filters. */
#ifndef HIL_KERNELS_DSP_CONV2D_S8_COLUMN_PAIRS_H
#define HIL_KERNELS_DSP_CONV2D_S8_COLUMN_PAIRS_H

#include "hil/kernels/dsp/pairs_s8.h"
#include "hil/kernels/dsp/windows.h"
#include "hil/kernels/generic/patch.h"

/*@kernel
name = "hil_dsp_conv2d_s8_column_pairs"
requires = ["dsp"]
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "8 * units * group + (padded_h * padded_w * in_c + 3) // 4 * 4"
order = ["pixels group"]
reads = "window"
code = 1700
band_code = 1500
[cost]
single = "batch * wide * (3 - group) * ((out_h * out_w) % 2)"
tile = "batch * ((out_h * out_w + group - 1) // group) - single"
whole_tile = "(tile + single) * (in_c % 4 == 0)"
whole_unit = "whole_tile * units * group"
whole_border = "whole_unit * filter_w / in_w * (padded_h == 0)"
odd_window = "(tile + single) * group * (in_c % 4 != 0)"
odd_unit = "odd_window * units"
odd_border = "odd_unit * filter_w / in_w * (padded_h == 0)"
framed_byte = "batch * padded_h * padded_w * in_c"
column_pair = "tile * ((out_c + 1) // 2)"
square_pair = "column_pair * wide * (3 - group)"
straight = "wide * (3 - group) * ((units > 10) * (units < 16) + (units % 32 == 0))"
once_pair = "square_pair * (1 - (out_c % 4 == 0) * (1 - straight))"
own_pair = "square_pair * (shift == 0)"
single_pair = "single * ((out_c + 1) // 2)"
single_unit = "single_pair * units"
output_pair = "(column_pair - square_pair) * group"
narrow_pair = "column_pair * group * (1 - wide)"
signed_pair = "column_pair * signs * (1 + 4 * group)"
unit_weights = "column_pair * units * (5 - wide * (7 - 2 * group))"
unit_row = "column_pair * units * group"
long_unit = "column_pair * units * (units > 10) * (units != 16) * (1 - straight)"
odd_unit_row = "tile * (out_c % 2) * units * group"
clamped = "batch * out_h * out_w * out_c * (high - low != 255)"
@*/
struct hil_dsp_conv2d_s8_column_pairs {
    HIL_IMAGES_FIELDS;
    int32_t out_c; /* output channels */
    HIL_WINDOW_FIELDS;
    int32_t in_zero_point; /* the input that stands for 0.0, which pixels outside the image have */
    int32_t units;         /* of four elements under a window */
    HIL_DSP_PAIRS_FIELDS;
    const int8_t *border; /* a pixel outside the image */
    int32_t padded_h;     /* rows of the image with the padding, if it is put into scratch, or 0 */
    int32_t padded_w;     /* columns of that */
    HIL_DSP_RANGE_FIELDS;
};

/* Whether a window lies within the image, its rows without gaps. */
HIL_INLINE int hil_dsp_window_inside(const struct hil_dsp_conv2d_s8_column_pairs *p,
                                     struct hil_dsp_window at) {
    const int32_t last_y = p->in_h - 1 - (p->filter_h - 1) * p->dilation_h;
    const int32_t last_x = p->in_w - p->filter_w;
    return (p->dilation_w == 1 || p->filter_w == 1) && last_y >= 0 && last_x >= 0 &&
           (uint32_t)at.y <= (uint32_t)last_y && (uint32_t)at.x <= (uint32_t)last_x;
}

/* The pixel under a tap. */
HIL_INLINE const int8_t *hil_dsp_window_pixel(const struct hil_dsp_conv2d_s8_column_pairs *p,
                                              const int8_t *in, int32_t y, int32_t x) {
    return y < 0 || y >= p->in_h || x < 0 || x >= p->in_w ? p->border
                                                          : in + (y * p->in_w + x) * p->in_c;
}

/* Elements of a row of a window that are whole words. */
HIL_INLINE int32_t hil_dsp_window_whole(const struct hil_dsp_conv2d_s8_column_pairs *p) {
    return p->filter_w * p->in_c / 4 * 4;
}

/* Elements that are left of a row. */
HIL_INLINE int32_t hil_dsp_window_rest(const struct hil_dsp_conv2d_s8_column_pairs *p) {
    return p->filter_w * p->in_c % 4;
}

/* What is left of the rows of windows goes after all whole words; this is where in half-words, for
 * one of the elements and the first window. What follows the last meets weights of zero. */
HIL_INLINE int32_t hil_dsp_window_remainder_offset(const struct hil_dsp_conv2d_s8_column_pairs *p,
                                                   int32_t element) {
    const int32_t words = p->filter_h * hil_dsp_window_whole(p) / 2;
    return 2 * p->group * (words + element / 4 * 2 + element % 2) + element % 4 / 2;
}

/* Units of windows that are widened one after the other. */
#define HIL_DSP_FEW_UNITS 12

/* Widens whole words of windows within the image. */
HIL_INLINE void hil_dsp_windows_unrolled(const struct hil_dsp_conv2d_s8_column_pairs *p,
                                         const int8_t *const *windows, uint32_t *to) {
    const int32_t step = p->dilation_h * p->in_w * p->in_c;
    const int32_t units = hil_dsp_window_whole(p) / 4;
#pragma GCC unroll 12
    for (int32_t unit = 0; unit < p->filter_h * units; unit++) {
        const int32_t at = unit / units * step + unit % units * 4;
        if (p->group == 2) {
            to = hil_dsp_widen_two_words(windows[0] + at, windows[1] + at, to);
            continue;
        }
        uint32_t words[2 * HIL_DSP_MAX_ROWS];
#pragma GCC unroll 3
        for (int32_t i = 0; i < p->group; i++) {
            const uint32_t word = hil_dsp_load(windows[i] + at);
            words[i] = hil_dsp_even(word);
            words[p->group + i] = hil_dsp_odd(word);
        }
#pragma GCC unroll 3
        for (int32_t i = 0; i < p->group; i++) {
            to = hil_dsp_store_next(words[2 * i], words[2 * i + 1], to);
        }
    }
}

/* Windows within the image. */
HIL_INLINE void hil_dsp_windows_inside(const struct hil_dsp_conv2d_s8_column_pairs *p,
                                       const int8_t *const *windows, uint32_t *to) {
    const int32_t step = p->dilation_h * p->in_w * p->in_c;
    const int32_t whole = hil_dsp_window_whole(p);
    const int32_t rest = hil_dsp_window_rest(p);
    hil_dsp_half *const left = (hil_dsp_half *)to;
    const int few = p->filter_h * whole <= 4 * HIL_DSP_FEW_UNITS;
    if (few && whole > 0) {
        hil_dsp_windows_unrolled(p, windows, to);
    }
    for (int32_t row = few ? p->filter_h : 0; row < p->filter_h; row++) {
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
            left[hil_dsp_window_remainder_offset(p, element) + 2 * i] =
                windows[i][element / rest * step + whole + element % rest];
        }
    }
}

/* Windows of whole words, pixel by pixel. */
HIL_INLINE void hil_dsp_windows_of_pixels(const struct hil_dsp_conv2d_s8_column_pairs *p,
                                          const int8_t *in, const struct hil_dsp_window *at,
                                          uint32_t *to) {
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
HIL_INLINE uint32_t hil_dsp_window_word(const struct hil_dsp_conv2d_s8_column_pairs *p,
                                        const int8_t *row, int32_t byte) {
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
HIL_INLINE void hil_dsp_window_row(const struct hil_dsp_conv2d_s8_column_pairs *p,
                                   const int8_t *from, int32_t byte, int outside, int32_t row,
                                   uint32_t *window) {
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
        ((hil_dsp_half *)window)[hil_dsp_window_remainder_offset(p, row * rest + i)] =
            (int16_t)(there ? from[at] : p->in_zero_point);
    }
}

/* Such a window, one of the rows of `to`. */
HIL_INLINE void hil_dsp_window_any_position(const struct hil_dsp_conv2d_s8_column_pairs *p,
                                            const int8_t *in, struct hil_dsp_window at,
                                            uint32_t *to) {
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
HIL_INLINE int hil_dsp_windows_fit(const struct hil_dsp_conv2d_s8_column_pairs *p) {
    const int32_t first = (p->pad_left + p->stride_w - 1) / p->stride_w;
    const int32_t last = (p->in_w - p->filter_w + p->pad_left) / p->stride_w;
    return last - first + 1 >= 2 * p->group - 1;
}

/* Widens `group` windows, parts of which may lie outside the image: each row's whole words, row by
 * row, then what is left of the rows. */
HIL_INLINE void hil_dsp_windows_outside(const struct hil_dsp_conv2d_s8_column_pairs *p,
                                        const int8_t *in, const struct hil_dsp_window *at,
                                        uint32_t *to) {
    if (p->in_c % 4 == 0) {
        hil_dsp_windows_of_pixels(p, in, at, to);
        return;
    }
    for (int32_t i = 0; i < p->group; i++) {
        hil_dsp_window_any_position(p, in, at[i], to + i);
    }
}

/* The same for windows wherever they lie. */
HIL_INLINE void hil_dsp_windows(const struct hil_dsp_conv2d_s8_column_pairs *p, const int8_t *in,
                                const struct hil_dsp_window *at, uint32_t *to) {
    /* What lies between two windows of a row that are within the image is, too. */
    const struct hil_dsp_window last = at[p->group - 1];
    if (p->padded_h > 0 || (hil_dsp_windows_fit(p) && at[0].y == last.y &&
                            hil_dsp_window_inside(p, at[0]) && hil_dsp_window_inside(p, last))) {
        const int8_t *from[HIL_DSP_MAX_ROWS] = {NULL};
#pragma GCC unroll 3
        for (int32_t i = 0; i < p->group; i++) {
            from[i] = in + (at[i].y * p->in_w + at[i].x) * p->in_c;
        }
        hil_dsp_windows_inside(p, from, to);
        return;
    }
    hil_dsp_windows_outside(p, in, at, to);
}

/* Puts an image with its padding into scratch. */
HIL_INLINE void hil_dsp_conv2d_framed(const struct hil_dsp_conv2d_s8_column_pairs *p,
                                      const int8_t *in, int8_t *to) {
    const int32_t line = p->padded_w * p->in_c;
    memset(to, p->in_zero_point, (size_t)(p->padded_h * line));
    to += p->pad_top * line + p->pad_left * p->in_c;
    /* A window need not reach the last rows and columns. */
    const int32_t rows = p->padded_h - p->pad_top;
    const int32_t columns = p->padded_w - p->pad_left;
    const int32_t size = (columns < p->in_w ? columns : p->in_w) * p->in_c;
    for (int32_t left = rows < p->in_h ? rows : p->in_h; left > 0; left--) {
        memcpy(to, in, (size_t)size);
        in += p->in_w * p->in_c;
        to += line;
    }
}

/* Rows of windows that are widened without a loop. */
#define HIL_DSP_BESIDE_ROWS 5

/* The same for windows of which the first begins at a column of a row of the image, below which the
 * image has all of their rows. */
HIL_INLINE void hil_dsp_windows_row_edge(const struct hil_dsp_conv2d_s8_column_pairs *p,
                                         const int8_t *row, int32_t column, uint32_t *to) {
    const int32_t step = p->dilation_h * p->in_w * p->in_c;
#pragma GCC unroll 3
    for (int32_t i = 0; i < p->group; i++) {
        const int32_t x = column + i * p->stride_w;
        const int outside = x < 0 || x + p->filter_w > p->in_w;
#pragma GCC unroll 5
        for (int32_t y = 0; y < p->filter_h; y++) {
            hil_dsp_window_row(p, row + y * step, x * p->in_c, outside, y, to + i);
        }
    }
}

/* The outputs of a row of whole groups of windows, from row y of the image on. Between groups all
 * registers are in use, so what a turn needs of its own are two numbers. */
HIL_INLINE void hil_dsp_conv2d_row(const struct hil_dsp_conv2d_s8_column_pairs *p,
                                   const struct hil_dsp_pairs_s8 *pairs, const int8_t *in,
                                   int32_t y, int8_t *out, uint32_t *scratch) {
    const struct hil_dsp_window start = {.y = y, .x = 0};
    const int inside =
        p->padded_h > 0 || (hil_dsp_windows_fit(p) && hil_dsp_window_inside(p, start));
    /* Pixels from the row's first window to the first that, as a group's, reaches beyond the row.
     */
    const int32_t group_w = p->group * p->stride_w;
    const int32_t all = p->out_w * p->stride_w;
    const int32_t fitting = p->pad_left + p->in_w - p->filter_w - group_w + p->stride_w + 1;
    const int32_t groups = (fitting + group_w - 1) / group_w * group_w;
    const int32_t most = p->padded_h > 0 || groups > all ? all : groups;
    /* Whether none does, of any row. */
    const struct hil_dsp_window last = {.y = (p->out_h - 1) * p->stride_h, .x = 0};
    const int whole = p->padded_h > 0 || (p->pad_left == 0 && p->pad_top == 0 && most == all &&
                                          hil_dsp_windows_fit(p) && hil_dsp_window_inside(p, last));
    /* Whether only the last group of a row does: then its place is known to the compiler. */
    const int beside = p->in_c % 4 != 0 && p->filter_h <= HIL_DSP_BESIDE_ROWS && p->pad_left == 0 &&
                       most < all && all - most <= group_w;
    const int8_t *const row = in + y * p->in_w * p->in_c;
    const int8_t *const begin = row - p->pad_left * p->in_c;
    const int8_t *const safe = inside ? begin + most * p->in_c : begin;
    const int8_t *const end = begin + all * p->in_c;
    for (const int8_t *at = begin;;) {
        if (at < safe && (p->pad_left == 0 || at >= row)) {
            const int8_t *from[HIL_DSP_MAX_ROWS] = {NULL};
#pragma GCC unroll 3
            for (int32_t i = 0; i < p->group; i++) {
                from[i] = at + i * p->stride_w * p->in_c;
            }
            hil_dsp_windows_inside(p, from, scratch);
        } else if (whole || at == end) {
            break;
        } else if (beside && safe != begin) {
            hil_dsp_windows_row_edge(p, row, all - group_w, scratch);
        } else {
            struct hil_dsp_window windows[HIL_DSP_MAX_ROWS];
            const int32_t x = (int32_t)(at - row) / p->in_c;
            for (int32_t i = 0; i < p->group; i++) {
                windows[i] = (struct hil_dsp_window){.y = y, .x = x + i * p->stride_w};
            }
            hil_dsp_windows_outside(p, in, windows, scratch);
        }
        hil_dsp_pairs_s8(pairs, scratch, hil_dsp_pairs_places(out, p->out_c, p->group, p->group));
        at += group_w * p->in_c;
        out += p->group * p->out_c;
    }
}

/* The outputs of all windows of an image. */
HIL_INLINE void hil_dsp_conv2d_image(const struct hil_dsp_conv2d_s8_column_pairs *p,
                                     const int8_t *in, int8_t *out, uint32_t *scratch) {
    const struct hil_dsp_pairs_s8 pairs = {
        .units = p->units,
        .count = p->out_c,
        .group = p->group,
        .wide = p->wide,
        .signs = p->signs,
        .shift = p->shift,
        .stream = p->stream,
    };
    const struct hil_dsp_walk walk = HIL_DSP_WALK_OF(p, p->group);
    const int32_t windows = p->out_h * p->out_w;
    if (p->out_w % p->group == 0) {
        for (int32_t y = 0; y < p->out_h; y++) {
            hil_dsp_conv2d_row(p, &pairs, in, y * p->stride_h - p->pad_top, out, scratch);
            out += p->out_w * p->out_c;
        }
        return;
    }
    struct hil_dsp_window next = {.y = -p->pad_top, .x = -p->pad_left};
    int32_t out_x = 0;
    for (int32_t left = windows; left > 0; left -= p->group) {
        struct hil_dsp_window at[HIL_DSP_MAX_ROWS];
        hil_dsp_windows_next(&walk, left, &next, &out_x, at);
        hil_dsp_windows(p, in, at, scratch);
        hil_dsp_pairs_s8(&pairs, scratch, hil_dsp_pairs_places(out, p->out_c, left, windows));
        out += (left < p->group ? left : p->group) * p->out_c;
    }
}

HIL_INLINE void hil_dsp_conv2d_s8_column_pairs(const struct hil_dsp_conv2d_s8_column_pairs *p,
                                               const int8_t *in, int8_t *out, void *scratch) {
    for (int32_t images = p->batch; images > 0; images--) {
        uint32_t *const words = (uint32_t *)scratch;
        if (p->padded_h > 0) {
            struct hil_dsp_conv2d_s8_column_pairs framed = *p;
            framed.in_h = p->padded_h;
            framed.in_w = p->padded_w;
            framed.pad_top = 0;
            framed.pad_left = 0;
            int8_t *const image = (int8_t *)(words + 2 * p->units * p->group);
            hil_dsp_conv2d_framed(p, in, image);
            hil_dsp_conv2d_image(&framed, image, out, words);
        } else {
            hil_dsp_conv2d_image(p, in, out, words);
        }
        hil_dsp_clamp_s8(out, p->out_h * p->out_w * p->out_c, p->low, p->high);
        in += p->in_h * p->in_w * p->in_c;
        out += p->out_h * p->out_w * p->out_c;
    }
}

#endif
