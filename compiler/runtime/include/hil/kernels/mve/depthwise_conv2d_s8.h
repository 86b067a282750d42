/* Depthwise convolution of int8 images with small filters, as dot products over the taps.
 *
 * The pixels under a band of output rows are laid out plane by plane, eight channels at a time, the
 * zero point around the image. A gather of half-words then fetches a patch of 4x4 pixels of one
 * channel. With stride 1 it serves 2x2 outputs, each with the filter shifted within the patch; with
 * stride 2 each output has its own patch. */
#ifndef HIL_KERNELS_MVE_DEPTHWISE_CONV2D_S8_H
#define HIL_KERNELS_MVE_DEPTHWISE_CONV2D_S8_H

#include <arm_mve.h>
#include <string.h>

#include "hil/kernels/mve/blocks_s8.h"

/* Tiles of 2x2 outputs of one channel. The assembly knows the offsets. */
struct hil_mve_tiles {
    int32_t columns;         /*   0: tiles next to each other */
    int32_t rows;            /*   4: of tiles */
    int32_t x_wrap;          /*   8: in the plane, from behind a row of tiles to the next row */
    int32_t out_wrap;        /*  12: the same in the outputs */
    int32_t out_step;        /*  16: to the next tile's outputs */
    int32_t bias;            /*  20 */
    int32_t multiplier;      /*  24 */
    int32_t shift;           /*  28 */
    int32_t zero_point;      /*  32 */
    int32_t right;           /*  36: stride 2: from an output's patch to that on its right */
    int32_t below;           /*  40: and to that below it */
    int32_t low[4];          /*  44 */
    int32_t high[4];         /*  60 */
    uint32_t out_offsets[4]; /*  76: of a tile's outputs */
    uint16_t x_offsets[8];   /*  92: of the pairs of pixels of a patch */
    int8_t weights[4][16];   /* 108: stride 1: of each output of a tile, stride 2: the first */
};

/* The arguments x, tiles, out are in r0 to r2. Then r1 is the place in x, r3 the output, r5 the
 * bias, r7 the multiplier, r8 the shift, r9 the zero point, r10 the step of outputs, r11 the tiles,
 * r12 the rows left; q4 and q5 have the offsets. */
#define HIL_MVE_TILES_ENTER                                                                        \
    "push {r4-r11, lr}\n"                                                                          \
    "vpush {d8-d15}\n"                                                                             \
    "mov r11, r1\n"                                                                                \
    "mov r1, r0\n"                                                                                 \
    "mov r3, r2\n"                                                                                 \
    "ldr r12, [r11, #4]\n"                                                                         \
    "ldrd r10, r5, [r11, #16]\n"                                                                   \
    "ldrd r7, r8, [r11, #24]\n"                                                                    \
    "ldr r9, [r11, #32]\n"                                                                         \
    "vldrw.32 q5, [r11, #76]\n"                                                                    \
    "vldrh.u16 q4, [r11, #92]\n"                                                                   \
    "add r0, r11, #108\n"                                                                          \
    "vldrb.8 q0, [r0], #16\n"

#define HIL_MVE_TILES_SCALE(correct, clamp)                                                        \
    "vmov q7[2], q7[0], r0, r4\n"                                                                  \
    "vmov q7[3], q7[1], r2, r6\n"                                                                  \
    "vadd.i32 q7, q7, r5\n"                                                                        \
    "vqrdmulh.s32 q7, q7, r7\n" correct "vrshl.s32 q7, r8\n"                                       \
    "vadd.i32 q7, q7, r9\n" clamp "vstrb.32 q7, [r3, q5]\n"                                        \
    "add r3, r10\n"                                                                                \
    "le lr, 2b\n"

#define HIL_MVE_TILES_CORRECT "mov r0, #1\n" HIL_MVE_AWAY_FROM_ZERO("q7", "r0")

/* The whole range of int8, and any other. */
#define HIL_MVE_TILES_SATURATE                                                                     \
    "vqmovnb.s32 q7, q7\n"                                                                         \
    "vqmovnb.s16 q7, q7\n"
#define HIL_MVE_TILES_CLAMP                                                                        \
    "vldrw.32 q6, [r11, #44]\n"                                                                    \
    "vmax.s32 q7, q7, q6\n"                                                                        \
    "vldrw.32 q6, [r11, #60]\n"                                                                    \
    "vmin.s32 q7, q7, q6\n"

