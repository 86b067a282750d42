/* The least, the largest, the sum or the product along axes, of any type, and where it is. */
#ifndef HIL_KERNELS_GENERIC_REDUCE_H
#define HIL_KERNELS_GENERIC_REDUCE_H

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "hil/kernels/generic/any.h"
#include "hil/kernels/generic/cast.h"
#include "hil/kernels/generic/mean.h"
#include "hil/quant.h"

enum hil_reduce_way {
    HIL_REDUCE_LEAST,
    HIL_REDUCE_LARGEST,
    HIL_REDUCE_SUM,
    HIL_REDUCE_PRODUCT,
    HIL_REDUCE_LEAST_INFINITE, /* of floats, where infinities count */
    HIL_REDUCE_LARGEST_INFINITE,
};

/*@kernel
name = "hil_generic_reduce"
requires = []
inputs = ["void"]
outputs = ["void"]
scratch = "0"
order = "walk"
reads = "mean"
code = 180
[cost]
output = "size"
row = "size * rows"
value = "row * length"
@*/
struct hil_generic_reduce {
    HIL_MEAN_FIELDS;
    int32_t type; /* of the values, of enum hil_cast_type */
    int32_t way;  /* how they are reduced, of enum hil_reduce_way */
};

/* Sums and products of integers wrap around, as those of the references. */
#define HIL_REDUCE_OF_INTEGERS(suffix, type, unsigned_type, least, largest)                        \
    HIL_INLINE type hil_reduce_initial_##suffix(const struct hil_generic_reduce *p) {              \
        switch (p->way) {                                                                          \
        case HIL_REDUCE_LEAST:                                                                     \
            return largest;                                                                        \
        case HIL_REDUCE_LARGEST:                                                                   \
            return least;                                                                          \
        default:                                                                                   \
            return p->way == HIL_REDUCE_PRODUCT;                                                   \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    HIL_INLINE type hil_reduce_fold_##suffix(const struct hil_generic_reduce *p, type total,       \
                                             type value) {                                         \
        switch (p->way) {                                                                          \
        case HIL_REDUCE_LEAST:                                                                     \
            return value < total ? value : total;                                                  \
        case HIL_REDUCE_LARGEST:                                                                   \
            return value > total ? value : total;                                                  \
        case HIL_REDUCE_SUM:                                                                       \
            return (type)((unsigned_type)total + (unsigned_type)value);                            \
        default:                                                                                   \
            return (type)((unsigned_type)total * (unsigned_type)value);                            \
        }                                                                                          \
    }

HIL_REDUCE_OF_INTEGERS(s32, int32_t, uint32_t, INT32_MIN, INT32_MAX)
HIL_REDUCE_OF_INTEGERS(s64, int64_t, uint64_t, INT64_MIN, INT64_MAX)

HIL_INLINE float hil_reduce_initial_f32(const struct hil_generic_reduce *p) {
    switch (p->way) {
    case HIL_REDUCE_LEAST:
        return FLT_MAX;
    case HIL_REDUCE_LARGEST:
        return -FLT_MAX;
    case HIL_REDUCE_LEAST_INFINITE:
        return INFINITY;
    case HIL_REDUCE_LARGEST_INFINITE:
        return -INFINITY;
    default:
        return p->way == HIL_REDUCE_PRODUCT ? 1.0f : 0.0f;
    }
}

HIL_INLINE float hil_reduce_fold_f32(const struct hil_generic_reduce *p, float total, float value) {
    switch (p->way) {
    case HIL_REDUCE_LEAST:
    case HIL_REDUCE_LEAST_INFINITE:
        return value < total ? value : total;
    case HIL_REDUCE_LARGEST:
    case HIL_REDUCE_LARGEST_INFINITE:
        return value > total ? value : total;
    case HIL_REDUCE_SUM:
        return total + value;
    default:
        return total * value;
    }
}

#define HIL_REDUCE_TO_S8(p, total) ((int8_t)(total))
#define HIL_REDUCE_TO_U8(p, total) ((uint8_t)(total))
#define HIL_REDUCE_TO_S16(p, total) ((int16_t)(total))
#define HIL_REDUCE_TO_ITSELF(p, total) (total)

