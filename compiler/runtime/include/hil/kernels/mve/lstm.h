/* Long short-term memory: what inputs and hidden states add to the gates, by the blocks of
 * wide_s8.h or blocks_s16.h, then four units at a time. Gates follow each other, each filled up to
 * whole eights of units. */
#ifndef HIL_KERNELS_MVE_LSTM_H
#define HIL_KERNELS_MVE_LSTM_H

#include "hil/kernels/generic/lstm.h"
#include "hil/kernels/mve/lstm_units.h"
#include "hil/kernels/mve/matmul_s16.h"
#include "hil/kernels/mve/matmul_s8.h"
#include "hil/kernels/mve/wide_s8.h"

#define HIL_MVE_LSTM_FIELDS                                                                        \
    HIL_LSTM_FIELDS;                                                                               \
    HIL_LSTM_CELL_FIELDS;                                                                          \
    int32_t eights;          /* of units, their number rounded up */                               \
    int32_t in_chunks;       /* of 16 weights of an input, the depth rounded up */                 \
    int32_t hidden_chunks;   /* of 16 weights of a hidden state */                                 \
    const int8_t *in_stream; /* of the gates of inputs, as wide_s8.h or blocks_s16.h draws it */   \
    const int8_t *hidden_stream /* of the gates of hidden states */

/*@kernel
name = "hil_mve_lstm_s8"
requires = ["mve"]
inputs = ["int8_t", "int8_t", "int16_t"]
outputs = ["int8_t", "int8_t", "int16_t"]
scratch = "16 * in_chunks + 16 * hidden_chunks + 64 * eights + units"
order = "walk"
reads = "lstm"
code = 1900
[cost]
turn = "batch * steps"
copied = "turn * (in_chunks + hidden_chunks)"
eight = "turn * eights"
eight_chunk = "4 * eight * (in_chunks + hidden_chunks)"
@*/
struct hil_mve_lstm_s8 {
    HIL_MVE_LSTM_FIELDS;
    int32_t raised; /* 1: sums of gates are shifted to the left, 0: none is */
};

HIL_INLINE void hil_mve_lstm_s8_step(const struct hil_mve_lstm_s8 *p, const int8_t *x,
                                     const int8_t *h, const int16_t *c, int16_t *new_c,
                                     void *scratch) {
    const int32_t groups = HIL_LSTM_GATES * p->eights;
    int16_t *const gates = (int16_t *)scratch;
    void *const behind = gates + HIL_MVE_LSTM_UNITS * groups;
    int8_t *const row = (int8_t *)behind;
    int8_t *const hidden_row = hil_mve_copy_chunks(row, x, p->depth, HIL_MVE_CHUNK);
    int8_t *const next = hil_mve_copy_chunks(hidden_row, h, p->units, HIL_MVE_CHUNK);
    hil_mve_wide(p->raised, 0, row, p->in_stream, p->in_chunks, groups, gates);
    hil_mve_wide(p->raised, 1, hidden_row, p->hidden_stream, p->hidden_chunks, groups, gates);
    const struct hil_mve_units units = HIL_MVE_LSTM_SHARED(p, gates, c, new_c, next);
    hil_mve_lstm_units_s8(&units);
}

HIL_INLINE void hil_mve_lstm_s8(const struct hil_mve_lstm_s8 *p, const int8_t *in,
                                const int8_t *hidden, const int16_t *cell, int8_t *out,
                                int8_t *new_hidden, int16_t *new_cell, void *scratch) {
    const int8_t *const next = (const int8_t *)scratch + 64 * p->eights +
                               HIL_MVE_CHUNK * (p->in_chunks + p->hidden_chunks);
    HIL_LSTM_TURNS(p, hil_mve_lstm_s8_step, in, hidden, cell, out, new_hidden, new_cell, next,
                   scratch);
}

/*@kernel
name = "hil_mve_lstm_s16"
requires = ["mve"]
inputs = ["int16_t", "int16_t", "int16_t"]
outputs = ["int16_t", "int16_t", "int16_t"]
scratch = "128 * eights + 32 * (in_chunks + hidden_chunks) + 2 * units"
order = "walk"
reads = "lstm"
code = 1900
[cost]
turn = "batch * steps"
copied = "turn * (in_chunks + hidden_chunks)"
eight = "turn * eights"
four_chunk = "8 * eight * (in_chunks + hidden_chunks)"
@*/
struct hil_mve_lstm_s16 {
    HIL_MVE_LSTM_FIELDS;
};

/* What values add to the gates. */
HIL_INLINE void hil_mve_lstm_s16_gates(const int16_t *x, int32_t depth, const int8_t *stream,
                                       int32_t chunks, int32_t eights, int16_t *gates,
                                       void *scratch) {
    const struct hil_mve_matvec_s16 vector = {
        .rows = 1,
        .depth = depth,
        .chunks = chunks,
        .columns = HIL_LSTM_GATES * HIL_MVE_LSTM_UNITS * eights,
        .scaling = HIL_MVE_S16_UPPER_WORD,
        .out_min = INT16_MIN,
        .out_max = INT16_MAX,
        .stream = stream,
    };
    hil_mve_matvec_s16(&vector, x, gates, scratch);
}

HIL_INLINE void hil_mve_lstm_s16_step(const struct hil_mve_lstm_s16 *p, const int16_t *x,
                                      const int16_t *h, const int16_t *c, int16_t *new_c,
                                      void *scratch) {
    const int32_t step = HIL_MVE_LSTM_UNITS * p->eights;
    int16_t *const gates = (int16_t *)scratch;
    int16_t *const hidden = gates + HIL_LSTM_GATES * step;
    int16_t *const row = hidden + HIL_LSTM_GATES * step;
    int16_t *const next = row + HIL_MVE_CHUNK * (p->in_chunks + p->hidden_chunks);
    hil_mve_lstm_s16_gates(x, p->depth, p->in_stream, p->in_chunks, p->eights, gates, row);
    hil_mve_lstm_s16_gates(h, p->units, p->hidden_stream, p->hidden_chunks, p->eights, hidden, row);
#pragma GCC unroll 4
    for (int32_t at = 0; at < HIL_LSTM_GATES * step; at += HIL_MVE_LSTM_UNITS) {
        vstrhq_s16(gates + at, vqaddq_s16(vldrhq_s16(gates + at), vldrhq_s16(hidden + at)));
    }
    const struct hil_mve_units units = HIL_MVE_LSTM_SHARED(p, gates, c, new_c, next);
    hil_mve_lstm_units_s16(&units);
}

HIL_INLINE void hil_mve_lstm_s16(const struct hil_mve_lstm_s16 *p, const int16_t *in,
                                 const int16_t *hidden, const int16_t *cell, int16_t *out,
                                 int16_t *new_hidden, int16_t *new_cell, void *scratch) {
    const int16_t *const next = (const int16_t *)scratch + 64 * p->eights +
                                HIL_MVE_CHUNK * (p->in_chunks + p->hidden_chunks);
    HIL_LSTM_TURNS(p, hil_mve_lstm_s16_step, in, hidden, cell, out, new_hidden, new_cell, next,
                   scratch);
}

#endif
