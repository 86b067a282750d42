/* Convolution of int8 images in little scratch: some taps of two or three windows at a time are
 * widened and multiplied with the filters, whose partial sums wait in scratch for the next taps.
 *
 * Tile: 3 windows x 2 columns x 4 elements of depth, a unit; or 2 windows. A column is an output
 * channel.
 *
 * Registers, at the top of a unit:
 *
 *   r4 r5 r6    s0 s1 s2: sums of the first column, of each window      (r4 r5 for 2 windows)
 *   r8 r9 r10   s3 s4 s5: 256 times the second column's and the first's (r8 r9)
 *   r0 r1 r2    half-words of the windows            r11  rows: the next unit, widened
 *   r3 r12      two words of weights                 lr   stream: the next weights
 *                                                    r7   untouched: a frame pointer may live there
 *   memory: where the rows start and end, where the pair's sums lie, and where the last end
 *
 * Data: taps are widened as in hil/kernels/dsp/widen.h, word by word of all windows next to each
 * other. The stream, packed by `_partial()`, of P pairs of columns and U units of taps:
 *
 *   +0              of each pair b0 and 256 * b1 + b0: what the sums start from
 *   +8P             of the first taps: of each pair, of each unit, the words of pairs_s8.h, packed
 *   +8P + 8PU       of the next taps, and so on
 *   behind the last requantization parameters of each output channel: the scales of pairs_s8.h
 *
 * Sums of a pair: s0 of each window, then s3 of each.
 *
 * Order: all of a group of windows is read before the first of their outputs is written.
 *
 * Bounds: as for packed weights in pairs_s8.h: sums are modulo 2^32, and what they end as does not
 * depend on the order in which they are added up.
 *
 * Output: as in pairs_s8.h.
 *
 * Scratch: of each window 8 bytes a pair of columns, for sums, and 8 bytes a unit of taps.
 *
 * Cost: a unit takes 17 instructions for 24 MACs of 3 windows and 13 for 16 of 2; a pair of columns
 * 21 and 17 for each part of a window, and about 85 and 75 for its outputs. Measured
 * (`python tools/measure.py costs`, instructions under QEMU) a MAC of 3x3 of 64 channels (ic): of 3
 * windows 0.794 by rows of the filter and 0.812 by pixels, of 2 windows 0.887 and 0.912. Whole
 * windows (conv2d_s8_column_pairs.h, packed) take 0.775 and 0.865 with 1.8 times the scratch of
 * rows.
 *
 * Tests: the twin is hil_dsp_partial_sums in C, which other cores and the host run
 * (tests/c/test_dsp_kernels.py); the assembly is compared in tests/board/test_kernels.py.
 */
#ifndef HIL_KERNELS_DSP_CONV2D_S8_PARTIAL_H
#define HIL_KERNELS_DSP_CONV2D_S8_PARTIAL_H

#include "hil/kernels/dsp/pairs_s8.h"
#include "hil/kernels/dsp/windows.h"

/*@kernel
name = "hil_dsp_conv2d_s8_partial"
requires = ["dsp"]
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "8 * group * ((out_c + 1) // 2 + units)"
order = ["pixels group"]
reads = "window"
code = 1200
band_code = 1850
[cost]
tile = "batch * ((out_h * out_w + group - 1) // group)"
part = "tile * parts"
unit = "part * units * group"
border = "unit * filter_w / in_w"
pair = "tile * ((out_c + 1) // 2)"
output_pair = "pair * group"
part_pair = "pair * parts"
part_output_pair = "part_pair * group"
unit_weights = "part_pair * units"
unit_row = "unit_weights * group"
single_turn = "unit_weights * (units % 4 != 0) * (units % 3 != 0)"
clamped = "batch * out_h * out_w * out_c * (high - low != 255)"
@*/
struct hil_dsp_conv2d_s8_partial {
    HIL_IMAGES_FIELDS;
    int32_t out_c; /* output channels */
    HIL_WINDOW_FIELDS;
    int32_t group;         /* windows at a time, 2 or 3 */
    int32_t taps;          /* pixels of a row of the filter at a time */
    int32_t parts;         /* of a window, each of so many */
    int32_t units;         /* of four elements of them */
    int32_t signs;         /* whether negative sums lack something */
    int32_t shift;         /* to the right */
    const int32_t *stream; /* as drawn above */
    const int8_t *border;  /* a pixel outside the image */
    HIL_DSP_RANGE_FIELDS;
};

/* Windows of a group, in a form that bounds loops over arrays for the compiler. */
HIL_INLINE int32_t hil_dsp_partial_group(const struct hil_dsp_conv2d_s8_partial *p) {
    return p->group == 2 ? 2 : HIL_DSP_MAX_ROWS;
}

/* Columns of outputs in pairs. */
HIL_INLINE int32_t hil_dsp_partial_pairs(const struct hil_dsp_conv2d_s8_partial *p) {
    return (p->out_c + 1) / 2;
}

