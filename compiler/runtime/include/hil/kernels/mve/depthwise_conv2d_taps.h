/* Depthwise convolution of int8 and int16 images with int8 weights on Helium, with filters of any
 * size, strides and dilations, a channel's plane at a time: a vector holds four outputs next to
 * each other, and each tap of the filter is a multiplication with a scalar. The kernels of 3x3, 5x5
 * and pairs of rows are faster where they serve.
 *
 * Tile: four vectors of outputs, or two, x 1 channel.
 *
 *   line of the plane   part 0               part 1                ... part `runs` - 1
 *   element q           pixel stride * q     pixel stride * q + dilation
 *   taps                0, runs, 2 * runs    1, runs + 1, ...
 *
 * The pixels under a tap of four outputs so lie next to each other whatever the stride, and from
 * tap to tap of a part it is `step` elements. Outputs next to each other lie along a row, or, where
 * that fills vectors better, along a column: lines are then columns.
 *
 * Registers: of the compiler's choice: a sum a vector, where its pixels are, a vector of pixels.
 *
 * Data: packed by `taps()` of the Helium family; int8 [channels][lines of a filter][taps, part by
 * part], int32 [channels][4] bias, multiplier, shift, zero point. Planes in scratch, elements of
 * the image's type [lines][runs][part], the input's zero point around.
 *
 * Order: of `rows` rows of outputs, channel by channel of the image, the inputs are read, then the
 * outputs of all their filters written.
 *
 * Bounds: vmla adds modulo 2^32; sums, bias included, are below 2^31 (`_check_quantized()`,
 * `narrow_sums()`). Gathers of pixels have offsets of 16 bits, which `taps()` checks. The last
 * vector of a part reads up to three elements beyond it.
 *
 * Output: that of blocks_s8.h and blocks_s16.h.
 *
 * Scratch: the plane of one channel; `rows` trades it for instructions.
 *
 * Cost: COSTS
 *
 * Tests: tests/board/test_kernels.py, tests/board/test_sixteen_bits.py; layout:
 * tests/c/test_kernel_layouts.py.
 */
#ifndef HIL_KERNELS_MVE_DEPTHWISE_CONV2D_TAPS_H
#define HIL_KERNELS_MVE_DEPTHWISE_CONV2D_TAPS_H

#include "hil/kernels/mve/planes.h"

#define HIL_MVE_TAPS_FIELDS                                                                        \
    HIL_IMAGES_FIELDS;                                                                             \
    int32_t depth_multiplier; /* filters of a channel of the image */                              \
    HIL_WINDOW_FIELDS;                                                                             \
    int32_t rows;          /* of outputs at a time */                                              \
    int32_t upright;       /* 1: lines are columns, 0: they are rows */                            \
    int32_t runs;          /* parts of a line */                                                   \
    int32_t part;          /* elements of a part */                                                \
    int32_t lines;         /* of the plane */                                                      \
    int32_t step;          /* elements from a tap to the next one of its part */                   \
    int32_t in_zero_point; /* of positions outside the image */                                    \
    const int8_t *weights; /* of each output channel, line by line, taps part by part */           \
    const int32_t *scales  /* of each channel: bias, multiplier, shift, zero point */

struct hil_mve_taps {
    HIL_MVE_TAPS_FIELDS;
};

#define HIL_MVE_TAPS(p)                                                                            \
    {                                                                                              \
        .batch = (p)->batch, .in_h = (p)->in_h, .in_w = (p)->in_w, .in_c = (p)->in_c,              \
        .out_h = (p)->out_h, .out_w = (p)->out_w, .depth_multiplier = (p)->depth_multiplier,       \
        .filter_h = (p)->filter_h, .filter_w = (p)->filter_w, .stride_h = (p)->stride_h,           \
        .stride_w = (p)->stride_w, .dilation_h = (p)->dilation_h, .dilation_w = (p)->dilation_w,   \
        .pad_top = (p)->pad_top, .pad_left = (p)->pad_left, .rows = (p)->rows,                     \
        .upright = (p)->upright, .runs = (p)->runs, .part = (p)->part, .lines = (p)->lines,        \
        .step = (p)->step, .in_zero_point = (p)->in_zero_point, .weights = (p)->weights,           \
        .scales = (p)->scales,                                                                     \
    }

