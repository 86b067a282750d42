/* Sums of products with int16 that leave 32 bits: sums of parts are words, which are added up in
 * 64 bits and rounded as in generic/matmul_s16.h. */
#ifndef HIL_KERNELS_RISCV_PARTS_S16_H
#define HIL_KERNELS_RISCV_PARTS_S16_H

#include "hil/kernels/generic/matmul_s16.h"
#include "hil/kernels/generic/patch.h"
#include "hil/riscv.h"

/* Adds the sums of a part to `count` sums, of which the lower words lie before the upper ones; the
 * first part begins them. */
HIL_INLINE void hil_riscv_add_part(const int32_t *part, int32_t count, int32_t first,
                                   int32_t *sums) {
    for (int32_t i = 0; i < count; i++) {
        const uint32_t low = first ? 0 : (uint32_t)sums[i];
        const int32_t high = first ? 0 : sums[count + i];
        const uint32_t sum = low + (uint32_t)part[i];
        sums[i] = (int32_t)sum;
        sums[count + i] = high - (part[i] < 0 ? 1 : 0) + (sum < low ? 1 : 0);
    }
}

/* How sums become outputs, by column. */
struct hil_riscv_rounding {
    int32_t columns;
    int32_t out_min;
    int32_t out_max;
    const int32_t *bias;
    const int16_t *multipliers;
    const int8_t *shifts;
};

/* The rounding of a kernel whose parameters are `p`. */
#define HIL_RISCV_ROUNDING_OF(p, count)                                                            \
    {                                                                                              \
        .columns = (count), .out_min = (p)->out_min, .out_max = (p)->out_max, .bias = (p)->bias,   \
        .multipliers = (p)->multipliers, .shifts = (p)->shifts                                     \
    }

/* The outputs of `rows` rows of sums. */
HIL_INLINE void hil_riscv_round_sums(const struct hil_riscv_rounding *p, const int32_t *sums,
                                     int32_t rows, int8_t *out) {
    const int32_t count = rows * p->columns;
    for (int32_t row = 0; row < rows; row++) {
        for (int32_t column = 0; column < p->columns; column++) {
            const int64_t sum = (int64_t)sums[count] * (INT64_C(1) << 32) + (uint32_t)sums[0] +
                                hil_matmul_s16_bias(p->bias, column);
            const int32_t scaled =
                hil_requantize_once(sum, p->multipliers[column], p->shifts[column]);
            hil_riscv_sh(out, (uint32_t)hil_clamp(scaled, p->out_min, p->out_max));
            sums++;
            out += sizeof(int16_t);
        }
    }
}

#endif
