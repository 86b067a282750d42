/* Depthwise 3x3 convolution of int16 images with int8 weights on Helium, a channel's plane at a
 * time: a vector holds four outputs next to each other, of two lines at a time, and each tap of the
 * filter is a multiplication with a scalar. Outputs next to each other lie along a row, or, where
 * that fills vectors better, along a column: lines are then columns. */
#ifndef HIL_KERNELS_MVE_DEPTHWISE_3X3_S16_H
#define HIL_KERNELS_MVE_DEPTHWISE_3X3_S16_H

#include <arm_mve.h>

#include "hil/kernels/generic/patch.h"
#include "hil/kernels/mve/blocks_s8.h"

/*@kernel
name = "hil_depthwise_3x3_s16_mve"
requires = ["mve"]
inputs = ["int16_t"]
outputs = ["int16_t"]
scratch = "2 * (line * lines + 16)"
order = ["rows rows", "channels 1"]
reads = "channel window"
window = {filter_h = "3", filter_w = "3"}
code = 900
[cost.counts]
band = "batch * ((out_h + rows - 1) // rows)"
plane = "band * in_c"
copied = "plane * lines * ((line + 7) // 8)"
tile = "plane * ((lines - 3 + 2 * stride) // (2 * stride)) * ((line // stride + 3) // 4)"
[cost.on.cortex-m55]
band = 100
plane = 60
copied = 5
tile = 46
@*/
struct hil_depthwise_3x3_s16_mve {
    HIL_IMAGES_FIELDS;
    int32_t stride;        /* 1 or 2, along both axes */
    int32_t pad_top;       /* rows by which the first window reaches above the image */
    int32_t pad_left;      /* columns by which it reaches to its left */
    int32_t rows;          /* of outputs at a time */
    int32_t upright;       /* 1: lines are columns, 0: they are rows */
    int32_t line;          /* elements of a line of the plane */
    int32_t lines;         /* of the plane, those of a missing second line of outputs too */
    int32_t out_min;       /* the least output */
    int32_t out_max;       /* the largest output */
    const int8_t *weights; /* [in_c][9]: line by line */
    const int32_t *scales; /* of each channel: bias, multiplier */
};

/* Four inputs of a line. */
HIL_INLINE int32x4_t hil_mve_line_s16(const int16_t *at, int32_t stride, uint32x4_t every) {
    return stride == 1 ? vldrhq_s32(at) : vldrhq_gather_shifted_offset_s32(at, every);
}

/* What all channels have in common: elements from output to output and from line to line. */
struct hil_mve_lines_s16 {
    int32_t outputs; /* of a line */
    int32_t lines;   /* of outputs */
    int32_t step;
    int32_t line_step;
};

/* Two lines of four outputs from the plane at `from`, of which those are stored whose rank is below
 * `count`; 4 stores all. */
HIL_INLINE void hil_mve_lines_s16_tile(const struct hil_depthwise_3x3_s16_mve *p,
                                       const int16_t *from, const int32_t *w, int32_t bias,
                                       int32_t multiplier, uint32x4_t every, uint16x8_t places,
                                       uint16x8_t ranks, int32_t count, int16_t *out) {
    int32x4_t first = vdupq_n_s32(bias);
    int32x4_t second = first;
#pragma GCC unroll 5
    for (int32_t y = 0; y < p->stride + 3; y++) {
#pragma GCC unroll 3
        for (int32_t x = 0; x < 3; x++) {
            const int32x4_t in = hil_mve_line_s16(from + y * p->line + x, p->stride, every);
            if (y < 3) {
                first = vmlaq_n_s32(first, in, w[3 * y + x]);
            }
            if (y >= p->stride) {
                second = vmlaq_n_s32(second, in, w[3 * (y - p->stride) + x]);
            }
        }
    }
    int16x8_t both = vqmovnbq_s32(vdupq_n_s16(0), vqrdmulhq_n_s32(first, multiplier));
    both = vqmovntq_s32(both, vqrdmulhq_n_s32(second, multiplier));
    both = vminq_s16(vmaxq_s16(both, vdupq_n_s16((int16_t)p->out_min)),
                     vdupq_n_s16((int16_t)p->out_max));
    /* By a comparison: gcc 12 loses masks that were worked out in core registers. */
    vstrhq_scatter_shifted_offset_p_s16(out, places, both,
                                        vcmpcsq_u16(vdupq_n_u16((uint16_t)(count - 1)), ranks));
}

