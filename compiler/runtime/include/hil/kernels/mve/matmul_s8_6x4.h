/* Rows of int8 ("pixels") times an int8 weight matrix, six pixels at a time, for depths of several
 * chunks of 16: matmul_s8_4x4.h with fewer loads of weights and with more sums in the scratch.
 *
 * Tile: 6 pixels x 4 channels x one chunk of depth, by three blocks of eight sums; all channels of
 * six pixels for the outputs.
 *
 *             sums of a block
 *   first     pixels 0 1 and 2 3, channels a b     r0 r2 r4 r6   a0 a1 b0 b1   r8 r10 r12 lr  a2 a3
 *   second    pixels 4 5, channels a b and c d                   a4 a5 b4 b5                  c4 c5
 *   third     pixels 0 1 and 2 3, channels c d                   c0 c1 d0 d1                  c2 c3
 *
 * Registers, before the first weight of four channels: q0 to q5 a chunk of the pixels, q6 and q7
 * weights; r1 place in pixel 0; r3 sums of first and third blocks, r7 of second ones; r5 sixteens
 * of channels left; r9 place in the stream; r11 from a pixel to the next. In the last chunk r11 and
 * r5 are where sums of pixels 0 1 and 2 3 go; then r5, r10 and r12 are sums of two pixels each, r1
 * r2 r3 r8 r11 lr outputs, r0 struct hil_mve_sixes, r7 channels left. On the stack: last chunk of
 * pixel 0 at 0, sixteens left in the last chunk at 4, d8-d15 at 128, pixels at 192, stream at 196,
 * outputs at 200, the struct at 204, as matmul_s8_2x16.h has it, of which the requantization is.
 *
 * Data: the stream, packed by `quads_of()`, of n chunks; channels filled up to sixteens, whose
 * fours a b c d are as in matmul_s8_2x16.h:
 *
 *   first    per four: int8[4][16] weights b, a, c, d, int32[16] biases a a b b a a b b c c d d c c
 *            d d, of which the blocks take eight from 0, 4 and 8 on
 *   others   per chunk, per four: int8[4][16] weights
 *   behind   per sixteen: scales as in matmul_s8_2x16.h
 *   sums     in scratch, int32 [fours][16] of first and third blocks, [fours][8] of second ones;
 *            after the last chunk [fours][8] of pixels 0 1, 2 3 and 4 5: a0 a1 b0 b1 c0 c1 d0 d1,
 *            which loads of every second word take apart; those of 0 1 lie over what is read
 *
 * Of at most four pixels that are left there is no second block.
 *
 * Order: six pixels at a time; their outputs are written after all of them is read.
 *
 * Bounds: as in matmul_s8_2x16.h.
 *
 * Output: as in matmul_s8_2x16.h, two pixels at a time.
 *
 * Scratch: the sums of six pixels; copies of the last pixels, behind which chunks would reach or
 * which are fewer than six, and their outputs.
 *
 * Cost: 32 instructions for a chunk of six pixels and four channels (384 MACs), 35 in the first and
 * 34 in the last, 42 for the 32 outputs of two pixels and sixteen channels. Measured (`hil bench
 * --per-layer` on mps3-an547, instructions under QEMU) a MAC: 25x5x64 to 64 (kws) 0.118, 6x6x128 to
 * 128 (vww) 0.100; hil_mve_matmul_s8_4x4 0.117 and 0.099.
 *
 * Tests: no twin in C; the numpy reference gives what must come out (tests/board/test_kernels.py,
 * buffers between guard bytes). Layout: tests/c/test_kernel_layouts.py.
 */
#ifndef HIL_KERNELS_MVE_MATMUL_S8_6X4_H
#define HIL_KERNELS_MVE_MATMUL_S8_6X4_H

#include <arm_mve.h>

#include "hil/kernels/mve/matmul_s8_2x16.h"

#define HIL_MVE_SIX 6

