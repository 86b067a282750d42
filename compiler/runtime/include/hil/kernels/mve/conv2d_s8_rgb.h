/* Convolution of int8 images of three channels with 3x3 filters on Helium, read where they lie: a
 * window's 27 values become two chunks by two loads and a choice each.
 *
 * Tile: 4 windows x 8 filters, or 2 windows x 16 filters.
 *
 *   lane       0  1  2  3  4  5  6  7  8 | 9  10 11 12 13 14 15
 *   chunk 0    row 0 of the window       | row 1, bytes 0 to 6
 *   chunk 1    row 2 of the window       | row 1, bytes 7 and 8, then bytes whose weights are 0
 *
 * The predicate 0x1ff chooses the first nine lanes; row 1 is loaded from 9 and from 2 bytes before
 * its place, so that its bytes fall into the other lanes.
 *
 * Registers: those of matmul_s8_2x16.h, but r1, r3, r7 are the three rows; q0 and q2 hold the
 * chunks of one window, q1 and q3 of the other; q6 and q7 the loads of row 1, before the weights
 * need q7.
 *
 * Data: the streams of matmul_s8_2x16.h for two chunks, packed by `_rgb()` and `pixels_of()`: 768
 * bytes for each 16 filters (736 `_first`), 448 (416) for eight. A filter's 27 weights are in the
 * order of the lanes above.
 *
 * Order: groups of windows along a row; outputs of a group are stored after each 16 filters, of
 * eight after both pairs of windows. Groups that would read beyond their rows (`before`, those
 * behind `direct`) are copied first, 28 bytes a row.
 *
 * Bounds: 27 * 128 * 128 < 2^19 without the bias; with it below 2^31 (`_check_quantized()`). The
 * loads of a direct group lie within its rows of the image: `_rgb()` counts only those as direct.
 *
 * Output: that of matmul_s8_2x16.h; corrections of signs take the predicate, which is then set
 * again.
 *
 * Scratch: one group's pixels, 96 bytes.
 *
 * Cost: 166 instructions and 20 for 2 windows x 16 filters (864 MACs), 182 for 4 x 8. Measured
 * (`hil tune` on mps3-an547, instructions under QEMU): first layer of ic, 32x32x3 to 16, 0.246 a
 * MAC, where strips take 0.231.
 *
 * Tests: no twin in C; the numpy reference gives what must come out (tests/board/test_kernels.py,
 * buffers between guard bytes). Layout: tests/c/test_kernel_layouts.py.
 */
#ifndef HIL_KERNELS_MVE_CONV2D_S8_RGB_H
#define HIL_KERNELS_MVE_CONV2D_S8_RGB_H

#include <arm_mve.h>

#include "hil/kernels/mve/matmul_s8_2x16.h"

/* The assembly knows the offsets. */
struct hil_mve_rgb {
    struct hil_mve_pixels pixels; /* pairs: groups of windows; x_second: from row to row */
    const int8_t *end;            /* 36: of the stream */
};

HIL_MVE_AT(hil_mve_rgb, end, 36);

/* Saves what the caller keeps and sets the registers as the head says. */
#define HIL_MVE_RGB_ENTER                                                                          \
    "push {r0-r11, lr}\n"                                                                          \
    "vpush {d8-d15}\n"                                                                             \
    "sub sp, #128\n"                                                                               \
    "mov r9, r1\n"                                                                                 \
    "mov r1, r0\n"                                                                                 \
    "mov r11, r2\n"                                                                                \
    "ldr r4, [r3, #4]\n"                                                                           \
    "add r3, r1, r4\n"                                                                             \
    "add r7, r3, r4\n" HIL_MVE_RGB_CHOOSE ".p2align 2\n"                                           \
    "2:\n"                                                                                         \
    "mov r5, sp\n"

/* The first nine of sixteen bytes; corrections of signs take the predicate. */
#define HIL_MVE_RGB_CHOOSE                                                                         \
    "movw r0, #511\n"                                                                              \
    "vmsr p0, r0\n"

/* The window `at` bytes behind the places, as chunks in two registers. */
#define HIL_MVE_RGB_WINDOW(x, y, at)                                                               \
    "vldrb.8 " x ", [r1, #" at "]\n"                                                               \
    "vldrb.8 q6, [r3, #" at "-9]\n"                                                                \
    "vpsel " x ", " x ", q6\n"                                                                     \
    "vldrb.8 " y ", [r7, #" at "]\n"                                                               \
    "vldrb.8 q7, [r3, #" at "-2]\n"                                                                \
    "vpsel " y ", " y ", q7\n"
#define HIL_MVE_RGB_PAIR(at, next)                                                                 \
    HIL_MVE_RGB_WINDOW("q0", "q2", at) HIL_MVE_RGB_WINDOW("q1", "q3", next)