/* The outputs of a channel from its plane. */
HIL_INLINE void hil_mve_lines_s16_channel(const struct hil_depthwise_3x3_s16_mve *p,
                                          const struct hil_mve_lines_s16 *all, int32_t channel,
                                          const int16_t *plane, int16_t *out) {
    int32_t w[9];
#pragma GCC unroll 9
    for (int32_t i = 0; i < 9; i++) {
        w[i] = p->weights[9 * channel + i];
    }
    const int32_t bias = p->scales[2 * channel];
    const int32_t multiplier = p->scales[2 * channel + 1];
    /* Outputs 0 to 3 of both lines in turn. */
    const uint16x8_t index = vshrq_n_u16(vidupq_n_u16(0, 1), 1);
    const uint16x8_t odd = vandq_u16(vidupq_n_u16(0, 1), vdupq_n_u16(1));
    const uint16x8_t places =
        vmlaq_n_u16(vmulq_n_u16(odd, (uint16_t)all->line_step), index, (uint16_t)all->step);
    const uint32x4_t every = vidupq_n_u32(0, 2);
    for (int32_t line = 0; line < all->lines; line += 2) {
        /* The last line of an odd number is by itself: the second has no rank that is stored. */
        const int32_t alone = line + 1 < all->lines ? 0 : 4;
        const uint16x8_t ranks = vmlaq_n_u16(index, odd, (uint16_t)alone);
        const int16_t *const from = plane + line * p->stride * p->line;
        int16_t *const to = out + line * all->line_step;
        for (int32_t x = 0; x < all->outputs; x += 4) {
            const int32_t left = all->outputs - x;
            hil_mve_lines_s16_tile(p, from + x * p->stride, w, bias, multiplier, every, places,
                                   ranks, left < 4 ? left : 4, to + x * all->step);
        }
    }
}

HIL_INLINE void hil_depthwise_3x3_s16_mve(const struct hil_depthwise_3x3_s16_mve *p,
                                          const int16_t *in, int16_t *out, void *scratch) {
    int16_t *const plane = (int16_t *)scratch;
    const int32_t in_row = p->in_w * p->in_c;
    const int32_t out_row = p->out_w * p->in_c;
    /* Elements of the image from place to place in a line, and from line to line. */
    const int32_t step = p->upright ? in_row : p->in_c;
    const int32_t line_step = p->upright ? p->in_c : in_row;
    const uint16x8_t places = vmulq_n_u16(vidupq_n_u16(0, 1), (uint16_t)step);
    for (int32_t images = p->batch; images > 0; images--) {
        for (int32_t y = 0; y < p->out_h; y += p->rows) {
            const int32_t rows = p->out_h - y < p->rows ? p->out_h - y : p->rows;
            const int32_t top = y * p->stride - p->pad_top;
            const int32_t first = top < 0 ? 0 : top;
            const int32_t end = top + (rows - 1) * p->stride + 3;
            const int32_t inside = (end < p->in_h ? end : p->in_h) - first;
            const int32_t reached = (p->out_w - 1) * p->stride + 3 - p->pad_left;
            const int32_t columns = reached < p->in_w ? reached : p->in_w;
            /* Of the plane that is inside the image. */
            const int32_t count = p->upright ? inside : columns;
            const int32_t lines = p->upright ? columns : inside;
            const int32_t at = p->upright ? p->pad_left * p->line + first - top
                                          : (first - top) * p->line + p->pad_left;
            const struct hil_mve_lines_s16 all = {
                .outputs = p->upright ? rows : p->out_w,
                .lines = p->upright ? p->out_w : rows,
                .step = p->upright ? out_row : p->in_c,
                .line_step = p->upright ? p->in_c : out_row,
            };
            for (int32_t i = 0; i < p->line * p->lines + 8; i += 8) {
                vstrhq_s16(plane + i, vdupq_n_s16(0));
            }
            for (int32_t channel = 0; channel < p->in_c; channel++) {
                const int16_t *from = in + first * in_row + channel;
                int16_t *to = plane + at;
                for (int32_t line = 0; line < lines; line++) {
                    const int16_t *element = from;
                    int16_t *place = to;
                    int32_t left = count;
                    for (; left >= 8; left -= 8) {
                        vstrhq_s16(place, vldrhq_gather_shifted_offset_s16(element, places));
                        element += 8 * step;
                        place += 8;
                    }
                    if (left > 0) {
                        const mve_pred16_t here = vctp16q((uint32_t)left);
                        vstrhq_p_s16(
                            place, vldrhq_gather_shifted_offset_z_s16(element, places, here), here);
                    }
                    from += line_step;
                    to += p->line;
                }
                hil_mve_lines_s16_channel(p, &all, channel, plane, out + y * out_row + channel);
            }
        }
        in += p->in_h * in_row;
        out += p->out_h * out_row;
    }
}

#endif
