/* What layers need that run together a few rows at a time. */
#ifndef HIL_ROWS_H
#define HIL_ROWS_H

#include <stdint.h>
#include <string.h>

#include "hil/quant.h"

/* Moves the rows that are still needed up to the start of their buffer: `bytes` from `from` to
 * `to`, which lies before and may overlap. Words, not memmove: the library's may be one that moves
 * single bytes. Both start at a multiple of `alignment`, a constant. */
HIL_INLINE void hil_keep_rows(uint8_t *to, const uint8_t *from, int32_t bytes, int32_t alignment) {
    if (alignment % 4 == 0) {
        for (; bytes >= 16; bytes -= 16) {
            uint32_t words[4];
            memcpy(words, __builtin_assume_aligned(from, 4), sizeof words);
            memcpy(__builtin_assume_aligned(to, 4), words, sizeof words);
            from += 16;
            to += 16;
        }
        for (; bytes >= 4; bytes -= 4) {
            uint32_t word;
            memcpy(&word, __builtin_assume_aligned(from, 4), sizeof word);
            memcpy(__builtin_assume_aligned(to, 4), &word, sizeof word);
            from += 4;
            to += 4;
        }
    }
    for (; bytes > 0; bytes--) {
        *to++ = *from++;
    }
}

#endif
