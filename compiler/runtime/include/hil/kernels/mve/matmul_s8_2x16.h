/* Rows of int8 ("pixels") times an int8 weight matrix, two pixels by sixteen output channels at a
 * time, for depths of at most 128: the pixels stay in registers as far as they fit, the weights
 * pass by. For depths of a few chunks of 16 this takes the fewest instructions, and pixels are read
 * where they lie.
 *
 * Tile: 2 pixels x 4 channels x one chunk of depth; four such fours of channels make the 16 whose
 * outputs are stored together, chunks make the depth.
 *
 *                     depth 0..15   16..31  ...       sums by channel of the four
 *            pixel 0  [    x0    ][   x1  ] ...        r0   r2   r4   r6
 *            pixel 1  [    y0    ][   y1  ] ...        r8   r10  r12  lr
 *
 * Registers, before the first weight of a chunk:
 *
 *   r0 r2 r4 r6     sums of pixel 0        vmladava adds to even core registers only
 *   r8 r10 r12 lr   sums of pixel 1
 *   r1  r3          pixel 0, pixel 1       r7   channels left, counted down by 16
 *   r5              next sums on the stack r9   place in the stream
 *   r11             outputs of pixel 0     q7   one channel's chunk of weights, passing by
 *   q0..q5          chunks of both pixels  depth 1: q0 q1     2: and q2 q3     3: and q4 q5
 *                                          4 to 8: q0 q1 q2 q3 and, of pixel 0, q4 stay; the rest
 *                                          comes to q5 and q6 again for each four channels
 *   stack           sp + 0: sums, 4 fours x (pixel 0, pixel 1) x 4 words = 128 bytes
 *                   sp + 128: d8-d15    sp + 192: r0-r11, lr (196: stream, 204: struct)
 *
 * Data: the stream, packed by `pixels_of()`; per 16 channels, of n chunks, in bytes. The last 16
 * are filled up with channels of zeros.
 *
 *   +0              int32[8]        biases of the four's channels a b c d, then a b c d again
 *   +32             int8[n][4][16]  weights: chunk, channel of the four, element
 *   +32 + 64n       the second four, third, fourth; each 32 + 64n
 *   +128 + 256n     4 x { int32[4] multipliers, int32[4] shifts }                     plain, _any
 *                   2 x { int32[8] multipliers of two fours, int16[8] their shifts }  _first
 *
 *   The fours are channels 0 4 8 12, 2 6 10 14, 1 5 9 13, 3 7 11 15: narrowing puts one four into
 *   even lanes and the next into odd ones, so after two narrowings the sixteen lie in order. The
 *   int16 shifts alternate likewise: of channels 0 2 4 ... 14, then of 1 3 5 ... 15.
 *
 *   Eight channels of two chunks (hil_mve_pixels_2_eight) are taken two pixels more at a time:
 *   2 x { int32[8] biases a b a b c d c d, int8[2][4][16] weights }, 320 bytes, of the channels
 *   0 4 2 6 and 1 5 3 7; then scales as above, where channels 8 to 15 are those of the other pixel.
 *
 * Order: pixels two by two from the first; of a pair all chunks are read again for each 16 channels
 * (the last chunk as a whole: kernels copy the pixels behind which it would leave the input); the
 * outputs of both are written after each 16 channels, while the next channels still read the pair.
 * With `staged` a pair is copied first, so that its outputs may take its place.
 *
 * Bounds: a sum is at most |bias| + 128 * sum |w| < 2^31, which `_check_quantized()` demands of
 * every layer; without the bias 128 * 128 * 128 = 2^21. Multipliers are positive, so vqrdmulh never
 * saturates (only -2^31 squared would). Shifts are -31 to -1, `linear()`.
 *
 * Output: round(round(sum * multiplier / 2^31) * 2^shift), both halves up. The reference rounds the
 * second away from zero, so:
 *   plain, _first   need no correction: negative results clamp to the zero point, -128
 *   _any            take 1 from negative products first, which makes vrshl round away from zero
 * The functions `_once` round once, half up: vqdmulh in the place of vqrdmulh rounds the product
 * down, and what vrshl then rounds is what it would round without. No sign needs a correction.
 * _first saturates products to uint16 before the shift: exact where no product exceeds 16 bits or
 * where 65535 still gives 127, which `narrow_first()` proves from the largest sum of each channel.
 *
 * Scratch: see the blocks below; copies of pixels, 16 bytes a chunk.
 *
 * Cost: per pair of pixels and 16 channels 62 + 39n instructions for n <= 2, 62 + 51n for n = 3
 * (n = 4: 271 for 2,048 MACs); _first takes 4 fewer, _any 29 more. Measured (`hil tune` on
 * mps3-an547, instructions under QEMU): 1x1 convolution 25x5x64 to 64 channels (kws) 0.132 a MAC,
 * staged 0.142; strips, first layer of kws 0.183, of ic 0.231; points 16 to 32 channels 0.289, 32
 * to 64 0.191, both _any.
 *
 * Tests: no twin in C; the numpy reference and hil_generic_matmul_s8 give what must come out
 * (tests/board/test_kernels.py, buffers between guard bytes). Layout:
 * tests/c/test_kernel_layouts.py.
 */
#ifndef HIL_KERNELS_MVE_MATMUL_S8_2X16_H
#define HIL_KERNELS_MVE_MATMUL_S8_2X16_H

#include <arm_mve.h>

#include "hil/kernels/mve/columns_s8.h"

#define HIL_MVE_PIXELS_DEEPEST 8

/* The assembly knows the offsets. */
struct hil_mve_pixels {
    int32_t pairs;      /*  0: of pixels, counted down */
    int32_t x_second;   /*  4: from the first pixel of a pair to the second */
    int32_t out_second; /*  8: the same in the outputs */
    int32_t zero_point; /* 12: of the output */
    int32_t x_step;     /* 16: to the next pair */
    int32_t out_step;   /* 20: the same in the outputs, from behind the last sixteen columns */
    int32_t columns;    /* 24 */
    int32_t low;        /* 28 */
    int32_t high;       /* 32 */
};

