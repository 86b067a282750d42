/* A hostile line in front of the real server, from the first byte after a start, for libFuzzer.
 *
 * An input is what comes over the line, as records: a byte that says what, two for the size, data.
 *   0   bytes as they are
 *   1   header and payload of a frame; the checksum and the coding are added here
 *   2   a pause: the board finds nothing to read once, wherever it is; the data are ignored
 * When the input is used up, a host says a good HELLO in a session that is not open, again and
 * again, and it must be answered; so must whatever the board had begun, however long it is. Every
 * frame of the board must be one, and no longer than the host said that it takes.
 *
 * fuzz_mutator.c makes inputs for libFuzzer, fuzz_replay.c runs files without it. */
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

/* The parts of the server with variables, which a start has to set back. */
#include "fault.c"
#include "session.c"

#include "fuzz.h"
#include "hil_guard.h"
#include "hil_model.h"
#include "hil_stack.h"
#ifdef HIL_HAS_STATE
#include "hil_state.h"
#endif
#ifdef HIL_HAS_FEEDER
#include "hil_feeder.h"
#endif

#ifdef HIL_HAS_PACKED
#include "hil_crt.h"
#include "hil_packed.h"
#include "tvm/runtime/crt/module.h"
#include "tvm/runtime/metadata_types.h"
#endif

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Of the host that comes at the end. */
enum { LAST_SEQ = 0x0101 };
static uint16_t last_session; /* one that is not open; 0: that host has said nothing yet */
enum { MOST_UNHEARD = 100 };
/* Looks at the line that a board may take until it has served what was on it. */
static size_t most_looks = 1000;

/* HIL_FUZZ_LOOKS: for the test of what a failure leaves behind. */
int LLVMFuzzerInitialize(int *argc, char ***argv) {
    const char *given = getenv("HIL_FUZZ_LOOKS");

    (void)argc;
    (void)argv;
    if (given != NULL) {
        most_looks = strtoul(given, NULL, 10);
    }
    return 0;
}

/* -- the line -------------------------------------------------------------------------------- */

static uint8_t line[256 * 1024]; /* what the board still has to receive */
static size_t line_size;
static size_t line_at;
static size_t pauses[64]; /* places on the line, in order, at which nothing has come yet */
static size_t pause_count;
static size_t pause_at;       /* the next one */
static size_t looks;          /* since the line was used up */
static uint32_t command_mask; /* of the last HELLO of this version's; 0: none yet */
static size_t unheard;        /* inferences since the board has looked at the line */
static bool is_answered;      /* the last HELLO */
static size_t frame_limit;    /* of the host that the board last answered a HELLO of */
static uint8_t sent[HIL_FRAME_MAX];
static struct hil_frame_reader host = {.buffer = sent, .capacity = sizeof sent - 2};
static jmp_buf restart;

static _Noreturn void fail(const char *what) {
    fprintf(stderr, "fuzz: %s\n", what);
    abort();
}

static size_t put_frame(uint8_t *to, const uint8_t *body, size_t size) {
    const size_t body_at = 1 + HIL_COBS_OVERHEAD(size + HIL_FRAME_CRC_BYTES);

    memcpy(to + body_at, body, size);
    return hil_frame_encode(to, body_at, size);
}

static void say_last_hello(void) {
    uint8_t body[HIL_HEADER_BYTES + HIL_HELLO_REQUEST_BYTES];
    uint8_t *hello = body + HIL_HEADER_BYTES;

    if (last_session == 0) {
        last_session = session.id == 1 ? 2 : 1;
    }
    hil_put_u16(body + HIL_HEADER_SESSION, last_session);
    hil_put_u16(body + HIL_HEADER_SEQ, LAST_SEQ);
    body[HIL_HEADER_KIND] = HIL_KIND_REQUEST;
    body[HIL_HEADER_CODE] = HIL_COMMAND_HELLO;
    memcpy(hello + HIL_HELLO_REQUEST_MAGIC, HIL_PROTOCOL_MAGIC, HIL_PROTOCOL_MAGIC_BYTES);
    hello[HIL_HELLO_REQUEST_VERSION] = HIL_PROTOCOL_VERSION;
    hil_put_u16(hello + HIL_HELLO_REQUEST_FRAME_MAX, HIL_FRAME_LIMIT);
    line_at = 0;
    line_size = put_frame(line, body, sizeof body);
    pause_count = 0;
}

