/* Rows of int8 values times columns of int8 weights: the inner block that matrix products and
 * convolutions share.
 *
 * Two rows by four columns keep eight accumulators in registers, and six loads feed eight
 * multiply-accumulates. The weights lie in the order in which they are read: columns in blocks of
 * four, each block as weights[depth][4]; the last (count % 4) columns one after the other, each as
 * weights[depth]. The input's zero point is part of the bias. */
#ifndef HIL_KERNELS_GENERIC_COLUMNS_S8_H
#define HIL_KERNELS_GENERIC_COLUMNS_S8_H

#include <stdint.h>

#include "hil/kernels/generic/fields.h"
#include "hil/quant.h"

struct hil_columns_s8 {
    int32_t depth;
    int32_t count;
    HIL_REQUANTIZATION_FIELDS;
    const int8_t *weights;
};

/* The output of one accumulator. */
HIL_INLINE int8_t hil_columns_s8_output(const struct hil_columns_s8 *p, int32_t accumulator,
                                        int32_t multiplier, int shift) {
    const int32_t value =
        hil_requantize_by(p->narrow, accumulator, multiplier, shift, p->out_zero_point);
    return hil_clamp_s8(value, p->out_min, p->out_max);
}

/* The outputs of a column for two rows. */
HIL_INLINE void hil_columns_s8_store_two(const struct hil_columns_s8 *p, int32_t column, int32_t a,
                                         int32_t b, int8_t *out_a, int8_t *out_b) {
    const int32_t entry = p->per_channel ? column : 0;
    const int32_t multiplier = p->multipliers[entry];
    const int shift = p->shifts[entry];
    out_a[column] = hil_columns_s8_output(p, a, multiplier, shift);
    out_b[column] = hil_columns_s8_output(p, b, multiplier, shift);
}

/* The output of a column for one row. */
HIL_INLINE void hil_columns_s8_store(const struct hil_columns_s8 *p, int32_t column, int32_t a,
                                     int8_t *out) {
    const int32_t entry = p->per_channel ? column : 0;
    out[column] = hil_columns_s8_output(p, a, p->multipliers[entry], p->shifts[entry]);
}

/* One element of both rows times four columns. */
#define HIL_COLUMNS_S8_STEP_2X4(k)                                                                 \
    do {                                                                                           \
        const int32_t a = row_a[k];                                                                \
        const int32_t b = row_b[k];                                                                \
        const int32_t w0 = w[4 * (k)];                                                             \
        a0 += a * w0;                                                                              \
        b0 += b * w0;                                                                              \
        const int32_t w1 = w[4 * (k) + 1];                                                         \
        a1 += a * w1;                                                                              \
        b1 += b * w1;                                                                              \
        const int32_t w2 = w[4 * (k) + 2];                                                         \
        a2 += a * w2;                                                                              \
        b2 += b * w2;                                                                              \
        const int32_t w3 = w[4 * (k) + 3];                                                         \
        a3 += a * w3;                                                                              \
        b3 += b * w3;                                                                              \
    } while (0)

/* Two rows, the second right behind the first, times all columns. */
HIL_INLINE void hil_columns_s8_two_rows(const struct hil_columns_s8 *p, const int8_t *rows,
                                        int8_t *out_a, int8_t *out_b) {
    const int32_t depth = p->depth;
    const int8_t *w = p->weights;
    const int32_t blocked = p->count - p->count % 4;
    for (int32_t column = 0; column < blocked; column += 4) {
        const int8_t *row_a = rows;
        const int8_t *row_b = rows + depth;
        int32_t a0 = p->bias[column];
        int32_t a1 = p->bias[column + 1];
        int32_t a2 = p->bias[column + 2];
        int32_t a3 = p->bias[column + 3];
        int32_t b0 = a0;
        int32_t b1 = a1;
        int32_t b2 = a2;
        int32_t b3 = a3;
        for (int32_t quads = depth / 4; quads > 0; quads--) {
            HIL_COLUMNS_S8_STEP_2X4(0);
            HIL_COLUMNS_S8_STEP_2X4(1);
            HIL_COLUMNS_S8_STEP_2X4(2);
            HIL_COLUMNS_S8_STEP_2X4(3);
            row_a += 4;
            row_b += 4;
            w += 16;
        }
        for (int32_t rest = depth % 4; rest > 0; rest--) {
            HIL_COLUMNS_S8_STEP_2X4(0);
            row_a++;
            row_b++;
            w += 4;
        }
        hil_columns_s8_store_two(p, column, a0, b0, out_a, out_b);
        hil_columns_s8_store_two(p, column + 1, a1, b1, out_a, out_b);
        hil_columns_s8_store_two(p, column + 2, a2, b2, out_a, out_b);
        hil_columns_s8_store_two(p, column + 3, a3, b3, out_a, out_b);
    }
    for (int32_t column = blocked; column < p->count; column++) {
        int32_t a0 = p->bias[column];
        int32_t b0 = a0;
        for (int32_t k = 0; k < depth; k++) {
            const int32_t w0 = *w++;
            a0 += rows[k] * w0;
            b0 += rows[depth + k] * w0;
        }
        hil_columns_s8_store_two(p, column, a0, b0, out_a, out_b);
    }
}

#undef HIL_COLUMNS_S8_STEP_2X4

#define HIL_COLUMNS_S8_STEP_1X4(k)                                                                 \
    do {                                                                                           \
        const int32_t a = x[k];                                                                    \
        a0 += a * w[4 * (k)];                                                                      \
        a1 += a * w[4 * (k) + 1];                                                                  \
        a2 += a * w[4 * (k) + 2];                                                                  \
        a3 += a * w[4 * (k) + 3];                                                                  \
    } while (0)

/* One row times all columns. */
HIL_INLINE void hil_columns_s8_one_row(const struct hil_columns_s8 *p, const int8_t *row,
                                       int8_t *out) {
    const int32_t depth = p->depth;
    const int8_t *w = p->weights;
    const int32_t blocked = p->count - p->count % 4;
    for (int32_t column = 0; column < blocked; column += 4) {
        const int8_t *x = row;
        int32_t a0 = p->bias[column];
        int32_t a1 = p->bias[column + 1];
        int32_t a2 = p->bias[column + 2];
        int32_t a3 = p->bias[column + 3];
        for (int32_t quads = depth / 4; quads > 0; quads--) {
            HIL_COLUMNS_S8_STEP_1X4(0);
            HIL_COLUMNS_S8_STEP_1X4(1);
            HIL_COLUMNS_S8_STEP_1X4(2);
            HIL_COLUMNS_S8_STEP_1X4(3);
            x += 4;
            w += 16;
        }
        for (int32_t rest = depth % 4; rest > 0; rest--) {
            HIL_COLUMNS_S8_STEP_1X4(0);
            x++;
            w += 4;
        }
        hil_columns_s8_store(p, column, a0, out);
        hil_columns_s8_store(p, column + 1, a1, out);
        hil_columns_s8_store(p, column + 2, a2, out);
        hil_columns_s8_store(p, column + 3, a3, out);
    }
    for (int32_t column = blocked; column < p->count; column++) {
        int32_t a0 = p->bias[column];
        for (int32_t k = 0; k < depth; k++) {
            a0 += row[k] * *w++;
        }
        hil_columns_s8_store(p, column, a0, out);
    }
}

#undef HIL_COLUMNS_S8_STEP_1X4

#endif