HIL_MVE_AT(hil_mve_pixels, pairs, 0);
HIL_MVE_AT(hil_mve_pixels, x_second, 4);
HIL_MVE_AT(hil_mve_pixels, out_second, 8);
HIL_MVE_AT(hil_mve_pixels, zero_point, 12);
HIL_MVE_AT(hil_mve_pixels, x_step, 16);
HIL_MVE_AT(hil_mve_pixels, out_step, 20);
HIL_MVE_AT(hil_mve_pixels, columns, 24);
HIL_MVE_AT(hil_mve_pixels, low, 28);
HIL_MVE_AT(hil_mve_pixels, high, 32);

typedef void hil_mve_pixels_function(const int8_t *x, const int8_t *stream, int8_t *out,
                                     struct hil_mve_pixels *pixels);

/* Saves what the caller keeps and sets r1, r3, r5, r7, r9 and r11 as the head says. */
#define HIL_MVE_PIXELS_ENTER                                                                       \
    "push {r0-r11, lr}\n"                                                                          \
    "vpush {d8-d15}\n"                                                                             \
    "sub sp, #128\n"                                                                               \
    "mov r9, r1\n"                                                                                 \
    "mov r1, r0\n"                                                                                 \
    "mov r11, r2\n"                                                                                \
    "ldr r7, [r3, #24]\n"                                                                          \
    "ldr r3, [r3, #4]\n"                                                                           \
    "add r3, r1\n"                                                                                 \
    ".p2align 2\n"                                                                                 \
    "2:\n"                                                                                         \
    "mov r5, sp\n"

#define HIL_MVE_PIXELS_COLUMN(first, second, x, y)                                                 \
    "vldrb.8 q7, [r9], #16\n"                                                                      \
    "vmladava.s8 " first ", " x ", q7\n"                                                           \
    "vmladava.s8 " second ", " y ", q7\n"

/* A chunk of four columns, whose weights are loaded together, and of two pixels. */
#define HIL_MVE_PIXELS_WHOLE_CHUNK(x, y)                                                           \
    "vldmia r9!, {d8-d15}\n"                                                                       \
    "vmladava.s8 r0, " x ", q4\n"                                                                  \
    "vmladava.s8 r2, " x ", q5\n"                                                                  \
    "vmladava.s8 r4, " x ", q6\n"                                                                  \
    "vmladava.s8 r6, " x ", q7\n"                                                                  \
    "vmladava.s8 r8, " y ", q4\n"                                                                  \
    "vmladava.s8 r10, " y ", q5\n"                                                                 \
    "vmladava.s8 r12, " y ", q6\n"                                                                 \
    "vmladava.s8 lr, " y ", q7\n"

/* A chunk of four columns, and of two pixels in `x` and `y`. */
#define HIL_MVE_PIXELS_CHUNK(x, y)                                                                 \
    HIL_MVE_PIXELS_COLUMN("r0", "r8", x, y)                                                        \
    HIL_MVE_PIXELS_COLUMN("r2", "r10", x, y)                                                       \
    HIL_MVE_PIXELS_COLUMN("r4", "r12", x, y)                                                       \
    HIL_MVE_PIXELS_COLUMN("r6", "lr", x, y)

#define HIL_MVE_PIXELS_LOAD(x, y, at)                                                              \
    "vldrb.8 " x ", [r1, #" at "]\n"                                                               \
    "vldrb.8 " y ", [r3, #" at "]\n"

/* A chunk whose pixels are not kept. */
#define HIL_MVE_PIXELS_PASSING(at)                                                                 \
    HIL_MVE_PIXELS_LOAD("q5", "q6", at) HIL_MVE_PIXELS_CHUNK("q5", "q6")

/* Four columns: biases for both pixels, all chunks, sums. */
#define HIL_MVE_PIXELS_FOUR(chunks)                                                                \
    "ldmia r9!, {r0, r2, r4, r6, r8, r10, r12, lr}\n" chunks                                       \
    "stmia r5!, {r0, r2, r4, r6, r8, r10, r12, lr}\n"

#define HIL_MVE_PIXELS_SIXTEEN(chunks)                                                             \
    HIL_MVE_PIXELS_FOUR(chunks)                                                                    \
    HIL_MVE_PIXELS_FOUR(chunks) HIL_MVE_PIXELS_FOUR(chunks) HIL_MVE_PIXELS_FOUR(chunks)

/* The same as a loop, for depths whose code would be long. */
#define HIL_MVE_PIXELS_SIXTEEN_LOOP(chunks)                                                        \
    "3:\n" HIL_MVE_PIXELS_FOUR(chunks) "mov r0, sp\n"                                              \
                                       "adds r0, #128\n"                                           \
                                       "cmp r0, r5\n"                                              \
                                       "bne.w 3b\n"

/* Requantizes four columns of both pixels. */
#define HIL_MVE_PIXELS_SCALE(multiply, sums, correct, narrow, x, y)                                \
    sums "vldmia r9!, {d4-d7}\n" multiply ".s32 q0, q0, q2\n" multiply ".s32 q1, q1, q2\n" correct \
         "vrshl.s32 q0, q0, q3\n"                                                                  \
         "vrshl.s32 q1, q1, q3\n" narrow ".s32 " x ", q0\n" narrow ".s32 " y ", q1\n"

/* The sums of fours, those of the one pixel and of the other. */
#define HIL_MVE_PIXELS_SUMS_AT(at, next)                                                           \
    "vldrw.32 q0, [r5, #" at "]\n"                                                                 \
    "vldrw.32 q1, [r5, #" next "]\n"
#define HIL_MVE_PIXELS_SUMS_OF_TWO "vldmia r5!, {d0-d3}\n"
#define HIL_MVE_PIXELS_SUMS                                                                        \
    "sub.w r5, r5, #128\n" HIL_MVE_PIXELS_SUMS_OF_TWO, HIL_MVE_PIXELS_SUMS_OF_TWO,                 \
        HIL_MVE_PIXELS_SUMS_OF_TWO, HIL_MVE_PIXELS_SUMS_OF_TWO