/* To the next group, `step` bytes further. r0 is what the assembly is told. */
#define HIL_MVE_RGB_NEXT(step)                                                                     \
    "ldr r2, [r0]\n"                                                                               \
    "ldr r9, [sp, #196]\n"                                                                         \
    "adds r1, #" step "\n"                                                                         \
    "adds r3, #" step "\n"                                                                         \
    "adds r7, #" step "\n"                                                                         \
    "subs r2, #1\n"                                                                                \
    "str r2, [r0]\n"                                                                               \
    "bne.w 2b\n"                                                                                   \
    "add sp, #128\n"                                                                               \
    "vpop {d8-d15}\n"                                                                              \
    "pop {r0-r11, pc}\n"

#define HIL_MVE_RGB_STORE_EIGHT                                                                    \
    "vstrb.8 q4, [r11], #16\n"                                                                     \
    "vstrb.8 q5, [r11], #16\n"
#define HIL_MVE_RGB_STORE                                                                          \
    "add r2, r11\n"                                                                                \
    "vstrb.8 q4, [r11], #16\n"                                                                     \
    "vstrb.8 q5, [r2]\n"                                                                           \
    "ldr r6, [r0, #36]\n"                                                                          \
    "cmp r9, r6\n"                                                                                 \
    "bne.w 2b\n"                                                                                   \
    "ldr r6, [r0, #20]\n"                                                                          \
    "add r11, r6\n"

#define HIL_MVE_RGB_EIGHT(name, a, b, c, d, step)                                                  \
    HIL_MVE_PIXELS_FUNCTIONS(name, HIL_MVE_RGB_ENTER, HIL_MVE_RGB_CHOOSE,                          \
                             HIL_MVE_PIXELS_EIGHT(HIL_MVE_RGB_PAIR(a, b), HIL_MVE_RGB_PAIR(c, d)), \
                             HIL_MVE_RGB_STORE_EIGHT HIL_MVE_RGB_NEXT(step),                       \
                             HIL_MVE_PIXELS_EIGHT_SUMS)
#define HIL_MVE_RGB_SIXTEEN(name, a, b, step)                                                      \
    HIL_MVE_PIXELS_FUNCTIONS(name, HIL_MVE_RGB_ENTER, HIL_MVE_RGB_CHOOSE,                          \
                             HIL_MVE_RGB_PAIR(a, b) HIL_MVE_PIXELS_SIXTEEN(HIL_MVE_PIXELS_CHUNK(   \
                                 "q0", "q1") HIL_MVE_PIXELS_CHUNK("q2", "q3")),                    \
                             HIL_MVE_RGB_STORE HIL_MVE_RGB_NEXT(step), HIL_MVE_PIXELS_SUMS)

/* The number is the stride. */
HIL_MVE_RGB_EIGHT(hil_mve_rgb_1_eight, "0", "3", "6", "9", "12")
HIL_MVE_RGB_EIGHT(hil_mve_rgb_2_eight, "0", "6", "12", "18", "24")
HIL_MVE_RGB_SIXTEEN(hil_mve_rgb_1, "0", "3", "6")
HIL_MVE_RGB_SIXTEEN(hil_mve_rgb_2, "0", "6", "12")

/* Bytes from row to row of copied windows: those of four with stride 2, and one. */
#define HIL_MVE_RGB_COPY 28

/*@kernel
name = "hil_mve_conv2d_s8_rgb"
requires = ["mve"]
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "96"
order = ["rows 1", "pixels group", "channels 16"]
reads = "window"
window = {filter_h = "3", filter_w = "3"}
code = 1300
shared = {hil_mve_rgb = 750}
[cost]
row = "batch * out_h"
tile = "row * (out_w // group)"
copied_tile = "row * (out_w // group - direct)"
eight_tile = "tile * eight"
sixteens_tile = "tile * (1 - eight)"
sixteen = "sixteens_tile * (columns // 16)"
clamped = "(eight_tile + sixteen) * (any % 2)"
late_narrowed = "(eight_tile + sixteen) * (1 - first)"
@*/
struct hil_mve_conv2d_s8_rgb {
    int32_t batch;         /* images */
    int32_t in_h;          /* rows of an input image */
    int32_t in_w;          /* columns of an input image */
    int32_t out_h;         /* rows of an output image */
    int32_t out_w;         /* whole groups */
    int32_t stride;        /* 1 or 2 */
    int32_t pad_top;       /* rows by which the first window reaches above the image */
    int32_t pad_left;      /* columns by which the first window reaches beyond the image */
    int32_t in_zero_point; /* the input that stands for 0.0, which pixels outside the image have */
    int32_t group;         /* windows at a time: 4 of eight columns, or 2 */
    int32_t eight;         /* 1: there are eight columns, and the stream is that of
                            * hil_mve_pixels_2_eight; 0: whole sixteens */
    int32_t before;        /* groups of a row that reach beyond its begin */
    int32_t direct;        /* groups behind these that may be read where they lie */
    HIL_MVE_PIXELS_FIELDS;
};

