/* Changes inputs by their records, so that most of what is said gets past checksum and session.
 *
 * libFuzzer calls LLVMFuzzerCustomMutator and LLVMFuzzerCustomCrossOver. A change inserts, drops,
 * repeats or exchanges records, writes numbers at their limits into one, or changes bytes of it as
 * libFuzzer does of any input; some frames become the bytes on the line, with damage of a line. */
#include <string.h>

#include "fuzz.h"
#include "hil_frame.h"
#include "hil_protocol.h"
#include "hil_rpc_command.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* No request that is made here, and no noise, is longer than MOST_MADE. */
enum { MOST_RECORDS = 256, MOST_MADE = 2048, SESSION = 0x1111 };

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed);
size_t LLVMFuzzerCustomCrossOver(const uint8_t *first, size_t first_size, const uint8_t *second,
                                 size_t second_size, uint8_t *out, size_t max_size,
                                 unsigned int seed);

/* -- chance ---------------------------------------------------------------------------------- */

static uint64_t dice_state;

/* Knuth's linear congruential generator: the same on every machine. */
static uint32_t dice(uint32_t below) {
    dice_state = dice_state * 6364136223846793005U + 1442695040888963407U;
    return (uint32_t)(dice_state >> 33) % below;
}

static void throw_from(unsigned int seed) { dice_state = (uint64_t)seed << 32 | seed; }

/* -- requests -------------------------------------------------------------------------------- */

/* Bytes of a command's request before its data; ANY_SIZE: it has data. */
enum { ANY_SIZE = 0x80, SIZE_MASK = 0x7F };
static const uint8_t request_sizes[] = {
    [HIL_COMMAND_HELLO] = HIL_HELLO_REQUEST_BYTES,
    [HIL_COMMAND_RESET] = HIL_RESET_REQUEST_BYTES,
    [HIL_COMMAND_ECHO] = HIL_ECHO_REQUEST_BYTES + ANY_SIZE,
    [HIL_COMMAND_MEMORY] = HIL_MEMORY_REQUEST_BYTES,
    [HIL_COMMAND_MODEL_INFO] = HIL_MODEL_INFO_REQUEST_BYTES,
    [HIL_COMMAND_TENSOR_INFO] = HIL_TENSOR_INFO_REQUEST_BYTES,
    [HIL_COMMAND_LAYER_INFO] = HIL_LAYER_INFO_REQUEST_BYTES,
    [HIL_COMMAND_WRITE] = HIL_WRITE_REQUEST_BYTES + ANY_SIZE,
    [HIL_COMMAND_READ] = HIL_READ_REQUEST_BYTES,
    [HIL_COMMAND_RUN] = HIL_RUN_REQUEST_BYTES,
    [HIL_COMMAND_RUN_LAYERS] = HIL_RUN_LAYERS_REQUEST_BYTES,
    [HIL_COMMAND_FUNCTION_INFO] = HIL_FUNCTION_INFO_REQUEST_BYTES,
    [HIL_COMMAND_CALL] = HIL_CALL_REQUEST_BYTES + ANY_SIZE,
    [HIL_COMMAND_METADATA_INFO] = HIL_METADATA_INFO_REQUEST_BYTES,
    [HIL_COMMAND_METADATA_TENSOR] = HIL_METADATA_TENSOR_REQUEST_BYTES,
    [HIL_COMMAND_METADATA_CONSTANT] = HIL_METADATA_CONSTANT_REQUEST_BYTES,
    [HIL_COMMAND_STATE_INFO] = HIL_STATE_INFO_REQUEST_BYTES,
    [HIL_COMMAND_RESET_STATE] = HIL_RESET_STATE_REQUEST_BYTES,
    [HIL_COMMAND_TAP_SELECT] = HIL_TAP_SELECT_REQUEST_BYTES,
    [HIL_COMMAND_FEED_INFO] = HIL_FEED_INFO_REQUEST_BYTES,
};

/* Mostly zeros and other small numbers, so that a request names something that exists. */
static uint8_t *put_random(uint8_t *at, size_t size) {
    for (size_t i = 0; i < size; ++i) {
        const uint32_t kind = dice(16);
        at[i] = (uint8_t)(kind < 11 ? 0 : kind < 14 ? dice(6) : kind < 15 ? 0xFF : dice(256));
    }
    return at + size;
}

static uint16_t any_limit(void) {
    static const uint16_t limits[] = {0,   1,   2,   127,  128,    129,    254,    255,   256,
                                      511, 512, 513, 4096, 0x7FFF, 0x8000, 0xFFFE, 0xFFFF};
    return limits[dice(COUNT(limits))];
}

