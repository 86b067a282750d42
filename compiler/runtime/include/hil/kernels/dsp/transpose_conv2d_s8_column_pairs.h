/* Transposed convolutions of int8 images by pairs of columns: the pixels that outputs next to each
 * other have in common are widened once, for two places in a row, and multiplied with the weights
 * of each phase.
 *
 * Counted from the whole image with all of its padding, output u = stride * q + p along an axis is
 * the sum of the taps p, p + stride, ... of the pixels q, q - 1, ...: the taps of any phase p are
 * those of the last, `few`, and at most one more, `all`. In scratch the pixels lie in an order in
 * which every phase finds its own next to each other, dy and dx pixels before q:
 *
 *     dy few      dx < few      |  dy < few     dx < few  |  dy < few  dx few  |  dy few  dx few
 *     phases of all rows, few columns: the first two  |  of few rows, few columns: the second
 *     of few rows, all columns: the second and third  |  of all rows, all columns: all
 */
#ifndef HIL_KERNELS_DSP_TRANSPOSE_CONV2D_S8_COLUMN_PAIRS_H
#define HIL_KERNELS_DSP_TRANSPOSE_CONV2D_S8_COLUMN_PAIRS_H

#include "hil/kernels/dsp/pairs_s8.h"
#include "hil/kernels/generic/fields.h"

/*@kernel
name = "hil_dsp_transpose_conv2d_s8_column_pairs"
requires = ["dsp"]
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "16 * units"
order = "none"
code = 3000
band_code = 2900
[cost]
line = "batch * ((out_h + pad_top + stride_h - 1) // stride_h)"
place = "line * ((out_w + pad_left + stride_w - 1) // stride_w)"
widened = "place * units"
phase = "place * stride_h * stride_w"
output = "batch * out_h * out_w * out_c"
tap_pair = "place * filter_h * filter_w * ((out_c + 1) // 2)"
unit = "tap_pair * ((in_c + 3) // 4)"
signed_output = "output * signs"
clamped = "output * (high - low != 255)"
@*/
struct hil_dsp_transpose_conv2d_s8_column_pairs {
    HIL_IMAGES_FIELDS;
    int32_t out_c;    /* channels of the output */
    int32_t filter_h; /* rows of the filter */
    int32_t filter_w; /* columns of the filter */
    int32_t stride_h; /* output rows between those of neighbouring pixels */
    int32_t stride_w; /* output columns between those of neighbouring pixels */
    int32_t pad_top;  /* rows of the whole output above this one */
    int32_t pad_left; /* columns of the whole output before this one */
    int32_t units;    /* of four elements, of all pixels of a place */
    HIL_DSP_PAIRS_FIELDS;
    const int8_t *border; /* a pixel outside the image */
    HIL_DSP_RANGE_FIELDS;
};

/* Pixels of a phase along an axis. */
HIL_INLINE int32_t hil_dsp_transposed_taps(int32_t filter, int32_t stride, int32_t phase) {
    return (filter - phase + stride - 1) / stride;
}

/* Widens the pixels [first_y, end_y) x [first_x, end_x) before a place and before the next one,
 * those of a row as they lie in memory; `inside` where the image has all of them. */
HIL_INLINE uint32_t *
hil_dsp_transposed_block(const struct hil_dsp_transpose_conv2d_s8_column_pairs *p, const int8_t *in,
                         int32_t y, int32_t x, int inside, int32_t first_y, int32_t end_y,
                         int32_t first_x, int32_t end_x, uint32_t *to) {
    /* A pixel ends with a whole unit. */
    const int32_t run = inside && p->in_c % 4 == 0 ? end_x - first_x : 1;
    if (end_x <= first_x) {
        return to;
    }
#pragma GCC unroll 2
    for (int32_t dy = end_y - 1; dy >= first_y; dy--) {
        for (int32_t dx = end_x - 1; dx >= first_x; dx -= run) {
            const int8_t *from[HIL_DSP_MAX_ROWS] = {NULL};
#pragma GCC unroll 2
            for (int32_t i = 0; i < 2; i++) {
                const int32_t column = x + i - dx;
                const int there =
                    inside || (y >= dy && y - dy < p->in_h && column >= 0 && column < p->in_w);
                from[i] = there ? in + ((y - dy) * p->in_w + column) * p->in_c : p->border;
            }
            to = hil_dsp_pairs_widen(2, from, run * p->in_c, to);
        }
    }
    return to;
}

