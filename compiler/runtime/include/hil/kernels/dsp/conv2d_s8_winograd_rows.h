/* Convolution of int8 images with filters of one row by Winograd's F(2, 3) and F(2, 2) along it, in
 * whole numbers: two outputs of a row take 4 products in the place of 6, or 3 in the place of 4.
 *
 * The taps of a filter are taken in threes, the last ones in a pair or alone, so that two outputs
 * `step` pixels apart read pixels d0 d1 d2 d3 which follow from each other:
 *
 *     three taps g: y0 = d0 - d2 | g0,  y1 = d1 - d3 | -g2,  both d1 + d2 | (g0 + g1 + g2) / 2,
 *                   and d2 - d1 | (g0 - g1 + g2) / 2, which is added to y0 and taken from y1
 *     two taps:     y0 = d0 - d1 | g0,  y1 = d1 - d2 | -g1,  both d1 | g0 + g1
 *     one tap:      y0 = d0 | g0,       y1 = d1 | g0
 *
 * The left sides are V, made of the image, the right ones U, made when the layer is compiled; U is
 * taken 64 times, so all numbers are whole and the result is 64 times the sum. With a stride of s,
 * taps s apart belong together, and neighbouring outputs; with a dilation of d, neighbouring taps
 * and outputs d apart. Zero points are in the biases; pixels outside the image hold the input's.
 *
 * Tile: 2 tiles of 2 outputs x 2 filters x 4 channels of depth, as in conv2d_s8_winograd.h.
 * Products come in four places: A, for both outputs; B, added to one and taken from the other; C
 * for y0 and D for y1. A starts from the bias; C starts from A + B, D from A - B.
 *
 * Registers, in a place: r6 V, r12 U, r8 to r11 four sums, r0 r1 r7 lr and r2 to r5 a unit of both.
 *   stack: +0 four sums of A, then of A - B   +16 turns that are left   +20 where sums go
 *          +24 the caller's r7, in which a compiler may keep its frame
 *
 * Data, of `units` of four channels; parts are taps: triples, then pairs, then singles:
 *
 *   V, in scratch behind 32 bytes of sums; for each two tiles the places A (triples, pairs),
 *   B (triples), C (all) and D (all), of each part:
 *       [unit] +0 tile 0: 0|2   +4 tile 1: 0|2   +8 tile 0: 1|3   +12 tile 1: 1|3
 *   sums, 32 bytes: y0 of filter 0 in both tiles, of filter 1; then y1
 *   taps: column of the first tap of each part
 *   stream, packed by `_row_stream()`; per two filters, in words:
 *       64 * b0, 64 * b1; of each filter multiplier, addend and, with signs, correction;
 *       then U as V is laid, filters in place of tiles
 *
 * Order: V of 4 * `tile_pairs` outputs of a row is complete before the first of them is written.
 *
 * Bounds: |V| <= 256; a pair's U is 64 * 2 * 128 = 16384 at most, a triple's 32 * 3 * 128: both are
 * half-words. Products add up modulo 2^32; the result is 64 * sum, exactly so as |sum| < 2^23
 * (`_proven()`).
 *
 * Output: that of conv2d_s8_winograd.h.
 *
 * Scratch: 32 bytes of sums, and V of 4 * `tile_pairs` outputs.
 *
 * Cost: 10 instructions for 16 products of a unit, 78 for 8 outputs. Measured (`hil bench` on
 * mps2-an386, instructions under QEMU) a MAC: 1x3 of 32 channels 0.567, 1x5 with stride 2 of 16
 * channels 0.649, of 32 0.570, 1x3 with stride 2 of 64 0.629. U has 2.7 to 3.4 times the bytes of
 * the weights.
 *
 * Tests: the twin is the loop at the end of hil_dsp_rows_sums (tests/c/test_dsp_kernels.py); the
 * assembly: tests/board/test_kernels.py. Layout: tests/c/test_kernel_layouts.py.
 */
