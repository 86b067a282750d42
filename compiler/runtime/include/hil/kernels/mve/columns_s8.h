/* Four rows of int8 times all columns of an int8 weight matrix, by the blocks of blocks_s8.h, and
 * the copies that Helium kernels share. The rows are copied side by side first, chunk by chunk, so
 * that the blocks read one place and nothing beyond a row's end is touched.
 *
 * Tile: 4 rows x all columns; the blocks take two columns at a time.
 *
 * Registers: blocks_s8.h; the copies use q0, lr (a low-overhead loop) and two places of gcc's
 * choice.
 *
 * Data: HIL_MVE_COLUMNS_FIELDS, packed by `columns_of()`; rows are int8 [chunks][4][16], 64 bytes a
 * chunk:
 *
 *   +0 row 0, elements 0..15   +16 row 1   +32 row 2   +48 row 3   +64 row 0, elements 16..31 ...
 *
 * The last chunk of a row is read under a predicate and filled up with zeros.
 *
 * Order: rows are copied whole before the first output of the four is written.
 *
 * Bounds and
 * Output: blocks_s8.h. Offsets of a group's outputs are 16 bits, which `columns_of()` checks.
 *
 * Scratch: 64 bytes a chunk.
 *
 * Cost: that of blocks_s8.h, and about 8 instructions to copy a chunk of four rows.
 *
 * Tests: tests/board/test_kernels.py, with rows whose depth is no multiple of 16 at the end of
 * guarded buffers.
 */
#ifndef HIL_KERNELS_MVE_COLUMNS_S8_H
#define HIL_KERNELS_MVE_COLUMNS_S8_H

#include <arm_mve.h>
#include <stddef.h>

#include "hil/kernels/mve/blocks_s8.h"

#define HIL_MVE_ROWS_AT_ONCE 4
#define HIL_MVE_GROUP_BYTES (HIL_MVE_ROWS_AT_ONCE * HIL_MVE_CHUNK)

/* Fields of the kernels' structs that describe the columns. */
#define HIL_MVE_COLUMNS_FIELDS                                                                     \
    int32_t chunks;      /* of 16 weights, a column's depth rounded up */                          \
    int32_t pairs;       /* of columns */                                                          \
    int32_t odd;         /* 1: one more column behind the pairs */                                 \
    int32_t row_step;    /* from a row's outputs to the next row's */                              \
    int32_t column_step; /* from the first output of a pair to its second */                       \
    int32_t linear;      /* 1: values below the zero point remain after the clamp;                 \
                          * HIL_MVE_LINEAR_ONCE, _TIES: sums are rounded once */                   \
    HIL_OUTPUT_RANGE_FIELDS;                                                                       \
    const int8_t *stream /* blocks_s8.h draws it; an odd column is a pair with itself */

struct hil_mve_columns {
    const int8_t *stream;
    const int8_t *odd_stream; /* NULL without an odd column */
    int32_t odd_at;
    int32_t row_step;
    int32_t column_step;
    struct hil_mve_block pairs;
    struct hil_mve_block odd;
};

/* How many rows the next blocks have: those missing of four repeat the first. */
HIL_INLINE void hil_mve_columns_rows(struct hil_mve_columns *c, int32_t rows) {
    for (int32_t row = 0; row < HIL_MVE_ROWS_AT_ONCE; row++) {
        const int32_t at = row < rows ? row * c->row_step : 0;
        c->pairs.offsets[2 * row] = (uint16_t)at;
        c->pairs.offsets[2 * row + 1] = (uint16_t)(at + c->column_step);
        c->odd.offsets[2 * row] = (uint16_t)at;
        c->odd.offsets[2 * row + 1] = (uint16_t)at;
    }
}

#define HIL_MVE_COLUMNS(p)                                                                         \
    {                                                                                              \
        .stream = (p)->stream,                                                                     \
        .odd_stream = (p)->odd ? (p)->stream + (p)->pairs * (2 * HIL_MVE_CHUNK * (p)->chunks +     \
                                                             HIL_MVE_PAIR_BYTES((p)->linear))      \
                               : NULL,                                                             \
        .odd_at = 2 * (p)->pairs, .row_step = (p)->row_step, .column_step = (p)->column_step,      \
        .pairs = HIL_MVE_COLUMNS_BLOCK((p), (p)->pairs), .odd = HIL_MVE_COLUMNS_BLOCK((p), 1),     \
    }

#define HIL_MVE_COLUMNS_BLOCK(p, count)                                                            \
    {                                                                                              \
        .steps = (count), .skipped = hil_mve_skip((p)->chunks, HIL_MVE_ROWS_SLOT_BYTES),           \
        .x_bytes = HIL_MVE_GROUP_BYTES * (p)->chunks, .zero_point = (p)->out_zero_point,           \
        .low = (p)->out_min, .high = (p)->out_max, .offsets = {0},                                 \
    }

/* Four rows, x[chunks][4][16], times all columns. `linear` is no member: the assembly takes the
 * address of the columns, behind which a member is no constant, so all forms would be linked. */
HIL_INLINE void hil_mve_columns_s8(const struct hil_mve_columns *c, int32_t linear, const int8_t *x,
                                   int8_t *out) {
    if (c->pairs.steps > 0) {
        hil_mve_rows(linear, x, c->stream, out, &c->pairs);
    }
    if (c->odd_stream != NULL) {
        hil_mve_rows(linear, x, c->odd_stream, out + c->odd_at, &c->odd);
    }
}

