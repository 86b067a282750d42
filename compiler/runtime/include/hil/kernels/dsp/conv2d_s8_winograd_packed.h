/* Convolution of int8 images with 3x3 filters, stride 1, by Winograd's F(2x2, 3x3) in whole
 * numbers, of weights that are stored as they are: two filters at a time are unfolded to scratch
 * before they meet `bands` rows of tiles. conv2d_s8_winograd.h has the products, and draws V, U and
 * the sums.
 *
 * U = G g G', with ones in place of the halves of G, takes three operations for each row or column
 * of three numbers:
 *
 *       1  0  0        Rows 0 and 3 and columns 0 and 3 thus lack a factor of 2. Those of rows are
 *   G = 1  1  1        in V, which is made once for all filters, those of columns in the sums of
 *       1 -1  1        outputs, where they are shifts of operands. The sign of row 3 is in V, too.
 *       0  0  1        The result is 4 times the sum.
 *
 * Tile: a unit of four channels of a filter, nine words, two halves one after the other: channels
 * 0|2, then 1|3. For V a unit of two rows of the image, two tiles at a time.
 *
 * Registers, at the top of a half of a filter:
 *
 *       r1  r2  r3    row 0 of g            r0   weights     r12, lr   numbers on their way to U
 *       r4  r5  r6    row 1                 r11  U           r7        untouched: a frame pointer
 *       r8  r9  r10   row 2                                            may live there
 *
 *   Rows 0 and 2 of g are rows 0 and 3 of U; then r1 r2 r3 become row 1 and r8 r9 r10 row 2.
 *
 * At the top of two tiles of V, of columns 0 to 5 of B' d:
 *
 *       r4 r5     column 0, 0|2 1|3         r0, r1   the next words of both rows
 *       r6 r8     column 1                  r2, r3   V, and from column to column of it
 *       r9 r10    columns 2 and 4           r7, lr   a word on its way to a column; differences
 *       r11 r12   columns 3 and 5           stack: +0 the caller's r7, +4 where V ends
 *
 *   The second tile has columns 4 and 5 in r4 to r8 instead, so that it ends as the first begins.
 *
 * Data, of U units of four channels:
 *
 *   stream, packed by `_winograd()`; per two filters, in words:
 *       4 * b0, 4 * b1; of each filter multiplier, addend and, with signs, correction;
 *       then weights: [unit][filter][9 taps], each a word of four channels
 *   lines, in the place of U while V is made: four rows of the image under the tiles, a word of a
 *       unit from each pixel, with the pixels outside: 4 * (4 * ((out_w + 3) / 4) + 2) words, for
 *       which there must be room
 *
 * Order: as conv2d_s8_winograd.h, of `bands` rows of tiles: V of all of them is complete before
 * their first output is written.
 *
 * Bounds: V of rows 0 and 3 is twice as large, |V| <= 1024; |U| <= 3 * 3 * 128 = 1152. Both are
 * half-words.
 *
 * Output: as conv2d_s8_winograd.h, of sums that are 4 times instead of 64 times what they are, so
 * `left` is 4 or 6.
 *
 * Scratch: 128 bytes of sums, U of two filters, V of `bands` rows of tiles.
 *
 * Cost: 94 instructions to unfold a unit of a filter; 312 for a unit of V of two tiles, and those
 * that copy. Measured (`hil tune` on mps2-an386, instructions under QEMU) a MAC of the direct sum,
 * of one row of tiles and of two: 3x3 of 16 channels 32x32 (ic) 0.513, 0.491, of 32 channels 16x16
 * 0.474, 0.431, of 64 channels 8x8 0.512, 0.426.
 *
 * Tests: the twins are hil_dsp_winograd_unfold_any and the loop at the end of
 * hil_dsp_winograd_packed_line (tests/c/test_dsp_kernels.py, limits: test_sums_at_their_limits);
 * the assembly: tests/board/test_kernels.py. Layout: tests/c/test_kernel_layouts.py.
 */
#ifndef HIL_KERNELS_DSP_CONV2D_S8_WINOGRAD_PACKED_H
#define HIL_KERNELS_DSP_CONV2D_S8_WINOGRAD_PACKED_H

#include "hil/kernels/dsp/conv2d_s8_winograd.h"