#ifndef HIL_KERNELS_DSP_CONV2D_S8_WINOGRAD_ROWS_H
#define HIL_KERNELS_DSP_CONV2D_S8_WINOGRAD_ROWS_H

#include "hil/kernels/dsp/conv2d_s8_winograd.h"

/*@kernel
name = "hil_dsp_conv2d_s8_winograd_rows"
requires = ["dsp"]
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "32 + 16 * tile_pairs * units * (4 * triples + 3 * pairs + 2 * singles)"
order = ["rows 1", "columns 4 * tile_pairs"]
reads = "window"
code = 2600
[cost]
row = "batch * out_h"
block = "row * ((out_w + 4 * tile_pairs - 1) // (4 * tile_pairs))"
part = "block * tile_pairs * (triples + pairs + singles)"
triple_unit = "block * tile_pairs * units * triples"
two_unit = "block * tile_pairs * units * pairs"
single_unit = "block * tile_pairs * units * singles"
filters = "block * ((out_c + 1) // 2)"
pair = "filters * tile_pairs"
signed_pair = "pair * signs"
last_pair = "row * ((out_c + 1) // 2) * tile_pairs * (out_w % (4 * tile_pairs) > 0)"
loose_pair = "last_pair * (out_c % 2 == 0) + pair * (out_c % 2)"
pair_unit = "pair * units * (4 * triples + 3 * pairs + 2 * singles)"
both = "triples + pairs"
parts = "both + singles"
turn = "pair * (both * (both > 3) + triples * (triples > 3) + 2 * parts * (parts > 3))"
clamped = "batch * out_h * out_w * out_c * (high - low != 255)"
@*/
struct hil_dsp_conv2d_s8_winograd_rows {
    HIL_IMAGES_FIELDS;
    int32_t out_c; /* output channels */
    HIL_WINDOW_FIELDS;
    int32_t units;         /* of four input channels */
    int32_t triples;       /* parts of three taps */
    int32_t pairs;         /* parts of two taps */
    int32_t singles;       /* parts of one tap */
    int32_t step;          /* outputs from the first of a tile to the second */
    int32_t apart;         /* outputs from a tile to the other one of its pair */
    int32_t tile_pairs;    /* of which V is made at a time */
    int32_t signs;         /* whether negative sums lack something */
    int32_t shift;         /* to the right, of all channels */
    int32_t left;          /* to the left, of all sums, 0 or 2 */
    const int32_t *taps;   /* column of the first tap of each part */
    const int32_t *stream; /* the head draws it */
    const int8_t *border;  /* a pixel outside the image */
    HIL_DSP_RANGE_FIELDS;
};

/* Sums of two tiles and two filters: y0, then y1. */
#define HIL_DSP_ROWS_SUM_WORDS 8

/* Places of one part, in units of four channels. */
HIL_INLINE int32_t hil_dsp_rows_places(const struct hil_dsp_conv2d_s8_winograd_rows *p) {
    return 4 * p->triples + 3 * p->pairs + 2 * p->singles;
}

/* Words of V of two tiles, and of U of two filters. */
HIL_INLINE int32_t hil_dsp_rows_words(const struct hil_dsp_conv2d_s8_winograd_rows *p) {
    return 4 * p->units * hil_dsp_rows_places(p);
}

/* The first output of the tile pair `pair` of a block. */
HIL_INLINE int32_t hil_dsp_rows_first(const struct hil_dsp_conv2d_s8_winograd_rows *p,
                                      int32_t pair) {
    return p->apart == 1 ? 2 * pair : pair;
}

HIL_INLINE struct hil_dsp_winograd_unit hil_dsp_rows_unit(const int8_t *pixel) {
    const uint32_t word = hil_dsp_load(pixel);
    return (struct hil_dsp_winograd_unit){.even = hil_dsp_even(word), .odd = hil_dsp_odd(word)};
}

/* Where the places of a part are, in words of V. */
struct hil_dsp_rows_places {
    uint32_t *both;
    uint32_t *turned;
    uint32_t *first;
    uint32_t *second;
};

