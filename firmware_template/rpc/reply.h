/* Inside the server of the serial protocol: how long a payload may be. */
#ifndef HIL_REPLY_H
#define HIL_REPLY_H

#include <stddef.h>
#include <stdint.h>

#include "hil_frame.h"
#include "hil_protocol.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Most bytes of payload in a frame of `frame_max` bytes on the line, and where they start in it. */
#define HIL_PAYLOAD_MAX(frame_max)                                                                 \
    (HIL_FRAME_BODY_MAX(frame_max) - HIL_HEADER_BYTES - HIL_FRAME_CRC_BYTES)
#define HIL_PAYLOAD_AT(frame_max) (HIL_FRAME_BODY_AT(frame_max) + HIL_HEADER_BYTES)

/* From now on the host takes frames of that many bytes, at least HIL_FRAME_MIN. Returns how many
 * bytes of payload that makes. */
size_t hil_reply_set_frame_max(uint16_t frame_max);

#ifdef __cplusplus
}
#endif

#endif
