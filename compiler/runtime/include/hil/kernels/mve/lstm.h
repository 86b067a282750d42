/* Long short-term memory: what inputs and hidden states add to the gates, by the blocks of
 * blocks_s8.h or blocks_s16.h, then eight units at a time. Gates follow each other, each filled up
 * to whole eights of units. */
#ifndef HIL_KERNELS_MVE_LSTM_H
#define HIL_KERNELS_MVE_LSTM_H

#include "hil/kernels/generic/lstm.h"
#include "hil/kernels/mve/matmul_s16.h"
#include "hil/kernels/mve/matmul_s8.h"

#define HIL_MVE_LSTM_UNITS 8

#define HIL_MVE_LSTM_FIELDS                                                                        \
    HIL_LSTM_FIELDS;                                                                               \
    HIL_LSTM_CELL_FIELDS;                                                                          \
    int32_t eights;          /* of units, their number rounded up */                               \
    int32_t in_chunks;       /* of 16 weights of an input, the depth rounded up */                 \
    int32_t hidden_chunks;   /* of 16 weights of a hidden state */                                 \
    const int8_t *in_stream; /* of the gates of inputs, as blocks_s8.h or blocks_s16.h draws it */ \
    const int8_t *hidden_stream /* of the gates of hidden states */

/* x * multiplier * 2^(shift - 31) as hil_requantize(), for shift <= 0 and |x| < 2^30. */
HIL_INLINE int32x4_t hil_mve_requantized(int32x4_t x, int32_t multiplier, int32_t shift) {
    int32x4_t y = vqrdmulhq_n_s32(x, multiplier);
    if (shift < 0) {
        y = vsubq_m_n_s32(y, y, 1, vcmpltq_n_s32(y, 0));
    }
    return vrshlq_n_s32(y, shift);
}

/* As hil_lstm_between(). */
HIL_INLINE int32x4_t hil_mve_lstm_between(const int16_t *table, int32x4_t place, int bits,
                                          int32_t half) {
    const uint32x4_t step = vreinterpretq_u32_s32(vshlq_r_s32(place, -bits));
    const int32x4_t first = vldrhq_gather_shifted_offset_s32(table, step);
    const int32x4_t second = vldrhq_gather_shifted_offset_s32(table + 1, step);
    const int32x4_t from = vandq_s32(place, vdupq_n_s32((1 << bits) - 1));
    int32x4_t between = vmulq_s32(from, vsubq_s32(second, first));
    between = vmlaq_n_s32(between, first, 1 << bits);
    const int32x4_t sign = vshlq_r_s32(place, -(bits + 8));
    return vaddq_s32(vaddq_n_s32(between, half - 1), sign);
}

HIL_INLINE int32x4_t hil_mve_lstm_logistic(const int16_t *table, int32x4_t x) {
    const int32x4_t place = vmlaq_n_s32(vdupq_n_s32(256 << 9), x, 3);
    return vshrq_n_s32(hil_mve_lstm_between(table, place, 9, (INT32_C(1) << 24) + 512), 10);
}

HIL_INLINE int32x4_t hil_mve_lstm_tanh(const int16_t *table, int32x4_t position) {
    const int32x4_t place = vaddq_n_s32(position, 256 << 8);
    const int32x4_t inside =
        vminq_s32(vmaxq_s32(place, vdupq_n_s32(0)), vdupq_n_s32((512 << 8) - 1));
    return vshrq_n_s32(hil_mve_lstm_between(table, inside, 8, 128), 8);
}

/* As hil_lstm_unit() for four units; *cell is their old state, then the new one. */
HIL_INLINE int32x4_t hil_mve_lstm_units(const struct hil_lstm_cell *p, int32x4_t input,
                                        int32x4_t forget, int32x4_t update, int32x4_t output,
                                        int32x4_t *cell) {
    const int32x4_t kept =
        hil_mve_requantized(vmulq_s32(hil_mve_lstm_logistic(p->table, forget), *cell),
                            p->forget_multiplier, p->forget_shift);
    const int32x4_t open = hil_mve_lstm_logistic(p->table, input);
    const int32x4_t fresh = hil_mve_lstm_tanh(p->table, vmulq_n_s32(update, 3));
    const int32x4_t added =
        hil_mve_requantized(vmulq_s32(open, fresh), p->update_multiplier, p->update_shift);
    const int16x8_t narrow = vdupq_n_s16(0);
    const int16x8_t both = vqaddq_s16(vqmovnbq_s32(narrow, kept), vqmovnbq_s32(narrow, added));
    int32x4_t state = vmovlbq_s16(both);
    if (p->clip <= INT16_MAX) {
        state = vminq_s32(vmaxq_s32(state, vdupq_n_s32(-p->clip)), vdupq_n_s32(p->clip));
    }
    *cell = state;
    const int32_t half = p->tanh_shift > 0 ? INT32_C(1) << (p->tanh_shift - 1) : 0;
    const int32x4_t position =
        vshlq_r_s32(vaddq_n_s32(vmulq_n_s32(state, p->tanh_multiplier), half), -p->tanh_shift);
    const int32x4_t shown = hil_mve_lstm_tanh(p->table, position);
    const int32x4_t gate = hil_mve_lstm_logistic(p->table, output);
    return vaddq_n_s32(hil_mve_requantized(vmulq_s32(shown, gate), p->out_multiplier, p->out_shift),
                       p->out_zero_point);
}

