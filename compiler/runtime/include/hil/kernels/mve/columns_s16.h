/* Two rows of int16 times all columns of an int8 weight matrix, by the blocks of blocks_s16.h, and
 * the copies around them. */
#ifndef HIL_KERNELS_MVE_COLUMNS_S16_H
#define HIL_KERNELS_MVE_COLUMNS_S16_H

#include <arm_mve.h>

#include "hil/kernels/mve/blocks_s16.h"

/* Elements of a chunk, and of a chunk of both rows. */
#define HIL_MVE_S16_CHUNK_SIZE 8
#define HIL_MVE_S16_PAIR (2 * HIL_MVE_S16_CHUNK_SIZE)

/* Fields of the kernels' structs that describe the columns. */
#define HIL_MVE_COLUMNS_S16_FIELDS                                                                 \
    int32_t chunks;      /* of eight weights, a column's depth rounded up */                       \
    int32_t columns;     /* of the weights */                                                      \
    int32_t shifted;     /* 1: outputs have a shift and a zero point, 0: neither */                \
    int32_t out_min;     /* the least output */                                                    \
    int32_t out_max;     /* the largest output */                                                  \
    const int8_t *stream /* blocks_s16.h draws it */

struct hil_mve_columns_s16 {
    HIL_MVE_COLUMNS_S16_FIELDS;
};

#define HIL_MVE_COLUMNS_S16(p)                                                                     \
    {                                                                                              \
        .chunks = (p)->chunks, .columns = (p)->columns, .shifted = (p)->shifted,                   \
        .out_min = (p)->out_min, .out_max = (p)->out_max, .stream = (p)->stream,                   \
    }

/* Copies a row to where it belongs in a pair; nothing beyond its end is read. */
HIL_INLINE void hil_mve_place_s16(int16_t *to, const int16_t *from, int32_t depth) {
#pragma GCC unroll 4
    for (int32_t whole = depth / HIL_MVE_S16_CHUNK_SIZE; whole > 0; whole--) {
        vstrhq_s16(to, vldrhq_s16(from));
        from += HIL_MVE_S16_CHUNK_SIZE;
        to += HIL_MVE_S16_PAIR;
    }
    if (depth % HIL_MVE_S16_CHUNK_SIZE != 0) {
        const mve_pred16_t inside = vctp16q((uint32_t)(depth % HIL_MVE_S16_CHUNK_SIZE));
        vstrhq_s16(to, vldrhq_z_s16(from, inside));
    }
}

/* Bytes behind the weights of four columns, whose sums are scaled by an upper word (0) or not. */
HIL_INLINE int32_t hil_mve_s16_scales(int32_t scaling) { return scaling ? 64 : 32; }

HIL_INLINE void hil_mve_rows_s16_by(int32_t shifted, const int16_t *x, const int8_t *stream,
                                    int16_t *out, const struct hil_mve_block_s16 *block) {
    if (shifted) {
        hil_mve_rows_s16_shifted(x, stream, out, block);
    } else {
        hil_mve_rows_s16(x, stream, out, block);
    }
}

/* A pair of rows by all columns; a single row is there twice, and its outputs are stored twice. */
HIL_INLINE void hil_mve_columns_s16(const struct hil_mve_columns_s16 *p, const int16_t *x,
                                    int32_t rows, int16_t *out) {
    const int32_t whole = p->columns / 4;
    const int32_t rest = p->columns % 4;
    const int32_t step = rows > 1 ? p->columns : 0;
    struct hil_mve_block_s16 block = {
        .steps = whole,
        .skipped = hil_mve_skip(p->chunks, HIL_MVE_S16_ROWS_SLOT_BYTES),
        .x_bytes = 2 * HIL_MVE_S16_PAIR * p->chunks,
        .low = p->out_min,
        .high = p->out_max,
        .offsets = {0},
    };
    for (int32_t column = 0; column < 4; column++) {
        block.offsets[2 * column] = (uint16_t)column;
        block.offsets[2 * column + 1] = (uint16_t)(column + step);
    }
    if (whole > 0) {
        hil_mve_rows_s16_by(p->shifted, x, p->stream, out, &block);
    }
    if (rest > 0) {
        int16_t last[8];
        block.steps = 1;
        for (int32_t column = 0; column < 4; column++) {
            block.offsets[2 * column + 1] = (uint16_t)(column + 4);
        }
        const int8_t *const rest_stream =
            p->stream + whole * (32 * p->chunks + hil_mve_s16_scales(p->shifted));
        hil_mve_rows_s16_by(p->shifted, x, rest_stream, last, &block);
        for (int32_t column = 0; column < rest; column++) {
            out[4 * whole + column] = last[column];
            if (rows > 1) {
                out[p->columns + 4 * whole + column] = last[4 + column];
            }
        }
    }
}

#endif
