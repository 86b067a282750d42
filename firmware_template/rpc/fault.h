/* Inside the server of the serial protocol: the fault that hil_rpc_fault was called with. */
#ifndef HIL_SERVER_FAULT_H
#define HIL_SERVER_FAULT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Sends the events STACK and FAULT of it. Returns its enum hil_fault_kind; 0: there was no fault
 * since the last reset, and nothing was sent. */
uint32_t hil_fault_send(void);

#ifdef __cplusplus
}
#endif

#endif
