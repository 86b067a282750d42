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

/* The word of a step of the table, its rise and less its first value, times how far `place` is in
 * the step and -2^15: what lies between the ends of the step, times 2^15, and `rounding`, which
 * counts one less below the middle. The upper half of `by` stays -2^15. */
HIL_INLINE int32_t hil_dsp_lstm_between(const int16_t *table, int32_t place, int bits,
                                        int32_t rounding, uint32_t *by) {
    const uint32_t ends = hil_dsp_load(table + 2 * (place >> bits));
    *by = hil_dsp_insert(*by, place, 15 - bits, bits);
    /* In a register, to which the sign is added in one instruction. */
    const int32_t start = hil_dsp_kept(rounding - 1) + (place >> (bits + 8));
    return (int32_t)hil_dsp_dual(ends, *by, (uint32_t)start);
}

/* How far a place in a step is, before one is inserted. */
#define HIL_DSP_LSTM_BY 0x80000000U

/* From Q3.12, Q0.15 in the upper half of the result. */
HIL_INLINE uint32_t hil_dsp_lstm_logistic(const int16_t *table, int32_t place, uint32_t *by) {
    const int32_t half = (INT32_C(1) << 30) + (INT32_C(1) << 15);
    return (uint32_t)hil_dsp_lstm_between(table, place, 9, half, by);
}

/* From a position, in Q0.15. */
HIL_INLINE int32_t hil_dsp_lstm_tanh(const int16_t *table, int32_t position) {
    uint32_t by = HIL_DSP_LSTM_BY;
    const int32_t place = hil_saturate_u17(position);
    return hil_dsp_lstm_between(table, place, 8, INT32_C(1) << 14, &by) >> 15;
}

/* The multiplier of a power of two. */
#define HIL_DSP_LSTM_HALF (INT32_C(1) << 30)

/* hil_requantize() of the product of the upper half of `gate`, which is not negative, and of
 * `value`, whose sign is the product's. Of a power of two, both roundings are one addition. */
