/* The server of the serial protocol. Requests are handled one after the other, in the order in
 * which they arrive; the answer stays in its buffer, so that a request which comes again because
 * the answer was lost gets the same bytes and is not executed again. */
#include "hil_config.h"

#include "hil_rpc.h"

#include <stdbool.h>
#include <string.h>

#include "hil_build.h"
#include "hil_frame.h"
#include "hil_guard.h"
#include "hil_model.h"
#include "hil_port.h"
#include "hil_rpc_command.h"
#include "hil_stack.h"
#include "hil_trigger.h"
#ifdef HIL_HAS_PACKED
#include "hil_rpc_packed.h"
#endif
#ifdef HIL_HAS_STATE
#include "hil_state.h"
#endif
#ifdef HIL_HAS_FEEDER
#include "hil_feeder.h"
#endif

_Static_assert(HIL_FRAME_MAX >= HIL_FRAME_MIN, "raise HIL_FRAME_MAX: HELLO must fit");
_Static_assert(HIL_FRAME_MAX <= HIL_FRAME_LIMIT, "lower HIL_FRAME_MAX: 16 bits hold it");
_Static_assert(HIL_RX_MAX >= HIL_FRAME_MAX, "raise HIL_RX_MAX: a frame must fit");
_Static_assert(sizeof HIL_BUILD_ID == HIL_BUILD_ID_BYTES + 1,
               "give HIL_BUILD_ID exactly HIL_BUILD_ID_BYTES characters");

#define PAYLOAD_MAX(frame_max)                                                                     \
    (HIL_FRAME_BODY_MAX(frame_max) - HIL_HEADER_BYTES - HIL_FRAME_CRC_BYTES)
#define PAYLOAD_AT(frame_max) (HIL_FRAME_BODY_AT(frame_max) + HIL_HEADER_BYTES)

_Static_assert(HIL_FAULT_EVENT_BYTES <= PAYLOAD_MAX(HIL_FRAME_MIN),
               "raise HIL_FRAME_MIN: FAULT must fit");
_Static_assert(HIL_HELLO_REPLY_BYTES <= PAYLOAD_MAX(HIL_FRAME_MIN),
               "raise HIL_FRAME_MIN: HELLO must fit");

/* The frame that is being received, then the request that it was. */
static uint8_t rx[HIL_FRAME_MAX - 2];
static struct hil_frame_reader reader = {.buffer = rx, .capacity = sizeof rx};

/* Taken from the line and not looked at yet: the bytes from received_at to received_size. */
static uint8_t received[32];
static size_t received_size;
static size_t received_at;

/* Bytes of header and payload in rx of a request that ended a run; 0: none. */
static size_t pending_size;

/* The last answer as it went out, for a request that comes again. */
static uint8_t answer[HIL_FRAME_MAX];
static size_t answer_size; /* bytes on the line; 0: none */

/* Everything that is not the answer to an executed request: it must not replace that answer. */
static uint8_t notice[HIL_FRAME_MIN];

static uint16_t session;  /* 0: no host said HELLO since the start */
static bool has_executed; /* a request of this session; its number is last_seq */
static uint16_t last_seq; /* of the request that `answer` answers, or that is being executed */
/* Bytes of payload that the host takes in a frame, as its HELLO said; until then the least. */
static size_t payload_max = PAYLOAD_MAX(HIL_FRAME_MIN);
static uint32_t bad_frames; /* since the start, modulo 2^32 */

static struct hil_fault fault; /* valid while `faulted` */
static bool faulted;           /* until the next reset */

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

static uint8_t *notice_payload(void) { return notice + PAYLOAD_AT(sizeof notice); }

static void send_event(enum hil_event event, uint16_t seq, size_t size) {
    const size_t coded =
        seal(notice, notice_payload(), size, session, seq, HIL_KIND_EVENT, (uint8_t)event);
    hil_uart_write(notice, coded);
}

size_t hil_rpc_fail(uint8_t *reply, enum hil_status status, uint32_t detail) {
    reply[HIL_ERROR_STATUS] = (uint8_t)status;
    hil_put_u32(reply + HIL_ERROR_DETAIL, detail);
    return HIL_ERROR_BYTES;
}

/* Answers a request that is not executed. */
static void refuse(const uint8_t *header, enum hil_status status, uint32_t detail) {
    const size_t size = hil_rpc_fail(notice_payload(), status, detail);
    const size_t coded =
        seal(notice, notice_payload(), size, hil_get_u16(header + HIL_HEADER_SESSION),
             hil_get_u16(header + HIL_HEADER_SEQ), HIL_KIND_REPLY, header[HIL_HEADER_CODE]);
    hil_uart_write(notice, coded);
}

void hil_rpc_send_busy(uint32_t done, uint32_t total) {
    hil_put_u32(notice_payload() + HIL_BUSY_EVENT_DONE, done);
    hil_put_u32(notice_payload() + HIL_BUSY_EVENT_TOTAL, total);
    send_event(HIL_EVENT_BUSY, last_seq, HIL_BUSY_EVENT_BYTES);
}

