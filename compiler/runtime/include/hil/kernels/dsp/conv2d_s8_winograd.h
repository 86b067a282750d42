/* Convolution of int8 images with 3x3 filters, stride 1, by Winograd's F(2x2, 3x3) in whole
 * numbers: 16 products where the sum over taps takes 36.
 *
 * Four outputs of a 2x2 tile follow from the 4x4 pixels d under their windows as A' (U . V) A,
 * where V = B' d B, and U = 2G g (2G)' is made of the filter g when the layer is compiled:
 *
 *      1  0 -1  0         2  0  0
 *   B' = 0  1  1  0    2G = 1  1  1    A' = 1  1  1  0
 *      0 -1  1  0         1 -1  1         0  1 -1 -1
 *      0  1  0 -1         0  0  2
 *
 * With 2G in place of G all numbers are whole and the result is exactly four times the sum; U is
 * taken 16 times, so it is 64 times. Zero points are in the biases; pixels outside the image hold
 * the input's.
 *
 * Tile: 2 tiles (2 rows x 4 outputs) x 2 filters x 4 channels of depth, at one of 16 places. Places
 * go column by column, of each the rows 1, 2, 0, 3: with M = U . V, the sums of row 0 start from
 * M1 + M2 and those of row 3, whose U is taken negative, from M1 - M2, which makes them A' M.
 *
 *                 tile 0   tile 1          r2 r3   V of tile 0, tile 1: channels 0|2
 *       filter 0    r8       r9            r4 r5   the same: channels 1|3
 *       filter 1    r10      r11           r0 r1   U of filter 0, filter 1: channels 0|2
 *                                          r7 lr   the same: channels 1|3
 *
 * Registers, at the top of a place: r6 V, r12 U, r8 to r11 the four sums; all fourteen are taken.
 *   stack: +0 four sums of M1, then of M1 - M2   +16 where sums go, and where they end
 *          +24 the caller's r7, in which a compiler may keep its frame
 *
 * Data, of U units of four channels:
 *
 *   V, in scratch behind 128 bytes of sums; per two tiles, 16 * 16 * U bytes:
 *       [16 places][unit] +0 tile 0: 0|2   +4 tile 1: 0|2   +8 tile 0: 1|3   +12 tile 1: 1|3
 *   sums, 128 bytes, A' M: [4 columns][2 rows] r8 r9 r10 r11
 *   stream, packed by `_winograd()`; per two filters, in words:
 *       64 * b0, 64 * b1; of each filter multiplier, addend and, with signs, correction;
 *       then U as V is laid, filters in place of tiles: [16 places][unit][4 words]
 *
 * Order: four rows of the image are read for each two rows of outputs; V of a row of tiles is
 * complete before its first output is written. Outputs of a tile go from the last to the first, so
 * one that is not wanted may share the place of one that comes after.
 *
 * Bounds: |d| <= 128, each of V is +- four pixels: |V| <= 512. A row of 2G adds up to 3 at most:
 * |U| <= 16 * 3 * 3 * 128 = 18432. Both are half-words. Products add up modulo 2^32, as do A' and
 * A; the result is 64 * sum, exactly so as |sum| < 2^23 (`_proven()`).
 *
 * Output: that of pairs_s8.h, `affine_of()`, with one shift for all channels. Its multipliers are
 * for 256 * sum: they are taken four times where that leaves them 31 bits, else the sums are
 * (`left` = 2).
 *
 * Scratch: 128 bytes of sums, and V of one row of tiles.
 *
 * Cost: 10 instructions for 16 products of a unit and place; 36 MACs take 16 products. Measured
 * (`hil tune` on mps2-an386, instructions under QEMU) a MAC of the direct sum: 3x3 of 16 channels
 * 32x32 (ic) 0.452, of 32 channels 16x16 0.379, of 64 channels 8x8 0.331. U is 3.6 times the
 * weights.
 *
 * Tests: the twins are the loop at the end of hil_dsp_winograd_sums, and hil_dsp_winograd_tile
 * (tests/c/test_dsp_kernels.py, limits: test_sums_at_their_limits); the assembly:
 * tests/board/test_kernels.py. Layout:
 * tests/c/test_kernel_layouts.py.
 */
#ifndef HIL_KERNELS_DSP_CONV2D_S8_WINOGRAD_H
#define HIL_KERNELS_DSP_CONV2D_S8_WINOGRAD_H

#include "hil/dsp.h"
#include "hil/kernels/dsp/clamp_s8.h"
#include "hil/kernels/generic/patch.h"