/* All sixteen columns of both pixels, in 16 bits in q4 to q7; then in q4 and q5. */
#define HIL_MVE_PIXELS_FOURS(multiply, correct, a, b, c, d)                                        \
    HIL_MVE_PIXELS_SCALE(multiply, a, correct, "vqmovnb", "q4", "q5")                              \
    HIL_MVE_PIXELS_SCALE(multiply, b, correct, "vqmovnt", "q4", "q5")                              \
    HIL_MVE_PIXELS_SCALE(multiply, c, correct, "vqmovnb", "q6", "q7")                              \
    HIL_MVE_PIXELS_SCALE(multiply, d, correct, "vqmovnt", "q6", "q7")
#define HIL_MVE_PIXELS_NARROW(multiply, correct, bytes, ...)                                       \
    HIL_MVE_PIXELS_NARROW_AT(multiply, correct, bytes, __VA_ARGS__)
#define HIL_MVE_PIXELS_NARROW_AT(multiply, correct, bytes, ...)                                    \
    HIL_MVE_PIXELS_FOURS(multiply, correct, __VA_ARGS__)                                           \
    "ldr r0, [sp, #204]\n"                                                                         \
    "ldrd r2, r4, [r0, #8]\n" bytes

/* Outputs over the whole range of int8, of which the zero point is the least. */
#define HIL_MVE_PIXELS_BYTES(narrow, type)                                                         \
    narrow "b." type " q4, q4\n" narrow "b." type " q5, q5\n" narrow "t." type " q4, q6\n" narrow  \
           "t." type " q5, q7\n"                                                                   \
           "vadd.i8 q4, q4, r4\n"                                                                  \
           "vadd.i8 q5, q5, r4\n"

/* The same for outputs over the whole range of int8 whose values below the zero point clamp, where
 * no product has more than 16 bits before it is shifted: these are shifted eight at a time. */
#define HIL_MVE_PIXELS_PRODUCTS(multiply, sums, scale, narrow, x, y)                               \
    sums multiply ".s32 q0, q0, " scale "\n" multiply ".s32 q1, q1, " scale "\n" narrow ".s32 " x  \
                  ", q0\n" narrow ".s32 " y ", q1\n"
#define HIL_MVE_PIXELS_MULTIPLIERS "vldmia r9!, {d4-d7}\n"
#define HIL_MVE_PIXELS_SHIFT(x, y)                                                                 \
    "vldrh.u16 q2, [r9], #16\n"                                                                    \
    "vrshl.u16 " x ", " x ", q2\n"                                                                 \
    "vrshl.u16 " y ", " y ", q2\n"
#define HIL_MVE_PIXELS_FOURS_FIRST(multiply, a, b, c, d)                                           \
    HIL_MVE_PIXELS_MULTIPLIERS                                                                     \
    HIL_MVE_PIXELS_PRODUCTS(multiply, a, "q2", "vqmovunb", "q4", "q5")                             \
    HIL_MVE_PIXELS_PRODUCTS(multiply, b, "q3", "vqmovunt", "q4", "q5")                             \
    HIL_MVE_PIXELS_SHIFT("q4", "q5")                                                               \
    HIL_MVE_PIXELS_MULTIPLIERS                                                                     \
    HIL_MVE_PIXELS_PRODUCTS(multiply, c, "q2", "vqmovunb", "q6", "q7")                             \
    HIL_MVE_PIXELS_PRODUCTS(multiply, d, "q3", "vqmovunt", "q6", "q7")                             \
    HIL_MVE_PIXELS_SHIFT("q6", "q7")
#define HIL_MVE_PIXELS_NARROW_FIRST(multiply, ...)                                                 \
    HIL_MVE_PIXELS_NARROW_FIRST_AT(multiply, __VA_ARGS__)
#define HIL_MVE_PIXELS_NARROW_FIRST_AT(multiply, ...)                                              \
    HIL_MVE_PIXELS_FOURS_FIRST(multiply, __VA_ARGS__)                                              \
    "ldr r0, [sp, #204]\n"                                                                         \
    "ldrd r2, r4, [r0, #8]\n" HIL_MVE_PIXELS_BYTES("vqmovn", "u16")

#define HIL_MVE_PIXELS_STORE                                                                       \
    "vctp.8 r7\n"                                                                                  \
    "add r2, r11\n"                                                                                \
    "vpstt\n"                                                                                      \
    "vstrbt.8 q4, [r11]\n"                                                                         \
    "vstrbt.8 q5, [r2]\n"                                                                          \
    "add r11, #16\n" HIL_MVE_PIXELS_NEXT
/* The same where all columns are whole sixteens. */
#define HIL_MVE_PIXELS_STORE_WHOLE                                                                 \
    "add r2, r11\n"                                                                                \
    "vstrb.8 q4, [r11], #16\n"                                                                     \
    "vstrb.8 q5, [r2]\n" HIL_MVE_PIXELS_NEXT
#define HIL_MVE_PIXELS_NEXT                                                                        \
    "subs r7, #16\n"                                                                               \
    "bgt.w 2b\n"                                                                                   \
    "ldr r2, [r0]\n"                                                                               \
    "ldrd r4, r6, [r0, #16]\n"                                                                     \
    "ldr r9, [sp, #196]\n"                                                                         \
    "ldr r7, [r0, #24]\n"                                                                          \
    "add r1, r4\n"                                                                                 \
    "add r3, r4\n"                                                                                 \
    "add r11, r6\n"                                                                                \
    "subs r2, #1\n"                                                                                \
    "str r2, [r0]\n"                                                                               \
    "bne.w 2b\n"                                                                                   \
    "add sp, #128\n"                                                                               \
    "vpop {d8-d15}\n"                                                                              \
    "pop {r0-r11, pc}\n"

