/* Functions by name. */
#include <tvm/runtime/crt/func_registry.h>

#include <string.h>

/* The number of functions, before the names. */
#define COUNT_BYTES sizeof(uint16_t)

uint16_t TVMFuncRegistry_GetNumFuncs(const TVMFuncRegistry *reg) {
    uint16_t count = 0;
    if (reg != NULL && reg->names != NULL && reg->funcs != NULL) {
        memcpy(&count, reg->names, sizeof count); /* a string may start at an odd address */
    }
    return count;
}

int TVMFuncRegistry_SetNumFuncs(const TVMFuncRegistry *reg, const uint16_t num_funcs) {
    if (reg == NULL || reg->names == NULL) {
        return kTvmErrorFunctionCallInvalidArg;
    }
    memcpy((char *)(uintptr_t)reg->names, &num_funcs, sizeof num_funcs);
    return kTvmErrorNoError;
}

const char *TVMFuncRegistry_Get0thFunctionName(const TVMFuncRegistry *reg) {
    return reg != NULL && reg->names != NULL ? reg->names + COUNT_BYTES : NULL;
}

/* Whether the text starts with name and its zero; *text moves on behind its own zero. In place of
 * strcmp and strlen, which are a kilobyte in newlib: many an image needs no other function of it.
 */
static int take_name(const char **text, const char *name) {
    const char *at = *text;
    while (*at != '\0' && *at == *name) {
        at++;
        name++;
    }
    const int same = *at == *name;
    while (*at++ != '\0') {
    }
    *text = at;
    return same;
}

tvm_crt_error_t TVMFuncRegistry_Lookup(const TVMFuncRegistry *reg, const char *name,
                                       tvm_function_index_t *function_index) {
    const uint16_t count = TVMFuncRegistry_GetNumFuncs(reg);
    if (count == 0 || name == NULL || function_index == NULL) {
        return kTvmErrorFunctionNameNotFound;
    }
    const char *candidate = TVMFuncRegistry_Get0thFunctionName(reg);
    for (uint16_t i = 0; i < count && *candidate != '\0'; i++) {
        if (take_name(&candidate, name)) {
            *function_index = i;
            return kTvmErrorNoError;
        }
    }
    return kTvmErrorFunctionNameNotFound;
}

tvm_crt_error_t TVMFuncRegistry_GetByIndex(const TVMFuncRegistry *reg, tvm_function_index_t index,
                                           TVMBackendPackedCFunc *out_func) {
    if (index >= TVMFuncRegistry_GetNumFuncs(reg) || out_func == NULL) {
        return kTvmErrorFunctionIndexInvalid;
    }
    *out_func = reg->funcs[index];
    return kTvmErrorNoError;
}

tvm_crt_error_t TVMMutableFuncRegistry_Create(TVMMutableFuncRegistry *reg, uint8_t *buffer,
                                              size_t buffer_size_bytes) {
    if (reg == NULL || buffer == NULL || buffer_size_bytes < TVM_AVERAGE_FUNC_ENTRY_SIZE_BYTES) {
        return kTvmErrorBufferTooSmall;
    }
    size_t max_functions = buffer_size_bytes / TVM_AVERAGE_FUNC_ENTRY_SIZE_BYTES;
    if (max_functions > UINT16_MAX) {
        max_functions = UINT16_MAX;
    }
    /* The last place for the addresses, down to where they are aligned. An entry is larger than an
     * address by more than that costs. */
    uintptr_t funcs = (uintptr_t)buffer + buffer_size_bytes - max_functions * sizeof(void *);
    funcs -= funcs % sizeof(void *);
    reg->registry.names = (const char *)buffer;
    reg->registry.funcs = (const TVMBackendPackedCFunc *)funcs;
    reg->max_functions = max_functions;
    memset(buffer, 0, buffer_size_bytes);
    return kTvmErrorNoError;
}

tvm_crt_error_t TVMMutableFuncRegistry_Set(TVMMutableFuncRegistry *reg, const char *name,
                                           TVMBackendPackedCFunc func, int override) {
    if (reg == NULL || reg->registry.names == NULL || name == NULL || *name == '\0' ||
        func == NULL) {
        return kTvmErrorFunctionCallInvalidArg;
    }
    /* Both tables lie in the buffer that the caller gave to write to. */
    TVMBackendPackedCFunc *const funcs = (TVMBackendPackedCFunc *)(uintptr_t)reg->registry.funcs;
    char *const names = (char *)(uintptr_t)reg->registry.names;
    tvm_function_index_t index;
    if (TVMFuncRegistry_Lookup(&reg->registry, name, &index) == kTvmErrorNoError) {
        if (!override) {
            return kTvmErrorFunctionAlreadyDefined;
        }
        funcs[index] = func;
        return kTvmErrorNoError;
    }
    uint16_t count = TVMFuncRegistry_GetNumFuncs(&reg->registry);
    char *end = names + COUNT_BYTES;
    for (uint16_t i = 0; i < count; i++) {
        end += strlen(end) + 1;
    }
    /* For the name, its zero and the empty name that ends the table. */
    const size_t available = (uintptr_t)funcs - (uintptr_t)end;
    const size_t length = strlen(name);
    if (count >= reg->max_functions || available < 2 || length > available - 2) {
        return kTvmErrorFunctionRegistryFull;
    }
    memcpy(end, name, length + 1);
    end[length + 1] = '\0';
    funcs[count] = func;
    count++;
    return (tvm_crt_error_t)TVMFuncRegistry_SetNumFuncs(&reg->registry, count);
}