/* The assembly knows the offsets. */
struct hil_mve_sixes {
    struct hil_mve_pixels pixels; /* pairs: sixes of pixels */
    int32_t *sums;                /* 36: of first and third blocks, then of pixels 0 and 1 */
    int32_t *middle;              /* 40: of pixels 2 and 3 */
    int32_t *second;              /* 44: of second blocks: of pixels 4 and 5 */
    int32_t sixteens;             /* 48: of channels */
    int32_t x_bytes;              /* 52: of the chunks of a pixel but the last */
};

HIL_MVE_AT(hil_mve_sixes, sums, 36);
HIL_MVE_AT(hil_mve_sixes, middle, 40);
HIL_MVE_AT(hil_mve_sixes, second, 44);
HIL_MVE_AT(hil_mve_sixes, sixteens, 48);
HIL_MVE_AT(hil_mve_sixes, x_bytes, 52);

/* clang-format off */
#define HIL_MVE_SIXES_REGISTERS "{r0, r2, r4, r6, r8, r10, r12, lr}\n"
#define HIL_MVE_SIXES_LOAD(from) "ldmia " from ", " HIL_MVE_SIXES_REGISTERS
#define HIL_MVE_SIXES_STORE(to) "stmia " to ", " HIL_MVE_SIXES_REGISTERS
/* Sums of pixels 0 1 and 2 3 go different ways. */
#define HIL_MVE_SIXES_STORE_APART                                                                  \
    "stmia r11!, {r0, r2, r4, r6}\n"                                                               \
    "stmia r5!, {r8, r10, r12, lr}\n"
#define HIL_MVE_SIXES_WEIGHTS "vldmia r9!, {d12-d15}\n"
#define HIL_MVE_SIXES_FOUR_PIXELS                                                                  \
    "vmladava.s8 r0, q0, q6\n"                                                                     \
    "vmladava.s8 r2, q1, q6\n"                                                                     \
    "vmladava.s8 r4, q0, q7\n"                                                                     \
    "vmladava.s8 r6, q1, q7\n"                                                                     \
    "vmladava.s8 r8, q2, q6\n"                                                                     \
    "vmladava.s8 r10, q3, q6\n"                                                                    \
    "vmladava.s8 r12, q2, q7\n"                                                                    \
    "vmladava.s8 lr, q3, q7\n"
#define HIL_MVE_SIXES_TWO_PIXELS(weights)                                                          \
    "vmladava.s8 r0, q4, q6\n"                                                                     \
    "vmladava.s8 r2, q5, q6\n"                                                                     \
    "vmladava.s8 r4, q4, q7\n"                                                                     \
    "vmladava.s8 r6, q5, q7\n"                                                                     \
    weights                                                                                        \
    "vmladava.s8 r8, q4, q6\n"                                                                     \
    "vmladava.s8 r10, q5, q6\n"                                                                    \
    "vmladava.s8 r12, q4, q7\n"                                                                    \
    "vmladava.s8 lr, q5, q7\n"

/* Four channels: of the first chunk, whose sums start from biases, of any other, of the last. */
#define HIL_MVE_SIXES_FIRST(two)                                                                   \
    "vldrb.8 q6, [r9, #16]\n"                                                                      \
    "vldrb.8 q7, [r9], #64\n"                                                                      \
    HIL_MVE_SIXES_LOAD("r9!") HIL_MVE_SIXES_FOUR_PIXELS HIL_MVE_SIXES_STORE("r3!")                 \
    two("sub r0, r9, #16\n" HIL_MVE_SIXES_LOAD("r0"), HIL_MVE_SIXES_OTHERS)                        \
    HIL_MVE_SIXES_LOAD("r9!") HIL_MVE_SIXES_FOUR_PIXELS HIL_MVE_SIXES_STORE("r3!")