/*@kernel
name = "hil_dsp_conv2d_s8_winograd_packed"
requires = ["dsp"]
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "128 + 256 * units * (1 + bands * ((out_w + 3) // 4))"
order = ["rows 2 * bands"]
reads = "window"
window = {filter_h = "3", filter_w = "3", stride_h = "1", stride_w = "1"}
code = 2900
band_code = 2500
[cost]
tile = "batch * ((out_h + 1) // 2) * ((out_w + 3) // 4)"
unit = "tile * units"
row_unit = "batch * ((out_h + 1) // 2) * units"
pair = "tile * ((out_c + 1) // 2)"
signed_pair = "pair * signs"
pair_unit = "pair * units"
looped_unit = "pair_unit * (units > 8) * (units != 10) * (units != 12) * (units != 16)"
unfolded = "batch * ((out_h + 2 * bands - 1) // (2 * bands)) * ((out_c + 1) // 2) * units"
clamped = "batch * out_h * out_w * out_c * (high - low != 255)"
@*/
struct hil_dsp_conv2d_s8_winograd_packed {
    HIL_IMAGES_FIELDS;
    int32_t out_c;         /* output channels */
    int32_t pad_top;       /* rows by which the first window reaches above the image */
    int32_t pad_left;      /* columns by which the first window reaches beyond the image */
    int32_t units;         /* of four input channels */
    int32_t signs;         /* whether negative sums lack something */
    int32_t shift;         /* to the right, of all channels */
    int32_t left;          /* to the left, of all sums, 4 or 6 */
    int32_t bands;         /* rows of tiles that meet a filter while it is unfolded */
    const int32_t *stream; /* the head draws it */
    const int8_t *border;  /* a pixel outside the image */
    HIL_DSP_RANGE_FIELDS;
};

#define HIL_DSP_WINOGRAD_TAPS 9

/* One half of each word: U of it, in every fourth word of `to` by place and unit. */
HIL_INLINE void hil_dsp_winograd_unfold_half(int32_t units, const uint32_t *g, uint32_t *to) {
    static const uint8_t places[4] = {2, 0, 1, 3};
    for (int32_t row = 0; row < 4; row++) {
        uint32_t x[3];
        for (int32_t i = 0; i < 3; i++) {
            const uint32_t outer = hil_dsp_add_pairs(g[i], g[6 + i]);
            x[i] = row == 0   ? g[i]
                   : row == 1 ? hil_dsp_add_pairs(outer, g[3 + i])
                   : row == 2 ? hil_dsp_sub_pairs(outer, g[3 + i])
                              : g[6 + i];
        }
        const uint32_t outer = hil_dsp_add_pairs(x[0], x[2]);
        uint32_t *const u = to + 4 * units * places[row];
        u[0] = x[0];
        u[16 * units] = hil_dsp_add_pairs(outer, x[1]);
        u[32 * units] = hil_dsp_sub_pairs(outer, x[1]);
        u[48 * units] = x[2];
    }
}

/* A unit of a filter. */
HIL_INLINE void hil_dsp_winograd_unfold_any(int32_t units, const int32_t *weights, uint32_t *to) {
    uint32_t even[HIL_DSP_WINOGRAD_TAPS];
    uint32_t odd[HIL_DSP_WINOGRAD_TAPS];
    for (int32_t tap = 0; tap < HIL_DSP_WINOGRAD_TAPS; tap++) {
        even[tap] = hil_dsp_even((uint32_t)weights[tap]);
        odd[tap] = hil_dsp_odd((uint32_t)weights[tap]);
    }
    hil_dsp_winograd_unfold_half(units, even, to);
    hil_dsp_winograd_unfold_half(units, odd, to + 2);
}

#if HIL_DSP_ASSEMBLY

/* clang-format off */

/* A row of U from three numbers: 7 instructions. */
#define HIL_DSP_WINOGRAD_UNFOLD_ROW(x0, x1, x2, row, half)                                         \
    "str " x0 ", [r11, #%c[place] * (" #row ") + " #half "]\n\t"                                   \
    "sadd16 r12, " x0 ", " x2 "\n\t"                                                               \
    "str " x2 ", [r11, #%c[place] * (12 + " #row ") + " #half "]\n\t"                              \
    "sadd16 lr, r12, " x1 "\n\t"                                                                   \
    "str lr, [r11, #%c[place] * (4 + " #row ") + " #half "]\n\t"                                   \
    "ssub16 lr, r12, " x1 "\n\t"                                                                   \
    "str lr, [r11, #%c[place] * (8 + " #row ") + " #half "]\n\t"

