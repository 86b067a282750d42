/* Depthwise convolutions of float images on Helium: strips of four outputs of a row, and single
 * ones, four channels at a time, from a ring of padded rows.
 *
 * Tile: 4 outputs x 4 channels x 3 taps of a row of the filter: the sums a, b, c and d of one
 * output each, weights w0 to w2, a pixel x, which up to three of the sums take.
 *
 * Registers: eight vectors, all there are, named by the compiler; `from` runs over the pixels.
 *
 * Data: packed by `float_filters()`; per four channels float [filter_h][filter_w][4 channels], then
 * the four biases; channels are filled up with zeros. Rows lie in scratch as fpu/ring_f32.h says.
 *
 * Order: the rows under a row of outputs are taken before its first output is written.
 *
 * Bounds: those of columns_f32.h: products and sums are rounded once.
 *
 * Output: clamped; what is no number stays none.
 *
 * Scratch: the rows that a window spans.
 *
 * Cost: 28 instructions for three taps (48 MACs), 33 with stride 2, 10 for one (16). Measured by
 * `python ci/wide.py` (docs/reference/wide.md).
 *
 * Tests: no twin in C; the numpy reference gives what must come out
 * (tests/board/test_float_kernels.py).
 */
#ifndef HIL_KERNELS_MVE_DEPTHWISE_CONV2D_F32_H
#define HIL_KERNELS_MVE_DEPTHWISE_CONV2D_F32_H

#include <arm_mve.h>

#include "hil/kernels/fpu/ring_f32.h"

/*@kernel
name = "hil_depthwise_conv2d_f32_mve"
requires = ["mve", "fpu"]
inputs = ["float"]
outputs = ["float"]
scratch = "4 * line * lines + 4 * filter_h"
order = ["rows 1"]
reads = "window once"
code = 2000
[cost.counts]
row = "batch * out_h"
taken = "batch * in_h * line"
strip = "row * (out_w // 4)"
rest = "row * (out_w % 4)"
strip_block = "strip * ((in_c + 3) // 4)"
rest_block = "rest * ((in_c + 3) // 4)"
strip_tap = "strip_block * filter_h * filter_w"
rest_tap = "rest_block * filter_h * filter_w"
[cost.on.cortex-m55]
row = 150
taken = 0.6
strip = 50
rest = 50
strip_block = 45
rest_block = 25
strip_tap = 9
rest_tap = 4
@*/
struct hil_depthwise_conv2d_f32_mve {
    HIL_IMAGES_FIELDS;
    HIL_WINDOW_FIELDS;
    int32_t line;        /* floats of a row in scratch */
    int32_t lines;       /* rows that a window spans */
    int32_t columns;     /* of the image that windows reach, from the first */
    float out_min;       /* the least output */
    float out_max;       /* the largest output */
    const float *stream; /* per four channels [filter_h][filter_w][4 channels], the four biases */
};

/* clang-format off */

/* Three taps of the sums, whose outputs are a column apart, or two. In assembly because the compiler
 * loads pixels long before they are used, and has no register for the sums then. */
#define HIL_MVE_TRIPLE_1_F32                                                                       \
    "vldrw.32 %q[x], [%[from]]\n\t"                                                                \
    "add %[from], %[from], %[step]\n\t"                                                            \
    "vfma.f32 %q[a], %q[x], %q[w0]\n\t"                                                            \
    "vldrw.32 %q[x], [%[from]]\n\t"                                                                \
    "add %[from], %[from], %[step]\n\t"                                                            \
    "vfma.f32 %q[a], %q[x], %q[w1]\n\t"                                                            \
    "vfma.f32 %q[b], %q[x], %q[w0]\n\t"                                                            \
    "vldrw.32 %q[x], [%[from]]\n\t"                                                                \
    "add %[from], %[from], %[step]\n\t"                                                            \
    "vfma.f32 %q[a], %q[x], %q[w2]\n\t"                                                            \
    "vfma.f32 %q[b], %q[x], %q[w1]\n\t"                                                            \
    "vfma.f32 %q[c], %q[x], %q[w0]\n\t"                                                            \
    "vldrw.32 %q[x], [%[from]]\n\t"                                                                \
    "add %[from], %[from], %[step]\n\t"                                                            \
    "vfma.f32 %q[b], %q[x], %q[w2]\n\t"                                                            \
    "vfma.f32 %q[c], %q[x], %q[w1]\n\t"                                                            \
    "vfma.f32 %q[d], %q[x], %q[w0]\n\t"                                                            \
    "vldrw.32 %q[x], [%[from]]\n\t"                                                                \
    "add %[from], %[from], %[step]\n\t"                                                            \
    "vfma.f32 %q[c], %q[x], %q[w2]\n\t"                                                            \
    "vfma.f32 %q[d], %q[x], %q[w1]\n\t"                                                            \
    "vldrw.32 %q[x], [%[from]]\n\t"                                                                \
    "vfma.f32 %q[d], %q[x], %q[w2]\n\t"