HIL_INLINE void hil_mve_rgb(const struct hil_mve_conv2d_s8_rgb *p, const int8_t *x, int32_t line,
                            int8_t *out, int32_t groups) {
    struct hil_mve_rgb rgb = {
        .pixels =
            {
                .pairs = groups,
                .x_second = line,
                .out_second = p->columns,
                .zero_point = p->out_zero_point,
                .x_step = 0,
                .out_step = p->columns,
                .columns = 0,
                .low = p->out_min,
                .high = p->out_max,
            },
        .end = p->stream + p->columns / 16 * (p->first ? 736 : 768),
    };
    hil_mve_pixels_function *const eight =
        p->stride == 1 ? HIL_MVE_PIXELS_OF(hil_mve_rgb_1_eight, p->any, p->first)
                       : HIL_MVE_PIXELS_OF(hil_mve_rgb_2_eight, p->any, p->first);
    hil_mve_pixels_function *const sixteen =
        p->stride == 1 ? HIL_MVE_PIXELS_OF(hil_mve_rgb_1, p->any, p->first)
                       : HIL_MVE_PIXELS_OF(hil_mve_rgb_2, p->any, p->first);
    (p->eight ? eight : sixteen)(x, p->stream, out, &rgb.pixels);
}

/* `groups` groups of windows from row y and column x on, each copied first, the zero point around
 * the image. */
HIL_INLINE void hil_mve_rgb_copied(const struct hil_mve_conv2d_s8_rgb *p, const int8_t *image,
                                   int32_t y, int32_t x, int8_t *out, int32_t groups,
                                   int8_t *copy) {
    const int8x16_t around = vdupq_n_s8((int8_t)p->in_zero_point);
    const int32_t line = 3 * p->in_w;
    for (; groups > 0; groups--) {
        const int32_t before = x < 0 ? -3 * x : 0;
        const int32_t inside = line - 3 * x;
        /* Lanes of the rows, also of the sixteen behind the first. */
        const mve_pred16_t first = vctp8q((uint32_t)inside) & ~vctp8q((uint32_t)before);
        const mve_pred16_t second = vctp8q(inside > 16 ? (uint32_t)inside - 16 : 0);
        const int8_t *from = image + y * line + 3 * x;
        int8_t *to = copy;
        for (int32_t row = y; row < y + 3; row++) {
            int8x16_t low = around;
            int8x16_t high = around;
            if (row >= 0 && row < p->in_h) {
                low = vpselq_s8(vldrbq_z_s8(from, first), around, first);
                high = vpselq_s8(vldrbq_z_s8(from + 16, second), around, second);
            }
            vstrbq_s8(to, low);
            vstrbq_s8(to + 16, high);
            to += HIL_MVE_RGB_COPY;
            from += line;
        }
        hil_mve_rgb(p, copy, HIL_MVE_RGB_COPY, out, 1);
        x += p->group * p->stride;
        out += p->group * p->columns;
    }
}

HIL_INLINE void hil_mve_conv2d_s8_rgb(const struct hil_mve_conv2d_s8_rgb *p, const int8_t *in,
                                      int8_t *out, void *scratch) {
    const int32_t line = 3 * p->in_w;
    const int32_t step = p->group * p->stride;
    const int32_t out_step = p->group * p->columns;
    const int32_t groups = p->out_w / p->group;
    for (int32_t images = p->batch; images > 0; images--) {
        int32_t y = -p->pad_top;
        for (int32_t rows = p->out_h; rows > 0; rows--) {
            const int32_t direct = y >= 0 && y + 3 <= p->in_h ? p->direct : 0;
            const int32_t before = direct > 0 ? p->before : groups;
            int32_t x = -p->pad_left;
            hil_mve_rgb_copied(p, in, y, x, out, before, (int8_t *)scratch);
            x += before * step;
            out += before * out_step;
            if (direct > 0) {
                hil_mve_rgb(p, in + y * line + 3 * x, line, out, direct);
                x += direct * step;
                out += direct * out_step;
                const int32_t behind = groups - before - direct;
                hil_mve_rgb_copied(p, in, y, x, out, behind, (int8_t *)scratch);
                out += behind * out_step;
            }
            y += p->stride;
        }
        in += p->in_h * line;
    }
}

#endif