/* The words of the stack that the fault left, the newest first, as many as a few frames take. */
static void send_stack(void) {
    enum { FRAMES = 6 };
    const size_t most = (PAYLOAD_MAX(sizeof notice) - HIL_STACK_EVENT_DATA) / 4 * 4;
    uint8_t *event = notice_payload();
    uintptr_t at = fault.stack_from;

    for (size_t i = 0; i < FRAMES && at < fault.stack_top; ++i) {
        const size_t size = fault.stack_top - at < most ? fault.stack_top - at : most;
        hil_put_u64(event + HIL_STACK_EVENT_BOTTOM, fault.stack_bottom);
        hil_put_u64(event + HIL_STACK_EVENT_TOP, fault.stack_top);
        hil_put_u32(event + HIL_STACK_EVENT_PEAK_BYTES, fault.stack_peak_bytes);
        hil_put_u64(event + HIL_STACK_EVENT_ADDRESS, at);
        memcpy(event + HIL_STACK_EVENT_DATA, (const void *)at, size);
        send_event(HIL_EVENT_STACK, 0, HIL_STACK_EVENT_DATA + size);
        at += size;
    }
}

static void send_fault(void) {
    uint8_t *event = notice_payload();

    send_stack();
    hil_put_u32(event + HIL_FAULT_EVENT_KIND, (uint32_t)fault.kind);
    hil_put_u64(event + HIL_FAULT_EVENT_PC, fault.pc);
    hil_put_u64(event + HIL_FAULT_EVENT_LR, fault.lr);
    hil_put_u64(event + HIL_FAULT_EVENT_SP, fault.sp);
    hil_put_u64(event + HIL_FAULT_EVENT_MMFAR, fault.mmfar);
    hil_put_u64(event + HIL_FAULT_EVENT_BFAR, fault.bfar);
    hil_put_u32(event + HIL_FAULT_EVENT_PSR, fault.psr);
    hil_put_u32(event + HIL_FAULT_EVENT_CFSR, fault.cfsr);
    hil_put_u32(event + HIL_FAULT_EVENT_HFSR, fault.hfsr);
    hil_put_u32(event + HIL_FAULT_EVENT_R0, fault.r0);
    hil_put_u32(event + HIL_FAULT_EVENT_R1, fault.r1);
    hil_put_u32(event + HIL_FAULT_EVENT_R2, fault.r2);
    hil_put_u32(event + HIL_FAULT_EVENT_R3, fault.r3);
    hil_put_u32(event + HIL_FAULT_EVENT_R12, fault.r12);
    send_event(HIL_EVENT_FAULT, 0, HIL_FAULT_EVENT_BYTES);
}

size_t hil_rpc_payload_max(void) { return payload_max; }

size_t hil_rpc_put_name(uint8_t *reply, size_t length_at, size_t at, const char *text,
                        size_t offset) {
    const size_t length = strlen(text);
    const size_t rest = offset < length ? length - offset : 0;
    const size_t size = rest < payload_max - at ? rest : payload_max - at;

    hil_put_u16(reply + length_at, (uint16_t)length);
    memcpy(reply + at, text + (length - rest), size);
    return at + size;
}

const struct hil_model *hil_rpc_model(uint8_t index) {
    return index < hil_model_count ? hil_models[index] : NULL;
}

/* A list of tensors. */
struct tensors {
    const struct hil_tensor *first; /* `count` of them */
    uint8_t count;                  /* 0: the protocol does not know the list */
};

/* The list that a request names; `layer` is within the model where the list is a layer's. */
static struct tensors tensors_of(const struct hil_model *model, uint8_t list, uint16_t layer) {
    switch (list) {
    case HIL_TENSORS_INPUT:
        return (struct tensors){model->inputs, model->input_count};
    case HIL_TENSORS_OUTPUT:
        return (struct tensors){model->outputs, model->output_count};
    case HIL_TENSORS_LAYER_OUTPUT:
        return (struct tensors){model->layers[layer].outputs, model->layers[layer].output_count};
    default:
        return (struct tensors){NULL, 0};
    }
}

#ifdef HIL_HAS_STATE
static struct tensors states_of(uint8_t model) {
    const struct hil_states *states = hil_model_states[model];

    if (states == NULL) {
        return (struct tensors){NULL, 0};
    }
    return (struct tensors){states->tensors, states->count};
}
#endif

/* The tensor that a request names (the requests that do so begin alike), or NULL with the answer's
 * size in *failed. */
