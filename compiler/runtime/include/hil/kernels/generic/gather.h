/* Elements of any type at places that indices say, which are checked before anything is read. */
#ifndef HIL_KERNELS_GENERIC_GATHER_H
#define HIL_KERNELS_GENERIC_GATHER_H

#include <stdint.h>
#include <string.h>

#include "hil/copy.h"
#include "hil/kernels/generic/walk.h"
#include "hil/quant.h"

/*@kernel
name = "hil_generic_gather_blocks"
requires = []
inputs = ["void", "int32_t"]
outputs = ["void"]
scratch = "0"
order = "none"
fails = true
code = 120
[cost]
block = "batches * rows * count"
byte = "block * block_bytes"
@*/
struct hil_generic_gather_blocks {
    int32_t batches;     /* of the tensor and the indices */
    int32_t rows;        /* of a batch of the tensor */
    int32_t size;        /* blocks of a row */
    int32_t block_bytes; /* of a block */
    int32_t count;       /* indices of a batch */
};

HIL_INLINE int32_t hil_generic_gather_blocks(const struct hil_generic_gather_blocks *p,
                                             const void *in, const int32_t *indices, void *out) {
    const uint8_t *row = (const uint8_t *)in;
    uint8_t *target = (uint8_t *)out;
    for (int32_t batch = 0; batch < p->batches; batch++) {
        for (int32_t r = 0; r < p->rows; r++) {
            for (int32_t n = 0; n < p->count; n++) {
                const int32_t index = indices[n];
                if (index < 0 || index >= p->size) {
                    return -1;
                }
                hil_copy(target, row + index * p->block_bytes, p->block_bytes);
                target += p->block_bytes;
            }
            row += p->size * p->block_bytes;
        }
        indices += p->count;
    }
    return 0;
}

/*@kernel
name = "hil_generic_gather_places"
requires = []
inputs = ["void", "int32_t"]
outputs = ["void"]
scratch = "0"
order = "none"
fails = true
code = 120
[cost]
block = "count"
index = "count * depth"
byte = "count * block_bytes"
@*/
struct hil_generic_gather_places {
    int32_t count;        /* of blocks */
    int32_t depth;        /* indices of a block, one for each of the first axes */
    const int32_t *steps; /* bytes from one to the next along each of these axes */
    int32_t block_bytes;  /* of a block */
    int32_t most;         /* the last byte at which a block may begin */
};

HIL_INLINE int32_t hil_generic_gather_places(const struct hil_generic_gather_places *p,
                                             const void *in, const int32_t *indices, void *out) {
    uint8_t *target = (uint8_t *)out;
    for (int32_t n = 0; n < p->count; n++) {
        int64_t place = 0;
        for (int32_t axis = 0; axis < p->depth; axis++) {
            place += (int64_t)*indices++ * p->steps[axis];
        }
        if (place < 0 || place > p->most) {
            return -1;
        }
        hil_copy(target, (const uint8_t *)in + (int32_t)place, p->block_bytes);
        target += p->block_bytes;
    }
    return 0;
}

/*@kernel
name = "hil_generic_update_slice"
requires = []
inputs = ["void", "void", "int32_t"]
outputs = ["void"]
scratch = "0"
order = "none"
code = 140
[cost]
byte = "size"
line = "rows"
copied = "rows * row"
@*/
struct hil_generic_update_slice {
    int32_t size;                   /* bytes of the tensor */
    int32_t axes;                   /* of the tensor */
    const int32_t *spare;           /* elements by which the update is shorter along each axis */
    const int32_t *steps;           /* bytes from one to the next along each axis */
    int32_t rows;                   /* of the update */
    int32_t counts[HIL_WALK_LOOPS]; /* turns of the loops around a row */
    int32_t
        out_jumps[HIL_WALK_LOOPS]; /* bytes by which the output moves as each of them advances */
    int32_t row;                   /* bytes that lie together in update and output */
};

HIL_INLINE void hil_generic_update_slice(const struct hil_generic_update_slice *p, const void *in,
                                         const void *update, const int32_t *begins, void *out) {
    const uint8_t *source = (const uint8_t *)update;
    uint8_t *target = (uint8_t *)out;
    int32_t index[HIL_WALK_LOOPS] = {0};
    int32_t start = 0;
    hil_copy(target, in, p->size);
    for (int32_t axis = 0; axis < p->axes; axis++) {
        start += hil_clamp(begins[axis], 0, p->spare[axis]) * p->steps[axis];
    }
    for (int32_t row = 0; row < p->rows; row++) {
        hil_copy(target + start, source, p->row);
        source += p->row;
        start += p->out_jumps[hil_walk_next(index, p->counts)];
    }
}

#define HIL_ONE_HOT_FIELDS                                                                         \
    int32_t rows;      /* of indices in front of the new axis */                                   \
    int32_t classes;   /* elements of the new axis */                                              \
    int32_t columns;   /* indices of a row */                                                      \
    int32_t item;      /* bytes of an element */                                                   \
    const uint8_t *on; /* the element at an index */                                               \
    const uint8_t *off /* all others */

#define HIL_ONE_HOT(p, indices, out)                                                               \
    do {                                                                                           \
        uint8_t *target = (uint8_t *)(out);                                                        \
        for (int32_t row = 0; row < (p)->rows; row++) {                                            \
            for (int32_t label = 0; label < (p)->classes; label++) {                               \
                for (int32_t column = 0; column < (p)->columns; column++) {                        \
                    memcpy(target, (indices)[column] == label ? (p)->on : (p)->off,                \
                           (size_t)(p)->item);                                                     \
                    target += (p)->item;                                                           \
                }                                                                                  \
            }                                                                                      \
            (indices) += (p)->columns;                                                             \
        }                                                                                          \
    } while (0)

/*@kernel
name = "hil_generic_one_hot_s32"
requires = []
inputs = ["int32_t"]
outputs = ["void"]
scratch = "0"
order = "none"
code = 90
[cost]
element = "rows * classes * columns"
@*/
struct hil_generic_one_hot_s32 {
    HIL_ONE_HOT_FIELDS;
};

HIL_INLINE void hil_generic_one_hot_s32(const struct hil_generic_one_hot_s32 *p,
                                        const int32_t *indices, void *out) {
    HIL_ONE_HOT(p, indices, out);
}

/*@kernel
name = "hil_generic_one_hot_s64"
requires = []
inputs = ["int64_t"]
outputs = ["void"]
scratch = "0"
order = "none"
code = 90
[cost]
element = "rows * classes * columns"
@*/
struct hil_generic_one_hot_s64 {
    HIL_ONE_HOT_FIELDS;
};

HIL_INLINE void hil_generic_one_hot_s64(const struct hil_generic_one_hot_s64 *p,
                                        const int64_t *indices, void *out) {
    HIL_ONE_HOT(p, indices, out);
}

#endif
