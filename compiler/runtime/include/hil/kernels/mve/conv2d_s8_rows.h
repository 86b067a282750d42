/* Convolution of int8 images with filters of three columns on Helium, some rows of outputs at a
 * time: the weights of two filters, one row of the filter and sixteen channels stay in registers
 * while all windows of these rows pass by, whose sums wait in the scratch meanwhile.
 *
 * Tile: a line of windows, four at a time, x 2 filters x one row of the filter x one chunk of 16
 * channels. With stride 1 the last two pixels of four windows are the first two of the next:
 *
 *                pixel   0    1    2    3    4    5          sums of filter 0, filter 1
 *   window 0             t0   t1   t2                          r0   r8
 *   window 1                  t0   t1   t2                     r2   r10
 *   window 2                       t0   t1   t2                r4   r12
 *   window 3                            t0   t1   t2           r6   lr
 *   next window 0                            t0   t1 ...
 *
 * A line is a row of windows. With a dilation d each row of windows is d lines: line i has the
 * windows i, i + d, i + 2d, ..., whose pixels are copied next to each other; so the filter has no
 * dilation there. Of up to eight channels two rows of pixels fill a chunk, which is one row of the
 * filter less to multiply for each two.
 *
 * Registers, at the top of four windows: the sums; r1 place in the pixels; r3 place of the sums; r5
 * fours of the line left; r7 lines left; r9 place in the stream; r11 biases; q2 q3 q4 taps 0 1 2 of
 * filter 0, q5 q6 q7 of filter 1; q0 and q1 the pixels in turn, of which q0 holds the first, with
 * stride 1 q1 the second. On the stack: d8-d15 at 0, pixels of the pass at 64, stream at 68, sums
 * at 72, struct hil_mve_lines at 76.
 *
 * Data: the stream, packed by `_line_stream()`; per pair of filters, p = passes, in bytes:
 *
 *   +0        int32[8]  bias of filter 0 four times, of filter 1 four times
 *   +32       int8 [p][2 filters][3 taps][16], 0 behind the last channel
 *   +32+96p   int32: multiplier 0, multiplier 1, shift 0, shift 1
 *
 * A pass is a chunk of a row of the filter, or two rows of up to eight channels: the first one's in
 * lanes 0 to 7, the second one's in lanes 8 to 15. An odd last filter makes a pair with the one
 * before it, a single one with itself.
 *
 *   pixels    in scratch, int8 [planes][chunks][width][16], the zero point around the image; of two
 *             rows in a chunk plane i holds row i and row i + 1; `width` is that of whole fours
 *   sums      in scratch, int32 [lines][fours][2 filters][4 windows]
 *
 * Order: `lines` rows of outputs at a time and `across` columns, under which the pixels are copied
 * first; then pair by pair the sums of all of them, and the outputs.
 *
 * Bounds: a sum is at most |bias| + 128 * sum |w| < 2^31 (`_check_quantized()`). Offsets of a
 * four's outputs are 16 bits, which `_lines()` checks.
 *
 * Output: as in blocks_s8.h, multiplier and shift of a filter in core registers; `linear` takes one
 * from negative products. A predicate of the loop leaves away what is no window of a line's last
 * four. Of shifts down to -7 products saturate to int16 before they are moved, since 32767 moved by
 * 7 leaves int8 whichever the zero point. Rectified outputs as in matmul_s8_8x2.h, those of several
 * lines in one loop.
 *
 * Scratch: pixels and sums.
 *
 * Cost: 30.5 instructions for four windows (384 MACs) with stride 1 and 34.5 with stride 2, half of
 * one more where the fours of a line are no whole fours, and one more where they are odd; for their
 * eight outputs 13, linear ones 17 or near ones 14, rectified ones 8.75, or 10 where the outputs of
 * eight windows lie more than 255 bytes apart. Measured (`hil bench --per-layer`
 * on mps3-an547, instructions under QEMU) a MAC, layers of ic: 16 channels 32x32 0.098, 32 channels
 * 16x16 0.096, 64 channels 8x8 0.098; stride 2 0.115. 48x48x8 to 8 0.156, 0.206 with one row in a
 * chunk. 1x256x32 to 32, filters of one row: 0.097; with dilations 2, 8 and 16 0.100, 0.103, 0.106.
 *
 * Tests: no twin in C; the numpy reference gives what must come out (tests/board/test_kernels.py,
 * buffers between guard bytes). Layout: tests/c/test_kernel_layouts.py.
 */
#ifndef HIL_KERNELS_MVE_CONV2D_S8_ROWS_H
#define HIL_KERNELS_MVE_CONV2D_S8_ROWS_H

#include <arm_mve.h>

#include "hil/kernels/mve/conv2d_s8_3x3.h"
#include "hil/kernels/mve/matmul_s8_8x2.h"

/* What the passes of a pair of filters share. The assembly knows the offsets. */
struct hil_mve_lines {
    int32_t lines;     /*  0: rows of outputs */
    int32_t fours;     /*  4: turns of a row, each of one, two or four fours of windows */
    int32_t line_step; /*  8: from behind a row's fours to the first pixel of the next row's */
    int32_t pass_step; /* 12: from the pixels of a pass to the next one's */
    int32_t passes;    /* 16: but the first, counted down */
};