static const struct hil_tensor *find_tensor(const uint8_t *request, uint8_t *reply,
                                            size_t *failed) {
    const struct hil_model *model = hil_rpc_model(request[HIL_READ_REQUEST_MODEL]);
    const uint8_t list = request[HIL_READ_REQUEST_LIST];
    const uint8_t index = request[HIL_READ_REQUEST_INDEX];
    const uint16_t layer = hil_get_u16(request + HIL_READ_REQUEST_LAYER);

    if (model == NULL) {
        *failed = hil_rpc_fail(reply, HIL_STATUS_BAD_MODEL, hil_model_count);
        return NULL;
    }
    if (list == HIL_TENSORS_LAYER_OUTPUT && layer >= model->layer_count) {
        *failed = hil_rpc_fail(reply, HIL_STATUS_BAD_LAYER, model->layer_count);
        return NULL;
    }
#ifdef HIL_HAS_STATE
    const struct tensors tensors = list == HIL_TENSORS_STATE
                                       ? states_of(request[HIL_READ_REQUEST_MODEL])
                                       : tensors_of(model, list, layer);
#else
    const struct tensors tensors = tensors_of(model, list, layer);
#endif
    if (index >= tensors.count) {
        *failed = hil_rpc_fail(reply, HIL_STATUS_BAD_TENSOR, tensors.count);
        return NULL;
    }
    return &tensors.first[index];
}

static bool in_tensor(const struct hil_tensor *tensor, uint32_t offset, size_t size) {
    return offset <= tensor->nbytes && size <= tensor->nbytes - offset;
}

static size_t on_reset(const uint8_t *request, size_t size, uint8_t *reply) {
    (void)request;
    (void)size;
    (void)reply;
    return HIL_RESET_REPLY_BYTES; /* execute() resets when the answer is out */
}

static size_t on_echo(const uint8_t *request, size_t size, uint8_t *reply) {
    if (size > payload_max - HIL_ECHO_REPLY_DATA) {
        return hil_rpc_fail(reply, HIL_STATUS_TOO_BIG,
                            (uint32_t)(payload_max - HIL_ECHO_REPLY_DATA));
    }
    memcpy(reply + HIL_ECHO_REPLY_DATA, request + HIL_ECHO_REQUEST_DATA, size);
    return HIL_ECHO_REPLY_DATA + size;
}

static size_t on_memory(const uint8_t *request, size_t size, uint8_t *reply) {
    (void)request;
    (void)size;
    hil_put_u32(reply + HIL_MEMORY_REPLY_STACK_BYTES, hil_stack_bytes());
    hil_put_u32(reply + HIL_MEMORY_REPLY_STACK_PEAK_BYTES, hil_stack_peak_bytes());
    hil_put_u32(reply + HIL_MEMORY_REPLY_RX_BYTES, HIL_RX_MAX);
    hil_put_u32(reply + HIL_MEMORY_REPLY_BAD_FRAMES, bad_frames);
    return HIL_MEMORY_REPLY_BYTES;
}

static size_t on_model_info(const uint8_t *request, size_t size, uint8_t *reply) {
    const struct hil_model *model = hil_rpc_model(request[HIL_MODEL_INFO_REQUEST_MODEL]);

    (void)size;
    if (model == NULL) {
        return hil_rpc_fail(reply, HIL_STATUS_BAD_MODEL, hil_model_count);
    }
    reply[HIL_MODEL_INFO_REPLY_INPUTS] = model->input_count;
    reply[HIL_MODEL_INFO_REPLY_OUTPUTS] = model->output_count;
    hil_put_u16(reply + HIL_MODEL_INFO_REPLY_LAYERS, model->layer_count);
    hil_put_u32(reply + HIL_MODEL_INFO_REPLY_WORKSPACE_BYTES, model->workspace_bytes);
    return hil_rpc_put_name(reply, HIL_MODEL_INFO_REPLY_NAME_LENGTH, HIL_MODEL_INFO_REPLY_NAME,
                            model->name, hil_get_u16(request + HIL_MODEL_INFO_REQUEST_NAME_OFFSET));
}

static size_t on_tensor_info(const uint8_t *request, size_t size, uint8_t *reply) {
    size_t failed;
    const struct hil_tensor *tensor = find_tensor(request, reply, &failed);
    size_t at = HIL_TENSOR_INFO_REPLY_SHAPE_AND_NAME;

    (void)size;
    if (tensor == NULL) {
        return failed;
    }
    if (tensor->ndim > (payload_max - at) / 4) {
        return hil_rpc_fail(reply, HIL_STATUS_TOO_BIG, (uint32_t)(payload_max - at));
    }
    reply[HIL_TENSOR_INFO_REPLY_DTYPE] = tensor->dtype;
    reply[HIL_TENSOR_INFO_REPLY_NDIM] = tensor->ndim;
    hil_put_u32(reply + HIL_TENSOR_INFO_REPLY_NBYTES, tensor->nbytes);
    for (uint8_t i = 0; i < tensor->ndim; ++i, at += 4) {
        hil_put_u32(reply + at, (uint32_t)tensor->shape[i]);
    }
    return hil_rpc_put_name(reply, HIL_TENSOR_INFO_REPLY_NAME_LENGTH, at, tensor->name,
                            hil_get_u16(request + HIL_TENSOR_INFO_REQUEST_NAME_OFFSET));
}

