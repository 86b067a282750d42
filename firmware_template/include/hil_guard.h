/* Guards around the models' workspaces: bytes that nothing has a reason to touch. */
#ifndef HIL_GUARD_H
#define HIL_GUARD_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Below and above the pools of each region of memory; the linker script leaves the room. */
#define HIL_GUARD_BYTES 16

/* Fills the guards. */
void hil_guards_set(void);

/* How many of their bytes have changed since; 0 where the system places the pools. */
uint32_t hil_guards_changed(void);

#ifdef __cplusplus
}
#endif

#endif