#define HIL_MVE_TILES_STRIDE_1(correct, clamp)                                                     \
    HIL_MVE_TILES_ENTER                                                                            \
    "vldrb.8 q1, [r0], #16\n"                                                                      \
    "vldrb.8 q2, [r0], #16\n"                                                                      \
    "vldrb.8 q3, [r0]\n"                                                                           \
    "1:\n"                                                                                         \
    "ldr r0, [r11]\n"                                                                              \
    "dls lr, r0\n"                                                                                 \
    "2:\n"                                                                                         \
    "vldrh.u16 q6, [r1, q4]\n"                                                                     \
    "adds r1, #2\n"                                                                                \
    "vmladav.s8 r0, q6, q0\n"                                                                      \
    "vmladav.s8 r2, q6, q1\n"                                                                      \
    "vmladav.s8 r4, q6, q2\n"                                                                      \
    "vmladav.s8 r6, q6, q3\n" HIL_MVE_TILES_SCALE(correct, clamp) "ldrd r0, r2, [r11, #8]\n"       \
                                                                  "add r1, r0\n"                   \
                                                                  "add r3, r2\n"                   \
                                                                  "subs r12, #1\n"                 \
                                                                  "bne 1b\n"                       \
                                                                  "vpop {d8-d15}\n"                \
                                                                  "pop {r4-r11, pc}\n"

#define HIL_MVE_TILES_STRIDE_2(correct, clamp)                                                     \
    HIL_MVE_TILES_ENTER                                                                            \
    "1:\n"                                                                                         \
    "ldr r0, [r11]\n"                                                                              \
    "dls lr, r0\n"                                                                                 \
    "2:\n"                                                                                         \
    "ldrd r4, r6, [r11, #36]\n"                                                                    \
    "adds r2, r1, r4\n"                                                                            \
    "adds r6, r1, r6\n"                                                                            \
    "adds r4, r6, r4\n"                                                                            \
    "vldrh.u16 q6, [r1, q4]\n"                                                                     \
    "vldrh.u16 q7, [r2, q4]\n"                                                                     \
    "vldrh.u16 q1, [r6, q4]\n"                                                                     \
    "vldrh.u16 q2, [r4, q4]\n"                                                                     \
    "adds r1, #4\n"                                                                                \
    "vmladav.s8 r0, q6, q0\n"                                                                      \
    "vmladav.s8 r2, q7, q0\n"                                                                      \
    "vmladav.s8 r4, q1, q0\n"                                                                      \
    "vmladav.s8 r6, q2, q0\n" HIL_MVE_TILES_SCALE(correct, clamp) "ldrd r0, r2, [r11, #8]\n"       \
                                                                  "add r1, r0\n"                   \
                                                                  "add r3, r2\n"                   \
                                                                  "subs r12, #1\n"                 \
                                                                  "bne 1b\n"                       \
                                                                  "vpop {d8-d15}\n"                \
                                                                  "pop {r4-r11, pc}\n"

#define HIL_MVE_TILES_FUNCTION(name)                                                               \
    __attribute__((naked, noipa, unused)) static void name(                                        \
        const int8_t *x __attribute__((unused)),                                                   \
        const struct hil_mve_tiles *tiles __attribute__((unused)),                                 \
        int8_t *out __attribute__((unused)))

/* For each stride: outputs over the whole range of int8 whose values below the zero point clamp,
 * and any others. */
HIL_MVE_TILES_FUNCTION(hil_mve_tiles_1) {
    __asm__(HIL_MVE_TILES_STRIDE_1("", HIL_MVE_TILES_SATURATE));
}
HIL_MVE_TILES_FUNCTION(hil_mve_tiles_1_any) {
    __asm__(HIL_MVE_TILES_STRIDE_1(HIL_MVE_TILES_CORRECT, HIL_MVE_TILES_CLAMP));
}
HIL_MVE_TILES_FUNCTION(hil_mve_tiles_2) {
    __asm__(HIL_MVE_TILES_STRIDE_2("", HIL_MVE_TILES_SATURATE));
}
HIL_MVE_TILES_FUNCTION(hil_mve_tiles_2_any) {
    __asm__(HIL_MVE_TILES_STRIDE_2(HIL_MVE_TILES_CORRECT, HIL_MVE_TILES_CLAMP));
}

