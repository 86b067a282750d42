/* Rows of an int8 image under a tile of an emitted depthwise convolution. */
#ifndef HIL_KERNELS_RISCV_DEPTHWISE_S8_H
#define HIL_KERNELS_RISCV_DEPTHWISE_S8_H

#include "hil/kernels/generic/fields.h"
#include "hil/riscv.h"

struct hil_riscv_rows {
    const int8_t *in;
    const int8_t *pad; /* zero points, in the place of a row outside the image */
    int32_t in_h;
    int32_t row_bytes;
};

/* Row y of the image from a byte on, or the zero points. */
HIL_INLINE const int8_t *hil_riscv_row(const struct hil_riscv_rows *rows, int32_t y, int32_t from) {
    if ((uint32_t)y < (uint32_t)rows->in_h) {
        return rows->in + y * rows->row_bytes + from;
    }
    return rows->pad;
}

#endif
