/* GRU and RNN of floats over the steps of a sequence.
 *
 * What the input adds to the gates is given for all steps: [steps][batch][gates][units]. Weights of
 * the hidden state are [gates][units][units]. The hidden state of a step is in the scratch until
 * all units have read that of the step before; the first step reads the old one. */
#ifndef HIL_KERNELS_GENERIC_RECURRENT_H
#define HIL_KERNELS_GENERIC_RECURRENT_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "hil/kernels/generic/lstm.h"
#include "hil/quant.h"

/* Calls step(p, x, h, scratch) for each sequence in each step: what the input adds, and the hidden
 * state before; the one after is then at the beginning of the scratch. */
#define HIL_RECURRENT_STEPS(p, gates, step, in, hidden, out, last, scratch)                        \
    do {                                                                                           \
        for (int32_t turn = 0; turn < (p)->steps * (p)->batch; turn++) {                           \
            const int32_t sequence = turn % (p)->batch * (p)->units;                               \
            const float *const before = (turn < (p)->batch ? (hidden) : (last)) + sequence;        \
            step((p), (in) + turn * (gates) * (p)->units, before, (float *)(scratch));             \
            const size_t bytes = sizeof(float) * (size_t)(p)->units;                               \
            memcpy((last) + sequence, (scratch), bytes);                                           \
            memcpy((out) + turn * (p)->units, (scratch), bytes);                                   \
        }                                                                                          \
    } while (0)

#define HIL_RECURRENT_FIELDS                                                                       \
    int32_t steps;        /* of a sequence */                                                      \
    int32_t batch;        /* sequences */                                                          \
    int32_t units;        /* elements of a hidden state */                                         \
    const float *weights; /* [gates][units][units], of the hidden state */                         \
    const float *bias     /* [gates][units], of the hidden state */

/* What the hidden state h adds to a gate's unit, a row of the weights. */
#define HIL_RECURRENT_SUM(p, h, row)                                                               \
    (hil_lstm_f32_sum((h), (p)->weights + (row) * (p)->units, (p)->units) + (p)->bias[row])

/*@kernel
name = "hil_generic_gru_f32"
requires = []
inputs = ["float", "float"]
outputs = ["float", "float"]
scratch = "8 * units"
order = "none"
code = 700
[cost]
turn = "steps * batch"
unit = "steps * batch * units"
hidden = "steps * batch * units * units"
@*/
struct hil_generic_gru_f32 {
    HIL_RECURRENT_FIELDS;
    int32_t linear_before_reset; /* 1: the reset gate is applied to the weighted hidden state */
};

HIL_INLINE void hil_gru_f32_step(const struct hil_generic_gru_f32 *p, const float *x,
                                 const float *h, float *next) {
    const int32_t units = p->units;
    float *const reset = next + units;
    for (int32_t unit = 0; unit < units; unit++) {
        const int32_t row = units + unit;
        const float gate = hil_lstm_f32_logistic(x[row] + HIL_RECURRENT_SUM(p, h, row));
        reset[unit] = p->linear_before_reset ? gate : gate * h[unit];
    }
    for (int32_t unit = 0; unit < units; unit++) {
        const int32_t row = 2 * units + unit;
        const float update = hil_lstm_f32_logistic(x[unit] + HIL_RECURRENT_SUM(p, h, unit));
        const float added = p->linear_before_reset ? reset[unit] * HIL_RECURRENT_SUM(p, h, row)
                                                   : HIL_RECURRENT_SUM(p, reset, row);
        next[unit] = (1.0f - update) * tanhf(x[row] + added) + update * h[unit];
    }
}

HIL_INLINE void hil_generic_gru_f32(const struct hil_generic_gru_f32 *p, const float *in,
                                    const float *hidden, float *out, float *last, void *scratch) {
    HIL_RECURRENT_STEPS(p, 3, hil_gru_f32_step, in, hidden, out, last, scratch);
}

/*@kernel
name = "hil_generic_rnn_f32"
requires = []
inputs = ["float", "float"]
outputs = ["float", "float"]
scratch = "4 * units"
order = "none"
code = 400
[cost]
turn = "steps * batch"
unit = "steps * batch * units"
hidden = "steps * batch * units * units"
@*/
struct hil_generic_rnn_f32 {
    HIL_RECURRENT_FIELDS;
    int32_t activation; /* 0: the hyperbolic tangent, 1: RELU, 2: the logistic function */
};

HIL_INLINE void hil_rnn_f32_step(const struct hil_generic_rnn_f32 *p, const float *x,
                                 const float *h, float *next) {
    for (int32_t unit = 0; unit < p->units; unit++) {
        const float sum = x[unit] + HIL_RECURRENT_SUM(p, h, unit);
        if (p->activation == 0) {
            next[unit] = tanhf(sum);
        } else {
            next[unit] =
                p->activation == 1 ? (sum < 0.0f ? 0.0f : sum) : hil_lstm_f32_logistic(sum);
        }
    }
}

HIL_INLINE void hil_generic_rnn_f32(const struct hil_generic_rnn_f32 *p, const float *in,
                                    const float *hidden, float *out, float *last, void *scratch) {
    HIL_RECURRENT_STEPS(p, 1, hil_rnn_f32_step, in, hidden, out, last, scratch);
}

#endif