/* Rows 1 and 2 of U, of one column. */
#define HIL_DSP_WINOGRAD_UNFOLD_INNER(x0, x1, x2)                                                  \
    "sadd16 " x0 ", " x0 ", " x2 "\n\t"                                                            \
    "ssub16 " x2 ", " x0 ", " x1 "\n\t"                                                            \
    "sadd16 " x0 ", " x0 ", " x1 "\n\t"

#define HIL_DSP_WINOGRAD_WIDEN_ROW(x0, x1, x2, turn)                                               \
    "sxtb16 " x0 ", " x0 turn "\n\t"                                                               \
    "sxtb16 " x1 ", " x1 turn "\n\t"                                                               \
    "sxtb16 " x2 ", " x2 turn "\n\t"

#define HIL_DSP_WINOGRAD_UNFOLD_HALF(turn, half)                                                   \
    "ldmia r0, {r1, r2, r3, r4, r5, r6, r8, r9, r10}\n\t"                                          \
    HIL_DSP_WINOGRAD_WIDEN_ROW("r1", "r2", "r3", turn)                                             \
    HIL_DSP_WINOGRAD_WIDEN_ROW("r4", "r5", "r6", turn)                                             \
    HIL_DSP_WINOGRAD_WIDEN_ROW("r8", "r9", "r10", turn)                                            \
    HIL_DSP_WINOGRAD_UNFOLD_ROW("r1", "r2", "r3", 2, half)                                         \
    HIL_DSP_WINOGRAD_UNFOLD_ROW("r8", "r9", "r10", 3, half)                                        \
    HIL_DSP_WINOGRAD_UNFOLD_INNER("r1", "r4", "r8")                                                \
    HIL_DSP_WINOGRAD_UNFOLD_INNER("r2", "r5", "r9")                                                \
    HIL_DSP_WINOGRAD_UNFOLD_INNER("r3", "r6", "r10")                                               \
    HIL_DSP_WINOGRAD_UNFOLD_ROW("r1", "r2", "r3", 0, half)                                         \
    HIL_DSP_WINOGRAD_UNFOLD_ROW("r8", "r9", "r10", 1, half)

/* clang-format on */

#endif

/* The largest number of units with which instructions reach all places of U. */
#define HIL_DSP_WINOGRAD_UNFOLD_MOST 16

HIL_INLINE void hil_dsp_winograd_unfold_unit(int32_t units, const int32_t *weights, uint32_t *to) {
#if HIL_DSP_ASSEMBLY
    if (__builtin_constant_p(units) && units <= HIL_DSP_WINOGRAD_UNFOLD_MOST) {
        register const int32_t *from __asm__("r0") = weights;
        register uint32_t *at __asm__("r11") = to;
        __asm__ volatile(
            HIL_DSP_WINOGRAD_UNFOLD_HALF("", 0) HIL_DSP_WINOGRAD_UNFOLD_HALF(", ror #8", 8)
            :
            : [from] "r"(from), [at] "r"(at), [place] "i"(16 * units)
            : "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r12", "lr", "memory");
        return;
    }
#endif
    hil_dsp_winograd_unfold_any(units, weights, to);
}

/* Words of a row of the image that a unit of a row of tiles is made of. */
HIL_INLINE int32_t hil_dsp_winograd_line_words(const struct hil_dsp_conv2d_s8_winograd_packed *p) {
    return 4 * ((p->out_w + 3) / 4) + 2;
}

/* A unit of a row of the image under the tiles, in words, with the pixels outside of it: all of
 * them where the row is, which is NULL then. */
