/* How much of the stack was ever used: it is painted before main runs. */
#ifndef HIL_STACK_H
#define HIL_STACK_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Size of the stack that main and the models run on; 0 where the system decides it. */
uint32_t hil_stack_bytes(void);

/* Most of it that was ever in use; 0 where it is not known. */
uint32_t hil_stack_peak_bytes(void);

#ifdef __cplusplus
}
#endif

#endif
