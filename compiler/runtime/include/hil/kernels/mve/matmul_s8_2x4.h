/* Rows of int8 ("pixels") times an int8 weight matrix, two pixels at a time, for depths of up to
 * eight chunks of 16: matmul_s8_2x16.h with fewer loads. Blocks of pixels are copied first, so that
 * both pixels' chunks lie beside each other.
 *
 * Tile: 2 pixels x 4 channels, all chunks: one pass; four passes, 16 channels, are narrowed and
 * stored together.
 *
 *             two chunks of both pixels           each with four channels' weights
 *   pass 0    0 1, 2 3, 4 5, 6 7                  (the chunks of the last are there when)
 *   pass 1    6 7, 4 5, 2 3, 0 1                  (the next pass begins)
 *   pass 2, 3 like these
 *
 * Of an odd number of chunks the last is by itself.
 *
 * Registers, at the top of a pass: r0 r2 r4 r6 sums of pixel 0, r8 r10 r12 lr of pixel 1; q0 q1 a
 * chunk of both, q2 q3 the next; q4 to q7 weights; r1 the pair's copy, r3 place in it; others as in
 * matmul_s8_2x16.h.
 *
 * Data: the stream, packed by `pixels_of()`, as matmul_s8_2x16.h draws it, except that the second
 * four and the fourth begin with the last two chunks of weights, as the passes take them; copies of
 * pixels in scratch, int8 [pairs][chunks][2][16].
 *
 * Order: `block` pixels are read, then their outputs are written, sixteen channels of two at a
 * time.
 *
 * Bounds: as in matmul_s8_2x16.h.
 *
 * Output: as in matmul_s8_2x16.h.
 *
 * Scratch: the copies of a block.
 *
 * Cost: 39 instructions for two pixels and four channels of four chunks (512 MACs): 32 products, 4
 * loads of weights, 1 of pixels, biases and sums; 44 for the 32 outputs of sixteen channels; 17 a
 * pair of pixels and 5 a chunk of one. Measured (`hil bench --per-layer` on mps3-an547,
 * instructions under QEMU) a MAC: 25x5x64 to 64 (kws) 0.104, hil_mve_matmul_s8_4x4 0.114. A load of
 * four vectors takes as many cycles as four: fewer instructions are not that many fewer cycles.
 *
 * Tests: no twin in C; the numpy reference and hil_generic_matmul_s8 give what must come out
 * (tests/board/test_kernels.py, buffers between guard bytes). Layout:
 * tests/c/test_kernel_layouts.py.
 */
#ifndef HIL_KERNELS_MVE_MATMUL_S8_2X4_H
#define HIL_KERNELS_MVE_MATMUL_S8_2X4_H

#include "hil/kernels/mve/matmul_s8_2x16.h"

/* Two chunks of both pixels: those that are there, those behind or before, those at a place; the
 * last one of an odd number that is there, and at a place. */
#define HIL_MVE_PASS_THERE                                                                         \
    HIL_MVE_PIXELS_WHOLE_CHUNK("q0", "q1") HIL_MVE_PIXELS_WHOLE_CHUNK("q2", "q3")
#define HIL_MVE_PASS_BEHIND "vldmia r3!, {d0-d7}\n" HIL_MVE_PASS_THERE
#define HIL_MVE_PASS_BEFORE "vldmdb r3!, {d0-d7}\n" HIL_MVE_PASS_THERE
#define HIL_MVE_PASS_AT(place) "vldmia " place ", {d0-d7}\n" HIL_MVE_PASS_THERE
#define HIL_MVE_PASS_ONE HIL_MVE_PIXELS_WHOLE_CHUNK("q0", "q1")
#define HIL_MVE_PASS_ONE_AT(place) "vldmia " place ", {d0-d3}\n" HIL_MVE_PASS_ONE