HIL_INLINE void hil_dsp_winograd_copy(const struct hil_dsp_conv2d_s8_winograd_packed *p,
                                      const int8_t *row, uint32_t outside, uint32_t *to) {
    const int32_t step = p->in_c;
    uint32_t *const end = to + hil_dsp_winograd_line_words(p);
    uint32_t *const first = row == NULL || end - to < p->pad_left ? end : to + p->pad_left;
    const uint32_t *const last = end - first < p->in_w ? end : first + p->in_w;
    while (to < first) {
        *to++ = outside;
    }
    while (last - to >= 4) {
#pragma GCC unroll 4
        for (int32_t i = 0; i < 4; i++) {
            to[i] = hil_dsp_load(row);
            row += step;
        }
        to += 4;
    }
    while (to < last) {
        *to++ = hil_dsp_load(row);
        row += step;
    }
    while (to < end) {
        *to++ = outside;
    }
}

/* How a row of V is made of two rows of the image. */
#define HIL_DSP_WINOGRAD_TAKEN 0
#define HIL_DSP_WINOGRAD_DOUBLED 1
#define HIL_DSP_WINOGRAD_ADDED 2

#if HIL_DSP_ASSEMBLY

/* clang-format off */

#define HIL_DSP_WINOGRAD_COLUMN_TAKEN(even, odd)                                                   \
    "ldr " even ", [r0], #4\n\t"                                                                   \
    "ldr r7, [r1], #4\n\t"                                                                         \
    "sxtb16 " odd ", " even ", ror #8\n\t"                                                         \
    "sxtb16 " even ", " even "\n\t"                                                                \
    "sxtb16 lr, r7\n\t"                                                                            \
    "sxtb16 r7, r7, ror #8\n\t"                                                                    \
    "ssub16 " even ", " even ", lr\n\t"                                                            \
    "ssub16 " odd ", " odd ", r7\n\t"

#define HIL_DSP_WINOGRAD_COLUMN_DOUBLED(even, odd)                                                 \
    HIL_DSP_WINOGRAD_COLUMN_TAKEN(even, odd)                                                       \
    "sadd16 " even ", " even ", " even "\n\t"                                                      \
    "sadd16 " odd ", " odd ", " odd "\n\t"

#define HIL_DSP_WINOGRAD_COLUMN_ADDED(even, odd)                                                   \
    "ldr " even ", [r0], #4\n\t"                                                                   \
    "ldr r7, [r1], #4\n\t"                                                                         \
    "sxtb16 " odd ", " even ", ror #8\n\t"                                                         \
    "sxtb16 " even ", " even "\n\t"                                                                \
    "sxtab16 " odd ", " odd ", r7, ror #8\n\t"                                                     \
    "sxtab16 " even ", " even ", r7\n\t"

/* A tile from the columns c0 to c3, of which the last two are read here; c0 and c1 are lost. */
#define HIL_DSP_WINOGRAD_LINE_TILE(KIND, c0e, c0o, c1e, c1o, c2e, c2o, c3e, c3o, even, odd)        \
    HIL_DSP_WINOGRAD_COLUMN_##KIND(c2e, c2o)                                                       \
    "ssub16 " c0e ", " c0e ", " c2e "\n\t"                                                         \
    "ssub16 " c0o ", " c0o ", " c2o "\n\t"                                                         \
    "str " c0e ", [r2, #" #even "]\n\t"                                                            \
    "str " c0o ", [r2, #" #odd "]\n\t"                                                             \
    "add r2, r2, r3\n\t"                                                                           \
    "sadd16 lr, " c1e ", " c2e "\n\t"                                                              \
    "sadd16 r7, " c1o ", " c2o "\n\t"                                                              \
    "str lr, [r2, #" #even "]\n\t"                                                                 \
    "str r7, [r2, #" #odd "]\n\t"                                                                  \
    "add r2, r2, r3\n\t"                                                                           \
    "ssub16 lr, " c2e ", " c1e "\n\t"                                                              \
    "ssub16 r7, " c2o ", " c1o "\n\t"                                                              \
    "str lr, [r2, #" #even "]\n\t"                                                                 \
    "str r7, [r2, #" #odd "]\n\t"                                                                  \
    "add r2, r2, r3\n\t"                                                                           \
    HIL_DSP_WINOGRAD_COLUMN_##KIND(c3e, c3o)                                                       \
    "ssub16 " c1e ", " c1e ", " c3e "\n\t"                                                         \
    "ssub16 " c1o ", " c1o ", " c3o "\n\t"                                                         \
    "str " c1e ", [r2, #" #even "]\n\t"                                                            \
    "str " c1o ", [r2, #" #odd "]\n\t"