/*@kernel
name = "hil_dsp_conv2d_s8_winograd"
requires = ["dsp"]
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "128 + 256 * ((out_w + 3) // 4) * units"
order = ["rows 2"]
reads = "window"
window = {filter_h = "3", filter_w = "3", stride_h = "1", stride_w = "1"}
code = 2400
[cost]
tile = "batch * ((out_h + 1) // 2) * ((out_w + 3) // 4)"
unit = "tile * units"
pair = "tile * ((out_c + 1) // 2)"
signed_pair = "pair * signs"
pair_unit = "pair * units"
looped_unit = "pair_unit * (units > 8) * (units != 10) * (units != 12) * (units != 16)"
clamped = "batch * out_h * out_w * out_c * (high - low != 255)"
@*/
struct hil_dsp_conv2d_s8_winograd {
    HIL_IMAGES_FIELDS;
    int32_t out_c;         /* output channels */
    int32_t pad_top;       /* rows by which the first window reaches above the image */
    int32_t pad_left;      /* columns by which the first window reaches beyond the image */
    int32_t units;         /* of four input channels */
    int32_t signs;         /* whether negative sums lack something */
    int32_t shift;         /* to the right, of all channels */
    int32_t left;          /* to the left, of all sums, 0 or 2 */
    const int32_t *stream; /* the head draws it */
    const int8_t *border;  /* a pixel outside the image */
    HIL_DSP_RANGE_FIELDS;
};

#define HIL_DSP_WINOGRAD_PLACES 16
#define HIL_DSP_WINOGRAD_SUM_WORDS 32

/* A layer, whatever its weights are stored as. */
struct hil_dsp_winograd {
    HIL_IMAGES_FIELDS;
    int32_t out_c;
    int32_t pad_top;
    int32_t pad_left;
    int32_t units;
    int32_t signs;
    int32_t shift;
    int32_t left;
    int32_t single; /* whether U is of G with ones in place of 2G, row 3 with its own sign */
    const int8_t *border;
};

#define HIL_DSP_WINOGRAD(p, single_)                                                               \
    {                                                                                              \
        .batch = (p)->batch, .in_h = (p)->in_h, .in_w = (p)->in_w, .in_c = (p)->in_c,              \
        .out_h = (p)->out_h, .out_w = (p)->out_w, .out_c = (p)->out_c, .pad_top = (p)->pad_top,    \
        .pad_left = (p)->pad_left, .units = (p)->units, .signs = (p)->signs, .shift = (p)->shift,  \
        .left = (p)->left, .single = (single_), .border = (p)->border,                             \
    }

/* Words of V of two tiles, and of U of two filters. */
HIL_INLINE int32_t hil_dsp_winograd_words(const struct hil_dsp_winograd *p) {
    return HIL_DSP_WINOGRAD_PLACES * 4 * p->units;
}

/* A unit of two rows of the image, one of which is added to or taken from the other. */
struct hil_dsp_winograd_rows {
    const int8_t *first;
    const int8_t *second;
    int32_t first_step; /* from pixel to pixel, 0 for a row outside the image */
    int32_t second_step;
    const int8_t *border;
    int32_t width;
};

/* Channels 0 and 2 of a unit, channels 1 and 3. */
struct hil_dsp_winograd_unit {
    uint32_t even;
    uint32_t odd;
};

HIL_INLINE struct hil_dsp_winograd_unit hil_dsp_winograd_added(struct hil_dsp_winograd_unit a,
                                                               struct hil_dsp_winograd_unit b) {
    return (struct hil_dsp_winograd_unit){
        .even = hil_dsp_add_pairs(a.even, b.even),
        .odd = hil_dsp_add_pairs(a.odd, b.odd),
    };
}

HIL_INLINE struct hil_dsp_winograd_unit hil_dsp_winograd_taken(struct hil_dsp_winograd_unit a,
                                                               struct hil_dsp_winograd_unit b) {
    return (struct hil_dsp_winograd_unit){
        .even = hil_dsp_sub_pairs(a.even, b.even),
        .odd = hil_dsp_sub_pairs(a.odd, b.odd),
    };
}

/* A column of the image, in one of the four rows of B' d. */
HIL_INLINE struct hil_dsp_winograd_unit hil_dsp_winograd_column(const int8_t *first,
                                                                const int8_t *second, int added) {
    const uint32_t a = hil_dsp_load(first);
    const uint32_t b = hil_dsp_load(second);
    const struct hil_dsp_winograd_unit one = {.even = hil_dsp_even(a), .odd = hil_dsp_odd(a)};
    if (added) {
        return (struct hil_dsp_winograd_unit){
            .even = hil_dsp_add_even(one.even, b),
            .odd = hil_dsp_add_odd(one.odd, b),
        };
    }
    const struct hil_dsp_winograd_unit other = {.even = hil_dsp_even(b), .odd = hil_dsp_odd(b)};
    return hil_dsp_winograd_taken(one, other);
}

