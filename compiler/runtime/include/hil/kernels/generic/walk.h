/* Nested loops over strided memory whose number only the parameters know. */
#ifndef HIL_KERNELS_GENERIC_WALK_H
#define HIL_KERNELS_GENERIC_WALK_H

#include <stdint.h>

#include "hil/quant.h"

/* Loops around a kernel's innermost one. A nest of fewer has loops that run once in front. */
#define HIL_WALK_LOOPS 5

/* Turns the innermost loop once and carries into those around it; index starts at zeros. Returns
 * the loop that advanced: all inside of it start again, and the position of each operand moves by
 * the jump that the parameters state for this loop. */
HIL_INLINE int hil_walk_next(int32_t *index, const int32_t *counts) {
    int loop = HIL_WALK_LOOPS - 1;
    index[loop]++;
    while (loop > 0 && index[loop] == counts[loop]) {
        index[loop] = 0;
        loop--;
        index[loop]++;
    }
    return loop;
}

#endif
