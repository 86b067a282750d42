/* Rows of int8 values times packed int8 weights: 1x1 convolutions, whose pixels are the rows, and
 * fully connected layers of several rows. */
#ifndef HIL_KERNELS_V7M_MATMUL_S8_PACKED_H
#define HIL_KERNELS_V7M_MATMUL_S8_PACKED_H

#include "hil/kernels/v7m/packed_s8.h"

/*@kernel
name = "hil_v7m_matmul_s8_packed"
requires = ["mul32", "thumb2"]
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "8 * depth"
order = ["pixels 2"]
reads = "rows"
code = 1000
[cost]
tile = "(rows + 1) // 2"
widened = "tile * depth"
three = "tile * ((columns + 2) // 3)"
part_end = "three * ((depth - 1) // part)"
tap = "three * depth"
slow = "three * (1 - (even_shift > 0) * (part >= depth) * (out_min + 128 == 0) * (out_max == 127))"
@*/
struct hil_v7m_matmul_s8_packed {
    int32_t rows;    /* rows of the input, and of the output */
    int32_t depth;   /* elements of a row */
    int32_t columns; /* outputs of a row */
    HIL_V7M_PACKED_FIELDS;
};

HIL_INLINE void hil_v7m_matmul_s8_packed(const struct hil_v7m_matmul_s8_packed *p, const int8_t *in,
                                         int8_t *out, void *scratch) {
    const struct hil_v7m_packed_s8 columns = HIL_V7M_PACKED_OF(p, p->depth, p->columns);
    for (int32_t left = p->rows; left > 0; left -= 2) {
        /* An extra row repeats the previous one. */
        const int32_t more = left > 1;
        const int8_t *const b = in + more * p->depth;
        const int32_t behind = more * p->columns;
        (void)hil_v7m_packed_widen(in, b, p->depth, (int32_t *)scratch);
        hil_v7m_packed_s8(&columns, (const int32_t *)scratch, out, behind);
        in = b + p->depth;
        out += behind + p->columns;
    }
}

#endif