HIL_MVE_AT(hil_mve_lines, lines, 0);
HIL_MVE_AT(hil_mve_lines, fours, 4);
HIL_MVE_AT(hil_mve_lines, line_step, 8);
HIL_MVE_AT(hil_mve_lines, pass_step, 12);
HIL_MVE_AT(hil_mve_lines, passes, 16);

/* Four windows, whose sums start from those at `from`; then r1 is at the next ones. */
/* clang-format off */
#define HIL_MVE_LINES_FOUR(from, pixels)                                                           \
    "ldmia " from ", {r0, r2, r4, r6, r8, r10, r12, lr}\n" pixels                                  \
    "stmia r3!, {r0, r2, r4, r6, r8, r10, r12, lr}\n"
#define HIL_MVE_LINES_PIXEL(q, at) "vldrb.8 " q ", [r1, #" at "\n"
#define HIL_MVE_LINES_PIXELS_1                                                                     \
        HIL_MVE_WINDOWS_TAP_0("vmladava.s8", "r0", "r8", "q0")                                     \
        HIL_MVE_WINDOWS_TAP_1("r0", "r8", "q1")                                                    \
        HIL_MVE_WINDOWS_TAP_0("vmladava.s8", "r2", "r10", "q1")                                    \
    HIL_MVE_LINES_PIXEL("q0", "32]")                                                               \
        HIL_MVE_WINDOWS_TAP_2("r0", "r8", "q0")                                                    \
        HIL_MVE_WINDOWS_TAP_1("r2", "r10", "q0")                                                   \
        HIL_MVE_WINDOWS_TAP_0("vmladava.s8", "r4", "r12", "q0")                                    \
    HIL_MVE_LINES_PIXEL("q1", "48]")                                                               \
        HIL_MVE_WINDOWS_TAP_2("r2", "r10", "q1")                                                   \
        HIL_MVE_WINDOWS_TAP_1("r4", "r12", "q1")                                                   \
        HIL_MVE_WINDOWS_TAP_0("vmladava.s8", "r6", "lr", "q1")                                     \
    HIL_MVE_LINES_PIXEL("q0", "64]!")                                                              \
        HIL_MVE_WINDOWS_TAP_2("r4", "r12", "q0")                                                   \
        HIL_MVE_WINDOWS_TAP_1("r6", "lr", "q0")                                                    \
    HIL_MVE_LINES_PIXEL("q1", "16]")                                                               \
        HIL_MVE_WINDOWS_TAP_2("r6", "lr", "q1")
#define HIL_MVE_LINES_PIXELS_2                                                                     \
        HIL_MVE_WINDOWS_TAP_0("vmladava.s8", "r0", "r8", "q0")                                     \
    HIL_MVE_LINES_PIXEL("q1", "16]")                                                               \
        HIL_MVE_WINDOWS_TAP_1("r0", "r8", "q1")                                                    \
    HIL_MVE_LINES_PIXEL("q0", "32]")                                                               \
        HIL_MVE_WINDOWS_TAP_2("r0", "r8", "q0")                                                    \
        HIL_MVE_WINDOWS_TAP_0("vmladava.s8", "r2", "r10", "q0")                                    \
    HIL_MVE_LINES_PIXEL("q1", "48]")                                                               \
        HIL_MVE_WINDOWS_TAP_1("r2", "r10", "q1")                                                   \
    HIL_MVE_LINES_PIXEL("q0", "64]!")                                                              \
        HIL_MVE_WINDOWS_TAP_2("r2", "r10", "q0")                                                   \
        HIL_MVE_WINDOWS_TAP_0("vmladava.s8", "r4", "r12", "q0")                                    \
    HIL_MVE_LINES_PIXEL("q1", "16]")                                                               \
        HIL_MVE_WINDOWS_TAP_1("r4", "r12", "q1")                                                   \
    HIL_MVE_LINES_PIXEL("q0", "32]")                                                               \
        HIL_MVE_WINDOWS_TAP_2("r4", "r12", "q0")                                                   \
        HIL_MVE_WINDOWS_TAP_0("vmladava.s8", "r6", "lr", "q0")                                     \
    HIL_MVE_LINES_PIXEL("q1", "48]")                                                               \
        HIL_MVE_WINDOWS_TAP_1("r6", "lr", "q1")                                                    \
    HIL_MVE_LINES_PIXEL("q0", "64]!")                                                              \
        HIL_MVE_WINDOWS_TAP_2("r6", "lr", "q0")
#define HIL_MVE_LINES_FIRST_1 "vldrb.8 q0, [r1]\n" "vldrb.8 q1, [r1, #16]\n"
#define HIL_MVE_LINES_FIRST_2 "vldrb.8 q0, [r1]\n"

/* All rows of a pass; labels a and b. */
#define HIL_MVE_LINES_PASS(a, b, weights, first, fours)                                                     \
    weights                                                                                       \
    "ldr r0, [sp, #76]\n"                                                                          \
    "ldrd r1, r3, [sp, #64]\n"                                                                     \
    "ldr r3, [sp, #72]\n"                                                                          \
    "ldrd r7, r5, [r0]\n"                                                                          \
    "b 8f\n"                                                                                       \
    ".p2align 2\n"                                                                                 \
    a ":\n"                                                                                        \
    "ldr r0, [sp, #76]\n"                                                                          \
    "ldrd r5, r0, [r0, #4]\n"                                                                      \
    "add r1, r0\n"                                                                                 \
    "8:\n"                                                                                         \
    first                                                                                          \
    ".p2align 2\n"                                                                                 \
    b ":\n" fours                                                                                  \
    "subs r5, #1\n"                                                                                \
    "bne.w " b "b\n"                                                                               \
    "subs r7, #1\n"                                                                                \
    "bne.w " a "b\n"

