/* Convolution of int8 images with 3x3 filters of depth 16, 32 or 64 on Helium: windows are read
 * where they lie, without a copy; only those that reach beyond the image are copied first.
 *
 * Tile: 4 windows next to each other x 2 filters x one row of the filter x one chunk of 16
 * channels. Six pixels serve four windows with stride 1, nine with stride 2:
 *
 *                pixel   0    1    2    3    4    5          sums of filter 0, filter 1
 *   window 0             t0   t1   t2                          r0   r8
 *   window 1                  t0   t1   t2                     r2   r10
 *   window 2                       t0   t1   t2                r4   r12
 *   window 3                            t0   t1   t2           r6   lr
 *
 * Registers, at the top of a pass: the sums; r1 place in x; r3 struct hil_mve_windows; r5 step from
 * behind a row's pixels to the next row's; r7 pairs of filters left; r9 place in the stream; r11
 * outputs; q2 q3 q4 taps 0 1 2 of filter 0, q5 q6 q7 of filter 1; q0 and q1 the pixels in turn. On
 * the stack: d8-d15 at 0, x at 64, stream at 68.
 *
 * Data: the stream, packed by `_three_by_three()`; per pair of filters, n = depth / 16, in bytes:
 *
 *   +0       int8 [3 rows][n chunks][2 filters][3 taps][16]       288n
 *   +288n    int32: bias 0, bias 1, multiplier 0, multiplier 1, shift 0, shift 1, zero point
 *
 * Order: groups of four windows along a row; of a group all windows are read again for each pair of
 * filters, and its eight outputs stored after the pair. The last group of a row stores under a
 * mask; its windows beyond the row are read from the image or from the copy.
 *
 * Bounds: 9 * 64 * 128 * 128 < 2^24 without the bias, which is added to whole vectors; with it
 * below 2^31 (`_check_quantized()`).
 *
 * Output: as in blocks_s8.h, multiplier and shift of a filter in core registers; `linear` and `any`
 * take one from negative products, `any` clamps and masks.
 *
 * Scratch: the pixels under one group of windows at the border.
 *
 * Cost: a pass (row and chunk, 384 MACs) takes 32 instructions with stride 1 and 35 with stride 2,
 * a pair of filters 25 more. Measured (`hil tune` on mps3-an547, instructions under QEMU) a MAC,
 * layers of ic: 16 channels 32x32 0.120, 32 channels 16x16 0.111, 64 channels 8x8 0.090; stride 2
 * 0.125, 0.115.
 *
 * Tests: no twin in C; the numpy reference gives what must come out (tests/board/test_kernels.py,
 * buffers between guard bytes). Layout: tests/c/test_kernel_layouts.py.
 */
#ifndef HIL_KERNELS_MVE_CONV2D_S8_3X3_H
#define HIL_KERNELS_MVE_CONV2D_S8_3X3_H

#include <arm_mve.h>

#include "hil/kernels/mve/columns_s8.h"

/* What the windows share. The assembly knows the offsets. */
struct hil_mve_windows {
    int32_t sums[8];     /*  0: of the first filter, of the second */
    int32_t pairs;       /* 32: of filters */
    int32_t row_step;    /* 36: from behind a row's pixels to the next row's */
    uint32_t mask;       /* 40: of the outputs that are stored */
    int32_t groups;      /* 44: of four windows, counted down */
    int32_t x_step;      /* 48: from a group to the next */
    int32_t out_step;    /* 52: the same in the outputs, from behind the last pair */
    uint16_t offsets[8]; /* 56: of the outputs of a pair: window 0 filter 0, 0 1, 1 0, ... */
    int16_t low[8];      /* 72 */
    int16_t high[8];     /* 88 */
};

HIL_MVE_AT(hil_mve_windows, sums, 0);
HIL_MVE_AT(hil_mve_windows, pairs, 32);
HIL_MVE_AT(hil_mve_windows, row_step, 36);
HIL_MVE_AT(hil_mve_windows, mask, 40);
HIL_MVE_AT(hil_mve_windows, groups, 44);
HIL_MVE_AT(hil_mve_windows, x_step, 48);
HIL_MVE_AT(hil_mve_windows, out_step, 52);
HIL_MVE_AT(hil_mve_windows, offsets, 56);
HIL_MVE_AT(hil_mve_windows, low, 72);
HIL_MVE_AT(hil_mve_windows, high, 88);

