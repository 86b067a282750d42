/* Bytes at other places, sixteen at a time. */
#ifndef HIL_KERNELS_MVE_MOVE_H
#define HIL_KERNELS_MVE_MOVE_H

#include <arm_mve.h>
#include <stdint.h>

#include "hil/quant.h"

/* Sixteen bytes so far apart lie within reach of an offset of a byte. */
#define HIL_MVE_NEAR 17

/*@kernel
name = "hil_mve_swap_axes"
requires = ["mve"]
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "0"
order = "walk"
reads = "swap"
code = 140
[cost]
line = "blocks * min(rows, columns)"
sixteen = "line * ((max(rows, columns) + 15) // 16)"
@*/
struct hil_mve_swap_axes {
    int32_t blocks;  /* matrices, one after the other */
    int32_t rows;    /* of the input, columns of the output */
    int32_t columns; /* of the input, rows of the output; this or the other is at most 17 */
};

/* Matrices transposed: sixteen columns at a time each row is scattered, or, where columns are the
 * shorter side, each column is gathered, sixteen rows at a time. */
HIL_INLINE void hil_mve_swap_axes(const struct hil_mve_swap_axes *p, const int8_t *in,
                                  int8_t *out) {
    const int32_t wide = p->rows < p->columns;
    const int32_t lines = wide ? p->rows : p->columns;
    const int32_t length = wide ? p->columns : p->rows;
    const uint8x16_t lanes = vmulq_n_u8(vidupq_n_u8(0, 1), (uint8_t)lines);
    for (int32_t block = 0; block < p->blocks; block++) {
        if (wide) {
            for (int32_t at = 0; at < length; at += 16) {
                const mve_pred16_t mask = vctp8q((uint32_t)(length - at));
                for (int32_t line = 0; line < lines; line++) {
                    const int8x16_t bytes = vldrbq_z_s8(in + line * length + at, mask);
                    vstrbq_scatter_offset_p_s8(out + lines * at + line, lanes, bytes, mask);
                }
            }
        } else {
            for (int32_t line = 0; line < lines; line++) {
                for (int32_t at = 0; at < length; at += 16) {
                    const mve_pred16_t mask = vctp8q((uint32_t)(length - at));
                    const int8x16_t bytes =
                        vldrbq_gather_offset_z_s8(in + lines * at + line, lanes, mask);
                    vstrbq_p_s8(out + line * length + at, bytes, mask);
                }
            }
        }
        in += lines * length;
        out += lines * length;
    }
}

#endif