#define HIL_MVE_LINES_FUNCTION(name, weights, first, fours)                                                 \
    __attribute__((naked, noipa, unused)) static void name(                                        \
        const int8_t *x __attribute__((unused)), const int8_t *stream __attribute__((unused)),     \
        int32_t *sums __attribute__((unused)),                                                     \
        struct hil_mve_lines *lines __attribute__((unused))) {                                     \
        __asm__("push {r0-r11, lr}\n"                                                              \
                "vpush {d8-d15}\n"                                                                 \
                "mov r11, r1\n"                                                                    \
                "add r9, r1, #32\n"                                                                \
                HIL_MVE_LINES_PASS("1", "2", weights, first, fours("r11"))                                  \
                "5:\n"                                                                             \
                "ldr r0, [sp, #76]\n"                                                              \
                "ldr r1, [sp, #64]\n"                                                              \
                "ldrd r2, r4, [r0, #12]\n"                                                         \
                "add r1, r2\n"                                                                     \
                "subs r4, #1\n"                                                                    \
                "str r1, [sp, #64]\n"                                                              \
                "str r4, [r0, #16]\n"                                                              \
                "bmi.w 6f\n"                                                                       \
                HIL_MVE_LINES_PASS("3", "4", weights, first, fours("r3"))                                   \
                "b.w 5b\n"                                                                         \
                "6:\n"                                                                             \
                "vpop {d8-d15}\n"                                                                  \
                "pop {r0-r11, pc}\n");                                                             \
    }

#define HIL_MVE_LINES_ODD_1(from) HIL_MVE_LINES_FOUR(from, HIL_MVE_LINES_PIXELS_1)
#define HIL_MVE_LINES_ODD_2(from) HIL_MVE_LINES_FOUR(from, HIL_MVE_LINES_PIXELS_2)
#define HIL_MVE_LINES_EVEN_1(from) HIL_MVE_LINES_ODD_1(from) HIL_MVE_LINES_ODD_1(from)
#define HIL_MVE_LINES_EVEN_2(from) HIL_MVE_LINES_ODD_2(from) HIL_MVE_LINES_ODD_2(from)
#define HIL_MVE_LINES_FOURS_1(from) HIL_MVE_LINES_EVEN_1(from) HIL_MVE_LINES_EVEN_1(from)
#define HIL_MVE_LINES_FOURS_2(from) HIL_MVE_LINES_EVEN_2(from) HIL_MVE_LINES_EVEN_2(from)
/* clang-format on */

/* The number is the stride. */
HIL_MVE_LINES_FUNCTION(hil_mve_lines_1, HIL_MVE_WINDOWS_WEIGHTS, HIL_MVE_LINES_FIRST_1,
                       HIL_MVE_LINES_ODD_1)
HIL_MVE_LINES_FUNCTION(hil_mve_lines_2, HIL_MVE_WINDOWS_WEIGHTS, HIL_MVE_LINES_FIRST_2,
                       HIL_MVE_LINES_ODD_2)
HIL_MVE_LINES_FUNCTION(hil_mve_lines_1_even, HIL_MVE_WINDOWS_WEIGHTS, HIL_MVE_LINES_FIRST_1,
                       HIL_MVE_LINES_EVEN_1)
HIL_MVE_LINES_FUNCTION(hil_mve_lines_2_even, HIL_MVE_WINDOWS_WEIGHTS, HIL_MVE_LINES_FIRST_2,
                       HIL_MVE_LINES_EVEN_2)
HIL_MVE_LINES_FUNCTION(hil_mve_lines_1_fours, HIL_MVE_WINDOWS_WEIGHTS, HIL_MVE_LINES_FIRST_1,
                       HIL_MVE_LINES_FOURS_1)
HIL_MVE_LINES_FUNCTION(hil_mve_lines_2_fours, HIL_MVE_WINDOWS_WEIGHTS, HIL_MVE_LINES_FIRST_2,
                       HIL_MVE_LINES_FOURS_2)

typedef void hil_mve_lines_function(const int8_t *x, const int8_t *stream, int32_t *sums,
                                    struct hil_mve_lines *lines);

/* The function of a stride that takes `turn` fours of windows at a time. */
HIL_INLINE hil_mve_lines_function *hil_mve_lines_of(int32_t stride, int32_t turn) {
    if (stride == 1) {
        return turn == 4   ? hil_mve_lines_1_fours
               : turn == 2 ? hil_mve_lines_1_even
                           : hil_mve_lines_1;
    }
    return turn == 4 ? hil_mve_lines_2_fours : turn == 2 ? hil_mve_lines_2_even : hil_mve_lines_2;
}

/* The outputs of a pair of filters for a row of windows, or some, from their sums. Two by two lanes
 * of the loop's predicate are a window, as two of 16 bits and one of 32. */
