/* Rows of 8 or 16 int8 ("pixels") times an int8 weight matrix of few columns on Helium: of so
 * shallow ones the requantization takes most, so two columns at a time the sums of a block of
 * pixels go to the scratch, then all of them are requantized with multipliers and shifts that stay
 * in registers.
 *
 * Tile: 4 pixels x 2 columns; 8 pixels x 2 columns for the outputs.
 *
 *   depth 8    a load has two pixels, which are multiplied by [w, 0] and [0, w]
 *
 * Registers, at the top of four pixels: q4 to q7 weights (depth 8: [w, 0] and [0, w] of column 0,
 * then of column 1; depth 16: of column 0 q4, of column 1 q5), q0 to q3 pixels; r0 r2 r4 r6 sums of
 * column 0, r8 r10 r12 lr of column 1; r1 place in the pixels; r3 place of the sums; r5 eights of
 * pixels left; r11 biases.
 *
 * Data: the stream, packed by `_shallow()`; per pair of columns 120 bytes:
 *
 *   +0    int32[8]    bias of column 0 four times, of column 1 four times
 *   +32   int8[4][16] weights, as the registers have them; 0 behind the second with depth 16
 *         An odd last column makes a pair with the one before it, a single one with itself.
 *   +96   int32       multiplier 0, multiplier 1, shift 0, shift 1, zero point 0, zero point 1: the
 *                     output's and half an output more, moved to the left as far as products are
 *                     moved to the right
 *   pixels   in scratch, int8 [block][depth]
 *   sums     in scratch, int32 [block / 4][2 columns][4 pixels]
 *
 * Order: `block` pixels at a time, copied first.
 *
 * Bounds: a sum is at most |bias| + 128 * sum |w| < 2^31 (`_check_quantized()`). Shifts are -23 to
 * -1, so a zero point of -128 is above -2^31 when moved. Offsets of outputs are bytes: `_shallow()`
 * takes at most 36 columns.
 *
 * Output: vqrdmlash adds the zero point and a half to the rounded product before the shift, which
 * is exact as they are whole before it; the shift then rounds down. Only for outputs over the whole
 * range of int8 of which the zero point is the least: negative products clamp, so they need no
 * correction of signs. Where no shift of a pair is below -8, products saturate to int16 first, what
 * leaves it gives -128 or 127, and outputs are moved to the upper bytes, where they saturate; where
 * shifts are -12 to -4, products lose four bits first. The
 * functions `_once` round once (blocks_s8.h).
 *
 * Scratch: pixels and sums of a block.
 *
 * Cost: 11 instructions for four pixels and two columns of either depth; 17.5 for 16
 * outputs, 20.5 with far shifts. Measured (`hil bench --per-layer` on mps3-an547,
 * instructions under QEMU) an output: 48x48x8 to 16 (vww) 2.76, 24x24x16 to 32 3.05;
 * hil_mve_matmul_s8_2x16 3.63 and 3.66.
 *
 * Tests: no twin in C; the numpy reference gives what must come out (tests/board/test_kernels.py,
 * buffers between guard bytes). Layout: tests/c/test_kernel_layouts.py.
 */
#ifndef HIL_KERNELS_MVE_MATMUL_S8_8X2_H
#define HIL_KERNELS_MVE_MATMUL_S8_8X2_H

#include <arm_mve.h>

#include "hil/kernels/mve/columns_s8.h"

#define HIL_MVE_SHALLOW_PAIR_BYTES 120

/* clang-format off */
#define HIL_MVE_SHALLOW_FOUR(pixels)                                                               \
    "ldmia r11, {r0, r2, r4, r6, r8, r10, r12, lr}\n" pixels                                       \
    "stmia r3!, {r0, r2, r4, r6, r8, r10, r12, lr}\n"
/* Pixels of the first pair of columns are loaded from any address, and also laid out; those of
 * others from there. */