/* Saves what the caller keeps and sets r1, r5, r7, r9 and r11 as the head says. */
#define HIL_MVE_WINDOWS_ENTER                                                                      \
    "push {r0, r1, r4-r11, lr}\n"                                                                  \
    "vpush {d8-d15}\n"                                                                             \
    "mov r9, r1\n"                                                                                 \
    "mov r11, r2\n"                                                                                \
    "mov r1, r0\n"                                                                                 \
    "ldrd r7, r5, [r3, #32]\n"                                                                     \
    ".p2align 2\n"                                                                                 \
    "1:\n"

#define HIL_MVE_WINDOWS_PIXEL(q, c) "vldrb.8 " q ", [r1], #" c "\n"

/* A pixel times one of the three taps for a window, whose two sums are named. */
#define HIL_MVE_WINDOWS_TAP(multiply, first, second, x, a, b)                                      \
    multiply " " first ", " x ", " a "\n" multiply " " second ", " x ", " b "\n"
#define HIL_MVE_WINDOWS_TAP_0(multiply, first, second, x)                                          \
    HIL_MVE_WINDOWS_TAP(multiply, first, second, x, "q2", "q5")
#define HIL_MVE_WINDOWS_TAP_1(first, second, x)                                                    \
    HIL_MVE_WINDOWS_TAP("vmladava.s8", first, second, x, "q3", "q6")
#define HIL_MVE_WINDOWS_TAP_2(first, second, x)                                                    \
    HIL_MVE_WINDOWS_TAP("vmladava.s8", first, second, x, "q4", "q7")

#define HIL_MVE_WINDOWS_WEIGHTS "vldmia r9!, {d4-d15}\n"

/* A row of the filter and a chunk of the depth `c`, of which `multiply` begins the sums. */
/* clang-format off */
#define HIL_MVE_WINDOWS_PASS_1(multiply, c)                                                        \
    HIL_MVE_WINDOWS_WEIGHTS                                                                        \
    HIL_MVE_WINDOWS_PIXEL("q0", c)                                                                 \
        HIL_MVE_WINDOWS_TAP_0(multiply, "r0", "r8", "q0")                                          \
    HIL_MVE_WINDOWS_PIXEL("q1", c)                                                                 \
        HIL_MVE_WINDOWS_TAP_1("r0", "r8", "q1")                                                    \
        HIL_MVE_WINDOWS_TAP_0(multiply, "r2", "r10", "q1")                                         \
    HIL_MVE_WINDOWS_PIXEL("q0", c)                                                                 \
        HIL_MVE_WINDOWS_TAP_2("r0", "r8", "q0")                                                    \
        HIL_MVE_WINDOWS_TAP_1("r2", "r10", "q0")                                                   \
        HIL_MVE_WINDOWS_TAP_0(multiply, "r4", "r12", "q0")                                         \
    HIL_MVE_WINDOWS_PIXEL("q1", c)                                                                 \
        HIL_MVE_WINDOWS_TAP_2("r2", "r10", "q1")                                                   \
        HIL_MVE_WINDOWS_TAP_1("r4", "r12", "q1")                                                   \
        HIL_MVE_WINDOWS_TAP_0(multiply, "r6", "lr", "q1")                                          \
    HIL_MVE_WINDOWS_PIXEL("q0", c)                                                                 \
        HIL_MVE_WINDOWS_TAP_2("r4", "r12", "q0")                                                   \
        HIL_MVE_WINDOWS_TAP_1("r6", "lr", "q0")                                                    \
    HIL_MVE_WINDOWS_PIXEL("q1", c)                                                                 \
        HIL_MVE_WINDOWS_TAP_2("r6", "lr", "q1")

