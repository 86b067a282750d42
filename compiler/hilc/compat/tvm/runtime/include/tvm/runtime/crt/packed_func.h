/* Calls of functions that were found by name. */
#ifndef TVM_RUNTIME_CRT_PACKED_FUNC_H_
#define TVM_RUNTIME_CRT_PACKED_FUNC_H_

#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/crt/internal/config.h>
#include <tvm/runtime/crt/module.h>
#include <tvm/runtime/crt/platform.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct TVMArgs {
    TVMValue values[TVM_CRT_MAX_ARGS];
    int tcodes[TVM_CRT_MAX_ARGS];
    uint32_t values_count;
} TVMArgs;

/* Copies of values_count values and their codes. With more than TVM_CRT_MAX_ARGS of them nothing is
 * copied, and a call with the result returns kTvmErrorFunctionCallNumArguments. */
TVMArgs TVMArgs_Create(TVMValue *values, uint32_t *tcodes, uint32_t values_count);

/* The module at an index; NULL (and the last error says why) where there is none. */
TVMModuleHandle TVMArgs_AsModuleHandle(const TVMArgs *args, size_t index);

typedef struct TVMPackedFunc {
    char name[200];
    TVMFunctionHandle fexec;
    TVMArgs args;
    TVMArgs ret_value;
    int (*Call)(struct TVMPackedFunc *pf);
    void (*SetArgs)(struct TVMPackedFunc *pf, const struct TVMArgs *args);
} TVMPackedFunc;

/* Find a function by name, a global one or a module's: kTvmErrorFunctionNameNotFound. */
int TVMPackedFunc_InitGlobalFunc(TVMPackedFunc *pf, const char *name, const TVMArgs *args);
int TVMPackedFunc_InitModuleFunc(TVMPackedFunc *pf, TVMModuleHandle module, const char *name,
                                 const TVMArgs *args);

/* Call it with its arguments; ret_value holds its result. */
int TVMPackedFunc_Call(TVMPackedFunc *pf);
void TVMPackedFunc_SetArgs(TVMPackedFunc *pf, const TVMArgs *args);

/* What a TVMRetValueHandle points to. */
typedef struct TVMCReturnValue {
    TVMValue *ret_val;
    int *ret_type_code;
} TVMCReturnValue;

#ifdef __cplusplus
}
#endif

#endif