/* clang-format off */
#define HIL_MVE_LINE_OUTPUTS(products, clamp)                                                      \
    __asm__ volatile("dlstp.16 lr, %[turns]\n"                                                     \
                     "1:\n"                                                                        \
                     "vldrw.32 q0, [%[sums]], #16\n"                                               \
                     "vldrw.32 q1, [%[sums]], #16\n"                                               \
                     products                                                                      \
                     "vqadd.s16 q0, q0, %[zero]\n"                                                 \
                     clamp                                                                         \
                     "vstrb.16 q0, [%[out], %q[offsets]]\n"                                        \
                     "add %[out], %[step]\n"                                                       \
                     "letp lr, 1b\n"                                                               \
                     : [sums] "+&r"(sums), [out] "+&r"(out), [turns] "+&r"(turns)                  \
                     : [m0] "r"(scale[0]), [m1] "r"(scale[1]), [s0] "r"(scale[2]),                 \
                       [s1] "r"(scale[3]), [zero] "r"(p->zero_point),                              \
                       [step] "r"(4 * p->distance), [one] "r"(1), [offsets] "w"(offsets),          \
                       [shifts] "w"(shifts), [low] "w"(low), [high] "w"(high)                      \
                     : "q0", "q1", "cc", "memory")
#define HIL_MVE_LINES_SHIFTED(multiply, correct)                                                   \
    multiply ".s32 q0, q0, %[m0]\n"                                                                \
    multiply ".s32 q1, q1, %[m1]\n"                                                                \
    correct                                                                                        \
    "vrshl.s32 q0, %[s0]\n"                                                                        \
    "vrshl.s32 q1, %[s1]\n"                                                                        \
    "vqmovnb.s32 q0, q0\n"                                                                         \
    "vqmovnt.s32 q0, q1\n"
/* Of shifts from which the largest product of 16 bits leaves int8 with every zero point. */
#define HIL_MVE_NEAREST_LINEAR (-7)
#define HIL_MVE_LINES_NARROWED                                                                     \
    "vqrdmulh.s32 q0, q0, %[m0]\n"                                                                 \
    "vqrdmulh.s32 q1, q1, %[m1]\n"                                                                 \
    "vqmovnb.s32 q0, q0\n"                                                                         \
    "vqmovnt.s32 q0, q1\n"                                                                         \
    "vpt.s16 lt, q0, zr\n"                                                                         \
    "vqsubt.s16 q0, q0, %[one]\n"                                                                  \
    "vrshl.s16 q0, q0, %q[shifts]\n"
#define HIL_MVE_LINES_CORRECT                                                                      \
    HIL_MVE_AWAY_FROM_ZERO("q0", "%[one]") HIL_MVE_AWAY_FROM_ZERO("q1", "%[one]")
/* The farthest shift of a zero point that is moved by it, below 2^31. */
#define HIL_MVE_FARTHEST_MOVED (-23)
#define HIL_MVE_LINES_SATURATE "vqmovnb.s16 q0, q0\n"
#define HIL_MVE_LINES_CLAMP                                                                        \
    "vmax.s16 q0, q0, %q[low]\n"                                                                   \
    "vmin.s16 q0, q0, %q[high]\n"
/* clang-format on */

/* What is copied of an image of int8, where. */
struct hil_mve_planes {
    int32_t in_h;
    int32_t in_w;
    int32_t in_c;
    int32_t zero_point; /* of pixels outside the image */
    int32_t dilation;   /* lines of a row */
    int32_t width;      /* pixels of a line */
    int32_t chunks;     /* of channels */
    int32_t paired;     /* 1: two rows in a chunk */
};

/* Where outputs go, and which they are. */
struct hil_mve_line_outputs {
    int32_t columns;    /* filters */
    int32_t distance;   /* bytes from a window's outputs to the next one's */
    int32_t zero_point; /* as those of HIL_OUTPUT_RANGE_FIELDS */
    int32_t low;
    int32_t high;
    int32_t any;    /* 1: outputs are clamped to less than int8 */
    int32_t linear; /* as in HIL_MVE_COLUMNS_FIELDS */
};

/* Lines of as many windows each. */
struct hil_mve_line_walk {
    int32_t lines;
    int32_t windows;   /* of each, at least 1 */
    int32_t sums_step; /* sums from a line to the next one */
    int32_t out_step;  /* bytes of the output from a line to the next one */
};

/* `count` pixels' chunk at `from`, of which the channels in the mask. */
HIL_INLINE int8_t *hil_mve_planes_pixels(int8_t *to, const int8_t *from, int32_t step,
                                         int32_t count, uint32_t channels) {
    if (count > 0) {
        __asm__ volatile("vctp.8 %[channels]\n"
                         "dls lr, %[count]\n"
                         "1:\n"
                         "vpst\n"
                         "vldrbt.8 q0, [%[from]]\n"
                         "add %[from], %[step]\n"
                         "vstrb.8 q0, [%[to]], #16\n"
                         "le lr, 1b\n"
                         : [to] "+&r"(to), [from] "+&r"(from)
                         : [count] "r"(count), [step] "r"(step), [channels] "r"(channels)
                         : "q0", "lr", "cc", "memory");
    }
    return to;
}

/* The same of up to eight channels: into lanes 0 to 7, and into lanes 8 to 15 of the plane before,
 * `back` bytes before, whose lanes behind the channels have weights of 0. */
