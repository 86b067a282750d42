/* Rows of int16 values times int8 weights: 1x1 convolutions, whose pixels are the rows, and fully
 * connected layers. */
#ifndef HIL_KERNELS_MVE_MATMUL_S16_H
#define HIL_KERNELS_MVE_MATMUL_S16_H

#include "hil/kernels/mve/columns_s16.h"

/*@kernel
name = "hil_mve_matmul_s16"
requires = ["mve"]
inputs = ["int16_t"]
outputs = ["int16_t"]
scratch = "32 * chunks"
order = ["pixels 2"]
reads = "rows"
code = 800
[cost]
pair = "(rows + 1) // 2"
copied = "pair * chunks"
four = "pair * ((columns + 3) // 4)"
chunk = "four * chunks"
@*/
struct hil_mve_matmul_s16 {
    int32_t rows;  /* of the input */
    int32_t depth; /* elements of a row */
    HIL_MVE_COLUMNS_S16_FIELDS;
};

HIL_INLINE void hil_mve_matmul_s16(const struct hil_mve_matmul_s16 *p, const int16_t *in,
                                   int16_t *out, void *scratch) {
    const struct hil_mve_columns_s16 columns = HIL_MVE_COLUMNS_S16(p);
    int16_t *const x = (int16_t *)scratch;
    for (int32_t left = p->rows; left > 0; left -= 2) {
        hil_mve_place_s16(x, in, p->depth);
        hil_mve_place_s16(x + HIL_MVE_S16_CHUNK_SIZE, left > 1 ? in + p->depth : in, p->depth);
        hil_mve_columns_s16(&columns, x, left, out);
        in += 2 * p->depth;
        out += 2 * p->columns;
    }
}

/*@kernel
name = "hil_mve_matvec_s16"
requires = ["mve"]
inputs = ["int16_t"]
outputs = ["int16_t"]
scratch = "32 * chunks"
order = ["pixels 1"]
reads = "rows"
code = 700
[cost]
row = "rows"
copied = "rows * chunks"
four = "rows * ((columns + 3) // 4)"
chunk = "four * chunks"
@*/
struct hil_mve_matvec_s16 {
    int32_t rows;         /* of the input */
    int32_t depth;        /* elements of a row */
    int32_t chunks;       /* of sixteen weights, the depth rounded up */
    int32_t columns;      /* of the weights */
    int32_t shifted;      /* 1: outputs have a shift and a zero point, 0: neither */
    int32_t out_min;      /* the least output */
    int32_t out_max;      /* the largest output */
    const int8_t *stream; /* blocks_s16.h draws it */
};

/* Splits eight elements: the high bytes, and a chunk further the low ones less 128. */
HIL_INLINE void hil_mve_split_eight(int8_t *to, int16x8_t x) {
    vstrbq_s16(to, vshrq_n_s16(x, 8));
    vstrbq_s16(to + HIL_MVE_CHUNK, veorq_s16(x, vdupq_n_s16(0x80)));
}

/* Splits a row: of each sixteen elements the high bytes, then the low ones less 128. */
HIL_INLINE void hil_mve_split_s16(int8_t *to, const int16_t *from, int32_t depth) {
#pragma GCC unroll 4
    for (int32_t chunks = depth / HIL_MVE_CHUNK; chunks > 0; chunks--) {
        hil_mve_split_eight(to, vldrhq_s16(from));
        hil_mve_split_eight(to + HIL_MVE_S16_CHUNK_SIZE, vldrhq_s16(from + HIL_MVE_S16_CHUNK_SIZE));
        from += HIL_MVE_CHUNK;
        to += 2 * HIL_MVE_CHUNK;
    }
    for (int32_t left = depth % HIL_MVE_CHUNK; left > 0; left -= HIL_MVE_S16_CHUNK_SIZE) {
        hil_mve_split_eight(to, vldrhq_z_s16(from, vctp16q((uint32_t)left)));
        from += HIL_MVE_S16_CHUNK_SIZE;
        to += HIL_MVE_S16_CHUNK_SIZE;
    }
}

HIL_INLINE void hil_mve_vector_s16_by(int32_t shifted, const int8_t *x, const int8_t *stream,
                                      int16_t *out, const struct hil_mve_block_s16 *block) {
    if (shifted) {
        hil_mve_vector_s16_shifted(x, stream, out, block);
    } else {
        hil_mve_vector_s16(x, stream, out, block);
    }
}

HIL_INLINE void hil_mve_matvec_s16(const struct hil_mve_matvec_s16 *p, const int16_t *in,
                                   int16_t *out, void *scratch) {
    int8_t *const x = (int8_t *)scratch;
    const int32_t whole = p->columns / 4;
    const int32_t rest = p->columns % 4;
    const int8_t *const rest_stream =
        p->stream + whole * (64 * p->chunks + hil_mve_s16_scales(p->shifted));
    struct hil_mve_block_s16 block = {
        .steps = whole,
        .skipped = hil_mve_skip(p->chunks, HIL_MVE_S16_VECTOR_SLOT_BYTES),
        .x_bytes = 2 * HIL_MVE_CHUNK * p->chunks,
        .low = p->out_min,
        .high = p->out_max,
        .offsets = {0, 0, 1, 0, 2, 0, 3, 0}, /* four words */
    };
    if (p->depth % HIL_MVE_CHUNK != 0) {
        /* What no element fills is multiplied with weights of 0, but must not be undefined. */
        int8_t *const last = x + 2 * HIL_MVE_CHUNK * (p->chunks - 1);
        vstrbq_s8(last, vdupq_n_s8(0));
        vstrbq_s8(last + HIL_MVE_CHUNK, vdupq_n_s8(0));
    }
    for (int32_t rows = p->rows; rows > 0; rows--) {
        hil_mve_split_s16(x, in, p->depth);
        if (whole > 0) {
            block.steps = whole;
            hil_mve_vector_s16_by(p->shifted, x, p->stream, out, &block);
        }
        if (rest > 0) {
            int16_t last[4];
            block.steps = 1;
            hil_mve_vector_s16_by(p->shifted, x, rest_stream, last, &block);
            for (int32_t i = 0; i < rest; i++) {
                out[4 * whole + i] = last[i];
            }
        }
        in += p->depth;
        out += p->columns;
    }
}

#endif
