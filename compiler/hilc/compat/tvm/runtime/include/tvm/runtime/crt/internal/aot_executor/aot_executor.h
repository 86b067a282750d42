/* The executor of TVM v0.8, whose firmware named a model by a struct. */
#ifndef TVM_RUNTIME_CRT_INTERNAL_AOT_EXECUTOR_AOT_EXECUTOR_H_
#define TVM_RUNTIME_CRT_INTERNAL_AOT_EXECUTOR_AOT_EXECUTOR_H_

#include <stddef.h>
#include <tvm/runtime/c_backend_api.h>
#include <tvm/runtime/crt/error_codes.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    size_t num_input_tensors;
    size_t num_output_tensors;
    TVMBackendPackedCFunc run_func; /* tvmgen_<model>_run of the packed interface */
} tvm_model_t;

/* Run the model on the caller's buffers. kTvmErrorFunctionCallNumArguments for more than
 * TVM_CRT_MAX_ARGS buffers; the model's own error is the result. */
tvm_crt_error_t tvm_runtime_run(const tvm_model_t *model, void **inputs, void **outputs);

#ifdef __cplusplus
}
#endif

#endif
