/* The windows of a convolution, group by group. */
#ifndef HIL_KERNELS_DSP_WINDOWS_H
#define HIL_KERNELS_DSP_WINDOWS_H

#include <stdint.h>

#include "hil/quant.h"

/* Where a window's first tap lies in the image. */
struct hil_dsp_window {
    int32_t y;
    int32_t x;
};

/* How windows follow each other. */
struct hil_dsp_walk {
    int32_t group; /* windows at a time, 2 or 3 */
    int32_t out_w;
    int32_t stride_h;
    int32_t stride_w;
    int32_t pad_left;
};

/* The walk of a convolution whose parameters are `p`. */
#define HIL_DSP_WALK_OF(p, windows)                                                                \
    {                                                                                              \
        .group = (windows), .out_w = (p)->out_w, .stride_h = (p)->stride_h,                        \
        .stride_w = (p)->stride_w, .pad_left = (p)->pad_left                                       \
    }

/* The windows of the next `group` outputs, of which `left` are left, and where the one after these
 * lies. A window beyond the last is the last once more. */
HIL_INLINE void hil_dsp_windows_next(const struct hil_dsp_walk *walk, int32_t left,
                                     struct hil_dsp_window *next, int32_t *out_x,
                                     struct hil_dsp_window *at) {
#pragma GCC unroll 3
    for (int32_t i = 0; i < walk->group; i++) {
        at[i] = *next;
        if (i + 1 < left) {
            next->x += walk->stride_w;
            (*out_x)++;
        }
        if (*out_x == walk->out_w) {
            *out_x = 0;
            next->x = -walk->pad_left;
            next->y += walk->stride_h;
        }
    }
}

#endif