static size_t on_layer_info(const uint8_t *request, size_t size, uint8_t *reply) {
    const struct hil_model *model = hil_rpc_model(request[HIL_LAYER_INFO_REQUEST_MODEL]);
    const uint16_t index = hil_get_u16(request + HIL_LAYER_INFO_REQUEST_LAYER);

    (void)size;
    if (model == NULL) {
        return hil_rpc_fail(reply, HIL_STATUS_BAD_MODEL, hil_model_count);
    }
    if (index >= model->layer_count) {
        return hil_rpc_fail(reply, HIL_STATUS_BAD_LAYER, model->layer_count);
    }
    reply[HIL_LAYER_INFO_REPLY_OUTPUTS] = model->layers[index].output_count;
    return hil_rpc_put_name(reply, HIL_LAYER_INFO_REPLY_NAME_LENGTH, HIL_LAYER_INFO_REPLY_NAME,
                            model->layers[index].name,
                            hil_get_u16(request + HIL_LAYER_INFO_REQUEST_NAME_OFFSET));
}

/* Outputs of layers are: what a layer leaves out is found by painting them before it runs. */
static bool is_writable(uint8_t list) {
#ifdef HIL_HAS_STATE
    if (list == HIL_TENSORS_STATE) {
        return true;
    }
#endif
    return list == HIL_TENSORS_INPUT || list == HIL_TENSORS_LAYER_OUTPUT;
}

#ifdef HIL_HAS_FEEDER
/* The feeder of a model whose input a request names; NULL: it is a tensor in memory. */
static const struct hil_feeder *feeder_of(const uint8_t *request) {
    if (request[HIL_READ_REQUEST_LIST] != HIL_TENSORS_INPUT) {
        return NULL;
    }
    return hil_model_feeders[request[HIL_READ_REQUEST_MODEL]];
}

/* Pushes `count` bytes of an input from `offset` on: those of them that did not come before, for a
 * request whose answer was lost comes again. No bytes for offset 0 start an inference. */
static size_t feed(const struct hil_feeder *feeder, uint32_t offset, const uint8_t *data,
                   size_t count, uint8_t *reply) {
    struct hil_feeder_state *state = feeder->state;
    const bool starts = offset == 0 && count == 0;

    if (starts) {
        hil_guards_set();
        *state = (struct hil_feeder_state){.is_started = true};
    } else if (!state->is_started || offset > state->taken) {
        return hil_rpc_fail(reply, HIL_STATUS_ROWS_MISSING, state->taken);
    }
    if (starts || count > state->taken - offset) {
        const uint32_t known = state->taken - offset;
        const uint64_t start = hil_ticks_align();
        const int32_t result =
            starts ? feeder->start() : feeder->push(data + known, (int32_t)(count - known));

        state->ticks += hil_ticks() - start;
        state->taken = offset + (uint32_t)count;
        if (result < 0) {
            state->is_started = false;
            return hil_rpc_fail(reply, HIL_STATUS_MODEL_FAILED, (uint32_t)result);
        }
    }
    if (hil_guards_changed() != 0) {
        return hil_rpc_fail(reply, HIL_STATUS_GUARD_CHANGED, hil_guards_changed());
    }
    return HIL_WRITE_REPLY_BYTES;
}

/* Uses up the rows of a model for a run, and adds what they took to *ticks; false: some are
 * missing. */
static bool takes_rows(uint8_t model, uint64_t *ticks) {
    const struct hil_feeder *feeder = hil_model_feeders[model];

    if (feeder == NULL) {
        return true;
    }
    const bool is_whole =
        feeder->state->is_started && feeder->state->taken == hil_models[model]->inputs[0].nbytes;
    feeder->state->is_started = !is_whole && feeder->state->is_started;
    *ticks += feeder->state->ticks;
    return is_whole;
}

static size_t rows_missing(uint8_t model, uint8_t *reply) {
    return hil_rpc_fail(reply, HIL_STATUS_ROWS_MISSING, hil_model_feeders[model]->state->taken);
}

static size_t on_feed_info(const uint8_t *request, size_t size, uint8_t *reply) {
    const uint8_t model = request[HIL_FEED_INFO_REQUEST_MODEL];

    (void)size;
    if (hil_rpc_model(model) == NULL) {
        return hil_rpc_fail(reply, HIL_STATUS_BAD_MODEL, hil_model_count);
    }
    hil_put_u32(reply + HIL_FEED_INFO_REPLY_ROWS,
                hil_model_feeders[model] == NULL ? 0 : hil_model_feeders[model]->rows);
    return HIL_FEED_INFO_REPLY_BYTES;
}
#endif

static size_t on_write(const uint8_t *request, size_t size, uint8_t *reply) {
    size_t failed;
    const struct hil_tensor *tensor = find_tensor(request, reply, &failed);
    const uint32_t offset = hil_get_u32(request + HIL_WRITE_REQUEST_OFFSET);
    const size_t count = size - HIL_WRITE_REQUEST_DATA;

    if (tensor == NULL) {
        return failed;
    }
    if (!is_writable(request[HIL_WRITE_REQUEST_LIST])) {
        return hil_rpc_fail(reply, HIL_STATUS_BAD_TENSOR,
                            0); /* no tensor of this list is writable */
    }
    if (!in_tensor(tensor, offset, count)) {
        return hil_rpc_fail(reply, HIL_STATUS_BAD_RANGE, tensor->nbytes);
    }
#ifdef HIL_HAS_FEEDER
    if (feeder_of(request) != NULL) {
        return feed(feeder_of(request), offset, request + HIL_WRITE_REQUEST_DATA, count, reply);
    }
#endif
    memcpy((uint8_t *)tensor->data + offset, request + HIL_WRITE_REQUEST_DATA, count);
    return HIL_WRITE_REPLY_BYTES;
}

