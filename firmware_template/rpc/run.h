/* Inside the server of the serial protocol: handlers of commands that run models. */
#ifndef HIL_SERVER_RUN_H
#define HIL_SERVER_RUN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

size_t hil_rpc_on_run(const uint8_t *request, size_t size, uint8_t *reply);
size_t hil_rpc_on_run_layers(const uint8_t *request, size_t size, uint8_t *reply);

#ifdef __cplusplus
}
#endif

#endif