/* The same for a column that may lie outside the image. */
HIL_INLINE struct hil_dsp_winograd_unit
hil_dsp_winograd_any_column(const struct hil_dsp_winograd_rows *rows, int32_t x, int added) {
    if (x < 0 || x >= rows->width) {
        return hil_dsp_winograd_column(rows->border, rows->border, added);
    }
    return hil_dsp_winograd_column(rows->first + x * rows->first_step,
                                   rows->second + x * rows->second_step, added);
}

HIL_INLINE void hil_dsp_winograd_store(struct hil_dsp_winograd_unit unit, uint32_t *to) {
    to[0] = unit.even;
    to[2] = unit.odd;
}

/* A unit of one of the four rows of V, for all tiles of a row. */
HIL_INLINE void hil_dsp_winograd_line(const struct hil_dsp_winograd *p,
                                      const struct hil_dsp_winograd_rows *rows, int added,
                                      uint32_t *to) {
    int32_t x = -p->pad_left;
    struct hil_dsp_winograd_unit c0 = hil_dsp_winograd_any_column(rows, x, added);
    struct hil_dsp_winograd_unit c1 = hil_dsp_winograd_any_column(rows, x + 1, added);
    for (int32_t left = (p->out_w + 3) / 4; left > 0; left--) {
#pragma GCC unroll 2
        for (int32_t tile = 0; tile < 2; tile++) {
            struct hil_dsp_winograd_unit c2;
            struct hil_dsp_winograd_unit c3;
            x += 2;
            if (x >= 0 && x + 1 < rows->width) {
                const int8_t *const first = rows->first + x * rows->first_step;
                const int8_t *const second = rows->second + x * rows->second_step;
                c2 = hil_dsp_winograd_column(first, second, added);
                c3 = hil_dsp_winograd_column(first + rows->first_step, second + rows->second_step,
                                             added);
            } else {
                c2 = hil_dsp_winograd_any_column(rows, x, added);
                c3 = hil_dsp_winograd_any_column(rows, x + 1, added);
            }
            hil_dsp_winograd_store(hil_dsp_winograd_taken(c0, c2), to + tile);
            hil_dsp_winograd_store(hil_dsp_winograd_added(c1, c2), to + tile + 16 * p->units);
            hil_dsp_winograd_store(hil_dsp_winograd_taken(c2, c1), to + tile + 32 * p->units);
            hil_dsp_winograd_store(hil_dsp_winograd_taken(c1, c3), to + tile + 48 * p->units);
            c0 = c2;
            c1 = c3;
        }
        to += hil_dsp_winograd_words(p);
    }
}

/* V of a row of tiles whose first pixels lie in row y of the image. */
HIL_INLINE void hil_dsp_winograd_tiles(const struct hil_dsp_winograd *p, const int8_t *in,
                                       int32_t y, uint32_t *to) {
    const int8_t *pixels[4];
    int32_t steps[4];
    for (int32_t i = 0; i < 4; i++) {
        const int inside = y + i >= 0 && y + i < p->in_h;
        pixels[i] = inside ? in + (y + i) * p->in_w * p->in_c : p->border;
        steps[i] = inside ? p->in_c : 0;
    }
    static const uint8_t firsts[4] = {0, 1, 2, 1};
    static const uint8_t seconds[4] = {2, 2, 1, 3};
    static const uint8_t places[4] = {2, 0, 1, 3};
#pragma GCC unroll 4
    for (int32_t row = 0; row < 4; row++) {
        const int32_t first = firsts[row];
        const int32_t second = seconds[row];
        for (int32_t unit = 0; unit < p->units; unit++) {
            const struct hil_dsp_winograd_rows rows = {
                .first = pixels[first] + 4 * unit,
                .second = pixels[second] + 4 * unit,
                .first_step = steps[first],
                .second_step = steps[second],
                .border = p->border + 4 * unit,
                .width = p->in_w,
            };
            hil_dsp_winograd_line(p, &rows, row == 1, to + 4 * (places[row] * p->units + unit));
        }
    }
}

#if HIL_DSP_ASSEMBLY

/* clang-format off */