HIL_INLINE void hil_dsp_rows_triple(int32_t units, const int8_t *const *d,
                                    struct hil_dsp_rows_places to) {
    for (int32_t i = 0; i < units; i++) {
        const struct hil_dsp_winograd_unit d2 = hil_dsp_rows_unit(d[2] + 4 * i);
        const struct hil_dsp_winograd_unit d1 = hil_dsp_rows_unit(d[1] + 4 * i);
        hil_dsp_winograd_store(hil_dsp_winograd_added(d1, d2), to.both + 4 * i);
        hil_dsp_winograd_store(hil_dsp_winograd_taken(d2, d1), to.turned + 4 * i);
        const struct hil_dsp_winograd_unit d0 = hil_dsp_rows_unit(d[0] + 4 * i);
        hil_dsp_winograd_store(hil_dsp_winograd_taken(d0, d2), to.first + 4 * i);
        const struct hil_dsp_winograd_unit d3 = hil_dsp_rows_unit(d[3] + 4 * i);
        hil_dsp_winograd_store(hil_dsp_winograd_taken(d1, d3), to.second + 4 * i);
    }
}

HIL_INLINE void hil_dsp_rows_pair(int32_t units, const int8_t *const *d,
                                  struct hil_dsp_rows_places to) {
    for (int32_t i = 0; i < units; i++) {
        const struct hil_dsp_winograd_unit d1 = hil_dsp_rows_unit(d[1] + 4 * i);
        hil_dsp_winograd_store(d1, to.both + 4 * i);
        const struct hil_dsp_winograd_unit d0 = hil_dsp_rows_unit(d[0] + 4 * i);
        hil_dsp_winograd_store(hil_dsp_winograd_taken(d0, d1), to.first + 4 * i);
        const struct hil_dsp_winograd_unit d2 = hil_dsp_rows_unit(d[2] + 4 * i);
        hil_dsp_winograd_store(hil_dsp_winograd_taken(d1, d2), to.second + 4 * i);
    }
}

HIL_INLINE void hil_dsp_rows_single(int32_t units, const int8_t *const *d,
                                    struct hil_dsp_rows_places to) {
    for (int32_t i = 0; i < units; i++) {
        hil_dsp_winograd_store(hil_dsp_rows_unit(d[0] + 4 * i), to.first + 4 * i);
        hil_dsp_winograd_store(hil_dsp_rows_unit(d[1] + 4 * i), to.second + 4 * i);
    }
}

/* V of the tile whose first window begins at row y and column x of the image. */
HIL_INLINE void hil_dsp_rows_tile(const struct hil_dsp_conv2d_s8_winograd_rows *p, const int8_t *in,
                                  int32_t y, int32_t x, uint32_t *v) {
    const int32_t words = 4 * p->units;
    const int32_t parts = p->triples + p->pairs + p->singles;
    const int32_t step = p->stride_w * p->step;
    uint32_t *const turned = v + (p->triples + p->pairs) * words;
    uint32_t *const first = turned + p->triples * words;
    for (int32_t part = 0; part < parts; part++) {
        const int32_t column = x + p->taps[part] * p->dilation_w;
        const int8_t *const line = in + (y * p->in_w + column) * p->in_c;
        const int8_t *d[4];
        const int inside = y >= 0 && y < p->in_h;
        if (inside && column >= 0 && column + 3 * step < p->in_w) {
#pragma GCC unroll 4
            for (int32_t i = 0; i < 4; i++) {
                d[i] = line + i * step * p->in_c;
            }
        } else {
#pragma GCC unroll 4
            for (int32_t i = 0; i < 4; i++) {
                const int32_t at = column + i * step;
                d[i] = inside && at >= 0 && at < p->in_w ? line + i * step * p->in_c : p->border;
            }
        }
        const struct hil_dsp_rows_places to = {
            .both = v + part * words,
            .turned = turned + part * words,
            .first = first + part * words,
            .second = first + (parts + part) * words,
        };
        if (part < p->triples) {
            hil_dsp_rows_triple(p->units, d, to);
        } else if (part < p->triples + p->pairs) {
            hil_dsp_rows_pair(p->units, d, to);
        } else {
            hil_dsp_rows_single(p->units, d, to);
        }
    }
}

