/* A row of int8 times all columns of an int8 weight matrix, on cores with Thumb code of 16 bits
 * alone (Armv6-M), from weights that the compiler has packed: three columns share two words, so a
 * value of the row is loaded once for nine products, and two words serve three.
 *
 * Tile: 1 row x 9 columns x 1 element of depth; of the columns left 1 row x 3.
 *
 *   columns  a b c   d e f   g h i
 *   words    s0 s1   s2 s3   s4 s5
 *
 * Registers: r0 to r5, words of the weights, which multiplying overwrites; r6, the place in the
 * stream; r7, a value of the row; r8 to r12 and lr, the words of the sums. No register is left for
 * the place in the row, which therefore lies on the stack, a word each: the code of each element
 * has the offset in it, and a row of fewer elements enters further down.
 *
 * Data:
 *
 *   row     int8 [depth], depth at most HIL_V6M_STREAM_DEPTH
 *   stream  int32, packed by `_stream()`: for each nine columns [depth][6] words, of each three
 *           columns x and y as v7m/columns_s8.h has them of rows, not raised; then [9][4] words
 *           of scales; for what is left [depth][2] words of each three columns, zeros for those
 *           that are not there, and the scales of those that are
 *   scales  middle, high, bias and shift of hil_v6m_output, with two pieces of HIL_V6M_STREAM_BITS
 *
 * Order: a row is read whole, then its outputs are written.
 *
 * Bounds: the sum of each column is of 21 bits, for all inputs: `longest_part()` says whether it
 * is. Sums, bias not included, stay below 2^19 (`piecewise_scales()`).
 *
 * Output: as in columns_s8.h, of all values of int8, with two pieces and no turns.
 *
 * Scratch: none. On the stack, 280 bytes.
 *
 * Cost: an element of 9 MACs takes 14 instructions, one of 3 takes 6; nine outputs about 165.
 * Measured (`hil bench` on microbit, instructions under QEMU) a MAC: 1x1 25x5x64 to 64 (kws,
 * hil_v6m_matmul_s8_packed) 1.97, 10x4 of one channel (kws, hil_v6m_conv2d_s8_packed) 2.32;
 * hil_v6m_matmul_s8 takes 2.50, the portable kernels 6.5. The weights take 2.7 bytes each, and 16
 * bytes a column.
 *
 * Tests: the twin is the second hil_v6m_stream_row (tests/c/test_v6m_kernels.py, limits:
 * test_constant_channels_and_sums_at_limits, depths and columns:
 * test_streams_of_each_depth_and_rest); the assembly: tests/board/test_kernels.py. Layout:
 * tests/c/test_kernel_layouts.py.
 */
#ifndef HIL_KERNELS_V6M_STREAM_S8_H
#define HIL_KERNELS_V6M_STREAM_S8_H

#include "hil/kernels/v6m/columns_s8.h"

/* Elements of a row at most, bits of a piece of the multipliers, and words of a scale. */
#define HIL_V6M_STREAM_DEPTH 64
#define HIL_V6M_STREAM_BITS 12
#define HIL_V6M_STREAM_SCALE 4

struct hil_v6m_stream_s8 {
    int32_t depth;
    int32_t nines;         /* nines of columns */
    int32_t rest;          /* columns left */
    const int32_t *stream; /* weights and scales */
};

/* The columns of a kernel, `count` of them. */
HIL_INLINE struct hil_v6m_stream_s8 hil_v6m_stream_s8(const int32_t *stream, int32_t depth,
                                                      int32_t count) {
    return (struct hil_v6m_stream_s8){
        .depth = depth, .nines = count / 9, .rest = count % 9, .stream = stream};
}

#if HIL_V6M_ASSEMBLY

/* Offsets from the stack pointer of what follows the row. */
#define HIL_V6M_STREAM_OUT "#256"
#define HIL_V6M_STREAM_NINES "#260"
#define HIL_V6M_STREAM_REST "#264"
#define HIL_V6M_STREAM_SKIP_NINE "#268"
#define HIL_V6M_STREAM_SKIP_THREE "#272"
#define HIL_V6M_STREAM_FRAME "#280"

/* The code of as many elements as a row has at most; `at` counts the bytes of the row. */
#define HIL_V6M_STREAM_ELEMENTS(element)                                                           \
    ".set hil_v6m_at, 0\n\t"                                                                       \
    ".rept 64\n\t" element ".set hil_v6m_at, hil_v6m_at + 4\n\t"                                   \
    ".endr\n\t"

