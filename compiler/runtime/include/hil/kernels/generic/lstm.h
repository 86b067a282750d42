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
#include "hil/kernels/generic/sum_s8.h"
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
    const int16_t *table       /* of the logistic function less one half, from -256 steps to 256 */

struct hil_lstm_cell {
    HIL_LSTM_CELL_FIELDS;
};

#define HIL_LSTM_CELL(p)                                                                           \
    {                                                                                              \
        .forget_multiplier = (p)->forget_multiplier, .forget_shift = (p)->forget_shift,            \
        .update_multiplier = (p)->update_multiplier, .update_shift = (p)->update_shift,            \
        .out_multiplier = (p)->out_multiplier, .out_shift = (p)->out_shift,                        \
        .out_zero_point = (p)->out_zero_point, .clip = (p)->clip,                                  \
        .tanh_multiplier = (p)->tanh_multiplier, .tanh_shift = (p)->tanh_shift,                    \
        .table = (p)->table,                                                                       \
    }

/* Where a turn's input and output are: those of a step of a sequence. */
HIL_INLINE int32_t hil_lstm_place(int32_t turn, int32_t batch, int32_t steps, int32_t time_major) {
    return time_major ? (turn % steps) * batch + turn / steps : turn;
}

/* Calls step(p, x, h, c, new_c, next) for each step of each sequence: input, old states, and where
 * the new cell state and the new hidden state go; this is then copied to where it is wanted. */
#define HIL_LSTM_TURNS(p, step, in, hidden, cell, out, new_hidden, new_cell, next, scratch)        \
    do {                                                                                           \
        for (int32_t turn = 0; turn < (p)->batch * (p)->steps; turn++) {                           \
            const int32_t place = hil_lstm_place(turn, (p)->batch, (p)->steps, (p)->time_major);   \
            const int32_t sequence = turn / (p)->steps * (p)->units;                               \
            const int is_first = turn % (p)->steps == 0;                                           \
            step((p), (in) + place * (p)->depth, (is_first ? (hidden) : (new_hidden)) + sequence,  \
                 (is_first ? (cell) : (new_cell)) + sequence, (new_cell) + sequence, (scratch));   \
            const size_t bytes = sizeof *(next) * (size_t)(p)->units;                              \
            memcpy((new_hidden) + sequence, (next), bytes);                                        \
            memcpy((out) + place * (p)->units, (next), bytes);                                     \
        }                                                                                          \
    } while (0)

/* The table at a place of 2^bits a step, counted from its least entry, with `half` added away from
 * its middle. */
HIL_INLINE int32_t hil_lstm_between(const int16_t *table, int32_t place, int bits, int32_t half) {
    const int16_t *const step = table + (place >> bits);
    const int32_t rise = step[1] - step[0];
    const int32_t between = step[0] * (1 << bits) + (place & ((1 << bits) - 1)) * rise;
    return between + half - 1 + (place >> (bits + 8));
}

/* From Q3.12, and from a position; in Q0.15. */
#define HIL_LSTM_LOGISTIC(between, table, x)                                                       \
    (between((table), 3 * (x) + (256 << 9), 9, (INT32_C(1) << 24) + 512) >> 10)
#define HIL_LSTM_TANH(between, table, position)                                                    \
    (between((table), hil_saturate_u17((position) + (256 << 8)), 8, 128) >> 8)

/* The argument of a gate in Q3.12 from what the inputs and the hidden states add to it. */
HIL_INLINE int32_t hil_lstm_sum(int32_t inputs, int32_t hidden) {
    return hil_saturate_s16(hil_saturate_s16(inputs) + hil_saturate_s16(hidden));
}

/* name(p, sums, cell, new_cell): the new hidden state of a unit, not yet clamped, and the new cell
 * state in *new_cell, from the arguments of the gates. Families requantize products, and look up in
 * the table, in their own ways. */