/* Signs and bounds: of outputs over the whole range of int8 whose values below the zero point
 * clamp, and of any others. */
#define HIL_MVE_PIXELS_CORRECT                                                                     \
    "mov r0, #1\n" HIL_MVE_AWAY_FROM_ZERO("q0", "r0") HIL_MVE_AWAY_FROM_ZERO("q1", "r0")
/* Sums rounded once need no correction of signs. */
#define HIL_MVE_PIXELS_UNSIGNED ""
#define HIL_MVE_PIXELS_CLAMP                                                                       \
    "vqadd.s16 q4, q4, r4\n"                                                                       \
    "vqadd.s16 q5, q5, r4\n"                                                                       \
    "vqadd.s16 q6, q6, r4\n"                                                                       \
    "vqadd.s16 q7, q7, r4\n"                                                                       \
    "vqmovnb.s16 q4, q4\n"                                                                         \
    "vqmovnb.s16 q5, q5\n"                                                                         \
    "vqmovnt.s16 q4, q6\n"                                                                         \
    "vqmovnt.s16 q5, q7\n"                                                                         \
    "ldrd r4, r6, [r0, #28]\n"                                                                     \
    "vdup.8 q0, r4\n"                                                                              \
    "vdup.8 q1, r6\n"                                                                              \
    "vmax.s8 q4, q4, q0\n"                                                                         \
    "vmax.s8 q5, q5, q0\n"                                                                         \
    "vmin.s8 q4, q4, q1\n"                                                                         \
    "vmin.s8 q5, q5, q1\n"

/* The functions of a depth: any number of columns and whole sixteens, each plain, `_any`, `_first`.
 */
#define HIL_MVE_PIXELS_FUNCTION(name, sixteen)                                                     \
    HIL_MVE_PIXELS_FUNCTIONS(name, HIL_MVE_PIXELS_ENTER, "", sixteen, HIL_MVE_PIXELS_STORE,        \
                             HIL_MVE_PIXELS_SUMS)                                                  \
    HIL_MVE_PIXELS_FUNCTIONS(name##_whole, HIL_MVE_PIXELS_ENTER, "", sixteen,                      \
                             HIL_MVE_PIXELS_STORE_WHOLE, HIL_MVE_PIXELS_SUMS)
#define HIL_MVE_PIXELS_FUNCTIONS(name, enter, again, sixteen, store, ...)                          \
    HIL_MVE_PIXELS_ROUNDED(name, , HIL_MVE_TWICE, HIL_MVE_PIXELS_CORRECT, enter, again, sixteen,   \
                           store, __VA_ARGS__)                                                     \
    HIL_MVE_PIXELS_ROUNDED(name, _once, HIL_MVE_ONCE, HIL_MVE_PIXELS_UNSIGNED, enter, again,       \
                           sixteen, store, __VA_ARGS__)
#define HIL_MVE_PIXELS_ROUNDED(name, suffix, multiply, correct, enter, again, sixteen, store, ...) \
    HIL_MVE_PIXELS_NAKED(name##suffix, enter sixteen HIL_MVE_PIXELS_NARROW(                        \
                                           multiply, "", HIL_MVE_PIXELS_BYTES("vqmovun", "s16"),   \
                                           __VA_ARGS__) store)                                     \
    HIL_MVE_PIXELS_NAKED(name##_any##suffix,                                                       \
                         enter again sixteen HIL_MVE_PIXELS_NARROW(                                \
                             multiply, correct, HIL_MVE_PIXELS_CLAMP, __VA_ARGS__) store)          \
    HIL_MVE_PIXELS_NAKED(name##_first##suffix,                                                     \
                         enter sixteen HIL_MVE_PIXELS_NARROW_FIRST(multiply, __VA_ARGS__) store)
#define HIL_MVE_PIXELS_NAKED(name, code)                                                           \
    __attribute__((naked, noipa, unused)) static void name(                                        \
        const int8_t *x __attribute__((unused)), const int8_t *stream __attribute__((unused)),     \
        int8_t *out __attribute__((unused)),                                                       \
        struct hil_mve_pixels *pixels __attribute__((unused))) {                                   \
        __asm__(code);                                                                             \
    }

#define HIL_MVE_PIXELS_1                                                                           \
    HIL_MVE_PIXELS_LOAD("q0", "q1", "0")                                                           \
    HIL_MVE_PIXELS_SIXTEEN(HIL_MVE_PIXELS_WHOLE_CHUNK("q0", "q1"))
#define HIL_MVE_PIXELS_2                                                                           \
    HIL_MVE_PIXELS_LOAD("q0", "q1", "0")                                                           \
    HIL_MVE_PIXELS_LOAD("q2", "q3", "16")                                                          \
    HIL_MVE_PIXELS_SIXTEEN(HIL_MVE_PIXELS_WHOLE_CHUNK("q0", "q1")                                  \
                               HIL_MVE_PIXELS_WHOLE_CHUNK("q2", "q3"))
#define HIL_MVE_PIXELS_3                                                                           \
    HIL_MVE_PIXELS_LOAD("q0", "q1", "0")                                                           \
    HIL_MVE_PIXELS_LOAD("q2", "q3", "16")                                                          \
    HIL_MVE_PIXELS_LOAD("q4", "q5", "32")                                                          \
    HIL_MVE_PIXELS_SIXTEEN(HIL_MVE_PIXELS_CHUNK("q0", "q1") HIL_MVE_PIXELS_CHUNK("q2", "q3")       \
                               HIL_MVE_PIXELS_CHUNK("q4", "q5"))
/* Five of eight vectors of the pixels stay. */
#define HIL_MVE_PIXELS_KEPT                                                                        \
    HIL_MVE_PIXELS_LOAD("q0", "q1", "0")                                                           \
    HIL_MVE_PIXELS_LOAD("q2", "q3", "16")                                                          \
    "vldrb.8 q4, [r1, #32]\n"