#define HIL_MVE_SIXES_OTHERS                                                                       \
    "vldrb.8 q6, [r9, #-64]\n"                                                                     \
    "vldrb.8 q7, [r9, #-48]\n"
#define HIL_MVE_SIXES_NEXT(two)                                                                    \
    HIL_MVE_SIXES_WEIGHTS                                                                          \
    HIL_MVE_SIXES_LOAD("r3") HIL_MVE_SIXES_FOUR_PIXELS HIL_MVE_SIXES_STORE("r3!")                  \
    two(HIL_MVE_SIXES_LOAD("r7"), HIL_MVE_SIXES_WEIGHTS)                                           \
    HIL_MVE_SIXES_LOAD("r3") HIL_MVE_SIXES_FOUR_PIXELS HIL_MVE_SIXES_STORE("r3!")
#define HIL_MVE_SIXES_LAST(two)                                                                    \
    HIL_MVE_SIXES_WEIGHTS                                                                          \
    HIL_MVE_SIXES_LOAD("r3!") HIL_MVE_SIXES_FOUR_PIXELS HIL_MVE_SIXES_STORE_APART                  \
    two(HIL_MVE_SIXES_LOAD("r7"), HIL_MVE_SIXES_WEIGHTS)                                           \
    HIL_MVE_SIXES_LOAD("r3!") HIL_MVE_SIXES_FOUR_PIXELS HIL_MVE_SIXES_STORE_APART
/* The second block, and what is left of it for four pixels: the weights of the third. */
#define HIL_MVE_SIXES_OF_SIX(sums, weights)                                                        \
    sums HIL_MVE_SIXES_TWO_PIXELS(weights) HIL_MVE_SIXES_STORE("r7!")
#define HIL_MVE_SIXES_OF_FOUR(sums, weights) weights

/* A chunk of six pixels, and of four. */
#define HIL_MVE_SIXES_CHUNK_OF_FOUR                                                                \
    "add r0, r1, r11\n"                                                                            \
    "add r2, r0, r11\n"                                                                            \
    "add r4, r2, r11\n"                                                                            \
    "vldrb.8 q0, [r1], #16\n"                                                                      \
    "vldrb.8 q1, [r0]\n"                                                                           \
    "vldrb.8 q2, [r2]\n"                                                                           \
    "vldrb.8 q3, [r4]\n"                                                                           \
    "ldr r0, [sp, #204]\n"                                                                         \
    "adds r0, #36\n"
#define HIL_MVE_SIXES_CHUNK_OF_SIX                                                                 \
    HIL_MVE_SIXES_CHUNK_OF_FOUR                                                                    \
    "add r6, r4, r11\n"                                                                            \
    "add r8, r6, r11\n"                                                                            \
    "vldrb.8 q4, [r6]\n"                                                                           \
    "vldrb.8 q5, [r8]\n"
/* All channels of a chunk but the last. */
#define HIL_MVE_SIXES_CHANNELS(label, chunk, four)                                                 \
    chunk                                                                                          \
    "ldmia r0, {r3, r4, r7, r8}\n"                                                                 \
    "mov r5, r8\n"                                                                                 \
    ".p2align 2\n"                                                                                 \
    label ":\n" four four four four                                                                \
    "subs r5, #1\n"                                                                                \
    "bne.w " label "b\n"

/* The sums of four channels of two pixels. */
#define HIL_MVE_SIXES_SUMS_OF_TWO(sums)                                                            \
    "vld20.32 {q0, q1}, [" sums "]\n"                                                              \
    "vld21.32 {q0, q1}, [" sums "]!\n"
#define HIL_MVE_SIXES_SUMS(sums)                                                                   \
    HIL_MVE_SIXES_SUMS_OF_TWO(sums), HIL_MVE_SIXES_SUMS_OF_TWO(sums),                              \
        HIL_MVE_SIXES_SUMS_OF_TWO(sums), HIL_MVE_SIXES_SUMS_OF_TWO(sums)

