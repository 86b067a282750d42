/* Depthwise convolution of int8 images with small filters on Helium, as dot products over the taps:
 * the pixels under a band of output rows are laid out plane by plane, the zero point around the
 * image, and a gather of half-words fetches a patch of 4x4 pixels of one channel.
 *
 * Tile: 2x2 outputs x 1 channel; two tiles are a turn. With stride 1 a patch serves a tile, each
 * output with the filter moved within it; with stride 2 each output has its own patch.
 *
 *   stride 1   lanes of a patch and of the filter         sum, by vmladav with
 *              0  1  2  3     f f f .   . f f f           r0  upper left    q0 filter
 *              4  5  6  7     f f f .   . f f f           r2  upper right   q1 moved right: 8 bits
 *              8  9  10 11    f f f .   . f f f           r4  lower left    q2 moved down: 32 bits
 *              12 13 14 15    . . . .   . . . .           r6  lower right   q3 both
 *
 * Registers, at the top of a turn:
 *
 *   q0..q3  filters (stride 2: q0 the filter, q1..q4 offsets of the patches of four outputs)
 *   q4      offsets of a patch's pairs of pixels        q5  offsets of the turn's eight outputs
 *   q6 q7   patches of both tiles, then their sums      lr  iterations left
 *   r0 r12  tiles       r1  plane         r3  outputs   r5  bias    r7  multiplier   r8  shift
 *   r9  zero point      r10 parts left    r11 table     p0  outputs that are stored (masked)
 *   stack: planes at 64, stream at 68, outputs at 72, struct hil_mve_tiles at 76
 *
 * Data: packed by `_depthwise_planes()` of the Helium family.
 *
 *   stream   per channel 28 bytes: int8[4][4] filter, upper left; int32 +16 bias, +20 multiplier,
 *            +24 shift
 *   table    by `_entries()`; an entry, 24 bytes: int32 +0 first tile, +4 second tile, in a plane;
 *            uint16[8] +8 their outputs. masked, 28 bytes: a mask between the two tiles.
 *            by `_half_entries()`, of an odd last column, 32 bytes: int32[4] tiles of 2x1,
 *            uint16[8] their outputs
 *   planes   in scratch, int8 [planes][plane_h][plane_w]
 *
 * Tiles at a lower end of odd height repeat a row, those at an odd right end are stored in part.
 *
 * Order: bands of rows; `planes` channels of the image at a time their pixels are read, then the
 * outputs of all their filters written.
 *
 * Bounds: at most 16 products, 16 * 128 * 128 = 2^18, and the bias, below 2^31
 * (`_check_quantized()`). Offsets of outputs and patches are 16 bits: `_depthwise_planes()`
 * shortens bands until both fit 65535.
 *
 * Output: as in blocks_s8.h, one multiplier and one shift a channel; `any` corrects signs, unless
 * sums are rounded once, and clamps.
 *
 * Scratch: the planes of a band; with `addressed` also a copy of the table that holds addresses.
 *
 * Cost: 29 instructions a turn (72 MACs of 3x3), 27 with addresses, 35 with stride 2, one more
 * where products are not narrowed first, 9 more for any. Measured (`hil tune` on mps3-an547,
 * instructions under QEMU): 25x5x64 (kws) 0.564 a MAC addressed, 0.594 without, 0.661 to 1.585 in
 * less scratch. 12x12x4 with eight filters a channel 0.444.
 *
 * Tests: no twin in C; the numpy reference gives what must come out (tests/board/test_kernels.py,
 * buffers between guard bytes). Layout: tests/c/test_kernel_layouts.py.
 */
#ifndef HIL_KERNELS_MVE_DEPTHWISE_CONV2D_S8_H
#define HIL_KERNELS_MVE_DEPTHWISE_CONV2D_S8_H

#include <arm_mve.h>
#include <stddef.h>
#include <string.h>

#include "hil/kernels/mve/blocks_s8.h"

/* What the tiles of some channels share. The assembly knows the offsets. */
struct hil_mve_tiles {
    int32_t channels;        /*   0: counted down */
    int32_t plane_bytes;     /*   4 */
    int32_t iterations;      /*   8: of the table */
    const int8_t *table;     /*  12 */
    int32_t x_step;          /*  16: in a plane, from a part of the rows to the next part */
    int32_t out_step;        /*  20: the same in the outputs */
    int32_t zero_point;      /*  24: of the output */
    int32_t parts;           /*  28: how many times the table is used */
    int16_t low[8];          /*  32 */
    int16_t high[8];         /*  48 */
    int32_t half_iterations; /*  64: of the table of tiles of a last column, behind the parts */
    const int8_t *halves;    /*  68 */
    uint16_t patches[4][8];  /*  72: of the pairs of pixels of a patch; stride 2: for each output of
                                a tile */
    const int8_t *planes;    /* the first */
    const int8_t *first;     /* the table, of all iterations */
};

HIL_MVE_AT(hil_mve_tiles, channels, 0);
HIL_MVE_AT(hil_mve_tiles, plane_bytes, 4);
HIL_MVE_AT(hil_mve_tiles, iterations, 8);
HIL_MVE_AT(hil_mve_tiles, table, 12);
HIL_MVE_AT(hil_mve_tiles, x_step, 16);
HIL_MVE_AT(hil_mve_tiles, out_step, 20);
HIL_MVE_AT(hil_mve_tiles, zero_point, 24);
HIL_MVE_AT(hil_mve_tiles, parts, 28);
HIL_MVE_AT(hil_mve_tiles, low, 32);
HIL_MVE_AT(hil_mve_tiles, high, 48);
HIL_MVE_AT(hil_mve_tiles, half_iterations, 64);
HIL_MVE_AT(hil_mve_tiles, halves, 68);
HIL_MVE_AT(hil_mve_tiles, patches, 72);