/* A unit of two tiles by two filters: ten instructions for sixteen products. */
#define HIL_DSP_WINOGRAD_NEW(sum, a, b) "smuad " sum ", " a ", " b "\n\t"
#define HIL_DSP_WINOGRAD_MORE(sum, a, b) "smlad " sum ", " a ", " b ", " sum "\n\t"

#define HIL_DSP_WINOGRAD_HALF(multiply, v0, v1, u0, u1)                                            \
    multiply("r8", v0, u0)                                                                         \
    multiply("r9", v1, u0)                                                                         \
    multiply("r10", v0, u1)                                                                        \
    multiply("r11", v1, u1)

#define HIL_DSP_WINOGRAD_ANY_UNIT(multiply)                                                        \
    "ldmia %[u]!, {r0, r1, r7, lr}\n\t"                                                            \
    "ldmia %[v]!, {r2, r3, r4, r5}\n\t"                                                            \
    HIL_DSP_WINOGRAD_HALF(multiply, "r2", "r3", "r0", "r1")                                        \
    HIL_DSP_WINOGRAD_HALF(HIL_DSP_WINOGRAD_MORE, "r4", "r5", "r7", "lr")

#define HIL_DSP_WINOGRAD_FIRST_UNIT HIL_DSP_WINOGRAD_ANY_UNIT(HIL_DSP_WINOGRAD_NEW)
#define HIL_DSP_WINOGRAD_UNIT HIL_DSP_WINOGRAD_ANY_UNIT(HIL_DSP_WINOGRAD_MORE)

/* All units of a place, from new sums or the ones that there are. */
#define HIL_DSP_WINOGRAD_1(FIRST) FIRST
#define HIL_DSP_WINOGRAD_2(FIRST) FIRST HIL_DSP_WINOGRAD_UNIT
#define HIL_DSP_WINOGRAD_3(FIRST) HIL_DSP_WINOGRAD_2(FIRST) HIL_DSP_WINOGRAD_UNIT
#define HIL_DSP_WINOGRAD_4(FIRST) HIL_DSP_WINOGRAD_3(FIRST) HIL_DSP_WINOGRAD_UNIT
#define HIL_DSP_WINOGRAD_5(FIRST) HIL_DSP_WINOGRAD_4(FIRST) HIL_DSP_WINOGRAD_UNIT
#define HIL_DSP_WINOGRAD_6(FIRST) HIL_DSP_WINOGRAD_5(FIRST) HIL_DSP_WINOGRAD_UNIT
#define HIL_DSP_WINOGRAD_7(FIRST) HIL_DSP_WINOGRAD_6(FIRST) HIL_DSP_WINOGRAD_UNIT
#define HIL_DSP_WINOGRAD_8(FIRST)                                                                  \
    HIL_DSP_WINOGRAD_4(FIRST) HIL_DSP_WINOGRAD_4(HIL_DSP_WINOGRAD_UNIT)
#define HIL_DSP_WINOGRAD_10(FIRST)                                                                 \
    HIL_DSP_WINOGRAD_8(FIRST) HIL_DSP_WINOGRAD_2(HIL_DSP_WINOGRAD_UNIT)
#define HIL_DSP_WINOGRAD_12(FIRST)                                                                 \
    HIL_DSP_WINOGRAD_8(FIRST) HIL_DSP_WINOGRAD_4(HIL_DSP_WINOGRAD_UNIT)
#define HIL_DSP_WINOGRAD_16(FIRST)                                                                 \
    HIL_DSP_WINOGRAD_8(FIRST) HIL_DSP_WINOGRAD_8(HIL_DSP_WINOGRAD_UNIT)