#define HIL_MVE_WINDOWS_PASS_2(multiply, c)                                                        \
    HIL_MVE_WINDOWS_WEIGHTS                                                                        \
    HIL_MVE_WINDOWS_PIXEL("q0", c)                                                                 \
        HIL_MVE_WINDOWS_TAP_0(multiply, "r0", "r8", "q0")                                          \
    HIL_MVE_WINDOWS_PIXEL("q1", c)                                                                 \
        HIL_MVE_WINDOWS_TAP_1("r0", "r8", "q1")                                                    \
    HIL_MVE_WINDOWS_PIXEL("q0", c)                                                                 \
        HIL_MVE_WINDOWS_TAP_2("r0", "r8", "q0")                                                    \
        HIL_MVE_WINDOWS_TAP_0(multiply, "r2", "r10", "q0")                                         \
    HIL_MVE_WINDOWS_PIXEL("q1", c)                                                                 \
        HIL_MVE_WINDOWS_TAP_1("r2", "r10", "q1")                                                   \
    HIL_MVE_WINDOWS_PIXEL("q0", c)                                                                 \
        HIL_MVE_WINDOWS_TAP_2("r2", "r10", "q0")                                                   \
        HIL_MVE_WINDOWS_TAP_0(multiply, "r4", "r12", "q0")                                         \
    HIL_MVE_WINDOWS_PIXEL("q1", c)                                                                 \
        HIL_MVE_WINDOWS_TAP_1("r4", "r12", "q1")                                                   \
    HIL_MVE_WINDOWS_PIXEL("q0", c)                                                                 \
        HIL_MVE_WINDOWS_TAP_2("r4", "r12", "q0")                                                   \
        HIL_MVE_WINDOWS_TAP_0(multiply, "r6", "lr", "q0")                                          \
    HIL_MVE_WINDOWS_PIXEL("q1", c)                                                                 \
        HIL_MVE_WINDOWS_TAP_1("r6", "lr", "q1")                                                    \
    HIL_MVE_WINDOWS_PIXEL("q0", c)                                                                 \
        HIL_MVE_WINDOWS_TAP_2("r6", "lr", "q0")
/* clang-format on */

/* The chunks of a depth; `back` leads from behind a row's pixels to its next chunk. */
#define HIL_MVE_WINDOWS_CHUNKS_16(pass, multiply, back) pass(multiply, "16") "add r1, r5\n"
#define HIL_MVE_WINDOWS_CHUNKS_32(pass, multiply, back)                                            \
    pass(multiply, "32") "sub r1, #" back "\n" pass("vmladava.s8", "32") "add r1, r5\n"
#define HIL_MVE_WINDOWS_CHUNKS_64(pass, multiply, back)                                            \
    pass(multiply, "64") "sub r1, #" back                                                          \
                         "\n" pass("vmladava.s8", "64") "sub r1, #" back "\n" pass(                \
                             "vmladava.s8", "64") "sub r1, #" back                                 \
                                                  "\n" pass("vmladava.s8", "64") "add r1, r5\n"

#define HIL_MVE_WINDOWS_SUMS(chunks, pass, back)                                                   \
    chunks(pass, "vmladav.s8", back) chunks(pass, "vmladava.s8", back)                             \
        chunks(pass, "vmladava.s8", back)

#define HIL_MVE_WINDOWS_SCALE(multiply, correct, clamp, store)                                     \
    "stmia r3, {r0, r2, r4, r6, r8, r10, r12, lr}\n"                                               \
    "ldmia r9!, {r0, r2, r4, r6, r8, r10, r12}\n"                                                  \
    "vldrw.32 q0, [r3]\n"                                                                          \
    "vldrw.32 q1, [r3, #16]\n"                                                                     \
    "vadd.i32 q0, q0, r0\n"                                                                        \
    "vadd.i32 q1, q1, r2\n" multiply ".s32 q0, q0, r4\n" multiply ".s32 q1, q1, r6\n" correct      \
    "vrshl.s32 q0, r8\n"                                                                           \
    "vrshl.s32 q1, r10\n"                                                                          \
    "vldrh.u16 q2, [r3, #56]\n"                                                                    \
    "vqmovnb.s32 q0, q0\n"                                                                         \
    "vqmovnt.s32 q0, q1\n"                                                                         \
    "vqadd.s16 q0, q0, r12\n" clamp store "adds r11, #2\n"                                         \
    "ldr r1, [sp, #64]\n"                                                                          \
    "subs r7, #1\n"                                                                                \
    "bne.w 1b\n"                                                                                   \
    "ldr r0, [r3, #44]\n"                                                                          \
    "ldrd r4, r6, [r3, #48]\n"                                                                     \
    "subs r0, #1\n"                                                                                \
    "str r0, [r3, #44]\n"                                                                          \
    "beq 2f\n"                                                                                     \
    "add r1, r4\n"                                                                                 \
    "add r11, r6\n"                                                                                \
    "str r1, [sp, #64]\n"                                                                          \
    "ldr r9, [sp, #68]\n"                                                                          \
    "ldr r7, [r3, #32]\n"                                                                          \
    "b.w 1b\n"                                                                                     \
    "2:\n"                                                                                         \
    "vpop {d8-d15}\n"                                                                              \
    "pop {r0, r1, r4-r11, pc}\n"

