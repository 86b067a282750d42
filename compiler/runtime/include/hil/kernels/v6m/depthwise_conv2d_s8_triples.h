/* Depthwise 3x3 convolution of int8 images on cores with Thumb code of 16 bits alone, a channel of
 * the image at a time: of each three rows of windows, a third of the image apart, the pixels share
 * two words, so two products serve three.
 *
 * Tile: 3 outputs, a third of the rows apart, x 1 channel.
 *
 *   row of windows   0 ...   a   lines a   pixel  x = a + 2^11 * c + 2^21 * b
 *                    n ...   b   lines b          y = b + 2^22 * c
 *                   2n ...   c   lines c
 *
 * Registers: r0 to r5, words of three pixels, which multiplying overwrites; r6, the place in the
 * lines; r7, a weight; r8 and r9, the words of the sums; r11, where the window begins; r12, where
 * the output of c goes; lr, the step from line to line. Weights, scale and the other steps are on
 * the stack.
 *
 * Data: weights int8 [filter][3][3], smaller filters with zeros (`with_zero_taps()`), on the
 * stack as words; scales int32 [filter][7], `piecewise_scales()`; lines in scratch,
 * [line][pixel][2] words as v7m/columns_s8.h has them of rows, not raised: the rows of one channel
 * below a band, the zero point around.
 *
 * Order: channel by channel of the image, band by band, filter by filter of the channel; rows that
 * two bands need are read for each. Where c has no row left its output goes to where that of b goes
 * after it, and so on.
 *
 * Bounds: nine products, 9 * 128 * 128 < 2^20.
 *
 * Output: as in columns_s8.h, of all values of int8, with two pieces and no turns.
 *
 * Scratch: the lines of a third of a band. Stack: 140 bytes.
 *
 * Cost: 116 instructions three outputs, 15 three pixels. Measured (`hil bench` on microbit,
 * instructions under QEMU): 25x5x64 (kws) 6.0 a MAC, all rows in one band;
 * hil_v6m_depthwise_conv2d_s8_3x3 7.6, the portable kernel 16.8. 8x8x4 with eight filters a channel
 * 5.3, 6.9 and 14.6.
 *
 * Tests: the twin is the second hil_v6m_depthwise_rows (tests/c/test_v6m_kernels.py, in place:
 * test_depthwise_in_place, numbers of rows: test_depthwise_of_each_number_of_rows); the assembly:
 * tests/board/test_kernels.py. Layout: tests/c/test_kernel_layouts.py.
 */
#ifndef HIL_KERNELS_V6M_DEPTHWISE_CONV2D_S8_TRIPLES_H
#define HIL_KERNELS_V6M_DEPTHWISE_CONV2D_S8_TRIPLES_H

#include "hil/kernels/generic/fields.h"
#include "hil/kernels/v7m/columns_s8.h"
#include "hil/v6m.h"

/* Bits of a piece of the multipliers. */
#define HIL_V6M_TRIPLES_BITS 12

/*@kernel
name = "hil_v6m_depthwise_conv2d_s8_triples"
requires = ["thumb1"]
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "8 * line * (stride_h * ((band + 2) // 3 - 1) + 3)"
order = ["channels depth_multiplier", "rows band"]
reads = "channel window"
window = {filter_h = "3", filter_w = "3"}
code = 900
[cost]
channel = "batch * in_c"
band_of_channel = "channel * ((out_h + band - 1) // band)"
filter = "band_of_channel * depth_multiplier"
packed_line = "band_of_channel * (stride_h * ((band + 2) // 3 - 1) + 3)"
packed_pixel = "packed_line * in_w"
triple = "filter * ((band + 2) // 3) * out_w"
@*/
struct hil_v6m_depthwise_conv2d_s8_triples {
    HIL_IMAGES_FIELDS;
    int32_t stride_h;         /* input rows from a window to the one below it */
    int32_t stride_w;         /* input columns from a window to the next */
    int32_t pad_top;          /* rows by which the first window reaches above the image */
    int32_t pad_left;         /* columns by which the first window reaches beyond the image */
    int32_t depth_multiplier; /* filters of a channel of the image */
    int32_t band;             /* output rows at a time */
    int32_t line;             /* pixels under a row of windows */
    int32_t in_zero_point; /* the input that stands for 0.0, which pixels outside the image have */
    const int32_t *scales; /* HIL_V6M_SCALE_WORDS a filter */
    const int8_t *weights; /* [in_c * depth_multiplier][3][3] */
};

