/* Rows of int8 values times a stream of int8 weights: 1x1 convolutions, whose pixels are the rows,
 * and fully connected layers. */
#ifndef HIL_KERNELS_V6M_MATMUL_S8_PACKED_H
#define HIL_KERNELS_V6M_MATMUL_S8_PACKED_H

#include "hil/kernels/v6m/stream_s8.h"

/*@kernel
name = "hil_v6m_matmul_s8_packed"
requires = ["thumb1"]
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "0"
order = ["pixels 1"]
reads = "rows"
code = 3268
shared = {hil_v6m_stream_row = 3208}
[cost]
row = "rows"
widened = "rows * depth"
nine = "rows * (columns // 9)"
three = "rows * ((columns % 9 + 2) // 3)"
rest = "rows * (columns % 9)"
nine_tap = "nine * depth"
three_tap = "three * depth"
@*/
struct hil_v6m_matmul_s8_packed {
    int32_t rows;          /* rows of the input, and of the output */
    int32_t depth;         /* elements of a row */
    int32_t columns;       /* outputs of a row */
    const int32_t *stream; /* weights and scales, see stream_s8.h */
};

HIL_INLINE void hil_v6m_matmul_s8_packed(const struct hil_v6m_matmul_s8_packed *p, const int8_t *in,
                                         int8_t *out) {
    const struct hil_v6m_stream_s8 columns = hil_v6m_stream_s8(p->stream, p->depth, p->columns);
    for (int32_t left = p->rows; left > 0; left--) {
        hil_v6m_stream_row(&columns, in, out);
        in += p->depth;
        out += p->columns;
    }
}

#endif