#if HIL_DSP_ASSEMBLY

/* clang-format off */

#define HIL_DSP_PARTIAL_REGISTERS_2 "{r4, r5, r8, r9}"
#define HIL_DSP_PARTIAL_REGISTERS_3 "{r4, r5, r6, r8, r9, r10}"

#define HIL_DSP_PARTIAL_SUMS(TIMES, ROWS)                                                          \
    __asm__ volatile(                                                                              \
        "1:\n\t"                                                                                   \
        "ldr r0, %[sums]\n\t"                                                                      \
        "ldr %[rows], %[start]\n\t"                                                                \
        "ldmia r0, " HIL_DSP_PARTIAL_REGISTERS_##ROWS "\n\t"                                       \
        "2:\n\t" HIL_DSP_UNTIL(TIMES(HIL_DSP_UNIT_PACKED_##ROWS), "%[end]")                        \
        "ldr r0, %[sums]\n\t"                                                                      \
        "ldr r1, %[last]\n\t"                                                                      \
        "stmia r0!, " HIL_DSP_PARTIAL_REGISTERS_##ROWS "\n\t"                                      \
        "str r0, %[sums]\n\t"                                                                      \
        "cmp r0, r1\n\t"                                                                           \
        "bne 1b\n\t"                                                                               \
        : [s0] "=&r"(s0), [s1] "=&r"(s1), [s2] "=&r"(s2), [s3] "=&r"(s3), [s4] "=&r"(s4),          \
          [s5] "=&r"(s5), [rows] "=&r"(rows), [w] "=&r"(w), [stream] "+r"(at), [sums] "+m"(sums)   \
        : [start] "m"(taps), [end] "m"(end), [last] "m"(last)                                      \
        : "r0", "r1", "r2", "r3", "cc", "memory")

#define HIL_DSP_PARTIAL_OF(ROWS)                                                                   \
    if (p->units % 8 == 0) {                                                                       \
        HIL_DSP_PARTIAL_SUMS(HIL_DSP_X8, ROWS);                                                    \
    } else if (p->units % 4 == 0) {                                                                \
        HIL_DSP_PARTIAL_SUMS(HIL_DSP_X4, ROWS);                                                    \
    } else if (p->units % 3 == 0) {                                                                \
        HIL_DSP_PARTIAL_SUMS(HIL_DSP_X3, ROWS);                                                    \
    } else {                                                                                       \
        HIL_DSP_PARTIAL_SUMS(HIL_DSP_X1, ROWS);                                                    \
    }

/* clang-format on */

#endif

/* Adds up the products of widened taps with the next weights of all pairs of columns, and says
 * where those after them lie. */
HIL_INLINE const int32_t *hil_dsp_partial_sums(const struct hil_dsp_conv2d_s8_partial *p,
                                               const uint32_t *taps, const int32_t *stream,
                                               uint32_t *sums) {
    const int32_t group = hil_dsp_partial_group(p);
#if HIL_DSP_ASSEMBLY
    const uint32_t *const end = taps + 2 * group * p->units;
    const uint32_t *const last = sums + 2 * group * hil_dsp_partial_pairs(p);
    register uint32_t s0 __asm__("r4");
    register uint32_t s1 __asm__("r5");
    register uint32_t s2 __asm__("r6");
    register uint32_t s3 __asm__("r8");
    register uint32_t s4 __asm__("r9");
    register uint32_t s5 __asm__("r10");
    register const uint32_t *rows __asm__("r11");
    register uint32_t w __asm__("r12");
    register const int32_t *at __asm__("lr") = stream;
    if (group == 2) {
        HIL_DSP_PARTIAL_OF(2)
    } else {
        HIL_DSP_PARTIAL_OF(3)
    }
    return at;
#else
    for (int32_t pairs = hil_dsp_partial_pairs(p); pairs > 0; pairs--) {
        for (int32_t word = 0; word < 2 * p->units; word++) {
            const uint32_t both = (uint32_t)*stream++;
            for (int32_t i = 0; i < group; i++) {
                const uint32_t elements = taps[group * word + i];
                uint32_t *const sum = sums + i;
                sum[0] = hil_dsp_dual(elements, hil_dsp_even(both), sum[0]);
                sum[group] = hil_dsp_dual(elements, both, sum[group]);
            }
        }
        sums += 2 * group;
    }
    return stream;
#endif
}

/* Widens the taps of a group of windows that lie `down` and `right` of the windows' first ones. */
HIL_INLINE void hil_dsp_partial_widen(const struct hil_dsp_conv2d_s8_partial *p, const int8_t *in,
                                      const struct hil_dsp_window *at, int32_t down, int32_t right,
                                      uint32_t *to) {
    const int32_t group = hil_dsp_partial_group(p);
    const int8_t *from[HIL_DSP_MAX_ROWS] = {NULL};
    int inside = p->dilation_w == 1 || p->taps == 1;
#pragma GCC unroll 3
    for (int32_t i = 0; i < group; i++) {
        const int32_t y = at[i].y + down;
        const int32_t x = at[i].x + right;
        inside = inside && y >= 0 && y < p->in_h && x >= 0 && x + p->taps <= p->in_w;
        from[i] = in + (y * p->in_w + x) * p->in_c;
    }
    if (inside) {
        hil_dsp_pairs_widen(group, from, p->taps * p->in_c, to);
        return;
    }
    for (int32_t tap = 0; tap < p->taps; tap++) {
        for (int32_t i = 0; i < group; i++) {
            const int32_t y = at[i].y + down;
            const int32_t x = at[i].x + right + tap * p->dilation_w;
            const int there = y >= 0 && y < p->in_h && x >= 0 && x < p->in_w;
            from[i] = there ? in + (y * p->in_w + x) * p->in_c : p->border;
        }
        to = hil_dsp_pairs_widen(group, from, p->in_c, to);
    }
}

/* An output from 256 times its sum. */
HIL_INLINE int8_t hil_dsp_partial_output(const struct hil_dsp_conv2d_s8_partial *p, uint32_t sum,
                                         const int32_t *scale) {
    const struct hil_dsp_affine line = {
        .multiplier = scale[0],
        .addend = p->signs && (int32_t)sum < 0 ? scale[1] - scale[2] : scale[1],
    };
    return hil_dsp_scaled((int32_t)sum, line, p->shift);
}

/* The outputs of a group of windows from their sums. Those of a window that is not wanted go where
 * those of the first one go, which come after. */
HIL_INLINE void hil_dsp_partial_outputs(const struct hil_dsp_conv2d_s8_partial *p,
                                        const uint32_t *sums, const int32_t *scales, int32_t wanted,
                                        int8_t *out) {
    const int32_t group = hil_dsp_partial_group(p);
    const int32_t words = p->signs ? 3 : 2;
    int8_t *to[HIL_DSP_MAX_ROWS] = {NULL};
    for (int32_t i = 0; i < group; i++) {
        to[i] = out + (i < wanted ? i : 0) * p->out_c;
    }
    for (int32_t column = 0; column < p->out_c; column += 2) {
#pragma GCC unroll 3
        for (int32_t i = group - 1; i >= 0; i--) {
            to[i][column] = hil_dsp_partial_output(p, sums[i] << 8, scales);
            if (column + 1 < p->out_c) {
                to[i][column + 1] =
                    hil_dsp_partial_output(p, sums[group + i] - sums[i], scales + words);
            }
        }
        sums += 2 * group;
        scales += 2 * words;
    }
}

/* The outputs of a group of windows, of which some are wanted. */
HIL_INLINE void hil_dsp_partial_windows(const struct hil_dsp_conv2d_s8_partial *p, const int8_t *in,
                                        const struct hil_dsp_window *at, int32_t wanted,
                                        int8_t *out, uint32_t *sums) {
    const int32_t group = hil_dsp_partial_group(p);
    uint32_t *to = sums;
    const int32_t *stream = p->stream;
    for (int32_t pairs = hil_dsp_partial_pairs(p); pairs > 0; pairs--) {
#pragma GCC unroll 3
        for (int32_t i = 0; i < group; i++) {
            to[i] = (uint32_t)stream[0];
            to[group + i] = (uint32_t)stream[1];
        }
        to += 2 * group;
        stream += 2;
    }
    for (int32_t y = 0; y < p->filter_h; y++) {
        for (int32_t x = 0; x < p->filter_w; x += p->taps) {
            hil_dsp_partial_widen(p, in, at, y * p->dilation_h, x * p->dilation_w, to);
            stream = hil_dsp_partial_sums(p, to, stream, sums);
        }
    }
    hil_dsp_partial_outputs(p, sums, stream, wanted, out);
}

HIL_INLINE void hil_dsp_conv2d_s8_partial(const struct hil_dsp_conv2d_s8_partial *p,
                                          const int8_t *in, int8_t *out, void *scratch) {
    const int32_t group = hil_dsp_partial_group(p);
    const struct hil_dsp_walk walk = HIL_DSP_WALK_OF(p, group);
    for (int32_t images = p->batch; images > 0; images--) {
        struct hil_dsp_window next = {.y = -p->pad_top, .x = -p->pad_left};
        int32_t out_x = 0;
        for (int32_t left = p->out_h * p->out_w; left > 0; left -= group) {
            struct hil_dsp_window at[HIL_DSP_MAX_ROWS];
            const int32_t wanted = left < group ? left : group;
            hil_dsp_windows_next(&walk, left, &next, &out_x, at);
            hil_dsp_partial_windows(p, in, at, wanted, out, (uint32_t *)scratch);
            out += wanted * p->out_c;
        }
        const int32_t size = p->out_h * p->out_w * p->out_c;
        hil_dsp_clamp_s8(out - size, size, p->low, p->high);
        in += p->in_h * p->in_w * p->in_c;
    }
}

#endif