/* Channels of the outputs. */
#define HIL_MVE_TAPS_OUT_C(p) ((p)->in_c * (p)->depth_multiplier)
/* Vectors of a tile. */
#define HIL_MVE_TAPS_VECTORS 4

/* An axis of a band of output rows: its outputs, where the first window begins, and elements of the
 * image, and of the outputs, from place to place. */
struct hil_mve_taps_axis {
    int32_t outputs;
    int32_t start;
    int32_t size;
    int32_t filter;
    int32_t stride;
    int32_t dilation;
    int32_t in_step;
    int32_t out_step;
};

/* The rows, from row y of the outputs on. */
HIL_INLINE struct hil_mve_taps_axis hil_mve_taps_rows(const struct hil_mve_taps *p, int32_t y) {
    const struct hil_mve_taps_axis axis = {
        .outputs = p->out_h - y < p->rows ? p->out_h - y : p->rows,
        .start = y * p->stride_h - p->pad_top,
        .size = p->in_h,
        .filter = p->filter_h,
        .stride = p->stride_h,
        .dilation = p->dilation_h,
        .in_step = p->in_w * p->in_c,
        .out_step = p->out_w * HIL_MVE_TAPS_OUT_C(p),
    };
    return axis;
}

HIL_INLINE struct hil_mve_taps_axis hil_mve_taps_columns(const struct hil_mve_taps *p) {
    const struct hil_mve_taps_axis axis = {
        .outputs = p->out_w,
        .start = -p->pad_left,
        .size = p->in_w,
        .filter = p->filter_w,
        .stride = p->stride_w,
        .dilation = p->dilation_w,
        .in_step = p->in_c,
        .out_step = HIL_MVE_TAPS_OUT_C(p),
    };
    return axis;
}

/* Puts a channel under a band into the plane; `bytes` are those of an element. */
HIL_INLINE void hil_mve_taps_fill(const struct hil_mve_taps *p, int32_t bytes,
                                  const struct hil_mve_taps_axis *along,
                                  const struct hil_mve_taps_axis *across, const int8_t *in,
                                  int8_t *plane) {
    const int32_t first = across->start < 0 ? -across->start : 0;
    const int32_t reach =
        (across->outputs - 1) * across->stride + (across->filter - 1) * across->dilation + 1;
    const int32_t inside = across->size - across->start;
    const int32_t end = inside < reach ? inside : reach;
    const int32_t step = along->stride * along->in_step;
    for (int32_t run = 0; run < p->runs; run++) {
        const int32_t start = along->start + run * along->dilation;
        const int32_t before = start < 0 ? (along->stride - 1 - start) / along->stride : 0;
        const int32_t pixel = start + before * along->stride;
        const int32_t there = (along->size - pixel + along->stride - 1) / along->stride;
        const int32_t count = there < p->part - before ? there : p->part - before;
        const int8_t *from =
            in + bytes * ((across->start + first) * across->in_step + pixel * along->in_step);
        int8_t *to = plane + bytes * ((first * p->runs + run) * p->part + before);
        for (int32_t line = first; line < end; line++) {
            hil_mve_plane_line(bytes, from, step, count, to);
            from += bytes * across->in_step;
            to += bytes * p->runs * p->part;
        }
    }
}

/* Four pixels next to each other, widened. */
HIL_INLINE int32x4_t hil_mve_taps_load(int32_t bytes, const int8_t *at) {
    return bytes == 1 ? vldrbq_s32(at) : vldrhq_s32((const int16_t *)(const void *)at);
}

/* Adds the products of a filter to `count` vectors of sums, the pixels of whose first taps are at
 * `from`. */