/* The new hidden states of eight units from what is added to their gates, in int16, saturated. */
HIL_INLINE int16x8_t hil_mve_lstm_eight(const struct hil_lstm_cell *p, const int16_t *inputs,
                                        const int16_t *hidden, int32_t step, const int16_t *c,
                                        int16_t *new_c, mve_pred16_t inside) {
    int16x8_t sums[HIL_LSTM_GATES];
#pragma GCC unroll 4
    for (int gate = 0; gate < HIL_LSTM_GATES; gate++) {
        sums[gate] = vqaddq_s16(vldrhq_s16(inputs + gate * step), vldrhq_s16(hidden + gate * step));
    }
    const int16x8_t cell = vldrhq_z_s16(c, inside);
    int32x4_t even = vmovlbq_s16(cell);
    int32x4_t odd = vmovltq_s16(cell);
    const int32x4_t shown_even =
        hil_mve_lstm_units(p, vmovlbq_s16(sums[0]), vmovlbq_s16(sums[1]), vmovlbq_s16(sums[2]),
                           vmovlbq_s16(sums[3]), &even);
    const int32x4_t shown_odd =
        hil_mve_lstm_units(p, vmovltq_s16(sums[0]), vmovltq_s16(sums[1]), vmovltq_s16(sums[2]),
                           vmovltq_s16(sums[3]), &odd);
    vstrhq_p_s16(new_c, vmovntq_s32(vreinterpretq_s16_s32(even), odd), inside);
    return vqmovntq_s32(vqmovnbq_s32(vdupq_n_s16(0), shown_even), shown_odd);
}

/*@kernel
name = "hil_lstm_s8_mve"
requires = ["mve"]
inputs = ["int8_t", "int8_t", "int16_t"]
outputs = ["int8_t", "int8_t", "int16_t"]
scratch = "16 * in_chunks + 16 * hidden_chunks + 128 * eights + units"
order = "walk"
reads = "lstm"
code = 1900
[cost.counts]
turn = "batch * steps"
copied = "turn * (in_chunks + hidden_chunks)"
eight = "turn * eights"
eight_chunk = "4 * eight * (in_chunks + hidden_chunks)"
[cost.on.cortex-m55]
call = 22.01
turn = 71.01
copied = 16.33
eight = 695.5
eight_chunk = 16.87
@*/
struct hil_lstm_s8_mve {
    HIL_MVE_LSTM_FIELDS;
};

/* What values, copied to whole chunks, add to the gates. */
HIL_INLINE void hil_mve_lstm_s8_gates(const int8_t *x, const int8_t *stream, int32_t chunks,
                                      int32_t eights, int16_t *gates) {
    const struct hil_mve_block block = {
        .steps = HIL_LSTM_GATES * eights,
        .skipped = hil_mve_skip(chunks, HIL_MVE_VECTOR_SLOT_BYTES),
        .x_bytes = HIL_MVE_CHUNK * chunks,
        .zero_point = 0,
        .low = 0,
        .high = 0,
        .offsets = {0},
    };
    void *const out = gates;
    hil_mve_vector_s8_wide(x, stream, (int8_t *)out, &block);
}

HIL_INLINE void hil_mve_lstm_s8_step(const struct hil_lstm_s8_mve *p, const int8_t *x,
                                     const int8_t *h, const int16_t *c, int16_t *new_c,
                                     void *scratch) {
    const struct hil_lstm_cell cell = HIL_LSTM_CELL(p);
    const int32_t step = HIL_MVE_LSTM_UNITS * p->eights;
    int16_t *const inputs = (int16_t *)scratch;
    int16_t *const hidden = inputs + HIL_LSTM_GATES * step;
    void *const behind = hidden + HIL_LSTM_GATES * step;
    int8_t *const row = (int8_t *)behind;
    int8_t *const hidden_row = hil_mve_copy_chunks(row, x, p->depth, HIL_MVE_CHUNK);
    int8_t *next = hil_mve_copy_chunks(hidden_row, h, p->units, HIL_MVE_CHUNK);
    hil_mve_lstm_s8_gates(row, p->in_stream, p->in_chunks, p->eights, inputs);
    hil_mve_lstm_s8_gates(hidden_row, p->hidden_stream, p->hidden_chunks, p->eights, hidden);
    for (int32_t unit = 0; unit < p->units; unit += HIL_MVE_LSTM_UNITS) {
        const mve_pred16_t inside = vctp16q((uint32_t)(p->units - unit));
        const int16x8_t shown = hil_mve_lstm_eight(&cell, inputs + unit, hidden + unit, step,
                                                   c + unit, new_c + unit, inside);
        const int8x16_t bytes = vqmovnbq_s16(vdupq_n_s8(0), shown);
        vstrbq_p_s16(next + unit, vreinterpretq_s16_s8(bytes), inside);
    }
}

