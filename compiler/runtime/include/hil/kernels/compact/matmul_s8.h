/* Products of int8 matrices in little code: each output alone. */
#ifndef HIL_KERNELS_COMPACT_MATMUL_S8_H
#define HIL_KERNELS_COMPACT_MATMUL_S8_H

#include "hil/kernels/compact/channel_s8.h"

/*@kernel
name = "hil_compact_matmul_s8"
requires = []
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "0"
order = ["pixels 1", "channels 1"]
reads = "rows"
code = 200
[cost]
output = "rows * columns"
mac = "output * depth"
@*/
struct hil_compact_matmul_s8 {
    int32_t rows;       /* rows of the input, and of the output */
    int32_t depth;      /* elements of a row */
    int32_t columns;    /* outputs of a row */
    HIL_COMPACT_FIELDS; /* weights[columns][depth] */
};

HIL_INLINE void hil_compact_matmul_s8(const struct hil_compact_matmul_s8 *p, const int8_t *in,
                                      int8_t *out) {
    for (int32_t rows = p->rows; rows > 0; rows--) {
        const int8_t *weights = p->weights;
        const int16_t *channel = hil_compact_first(p->scales, p->wide);
        for (int32_t columns = p->columns; columns > 0; columns--) {
            const int32_t sum = hil_compact_dot(in, weights, p->depth, p->in_zero_point,
                                                hil_compact_bias(channel, p->wide));
            *out++ = hil_compact_output(sum, channel, p->scales, p->wide, p->narrow,
                                        p->out_zero_point, p->out_min, p->out_max);
            weights += p->depth;
            channel = hil_compact_next(channel, p->wide);
        }
        in += p->depth;
    }
}

#endif
