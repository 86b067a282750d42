/* Depthwise convolutions of float images on Helium: strips of three outputs of a row for filters of
 * three by three taps, of four otherwise, four channels at a time, from a ring of padded rows.
 *
 * Tile: 3 outputs x 4 channels x 3 taps of a row of the filter; or 4 outputs, or 1, x 4 channels x
 * 3 taps, or 1.
 *
 *   sums of outputs 0 to 2: q0 to q2    weights of the taps: q3 to q5    pixels: q6, q7
 *
 * Registers: three by three: as drawn; r0 the block, r1 weights, r2 the next output, r3 bytes from
 * an output to the next, r4 to r6 places in the rows, r7 whether the least output is finite, r8 and
 * r9 the bounds, r10 bytes to the next four channels, r11 fours that are left, lr strips. Others:
 * eight vectors, all there are, named by the compiler: sums a to d, weights w0 to w2, a pixel x,
 * which up to three of the sums take.
 *
 * Data: packed by `ring_filters()`; per four channels float [filter_h][filter_w][4 channels], then
 * the four biases; channels are filled up with zeros. In scratch float [lines][fours of
 * channels][columns of a padded row][4 channels]: row y of the padded image is at line y % lines,
 * each element as often as its channel has filters.
 *
 * Order: the rows under a row of outputs are taken before its first output is written.
 *
 * Bounds: those of columns_f32.h: products and sums are rounded once.
 *
 * Output: clamped; what is no number stays none.
 *
 * Scratch: the rows that a window spans.
 *
 * Cost: three by three: 13 instructions for the three taps of three outputs (36 MACs), 64 for three
 * outputs, rectified, 46 for two, 14 for four channels. Others: 20 for three taps (48 MACs), 23
 * with stride 2, 9 for one (16). Measured by `python tools/measure.py wide`
 * (docs/reference/wide.md); a MAC (`hil bench` on mps3-an547, instructions under QEMU): 8x8x4 1.2,
 * with eight filters a channel 1.1.
 *
 * Tests: no twin in C; the numpy reference gives what must come out
 * (tests/board/test_float_kernels.py).
 */
#ifndef HIL_KERNELS_MVE_DEPTHWISE_CONV2D_F32_H
#define HIL_KERNELS_MVE_DEPTHWISE_CONV2D_F32_H

#include "hil/kernels/generic/lanes_f32.h"
#include "hil/kernels/mve/columns_f32.h"

/*@kernel
name = "hil_mve_depthwise_conv2d_f32"
requires = ["mve", "fpu"]
inputs = ["float"]
outputs = ["float"]
scratch = "4 * line * lines + 4 * filter_h"
order = ["rows 1"]
reads = "window once"
code = 1200
shared = {hil_mve_nine_f32 = 666}
[cost]
row = "batch * out_h"
taken = "batch * in_h * line"
repeated = "taken * (depth_multiplier > 1)"
block = "row * ((in_c * depth_multiplier + 3) // 4)"
three_by_three = "(filter_h // 3) * (3 // filter_h) * (filter_w // 3) * (3 // filter_w)"
nine = "three_by_three * (1 // stride_w) * (1 // dilation_w) * block * out_w"
other = "(1 - three_by_three * (1 // stride_w) * (1 // dilation_w)) * block"
strip = "other * (out_w // 4)"
rest = "other * (out_w - out_w // 4 * 4)"
strip_tap = "strip * filter_h * filter_w"
rest_tap = "rest * filter_h * filter_w"
@*/
struct hil_mve_depthwise_conv2d_f32 {
    HIL_IMAGES_FIELDS;
    int32_t depth_multiplier; /* filters of a channel of the image */
    HIL_WINDOW_FIELDS;
    int32_t line;        /* floats of a row in scratch */
    int32_t lines;       /* rows that a window spans */
    int32_t columns;     /* of the image that windows reach, from the first */
    float out_min;       /* the least output */
    float out_max;       /* the largest output */
    const float *stream; /* per four channels [filter_h][filter_w][4 channels], the four biases */
};

/* Channels of the outputs. */
#define HIL_MVE_DEPTHWISE_OUT_C(p) ((p)->in_c * (p)->depth_multiplier)

