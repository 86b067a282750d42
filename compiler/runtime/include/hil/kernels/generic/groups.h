/* The walk of convolutions whose channels may be in groups: each group of output channels is made
 * of its own group of input channels. */
#ifndef HIL_KERNELS_GENERIC_GROUPS_H
#define HIL_KERNELS_GENERIC_GROUPS_H

#include "hil/kernels/generic/patch.h"

/* Writes out[] = finish(p, row, weights, depth, channel) for every pixel and channel, where row has
 * the `depth` values under the window that go with the channel's weights. A pixel's values are
 * gathered first, those of a group together, so that no loop tests bounds; `filling` is what those
 * outside the image are. */
#define HIL_GROUPS_WALK(p, in, out, scratch, element, weight, filling, finish)                     \
    do {                                                                                           \
        const int32_t pixel = (p)->in_c / (p)->groups;                                             \
        const int32_t depth = (p)->filter_h * (p)->filter_w * pixel;                               \
        const int32_t columns = (p)->out_c / (p)->groups;                                          \
        struct hil_patch window = HIL_PATCH_OF(p, (int32_t)sizeof(element), filling);              \
        window.pixel_bytes = pixel * (int32_t)sizeof(element);                                     \
        element *const rows = (element *)(scratch);                                                \
        for (int32_t images = (p)->batch; images > 0; images--) {                                  \
            int32_t y = -(p)->pad_top;                                                             \
            for (int32_t out_y = (p)->out_h; out_y > 0; out_y--) {                                 \
                int32_t x = -(p)->pad_left;                                                        \
                for (int32_t out_x = (p)->out_w; out_x > 0; out_x--) {                             \
                    for (int32_t group = 0; group < (p)->groups; group++) {                        \
                        hil_gather_patch(&window, (in) + group * pixel, y, x,                      \
                                         rows + group * depth);                                    \
                    }                                                                              \
                    const weight *weights = (p)->weights;                                          \
                    int32_t channel = 0;                                                           \
                    for (int32_t group = 0; group < (p)->groups; group++) {                        \
                        for (int32_t column = 0; column < columns; column++) {                     \
                            *(out)++ = finish((p), rows + group * depth, weights, depth, channel); \
                            weights += depth;                                                      \
                            channel++;                                                             \
                        }                                                                          \
                    }                                                                              \
                    x += (p)->stride_w;                                                            \
                }                                                                                  \
                y += (p)->stride_h;                                                                \
            }                                                                                      \
            (in) += (p)->in_h * (p)->in_w * (p)->in_c;                                             \
        }                                                                                          \
    } while (0)

#endif
