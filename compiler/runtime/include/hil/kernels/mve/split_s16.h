/* A row of int16, split into bytes, times all columns of an int8 weight matrix, by the blocks of
 * blocks_s16.h: sums of high and of low bytes fit 32 bits, whatever the weights are. */
#ifndef HIL_KERNELS_MVE_SPLIT_S16_H
#define HIL_KERNELS_MVE_SPLIT_S16_H

#include <arm_mve.h>

#include "hil/kernels/mve/columns_s16.h"

/* How sums become outputs, as blocks_s16.h states. */
#define HIL_MVE_S16_UPPER_WORD 0
#define HIL_MVE_S16_SHIFTED 1
#define HIL_MVE_S16_LONG 2

/* Fields of the kernels' structs that describe the columns. */
#define HIL_MVE_SPLIT_S16_FIELDS                                                                   \
    int32_t chunks;  /* of sixteen weights, a column's depth rounded up */                         \
    int32_t columns; /* of the weights */                                                          \
    int32_t scaling; /* 0: by the upper word of a product, 1: by it and a shift, 2: of sums beyond \
                        32 bits */                                                                 \
    int32_t out_min; /* the least output */                                                        \
    int32_t out_max; /* the largest output */                                                      \
    const int8_t *stream /* blocks_s16.h draws it */

struct hil_mve_split_s16 {
    HIL_MVE_SPLIT_S16_FIELDS;
};

#define HIL_MVE_SPLIT_S16(p)                                                                       \
    {                                                                                              \
        .chunks = (p)->chunks, .columns = (p)->columns, .scaling = (p)->scaling,                   \
        .out_min = (p)->out_min, .out_max = (p)->out_max, .stream = (p)->stream,                   \
    }

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

/* What no element of a row of `depth` fills is multiplied with weights of 0, but must not be
 * undefined. */
HIL_INLINE void hil_mve_clear_split_s16(int8_t *x, int32_t depth, int32_t chunks) {
    if (depth % HIL_MVE_CHUNK != 0) {
        int8_t *const last = x + 2 * HIL_MVE_CHUNK * (chunks - 1);
        vstrbq_s8(last, vdupq_n_s8(0));
        vstrbq_s8(last + HIL_MVE_CHUNK, vdupq_n_s8(0));
    }
}

HIL_INLINE void hil_mve_vector_s16_by(int32_t scaling, const int8_t *x, const int8_t *stream,
                                      int16_t *out, const struct hil_mve_block_s16 *block) {
    if (scaling == HIL_MVE_S16_LONG) {
        hil_mve_vector_s16_long(x, stream, out, block);
    } else if (scaling == HIL_MVE_S16_SHIFTED) {
        hil_mve_vector_s16_shifted(x, stream, out, block);
    } else {
        hil_mve_vector_s16(x, stream, out, block);
    }
}

/* A row, split, by all columns. */
HIL_INLINE void hil_mve_columns_of_split_s16(const struct hil_mve_split_s16 *p, const int8_t *x,
                                             int16_t *out) {
    const int32_t whole = p->columns / 4;
    const int32_t rest = p->columns % 4;
    struct hil_mve_block_s16 block = {
        .steps = whole,
        .skipped = hil_mve_skip(p->chunks, HIL_MVE_S16_VECTOR_SLOT_BYTES),
        .x_bytes = 2 * HIL_MVE_CHUNK * p->chunks,
        .low = p->out_min,
        .high = p->out_max,
        .offsets = {0, 0, 1, 0, 2, 0, 3, 0}, /* four words */
    };
    if (whole > 0) {
        hil_mve_vector_s16_by(p->scaling, x, p->stream, out, &block);
    }
    if (rest > 0) {
        const int8_t *const rest_stream =
            p->stream + whole * (64 * p->chunks + hil_mve_s16_scales(p->scaling));
        int16_t last[4];
        block.steps = 1;
        hil_mve_vector_s16_by(p->scaling, x, rest_stream, last, &block);
        for (int32_t i = 0; i < rest; i++) {
            out[4 * whole + i] = last[i];
        }
    }
}

#endif