/* All pixels of two places. */
HIL_INLINE void hil_dsp_transposed_pixels(const struct hil_dsp_transpose_conv2d_s8_column_pairs *p,
                                          const int8_t *in, int32_t y, int32_t x, int inside,
                                          uint32_t *to) {
    const int32_t few_y = p->filter_h / p->stride_h;
    const int32_t few_x = p->filter_w / p->stride_w;
    const int32_t all_y = hil_dsp_transposed_taps(p->filter_h, p->stride_h, 0);
    const int32_t all_x = hil_dsp_transposed_taps(p->filter_w, p->stride_w, 0);
    to = hil_dsp_transposed_block(p, in, y, x, inside, few_y, all_y, 0, few_x, to);
    to = hil_dsp_transposed_block(p, in, y, x, inside, 0, few_y, 0, few_x, to);
    to = hil_dsp_transposed_block(p, in, y, x, inside, 0, few_y, few_x, all_x, to);
    hil_dsp_transposed_block(p, in, y, x, inside, few_y, all_y, few_x, all_x, to);
}

/* The outputs of all phases at two places of a row, or at the first of them. */
HIL_INLINE void hil_dsp_transposed_phases(const struct hil_dsp_transpose_conv2d_s8_column_pairs *p,
                                          int32_t y, int32_t x, int alone, int8_t *out,
                                          const uint32_t *scratch) {
    const int32_t units = (p->in_c + 3) / 4;
    const int32_t few_y = p->filter_h / p->stride_h;
    const int32_t few_x = p->filter_w / p->stride_w;
    const int32_t all_y = hil_dsp_transposed_taps(p->filter_h, p->stride_h, 0);
    struct hil_dsp_pairs_s8 pairs = {
        .units = 0,
        .count = p->out_c,
        .group = p->group,
        .wide = p->wide,
        .signs = p->signs,
        .shift = p->shift,
        .stream = p->stream,
    };
#pragma GCC unroll 4
    for (int32_t i = 0; i < p->stride_h * p->stride_w; i++) {
        const int32_t phase_y = i / p->stride_w;
        const int32_t phase_x = i % p->stride_w;
        const int32_t rows = hil_dsp_transposed_taps(p->filter_h, p->stride_h, phase_y);
        const int32_t columns = hil_dsp_transposed_taps(p->filter_w, p->stride_w, phase_x);
        const int32_t before = rows > few_y ? 0 : (all_y - few_y) * few_x;
        pairs.units = rows * columns * units;
        const int32_t out_y = y * p->stride_h + phase_y - p->pad_top;
        const int32_t out_x = x * p->stride_w + phase_x - p->pad_left;
        if (out_y >= 0 && out_y < p->out_h && out_x >= 0 && out_x < p->out_w) {
            const int second = !alone && out_x + p->stride_w < p->out_w;
            const struct hil_dsp_places to = {
                .out = out + (out_y * p->out_w + out_x) * p->out_c,
                .steps = {second ? p->stride_w * p->out_c : 0, 0},
                .single = alone,
            };
            hil_dsp_pairs_s8(&pairs, scratch + 4 * units * before, to);
        }
        pairs.stream += hil_dsp_pairs_words(&pairs) * ((p->out_c + 1) / 2);
    }
}

HIL_INLINE void
hil_dsp_transpose_conv2d_s8_column_pairs(const struct hil_dsp_transpose_conv2d_s8_column_pairs *p,
                                         const int8_t *in, int8_t *out, void *scratch) {
    uint32_t *const words = (uint32_t *)scratch;
    const int32_t before_y = hil_dsp_transposed_taps(p->filter_h, p->stride_h, 0) - 1;
    const int32_t before_x = hil_dsp_transposed_taps(p->filter_w, p->stride_w, 0) - 1;
    const int32_t first_y = p->pad_top / p->stride_h;
    const int32_t first_x = p->pad_left / p->stride_w;
    const int32_t end_y = (p->out_h - 1 + p->pad_top) / p->stride_h + 1;
    const int32_t end_x = (p->out_w - 1 + p->pad_left) / p->stride_w + 1;
    /* Some phases have no output at a row's first place: it is by itself. */
    const int32_t begin = p->pad_left % p->stride_w != 0;
    const int odd = begin || (end_x - first_x) % 2 != 0;
    for (int32_t images = p->batch; images > 0; images--) {
        for (int32_t y = first_y; y < end_y; y++) {
            int32_t x = first_x;
            while (x < end_x) {
                const int alone = odd && ((begin && x == first_x) || x + 1 == end_x);
                if (y >= before_y && y < p->in_h && x >= before_x && x + 1 < p->in_w) {
                    hil_dsp_transposed_pixels(p, in, y, x, 1, words);
                } else {
                    hil_dsp_transposed_pixels(p, in, y, x, 0, words);
                }
                hil_dsp_transposed_phases(p, y, x, alone, out, words);
                x += alone ? 1 : 2;
            }
        }
        in += p->in_h * p->in_w * p->in_c;
        hil_dsp_clamp_s8(out, p->out_h * p->out_w * p->out_c, p->low, p->high);
        out += p->out_h * p->out_w * p->out_c;
    }
}

#endif
