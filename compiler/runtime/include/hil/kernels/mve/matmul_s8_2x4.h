/* Rows of int8 ("pixels") times an int8 weight matrix, two pixels at a time, for depths of an even
 * number of chunks of 16: matmul_s8_2x16.h without sums in memory between chunks and with fewer
 * loads. Blocks of pixels are copied first, so that both pixels' chunks lie beside each other.
 *
 * Tile: 2 pixels x 4 channels, all chunks: one pass; four passes, 16 channels, are narrowed and
 * stored together.
 *
 *             two chunks of both pixels           each with four channels' weights
 *   pass 0    0 1, 2 3, 4 5, 6 7                  (the chunks of the last are there when)
 *   pass 1    6 7, 4 5, 2 3, 0 1                  (the next pass begins)
 *   pass 2, 3 like these
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
 * Cost: COST
 *
 * Tests: no twin in C; the numpy reference and hil_generic_matmul_s8 give what must come out
 * (tests/board/test_kernels.py, buffers between guard bytes). Layout:
 * tests/c/test_kernel_layouts.py.
 */
#ifndef HIL_KERNELS_MVE_MATMUL_S8_2X4_H
#define HIL_KERNELS_MVE_MATMUL_S8_2X4_H

#include "hil/kernels/mve/matmul_s8_2x16.h"

/* Two chunks of both pixels: those that are there, those behind or before, those at a place. */
#define HIL_MVE_PASS_THERE                                                                         \
    HIL_MVE_PIXELS_WHOLE_CHUNK("q0", "q1") HIL_MVE_PIXELS_WHOLE_CHUNK("q2", "q3")
#define HIL_MVE_PASS_BEHIND "vldmia r3!, {d0-d7}\n" HIL_MVE_PASS_THERE
#define HIL_MVE_PASS_BEFORE "vldmdb r3!, {d0-d7}\n" HIL_MVE_PASS_THERE
#define HIL_MVE_PASS_AT(place) "vldmia " place ", {d0-d7}\n" HIL_MVE_PASS_THERE

/* Sixteen columns, to the last chunks and back, twice. */
#define HIL_MVE_PASSES(there, back)                                                                \
    "vldmia r1, {d0-d7}\n"                                                                         \
    "add.w r3, r1, #64\n" HIL_MVE_PIXELS_FOUR(HIL_MVE_PASS_THERE there)                            \
        HIL_MVE_PIXELS_FOUR(HIL_MVE_PASS_THERE back) HIL_MVE_PIXELS_FOUR(HIL_MVE_PASS_THERE there) \
            HIL_MVE_PIXELS_FOUR(HIL_MVE_PASS_THERE back)

HIL_MVE_PIXELS_FUNCTION(hil_mve_passes_2, HIL_MVE_PASSES("", ""))
HIL_MVE_PIXELS_FUNCTION(hil_mve_passes_4,
                        HIL_MVE_PASSES(HIL_MVE_PASS_AT("r3"), HIL_MVE_PASS_AT("r1")))
HIL_MVE_PIXELS_FUNCTION(hil_mve_passes_6, HIL_MVE_PASSES(HIL_MVE_PASS_BEHIND HIL_MVE_PASS_AT("r3"),
                                                         HIL_MVE_PASS_BEFORE HIL_MVE_PASS_AT("r1")))
HIL_MVE_PIXELS_FUNCTION(
    hil_mve_passes_8, HIL_MVE_PASSES(HIL_MVE_PASS_BEHIND HIL_MVE_PASS_BEHIND HIL_MVE_PASS_AT("r3"),
                                     HIL_MVE_PASS_BEFORE HIL_MVE_PASS_BEFORE HIL_MVE_PASS_AT("r1")))

HIL_INLINE hil_mve_pixels_function *hil_mve_passes_of(int32_t chunks, int32_t columns, int32_t any,
                                                      int32_t first) {
    switch (chunks) {
    case 2:
        HIL_MVE_PIXELS_CASE(hil_mve_passes_2);
    case 4:
        HIL_MVE_PIXELS_CASE(hil_mve_passes_4);
    case 6:
        HIL_MVE_PIXELS_CASE(hil_mve_passes_6);
    default:
        HIL_MVE_PIXELS_CASE(hil_mve_passes_8);
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
    const int32_t pair_bytes = 2 * HIL_MVE_CHUNK * p->chunks;
    struct hil_mve_pixels pixels = HIL_MVE_PIXELS(p, HIL_MVE_CHUNK * p->chunks);
    for (int32_t left = p->rows; left > 0; left -= p->block) {
        const int32_t count = left < p->block ? left : p->block;
        for (int32_t i = 0; i < count; i++) {
            hil_mve_copy_chunks(copies + i / 2 * pair_bytes + i % 2 * HIL_MVE_CHUNK, in, p->depth,
                                2 * HIL_MVE_CHUNK);
            in += p->depth;
        }
        if (count > 1) {
            pixels.pairs = count / 2;
            function(copies, p->stream, out, &pixels);
        }
        out += count * p->columns;
        if (count % 2 != 0) {
            /* A pair of which one pixel counts: it is both. */
            struct hil_mve_pixels one = pixels;
            int8_t *const last = copies + count / 2 * pair_bytes;
            for (int32_t chunk = 0; chunk < p->chunks; chunk++) {
                int8_t *const place = last + 2 * HIL_MVE_CHUNK * chunk;
                vstrbq_s8(place + HIL_MVE_CHUNK, vldrbq_s8(place));
            }
            one.pairs = 1;
            one.out_second = 0;
            function(last, p->stream, out - p->columns, &one);
        }
    }
}

#endif