/* A row of outputs of fours of channels, three by three taps. The assembly knows the offsets. */
struct hil_mve_nine_f32 {
    const float *rows[3]; /*  0: under the first output */
    const float *weights; /* 12 */
    float *out;           /* 16 */
    int32_t step;         /* 20: bytes from an output to the next */
    float low;            /* 24 */
    float high;           /* 28 */
    int32_t strips;       /* 32: of three outputs */
    int32_t left;         /* 36: outputs behind them, at most two */
    int32_t jump;         /* 40: bytes from behind four channels of a row to the next four */
    int32_t back;         /* 44: bytes from behind outputs to those of the next four channels */
    int32_t blocks;       /* 48: of four channels */
};

HIL_MVE_AT(hil_mve_nine_f32, rows, 0);
HIL_MVE_AT(hil_mve_nine_f32, weights, 12);
HIL_MVE_AT(hil_mve_nine_f32, out, 16);
HIL_MVE_AT(hil_mve_nine_f32, step, 20);
HIL_MVE_AT(hil_mve_nine_f32, low, 24);
HIL_MVE_AT(hil_mve_nine_f32, high, 28);
HIL_MVE_AT(hil_mve_nine_f32, strips, 32);
HIL_MVE_AT(hil_mve_nine_f32, left, 36);
HIL_MVE_AT(hil_mve_nine_f32, jump, 40);
HIL_MVE_AT(hil_mve_nine_f32, back, 44);
HIL_MVE_AT(hil_mve_nine_f32, blocks, 48);

/* clang-format off */

/* A row of the filter over three outputs, over two, and over one; the place goes on by as many. */
#define HIL_MVE_NINE_3(row)                                                                        \
    "vldmia r1!, {d6-d11}\n"                                                                       \
    "vldrw.32 q6, [" row "], #16\n"                                                                \
    "vfma.f32 q0, q6, q3\n"                                                                        \
    "vldmia " row "!, {d12-d15}\n"                                                                 \
    "vfma.f32 q0, q6, q4\n"                                                                        \
    "vfma.f32 q1, q6, q3\n"                                                                        \
    "vfma.f32 q0, q7, q5\n"                                                                        \
    "vfma.f32 q1, q7, q4\n"                                                                        \
    "vfma.f32 q2, q7, q3\n"                                                                        \
    "vldmia " row ", {d12-d15}\n"                                                                  \
    "vfma.f32 q1, q6, q5\n"                                                                        \
    "vfma.f32 q2, q6, q4\n"                                                                        \
    "vfma.f32 q2, q7, q5\n"
#define HIL_MVE_NINE_2(row)                                                                        \
    "vldmia r1!, {d6-d11}\n"                                                                       \
    "vldmia " row "!, {d12-d15}\n"                                                                 \
    "vfma.f32 q0, q6, q3\n"                                                                        \
    "vfma.f32 q0, q7, q4\n"                                                                        \
    "vfma.f32 q1, q7, q3\n"                                                                        \
    "vldmia " row ", {d12-d15}\n"                                                                  \
    "vfma.f32 q0, q6, q5\n"                                                                        \
    "vfma.f32 q1, q6, q4\n"                                                                        \
    "vfma.f32 q1, q7, q5\n"
#define HIL_MVE_NINE_1(row)                                                                        \
    "vldmia r1!, {d6-d11}\n"                                                                       \
    "vldrw.32 q6, [" row "], #16\n"                                                                \
    "vfma.f32 q0, q6, q3\n"                                                                        \
    "vldmia " row ", {d12-d15}\n"                                                                  \
    "vfma.f32 q0, q6, q4\n"                                                                        \
    "vfma.f32 q0, q7, q5\n"

#define HIL_MVE_NINE_FIRST(each) each("q0")
#define HIL_MVE_NINE_TWO(each) each("q0") each("q1")
#define HIL_MVE_NINE_THREE(each) each("q0") each("q1") each("q2")
#define HIL_MVE_NINE_NOT_BELOW(sums)                                                               \
    "vpt.f32 gt, q7, " sums "\n"                                                                   \
    "vdupt.32 " sums ", r8\n"
#define HIL_MVE_NINE_NOT_ABOVE(sums)                                                               \
    "vpt.f32 gt, " sums ", r9\n"                                                                   \
    "vdupt.32 " sums ", r9\n"
#define HIL_MVE_NINE_STORE(sums)                                                                   \
    "vstrw.32 " sums ", [r2]\n"                                                                    \
    "add r2, r3\n"