/* Where a pair of columns begins: an odd last column makes a pair with the one before it, whose
 * outputs are written again; a single one with itself. */
HIL_INLINE int32_t hil_mve_pair_at(int32_t column, int32_t columns) {
    if (column + 2 <= columns) {
        return column;
    }
    return columns > 1 ? columns - 2 : 0;
}

/* Whole chunks of one value, and copies of them; both return the end of what they wrote. */
HIL_INLINE int8_t *hil_mve_fill(int8_t *to, int8x16_t value, int32_t chunks) {
    if (chunks > 0) {
        __asm__ volatile("dls lr, %[chunks]\n"
                         "1:\n"
                         "vstrb.8 %q[value], [%[to]], #16\n"
                         "le lr, 1b\n"
                         : [to] "+r"(to)
                         : [value] "w"(value), [chunks] "r"(chunks)
                         : "lr", "memory");
    }
    return to;
}

HIL_INLINE int8_t *hil_mve_copy(int8_t *to, const int8_t *from, int32_t chunks) {
    if (chunks > 0) {
        __asm__ volatile("dls lr, %[chunks]\n"
                         "1:\n"
                         "vldrb.8 q0, [%[from]], #16\n"
                         "vstrb.8 q0, [%[to]], #16\n"
                         "le lr, 1b\n"
                         : [to] "+r"(to), [from] "+r"(from)
                         : [chunks] "r"(chunks)
                         : "q0", "lr", "memory");
    }
    return to;
}

/* Copies `bytes`; nothing beyond them is read, but whole chunks are written, `step` bytes from one
 * to the next. */
HIL_INLINE int8_t *hil_mve_copy_chunks(int8_t *to, const int8_t *from, int32_t bytes,
                                       int32_t step) {
#pragma GCC unroll 4
    for (int32_t whole = bytes / HIL_MVE_CHUNK; whole > 0; whole--) {
        vstrbq_s8(to, vldrbq_s8(from));
        from += HIL_MVE_CHUNK;
        to += step;
    }
    if (bytes % HIL_MVE_CHUNK != 0) {
        vstrbq_s8(to, vldrbq_z_s8(from, vctp8q((uint32_t)(bytes % HIL_MVE_CHUNK))));
        to += step;
    }
    return to;
}

/* Four runs of `bytes`, `step` bytes apart, as the same chunks of the four rows at `group`; returns
 * the place of the next chunk. */
HIL_INLINE int8_t *hil_mve_place_four(int8_t *group, const int8_t *from, int32_t bytes,
                                      int32_t step) {
#pragma GCC unroll 4
    for (int32_t whole = bytes / HIL_MVE_CHUNK; whole > 0; whole--) {
        vstrbq_s8(group, vldrbq_s8(from));
        vstrbq_s8(group + HIL_MVE_CHUNK, vldrbq_s8(from + step));
        vstrbq_s8(group + 2 * HIL_MVE_CHUNK, vldrbq_s8(from + 2 * step));
        vstrbq_s8(group + 3 * HIL_MVE_CHUNK, vldrbq_s8(from + 3 * step));
        from += HIL_MVE_CHUNK;
        group += HIL_MVE_GROUP_BYTES;
    }
    if (bytes % HIL_MVE_CHUNK != 0) {
        const mve_pred16_t rest = vctp8q((uint32_t)(bytes % HIL_MVE_CHUNK));
        vstrbq_s8(group, vldrbq_z_s8(from, rest));
        vstrbq_s8(group + HIL_MVE_CHUNK, vldrbq_z_s8(from + step, rest));
        vstrbq_s8(group + 2 * HIL_MVE_CHUNK, vldrbq_z_s8(from + 2 * step, rest));
        vstrbq_s8(group + 3 * HIL_MVE_CHUNK, vldrbq_z_s8(from + 3 * step, rest));
        group += HIL_MVE_GROUP_BYTES;
    }
    return group;
}

/* Row `row` of the four at `group`. */
HIL_INLINE void hil_mve_place_row(int8_t *group, int32_t row, const int8_t *from, int32_t bytes) {
    hil_mve_copy_chunks(group + HIL_MVE_CHUNK * row, from, bytes, HIL_MVE_GROUP_BYTES);
}

/* Rows of an image under windows, of which the zero point is beside the image already. */
struct hil_mve_padded_rows {
    int32_t in_h;
    int32_t line;       /* bytes of a row of the image */
    int32_t before;     /* bytes beside the image, in front of a row */
    int32_t row_bytes;  /* of all that is under windows */
    int32_t zero_point; /* of rows outside the image */
};

HIL_INLINE void hil_mve_copy_rows(const struct hil_mve_padded_rows *p, const int8_t *image,
                                  int32_t y, int32_t rows, int8_t *to) {
    const int8x16_t around = vdupq_n_s8((int8_t)p->zero_point);
    const int32_t fitting = p->row_bytes - p->before;
    const int32_t width = p->line < fitting ? p->line : fitting;
    to += p->before;
    for (int32_t row = y; row < y + rows; row++) {
        const int8_t *from = image + row * p->line;
        const int inside = row >= 0 && row < p->in_h;
        for (int32_t left = width; left > 0; left -= HIL_MVE_CHUNK) {
            const mve_pred16_t some = vctp8q((uint32_t)left);
            vstrbq_p_s8(to + (width - left),
                        inside ? vldrbq_z_s8(from + (width - left), some) : around, some);
        }
        to += p->row_bytes;
    }
}

#endif