#define HIL_MVE_SHALLOW_PLAIN_8 "vldmia r1!, {d0-d3}\n"
#define HIL_MVE_SHALLOW_PLAIN_16 "vldmia r1!, {d0-d7}\n"
#define HIL_MVE_SHALLOW_KEPT(q) "vldrb.8 " q ", [r1], #16\n" "vstrb.8 " q ", [r7], #16\n"
#define HIL_MVE_SHALLOW_KEPT_8 HIL_MVE_SHALLOW_KEPT("q0") HIL_MVE_SHALLOW_KEPT("q1")
#define HIL_MVE_SHALLOW_KEPT_16                                                                    \
    HIL_MVE_SHALLOW_KEPT_8 HIL_MVE_SHALLOW_KEPT("q2") HIL_MVE_SHALLOW_KEPT("q3")
#define HIL_MVE_SHALLOW_8(pixels)                                                                  \
    pixels                                                                                         \
    "vmladava.s8 r0, q0, q4\n"                                                                     \
    "vmladava.s8 r2, q0, q5\n"                                                                     \
    "vmladava.s8 r4, q1, q4\n"                                                                     \
    "vmladava.s8 r6, q1, q5\n"                                                                     \
    "vmladava.s8 r8, q0, q6\n"                                                                     \
    "vmladava.s8 r10, q0, q7\n"                                                                    \
    "vmladava.s8 r12, q1, q6\n"                                                                    \
    "vmladava.s8 lr, q1, q7\n"
#define HIL_MVE_SHALLOW_16(pixels)                                                                 \
    pixels                                                                                         \
    "vmladava.s8 r0, q0, q4\n"                                                                     \
    "vmladava.s8 r2, q1, q4\n"                                                                     \
    "vmladava.s8 r4, q2, q4\n"                                                                     \
    "vmladava.s8 r6, q3, q4\n"                                                                     \
    "vmladava.s8 r8, q0, q5\n"                                                                     \
    "vmladava.s8 r10, q1, q5\n"                                                                    \
    "vmladava.s8 r12, q2, q5\n"                                                                    \
    "vmladava.s8 lr, q3, q5\n"

/* `sixteens` times sixteen pixels. */
#define HIL_MVE_SHALLOW_FUNCTION(name, pixels, place)                                                     \
    __attribute__((naked, noipa, unused)) static void name(                                        \
        const int8_t *x __attribute__((unused)), const int8_t *pair __attribute__((unused)),       \
        int32_t *sums __attribute__((unused)), int32_t sixteens __attribute__((unused)),           \
        int8_t *kept __attribute__((unused))) {                                                    \
        __asm__("push {r4-r11, lr}\n"                                                              \
                "vpush {d8-d15}\n" place                                                           \
                "mov r11, r1\n"                                                                    \
                "mov r1, r0\n"                                                                     \
                "mov r5, r3\n"                                                                     \
                "mov r3, r2\n"                                                                     \
                "vldrb.8 q4, [r11, #32]\n"                                                         \
                "vldrb.8 q5, [r11, #48]\n"                                                         \
                "vldrb.8 q6, [r11, #64]\n"                                                         \
                "vldrb.8 q7, [r11, #80]\n"                                                         \
                ".p2align 2\n"                                                                     \
                "1:\n"                                                                             \
                HIL_MVE_SHALLOW_FOUR(pixels) HIL_MVE_SHALLOW_FOUR(pixels)                          \
                HIL_MVE_SHALLOW_FOUR(pixels) HIL_MVE_SHALLOW_FOUR(pixels)                          \
                "subs r5, #1\n"                                                                    \
                "bne.w 1b\n"                                                                       \
                "vpop {d8-d15}\n"                                                                  \
                "pop {r4-r11, pc}\n");                                                             \
    }

/* What is behind the registers that were saved. */
#define HIL_MVE_SHALLOW_PLACE "ldr r7, [sp, #100]\n"
HIL_MVE_SHALLOW_FUNCTION(hil_mve_shallow_8, HIL_MVE_SHALLOW_8(HIL_MVE_SHALLOW_PLAIN_8), "")
HIL_MVE_SHALLOW_FUNCTION(hil_mve_shallow_16, HIL_MVE_SHALLOW_16(HIL_MVE_SHALLOW_PLAIN_16), "")
HIL_MVE_SHALLOW_FUNCTION(hil_mve_shallow_8_kept, HIL_MVE_SHALLOW_8(HIL_MVE_SHALLOW_KEPT_8),
                         HIL_MVE_SHALLOW_PLACE)
