/* Transposed convolutions as ordinary ones: the outputs that lie equally far from the windows that
 * cover them, a phase, are a convolution of the input with some of the filter's taps, in reverse.
 * So nothing is multiplied by a zero between the pixels. */
#ifndef HIL_KERNELS_GENERIC_PHASES_H
#define HIL_KERNELS_GENERIC_PHASES_H

#include <stdint.h>

#include "hil/kernels/generic/fields.h"
#include "hil/quant.h"

/* Words of a phase, in the order of struct hil_phase. */
#define HIL_PHASE_WORDS 10

#define HIL_PHASES_FIELDS                                                                          \
    HIL_IMAGES_FIELDS;                                                                             \
    int32_t out_c;        /* channels of the output */                                             \
    int32_t filter_h;     /* rows of the whole filter */                                           \
    int32_t filter_w;     /* columns of the whole filter */                                        \
    int32_t stride_h;     /* output rows from one of a phase to the next */                        \
    int32_t stride_w;     /* output columns from one of a phase to the next */                     \
    int32_t count;        /* phases */                                                             \
    const int32_t *phases /* HIL_PHASE_WORDS each */

struct hil_phase {
    int32_t out_y;    /* first row of the output */
    int32_t rows;     /* of the phase */
    int32_t in_y;     /* first row of the input under the first window; may be outside */
    int32_t filter_h; /* rows of its filter */
    int32_t out_x;    /* the same of columns */
    int32_t columns;
    int32_t in_x;
    int32_t filter_w;
    int32_t weights; /* where its weights begin */
    int32_t scales;  /* where what goes with its channels begins */
};

HIL_INLINE struct hil_phase hil_phase_of(const int32_t *words) {
    const struct hil_phase phase = {
        .out_y = words[0],
        .rows = words[1],
        .in_y = words[2],
        .filter_h = words[3],
        .out_x = words[4],
        .columns = words[5],
        .in_x = words[6],
        .filter_w = words[7],
        .weights = words[8],
        .scales = words[9],
    };
    return phase;
}

#endif