HIL_INLINE int8_t *hil_mve_planes_halves(int8_t *to, const int8_t *from, int32_t step,
                                         int32_t count, int32_t channels, int32_t back) {
    int8_t *above = to - back + HIL_MVE_CHUNK / 2;
    if (count > 0) {
        __asm__ volatile("vctp.8 %[channels]\n"
                         "dls lr, %[count]\n"
                         "1:\n"
                         "vpstt\n"
                         "vldrbt.8 q0, [%[from]]\n"
                         "vstrbt.8 q0, [%[above]], #16\n"
                         "add %[from], %[step]\n"
                         "vstrb.8 q0, [%[to]], #16\n"
                         "le lr, 1b\n"
                         : [to] "+&r"(to), [above] "+&r"(above), [from] "+&r"(from)
                         : [count] "r"(count), [step] "r"(step), [channels] "r"(channels)
                         : "q0", "lr", "cc", "memory");
    }
    return to;
}

/* `count` pixels from `from` on, or with step 0 that are all the zero point: a chunk, or halves of
 * two. */
HIL_INLINE int8_t *hil_mve_planes_part(const struct hil_mve_planes *p, int8_t *to,
                                       const int8_t *from, int32_t step, int32_t count,
                                       int32_t channel, int32_t back) {
    if (p->paired) {
        return hil_mve_planes_halves(to, from, step, count, p->in_c, back);
    }
    if (step == 0) {
        return hil_mve_fill(to, vdupq_n_s8((int8_t)p->zero_point), count);
    }
    return hil_mve_planes_pixels(to, from, step, count, (uint32_t)(p->in_c - channel));
}

/* A line of pixels of row y of the image, or of a row outside, from column x on. */
HIL_INLINE int8_t *hil_mve_planes_line(const struct hil_mve_planes *p, const int8_t *image,
                                       int32_t y, int32_t x, const int8_t *around, int8_t *to,
                                       int32_t back) {
    const int32_t d = p->dilation;
    const int32_t left = x < 0 ? (-x + d - 1) / d : 0;
    const int32_t before = y < 0 || y >= p->in_h || left > p->width ? p->width : left;
    const int32_t first = x + before * d;
    const int32_t fitting = first < p->in_w ? (p->in_w - first + d - 1) / d : 0;
    const int32_t inside = fitting < p->width - before ? fitting : p->width - before;
    const int8_t *const from = image + (y * p->in_w + first) * p->in_c;
    for (int32_t chunk = 0; chunk < p->chunks; chunk++) {
        const int32_t channel = HIL_MVE_CHUNK * chunk;
        to = hil_mve_planes_part(p, to, around, 0, before, channel, back);
        to = hil_mve_planes_part(p, to, from + channel, d * p->in_c, inside, channel, back);
        to = hil_mve_planes_part(p, to, around, 0, p->width - before - inside, channel, back);
    }
    return to;
}

/* The planes of `count` rows of pixels from row y on, of which each is `step` behind the one
 * before, and from column x on. */
HIL_INLINE void hil_mve_planes_copy(const struct hil_mve_planes *p, const int8_t *image, int32_t y,
                                    int32_t step, int32_t count, int32_t x, int8_t *to) {
    int8_t around[HIL_MVE_CHUNK];
    hil_mve_fill(around, vdupq_n_s8((int8_t)p->zero_point), 1);
    int32_t back = 0; /* no plane lies before the first */
    for (; count > 0; count--) {
        for (int32_t phase = 0; phase < p->dilation; phase++) {
            to = hil_mve_planes_line(p, image, y, x + phase, around, to, back);
        }
        back = HIL_MVE_CHUNK * p->width;
        y += step;
    }
}

/* The outputs of a pair of filters, of `count` / 2 windows. */
HIL_INLINE_BLOCK void hil_mve_any_line_outputs(const struct hil_mve_line_outputs *p,
                                               const int32_t *sums, const int32_t *scale,
                                               int8_t *out, int32_t count) {
    /* Of the outputs of four windows: window 0 filter 0, 0 1, 1 0, ... */
    const uint16x8_t numbers = vidupq_n_u16(0, 1);
    const uint16x8_t offsets = vmlaq_n_u16(vandq_u16(numbers, vdupq_n_u16(p->columns > 1)),
                                           vshrq_n_u16(numbers, 1), (uint16_t)p->distance);
    const int16x8_t low = vdupq_n_s16((int16_t)p->low);
    const int16x8_t high = vdupq_n_s16((int16_t)p->high);
    /* Without a predicate, which gcc does not know the assembly to change. */
    const int16x8_t odd = vreinterpretq_s16_u16(vandq_u16(numbers, vdupq_n_u16(1)));
    const int16x8_t shifts =
        vmlaq_n_s16(vdupq_n_s16((int16_t)scale[2]), odd, (int16_t)(scale[3] - scale[2]));
    const int32_t near = scale[2] >= HIL_MVE_NEAREST_LINEAR && scale[3] >= HIL_MVE_NEAREST_LINEAR;
    register int32_t turns __asm__("lr") = count; /* gcc's debugging levels have no other left */
    if (p->linear == HIL_MVE_LINEAR_ONCE) {
        if (p->any) {
            HIL_MVE_LINE_OUTPUTS(HIL_MVE_LINES_SHIFTED(HIL_MVE_ONCE, ""), HIL_MVE_LINES_CLAMP);
        } else {
            HIL_MVE_LINE_OUTPUTS(HIL_MVE_LINES_SHIFTED(HIL_MVE_ONCE, ""), HIL_MVE_LINES_SATURATE);
        }
    } else if (p->any) {
        if (near) {
            HIL_MVE_LINE_OUTPUTS(HIL_MVE_LINES_NARROWED, HIL_MVE_LINES_CLAMP);
        } else {
            HIL_MVE_LINE_OUTPUTS(HIL_MVE_LINES_SHIFTED(HIL_MVE_TWICE, HIL_MVE_LINES_CORRECT),
                                 HIL_MVE_LINES_CLAMP);
        }
    } else if (p->linear) {
        if (near) {
            HIL_MVE_LINE_OUTPUTS(HIL_MVE_LINES_NARROWED, HIL_MVE_LINES_SATURATE);
        } else {
            HIL_MVE_LINE_OUTPUTS(HIL_MVE_LINES_SHIFTED(HIL_MVE_TWICE, HIL_MVE_LINES_CORRECT),
                                 HIL_MVE_LINES_SATURATE);
        }
    } else {
        HIL_MVE_LINE_OUTPUTS(HIL_MVE_LINES_SHIFTED(HIL_MVE_TWICE, ""), HIL_MVE_LINES_SATURATE);
    }
}

