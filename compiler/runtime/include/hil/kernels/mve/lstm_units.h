/* The units of LSTMs on Helium: the new states of four at a time from the arguments of their gates.
 * In assembly because the compiler takes up the next gate before it is done with one, and spills.
 *
 * Tile: 4 units, one in each lane of 32 bits; the last ones by tail predication.
 *
 *   q0-q3   what is computed: arguments and places, steps, rises, results
 *   q4      what the cell keeps, then its new state
 *   q5      the input gate, then the tangent of the new state
 *   q6, q7  the masks of a place in a step, 255 and 511
 *
 * Registers: r0-r3 the arguments of the input, forget, cell and output gate; r4 cell, r5 new cell,
 * r6 new hidden state; r7 the table's middle, r8 an entry further; r9 three; r10 one half, moved up
 * by 25; r11, r12 multiplier and shift; lr units left. On the stack: low at 0 and high at 16, each
 * four times, the fields of the block up to the zero point from 32 on, d8-d15 at 72.
 *
 * Data: in memory order
 *
 *   gates     int16 [4][8 * eights], Q3.12
 *   table     int16 [513], of the logistic function less one half
 *   cell      int16 [units], Q of its scale
 *   next      int8 or int16 [units]
 *
 * Order: a unit's arguments and cell are read before its new states are written; units go forward.
 *
 * Bounds: entries of the table are below 2^15 and rises below 2^12, so what is between two entries
 * stays below 2^26; products of gates, of 16 bits each, stay within 2^30, so vqrdmulh takes them
 * as they are.
 *
 * Output: hil_lstm_unit(). Products are scaled by vqrdmulh and vrshl, the reference's double
 * rounding but for halves below zero; one is taken from negative products first, which is exact for
 * shifts below 0 (`_shifts_all()`).
 *
 * Scratch: none.
 *
 * Cost: 103 instructions for four units.
 *
 * Tests: no twin in C; the numpy reference gives what must come out (tests/board/test_kernels.py).
 */
#ifndef HIL_KERNELS_MVE_LSTM_UNITS_H
#define HIL_KERNELS_MVE_LSTM_UNITS_H

#include <stddef.h>
#include <stdint.h>

#include "hil/kernels/generic/lstm.h"
#include "hil/kernels/mve/blocks_s8.h"

/* Units of a gate are filled up to whole eights. */
#define HIL_MVE_LSTM_UNITS 8

/* What the units of a step share, and where theirs are. The assembly knows the offsets. */
struct hil_mve_units {
    int32_t forget_multiplier; /*  0 */
    int32_t forget_shift;      /*  4: these three are below 0, to the right */
    int32_t update_multiplier; /*  8 */
    int32_t update_shift;      /* 12 */
    int32_t tanh_multiplier;   /* 16 */
    int32_t tanh_shift;        /* 20: not above 0 */
    int32_t out_multiplier;    /* 24 */
    int32_t out_shift;         /* 28 */
    int32_t out_zero_point;    /* 32 */
    int32_t low;               /* 36: of the cell state */
    int32_t high;              /* 40 */
    int32_t units;             /* 44 */
    int32_t gate_bytes;        /* 48: from the arguments of a gate to those of the next */
    const int16_t *middle;     /* 52: of the table */
    const int16_t *gates;      /* 56: their arguments */
    const int16_t *cell;       /* 60 */
    int16_t *new_cell;         /* 64 */
    void *next;                /* 68: the new hidden states */
};

HIL_MVE_AT(hil_mve_units, forget_multiplier, 0);
HIL_MVE_AT(hil_mve_units, forget_shift, 4);
HIL_MVE_AT(hil_mve_units, update_multiplier, 8);
HIL_MVE_AT(hil_mve_units, update_shift, 12);
HIL_MVE_AT(hil_mve_units, tanh_multiplier, 16);
HIL_MVE_AT(hil_mve_units, tanh_shift, 20);
HIL_MVE_AT(hil_mve_units, out_multiplier, 24);
HIL_MVE_AT(hil_mve_units, out_shift, 28);
HIL_MVE_AT(hil_mve_units, out_zero_point, 32);
HIL_MVE_AT(hil_mve_units, low, 36);
HIL_MVE_AT(hil_mve_units, high, 40);
HIL_MVE_AT(hil_mve_units, units, 44);
HIL_MVE_AT(hil_mve_units, gate_bytes, 48);
HIL_MVE_AT(hil_mve_units, middle, 52);
HIL_MVE_AT(hil_mve_units, gates, 56);
HIL_MVE_AT(hil_mve_units, cell, 60);
HIL_MVE_AT(hil_mve_units, new_cell, 64);
HIL_MVE_AT(hil_mve_units, next, 68);

