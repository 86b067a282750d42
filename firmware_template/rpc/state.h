/* Inside the server of the serial protocol: models' states, where a model of the image has some. */
#ifndef HIL_SERVER_STATE_H
#define HIL_SERVER_STATE_H

#include "hil_config.h"
#include "hil_rpc_command.h"

#ifdef __cplusplus
extern "C" {
#endif

#ifdef HIL_HAS_STATE

size_t hil_rpc_on_state_info(const uint8_t *request, size_t size, uint8_t *reply);
size_t hil_rpc_on_reset_state(const uint8_t *request, size_t size, uint8_t *reply);

/* The states of a model, whose index is within hil_models; count 0: it has none. */
struct hil_tensor_list hil_state_tensors(uint8_t model);

/* As RESET_STATE of each model: RAM has any value when a board starts. */
void hil_state_reset_all(void);

/* Entries of the table of commands, and the commands of these that the image leaves out. */
#define HIL_STATE_COMMANDS                                                                         \
    [HIL_COMMAND_STATE_INFO] = {hil_rpc_on_state_info, HIL_STATE_INFO_REQUEST_BYTES, false},       \
    [HIL_COMMAND_RESET_STATE] = {hil_rpc_on_reset_state, HIL_RESET_STATE_REQUEST_BYTES, false},
#define HIL_STATE_LEFT_OUT UINT64_C(0)

#else

static inline struct hil_tensor_list hil_state_tensors(uint8_t model) {
    const struct hil_tensor_list none = {NULL, 0};

    (void)model;
    return none;
}

static inline void hil_state_reset_all(void) {}

#define HIL_STATE_COMMANDS
#define HIL_STATE_LEFT_OUT HIL_COMMAND_BITS(HIL_COMMAND_STATE_INFO, HIL_COMMAND_RESET_STATE)

#endif

#ifdef __cplusplus
}
#endif

#endif
