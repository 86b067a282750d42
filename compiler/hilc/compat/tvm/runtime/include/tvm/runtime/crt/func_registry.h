/* Functions by name: a constant table (a module's) and one that grows (the global functions'). */
#ifndef TVM_RUNTIME_CRT_FUNC_REGISTRY_H_
#define TVM_RUNTIME_CRT_FUNC_REGISTRY_H_

#include <tvm/runtime/c_backend_api.h>
#include <tvm/runtime/crt/error_codes.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef uint16_t tvm_function_index_t;
typedef uint16_t tvm_module_index_t;

typedef struct TVMFuncRegistry {
    /* The number of functions, a uint16_t in the machine's own byte order, then each name with its
     * zero in the order of funcs, then an empty name. */
    const char *names;
    const TVMBackendPackedCFunc *funcs; /* as many as there are names */
} TVMFuncRegistry;

/* How many functions the table has: 0 for one without names or addresses. */
uint16_t TVMFuncRegistry_GetNumFuncs(const TVMFuncRegistry *reg);
/* Write the number; the names must lie in memory that can be written to.
 * kTvmErrorFunctionCallInvalidArg without names. */
int TVMFuncRegistry_SetNumFuncs(const TVMFuncRegistry *reg, const uint16_t num_funcs);
/* The first name, behind which the others stand; NULL without names. */
const char *TVMFuncRegistry_Get0thFunctionName(const TVMFuncRegistry *reg);

/* Where name stands in the table; *function_index only changes when it is there. A table without
 * names has no functions. kTvmErrorFunctionNameNotFound. */
tvm_crt_error_t TVMFuncRegistry_Lookup(const TVMFuncRegistry *reg, const char *name,
                                       tvm_function_index_t *function_index);

/* The function at an index. kTvmErrorFunctionIndexInvalid. */
tvm_crt_error_t TVMFuncRegistry_GetByIndex(const TVMFuncRegistry *reg, tvm_function_index_t index,
                                           TVMBackendPackedCFunc *out_func);

typedef struct TVMMutableFuncRegistry {
    TVMFuncRegistry registry; /* both tables lie in the caller's buffer */
    size_t max_functions;     /* at most 65535 */
} TVMMutableFuncRegistry;

/* A table's capacity is counted in names of this length, each with its zero and its address. */
#define TVM_AVERAGE_FUNCTION_NAME_SIZE_BYTES 10
#define TVM_AVERAGE_FUNC_ENTRY_SIZE_BYTES                                                          \
    (TVM_AVERAGE_FUNCTION_NAME_SIZE_BYTES + 1 + sizeof(void *))

/* An empty table in the buffer, which must live as long. Names grow from its start, addresses stand
 * at its end. kTvmErrorBufferTooSmall when it cannot hold one function. */
tvm_crt_error_t TVMMutableFuncRegistry_Create(TVMMutableFuncRegistry *reg, uint8_t *buffer,
                                              size_t buffer_size_bytes);

/* Add a function or, with override, replace it. kTvmErrorFunctionAlreadyDefined;
 * kTvmErrorFunctionRegistryFull when neither the functions nor the bytes of names suffice;
 * kTvmErrorFunctionCallInvalidArg without a name or a function. */
tvm_crt_error_t TVMMutableFuncRegistry_Set(TVMMutableFuncRegistry *reg, const char *name,
                                           TVMBackendPackedCFunc func, int override);

#ifdef __cplusplus
}
#endif

#endif
