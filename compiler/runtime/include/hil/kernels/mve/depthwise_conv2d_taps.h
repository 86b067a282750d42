/* Depthwise convolution of int8 and int16 images with int8 weights on Helium, with filters of any
 * size, strides and dilations, a channel's plane at a time: a vector holds four outputs next to
 * each other, and each tap of the filter is a multiplication with a scalar. The kernels of 3x3, 5x5
 * and pairs of rows are faster where they serve.
 *
 * Tile: `beside` vectors of `below` lines, six at most, x 1 channel.
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
 * Cost: 9 instructions for a tap of 16 outputs, 2 more where lines lie farther apart than a load
 * reaches (127 bytes, of int16 254); about 60 a tile; 7 for eight elements of the plane. Counts
 * (instructions under QEMU, mps3-an547) a MAC, 8x8x16: 6x6 0.72, 7x7 0.68, 3x3 with dilation
 * 2 1.19, with stride 3 2.07; 1x64x16: 1x4 1.51. The portable kernel: 2.7, 2.7, 4.0, 4.0, 5.4.
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
    int32_t beside;        /* vectors of a tile in a line */                                       \
    int32_t below;         /* lines of a tile */                                                   \
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
        .step = (p)->step, .beside = (p)->beside, .below = (p)->below,                             \
        .in_zero_point = (p)->in_zero_point, .weights = (p)->weights, .scales = (p)->scales,       \
    }

/* Channels of the outputs. */
#define HIL_MVE_TAPS_OUT_C(p) ((p)->in_c * (p)->depth_multiplier)
/* The most vectors of a tile. */
#define HIL_MVE_TAPS_VECTORS 6

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
    int32_t step = along->stride * along->in_step;
    /* The places would take a register of the sums. */
    __asm__ volatile("" : "+r"(step));
    const uint16x8_t places = hil_mve_plane_places(step);
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
            hil_mve_plane_line(bytes, from, places, step, count, to);
            from += bytes * across->in_step;
            to += bytes * p->runs * p->part;
        }
    }
}

/* Four pixels next to each other, widened. */
HIL_INLINE int32x4_t hil_mve_taps_load(int32_t bytes, const void *at) {
    return bytes == 1 ? vldrbq_s32((const int8_t *)at) : vldrhq_s32((const int16_t *)at);
}

/* What requantizes a channel's sums: multiplier, shift, the zero point of the output, the least
 * output and the largest one. */
struct hil_mve_taps_scale {
    int32_t multiplier;
    int32_t shift;
    int32_t zero_point;
    int32_t low;
    int32_t high;
};

/* A band: its axes, elements from a line of the plane to that of the next line of outputs, and the
 * outputs of a vector that there are. */
struct hil_mve_taps_band {
    struct hil_mve_taps_axis along;
    struct hil_mve_taps_axis across;
    int32_t line;
    int32_t inside;
};

HIL_INLINE struct hil_mve_taps_band hil_mve_taps_band(const struct hil_mve_taps *p, int32_t y) {
    const struct hil_mve_taps_axis rows = hil_mve_taps_rows(p, y);
    const struct hil_mve_taps_axis columns = hil_mve_taps_columns(p);
    const struct hil_mve_taps_axis along = p->upright ? rows : columns;
    const struct hil_mve_taps_axis across = p->upright ? columns : rows;
    const struct hil_mve_taps_band band = {
        .along = along,
        .across = across,
        .line = across.stride * p->runs * p->part,
        .inside = along.outputs < 4 ? along.outputs : 4,
    };
    return band;
}

/* Places of a tile's outputs, two vectors in turn; the last one of an odd number is there twice. */
HIL_INLINE void hil_mve_taps_places(const struct hil_mve_taps *p,
                                    const struct hil_mve_taps_band *band, uint16_t (*places)[8]) {
    const int32_t vectors = p->beside * p->below;
#pragma GCC unroll 3
    for (int32_t i = 0; i < vectors; i += 2) {
#pragma GCC unroll 8
        for (int32_t lane = 0; lane < 8; lane++) {
            const int32_t vector = i + lane % 2 < vectors ? i + lane % 2 : i;
            const int32_t x = vector % p->beside * 4 + lane / 2;
            places[i / 2][lane] =
                (uint16_t)(x * band->along.out_step + vector / p->beside * band->across.out_step);
        }
    }
}