#if HIL_DSP_ASSEMBLY

/* clang-format off */

/* A place: so many turns of UNITS units, up to three of them one after the other. */
#define HIL_DSP_ROWS_PLACE(UNITS, turns, label)                                                    \
    ".if %c[" turns "] > 3\n\t"                                                                    \
    "mov r0, #%c[" turns "]\n\t"                                                                   \
    "str r0, [sp, #16]\n\t"                                                                        \
    label ":\n\t"                                                                                  \
    UNITS(HIL_DSP_WINOGRAD_UNIT)                                                                   \
    "ldr r0, [sp, #16]\n\t"                                                                        \
    "subs r0, r0, #1\n\t"                                                                          \
    "str r0, [sp, #16]\n\t"                                                                        \
    "bne " label "b\n\t"                                                                           \
    ".else\n\t"                                                                                    \
    ".if %c[" turns "] > 0\n\t"                                                                    \
    UNITS(HIL_DSP_WINOGRAD_UNIT)                                                                   \
    ".endif\n\t"                                                                                   \
    ".if %c[" turns "] > 1\n\t"                                                                    \
    UNITS(HIL_DSP_WINOGRAD_UNIT)                                                                   \
    ".endif\n\t"                                                                                   \
    ".if %c[" turns "] > 2\n\t"                                                                    \
    UNITS(HIL_DSP_WINOGRAD_UNIT)                                                                   \
    ".endif\n\t"                                                                                   \
    ".endif\n\t"

#define HIL_DSP_ROWS_SUMS(UNITS)                                                                   \
    __asm__ volatile("ldrd r8, r10, [%[biases]]\n\t"                                               \
                     "sub sp, sp, #32\n\t"                                                         \
                     "str %[to], [sp, #20]\n\t"                                                    \
                     "str r7, [sp, #24]\n\t"                                                       \
                     "mov r9, r8\n\t"                                                              \
                     "mov r11, r10\n\t"                                                            \
                     HIL_DSP_ROWS_PLACE(UNITS, "both", "1")                                        \
                     "stmia sp, {r8, r9, r10, r11}\n\t"                                            \
                     ".if %c[turned] > 0\n\t"                                                      \
                     "mov r8, #0\n\t"                                                              \
                     "mov r9, #0\n\t"                                                              \
                     "mov r10, #0\n\t"                                                             \
                     "mov r11, #0\n\t"                                                             \
                     HIL_DSP_ROWS_PLACE(UNITS, "turned", "2")                                      \
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
                     ".endif\n\t"                                                                  \
                     HIL_DSP_ROWS_PLACE(UNITS, "parts", "3")                                       \
                     "ldr r0, [sp, #20]\n\t"                                                       \
                     "stmia r0, {r8, r9, r10, r11}\n\t"                                            \
                     "ldmia sp, {r8, r9, r10, r11}\n\t"                                            \
                     HIL_DSP_ROWS_PLACE(UNITS, "parts", "4")                                       \
                     "ldr r0, [sp, #20]\n\t"                                                       \
                     "ldr r7, [sp, #24]\n\t"                                                       \
                     "add r0, r0, #16\n\t"                                                         \
                     "add sp, sp, #32\n\t"                                                         \
                     "stmia r0, {r8, r9, r10, r11}\n\t"                                            \
                     : [v] "+r"(at_v), [u] "+r"(at_u), [to] "+r"(at), [biases] "+r"(biases)        \
                     : [both] "i"((p->triples + p->pairs) * turns), [turned] "i"(p->triples * turns), \
                       [parts] "i"((p->triples + p->pairs + p->singles) * turns)                   \
                     : "r0", "r1", "r4", "r5", "r8", "r9", "r10", "r11", "lr", "cc", "memory")

