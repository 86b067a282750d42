#include "hil_frame.h"

#include <string.h>

uint32_t hil_crc32(uint32_t crc, const uint8_t *data, size_t size) {
    /* A nibble a step: 64 bytes of table, a sixteenth of the bytewise one. */
    static const uint32_t table[16] = {
        0x00000000U, 0x1DB71064U, 0x3B6E20C8U, 0x26D930ACU, 0x76DC4190U, 0x6B6B51F4U,
        0x4DB26158U, 0x5005713CU, 0xEDB88320U, 0xF00F9344U, 0xD6D6A3E8U, 0xCB61B38CU,
        0x9B64C2B0U, 0x86D3D2D4U, 0xA00AE278U, 0xBDBDF21CU,
    };

    crc = ~crc;
    for (size_t i = 0; i < size; ++i) {
        crc ^= data[i];
        crc = (crc >> 4) ^ table[crc & 15U];
        crc = (crc >> 4) ^ table[crc & 15U];
    }
    return ~crc;
}

/* Codes `size` bytes from `data` to `out`, which lies at least HIL_COBS_OVERHEAD(size) bytes in
 * front of it and may overlap it. Returns the coded size. */
static size_t cobs_encode(uint8_t *out, const uint8_t *data, size_t size) {
    size_t code_at = 0;
    size_t at = 1;

    for (size_t i = 0; i < size; ++i) {
        const uint8_t byte = data[i];
        if (byte != 0) {
            out[at++] = byte;
        }
        const int is_full = at - code_at == 0xFF && i + 1 < size;
        if (byte == 0 || is_full) {
            out[code_at] = (uint8_t)(at - code_at);
            code_at = at++;
        }
    }
    out[code_at] = (uint8_t)(at - code_at);
    return at;
}

/* Returns the decoded size, or HIL_FRAME_COBS. */
static int32_t cobs_decode(uint8_t *data, size_t size) {
    size_t from = 0;
    size_t to = 0;

    while (from < size) {
        const size_t code = data[from];
        if (code > size - from) {
            return HIL_FRAME_COBS;
        }
        memmove(data + to, data + from + 1, code - 1);
        from += code;
        to += code - 1;
        if (code != 0xFF && from < size) {
            data[to++] = 0;
        }
    }
    return (int32_t)to;
}

size_t hil_frame_encode(uint8_t *frame, size_t body_at, size_t size) {
    uint8_t *body = frame + body_at;
    const uint32_t crc = hil_crc32(0, body, size);

    for (size_t i = 0; i < HIL_FRAME_CRC_BYTES; ++i) {
        body[size + i] = (uint8_t)(crc >> (8 * i));
    }
    const size_t coded = cobs_encode(frame + 1, body, size + HIL_FRAME_CRC_BYTES);
    frame[0] = 0;
    frame[coded + 1] = 0;
    return coded + 2;
}

int32_t hil_frame_decode(uint8_t *data, size_t size) {
    const int32_t decoded = cobs_decode(data, size);

    if (decoded < 0) {
        return decoded;
    }
    if (decoded < HIL_HEADER_BYTES + HIL_FRAME_CRC_BYTES) {
        return HIL_FRAME_SHORT;
    }
    const size_t body = (size_t)decoded - HIL_FRAME_CRC_BYTES;
    const uint32_t crc = hil_crc32(0, data, body);
    for (size_t i = 0; i < HIL_FRAME_CRC_BYTES; ++i) {
        if (data[body + i] != (uint8_t)(crc >> (8 * i))) {
            return HIL_FRAME_CRC;
        }
    }
    return (int32_t)body;
}

int32_t hil_frame_push(struct hil_frame_reader *reader, uint8_t byte) {
    if (byte != 0) {
        if (reader->size < reader->capacity) {
            reader->buffer[reader->size] = byte;
        }
        /* One past the capacity says "too long"; counting on could wrap. */
        if (reader->size <= reader->capacity) {
            ++reader->size;
        }
        return 0;
    }
    const size_t size = reader->size;
    reader->size = 0;
    if (size == 0) {
        return 0; /* delimiters in a row */
    }
    return size > reader->capacity ? HIL_FRAME_TOO_LONG : hil_frame_decode(reader->buffer, size);
}