static size_t on_read(const uint8_t *request, size_t size, uint8_t *reply) {
    size_t failed;
    const struct hil_tensor *tensor = find_tensor(request, reply, &failed);
    const uint32_t offset = hil_get_u32(request + HIL_READ_REQUEST_OFFSET);
    const uint16_t count = hil_get_u16(request + HIL_READ_REQUEST_LENGTH);

    (void)size;
    if (tensor == NULL) {
        return failed;
    }
    if (count > payload_max - HIL_READ_REPLY_DATA) {
        return hil_rpc_fail(reply, HIL_STATUS_TOO_BIG,
                            (uint32_t)(payload_max - HIL_READ_REPLY_DATA));
    }
    if (!in_tensor(tensor, offset, count)) {
        return hil_rpc_fail(reply, HIL_STATUS_BAD_RANGE, tensor->nbytes);
    }
#ifdef HIL_HAS_FEEDER
    if (feeder_of(request) != NULL) {
        return hil_rpc_fail(reply, HIL_STATUS_BAD_TENSOR, 0); /* it lies nowhere as a whole */
    }
#endif
    memcpy(reply + HIL_READ_REPLY_DATA, (const uint8_t *)tensor->data + offset, count);
    return HIL_READ_REPLY_DATA + count;
}

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
        if (from_session == session && session != 0) {
            return true;
        }
        refuse(rx, HIL_STATUS_STALE, session);
        return false;
    }
    const enum hil_status status =
        check_hello(rx + HIL_HEADER_BYTES, size - HIL_HEADER_BYTES, &detail);
    if (status != HIL_STATUS_OK) {
        refuse(rx, status, detail);
        return false;
    }
    if (from_session != session) {
        session = from_session;
        has_executed = false;
    }
    return true;
}

/* Whether the request in rx has to be executed; if not it has been answered, or its answer is still
 * to come. Asked twice about the same request it says the same. */
static bool admit(size_t size) {
    const uint16_t ahead = (uint16_t)(hil_get_u16(rx + HIL_HEADER_SEQ) - last_seq);

    if (!is_in_session(size)) {
        return false;
    }
    if (!has_executed) {
        return true;
    }
    if (ahead == 0) {
        hil_uart_write(answer, answer_size); /* nothing while it is being executed */
        return false;
    }
    if (ahead > 0x7FFF) {
        refuse(rx, HIL_STATUS_REPEATED, last_seq);
        return false;
    }
    return true;
}

static void receive(void) {
    if (received_at == received_size) {
        received_at = 0;
        received_size = hil_uart_read(received, sizeof received);
    }
}

/* Size of header and payload of the next request, in rx, among what was received; 0: none. */
static size_t next_request(void) {
    while (received_at < received_size) {
        const int32_t size = hil_frame_push(&reader, received[received_at++]);
        if (size < 0) {
            ++bad_frames;
        } else if (size > 0 && rx[HIL_HEADER_KIND] == HIL_KIND_REQUEST) {
            return (size_t)size;
        }
    }
    return 0;
}

/* In the middle of a run, whose own request rx no longer holds: whether another is to be executed
 * in its place. What needs no execution is answered at once. */
static bool is_interrupted(void) {
    /* No longer than what can have arrived during the run: more may come all the time. */
    for (size_t looked = 0; looked < HIL_RX_MAX; looked += sizeof received) {
        receive();
        if (received_size == 0) {
            return false;
        }
        for (size_t size = next_request(); size != 0; size = next_request()) {
            if (admit(size)) {
                pending_size = size;
                return true;
            }
        }
    }
    return false;
}

/* Runs `run`, stores its time in *ticks and returns its result. Says BUSY when a second has passed
 * since *reported. */
static int32_t measure(int32_t (*run)(void), uint64_t *ticks, uint64_t *reported, uint32_t done,
                       uint32_t total) {
    /* Outside of what is counted. */
    hil_trigger_high();
    const uint64_t start = hil_ticks_align();
    const int32_t result = run();
    const uint64_t end = hil_ticks();

    hil_trigger_low();

    *ticks = end - start;
    if (end - *reported >= hil_ticks_hz()) {
        hil_rpc_send_busy(done, total);
        *reported = end;
    }
    return result;
}