/* clang-format on */

/* Units of a turn: as many as instructions are there for, of which a place has a whole number. */
#define HIL_DSP_ROWS_TURN(units)                                                                   \
    ((units) % 16 == 0   ? 16                                                                      \
     : (units) % 12 == 0 ? 12                                                                      \
     : (units) % 10 == 0 ? 10                                                                      \
     : (units) % 8 == 0  ? 8                                                                       \
     : (units) % 7 == 0  ? 7                                                                       \
     : (units) % 6 == 0  ? 6                                                                       \
     : (units) % 5 == 0  ? 5                                                                       \
     : (units) % 4 == 0  ? 4                                                                       \
     : (units) % 3 == 0  ? 3                                                                       \
     : (units) % 2 == 0  ? 2                                                                       \
                         : 1)

#endif

/* Sums of two tiles and two filters. */
HIL_INLINE void hil_dsp_rows_sums(const struct hil_dsp_conv2d_s8_winograd_rows *p,
                                  const uint32_t *v, const int32_t *stream, const int32_t *u,
                                  uint32_t *to) {
#if HIL_DSP_ASSEMBLY
    if (__builtin_constant_p(p->units) && __builtin_constant_p(p->triples) &&
        __builtin_constant_p(p->pairs) && __builtin_constant_p(p->singles)) {
        register uint32_t *at __asm__("r2") = to;
        register const int32_t *biases __asm__("r3") = stream;
        register const uint32_t *at_v __asm__("r6") = v;
        register const int32_t *at_u __asm__("r12") = u;
        const int32_t turn = HIL_DSP_ROWS_TURN(p->units);
        const int32_t turns = p->units / turn;
        if (turn == 1) {
            HIL_DSP_ROWS_SUMS(HIL_DSP_WINOGRAD_1);
        } else if (turn == 2) {
            HIL_DSP_ROWS_SUMS(HIL_DSP_WINOGRAD_2);
        } else if (turn == 3) {
            HIL_DSP_ROWS_SUMS(HIL_DSP_WINOGRAD_3);
        } else if (turn == 4) {
            HIL_DSP_ROWS_SUMS(HIL_DSP_WINOGRAD_4);
        } else if (turn == 5) {
            HIL_DSP_ROWS_SUMS(HIL_DSP_WINOGRAD_5);
        } else if (turn == 6) {
            HIL_DSP_ROWS_SUMS(HIL_DSP_WINOGRAD_6);
        } else if (turn == 7) {
            HIL_DSP_ROWS_SUMS(HIL_DSP_WINOGRAD_7);
        } else if (turn == 8) {
            HIL_DSP_ROWS_SUMS(HIL_DSP_WINOGRAD_8);
        } else if (turn == 10) {
            HIL_DSP_ROWS_SUMS(HIL_DSP_WINOGRAD_10);
        } else if (turn == 12) {
            HIL_DSP_ROWS_SUMS(HIL_DSP_WINOGRAD_12);
        } else {
            HIL_DSP_ROWS_SUMS(HIL_DSP_WINOGRAD_16);
        }
        return;
    }
#endif
    const struct hil_dsp_winograd_four start = {
        {(uint32_t)stream[0], (uint32_t)stream[0], (uint32_t)stream[1], (uint32_t)stream[1]}};
    const struct hil_dsp_winograd_four none = {{0}};
    const int32_t both = (p->triples + p->pairs) * p->units;
    const int32_t turned = p->triples * p->units;
    const int32_t all = (p->triples + p->pairs + p->singles) * p->units;
    const struct hil_dsp_winograd_four a = hil_dsp_winograd_place(both, v, u, start);
    v += 4 * both;
    u += 4 * both;
    const struct hil_dsp_winograd_four b = hil_dsp_winograd_place(turned, v, u, none);
    v += 4 * turned;
    u += 4 * turned;
    struct hil_dsp_winograd_four upper;
    struct hil_dsp_winograd_four lower;
    for (int32_t i = 0; i < 4; i++) {
        upper.s[i] = a.s[i] + b.s[i];
        lower.s[i] = a.s[i] - b.s[i];
    }
    upper = hil_dsp_winograd_place(all, v, u, upper);
    lower = hil_dsp_winograd_place(all, v + 4 * all, u + 4 * all, lower);
    memcpy(to, &upper, sizeof upper);
    memcpy(to + 4, &lower, sizeof lower);
}