/* The same of rectified outputs over the whole range of int8, which take fewer instructions, as
 * those of matmul_s8_8x2.h; the sums of eight windows are read at a time. A function of its own: in
 * one with much else gcc has too few registers for it. */
static __attribute__((noinline, unused)) void
hil_mve_near_line_outputs(int32_t once, int32_t columns, const int32_t *sums, const int32_t *scale,
                          int8_t *out, int32_t windows) {
    hil_mve_matmul_s8_8x2_store(once, columns, sums, scale, out, windows);
}

/* Lines of windows, whose outputs lie far apart. */
struct hil_mve_far_lines {
    int32_t eights;    /*  0: of windows of a line but the last */
    int32_t out_back;  /*  4: from the last eight's outputs to the first of the next line */
    int32_t sums_back; /*  8: from behind a line's sums to the next line's, in bytes */
    int32_t predicate; /* 12: that was, meanwhile */
    int32_t last;      /* 16: the predicate of the outputs of a line's last eight */
};

HIL_MVE_AT(hil_mve_far_lines, eights, 0);
HIL_MVE_AT(hil_mve_far_lines, out_back, 4);
HIL_MVE_AT(hil_mve_far_lines, sums_back, 8);
HIL_MVE_AT(hil_mve_far_lines, predicate, 12);
HIL_MVE_AT(hil_mve_far_lines, last, 16);

/* Eight windows' outputs of filter 0 in the lower bytes, of filter 1 in the upper ones; of a line's
 * last eight only those that there are. */
/* clang-format off */
#define HIL_MVE_FAR_OUTPUTS(multiply, narrow)                                                      \
    __asm__ volatile("vmrs lr, p0\n"                                                               \
                     "str lr, [%[line], #12]\n"                                                    \
                     "ldr lr, [%[line], #16]\n"                                                    \
                     "vmsr p0, lr\n"                                                               \
                     "1:\n"                                                                        \
                     "ldr lr, [%[line]]\n"                                                         \
                     "wls lr, lr, 3f\n"                                                            \
                     "2:\n"                                                                        \
                     HIL_MVE_SHALLOW_EIGHT(multiply, narrow)                                       \
                     "vstrb.16 q1, [%[out], %q[firsts]]\n"                                         \
                     "vshr.u16 q1, q1, #8\n"                                                       \
                     "vstrb.16 q1, [%[out], %q[seconds]]\n"                                        \
                     "add %[out], %[step]\n"                                                       \
                     "le lr, 2b\n"                                                                 \
                     "3:\n"                                                                        \
                     HIL_MVE_SHALLOW_EIGHT(multiply, narrow)                                       \
                     "vpsttt\n"                                                                    \
                     "vstrbt.16 q1, [%[out], %q[firsts]]\n"                                        \
                     "vshrt.u16 q1, q1, #8\n"                                                      \
                     "vstrbt.16 q1, [%[out], %q[seconds]]\n"                                       \
                     "ldr lr, [%[line], #4]\n"                                                     \
                     "add %[out], lr\n"                                                            \
                     "ldr lr, [%[line], #8]\n"                                                     \
                     "add %[sums], lr\n"                                                           \
                     "subs %[lines], #1\n"                                                         \
                     "bne 1b\n"                                                                    \
                     "ldr lr, [%[line], #12]\n"                                                    \
                     "vmsr p0, lr\n"                                                               \
                     : [sums] "+&r"(sums), [out] "+&r"(out), [lines] "+&r"(lines)                   \
                     : [line] "r"(&line), [step] "r"(8 * distance), [m0] "w"(m0), [m1] "w"(m1),    \
                       [s0] "r"(s0), [s1] "r"(s1), [z0] "r"(scale[4]), [z1] "r"(scale[5]),         \
                       [firsts] "w"(firsts), [seconds] "w"(seconds)                                \
                     : "q0", "q1", "q2", "q3", "lr", "cc", "memory")
/* clang-format on */

/* The same of lines of windows, those of which are `distance` bytes apart, of one filter or a pair.
 */
