/* Long short-term memory of integers, whose four gates of a unit are four columns of fours.h, for
 * cores that multiply words alone. */
#ifndef HIL_KERNELS_GENERIC_LSTM_4_COLUMNS_H
#define HIL_KERNELS_GENERIC_LSTM_4_COLUMNS_H

#include "hil/kernels/generic/four_columns.h"
#include "hil/kernels/generic/lstm.h"

HIL_LSTM_UNIT(hil_four_lstm_unit, hil_four_requantize_twice, hil_lstm_between)

/* What both kernels have; `shifts` are those of hil_requantize() or hil_four_requantize(). */
#define HIL_FOUR_LSTM_FIELDS                                                                       \
    HIL_LSTM_FIELDS;                                                                               \
    HIL_LSTM_CELL_FIELDS;                                                                          \
    int32_t in_multipliers[HIL_LSTM_GATES];     /* from sums of inputs to Q3.12 */                 \
    int32_t in_shifts[HIL_LSTM_GATES];          /* of the products with them */                    \
    int32_t hidden_multipliers[HIL_LSTM_GATES]; /* from sums of hidden states to Q3.12 */          \
    int32_t hidden_shifts[HIL_LSTM_GATES];      /* of the products with them */                    \
    const uint8_t *in_weights;                  /* of each unit, as fours.h draws them */          \
    const uint8_t *hidden_weights;              /* likewise */                                     \
    const int32_t *in_bias;                     /* [units][gates] */                               \
    const int32_t *hidden_bias                  /* [units][gates] */

/* What a row adds to the gates of a unit, scaled. */
#define HIL_FOUR_GATES(four_sums, requantize, x, weights, depth, bias, raised, multipliers,        \
                       shifts, scaled)                                                             \
    do {                                                                                           \
        uint32_t four[HIL_LSTM_GATES];                                                             \
        _Pragma("GCC unroll 4") for (int32_t gate = 0; gate < HIL_LSTM_GATES; gate++) {            \
            four[gate] = (uint32_t)(bias)[gate] - (raised);                                        \
        }                                                                                          \
        four_sums((x), (weights), (depth), four);                                                  \
        _Pragma("GCC unroll 4") for (int32_t gate = 0; gate < HIL_LSTM_GATES; gate++) {            \
            (scaled)[gate] = requantize((int32_t)four[gate], (multipliers)[gate], (shifts)[gate]); \
        }                                                                                          \
    } while (0)

/* A step of a sequence, of which `saturate` makes hidden states. */
#define HIL_FOUR_LSTM_STEP(p, four_sums, requantize, x, h, c, new_c, next, saturate)               \
    do {                                                                                           \
        const struct hil_lstm_cell cell = HIL_LSTM_CELL(p);                                        \
        const uint32_t in_raised = four_sums##_raised((x), (p)->depth);                            \
        const uint32_t hidden_raised = four_sums##_raised((h), (p)->units);                        \
        for (int32_t unit = 0; unit < (p)->units; unit++) {                                        \
            const int32_t at = HIL_LSTM_GATES * unit;                                              \
            int32_t sums[HIL_LSTM_GATES];                                                          \
            int32_t recurrent[HIL_LSTM_GATES];                                                     \
            HIL_FOUR_GATES(four_sums, requantize, (x), (p)->in_weights + at * (p)->depth,          \
                           (p)->depth, (p)->in_bias + at, in_raised, (p)->in_multipliers,          \
                           (p)->in_shifts, sums);                                                  \
            HIL_FOUR_GATES(four_sums, requantize, (h), (p)->hidden_weights + at * (p)->units,      \
                           (p)->units, (p)->hidden_bias + at, hidden_raised,                       \
                           (p)->hidden_multipliers, (p)->hidden_shifts, recurrent);                \
            for (int32_t gate = 0; gate < HIL_LSTM_GATES; gate++) {                                \
                sums[gate] = hil_lstm_sum(sums[gate], recurrent[gate]);                            \
            }                                                                                      \
            (next)[unit] = saturate(hil_four_lstm_unit(&cell, sums, (c)[unit], &(new_c)[unit]));   \
        }                                                                                          \
    } while (0)

/*@kernel
name = "hil_generic_lstm_s8_4_columns"
requires = []
inputs = ["int8_t", "int8_t", "int16_t"]
outputs = ["int8_t", "int8_t", "int16_t"]
scratch = "units"
order = "walk"
reads = "lstm"
code = 1500
[cost]
turn = "batch * steps"
unit = "turn * units"
value = "unit * (depth + units)"
@*/
struct hil_generic_lstm_s8_4_columns {
    HIL_FOUR_LSTM_FIELDS;
};

#define HIL_FOUR_HIDDEN_S8(shown) hil_clamp_s8((shown), INT8_MIN, INT8_MAX)

HIL_INLINE void hil_four_lstm_s8_step(const struct hil_generic_lstm_s8_4_columns *p,
                                      const int8_t *x, const int8_t *h, const int16_t *c,
                                      int16_t *new_c, void *scratch) {
    int8_t *const next = (int8_t *)scratch;
    HIL_FOUR_LSTM_STEP(p, hil_four_sums_s8, hil_four_requantize_twice, x, h, c, new_c, next,
                       HIL_FOUR_HIDDEN_S8);
}

HIL_INLINE void hil_generic_lstm_s8_4_columns(const struct hil_generic_lstm_s8_4_columns *p,
                                              const int8_t *in, const int8_t *hidden,
                                              const int16_t *cell, int8_t *out, int8_t *new_hidden,
                                              int16_t *new_cell, void *scratch) {
    HIL_LSTM_TURNS(p, hil_four_lstm_s8_step, in, hidden, cell, out, new_hidden, new_cell,
                   (int8_t *)scratch, scratch);
}

/*@kernel
name = "hil_generic_lstm_s16_4_columns"
requires = []
inputs = ["int16_t", "int16_t", "int16_t"]
outputs = ["int16_t", "int16_t", "int16_t"]
scratch = "2 * units"
order = "walk"
reads = "lstm"
code = 1500
[cost]
turn = "batch * steps"
unit = "turn * units"
value = "unit * (depth + units)"
@*/
struct hil_generic_lstm_s16_4_columns {
    HIL_FOUR_LSTM_FIELDS;
};

#define HIL_FOUR_HIDDEN_S16(shown) (int16_t) hil_saturate_s16(shown)

HIL_INLINE void hil_four_lstm_s16_step(const struct hil_generic_lstm_s16_4_columns *p,
                                       const int16_t *x, const int16_t *h, const int16_t *c,
                                       int16_t *new_c, void *scratch) {
    int16_t *const next = (int16_t *)scratch;
    HIL_FOUR_LSTM_STEP(p, hil_four_sums_s16, hil_four_requantize, x, h, c, new_c, next,
                       HIL_FOUR_HIDDEN_S16);
}

HIL_INLINE void hil_generic_lstm_s16_4_columns(const struct hil_generic_lstm_s16_4_columns *p,
                                               const int16_t *in, const int16_t *hidden,
                                               const int16_t *cell, int16_t *out,
                                               int16_t *new_hidden, int16_t *new_cell,
                                               void *scratch) {
    HIL_LSTM_TURNS(p, hil_four_lstm_s16_step, in, hidden, cell, out, new_hidden, new_cell,
                   (int16_t *)scratch, scratch);
}

#endif
