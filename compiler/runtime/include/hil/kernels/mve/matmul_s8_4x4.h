/* Rows of int8 ("pixels") times an int8 weight matrix, four pixels at a time, for depths of several
 * chunks of 16: a chunk of four pixels stays in registers while the weights of all channels pass
 * by, whose sums wait in the scratch for the next chunk.
 *
 * Tile: 4 pixels x 4 channels x one chunk of depth; all channels of four pixels for the outputs.
 *
 *             sums, by channel of the four
 *   pixel 0   r0  r2  r4  r6     pixel 2   the same after these are stored
 *   pixel 1   r8  r10 r12 lr     pixel 3
 *
 * Registers, before the first weight of four channels: q0 to q3 a chunk of the pixels, q4 to q7
 * weights; r1 place in pixel 0; r3 place of the sums; r5 sixteens of channels left; r9 place in the
 * stream; r11 from a pixel to the next. On the stack: end of pixel 0 at 0, d8-d15 at 128, pixels at
 * 192, stream at 196, outputs at 200, struct hil_mve_quads at 204, as matmul_s8_2x16.h has it, of
 * which the requantization is.
 *
 * Data: the stream, packed by `quads_of()`, of n chunks; channels filled up to sixteens, whose
 * fours are as in matmul_s8_2x16.h:
 *
 *   first    per four: int8[4][16] weights of the first chunk, int32[8] biases a b c d a b c d
 *   others   per chunk, per four: int8[4][16] weights
 *   behind   per sixteen: scales as in matmul_s8_2x16.h
 *   sums     in scratch, int32 [fours][4 pixels][4 channels]
 *
 * Order: four pixels at a time; their outputs are written after all of them is read.
 *
 * Bounds: as in matmul_s8_2x16.h.
 *
 * Output: as in matmul_s8_2x16.h, two pixels at a time.
 *
 * Scratch: the sums of four pixels; copies of the last pixels, behind which chunks would reach or
 * which are fewer than four, and their outputs.
 *
 * Cost: 21 instructions for a chunk of four pixels and four channels (256 MACs), 93 for the 64
 * outputs of sixteen channels. Measured (`hil bench --per-layer` on mps3-an547, instructions under
 * QEMU) a MAC: 25x5x64 to 64 (kws) 0.117, 6x6x128 to 128 (vww) 0.099;
 * hil_mve_matmul_s8_2x16 0.135 and 0.125, hil_mve_matmul_s8 0.143 and 0.112.
 *
 * Tests: no twin in C; the numpy reference gives what must come out (tests/board/test_kernels.py,
 * buffers between guard bytes). Layout: tests/c/test_kernel_layouts.py.
 */
#ifndef HIL_KERNELS_MVE_MATMUL_S8_4X4_H
#define HIL_KERNELS_MVE_MATMUL_S8_4X4_H

#include <arm_mve.h>

#include "hil/kernels/mve/matmul_s8_2x16.h"

/* The assembly knows the offsets. */
struct hil_mve_quads {
    struct hil_mve_pixels pixels; /* pairs: fours of pixels */
    int32_t *sums;                /* 36 */
    int32_t sixteens;             /* 40: of channels */
    int32_t x_bytes;              /* 44: of the chunks of a pixel */
};

HIL_MVE_AT(hil_mve_quads, sums, 36);
HIL_MVE_AT(hil_mve_quads, sixteens, 40);
HIL_MVE_AT(hil_mve_quads, x_bytes, 44);

/* clang-format off */
#define HIL_MVE_QUADS_WEIGHTS "vldmia r9!, {d8-d15}\n"
#define HIL_MVE_QUADS_TWO(from, x, y)                                                              \
    "ldmia " from ", {r0, r2, r4, r6, r8, r10, r12, lr}\n"                                         \
    "vmladava.s8 r0, " x ", q4\n"                                                                  \
    "vmladava.s8 r2, " x ", q5\n"                                                                  \
    "vmladava.s8 r4, " x ", q6\n"                                                                  \
    "vmladava.s8 r6, " x ", q7\n"                                                                  \
    "vmladava.s8 r8, " y ", q4\n"                                                                  \
    "vmladava.s8 r10, " y ", q5\n"                                                                 \
    "vmladava.s8 r12, " y ", q6\n"                                                                 \
    "vmladava.s8 lr, " y ", q7\n"                                                                  \
    "stmia r3!, {r0, r2, r4, r6, r8, r10, r12, lr}\n"