/* Sixteen columns, to the last chunks and back, twice. */
#define HIL_MVE_PASSES(there, back)                                                                \
    "vldmia r1, {d0-d7}\n"                                                                         \
    "add.w r3, r1, #64\n" HIL_MVE_PIXELS_FOUR(there) HIL_MVE_PIXELS_FOUR(back)                     \
        HIL_MVE_PIXELS_FOUR(there) HIL_MVE_PIXELS_FOUR(back)

/* clang-format off */
HIL_MVE_PIXELS_FUNCTION(hil_mve_passes_1,
                        "vldmia r1, {d0-d3}\n" HIL_MVE_PIXELS_SIXTEEN(HIL_MVE_PASS_ONE))
HIL_MVE_PIXELS_FUNCTION(hil_mve_passes_2, HIL_MVE_PASSES(HIL_MVE_PASS_THERE, HIL_MVE_PASS_THERE))
HIL_MVE_PIXELS_FUNCTION(hil_mve_passes_3,
    HIL_MVE_PASSES(HIL_MVE_PASS_THERE HIL_MVE_PASS_ONE_AT("r3"),
                   HIL_MVE_PASS_ONE HIL_MVE_PASS_AT("r1")))
HIL_MVE_PIXELS_FUNCTION(hil_mve_passes_4,
    HIL_MVE_PASSES(HIL_MVE_PASS_THERE HIL_MVE_PASS_AT("r3"),
                   HIL_MVE_PASS_THERE HIL_MVE_PASS_AT("r1")))
HIL_MVE_PIXELS_FUNCTION(hil_mve_passes_5,
    HIL_MVE_PASSES(HIL_MVE_PASS_THERE HIL_MVE_PASS_BEHIND HIL_MVE_PASS_ONE_AT("r3"),
                   HIL_MVE_PASS_ONE HIL_MVE_PASS_BEFORE HIL_MVE_PASS_AT("r1")))
HIL_MVE_PIXELS_FUNCTION(hil_mve_passes_6,
    HIL_MVE_PASSES(HIL_MVE_PASS_THERE HIL_MVE_PASS_BEHIND HIL_MVE_PASS_AT("r3"),
                   HIL_MVE_PASS_THERE HIL_MVE_PASS_BEFORE HIL_MVE_PASS_AT("r1")))
HIL_MVE_PIXELS_FUNCTION(hil_mve_passes_7,
    HIL_MVE_PASSES(HIL_MVE_PASS_THERE HIL_MVE_PASS_BEHIND HIL_MVE_PASS_BEHIND
                       HIL_MVE_PASS_ONE_AT("r3"),
                   HIL_MVE_PASS_ONE HIL_MVE_PASS_BEFORE HIL_MVE_PASS_BEFORE HIL_MVE_PASS_AT("r1")))
HIL_MVE_PIXELS_FUNCTION(hil_mve_passes_8,
    HIL_MVE_PASSES(HIL_MVE_PASS_THERE HIL_MVE_PASS_BEHIND HIL_MVE_PASS_BEHIND HIL_MVE_PASS_AT("r3"),
                   HIL_MVE_PASS_THERE HIL_MVE_PASS_BEFORE HIL_MVE_PASS_BEFORE
                       HIL_MVE_PASS_AT("r1")))
/* clang-format on */

HIL_INLINE hil_mve_pixels_function *hil_mve_passes_of(int32_t chunks, int32_t columns, int32_t any,
                                                      int32_t first) {
    switch (chunks) {
    case 1:
        HIL_MVE_PIXELS_CASE(hil_mve_passes_1);
    case 2:
        HIL_MVE_PIXELS_CASE(hil_mve_passes_2);
    case 3:
        HIL_MVE_PIXELS_CASE(hil_mve_passes_3);
    case 4:
        HIL_MVE_PIXELS_CASE(hil_mve_passes_4);
    case 5:
        HIL_MVE_PIXELS_CASE(hil_mve_passes_5);
    case 6:
        HIL_MVE_PIXELS_CASE(hil_mve_passes_6);
    case 7:
        HIL_MVE_PIXELS_CASE(hil_mve_passes_7);
    default:
        HIL_MVE_PIXELS_CASE(hil_mve_passes_8);
    }
}