/* A column of places: 20 instructions besides the units. */
#define HIL_DSP_WINOGRAD_SUMS(UNITS)                                                               \
    __asm__ volatile("sub sp, sp, #32\n\t"                                                         \
                     "strd %[to], %[end], [sp, #16]\n\t"                                           \
                     "str r7, [sp, #24]\n\t"                                                       \
                     "1:\n\t"                                                                      \
                     UNITS(HIL_DSP_WINOGRAD_FIRST_UNIT)                                            \
                     "stmia sp, {r8, r9, r10, r11}\n\t"                                            \
                     UNITS(HIL_DSP_WINOGRAD_FIRST_UNIT)                                            \
                     "ldmia sp, {r2, r3, r4, r5}\n\t"                                              \
                     "sub r0, r2, r8\n\t"                                                          \
                     "add r8, r2, r8\n\t"                                                          \
                     "sub r2, r3, r9\n\t"                                                          \
                     "add r9, r3, r9\n\t"                                                          \
                     "sub r3, r4, r10\n\t"                                                         \
                     "add r10, r4, r10\n\t"                                                        \
                     "sub r4, r5, r11\n\t"                                                         \
                     "add r11, r5, r11\n\t"                                                        \
                     "stmia sp, {r0, r2, r3, r4}\n\t"                                              \
                     UNITS(HIL_DSP_WINOGRAD_UNIT)                                                  \
                     "ldr r0, [sp, #16]\n\t"                                                       \
                     "stmia r0!, {r8, r9, r10, r11}\n\t"                                           \
                     "str r0, [sp, #16]\n\t"                                                       \
                     "ldmia sp, {r8, r9, r10, r11}\n\t"                                            \
                     UNITS(HIL_DSP_WINOGRAD_UNIT)                                                  \
                     "ldrd r0, r1, [sp, #16]\n\t"                                                  \
                     "stmia r0!, {r8, r9, r10, r11}\n\t"                                           \
                     "str r0, [sp, #16]\n\t"                                                       \
                     "cmp r0, r1\n\t"                                                              \
                     "bne 1b\n\t"                                                                  \
                     "ldr r7, [sp, #24]\n\t"                                                       \
                     "add sp, sp, #32\n\t"                                                         \
                     : [v] "+r"(at_v), [u] "+r"(at_u), [to] "+r"(at), [end] "+r"(end)              \
                     :                                                                             \
                     : "r0", "r1", "r4", "r5", "r8", "r9", "r10", "r11", "lr", "cc", "memory")

/* clang-format on */

#endif

/* Sums of two tiles and two filters: both tiles with the first filter, then with the second. */
struct hil_dsp_winograd_four {
    uint32_t s[4];
};

/* The sums with the products of all units at a place. */
HIL_INLINE struct hil_dsp_winograd_four hil_dsp_winograd_place(int32_t units, const uint32_t *v,
                                                               const int32_t *u,
                                                               struct hil_dsp_winograd_four sums) {
    for (int32_t pairs = 2 * units; pairs > 0; pairs--) {
        for (int32_t i = 0; i < 4; i++) {
            sums.s[i] = hil_dsp_dual(v[i % 2], (uint32_t)u[i / 2], sums.s[i]);
        }
        v += 2;
        u += 2;
    }
    return sums;
}

/* A' (U . V) of two tiles and two filters, column by column. */
HIL_INLINE void hil_dsp_winograd_sums(int32_t units, const uint32_t *v, const int32_t *u,
                                      uint32_t *to) {
#if HIL_DSP_ASSEMBLY
    if (__builtin_constant_p(units) && (units <= 8 || units == 10 || units == 12 || units == 16)) {
        register uint32_t *at __asm__("r2") = to;
        register uint32_t *end __asm__("r3") = to + HIL_DSP_WINOGRAD_SUM_WORDS;
        register const uint32_t *at_v __asm__("r6") = v;
        register const int32_t *at_u __asm__("r12") = u;
        if (units == 1) {
            HIL_DSP_WINOGRAD_SUMS(HIL_DSP_WINOGRAD_1);
        } else if (units == 2) {
            HIL_DSP_WINOGRAD_SUMS(HIL_DSP_WINOGRAD_2);
        } else if (units == 3) {
            HIL_DSP_WINOGRAD_SUMS(HIL_DSP_WINOGRAD_3);
        } else if (units == 4) {
            HIL_DSP_WINOGRAD_SUMS(HIL_DSP_WINOGRAD_4);
        } else if (units == 5) {
            HIL_DSP_WINOGRAD_SUMS(HIL_DSP_WINOGRAD_5);
        } else if (units == 6) {
            HIL_DSP_WINOGRAD_SUMS(HIL_DSP_WINOGRAD_6);
        } else if (units == 7) {
            HIL_DSP_WINOGRAD_SUMS(HIL_DSP_WINOGRAD_7);
        } else if (units == 8) {
            HIL_DSP_WINOGRAD_SUMS(HIL_DSP_WINOGRAD_8);
        } else if (units == 10) {
            HIL_DSP_WINOGRAD_SUMS(HIL_DSP_WINOGRAD_10);
        } else if (units == 12) {
            HIL_DSP_WINOGRAD_SUMS(HIL_DSP_WINOGRAD_12);
        } else {
            HIL_DSP_WINOGRAD_SUMS(HIL_DSP_WINOGRAD_16);
        }
        return;
    }
#endif
    const struct hil_dsp_winograd_four none = {{0}};
    for (int32_t column = 0; column < 4; column++) {
        const struct hil_dsp_winograd_four second = hil_dsp_winograd_place(units, v, u, none);
        const struct hil_dsp_winograd_four third =
            hil_dsp_winograd_place(units, v + 4 * units, u + 4 * units, none);
        struct hil_dsp_winograd_four upper;
        struct hil_dsp_winograd_four lower;
        for (int32_t i = 0; i < 4; i++) {
            upper.s[i] = second.s[i] + third.s[i];
            lower.s[i] = second.s[i] - third.s[i];
        }
        upper = hil_dsp_winograd_place(units, v + 8 * units, u + 8 * units, upper);
        lower = hil_dsp_winograd_place(units, v + 12 * units, u + 12 * units, lower);
        memcpy(to, &upper, sizeof upper);
        memcpy(to + 4, &lower, sizeof lower);
        v += 16 * units;
        u += 16 * units;
        to += 8;
    }
}

