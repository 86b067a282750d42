/* Bytes through a table of all bytes, sixteen at a time, by gathers. */
#ifndef HIL_KERNELS_MVE_TABLE_H
#define HIL_KERNELS_MVE_TABLE_H

#include <arm_mve.h>

#include "hil/quant.h"

/*@kernel
name = "hil_mve_lut_s8"
requires = ["mve"]
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "0"
order = "elementwise"
code = 92
[cost]
sixteen = "(size + 15) // 16"
@*/
struct hil_mve_lut_s8 {
    int32_t size;        /* elements */
    const int8_t *table; /* the values for the bytes 0x00 to 0xff */
};

HIL_INLINE void hil_mve_lut_s8(const struct hil_mve_lut_s8 *p, const int8_t *in, int8_t *out) {
    /* Sixteen are read before the first of them is written. */
    int32_t left = p->size;
#pragma GCC unroll 4
    for (; left >= 16; left -= 16) {
        vstrbq_s8(out, vldrbq_gather_offset_s8(p->table, vreinterpretq_u8_s8(vldrbq_s8(in))));
        in += 16;
        out += 16;
    }
    if (left > 0) {
        const mve_pred16_t mask = vctp8q((uint32_t)left);
        const uint8x16_t places = vreinterpretq_u8_s8(vldrbq_z_s8(in, mask));
        vstrbq_p_s8(out, vldrbq_gather_offset_z_s8(p->table, places, mask), mask);
    }
}

#endif