static __attribute__((noinline, unused)) void
hil_mve_far_line_outputs(int32_t once, int32_t distance, int32_t pair, const int32_t *sums,
                         const int32_t *scale, int8_t *out, const struct hil_mve_line_walk *walk) {
    const int32_t eights = (walk->windows + 7) / 8;
    /* Lanes are windows 0, 4, 1, 5, ... */
    const uint16x8_t lanes = vidupq_n_u16(0, 1);
    const uint16x8_t windows =
        vmlaq_n_u16(vshrq_n_u16(lanes, 1), vandq_u16(lanes, vdupq_n_u16(1)), 4);
    const uint16x8_t firsts = vmulq_n_u16(windows, (uint16_t)distance);
    const uint16x8_t seconds = vaddq_n_u16(firsts, (uint16_t)pair);
    const uint16x8_t last = vdupq_n_u16((uint16_t)(walk->windows - 8 * (eights - 1)));
    struct hil_mve_far_lines line = {
        .eights = eights - 1,
        .out_back = walk->out_step - 8 * distance * (eights - 1),
        .sums_back = 4 * walk->sums_step - 64 * eights,
        .predicate = 0,
        .last = vcmphiq_u16(last, windows),
    };
    int32_t lines = walk->lines;
    const int32x4_t m0 = vdupq_n_s32(scale[0]);
    const int32x4_t m1 = vdupq_n_s32(scale[1]);
    const int32_t kind = hil_mve_shallow_kind(scale);
    const int32_t s0 = scale[2] + kind;
    const int32_t s1 = scale[3] + kind;
    if (once) {
        HIL_MVE_SHALLOW_KINDS(HIL_MVE_FAR_OUTPUTS, "vqdmlash", kind);
    } else {
        HIL_MVE_SHALLOW_KINDS(HIL_MVE_FAR_OUTPUTS, "vqrdmlash", kind);
    }
}

/* Eights of windows from which on they pay. */
#define HIL_MVE_FEW_FAR_EIGHTS 6

/* The outputs of a pair of filters, of some lines of windows. */
HIL_INLINE void hil_mve_lines_outputs(const struct hil_mve_line_outputs *p, const int32_t *sums,
                                      const int32_t *scale, int8_t *out,
                                      const struct hil_mve_line_walk *walk) {
    const int32_t rectified = !p->any && p->linear != 1 && p->zero_point == INT8_MIN;
    const int32_t near =
        walk->lines == 1 && p->distance == p->columns && 7 * p->columns < UINT8_MAX;
    const int32_t far = 7 * p->distance < UINT16_MAX &&
                        walk->lines * ((walk->windows + 7) / 8) >= HIL_MVE_FEW_FAR_EIGHTS;
    if (rectified && (near || far) && scale[2] >= HIL_MVE_FARTHEST_MOVED &&
        scale[3] >= HIL_MVE_FARTHEST_MOVED) {
        const int32_t moved[] = {
            scale[0],
            scale[1],
            scale[2],
            scale[3],
            (2 * INT8_MIN + 1) * (1 << (-scale[2] - 1)),
            (2 * INT8_MIN + 1) * (1 << (-scale[3] - 1)),
        };
        if (near) {
            hil_mve_near_line_outputs(p->linear, p->columns, sums, moved, out, walk->windows);
        } else {
            /* A copy, as gcc forgets what it knows of a struct whose address leaves it. */
            const struct hil_mve_line_walk copy = *walk;
            hil_mve_far_line_outputs(p->linear, p->distance, p->columns > 1, sums, moved, out,
                                     &copy);
        }
        return;
    }
    for (int32_t lines = walk->lines; lines > 0; lines--) {
        hil_mve_any_line_outputs(p, sums, scale, out, 2 * walk->windows);
        sums += walk->sums_step;
        out += walk->out_step;
    }
}

/*@kernel
name = "hil_mve_conv2d_s8_rows"
requires = ["mve"]
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "16 * chunks * planes * width + 32 * lines * dilation_w * fours"
order = ["rows lines", "columns across"]
reads = "window"
code = 1900
shared = {hil_mve_lines = 620, hil_mve_near_line_outputs = 720}
[cost]
block = "batch * ((out_h + lines - 1) // lines) * ((out_w + across - 1) // across)"
copied_row = "block * planes * chunks"
copied_pixel = "copied_row * width"
paired_pixel = "copied_pixel * paired"
pair = "block * ((columns + 1) // 2)"
rectified = "(linear != 1) * (any == 0) * (out_zero_point + 128 == 0)"
rectified_pair = "pair * rectified"
pair_pass = "pair * passes"
row = "batch * out_h * ((out_w + across - 1) // across) * dilation_w * ((columns + 1) // 2)"
row_pass = "row * passes"
row_store = "row * min(1, out_w - across + dilation_w - 1 + out_w % 4)"
four_pass = "row_pass * fours"
odd_four_pass = "four_pass * (fours % 2)"
even_four_pass = "four_pass * (fours % 4 == 2)"
strided_four_pass = "four_pass * (stride_w - 1)"
four = "row * fours"
far_four = "four * rectified * min(1, out_w - across + dilation_w - 1 + out_w % 4 + columns // 37)"
other_four = "four * (1 - rectified)"
linear_four = "four * (linear == 1)"
clamped_four = "four * any"
@*/
struct hil_mve_conv2d_s8_rows {
    HIL_IMAGES_FIELDS;
    HIL_WINDOW_FIELDS;     /* filter_w 3, stride_w 1 or 2; with a dilation_w filter_h 1 */
    int32_t in_zero_point; /* the input that stands for 0.0, which pixels outside the image have */
    int32_t lines;         /* rows of outputs at a time */
    int32_t across;        /* columns of them; less than out_w only where `lines` is 1 */
    int32_t planes;        /* lines of pixels under them */
    int32_t paired;        /* 1: two rows of up to eight channels fill a chunk */
    int32_t chunks;        /* of 16 channels, rounded up */
    int32_t passes;        /* the head says */
    int32_t fours;         /* of windows of a line, rounded up */
    int32_t width;         /* pixels under whole fours of windows */
    int32_t columns;       /* filters */
    int32_t any;           /* 1: outputs are clamped to less than int8 */
    int32_t linear;        /* as in HIL_MVE_COLUMNS_FIELDS */
    HIL_OUTPUT_RANGE_FIELDS;
    const int8_t *stream; /* the head draws it */
};