/* Leaves the arguments on the stack; all else is loaded for each channel and part. */
#define HIL_MVE_TILES_ENTER                                                                        \
    "push {r0-r11, lr}\n"                                                                          \
    "vpush {d8-d15}\n"                                                                             \
    "ldr r9, [r3, #24]\n"

/* The next channel: its filter in q0, and what requantizes its sums. */
#define HIL_MVE_TILES_CHANNEL                                                                      \
    ".p2align 2\n"                                                                                 \
    "1:\n"                                                                                         \
    "ldr r0, [sp, #68]\n"                                                                          \
    "vldrb.8 q0, [r0], #16\n"                                                                      \
    "ldmia r0!, {r5, r7, r8}\n"                                                                    \
    "str r0, [sp, #68]\n"                                                                          \
    "ldr r1, [sp, #64]\n"                                                                          \
    "ldrd r3, r0, [sp, #72]\n"                                                                     \
    "ldr r10, [r0, #28]\n"

/* The filter moved to the right, down, and both. */
#define HIL_MVE_TILES_SHIFTED                                                                      \
    "mov r0, #0\n"                                                                                 \
    "vmov q1, q0\n"                                                                                \
    "vshlc q1, r0, #8\n"                                                                           \
    "mov r0, #0\n"                                                                                 \
    "vmov q2, q0\n"                                                                                \
    "vshlc q2, r0, #32\n"                                                                          \
    "mov r0, #0\n"                                                                                 \
    "vmov q3, q1\n"                                                                                \
    "vshlc q3, r0, #32\n"

#define HIL_MVE_TILES_PART(moved)                                                                  \
    "2:\n"                                                                                         \
    "ldr r0, [sp, #76]\n" moved "ldrd r2, r11, [r0, #8]\n"                                         \
    "dls lr, r2\n"                                                                                 \
    ".p2align 2\n"                                                                                 \
    "3:\n"

/* Where the table has addresses, the patches move instead: then r1 is the distance from the first
 * plane. */
#define HIL_MVE_TILES_MOVED                                                                        \
    "vldrh.u16 q4, [r0, #72]\n"                                                                    \
    "vadd.i16 q4, q4, r1\n"

/* A turn of the table: places of two tiles in r0 and r12, of their outputs in q5. */
#define HIL_MVE_TILES_ADDRESSES                                                                    \
    "ldrd r0, r12, [r11], #8\n"                                                                    \
    "vldrh.u16 q5, [r11], #16\n"
#define HIL_MVE_TILES_WHOLE "ldrd r0, r12, [r11], #8\n"
#define HIL_MVE_TILES_MASKED                                                                       \
    "ldmia r11!, {r0, r4, r12}\n"                                                                  \
    "vmsr p0, r4\n"
#define HIL_MVE_TILES_TURN(entry)                                                                  \
    entry "vldrh.u16 q5, [r11], #16\n"                                                             \
          "add r0, r1\n"                                                                           \
          "add r12, r1\n"

#define HIL_MVE_TILES_SUMS(q)                                                                      \
    "vmladav.s8 r0, " q ", q0\n"                                                                   \
    "vmladav.s8 r2, " q ", q1\n"                                                                   \
    "vmladav.s8 r4, " q ", q2\n"                                                                   \
    "vmladav.s8 r6, " q ", q3\n"                                                                   \
    "vmov " q "[2], " q "[0], r0, r4\n"                                                            \
    "vmov " q "[3], " q "[1], r2, r6\n"

#define HIL_MVE_TILES_STRIDE_1                                                                     \
    "vldrh.u16 q6, [r0, q4]\n"                                                                     \
    "vldrh.u16 q7, [r12, q4]\n" HIL_MVE_TILES_SUMS("q6") HIL_MVE_TILES_SUMS("q7")

/* The patches of the tile at `x`, of which the last sum may take the register. */
#define HIL_MVE_TILES_FOUR(x, q)                                                                   \
    "vldrh.u16 q7, [" x ", q1]\n"                                                                  \
    "vmladav.s8 r2, q7, q0\n"                                                                      \
    "vldrh.u16 q7, [" x ", q2]\n"                                                                  \
    "vmladav.s8 r4, q7, q0\n"                                                                      \
    "vldrh.u16 q7, [" x ", q3]\n"                                                                  \
    "vmladav.s8 r6, q7, q0\n"                                                                      \
    "vldrh.u16 q7, [" x ", q4]\n"                                                                  \
    "vmladav.s8 r0, q7, q0\n"                                                                      \
    "vmov " q "[2], " q "[0], r2, r6\n"                                                            \
    "vmov " q "[3], " q "[1], r4, r0\n"

#define HIL_MVE_TILES_STRIDE_2 HIL_MVE_TILES_FOUR("r0", "q6") HIL_MVE_TILES_FOUR("r12", "q7")

#define HIL_MVE_TILES_CORRECT                                                                      \
    "mov r0, #1\n" HIL_MVE_AWAY_FROM_ZERO("q6", "r0") HIL_MVE_AWAY_FROM_ZERO("q7", "r0")

#define HIL_MVE_TILES_PRODUCTS(a, b, multiply)                                                     \
    "vadd.i32 " a ", " a ", r5\n"                                                                  \
    "vadd.i32 " b ", " b ", r5\n" multiply ".s32 " a ", " a ", r7\n" multiply ".s32 " b ", " b     \
    ", r7\n"