/* Rows of windows that have as many of a, b and c; copied to the stack whole. */
struct hil_v6m_depthwise_rows {
    int32_t weights[9];
    int32_t middle; /* of the scale */
    int32_t high;
    int32_t bias;
    int32_t shift;
    int32_t window;       /* bytes from window to window */
    int32_t windows;      /* of a row of windows, in bytes */
    int32_t below;        /* bytes from a row of windows to the one below it */
    int32_t line;         /* bytes of a line */
    int32_t pixel;        /* from an output to the next, which is that below for the last */
    int32_t c_to_b;       /* from the output of c to that of b */
    int32_t b_to_a;       /* and from there to that of a */
    int32_t count;        /* rows of windows */
    const uint32_t *from; /* the first window */
    int8_t *out;          /* where its output of c goes */
    int32_t end;          /* of a row of windows, as the assembly goes on */
};

/* Packs the pixels of a channel that are in the image, `count` of three rows; a step is 0 for a row
 * outside. */
HIL_INLINE void hil_v6m_depthwise_pack(const int8_t *const *from, const int32_t *steps,
                                       int32_t count, uint32_t *to) {
    const int8_t *a = from[0];
    const int8_t *b = from[1];
    const int8_t *c = from[2];
    if (count <= 0) {
        return;
    }
    uint32_t *const end = to + 2 * count;
#if HIL_V6M_ASSEMBLY
    /* In registers of our choice: gcc, which fills upper ones through lower ones, does not always
     * see that it has to before all of those are taken. */
    const int32_t next_a = steps[0];
    const int32_t next_b = steps[1];
    const int32_t next_c = steps[2];
    register const int8_t *of_a __asm__("r0") = a;
    register const int8_t *of_b __asm__("r1") = b;
    register const int8_t *of_c __asm__("r2") = c;
    register uint32_t *place __asm__("r3") = to;
    register int32_t zero __asm__("r7") = 0;
    register int32_t step_a __asm__("r8") = next_a;
    register int32_t step_b __asm__("r9") = next_b;
    register int32_t step_c __asm__("r10") = next_c;
    register uint32_t *last __asm__("r11") = end;
    __asm__ volatile(".syntax unified\n\t"
                     "1:\n\t"
                     "ldrsb r4, [%[a], %[zero]]\n\t"
                     "add %[a], %[step_a]\n\t"
                     "ldrsb r5, [%[b], %[zero]]\n\t"
                     "add %[b], %[step_b]\n\t"
                     "ldrsb r6, [%[c], %[zero]]\n\t"
                     "add %[c], %[step_c]\n\t"
                     "lsls r6, r6, #11\n\t"
                     "adds r4, r4, r6\n\t"
                     "lsls r6, r6, #11\n\t"
                     "adds r6, r6, r5\n\t"
                     "lsls r5, r5, #21\n\t"
                     "adds r4, r4, r5\n\t"
                     "stmia %[to]!, {r4, r6}\n\t"
                     "cmp %[to], %[end]\n\t"
                     "bne 1b\n\t"
                     : [a] "+l"(of_a), [b] "+l"(of_b), [c] "+l"(of_c), [to] "+l"(place)
                     : [zero] "l"(zero), [step_a] "r"(step_a), [step_b] "r"(step_b),
                       [step_c] "r"(step_c), [end] "r"(last)
                     : "r4", "r5", "r6", "cc", "memory");
#else
    do {
        to = hil_v7m_widen(*a, *b, *c, 0, 2, to);
        a += steps[0];
        b += steps[1];
        c += steps[2];
    } while (to != end);
#endif
}