/* Sixteen channels of six pixels, and of four; `again` goes back to their scales. */
#define HIL_MVE_SIXES_PAIRS_OF_FOUR(pair, store, again)                                            \
    pair(HIL_MVE_SIXES_SUMS("r5")) store("r1", "r2")                                               \
    again                                                                                          \
    pair(HIL_MVE_SIXES_SUMS("r10")) store("r3", "r8")
#define HIL_MVE_SIXES_PAIRS_OF_SIX(pair, store, again)                                             \
    HIL_MVE_SIXES_PAIRS_OF_FOUR(pair, store, again)                                                \
    again                                                                                          \
    pair(HIL_MVE_SIXES_SUMS("r12")) store("r11", "lr")

#define HIL_MVE_SIXES(chunk, two, outputs)                                                        \
    "push {r0-r11, lr}\n"                                                                          \
    "vpush {d8-d15}\n"                                                                             \
    "sub sp, #128\n"                                                                               \
    "mov r1, r0\n"                                                                                 \
    ".p2align 2\n"                                                                                 \
    "1:\n"                                                                                         \
    "ldr r0, [r3, #52]\n"                                                                          \
    "ldr r11, [r3, #4]\n"                                                                          \
    "ldr r9, [sp, #196]\n"                                                                         \
    "add r0, r1\n"                                                                                 \
    "str r0, [sp]\n"                                                                               \
    HIL_MVE_SIXES_CHANNELS("2", chunk, HIL_MVE_SIXES_FIRST(two))                                               \
    "b.w 5f\n"                                                                                     \
    "3:\n"                                                                                         \
    HIL_MVE_SIXES_CHANNELS("4", chunk, HIL_MVE_SIXES_NEXT(two))                                                \
    "5:\n"                                                                                         \
    "ldr r0, [sp]\n"                                                                               \
    "cmp r1, r0\n"                                                                                 \
    "bne.w 3b\n"                                                                                   \
    chunk                                                                                          \
    "ldmia r0, {r3, r5, r7, r8}\n"                                                                 \
    "str r8, [sp, #4]\n"                                                                           \
    "mov r11, r3\n"                                                                                \
    ".p2align 2\n"                                                                                 \
    "6:\n"                                                                                         \
    HIL_MVE_SIXES_LAST(two) HIL_MVE_SIXES_LAST(two) HIL_MVE_SIXES_LAST(two)                        \
    HIL_MVE_SIXES_LAST(two)                                                                        \
    "ldr r0, [sp, #4]\n"                                                                           \
    "subs r0, #1\n"                                                                                \
    "str r0, [sp, #4]\n"                                                                           \
    "bne.w 6b\n"                                                                                   \
    "ldr r0, [sp, #204]\n"                                                                         \
    "ldr r1, [sp, #200]\n"                                                                         \
    "ldrd r6, r4, [r0, #8]\n"                                                                      \
    "add r2, r0, #36\n"                                                                            \
    "ldmia r2, {r5, r10, r12}\n"                                                                   \
    "ldr r7, [r0, #24]\n"                                                                          \
    "add r2, r1, r6\n"                                                                             \
    "add r3, r2, r6\n"                                                                             \
    "add r8, r3, r6\n"                                                                             \
    "add r11, r8, r6\n"                                                                            \
    "add lr, r11, r6\n"                                                                            \
    ".p2align 2\n"                                                                                 \
    "8:\n"                                                                                         \
    outputs                                                                                        \
    "subs r7, #16\n"                                                                               \
    "bgt.w 8b\n"                                                                                   \
    "mov r3, r0\n"                                                                                 \
    "ldrd r4, r6, [r3, #16]\n"                                                                     \
    "ldr r1, [sp, #192]\n"                                                                         \
    "ldr r8, [sp, #200]\n"                                                                         \
    "ldr r0, [r3]\n"                                                                               \
    "add r1, r4\n"                                                                                 \
    "add r8, r6\n"                                                                                 \
    "str r1, [sp, #192]\n"                                                                         \
    "str r8, [sp, #200]\n"                                                                         \
    "subs r0, #1\n"                                                                                \
    "str r0, [r3]\n"                                                                               \
    "bne.w 1b\n"                                                                                   \
    "add sp, #128\n"                                                                               \
    "vpop {d8-d15}\n"                                                                              \
    "pop {r0-r11, pc}\n"