/*@kernel
name = "hil_depthwise_conv2d_s8_mve"
requires = ["mve"]
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "8 * plane_h * plane_w"
order = ["rows band_h", "channels 8"]
reads = "channel window"
@*/
struct hil_depthwise_conv2d_s8_mve {
    int32_t batch;
    int32_t in_h;
    int32_t in_w;
    int32_t in_c;
    int32_t out_h;
    int32_t out_w;
    int32_t filter_h; /* at most 3 with stride 1, 4 with stride 2 */
    int32_t filter_w;
    int32_t stride; /* 1 or 2 */
    int32_t pad_top;
    int32_t pad_left;
    int32_t band_h;  /* output rows of a band; even, or all */
    int32_t plane_h; /* input rows of a band: (band_h - 1) * stride + 4 */
    int32_t plane_w; /* (out_w - 1) * stride + 4, rounded up to an even number */
    int32_t any;     /* 0: outputs have the whole range of int8, and what is below zero clamps */
    int32_t in_zero_point;
    int32_t out_zero_point;
    int32_t out_min;
    int32_t out_max;
    int32_t per_channel;   /* 1: each channel has a multiplier and a shift; 0: one for all */
    const int8_t *weights; /* [in_c][filter_h][4], weights of 0 at the end of rows */
    const int32_t *bias;   /* with the input's zero point folded in */
    const int32_t *multipliers;
    const int8_t *shifts;
};

/* The pixels of `rows` rows from row y, of the channels in the mask, as planes. */
HIL_INLINE void hil_mve_planes(const struct hil_depthwise_conv2d_s8_mve *p, const int8_t *image,
                               int32_t y, int32_t rows, mve_pred16_t channels, int8_t *planes) {
    const uint16x8_t to_channel =
        vmulq_n_u16(vidupq_n_u16(0, 1), (uint16_t)(p->plane_h * p->plane_w));
    const int16x8_t around = vdupq_n_s16((int16_t)p->in_zero_point);
    const int32_t span = (p->out_w - 1) * p->stride + p->filter_w;
    const int32_t left = p->pad_left < span ? p->pad_left : span;
    const int32_t end = p->in_w + p->pad_left;
    const int32_t inside_end = end < span ? end : span;
    for (int32_t row = 0; row < rows; row++, y++, planes += p->plane_w) {
        int8_t *to = planes;
        int8_t *const row_end = planes + span;
        if (y >= 0 && y < p->in_h) {
            for (int32_t i = left; i > 0; i--) {
                vstrbq_scatter_offset_s16(to++, to_channel, around);
            }
            const int8_t *from = image + y * p->in_w * p->in_c;
            for (int32_t i = inside_end - left; i > 0; i--) {
                vstrbq_scatter_offset_s16(to++, to_channel, vldrbq_z_s16(from, channels));
                from += p->in_c;
            }
        }
        while (to < row_end) {
            vstrbq_scatter_offset_s16(to++, to_channel, around);
        }
    }
}

/* The tiles of one kind: all whole ones, or those at an odd right or lower end, whose second column
 * or row repeats the first. */
HIL_INLINE void hil_mve_tiles_part(const struct hil_depthwise_conv2d_s8_mve *p,
                                   struct hil_mve_tiles *tiles, const int8x16_t *filters,
                                   int32_t columns, int32_t rows, int32_t right, int32_t below,
                                   const int8_t *x, int8_t *out) {
    if (columns == 0 || rows == 0) {
        return;
    }
    const int32_t line = p->out_w * p->in_c;
    tiles->columns = columns;
    tiles->rows = rows;
    tiles->x_wrap = 2 * p->stride * (p->plane_w - columns);
    tiles->out_wrap = 2 * line - columns * tiles->out_step;
    tiles->out_offsets[0] = 0;
    tiles->out_offsets[1] = (uint32_t)(right * p->in_c);
    tiles->out_offsets[2] = (uint32_t)(below * line);
    tiles->out_offsets[3] = (uint32_t)(below * line + right * p->in_c);
    vstrbq_s8(tiles->weights[0], filters[0]);
    if (p->stride == 1) {
        vstrbq_s8(tiles->weights[1], filters[right]);
        vstrbq_s8(tiles->weights[2], filters[2 * below]);
        vstrbq_s8(tiles->weights[3], filters[2 * below + right]);
        (p->any ? hil_mve_tiles_1_any : hil_mve_tiles_1)(x, tiles, out);
    } else {
        tiles->right = 2 * right;
        tiles->below = 2 * below * p->plane_w;
        (p->any ? hil_mve_tiles_2_any : hil_mve_tiles_2)(x, tiles, out);
    }
}

