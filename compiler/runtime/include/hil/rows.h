/* What layers need that run together a few rows at a time. */
#ifndef HIL_ROWS_H
#define HIL_ROWS_H

#include <stdint.h>
#include <string.h>

#include "hil/quant.h"

/* Moves rows to make room for others: `bytes` from `from` to `to`, which may overlap. Four words at
 * a time: the library's memmove may be one that moves single bytes. Both addresses are multiples of
 * `alignment`, a constant. */
HIL_INLINE void hil_move_rows(uint8_t *to, const uint8_t *from, int32_t bytes, int32_t alignment) {
    uint32_t words[4];
    const int32_t chunk = alignment % 4 == 0 ? (int32_t)sizeof words : 1;
    const int32_t rest = bytes % chunk;
    if (to < from) {
        for (int32_t left = bytes - rest; left > 0; left -= chunk) {
            if (chunk == 1) {
                *to = *from;
            } else {
                memcpy(words, __builtin_assume_aligned(from, 4), sizeof words);
                memcpy(__builtin_assume_aligned(to, 4), words, sizeof words);
            }
            to += chunk;
            from += chunk;
        }
        for (int32_t i = 0; i < rest; i++) {
            to[i] = from[i];
        }
        return;
    }
    for (int32_t i = bytes - 1; i >= bytes - rest; i--) {
        to[i] = from[i];
    }
    for (int32_t at = bytes - rest - chunk; at >= 0; at -= chunk) {
        if (chunk == 1) {
            to[at] = from[at];
        } else {
            memcpy(words, __builtin_assume_aligned(from + at, 4), sizeof words);
            memcpy(__builtin_assume_aligned(to + at, 4), words, sizeof words);
        }
    }
}

#endif
