/* Long short-term memory over the steps of a sequence.
 *
 * Weights and biases are [gates][units][...], the gates in the order input, forget, cell, output.
 * The states of a sequence's first step are read from the old ones; those of later steps are what
 * the steps before have written to the new ones, which may lie where the old ones do. The hidden
 * state of a step is in the scratch until all units have read that of the step before. */
#ifndef HIL_KERNELS_GENERIC_LSTM_H
#define HIL_KERNELS_GENERIC_LSTM_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "hil/kernels/generic/clamp_f32.h"
#include "hil/kernels/generic/matmul_s16.h"
#include "hil/kernels/generic/unary_s16.h"
#include "hil/quant.h"

#define HIL_LSTM_GATES 4

#define HIL_LSTM_FIELDS                                                                            \
    int32_t batch;      /* sequences */                                                            \
    int32_t steps;      /* inputs of a sequence */                                                 \
    int32_t time_major; /* 1: steps are the outermost axis of inputs and outputs, 0: sequences */  \
    int32_t depth;      /* elements of an input */                                                 \
    int32_t units       /* elements of an output, and of each state of a sequence */

#define HIL_LSTM_CELL_FIELDS                                                                       \
    int32_t forget_multiplier; /* of forget gate times cell state */                               \
    int32_t forget_shift;      /* to the left; below 0 to the right */                             \
    int32_t update_multiplier; /* of input gate times cell gate */                                 \
    int32_t update_shift;      /* to the left; below 0 to the right */                             \
    int32_t out_multiplier;    /* of output gate times the tangent of the cell state */            \
    int32_t out_shift;         /* to the left; below 0 to the right */                             \
    int32_t out_zero_point;    /* of the hidden state */                                           \
    int32_t clip;              /* the largest magnitude of the cell state */                       \
    int32_t tanh_multiplier;   /* from the cell state to the table */                              \
    int32_t tanh_shift;        /* of the product, to the right */                                  \
    const int16_t *table       /* of the logistic function, 256 steps */

/* Where a turn's input and output are: those of a step of a sequence. */
HIL_INLINE int32_t hil_lstm_place(int32_t turn, int32_t batch, int32_t steps, int32_t time_major) {
    return time_major ? (turn % steps) * batch + turn / steps : turn;
}

/* The logistic function and the hyperbolic tangent from Q3.12 to Q0.15. */
HIL_INLINE int32_t hil_lstm_logistic(const int16_t *table, int32_t x) {
    const int32_t position = 3 * x;
    const int32_t size = position < 0 ? -position : position;
    const int32_t y = hil_sigmoid_s16_between(table, size, 9, INT32_C(0x7FFF) << 10);
    return (position < 0 ? (INT32_C(1) << 25) - y + 511 : y + 512) >> 10;
}

HIL_INLINE int32_t hil_lstm_tanh(const int16_t *table, int32_t position) {
    const int32_t size = position < 0 ? -position : position;
    const int32_t y = hil_sigmoid_s16_between(table, size, 8, INT32_C(0xFFFF) << 8);
    const int32_t above = y - (INT32_C(1) << 23);
    return (position < 0 ? 127 - above : above + 128) >> 8;
}

/* The new cell state, from the old one and the values of the gates. */
HIL_INLINE int32_t hil_lstm_cell(int32_t cell, const int32_t *gates, int32_t forget_multiplier,
                                 int32_t forget_shift, int32_t update_multiplier,
                                 int32_t update_shift, int32_t clip) {
    const int32_t kept = hil_requantize(gates[1] * cell, forget_multiplier, forget_shift);
    const int32_t added = hil_requantize(gates[0] * gates[2], update_multiplier, update_shift);
    const int32_t sum =
        hil_clamp(kept, INT16_MIN, INT16_MAX) + hil_clamp(added, INT16_MIN, INT16_MAX);
    return hil_clamp(hil_clamp(sum, INT16_MIN, INT16_MAX), -clip, clip);
}