/* `rows` rows of the outputs of a channel. */
HIL_INLINE void hil_mve_depthwise_channel(const struct hil_depthwise_conv2d_s8_mve *p,
                                          struct hil_mve_tiles *tiles, int32_t channel,
                                          int32_t rows, const int8_t *plane, int8_t *out) {
    const int32_t entry = p->per_channel ? channel : 0;
    tiles->bias = p->bias[channel];
    tiles->multiplier = p->multipliers[entry];
    tiles->shift = p->shifts[entry];
    int8x16_t filters[4];
    uint32_t carry = 0;
    filters[0] =
        vldrbq_z_s8(p->weights + 4 * p->filter_h * channel, vctp8q((uint32_t)(4 * p->filter_h)));
    if (p->stride == 1) {
        filters[1] = vshlcq_s8(filters[0], &carry, 8);
        carry = 0;
        filters[2] = vshlcq_s8(filters[0], &carry, 32);
        carry = 0;
        filters[3] = vshlcq_s8(filters[1], &carry, 32);
    }
    const int32_t columns = p->out_w / 2;
    const int32_t pairs = rows / 2;
    const int8_t *const last_x = plane + 2 * columns * p->stride;
    int8_t *const last_out = out + columns * tiles->out_step;
    const int32_t low_x = 2 * pairs * p->stride * p->plane_w;
    const int32_t low_out = 2 * pairs * p->out_w * p->in_c;
    const int32_t odd_w = p->out_w % 2;
    const int32_t odd_h = rows % 2;
    hil_mve_tiles_part(p, tiles, filters, columns, pairs, 1, 1, plane, out);
    hil_mve_tiles_part(p, tiles, filters, odd_w, pairs, 0, 1, last_x, last_out);
    hil_mve_tiles_part(p, tiles, filters, columns, odd_h, 1, 0, plane + low_x, out + low_out);
    hil_mve_tiles_part(p, tiles, filters, odd_w, odd_h, 0, 0, last_x + low_x, last_out + low_out);
}

HIL_INLINE void hil_depthwise_conv2d_s8_mve(const struct hil_depthwise_conv2d_s8_mve *p,
                                            const int8_t *in, int8_t *out, void *scratch) {
    struct hil_mve_tiles tiles = {.out_step = 2 * p->in_c, .zero_point = p->out_zero_point};
    for (int32_t i = 0; i < 4; i++) {
        tiles.low[i] = p->out_min;
        tiles.high[i] = p->out_max;
        tiles.x_offsets[2 * i] = (uint16_t)(i * p->plane_w);
        tiles.x_offsets[2 * i + 1] = (uint16_t)(i * p->plane_w + 2);
    }
    int8_t *const planes = scratch;
    for (int32_t images = p->batch; images > 0; images--) {
        int32_t y = -p->pad_top;
        for (int32_t left = p->out_h; left > 0; left -= p->band_h) {
            const int32_t rows = left < p->band_h ? left : p->band_h;
            for (int32_t first = 0; first < p->in_c; first += 8) {
                const int32_t count = p->in_c - first < 8 ? p->in_c - first : 8;
                hil_mve_planes(p, in + first, y, (rows - 1) * p->stride + p->filter_h,
                               vctp16q((uint32_t)count), planes);
                for (int32_t i = 0; i < count; i++) {
                    hil_mve_depthwise_channel(p, &tiles, first + i, rows,
                                              planes + i * p->plane_h * p->plane_w,
                                              out + first + i);
                }
            }
            y += rows * p->stride;
            out += rows * p->out_w * p->in_c;
        }
        in += p->in_h * p->in_w * p->in_c;
    }
}

#endif
