/* Averages and maxima of windows of float images, and means over axes that lie together, on Helium.
 * Each average adds up in memory's order, as portable kernels do. */
#ifndef HIL_KERNELS_MVE_POOL_F32_H
#define HIL_KERNELS_MVE_POOL_F32_H

#include <string.h>

#include "hil/kernels/generic/add_rows.h"
#include "hil/kernels/generic/mean.h"
#include "hil/kernels/generic/pool.h"
#include "hil/kernels/mve/floats.h"

/* Sums of sixteen channels of pixels, `columns` next to each other in each of `rows` rows. */
struct hil_mve_sums_f32 {
    float32x4_t of[4];
};

HIL_INLINE struct hil_mve_sums_f32 hil_mve_add_sixteen(struct hil_mve_sums_f32 sums,
                                                       const float *from, int32_t rows,
                                                       int32_t columns, int32_t line,
                                                       int32_t step) {
    for (; rows > 0; rows--) {
        const float *pixel = from;
        for (int32_t left = columns; left > 0; left--) {
            sums.of[0] = vaddq_f32(sums.of[0], vld1q_f32(pixel));
            sums.of[1] = vaddq_f32(sums.of[1], vld1q_f32(pixel + 4));
            sums.of[2] = vaddq_f32(sums.of[2], vld1q_f32(pixel + 8));
            sums.of[3] = vaddq_f32(sums.of[3], vld1q_f32(pixel + 12));
            pixel += step;
        }
        from += line;
    }
    return sums;
}

/* The same of the channels of `mask`, at most four. */
HIL_INLINE float32x4_t hil_mve_add_four(float32x4_t sums, const float *from, int32_t rows,
                                        int32_t columns, int32_t line, int32_t step,
                                        mve_pred16_t mask) {
    for (; rows > 0; rows--) {
        const float *pixel = from;
        for (int32_t left = columns; left > 0; left--) {
            sums = vaddq_f32(sums, vldrwq_z_f32(pixel, mask));
            pixel += step;
        }
        from += line;
    }
    return sums;
}

/* Writes the averages of `channels` channels of `covered` pixels, clamped. */
HIL_INLINE void hil_mve_average_f32(const float *from, int32_t rows, int32_t columns, int32_t line,
                                    int32_t step, int32_t channels, float covered, float low,
                                    float high, float *out) {
    const float reciprocal = 1.0F / covered;
    const float32x4_t zero = vdupq_n_f32(0.0F);
    for (; channels >= 16; channels -= 16) {
        struct hil_mve_sums_f32 sums = {{zero, zero, zero, zero}};
        sums = hil_mve_add_sixteen(sums, from, rows, columns, line, step);
#pragma GCC unroll 4
        for (int32_t i = 0; i < 4; i++) {
            const float32x4_t average = hil_mve_divided_f32(sums.of[i], covered, reciprocal);
            vst1q_f32(out + 4 * i, hil_mve_clamped_f32(average, low, high));
        }
        from += 16;
        out += 16;
    }
    for (; channels > 0; channels -= 4) {
        const mve_pred16_t mask = vctp32q((uint32_t)channels);
        const float32x4_t sums = hil_mve_add_four(zero, from, rows, columns, line, step, mask);
        const float32x4_t average = hil_mve_divided_f32(sums, covered, reciprocal);
        vstrwq_p_f32(out, hil_mve_clamped_f32(average, low, high), mask);
        from += 4;
        out += 4;
    }
}

/*@kernel
name = "hil_mve_average_pool_f32"
requires = ["mve", "fpu"]
inputs = ["float"]
outputs = ["float"]
scratch = "0"
order = ["pixels 1", "channels 4"]
reads = "channel window"
code = 296
[cost]
pixel = "batches * out_h * out_w"
sixteen = "pixel * (channels // 16)"
four = "pixel * ((channels - channels // 16 * 16 + 3) // 4)"
sixteen_tap = "sixteen * min(filter_h, in_h) * min(filter_w, in_w)"
four_tap = "four * min(filter_h, in_h) * min(filter_w, in_w)"
@*/
struct hil_mve_average_pool_f32 {
    HIL_POOL_FIELDS;
    float low;  /* the least output */
    float high; /* the largest output */
};