#if HIL_DSP_ASSEMBLY

/* clang-format off */

/* A filter's outputs in both tiles: r2 r3 y0 of tile 0 and tile 1, r4 r5 y1; then multiplier and
 * addend, and what negative sums lack. */
#define HIL_DSP_ROWS_FILTER(SCALED, LEFT, filter)                                                  \
    "ldrd r2, r3, [%[sums], #8 * " #filter "]\n\t"                                                 \
    "ldrd r4, r5, [%[sums], #8 * " #filter " + 16]\n\t"                                            \
    "ldrd r9, r10, [%[scales], #8 + " HIL_DSP_WINOGRAD_WORDS_##SCALED " * " #filter "]\n\t"        \
    HIL_DSP_WINOGRAD_LACK_##SCALED(filter)                                                         \
    HIL_DSP_WINOGRAD_OUTPUT(SCALED, LEFT, "r2")                                                    \
    HIL_DSP_WINOGRAD_OUTPUT(SCALED, LEFT, "r3")                                                    \
    HIL_DSP_WINOGRAD_OUTPUT(SCALED, LEFT, "r4")                                                    \
    HIL_DSP_WINOGRAD_OUTPUT(SCALED, LEFT, "r5")                                                    \
    "strb r2, [%[to], #" #filter "]\n\t"                                                           \
    "strb r4, [%[to], #" #filter " + %c[step]]\n\t"                                                \
    "strb r3, [%[to], #" #filter " + %c[apart]]\n\t"                                               \
    "strb r5, [%[to], #" #filter " + %c[apart] + %c[step]]\n\t"

#define HIL_DSP_ROWS_WHOLE(SCALED, LEFT)                                                           \
    __asm__ volatile(HIL_DSP_ROWS_FILTER(SCALED, LEFT, 0) HIL_DSP_ROWS_FILTER(SCALED, LEFT, 1)     \
                     :                                                                             \
                     : [sums] "r"(from), [to] "r"(to), [scales] "r"(scales),                       \
                       [shift] "i"(p->shift), [left] "i"(p->left),                                 \
                       [step] "i"(p->step * p->out_c), [apart] "i"(p->apart * p->out_c)            \
                     : "r2", "r3", "r4", "r5", "r6", "r9", "r10", "r12", "cc", "memory")

/* clang-format on */

/* Whether instructions can hold all distances between outputs of two tiles. */
HIL_INLINE int hil_dsp_rows_fits(const struct hil_dsp_conv2d_s8_winograd_rows *p) {
    return __builtin_constant_p(p->out_c) && __builtin_constant_p(p->step) &&
           __builtin_constant_p(p->apart) && __builtin_constant_p(p->shift) &&
           __builtin_constant_p(p->left) && p->out_c % 2 == 0 &&
           (p->step + p->apart) * p->out_c <= 4094;
}

/* Both filters' outputs of two tiles that are all wanted. */
HIL_INLINE void hil_dsp_rows_whole(const struct hil_dsp_conv2d_s8_winograd_rows *p,
                                   const int32_t *stream, const uint32_t *sums, int8_t *out) {
    register const uint32_t *from __asm__("r0") = sums;
    register int8_t *to __asm__("r1") = out;
    register const int32_t *scales __asm__("r11") = stream;
    if (p->signs && p->left != 0) {
        HIL_DSP_ROWS_WHOLE(SIGNED, SHIFTED);
    } else if (p->signs) {
        HIL_DSP_ROWS_WHOLE(SIGNED, ASIS);
    } else if (p->left != 0) {
        HIL_DSP_ROWS_WHOLE(PLAIN, SHIFTED);
    } else {
        HIL_DSP_ROWS_WHOLE(PLAIN, ASIS);
    }
}

