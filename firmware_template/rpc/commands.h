/* Inside the server of the serial protocol: the commands that the image has. */
#ifndef HIL_COMMANDS_H
#define HIL_COMMANDS_H

#include <stddef.h>
#include <stdint.h>

#include "session.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Executes a request, or refuses it. Returns the size of the reply, whose status comes first; 0:
 * another request interrupted it, and there is no reply. */
size_t hil_commands_execute(const struct hil_request *made, uint8_t *reply);

#ifdef __cplusplus
}
#endif

#endif