/* Copies `count` pixels so that the chunks of pairs lie beside each other. */
HIL_INLINE void hil_mve_passes_copy(int8_t *to, const int8_t *from, int32_t depth, int32_t count) {
    const mve_pred16_t some = vctp8q((uint32_t)(depth % HIL_MVE_CHUNK));
    for (int32_t left = count; left > 0; left -= 2) {
        /* An odd last pixel is both of its pair. */
        const int8_t *second = left > 1 ? from + depth : from;
#pragma GCC unroll 8
        for (int32_t whole = depth / HIL_MVE_CHUNK; whole > 0; whole--) {
            __asm__ volatile("vldrb.8 q0, [%[x]], #16\n"
                             "vldrb.8 q1, [%[y]], #16\n"
                             "vstrb.8 q0, [%[to]], #16\n"
                             "vstrb.8 q1, [%[to]], #16\n"
                             : [x] "+l"(from), [y] "+l"(second), [to] "+l"(to)
                             :
                             : "q0", "q1", "memory");
        }
        if (depth % HIL_MVE_CHUNK != 0) {
            vstrbq_s8(to, vldrbq_z_s8(from, some));
            vstrbq_s8(to + HIL_MVE_CHUNK, vldrbq_z_s8(second, some));
            second += depth % HIL_MVE_CHUNK;
            to += 2 * HIL_MVE_CHUNK;
        }
        from = second;
    }
}

/* `count` pixels, pairs beside each other, of which an odd last one is both of its pair. */
HIL_INLINE void hil_mve_passes(hil_mve_pixels_function *function, struct hil_mve_pixels *pixels,
                               int8_t *copies, const int8_t *stream, int8_t *out, int32_t count) {
    if (count > 1) {
        pixels->pairs = count / 2;
        function(copies, stream, out, pixels);
    }
    if (count % 2 != 0) {
        struct hil_mve_pixels one = *pixels;
        one.pairs = 1;
        one.out_second = 0;
        function(copies + count / 2 * one.x_step, stream, out + (count - 1) * one.columns, &one);
    }
}

/*@kernel
name = "hil_mve_matmul_s8_2x4"
requires = ["mve"]
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "16 * chunks * block"
order = ["pixels block"]
reads = "rows"
code = 978
shared = {hil_mve_passes = 730}
[cost]
pair = "(rows + 1) // 2"
pair_chunk = "pair * chunks"
block_ = "(rows + block - 1) // block"
sixteen = "pair * ((columns + 15) // 16)"
sixteen_chunk = "sixteen * chunks"
masked = "sixteen * (columns % 16 > 0)"
clamped = "sixteen * (any % 2)"
late_narrowed = "sixteen * (1 - first)"
@*/
struct hil_mve_matmul_s8_2x4 {
    int32_t rows;  /* rows of the input, and of the output */
    int32_t depth; /* elements of a row */
    int32_t block; /* rows that are copied at a time, an even number */
    HIL_MVE_PIXELS_FIELDS;
};

HIL_INLINE void hil_mve_matmul_s8_2x4(const struct hil_mve_matmul_s8_2x4 *p, const int8_t *in,
                                      int8_t *out, void *scratch) {
    hil_mve_pixels_function *const function =
        hil_mve_passes_of(p->chunks, p->columns, p->any, p->first);
    int8_t *const copies = (int8_t *)scratch;
    struct hil_mve_pixels pixels = HIL_MVE_PIXELS(p, HIL_MVE_CHUNK * p->chunks);
    for (int32_t left = p->rows; left > 0; left -= p->block) {
        const int32_t count = left < p->block ? left : p->block;
        hil_mve_passes_copy(copies, in, p->depth, count);
        in += count * p->depth;
        hil_mve_passes(function, &pixels, copies, p->stream, out, count);
        out += count * p->columns;
    }
}

#endif