HIL_MVE_SHALLOW_FUNCTION(hil_mve_shallow_16_kept, HIL_MVE_SHALLOW_16(HIL_MVE_SHALLOW_KEPT_16),
                         HIL_MVE_SHALLOW_PLACE)

/* Eight pixels' outputs of two columns from their sums, in q1. */
#define HIL_MVE_SHALLOW_PRODUCTS(multiply)                                                         \
    "vldrw.32 q0, [%[sums]], #16\n"                                                                \
    "vldrw.32 q1, [%[sums]], #16\n"                                                                \
    "vldrw.32 q2, [%[sums]], #16\n"                                                                \
    "vldrw.32 q3, [%[sums]], #16\n"                                                                \
    multiply ".s32 q0, %q[m0], %[z0]\n"                                                            \
    multiply ".s32 q1, %q[m1], %[z1]\n"                                                            \
    multiply ".s32 q2, %q[m0], %[z0]\n"                                                            \
    multiply ".s32 q3, %q[m1], %[z1]\n"
#define HIL_MVE_SHALLOW_NARROW                                                                     \
    "vqmovnb.s32 q0, q0\n"                                                                         \
    "vqmovnb.s32 q1, q1\n"                                                                         \
    "vqmovnt.s32 q0, q2\n"                                                                         \
    "vqmovnt.s32 q1, q3\n"
/* Near: outputs become upper bytes, and saturate there. */
#define HIL_MVE_SHALLOW_NEAR HIL_MVE_SHALLOW_NARROW HIL_MVE_SHALLOW_UPPER
#define HIL_MVE_SHALLOW_UPPER                                                                      \
    "vqshl.s16 q0, %[s0]\n"                                                                        \
    "vqshl.s16 q1, %[s1]\n"                                                                        \
    "vsri.16 q1, q0, #8\n"
/* Products lose four bits while they are narrowed, by vqshrnb.s32 and vqshrnt.s32 #4, in place of
 * which assemblers of binutils up to 2.40 emit vqrshrnb and vqrshrnt. */
#define HIL_MVE_SHALLOW_MIDDLE                                                                     \
    ".inst.w 0xee9c0f40\n" /* vqshrnb.s32 q0, q0, #4 */                                            \
    ".inst.w 0xee9c2f42\n" /* vqshrnb.s32 q1, q1, #4 */                                            \
    ".inst.w 0xee9c1f44\n" /* vqshrnt.s32 q0, q2, #4 */                                            \
    ".inst.w 0xee9c3f46\n" /* vqshrnt.s32 q1, q3, #4 */                                            \
    HIL_MVE_SHALLOW_UPPER
#define HIL_MVE_SHALLOW_FAR                                                                        \
    "vshl.s32 q0, %[s0]\n"                                                                         \
    "vshl.s32 q1, %[s1]\n"                                                                         \
    "vshl.s32 q2, %[s0]\n"                                                                         \
    "vshl.s32 q3, %[s1]\n"                                                                         \
    HIL_MVE_SHALLOW_NARROW                                                                         \
    "vqmovnt.s16 q1, q1\n"                                                                         \
    "vqmovnb.s16 q1, q0\n"
#define HIL_MVE_SHALLOW_EIGHT(multiply, narrow)                                                    \
    HIL_MVE_SHALLOW_PRODUCTS(multiply) narrow
#define HIL_MVE_SHALLOW_STORE                                                                      \
    "vstrb.8 q1, [%[out], %q[offsets]]\n"                                                          \
    "add %[out], %[step]\n"