HIL_INLINE void hil_mve_average_pool_f32(const struct hil_mve_average_pool_f32 *p, const float *in,
                                         float *out) {
    const int32_t line = p->in_w * p->channels;
    for (int32_t batch = 0; batch < p->batches; batch++) {
        for (int32_t out_y = 0; out_y < p->out_h; out_y++) {
            const struct hil_pool_range y =
                hil_pool_cover(out_y * p->stride_h - p->pad_top, p->filter_h, p->in_h);
            for (int32_t out_x = 0; out_x < p->out_w; out_x++) {
                const struct hil_pool_range x =
                    hil_pool_cover(out_x * p->stride_w - p->pad_left, p->filter_w, p->in_w);
                hil_mve_average_f32(in + y.begin * line + x.begin * p->channels, y.count, x.count,
                                    line, p->channels, p->channels, (float)(y.count * x.count),
                                    p->low, p->high, out);
                out += p->channels;
            }
        }
        in += p->in_h * line;
    }
}

/*@kernel
name = "hil_mve_max_pool_f32"
requires = ["mve", "fpu"]
inputs = ["float"]
outputs = ["float"]
scratch = "0"
order = ["pixels 1", "channels 4"]
reads = "channel window"
code = 496
[cost]
pixel = "batches * out_h * out_w"
four = "pixel * ((channels + 3) // 4)"
tap = "four * min(filter_h, in_h) * min(filter_w, in_w)"
@*/
struct hil_mve_max_pool_f32 {
    HIL_POOL_FIELDS;
    float low;  /* the least output, at most 0 */
    float high; /* the largest output, at least 0 */
};

/* What the largest of four numbers is found by. As integers, floats of one sign are ordered: those
 * above 0 ascending, the others descending, so that of the latter, where there are no others, the
 * least one without a sign is the largest float. Nothing is rounded, and subnormal numbers stay
 * what they are. */
struct hil_mve_largest_f32 {
    int32x4_t most;
    uint32x4_t below;
};

HIL_INLINE struct hil_mve_largest_f32 hil_mve_none_f32(void) {
    const uint32x4_t least = vdupq_n_u32(0xff800000U);
    return (struct hil_mve_largest_f32){vreinterpretq_s32_u32(least), least};
}

HIL_INLINE struct hil_mve_largest_f32 hil_mve_take_f32(struct hil_mve_largest_f32 found,
                                                       int32x4_t bits) {
    return (struct hil_mve_largest_f32){vmaxq_s32(found.most, bits),
                                        vminq_u32(found.below, vreinterpretq_u32_s32(bits))};
}

/* The largest numbers of the channels of `mask`, at most four; what is no number counts as minus
 * infinity. */
HIL_INLINE struct hil_mve_largest_f32 hil_mve_largest_number(const float *from, int32_t rows,
                                                             int32_t columns, int32_t line,
                                                             int32_t step, mve_pred16_t mask) {
    struct hil_mve_largest_f32 found = hil_mve_none_f32();
    for (; rows > 0; rows--) {
        const float *pixel = from;
        for (int32_t x = columns; x > 0; x--) {
            const int32x4_t bits = vreinterpretq_s32_f32(vldrwq_z_f32(pixel, mask));
            const mve_pred16_t number = vcmpleq_s32(bits, vdupq_n_s32(0x7f800000));
            found.most = vmaxq_m_s32(found.most, found.most, bits, number);
            found.below =
                vminq_m_u32(found.below, found.below, vreinterpretq_u32_s32(bits), number);
            pixel += step;
        }
        from += line;
    }
    return found;
}