/* The outputs of a pair of filters, of `rows` rows of `wide` windows. */
HIL_INLINE void hil_mve_conv2d_s8_rows_outputs(const struct hil_mve_conv2d_s8_rows *p,
                                               const int32_t *sums, const int32_t *scale,
                                               int8_t *out, int32_t rows, int32_t wide) {
    const int32_t d = p->dilation_w;
    const struct hil_mve_line_outputs outputs = {
        .columns = p->columns,
        .distance = d * p->columns,
        .zero_point = p->out_zero_point,
        .low = p->out_min,
        .high = p->out_max,
        .any = p->any,
        .linear = p->linear,
    };
    struct hil_mve_line_walk walk = {
        .lines = rows,
        .windows = wide,
        .sums_step = 8 * p->fours,
        .out_step = p->out_w * p->columns,
    };
    if (d == 1) {
        if (p->across == p->out_w && p->out_w % 4 == 0) {
            /* Rows follow each other without a gap. */
            walk.lines = 1;
            walk.windows = rows * p->out_w;
        }
        hil_mve_lines_outputs(&outputs, sums, scale, out, &walk);
        return;
    }
    walk.out_step = p->columns;
    /* The first phases of a row may have a window more, and the others none. */
    const int32_t longer = wide % d;
    for (; rows > 0; rows--) {
        if (longer > 0) {
            walk.lines = longer;
            walk.windows = wide / d + 1;
            hil_mve_lines_outputs(&outputs, sums, scale, out, &walk);
        }
        if (wide >= d) {
            walk.lines = d - longer;
            walk.windows = wide / d;
            hil_mve_lines_outputs(&outputs, sums + longer * walk.sums_step, scale,
                                  out + longer * p->columns, &walk);
        }
        sums += d * walk.sums_step;
        out += p->out_w * p->columns;
    }
}

HIL_INLINE void hil_mve_conv2d_s8_rows(const struct hil_mve_conv2d_s8_rows *p, const int8_t *in,
                                       int8_t *out, void *scratch) {
    const int32_t turn = p->fours % 4 == 0 ? 4 : p->fours % 2 == 0 ? 2 : 1;
    hil_mve_lines_function *const function = hil_mve_lines_of(p->stride_w, turn);
    const int32_t plane_bytes = HIL_MVE_CHUNK * p->width;
    const int32_t line_bytes = p->chunks * plane_bytes;
    const int32_t pair_bytes = 48 + 96 * p->passes;
    int32_t *const sums = (int32_t *)scratch;
    int8_t *const pixels = (int8_t *)scratch + 32 * p->lines * p->dilation_w * p->fours;
    struct hil_mve_lines lines = {
        .lines = 0,
        .fours = p->fours / turn,
        .line_step = (p->filter_h == 1 ? 1 : p->stride_h) * line_bytes -
                     4 * p->stride_w * HIL_MVE_CHUNK * p->fours,
        .pass_step = (1 + p->paired) * plane_bytes,
        .passes = 0,
    };
    const struct hil_mve_planes planes = {
        .in_h = p->in_h,
        .in_w = p->in_w,
        .in_c = p->in_c,
        .zero_point = p->in_zero_point,
        .dilation = p->dilation_w,
        .width = p->width,
        .chunks = p->chunks,
        .paired = p->paired,
    };
    /* Filters of one row share no rows of pixels. */
    const int32_t single = p->filter_h == 1;
    for (int32_t images = p->batch; images > 0; images--) {
        for (int32_t row = 0; row < p->out_h; row += p->lines) {
            const int32_t below = p->out_h - row;
            const int32_t rows = below < p->lines ? below : p->lines;
            lines.lines = rows * p->dilation_w;
            for (int32_t left = 0; left < p->out_w; left += p->across) {
                const int32_t right = p->out_w - left;
                const int32_t wide = right < p->across ? right : p->across;
                hil_mve_planes_copy(&planes, in, row * p->stride_h - p->pad_top,
                                    single ? p->stride_h : 1,
                                    single ? rows : p->stride_h * (rows - 1) + p->filter_h,
                                    left * p->stride_w - p->pad_left, pixels);
                const int8_t *pair = p->stream;
                for (int32_t column = 0; column < p->columns; column += 2) {
                    lines.passes = p->passes - 1;
                    function(pixels, pair, sums, &lines);
                    pair += pair_bytes;
                    const void *const scales_end = pair;
                    const int32_t *const scale = (const int32_t *)scales_end - 4;
                    int8_t *const to =
                        out + left * p->columns + hil_mve_pair_at(column, p->columns);
                    hil_mve_conv2d_s8_rows_outputs(p, sums, scale, to, rows, wide);
                }
            }
            out += rows * p->out_w * p->columns;
        }
        in += p->in_h * p->in_w * p->in_c;
    }
}

#endif
