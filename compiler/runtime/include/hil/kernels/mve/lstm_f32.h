/* Long short-term memory of floats: what inputs and hidden states add to the gates are two products
 * of a row with a matrix, whose columns are the gates of all units, by matmul_f32.h; then four
 * units at a time, by functions_f32.h. */
#ifndef HIL_KERNELS_MVE_LSTM_F32_H
#define HIL_KERNELS_MVE_LSTM_F32_H

#include <math.h>

#include "hil/kernels/generic/lstm.h"
#include "hil/kernels/mve/functions_f32.h"
#include "hil/kernels/mve/matmul_f32.h"

/*@kernel
name = "hil_mve_lstm_f32"
requires = ["mve", "fpu"]
inputs = ["float", "float", "float"]
outputs = ["float", "float", "float"]
scratch = "36 * units"
order = "walk"
reads = "lstm"
code = 1300
[cost]
turn = "batch * steps"
unit = "turn * units"
block = "2 * turn * ((units + 3) // 4)"
eight = "turn * ((units + 3) // 4) * (depth // 8 + units // 8)"
rest = "turn * ((units + 3) // 4) * (depth % 8 + units % 8)"
@*/
struct hil_mve_lstm_f32 {
    HIL_LSTM_FIELDS;
    float clip;             /* the largest magnitude of the cell state */
    const float *in_stream; /* columns [gates][units] of the input, as columns_f32.h draws them */
    const float *hidden_stream; /* columns [gates][units] of the hidden state, with biases of 0 */
};

/* hil_lstm_f32_units() by vectors. */
HIL_INLINE void hil_mve_lstm_f32_units(const float *inputs, const float *hidden, int32_t units,
                                       float clip, const float *c, float *new_c, float *next) {
    for (int32_t unit = 0; unit < units; unit += 4) {
        const mve_pred16_t there = vctp32q((uint32_t)(units - unit));
        float32x4_t sums[HIL_LSTM_GATES];
        for (int32_t gate = 0; gate < HIL_LSTM_GATES; gate++) {
            const int32_t at = gate * units + unit;
            sums[gate] =
                vaddq_f32(vldrwq_z_f32(inputs + at, there), vldrwq_z_f32(hidden + at, there));
        }
        const float32x4_t forget = hil_mve_logistic_of_f32(sums[1]);
        const float32x4_t kept = vmulq_f32(forget, vldrwq_z_f32(c + unit, there));
        const float32x4_t input = hil_mve_logistic_of_f32(sums[0]);
        const float32x4_t update = hil_mve_tanh_of_f32(sums[2]);
        const float32x4_t state = hil_mve_clamped_f32(vfmaq_f32(kept, input, update), -clip, clip);
        vstrwq_p_f32(new_c + unit, state, there);
        const float32x4_t output = hil_mve_logistic_of_f32(sums[3]);
        vstrwq_p_f32(next + unit, vmulq_f32(hil_mve_tanh_of_f32(state), output), there);
    }
}

/* Vectors multiply and add; the reference too adds a bias of 0 to what the hidden state adds. */
HIL_INLINE void hil_mve_lstm_f32_step(const struct hil_mve_lstm_f32 *p, const float *x,
                                      const float *h, const float *c, float *new_c, void *scratch) {
    const int32_t columns = HIL_LSTM_GATES * p->units;
    float *const sums = (float *)scratch;
    for (int32_t part = 0; part < 2; part++) {
        const struct hil_mve_matvec_f32 row = {
            .rows = 1,
            .depth = part ? p->units : p->depth,
            .columns = columns,
            .out_min = -INFINITY,
            .out_max = INFINITY,
            .stream = part ? p->hidden_stream : p->in_stream,
        };
        hil_mve_matvec_f32(&row, part ? h : x, sums + part * columns);
    }
    hil_mve_lstm_f32_units(sums, sums + columns, p->units, p->clip, c, new_c, sums + 2 * columns);
}

HIL_INLINE void hil_mve_lstm_f32(const struct hil_mve_lstm_f32 *p, const float *in,
                                 const float *hidden, const float *cell, float *out,
                                 float *new_hidden, float *new_cell, void *scratch) {
    const float *const next = (const float *)scratch + 2 * HIL_LSTM_GATES * p->units;
    HIL_LSTM_TURNS(p, hil_mve_lstm_f32_step, in, hidden, cell, out, new_hidden, new_cell, next,
                   scratch);
}

#endif