#define HIL_MVE_TILES_SCALE(a, b, multiply, correct)                                               \
    HIL_MVE_TILES_PRODUCTS(a, b, multiply)                                                         \
    correct "vrshl.s32 " a ", r8\n"                                                                \
            "vrshl.s32 " b ", r8\n"                                                                \
            "vqmovnb.s32 " a ", " a "\n"                                                           \
            "vqmovnt.s32 " a ", " b "\n"                                                           \
            "vqadd.s16 " a ", " a ", r9\n"
#define HIL_MVE_TILES_SCALE_PLAIN(a, b, multiply, correct)                                         \
    HIL_MVE_TILES_SCALE(a, b, multiply, "")                                                        \
    "vqmovnb.s16 " a ", " a "\n"
/* Where products fit 16 bits before the shift (`narrow_first()`), as in matmul_s8_2x16.h. */
#define HIL_MVE_TILES_SCALE_FIRST(a, b, multiply, correct)                                         \
    HIL_MVE_TILES_PRODUCTS(a, b, multiply)                                                         \
    "vqmovunb.s32 " a ", " a "\n"                                                                  \
    "vqmovunt.s32 " a ", " b "\n"                                                                  \
    "vrshl.u16 " a ", r8\n"                                                                        \
    "vqmovnb.u16 " a ", " a "\n"                                                                   \
    "vadd.i8 " a ", " a ", r9\n"

/* Outputs that are not over the whole range of int8, or below the zero point. */
#define HIL_MVE_TILES_SCALE_ANY(a, b, multiply, correct)                                           \
    HIL_MVE_TILES_SCALE(a, b, multiply, correct)                                                   \
    "ldr r0, [sp, #76]\n"                                                                          \
    "vldrh.u16 q7, [r0, #32]\n"                                                                    \
    "vmax.s16 " a ", " a ", q7\n"                                                                  \
    "vldrh.u16 q7, [r0, #48]\n"                                                                    \
    "vmin.s16 " a ", " a ", q7\n"

#define HIL_MVE_TILES_STORE_WHOLE "vstrb.16 q6, [r3, q5]\n"
#define HIL_MVE_TILES_STORE_MASKED                                                                 \
    "vpst\n"                                                                                       \
    "vstrbt.16 q6, [r3, q5]\n"

/* The corrections have taken the predicate. */
#define HIL_MVE_TILES_STORE_ANY                                                                    \
    "ldr r4, [r11, #-24]\n"                                                                        \
    "vmsr p0, r4\n" HIL_MVE_TILES_STORE_MASKED

/* Four tiles of 2x1 outputs, of which the moved filters are not needed: their sums are in q1 and
 * q3. */
#define HIL_MVE_TILES_HALVES(scale, multiply, moved, based)                                        \
    "ldr r0, [sp, #76]\n"                                                                          \
    "ldrd r2, r11, [r0, #64]\n"                                                                    \
    "cmp r2, #0\n"                                                                                 \
    "beq.w 6f\n"                                                                                   \
    "ldrd r1, r4, [sp, #64]\n"                                                                     \
    "ldr r3, [sp, #72]\n" moved "dls lr, r2\n"                                                     \
    "5:\n"                                                                                         \
    "ldmia r11!, {r0, r2, r4, r12}\n"                                                              \
    "vldrh.u16 q5, [r11], #16\n" based "vldrh.u16 q6, [r0, q4]\n"                                  \
    "vldrh.u16 q7, [r2, q4]\n" HIL_MVE_TILES_HALF_SUMS(                                            \
        "q1") "vldrh.u16 q6, [r4, q4]\n"                                                           \
              "vldrh.u16 q7, [r12, q4]\n" HIL_MVE_TILES_HALF_SUMS("q3")                            \
                  scale("q1", "q3", multiply, "") "vstrb.16 q1, [r3, q5]\n"                        \
                                                  "le lr, 5b\n"                                    \
                                                  "6:\n"
#define HIL_MVE_TILES_HALVES_BASED                                                                 \
    "add r0, r1\n"                                                                                 \
    "add r2, r1\n"                                                                                 \
    "add r4, r1\n"                                                                                 \
    "add r12, r1\n"
#define HIL_MVE_TILES_HALF_SUMS(q)                                                                 \
    "vmladav.s8 r0, q6, q0\n"                                                                      \
    "vmladav.s8 r6, q6, q2\n"                                                                      \
    "vmladav.s8 r2, q7, q0\n"                                                                      \
    "vmladav.s8 r10, q7, q2\n"                                                                     \
    "vmov " q "[2], " q "[0], r0, r2\n"                                                            \
    "vmov " q "[3], " q "[1], r6, r10\n"

#define HIL_MVE_TILES_NEXT(halves)                                                                 \
    "le lr, 3b\n"                                                                                  \
    "ldr r0, [sp, #76]\n"                                                                          \
    "subs r10, #1\n"                                                                               \
    "beq 4f\n"                                                                                     \
    "ldrd r2, r4, [r0, #16]\n"                                                                     \
    "add r1, r2\n"                                                                                 \
    "add r3, r4\n"                                                                                 \
    "b 2b\n"                                                                                       \
    "4:\n" halves "ldr r0, [sp, #76]\n"                                                            \
    "ldrd r2, r4, [r0]\n"                                                                          \
    "ldr r1, [sp, #64]\n"                                                                          \
    "ldr r3, [sp, #72]\n"                                                                          \
    "add r1, r4\n"                                                                                 \
    "adds r3, #1\n"                                                                                \
    "str r1, [sp, #64]\n"                                                                          \
    "str r3, [sp, #72]\n"                                                                          \
    "subs r2, #1\n"                                                                                \
    "str r2, [r0]\n"                                                                               \
    "bne.w 1b\n"                                                                                   \
    "vpop {d8-d15}\n"                                                                              \
    "pop {r0-r11, pc}\n"