#define HIL_DSP_WINOGRAD_LINE(KIND)                                                                \
    __asm__ volatile("push {r7, %[end]}\n\t"                                                       \
                     HIL_DSP_WINOGRAD_COLUMN_##KIND("r4", "r5")                                    \
                     HIL_DSP_WINOGRAD_COLUMN_##KIND("r6", "r8")                                    \
                     "1:\n\t"                                                                      \
                     HIL_DSP_WINOGRAD_LINE_TILE(KIND, "r4", "r5", "r6", "r8",                      \
                                                "r9", "r10", "r11", "r12", 0, 8)                   \
                     "sub r2, r2, r3, lsl #1\n\t"                                                  \
                     "sub r2, r2, r3\n\t"                                                          \
                     HIL_DSP_WINOGRAD_LINE_TILE(KIND, "r9", "r10", "r11", "r12",                   \
                                                "r4", "r5", "r6", "r8", 4, 12)                     \
                     "add r2, r2, r3\n\t"                                                          \
                     "ldr lr, [sp, #4]\n\t"                                                        \
                     "cmp r2, lr\n\t"                                                              \
                     "bne 1b\n\t"                                                                  \
                     "pop {r7, %[end]}\n\t"                                                        \
                     : [first] "+r"(at_first), [second] "+r"(at_second), [to] "+r"(at),            \
                       [end] "+r"(end)                                                             \
                     : [step] "r"(step)                                                            \
                     : "r4", "r5", "r6", "r8", "r9", "r10", "r11", "lr", "cc", "memory")

/* clang-format on */

#endif

/* A unit of one of the four rows of V, of `pairs` of tiles. */
HIL_INLINE void hil_dsp_winograd_packed_line(int kind, int32_t units, int32_t pairs,
                                             const uint32_t *first, const uint32_t *second,
                                             uint32_t *to) {
#if HIL_DSP_ASSEMBLY
    register const uint32_t *at_first __asm__("r0") = first;
    register const uint32_t *at_second __asm__("r1") = second;
    register uint32_t *at __asm__("r2") = to;
    register int32_t step __asm__("r3") = 64 * units;
    register uint32_t *end __asm__("r12") = to + 64 * units * pairs;
    if (kind == HIL_DSP_WINOGRAD_ADDED) {
        HIL_DSP_WINOGRAD_LINE(ADDED);
    } else if (kind == HIL_DSP_WINOGRAD_DOUBLED) {
        HIL_DSP_WINOGRAD_LINE(DOUBLED);
    } else {
        HIL_DSP_WINOGRAD_LINE(TAKEN);
    }
#else
    for (int32_t tile = 0; tile < 2 * pairs; tile++) {
        struct hil_dsp_winograd_unit c[4];
        for (int32_t i = 0; i < 4; i++) {
            const struct hil_dsp_winograd_unit one = {
                .even = hil_dsp_even(first[i]),
                .odd = hil_dsp_odd(first[i]),
            };
            const struct hil_dsp_winograd_unit other = {
                .even = hil_dsp_even(second[i]),
                .odd = hil_dsp_odd(second[i]),
            };
            c[i] = kind == HIL_DSP_WINOGRAD_ADDED ? hil_dsp_winograd_added(one, other)
                                                  : hil_dsp_winograd_taken(one, other);
            if (kind == HIL_DSP_WINOGRAD_DOUBLED) {
                c[i] = hil_dsp_winograd_added(c[i], c[i]);
            }
        }
        uint32_t *const at = to + tile / 2 * 64 * units + tile % 2;
        hil_dsp_winograd_store(hil_dsp_winograd_taken(c[0], c[2]), at);
        hil_dsp_winograd_store(hil_dsp_winograd_added(c[1], c[2]), at + 16 * units);
        hil_dsp_winograd_store(hil_dsp_winograd_taken(c[2], c[1]), at + 32 * units);
        hil_dsp_winograd_store(hil_dsp_winograd_taken(c[1], c[3]), at + 48 * units);
        first += 2;
        second += 2;
    }
#endif
}

/* V of a row of tiles whose first pixels lie in row y of the image; `lines` are four rows of it.
 * One function for all layers. */
