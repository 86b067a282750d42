/* What layers need that run together a few rows at a time. */
#ifndef HIL_ROWS_H
#define HIL_ROWS_H

#include <stdint.h>
#include <string.h>

#include "hil/quant.h"

/* Sixteen bytes, from and to multiples of 4. */
HIL_INLINE void hil_move_words(uint8_t *to, const uint8_t *from) {
    uint32_t a;
    uint32_t b;
    uint32_t c;
    uint32_t d;
    from = (const uint8_t *)__builtin_assume_aligned(from, 4);
    to = (uint8_t *)__builtin_assume_aligned(to, 4);
    memcpy(&a, from, sizeof a);
    memcpy(&b, from + 4, sizeof b);
    memcpy(&c, from + 8, sizeof c);
    memcpy(&d, from + 12, sizeof d);
    memcpy(to, &a, sizeof a);
    memcpy(to + 4, &b, sizeof b);
    memcpy(to + 8, &c, sizeof c);
    memcpy(to + 12, &d, sizeof d);
}

/* Moves rows to make room for others: `bytes` from `from` to `to`, which may overlap. By words
 * where it can: the library's memmove may be one that moves single bytes. Both addresses are
 * multiples of `alignment`, a constant. */
HIL_INLINE void hil_move_rows(uint8_t *to, const uint8_t *from, int32_t bytes, int32_t alignment) {
    const int32_t words = alignment % 4 == 0 ? bytes / 16 * 16 : 0;
    if (to < from) {
        for (int32_t i = 0; i < words; i += 16) {
            hil_move_words(to + i, from + i);
        }
        for (int32_t i = words; i < bytes; i++) {
            to[i] = from[i];
        }
        return;
    }
    for (int32_t i = bytes - 1; i >= words; i--) {
        to[i] = from[i];
    }
    for (int32_t i = words - 16; i >= 0; i -= 16) {
        hil_move_words(to + i, from + i);
    }
}

#endif