/* Some outputs. */
#define HIL_MVE_NINE_OUTPUTS(ALL, ROW)                                                             \
    ALL(HIL_MVE_F32_ZERO)                                                                          \
    ROW("r4") ROW("r5") ROW("r6")                                                                  \
    "vldrw.32 q6, [r1]\n"                                                                          \
    "subs r1, #144\n"                                                                              \
    ALL(HIL_MVE_F32_BIAS)                                                                          \
    "cbz r7, 7f\n"                                                                                 \
    "vdup.32 q7, r8\n"                                                                             \
    ALL(HIL_MVE_NINE_NOT_BELOW)                                                                    \
    "7:\n"                                                                                         \
    "cmp r9, #0x7f800000\n"                                                                        \
    "beq 8f\n"                                                                                     \
    ALL(HIL_MVE_NINE_NOT_ABOVE)                                                                    \
    "8:\n"                                                                                         \
    ALL(HIL_MVE_NINE_STORE)

__attribute__((naked, noipa, unused)) static void
hil_mve_nine_f32(const struct hil_mve_nine_f32 *block __attribute__((unused))) {
    __asm__(
        "push {r4-r11, lr}\n"
        "vpush {d8-d15}\n"
        "ldmia.w r0, {r4-r6}\n"
        "ldrd r1, r2, [r0, #12]\n"
        "ldr r3, [r0, #20]\n"
        "ldrd r8, r9, [r0, #24]\n"
        "ldr r10, [r0, #40]\n"
        "ldr r11, [r0, #48]\n"
        "add r7, r8, #0x00800000\n"
        "1:\n"
        "ldr r12, [r0, #32]\n"
        "wls lr, r12, 3f\n"
        "2:\n"
        HIL_MVE_NINE_OUTPUTS(HIL_MVE_NINE_THREE, HIL_MVE_NINE_3)
        "le lr, 2b\n"
        "3:\n"
        "ldr r12, [r0, #36]\n"
        "cmp r12, #1\n"
        "blt.w 5f\n"
        "beq.w 4f\n"
        HIL_MVE_NINE_OUTPUTS(HIL_MVE_NINE_TWO, HIL_MVE_NINE_2)
        "b.w 5f\n"
        "4:\n"
        HIL_MVE_NINE_OUTPUTS(HIL_MVE_NINE_FIRST, HIL_MVE_NINE_1)
        "5:\n"
        "ldr r12, [r0, #44]\n"
        "add r4, r10\n"
        "add r5, r10\n"
        "add r6, r10\n"
        "add r2, r12\n"
        "adds r1, #160\n"
        "subs r11, #1\n"
        "bne.w 1b\n"
        "vpop {d8-d15}\n"
        "pop {r4-r11, pc}\n");
}

/* Takes sixteen channels of some pixels, `step` bytes apart, to places `plane` bytes apart for each
 * four. */
__attribute__((naked, noipa, unused)) static void
hil_mve_take_sixteen_f32(const float *from __attribute__((unused)),
                         float *to __attribute__((unused)), int32_t step __attribute__((unused)),
                         int32_t plane __attribute__((unused)),
                         int32_t pixels __attribute__((unused))) {
    __asm__(
        "push {r4, r5, r6, lr}\n"
        "ldr r12, [sp, #16]\n"
        "adds r4, r1, r3\n"
        "adds r5, r4, r3\n"
        "adds r6, r5, r3\n"
        "wls lr, r12, 2f\n"
        "1:\n"
        "vldmia r0, {d0-d7}\n"
        "adds r0, r0, r2\n"
        "vstrw.32 q0, [r1], #16\n"
        "vstrw.32 q1, [r4], #16\n"
        "vstrw.32 q2, [r5], #16\n"
        "vstrw.32 q3, [r6], #16\n"
        "le lr, 1b\n"
        "2:\n"
        "pop {r4, r5, r6, pc}\n");
}

/* Three taps of the sums, whose outputs are a column apart, or two. In assembly because the compiler
 * loads pixels long before they are used, and has no register for the sums then. */
