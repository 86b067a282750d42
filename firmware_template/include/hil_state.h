/* The states of the image's models: values that one run leaves to the next. The build makes this
 * table when a model has some. */
#ifndef HIL_STATE_H
#define HIL_STATE_H

#include <stdint.h>

#include "hil_model.h"

#ifdef __cplusplus
extern "C" {
#endif

struct hil_states {
    const struct hil_tensor *tensors; /* count of them; the host reads and writes them */
    int32_t (*reset)(void);           /* gives each its first value; 0: good */
    uint8_t count;                    /* 1 to 255 */
};

/* For each of hil_models; NULL where it has no states. */
extern const struct hil_states *const hil_model_states[];

#ifdef __cplusplus
}
#endif

#endif