#define HIL_MVE_PIXELS_REST                                                                        \
    HIL_MVE_PIXELS_CHUNK("q0", "q1")                                                               \
    HIL_MVE_PIXELS_CHUNK("q2", "q3")                                                               \
    "vldrb.8 q5, [r3, #32]\n" HIL_MVE_PIXELS_CHUNK("q4", "q5") HIL_MVE_PIXELS_PASSING("48")
#define HIL_MVE_PIXELS_4 HIL_MVE_PIXELS_KEPT HIL_MVE_PIXELS_SIXTEEN(HIL_MVE_PIXELS_REST)
#define HIL_MVE_PIXELS_5                                                                           \
    HIL_MVE_PIXELS_KEPT HIL_MVE_PIXELS_SIXTEEN_LOOP(                                               \
        HIL_MVE_PIXELS_REST HIL_MVE_PIXELS_PASSING("64"))
#define HIL_MVE_PIXELS_6                                                                           \
    HIL_MVE_PIXELS_KEPT HIL_MVE_PIXELS_SIXTEEN_LOOP(                                               \
        HIL_MVE_PIXELS_REST HIL_MVE_PIXELS_PASSING("64") HIL_MVE_PIXELS_PASSING("80"))
#define HIL_MVE_PIXELS_7                                                                           \
    HIL_MVE_PIXELS_KEPT HIL_MVE_PIXELS_SIXTEEN_LOOP(HIL_MVE_PIXELS_REST HIL_MVE_PIXELS_PASSING(    \
        "64") HIL_MVE_PIXELS_PASSING("80") HIL_MVE_PIXELS_PASSING("96"))
#define HIL_MVE_PIXELS_8                                                                           \
    HIL_MVE_PIXELS_KEPT HIL_MVE_PIXELS_SIXTEEN_LOOP(                                               \
        HIL_MVE_PIXELS_REST HIL_MVE_PIXELS_PASSING("64") HIL_MVE_PIXELS_PASSING("80")              \
            HIL_MVE_PIXELS_PASSING("96") HIL_MVE_PIXELS_PASSING("112"))

HIL_MVE_PIXELS_FUNCTION(hil_mve_pixels_1, HIL_MVE_PIXELS_1)
HIL_MVE_PIXELS_FUNCTION(hil_mve_pixels_2, HIL_MVE_PIXELS_2)
HIL_MVE_PIXELS_FUNCTION(hil_mve_pixels_3, HIL_MVE_PIXELS_3)
HIL_MVE_PIXELS_FUNCTION(hil_mve_pixels_4, HIL_MVE_PIXELS_4)
HIL_MVE_PIXELS_FUNCTION(hil_mve_pixels_5, HIL_MVE_PIXELS_5)
HIL_MVE_PIXELS_FUNCTION(hil_mve_pixels_6, HIL_MVE_PIXELS_6)
HIL_MVE_PIXELS_FUNCTION(hil_mve_pixels_7, HIL_MVE_PIXELS_7)
HIL_MVE_PIXELS_FUNCTION(hil_mve_pixels_8, HIL_MVE_PIXELS_8)

/* Eight columns of four pixels of two chunks: two pixels at a time, whose chunks are in q0 and q2
 * and in q1 and q3. Their sums lie where those of sixteen columns of two pixels would, so what
 * narrows those takes them, the second pixel and the fourth as columns 8 to 15. */
#define HIL_MVE_PIXELS_EIGHT_COLUMN(first, second, x, y)                                           \
    "vldrb.8 q7, [r9], #16\n"                                                                      \
    "vmladava.s8 " first ", " x ", q7\n"                                                           \
    "vmladava.s8 " second ", " y ", q7\n"
#define HIL_MVE_PIXELS_EIGHT_CHUNK(x, y)                                                           \
    HIL_MVE_PIXELS_EIGHT_COLUMN("r0", "r4", x, y)                                                  \
    HIL_MVE_PIXELS_EIGHT_COLUMN("r2", "r6", x, y)                                                  \
    HIL_MVE_PIXELS_EIGHT_COLUMN("r8", "r12", x, y)                                                 \
    HIL_MVE_PIXELS_EIGHT_COLUMN("r10", "lr", x, y)
#define HIL_MVE_PIXELS_EIGHT_FOUR                                                                  \
    HIL_MVE_PIXELS_FOUR(HIL_MVE_PIXELS_EIGHT_CHUNK("q0", "q1")                                     \
                            HIL_MVE_PIXELS_EIGHT_CHUNK("q2", "q3"))
#define HIL_MVE_PIXELS_EIGHT(first, second)                                                        \
    first HIL_MVE_PIXELS_EIGHT_FOUR HIL_MVE_PIXELS_EIGHT_FOUR                                      \
        "sub.w r9, r9, #320\n" second HIL_MVE_PIXELS_EIGHT_FOUR HIL_MVE_PIXELS_EIGHT_FOUR
#define HIL_MVE_PIXELS_EIGHT_SUMS                                                                  \
    HIL_MVE_PIXELS_SUMS_AT("-128", "-64"), HIL_MVE_PIXELS_SUMS_AT("-112", "-48"),                  \
        HIL_MVE_PIXELS_SUMS_AT("-96", "-32"), HIL_MVE_PIXELS_SUMS_AT("-80", "-16")

#define HIL_MVE_PIXELS_2_EIGHT_LOAD(place)                                                         \
    "vldrb.8 q0, [" place "]\n"                                                                    \
    "vldrb.8 q2, [" place ", #16]\n"                                                               \
    "vldrb.8 q1, [" place ", #32]\n"                                                               \
    "vldrb.8 q3, [" place ", #48]\n"
HIL_MVE_PIXELS_FUNCTIONS(hil_mve_pixels_2_eight, HIL_MVE_PIXELS_ENTER, "",
                         HIL_MVE_PIXELS_EIGHT(HIL_MVE_PIXELS_2_EIGHT_LOAD("r1"),
                                              HIL_MVE_PIXELS_2_EIGHT_LOAD("r3")),
                         HIL_MVE_PIXELS_STORE, HIL_MVE_PIXELS_EIGHT_SUMS)