/* Where r7 channels are left, and where these are whole sixteens. */
#define HIL_MVE_SIXES_OUTPUTS(first, second)                                                       \
    "vctp.8 r7\n"                                                                                  \
    "vpstt\n"                                                                                      \
    "vstrbt.8 q4, [" first "], #16\n"                                                              \
    "vstrbt.8 q5, [" second "], #16\n"
#define HIL_MVE_SIXES_OUTPUTS_WHOLE(first, second)                                                 \
    "vstrb.8 q4, [" first "], #16\n"                                                               \
    "vstrb.8 q5, [" second "], #16\n"

#define HIL_MVE_SIXES_PLAIN(multiply, ...)                                                         \
    HIL_MVE_PIXELS_FOURS(multiply, "", __VA_ARGS__)                                                \
    HIL_MVE_PIXELS_BYTES("vqmovun", "s16")
#define HIL_MVE_SIXES_FIRST_NARROWED(multiply, ...)                                                \
    HIL_MVE_PIXELS_FOURS_FIRST(multiply, __VA_ARGS__)                                              \
    HIL_MVE_PIXELS_BYTES("vqmovn", "u16")
#define HIL_MVE_SIXES_ANY(multiply, correct, ...)                                                  \
    HIL_MVE_PIXELS_FOURS(multiply, correct, __VA_ARGS__)                                           \
    "ldr r0, [sp, #204]\n"                                                                         \
    "ldr r4, [r0, #12]\n"                                                                          \
    HIL_MVE_PIXELS_CLAMP
/* Two pixels, sums rounded twice or once. */
#define HIL_MVE_SIXES_PLAIN_TWICE(...) HIL_MVE_SIXES_PLAIN(HIL_MVE_TWICE, __VA_ARGS__)
#define HIL_MVE_SIXES_PLAIN_ONCE(...) HIL_MVE_SIXES_PLAIN(HIL_MVE_ONCE, __VA_ARGS__)
#define HIL_MVE_SIXES_FIRST_TWICE(...) HIL_MVE_SIXES_FIRST_NARROWED(HIL_MVE_TWICE, __VA_ARGS__)
#define HIL_MVE_SIXES_FIRST_ONCE(...) HIL_MVE_SIXES_FIRST_NARROWED(HIL_MVE_ONCE, __VA_ARGS__)
#define HIL_MVE_SIXES_ANY_TWICE(...)                                                               \
    HIL_MVE_SIXES_ANY(HIL_MVE_TWICE, HIL_MVE_PIXELS_CORRECT, __VA_ARGS__)
#define HIL_MVE_SIXES_ANY_ONCE(...)                                                                \
    HIL_MVE_SIXES_ANY(HIL_MVE_ONCE, HIL_MVE_PIXELS_UNSIGNED, __VA_ARGS__)

#define HIL_MVE_SIXES_FUNCTION(name, chunk, two, pairs, store, pair, scales)                       \
    __attribute__((naked, noipa, unused)) static void name(                                        \
        const int8_t *x __attribute__((unused)), const int8_t *stream __attribute__((unused)),     \
        int8_t *out __attribute__((unused)),                                                       \
        struct hil_mve_sixes *sixes __attribute__((unused))) {                                     \
        __asm__(HIL_MVE_SIXES(chunk, two, pairs(pair, store, "sub.w r9, r9, #" scales "\n")));      \
    }
