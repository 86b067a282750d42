/* Rows of floats times columns of weights, blocked and laid out as columns_s8.h says. Each sum runs
 * over the depth in order and takes the bias last, as the reference's does, so that they agree to
 * the last bit where the compiler does not fuse multiplications with additions. */
#ifndef HIL_KERNELS_GENERIC_COLUMNS_F32_H
#define HIL_KERNELS_GENERIC_COLUMNS_F32_H

#include <stdint.h>

#include "hil/kernels/generic/clamp_f32.h"

struct hil_columns_f32 {
    int32_t depth;
    int32_t count;
    float out_min;
    float out_max;
    const float *weights; /* [count / 4][depth][4], then [count % 4][depth] */
    const float *bias;
};

HIL_INLINE void hil_columns_f32_store(const struct hil_columns_f32 *p, int32_t column, float sum,
                                      float *out) {
    out[column] = hil_clamp_f32(sum + p->bias[column], p->out_min, p->out_max);
}

/* Two rows, the second right behind the first, times all columns. */
HIL_INLINE void hil_columns_f32_two_rows(const struct hil_columns_f32 *p, const float *rows,
                                         float *out_a, float *out_b) {
    const int32_t depth = p->depth;
    const int32_t blocked = p->count - p->count % 4;
    const float *w = p->weights;
    for (int32_t column = 0; column < blocked; column += 4) {
        const float *x = rows;
        float a0 = 0.0F;
        float a1 = 0.0F;
        float a2 = 0.0F;
        float a3 = 0.0F;
        float b0 = 0.0F;
        float b1 = 0.0F;
        float b2 = 0.0F;
        float b3 = 0.0F;
        for (int32_t k = depth; k > 0; k--) {
            const float a = x[0];
            const float b = x[depth];
            a0 += a * w[0];
            b0 += b * w[0];
            a1 += a * w[1];
            b1 += b * w[1];
            a2 += a * w[2];
            b2 += b * w[2];
            a3 += a * w[3];
            b3 += b * w[3];
            x++;
            w += 4;
        }
        hil_columns_f32_store(p, column, a0, out_a);
        hil_columns_f32_store(p, column, b0, out_b);
        hil_columns_f32_store(p, column + 1, a1, out_a);
        hil_columns_f32_store(p, column + 1, b1, out_b);
        hil_columns_f32_store(p, column + 2, a2, out_a);
        hil_columns_f32_store(p, column + 2, b2, out_b);
        hil_columns_f32_store(p, column + 3, a3, out_a);
        hil_columns_f32_store(p, column + 3, b3, out_b);
    }
    for (int32_t column = blocked; column < p->count; column++) {
        float a0 = 0.0F;
        float b0 = 0.0F;
        for (int32_t k = 0; k < depth; k++) {
            const float w0 = *w++;
            a0 += rows[k] * w0;
            b0 += rows[depth + k] * w0;
        }
        hil_columns_f32_store(p, column, a0, out_a);
        hil_columns_f32_store(p, column, b0, out_b);
    }
}

/* One row times all columns. */
HIL_INLINE void hil_columns_f32_one_row(const struct hil_columns_f32 *p, const float *row,
                                        float *out) {
    const int32_t depth = p->depth;
    const int32_t blocked = p->count - p->count % 4;
    const float *w = p->weights;
    for (int32_t column = 0; column < blocked; column += 4) {
        float a0 = 0.0F;
        float a1 = 0.0F;
        float a2 = 0.0F;
        float a3 = 0.0F;
        for (int32_t k = 0; k < depth; k++) {
            const float a = row[k];
            a0 += a * w[0];
            a1 += a * w[1];
            a2 += a * w[2];
            a3 += a * w[3];
            w += 4;
        }
        hil_columns_f32_store(p, column, a0, out);
        hil_columns_f32_store(p, column + 1, a1, out);
        hil_columns_f32_store(p, column + 2, a2, out);
        hil_columns_f32_store(p, column + 3, a3, out);
    }
    for (int32_t column = blocked; column < p->count; column++) {
        float a0 = 0.0F;
        for (int32_t k = 0; k < depth; k++) {
            a0 += row[k] * *w++;
        }
        hil_columns_f32_store(p, column, a0, out);
    }
}

#endif
