/* The protocol's commands for packed functions and TVM's metadata, as entries of the table. */
#ifndef HIL_RPC_PACKED_H
#define HIL_RPC_PACKED_H

#include "hil_rpc_command.h"

size_t hil_rpc_on_function_info(const uint8_t *request, size_t size, uint8_t *reply);
size_t hil_rpc_on_call(const uint8_t *request, size_t size, uint8_t *reply);
size_t hil_rpc_on_metadata_info(const uint8_t *request, size_t size, uint8_t *reply);
size_t hil_rpc_on_metadata_tensor(const uint8_t *request, size_t size, uint8_t *reply);
size_t hil_rpc_on_metadata_constant(const uint8_t *request, size_t size, uint8_t *reply);

/* clang-format off */
#define HIL_RPC_PACKED_COMMANDS                                                                    \
    [HIL_COMMAND_FUNCTION_INFO] = {                                                                \
        hil_rpc_on_function_info, HIL_FUNCTION_INFO_REQUEST_BYTES, false},                         \
    [HIL_COMMAND_CALL] = {hil_rpc_on_call, HIL_CALL_REQUEST_BYTES, true},                          \
    [HIL_COMMAND_METADATA_INFO] = {                                                                \
        hil_rpc_on_metadata_info, HIL_METADATA_INFO_REQUEST_BYTES, false},                         \
    [HIL_COMMAND_METADATA_TENSOR] = {                                                              \
        hil_rpc_on_metadata_tensor, HIL_METADATA_TENSOR_REQUEST_BYTES, false},                     \
    [HIL_COMMAND_METADATA_CONSTANT] = {                                                            \
        hil_rpc_on_metadata_constant, HIL_METADATA_CONSTANT_REQUEST_BYTES, false},
/* clang-format on */

#endif
