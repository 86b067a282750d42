/* Rows of int8 values times int8 weights: 1x1 convolutions, whose pixels are the rows, and fully
 * connected layers of several rows. */
#ifndef HIL_KERNELS_V7M_MATMUL_S8_H
#define HIL_KERNELS_V7M_MATMUL_S8_H

#include "hil/kernels/v7m/columns_s8.h"

/*@kernel
name = "hil_v7m_matmul_s8"
requires = ["mul32"]
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "4 * wide * depth"
order = ["pixels 3"]
reads = "rows"
code = 1050
[cost]
tile = "(rows + 2) // 3"
widened = "tile * depth"
four = "tile * ((columns + 3) // 4)"
part_end = "four * ((depth - 1) // part)"
wide_tap = "four * depth * (wide == 2)"
narrow_tap = "four * depth * (wide == 1)"
@*/
struct hil_v7m_matmul_s8 {
    int32_t rows;    /* rows of the input, and of the output */
    int32_t depth;   /* elements of a row */
    int32_t columns; /* outputs of a row */
    HIL_V7M_COLUMNS_FIELDS;
};

HIL_INLINE void hil_v7m_matmul_s8(const struct hil_v7m_matmul_s8 *p, const int8_t *in, int8_t *out,
                                  void *scratch) {
    const struct hil_v7m_columns_s8 columns = HIL_V7M_COLUMNS_OF(p, p->depth, p->columns);
    for (int32_t left = p->rows; left > 0; left -= 3) {
        /* An extra row repeats the previous one. */
        const int8_t *const b = left > 1 ? in + p->depth : in;
        const int8_t *const c = left > 2 ? b + p->depth : b;
        int8_t *const out_b = left > 1 ? out + p->columns : out;
        int8_t *const out_c = left > 2 ? out_b + p->columns : out_b;
        (void)hil_v7m_widen_rows(in, b, c, p->depth, p->wide, (uint32_t *)scratch);
        hil_v7m_columns_s8(&columns, (const uint32_t *)scratch, out, out_b, out_c);
        in = c + p->depth;
        out = out_c + p->columns;
    }
}

#endif
