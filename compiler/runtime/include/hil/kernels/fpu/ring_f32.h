/* The last rows of float images that windows reach, copied with zeros around: so that a layer's
 * output may take the place of its input, and no window tests bounds. */
#ifndef HIL_KERNELS_FPU_RING_F32_H
#define HIL_KERNELS_FPU_RING_F32_H

#include <string.h>

#include "hil/kernels/fpu/columns_f32.h"
#include "hil/kernels/generic/lanes_f32.h"

/* Rows of an image. Row y of it is `line` floats at place y % lines; a pixel takes a multiple of
 * four floats, and each of its elements as many as there are filters of it. */
struct hil_ring_f32 {
    float *rows;
    int32_t line;    /* floats of a row */
    int32_t lines;   /* rows: as many as a window spans */
    int32_t columns; /* of the image that windows reach, from the first */
    int32_t pixel;   /* floats of a pixel */
    int32_t filters; /* floats of an element of the image, one for each filter of its channel */
    int32_t next;    /* the first row that is not there yet, counted from the top padding */
};

HIL_INLINE void hil_fpu_clear(float *to, int32_t count) {
    if (count > 0) {
        memset(to, 0, (size_t)count * sizeof *to);
    }
}

/* Goes on by some columns. */
HIL_INLINE void hil_ring_f32_move(const struct hil_ring_f32 *ring, int32_t count, int32_t *rows,
                                  int32_t columns) {
    for (int32_t i = 0; i < count; i++) {
        rows[i] += columns * ring->pixel;
    }
}

/* Copies the elements of a pixel, each as often as it has filters; returns the end of what it
 * wrote. */
HIL_INLINE float *hil_ring_f32_repeat(const struct hil_ring_f32 *ring, const float *from,
                                      int32_t count, float *to) {
    for (; count > 0; count--) {
        const float element = *from++;
#pragma GCC unroll 8
        for (int32_t filter = 0; filter < ring->filters; filter++) {
            *to++ = element;
        }
    }
    return to;
}

/* Takes the rows before row `end`, counted from the top padding, of the image `in`. */
HIL_INLINE void hil_ring_f32_take(struct hil_ring_f32 *ring, const struct hil_windows *p,
                                  const float *in, int32_t end) {
    for (; ring->next < end; ring->next++) {
        float *to = ring->rows + ring->next % ring->lines * ring->line;
        const int32_t y = ring->next - p->pad_top;
        if (y < 0 || y >= p->in_h) {
            hil_fpu_clear(to, ring->line);
            continue;
        }
        float *const row_end = to + ring->line;
        const float *from = in + y * p->in_w * p->in_c;
        const int32_t before = p->pad_left * ring->pixel;
        const int32_t left = before < ring->line ? before : ring->line;
        hil_fpu_clear(to, left);
        to += left;
        if (ring->pixel == p->in_c) {
            hil_fpu_copy(to, from, ring->columns * p->in_c);
            to += ring->columns * p->in_c;
        } else {
            for (int32_t column = 0; column < ring->columns; column++) {
                float *const pixel_end = to + ring->pixel;
                if (ring->filters == 1) {
                    hil_fpu_copy(to, from, p->in_c);
                    to += p->in_c;
                } else {
                    to = hil_ring_f32_repeat(ring, from, p->in_c, to);
                }
                hil_fpu_clear(to, (int32_t)(pixel_end - to));
                to = pixel_end;
                from += p->in_c;
            }
        }
        hil_fpu_clear(to, (int32_t)(row_end - to));
    }
}

/* Takes what row `y` of the outputs needs, and says how many floats from the
 * ring's first the rows of its filter are. */
HIL_INLINE void hil_ring_f32_turn(struct hil_ring_f32 *ring, const struct hil_windows *p,
                                  const float *in, int32_t y, int32_t *rows) {
    if (y == 0) {
        ring->next = 0;
    }
    hil_ring_f32_take(ring, p, in, y * p->stride_h + ring->lines);
    for (int32_t i = 0; i < p->filter_h; i++) {
        rows[i] = (y * p->stride_h + i * p->dilation_h) % ring->lines * ring->line;
    }
}

#endif