/* Adds the products of a filter to the `count` sums of a tile whose first pixel is at `from`. */
HIL_INLINE void hil_mve_taps_sums(const struct hil_mve_taps *p, int32_t bytes,
                                  const struct hil_mve_taps_band *band, const int8_t *weights,
                                  int32_t count, const int8_t *from, int32x4_t *sums) {
    for (int32_t line = 0; line < band->across.filter; line++) {
        for (int32_t run = 0; run < p->runs; run++) {
            const int8_t *at = from + bytes * run * p->part;
            const int32_t taps = (band->along.filter - run + p->runs - 1) / p->runs;
#pragma GCC unroll 16
            for (int32_t tap = 0; tap < taps; tap++) {
                const int32_t weight = *weights++;
#pragma GCC unroll 6
                for (int32_t i = 0; i < count; i++) {
                    const int32_t apart = i % p->beside * 4 + i / p->beside * band->line;
                    sums[i] =
                        vmlaq_n_s32(sums[i], hil_mve_taps_load(bytes, at + bytes * apart), weight);
                }
                at += bytes * p->step;
                /* Pixels that are loaded ahead would take more registers than there are. */
                __asm__ volatile("" ::: "memory");
            }
        }
        from += bytes * band->across.dilation * p->runs * p->part;
    }
}

/* A layer of elements of a type: `STORE(p, scale, first, second, places, inside, to)` requantizes
 * two vectors and stores as many of their outputs in turn as are `inside`. */
