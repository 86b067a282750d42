/* Between the models and TVM's C run time: the memory that they allocate from, their devices. */
#ifndef HIL_CRT_H
#define HIL_CRT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What TVMBackendAllocWorkspace hands out, last in, first out: as much as the model that needs
 * most of it. Defined by the build; aligned to 16. */
extern uint8_t hil_crt_workspace[];
extern const size_t hil_crt_workspace_bytes;

/* Makes TVM's run time ready: functions can be looked up by name afterwards. */
void hil_crt_init(void);

/* The context of a device that a model's external functions run on, by the device's name in
 * struct tvmgen_<model>_devices. The application may define it; without that every one is NULL. */
void *hil_device_context(const char *name);

#ifdef __cplusplus
}
#endif

#endif