#define HIL_LSTM_UNIT(name, requantize, between)                                                   \
    HIL_INLINE int32_t name(const struct hil_lstm_cell *p, const int32_t *sums, int32_t cell,      \
                            int16_t *new_cell) {                                                   \
        const int32_t input = HIL_LSTM_LOGISTIC(between, p->table, sums[0]);                       \
        const int32_t forget = HIL_LSTM_LOGISTIC(between, p->table, sums[1]);                      \
        const int32_t update = HIL_LSTM_TANH(between, p->table, 3 * sums[2]);                      \
        const int32_t output = HIL_LSTM_LOGISTIC(between, p->table, sums[3]);                      \
        const int32_t kept = requantize(forget * cell, p->forget_multiplier, p->forget_shift);     \
        const int32_t added = requantize(input * update, p->update_multiplier, p->update_shift);   \
        const int32_t both = hil_saturate_s16(hil_saturate_s16(kept) + hil_saturate_s16(added));   \
        const int32_t state = p->clip > INT16_MAX ? both : hil_clamp(both, -p->clip, p->clip);     \
        *new_cell = (int16_t)state;                                                                \
        const int32_t position = hil_sigmoid_s16_scaled(state, p->tanh_multiplier, p->tanh_shift); \
        const int32_t shown = HIL_LSTM_TANH(between, p->table, position);                          \
        return requantize(shown * output, p->out_multiplier, p->out_shift) + p->out_zero_point;    \
    }

HIL_LSTM_UNIT(hil_lstm_unit, hil_requantize, hil_lstm_between)