static uint8_t *put_hello(uint8_t *at) {
    memcpy(at, HIL_PROTOCOL_MAGIC, HIL_PROTOCOL_MAGIC_BYTES);
    at[HIL_HELLO_REQUEST_VERSION] = (uint8_t)(dice(8) != 0 ? 1 + dice(2) : dice(256));
    hil_put_u16(at + HIL_HELLO_REQUEST_FRAME_MAX,
                dice(2) != 0 ? (uint16_t)(HIL_FRAME_MIN + dice(512)) : any_limit());
    return at + HIL_HELLO_REQUEST_BYTES + (dice(16) == 0 ? 1 : 0);
}

static uint8_t *put_call(uint8_t *at) {
    static const uint8_t kinds[] = {
        HIL_VALUE_INT,
        HIL_VALUE_FLOAT,
        HIL_VALUE_HANDLE,
        HIL_VALUE_NONE,
        HIL_VALUE_TENSOR,
        HIL_VALUE_TENSOR,
        HIL_VALUE_TENSOR,
        HIL_VALUE_MODULE,
        HIL_VALUE_STRING,
        HIL_VALUE_STRING,
        HIL_VALUE_FUNCTION,
        1,
        13, /* none of the protocol's */
    };
    static const uint8_t sizes[COUNT(kinds)] = {8, 8, 8, 0, 5, 5, 5, 8, 1, 20, 8, 0, 8};
    static const char *const names[] = {
        "describe",
        "describe",
        "get_metadata",
        "runtime.SystemLib",
        "tvm.rpc.server.ModuleGetFunction",
        "tvm.rpc.server.GetCRTMaxPacketSize",
        "tvm.contrib.random.random_fill",
        "",
    };
    const uint32_t count = dice(8) != 0 ? dice(4) : dice(20);
    const char *name = names[dice(COUNT(names))];
    const size_t length = strlen(name) + 1;

    *at++ = (uint8_t)(dice(8) != 0 ? count : dice(256));
    memcpy(at, name, length);
    at += dice(8) != 0 ? length : dice((uint32_t)length);
    for (uint32_t i = 0; i < count; ++i) {
        const uint32_t kind = dice(COUNT(kinds));
        *at++ = kinds[kind];
        at = put_random(at, dice(8) != 0 ? sizes[kind] : dice(10));
    }
    return at;
}

/* A request's payload: mostly of the size that its command has, with numbers near the limits. */
static uint8_t *put_payload(uint8_t *at, uint8_t code) {
    if (code == HIL_COMMAND_HELLO && dice(8) != 0) {
        return put_hello(at);
    }
    if (code == HIL_COMMAND_CALL && dice(4) != 0) {
        return put_call(at);
    }
    const uint8_t known = code < COUNT(request_sizes) ? request_sizes[code] : ANY_SIZE;
    size_t size = dice(8) != 0 ? known & SIZE_MASK : dice(24);
    if ((known & ANY_SIZE) != 0) {
        size += dice(4) != 0 ? dice(16) : dice(600);
    }
    return put_random(at, size);
}

static uint8_t *put_request(uint8_t *at) {
    static const uint16_t sessions[] = {SESSION, 0x2222, 0, 0x7A56, 0xFFFF};
    const bool is_odd = dice(16) == 0;
    const uint8_t code = (uint8_t)(is_odd         ? dice(256)
                                   : dice(6) == 0 ? HIL_COMMAND_HELLO
                                                  : 1 + dice(HIL_COMMAND_TAP_SELECT));

    hil_put_u16(at + HIL_HEADER_SESSION, sessions[dice(8) != 0 ? 0 : dice(COUNT(sessions))]);
    hil_put_u16(at + HIL_HEADER_SEQ, (uint16_t)(is_odd ? dice(65536) : 1 + dice(8)));
    at[HIL_HEADER_KIND] = (uint8_t)(dice(16) != 0 ? HIL_KIND_REQUEST : dice(256));
    at[HIL_HEADER_CODE] = code;
    return put_payload(at + HIL_HEADER_BYTES, code);
}

/* -- records --------------------------------------------------------------------------------- */

struct record {
    const uint8_t *data; /* `size` bytes */
    uint16_t size;
    uint8_t what; /* enum fuzz_record */
};

struct script {
    struct record records[MOST_RECORDS];
    size_t count;
};

/* Bytes of records that are new. */
static uint8_t made[64 * 1024];
static size_t made_size;

static uint8_t *room(size_t size) {
    return size > sizeof made - made_size ? NULL : made + made_size;
}