/* Sums of 32 bits, rounded twice. */
/*@kernel
name = "hil_lstm_s8"
requires = []
inputs = ["int8_t", "int8_t", "int16_t"]
outputs = ["int8_t", "int8_t", "int16_t"]
scratch = "units"
order = "walk"
reads = "lstm"
code = 1100
[cost.counts]
turn = "batch * steps"
unit = "batch * steps * units"
input = "batch * steps * units * depth"
hidden = "batch * steps * units * units"
[cost.on.cortex-m3]
call = 60.0
turn = 60.0
unit = 420.0
input = 20.0
hidden = 20.0
[cost.on.cortex-m0]
factor = 1.9
@*/
struct hil_lstm_s8 {
    HIL_LSTM_FIELDS;
    HIL_LSTM_CELL_FIELDS;
    int32_t in_multipliers[HIL_LSTM_GATES];     /* from sums of inputs to Q3.12 */
    int32_t in_shifts[HIL_LSTM_GATES];          /* to the left; below 0 to the right */
    int32_t hidden_multipliers[HIL_LSTM_GATES]; /* from sums of hidden states to Q3.12 */
    int32_t hidden_shifts[HIL_LSTM_GATES];      /* to the left; below 0 to the right */
    const int8_t *in_weights;                   /* [gates][units][depth] */
    const int8_t *hidden_weights;               /* [gates][units][units] */
    const int32_t *in_bias;                     /* with what zero points of inputs add */
    const int32_t *hidden_bias;                 /* what zero points of hidden states add */
};

HIL_INLINE int32_t hil_lstm_s8_sum(const int8_t *values, const int8_t *weights, int32_t count,
                                   int32_t bias) {
    uint32_t sum = (uint32_t)bias;
    for (int32_t i = 0; i < count; i++) {
        sum += (uint32_t)(values[i] * weights[i]);
    }
    return (int32_t)sum;
}

HIL_INLINE void hil_lstm_s8(const struct hil_lstm_s8 *p, const int8_t *in, const int8_t *hidden,
                            const int16_t *cell, int8_t *out, int8_t *new_hidden, int16_t *new_cell,
                            void *scratch) {
    int8_t *next = (int8_t *)scratch;
    for (int32_t turn = 0; turn < p->batch * p->steps; turn++) {
        const int32_t place = hil_lstm_place(turn, p->batch, p->steps, p->time_major);
        const int32_t sequence = turn / p->steps * p->units;
        const int is_first = turn % p->steps == 0;
        const int8_t *x = in + place * p->depth;
        const int8_t *h = (is_first ? hidden : new_hidden) + sequence;
        const int16_t *c = (is_first ? cell : new_cell) + sequence;
        for (int32_t unit = 0; unit < p->units; unit++) {
            int32_t gates[HIL_LSTM_GATES];
            for (int32_t gate = 0; gate < HIL_LSTM_GATES; gate++) {
                const int32_t row = gate * p->units + unit;
                const int32_t inputs = hil_requantize(
                    hil_lstm_s8_sum(x, p->in_weights + row * p->depth, p->depth, p->in_bias[row]),
                    p->in_multipliers[gate], p->in_shifts[gate]);
                const int32_t recurrent =
                    hil_requantize(hil_lstm_s8_sum(h, p->hidden_weights + row * p->units, p->units,
                                                   p->hidden_bias[row]),
                                   p->hidden_multipliers[gate], p->hidden_shifts[gate]);
                const int32_t sum = hil_clamp(hil_clamp(inputs, INT16_MIN, INT16_MAX) +
                                                  hil_clamp(recurrent, INT16_MIN, INT16_MAX),
                                              INT16_MIN, INT16_MAX);
                gates[gate] =
                    gate == 2 ? hil_lstm_tanh(p->table, 3 * sum) : hil_lstm_logistic(p->table, sum);
            }
            const int32_t state =
                hil_lstm_cell(c[unit], gates, p->forget_multiplier, p->forget_shift,
                              p->update_multiplier, p->update_shift, p->clip);
            new_cell[sequence + unit] = (int16_t)state;
            const int32_t shown = hil_lstm_tanh(
                p->table, hil_sigmoid_s16_scaled(state, p->tanh_multiplier, p->tanh_shift));
            next[unit] =
                hil_clamp_s8(hil_requantize(shown * gates[3], p->out_multiplier, p->out_shift) +
                                 p->out_zero_point,
                             INT8_MIN, INT8_MAX);
        }
        memcpy(new_hidden + sequence, next, (size_t)p->units);
        memcpy(out + place * p->units, next, (size_t)p->units);
    }
}

