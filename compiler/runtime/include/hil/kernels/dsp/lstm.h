/* Long short-term memory, whose four gates of a unit are four columns of matvec_s8.h or of
 * matvec_s16.h: these draw the registers and the weights; the biases of the four are before them.
 */
#ifndef HIL_KERNELS_DSP_LSTM_H
#define HIL_KERNELS_DSP_LSTM_H

#include "hil/kernels/dsp/matvec_s16.h"
#include "hil/kernels/dsp/matvec_s8.h"
#include "hil/kernels/generic/lstm.h"

#define HIL_DSP_LSTM_FIELDS                                                                        \
    HIL_LSTM_FIELDS;                                                                               \
    HIL_LSTM_CELL_FIELDS;                                                                          \
    int32_t in_units;                           /* of four elements of an input */                 \
    int32_t hidden_units;                       /* of four elements of a hidden state */           \
    int32_t in_multipliers[HIL_LSTM_GATES];     /* from sums of inputs to Q3.12 */                 \
    int32_t hidden_multipliers[HIL_LSTM_GATES]; /* from sums of hidden states to Q3.12 */          \
    const int32_t *stream /* of each unit: biases and weights of inputs, and of hidden states */

/* As hil_lstm_between(): both ends of a step, which share a word, by how far each is away. */
HIL_INLINE int32_t hil_dsp_lstm_between(const int16_t *table, int32_t place, int bits,
                                        int32_t half) {
    const int32_t whole = 1 << bits;
    const uint32_t from = (uint32_t)place & (uint32_t)(whole - 1);
    const int16_t *const step = table + (place >> bits);
#if HIL_DSP_CORE
    const uint32_t ends = hil_dsp_load(step);
#else
    const uint32_t ends = hil_dsp_pair(step[0], step[1]);
#endif
    /* In a register, to which the sign is added in one instruction. */
    int32_t rounding = hil_dsp_kept(half - 1);
    rounding += place >> (bits + 8);
    return (int32_t)hil_dsp_dual(ends, (uint32_t)whole + from * 0xffffU, (uint32_t)rounding);
}

/* The arguments of the gates from what is added to them, in pairs. */
struct hil_dsp_lstm_gates {
    uint32_t pairs[HIL_LSTM_GATES / 2];
};

HIL_INLINE struct hil_dsp_lstm_gates hil_dsp_lstm_gates(const int32_t *scaled) {
    struct hil_dsp_lstm_gates gates;
    for (int i = 0; i < HIL_LSTM_GATES / 2; i++) {
        gates.pairs[i] = hil_dsp_lows((uint32_t)hil_saturate_s16(scaled[2 * i]),
                                      (uint32_t)hil_saturate_s16(scaled[2 * i + 1]));
    }
    return gates;
}

HIL_INLINE void hil_dsp_lstm_sums(struct hil_dsp_lstm_gates inputs,
                                  struct hil_dsp_lstm_gates hidden, int32_t *sums) {
    for (int i = 0; i < HIL_LSTM_GATES / 2; i++) {
        const uint32_t both = hil_dsp_add_saturated(inputs.pairs[i], hidden.pairs[i]);
        sums[2 * i] = hil_dsp_low(both);
        sums[2 * i + 1] = hil_dsp_high(both);
    }
}

HIL_INLINE int32_t hil_dsp_lstm_requantized(int32_t x, int32_t multiplier, int32_t shift) {
    return hil_dsp_requantized(2 * x, multiplier, shift);
}

HIL_LSTM_UNIT(hil_dsp_lstm_unit, hil_dsp_lstm_requantized, hil_dsp_lstm_between)

/*@kernel
name = "hil_dsp_lstm_s8"
requires = ["dsp"]
inputs = ["int8_t", "int8_t", "int16_t"]
outputs = ["int8_t", "int8_t", "int16_t"]
scratch = "8 * in_units + 8 * hidden_units + units"
order = "walk"
reads = "lstm"
code = 1700
[cost]
turn = "batch * steps"
widened = "turn * (in_units + hidden_units)"
unit = "turn * units"
four_unit = "unit * (in_units + hidden_units)"
@*/
struct hil_dsp_lstm_s8 {
    HIL_DSP_LSTM_FIELDS;
    int32_t in_shifts[HIL_LSTM_GATES];     /* to the left; below 0 to the right */
    int32_t hidden_shifts[HIL_LSTM_GATES]; /* likewise */
};

/* What a widened row adds to the gates of a unit; *stream moves to what follows its weights. */
HIL_INLINE struct hil_dsp_lstm_gates hil_dsp_lstm_s8_gates(const uint32_t *row,
                                                           const int32_t **stream, int32_t units,
                                                           const int32_t *multipliers,
                                                           const int32_t *shifts) {
    struct hil_dsp_matvec_sums sums;
    for (int i = 0; i < HIL_LSTM_GATES; i++) {
        sums.s[i] = (uint32_t) * (*stream)++;
    }
    const void *const weights = *stream;
    hil_dsp_matvec_s8_units(row, 1, (const int16_t *)weights, units, &sums);
    *stream += 4 * units;
    int32_t scaled[HIL_LSTM_GATES];
#pragma GCC unroll 2
    for (int i = 0; i < HIL_LSTM_GATES; i += 2) {
        const int32_t first = (int32_t)(sums.s[i] * 2);
        const int32_t second = (int32_t)(sums.s[i + 1] - sums.s[i]) >> 7;
        scaled[i] = hil_dsp_requantized(first, multipliers[i], shifts[i]);
        scaled[i + 1] = hil_dsp_requantized(second, multipliers[i + 1], shifts[i + 1]);
    }
    return hil_dsp_lstm_gates(scaled);
}