#define HIL_MVE_TILES_1(scale, multiply, entry, correct, store, halves)                            \
    HIL_MVE_TILES_ENTER                                                                            \
    "vldrh.u16 q4, [r3, #72]\n" HIL_MVE_TILES_CHANNEL HIL_MVE_TILES_SHIFTED HIL_MVE_TILES_PART("") \
        HIL_MVE_TILES_TURN(entry) HIL_MVE_TILES_STRIDE_1 scale("q6", "q7", multiply, correct)      \
    store HIL_MVE_TILES_NEXT(halves)

#define HIL_MVE_TILES_1_ADDRESSED(scale, multiply, entry, correct, store, halves)                  \
    HIL_MVE_TILES_ENTER HIL_MVE_TILES_CHANNEL HIL_MVE_TILES_SHIFTED HIL_MVE_TILES_PART(            \
        HIL_MVE_TILES_MOVED)                                                                       \
    HIL_MVE_TILES_ADDRESSES HIL_MVE_TILES_STRIDE_1 scale("q6", "q7", multiply, correct)            \
    store HIL_MVE_TILES_NEXT(halves)

#define HIL_MVE_TILES_2(scale, multiply, entry, correct, store, halves)                            \
    HIL_MVE_TILES_ENTER                                                                            \
    "adds r3, #72\n"                                                                               \
    "vldrh.u16 q1, [r3], #16\n"                                                                    \
    "vldrh.u16 q2, [r3], #16\n"                                                                    \
    "vldrh.u16 q3, [r3], #16\n"                                                                    \
    "vldrh.u16 q4, [r3], #16\n" HIL_MVE_TILES_CHANNEL HIL_MVE_TILES_PART("")                       \
        HIL_MVE_TILES_TURN(entry) HIL_MVE_TILES_STRIDE_2 scale("q6", "q7", multiply, correct)      \
    store HIL_MVE_TILES_NEXT(halves)

/* A function that is all assembly, of whose effects the compiler must assume nothing. */
/* clang-format off */
#define HIL_MVE_TILES_FUNCTION(name, stride, ...)                                                  \
    __attribute__((naked, noipa, unused)) static void name(                                        \
        const int8_t *planes __attribute__((unused)),                                              \
        const int8_t *stream __attribute__((unused)), int8_t *out __attribute__((unused)),         \
        struct hil_mve_tiles *tiles __attribute__((unused))) {                                     \
        __asm__(stride(__VA_ARGS__));                                                              \
    }

/* For each stride: whole tiles and masked ones; outputs over the whole range of int8 whose values
 * below the zero point clamp (`scale`: products narrowed before the shift or behind it), and any
 * others; sums rounded twice, and once, which needs no correction of signs. */
#define HIL_MVE_TILES_PLAIN_FUNCTIONS(suffix, scale, multiply)                                     \
    HIL_MVE_TILES_FUNCTION(hil_mve_tiles_1##suffix, HIL_MVE_TILES_1, scale, multiply,              \
                           HIL_MVE_TILES_WHOLE, "", HIL_MVE_TILES_STORE_WHOLE, "")                 \
    HIL_MVE_TILES_FUNCTION(hil_mve_tiles_1_masked##suffix, HIL_MVE_TILES_1, scale, multiply,       \
                           HIL_MVE_TILES_MASKED, "", HIL_MVE_TILES_STORE_MASKED, "")               \
    HIL_MVE_TILES_FUNCTION(hil_mve_tiles_2##suffix, HIL_MVE_TILES_2, scale, multiply,              \
                           HIL_MVE_TILES_WHOLE, "", HIL_MVE_TILES_STORE_WHOLE, "")                 \
    HIL_MVE_TILES_FUNCTION(hil_mve_tiles_2_masked##suffix, HIL_MVE_TILES_2, scale, multiply,       \
                           HIL_MVE_TILES_MASKED, "", HIL_MVE_TILES_STORE_MASKED, "")               \
    HIL_MVE_TILES_FUNCTION(hil_mve_tiles_1_odd##suffix, HIL_MVE_TILES_1, scale, multiply,          \
                           HIL_MVE_TILES_WHOLE, "", HIL_MVE_TILES_STORE_WHOLE,                     \
                           HIL_MVE_TILES_HALVES(scale, multiply, "", HIL_MVE_TILES_HALVES_BASED))  \
    HIL_MVE_TILES_FUNCTION(hil_mve_tiles_1_addressed##suffix, HIL_MVE_TILES_1_ADDRESSED, scale,    \
                           multiply, "", "", HIL_MVE_TILES_STORE_WHOLE, "")                        \
    HIL_MVE_TILES_FUNCTION(hil_mve_tiles_1_odd_addressed##suffix, HIL_MVE_TILES_1_ADDRESSED,       \
                           scale, multiply, "", "", HIL_MVE_TILES_STORE_WHOLE,                     \
                           HIL_MVE_TILES_HALVES(scale, multiply, HIL_MVE_TILES_MOVED, ""))