/* 9 products: 14 instructions. */
#define HIL_V6M_STREAM_NINE                                                                        \
    "ldmia r6!, {r0, r1, r2, r3, r4, r5}\n\t"                                                      \
    "ldr r7, [sp, #hil_v6m_at]\n\t"                                                                \
    "muls r0, r7, r0\n\t"                                                                          \
    "add r8, r0\n\t"                                                                               \
    "muls r1, r7, r1\n\t"                                                                          \
    "add r9, r1\n\t"                                                                               \
    "muls r2, r7, r2\n\t"                                                                          \
    "add r10, r2\n\t"                                                                              \
    "muls r3, r7, r3\n\t"                                                                          \
    "add r11, r3\n\t"                                                                              \
    "muls r4, r7, r4\n\t"                                                                          \
    "add r12, r4\n\t"                                                                              \
    "muls r5, r7, r5\n\t"                                                                          \
    "add lr, r5\n\t"

/* 3 products: 6 instructions. */
#define HIL_V6M_STREAM_THREE                                                                       \
    "ldmia r6!, {r0, r1}\n\t"                                                                      \
    "ldr r7, [sp, #hil_v6m_at]\n\t"                                                                \
    "muls r0, r7, r0\n\t"                                                                          \
    "add r8, r0\n\t"                                                                               \
    "muls r1, r7, r1\n\t"                                                                          \
    "add r9, r1\n\t"

/* The three sums in two words, hil_v7m_sums, to r3, r2 and r0. */
#define HIL_V6M_STREAM_SUMS(first, second)                                                         \
    "mov r0, " first "\n\t"                                                                        \
    "mov r1, " second "\n\t"                                                                       \
    "lsls r2, r1, #10\n\t"                                                                         \
    "asrs r2, r2, #10\n\t"                                                                         \
    "subs r1, r1, r2\n\t"                                                                          \
    "asrs r1, r1, #11\n\t"                                                                         \
    "lsls r3, r2, #21\n\t"                                                                         \
    "subs r0, r0, r3\n\t"                                                                          \
    "subs r3, r0, r1\n\t"                                                                          \
    "lsls r3, r3, #11\n\t"                                                                         \
    "asrs r3, r3, #11\n\t"                                                                         \
    "subs r0, r0, r3\n\t"                                                                          \
    "asrs r0, r0, #11\n\t"

/* The output of a sum, hil_v6m_output, to where `at` says from r3 on; `then` loads r3, in which the
 * first sum is until then. */
#define HIL_V6M_STREAM_OUTPUT(sum, then, at)                                                       \
    "ldmia r6!, {r1, r4, r5, r7}\n\t"                                                              \
    "muls r1, " sum ", r1\n\t"                                                                     \
    "muls r4, " sum ", r4\n\t" then "asrs r1, r1, #12\n\t"                                         \
    "adds r4, r4, r5\n\t"                                                                          \
    "adds r1, r1, r4\n\t"                                                                          \
    "asrs r1, r1, r7\n\t"                                                                          \
    "cmp r1, #255\n\t"                                                                             \
    "bls 9f\n\t"                                                                                   \
    "asrs r1, r1, #31\n\t" /* 0 below, 255 above */                                                \
    "mvns r1, r1\n\t"                                                                              \
    "9:\n\t"                                                                                       \
    "subs r1, #128\n\t"                                                                            \
    "strb r1, [r3, #" at "]\n\t"
#define HIL_V6M_STREAM_LOAD_OUT "ldr r3, [sp, " HIL_V6M_STREAM_OUT "]\n\t"
#define HIL_V6M_STREAM_OUTPUTS(first, second, a, b, c)                                             \
    HIL_V6M_STREAM_SUMS(first, second)                                                             \
    HIL_V6M_STREAM_OUTPUT("r3", HIL_V6M_STREAM_LOAD_OUT, a)                                        \
    HIL_V6M_STREAM_OUTPUT("r2", "", b)                                                             \
    HIL_V6M_STREAM_OUTPUT("r0", "", c)
/* Ends when that was the last column. */
#define HIL_V6M_STREAM_COUNT                                                                       \
    "ldr r1, [sp, " HIL_V6M_STREAM_REST "]\n\t"                                                    \
    "subs r1, #1\n\t"                                                                              \
    "str r1, [sp, " HIL_V6M_STREAM_REST "]\n\t"                                                    \
    "beq 8f\n\t"

/* A row times all columns. Never inlined: the code of 64 elements is the same for all layers. lr is
 * no sum between nines, so there the long jumps are calls. */