#if HIL_V6M_ASSEMBLY

/* Offsets in struct hil_v6m_depthwise_rows. */
#define HIL_V6M_TRIPLES_SCALE "#36"
#define HIL_V6M_TRIPLES_WINDOW "#52"
#define HIL_V6M_TRIPLES_WINDOWS "#56"
#define HIL_V6M_TRIPLES_BELOW "#60"
#define HIL_V6M_TRIPLES_LINE "#64"
#define HIL_V6M_TRIPLES_PIXEL "#68"
#define HIL_V6M_TRIPLES_C_TO_B "#72"
#define HIL_V6M_TRIPLES_B_TO_A "#76"
#define HIL_V6M_TRIPLES_COUNT "#80"
#define HIL_V6M_TRIPLES_FROM "#84"
#define HIL_V6M_TRIPLES_OUT "#88"
#define HIL_V6M_TRIPLES_END "#92"
#define HIL_V6M_TRIPLES_BYTES "#96"

/* Three pixels of three rows: 16 instructions. */
#define HIL_V6M_TRIPLES_TAP(add, weight, x, y)                                                     \
    "ldr r7, [sp, #" weight "]\n\t"                                                                \
    "muls " x ", r7, " x "\n\t"                                                                    \
    "muls " y ", r7, " y "\n\t" add " r8, " x "\n\t" add " r9, " y "\n\t"
#define HIL_V6M_TRIPLES_LINES(first, w0, w1, w2)                                                   \
    "ldmia r6!, {r0, r1, r2, r3, r4, r5}\n\t" HIL_V6M_TRIPLES_TAP(first, w0, "r0", "r1")           \
        HIL_V6M_TRIPLES_TAP("add", w1, "r2", "r3") HIL_V6M_TRIPLES_TAP("add", w2, "r4", "r5")
/* The output of a sum, with the scale in r4 to r7, to r1. */
#define HIL_V6M_TRIPLES_OUTPUT(sum)                                                                \
    "movs r1, " sum "\n\t"                                                                         \
    "muls r1, r4, r1\n\t"                                                                          \
    "asrs r1, r1, #12\n\t"                                                                         \
    "muls " sum ", r5, " sum "\n\t"                                                                \
    "adds r1, r1, " sum "\n\t"                                                                     \
    "adds r1, r1, r6\n\t"                                                                          \
    "asrs r1, r1, r7\n\t"                                                                          \
    "cmp r1, #255\n\t"                                                                             \
    "bls 9f\n\t"                                                                                   \
    "asrs r1, r1, #31\n\t" /* 0 below, 255 above */                                                \
    "mvns r1, r1\n\t"                                                                              \
    "9:\n\t"                                                                                       \
    "subs r1, #128\n\t"

