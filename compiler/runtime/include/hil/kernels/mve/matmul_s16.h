/* Rows of int16 values times int8 weights: 1x1 convolutions, whose pixels are the rows, and fully
 * connected layers. */
#ifndef HIL_KERNELS_MVE_MATMUL_S16_H
#define HIL_KERNELS_MVE_MATMUL_S16_H

#include "hil/kernels/mve/columns_s16.h"
#include "hil/kernels/mve/split_s16.h"

/*@kernel
name = "hil_mve_matmul_s16"
requires = ["mve"]
inputs = ["int16_t"]
outputs = ["int16_t"]
scratch = "32 * chunks"
order = ["pixels 2"]
reads = "rows"
code = 800
[cost]
pair = "(rows + 1) // 2"
copied = "pair * chunks"
four = "pair * ((columns + 3) // 4)"
chunk = "four * chunks"
@*/
struct hil_mve_matmul_s16 {
    int32_t rows;  /* of the input */
    int32_t depth; /* elements of a row */
    HIL_MVE_COLUMNS_S16_FIELDS;
};

HIL_INLINE void hil_mve_matmul_s16(const struct hil_mve_matmul_s16 *p, const int16_t *in,
                                   int16_t *out, void *scratch) {
    const struct hil_mve_columns_s16 columns = HIL_MVE_COLUMNS_S16(p);
    int16_t *const x = (int16_t *)scratch;
    for (int32_t left = p->rows; left > 0; left -= 2) {
        hil_mve_place_s16(x, in, p->depth);
        hil_mve_place_s16(x + HIL_MVE_S16_CHUNK_SIZE, left > 1 ? in + p->depth : in, p->depth);
        hil_mve_columns_s16(&columns, x, left, out);
        in += 2 * p->depth;
        out += 2 * p->columns;
    }
}

/*@kernel
name = "hil_mve_matvec_s16"
requires = ["mve"]
inputs = ["int16_t"]
outputs = ["int16_t"]
scratch = "32 * chunks"
order = ["pixels 1"]
reads = "rows"
code = 938
shared = {hil_mve_vector_s16 = 534}
[cost]
row = "rows"
copied = "rows * chunks"
four = "rows * ((columns + 3) // 4)"
chunk = "four * chunks"
long = "four * (scaling == 2)"
@*/
struct hil_mve_matvec_s16 {
    int32_t rows;  /* of the input */
    int32_t depth; /* elements of a row */
    HIL_MVE_SPLIT_S16_FIELDS;
};

HIL_INLINE void hil_mve_matvec_s16(const struct hil_mve_matvec_s16 *p, const int16_t *in,
                                   int16_t *out, void *scratch) {
    const struct hil_mve_split_s16 columns = HIL_MVE_SPLIT_S16(p);
    int8_t *const x = (int8_t *)scratch;
    hil_mve_clear_split_s16(x, p->depth, p->chunks);
    for (int32_t rows = p->rows; rows > 0; rows--) {
        hil_mve_split_s16(x, in, p->depth);
        hil_mve_columns_of_split_s16(&columns, x, out);
        in += p->depth;
        out += p->columns;
    }
}

#endif