static __attribute__((noinline, noclone, unused)) void
hil_v6m_stream_row(const struct hil_v6m_stream_s8 *p, const int8_t *row, int8_t *out) {
    register const int8_t *from __asm__("r0") = row;
    register const int32_t *stream __asm__("r1") = p->stream;
    register int8_t *to __asm__("r2") = out;
    register int32_t depth __asm__("r3") = p->depth;
    register int32_t nines __asm__("r4") = p->nines;
    register int32_t rest __asm__("r5") = p->rest;
    __asm__ volatile(
        ".syntax unified\n\t"
        "sub sp, " HIL_V6M_STREAM_FRAME "\n\t"
        "str r2, [sp, " HIL_V6M_STREAM_OUT "]\n\t"
        "str r4, [sp, " HIL_V6M_STREAM_NINES "]\n\t"
        "str r5, [sp, " HIL_V6M_STREAM_REST "]\n\t"
        "mov r10, r1\n\t"
        /* Elements that are not there, and their code in bytes: 28 and 12 each. */
        "movs r6, #64\n\t"
        "subs r6, r6, r3\n\t"
        "lsls r7, r6, #2\n\t"
        "lsls r4, r6, #5\n\t"
        "subs r4, r4, r7\n\t"
        "str r4, [sp, " HIL_V6M_STREAM_SKIP_NINE "]\n\t"
        "lsls r4, r6, #3\n\t"
        "adds r4, r4, r7\n\t"
        "str r4, [sp, " HIL_V6M_STREAM_SKIP_THREE "]\n\t"
        /* The row in words, to r7. */
        "add r7, sp\n\t"
        "movs r1, #0\n\t"
        "movs r2, #1\n\t"
        "mov r9, r3\n\t"
        "lsrs r4, r3, #2\n\t"
        "beq 2f\n\t"
        "lsls r4, r4, #4\n\t"
        "adds r4, r4, r7\n\t"
        "mov r8, r4\n\t"
        "1:\n\t"
        "ldrsb r3, [r0, r1]\n\t"
        "ldrsb r4, [r0, r2]\n\t"
        "adds r0, #2\n\t"
        "ldrsb r5, [r0, r1]\n\t"
        "ldrsb r6, [r0, r2]\n\t"
        "adds r0, #2\n\t"
        "stmia r7!, {r3, r4, r5, r6}\n\t"
        "cmp r7, r8\n\t"
        "bne 1b\n\t"
        "2:\n\t"
        "mov r3, r9\n\t"
        "movs r4, #3\n\t"
        "ands r3, r4\n\t"
        "beq 4f\n\t"
        "3:\n\t"
        "ldrsb r4, [r0, r1]\n\t"
        "adds r0, #1\n\t"
        "stmia r7!, {r4}\n\t"
        "subs r3, #1\n\t"
        "bne 3b\n\t"
        "4:\n\t"
        "mov r6, r10\n\t"
        "ldr r0, [sp, " HIL_V6M_STREAM_NINES "]\n\t"
        "cmp r0, #0\n\t"
        "bne 5f\n\t"
        "bl 7f\n\t"
        /* Nine columns. */
        "5:\n\t"
        "movs r0, #0\n\t"
        "mov r8, r0\n\t"
        "mov r9, r0\n\t"
        "mov r10, r0\n\t"
        "mov r11, r0\n\t"
        "mov r12, r0\n\t"
        "mov lr, r0\n\t"
        "ldr r1, [sp, " HIL_V6M_STREAM_SKIP_NINE "]\n\t"
        "adr r0, 6f\n\t"
        "adds r0, r0, r1\n\t"
        "mov pc, r0\n\t"
        ".balign 4\n\t"
        "6:\n\t" HIL_V6M_STREAM_ELEMENTS(HIL_V6M_STREAM_NINE) HIL_V6M_STREAM_OUTPUTS("r8", "r9",
                                                                                     "0", "1", "2")
            HIL_V6M_STREAM_OUTPUTS("r10", "r11", "3", "4", "5") HIL_V6M_STREAM_OUTPUTS(
                "r12", "lr", "6", "7",
                "8") "adds r3, #9\n\t"
                     "str r3, [sp, " HIL_V6M_STREAM_OUT "]\n\t"
                     "ldr r0, [sp, " HIL_V6M_STREAM_NINES "]\n\t"
                     "subs r0, #1\n\t"
                     "str r0, [sp, " HIL_V6M_STREAM_NINES "]\n\t"
                     "beq 7f\n\t"
                     "bl 5b\n\t"
                     /* What is left, three columns at a time. */
                     "7:\n\t"
                     "ldr r0, [sp, " HIL_V6M_STREAM_REST "]\n\t"
                     "cmp r0, #0\n\t"
                     "bne 10f\n\t"
                     "bl 8f\n\t"
                     "10:\n\t"
                     "movs r0, #0\n\t"
                     "mov r8, r0\n\t"
                     "mov r9, r0\n\t"
                     "ldr r1, [sp, " HIL_V6M_STREAM_SKIP_THREE "]\n\t"
                     "adr r0, 11f\n\t"
                     "adds r0, r0, r1\n\t"
                     "mov pc, r0\n\t"
                     ".balign 4\n\t"
                     "11:\n\t" HIL_V6M_STREAM_ELEMENTS(HIL_V6M_STREAM_THREE) HIL_V6M_STREAM_SUMS(
                         "r8", "r9") HIL_V6M_STREAM_OUTPUT("r3", HIL_V6M_STREAM_LOAD_OUT, "0")
                         HIL_V6M_STREAM_COUNT HIL_V6M_STREAM_OUTPUT("r2", "", "1")
                             HIL_V6M_STREAM_COUNT HIL_V6M_STREAM_OUTPUT("r0", "", "2")
                                 HIL_V6M_STREAM_COUNT "adds r3, #3\n\t"
                                                      "str r3, [sp, " HIL_V6M_STREAM_OUT "]\n\t"
                                                      "bl 10b\n\t"
                                                      "8:\n\t"
                                                      "add sp, " HIL_V6M_STREAM_FRAME "\n\t"
        : "+r"(from), "+r"(stream), "+r"(to), "+r"(depth), "+r"(nines), "+r"(rest)
        :
        : "r6", "r7", "r8", "r9", "r10", "r11", "r12", "lr", "cc", "memory");
}