#define HIL_MVE_TRIPLE_2_F32                                                                       \
    "vldrw.32 %q[x], [%[from]]\n\t"                                                                \
    "add %[from], %[from], %[step]\n\t"                                                            \
    "vfma.f32 %q[a], %q[x], %q[w0]\n\t"                                                            \
    "vldrw.32 %q[x], [%[from]]\n\t"                                                                \
    "add %[from], %[from], %[step]\n\t"                                                            \
    "vfma.f32 %q[a], %q[x], %q[w1]\n\t"                                                            \
    "vldrw.32 %q[x], [%[from]]\n\t"                                                                \
    "add %[from], %[from], %[step]\n\t"                                                            \
    "vfma.f32 %q[a], %q[x], %q[w2]\n\t"                                                            \
    "vfma.f32 %q[b], %q[x], %q[w0]\n\t"                                                            \
    "vldrw.32 %q[x], [%[from]]\n\t"                                                                \
    "add %[from], %[from], %[step]\n\t"                                                            \
    "vfma.f32 %q[b], %q[x], %q[w1]\n\t"                                                            \
    "vldrw.32 %q[x], [%[from]]\n\t"                                                                \
    "add %[from], %[from], %[step]\n\t"                                                            \
    "vfma.f32 %q[b], %q[x], %q[w2]\n\t"                                                            \
    "vfma.f32 %q[c], %q[x], %q[w0]\n\t"                                                            \
    "vldrw.32 %q[x], [%[from]]\n\t"                                                                \
    "add %[from], %[from], %[step]\n\t"                                                            \
    "vfma.f32 %q[c], %q[x], %q[w1]\n\t"                                                            \
    "vldrw.32 %q[x], [%[from]]\n\t"                                                                \
    "add %[from], %[from], %[step]\n\t"                                                            \
    "vfma.f32 %q[c], %q[x], %q[w2]\n\t"                                                            \
    "vfma.f32 %q[d], %q[x], %q[w0]\n\t"                                                            \
    "vldrw.32 %q[x], [%[from]]\n\t"                                                                \
    "add %[from], %[from], %[step]\n\t"                                                            \
    "vfma.f32 %q[d], %q[x], %q[w1]\n\t"                                                            \
    "vldrw.32 %q[x], [%[from]]\n\t"                                                                \
    "vfma.f32 %q[d], %q[x], %q[w2]\n\t"
#define HIL_MVE_TRIPLE_F32(TAPS, at, w, step_bytes)                                                \
    do {                                                                                           \
        const float *from_ = (at);                                                                 \
        float32x4_t w0_;                                                                           \
        float32x4_t w1_;                                                                           \
        float32x4_t w2_;                                                                           \
        float32x4_t x_;                                                                            \
        __asm__ volatile("vldrw.32 %q[w0], [%[weights]], #16\n\t"                                  \
                         "vldrw.32 %q[w1], [%[weights]], #16\n\t"                                  \
                         "vldrw.32 %q[w2], [%[weights]], #16\n\t" TAPS                             \
                         : [a] "+w"(a), [b] "+w"(b), [c] "+w"(c), [d] "+w"(d), [w0] "=&w"(w0_),    \
                           [w1] "=&w"(w1_), [w2] "=&w"(w2_), [x] "=&w"(x_), [from] "+r"(from_),    \
                           [weights] "+r"(w)                                                       \
                         : [step] "r"(step_bytes)                                                  \
                         : "memory");                                                              \
    } while (0)

/* clang-format on */

/* That an assembly changes the predicate, for which clang has no name: it keeps none in this
 * kernel. */
#ifdef __clang__
#define HIL_MVE_PREDICATE
#else
#define HIL_MVE_PREDICATE "p0",
#endif

/* Outputs of four channels, or of `count` less, within the bounds: `low`, which `least` holds too,
 * and `high`. What is no number stays none. The predicate has no name that a compiler knows:
 * nothing else in this kernel uses it. */
HIL_INLINE void hil_mve_store_f32(float *out, float32x4_t sums, float32x4_t least, float low,
                                  float high, int32_t count) {
    __asm__ volatile(
        "vpt.f32 gt, %q[least], %q[sums]\n\t"
        "vdupt.32 %q[sums], %[low]\n\t"
        "vpt.f32 gt, %q[sums], %[high]\n\t"
        "vdupt.32 %q[sums], %[high]\n\t"
        "vctp.32 %[count]\n\t"
        "vpst\n\t"
        "vstrwt.32 %q[sums], [%[out]]\n\t"
        : [sums] "+w"(sums)
        : [least] "w"(least), [low] "r"(low), [high] "r"(high), [count] "r"(count), [out] "r"(out)
        : "memory");
}

