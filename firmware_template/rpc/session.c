/* The session with the host: frames in and out, and which requests are executed. The last reply
 * stays in its buffer: a request that comes again because its reply was lost gets the same bytes
 * and is not executed again. */
#include "session.h"

#include <string.h>

#include "hil_frame.h"
#include "hil_port.h"
#include "hil_rpc.h"
#include "hil_rpc_command.h"

_Static_assert(HIL_FRAME_MAX >= HIL_FRAME_MIN, "raise HIL_FRAME_MAX: HELLO must fit");
_Static_assert(HIL_FRAME_MAX <= HIL_FRAME_LIMIT, "lower HIL_FRAME_MAX: 16 bits hold it");
_Static_assert(HIL_RX_MAX >= HIL_FRAME_MAX, "raise HIL_RX_MAX: a frame must fit");

_Static_assert(HIL_FAULT_EVENT_BYTES <= HIL_PAYLOAD_MAX(HIL_FRAME_MIN),
               "raise HIL_FRAME_MIN: FAULT must fit");
_Static_assert(HIL_HELLO_REPLY_BYTES <= HIL_PAYLOAD_MAX(HIL_FRAME_MIN),
               "raise HIL_FRAME_MIN: HELLO must fit");

/* The frame that is being received, then the request that it was. */
static uint8_t rx[HIL_FRAME_MAX - 2];

/* Taken from the line. */
static uint8_t received[32];

/* The last reply as it was sent, for a request that comes again. */
static uint8_t answer[HIL_FRAME_MAX];

uint8_t hil_session_notice[HIL_FRAME_MIN];

/* One object: the functions reach its fields from one address. */
static struct {
    struct hil_frame_reader reader; /* of rx */
    size_t received_size;           /* bytes in `received` */
    size_t received_at;             /* of those, bytes that were looked at */
    size_t pending_size; /* of header and payload in rx of a request that ended a run; 0: none */
    size_t answer_size;  /* bytes on the line; 0: none */
    uint32_t bad_frames; /* since the start, modulo 2^32 */
    uint16_t id;         /* of the session; 0: no host said HELLO since the start */
    uint16_t last_seq;   /* of the request that `answer` answers, or that is being executed */
    bool has_executed;   /* a request of this session; its number is last_seq */
} session = {
    .reader = {.buffer = rx, .capacity = sizeof rx},
};

/* Writes the header in front of `payload`, which lies in `frame`, and codes the frame. */
static size_t seal(uint8_t *frame, uint8_t *payload, size_t size, uint16_t to_session, uint16_t seq,
                   enum hil_kind kind, uint8_t code) {
    uint8_t *header = payload - HIL_HEADER_BYTES;

    hil_put_u16(header + HIL_HEADER_SESSION, to_session);
    hil_put_u16(header + HIL_HEADER_SEQ, seq);
    header[HIL_HEADER_KIND] = (uint8_t)kind;
    header[HIL_HEADER_CODE] = code;
    return hil_frame_encode(frame, (size_t)(header - frame), HIL_HEADER_BYTES + size);
}

void hil_session_send_event(enum hil_event event, uint16_t seq, size_t size) {
    const size_t coded = seal(hil_session_notice, hil_session_event(), size, session.id, seq,
                              HIL_KIND_EVENT, (uint8_t)event);
    hil_uart_write(hil_session_notice, coded);
}

/* Answers a request that is not executed. */
static void refuse(const uint8_t *header, enum hil_status status, uint32_t detail) {
    const size_t size = hil_rpc_fail(hil_session_event(), status, detail);
    const size_t coded = seal(
        hil_session_notice, hil_session_event(), size, hil_get_u16(header + HIL_HEADER_SESSION),
        hil_get_u16(header + HIL_HEADER_SEQ), HIL_KIND_REPLY, header[HIL_HEADER_CODE]);
    hil_uart_write(hil_session_notice, coded);
}

void hil_rpc_send_busy(uint32_t done, uint32_t total) {
    hil_put_u32(hil_session_event() + HIL_BUSY_EVENT_DONE, done);
    hil_put_u32(hil_session_event() + HIL_BUSY_EVENT_TOTAL, total);
    hil_session_send_event(HIL_EVENT_BUSY, session.last_seq, HIL_BUSY_EVENT_BYTES);
}

uint32_t hil_session_bad_frames(void) { return session.bad_frames; }

/* Why a HELLO opens no session, and the number that comes with it; HIL_STATUS_OK: it opens one. */
static enum hil_status check_hello(const uint8_t *request, size_t size, uint32_t *detail) {
    if (size <= HIL_HELLO_REQUEST_VERSION ||
        memcmp(request + HIL_HELLO_REQUEST_MAGIC, HIL_PROTOCOL_MAGIC, HIL_PROTOCOL_MAGIC_BYTES) !=
            0 ||
        request[HIL_HELLO_REQUEST_VERSION] < HIL_PROTOCOL_OLDEST ||
        request[HIL_HELLO_REQUEST_VERSION] > HIL_PROTOCOL_VERSION) {
        *detail = HIL_PROTOCOL_VERSION;
        return HIL_STATUS_VERSION;
    }
    if (size != HIL_HELLO_REQUEST_BYTES) {
        *detail = HIL_HELLO_REQUEST_BYTES;
        return HIL_STATUS_BAD_LENGTH;
    }
    *detail = hil_get_u16(request + HIL_HELLO_REQUEST_FRAME_MAX);
    return *detail < HIL_FRAME_MIN ? HIL_STATUS_TOO_BIG : HIL_STATUS_OK;
}

