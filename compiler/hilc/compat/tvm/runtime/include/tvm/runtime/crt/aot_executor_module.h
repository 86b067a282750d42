/* An executor as a module of functions, for whoever calls by name. */
#ifndef TVM_RUNTIME_CRT_AOT_EXECUTOR_MODULE_H_
#define TVM_RUNTIME_CRT_AOT_EXECUTOR_MODULE_H_

#include <tvm/runtime/crt/error_codes.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Register the global function tvm.aot_executor.create(module, device, name) -> module with
 * get_input, get_input_index, get_num_inputs, get_num_outputs, get_output, run and set_input; there
 * is one such module at a time. get_input_info, load_params and share_params are there too and
 * return kTvmErrorFunctionCallNotImplemented: a compiled model's parameters are in its code. */
tvm_crt_error_t TVMAotExecutorModule_Register(void);

#ifdef __cplusplus
}
#endif

#endif