/* Two eights in a turn, of which an odd number leaves out the first. */
#define HIL_MVE_SHALLOW_OUTPUTS(multiply, narrow)                                                  \
    __asm__ volatile("dls lr, %[turns]\n"                                                          \
                     "tst %[eights], #1\n"                                                         \
                     "bne 3f\n"                                                                    \
                     "b 2f\n"                                                                      \
                     "1:\n"                                                                        \
                     HIL_MVE_SHALLOW_STORE                                                         \
                     "2:\n"                                                                        \
                     HIL_MVE_SHALLOW_EIGHT(multiply, narrow)                                       \
                     HIL_MVE_SHALLOW_STORE                                                         \
                     "3:\n"                                                                        \
                     HIL_MVE_SHALLOW_EIGHT(multiply, narrow)                                       \
                     "le lr, 1b\n"                                                                 \
                     "vmrs lr, p0\n"                                                               \
                     "vmsr p0, %[mask]\n"                                                          \
                     "vpst\n"                                                                      \
                     "vstrbt.8 q1, [%[out], %q[offsets]]\n"                                        \
                     "vmsr p0, lr\n"                                                               \
                     : [sums] "+&r"(sums), [out] "+&r"(out), [turns] "+&r"(turns)                  \
                     : [eights] "r"(eights), [mask] "r"(mask), [step] "r"(8 * columns),            \
                       [m0] "w"(m0), [m1] "w"(m1), [s0] "r"(s0), [s1] "r"(s1),                     \
                       [z0] "r"(scale[4]), [z1] "r"(scale[5]), [offsets] "w"(offsets)              \
                     : "q0", "q1", "q2", "q3", "cc", "memory")
/* clang-format on */

/*@kernel
name = "hil_mve_matmul_s8_8x2"
requires = ["mve"]
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "block * (depth + 8)"
order = ["pixels block"]
reads = "rows"
code = 1324
shared = {hil_mve_shallow = 222}
[cost]
block_ = "(rows + block - 1) // block"
sixteen_rows = "(rows + 15) // 16"
copied = "rows * depth // 16"
pair = "block_ * ((columns + 1) // 2)"
sixteen = "sixteen_rows * ((columns + 1) // 2)"
deep_sixteen = "sixteen * (depth // 16)"
eight = "(rows + 7) // 8 * ((columns + 1) // 2)"
@*/
struct hil_mve_matmul_s8_8x2 {
    int32_t rows;         /* rows of the input, and of the output */
    int32_t depth;        /* elements of a row, 8 or 16 */
    int32_t columns;      /* outputs of a row, at most 36 */
    int32_t block;        /* rows at a time, whole sixteens */
    int32_t once;         /* 1: sums are rounded once */
    const int8_t *stream; /* the head draws it */
};

/* How products of a pair of columns become outputs, as the bits that are added to their shifts. */
#define HIL_MVE_SHALLOW_KIND_NEAR 8
#define HIL_MVE_SHALLOW_KIND_MIDDLE 12
#define HIL_MVE_SHALLOW_KIND_FAR 0
HIL_INLINE int32_t hil_mve_shallow_kind(const int32_t *scale) {
    const int32_t most = scale[2] > scale[3] ? scale[2] : scale[3];
    const int32_t least = scale[2] < scale[3] ? scale[2] : scale[3];
    return least >= -8                  ? HIL_MVE_SHALLOW_KIND_NEAR
           : least >= -12 && most <= -4 ? HIL_MVE_SHALLOW_KIND_MIDDLE
                                        : HIL_MVE_SHALLOW_KIND_FAR;
}
#define HIL_MVE_SHALLOW_KINDS(outputs, multiply, kind)                                             \
    do {                                                                                           \
        if ((kind) == HIL_MVE_SHALLOW_KIND_NEAR) {                                                 \
            outputs(multiply, HIL_MVE_SHALLOW_NEAR);                                               \
        } else if ((kind) == HIL_MVE_SHALLOW_KIND_MIDDLE) {                                        \
            outputs(multiply, HIL_MVE_SHALLOW_MIDDLE);                                             \
        } else {                                                                                   \
            outputs(multiply, HIL_MVE_SHALLOW_FAR);                                                \
        }                                                                                          \
    } while (0)