HIL_INLINE int32_t hil_dsp_lstm_product(uint32_t gate, int32_t value, int32_t multiplier,
                                        int32_t shift) {
    if (multiplier == HIL_DSP_LSTM_HALF && shift < 0) {
        const int32_t start = hil_dsp_kept((INT32_C(1) << -shift) + 1);
        const int32_t sum = hil_dsp_high_low_add(gate, (uint32_t)value, start);
        /* cppcheck-suppress shiftTooManyBitsSigned */
        return (sum + 2 * (value >> 31)) >> (1 - shift);
    }
    const int32_t twice = 2 * hil_dsp_high_low_add(gate, (uint32_t)value, 0);
    return hil_dsp_requantized(twice, multiplier, shift);
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

HIL_INLINE struct hil_dsp_lstm_gates hil_dsp_lstm_both(struct hil_dsp_lstm_gates inputs,
                                                       struct hil_dsp_lstm_gates hidden) {
    for (int i = 0; i < HIL_LSTM_GATES / 2; i++) {
        inputs.pairs[i] = hil_dsp_add_saturated(inputs.pairs[i], hidden.pairs[i]);
    }
    return inputs;
}

/* The new hidden state of a unit, not yet clamped, and the new cell state in *new_cell: as
 * HIL_LSTM_UNIT, from the arguments of the gates. */
HIL_INLINE int32_t hil_dsp_lstm_unit(const struct hil_lstm_cell *p, struct hil_dsp_lstm_gates gates,
                                     int32_t cell, int16_t *new_cell, uint32_t *by) {
    const uint32_t first = gates.pairs[0];
    const uint32_t second = gates.pairs[1];
    const int32_t middle = hil_dsp_kept(INT32_C(256) << 9);
    const uint32_t three = (uint32_t)hil_dsp_kept(3);
    const uint32_t input =
        hil_dsp_lstm_logistic(p->table, hil_dsp_low_low_add(first, three, middle), by);
    const uint32_t forget =
        hil_dsp_lstm_logistic(p->table, hil_dsp_high_low_add(first, three, middle), by);
    const int32_t center = hil_dsp_kept(INT32_C(256) << 8);
    const int32_t update = hil_dsp_lstm_tanh(p->table, hil_dsp_low_low_add(second, three, center));
    const uint32_t output =
        hil_dsp_lstm_logistic(p->table, hil_dsp_high_low_add(second, three, middle), by);
    const int32_t kept = hil_dsp_lstm_product(forget, cell, p->forget_multiplier, p->forget_shift);
    const int32_t added =
        hil_dsp_lstm_product(input, update, p->update_multiplier, p->update_shift);
    const int32_t both = hil_saturate_s16(hil_saturate_s16(kept) + hil_saturate_s16(added));
    const int32_t state = p->clip > INT16_MAX ? both : hil_clamp(both, -p->clip, p->clip);
    *new_cell = (int16_t)state;
    const int32_t position = hil_sigmoid_s16_scaled(state, p->tanh_multiplier, p->tanh_shift);
    const int32_t shown = hil_dsp_lstm_tanh(p->table, position + center);
    return hil_dsp_lstm_product(output, shown, p->out_multiplier, p->out_shift) + p->out_zero_point;
}

/* The states of all units from the arguments of the gates; in a loop without products, which take
 * nearly all registers. */
#define HIL_DSP_LSTM_UNITS(p, sums, c, new_c, next, clamped)                                       \
    do {                                                                                           \
        const struct hil_lstm_cell cell = HIL_LSTM_CELL(p);                                        \
        uint32_t by = HIL_DSP_LSTM_BY;                                                             \
        for (int32_t unit = 0; unit < (p)->units; unit++) {                                        \
            const int32_t shown =                                                                  \
                hil_dsp_lstm_unit(&cell, (sums)[unit], (c)[unit], &(new_c)[unit], &by);            \
            (next)[unit] = clamped(shown);                                                         \
        }                                                                                          \
    } while (0)

HIL_INLINE int8_t hil_dsp_lstm_clamped_s8(int32_t x) { return hil_clamp_s8(x, INT8_MIN, INT8_MAX); }

HIL_INLINE int16_t hil_dsp_lstm_clamped_s16(int32_t x) { return (int16_t)hil_saturate_s16(x); }

/*@kernel
name = "hil_dsp_lstm_s8"
requires = ["dsp"]
inputs = ["int8_t", "int8_t", "int16_t"]
outputs = ["int8_t", "int8_t", "int16_t"]
scratch = "8 * in_units + 8 * hidden_units + 9 * units"
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
struct hil_dsp_lstm_s8 {
    HIL_DSP_LSTM_FIELDS;
    int32_t in_shifts[HIL_LSTM_GATES];     /* to the left; below 0 to the right */
    int32_t hidden_shifts[HIL_LSTM_GATES]; /* likewise */
    int32_t wide; /* 1: twice the weights, in half-words of their own, 0: two in each half-word */
};

/* What a widened row adds to the gates of a unit; *stream moves to what follows its weights. */
HIL_INLINE struct hil_dsp_lstm_gates hil_dsp_lstm_s8_gates(const uint32_t *row,
                                                           const int32_t **stream, int32_t units,
                                                           int32_t wide, const int32_t *multipliers,
                                                           const int32_t *shifts) {
    struct hil_dsp_matvec_sums sums;
    for (int i = 0; i < HIL_LSTM_GATES; i++) {
        sums.s[i] = (uint32_t) * (*stream)++;
    }
    const void *const weights = *stream;
    int32_t scaled[HIL_LSTM_GATES];
    if (wide) {
        hil_dsp_matvec_s8_wide_units(row, (const uint32_t *)weights, units, &sums);
    } else {
        hil_dsp_matvec_s8_units(row, 1, (const int16_t *)weights, units, &sums);
    }
    *stream += (wide ? 8 : 4) * units;
#pragma GCC unroll 2
    for (int i = 0; i < HIL_LSTM_GATES; i += 2) {
        const int32_t first = (int32_t)(wide ? sums.s[i] : sums.s[i] * 2);
        const int32_t second =
            wide ? (int32_t)sums.s[i + 1] : (int32_t)(sums.s[i + 1] - sums.s[i]) >> 7;
        scaled[i] = hil_dsp_requantized(first, multipliers[i], shifts[i]);
        scaled[i + 1] = hil_dsp_requantized(second, multipliers[i + 1], shifts[i + 1]);
    }
    return hil_dsp_lstm_gates(scaled);
}