/* Sums of 32 bits, rounded twice. */
/*@kernel
name = "hil_generic_lstm_s8"
requires = []
inputs = ["int8_t", "int8_t", "int16_t"]
outputs = ["int8_t", "int8_t", "int16_t"]
scratch = "units"
order = "walk"
reads = "lstm"
code = 1100
[cost]
turn = "batch * steps"
unit = "batch * steps * units"
input = "batch * steps * units * depth"
hidden = "batch * steps * units * units"
@*/
struct hil_generic_lstm_s8 {
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

/* A step of a sequence; where the new cell state goes and where the new hidden state does. */
HIL_INLINE void hil_lstm_s8_step(const struct hil_generic_lstm_s8 *p, const int8_t *x,
                                 const int8_t *h, const int16_t *c, int16_t *new_c, void *scratch) {
    int8_t *const next = (int8_t *)scratch;
    const struct hil_lstm_cell cell = HIL_LSTM_CELL(p);
    for (int32_t unit = 0; unit < p->units; unit++) {
        int32_t sums[HIL_LSTM_GATES];
        for (int32_t gate = 0; gate < HIL_LSTM_GATES; gate++) {
            const int32_t row = gate * p->units + unit;
            const int32_t inputs = hil_requantize(
                hil_sum_s8(x, p->in_weights + row * p->depth, p->depth, p->in_bias[row]),
                p->in_multipliers[gate], p->in_shifts[gate]);
            const int32_t recurrent = hil_requantize(
                hil_sum_s8(h, p->hidden_weights + row * p->units, p->units, p->hidden_bias[row]),
                p->hidden_multipliers[gate], p->hidden_shifts[gate]);
            sums[gate] = hil_lstm_sum(inputs, recurrent);
        }
        const int32_t shown = hil_lstm_unit(&cell, sums, c[unit], &new_c[unit]);
        next[unit] = hil_clamp_s8(shown, INT8_MIN, INT8_MAX);
    }
}

HIL_INLINE void hil_generic_lstm_s8(const struct hil_generic_lstm_s8 *p, const int8_t *in,
                                    const int8_t *hidden, const int16_t *cell, int8_t *out,
                                    int8_t *new_hidden, int16_t *new_cell, void *scratch) {
    HIL_LSTM_TURNS(p, hil_lstm_s8_step, in, hidden, cell, out, new_hidden, new_cell,
                   (int8_t *)scratch, scratch);
}

/* Sums of 64 bits, with a multiplier of 15 bits, rounded once. */
/*@kernel
name = "hil_generic_lstm_s16"
requires = []
inputs = ["int16_t", "int16_t", "int16_t"]
outputs = ["int16_t", "int16_t", "int16_t"]
scratch = "2 * units"
order = "walk"
reads = "lstm"
code = 1300
[cost]
turn = "batch * steps"
unit = "batch * steps * units"
input = "batch * steps * units * depth"
hidden = "batch * steps * units * units"
@*/
struct hil_generic_lstm_s16 {
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

HIL_INLINE void hil_lstm_s16_step(const struct hil_generic_lstm_s16 *p, const int16_t *x,
                                  const int16_t *h, const int16_t *c, int16_t *new_c,
                                  void *scratch) {
    int16_t *const next = (int16_t *)scratch;
    const struct hil_lstm_cell cell = HIL_LSTM_CELL(p);
    for (int32_t unit = 0; unit < p->units; unit++) {
        int32_t sums[HIL_LSTM_GATES];
        for (int32_t gate = 0; gate < HIL_LSTM_GATES; gate++) {
            const int32_t row = gate * p->units + unit;
            const int32_t *const words = p->in_bias + 2 * row;
            const int64_t bias = (int64_t)words[1] * (INT64_C(1) << 32) + (uint32_t)words[0];
            const int32_t inputs = hil_requantize_once(
                bias + hil_lstm_s16_sum(x, p->in_weights + row * p->depth, p->depth),
                p->in_multipliers[gate], p->in_shifts[gate]);
            const int32_t recurrent = hil_requantize_once(
                hil_lstm_s16_sum(h, p->hidden_weights + row * p->units, p->units),
                p->hidden_multipliers[gate], p->hidden_shifts[gate]);
            sums[gate] = hil_lstm_sum(inputs, recurrent);
        }
        const int32_t shown = hil_lstm_unit(&cell, sums, c[unit], &new_c[unit]);
        next[unit] = (int16_t)hil_clamp(shown, INT16_MIN, INT16_MAX);
    }
}

HIL_INLINE void hil_generic_lstm_s16(const struct hil_generic_lstm_s16 *p, const int16_t *in,
                                     const int16_t *hidden, const int16_t *cell, int16_t *out,
                                     int16_t *new_hidden, int16_t *new_cell, void *scratch) {
    HIL_LSTM_TURNS(p, hil_lstm_s16_step, in, hidden, cell, out, new_hidden, new_cell,
                   (int16_t *)scratch, scratch);
}

/*@kernel
name = "hil_generic_lstm_f32"
requires = []
inputs = ["float", "float", "float"]
outputs = ["float", "float", "float"]
scratch = "4 * units"
order = "walk"
reads = "lstm"
code = 900
[cost]
turn = "batch * steps"
unit = "batch * steps * units"
input = "batch * steps * units * depth"
hidden = "batch * steps * units * units"
@*/
struct hil_generic_lstm_f32 {
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

/* The new hidden state of a unit, and its new cell state in *new_cell, from the arguments of the
 * gates. */
HIL_INLINE float hil_lstm_f32_unit(const float *sums, float clip, float cell, float *new_cell) {
    const float input = hil_lstm_f32_logistic(sums[0]);
    const float forget = hil_lstm_f32_logistic(sums[1]);
    const float update = tanhf(sums[2]);
    const float output = hil_lstm_f32_logistic(sums[3]);
    const float state = hil_clamp_f32(forget * cell + input * update, -clip, clip);
    *new_cell = state;
    return tanhf(state) * output;
}

/* The states of all units; `inputs` and `hidden` are what the input and the old hidden state add to
 * the arguments of the gates, [gates][units]. */
HIL_INLINE void hil_lstm_f32_units(const float *inputs, const float *hidden, int32_t units,
                                   float clip, const float *c, float *new_c, float *next) {
    for (int32_t unit = 0; unit < units; unit++) {
        float sums[HIL_LSTM_GATES];
        for (int32_t gate = 0; gate < HIL_LSTM_GATES; gate++) {
            sums[gate] = inputs[gate * units + unit] + hidden[gate * units + unit];
        }
        next[unit] = hil_lstm_f32_unit(sums, clip, c[unit], &new_c[unit]);
    }
}

HIL_INLINE void hil_lstm_f32_step(const struct hil_generic_lstm_f32 *p, const float *x,
                                  const float *h, const float *c, float *new_c, void *scratch) {
    float *const next = (float *)scratch;
    for (int32_t unit = 0; unit < p->units; unit++) {
        float sums[HIL_LSTM_GATES];
        for (int32_t gate = 0; gate < HIL_LSTM_GATES; gate++) {
            const int32_t row = gate * p->units + unit;
            const float inputs =
                hil_lstm_f32_sum(x, p->in_weights + row * p->depth, p->depth) + p->bias[row];
            sums[gate] = inputs + hil_lstm_f32_sum(h, p->hidden_weights + row * p->units, p->units);
        }
        next[unit] = hil_lstm_f32_unit(sums, p->clip, c[unit], &new_c[unit]);
    }
}

HIL_INLINE void hil_generic_lstm_f32(const struct hil_generic_lstm_f32 *p, const float *in,
                                     const float *hidden, const float *cell, float *out,
                                     float *new_hidden, float *new_cell, void *scratch) {
    HIL_LSTM_TURNS(p, hil_lstm_f32_step, in, hidden, cell, out, new_hidden, new_cell,
                   (float *)scratch, scratch);
}

#endif
