/* Rows of int8 values times int8 weights: 1x1 convolutions, whose pixels are the rows, and fully
 * connected layers. */
#ifndef HIL_KERNELS_DSP_MATMUL_S8_H
#define HIL_KERNELS_DSP_MATMUL_S8_H

#include "hil/kernels/dsp/clamp_s8.h"
#include "hil/kernels/dsp/columns_s8.h"

/*@kernel
name = "hil_dsp_matmul_s8"
requires = ["dsp"]
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "24 * units"
order = ["pixels 3"]
reads = "rows"
code = 676
[cost]
tile = "(rows + 2) // 3"
unit = "tile * units"
block = "tile * ((columns + 1) // 2)"
block_unit = "block * units"
split = "block * (part < units)"
part_block = "split * ((units + part - 1) // part)"
clamped = "rows * columns * (out_max - out_min != 255)"
@*/
struct hil_dsp_matmul_s8 {
    int32_t rows;    /* rows of the input, and of the output */
    int32_t depth;   /* elements of a row */
    int32_t units;   /* of four elements of depth */
    int32_t part;    /* units of a part of depth; at least as many as there are: no parts */
    int32_t columns; /* outputs of a row */
    HIL_OUTPUT_RANGE_FIELDS;
    const int16_t *weights; /* these as in struct hil_dsp_columns_s8 */
    const int32_t *pairs;   /* HIL_DSP_PAIR_WORDS a pair of columns */
};

HIL_INLINE void hil_dsp_matmul_s8(const struct hil_dsp_matmul_s8 *p, const int8_t *in, int8_t *out,
                                  void *scratch) {
    const struct hil_dsp_columns_s8 columns = {
        .depth = p->depth,
        .part = p->part,
        .count = p->columns,
        .out_zero_point = p->out_zero_point,
        .out_min = p->out_min,
        .out_max = p->out_max,
        .weights = p->weights,
        .pairs = p->pairs,
    };
    int8_t *const outputs = out;
    for (int32_t left = p->rows; left > 0; left -= 3) {
        const int8_t *const b = left > 1 ? in + p->depth : in;
        const int8_t *const c = left > 2 ? b + p->depth : b;
        int8_t *const out_b = left > 1 ? out + p->columns : out;
        int8_t *const out_c = left > 2 ? out_b + p->columns : out_b;
        hil_dsp_widen_rows(in, b, c, p->depth, (uint32_t *)scratch);
        hil_dsp_columns_s8_three_rows(&columns, (const uint32_t *)scratch, out, out_b, out_c);
        in = c + p->depth;
        out = out_c + p->columns;
    }
    hil_dsp_clamp_s8(outputs, p->rows * p->columns, p->out_min, p->out_max);
}

#endif
