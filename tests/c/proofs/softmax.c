/* Runs hil_generic_softmax_s8's arithmetic on every sum that a row can have and every exponential
 * of its table, and compares each output with the definition. The undefined-behaviour sanitizer
 * watches.
 *
 * stdin: near, depth; the 256 exponentials of the specification; one over each sum, by the
 * specification, from the least sum to the largest. stdout: what is wrong, or "checked N". */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "hil/kernels/generic/softmax.h"

enum { DISTANCES = 256, SUM_BITS = 12, SHARE_BITS = 31 - 8 + 12 };

static int32_t powers[DISTANCES];

/* The share of a row that is `sum`, by the definition: both factors are 0 or above. */
static int32_t expected(int32_t power, int32_t scale, int zeros) {
    const int64_t share = ((int64_t)power * scale + (INT64_C(1) << 30)) / (INT64_C(1) << 31);
    const int64_t unit = INT64_C(1) << (SHARE_BITS - zeros);
    const int64_t steps = (share + unit / 2) / unit;
    return (int32_t)(steps > 255 ? 255 : steps) - 128;
}

int main(void) {
    int32_t given[2];
    if (fread(given, 4, 2, stdin) != 2 || fread(powers, 4, DISTANCES, stdin) != DISTANCES) {
        return 2;
    }
    const int32_t near = given[0];
    const uint32_t least = (uint32_t)hil_rounding_divide_by_pot(powers[0], SUM_BITS);
    uint64_t checked = 0;
    for (uint32_t sum = least; sum <= least * (uint32_t)given[1]; sum++) {
        int32_t scale;
        int shift;
        if (fread(&scale, 4, 1, stdin) != 1) {
            return 2;
        }
        const int32_t found = hil_softmax_s8_scale(sum, &shift);
        if (found != scale) {
            printf("sum %" PRIu32 ": one over it is %" PRId32 ", not %" PRId32 "\n", sum, found,
                   scale);
            return 1;
        }
        const int zeros = __builtin_clz(sum);
        for (int32_t distance = 0; distance < DISTANCES; distance++) {
            const int32_t power = distance < near ? powers[distance] : 0;
            const int32_t out = hil_softmax_s8_output(power, scale, shift);
            if (out != expected(powers[distance], scale, zeros)) {
                printf("sum %" PRIu32 ", distance %" PRId32 ": %" PRId32 ", not %" PRId32 "\n", sum,
                       distance, out, expected(powers[distance], scale, zeros));
                return 1;
            }
            /* Behind the last exponential all are 0, for any sum. */
            checked++;
            if (powers[distance] == 0) {
                break;
            }
        }
    }
    printf("checked %" PRIu64 "\n", checked);
    return 0;
}