#define HIL_MVE_WINDOWS_CORRECT                                                                    \
    "mov r0, #1\n" HIL_MVE_AWAY_FROM_ZERO("q0", "r0") HIL_MVE_AWAY_FROM_ZERO("q1", "r0")
#define HIL_MVE_WINDOWS_SATURATE "vqmovnb.s16 q0, q0\n"
#define HIL_MVE_WINDOWS_CLAMP                                                                      \
    "vldrh.u16 q3, [r3, #72]\n"                                                                    \
    "vldrh.u16 q4, [r3, #88]\n"                                                                    \
    "vmax.s16 q0, q0, q3\n"                                                                        \
    "vmin.s16 q0, q0, q4\n"
#define HIL_MVE_WINDOWS_STORE_WHOLE "vstrb.16 q0, [r11, q2]\n"
#define HIL_MVE_WINDOWS_STORE_MASKED                                                               \
    "ldr r0, [r3, #40]\n"                                                                          \
    "vmsr p0, r0\n"                                                                                \
    "vpst\n"                                                                                       \
    "vstrbt.16 q0, [r11, q2]\n"

/* A function that is all assembly, of whose effects the compiler must assume nothing. */
#define HIL_MVE_WINDOWS_FUNCTION(name, sums, multiply, correct, clamp, store)                      \
    __attribute__((naked, noipa, unused)) static void name(                                        \
        const int8_t *x __attribute__((unused)), const int8_t *stream __attribute__((unused)),     \
        int8_t *out __attribute__((unused)),                                                       \
        struct hil_mve_windows *windows __attribute__((unused))) {                                 \
        __asm__(                                                                                   \
            HIL_MVE_WINDOWS_ENTER sums HIL_MVE_WINDOWS_SCALE(multiply, correct, clamp, store));    \
    }

/* Outputs over the whole range of int8 whose values below the zero point clamp, all stored; and any
 * others. Sums rounded once need no such distinction. */
#define HIL_MVE_WINDOWS_FUNCTIONS(name, sums)                                                      \
    HIL_MVE_WINDOWS_FUNCTION(name, sums, HIL_MVE_TWICE, "", HIL_MVE_WINDOWS_SATURATE,              \
                             HIL_MVE_WINDOWS_STORE_WHOLE)                                          \
    HIL_MVE_WINDOWS_FUNCTION(name##_linear, sums, HIL_MVE_TWICE, HIL_MVE_WINDOWS_CORRECT,          \
                             HIL_MVE_WINDOWS_SATURATE, HIL_MVE_WINDOWS_STORE_WHOLE)                \
    HIL_MVE_WINDOWS_FUNCTION(name##_any, sums, HIL_MVE_TWICE, HIL_MVE_WINDOWS_CORRECT,             \
                             HIL_MVE_WINDOWS_CLAMP, HIL_MVE_WINDOWS_STORE_MASKED)                  \
    HIL_MVE_WINDOWS_FUNCTION(name##_once, sums, HIL_MVE_ONCE, "", HIL_MVE_WINDOWS_SATURATE,        \
                             HIL_MVE_WINDOWS_STORE_WHOLE)                                          \
    HIL_MVE_WINDOWS_FUNCTION(name##_any_once, sums, HIL_MVE_ONCE, "", HIL_MVE_WINDOWS_CLAMP,       \
                             HIL_MVE_WINDOWS_STORE_MASKED)