#undef HIL_V6M_STREAM_OUT
#undef HIL_V6M_STREAM_NINES
#undef HIL_V6M_STREAM_REST
#undef HIL_V6M_STREAM_SKIP_NINE
#undef HIL_V6M_STREAM_SKIP_THREE
#undef HIL_V6M_STREAM_FRAME
#undef HIL_V6M_STREAM_ELEMENTS
#undef HIL_V6M_STREAM_NINE
#undef HIL_V6M_STREAM_THREE
#undef HIL_V6M_STREAM_SUMS
#undef HIL_V6M_STREAM_OUTPUT
#undef HIL_V6M_STREAM_LOAD_OUT
#undef HIL_V6M_STREAM_OUTPUTS
#undef HIL_V6M_STREAM_COUNT

#else

/* A row times three columns, and what of their outputs is there; where the stream goes on. `words`
 * of an element are theirs and their neighbours'. */
HIL_INLINE const int32_t *hil_v6m_stream_three(const int8_t *row, int32_t depth,
                                               const int32_t *stream, int32_t words,
                                               const int32_t *scales, int32_t count, int8_t *out) {
    uint32_t first = 0;
    uint32_t second = 0;
    for (int32_t i = 0; i < depth; i++) {
        first += (uint32_t)row[i] * (uint32_t)stream[words * i];
        second += (uint32_t)row[i] * (uint32_t)stream[words * i + 1];
    }
    const struct hil_v7m_sums three = hil_v7m_sums(first, second);
    const int32_t sums[3] = {three.a, three.b, three.c};
    for (int32_t i = 0; i < count; i++) {
        const struct hil_v6m_scale scale = {.low = 0,
                                            .middle = scales[0],
                                            .high = scales[1],
                                            .bias = scales[2],
                                            .addend = 0,
                                            .turn = 0,
                                            .shift = scales[3]};
        out[i] = hil_v6m_output(&scale, sums[i], 2, HIL_V6M_STREAM_BITS, 0, -128, 127);
        scales += HIL_V6M_STREAM_SCALE;
    }
    return scales;
}

HIL_INLINE void hil_v6m_stream_row(const struct hil_v6m_stream_s8 *p, const int8_t *row,
                                   int8_t *out) {
    /* As the outputs may lie over the row. */
    int8_t copy[HIL_V6M_STREAM_DEPTH];
    for (int32_t i = 0; i < p->depth; i++) {
        copy[i] = row[i];
    }
    const int32_t *stream = p->stream;
    for (int32_t i = 0; i < p->nines; i++) {
        const int32_t *scales = stream + 6 * p->depth;
        for (int32_t triple = 0; triple < 3; triple++) {
            scales = hil_v6m_stream_three(copy, p->depth, stream + 2 * triple, 6, scales, 3, out);
            out += 3;
        }
        stream = scales;
    }
    for (int32_t left = p->rest; left > 0; left -= 3) {
        stream = hil_v6m_stream_three(copy, p->depth, stream, 2, stream + 2 * p->depth,
                                      left < 3 ? left : 3, out);
        out += 3;
    }
}

#endif

#endif
