/* Inside the server of the serial protocol: the session with the host. */
#ifndef HIL_SESSION_H
#define HIL_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hil_config.h"
#include "hil_protocol.h"
#include "reply.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A request of the session, in the receiver's buffer: valid until the next bytes are looked at. */
struct hil_request {
    const uint8_t *payload; /* `size` bytes */
    size_t size;            /* at most what HIL_FRAME_MAX leaves */
    uint8_t code;           /* enum hil_command, or another number */
};

/* Takes what the line has received. */
void hil_session_receive(void);

/* Returns whether a request has to be executed, in *request. Requests that need no execution are
 * answered on the way: those of no session, and those that come again. */
bool hil_session_next(struct hil_request *request);

/* While a request is executed: whether another is to be executed in its place. The payload of the
 * first is no longer valid. Looks at no more than HIL_RX_MAX bytes. */
bool hil_session_is_interrupted(void);

/* Where the payload of the reply is built, and what sends `size` bytes of it. */
uint8_t *hil_session_reply(void);
void hil_session_send_reply(uint8_t code, size_t size);

/* Every frame that is not the reply to an executed request: it must not replace that reply. */
extern uint8_t hil_session_notice[HIL_FRAME_MIN];

/* Where the payload of an event is built (that of a frame of HIL_FRAME_MIN bytes), and what sends
 * `size` bytes of it; `seq` is the number of the request that it is about, or 0. */
static inline uint8_t *hil_session_event(void) {
    return hil_session_notice + HIL_PAYLOAD_AT(HIL_FRAME_MIN);
}
void hil_session_send_event(enum hil_event event, uint16_t seq, size_t size);

/* Frames that were none, since the start, modulo 2^32. */
uint32_t hil_session_bad_frames(void);

/* Drops what was received and the last reply: after a fault none of it is trusted. */
void hil_session_drop(void);

#ifdef __cplusplus
}
#endif

#endif
