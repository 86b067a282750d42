/* The packed functions of the image and what they may be called with, for the serial protocol. The
 * build makes these tables when a model has functions with TVM's packed signature. */
#ifndef HIL_PACKED_H
#define HIL_PACKED_H

#include <stdint.h>

#include "tvm/runtime/c_runtime_api.h"

/* TVMBackendPackedCFunc, as generated code defines it. */
typedef int32_t (*hil_packed_function)(TVMValue *args, int *codes, int count, TVMValue *result,
                                       int *result_code, void *resource);

struct hil_packed_layer {
    const DLTensor *arguments; /* of the layer's function, in its order, without devices */
    uint8_t argument_count;    /* of these */
};

struct hil_packed_model {
    const DLTensor *inputs;  /* as many as in hil_model */
    const DLTensor *outputs; /* as many as in hil_model */
    const DLTensor *pools;   /* pool_count of them: what the entry takes behind these */
    const struct hil_packed_layer *layers; /* as many as in hil_model; NULL: not packed */
    hil_packed_function metadata;          /* returns the TVMMetadata; NULL: none */
    uint8_t pool_count;                    /* 0 where the pools are the model's own */
};

/* For each of hil_models; NULL where none of its functions is packed. */
extern const struct hil_packed_model *const hil_packed_models[];

#endif
