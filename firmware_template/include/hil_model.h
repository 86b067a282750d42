/* The table through which the firmware reaches its models. The build generates one
 * model_<name>.c for each model from the archive's metadata; the server reads only this. */
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
    HIL_UINT32 = 7,
    HIL_UINT64 = 8,
    HIL_UINT16 = 9,
    HIL_FLOAT16 = 10,
    HIL_FLOAT64 = 11,
};

/* A tensor in the board's memory. Its elements lie without gaps, the last axis innermost. */
struct hil_tensor {
    const char *name;     /* UTF-8 with a final zero; its length is at most 65535 bytes */
    const int32_t *shape; /* elements along each of ndim axes */
    void *data;           /* the first element, at an address that is aligned for its type */
    uint32_t nbytes;      /* of all elements */
    uint8_t ndim;         /* axes; 0: a scalar */
    uint8_t dtype;        /* enum hil_dtype */
};

/* One call of the generated code, which the host may run alone. */
struct hil_layer {
    const char *name;                 /* as hil_tensor.name */
    const struct hil_tensor *outputs; /* output_count of them, valid until the next layer runs */
    int32_t (*run)(void);             /* 0: good; else the generated code's error */
    uint8_t output_count;             /* at most 255 */
};

struct hil_model {
    const char *name;                 /* as hil_tensor.name; in generated symbols, too */
    const struct hil_tensor *inputs;  /* input_count of them; the host writes them */
    const struct hil_tensor *outputs; /* output_count of them; the host reads them */
    const struct hil_layer *layers;   /* layer_count of them; NULL: the archive describes none */
    int32_t (*run)(void);             /* the whole inference, tvmgen_<name>_run; 0: good */
    uint32_t workspace_bytes;         /* of all pools that a run needs, inputs and outputs included
                                       * where they lie in them */
    uint16_t layer_count;             /* 0 where layers is NULL */
    uint8_t input_count;              /* at most 255 */
    uint8_t output_count;             /* at most 255 */
};

extern const struct hil_model *const hil_models[]; /* hil_model_count of them, never NULL */
extern const uint8_t hil_model_count;              /* models of the image */

/* The context of a device that a model's external functions run on, by the device's name in
 * struct tvmgen_<model>_devices. The application may define it; without that every one is NULL. */
void *hil_device_context(const char *name);

#ifdef __cplusplus
}
#endif

#endif