static void parse(struct script *script, const uint8_t *data, size_t size) {
    script->count = 0;
    while (size >= FUZZ_RECORD_HEAD && script->count < MOST_RECORDS) {
        const size_t said = hil_get_u16(data + 1);
        const size_t rest = size - FUZZ_RECORD_HEAD;
        const size_t part = said < rest ? said : rest;
        script->records[script->count++] =
            (struct record){data + FUZZ_RECORD_HEAD, (uint16_t)part, data[0] % FUZZ_RECORDS};
        data += FUZZ_RECORD_HEAD + part;
        size = rest - part;
    }
}

/* As many whole records as fit. */
static size_t join(const struct script *script, uint8_t *out, size_t max_size) {
    static uint8_t joined[256 * 1024];
    size_t size = 0;

    max_size = max_size < sizeof joined ? max_size : sizeof joined;
    for (size_t i = 0; i < script->count; ++i) {
        const struct record *record = &script->records[i];
        if (max_size - size < FUZZ_RECORD_HEAD + record->size) {
            break;
        }
        joined[size] = record->what;
        hil_put_u16(joined + size + 1, record->size);
        memcpy(joined + size + FUZZ_RECORD_HEAD, record->data, record->size);
        size += FUZZ_RECORD_HEAD + record->size;
    }
    /* The records may lie in `out`. */
    memcpy(out, joined, size);
    return size;
}

static void insert(struct script *script, size_t at, struct record record) {
    if (script->count < MOST_RECORDS) {
        memmove(script->records + at + 1, script->records + at,
                (script->count - at) * sizeof script->records[0]);
        script->records[at] = record;
        ++script->count;
    }
}

/* A copy of the record's data, which may be changed, with `more` bytes of room behind. */
static uint8_t *own(struct record *record, size_t more) {
    uint8_t *copy = room(record->size + more);

    if (copy != NULL) {
        memcpy(copy, record->data, record->size);
        record->data = copy;
        made_size += record->size + more;
    }
    return copy;
}

/* -- changes --------------------------------------------------------------------------------- */

static void add_record(struct script *script) {
    struct record record = {room(MOST_MADE), 0, FUZZ_FRAME};
    uint8_t *at = made + made_size;
    const uint32_t kind = dice(8);

    if (record.data == NULL) {
        return;
    }
    if (kind == 0) {
        record.what = FUZZ_PAUSE;
    } else {
        record.what = kind == 1 ? FUZZ_RAW : FUZZ_FRAME;
        at = kind == 1 ? put_random(at, dice(600)) : put_request(at);
    }
    record.size = (uint16_t)(at - record.data);
    made_size += record.size;
    insert(script, dice((uint32_t)script->count + 1), record);
}

static void drop_record(struct script *script, size_t chosen) {
    --script->count;
    memmove(script->records + chosen, script->records + chosen + 1,
            (script->count - chosen) * sizeof script->records[0]);
}

static void exchange_records(struct script *script, size_t chosen) {
    const size_t other = dice((uint32_t)script->count);
    const struct record kept = script->records[chosen];

    script->records[chosen] = script->records[other];
    script->records[other] = kept;
}

/* A number of one, two or four bytes becomes one at a limit, or the next. */
static void change_number(struct record *record) {
    uint8_t *data = record->size > 0 ? own(record, 0) : NULL;

    if (data == NULL) {
        return;
    }
    const uint32_t at = dice(record->size);
    const size_t rest = record->size - at;
    const uint32_t kind = dice(4);
    if (kind == 0) {
        data[at] = (uint8_t)(data[at] + (dice(2) != 0 ? 1 : 255));
    } else if (kind == 1 || rest < 2) {
        data[at] = (uint8_t)any_limit();
    } else if (kind == 2 || rest < 4) {
        hil_put_u16(data + at, any_limit());
    } else {
        hil_put_u32(data + at, dice(2) != 0 ? 0U - any_limit() : (uint32_t)any_limit() << 8);
    }
}

static void change_bytes(struct record *record) {
    enum { MORE = 64 };
    uint8_t *data = own(record, MORE);

    if (data != NULL) {
        const size_t most = record->size + (record->size < 0xFFFF - MORE ? MORE : 0U);
        record->size = (uint16_t)LLVMFuzzerMutate(data, record->size, most);
    }
}