static size_t on_run(const uint8_t *request, size_t size, uint8_t *reply) {
    const struct hil_model *model = hil_rpc_model(request[HIL_RUN_REQUEST_MODEL]);
    const uint32_t repeat = hil_get_u32(request + HIL_RUN_REQUEST_REPEAT);
    uint64_t total = 0;

    (void)size;
    if (model == NULL) {
        return hil_rpc_fail(reply, HIL_STATUS_BAD_MODEL, hil_model_count);
    }
#ifdef HIL_HAS_FEEDER
    if (!takes_rows(request[HIL_RUN_REQUEST_MODEL], &total)) {
        return rows_missing(request[HIL_RUN_REQUEST_MODEL], reply);
    }
#endif
    hil_rpc_send_busy(0, repeat);
    hil_guards_set();
    uint64_t reported = hil_ticks();
    for (uint32_t i = 0; i < repeat; ++i) {
        uint64_t ticks;
        if (i > 0 && is_interrupted()) {
            return 0;
        }
        const int32_t result = measure(model->run, &ticks, &reported, i + 1, repeat);
        if (result != 0) {
            return hil_rpc_fail(reply, HIL_STATUS_MODEL_FAILED, (uint32_t)result);
        }
        total += ticks;
    }
    if (hil_guards_changed() != 0) {
        return hil_rpc_fail(reply, HIL_STATUS_GUARD_CHANGED, hil_guards_changed());
    }
    hil_put_u64(reply + HIL_RUN_REPLY_TICKS, total);
    return HIL_RUN_REPLY_BYTES;
}

/* Says why these layers cannot run; 0: they can. */
static size_t refuse_layers(const struct hil_model *model, uint16_t first, uint16_t count,
                            uint8_t *reply) {
    const size_t room = payload_max - HIL_RUN_LAYERS_REPLY_TICKS;

    if (model == NULL) {
        return hil_rpc_fail(reply, HIL_STATUS_BAD_MODEL, hil_model_count);
    }
    if (first > model->layer_count || count > model->layer_count - first) {
        return hil_rpc_fail(reply, HIL_STATUS_BAD_LAYER, model->layer_count);
    }
    if (count > room / 8) {
        return hil_rpc_fail(reply, HIL_STATUS_TOO_BIG, (uint32_t)room);
    }
    return 0;
}

static size_t on_run_layers(const uint8_t *request, size_t size, uint8_t *reply) {
    const struct hil_model *model = hil_rpc_model(request[HIL_RUN_LAYERS_REQUEST_MODEL]);
    const uint16_t first = hil_get_u16(request + HIL_RUN_LAYERS_REQUEST_FIRST);
    const uint16_t count = hil_get_u16(request + HIL_RUN_LAYERS_REQUEST_COUNT);

    (void)size;
    const size_t refusal = refuse_layers(model, first, count, reply);
    if (refusal != 0) {
        return refusal;
    }
    uint64_t before = 0; /* what the rows of the first layer took */
#ifdef HIL_HAS_FEEDER
    if (first == 0 && count > 0 && !takes_rows(request[HIL_RUN_LAYERS_REQUEST_MODEL], &before)) {
        return rows_missing(request[HIL_RUN_LAYERS_REQUEST_MODEL], reply);
    }
#endif
    hil_rpc_send_busy(0, count);
    hil_guards_set();
    uint64_t reported = hil_ticks();
    for (uint32_t i = 0; i < count; ++i) {
        uint64_t ticks;
        if (i > 0 && is_interrupted()) {
            return 0;
        }
        const int32_t result =
            measure(model->layers[first + i].run, &ticks, &reported, i + 1, count);
        if (result != 0) {
            return hil_rpc_fail(reply, HIL_STATUS_MODEL_FAILED, (uint32_t)result);
        }
        hil_put_u64(reply + HIL_RUN_LAYERS_REPLY_TICKS + 8 * i, ticks + before);
        before = 0;
    }
    if (hil_guards_changed() != 0) {
        return hil_rpc_fail(reply, HIL_STATUS_GUARD_CHANGED, hil_guards_changed());
    }
    return HIL_RUN_LAYERS_REPLY_TICKS + 8U * count;
}

#ifdef HIL_HAS_STATE
static size_t on_state_info(const uint8_t *request, size_t size, uint8_t *reply) {
    const uint8_t model = request[HIL_STATE_INFO_REQUEST_MODEL];

    (void)size;
    if (hil_rpc_model(model) == NULL) {
        return hil_rpc_fail(reply, HIL_STATUS_BAD_MODEL, hil_model_count);
    }
    reply[HIL_STATE_INFO_REPLY_STATES] = states_of(model).count;
    return HIL_STATE_INFO_REPLY_BYTES;
}

static size_t on_reset_state(const uint8_t *request, size_t size, uint8_t *reply) {
    const uint8_t model = request[HIL_RESET_STATE_REQUEST_MODEL];

    (void)size;
    if (hil_rpc_model(model) == NULL) {
        return hil_rpc_fail(reply, HIL_STATUS_BAD_MODEL, hil_model_count);
    }
    if (hil_model_states[model] != NULL) {
        const int32_t result = hil_model_states[model]->reset();
        if (result != 0) {
            return hil_rpc_fail(reply, HIL_STATUS_MODEL_FAILED, (uint32_t)result);
        }
    }
    return HIL_RESET_STATE_REPLY_BYTES;
}