#define HIL_REDUCE_AS(p, in, out, type, total, suffix, finish)                                     \
    HIL_REDUCE_WALK(p, (const type *)(in), (type *)(out), total, hil_reduce_initial_##suffix(p),   \
                    hil_reduce_fold_##suffix, finish)

HIL_INLINE void hil_generic_reduce(const struct hil_generic_reduce *p, const void *in, void *out) {
    switch (p->type) {
    case HIL_CAST_S8:
        HIL_REDUCE_AS(p, in, out, int8_t, int32_t, s32, HIL_REDUCE_TO_S8);
        break;
    case HIL_CAST_S16:
        HIL_REDUCE_AS(p, in, out, hil_any_s16, int32_t, s32, HIL_REDUCE_TO_S16);
        break;
    case HIL_CAST_S32:
        HIL_REDUCE_AS(p, in, out, hil_any_s32, int32_t, s32, HIL_REDUCE_TO_ITSELF);
        break;
    case HIL_CAST_S64:
        HIL_REDUCE_AS(p, in, out, hil_any_s64, int64_t, s64, HIL_REDUCE_TO_ITSELF);
        break;
    case HIL_CAST_F32:
        HIL_REDUCE_AS(p, in, out, hil_any_f32, float, f32, HIL_REDUCE_TO_ITSELF);
        break;
    default: /* bytes from 0 on */
        HIL_REDUCE_AS(p, in, out, uint8_t, int32_t, s32, HIL_REDUCE_TO_U8);
        break;
    }
}

/*@kernel
name = "hil_generic_arg"
requires = []
inputs = ["void"]
outputs = ["void"]
scratch = "0"
order = "none"
code = 120
[cost]
output = "rows * columns"
value = "output * count"
@*/
struct hil_generic_arg {
    int32_t rows;    /* of outputs */
    int32_t count;   /* values of which the least or largest is looked for */
    int32_t columns; /* outputs of a row, as many as elements from a value to the next */
    int32_t type;    /* of the values, of enum hil_cast_type */
    int32_t least;   /* 1: the least; 0: the largest */
    int32_t wide;    /* 1: outputs are int64; 0: int32 */
};

/* Writes the place of the first of the least or largest values. */
#define HIL_ARG_AS(p, in, out, kind)                                                               \
    do {                                                                                           \
        const kind *values = (const kind *)(in);                                                   \
        uint8_t *target = (uint8_t *)(out);                                                        \
        for (int32_t row = 0; row < (p)->rows; row++) {                                            \
            for (int32_t column = 0; column < (p)->columns; column++) {                            \
                kind best = values[column];                                                        \
                int32_t place = 0;                                                                 \
                for (int32_t n = 1; n < (p)->count; n++) {                                         \
                    const kind value = values[n * (p)->columns + column];                          \
                    if ((p)->least ? value < best : value > best) {                                \
                        best = value;                                                              \
                        place = n;                                                                 \
                    }                                                                              \
                }                                                                                  \
                if ((p)->wide) {                                                                   \
                    const int64_t found = place;                                                   \
                    memcpy(target, &found, sizeof(found));                                         \
                    target += sizeof(found);                                                       \
                } else {                                                                           \
                    memcpy(target, &place, sizeof(place));                                         \
                    target += sizeof(place);                                                       \
                }                                                                                  \
            }                                                                                      \
            values += (p)->count * (p)->columns;                                                   \
        }                                                                                          \
    } while (0)

HIL_INLINE void hil_generic_arg(const struct hil_generic_arg *p, const void *in, void *out) {
    switch (p->type) {
    case HIL_CAST_S8:
        HIL_ARG_AS(p, in, out, int8_t);
        break;
    case HIL_CAST_S16:
        HIL_ARG_AS(p, in, out, hil_any_s16);
        break;
    case HIL_CAST_S32:
        HIL_ARG_AS(p, in, out, hil_any_s32);
        break;
    case HIL_CAST_S64:
        HIL_ARG_AS(p, in, out, hil_any_s64);
        break;
    case HIL_CAST_F32:
        HIL_ARG_AS(p, in, out, hil_any_f32);
        break;
    default: /* bytes from 0 on */
        HIL_ARG_AS(p, in, out, uint8_t);
        break;
    }
}

#endif