#define HIL_MVE_SIXES_FUNCTIONS(name, ...)                                                         \
    HIL_MVE_SIXES_FUNCTION(name, __VA_ARGS__, HIL_MVE_SIXES_PLAIN_TWICE, "128")                    \
    HIL_MVE_SIXES_FUNCTION(name##_any, __VA_ARGS__, HIL_MVE_SIXES_ANY_TWICE, "128")                \
    HIL_MVE_SIXES_FUNCTION(name##_first, __VA_ARGS__, HIL_MVE_SIXES_FIRST_TWICE, "96")             \
    HIL_MVE_SIXES_FUNCTION(name##_once, __VA_ARGS__, HIL_MVE_SIXES_PLAIN_ONCE, "128")              \
    HIL_MVE_SIXES_FUNCTION(name##_any_once, __VA_ARGS__, HIL_MVE_SIXES_ANY_ONCE, "128")            \
    HIL_MVE_SIXES_FUNCTION(name##_first_once, __VA_ARGS__, HIL_MVE_SIXES_FIRST_ONCE, "96")
/* clang-format on */

HIL_MVE_SIXES_FUNCTIONS(hil_mve_sixes, HIL_MVE_SIXES_CHUNK_OF_SIX, HIL_MVE_SIXES_OF_SIX,
                        HIL_MVE_SIXES_PAIRS_OF_SIX, HIL_MVE_SIXES_OUTPUTS)
HIL_MVE_SIXES_FUNCTIONS(hil_mve_sixes_whole, HIL_MVE_SIXES_CHUNK_OF_SIX, HIL_MVE_SIXES_OF_SIX,
                        HIL_MVE_SIXES_PAIRS_OF_SIX, HIL_MVE_SIXES_OUTPUTS_WHOLE)
HIL_MVE_SIXES_FUNCTIONS(hil_mve_sixes_four, HIL_MVE_SIXES_CHUNK_OF_FOUR, HIL_MVE_SIXES_OF_FOUR,
                        HIL_MVE_SIXES_PAIRS_OF_FOUR, HIL_MVE_SIXES_OUTPUTS)

typedef void hil_mve_sixes_function(const int8_t *x, const int8_t *stream, int8_t *out,
                                    struct hil_mve_sixes *sixes);

#define HIL_MVE_SIXES_OF(p, step, groups, scratch)                                                 \
    {                                                                                              \
        .pixels =                                                                                  \
            {                                                                                      \
                .pairs = 0,                                                                        \
                .x_second = (step),                                                                \
                .out_second = (p)->columns,                                                        \
                .zero_point = (p)->out_zero_point,                                                 \
                .x_step = HIL_MVE_SIX * (step),                                                    \
                .out_step = HIL_MVE_SIX * (p)->columns,                                            \
                .columns = (p)->columns,                                                           \
                .low = (p)->out_min,                                                               \
                .high = (p)->out_max,                                                              \
            },                                                                                     \
        .sums = (scratch), .middle = (scratch) + 96 * (groups),                                    \
        .second = (scratch) + 64 * (groups), .sixteens = (groups),                                 \
        .x_bytes = HIL_MVE_CHUNK * ((p)->chunks - 1),                                              \
    }

/* `count` pixels, whole sixes. */
HIL_INLINE void hil_mve_sixes_of(int32_t columns, int32_t any, int32_t first,
                                 struct hil_mve_sixes *sixes, const int8_t *x, const int8_t *stream,
                                 int8_t *out, int32_t count) {
    hil_mve_sixes_function *const function =
        columns % 16 != 0 ? HIL_MVE_PIXELS_OF(hil_mve_sixes, any, first)
                          : HIL_MVE_PIXELS_OF(hil_mve_sixes_whole, any, first);
    if (count > 0) {
        sixes->pixels.pairs = count / HIL_MVE_SIX;
        function(x, stream, out, sixes);
    }
}

/* At most six pixels, in the place of six, whose outputs go to `outputs` first. */
HIL_INLINE void hil_mve_sixes_few(int32_t columns, int32_t any, int32_t first,
                                  struct hil_mve_sixes *sixes, const int8_t *x,
                                  const int8_t *stream, int8_t *out, int32_t count,
                                  int8_t *outputs) {
    if (count > 4) {
        hil_mve_sixes_of(columns, any, first, sixes, x, stream, outputs, HIL_MVE_SIX);
    } else {
        sixes->pixels.pairs = 1;
        HIL_MVE_PIXELS_OF(hil_mve_sixes_four, any, first)(x, stream, outputs, sixes);
    }
    const int8_t *from = outputs;
    for (int32_t bytes = count * columns; bytes > 0; bytes -= HIL_MVE_CHUNK) {
        const mve_pred16_t some = vctp8q((uint32_t)bytes);
        vstrbq_p_s8(out + (from - outputs), vldrbq_z_s8(from, some), some);
        from += HIL_MVE_CHUNK;
    }
}

/*@kernel
name = "hil_mve_matmul_s8_6x4"
requires = ["mve"]
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "512 * ((columns + 15) // 16) + copied * (96 * chunks + 6 * columns)"
order = ["pixels 6"]
reads = "rows"
code = 2700
shared = {hil_mve_sixes = 2440}
[cost]
four = "copied * min(1, (rows - direct) % 6) * (1 - (rows - direct) % 6 // 5)"
six = "(rows + 5) // 6 - four"
copied_six = "copied * (six + four - direct // 6)"
four_sixteen = "four * ((columns + 15) // 16)"
four_sixteen_chunk = "four_sixteen * chunks"
copied_chunk = "copied_six * chunks"
chunk = "six * chunks"
sixteen = "six * ((columns + 15) // 16)"
sixteen_chunk = "sixteen * chunks"
clamped = "(sixteen + four_sixteen) * (any % 2)"
late_narrowed = "(sixteen + four_sixteen) * (1 - first)"
masked = "sixteen * min(1, columns % 16)"
@*/
struct hil_mve_matmul_s8_6x4 {
    int32_t rows;   /* rows of the input, and of the output */
    int32_t depth;  /* elements of a row, more than 16 */
    int32_t direct; /* first rows that are read where they lie, whole sixes */
    int32_t copied; /* 1: there are others */
    HIL_MVE_PIXELS_FIELDS;
};

HIL_INLINE void hil_mve_matmul_s8_6x4(const struct hil_mve_matmul_s8_6x4 *p, const int8_t *in,
                                      int8_t *out, void *scratch) {
    const int32_t sixteens = (p->columns + 15) / 16;
    struct hil_mve_sixes sixes = HIL_MVE_SIXES_OF(p, p->depth, sixteens, (int32_t *)scratch);
    hil_mve_sixes_of(p->columns, p->any, p->first, &sixes, in, p->stream, out, p->direct);
    if (p->copied) {
        int8_t *const copies = (int8_t *)scratch + 512 * sixteens;
        int8_t *const outputs = copies + HIL_MVE_SIX * HIL_MVE_CHUNK * p->chunks;
        sixes.pixels.x_second = HIL_MVE_CHUNK * p->chunks;
        in += p->direct * p->depth;
        out += p->direct * p->columns;
        for (int32_t left = p->rows - p->direct; left > 0; left -= HIL_MVE_SIX) {
            const int32_t count = left < HIL_MVE_SIX ? left : HIL_MVE_SIX;
            int8_t *to = copies;
            for (int32_t i = 0; i < count; i++) {
                to = hil_mve_copy_chunks(to, in, p->depth, HIL_MVE_CHUNK);
                in += p->depth;
            }
            hil_mve_sixes_few(p->columns, p->any, p->first, &sixes, copies, p->stream, out, count,
                              outputs);
            out += count * p->columns;
        }
    }
}

#endif