HIL_INLINE void hil_lstm_s8_mve(const struct hil_lstm_s8_mve *p, const int8_t *in,
                                const int8_t *hidden, const int16_t *cell, int8_t *out,
                                int8_t *new_hidden, int16_t *new_cell, void *scratch) {
    const int8_t *const next = (const int8_t *)scratch + 128 * p->eights +
                               HIL_MVE_CHUNK * (p->in_chunks + p->hidden_chunks);
    HIL_LSTM_TURNS(p, hil_mve_lstm_s8_step, in, hidden, cell, out, new_hidden, new_cell, next,
                   scratch);
}

/*@kernel
name = "hil_lstm_s16_mve"
requires = ["mve"]
inputs = ["int16_t", "int16_t", "int16_t"]
outputs = ["int16_t", "int16_t", "int16_t"]
scratch = "128 * eights + 32 * (in_chunks + hidden_chunks) + 2 * units"
order = "walk"
reads = "lstm"
code = 1900
[cost.counts]
turn = "batch * steps"
copied = "turn * (in_chunks + hidden_chunks)"
eight = "turn * eights"
four_chunk = "8 * eight * (in_chunks + hidden_chunks)"
[cost.on.cortex-m55]
copied = 71.16
eight = 791.2
four_chunk = 14.77
@*/
struct hil_lstm_s16_mve {
    HIL_MVE_LSTM_FIELDS;
};

/* What values add to the gates. */
HIL_INLINE void hil_mve_lstm_s16_gates(const int16_t *x, int32_t depth, const int8_t *stream,
                                       int32_t chunks, int32_t eights, int16_t *gates,
                                       void *scratch) {
    const struct hil_vector_s16_mve vector = {
        .rows = 1,
        .depth = depth,
        .chunks = chunks,
        .columns = HIL_LSTM_GATES * HIL_MVE_LSTM_UNITS * eights,
        .shifted = 0,
        .out_min = INT16_MIN,
        .out_max = INT16_MAX,
        .stream = stream,
    };
    hil_vector_s16_mve(&vector, x, gates, scratch);
}

HIL_INLINE void hil_mve_lstm_s16_step(const struct hil_lstm_s16_mve *p, const int16_t *x,
                                      const int16_t *h, const int16_t *c, int16_t *new_c,
                                      void *scratch) {
    const struct hil_lstm_cell cell = HIL_LSTM_CELL(p);
    const int32_t step = HIL_MVE_LSTM_UNITS * p->eights;
    int16_t *const inputs = (int16_t *)scratch;
    int16_t *const hidden = inputs + HIL_LSTM_GATES * step;
    int16_t *const row = hidden + HIL_LSTM_GATES * step;
    int16_t *const next = row + HIL_MVE_CHUNK * (p->in_chunks + p->hidden_chunks);
    hil_mve_lstm_s16_gates(x, p->depth, p->in_stream, p->in_chunks, p->eights, inputs, row);
    hil_mve_lstm_s16_gates(h, p->units, p->hidden_stream, p->hidden_chunks, p->eights, hidden, row);
    for (int32_t unit = 0; unit < p->units; unit += HIL_MVE_LSTM_UNITS) {
        const mve_pred16_t inside = vctp16q((uint32_t)(p->units - unit));
        const int16x8_t shown = hil_mve_lstm_eight(&cell, inputs + unit, hidden + unit, step,
                                                   c + unit, new_c + unit, inside);
        vstrhq_p_s16(next + unit, shown, inside);
    }
}

HIL_INLINE void hil_lstm_s16_mve(const struct hil_lstm_s16_mve *p, const int16_t *in,
                                 const int16_t *hidden, const int16_t *cell, int16_t *out,
                                 int16_t *new_hidden, int16_t *new_cell, void *scratch) {
    const int16_t *const next = (const int16_t *)scratch + 64 * p->eights +
                                HIL_MVE_CHUNK * (p->in_chunks + p->hidden_chunks);
    HIL_LSTM_TURNS(p, hil_mve_lstm_s16_step, in, hidden, cell, out, new_hidden, new_cell, next,
                   scratch);
}

#endif