static __attribute__((noinline, noclone, unused)) void
hil_dsp_winograd_packed_tiles(const struct hil_dsp_conv2d_s8_winograd_packed *p, const int8_t *in,
                              int32_t y, uint32_t *lines, uint32_t *to) {
    const int32_t words = hil_dsp_winograd_line_words(p);
    const int32_t units = p->units;
    const int32_t pairs = words / 4;
    for (int32_t unit = 0; unit < units; unit++) {
        for (int32_t i = 0; i < 4; i++) {
            const int inside = y + i >= 0 && y + i < p->in_h;
            const int8_t *const row = inside ? in + (y + i) * p->in_w * p->in_c + 4 * unit : NULL;
            hil_dsp_winograd_copy(p, row, hil_dsp_load(p->border + 4 * unit), lines + i * words);
        }
        const uint32_t *const b = lines + words;
        const uint32_t *const c = b + words;
        const uint32_t *const d = c + words;
        hil_dsp_winograd_packed_line(HIL_DSP_WINOGRAD_ADDED, units, pairs, b, c, to);
        hil_dsp_winograd_packed_line(HIL_DSP_WINOGRAD_TAKEN, units, pairs, c, b, to + 4 * units);
        /* Once each, whatever the compiler thinks of loops. */
        const uint32_t *first = lines;
        const uint32_t *second = c;
        for (uint32_t *at = to + 8 * units; at <= to + 12 * units; at += 4 * units) {
            hil_dsp_winograd_packed_line(HIL_DSP_WINOGRAD_DOUBLED, units, pairs, first, second, at);
            first = d;
            second = b;
        }
        to += 4;
    }
}

/* U of two filters. */
HIL_INLINE void hil_dsp_winograd_unfold(int32_t units, const int32_t *weights, uint32_t *to) {
#pragma GCC unroll 1
    for (const uint32_t *const end = to + 4 * units; to < end; to += 2) {
#pragma GCC unroll 1
        for (const uint32_t *const next = to + 2; to < next; to++) {
            hil_dsp_winograd_unfold_unit(units, weights, to);
            weights += HIL_DSP_WINOGRAD_TAPS;
        }
    }
}

HIL_INLINE void hil_dsp_conv2d_s8_winograd_packed(const struct hil_dsp_conv2d_s8_winograd_packed *p,
                                                  const int8_t *in, int8_t *out, void *scratch) {
    const struct hil_dsp_winograd layer = HIL_DSP_WINOGRAD(p, 1);
    /* Of p, which functions are given, the compiler knows nothing after their calls. */
    const int32_t *const filters = p->stream;
    const int32_t most = 2 * p->bands;
    const int32_t low = p->low;
    const int32_t high = p->high;
    const int32_t words = hil_dsp_winograd_words(&layer);
    const int32_t band = words * ((layer.out_w + 3) / 4);
    uint32_t *const sums = (uint32_t *)scratch;
    uint32_t *const u = sums + HIL_DSP_WINOGRAD_SUM_WORDS;
    uint32_t *const v = u + words;
    for (int32_t images = layer.batch; images > 0; images--) {
        for (int32_t y = 0; y < layer.out_h; y += most) {
            const int32_t left = layer.out_h - y;
            const int32_t rows = left < most ? left : most;
            for (int32_t row = 0; row < rows; row += 2) {
                hil_dsp_winograd_packed_tiles(p, in, y + row - layer.pad_top, u,
                                              v + row / 2 * band);
            }
            const int32_t *stream = filters;
            for (int32_t channel = 0; channel < layer.out_c; channel += 2) {
                const int32_t *const weights = stream + hil_dsp_winograd_scales(&layer);
                const void *const unfolded = u;
                hil_dsp_winograd_unfold(layer.units, weights, u);
                for (int32_t row = 0; row < rows; row += 2) {
                    hil_dsp_winograd_pair(&layer, channel, stream, (const int32_t *)unfolded,
                                          v + row / 2 * band, rows - row,
                                          out + row * layer.out_w * layer.out_c, sums);
                }
                stream = weights + 2 * HIL_DSP_WINOGRAD_TAPS * layer.units;
            }
            hil_dsp_clamp_s8(out, rows * layer.out_w * layer.out_c, low, high);
            out += rows * layer.out_w * layer.out_c;
        }
        in += layer.in_h * layer.in_w * layer.in_c;
    }
}

#endif