/* Never inlined: it is the same for all layers. */
static __attribute__((noinline, noclone, unused)) void
hil_v6m_depthwise_rows(const struct hil_v6m_depthwise_rows *p) {
    register const struct hil_v6m_depthwise_rows *from __asm__("r0") = p;
    __asm__ volatile(
        ".syntax unified\n\t"
        "sub sp, " HIL_V6M_TRIPLES_BYTES "\n\t"
        "mov r1, sp\n\t"
        "ldmia r0!, {r2, r3, r4, r5, r6, r7}\n\t"
        "stmia r1!, {r2, r3, r4, r5, r6, r7}\n\t"
        "ldmia r0!, {r2, r3, r4, r5, r6, r7}\n\t"
        "stmia r1!, {r2, r3, r4, r5, r6, r7}\n\t"
        "ldmia r0!, {r2, r3, r4, r5, r6, r7}\n\t"
        "stmia r1!, {r2, r3, r4, r5, r6, r7}\n\t"
        "ldmia r0!, {r2, r3, r4, r5, r6, r7}\n\t"
        "stmia r1!, {r2, r3, r4, r5, r6, r7}\n\t"
        "ldr r0, [sp, " HIL_V6M_TRIPLES_LINE "]\n\t"
        "subs r0, #24\n\t" /* what reading three pixels adds */
        "mov lr, r0\n\t"
        "ldr r0, [sp, " HIL_V6M_TRIPLES_OUT "]\n\t"
        "mov r12, r0\n\t"
        /* A row of windows. */
        "1:\n\t"
        "ldr r0, [sp, " HIL_V6M_TRIPLES_FROM "]\n\t"
        "mov r11, r0\n\t"
        "ldr r1, [sp, " HIL_V6M_TRIPLES_WINDOWS "]\n\t"
        "adds r1, r1, r0\n\t"
        "str r1, [sp, " HIL_V6M_TRIPLES_END "]\n\t"
        "ldr r1, [sp, " HIL_V6M_TRIPLES_BELOW "]\n\t"
        "adds r0, r0, r1\n\t"
        "str r0, [sp, " HIL_V6M_TRIPLES_FROM "]\n\t"
        /* A window. */
        "2:\n\t"
        "mov r6, r11\n\t" HIL_V6M_TRIPLES_LINES(
            "mov", "0", "4",
            "8") "add r6, lr\n\t" HIL_V6M_TRIPLES_LINES("add", "12", "16",
                                                        "20") "add r6, "
                                                              "lr\n\t" HIL_V6M_TRIPLES_LINES(
                                                                  "add", "24", "28", "32")
        /* hil_v7m_sums, to r3, r2 and r0. */
        "mov r0, r8\n\t"
        "mov r1, r9\n\t"
        "lsls r2, r1, #10\n\t"
        "asrs r2, r2, #10\n\t"
        "subs r1, r1, r2\n\t"
        "asrs r1, r1, #11\n\t"
        "lsls r3, r2, #21\n\t"
        "subs r0, r0, r3\n\t"
        "subs r3, r0, r1\n\t"
        "lsls r3, r3, #11\n\t"
        "asrs r3, r3, #11\n\t"
        "subs r0, r0, r3\n\t"
        "asrs r0, r0, #11\n\t"
        "add r6, sp, " HIL_V6M_TRIPLES_SCALE "\n\t"
        "ldmia r6, {r4, r5, r6, r7}\n\t" HIL_V6M_TRIPLES_OUTPUT(
            "r0") "mov r0, r12\n\t"
                  "strb r1, [r0]\n\t" HIL_V6M_TRIPLES_OUTPUT(
                      "r2") "ldr r2, [sp, " HIL_V6M_TRIPLES_C_TO_B "]\n\t"
                            "adds r0, r0, r2\n\t"
                            "strb r1, [r0]\n\t" HIL_V6M_TRIPLES_OUTPUT(
                                "r3") "ldr r2, [sp, " HIL_V6M_TRIPLES_B_TO_A "]\n\t"
                                      "strb r1, [r0, r2]\n\t"
                                      "ldr r0, [sp, " HIL_V6M_TRIPLES_PIXEL "]\n\t"
                                      "add r12, r0\n\t"
                                      "ldr r0, [sp, " HIL_V6M_TRIPLES_WINDOW "]\n\t"
                                      "add r11, r0\n\t"
                                      "ldr r0, [sp, " HIL_V6M_TRIPLES_END "]\n\t"
                                      "cmp r11, r0\n\t"
                                      "beq 3f\n\t"
                                      "b 2b\n\t" /* a conditional branch does not reach as far */
                                      "3:\n\t"
                                      "ldr r0, [sp, " HIL_V6M_TRIPLES_COUNT "]\n\t"
                                      "subs r0, #1\n\t"
                                      "str r0, [sp, " HIL_V6M_TRIPLES_COUNT "]\n\t"
                                      "beq 4f\n\t"
                                      "b 1b\n\t"
                                      "4:\n\t"
                                      "add sp, " HIL_V6M_TRIPLES_BYTES "\n\t"
        : "+r"(from)
        :
        : "r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8", "r9", "r11", "r12", "lr", "cc", "memory");
}