/* clang-format off */

/* The table between two of its steps, of 2^bits each, at the places in x, counted from its middle,
 * before it is shifted to the right by `bits`, rounded half away from the middle: `to` gets it, and
 * `multiply` multiplies the rise `t` with the place in the step, `s`. Steps below the middle are
 * offsets that wrap round, as addresses do. */
#define HIL_MVE_LSTM_BETWEEN(x, s, t, to, bits, mask, multiply)                                    \
    "vshr.s32 " s ", " x ", #" bits "\n"                                                           \
    "vldrh.s32 " to ", [r7, " s ", uxtw #1]\n"                                                     \
    "vldrh.s32 " t ", [r8, " s ", uxtw #1]\n"                                                      \
    "vsub.i32 " t ", " t ", " to "\n"                                                              \
    "vand " s ", " x ", " mask "\n"                                                                \
    multiply                                                                                       \
    "vshl.i32 " to ", " to ", #" bits "\n"                                                         \
    "vadd.i32 " to ", " to ", " t "\n"                                                             \
    "vshr.s32 " x ", " x ", #31\n"                                                                 \
    "vadd.i32 " to ", " to ", " x "\n"

/* From the arguments in x, in Q3.12; spoils x, s and t. One half comes with the product. */
#define HIL_MVE_LSTM_LOGISTIC(x, s, t, to)                                                         \
    "vmul.i32 " x ", " x ", r9\n"                                                                  \
    HIL_MVE_LSTM_BETWEEN(x, s, t, to, "9", "q7", "vmlas.s32 " t ", " s ", r10\n")                  \
    "vrshr.s32 " to ", " to ", #10\n"

/* From the places in x, saturated to 17 bits first; spoils x, s and t. */
#define HIL_MVE_LSTM_TANH(x, s, t, to)                                                             \
    "vqshl.s32 " x ", " x ", #15\n"                                                                \
    "vshr.s32 " x ", " x ", #15\n"                                                                 \
    HIL_MVE_LSTM_BETWEEN(x, s, t, to, "8", "q6", "vmul.i32 " t ", " t ", " s "\n")                 \
    "vrshr.s32 " to ", " to ", #8\n"

/* x times the multiplier at `at`, with the shift behind it, as hil_requantize(); spoils t. */
#define HIL_MVE_LSTM_SCALE(x, t, at)                                                               \
    "ldrd r11, r12, [sp, #" at "]\n"                                                               \
    "vqrdmulh.s32 " x ", " x ", r11\n"                                                             \
    "vshr.s32 " t ", " x ", #31\n"                                                                 \
    "vadd.i32 " x ", " x ", " t "\n"                                                               \
    "vrshl.s32 " x ", r12\n"

