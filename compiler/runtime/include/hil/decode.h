/* Decoder of constant arrays that are stored compressed (hilc/lowering/compression.py writes them).
 *
 * A stream begins with one byte R, the raw bits of a symbol, and the lengths of the codewords of
 * (256 >> R) + 1 symbols, four bits each, the first in the low bits of its byte; a symbol that does
 * not occur has length 0. Behind them stand the codewords, the first bit in the highest of a byte.
 * A symbol is the upper bits of a byte, and its R lower bits follow its codeword. The last symbol
 * is none: it repeats the byte before (0 at first) as often as the 8 bits behind it say, and once
 * more.
 *
 * Codewords have at most HIL_DECODE_BITS bits; shorter ones come first, of one length those of
 * smaller symbols. So the next HIL_DECODE_BITS bits are the index into a table of all symbols,
 * which is made in scratch before the first byte.
 */
#ifndef HIL_DECODE_H
#define HIL_DECODE_H

#include <stdint.h>
#include <string.h>

#define HIL_DECODE_BITS 8
#define HIL_DECODE_REPEAT 0x8000u

struct hil_decoder {
    /* Of each index: the upper bits of a byte, above them the length of the codeword; or
     * HIL_DECODE_REPEAT and the length. */
    uint16_t *table;
    const uint8_t *next;
    /* The next bits of the stream, from the highest on, and how many. */
    uint32_t bits;
    uint32_t held;
    uint32_t raw;
    uint8_t last;
};

/* Makes the table of a stream, 2 << HIL_DECODE_BITS bytes at a multiple of 2. */
static __attribute__((noinline)) void hil_decoder_begin(struct hil_decoder *decoder,
                                                        const uint8_t *stream, void *table) {
    const uint32_t raw = stream[0];
    const uint32_t repeat = 256u >> raw;
    const uint8_t *const lengths = stream + 1;
    uint16_t *entry = (uint16_t *)table;
    for (uint32_t length = 1; length <= HIL_DECODE_BITS; length++) {
        for (uint32_t symbol = 0; symbol <= repeat; symbol++) {
            if (((uint32_t)lengths[symbol / 2] >> symbol % 2 * 4 & 15u) == length) {
                const uint32_t meaning = symbol == repeat ? HIL_DECODE_REPEAT : symbol << raw;
                uint16_t *const end = entry + (1u << HIL_DECODE_BITS >> length);
                while (entry < end) {
                    *entry++ = (uint16_t)(meaning | length << 8);
                }
            }
        }
    }
    decoder->table = (uint16_t *)table;
    decoder->next = lengths + repeat / 2 + 1;
    decoder->bits = 0;
    decoder->held = 0;
    decoder->raw = raw;
    decoder->last = 0;
}

/* Decodes the next `count` bytes. A stream ends with three bytes: up to so many are read, and none
 * is used. */
static __attribute__((noinline)) void hil_decode(struct hil_decoder *decoder, uint8_t *out,
                                                 int32_t count) {
    const uint16_t *const table = decoder->table;
    const uint32_t raw = decoder->raw;
    const uint8_t *next = decoder->next;
    uint32_t bits = decoder->bits;
    uint32_t held = decoder->held;
    uint8_t last = decoder->last;
    uint8_t *const end = out + count;
    while (out < end) {
        if (held < 16) {
            bits |= ((uint32_t)next[0] << 8 | next[1]) << (16 - held);
            next += 2;
            held += 16;
        }
        const uint32_t entry = table[bits >> (32 - HIL_DECODE_BITS)];
        const uint32_t length = entry >> 8 & 15u;
        bits <<= length;
        held -= length;
        if (entry & HIL_DECODE_REPEAT) {
            const uint32_t times = (bits >> 24) + 1;
            memset(out, last, times);
            out += times;
            bits <<= 8;
            held -= 8;
        } else {
            /* In two steps, as raw may be 0. */
            last = (uint8_t)(entry | bits >> 1 >> (31 - raw));
            *out++ = last;
            bits <<= raw;
            held -= raw;
        }
    }
    decoder->next = next;
    decoder->bits = bits;
    decoder->held = held;
    decoder->last = last;
}

/* Writes `width` of the `stride` bytes of each of so many rows; `from` holds these only. */
static inline void hil_place_columns(void *to, const void *from, int32_t rows, int32_t width,
                                     int32_t stride) {
    for (int32_t row = 0; row < rows; row++) {
        memcpy((uint8_t *)to + row * stride, (const uint8_t *)from + row * width, (size_t)width);
    }
}

#endif
