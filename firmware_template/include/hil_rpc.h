/* The server of the serial line: of our protocol (rpc/rpc.c, docs/reference/protocol.md) or, in an
 * image for MLPerf Tiny, of that benchmark's commands (mlperf/mlperf.c). The application calls it
 * from one context: main. */
#ifndef HIL_RPC_H
#define HIL_RPC_H

#include "hil_fault.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Announces the start on the line. Call after hil_port_init, before the rest of this header. */
void hil_rpc_init(void);

/* Takes what was received, executes at most the requests in it, answers them. Never waits for
 * input; call it for ever. */
void hil_rpc_poll(void);

/* For the fault handler: reports the fault on the line, also in the middle of anything that this
 * module was doing. Afterwards hil_rpc_poll answers every request with the fault, except HELLO and
 * RESET; the handler calls it for ever when its port can receive there, else it resets. */
void hil_rpc_fault(const struct hil_fault *fault);

/* Sends text to the host's log; newlines as in the text. Not from interrupts. */
void hil_log(const char *text);

#ifdef __cplusplus
}
#endif

#endif