HIL_INLINE void hil_mve_taps_sums(const struct hil_mve_taps *p, int32_t bytes, int32_t filter_lines,
                                  int32_t line_taps, int32_t line_step, const int8_t *weights,
                                  int32_t count, const int8_t *const *from, int32x4_t *sums) {
    const int8_t *at[HIL_MVE_TAPS_VECTORS];
    int32_t ahead = 0;
    for (int32_t line = 0; line < filter_lines; line++) {
        for (int32_t run = 0; run < p->runs; run++) {
#pragma GCC unroll 4
            for (int32_t i = 0; i < count; i++) {
                at[i] = from[i] + ahead + bytes * run * p->part;
            }
            const int32_t taps = (line_taps - run + p->runs - 1) / p->runs;
#pragma GCC unroll 4
            for (int32_t tap = 0; tap < taps; tap++) {
                const int32_t weight = *weights++;
#pragma GCC unroll 4
                for (int32_t i = 0; i < count; i++) {
                    sums[i] = vmlaq_n_s32(sums[i], hil_mve_taps_load(bytes, at[i]), weight);
                    at[i] += bytes * p->step;
                }
                /* Pixels that are loaded ahead would take more registers than there are. */
                __asm__ volatile("" ::: "memory");
            }
        }
        ahead += bytes * line_step;
    }
}

/* The next vector: its first pixel, its first output, and the outputs from there to the end of the
 * line. Bytes and outputs to the next one of a line, and from behind the last one to the next line.
 */
struct hil_mve_taps_place {
    const int8_t *from;
    int8_t *to;
    int32_t left;
    int32_t outputs;
    int32_t next;
    int32_t next_out;
    int32_t next_line;
    int32_t next_out_line;
};

/* Vectors of a tile. */
struct hil_mve_taps_tile {
    const int8_t *from[HIL_MVE_TAPS_VECTORS];
    int8_t *to[HIL_MVE_TAPS_VECTORS];
    int32_t left[HIL_MVE_TAPS_VECTORS];
};

/* The next `count` vectors; behind the last one, of `vectors` that are left, it is repeated. */
HIL_INLINE struct hil_mve_taps_tile hil_mve_taps_tile(struct hil_mve_taps_place *place,
                                                      int32_t count, int32_t vectors) {
    struct hil_mve_taps_tile tile;
#pragma GCC unroll 4
    for (int32_t i = 0; i < count; i++) {
        tile.from[i] = place->from;
        tile.to[i] = place->to;
        tile.left[i] = place->left;
        if (vectors > i + 1) {
            place->from += place->next;
            place->to += place->next_out;
            place->left -= 4;
            if (place->left <= 0) {
                place->from += place->next_line;
                place->to += place->next_out_line;
                place->left = place->outputs;
            }
        }
    }
    return tile;
}

/* A layer of elements of a type: `STORE(p, scales, sums, places, inside, to)` requantizes a vector
 * and stores those of its outputs that are `inside`. */