/* Whether the request in rx belongs to the session, which a HELLO opens; if not it is refused. */
static bool is_in_session(size_t size) {
    const uint16_t from_session = hil_get_u16(rx + HIL_HEADER_SESSION);
    uint32_t detail;

    if (rx[HIL_HEADER_CODE] != HIL_COMMAND_HELLO || from_session == 0) {
        if (from_session == session.id && session.id != 0) {
            return true;
        }
        refuse(rx, HIL_STATUS_STALE, session.id);
        return false;
    }
    const enum hil_status status =
        check_hello(rx + HIL_HEADER_BYTES, size - HIL_HEADER_BYTES, &detail);
    if (status != HIL_STATUS_OK) {
        refuse(rx, status, detail);
        return false;
    }
    if (from_session != session.id) {
        session.id = from_session;
        session.has_executed = false;
    }
    return true;
}

/* Whether the request in rx has to be executed; if not it has been answered, or its answer is still
 * to come. */
static bool admit(size_t size) {
    const uint16_t ahead = (uint16_t)(hil_get_u16(rx + HIL_HEADER_SEQ) - session.last_seq);

    if (!is_in_session(size)) {
        return false;
    }
    if (!session.has_executed) {
        return true;
    }
    if (ahead == 0) {
        hil_uart_write(answer, session.answer_size); /* nothing while it is being executed */
        return false;
    }
    if (ahead > 0x7FFF) {
        refuse(rx, HIL_STATUS_REPEATED, session.last_seq);
        return false;
    }
    return true;
}

void hil_session_receive(void) {
    if (session.received_at == session.received_size) {
        session.received_at = 0;
        session.received_size = hil_uart_read(received, sizeof received);
    }
}

/* Size of header and payload of the next request, in rx, among what was received; 0: none. */
static size_t next_request(void) {
    while (session.received_at < session.received_size) {
        const int32_t size = hil_frame_push(&session.reader, received[session.received_at++]);
        if (size < 0) {
            ++session.bad_frames;
        } else if (size > 0 && rx[HIL_HEADER_KIND] == HIL_KIND_REQUEST) {
            return (size_t)size;
        }
    }
    return 0;
}

bool hil_session_is_interrupted(void) {
    /* No longer than what can have arrived during the run: more may come all the time. */
    for (size_t looked = 0; looked < HIL_RX_MAX; looked += sizeof received) {
        hil_session_receive();
        if (session.received_size == 0) {
            return false;
        }
        for (size_t size = next_request(); size != 0; size = next_request()) {
            if (admit(size)) {
                session.pending_size = size;
                return true;
            }
        }
    }
    return false;
}

bool hil_session_next(struct hil_request *request) {
    size_t size = session.pending_size;

    for (session.pending_size = 0; size == 0;) {
        size = next_request();
        if (size == 0) {
            return false;
        }
        size = admit(size) ? size : 0;
    }
    *request = (struct hil_request){.payload = rx + HIL_HEADER_BYTES,
                                    .size = size - HIL_HEADER_BYTES,
                                    .code = rx[HIL_HEADER_CODE]};
    session.answer_size = 0;
    session.has_executed = true;
    session.last_seq = hil_get_u16(rx + HIL_HEADER_SEQ);
    return true;
}

uint8_t *hil_session_reply(void) { return answer + HIL_PAYLOAD_AT(sizeof answer); }

void hil_session_send_reply(uint8_t code, size_t size) {
    session.answer_size =
        seal(answer, hil_session_reply(), size, session.id, session.last_seq, HIL_KIND_REPLY, code);
    hil_uart_write(answer, session.answer_size);
}

void hil_session_drop(void) {
    session.reader.size = 0;
    session.received_size = 0;
    session.received_at = 0;
    session.pending_size = 0;
    session.has_executed = false;
    session.answer_size = 0;
}

void hil_log(const char *text) {
    uint8_t *event = hil_session_event();
    const size_t most = HIL_PAYLOAD_MAX(sizeof hil_session_notice) - HIL_LOG_EVENT_TEXT;
    size_t rest = strlen(text);

    do {
        const size_t size = rest < most ? rest : most;
        rest -= size;
        event[HIL_LOG_EVENT_MORE] = rest != 0;
        memcpy(event + HIL_LOG_EVENT_TEXT, text, size);
        text += size;
        hil_session_send_event(HIL_EVENT_LOG, 0, HIL_LOG_EVENT_TEXT + size);
    } while (rest != 0);
}
