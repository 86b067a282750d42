/* The start of the C run time. */
#ifndef TVM_RUNTIME_CRT_CRT_H_
#define TVM_RUNTIME_CRT_CRT_H_

#include <tvm/runtime/crt/error_codes.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Start with no modules and these global functions: runtime.SystemLib,
 * tvm.rpc.server.ModuleGetFunction, runtime.RPCTimeEvaluator, tvm.rpc.server.GetCRTMaxPacketSize,
 * tvm.contrib.random.random_fill. Allocates nothing; called again, all handles become invalid. */
tvm_crt_error_t TVMInitializeRuntime(void);

#ifdef __cplusplus
}
#endif

#endif
