/* Inside the server of the serial protocol: what the handlers of commands need, wherever they are.
 * A handler gets the request's payload and fills the reply's, which starts with HIL_STATUS_OK; it
 * returns the reply's size. */
#ifndef HIL_RPC_COMMAND_H
#define HIL_RPC_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hil_model.h"
#include "hil_protocol.h"

#ifdef __cplusplus
extern "C" {
#endif

struct hil_rpc_command {
    /* Executes the request, of `size` bytes, and returns the reply's bytes, at least 1; 0: another
     * request interrupted it, and there is no reply. NULL: no such command. */
    size_t (*handle)(const uint8_t *request, size_t size, uint8_t *reply);
    uint8_t size;  /* bytes of the request, or of its fixed part: HIL_..._REQUEST_BYTES */
    bool has_data; /* bytes may follow the fixed part */
};

/* The commands from one to another, as bits: bit n for command n. */
#define HIL_COMMAND_BITS(first, last) ((UINT64_C(2) << (last)) - (UINT64_C(1) << (first)))

/* A list of tensors. */
struct hil_tensor_list {
    const struct hil_tensor *first; /* `count` of them */
    uint8_t count;                  /* 0: the protocol does not know the list */
};

/* The reply that says why a request is not executed. */
size_t hil_rpc_fail(uint8_t *reply, enum hil_status status, uint32_t detail);

/* Bytes of payload that the host takes in a frame. */
size_t hil_rpc_payload_max(void);

/* Copies what fits of `text` from byte `offset` on to reply + at, and its whole length to
 * reply + length_at. Returns the size of the reply. */
size_t hil_rpc_put_name(uint8_t *reply, size_t length_at, size_t at, const char *text,
                        size_t offset);

/* The model, or NULL. */
const struct hil_model *hil_rpc_model(uint8_t index);

/* Tells the host that what it asked for takes its time. */
void hil_rpc_send_busy(uint32_t done, uint32_t total);

/* Numbers in payloads: unsigned, the lowest byte first, at any address. */
static inline uint16_t hil_get_u16(const uint8_t *from) {
    return (uint16_t)(from[0] | from[1] << 8);
}

static inline void hil_put_u16(uint8_t *to, uint16_t value) {
    to[0] = (uint8_t)value;
    to[1] = (uint8_t)(value >> 8);
}

uint32_t hil_get_u32(const uint8_t *from);
uint64_t hil_get_u64(const uint8_t *from);
void hil_put_u32(uint8_t *to, uint32_t value);
void hil_put_u64(uint8_t *to, uint64_t value);

#ifdef __cplusplus
}
#endif

#endif
