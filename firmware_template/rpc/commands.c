/* The table of commands, what HELLO says of it, and the handlers that need no model. */
#include "hil_config.h"

#include "commands.h"

#include <stdbool.h>
#include <string.h>

#include "fault.h"
#include "feeder.h"
#include "hil_build.h"
#include "hil_port.h"
#include "hil_rpc_command.h"
#include "hil_stack.h"
#include "reply.h"
#include "run.h"
#include "session.h"
#include "state.h"
#include "tensors.h"
#ifdef HIL_HAS_PACKED
#include "hil_rpc_packed.h"
#define HIL_PACKED_COMMANDS HIL_RPC_PACKED_COMMANDS
#define HIL_PACKED_LEFT_OUT UINT64_C(0)
#else
#define HIL_PACKED_COMMANDS
#define HIL_PACKED_LEFT_OUT                                                                        \
    HIL_COMMAND_BITS(HIL_COMMAND_FUNCTION_INFO, HIL_COMMAND_METADATA_CONSTANT)
#endif

_Static_assert(sizeof HIL_BUILD_ID == HIL_BUILD_ID_BYTES + 1,
               "give HIL_BUILD_ID exactly HIL_BUILD_ID_BYTES characters");

static size_t on_reset(const uint8_t *request, size_t size, uint8_t *reply) {
    (void)request;
    (void)size;
    (void)reply;
    return HIL_RESET_REPLY_BYTES; /* hil_rpc_poll resets when the reply is sent */
}

static size_t on_echo(const uint8_t *request, size_t size, uint8_t *reply) {
    const size_t room = hil_rpc_payload_max() - HIL_ECHO_REPLY_DATA;

    if (size > room) {
        return hil_rpc_fail(reply, HIL_STATUS_TOO_BIG, (uint32_t)room);
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
    hil_put_u32(reply + HIL_MEMORY_REPLY_BAD_FRAMES, hil_session_bad_frames());
    return HIL_MEMORY_REPLY_BYTES;
}

static size_t on_hello(const uint8_t *request, size_t size, uint8_t *reply);

static const struct hil_rpc_command commands[] = {
    [HIL_COMMAND_HELLO] = {on_hello, HIL_HELLO_REQUEST_BYTES, false},
    [HIL_COMMAND_RESET] = {on_reset, HIL_RESET_REQUEST_BYTES, false},
    [HIL_COMMAND_ECHO] = {on_echo, HIL_ECHO_REQUEST_BYTES, true},
    [HIL_COMMAND_MEMORY] = {on_memory, HIL_MEMORY_REQUEST_BYTES, false},
    [HIL_COMMAND_MODEL_INFO] = {hil_rpc_on_model_info, HIL_MODEL_INFO_REQUEST_BYTES, false},
    [HIL_COMMAND_TENSOR_INFO] = {hil_rpc_on_tensor_info, HIL_TENSOR_INFO_REQUEST_BYTES, false},
    [HIL_COMMAND_LAYER_INFO] = {hil_rpc_on_layer_info, HIL_LAYER_INFO_REQUEST_BYTES, false},
    [HIL_COMMAND_WRITE] = {hil_rpc_on_write, HIL_WRITE_REQUEST_BYTES, true},
    [HIL_COMMAND_READ] = {hil_rpc_on_read, HIL_READ_REQUEST_BYTES, false},
    [HIL_COMMAND_RUN] = {hil_rpc_on_run, HIL_RUN_REQUEST_BYTES, false},
    [HIL_COMMAND_RUN_LAYERS] = {hil_rpc_on_run_layers, HIL_RUN_LAYERS_REQUEST_BYTES, false},
    /* clang-format off */
    HIL_PACKED_COMMANDS
    HIL_STATE_COMMANDS
    HIL_FEEDER_COMMANDS
    /* clang-format on */
};

/* Commands of the protocol that firmware executes only where a model needs them. */
#define LEFT_OUT_MASK (HIL_PACKED_LEFT_OUT | HIL_STATE_LEFT_OUT | HIL_FEEDER_LEFT_OUT)
/* Of other firmware. */
#define FOREIGN_MASK HIL_COMMAND_BITS(HIL_COMMAND_TAP_SELECT, HIL_COMMAND_TAP_SELECT)

/* What HELLO says of this table: bit n for command n, and command 0 is none. */
#define COMMAND_MASK (HIL_COMMAND_BITS(1, HIL_COMMAND_FEED_INFO) & ~LEFT_OUT_MASK & ~FOREIGN_MASK)
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
    /* The session has checked that it is enough. */
    const size_t payload_max = hil_reply_set_frame_max(frame_max);
    (void)hil_fault_send();
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

size_t hil_commands_execute(const struct hil_request *made, uint8_t *reply) {
    const uint8_t code = made->code;
    const size_t size = made->size;

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
    if (code != HIL_COMMAND_HELLO && code != HIL_COMMAND_RESET) {
        const uint32_t fault = hil_fault_send();
        if (fault != 0) {
            return hil_rpc_fail(reply, HIL_STATUS_FAULTED, fault);
        }
    }
    reply[HIL_ERROR_STATUS] = HIL_STATUS_OK;
    return command->handle(made->payload, size, reply);
}
