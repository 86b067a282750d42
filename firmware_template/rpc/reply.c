/* What all handlers of commands share: how long a reply may be, its numbers, names and errors. */
#include "reply.h"

#include <string.h>

#include "hil_rpc_command.h"

/* Bytes of payload that the host takes in a frame, as its HELLO said; until then the least. */
static size_t payload_max = HIL_PAYLOAD_MAX(HIL_FRAME_MIN);

size_t hil_rpc_payload_max(void) { return payload_max; }

size_t hil_reply_set_frame_max(uint16_t frame_max) {
    payload_max = HIL_PAYLOAD_MAX(frame_max);
    return payload_max;
}

size_t hil_rpc_fail(uint8_t *reply, enum hil_status status, uint32_t detail) {
    reply[HIL_ERROR_STATUS] = (uint8_t)status;
    hil_put_u32(reply + HIL_ERROR_DETAIL, detail);
    return HIL_ERROR_BYTES;
}

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

/* Not inline: cores without unaligned access take four instructions and more for each 32 bits. */
uint32_t hil_get_u32(const uint8_t *from) {
    return hil_get_u16(from) | (uint32_t)hil_get_u16(from + 2) << 16;
}

uint64_t hil_get_u64(const uint8_t *from) {
    return hil_get_u32(from) | (uint64_t)hil_get_u32(from + 4) << 32;
}

void hil_put_u32(uint8_t *to, uint32_t value) {
    hil_put_u16(to, (uint16_t)value);
    hil_put_u16(to + 2, (uint16_t)(value >> 16));
}

void hil_put_u64(uint8_t *to, uint64_t value) {
    hil_put_u32(to, (uint32_t)value);
    hil_put_u32(to + 4, (uint32_t)(value >> 32));
}