#define HIL_MVE_TILES_FUNCTIONS(suffix, multiply, correct)                                         \
    HIL_MVE_TILES_PLAIN_FUNCTIONS(suffix, HIL_MVE_TILES_SCALE_PLAIN, multiply)                     \
    HIL_MVE_TILES_PLAIN_FUNCTIONS(_first##suffix, HIL_MVE_TILES_SCALE_FIRST, multiply)             \
    HIL_MVE_TILES_FUNCTION(hil_mve_tiles_1_any##suffix, HIL_MVE_TILES_1, HIL_MVE_TILES_SCALE_ANY,  \
                           multiply, HIL_MVE_TILES_MASKED, correct, HIL_MVE_TILES_STORE_ANY, "")   \
    HIL_MVE_TILES_FUNCTION(hil_mve_tiles_2_any##suffix, HIL_MVE_TILES_2, HIL_MVE_TILES_SCALE_ANY,  \
                           multiply, HIL_MVE_TILES_MASKED, correct, HIL_MVE_TILES_STORE_ANY, "")
/* clang-format on */

HIL_MVE_TILES_FUNCTIONS(, HIL_MVE_TWICE, HIL_MVE_TILES_CORRECT)
HIL_MVE_TILES_FUNCTIONS(_once, HIL_MVE_ONCE, "")

typedef void hil_mve_tiles_function(const int8_t *planes, const int8_t *stream, int8_t *out,
                                    struct hil_mve_tiles *tiles);

#define HIL_MVE_TILES_OF(name, any) (((any)&HIL_MVE_ANY_ONCE) ? name##_once : name)
#define HIL_MVE_TILES_PLAIN_OF(name, p)                                                            \
    ((p)->first ? HIL_MVE_TILES_OF(name##_first, (p)->any) : HIL_MVE_TILES_OF(name, (p)->any))

/*@kernel
name = "hil_mve_depthwise_conv2d_s8"
requires = ["mve"]
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "planes * plane_h * plane_w + addressed"
order = ["rows band_h", "pixels band_h * tile_w", "channels planes * depth_multiplier"]
reads = "channel window"
code = 668
shared = {hil_mve_tiles = 252}
[cost]
channel = "batch * in_c"
tile = "channel * depth_multiplier * (out_w // tile_w)"
band = "tile * ((out_h + band_h - 1) // band_h)"
filters_of_plane = "band / depth_multiplier * (depth_multiplier > 1)"
plane_call = "band / depth_multiplier / planes"
half_turn = "band * half_iterations"
part = "tile * (out_h // part_h)"
turn = "part * part_iterations + tile * rest_iterations"
plain_turn = "turn * (addressed == 0)"
masked_turn = "turn * masked"
strided_turn = "turn * (stride - 1)"
clamped_turn = "turn * (any % 2)"
late_narrowed_turn = "turn * (1 - first)"
gathered_row = "channel * gathered * in_h"
gathered_sixteen = "gathered_row * ((in_w + 15) // 16)"
paired_row = "channel * (1 - gathered) * paired * in_h"
paired_pixel = "paired_row * in_w"
paired_row_call = "paired_row / planes"
paired_pixel_call = "paired_pixel / planes"
pixel = "channel * (1 - gathered) * (1 - paired) * in_h * in_w"
pixel_call = "pixel / planes"
table_byte = "addressed"
@*/
struct hil_mve_depthwise_conv2d_s8 {
    HIL_IMAGES_FIELDS;
    int32_t filter_h;         /* at most 3 with stride 1, 4 with stride 2 */
    int32_t filter_w;         /* the same, of columns */
    int32_t stride;           /* 1 or 2 */
    int32_t pad_top;          /* rows by which the first window reaches above the image */
    int32_t pad_left;         /* columns by which the first window reaches beyond the image */
    int32_t depth_multiplier; /* filters of a channel of the image */
    int32_t planes;           /* channels of the image at a time, at most 8 */
    int32_t gathered;         /* 1: sixteen pixels of a channel lie within the reach of a gather */
    int32_t paired;           /* 1: else, the first eight channels of two pixels do */
    int32_t band_h;           /* output rows of a band, whole parts unless there is but one band */
    int32_t tile_w; /* output columns at a time: all, or, where band_h is 1, a divisor of out_w */
    int32_t part_h; /* output rows of the table */
    int32_t part_iterations; /* iterations of the table */
    int32_t rest_iterations; /* iterations behind them, for out_h % part_h rows */
    int32_t half_iterations; /* behind those, of four tiles of 2x1 outputs of an odd last column; 0:
                              * there are none */
    int32_t plane_h;         /* input rows of a band, as far as patches reach */
    int32_t plane_w;         /* input columns of a tile, even, as far as patches reach */
    int32_t masked;          /* 1: the table's iterations have masks */
    int32_t any;             /* as in HIL_MVE_PIXELS_FIELDS */
    int32_t first;           /* the same */
    int32_t addressed;     /* bytes of a copy of the table with addresses of tiles, which is faster;
                            * with  stride 1 and neither masks nor bounds. 0: there is none */
    int32_t in_zero_point; /* the input that stands for 0.0, which pixels outside the image have */
    HIL_OUTPUT_RANGE_FIELDS;
    const int8_t *table;  /* iterations of int32 places of two tiles in a plane, where masked a mask
                           * between them, and uint16 places of their outputs; of a last column
                           * int32 places of four tiles, and uint16 places */
    const int8_t *stream; /* the head draws it */
};

/* `rows` lines of `count` pixels of the channels in the mask, from an image to planes. */
HIL_INLINE void hil_mve_planes(const int8_t *from, int8_t *to, uint16x8_t to_channel,
                               int32_t channels, int32_t rows, int32_t from_row, int32_t to_row,
                               int32_t count, int32_t from_step, int32_t to_step) {
    const uint16x8_t to_next = vaddq_n_u16(to_channel, (uint16_t)to_step);
    const int32_t pairs = count / 2;
    for (; rows > 0; rows--) {
        const int8_t *x = from;
        const int8_t *y = from + from_step;
        int8_t *place = to;
        if (pairs > 0) {
            uint32_t kept; /* gcc has no name for the predicate, in which it may keep one */
            __asm__ volatile("vmrs %[kept], p0\n"
                             "vctp.16 %[channels]\n"
                             "dls lr, %[pairs]\n"
                             "1:\n"
                             "vpstttt\n"
                             "vldrbt.s16 q0, [%[x]]\n"
                             "vldrbt.s16 q1, [%[y]]\n"
                             "vstrbt.16 q0, [%[place], %q[a]]\n"
                             "vstrbt.16 q1, [%[place], %q[b]]\n"
                             "add %[x], %[from]\n"
                             "add %[y], %[from]\n"
                             "add %[place], %[to]\n"
                             "le lr, 1b\n"
                             "vmsr p0, %[kept]\n"
                             : [kept] "=&r"(kept), [x] "+&l"(x), [y] "+&l"(y), [place] "+&l"(place)
                             : [a] "w"(to_channel), [b] "w"(to_next), [channels] "r"(channels),
                               [pairs] "r"(pairs), [from] "r"(2 * from_step), [to] "r"(2 * to_step)
                             : "q0", "q1", "lr", "memory");
        }
        if (count % 2 != 0) {
            const mve_pred16_t mask = vctp16q((uint32_t)channels);
            vstrbq_scatter_offset_p_s16(place, to_channel, vldrbq_z_s16(x, mask), mask);
        }
        from += from_row;
        to += to_row;
    }
}

/* The same along rows, two pixels at a time, which lie next to each other in a plane: `first` is 1
 * where the first pixel's place is odd, and there are at least two behind it. */
/* clang-format off */
#define HIL_MVE_PIXEL_PAIRS(before, behind)                                                        \
    __asm__ volatile("vmrs %[kept], p0\n"                                                          \
                     "vctp.16 %[channels]\n"                                                       \
                     "2:\n" before                                                                 \
                     "dls lr, %[pairs]\n"                                                          \
                     "1:\n"                                                                        \
                     "vpstt\n"                                                                     \
                     "vldrbt.u8 q0, [%[x], %q[lanes]]\n"                                           \
                     "vstrht.16 q0, [%[place], %q[pair]]\n"                                        \
                     "add %[x], %[two]\n"                                                          \
                     "adds %[place], #2\n"                                                         \
                     "le lr, 1b\n" behind                                                          \
                     "add %[x], %[from]\n"                                                         \
                     "add %[place], %[to]\n"                                                       \
                     "subs %[rows], #1\n"                                                          \
                     "bne 2b\n"                                                                    \
                     "vmsr p0, %[kept]\n"                                                          \
                     : [kept] "=&r"(kept), [x] "+&l"(from), [place] "+&l"(to), [rows] "+&l"(rows)  \
                     : [single] "w"(to_channel), [pair] "w"(to_pair), [lanes] "w"(lanes),          \
                       [channels] "r"(channels), [pairs] "r"(pairs), [one] "r"(step),              \
                       [two] "r"(2 * step), [from] "r"(from_row - (first + 2 * pairs) * step),     \
                       [to] "r"(to_row - 2 * pairs)                                                \
                     : "q0", "lr", "cc", "memory")
#define HIL_MVE_PIXEL_SINGLE(place)                                                                \
    "vpstt\n"                                                                                      \
    "vldrbt.s16 q0, [%[x]]\n"                                                                      \
    "vstrbt.16 q0, [%[place], %q[" place "]]\n"
/* clang-format on */
HIL_INLINE void hil_mve_pixel_pairs(const int8_t *from, int8_t *to, uint16x8_t to_channel,
                                    int32_t channels, int32_t rows, int32_t from_row,
                                    int32_t to_row, int32_t count, int32_t step, int32_t first) {
    const uint16x8_t to_pair = vaddq_n_u16(to_channel, (uint16_t)first);
    /* Bytes of both pixels by channel. */
    const uint16x8_t lanes =
        vaddq_n_u16(vmulq_n_u16(vidupq_n_u16(0, 1), 0x101), (uint16_t)(step << 8));
    const int32_t pairs = (count - first) / 2;
    uint32_t kept; /* gcc has no name for the predicate, in which it may keep one */
    if (first && (count - first) % 2 != 0) {
        HIL_MVE_PIXEL_PAIRS(HIL_MVE_PIXEL_SINGLE("single") "add %[x], %[one]\n",
                            HIL_MVE_PIXEL_SINGLE("pair"));
    } else if (first) {
        HIL_MVE_PIXEL_PAIRS(HIL_MVE_PIXEL_SINGLE("single") "add %[x], %[one]\n", "");
    } else if (count % 2 != 0) {
        HIL_MVE_PIXEL_PAIRS("", HIL_MVE_PIXEL_SINGLE("pair"));
    } else {
        HIL_MVE_PIXEL_PAIRS("", "");
    }
}

/* The same of one channel, sixteen pixels at a time, for few channels: `lanes` are the places of
 * its values. */
HIL_INLINE void hil_mve_plane(const int8_t *from, int8_t *to, uint8x16_t lanes, int32_t channels,
                              int32_t rows, int32_t from_row, int32_t to_row, int32_t count) {
    const int32_t blocks = (count + 15) / 16;
    const int32_t from_step = 16 * channels;
    __asm__ volatile("2:\n"
                     "dlstp.8 lr, %[count]\n"
                     "1:\n"
                     "vldrb.u8 q0, [%[x], %q[lanes]]\n"
                     "add %[x], %[step]\n"
                     "vstrb.8 q0, [%[place]], #16\n"
                     "letp lr, 1b\n"
                     "add %[x], %[next]\n"
                     "add %[place], %[below]\n"
                     "subs %[rows], #1\n"
                     "bne 2b\n"
                     : [x] "+&l"(from), [place] "+&l"(to), [rows] "+&l"(rows)
                     : [lanes] "w"(lanes), [count] "r"(count), [step] "r"(from_step),
                       [next] "r"(from_row - blocks * from_step), [below] "r"(to_row - 16 * blocks)
                     : "q0", "lr", "cc", "memory");
}

/* The pixels under `rows` input rows from row y on, without what lies around the image. */
HIL_INLINE void hil_mve_depthwise_planes(const struct hil_mve_depthwise_conv2d_s8 *p,
                                         const int8_t *image, int32_t y, int32_t x, int32_t rows,
                                         int32_t channels, int8_t *planes) {
    const uint16x8_t to_channel =
        vmulq_n_u16(vidupq_n_u16(0, 1), (uint16_t)(p->plane_h * p->plane_w));
    const int32_t above = y < 0 ? -y : 0;
    const int32_t below = y + rows > p->in_h ? y + rows - p->in_h : 0;
    const int32_t before = x < 0 ? -x : 0;
    const int32_t fitting = p->plane_w - before;
    const int32_t width = p->in_w - x - before < fitting ? p->in_w - x - before : fitting;
    const int32_t height = rows - above - below;
    const int8_t *from = image + ((y + above) * p->in_w + x + before) * p->in_c;
    int8_t *to = planes + above * p->plane_w + before;
    const int32_t line = p->in_w * p->in_c;
    if (width <= 0 || height <= 0) {
        return;
    }
    if (p->gathered) {
        const uint8x16_t lanes = vmulq_n_u8(vidupq_n_u8(0, 1), (uint8_t)p->in_c);
        for (; channels > 0; channels--) {
            hil_mve_plane(from++, to, lanes, p->in_c, height, line, p->plane_w, width);
            to += p->plane_h * p->plane_w;
        }
    } else if (p->paired && width >= 3) {
        hil_mve_pixel_pairs(from, to, to_channel, channels, height, line, p->plane_w, width,
                            p->in_c, before % 2);
    } else if (width < height) {
        /* Along the longer side, whose loop costs less. */
        hil_mve_planes(from, to, to_channel, channels, width, p->in_c, 1, height, line, p->plane_w);
    } else {
        hil_mve_planes(from, to, to_channel, channels, height, line, p->plane_w, width, p->in_c, 1);
    }
}

HIL_INLINE void hil_mve_depthwise_tiles(const struct hil_mve_depthwise_conv2d_s8 *p,
                                        struct hil_mve_tiles *tiles, int32_t channels,
                                        int32_t iterations, int32_t parts, const int8_t *table,
                                        const int8_t *planes, const int8_t *stream, int8_t *out) {
    if (parts == 0) {
        return;
    }
    tiles->channels = channels;
    tiles->iterations = iterations;
    tiles->parts = parts;
    tiles->table = table;
    hil_mve_tiles_function *function;
    if (p->stride == 1) {
        if (p->any & 1) {
            function = HIL_MVE_TILES_OF(hil_mve_tiles_1_any, p->any);
        } else if (p->masked) {
            function = HIL_MVE_TILES_PLAIN_OF(hil_mve_tiles_1_masked, p);
        } else if (p->addressed) {
            /* The planes' distance takes the place of their address. */
            planes = (const int8_t *)(intptr_t)(planes - tiles->planes);
            function = p->half_iterations > 0
                           ? HIL_MVE_TILES_PLAIN_OF(hil_mve_tiles_1_odd_addressed, p)
                           : HIL_MVE_TILES_PLAIN_OF(hil_mve_tiles_1_addressed, p);
        } else if (p->half_iterations > 0) {
            function = HIL_MVE_TILES_PLAIN_OF(hil_mve_tiles_1_odd, p);
        } else {
            function = HIL_MVE_TILES_PLAIN_OF(hil_mve_tiles_1, p);
        }
    } else if (p->any & 1) {
        function = HIL_MVE_TILES_OF(hil_mve_tiles_2_any, p->any);
    } else if (p->masked) {
        function = HIL_MVE_TILES_PLAIN_OF(hil_mve_tiles_2_masked, p);
    } else {
        function = HIL_MVE_TILES_PLAIN_OF(hil_mve_tiles_2, p);
    }
    function(planes, stream, out, tiles);
}

/* `rows` rows of outputs from row y and column x of the input on. */
HIL_INLINE void hil_mve_depthwise_tile(const struct hil_mve_depthwise_conv2d_s8 *p,
                                       struct hil_mve_tiles *tiles, const int8_t *in, int32_t y,
                                       int32_t x, int32_t rows, int8_t *planes, int8_t *out) {
    const int8_t *const rest = tiles->first + p->part_iterations * (p->masked ? 28 : 24);
    const int32_t parts = rows / p->part_h;
    const int8_t *stream = p->stream;
    for (int32_t first = 0; first < p->in_c; first += p->planes) {
        const int32_t more = p->in_c - first;
        const int32_t count = more < p->planes ? more : p->planes;
        hil_mve_depthwise_planes(p, in + first, y, x, (rows - 1) * p->stride + p->filter_h, count,
                                 planes);
        /* All filters of one channel, or one filter of each. */
        const int32_t calls = p->depth_multiplier == 1 ? 1 : count;
        const int32_t channels = p->depth_multiplier == 1 ? count : p->depth_multiplier;
        for (int32_t call = 0; call < calls; call++) {
            const int8_t *const plane = planes + call * p->plane_h * p->plane_w;
            tiles->half_iterations = p->half_iterations;
            hil_mve_depthwise_tiles(p, tiles, channels, p->part_iterations, parts, tiles->first,
                                    plane, stream, out);
            tiles->half_iterations = 0;
            hil_mve_depthwise_tiles(p, tiles, channels, p->rest_iterations, rows % p->part_h != 0,
                                    rest, plane + parts * tiles->x_step, stream,
                                    out + parts * tiles->out_step);
            stream += 28 * channels;
            out += channels;
        }
    }
}

/* The table with addresses in place of places in a plane. */
HIL_INLINE void hil_mve_depthwise_addresses(const struct hil_mve_depthwise_conv2d_s8 *p,
                                            const int8_t *planes, int32_t *to) {
    const int8_t *from = p->table;
    const int32_t base = (int32_t)(intptr_t)planes;
    for (int32_t iterations = p->part_iterations + p->rest_iterations; iterations > 0;
         iterations--) {
        int32_t places[2];
        memcpy(places, from, sizeof places); /* the table is bytes to the compiler */
        to[0] = places[0] + base;
        to[1] = places[1] + base;
        vstrwq_s32(to + 2, vreinterpretq_s32_s8(vldrbq_s8(from + 8)));
        from += 24;
        to += 6;
    }
    for (int32_t iterations = p->half_iterations; iterations > 0; iterations--) {
        vstrwq_s32(to, vaddq_n_s32(vreinterpretq_s32_s8(vldrbq_s8(from)), base));
        vstrwq_s32(to + 4, vreinterpretq_s32_s8(vldrbq_s8(from + 16)));
        from += 32;
        to += 8;
    }
}

/* What lies around the image, where it is not overwritten. */
HIL_INLINE void hil_mve_depthwise_around(const struct hil_mve_depthwise_conv2d_s8 *p, int8_t *to,
                                         int32_t bytes) {
    const int8x16_t around = vdupq_n_s8((int8_t)p->in_zero_point);
    for (; bytes > 0; bytes -= HIL_MVE_CHUNK) {
        vstrbq_p_s8(to, around, vctp8q((uint32_t)bytes));
        to += HIL_MVE_CHUNK;
    }
}

HIL_INLINE void hil_mve_depthwise_conv2d_s8(const struct hil_mve_depthwise_conv2d_s8 *p,
                                            const int8_t *in, int8_t *out, void *scratch) {
    const int32_t columns = p->in_c * p->depth_multiplier;
    const int32_t line = p->out_w * columns;
    const int32_t plane_bytes = p->plane_h * p->plane_w;
    struct hil_mve_tiles tiles = {
        .channels = 0,
        .plane_bytes = p->depth_multiplier == 1 ? plane_bytes : 0,
        .iterations = 0,
        .table = NULL,
        .x_step = p->part_h * p->stride * p->plane_w,
        .out_step = p->part_h * line,
        .zero_point = p->out_zero_point,
        .parts = 0,
        .low = {0},
        .high = {0},
        .half_iterations = 0,
        .halves = p->table + (p->part_iterations + p->rest_iterations) * (p->masked ? 28 : 24),
        .patches = {{0}},
        .planes = NULL,
        .first = NULL,
    };
    vstrhq_s16(tiles.low, vdupq_n_s16((int16_t)p->out_min));
    vstrhq_s16(tiles.high, vdupq_n_s16((int16_t)p->out_max));
    for (int32_t output = 0; output < (p->stride == 1 ? 1 : 4); output++) {
        /* A row that does not count has the patches of the one above it. */
        const int32_t below = p->part_h > 1 ? output / 2 : 0;
        const int32_t at = (below * p->plane_w + output % 2) * p->stride;
        /* Nor is there a fourth row below a part of one row, of which no output needs it. */
        const int32_t last = p->stride == 1 && p->part_h == 1 ? 2 : 3;
        for (int32_t i = 0; i < 8; i++) {
            const int32_t row = i / 2 < last ? i / 2 : last;
            tiles.patches[output][i] = (uint16_t)(at + row * p->plane_w + i % 2 * 2);
        }
    }
    int8_t *planes = (int8_t *)scratch;
    tiles.first = p->table;
    if (p->addressed) {
        planes += p->addressed;
        hil_mve_depthwise_addresses(p, planes, (int32_t *)scratch);
        tiles.first = (const int8_t *)scratch;
        tiles.halves = tiles.first + 24 * (p->part_iterations + p->rest_iterations);
    }
    tiles.planes = planes;
    for (int32_t images = p->batch; images > 0; images--) {
        int32_t y = -p->pad_top;
        for (int32_t left = p->out_h; left > 0; left -= p->band_h) {
            const int32_t rows = left < p->band_h ? left : p->band_h;
            for (int32_t column = 0; column < p->out_w; column += p->tile_w) {
                const int32_t x = column * p->stride - p->pad_left;
                if (left == p->out_h || p->tile_w < p->out_w) {
                    hil_mve_depthwise_around(p, planes, p->planes * plane_bytes);
                } else if (y + p->plane_h > p->in_h) {
                    /* What is beside the image is there already. */
                    const int32_t inside = y < p->in_h ? (p->in_h - y) * p->plane_w : 0;
                    for (int32_t plane = 0; plane < p->planes; plane++) {
                        hil_mve_depthwise_around(p, planes + plane * plane_bytes + inside,
                                                 plane_bytes - inside);
                    }
                }
                hil_mve_depthwise_tile(p, &tiles, in, y, x, rows, planes, out + column * columns);
            }
            y += rows * p->stride;
            out += rows * line;
        }
        in += p->in_h * p->in_w * p->in_c;
    }
}

#endif