/* Four outputs of a row, all channels. */
HIL_INLINE void hil_mve_strip_f32(const struct hil_depthwise_conv2d_f32_mve *p, const float *base,
                                  const int32_t *rows, float *out) {
    const int32_t pixel = (p->in_c + 3) / 4 * 4;
    const int32_t stride = p->stride_w * pixel;
    const int shared = p->dilation_w == 1 && p->stride_w <= 2;
    const float *w = p->stream;
    for (int32_t channel = 0; channel < p->in_c; channel += 4) {
        float32x4_t a = vdupq_n_f32(0.0F);
        float32x4_t b = vdupq_n_f32(0.0F);
        float32x4_t c = vdupq_n_f32(0.0F);
        float32x4_t d = vdupq_n_f32(0.0F);
        for (int32_t row = 0; row < p->filter_h; row++) {
            const float *at = base + rows[row] + channel;
            int32_t left = p->filter_w;
            for (; shared && left >= 3; left -= 3) {
                if (p->stride_w == 1) {
                    HIL_MVE_TRIPLE_F32(HIL_MVE_TRIPLE_1_F32, at, w, 4 * pixel);
                } else {
                    HIL_MVE_TRIPLE_F32(HIL_MVE_TRIPLE_2_F32, at, w, 4 * pixel);
                }
                at += 3 * pixel;
            }
            for (; left > 0; left--) {
                const float32x4_t tap = vldrwq_f32(w);
                a = vfmaq_f32(a, vldrwq_f32(at), tap);
                b = vfmaq_f32(b, vldrwq_f32(at + stride), tap);
                c = vfmaq_f32(c, vldrwq_f32(at + 2 * stride), tap);
                d = vfmaq_f32(d, vldrwq_f32(at + 3 * stride), tap);
                at += p->dilation_w * pixel;
                w += 4;
            }
        }
        const float32x4_t bias = vldrwq_f32(w);
        w += 4;
        float *const to = out + channel;
        const float32x4_t least = vdupq_n_f32(p->out_min);
        hil_mve_store_f32(to, vaddq_f32(a, bias), least, p->out_min, p->out_max, p->in_c - channel);
        hil_mve_store_f32(to + p->in_c, vaddq_f32(b, bias), least, p->out_min, p->out_max,
                          p->in_c - channel);
        hil_mve_store_f32(to + 2 * p->in_c, vaddq_f32(c, bias), least, p->out_min, p->out_max,
                          p->in_c - channel);
        hil_mve_store_f32(to + 3 * p->in_c, vaddq_f32(d, bias), least, p->out_min, p->out_max,
                          p->in_c - channel);
    }
}

/* One output of a row, all channels. */
HIL_INLINE void hil_mve_pixel_f32(const struct hil_depthwise_conv2d_f32_mve *p, const float *base,
                                  const int32_t *rows, float *out) {
    const int32_t pixel = (p->in_c + 3) / 4 * 4;
    const float *w = p->stream;
    for (int32_t channel = 0; channel < p->in_c; channel += 4) {
        float32x4_t sum = vdupq_n_f32(0.0F);
        for (int32_t row = 0; row < p->filter_h; row++) {
            const float *at = base + rows[row] + channel;
#pragma GCC unroll 5
            for (int32_t left = p->filter_w; left > 0; left--) {
                sum = vfmaq_f32(sum, vldrwq_f32(at), vldrwq_f32(w));
                at += p->dilation_w * pixel;
                w += 4;
            }
        }
        sum = vaddq_f32(sum, vldrwq_f32(w));
        w += 4;
        const float32x4_t least = vdupq_n_f32(p->out_min);
        hil_mve_store_f32(out + channel, sum, least, p->out_min, p->out_max, p->in_c - channel);
    }
}

HIL_INLINE void hil_depthwise_conv2d_f32_mve(const struct hil_depthwise_conv2d_f32_mve *p,
                                             const float *in, float *out, void *scratch) {
    const struct hil_windows windows = HIL_WINDOWS(p);
    struct hil_ring_f32 ring = {
        .rows = (float *)scratch,
        .line = p->line,
        .lines = p->lines,
        .columns = p->columns,
        .pixel = (p->in_c + 3) / 4 * 4,
        .next = 0,
    };
    /* Behind the ring: where each row of the filter is. */
    void *const behind = ring.rows + p->lines * p->line;
    int32_t *const rows = (int32_t *)behind;
    for (int32_t images = p->batch; images > 0; images--) {
        for (int32_t y = 0; y < p->out_h; y++) {
            hil_ring_f32_turn(&ring, &windows, in, y, rows);
            int32_t left = p->out_w;
            for (; left >= 4; left -= 4) {
                hil_mve_strip_f32(p, ring.rows, rows, out);
                hil_ring_f32_move(&ring, p->filter_h, rows, 4 * p->stride_w);
                out += 4 * p->in_c;
            }
            for (; left > 0; left--) {
                hil_mve_pixel_f32(p, ring.rows, rows, out);
                hil_ring_f32_move(&ring, p->filter_h, rows, p->stride_w);
                out += p->in_c;
            }
        }
        in += p->in_h * p->in_w * p->in_c;
    }
}

#endif