#define HIL_MVE_TAPS_LAYER(name, type, STORE)                                                      \
    HIL_INLINE void name##_vectors(const struct name *p, const struct hil_mve_taps_axis *along,    \
                                   const struct hil_mve_taps_axis *across, int32_t channel,        \
                                   uint32x4_t places, struct hil_mve_taps_place *place,            \
                                   int32_t count, int32_t vectors) {                               \
        const struct hil_mve_taps taps = HIL_MVE_TAPS(p);                                          \
        const int32_t *const scales = p->scales + 4 * channel;                                     \
        const struct hil_mve_taps_tile tile = hil_mve_taps_tile(place, count, vectors);            \
        int32x4_t sums[HIL_MVE_TAPS_VECTORS];                                                      \
        _Pragma("GCC unroll 4") for (int32_t i = 0; i < count; i++) {                              \
            sums[i] = vdupq_n_s32(scales[0]);                                                      \
        }                                                                                          \
        hil_mve_taps_sums(&taps, (int32_t)sizeof(type), across->filter, along->filter,             \
                          across->dilation * p->runs * p->part,                                    \
                          p->weights + channel * p->filter_h * p->filter_w, count, tile.from,      \
                          sums);                                                                   \
        _Pragma("GCC unroll 4") for (int32_t i = 0; i < count; i++) {                              \
            STORE(p, scales, sums[i], places, vctp32q((uint32_t)tile.left[i]), tile.to[i]);        \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    /* The outputs of a filter from a channel's plane. */                                          \
    HIL_INLINE void name##_filter(const struct name *p, const struct hil_mve_taps_axis *along,     \
                                  const struct hil_mve_taps_axis *across, int32_t channel,         \
                                  const int8_t *plane, type *out) {                                \
        const int32_t bytes = (int32_t)sizeof *out;                                                \
        const int32_t fours = (along->outputs + 3) / 4;                                            \
        const uint32x4_t places = vmulq_n_u32(vidupq_n_u32(0, 1), (uint32_t)along->out_step);      \
        struct hil_mve_taps_place place = {                                                        \
            .from = plane,                                                                         \
            .to = (int8_t *)out,                                                                   \
            .left = along->outputs,                                                                \
            .outputs = along->outputs,                                                             \
            .next = 4 * bytes,                                                                     \
            .next_out = 4 * bytes * along->out_step,                                               \
            .next_line = bytes * (across->stride * p->runs * p->part - 4 * fours),                 \
            .next_out_line = bytes * (across->out_step - 4 * fours * along->out_step),             \
        };                                                                                         \
        const int32_t vectors = across->outputs * fours;                                           \
        int32_t done = 0;                                                                          \
        for (; vectors - done > 2; done += 4) {                                                    \
            name##_vectors(p, along, across, channel, places, &place, 4, vectors - done);          \
        }                                                                                          \
        if (done < vectors) {                                                                      \
            name##_vectors(p, along, across, channel, places, &place, 2, vectors - done);          \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    HIL_INLINE void name(const struct name *p, const type *in, type *out, void *scratch) {         \
        const struct hil_mve_taps taps = HIL_MVE_TAPS(p);                                          \
        const int32_t bytes = (int32_t)sizeof *out;                                                \
        int8_t *const plane = (int8_t *)scratch;                                                   \
        const int32_t out_c = HIL_MVE_TAPS_OUT_C(p);                                               \
        for (int32_t images = p->batch; images > 0; images--) {                                    \
            for (int32_t y = 0; y < p->out_h; y += p->rows) {                                      \
                const struct hil_mve_taps_axis rows = hil_mve_taps_rows(&taps, y);                 \
                const struct hil_mve_taps_axis columns = hil_mve_taps_columns(&taps);              \
                const struct hil_mve_taps_axis along = p->upright ? rows : columns;                \
                const struct hil_mve_taps_axis across = p->upright ? columns : rows;               \
                hil_mve_plane_clear(bytes, p->in_zero_point, p->lines * p->runs * p->part + 4,     \
                                    plane);                                                        \
                int32_t filter = y * p->out_w * out_c;                                             \
                for (int32_t channel = 0; channel < p->in_c; channel++) {                          \
                    hil_mve_taps_fill(&taps, bytes, &along, &across,                               \
                                      (const int8_t *)(in + channel), plane);                      \
                    for (int32_t i = 0; i < p->depth_multiplier; i++) {                            \
                        name##_filter(p, &along, &across, channel * p->depth_multiplier + i,       \
                                      plane, out + filter++);                                      \
                    }                                                                              \
                }                                                                                  \
            }                                                                                      \
            in += p->in_h * p->in_w * p->in_c;                                                     \
            out += p->out_h * p->out_w * out_c;                                                    \
        }                                                                                          \
    }

/*@kernel
name = "hil_mve_depthwise_conv2d_s8_taps"
requires = ["mve"]
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "lines * runs * part + 32"
order = ["rows rows", "channels depth_multiplier"]
reads = "channel window"
code = 1500
[cost]
band = "batch * ((out_h + rows - 1) // rows)"
plane = "band * in_c"
filter = "plane * depth_multiplier"
copied_line = "plane * lines * runs"
copied = "copied_line * ((part + 7) // 8)"
across = "rows + upright * (out_w - rows)"
fours = "(out_w + upright * (rows - out_w) + 3) // 4"
tile = "filter * ((across * fours + 3) // 4)"
line = "tile * (filter_h + upright * (filter_w - filter_h)) * runs"
tap = "tile * filter_h * filter_w"
@*/
struct hil_mve_depthwise_conv2d_s8_taps {
    HIL_MVE_TAPS_FIELDS;
    int32_t any;     /* bits: 1: signs are corrected, 2: sums are rounded once */
    int32_t out_min; /* the least output */
    int32_t out_max; /* the largest output */
};

/* Requantizes and stores outputs of a channel, as many as are `inside`. */
HIL_INLINE void hil_mve_taps_store_s8(const struct hil_mve_depthwise_conv2d_s8_taps *p,
                                      const int32_t *scales, int32x4_t sums, uint32x4_t places,
                                      mve_pred16_t inside, int8_t *to) {
    int32x4_t product;
    if (p->any & 2) {
        product = vqdmulhq_n_s32(sums, scales[1]);
    } else {
        product = vqrdmulhq_n_s32(sums, scales[1]);
        if (p->any & 1) {
            product = vaddq_s32(product, vshrq_n_s32(product, 31));
        }
    }
    const int32x4_t moved = vaddq_n_s32(vrshlq_n_s32(product, scales[2]), scales[3]);
    const int32x4_t value =
        vminq_s32(vmaxq_s32(moved, vdupq_n_s32(p->out_min)), vdupq_n_s32(p->out_max));
    vstrbq_scatter_offset_p_s32(to, places, value, inside);
}

HIL_MVE_TAPS_LAYER(hil_mve_depthwise_conv2d_s8_taps, int8_t, hil_mve_taps_store_s8)

/*@kernel
name = "hil_mve_depthwise_conv2d_s16_taps"
requires = ["mve"]
inputs = ["int16_t"]
outputs = ["int16_t"]
scratch = "2 * lines * runs * part + 32"
order = ["rows rows", "channels depth_multiplier"]
reads = "channel window"
code = 1500
[cost]
band = "batch * ((out_h + rows - 1) // rows)"
plane = "band * in_c"
filter = "plane * depth_multiplier"
copied_line = "plane * lines * runs"
copied = "copied_line * ((part + 7) // 8)"
across = "rows + upright * (out_w - rows)"
fours = "(out_w + upright * (rows - out_w) + 3) // 4"
tile = "filter * ((across * fours + 3) // 4)"
line = "tile * (filter_h + upright * (filter_w - filter_h)) * runs"
tap = "tile * filter_h * filter_w"
@*/
struct hil_mve_depthwise_conv2d_s16_taps {
    HIL_MVE_TAPS_FIELDS;
    int32_t shifted; /* 1: outputs have a shift and a zero point, 0: neither */
    int32_t out_min; /* the least output */
    int32_t out_max; /* the largest output */
};

/* Requantizes and stores outputs of a channel, as many as are `inside`. */
HIL_INLINE void hil_mve_taps_store_s16(const struct hil_mve_depthwise_conv2d_s16_taps *p,
                                       const int32_t *scales, int32x4_t sums, uint32x4_t places,
                                       mve_pred16_t inside, int8_t *to) {
    const int32x4_t moved = hil_mve_plane_scaled(p->shifted, scales, sums);
    const int32x4_t value =
        vminq_s32(vmaxq_s32(moved, vdupq_n_s32(p->out_min)), vdupq_n_s32(p->out_max));
    vstrhq_scatter_shifted_offset_p_s32((int16_t *)(void *)to, places, value, inside);
}

HIL_MVE_TAPS_LAYER(hil_mve_depthwise_conv2d_s16_taps, int16_t, hil_mve_taps_store_s16)

#endif