#undef HIL_V6M_TRIPLES_SCALE
#undef HIL_V6M_TRIPLES_WINDOW
#undef HIL_V6M_TRIPLES_WINDOWS
#undef HIL_V6M_TRIPLES_BELOW
#undef HIL_V6M_TRIPLES_LINE
#undef HIL_V6M_TRIPLES_PIXEL
#undef HIL_V6M_TRIPLES_C_TO_B
#undef HIL_V6M_TRIPLES_B_TO_A
#undef HIL_V6M_TRIPLES_COUNT
#undef HIL_V6M_TRIPLES_FROM
#undef HIL_V6M_TRIPLES_OUT
#undef HIL_V6M_TRIPLES_END
#undef HIL_V6M_TRIPLES_BYTES
#undef HIL_V6M_TRIPLES_TAP
#undef HIL_V6M_TRIPLES_LINES
#undef HIL_V6M_TRIPLES_OUTPUT

#else

HIL_INLINE void hil_v6m_depthwise_rows(const struct hil_v6m_depthwise_rows *p) {
    const struct hil_v6m_scale scale = {.low = 0,
                                        .middle = p->middle,
                                        .high = p->high,
                                        .bias = p->bias,
                                        .addend = 0,
                                        .turn = 0,
                                        .shift = p->shift};
    const uint32_t *row = p->from;
    int8_t *out = p->out;
    for (int32_t left = p->count; left > 0; left--) {
        for (int32_t at = 0; at < p->windows; at += p->window) {
            const uint32_t *from = row + at / 4;
            uint32_t first = 0;
            uint32_t second = 0;
            for (int32_t tap = 0; tap < 9; tap++) {
                const uint32_t *pixel = from + tap / 3 * (p->line / 4) + tap % 3 * 2;
                first += (uint32_t)p->weights[tap] * pixel[0];
                second += (uint32_t)p->weights[tap] * pixel[1];
            }
            const struct hil_v7m_sums sums = hil_v7m_sums(first, second);
            out[0] = hil_v6m_output(&scale, sums.c, 2, HIL_V6M_TRIPLES_BITS, 0, -128, 127);
            out[p->c_to_b] = hil_v6m_output(&scale, sums.b, 2, HIL_V6M_TRIPLES_BITS, 0, -128, 127);
            out[p->c_to_b + p->b_to_a] =
                hil_v6m_output(&scale, sums.a, 2, HIL_V6M_TRIPLES_BITS, 0, -128, 127);
            out += p->pixel;
        }
        row += p->below / 4;
    }
}

#endif

/* Packs the lines of a band of one channel, `count` rows whose first window is at row y. */
HIL_INLINE void hil_v6m_depthwise_lines(const struct hil_v6m_depthwise_conv2d_s8_triples *p,
                                        const int8_t *in, int32_t y, int32_t count,
                                        uint32_t *lines) {
    const int8_t fill = (int8_t)p->in_zero_point;
    const int32_t third = (count + 2) / 3;
    const int32_t room = p->line - p->pad_left;
    uint32_t *to = lines + 2 * p->pad_left;
    for (int32_t i = 0; i < p->stride_h * (third - 1) + 3; i++) {
        const int8_t *from[3];
        int32_t steps[3];
        int32_t at = y + i;
#pragma GCC unroll 3
        for (int32_t j = 0; j < 3; j++) {
            const int is_inside = (uint32_t)at < (uint32_t)p->in_h;
            from[j] = is_inside ? in + at * p->in_w * p->in_c : &fill;
            steps[j] = is_inside ? p->in_c : 0;
            at += third * p->stride_h;
        }
        hil_v6m_depthwise_pack(from, steps, room < p->in_w ? room : p->in_w, to);
        to += 2 * p->line;
    }
}

