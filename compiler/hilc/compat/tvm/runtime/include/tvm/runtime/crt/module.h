/* Modules: tables of functions that handles refer to. */
#ifndef TVM_RUNTIME_CRT_MODULE_H_
#define TVM_RUNTIME_CRT_MODULE_H_

#include <tvm/runtime/c_backend_api.h>
#include <tvm/runtime/crt/func_registry.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct TVMModule {
    const TVMFuncRegistry *registry;
} TVMModule;

/* A handle for mod, which must live as long; the same one when mod has one already. An error when
 * TVM_CRT_MAX_REGISTERED_MODULES modules have one. */
int TVMModCreateFromCModule(const TVMModule *mod, TVMModuleHandle *out_handle);

/* The image's compiled functions: generated code defines it. */
const TVMModule *TVMSystemLibEntryPoint(void);

#ifdef __cplusplus
}
#endif

#endif