/* What a filter's outputs have in common. */
struct hil_dsp_winograd_filter {
    uint32_t bias; /* 64 times it */
    struct hil_dsp_affine scale;
    int32_t correction; /* with signs */
};

/* The output of a sum; `correction` is taken from the addend of sums below 0. */
HIL_INLINE int8_t hil_dsp_winograd_output(uint32_t sum, struct hil_dsp_affine scale,
                                          int32_t correction, int32_t left, int32_t shift) {
    const int32_t scaled = (int32_t)(sum << left);
    scale.addend -= scaled < 0 ? correction : 0;
    return hil_dsp_scaled(scaled, scale, shift);
}

/* A tile: A' M A of every fourth of `sums`, which are A' M. Outputs that are not wanted go where a
 * wanted one goes that comes after: steps are 0 to a row and a column beyond the image's last. */
HIL_INLINE void hil_dsp_winograd_tile(const struct hil_dsp_winograd *p,
                                      const struct hil_dsp_winograd_filter *filter,
                                      const uint32_t *sums, int8_t *out, int32_t row,
                                      int32_t column) {
    const int32_t correction = p->signs ? filter->correction : 0;
#pragma GCC unroll 2
    for (int32_t y = 1; y >= 0; y--) {
        const uint32_t *const m = sums + 4 * y;
        const uint32_t second = m[8] + filter->bias;
        const uint32_t third = m[16];
        int8_t *const to = y == 0 ? out : out + row;
        to[column] = hil_dsp_winograd_output(second - third - (m[24] << p->single), filter->scale,
                                             correction, p->left, p->shift);
        to[0] = hil_dsp_winograd_output((m[0] << p->single) + second + third, filter->scale,
                                        correction, p->left, p->shift);
    }
}

#if HIL_DSP_ASSEMBLY

/* clang-format off */

#define HIL_DSP_WINOGRAD_ASIS(sum)
#define HIL_DSP_WINOGRAD_SHIFTED(sum) "lsl " sum ", " sum ", #%c[left]\n\t"
#define HIL_DSP_WINOGRAD_ONCE ""
#define HIL_DSP_WINOGRAD_TWICE ", lsl #1"
#define HIL_DSP_WINOGRAD_PLAIN(sum) "smmla " sum ", " sum ", r9, r10\n\t"
#define HIL_DSP_WINOGRAD_SIGNED(sum)                                                               \
    "and r12, r6, " sum ", asr #31\n\t"                                                            \
    "sub r12, r10, r12\n\t"                                                                        \
    "smmla " sum ", " sum ", r9, r12\n\t"
#define HIL_DSP_WINOGRAD_LACK_PLAIN(filter)
#define HIL_DSP_WINOGRAD_LACK_SIGNED(filter) "ldr r6, [%[scales], #16 + 12 * " #filter "]\n\t"
#define HIL_DSP_WINOGRAD_WORDS_PLAIN "8"
#define HIL_DSP_WINOGRAD_WORDS_SIGNED "12"

#define HIL_DSP_WINOGRAD_OUTPUT(SCALED, LEFT, sum)                                                 \
    HIL_DSP_WINOGRAD_##LEFT(sum)                                                                   \
    HIL_DSP_WINOGRAD_##SCALED(sum)                                                                 \
    "ssat " sum ", #8, " sum ", asr #%c[shift]\n\t"

/* A filter's outputs in a row of both tiles: r2 r3 column 0 of A' M, r4 r5 column 1, r6 r8 column 2,
 * r9 r10 column 3, of tile 0 and tile 1; then multiplier and addend, and what negative sums lack. */