#define HIL_MVE_TRIPLE_1_F32                                                                       \
    "vldrw.32 %q[x], [%[from]]\n\t"                                                                \
    "vfma.f32 %q[a], %q[x], %q[w0]\n\t"                                                            \
    "vldrw.32 %q[x], [%[from], #16]\n\t"                                                           \
    "vfma.f32 %q[a], %q[x], %q[w1]\n\t"                                                            \
    "vfma.f32 %q[b], %q[x], %q[w0]\n\t"                                                            \
    "vldrw.32 %q[x], [%[from], #32]\n\t"                                                           \
    "vfma.f32 %q[a], %q[x], %q[w2]\n\t"                                                            \
    "vfma.f32 %q[b], %q[x], %q[w1]\n\t"                                                            \
    "vfma.f32 %q[c], %q[x], %q[w0]\n\t"                                                            \
    "vldrw.32 %q[x], [%[from], #48]\n\t"                                                           \
    "vfma.f32 %q[b], %q[x], %q[w2]\n\t"                                                            \
    "vfma.f32 %q[c], %q[x], %q[w1]\n\t"                                                            \
    "vfma.f32 %q[d], %q[x], %q[w0]\n\t"                                                            \
    "vldrw.32 %q[x], [%[from], #64]\n\t"                                                           \
    "vfma.f32 %q[c], %q[x], %q[w2]\n\t"                                                            \
    "vfma.f32 %q[d], %q[x], %q[w1]\n\t"                                                            \
    "vldrw.32 %q[x], [%[from], #80]\n\t"                                                           \
    "vfma.f32 %q[d], %q[x], %q[w2]\n\t"
#define HIL_MVE_TRIPLE_2_F32                                                                       \
    "vldrw.32 %q[x], [%[from]]\n\t"                                                                \
    "vfma.f32 %q[a], %q[x], %q[w0]\n\t"                                                            \
    "vldrw.32 %q[x], [%[from], #16]\n\t"                                                           \
    "vfma.f32 %q[a], %q[x], %q[w1]\n\t"                                                            \
    "vldrw.32 %q[x], [%[from], #32]\n\t"                                                           \
    "vfma.f32 %q[a], %q[x], %q[w2]\n\t"                                                            \
    "vfma.f32 %q[b], %q[x], %q[w0]\n\t"                                                            \
    "vldrw.32 %q[x], [%[from], #48]\n\t"                                                           \
    "vfma.f32 %q[b], %q[x], %q[w1]\n\t"                                                            \
    "vldrw.32 %q[x], [%[from], #64]\n\t"                                                           \
    "vfma.f32 %q[b], %q[x], %q[w2]\n\t"                                                            \
    "vfma.f32 %q[c], %q[x], %q[w0]\n\t"                                                            \
    "vldrw.32 %q[x], [%[from], #80]\n\t"                                                           \
    "vfma.f32 %q[c], %q[x], %q[w1]\n\t"                                                            \
    "vldrw.32 %q[x], [%[from], #96]\n\t"                                                           \
    "vfma.f32 %q[c], %q[x], %q[w2]\n\t"                                                            \
    "vfma.f32 %q[d], %q[x], %q[w0]\n\t"                                                            \
    "vldrw.32 %q[x], [%[from], #112]\n\t"                                                          \
    "vfma.f32 %q[d], %q[x], %q[w1]\n\t"                                                            \
    "vldrw.32 %q[x], [%[from], #128]\n\t"                                                          \
    "vfma.f32 %q[d], %q[x], %q[w2]\n\t"
#define HIL_MVE_TRIPLE_F32(TAPS, at, w)                                                            \
    do {                                                                                           \
        float32x4_t w0_;                                                                           \
        float32x4_t w1_;                                                                           \
        float32x4_t w2_;                                                                           \
        float32x4_t x_;                                                                            \
        __asm__ volatile("vldrw.32 %q[w0], [%[weights]], #16\n\t"                                  \
                         "vldrw.32 %q[w1], [%[weights]], #16\n\t"                                  \
                         "vldrw.32 %q[w2], [%[weights]], #16\n\t" TAPS                             \
                         : [a] "+w"(a), [b] "+w"(b), [c] "+w"(c), [d] "+w"(d), [w0] "=&w"(w0_),    \
                           [w1] "=&w"(w1_), [w2] "=&w"(w2_), [x] "=&w"(x_), [weights] "+r"(w)      \
                         : [from] "r"(at)                                                          \
                         : "memory");                                                              \
    } while (0)

/* clang-format on */

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