/* Four channels; of the first chunk, whose sums start from biases, and of any other. */
#define HIL_MVE_QUADS_FIRST                                                                        \
    HIL_MVE_QUADS_WEIGHTS HIL_MVE_QUADS_TWO("r9", "q0", "q1") HIL_MVE_QUADS_TWO("r9!", "q2", "q3")
#define HIL_MVE_QUADS_NEXT                                                                         \
    HIL_MVE_QUADS_WEIGHTS HIL_MVE_QUADS_TWO("r3", "q0", "q1") HIL_MVE_QUADS_TWO("r3", "q2", "q3")

#define HIL_MVE_QUADS_CHUNK(label, four)                                                           \
    "add r0, r1, r11\n"                                                                            \
    "add r2, r0, r11\n"                                                                            \
    "add r4, r2, r11\n"                                                                            \
    "vldrb.8 q0, [r1], #16\n"                                                                      \
    "vldrb.8 q1, [r0]\n"                                                                           \
    "vldrb.8 q2, [r2]\n"                                                                           \
    "vldrb.8 q3, [r4]\n"                                                                           \
    "ldr r0, [sp, #204]\n"                                                                         \
    "ldrd r3, r5, [r0, #36]\n"                                                                     \
    ".p2align 2\n"                                                                                 \
    label ":\n" four four four four                                                                \
    "subs r5, #1\n"                                                                                \
    "bne.w " label "b\n"                                                                           \
    "ldr r0, [sp]\n"                                                                               \
    "cmp r1, r0\n"

/* Two pixels' outputs of sixteen channels, as far as there are so many. */
#define HIL_MVE_QUADS_STORE(first, second)                                                         \
    "vpstt\n"                                                                                      \
    "vstrbt.8 q4, [" first "], #16\n"                                                              \
    "vstrbt.8 q5, [" second "], #16\n"

/* The sums of the fours of a sixteen, of pixels 0 and 1 and of pixels 2 and 3. */
#define HIL_MVE_QUADS_SUMS_0                                                                       \
    HIL_MVE_PIXELS_SUMS_AT("0", "16"), HIL_MVE_PIXELS_SUMS_AT("64", "80"),                         \
    HIL_MVE_PIXELS_SUMS_AT("128", "144"), HIL_MVE_PIXELS_SUMS_AT("192", "208")
#define HIL_MVE_QUADS_SUMS_2                                                                       \
    HIL_MVE_PIXELS_SUMS_AT("32", "48"), HIL_MVE_PIXELS_SUMS_AT("96", "112"),                       \
    HIL_MVE_PIXELS_SUMS_AT("160", "176"), HIL_MVE_PIXELS_SUMS_AT("224", "240")