/* `count` pixels of two chunks, side by side; one more may be read. */
HIL_INLINE void hil_mve_pixels_eight(hil_mve_pixels_function *function,
                                     struct hil_mve_pixels *pixels, const int8_t *x,
                                     const int8_t *stream, int8_t *out, int32_t count) {
    while (count > 0) {
        const int32_t pair = count < 4;
        const int32_t taken = count >= 4 ? count / 4 * 4 : (count >= 2 ? 2 : 1);
        pixels->pairs = pair ? 1 : count / 4;
        pixels->x_second = pair ? 0 : 64;
        pixels->out_second = pair ? 0 : 16;
        pixels->x_step = 128;
        pixels->out_step = 16;
        pixels->columns = taken == 1 ? 8 : 16;
        function(x, stream, out, pixels);
        x += 32 * taken;
        out += 8 * taken;
        count -= taken;
    }
}

/* Fields of the kernels' structs that describe the columns. */
#define HIL_MVE_PIXELS_FIELDS                                                                      \
    int32_t chunks;  /* of 16 weights, a column's depth rounded up; at most 8 */                   \
    int32_t columns; /* outputs of a pixel */                                                      \
    int32_t any;     /* 0: outputs have the whole range of int8, and what is below zero clamps;    \
                      * and HIL_MVE_ANY_ONCE where sums are rounded once */                        \
    int32_t first; /* 1: where any is 0, products fit 16 bits and are narrowed before the shift */ \
    HIL_OUTPUT_RANGE_FIELDS;                                                                       \
    const int8_t *stream /* the head draws it; columns of weights 0 fill the last 16 */

#define HIL_MVE_PIXELS(p, step)                                                                    \
    {                                                                                              \
        .pairs = 0, .x_second = (step), .out_second = (p)->columns,                                \
        .zero_point = (p)->out_zero_point, .x_step = 2 * (step),                                   \
        .out_step = 2 * (p)->columns - ((p)->columns + 15) / 16 * 16, .columns = (p)->columns,     \
        .low = (p)->out_min, .high = (p)->out_max,                                                 \
    }

#define HIL_MVE_PIXELS_OF(name, any, first)                                                        \
    (((any)&HIL_MVE_ANY_ONCE) ? HIL_MVE_PIXELS_KIND(name, _once, (any)&1, first)                   \
                              : HIL_MVE_PIXELS_KIND(name, , any, first))