/* Four outputs, of `count` channels or of four, whose taps are from `base` on. */
HIL_INLINE void hil_mve_strip_f32(const struct hil_mve_depthwise_conv2d_f32 *p, const float *base,
                                  const int32_t *rows, const float *w, float *out, int32_t count) {
    const int32_t out_c = HIL_MVE_DEPTHWISE_OUT_C(p);
    const int32_t stride = 4 * p->stride_w;
    const int shared = p->dilation_w == 1 && p->stride_w <= 2;
    float32x4_t a = vdupq_n_f32(0.0F);
    float32x4_t b = vdupq_n_f32(0.0F);
    float32x4_t c = vdupq_n_f32(0.0F);
    float32x4_t d = vdupq_n_f32(0.0F);
    for (int32_t row = 0; row < p->filter_h; row++) {
        const float *at = base + rows[row];
        int32_t left = p->filter_w;
        for (; shared && left >= 3; left -= 3) {
            if (p->stride_w == 1) {
                HIL_MVE_TRIPLE_F32(HIL_MVE_TRIPLE_1_F32, at, w);
            } else {
                HIL_MVE_TRIPLE_F32(HIL_MVE_TRIPLE_2_F32, at, w);
            }
            at += 12;
        }
        for (; left > 0; left--) {
            const float32x4_t tap = vldrwq_f32(w);
            a = vfmaq_f32(a, vldrwq_f32(at), tap);
            b = vfmaq_f32(b, vldrwq_f32(at + stride), tap);
            c = vfmaq_f32(c, vldrwq_f32(at + 2 * stride), tap);
            d = vfmaq_f32(d, vldrwq_f32(at + 3 * stride), tap);
            at += 4 * p->dilation_w;
            w += 4;
        }
    }
    const float32x4_t bias = vldrwq_f32(w);
    const float32x4_t least = vdupq_n_f32(p->out_min);
    hil_mve_store_f32(out, vaddq_f32(a, bias), least, p->out_min, p->out_max, count);
    hil_mve_store_f32(out + out_c, vaddq_f32(b, bias), least, p->out_min, p->out_max, count);
    hil_mve_store_f32(out + 2 * out_c, vaddq_f32(c, bias), least, p->out_min, p->out_max, count);
    hil_mve_store_f32(out + 3 * out_c, vaddq_f32(d, bias), least, p->out_min, p->out_max, count);
}

/* One output of the same. */
HIL_INLINE void hil_mve_pixel_f32(const struct hil_mve_depthwise_conv2d_f32 *p, const float *base,
                                  const int32_t *rows, const float *w, float *out, int32_t count) {
    float32x4_t sum = vdupq_n_f32(0.0F);
    for (int32_t row = 0; row < p->filter_h; row++) {
        const float *at = base + rows[row];
#pragma GCC unroll 5
        for (int32_t left = p->filter_w; left > 0; left--) {
            sum = vfmaq_f32(sum, vldrwq_f32(at), vldrwq_f32(w));
            at += 4 * p->dilation_w;
            w += 4;
        }
    }
    const float32x4_t least = vdupq_n_f32(p->out_min);
    hil_mve_store_f32(out, vaddq_f32(sum, vldrwq_f32(w)), least, p->out_min, p->out_max, count);
}

/* A row of outputs, four channels after four; `rows` are where the rows of the filter are. */
HIL_INLINE void hil_mve_outputs_f32(const struct hil_mve_depthwise_conv2d_f32 *p, const float *ring,
                                    const int32_t *rows, float *out) {
    const int32_t out_c = HIL_MVE_DEPTHWISE_OUT_C(p);
    const int32_t plane = p->line / ((out_c + 3) / 4);
    const int32_t filter = 4 * (p->filter_h * p->filter_w + 1);
    const int nine = p->filter_h == 3 && p->filter_w == 3 && p->stride_w == 1 && p->dilation_w == 1;
    const float *w = p->stream;
    int32_t channel = 0;
    if (nine && out_c >= 4) {
        const int32_t step = out_c * (int32_t)sizeof *out;
        const struct hil_mve_nine_f32 block = {
            .rows = {ring + rows[0], ring + rows[1], ring + rows[2]},
            .weights = w,
            .out = out,
            .step = step,
            .low = p->out_min,
            .high = p->out_max,
            .strips = p->out_w / 3,
            .left = p->out_w % 3,
            .jump = (plane - 4 * p->out_w) * (int32_t)sizeof *ring,
            .back = 16 - p->out_w * step,
            .blocks = out_c / 4,
        };
        hil_mve_nine_f32(&block);
        channel = out_c / 4 * 4;
        ring += out_c / 4 * plane;
        w += out_c / 4 * filter;
    }
    for (; channel < out_c; channel += 4) {
        const int32_t count = out_c - channel;
        const float *at = ring;
        float *to = out + channel;
        int32_t left = p->out_w;
        for (; left >= 4; left -= 4) {
            hil_mve_strip_f32(p, at, rows, w, to, count);
            at += 16 * p->stride_w;
            to += 4 * out_c;
        }
        for (; left > 0; left--) {
            hil_mve_pixel_f32(p, at, rows, w, to, count);
            at += 4 * p->stride_w;
            to += out_c;
        }
        ring += plane;
        w += filter;
    }
}