/* As after a RESET_STATE of each model: the memory of states holds anything when a board starts. */
static void reset_states(void) {
    for (uint8_t model = 0; model < hil_model_count; ++model) {
        if (hil_model_states[model] != NULL && hil_model_states[model]->reset() != 0) {
            hil_log("the states of a model cannot be reset");
        }
    }
}
#endif

static size_t on_hello(const uint8_t *request, size_t size, uint8_t *reply);

static const struct hil_rpc_command commands[] = {
    [HIL_COMMAND_HELLO] = {on_hello, HIL_HELLO_REQUEST_BYTES, false},
    [HIL_COMMAND_RESET] = {on_reset, HIL_RESET_REQUEST_BYTES, false},
    [HIL_COMMAND_ECHO] = {on_echo, HIL_ECHO_REQUEST_BYTES, true},
    [HIL_COMMAND_MEMORY] = {on_memory, HIL_MEMORY_REQUEST_BYTES, false},
    [HIL_COMMAND_MODEL_INFO] = {on_model_info, HIL_MODEL_INFO_REQUEST_BYTES, false},
    [HIL_COMMAND_TENSOR_INFO] = {on_tensor_info, HIL_TENSOR_INFO_REQUEST_BYTES, false},
    [HIL_COMMAND_LAYER_INFO] = {on_layer_info, HIL_LAYER_INFO_REQUEST_BYTES, false},
    [HIL_COMMAND_WRITE] = {on_write, HIL_WRITE_REQUEST_BYTES, true},
    [HIL_COMMAND_READ] = {on_read, HIL_READ_REQUEST_BYTES, false},
    [HIL_COMMAND_RUN] = {on_run, HIL_RUN_REQUEST_BYTES, false},
    [HIL_COMMAND_RUN_LAYERS] = {on_run_layers, HIL_RUN_LAYERS_REQUEST_BYTES, false},
/* clang-format off */
#ifdef HIL_HAS_PACKED
    HIL_RPC_PACKED_COMMANDS
#endif
#ifdef HIL_HAS_STATE
    [HIL_COMMAND_STATE_INFO] = {on_state_info, HIL_STATE_INFO_REQUEST_BYTES, false},
    [HIL_COMMAND_RESET_STATE] = {on_reset_state, HIL_RESET_STATE_REQUEST_BYTES, false},
#endif
#ifdef HIL_HAS_FEEDER
    [HIL_COMMAND_FEED_INFO] = {on_feed_info, HIL_FEED_INFO_REQUEST_BYTES, false},
#endif
    /* clang-format on */
};

/* The commands from one to another, as bits. */
#define BITS(first, last) ((UINT64_C(2) << (last)) - (UINT64_C(1) << (first)))

/* Commands of the protocol that firmware executes only where a model needs them. */
#ifdef HIL_HAS_PACKED
#define LEFT_OUT_PACKED UINT64_C(0)
#else
#define LEFT_OUT_PACKED BITS(HIL_COMMAND_FUNCTION_INFO, HIL_COMMAND_METADATA_CONSTANT)
#endif
#ifdef HIL_HAS_STATE
#define LEFT_OUT_STATE UINT64_C(0)
#else
#define LEFT_OUT_STATE BITS(HIL_COMMAND_STATE_INFO, HIL_COMMAND_RESET_STATE)
#endif
#ifdef HIL_HAS_FEEDER
#define LEFT_OUT_FEEDER UINT64_C(0)
#else
#define LEFT_OUT_FEEDER BITS(HIL_COMMAND_FEED_INFO, HIL_COMMAND_FEED_INFO)
#endif
#define LEFT_OUT_MASK (LEFT_OUT_PACKED | LEFT_OUT_STATE | LEFT_OUT_FEEDER)
/* Of other firmware. */
#define FOREIGN_MASK BITS(HIL_COMMAND_TAP_SELECT, HIL_COMMAND_TAP_SELECT)

/* What HELLO says of this table: bit n for command n, and command 0 is none. */
#define COMMAND_MASK (BITS(1, HIL_COMMAND_FEED_INFO) & ~LEFT_OUT_MASK & ~FOREIGN_MASK)
_Static_assert(COMMAND_MASK <= UINT32_MAX, "HELLO's mask must hold every command");

/* These fields of HELLO's reply, one behind the other. */
static const struct {
    uint8_t build_id[HIL_BUILD_ID_BYTES];
    uint8_t commands[HIL_HELLO_REPLY_BOARD - HIL_HELLO_REPLY_COMMANDS];
} identity = {
    HIL_BUILD_ID,
    {COMMAND_MASK & 0xFF, COMMAND_MASK >> 8 & 0xFF, COMMAND_MASK >> 16 & 0xFF, COMMAND_MASK >> 24}};