/* The outputs of a pair of columns for some rows, from their sums. */
HIL_INLINE_BLOCK void hil_mve_matmul_s8_8x2_store(int32_t once, int32_t columns,
                                                  const int32_t *sums, const int32_t *scale,
                                                  int8_t *out, int32_t rows) {
    /* Lanes are pixel 0 column 0, 0 1, 4 0, 4 1, 1 0, ... */
    const uint8x16_t lanes = vidupq_n_u8(0, 1);
    const uint8x16_t pixels =
        vaddq_u8(vshrq_n_u8(lanes, 2), vshlq_n_u8(vandq_u8(lanes, vdupq_n_u8(2)), 1));
    const uint8x16_t offsets =
        vmlaq_n_u8(vandq_u8(lanes, vdupq_n_u8(columns > 1)), pixels, (uint8_t)columns);
    const int32_t eights = (rows + 7) / 8;
    const uint8x16_t last = vdupq_n_u8((uint8_t)(rows - 8 * (eights - 1)));
    const uint32_t mask = vcmphiq_u8(last, pixels);
    const int32x4_t m0 = vdupq_n_s32(scale[0]);
    const int32x4_t m1 = vdupq_n_s32(scale[1]);
    /* Then it holds the predicate, for which gcc has no name and in which it may keep one. */
    register int32_t turns __asm__("lr") = (eights + 1) / 2;
    const int32_t kind = hil_mve_shallow_kind(scale);
    const int32_t s0 = scale[2] + kind;
    const int32_t s1 = scale[3] + kind;
    if (once) {
        HIL_MVE_SHALLOW_KINDS(HIL_MVE_SHALLOW_OUTPUTS, "vqdmlash", kind);
    } else {
        HIL_MVE_SHALLOW_KINDS(HIL_MVE_SHALLOW_OUTPUTS, "vqrdmlash", kind);
    }
}

typedef void hil_mve_shallow_function(const int8_t *x, const int8_t *pair, int32_t *sums,
                                      int32_t sixteens, int8_t *kept);

/* The outputs of all pairs of columns for some rows, of which `first` takes the first pair. It may
 * keep the rows where the others read them. */
HIL_INLINE void hil_mve_shallow_pairs(hil_mve_shallow_function *first,
                                      hil_mve_shallow_function *function, int32_t once,
                                      int32_t columns, const int8_t *stream, const int8_t *from,
                                      int8_t *pixels, int32_t *sums, int8_t *out, int32_t rows) {
    first(from, stream, sums, (rows + 15) / 16, pixels);
    for (int32_t column = 0;;) {
        const void *const scales = stream + 96;
        const int32_t *const scale = (const int32_t *)scales;
        hil_mve_matmul_s8_8x2_store(once, columns, sums, scale,
                                    out + hil_mve_pair_at(column, columns), rows);
        column += 2;
        if (column >= columns) {
            return;
        }
        stream += HIL_MVE_SHALLOW_PAIR_BYTES;
        function(pixels, stream, sums, (rows + 15) / 16, pixels);
    }
}

HIL_INLINE void hil_mve_matmul_s8_8x2(const struct hil_mve_matmul_s8_8x2 *p, const int8_t *in,
                                      int8_t *out, void *scratch) {
    hil_mve_shallow_function *const function =
        p->depth == 8 ? hil_mve_shallow_8 : hil_mve_shallow_16;
    hil_mve_shallow_function *const kept =
        p->depth == 8 ? hil_mve_shallow_8_kept : hil_mve_shallow_16_kept;
    int32_t *const sums = (int32_t *)scratch;
    int8_t *const pixels = (int8_t *)scratch + 8 * p->block;
    for (int32_t row = 0; row < p->rows; row += p->block) {
        const int32_t left = p->rows - row;
        const int32_t rows = left < p->block ? left : p->block;
        const int whole = rows % 16 == 0;
        if (!whole) {
            /* What lies behind the last pixels gives sums that are not stored. */
            hil_mve_copy_chunks(pixels, in, rows * p->depth, HIL_MVE_CHUNK);
        }
        hil_mve_shallow_pairs(whole ? kept : function, function, p->once, p->columns, p->stream,
                              whole ? in : pixels, pixels, sums, out, rows);
        in += rows * p->depth;
        out += rows * p->columns;
    }
}

#endif