#define HIL_DSP_WINOGRAD_ROW(SCALED, LEFT, TIMES, filter, y)                                           \
    "ldrd r2, r3, [%[sums], #16 * " #y " + 8 * " #filter "]\n\t"                                   \
    "ldrd r4, r5, [%[sums], #16 * " #y " + 8 * " #filter " + 32]\n\t"                              \
    "ldrd r6, r8, [%[sums], #16 * " #y " + 8 * " #filter " + 64]\n\t"                              \
    "ldrd r9, r10, [%[sums], #16 * " #y " + 8 * " #filter " + 96]\n\t"                             \
    "ldr r12, [%[scales], #4 * " #filter "]\n\t"                                                   \
    "add r4, r4, r12\n\t"                                                                          \
    "add r5, r5, r12\n\t"                                                                          \
    "add r2, r4, r2" HIL_DSP_WINOGRAD_##TIMES "\n\t"                                               \
    "add r2, r2, r6\n\t"                                                                           \
    "sub r4, r4, r6\n\t"                                                                           \
    "sub r4, r4, r9" HIL_DSP_WINOGRAD_##TIMES "\n\t"                                               \
    "add r3, r5, r3" HIL_DSP_WINOGRAD_##TIMES "\n\t"                                               \
    "add r3, r3, r8\n\t"                                                                           \
    "sub r5, r5, r8\n\t"                                                                           \
    "sub r5, r5, r10" HIL_DSP_WINOGRAD_##TIMES "\n\t"                                              \
    "ldrd r9, r10, [%[scales], #8 + " HIL_DSP_WINOGRAD_WORDS_##SCALED " * " #filter "]\n\t"        \
    HIL_DSP_WINOGRAD_LACK_##SCALED(filter)                                                         \
    HIL_DSP_WINOGRAD_OUTPUT(SCALED, LEFT, "r2")                                                    \
    HIL_DSP_WINOGRAD_OUTPUT(SCALED, LEFT, "r3")                                                    \
    HIL_DSP_WINOGRAD_OUTPUT(SCALED, LEFT, "r4")                                                    \
    HIL_DSP_WINOGRAD_OUTPUT(SCALED, LEFT, "r5")                                                    \
    "strb r2, [%[to" #y "], #" #filter "]\n\t"                                                     \
    "strb r4, [%[to" #y "], #" #filter " + %c[pixel]]\n\t"                                         \
    "strb r3, [%[to" #y "], #" #filter " + 2 * %c[pixel]]\n\t"                                     \
    "strb r5, [%[to" #y "], #" #filter " + 3 * %c[pixel]]\n\t"

#define HIL_DSP_WINOGRAD_WHOLE(SCALED, LEFT, TIMES)                                                \
    __asm__ volatile(HIL_DSP_WINOGRAD_ROW(SCALED, LEFT, TIMES, 0, 1)                               \
                     HIL_DSP_WINOGRAD_ROW(SCALED, LEFT, TIMES, 0, 0)                               \
                     HIL_DSP_WINOGRAD_ROW(SCALED, LEFT, TIMES, 1, 1)                               \
                     HIL_DSP_WINOGRAD_ROW(SCALED, LEFT, TIMES, 1, 0)                               \
                     :                                                                             \
                     : [sums] "r"(from), [to0] "r"(upper), [to1] "r"(lower), [scales] "r"(scales), \
                       [shift] "i"(shift), [left] "i"(left), [pixel] "i"(p->out_c)                 \
                     : "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r12", "cc", "memory")

/* clang-format on */

/* Whether instructions can hold all distances between outputs of a row, which are all wanted. */
HIL_INLINE int hil_dsp_winograd_fits(const struct hil_dsp_winograd *p) {
    return __builtin_constant_p(p->out_c) && __builtin_constant_p(p->out_w) &&
           __builtin_constant_p(p->shift) && __builtin_constant_p(p->left) && p->out_c % 2 == 0 &&
           p->out_w % 4 == 0 && 3 * p->out_c <= 4094;
}

/* Both filters' outputs of two whole tiles: 28 instructions for four. `row` is from a row of
 * outputs to the next, 0 where that is not wanted: it is written first. */
