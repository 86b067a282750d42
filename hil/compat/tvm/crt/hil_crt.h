/* Between the models and TVM's C run time: the memory that they allocate from. */
#ifndef HIL_CRT_H
#define HIL_CRT_H

#include <stddef.h>
#include <stdint.h>

#include "hil_model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What TVMBackendAllocWorkspace hands out, last in, first out: as much as the model that needs
 * most of it. Defined by the build; aligned to 16. */
extern uint8_t hil_crt_workspace[];
extern const size_t hil_crt_workspace_bytes;

/* Makes TVM's run time ready: functions can be looked up by name afterwards. */
void hil_crt_init(void);

#ifdef __cplusplus
}
#endif

#endif