HIL_INLINE void hil_dsp_lstm_s8_step(const struct hil_dsp_lstm_s8 *p, const int8_t *x,
                                     const int8_t *h, const int16_t *c, int16_t *new_c,
                                     void *scratch) {
    const struct hil_lstm_cell cell = HIL_LSTM_CELL(p);
    uint32_t *const rows = (uint32_t *)scratch;
    uint32_t *const hidden_row = rows + 2 * p->in_units;
    void *const behind = hidden_row + 2 * p->hidden_units;
    int8_t *const next = (int8_t *)behind;
    hil_dsp_widen_row(x, p->depth, rows);
    hil_dsp_widen_row(h, p->units, hidden_row);
    const int32_t *stream = p->stream;
    for (int32_t unit = 0; unit < p->units; unit++) {
        const struct hil_dsp_lstm_gates inputs =
            hil_dsp_lstm_s8_gates(rows, &stream, p->in_units, p->in_multipliers, p->in_shifts);
        const struct hil_dsp_lstm_gates hidden = hil_dsp_lstm_s8_gates(
            hidden_row, &stream, p->hidden_units, p->hidden_multipliers, p->hidden_shifts);
        int32_t sums[HIL_LSTM_GATES];
        hil_dsp_lstm_sums(inputs, hidden, sums);
        const int32_t shown = hil_dsp_lstm_unit(&cell, sums, c[unit], &new_c[unit]);
        next[unit] = hil_clamp_s8(shown, INT8_MIN, INT8_MAX);
    }
}

HIL_INLINE void hil_dsp_lstm_s8(const struct hil_dsp_lstm_s8 *p, const int8_t *in,
                                const int8_t *hidden, const int16_t *cell, int8_t *out,
                                int8_t *new_hidden, int16_t *new_cell, void *scratch) {
    void *const next = (uint32_t *)scratch + 2 * (p->in_units + p->hidden_units);
    HIL_LSTM_TURNS(p, hil_dsp_lstm_s8_step, in, hidden, cell, out, new_hidden, new_cell,
                   (int8_t *)next, scratch);
}

/*@kernel
name = "hil_dsp_lstm_s16"
requires = ["dsp"]
inputs = ["int16_t", "int16_t", "int16_t"]
outputs = ["int16_t", "int16_t", "int16_t"]
scratch = "8 * in_units + 8 * hidden_units + 2 * units"
order = "walk"
reads = "lstm"
code = 1700
[cost]
turn = "batch * steps"
widened = "turn * (in_units + hidden_units)"
unit = "turn * units"
narrow_unit = "unit * (in_units + hidden_units) * (1 - wide)"
wide_unit = "unit * (in_units + hidden_units) * wide"
@*/
struct hil_dsp_lstm_s16 {
    HIL_DSP_LSTM_FIELDS;
    int32_t wide; /* 1: weights of 16 bits, 0: two of 8 in each half-word */
};

/* As hil_dsp_lstm_s8_gates(). */
HIL_INLINE struct hil_dsp_lstm_gates hil_dsp_lstm_s16_gates(const uint32_t *row,
                                                            const int32_t **stream, int32_t units,
                                                            int32_t wide,
                                                            const int32_t *multipliers) {
    const int32_t *const bias = *stream;
    int32_t scaled[HIL_LSTM_GATES];
    hil_dsp_vector_s16_four(row, bias, bias + 4, units, wide, scaled);
    *stream = bias + 4 + hil_dsp_vector_s16_words(units, wide);
#pragma GCC unroll 4
    for (int i = 0; i < HIL_LSTM_GATES; i++) {
        scaled[i] = hil_dsp_high_mul_add(scaled[i], multipliers[i], 0);
    }
    return hil_dsp_lstm_gates(scaled);
}

HIL_INLINE void hil_dsp_lstm_s16_step(const struct hil_dsp_lstm_s16 *p, const int16_t *x,
                                      const int16_t *h, const int16_t *c, int16_t *new_c,
                                      void *scratch) {
    const struct hil_lstm_cell cell = HIL_LSTM_CELL(p);
    uint32_t *const rows = (uint32_t *)scratch;
    uint32_t *const hidden_row = rows + 2 * p->in_units;
    void *const behind = hidden_row + 2 * p->hidden_units;
    int16_t *const next = (int16_t *)behind;
    hil_dsp_vector_s16_row(x, p->depth, p->in_units, rows);
    hil_dsp_vector_s16_row(h, p->units, p->hidden_units, hidden_row);
    const int32_t *stream = p->stream;
    for (int32_t unit = 0; unit < p->units; unit++) {
        const struct hil_dsp_lstm_gates inputs =
            hil_dsp_lstm_s16_gates(rows, &stream, p->in_units, p->wide, p->in_multipliers);
        const struct hil_dsp_lstm_gates hidden = hil_dsp_lstm_s16_gates(
            hidden_row, &stream, p->hidden_units, p->wide, p->hidden_multipliers);
        int32_t sums[HIL_LSTM_GATES];
        hil_dsp_lstm_sums(inputs, hidden, sums);
        const int32_t shown = hil_dsp_lstm_unit(&cell, sums, c[unit], &new_c[unit]);
        next[unit] = (int16_t)hil_saturate_s16(shown);
    }
}

HIL_INLINE void hil_dsp_lstm_s16(const struct hil_dsp_lstm_s16 *p, const int16_t *in,
                                 const int16_t *hidden, const int16_t *cell, int16_t *out,
                                 int16_t *new_hidden, int16_t *new_cell, void *scratch) {
    void *const next = (uint32_t *)scratch + 2 * (p->in_units + p->hidden_units);
    HIL_LSTM_TURNS(p, hil_dsp_lstm_s16_step, in, hidden, cell, out, new_hidden, new_cell,
                   (int16_t *)next, scratch);
}

#endif