/* Sums of 64 bits, with a multiplier of 15 bits, rounded once. */
/*@kernel
name = "hil_lstm_s16"
requires = []
inputs = ["int16_t", "int16_t", "int16_t"]
outputs = ["int16_t", "int16_t", "int16_t"]
scratch = "2 * units"
order = "walk"
reads = "lstm"
code = 1300
[cost.counts]
turn = "batch * steps"
unit = "batch * steps * units"
input = "batch * steps * units * depth"
hidden = "batch * steps * units * units"
[cost.on.cortex-m3]
call = 60.0
turn = 60.0
unit = 560.0
input = 22.0
hidden = 22.0
[cost.on.cortex-m0]
factor = 1.9
@*/
struct hil_lstm_s16 {
    HIL_LSTM_FIELDS;
    HIL_LSTM_CELL_FIELDS;
    int32_t in_multipliers[HIL_LSTM_GATES];     /* of 15 bits, from sums of inputs to Q3.12 */
    int32_t in_shifts[HIL_LSTM_GATES];          /* to the right */
    int32_t hidden_multipliers[HIL_LSTM_GATES]; /* of 15 bits, from sums of hidden states */
    int32_t hidden_shifts[HIL_LSTM_GATES];      /* to the right */
    const int8_t *in_weights;                   /* [gates][units][depth] */
    const int8_t *hidden_weights;               /* [gates][units][units] */
    const int32_t *in_bias;                     /* of each the lower word, then the upper one */
};

HIL_INLINE int64_t hil_lstm_s16_sum(const int16_t *values, const int8_t *weights, int32_t count) {
    int64_t sum = 0;
    for (int32_t from = 0; from < count; from += HIL_MATMUL_S16_RUN) {
        const int32_t left = count - from;
        sum += hil_matmul_s16_run(values + from, weights + from,
                                  left < HIL_MATMUL_S16_RUN ? left : HIL_MATMUL_S16_RUN);
    }
    return sum;
}

HIL_INLINE void hil_lstm_s16(const struct hil_lstm_s16 *p, const int16_t *in, const int16_t *hidden,
                             const int16_t *cell, int16_t *out, int16_t *new_hidden,
                             int16_t *new_cell, void *scratch) {
    int16_t *next = (int16_t *)scratch;
    for (int32_t turn = 0; turn < p->batch * p->steps; turn++) {
        const int32_t place = hil_lstm_place(turn, p->batch, p->steps, p->time_major);
        const int32_t sequence = turn / p->steps * p->units;
        const int is_first = turn % p->steps == 0;
        const int16_t *x = in + place * p->depth;
        const int16_t *h = (is_first ? hidden : new_hidden) + sequence;
        const int16_t *c = (is_first ? cell : new_cell) + sequence;
        for (int32_t unit = 0; unit < p->units; unit++) {
            int32_t gates[HIL_LSTM_GATES];
            for (int32_t gate = 0; gate < HIL_LSTM_GATES; gate++) {
                const int32_t row = gate * p->units + unit;
                const int32_t *words = p->in_bias + 2 * row;
                const int64_t bias = (int64_t)words[1] * (INT64_C(1) << 32) + (uint32_t)words[0];
                const int32_t inputs = hil_requantize_once(
                    bias + hil_lstm_s16_sum(x, p->in_weights + row * p->depth, p->depth),
                    p->in_multipliers[gate], p->in_shifts[gate]);
                const int32_t recurrent = hil_requantize_once(
                    hil_lstm_s16_sum(h, p->hidden_weights + row * p->units, p->units),
                    p->hidden_multipliers[gate], p->hidden_shifts[gate]);
                const int32_t sum = hil_clamp(hil_clamp(inputs, INT16_MIN, INT16_MAX) +
                                                  hil_clamp(recurrent, INT16_MIN, INT16_MAX),
                                              INT16_MIN, INT16_MAX);
                gates[gate] =
                    gate == 2 ? hil_lstm_tanh(p->table, 3 * sum) : hil_lstm_logistic(p->table, sum);
            }
            const int32_t state =
                hil_lstm_cell(c[unit], gates, p->forget_multiplier, p->forget_shift,
                              p->update_multiplier, p->update_shift, p->clip);
            new_cell[sequence + unit] = (int16_t)state;
            const int32_t shown = hil_lstm_tanh(
                p->table, hil_sigmoid_s16_scaled(state, p->tanh_multiplier, p->tanh_shift));
            const int32_t scaled =
                hil_requantize(shown * gates[3], p->out_multiplier, p->out_shift);
            next[unit] = (int16_t)hil_clamp(scaled + p->out_zero_point, INT16_MIN, INT16_MAX);
        }
        memcpy(new_hidden + sequence, next, sizeof *next * (size_t)p->units);
        memcpy(out + place * p->units, next, sizeof *next * (size_t)p->units);
    }
}

