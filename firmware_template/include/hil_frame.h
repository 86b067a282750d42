/* Frames on the serial line: 00 cobs(header payload crc32) 00. Pure: buffers in, buffers out.
 * The twin of hil/link/codec.py; docs/reference/protocol.md gives the bytes. */
#ifndef HIL_FRAME_H
#define HIL_FRAME_H

#include <stddef.h>
#include <stdint.h>

#include "hil_protocol.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Why bytes between two delimiters are not a frame. */
enum hil_frame_error {
    HIL_FRAME_TOO_LONG = -1, /* longer than the receiver's buffer */
    HIL_FRAME_COBS = -2,     /* a block reaches past the end */
    HIL_FRAME_SHORT = -3,    /* shorter than header and checksum */
    HIL_FRAME_CRC = -4,      /* checksum differs */
};

/* Most bytes that COBS adds to `size` bytes. */
#define HIL_COBS_OVERHEAD(size) (((size) + 253U) / 254U)

/* Most bytes of header, payload and checksum in a frame of `frame_max` bytes on the line. */
#define HIL_FRAME_BODY_MAX(frame_max) ((frame_max)-2U - ((frame_max)-2U + 254U) / 255U)

/* Where the body starts in a frame that is built for hil_frame_encode: behind the delimiter and
 * the bytes that COBS may add. */
#define HIL_FRAME_BODY_AT(frame_max) (1U + HIL_COBS_OVERHEAD(HIL_FRAME_BODY_MAX(frame_max)))

/* Checksum of zlib: start with 0, feed the result to continue. */
uint32_t hil_crc32(uint32_t crc, const uint8_t *data, size_t size);

/* Codes the `size` bytes at frame + body_at (header and payload; four bytes of room behind them)
 * in place. body_at is at least 1 + HIL_COBS_OVERHEAD(size + 4). Returns the bytes to send, which
 * begin at `frame` and include both delimiters. */
size_t hil_frame_encode(uint8_t *frame, size_t body_at, size_t size);

/* Decodes the `size` bytes between two delimiters in place. Returns the size of header and payload,
 * or an enum hil_frame_error. */
int32_t hil_frame_decode(uint8_t *data, size_t size);

/* Collects one frame at a time in the caller's buffer. */
struct hil_frame_reader {
    uint8_t *buffer; /* the caller's, of `capacity` bytes */
    size_t capacity; /* bytes between the delimiters of the longest frame: frame_max - 2 */
    size_t size;     /* bytes since the last delimiter; start with 0. Bytes beyond the capacity are
                      * dropped, and capacity + 1 says that there were some */
};

/* Takes one byte. Returns 0 while a frame is incomplete; at its end the size of header and payload,
 * which then begin at reader->buffer and stay until the next call, or an enum hil_frame_error. */
int32_t hil_frame_push(struct hil_frame_reader *reader, uint8_t byte);

#ifdef __cplusplus
}
#endif

#endif