/* The host's probe stops here, at this name, to see that a line is that of its board. */
static size_t on_hello(const uint8_t *request, size_t size, uint8_t *reply) {
    const uint8_t version = request[HIL_HELLO_REQUEST_VERSION];
    const uint16_t host_max = hil_get_u16(request + HIL_HELLO_REQUEST_FRAME_MAX);
    const uint16_t frame_max = host_max < HIL_FRAME_MAX ? host_max : HIL_FRAME_MAX;

    (void)size;
    payload_max = PAYLOAD_MAX(frame_max); /* check_hello() has seen that it is enough */
    if (faulted) {
        send_fault();
    }
    reply[HIL_HELLO_REPLY_VERSION] = version;
    hil_put_u16(reply + HIL_HELLO_REPLY_FRAME_MAX, frame_max);
    hil_put_u32(reply + HIL_HELLO_REPLY_WINDOW, HIL_RX_MAX);
    hil_put_u32(reply + HIL_HELLO_REPLY_TICKS_HZ, hil_ticks_hz());
    reply[HIL_HELLO_REPLY_MODELS] = hil_model_count;
    memcpy(reply + HIL_HELLO_REPLY_BUILD_ID, &identity, sizeof identity);
    /* In version 1 the name takes the place of the mask. */
    const size_t at = version == 1 ? HIL_HELLO_1_REPLY_BOARD : HIL_HELLO_REPLY_BOARD;
    const size_t length = sizeof HIL_BOARD_NAME - 1;
    const size_t copied = length < payload_max - at ? length : payload_max - at;
    memcpy(reply + at, HIL_BOARD_NAME, copied);
    return at + copied;
}

static bool is_left_out(uint8_t code) { return code < 64 && (LEFT_OUT_MASK >> code & 1) != 0; }

/* Fills the reply and returns its size; 0: another request came before there was one. */
static size_t dispatch(uint8_t code, const uint8_t *request, size_t size, uint8_t *reply) {
    if (is_left_out(code)) {
        return hil_rpc_fail(reply, HIL_STATUS_NOT_IN_FIRMWARE, code);
    }
    if (code >= sizeof commands / sizeof commands[0] || commands[code].handle == NULL) {
        return hil_rpc_fail(reply, HIL_STATUS_UNKNOWN_COMMAND, code);
    }
    const struct hil_rpc_command *command = &commands[code];
    if (size < command->size || (size > command->size && !command->has_data)) {
        return hil_rpc_fail(reply, HIL_STATUS_BAD_LENGTH, command->size);
    }
    if (faulted && code != HIL_COMMAND_HELLO && code != HIL_COMMAND_RESET) {
        send_fault();
        return hil_rpc_fail(reply, HIL_STATUS_FAULTED, (uint32_t)fault.kind);
    }
    reply[HIL_ERROR_STATUS] = HIL_STATUS_OK;
    return command->handle(request, size, reply);
}

static void execute(uint16_t seq, uint8_t code, const uint8_t *request, size_t size) {
    uint8_t *reply = answer + PAYLOAD_AT(sizeof answer);

    answer_size = 0;
    has_executed = true;
    last_seq = seq;
    const size_t reply_size = dispatch(code, request, size, reply);
    if (reply_size == 0) {
        return;
    }
    answer_size = seal(answer, reply, reply_size, session, seq, HIL_KIND_REPLY, code);
    hil_uart_write(answer, answer_size);
    if (code == HIL_COMMAND_RESET && reply_size == HIL_RESET_REPLY_BYTES) {
        hil_port_reset();
    }
}

void hil_rpc_init(void) {
#ifdef HIL_HAS_STATE
    reset_states();
#endif
    notice_payload()[HIL_BOOT_EVENT_VERSION] = HIL_PROTOCOL_VERSION;
    send_event(HIL_EVENT_BOOT, 0, HIL_BOOT_EVENT_BYTES);
}

void hil_rpc_poll(void) {
    receive();
    for (size_t size = next_request(); size != 0;) {
        if (admit(size)) {
            execute(hil_get_u16(rx + HIL_HEADER_SEQ), rx[HIL_HEADER_CODE], rx + HIL_HEADER_BYTES,
                    size - HIL_HEADER_BYTES);
        }
        size = pending_size != 0 ? pending_size : next_request();
        pending_size = 0;
    }
}

void hil_rpc_fault(const struct hil_fault *new_fault) {
    fault = *new_fault;
    faulted = true;
    /* The fault may have struck inside of this module: nothing that it was doing is trusted. */
    reader.size = 0;
    received_size = 0;
    received_at = 0;
    pending_size = 0;
    has_executed = false;
    answer_size = 0;
    send_fault();
}

void hil_log(const char *text) {
    uint8_t *event = notice_payload();
    const size_t most = PAYLOAD_MAX(sizeof notice) - HIL_LOG_EVENT_TEXT;
    size_t rest = strlen(text);

    do {
        const size_t size = rest < most ? rest : most;
        rest -= size;
        event[HIL_LOG_EVENT_MORE] = rest != 0;
        memcpy(event + HIL_LOG_EVENT_TEXT, text, size);
        text += size;
        send_event(HIL_EVENT_LOG, 0, HIL_LOG_EVENT_TEXT + size);
    } while (rest != 0);
}