/*@kernel
name = "hil_lstm_f32"
requires = []
inputs = ["float", "float", "float"]
outputs = ["float", "float", "float"]
scratch = "4 * units"
order = "walk"
reads = "lstm"
code = 900
[cost.counts]
turn = "batch * steps"
unit = "batch * steps * units"
input = "batch * steps * units * depth"
hidden = "batch * steps * units * units"
[cost.on.cortex-m3]
call = 60.0
turn = 60.0
unit = 9500.0
input = 430.0
hidden = 430.0
[cost.on.cortex-m4]
factor = 0.07
[cost.on.cortex-m33]
factor = 0.07
[cost.on.cortex-m55]
factor = 0.07
@*/
struct hil_lstm_f32 {
    HIL_LSTM_FIELDS;
    float clip;                  /* the largest magnitude of the cell state */
    const float *in_weights;     /* [gates][units][depth] */
    const float *hidden_weights; /* [gates][units][units] */
    const float *bias;           /* [gates][units] */
};

HIL_INLINE float hil_lstm_f32_sum(const float *values, const float *weights, int32_t count) {
    float sum = 0.0f;
    for (int32_t i = 0; i < count; i++) {
        sum += values[i] * weights[i];
    }
    return sum;
}

HIL_INLINE float hil_lstm_f32_logistic(float x) {
    if (x > 16.619047164916992f) {
        return 1.0f;
    }
    return x < -9.0f ? expf(x) : 1.0f / (1.0f + expf(-x));
}

HIL_INLINE void hil_lstm_f32(const struct hil_lstm_f32 *p, const float *in, const float *hidden,
                             const float *cell, float *out, float *new_hidden, float *new_cell,
                             void *scratch) {
    float *next = (float *)scratch;
    for (int32_t turn = 0; turn < p->batch * p->steps; turn++) {
        const int32_t place = hil_lstm_place(turn, p->batch, p->steps, p->time_major);
        const int32_t sequence = turn / p->steps * p->units;
        const int is_first = turn % p->steps == 0;
        const float *x = in + place * p->depth;
        const float *h = (is_first ? hidden : new_hidden) + sequence;
        const float *c = (is_first ? cell : new_cell) + sequence;
        for (int32_t unit = 0; unit < p->units; unit++) {
            float gates[HIL_LSTM_GATES];
            for (int32_t gate = 0; gate < HIL_LSTM_GATES; gate++) {
                const int32_t row = gate * p->units + unit;
                const float inputs =
                    hil_lstm_f32_sum(x, p->in_weights + row * p->depth, p->depth) + p->bias[row];
                const float sum =
                    inputs + hil_lstm_f32_sum(h, p->hidden_weights + row * p->units, p->units);
                gates[gate] = gate == 2 ? tanhf(sum) : hil_lstm_f32_logistic(sum);
            }
            const float state =
                hil_clamp_f32(gates[1] * c[unit] + gates[0] * gates[2], -p->clip, p->clip);
            new_cell[sequence + unit] = state;
            next[unit] = tanhf(state) * gates[3];
        }
        memcpy(new_hidden + sequence, next, sizeof *next * (size_t)p->units);
        memcpy(out + place * p->units, next, sizeof *next * (size_t)p->units);
    }
}

#endif