HIL_INLINE void hil_dsp_winograd_whole(const struct hil_dsp_winograd *p, const int32_t *stream,
                                       const uint32_t *sums, int8_t *out, int32_t row) {
    const int32_t shift = p->shift;
    const int32_t left = p->left;
    register const uint32_t *from __asm__("r0") = sums;
    register int8_t *upper __asm__("r1") = out;
    register const int32_t *scales __asm__("r11") = stream;
    register int8_t *lower __asm__("lr") = out + row;
    if (p->single && p->signs) {
        HIL_DSP_WINOGRAD_WHOLE(SIGNED, SHIFTED, TWICE);
    } else if (p->single) {
        HIL_DSP_WINOGRAD_WHOLE(PLAIN, SHIFTED, TWICE);
    } else if (p->signs && left != 0) {
        HIL_DSP_WINOGRAD_WHOLE(SIGNED, SHIFTED, ONCE);
    } else if (p->signs) {
        HIL_DSP_WINOGRAD_WHOLE(SIGNED, ASIS, ONCE);
    } else if (left != 0) {
        HIL_DSP_WINOGRAD_WHOLE(PLAIN, SHIFTED, ONCE);
    } else {
        HIL_DSP_WINOGRAD_WHOLE(PLAIN, ASIS, ONCE);
    }
}

#endif

/* Words of the scales of two filters, in front of their weights. */
HIL_INLINE int32_t hil_dsp_winograd_scales(const struct hil_dsp_winograd *p) {
    return 2 + 2 * (p->signs ? 3 : 2);
}

/* A row of tiles by the filters `channel` and the one after it, of which `rows` rows of outputs are
 * wanted: `stream` starts with their scales. */
HIL_INLINE void hil_dsp_winograd_pair(const struct hil_dsp_winograd *p, int32_t channel,
                                      const int32_t *stream, const int32_t *u, const uint32_t *v,
                                      int32_t rows, int8_t *out, uint32_t *sums) {
    const int32_t own = p->signs ? 3 : 2;
    const int32_t row = rows > 1 ? p->out_w * p->out_c : 0;
    struct hil_dsp_winograd_filter filters[2];
    for (int32_t i = 0; i < 2; i++) {
        const int32_t *const scale = stream + 2 + i * own;
        filters[i] = (struct hil_dsp_winograd_filter){
            .bias = (uint32_t)stream[i],
            .scale = {.multiplier = scale[0], .addend = scale[1]},
            .correction = p->signs ? scale[2] : 0,
        };
    }
    const int32_t second = channel + 1 < p->out_c ? 1 : 0;
    int8_t *to = out + channel;
    for (int32_t x = 0; x < p->out_w; x += 4) {
        hil_dsp_winograd_sums(p->units, v, u, sums);
        v += hil_dsp_winograd_words(p);
#if HIL_DSP_ASSEMBLY
        if (hil_dsp_winograd_fits(p)) {
            hil_dsp_winograd_whole(p, stream, sums, to, row);
            to += 4 * p->out_c;
            continue;
        }
#endif
        const int32_t left = p->out_w - x;
        /* Likewise a filter and a tile that are not there. */
        int8_t *const next = left > 2 ? to + 2 * p->out_c : to;
        const int32_t step = left > 1 ? p->out_c : 0;
        const int32_t next_step = left > 3 ? p->out_c : 0;
        hil_dsp_winograd_tile(p, &filters[1], sums + 3, next + second, row, next_step);
        hil_dsp_winograd_tile(p, &filters[1], sums + 2, to + second, row, step);
        hil_dsp_winograd_tile(p, &filters[0], sums + 1, next, row, next_step);
        hil_dsp_winograd_tile(p, &filters[0], sums, to, row, step);
        to += 4 * p->out_c;
    }
}

HIL_INLINE void hil_dsp_conv2d_s8_winograd(const struct hil_dsp_conv2d_s8_winograd *p,
                                           const int8_t *in, int8_t *out, void *scratch) {
    const struct hil_dsp_winograd layer = HIL_DSP_WINOGRAD(p, 0);
    uint32_t *const sums = (uint32_t *)scratch;
    uint32_t *const v = sums + HIL_DSP_WINOGRAD_SUM_WORDS;
    for (int32_t images = p->batch; images > 0; images--) {
        for (int32_t y = 0; y < p->out_h; y += 2) {
            const int32_t rows = p->out_h - y < 2 ? 1 : 2;
            const int32_t *stream = p->stream;
            hil_dsp_winograd_tiles(&layer, in, y - p->pad_top, v);
            for (int32_t channel = 0; channel < p->out_c; channel += 2) {
                const int32_t *const u = stream + hil_dsp_winograd_scales(&layer);
                hil_dsp_winograd_pair(&layer, channel, stream, u, v, rows, out, sums);
                stream = u + hil_dsp_winograd_words(&layer);
            }
            hil_dsp_clamp_s8(out, rows * p->out_w * p->out_c, p->low, p->high);
            out += rows * p->out_w * p->out_c;
        }
        in += p->in_h * p->in_w * p->in_c;
    }
}

#endif
