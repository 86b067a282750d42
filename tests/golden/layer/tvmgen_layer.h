/* The model "layer" through TVM's packed interface. */
#ifndef TVMGEN_LAYER_H_
#define TVMGEN_LAYER_H_

#include <stdint.h>

#include "tvm/runtime/c_runtime_api.h"

#ifdef __cplusplus
extern "C" {
#endif

/*! \brief Input "t0" size (in bytes)
 * int8[1,2,2,1]; real = 0.125 * (value - 3) */
#define TVMGEN_LAYER_T0_SIZE 4

/*! \brief Output "t2" size (in bytes)
 * int8[1,2,2,1]; real = 0.125 * (value - 3) */
#define TVMGEN_LAYER_T2_SIZE 4

/*! \brief One inference; 0 on success, -1 when an operator fails, and TVM's error code for
 * arguments of the wrong number or type, or without memory.
 * args are handles of DLTensors:
 *   0: input "t0": int8[1,2,2,1]
 *   1: output "t2": int8[1,2,2,1]
 * Tensors are compact, aligned as their elements are, and do not overlap.
 * After any status but 0 the outputs are not valid. */
int32_t tvmgen_layer_run(TVMValue *args, int *type_codes, int num_args, TVMValue *out_ret_value,
                         int *out_ret_tcode, void *resource_handle);

/*! \brief Returns the model's TVMMetadata as an opaque handle; takes no arguments */
int32_t tvmgen_layer_get_c_metadata(TVMValue *args, int *type_codes, int num_args,
                                    TVMValue *out_ret_value, int *out_ret_tcode,
                                    void *resource_handle);

/*! \brief Returns the constant with the storage id args[0], an integer, as an opaque
 * handle; a null pointer where there is none */
int32_t tvmgen_layer__lookup_linked_param(TVMValue *args, int *type_codes, int num_args,
                                          TVMValue *out_ret_value, int *out_ret_tcode,
                                          void *resource_handle);

/*! \brief Workspace size (in bytes), aligned to 16 */
#define TVMGEN_LAYER_WORKSPACE_SIZE 32

#ifdef __cplusplus
}
#endif

#endif /* TVMGEN_LAYER_H_ */
