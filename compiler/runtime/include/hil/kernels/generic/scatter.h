/* Blocks of elements that are put where indices say, or combined with what is there. */
#ifndef HIL_KERNELS_GENERIC_SCATTER_H
#define HIL_KERNELS_GENERIC_SCATTER_H

#include <stdint.h>
#include <string.h>

#include "hil/copy.h"
#include "hil/kernels/generic/any.h"
#include "hil/kernels/generic/move.h"
#include "hil/quant.h"

enum hil_scatter_way {
    HIL_SCATTER_PUT,
    HIL_SCATTER_ADD,
    HIL_SCATTER_MUL,
    HIL_SCATTER_MAX,
    HIL_SCATTER_MIN,
};

enum hil_scatter_type {
    HIL_SCATTER_S32,
    HIL_SCATTER_S64,
    HIL_SCATTER_F32,
};

/*@kernel
name = "hil_generic_scatter"
requires = []
inputs = ["void", "int32_t", "void"]
outputs = ["void"]
scratch = "0"
order = "walk"
reads = "scatter"
fails = true
code = 140
[cost]
byte = "size * block * bytes"
block_count = "count"
element = "count * block"
@*/
struct hil_generic_scatter {
    int32_t size;  /* blocks of the tensor */
    int32_t block; /* elements of a block */
    int32_t bytes; /* of an element */
    int32_t count; /* indices */
    int32_t way;   /* of enum hil_scatter_way */
    int32_t type;  /* of elements that are combined, of enum hil_scatter_type */
};

/* Sums and products of integers are unsigned, so that they wrap around. */
#define HIL_SCATTER_COMBINED(way, type, wide, a, b)                                                \
    ((way) == HIL_SCATTER_ADD   ? (type)((wide)(a) + (wide)(b))                                    \
     : (way) == HIL_SCATTER_MUL ? (type)((wide)(a) * (wide)(b))                                    \
     : (way) == HIL_SCATTER_MAX ? ((a) > (b) ? (a) : (b))                                          \
                                : ((a) < (b) ? (a) : (b)))

#define HIL_SCATTER_BLOCK(p, type, plain, wide, place, update)                                     \
    do {                                                                                           \
        type *to = (type *)(place);                                                                \
        const type *from = (const type *)(update);                                                 \
        for (int32_t i = 0; i < (p)->block; i++) {                                                 \
            to[i] = HIL_SCATTER_COMBINED((p)->way, plain, wide, to[i], from[i]);                   \
        }                                                                                          \
    } while (0)

/* Where the output is the input, blocks are put where they belong and nothing else moves. */
HIL_INLINE int32_t hil_generic_scatter(const struct hil_generic_scatter *p, const void *in,
                                       const int32_t *indices, const void *updates, void *out) {
    const int32_t block_bytes = p->block * p->bytes;
    const uint8_t *update = (const uint8_t *)updates;
    for (int32_t n = 0; n < p->count; n++) {
        if (indices[n] < 0 || indices[n] >= p->size) {
            return -1;
        }
    }
    hil_move(out, in, p->size * block_bytes);
    for (int32_t n = 0; n < p->count; n++) {
        void *place = (uint8_t *)out + indices[n] * block_bytes;
        const void *source = update;
        if (p->way == HIL_SCATTER_PUT) {
            hil_copy(place, update, block_bytes);
        } else if (p->type == HIL_SCATTER_S32) {
            HIL_SCATTER_BLOCK(p, hil_any_s32, int32_t, uint32_t, place, source);
        } else if (p->type == HIL_SCATTER_S64) {
            HIL_SCATTER_BLOCK(p, hil_any_s64, int64_t, uint64_t, place, source);
        } else {
            HIL_SCATTER_BLOCK(p, hil_any_f32, float, float, place, source);
        }
        update += block_bytes;
    }
    return 0;
}

#endif