#define HIL_MVE_QUADS(narrow_0, narrow_2, scale_bytes)                                             \
    "push {r0-r11, lr}\n"                                                                          \
    "vpush {d8-d15}\n"                                                                             \
    "sub sp, #128\n"                                                                               \
    "ldr r11, [r3, #4]\n"                                                                          \
    "mov r1, r0\n"                                                                                 \
    ".p2align 2\n"                                                                                 \
    "1:\n"                                                                                         \
    "ldr r0, [r3, #44]\n"                                                                          \
    "ldr r9, [sp, #196]\n"                                                                         \
    "add r0, r1\n"                                                                                 \
    "str r0, [sp]\n"                                                                               \
    HIL_MVE_QUADS_CHUNK("2", HIL_MVE_QUADS_FIRST)                                                  \
    "beq.w 5f\n"                                                                                   \
    "3:\n"                                                                                         \
    HIL_MVE_QUADS_CHUNK("4", HIL_MVE_QUADS_NEXT)                                                   \
    "bne.w 3b\n"                                                                                   \
    "5:\n"                                                                                         \
    "ldr r0, [sp, #204]\n"                                                                         \
    "ldr r11, [sp, #200]\n"                                                                        \
    "ldrd r2, r4, [r0, #8]\n"                                                                      \
    "ldr r5, [r0, #36]\n"                                                                          \
    "ldr r7, [r0, #24]\n"                                                                          \
    "add r8, r11, r2\n"                                                                            \
    "add r3, r8, r2\n"                                                                             \
    "add r10, r3, r2\n"                                                                            \
    ".p2align 2\n"                                                                                 \
    "6:\n"                                                                                         \
    narrow_0 HIL_MVE_QUADS_STORE("r11", "r8")                                                      \
    "sub r9, #" scale_bytes "\n"                                                                   \
    narrow_2 HIL_MVE_QUADS_STORE("r3", "r10")                                                      \
    "add r5, #256\n"                                                                               \
    "subs r7, #16\n"                                                                               \
    "bgt.w 6b\n"                                                                                   \
    "mov r3, r0\n"                                                                                 \
    "ldrd r4, r6, [r3, #16]\n"                                                                     \
    "ldr r1, [sp, #192]\n"                                                                         \
    "ldr r8, [sp, #200]\n"                                                                         \
    "ldr r0, [r3]\n"                                                                               \
    "ldr r11, [r3, #4]\n"                                                                          \
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

/* What is left of r7 channels: `any` has taken the predicate for signs, so it sets it again. */
#define HIL_MVE_QUADS_PLAIN(again, multiply, correct, ...)                                         \
    HIL_MVE_PIXELS_FOURS(multiply, correct, __VA_ARGS__)                                           \
    again HIL_MVE_PIXELS_BYTES("vqmovun", "s16")
#define HIL_MVE_QUADS_FIRST_NARROWED(again, multiply, correct, ...)                                \
    HIL_MVE_PIXELS_FOURS_FIRST(multiply, __VA_ARGS__)                                              \
    again HIL_MVE_PIXELS_BYTES("vqmovn", "u16")
#define HIL_MVE_QUADS_ANY(again, multiply, correct, ...)                                           \
    HIL_MVE_PIXELS_FOURS(multiply, correct, __VA_ARGS__)                                           \
    "ldr r0, [sp, #204]\n"                                                                         \
    "ldr r4, [r0, #12]\n" HIL_MVE_PIXELS_CLAMP "vctp.8 r7\n"
#define HIL_MVE_QUADS_FUNCTION(name, narrow, scale_bytes, multiply, correct)                       \
    __attribute__((naked, noipa, unused)) static void name(                                        \
        const int8_t *x __attribute__((unused)), const int8_t *stream __attribute__((unused)),     \
        int8_t *out __attribute__((unused)),                                                       \
        struct hil_mve_quads *quads __attribute__((unused))) {                                     \
        __asm__(HIL_MVE_QUADS(                                                                     \
            HIL_MVE_QUADS_NARROW(narrow, "vctp.8 r7\n", multiply, correct, HIL_MVE_QUADS_SUMS_0),  \
            HIL_MVE_QUADS_NARROW(narrow, "", multiply, correct, HIL_MVE_QUADS_SUMS_2),             \
            scale_bytes));                                                                         \
    }
#define HIL_MVE_QUADS_NARROW(narrow, again, multiply, correct, ...)                                \
    narrow(again, multiply, correct, __VA_ARGS__)