/* The same of eight channels. */
struct hil_mve_largest_eight {
    struct hil_mve_largest_f32 of[2];
};

HIL_INLINE struct hil_mve_largest_eight hil_mve_largest_eight(const float *from, int32_t rows,
                                                              int32_t columns, int32_t line,
                                                              int32_t step) {
    struct hil_mve_largest_f32 first = hil_mve_none_f32();
    struct hil_mve_largest_f32 second = first;
    const float *row = from;
    for (int32_t y = rows; y > 0; y--) {
        const float *pixel = row;
        for (int32_t x = columns; x > 0; x--) {
            first = hil_mve_take_f32(first, vreinterpretq_s32_f32(vld1q_f32(pixel)));
            second = hil_mve_take_f32(second, vreinterpretq_s32_f32(vld1q_f32(pixel + 4)));
            pixel += step;
        }
        row += line;
    }
    /* What seems to be more than all numbers is none. */
    if (vmaxvq_s32(0, vmaxq_s32(first.most, second.most)) > 0x7f800000) {
        const mve_pred16_t all = vctp32q(4);
        first = hil_mve_largest_number(from, rows, columns, line, step, all);
        second = hil_mve_largest_number(from + 4, rows, columns, line, step, all);
    }
    return (struct hil_mve_largest_eight){{first, second}};
}