/* The frame as it is on the line, damaged as lines do: it is nearly one. */
static void spoil_frame(struct record *record) {
    const size_t body_at = 1 + HIL_COBS_OVERHEAD(record->size + HIL_FRAME_CRC_BYTES);
    const size_t most = body_at + record->size + HIL_FRAME_CRC_BYTES + 2;
    uint8_t *data = room(most + 1);

    if (record->what != FUZZ_FRAME || record->size > 4096 || data == NULL) {
        return;
    }
    memcpy(data + body_at, record->data, record->size);
    size_t size = hil_frame_encode(data, body_at, record->size);
    const uint32_t at = dice((uint32_t)size);
    switch (dice(5)) {
    case 0:
        data[at] ^= (uint8_t)(1U << dice(8));
        break;
    case 1:
        data[at] = (uint8_t)dice(256);
        break;
    case 2: /* lost */
        memmove(data + at, data + at + 1, size - at - 1);
        --size;
        break;
    case 3: /* twice */
        memmove(data + at + 1, data + at, size - at);
        ++size;
        break;
    default: /* cut off */
        size = at;
        break;
    }
    made_size += most + 1;
    *record = (struct record){data, (uint16_t)size, FUZZ_RAW};
}

/* One session, numbered in order as a host does. */
static void number_requests(struct script *script) {
    uint16_t seq = 0;

    for (size_t i = 0; i < script->count; ++i) {
        struct record *record = &script->records[i];
        const bool is_whole = record->what == FUZZ_FRAME && record->size >= HIL_HEADER_BYTES;
        uint8_t *data = is_whole ? own(record, 0) : NULL;
        if (data != NULL) {
            hil_put_u16(data + HIL_HEADER_SESSION, SESSION);
            hil_put_u16(data + HIL_HEADER_SEQ, ++seq);
            data[HIL_HEADER_KIND] = HIL_KIND_REQUEST;
        }
    }
}

/* A host that begins as it should. */
static void add_hello(struct script *script) {
    uint8_t *data = room(HIL_HEADER_BYTES + HIL_HELLO_REQUEST_BYTES);

    if (data != NULL) {
        struct record record = {data, HIL_HEADER_BYTES + HIL_HELLO_REQUEST_BYTES, FUZZ_FRAME};
        uint8_t *hello = data + HIL_HEADER_BYTES;
        made_size += record.size;
        hil_put_u16(data + HIL_HEADER_SESSION, SESSION);
        hil_put_u16(data + HIL_HEADER_SEQ, 0);
        data[HIL_HEADER_KIND] = HIL_KIND_REQUEST;
        data[HIL_HEADER_CODE] = HIL_COMMAND_HELLO;
        memcpy(hello, HIL_PROTOCOL_MAGIC, HIL_PROTOCOL_MAGIC_BYTES);
        hello[HIL_HELLO_REQUEST_VERSION] = HIL_PROTOCOL_VERSION;
        hil_put_u16(hello + HIL_HELLO_REQUEST_FRAME_MAX,
                    dice(2) != 0 ? HIL_FRAME_LIMIT : (uint16_t)(HIL_FRAME_MIN + dice(600)));
        insert(script, 0, record);
    }
}

static void change(struct script *script) {
    if (script->count == 0) {
        add_record(script);
        return;
    }
    const size_t chosen = dice((uint32_t)script->count);
    struct record *record = &script->records[chosen];
    switch (dice(16)) {
    case 0:
    case 1:
    case 2:
        add_record(script);
        break;
    case 3:
        drop_record(script, chosen);
        break;
    case 4:
        insert(script, dice((uint32_t)script->count + 1), *record);
        break;
    case 5:
        exchange_records(script, chosen);
        break;
    case 6:
    case 7:
    case 8:
        change_number(record);
        break;
    case 9:
    case 10:
    case 11:
        change_bytes(record);
        break;
    case 12:
        spoil_frame(record);
        break;
    case 13:
        add_hello(script);
        break;
    case 14:
        number_requests(script);
        break;
    default:
        record->what = (uint8_t)dice(FUZZ_RECORDS);
        break;
    }
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed) {
    static struct script script;

    throw_from(seed);
    if (dice(32) == 0) {
        return LLVMFuzzerMutate(data, size, max_size);
    }
    made_size = 0;
    parse(&script, data, size);
    for (uint32_t changes = 1 + dice(4); changes > 0; --changes) {
        change(&script);
    }
    return join(&script, data, max_size);
}

/* The beginning of one conversation, then the end of another. */
size_t LLVMFuzzerCustomCrossOver(const uint8_t *first, size_t first_size, const uint8_t *second,
                                 size_t second_size, uint8_t *out, size_t max_size,
                                 unsigned int seed) {
    static struct script script;
    static struct script other;

    throw_from(seed);
    made_size = 0;
    parse(&script, first, first_size);
    parse(&other, second, second_size);
    script.count = dice((uint32_t)script.count + 1);
    for (size_t i = dice((uint32_t)other.count + 1); i < other.count; ++i) {
        insert(&script, script.count, other.records[i]);
    }
    if (dice(2) != 0) {
        number_requests(&script);
    }
    return join(&script, out, max_size);
}