#define HIL_MVE_TAPS_LAYER(name, type, STORE)                                                      \
    HIL_INLINE void name##_tile(const struct name *p, const struct hil_mve_taps_band *band,        \
                                int32_t channel, int32_t count, uint16_t(*places)[8],              \
                                const type *from, type *to) {                                      \
        const struct hil_mve_taps taps = HIL_MVE_TAPS(p);                                          \
        const int32_t *const scales = p->scales + 4 * channel;                                     \
        int32x4_t sums[HIL_MVE_TAPS_VECTORS];                                                      \
        _Pragma("GCC unroll 6") for (int32_t i = 0; i < count; i++) {                              \
            sums[i] = vdupq_n_s32(scales[0]);                                                      \
        }                                                                                          \
        hil_mve_taps_sums(&taps, (int32_t)sizeof *to, band,                                        \
                          p->weights + channel * p->filter_h * p->filter_w, count,                 \
                          (const int8_t *)from, sums);                                             \
        struct hil_mve_taps_scale scale = {                                                        \
            .multiplier = scales[1],                                                               \
            .shift = scales[2],                                                                    \
            .zero_point = scales[3],                                                               \
            .low = p->out_min,                                                                     \
            .high = p->out_max}; /* Vectors of them would take registers of the sums. */           \
        __asm__ volatile("" : "+r"(scale.low), "+r"(scale.high));                                  \
        _Pragma("GCC unroll 3") for (int32_t i = 0; i < count; i += 2) {                           \
            STORE(p, &scale, sums[i], sums[i + 1 < count ? i + 1 : i], vldrhq_u16(places[i / 2]),  \
                  2 * band->inside, to);                                                           \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    /* The outputs of a filter from a channel's plane; the last tiles of a line, and lines, cover  \
     * outputs again. */                                                                           \
    HIL_INLINE void name##_filter(const struct name *p, const struct hil_mve_taps_band *band,      \
                                  int32_t channel, uint16_t(*places)[8], const type *plane,        \
                                  type *out) {                                                     \
        const int32_t wide = 4 * p->beside;                                                        \
        const int32_t last_line = band->across.outputs - p->below;                                 \
        const int32_t last = band->along.outputs > wide ? band->along.outputs - wide : 0;          \
        for (int32_t i = 0; i < last_line + p->below; i += p->below) {                             \
            const int32_t line = i < last_line ? i : last_line;                                    \
            for (int32_t j = 0; j < last + wide; j += wide) {                                      \
                const int32_t x = j < last ? j : last;                                             \
                const type *const from = plane + line * band->line + x;                            \
                type *const to = out + line * band->across.out_step + x * band->along.out_step;    \
                switch (p->beside * p->below) {                                                    \
                case 1:                                                                            \
                    name##_tile(p, band, channel, 1, places, from, to);                            \
                    break;                                                                         \
                case 2:                                                                            \
                    name##_tile(p, band, channel, 2, places, from, to);                            \
                    break;                                                                         \
                case 3:                                                                            \
                    name##_tile(p, band, channel, 3, places, from, to);                            \
                    break;                                                                         \
                case 4:                                                                            \
                    name##_tile(p, band, channel, 4, places, from, to);                            \
                    break;                                                                         \
                case 5:                                                                            \
                    name##_tile(p, band, channel, 5, places, from, to);                            \
                    break;                                                                         \
                default:                                                                           \
                    name##_tile(p, band, channel, 6, places, from, to);                            \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    HIL_INLINE void name(const struct name *p, const type *in, type *out, void *scratch) {         \
        const struct hil_mve_taps taps = HIL_MVE_TAPS(p);                                          \
        const int32_t bytes = (int32_t)sizeof *out;                                                \
        type *const plane = (type *)scratch;                                                       \
        const int32_t out_c = HIL_MVE_TAPS_OUT_C(p);                                               \
        for (int32_t images = p->batch; images > 0; images--) {                                    \
            for (int32_t y = 0; y < p->out_h; y += p->rows) {                                      \
                const struct hil_mve_taps_band band = hil_mve_taps_band(&taps, y);                 \
                uint16_t places[HIL_MVE_TAPS_VECTORS / 2][8];                                      \
                hil_mve_taps_places(&taps, &band, places);                                         \
                hil_mve_plane_clear(bytes, p->in_zero_point, p->lines * p->runs * p->part + 4,     \
                                    plane);                                                        \
                int32_t channel = 0;                                                               \
                for (int32_t i = 0; i < p->in_c; i++) {                                            \
                    hil_mve_taps_fill(&taps, bytes, &band.along, &band.across,                     \
                                      (const int8_t *)(in + i), (int8_t *)plane);                  \
                    for (int32_t left = p->depth_multiplier; left > 0; left--) {                   \
                        name##_filter(p, &band, channel, places, plane,                            \
                                      out + y * p->out_w * out_c + channel);                       \
                        channel++;                                                                 \
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
code = 808
[cost]
band = "batch * ((out_h + rows - 1) // rows)"
plane = "band * in_c"
filter = "plane * depth_multiplier"
copied_line = "plane * lines * runs"
copied = "copied_line * ((part + 7) // 8)"
tiles_across = "(rows + upright * (out_w - rows) + below - 1) // below"
tiles_along = "(out_w + upright * (rows - out_w) + 4 * beside - 1) // (4 * beside)"
tile = "filter * tiles_across * tiles_along"
vector = "tile * beside * below"
line = "tile * (filter_h + upright * (filter_w - filter_h)) * runs"
tap = "tile * filter_h * filter_w"
product = "tap * beside * below"
uneven = "tile * (out_h % rows > 0)"
wide = "product * (beside * below > 4)"
odd = "vector * (beside * below % 2)"
far = "product * ((below - 1) * (stride_h + upright * (stride_w - stride_h)) * runs * part > 120)"
@*/
struct hil_mve_depthwise_conv2d_s8_taps {
    HIL_MVE_TAPS_FIELDS;
    int32_t any;     /* bits: 1: signs are corrected, 2: sums are rounded once */
    int32_t out_min; /* the least output */
    int32_t out_max; /* the largest output */
};

/* Four sums as outputs less the zero point. */
HIL_INLINE int32x4_t hil_mve_taps_scaled(const struct hil_mve_depthwise_conv2d_s8_taps *p,
                                         const struct hil_mve_taps_scale *scale, int32x4_t sums) {
    if (p->any & 2) {
        return vrshlq_n_s32(vqdmulhq_n_s32(sums, scale->multiplier), scale->shift);
    }
    const int32x4_t product = vqrdmulhq_n_s32(sums, scale->multiplier);
    const int32x4_t corrected = p->any & 1 ? vaddq_s32(product, vshrq_n_s32(product, 31)) : product;
    return vrshlq_n_s32(corrected, scale->shift);
}

HIL_INLINE void hil_mve_taps_store_s8(const struct hil_mve_depthwise_conv2d_s8_taps *p,
                                      const struct hil_mve_taps_scale *scale, int32x4_t first,
                                      int32x4_t second, uint16x8_t places, int32_t inside,
                                      int8_t *to) {
    const int16x8_t narrow = hil_mve_narrowed(hil_mve_taps_scaled(p, scale, first),
                                              hil_mve_taps_scaled(p, scale, second));
    const int16x8_t moved = vqaddq_n_s16(narrow, (int16_t)scale->zero_point);
    const int16x8_t values = vminq_s16(vmaxq_s16(moved, vdupq_n_s16((int16_t)scale->low)),
                                       vdupq_n_s16((int16_t)scale->high));
    if (inside == 8) {
        vstrbq_scatter_offset_s16(to, places, values);
    } else {
        vstrbq_scatter_offset_p_s16(to, places, values, vctp16q((uint32_t)inside));
    }
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
code = 908
[cost]
band = "batch * ((out_h + rows - 1) // rows)"
plane = "band * in_c"
filter = "plane * depth_multiplier"
copied_line = "plane * lines * runs"
copied = "copied_line * ((part + 7) // 8)"
tiles_across = "(rows + upright * (out_w - rows) + below - 1) // below"
tiles_along = "(out_w + upright * (rows - out_w) + 4 * beside - 1) // (4 * beside)"
tile = "filter * tiles_across * tiles_along"
vector = "tile * beside * below"
line = "tile * (filter_h + upright * (filter_w - filter_h)) * runs"
tap = "tile * filter_h * filter_w"
product = "tap * beside * below"
uneven = "tile * (out_h % rows > 0)"
wide = "product * (beside * below > 4)"
odd = "vector * (beside * below % 2)"
far = "product * ((below - 1) * (stride_h + upright * (stride_w - stride_h)) * runs * part > 120)"
@*/
struct hil_mve_depthwise_conv2d_s16_taps {
    HIL_MVE_TAPS_FIELDS;
    int32_t shifted; /* 1: outputs have a shift and a zero point, 0: neither */
    int32_t out_min; /* the least output */
    int32_t out_max; /* the largest output */
};

HIL_INLINE void hil_mve_taps_store_s16(const struct hil_mve_depthwise_conv2d_s16_taps *p,
                                       const struct hil_mve_taps_scale *scale, int32x4_t first,
                                       int32x4_t second, uint16x8_t places, int32_t inside,
                                       int16_t *to) {
    const int16x8_t narrow = hil_mve_narrowed(
        hil_mve_plane_scaled(p->shifted, scale->multiplier, scale->shift, scale->zero_point, first),
        hil_mve_plane_scaled(p->shifted, scale->multiplier, scale->shift, scale->zero_point,
                             second));
    const int16x8_t values = vminq_s16(vmaxq_s16(narrow, vdupq_n_s16((int16_t)scale->low)),
                                       vdupq_n_s16((int16_t)scale->high));
    if (inside == 8) {
        vstrhq_scatter_shifted_offset_s16(to, places, values);
    } else {
        vstrhq_scatter_shifted_offset_p_s16(to, places, values, vctp16q((uint32_t)inside));
    }
}

HIL_MVE_TAPS_LAYER(hil_mve_depthwise_conv2d_s16_taps, int16_t, hil_mve_taps_store_s16)

#endif