#define HIL_MVE_LSTM_UNITS_OF(store)                                                               \
    "push {r4-r11, lr}\n"                                                                          \
    "vpush {d8-d15}\n"                                                                             \
    "sub sp, #72\n"                                                                                \
    "ldrd r10, r11, [r0, #36]\n"                                                                   \
    "vdup.32 q0, r10\n"                                                                            \
    "vstrw.32 q0, [sp]\n"                                                                          \
    "vdup.32 q0, r11\n"                                                                            \
    "vstrw.32 q0, [sp, #16]\n"                                                                     \
    "ldmia r0!, {r1-r9}\n"                                                                         \
    "add r10, sp, #32\n"                                                                           \
    "stmia r10, {r1-r9}\n"                                                                         \
    "ldrd r12, r9, [r0, #8]\n"                                                                     \
    "ldrd r7, r1, [r0, #16]\n"                                                                     \
    "ldrd r4, r5, [r0, #24]\n"                                                                     \
    "ldr r6, [r0, #32]\n"                                                                          \
    "mov r0, r1\n"                                                                                 \
    "add r1, r0, r9\n"                                                                             \
    "add r2, r1, r9\n"                                                                             \
    "add r3, r2, r9\n"                                                                             \
    "add r8, r7, #2\n"                                                                             \
    "mov r9, #511\n"                                                                               \
    "vdup.32 q7, r9\n"                                                                             \
    "mov r9, #255\n"                                                                               \
    "vdup.32 q6, r9\n"                                                                             \
    "mov r9, #3\n"                                                                                 \
    "mov r10, #0x1000000\n"                                                                        \
    "dlstp.32 lr, r12\n"                                                                           \
    "1:\n"                                                                                         \
    "vldrh.s32 q0, [r1], #8\n"                                                                     \
    HIL_MVE_LSTM_LOGISTIC("q0", "q1", "q2", "q3")                                                  \
    "vldrh.s32 q0, [r4], #8\n"                                                                     \
    "vmul.i32 q0, q0, q3\n"                                                                        \
    HIL_MVE_LSTM_SCALE("q0", "q1", "32")                                                           \
    "vqmovnb.s32 q4, q0\n"                                                                         \
    "vldrh.s32 q0, [r0], #8\n"                                                                     \
    HIL_MVE_LSTM_LOGISTIC("q0", "q1", "q2", "q5")                                                  \
    "vldrh.s32 q0, [r2], #8\n"                                                                     \
    "vmul.i32 q0, q0, r9\n"                                                                        \
    HIL_MVE_LSTM_TANH("q0", "q1", "q2", "q3")                                                      \
    "vmul.i32 q0, q3, q5\n"                                                                        \
    HIL_MVE_LSTM_SCALE("q0", "q1", "40")                                                           \
    "vqmovnb.s32 q0, q0\n"                                                                         \
    "vqadd.s16 q4, q4, q0\n"                                                                       \
    "vmovlb.s16 q4, q4\n"                                                                          \
    "vldrw.32 q0, [sp]\n"                                                                          \
    "vldrw.32 q1, [sp, #16]\n"                                                                     \
    "vmax.s32 q4, q4, q0\n"                                                                        \
    "vmin.s32 q4, q4, q1\n"                                                                        \
    "vstrh.32 q4, [r5], #8\n"                                                                      \
    "ldrd r11, r12, [sp, #48]\n"                                                                   \
    "vmul.i32 q0, q4, r11\n"                                                                       \
    "vrshl.s32 q0, r12\n"                                                                          \
    HIL_MVE_LSTM_TANH("q0", "q1", "q2", "q5")                                                      \
    "vldrh.s32 q0, [r3], #8\n"                                                                     \
    HIL_MVE_LSTM_LOGISTIC("q0", "q1", "q2", "q3")                                                  \
    "vmul.i32 q0, q3, q5\n"                                                                        \
    HIL_MVE_LSTM_SCALE("q0", "q1", "56")                                                           \
    "ldr r11, [sp, #64]\n"                                                                         \
    "vadd.i32 q0, q0, r11\n"                                                                       \
    "vqmovnb.s32 q0, q0\n"                                                                         \
    store                                                                                          \
    "letp lr, 1b\n"                                                                                \
    "add sp, #72\n"                                                                                \
    "vpop {d8-d15}\n"                                                                              \
    "pop {r4-r11, pc}\n"

/* clang-format on */

#define HIL_MVE_LSTM_FUNCTION(name)                                                                \
    __attribute__((naked, noipa, unused)) static void name(const struct hil_mve_units *units       \
                                                           __attribute__((unused)))

HIL_MVE_LSTM_FUNCTION(hil_mve_lstm_units_s8) {
    __asm__(HIL_MVE_LSTM_UNITS_OF("vqmovnb.s16 q0, q0\nvstrb.32 q0, [r6], #4\n"));
}

HIL_MVE_LSTM_FUNCTION(hil_mve_lstm_units_s16) {
    __asm__(HIL_MVE_LSTM_UNITS_OF("vstrh.32 q0, [r6], #8\n"));
}

/* What the units of a step share. */
#define HIL_MVE_LSTM_SHARED(p, gates_, cell_, new_cell_, next_)                                    \
    {                                                                                              \
        .forget_multiplier = (p)->forget_multiplier, .forget_shift = (p)->forget_shift,            \
        .update_multiplier = (p)->update_multiplier, .update_shift = (p)->update_shift,            \
        .tanh_multiplier = (p)->tanh_multiplier, .tanh_shift = -(p)->tanh_shift,                   \
        .out_multiplier = (p)->out_multiplier, .out_shift = (p)->out_shift,                        \
        .out_zero_point = (p)->out_zero_point,                                                     \
        .low = (p)->clip > INT16_MAX ? INT16_MIN : -(p)->clip,                                     \
        .high = (p)->clip > INT16_MAX ? INT16_MAX : (p)->clip, .units = (p)->units,                \
        .gate_bytes = 2 * HIL_MVE_LSTM_UNITS * (p)->eights, .middle = (p)->table + 256,            \
        .gates = (gates_), .cell = (cell_), .new_cell = (new_cell_), .next = (next_),              \
    }

#endif