/* Sets fours of floats to zero. */
HIL_INLINE void hil_mve_clear_f32(float *to, int32_t count) {
#pragma GCC unroll 4
    for (; count > 0; count -= 4) {
        vstrwq_f32(to, vdupq_n_f32(0.0F));
        to += 4;
    }
}

/* Takes a row of an image, each element as often as its channel has filters, four after four,
 * `plane` floats apart. */
HIL_INLINE void hil_mve_repeat_row_f32(const struct hil_mve_depthwise_conv2d_f32 *p,
                                       const float *from, float *to, int32_t plane) {
    const int32_t out_c = HIL_MVE_DEPTHWISE_OUT_C(p);
    for (int32_t channel = 0; channel < out_c; channel += 4) {
        const mve_pred16_t inside = vctp32q((uint32_t)(out_c - channel));
        uint32_t places[4];
#pragma GCC unroll 4
        for (int32_t i = 0; i < 4; i++) {
            places[i] = (uint32_t)((channel + i) / p->depth_multiplier);
        }
        const uint32x4_t offsets = vldrwq_u32(places);
        const float *at = from;
        for (int32_t column = 0; column < p->columns; column++) {
            vstrwq_f32(to + 4 * column, vldrwq_gather_shifted_offset_z_f32(at, offsets, inside));
            at += p->in_c;
        }
        to += plane;
    }
}

/* Takes a row of an image, four channels after four, `plane` floats apart. */
HIL_INLINE void hil_mve_take_row_f32(const struct hil_mve_depthwise_conv2d_f32 *p,
                                     const float *from, float *to, int32_t plane) {
    if (p->depth_multiplier > 1) {
        hil_mve_repeat_row_f32(p, from, to, plane);
        return;
    }
    int32_t channel = 0;
    for (; channel + 16 <= p->in_c; channel += 16) {
        hil_mve_take_sixteen_f32(from + channel, to, p->in_c * (int32_t)sizeof *from,
                                 plane * (int32_t)sizeof *to, p->columns);
        to += 4 * plane;
    }
    for (; channel < p->in_c; channel += 4) {
        const mve_pred16_t inside = vctp32q((uint32_t)(p->in_c - channel));
        const float *at = from + channel;
        for (int32_t column = 0; column < p->columns; column++) {
            vstrwq_f32(to + 4 * column, vldrwq_z_f32(at, inside));
            at += p->in_c;
        }
        to += plane;
    }
}

HIL_INLINE void hil_mve_depthwise_conv2d_f32(const struct hil_mve_depthwise_conv2d_f32 *p,
                                             const float *in, float *out, void *scratch) {
    const int32_t plane = p->line / ((HIL_MVE_DEPTHWISE_OUT_C(p) + 3) / 4);
    const int32_t before = 4 * p->pad_left < plane ? 4 * p->pad_left : plane;
    float *const ring = (float *)scratch;
    /* Behind the ring: where each row of the filter is. */
    void *const behind = ring + p->lines * p->line;
    int32_t *const rows = (int32_t *)behind;
    /* What is beside the image stays zero. */
    hil_mve_clear_f32(ring, p->lines * p->line);
    for (int32_t images = p->batch; images > 0; images--) {
        /* The first row that is not there yet, counted from the top padding. */
        int32_t next = 0;
        for (int32_t y = 0; y < p->out_h; y++) {
            for (; next < y * p->stride_h + p->lines; next++) {
                float *const to = ring + next % p->lines * p->line;
                const int32_t from = next - p->pad_top;
                if (from >= 0 && from < p->in_h) {
                    hil_mve_take_row_f32(p, in + from * p->in_w * p->in_c, to + before, plane);
                } else {
                    hil_mve_clear_f32(to, p->line);
                }
            }
            for (int32_t row = 0; row < p->filter_h; row++) {
                rows[row] = (y * p->stride_h + row * p->dilation_h) % p->lines * p->line;
            }
            hil_mve_outputs_f32(p, ring, rows, out);
            out += p->out_w * HIL_MVE_DEPTHWISE_OUT_C(p);
        }
        in += p->in_h * p->in_w * p->in_c;
    }
}

#endif
