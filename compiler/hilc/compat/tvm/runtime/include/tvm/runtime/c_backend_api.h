/* What generated code calls, and the signature by which it is called. */
#ifndef TVM_RUNTIME_C_BACKEND_API_H_
#define TVM_RUNTIME_C_BACKEND_API_H_

#include <tvm/runtime/c_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A packed function: num_args values with their codes (TVMArgTypeCode) in, one result out, 0 when
 * it succeeded. resource_handle is the TVMFuncRegistry of the function's module, NULL for a global
 * function and for direct calls. */
typedef int (*TVMBackendPackedCFunc)(TVMValue *args, int *type_codes, int num_args,
                                     TVMValue *out_ret_value, int *out_ret_tcode,
                                     void *resource_handle);

/* The function that func_name means to code of the module mod_node (its resource_handle): its own,
 * then those of the other modules, then the global ones. Without one *out is NULL and the result
 * kTvmErrorFunctionNameNotFound. */
TVM_DLL int TVMBackendGetFuncFromEnv(void *mod_node, const char *func_name, TVMFunctionHandle *out);

/* Symbols are found through TVMSystemLibEntryPoint: kTvmErrorFunctionCallNotImplemented. */
TVM_DLL int TVMBackendRegisterSystemLibSymbol(const char *name, void *ptr);
TVM_DLL int TVMBackendRegisterEnvCAPI(const char *name, void *ptr);

/* nbytes bytes from TVMPlatformMemoryAllocate for a while, NULL when there are none. Blocks are
 * freed in the opposite order of their allocation. The hints change nothing. */
TVM_DLL void *TVMBackendAllocWorkspace(int device_type, int device_id, uint64_t nbytes,
                                       int dtype_code_hint, int dtype_bits_hint);
TVM_DLL int TVMBackendFreeWorkspace(int device_type, int device_id, void *ptr);

typedef struct {
    void *sync_handle;
    int32_t num_task;
} TVMParallelGroupEnv;

typedef int (*FTVMParallelLambda)(int task_id, TVMParallelGroupEnv *penv, void *cdata);

/* Run the num_task tasks (0: one) one after the other on the one core; the first that fails ends it
 * and its result is the result. */
TVM_DLL int TVMBackendParallelLaunch(FTVMParallelLambda flambda, void *cdata, int num_task);
/* Tasks that run one after the other cannot wait for each other: 0 in a group of one task,
 * otherwise kTvmErrorFunctionCallNotImplemented. */
TVM_DLL int TVMBackendParallelBarrier(int task_id, TVMParallelGroupEnv *penv);
/* Call f(cdata) unless *handle says that it ran already. It is called again when it fails. */
TVM_DLL int TVMBackendRunOnce(void **handle, int (*f)(void *), void *cdata, int nbytes);

#ifdef __cplusplus
}
#endif

#endif