HIL_INLINE int32_t hil_mve_bits_f32(float x) {
    int32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* The numbers that were found, clamped. As integers without a sign those below 0 are above all
 * others, and the closer to 0 the less. */
HIL_INLINE float32x4_t hil_mve_max_pool_f32_clamped(const struct hil_mve_max_pool_f32 *p,
                                                    struct hil_mve_largest_f32 found) {
    int32x4_t largest = found.most;
    if (p->low == 0.0F) {
        largest = vmaxq_s32(largest, vdupq_n_s32(0));
    } else {
        const uint32x4_t least = vdupq_n_u32((uint32_t)hil_mve_bits_f32(p->low));
        const uint32x4_t below = vminq_u32(found.below, least);
        largest = hil_mve_if_negative_s32(largest, vreinterpretq_s32_u32(below));
    }
    largest = vminq_s32(largest, vdupq_n_s32(hil_mve_bits_f32(p->high)));
    return vreinterpretq_f32_s32(largest);
}

HIL_INLINE void hil_mve_max_pool_f32(const struct hil_mve_max_pool_f32 *p, const float *in,
                                     float *out) {
    const int32_t line = p->in_w * p->channels;
    for (int32_t batch = 0; batch < p->batches; batch++) {
        for (int32_t out_y = 0; out_y < p->out_h; out_y++) {
            const struct hil_pool_range y =
                hil_pool_cover(out_y * p->stride_h - p->pad_top, p->filter_h, p->in_h);
            for (int32_t out_x = 0; out_x < p->out_w; out_x++) {
                const struct hil_pool_range x =
                    hil_pool_cover(out_x * p->stride_w - p->pad_left, p->filter_w, p->in_w);
                const float *const corner = in + y.begin * line + x.begin * p->channels;
                int32_t c = 0;
                for (; c + 8 <= p->channels; c += 8) {
                    const struct hil_mve_largest_eight found =
                        hil_mve_largest_eight(corner + c, y.count, x.count, line, p->channels);
                    vst1q_f32(out + c, hil_mve_max_pool_f32_clamped(p, found.of[0]));
                    vst1q_f32(out + c + 4, hil_mve_max_pool_f32_clamped(p, found.of[1]));
                }
                for (; c < p->channels; c += 4) {
                    const mve_pred16_t mask = vctp32q((uint32_t)(p->channels - c));
                    const struct hil_mve_largest_f32 found = hil_mve_largest_number(
                        corner + c, y.count, x.count, line, p->channels, mask);
                    vstrwq_p_f32(out + c, hil_mve_max_pool_f32_clamped(p, found), mask);
                }
                out += p->channels;
            }
        }
        in += p->in_h * line;
    }
}

/*@kernel
name = "hil_mve_mean_f32"
requires = ["mve", "fpu"]
inputs = ["float"]
outputs = ["float"]
scratch = "0"
order = "walk"
reads = "mean"
code = 220
[cost]
sixteen = "outer * (inner // 16)"
four = "outer * (inner > 1) * ((inner - inner // 16 * 16 + 3) // 4)"
rows = "(inner == 1) * ((outer + 3) // 4)"
sixteen_value = "sixteen * values"
four_value = "four * values"
row_value = "rows * values"
@*/
struct hil_mve_mean_f32 {
    HIL_MEAN_FIELDS;
    int32_t outer;  /* blocks of the input */
    int32_t values; /* averaged into an output, so many elements apart: */
    int32_t inner;  /* neighbours of a block that are kept */
    float count;    /* what a sum is divided by */
};

/* The sums of the rows of `mask`, at most four, which begin at `from` and follow each other. */
HIL_INLINE float32x4_t hil_mve_sums_of_rows(const float *from, int32_t values, mve_pred16_t mask) {
    const uint32x4_t lanes = vmulq_n_u32(vidupq_n_u32(0, 1), 4 * (uint32_t)values);
    uint32x4_t at = vaddq_n_u32(lanes, (uint32_t)(uintptr_t)from);
    float32x4_t sums = vdupq_n_f32(0.0F);
    for (int32_t turns = values / 4; turns > 0; turns--) {
        sums = vaddq_f32(sums, vldrwq_gather_base_z_f32(at, 0, mask));
        sums = vaddq_f32(sums, vldrwq_gather_base_z_f32(at, 4, mask));
        sums = vaddq_f32(sums, vldrwq_gather_base_z_f32(at, 8, mask));
        sums = vaddq_f32(sums, vldrwq_gather_base_z_f32(at, 12, mask));
        at = vaddq_n_u32(at, 16);
    }
    for (int32_t turns = values % 4; turns > 0; turns--) {
        sums = vaddq_f32(sums, vldrwq_gather_base_z_f32(at, 0, mask));
        at = vaddq_n_u32(at, 4);
    }
    return sums;
}

HIL_INLINE void hil_mve_mean_f32(const struct hil_mve_mean_f32 *p, const float *in, float *out) {
    if (p->inner > 1) {
        for (int32_t blocks = p->outer; blocks > 0; blocks--) {
            hil_mve_average_f32(in, 1, p->values, 0, p->inner, p->inner, p->count, -INFINITY,
                                INFINITY, out);
            in += p->values * p->inner;
            out += p->inner;
        }
        return;
    }
    const float reciprocal = 1.0F / p->count;
    for (int32_t rows = p->outer; rows > 0; rows -= 4) {
        const mve_pred16_t mask = vctp32q((uint32_t)rows);
        const float32x4_t sums = hil_mve_sums_of_rows(in, p->values, mask);
        vstrwq_p_f32(out, hil_mve_divided_f32(sums, p->count, reciprocal), mask);
        in += 4 * p->values;
        out += 4;
    }
}

/* Averages over images that come a few rows at a time, as generic/add_rows.h says. ---------------
 */

/* Adds `rows` rows of `columns` pixels to sums[channels], which start at 0 if `first`. */
HIL_INLINE void hil_mve_add_rows_f32(const float *from, int32_t first, int32_t rows,
                                     int32_t columns, int32_t line, int32_t channels, float *sums) {
    const float32x4_t zero = vdupq_n_f32(0.0F);
    int32_t left = channels;
    for (; left >= 16; left -= 16) {
        struct hil_mve_sums_f32 own;
#pragma GCC unroll 4
        for (int32_t i = 0; i < 4; i++) {
            own.of[i] = first ? zero : vld1q_f32(sums + 4 * i);
        }
        own = hil_mve_add_sixteen(own, from, rows, columns, line, channels);
#pragma GCC unroll 4
        for (int32_t i = 0; i < 4; i++) {
            vst1q_f32(sums + 4 * i, own.of[i]);
        }
        from += 16;
        sums += 16;
    }
    for (; left > 0; left -= 4) {
        const mve_pred16_t mask = vctp32q((uint32_t)left);
        const float32x4_t own = first ? zero : vldrwq_z_f32(sums, mask);
        vstrwq_p_f32(sums, hil_mve_add_four(own, from, rows, columns, line, channels, mask), mask);
        from += 4;
        sums += 4;
    }
}

/* Writes sums[channels] over `count`, clamped. */
HIL_INLINE void hil_mve_finish_rows_f32(const float *sums, int32_t channels, float count, float low,
                                        float high, float *out) {
    const float reciprocal = 1.0F / count;
    for (; channels > 0; channels -= 4) {
        const mve_pred16_t mask = vctp32q((uint32_t)channels);
        const float32x4_t average =
            hil_mve_divided_f32(vldrwq_z_f32(sums, mask), count, reciprocal);
        vstrwq_p_f32(out, hil_mve_clamped_f32(average, low, high), mask);
        sums += 4;
        out += 4;
    }
}

/*@kernel
name = "hil_mve_average_rows_f32"
requires = ["mve", "fpu"]
inputs = ["float"]
outputs = ["float"]
scratch = "4 * out_w * channels"
order = "none"
code = 256
[cost]
sixteen = "out_w * (channels // 16)"
four = "out_w * ((channels - channels // 16 * 16 + 3) // 4)"
sixteen_tap = "sixteen * filter_w * rows"
four_tap = "four * filter_w * rows"
output = "out_w * ((channels + 3) // 4) * last"
@*/
struct hil_mve_average_rows_f32 {
    HIL_AVERAGE_ROWS_FIELDS;
    float low;  /* the least output */
    float high; /* the largest output */
};

HIL_INLINE void hil_mve_average_rows_f32(const struct hil_mve_average_rows_f32 *p, const float *in,
                                         float *out, void *scratch) {
    float *sums = (float *)scratch;
    for (int32_t out_x = 0; out_x < p->out_w; out_x++) {
        const struct hil_pool_range cover =
            hil_pool_cover(out_x * p->stride_w - p->pad_left, p->filter_w, p->in_w);
        hil_mve_add_rows_f32(in + cover.begin * p->channels, p->first, p->rows, cover.count,
                             p->in_w * p->channels, p->channels, sums);
        if (p->last) {
            hil_mve_finish_rows_f32(sums, p->channels, (float)(p->height * cover.count), p->low,
                                    p->high, out);
        }
        sums += p->channels;
        out += p->channels;
    }
}

/*@kernel
name = "hil_mve_mean_rows_f32"
requires = ["mve", "fpu"]
inputs = ["float"]
outputs = ["float"]
scratch = "4 * channels"
order = "none"
code = 208
[cost]
sixteen = "channels // 16"
four = "(channels - channels // 16 * 16 + 3) // 4"
sixteen_tap = "sixteen * pixels"
four_tap = "four * pixels"
output = "(channels + 3) // 4 * last"
@*/
struct hil_mve_mean_rows_f32 {
    HIL_MEAN_ROWS_FIELDS;
    float count; /* what a sum is divided by */
};

HIL_INLINE void hil_mve_mean_rows_f32(const struct hil_mve_mean_rows_f32 *p, const float *in,
                                      float *out, void *scratch) {
    float *const sums = (float *)scratch;
    hil_mve_add_rows_f32(in, p->first, 1, p->pixels, 0, p->channels, sums);
    if (p->last) {
        hil_mve_finish_rows_f32(sums, p->channels, p->count, -INFINITY, INFINITY, out);
    }
}

#endif