HIL_MVE_WINDOWS_FUNCTIONS(hil_mve_windows_1_16, HIL_MVE_WINDOWS_SUMS(HIL_MVE_WINDOWS_CHUNKS_16,
                                                                     HIL_MVE_WINDOWS_PASS_1, "80"))
HIL_MVE_WINDOWS_FUNCTIONS(hil_mve_windows_1_32, HIL_MVE_WINDOWS_SUMS(HIL_MVE_WINDOWS_CHUNKS_32,
                                                                     HIL_MVE_WINDOWS_PASS_1, "176"))
HIL_MVE_WINDOWS_FUNCTIONS(hil_mve_windows_1_64, HIL_MVE_WINDOWS_SUMS(HIL_MVE_WINDOWS_CHUNKS_64,
                                                                     HIL_MVE_WINDOWS_PASS_1, "368"))
HIL_MVE_WINDOWS_FUNCTIONS(hil_mve_windows_2_16, HIL_MVE_WINDOWS_SUMS(HIL_MVE_WINDOWS_CHUNKS_16,
                                                                     HIL_MVE_WINDOWS_PASS_2, "128"))
HIL_MVE_WINDOWS_FUNCTIONS(hil_mve_windows_2_32, HIL_MVE_WINDOWS_SUMS(HIL_MVE_WINDOWS_CHUNKS_32,
                                                                     HIL_MVE_WINDOWS_PASS_2, "272"))
HIL_MVE_WINDOWS_FUNCTIONS(hil_mve_windows_2_64, HIL_MVE_WINDOWS_SUMS(HIL_MVE_WINDOWS_CHUNKS_64,
                                                                     HIL_MVE_WINDOWS_PASS_2, "560"))

typedef void hil_mve_windows_function(const int8_t *x, const int8_t *stream, int8_t *out,
                                      struct hil_mve_windows *windows);

