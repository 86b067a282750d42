/* Inside the server of the serial protocol: handlers of commands for models and tensors. */
#ifndef HIL_SERVER_TENSORS_H
#define HIL_SERVER_TENSORS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

size_t hil_rpc_on_model_info(const uint8_t *request, size_t size, uint8_t *reply);
size_t hil_rpc_on_tensor_info(const uint8_t *request, size_t size, uint8_t *reply);
size_t hil_rpc_on_layer_info(const uint8_t *request, size_t size, uint8_t *reply);
size_t hil_rpc_on_write(const uint8_t *request, size_t size, uint8_t *reply);
size_t hil_rpc_on_read(const uint8_t *request, size_t size, uint8_t *reply);

#ifdef __cplusplus
}
#endif

#endif