/* The outputs of a filter, `count` rows, from the lines of its channel. */
HIL_INLINE void hil_v6m_depthwise_outputs(const struct hil_v6m_depthwise_conv2d_s8_triples *p,
                                          struct hil_v6m_depthwise_rows *rows,
                                          const int8_t *weights, const int32_t *scales, int8_t *out,
                                          int32_t count, const uint32_t *lines) {
#pragma GCC unroll 9
    for (int32_t i = 0; i < 9; i++) {
        rows->weights[i] = weights[i];
    }
    const struct hil_v6m_scale scale = hil_v6m_scale(scales);
    rows->middle = scale.middle;
    rows->high = scale.high;
    rows->bias = scale.bias;
    rows->shift = scale.shift;
    const int32_t third = (count + 2) / 3;
    const int32_t row = p->out_w * rows->pixel;
    const int32_t apart = third * row;
    int32_t done = 0;
    /* Rows that all three have, then those that b and a have, then those of a alone. */
#pragma GCC unroll 3
    for (int32_t have = 3; have > 0; have--) {
        int32_t end = count - (have - 1) * third;
        end = end < third ? end : third;
        if (end > done) {
            rows->c_to_b = have == 3 ? -apart : 0;
            rows->b_to_a = have >= 2 ? -apart : 0;
            rows->count = end - done;
            rows->out = out + done * row + (have - 1) * apart;
            rows->from = lines + 2 * done * p->stride_h * p->line;
            hil_v6m_depthwise_rows(rows);
            done = end;
        }
    }
}

HIL_INLINE void
hil_v6m_depthwise_conv2d_s8_triples(const struct hil_v6m_depthwise_conv2d_s8_triples *p,
                                    const int8_t *in, int8_t *out, void *scratch) {
    uint32_t *lines = (uint32_t *)scratch;
    /* Around the image; what is in it is written anew for each band. */
    uint32_t *const end = lines + 2 * p->line * (p->stride_h * ((p->band + 2) / 3 - 1) + 3);
    for (uint32_t *to = lines; to != end;) {
        to = hil_v7m_widen(p->in_zero_point, p->in_zero_point, p->in_zero_point, 0, 2, to);
    }
    struct hil_v6m_depthwise_rows rows;
    rows.window = 8 * p->stride_w;
    rows.windows = 8 * p->stride_w * p->out_w;
    rows.below = 8 * p->stride_h * p->line;
    rows.line = 8 * p->line;
    rows.pixel = p->in_c * p->depth_multiplier;
    for (int32_t images = p->batch; images > 0; images--) {
        const int8_t *weights = p->weights;
        const int32_t *scales = p->scales;
        for (int32_t channel = 0; channel < p->in_c; channel++) {
            int32_t y = -p->pad_top;
            int8_t *to = out + channel * p->depth_multiplier;
            for (int32_t left = p->out_h; left > 0; left -= p->band) {
                const int32_t count = left < p->band ? left : p->band;
                hil_v6m_depthwise_lines(p, in + channel, y, count, lines);
                for (int32_t i = 0; i < p->depth_multiplier; i++) {
                    hil_v6m_depthwise_outputs(p, &rows, weights + 9 * i,
                                              scales + HIL_V6M_SCALE_WORDS * i, to + i, count,
                                              lines);
                }
                y += p->band * p->stride_h;
                to += p->band * p->out_w * rows.pixel;
            }
            weights += 9 * p->depth_multiplier;
            scales += HIL_V6M_SCALE_WORDS * p->depth_multiplier;
        }
        in += p->in_h * p->in_w * p->in_c;
        out += p->out_h * p->out_w * rows.pixel;
    }
}

#endif