#define HIL_MVE_PIXELS_KIND(name, suffix, any, first)                                              \
    ((any) ? name##_any##suffix : (first) ? name##_first##suffix : name##suffix)

#define HIL_MVE_PIXELS_CASE(name)                                                                  \
    return columns % 16 != 0 ? HIL_MVE_PIXELS_OF(name, any, first)                                 \
                             : HIL_MVE_PIXELS_OF(name##_whole, any, first)

HIL_INLINE hil_mve_pixels_function *hil_mve_pixels_of(int32_t chunks, int32_t columns, int32_t any,
                                                      int32_t first) {
    switch (chunks) {
    case 1:
        HIL_MVE_PIXELS_CASE(hil_mve_pixels_1);
    case 2:
        HIL_MVE_PIXELS_CASE(hil_mve_pixels_2);
    case 3:
        HIL_MVE_PIXELS_CASE(hil_mve_pixels_3);
    case 4:
        HIL_MVE_PIXELS_CASE(hil_mve_pixels_4);
    case 5:
        HIL_MVE_PIXELS_CASE(hil_mve_pixels_5);
    case 6:
        HIL_MVE_PIXELS_CASE(hil_mve_pixels_6);
    case 7:
        HIL_MVE_PIXELS_CASE(hil_mve_pixels_7);
    default:
        HIL_MVE_PIXELS_CASE(hil_mve_pixels_8);
    }
}

/* `count` pixels `step` bytes apart, all chunks of which may be read. */
HIL_INLINE void hil_mve_pixels(hil_mve_pixels_function *function, struct hil_mve_pixels *pixels,
                               const int8_t *x, const int8_t *stream, int8_t *out, int32_t count) {
    if (count >= 2) {
        pixels->pairs = count / 2;
        function(x, stream, out, pixels);
    }
    if (count % 2 != 0) {
        /* A pair of one pixel, twice. */
        struct hil_mve_pixels one = *pixels;
        one.pairs = 1;
        one.x_second = 0;
        one.out_second = 0;
        const int32_t last = count - 1;
        function(x + last * pixels->x_second, stream, out + last * pixels->out_second, &one);
    }
}

/* The same of the last pixels, behind which chunks reach; they are copied. */
HIL_INLINE void hil_mve_last_pixels(hil_mve_pixels_function *function,
                                    struct hil_mve_pixels *pixels, const int8_t *x,
                                    const int8_t *stream, int8_t *out, int32_t count, int32_t depth,
                                    int32_t chunks, int8_t *copies) {
    int8_t *to = copies;
    for (int32_t i = 0; i < count; i++) {
        to = hil_mve_copy_chunks(to, x, depth, HIL_MVE_CHUNK);
        x += pixels->x_second;
    }
    pixels->x_second = HIL_MVE_CHUNK * chunks;
    pixels->x_step = 2 * HIL_MVE_CHUNK * chunks;
    hil_mve_pixels(function, pixels, copies, stream, out, count);
}

/*@kernel
name = "hil_mve_matmul_s8_2x16"
requires = ["mve"]
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "16 * chunks * (copied + 2 * staged)"
order = ["pixels 2", "channels 16 + staged * columns"]
reads = "rows"
code = 740
shared = {hil_mve_pixels = 560}
[cost]
tile = "(rows + 1) // 2"
staged_tile = "tile * staged"
staged_chunk = "staged_tile * chunks"
sixteen = "tile * ((columns + 15) // 16)"
clamped = "sixteen * (any % 2)"
late_narrowed = "sixteen * (1 - first)"
chunk = "sixteen * chunks"
loaded_apart = "chunk * (chunks > 2)"
fourth_chunk = "sixteen * (chunks > 3)"
later_chunk = "sixteen * max(0, chunks - 4)"
@*/
struct hil_mve_matmul_s8_2x16 {
    int32_t rows;   /* rows of the input, and of the output */
    int32_t depth;  /* elements of a row */
    int32_t copied; /* last rows that are copied */
    int32_t staged; /* 1: each two rows are copied first, so that outputs may take their place */
    HIL_MVE_PIXELS_FIELDS;
};

HIL_INLINE void hil_mve_matmul_s8_2x16(const struct hil_mve_matmul_s8_2x16 *p, const int8_t *in,
                                       int8_t *out, void *scratch) {
    hil_mve_pixels_function *const function =
        hil_mve_pixels_of(p->chunks, p->columns, p->any, p->first);
    struct hil_mve_pixels pixels = HIL_MVE_PIXELS(p, p->depth);
    const int32_t direct = p->rows - p->copied;
    if (p->staged) {
        for (int32_t left = p->rows; left > 0; left -= 2) {
            struct hil_mve_pixels pair = pixels;
            const int32_t count = left < 2 ? left : 2;
            hil_mve_last_pixels(function, &pair, in, p->stream, out, count, p->depth, p->chunks,
                                (int8_t *)scratch);
            in += 2 * p->depth;
            out += 2 * p->columns;
        }
        return;
    }
    hil_mve_pixels(function, &pixels, in, p->stream, out, direct);
    if (p->copied > 0) {
        hil_mve_last_pixels(function, &pixels, in + direct * p->depth, p->stream,
                            out + direct * p->columns, p->copied, p->depth, p->chunks,
                            (int8_t *)scratch);
    }
}

/* A convolution with filters of one pixel that takes each `stride`th one, without padding. */
/*@kernel
name = "hil_mve_conv2d_s8_1x1_strided"
requires = ["mve"]
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "16 * chunks * copied"
order = ["rows 1", "pixels 2", "channels 16"]
reads = "window"
window = {filter_h = "1", filter_w = "1"}
code = 684
shared = {hil_mve_pixels = 560}
[cost]
row = "batch * out_h"
tile = "row * ((out_w + 1) // 2)"
sixteen = "tile * ((columns + 15) // 16)"
clamped = "sixteen * (any % 2)"
late_narrowed = "sixteen * (1 - first)"
chunk = "sixteen * chunks"
loaded_apart = "chunk * (chunks > 2)"
fourth_chunk = "sixteen * (chunks > 3)"
later_chunk = "sixteen * max(0, chunks - 4)"
@*/
struct hil_mve_conv2d_s8_1x1_strided {
    HIL_IMAGES_FIELDS;
    int32_t stride_h; /* input rows from a window to the one below it */
    int32_t stride_w; /* input columns from a window to the next */
    int32_t copied;   /* last pixels of each row that are copied */
    HIL_MVE_PIXELS_FIELDS;
};

HIL_INLINE void hil_mve_conv2d_s8_1x1_strided(const struct hil_mve_conv2d_s8_1x1_strided *p,
                                              const int8_t *in, int8_t *out, void *scratch) {
    hil_mve_pixels_function *const function =
        hil_mve_pixels_of(p->chunks, p->columns, p->any, p->first);
    const int32_t step = p->stride_w * p->in_c;
    const int32_t direct = p->out_w - p->copied;
    for (int32_t images = p->batch; images > 0; images--) {
        const int8_t *row = in;
        for (int32_t rows = p->out_h; rows > 0; rows--) {
            struct hil_mve_pixels pixels = HIL_MVE_PIXELS(p, step);
            hil_mve_pixels(function, &pixels, row, p->stream, out, direct);
            if (p->copied > 0) {
                hil_mve_last_pixels(function, &pixels, row + direct * step, p->stream,
                                    out + direct * p->columns, p->copied, p->in_c, p->chunks,
                                    (int8_t *)scratch);
            }
            row += p->stride_h * p->in_w * p->in_c;
            out += p->out_w * p->columns;
        }
        in += p->in_h * p->in_w * p->in_c;
    }
}

/* A convolution of an image of few channels, by strips: the pixels under some windows of a row are
 * copied, the zero point around the image; from there gathers of bytes fetch each window. */
/*@kernel
name = "hil_mve_conv2d_s8_gathered_2x16"
requires = ["mve"]
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "16 * chunks * strip_w * lines + filter_h * strip_bytes + 16"
order = ["rows lines", "pixels strip_w"]
reads = "window"
code = 960
shared = {hil_mve_pixels = 560}
[cost]
line = "batch * ((out_h + lines - 1) // lines)"
strip = "line * ((out_w + strip_w - 1) // strip_w)"
strip_row = "strip * lines * filter_h"
strip_chunk = "strip_row * (strip_bytes // 16)"
tile = "line * ((lines * out_w + 1 + 2 * eight) // (2 + 2 * eight))"
eight_tile = "tile * eight"
sixteen = "tile * (1 - eight) * ((columns + 15) // 16)"
clamped = "(eight_tile + sixteen) * (any % 2)"
late_narrowed = "(eight_tile + sixteen) * (1 - first)"
chunk = "sixteen * chunks"
loaded_apart = "chunk * (chunks > 2)"
fourth_chunk = "sixteen * (chunks > 3)"
later_chunk = "sixteen * max(0, chunks - 4)"
@*/
struct hil_mve_conv2d_s8_gathered_2x16 {
    HIL_IMAGES_FIELDS;
    int32_t filter_h;      /* rows of the filter */
    int32_t filter_w;      /* columns of the filter */
    int32_t stride_h;      /* input rows from a window to the one below it */
    int32_t stride_w;      /* input columns from a window to the next */
    int32_t pad_top;       /* rows by which the first window reaches above the image */
    int32_t pad_left;      /* columns by which the first window reaches beyond the image */
    int32_t in_zero_point; /* the input that stands for 0.0, which pixels outside the image have */
    int32_t strip_w;       /* windows of a strip, even or all */
    int32_t lines;         /* rows of windows at a time, where a strip has all of a row's */
    int32_t strip_bytes;   /* of a row under a strip */
    int32_t eight;         /* 1: there are eight columns of two chunks, and the stream is that of
                            * hil_mve_pixels_2_eight */
    const uint8_t *taps;   /* [chunks][16]: from a window's first byte to each of its bytes */
    HIL_MVE_PIXELS_FIELDS;
};

/* The pixels under windows from row y and column x on. What lies beside the image is there already
 * where a strip has all windows of a row. */
HIL_INLINE void
hil_mve_conv2d_s8_gathered_2x16_copy(const struct hil_mve_conv2d_s8_gathered_2x16 *p,
                                     const int8_t *image, int32_t y, int32_t x, int8_t *strip) {
    const int8x16_t around = vdupq_n_s8((int8_t)p->in_zero_point);
    const int32_t width = p->strip_bytes;
    const int32_t begin = x < 0 ? -x * p->in_c : 0;
    const int32_t fitting = (p->in_w - x) * p->in_c;
    const int32_t end = fitting < width ? fitting : width;
    const int32_t beside = p->strip_w < p->out_w && (begin > 0 || end < width);
    const int8_t *from = image + (y * p->in_w + x) * p->in_c + begin;
    for (int32_t row = y; row < y + p->filter_h; row++) {
        const int32_t inside = row >= 0 && row < p->in_h;
        if (!inside || beside) {
            int8_t *to = strip;
            for (int32_t bytes = width; bytes > 0; bytes -= HIL_MVE_CHUNK) {
                vstrbq_p_s8(to, around, vctp8q((uint32_t)bytes));
                to += HIL_MVE_CHUNK;
            }
        }
        if (inside && end > begin) {
            const int32_t whole = (end - begin) & -HIL_MVE_CHUNK;
            int8_t *const rest = hil_mve_copy(strip + begin, from, whole / HIL_MVE_CHUNK);
            const mve_pred16_t some = vctp8q((uint32_t)(end - begin - whole));
            vstrbq_p_s8(rest, vldrbq_z_s8(from + whole, some), some);
        }
        strip += width;
        from += p->in_w * p->in_c;
    }
}

/* `count` windows, side by side. */
HIL_INLINE int8_t *
hil_mve_conv2d_s8_gathered_2x16_gather(const struct hil_mve_conv2d_s8_gathered_2x16 *p,
                                       const int8_t *window, int32_t count, int8_t *to) {
    const int32_t step = p->stride_w * p->in_c;
    const uint8x16_t first = vldrbq_u8(p->taps);
    if (p->chunks == 2) {
        const uint8x16_t second = vldrbq_u8(p->taps + HIL_MVE_CHUNK);
        for (; count > 0; count--) {
            vstrbq_s8(to, vldrbq_gather_offset_s8(window, first));
            vstrbq_s8(to + HIL_MVE_CHUNK, vldrbq_gather_offset_s8(window, second));
            to += 2 * HIL_MVE_CHUNK;
            window += step;
        }
        return to;
    }
    for (; count > 0; count--) {
        vstrbq_s8(to, vldrbq_gather_offset_s8(window, first));
        to += HIL_MVE_CHUNK;
        for (int32_t chunk = 1; chunk < p->chunks; chunk++) {
            const uint8x16_t taps = vldrbq_u8(p->taps + HIL_MVE_CHUNK * chunk);
            vstrbq_s8(to, vldrbq_gather_offset_s8(window, taps));
            to += HIL_MVE_CHUNK;
        }
        window += step;
    }
    return to;
}

HIL_INLINE void hil_mve_conv2d_s8_gathered_2x16(const struct hil_mve_conv2d_s8_gathered_2x16 *p,
                                                const int8_t *in, int8_t *out, void *scratch) {
    hil_mve_pixels_function *const function =
        hil_mve_pixels_of(p->chunks, p->columns, p->any, p->first);
    struct hil_mve_pixels pixels = HIL_MVE_PIXELS(p, HIL_MVE_CHUNK * p->chunks);
    int8_t *const windows = (int8_t *)scratch;
    int8_t *const strip = windows + HIL_MVE_CHUNK * p->chunks * p->strip_w * p->lines;
    const int8x16_t around = vdupq_n_s8((int8_t)p->in_zero_point);
    for (int32_t at = 0; at < p->filter_h * p->strip_bytes; at += HIL_MVE_CHUNK) {
        vstrbq_s8(strip + at, around);
    }
    for (int32_t images = p->batch; images > 0; images--) {
        for (int32_t row = 0; row < p->out_h; row += p->lines) {
            const int32_t below = p->out_h - row;
            const int32_t lines = below < p->lines ? below : p->lines;
            for (int32_t first = 0; first < p->out_w; first += p->strip_w) {
                const int32_t left = p->out_w - first;
                const int32_t count = left < p->strip_w ? left : p->strip_w;
                int8_t *to = windows;
                for (int32_t line = row; line < row + lines; line++) {
                    hil_mve_conv2d_s8_gathered_2x16_copy(p, in, line * p->stride_h - p->pad_top,
                                                         first * p->stride_w - p->pad_left, strip);
                    to = hil_mve_conv2d_s8_gathered_2x16_gather(p, strip, count, to);
                }
                if (p->eight) {
                    hil_mve_pixels_eight(
                        HIL_MVE_PIXELS_OF(hil_mve_pixels_2_eight, p->any, p->first), &pixels,
                        windows, p->stream, out, count * lines);
                } else {
                    hil_mve_pixels(function, &pixels, windows, p->stream, out, count * lines);
                }
                out += count * lines * p->columns;
            }
        }
        in += p->in_h * p->in_w * p->in_c;
    }
}

#endif