size_t hil_uart_read(uint8_t *data, size_t max) {
    size_t end = line_size;

    unheard = 0;
    if (pause_at < pause_count) {
        end = pauses[pause_at];
        if (line_at == end) {
            ++pause_at;
            return 0;
        }
    }
    if (line_at == line_size) {
        if (++looks > most_looks) {
            fail("a good HELLO is not answered");
        }
        say_last_hello();
        return 0;
    }
    const size_t size = end - line_at < max ? end - line_at : max;
    memcpy(data, line + line_at, size);
    line_at += size;
    return size;
}

/* Whatever came before: what the mask has is known, and nothing else is done. */
static void check_mask(uint8_t code, uint8_t status) {
    const bool is_promised = code < 32 && (command_mask >> code & 1U) != 0;
    const bool is_lacking =
        status == HIL_STATUS_UNKNOWN_COMMAND || status == HIL_STATUS_NOT_IN_FIRMWARE;

    if (command_mask != 0 && (is_promised ? is_lacking : status == HIL_STATUS_OK)) {
        fail("the board's mask of commands is not what it answers");
    }
}

static void on_sent_frame(const uint8_t *body, size_t size) {
    const uint8_t *payload = body + HIL_HEADER_BYTES;

    if (size < HIL_HEADER_BYTES ||
        (body[HIL_HEADER_KIND] != HIL_KIND_REPLY && body[HIL_HEADER_KIND] != HIL_KIND_EVENT)) {
        fail("the board sent what no board sends");
    }
    if (body[HIL_HEADER_KIND] != HIL_KIND_REPLY) {
        return;
    }
    if (size < HIL_HEADER_BYTES + 1U) {
        fail("a reply without a status");
    }
    if (body[HIL_HEADER_CODE] == HIL_COMMAND_HELLO && payload[0] == HIL_STATUS_OK) {
        frame_limit = hil_get_u16(payload + HIL_HELLO_REPLY_FRAME_MAX);
        if (frame_limit < HIL_FRAME_MIN || frame_limit > HIL_FRAME_MAX) {
            fail("a HELLO with a frame size that is not allowed was taken");
        }
        if (payload[HIL_HELLO_REPLY_VERSION] == HIL_PROTOCOL_VERSION) {
            command_mask = hil_get_u32(payload + HIL_HELLO_REPLY_COMMANDS);
        }
        is_answered |= last_session != 0 &&
                       hil_get_u16(body + HIL_HEADER_SESSION) == last_session &&
                       hil_get_u16(body + HIL_HEADER_SEQ) == LAST_SEQ;
    }
    check_mask(body[HIL_HEADER_CODE], payload[0]);
}

void hil_uart_write(const uint8_t *data, size_t size) {
    const size_t limit = frame_limit;

    for (size_t i = 0; i < size; ++i) {
        const int32_t found = hil_frame_push(&host, data[i]);
        if (found < 0) {
            fail("the board sent a bad frame");
        }
        if (found > 0) {
            on_sent_frame(sent, (size_t)found);
        }
    }
    if (host.size != 0) {
        fail("the board sent a part of a frame");
    }
    /* A HELLO's own reply is as long as the new limit allows. */
    if (size > (limit > frame_limit ? limit : frame_limit)) {
        fail("the board sent a longer frame than the host takes");
    }
}

/* -- the rest of the port -------------------------------------------------------------------- */

uint64_t hil_ticks(void) {
    static uint64_t now;
    return now += HIL_CLOCK_HZ / 3; /* so that BUSY comes now and then */
}

uint64_t hil_ticks_align(void) {
    if (++unheard > MOST_UNHEARD) {
        fail("the board does not look at the line while it runs a model");
    }
    return hil_ticks();
}

uint32_t hil_ticks_hz(void) { return HIL_CLOCK_HZ; }

uint32_t hil_stack_bytes(void) { return 4096; }

uint32_t hil_stack_peak_bytes(void) { return 1234; }

void hil_guards_set(void) {}

/* Sometimes something was written there. */
uint32_t hil_guards_changed(void) { return line_size % 16 == 3 ? 4 : 0; }

_Noreturn void hil_port_reset(void) { longjmp(restart, 1); }

_Noreturn void hil_assert_failed(void) { fail("an assertion failed"); }

/* -- models ---------------------------------------------------------------------------------- */

static int32_t x[4];
static int32_t y[4];

static int32_t add(void) {
    if (x[3] != 0) {
        hil_log(x[3] > 0 ? "twenty characters...." : "");
    }
    for (size_t i = 0; i < COUNT(y); ++i) {
        y[i] = (int32_t)((uint32_t)x[i] + 1U);
    }
    return 0;
}

