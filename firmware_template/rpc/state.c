/* The commands for models with states; in firmware with such a model only. */
#include "state.h"

#include "hil_rpc.h"
#include "hil_state.h"

struct hil_tensor_list hil_state_tensors(uint8_t model) {
    const struct hil_states *states = hil_model_states[model];

    if (states == NULL) {
        return (struct hil_tensor_list){NULL, 0};
    }
    return (struct hil_tensor_list){states->tensors, states->count};
}

size_t hil_rpc_on_state_info(const uint8_t *request, size_t size, uint8_t *reply) {
    const uint8_t model = request[HIL_STATE_INFO_REQUEST_MODEL];

    (void)size;
    if (hil_rpc_model(model) == NULL) {
        return hil_rpc_fail(reply, HIL_STATUS_BAD_MODEL, hil_model_count);
    }
    reply[HIL_STATE_INFO_REPLY_STATES] = hil_state_tensors(model).count;
    return HIL_STATE_INFO_REPLY_BYTES;
}

size_t hil_rpc_on_reset_state(const uint8_t *request, size_t size, uint8_t *reply) {
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

void hil_state_reset_all(void) {
    for (uint8_t model = 0; model < hil_model_count; ++model) {
        if (hil_model_states[model] != NULL && hil_model_states[model]->reset() != 0) {
            hil_log("the states of a model cannot be reset");
        }
    }
}