#endif

/* Outputs of two tiles, of which those at `x` and beyond of a row of `wanted` are; `filters` of the
 * two are there. */
HIL_INLINE void hil_dsp_rows_outputs(const struct hil_dsp_conv2d_s8_winograd_rows *p,
                                     const int32_t *stream, const uint32_t *sums, int32_t filters,
                                     int32_t wanted, int8_t *out) {
    const int32_t own = p->signs ? 3 : 2;
    for (int32_t i = 0; i < filters; i++) {
        const int32_t *const scale = stream + 2 + i * own;
        const struct hil_dsp_affine affine = {.multiplier = scale[0], .addend = scale[1]};
        const int32_t correction = p->signs ? scale[2] : 0;
        for (int32_t j = 0; j < 4; j++) {
            const int32_t at = j % 2 * p->apart + j / 2 * p->step;
            if (at < wanted) {
                const uint32_t sum = sums[4 * (j / 2) + 2 * i + j % 2];
                out[at * p->out_c + i] =
                    hil_dsp_winograd_output(sum, affine, correction, p->left, p->shift);
            }
        }
    }
}

/* A block of a row: all filters, of which `wanted` outputs are. */
HIL_INLINE void hil_dsp_rows_block(const struct hil_dsp_conv2d_s8_winograd_rows *p,
                                   const uint32_t *v, int32_t wanted, uint32_t *sums, int8_t *out) {
    const int32_t words = hil_dsp_rows_words(p);
    const int32_t *stream = p->stream;
    for (int32_t channel = 0; channel < p->out_c; channel += 2) {
        const int32_t *const u = stream + 2 + 2 * (p->signs ? 3 : 2);
        for (int32_t pair = 0; pair < p->tile_pairs; pair++) {
            const int32_t first = hil_dsp_rows_first(p, pair);
            int8_t *const to = out + first * p->out_c + channel;
            hil_dsp_rows_sums(p, v + pair * words, stream, u, sums);
#if HIL_DSP_ASSEMBLY
            if (hil_dsp_rows_fits(p) && wanted >= 4 * p->tile_pairs) {
                hil_dsp_rows_whole(p, stream, sums, to);
                continue;
            }
#endif
            hil_dsp_rows_outputs(p, stream, sums, channel + 1 < p->out_c ? 2 : 1, wanted - first,
                                 to);
        }
        stream = u + words;
    }
}

HIL_INLINE void hil_dsp_conv2d_s8_winograd_rows(const struct hil_dsp_conv2d_s8_winograd_rows *p,
                                                const int8_t *in, int8_t *out, void *scratch) {
    uint32_t *const sums = (uint32_t *)scratch;
    uint32_t *const v = sums + HIL_DSP_ROWS_SUM_WORDS;
    const int32_t block = 4 * p->tile_pairs;
    for (int32_t images = p->batch; images > 0; images--) {
        for (int32_t y = 0; y < p->out_h; y++) {
            const int32_t row = y * p->stride_h - p->pad_top;
            for (int32_t x = 0; x < p->out_w; x += block) {
                for (int32_t tile = 0; tile < 2 * p->tile_pairs; tile++) {
                    const int32_t first = x + hil_dsp_rows_first(p, tile / 2) + tile % 2 * p->apart;
                    hil_dsp_rows_tile(p, in, row, first * p->stride_w - p->pad_left,
                                      v + tile / 2 * hil_dsp_rows_words(p) + tile % 2);
                }
                hil_dsp_rows_block(p, v, p->out_w - x, sums, out + x * p->out_c);
            }
            hil_dsp_clamp_s8(out, p->out_w * p->out_c, p->low, p->high);
            out += p->out_w * p->out_c;
        }
        in += p->in_h * p->in_w * p->in_c;
    }
}

#endif
