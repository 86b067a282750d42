/* The table through which the firmware reaches its models. The build generates one
 * model_<name>.c for each model from the archive's metadata; rpc.c reads only this. */
#ifndef HIL_MODEL_H
#define HIL_MODEL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum hil_dtype {
    HIL_INT8 = 0,
    HIL_UINT8 = 1,
    HIL_INT16 = 2,
    HIL_INT32 = 3,
    HIL_INT64 = 4,
    HIL_FLOAT32 = 5,
    HIL_BOOL = 6,
};

struct hil_tensor {
    const char *name;
    const int32_t *shape; /* ndim entries */
    void *data;
    uint32_t nbytes;
    uint8_t ndim;
    uint8_t dtype; /* enum hil_dtype */
};

struct hil_layer {
    const char *name;
    const struct hil_tensor *outputs;
    int32_t (*run)(void); /* 0 on success */
    uint8_t output_count;
};

struct hil_model {
    const char *name;
    const struct hil_tensor *inputs;
    const struct hil_tensor *outputs;
    const struct hil_layer *layers; /* NULL when the archive describes none */
    int32_t (*run)(void);           /* the whole inference through tvmgen_<name>_run */
    uint32_t workspace_bytes;
    uint16_t layer_count;
    uint8_t input_count;
    uint8_t output_count;
};

extern const struct hil_model *const hil_models[];
extern const uint8_t hil_model_count;

#ifdef __cplusplus
}
#endif

#endif