#define HIL_MVE_WINDOWS_OF(depth, any, linear)                                                     \
    ((linear) == HIL_MVE_LINEAR_ONCE                                                               \
         ? ((any) ? hil_mve_windows_##depth##_any_once : hil_mve_windows_##depth##_once)           \
     : (any)    ? hil_mve_windows_##depth##_any                                                    \
     : (linear) ? hil_mve_windows_##depth##_linear                                                 \
                : hil_mve_windows_##depth)

HIL_INLINE hil_mve_windows_function *hil_mve_windows_of(int32_t stride, int32_t depth, int32_t any,
                                                        int32_t linear) {
    if (stride == 1) {
        return depth == 16   ? HIL_MVE_WINDOWS_OF(1_16, any, linear)
               : depth == 32 ? HIL_MVE_WINDOWS_OF(1_32, any, linear)
                             : HIL_MVE_WINDOWS_OF(1_64, any, linear);
    }
    return depth == 16   ? HIL_MVE_WINDOWS_OF(2_16, any, linear)
           : depth == 32 ? HIL_MVE_WINDOWS_OF(2_32, any, linear)
                         : HIL_MVE_WINDOWS_OF(2_64, any, linear);
}

/*@kernel
name = "hil_mve_conv2d_s8_3x3"
requires = ["mve"]
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "9 * (stride + 1) * in_c"
order = ["rows 1", "pixels 4", "channels 2"]
reads = "window"
window = {filter_h = "3", filter_w = "3"}
code = 1070
shared = {hil_mve_windows = 670}
[cost]
tile = "batch * out_h * ((out_w + 3) // 4)"
pair = "tile * (columns // 2)"
linear_pair = "pair * (linear == 1)"
filter_chunk = "pair * (3 * in_c // 16)"
strided_chunk = "filter_chunk * stride"
@*/
struct hil_mve_conv2d_s8_3x3 {
    HIL_IMAGES_FIELDS;     /* in_c: 16, 32 or 64 */
    int32_t stride;        /* 1 or 2 */
    int32_t pad_top;       /* rows by which the first window reaches above the image */
    int32_t pad_left;      /* columns by which the first window reaches beyond the image */
    int32_t in_zero_point; /* the input that stands for 0.0, which pixels outside the image have */
    int32_t columns;       /* filters, even */
    int32_t any;    /* 1: outputs are clamped to less than int8, or out_w is no multiple of 4 */
    int32_t linear; /* as in HIL_MVE_COLUMNS_FIELDS */
    HIL_OUTPUT_RANGE_FIELDS;
    const int8_t *stream; /* the head draws it */
};

/* The pixels under four windows from row y and column x on. */
HIL_INLINE void hil_mve_conv2d_s8_3x3_copy(const struct hil_mve_conv2d_s8_3x3 *p,
                                           const int8_t *image, int32_t y, int32_t x, int8_t *to) {
    const int8x16_t around = vdupq_n_s8((int8_t)p->in_zero_point);
    const int32_t width = 3 * (p->stride + 1);
    const int32_t before = x < 0 ? (-x < width ? -x : width) : 0;
    const int32_t fitting = p->in_w - x - before;
    const int32_t inside = fitting < width - before ? (fitting > 0 ? fitting : 0) : width - before;
    const int32_t chunks = p->in_c / HIL_MVE_CHUNK;
    const int8_t *from = image + (y * p->in_w + x + before) * p->in_c;
    for (int32_t row = y; row < y + 3; row++) {
        if (row < 0 || row >= p->in_h) {
            to = hil_mve_fill(to, around, width * chunks);
        } else {
            to = hil_mve_fill(to, around, before * chunks);
            to = hil_mve_copy(to, from, inside * chunks);
            to = hil_mve_fill(to, around, (width - before - inside) * chunks);
        }
        from += p->in_w * p->in_c;
    }
}

HIL_INLINE void hil_mve_conv2d_s8_3x3(const struct hil_mve_conv2d_s8_3x3 *p, const int8_t *in,
                                      int8_t *out, void *scratch) {
    hil_mve_windows_function *const function =
        hil_mve_windows_of(p->stride, p->in_c, p->any, p->linear);
    const int32_t width = 3 * (p->stride + 1);
    const int32_t last_chunk = p->in_c - HIL_MVE_CHUNK;
    struct hil_mve_windows windows = {
        .sums = {0},
        .pairs = p->columns / 2,
        .row_step = 0,
        .mask = 0,
        .groups = 0,
        .x_step = 4 * p->stride * p->in_c,
        .out_step = 3 * p->columns,
        .offsets = {0},
        .low = {0},
        .high = {0},
    };
    for (int32_t i = 0; i < 8; i++) {
        windows.offsets[i] = (uint16_t)(i / 2 * p->columns + i % 2);
        windows.low[i] = (int16_t)p->out_min;
        windows.high[i] = (int16_t)p->out_max;
    }
    for (int32_t images = p->batch; images > 0; images--) {
        for (int32_t out_y = 0; out_y < p->out_h; out_y++) {
            const int32_t y = out_y * p->stride - p->pad_top;
            int32_t x = -p->pad_left;
            const int32_t last_x = p->in_w - width;
            for (int32_t left = p->out_w; left > 0;) {
                const int8_t *from = in + (y * p->in_w + x) * p->in_c;
                int32_t line = p->in_w;
                int32_t groups = 1;
                if (x < 0 || y < 0 || x > last_x || y + 3 > p->in_h) {
                    hil_mve_conv2d_s8_3x3_copy(p, in, y, x, (int8_t *)scratch);
                    from = (const int8_t *)scratch;
                    line = width;
                } else if (left >= 8) {
                    /* All that lie within the image. */
                    const int32_t more = (last_x - x) / (4 * p->stride);
                    groups = more < left / 4 ? more + 1 : left / 4;
                }
                const int32_t count = left < 4 ? left : 4 * groups;
                windows.groups = groups;
                windows.row_step = (line - width) * p->in_c - last_chunk;
                windows.mask = left < 4 ? (1U << (4 * left)) - 1 : 0xFFFF;
                function(from, p->stream, out, &windows);
                out += count * p->columns;
                x += count * p->stride;
                left -= count;
            }
        }
        in += p->in_h * p->in_w * p->in_c;
    }
}

#endif