static int32_t fail_sometimes(void) { return x[0]; }

/* As a fault handler on its own stack: the rest of the program is gone. */
static int32_t fault_at_once(void) {
    static uint8_t stack[404];
    const struct hil_fault found = {
        .kind = HIL_FAULT_BUS,
        .stack_bottom = (uintptr_t)stack,
        .stack_top = (uintptr_t)stack + sizeof stack,
        .stack_from = (uintptr_t)stack + 8U * ((uint32_t)x[1] % 51U),
    };

    hil_rpc_fault(&found);
    while (!is_answered) {
        hil_rpc_poll();
    }
    longjmp(restart, 2);
}

#define TWENTY "twenty characters...."
#define LONG_NAME TWENTY TWENTY TWENTY TWENTY TWENTY TWENTY TWENTY TWENTY TWENTY TWENTY "."
static const int32_t shape[] = {1, 4};
static const int32_t deep_shape[40] = {1};
static const struct hil_tensor tensors[] = {
    {"x", shape, x, sizeof x, 2, HIL_INT32},
    {LONG_NAME, deep_shape, x, sizeof x, COUNT(deep_shape), HIL_INT32},
    {"", NULL, x, 1, 0, HIL_INT8},
};
/* More than the longest READ may ask for. */
static uint8_t many_bytes[70 * 1000];
static const struct hil_tensor large[] = {
    {"large", shape, many_bytes, sizeof many_bytes, 2, HIL_INT8}};
static const struct hil_tensor results[] = {{"y", shape, y, sizeof y, 2, HIL_INT32}};
/* More than have their ticks in a small frame. */
static const struct hil_layer layers[20] = {
    {"add", results, add, 1},
    {LONG_NAME, results, add, 1},
    {"none", NULL, add, 0},
    {"fail", results, fail_sometimes, 1},
    {"fault", results, fault_at_once, 1},
    [5 ... 19] = {"more", results, add, 1},
};
static const struct hil_model adder = {"adder", tensors,       results,        layers,        add,
                                       64,      COUNT(layers), COUNT(tensors), COUNT(results)};
static const struct hil_model bad = {LONG_NAME, large, large, NULL, fail_sometimes, 8, 0, 1, 1};
static const struct hil_model dead = {"dead", tensors, results, NULL, fault_at_once, 8, 0, 1, 1};
const struct hil_model *const hil_models[] = {&adder, &bad, &dead};
const uint8_t hil_model_count = COUNT(hil_models);

#ifdef HIL_HAS_STATE
static int32_t kept[4];
static const struct hil_tensor states[] = {{LONG_NAME, shape, kept, sizeof kept, 2, HIL_INT32},
                                           {"", NULL, kept, 1, 0, HIL_INT8}};

static int32_t reset_kept(void) {
    memset(kept, 0, sizeof kept);
    return x[2];
}

static const struct hil_states adder_states = {states, reset_kept, COUNT(states)};
const struct hil_states *const hil_model_states[] = {&adder_states, NULL, NULL};
#endif

#ifdef HIL_HAS_FEEDER
static struct hil_feeder_state feeding;

static int32_t start_rows(void) { return x[2]; }

static int32_t push_rows(const void *data, int32_t nbytes) {
    if (nbytes <= 0) {
        fail("rows of no bytes were pushed");
    }
    memcpy((uint8_t *)x + feeding.taken, data, (size_t)nbytes);
    return (int32_t)(sizeof x - feeding.taken) - nbytes;
}

static const struct hil_feeder adder_feeder = {start_rows, push_rows, &feeding, COUNT(x)};
const struct hil_feeder *const hil_model_feeders[] = {&adder_feeder, NULL, NULL};
#endif

/* -- packed functions, on TVM's run time ----------------------------------------------------- */

#ifdef HIL_HAS_PACKED

uint8_t hil_crt_workspace[256];
const size_t hil_crt_workspace_bytes = sizeof hil_crt_workspace;

static int64_t wide_shape[40] = {1, 4};
static const DLTensor places[] = {
    {x, {kDLCPU, 0}, 2, {kDLInt, 32, 1}, wide_shape, NULL, 0},
    {y, {kDLCPU, 0}, 2, {kDLInt, 32, 1}, wide_shape, NULL, 0},
    {x, {kDLCPU, 0}, 0, {kDLInt, 8, 1}, NULL, NULL, 0},
};
/* As many as the models have. */
_Static_assert(COUNT(places) == COUNT(tensors) && COUNT(places) >= COUNT(results), "arguments");
static const struct hil_packed_layer packed_layers[COUNT(layers)] = {
    [0 ... COUNT(layers) - 1] = {places, COUNT(places)}};