#define HIL_MVE_QUADS_FUNCTIONS(suffix, multiply, correct)                                         \
    HIL_MVE_QUADS_FUNCTION(hil_mve_quads##suffix, HIL_MVE_QUADS_PLAIN, "128", multiply, "")        \
    HIL_MVE_QUADS_FUNCTION(hil_mve_quads_any##suffix, HIL_MVE_QUADS_ANY, "128", multiply, correct) \
    HIL_MVE_QUADS_FUNCTION(hil_mve_quads_first##suffix, HIL_MVE_QUADS_FIRST_NARROWED, "96",        \
                           multiply, "")
/* clang-format on */

HIL_MVE_QUADS_FUNCTIONS(, HIL_MVE_TWICE, HIL_MVE_PIXELS_CORRECT)
HIL_MVE_QUADS_FUNCTIONS(_once, HIL_MVE_ONCE, HIL_MVE_PIXELS_UNSIGNED)

typedef void hil_mve_quads_function(const int8_t *x, const int8_t *stream, int8_t *out,
                                    struct hil_mve_quads *quads);

/*@kernel
name = "hil_mve_matmul_s8_4x4"
requires = ["mve"]
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "256 * ((columns + 15) // 16) + copied * (64 * chunks + 4 * columns)"
order = ["pixels 4"]
reads = "rows"
code = 1525
shared = {hil_mve_quads = 1250}
[cost]
quad = "(rows + 3) // 4"
copied_quad = "copied * (quad - direct // 4)"
copied_chunk = "copied_quad * chunks"
chunk = "quad * chunks"
sixteen = "quad * ((columns + 15) // 16)"
sixteen_chunk = "sixteen * chunks"
clamped = "sixteen * (any % 2)"
late_narrowed = "sixteen * (1 - first)"
@*/
struct hil_mve_matmul_s8_4x4 {
    int32_t rows;   /* rows of the input, and of the output */
    int32_t depth;  /* elements of a row */
    int32_t direct; /* first rows that are read where they lie, whole fours */
    int32_t copied; /* 1: there are others */
    HIL_MVE_PIXELS_FIELDS;
};

HIL_INLINE void hil_mve_matmul_s8_4x4(const struct hil_mve_matmul_s8_4x4 *p, const int8_t *in,
                                      int8_t *out, void *scratch) {
    hil_mve_quads_function *const function = HIL_MVE_PIXELS_OF(hil_mve_quads, p->any, p->first);
    const int32_t sixteens = (p->columns + 15) / 16;
    struct hil_mve_quads quads = {
        .pixels =
            {
                .pairs = p->direct / 4,
                .x_second = p->depth,
                .out_second = p->columns,
                .zero_point = p->out_zero_point,
                .x_step = 4 * p->depth,
                .out_step = 4 * p->columns,
                .columns = p->columns,
                .low = p->out_min,
                .high = p->out_max,
            },
        .sums = (int32_t *)scratch,
        .sixteens = sixteens,
        .x_bytes = HIL_MVE_CHUNK * p->chunks,
    };
    if (p->direct > 0) {
        function(in, p->stream, out, &quads);
    }
    if (p->copied) {
        int8_t *const copies = (int8_t *)scratch + 256 * sixteens;
        int8_t *const outputs = copies + 4 * HIL_MVE_CHUNK * p->chunks;
        quads.pixels.x_second = HIL_MVE_CHUNK * p->chunks;
        in += p->direct * p->depth;
        out += p->direct * p->columns;
        for (int32_t left = p->rows - p->direct; left > 0; left -= 4) {
            const int32_t count = left < 4 ? left : 4;
            int8_t *to = copies;
            for (int32_t i = 0; i < count; i++) {
                to = hil_mve_copy_chunks(to, in, p->depth, HIL_MVE_CHUNK);
                in += p->depth;
            }
            quads.pixels.pairs = 1;
            function(copies, p->stream, outputs, &quads);
            const int8_t *from = outputs;
            for (int32_t bytes = count * p->columns; bytes > 0; bytes -= HIL_MVE_CHUNK) {
                const mve_pred16_t some = vctp8q((uint32_t)bytes);
                vstrbq_p_s8(out + (from - outputs), vldrbq_z_s8(from, some), some);
                from += HIL_MVE_CHUNK;
            }
            out += count * p->columns;
        }
    }
}

#endif