HIL_INLINE void hil_dsp_lstm_s8_step(const struct hil_dsp_lstm_s8 *p, const int8_t *x,
                                     const int8_t *h, const int16_t *c, int16_t *new_c,
                                     void *scratch) {
    uint32_t *const rows = (uint32_t *)scratch;
    uint32_t *const hidden_row = rows + 2 * p->in_units;
    void *const behind = hidden_row + 2 * p->hidden_units;
    struct hil_dsp_lstm_gates *const sums = (struct hil_dsp_lstm_gates *)behind;
    void *const last = sums + p->units;
    int8_t *const next = (int8_t *)last;
    hil_dsp_widen_row(x, p->depth, rows);
    hil_dsp_widen_row(h, p->units, hidden_row);
    const int32_t *stream = p->stream;
    for (int32_t unit = 0; unit < p->units; unit++) {
        const struct hil_dsp_lstm_gates inputs = hil_dsp_lstm_s8_gates(
            rows, &stream, p->in_units, p->wide, p->in_multipliers, p->in_shifts);
        const struct hil_dsp_lstm_gates hidden = hil_dsp_lstm_s8_gates(
            hidden_row, &stream, p->hidden_units, p->wide, p->hidden_multipliers, p->hidden_shifts);
        sums[unit] = hil_dsp_lstm_both(inputs, hidden);
    }
    HIL_DSP_LSTM_UNITS(p, sums, c, new_c, next, hil_dsp_lstm_clamped_s8);
}

HIL_INLINE void hil_dsp_lstm_s8(const struct hil_dsp_lstm_s8 *p, const int8_t *in,
                                const int8_t *hidden, const int16_t *cell, int8_t *out,
                                int8_t *new_hidden, int16_t *new_cell, void *scratch) {
    void *const next = (uint32_t *)scratch + 2 * (p->in_units + p->hidden_units + p->units);
    HIL_LSTM_TURNS(p, hil_dsp_lstm_s8_step, in, hidden, cell, out, new_hidden, new_cell,
                   (int8_t *)next, scratch);
}

/*@kernel
name = "hil_dsp_lstm_s16"
requires = ["dsp"]
inputs = ["int16_t", "int16_t", "int16_t"]
outputs = ["int16_t", "int16_t", "int16_t"]
scratch = "8 * in_units + 8 * hidden_units + 10 * units"
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
    uint32_t *const rows = (uint32_t *)scratch;
    uint32_t *const hidden_row = rows + 2 * p->in_units;
    void *const behind = hidden_row + 2 * p->hidden_units;
    struct hil_dsp_lstm_gates *const sums = (struct hil_dsp_lstm_gates *)behind;
    void *const last = sums + p->units;
    int16_t *const next = (int16_t *)last;
    hil_dsp_vector_s16_row(x, p->depth, p->in_units, rows);
    hil_dsp_vector_s16_row(h, p->units, p->hidden_units, hidden_row);
    const int32_t *stream = p->stream;
    for (int32_t unit = 0; unit < p->units; unit++) {
        const struct hil_dsp_lstm_gates inputs =
            hil_dsp_lstm_s16_gates(rows, &stream, p->in_units, p->wide, p->in_multipliers);
        const struct hil_dsp_lstm_gates hidden = hil_dsp_lstm_s16_gates(
            hidden_row, &stream, p->hidden_units, p->wide, p->hidden_multipliers);
        sums[unit] = hil_dsp_lstm_both(inputs, hidden);
    }
    HIL_DSP_LSTM_UNITS(p, sums, c, new_c, next, hil_dsp_lstm_clamped_s16);
}

HIL_INLINE void hil_dsp_lstm_s16(const struct hil_dsp_lstm_s16 *p, const int16_t *in,
                                 const int16_t *hidden, const int16_t *cell, int16_t *out,
                                 int16_t *new_hidden, int16_t *new_cell, void *scratch) {
    void *const next = (uint32_t *)scratch + 2 * (p->in_units + p->hidden_units + p->units);
    HIL_LSTM_TURNS(p, hil_dsp_lstm_s16_step, in, hidden, cell, out, new_hidden, new_cell,
                   (int16_t *)next, scratch);
}

#endif