/* Returns what its first argument is, as a text when there are two. */
/* cppcheck-suppress constParameter ; the signature is microTVM's */
static int32_t describe(TVMValue *args, int *codes, int count, TVMValue *result, int *result_code,
                        void *resource) {
    (void)resource;
    if (count == 0) {
        return -1;
    }
    *result = args[0];
    *result_code = codes[0];
    if (count == 2) {
        result->v_str = LONG_NAME LONG_NAME LONG_NAME;
        *result_code = kTVMStr;
    }
    return 0;
}

static const struct TVMTensorInfo infos[] = {
    {"x", wide_shape, 2, {kDLInt, 32, 1}},
    {LONG_NAME, wide_shape, COUNT(wide_shape), {kDLInt, 32, 1}},
};
static const struct TVMConstantInfo constants[] = {{LONG_NAME, 16, 0, NULL}};
static const struct TVMMetadata metadata = {
    .version = 1,
    .inputs = infos,
    .num_inputs = COUNT(infos),
    .outputs = infos,
    .num_outputs = 1,
    .constant_pools = constants,
    .num_constant_pools = COUNT(constants),
    .mod_name = LONG_NAME,
};

static int32_t get_metadata(TVMValue *args, int *codes, int count, TVMValue *result,
                            int *result_code, void *resource) {
    (void)args;
    (void)codes;
    (void)count;
    (void)resource;
    result->v_handle = (void *)(uintptr_t)&metadata;
    *result_code = kTVMOpaqueHandle;
    return 0;
}

static const struct hil_packed_model packed_adder = {places,        places,       places,
                                                     packed_layers, get_metadata, COUNT(places)};
const struct hil_packed_model *const hil_packed_models[] = {&packed_adder, NULL, NULL};

static const TVMBackendPackedCFunc functions[] = {describe, get_metadata};
static const TVMFuncRegistry functions_by_name = {"\2\0describe\0get_metadata\0", functions};
static const TVMModule module = {&functions_by_name};
const TVMModule *TVMSystemLibEntryPoint(void) { return &module; }
#endif

/* -- one input ------------------------------------------------------------------------------- */

/* Puts what the records say on the line. */
static void fill_line(const uint8_t *data, size_t size) {
    line_at = 0;
    line_size = 0;
    pause_at = 0;
    pause_count = 0;
    while (size >= FUZZ_RECORD_HEAD) {
        const uint8_t what = data[0] % FUZZ_RECORDS;
        const size_t said = hil_get_u16(data + 1);
        data += FUZZ_RECORD_HEAD;
        size -= FUZZ_RECORD_HEAD;
        const size_t part = said < size ? said : size;
        if (line_size + part + part / 200 + 16 > sizeof line) {
            return;
        }
        if (what == FUZZ_FRAME) {
            line_size += put_frame(line + line_size, data, part);
        } else if (what == FUZZ_RAW) {
            memcpy(line + line_size, data, part);
            line_size += part;
        } else if (pause_count < COUNT(pauses)) {
            pauses[pause_count++] = line_size;
        }
        data += part;
        size -= part;
    }
}

static void start_board(void) {
    hil_session_drop();
    session.id = 0;
    session.last_seq = 0;
    session.bad_frames = 0;
    fault.kind = 0;
    (void)hil_reply_set_frame_max(HIL_FRAME_MIN);
    memset(rx, 0, sizeof rx);
    frame_limit = HIL_FRAME_MIN;
#ifdef HIL_HAS_FEEDER
    feeding = (struct hil_feeder_state){0};
#endif
#ifdef HIL_HAS_PACKED
    hil_crt_init();
#endif
    hil_rpc_init();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    for (size_t i = 0; i < COUNT(x); ++i) {
        x[i] = size % (i + 2) == 1 ? -1 : (int32_t)(size % 3);
    }
    memset(y, 0, sizeof y);
    host.size = 0;
    is_answered = false;
    last_session = 0;
    looks = 0;
    unheard = 0;
    fill_line(data, size);
    if (setjmp(restart) != 2) {
        start_board();
        while (!is_answered) {
            hil_rpc_poll();
        }
    }
    return 0;
}
