/* Elements of one tensor or of another, as a third of bools says, with broadcasting. */
#ifndef HIL_KERNELS_GENERIC_SELECT_H
#define HIL_KERNELS_GENERIC_SELECT_H

#include <stdint.h>

#include "hil/kernels/generic/move.h"
#include "hil/kernels/generic/walk.h"
#include "hil/quant.h"

/*@kernel
name = "hil_generic_select"
requires = []
inputs = ["uint8_t", "void", "void"]
outputs = ["void"]
scratch = "0"
order = "elementwise"
code = 44
[cost]
row = "rows"
element = "rows * length"
@*/
struct hil_generic_select {
    int32_t rows;                    /* innermost loops of `length` elements */
    int32_t counts[HIL_WALK_LOOPS];  /* turns of the loops around them */
    int32_t c_jumps[HIL_WALK_LOOPS]; /* by which the condition moves as each loop advances */
    int32_t a_jumps[HIL_WALK_LOOPS]; /* the same of what is taken where it holds, in bytes */
    int32_t b_jumps[HIL_WALK_LOOPS]; /* the same of what is taken elsewhere, in bytes */
    int32_t length;                  /* elements of an innermost loop */
    int32_t c_step;                  /* from one bool to the next; 0: one for all */
    int32_t a_step;                  /* the same of what is taken where it holds, in bytes */
    int32_t b_step;                  /* the same of what is taken elsewhere, in bytes */
    int32_t bytes;                   /* of an element */
};

HIL_INLINE void hil_generic_select(const struct hil_generic_select *p, const uint8_t *condition,
                                   const void *a, const void *b, void *out) {
    int32_t index[HIL_WALK_LOOPS] = {0};
    int32_t c_row = 0;
    const uint8_t *a_row = (const uint8_t *)a;
    const uint8_t *b_row = (const uint8_t *)b;
    uint8_t *target = (uint8_t *)out;
    for (int32_t row = 0; row < p->rows; row++) {
        int32_t c = c_row;
        const uint8_t *from_a = a_row;
        const uint8_t *from_b = b_row;
        for (int32_t n = 0; n < p->length; n++) {
            const uint8_t *from = condition[c] ? from_a : from_b;
            if (p->bytes == 1) {
                *target = *from;
            } else {
                hil_move(target, from, p->bytes);
            }
            target += p->bytes;
            c += p->c_step;
            from_a += p->a_step;
            from_b += p->b_step;
        }
        const int loop = hil_walk_next(index, p->counts);
        c_row += p->c_jumps[loop];
        a_row += p->a_jumps[loop];
        b_row += p->b_jumps[loop];
    }
}

#endif
