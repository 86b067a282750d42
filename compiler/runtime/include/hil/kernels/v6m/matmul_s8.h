/* Rows of int8 values times int8 weights: 1x1 convolutions, whose pixels are the rows, and fully
 * connected layers of several rows. */
#ifndef HIL_KERNELS_V6M_MATMUL_S8_H
#define HIL_KERNELS_V6M_MATMUL_S8_H

#include "hil/kernels/v6m/columns_s8.h"

/*@kernel
name = "hil_v6m_matmul_s8"
requires = ["thumb1"]
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "8 * (tile // 3) * depth"
order = ["pixels tile"]
reads = "rows"
code = 900
[cost]
tiles = "(rows + tile - 1) // tile"
widened = "tiles * tile * depth"
column = "tiles * columns"
output = "column * tile"
third_piece = "output * (pieces == 3)"
part_end = "output * ((depth - 1) // part)"
rest = "column * (depth % 8)"
tap = "column * (tile == 9) * depth"
slim_tap = "column * (tile == 3) * depth"
@*/
struct hil_v6m_matmul_s8 {
    int32_t rows;    /* rows of the input, and of the output */
    int32_t depth;   /* elements of a row */
    int32_t columns; /* outputs of a row */
    HIL_V6M_COLUMNS_FIELDS;
};

HIL_INLINE void hil_v6m_matmul_s8(const struct hil_v6m_matmul_s8 *p, const int8_t *in, int8_t *out,
                                  void *scratch) {
    const struct hil_v6m_columns_s8 columns = HIL_V6M_COLUMNS_OF(p, p->depth, p->columns);
    for (int32_t left = p->rows; left > 0; left -= p->tile) {
        const int8_t *from[HIL_V6M_ROWS];
        int8_t *to[HIL_V6M_ROWS];
        for (int32_t i = 0; i < p->tile; i++) {
            /* An extra row repeats the previous one. */
            if (i > 0 && i < left) {
                in += p->depth;
                out += p->columns;
            }
            from[i] = in;
            to[i] = out;
        }
        in += p->depth;
        out += p->columns;
        for (int32_t i = 0; i < p->tile; i += 3) {
            hil_v6m_widen_rows(from + i, p->depth, hil_v6m_words_of(p->tile),
                               (uint32_t *)scratch + 2 * (i / 3));
        }
        hil_v6m_columns_s8(&columns, (const uint32_t *)scratch, to);
    }
}

#endif
