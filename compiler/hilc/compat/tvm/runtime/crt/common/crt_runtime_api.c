/* Modules and functions by handle.
 *
 * A handle is a number, never an address, so that one from outside (over a serial line) can be
 * checked: module index | 0x8000; (module index | 0x8000) << 16 | function index | 0x8000. The
 * module index after the last one means the global functions. */
#include "internal.h"

#include <tvm/runtime/c_backend_api.h>
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/crt/internal/config.h>
#include <tvm/runtime/crt/packed_func.h>

#define VALID 0x8000U
#define INDEX 0x7fffU
#define GLOBAL_MODULE ((unsigned)(TVM_CRT_MAX_REGISTERED_MODULES))

_Static_assert(TVM_CRT_MAX_REGISTERED_MODULES > 0 &&
                   TVM_CRT_MAX_REGISTERED_MODULES < HIL_CRT_TIME_EVALUATOR_MODULE,
               "TVM_CRT_MAX_REGISTERED_MODULES must fit the 15 bits of a handle");

static const TVMModule *modules[TVM_CRT_MAX_REGISTERED_MODULES];
static TVMMutableFuncRegistry globals;
static hil_crt_evaluator evaluator;

/* An image without packed functions has none. Weak only here: TVMInitializeRuntime needs it. */
extern const TVMModule *TVMSystemLibEntryPoint(void) __attribute__((weak));

void hil_crt_reset(const TVMMutableFuncRegistry *functions) {
    for (unsigned i = 0; i < GLOBAL_MODULE; i++) {
        modules[i] = NULL;
    }
    globals = *functions;
    evaluator = NULL;
}

void hil_crt_set_evaluator(hil_crt_evaluator handler) { evaluator = handler; }

TVMFunctionHandle hil_crt_function_handle(unsigned module_index, unsigned function_index) {
    return (TVMFunctionHandle)(((uintptr_t)(module_index | VALID) << 16) | function_index | VALID);
}

static TVMModuleHandle module_handle(unsigned index) {
    return (TVMModuleHandle)(uintptr_t)(index | VALID);
}

/* GLOBAL_MODULE where the handle means no module. */
static unsigned module_index(TVMModuleHandle handle) {
    const uintptr_t index = (uintptr_t)handle ^ VALID;
    return index < GLOBAL_MODULE && modules[index] != NULL ? (unsigned)index : GLOBAL_MODULE;
}

const TVMModule *hil_crt_module(TVMModuleHandle handle) {
    const unsigned index = module_index(handle);
    return index < GLOBAL_MODULE ? modules[index] : NULL;
}

int TVMModCreateFromCModule(const TVMModule *mod, TVMModuleHandle *out_handle) {
    if (mod == NULL || mod->registry == NULL || out_handle == NULL) {
        return hil_crt_fail(kTvmErrorFunctionCallInvalidArg, "a module without functions", NULL);
    }
    unsigned free_index = GLOBAL_MODULE;
    for (unsigned i = GLOBAL_MODULE; i-- > 0;) {
        if (modules[i] == mod) {
            *out_handle = module_handle(i);
            return 0;
        }
        free_index = modules[i] == NULL ? i : free_index;
    }
    if (free_index == GLOBAL_MODULE) {
        return hil_crt_fail(kTvmErrorFunctionRegistryFull,
                            "too many modules, raise TVM_CRT_MAX_REGISTERED_MODULES", NULL);
    }
    modules[free_index] = mod;
    *out_handle = module_handle(free_index);
    return 0;
}

int TVMModFree(TVMModuleHandle mod) {
    const unsigned index = module_index(mod);
    if (index == GLOBAL_MODULE) {
        return hil_crt_fail(kTvmErrorFunctionIndexInvalid, "not a module's handle", NULL);
    }
    modules[index] = NULL;
    return 0;
}

int TVMModLoadFromFile(const char *file_name, const char *format, TVMModuleHandle *out) {
    (void)format;
    (void)out;
    return hil_crt_fail(kTvmErrorFunctionCallNotImplemented, "modules are linked, never loaded",
                        file_name);
}

int TVMModImport(TVMModuleHandle mod, TVMModuleHandle dep) {
    (void)mod;
    (void)dep;
    return hil_crt_fail(kTvmErrorFunctionCallNotImplemented, "modules are linked, never imported",
                        NULL);
}

/* The handle of a function by its name; no sentence is kept, since there may be further tables. */
static tvm_crt_error_t find(const TVMFuncRegistry *registry, unsigned index, const char *name,
                            TVMFunctionHandle *out) {
    tvm_function_index_t function = 0;
    const tvm_crt_error_t err = TVMFuncRegistry_Lookup(registry, name, &function);
    if (err != kTvmErrorNoError) {
        return err;
    }
    if (function > INDEX) {
        return kTvmErrorFunctionIndexInvalid;
    }
    *out = hil_crt_function_handle(index, function);
    return kTvmErrorNoError;
}

int TVMModGetFunction(TVMModuleHandle mod, const char *func_name, int query_imports,
                      TVMFunctionHandle *out) {
    (void)query_imports;
    if (out == NULL || func_name == NULL) {
        return hil_crt_fail(kTvmErrorFunctionCallInvalidArg, "no function's name given", NULL);
    }
    *out = NULL;
    const unsigned index = module_index(mod);
    if (index == GLOBAL_MODULE) {
        return hil_crt_fail(kTvmErrorFunctionIndexInvalid, "not a module's handle", NULL);
    }
    const tvm_crt_error_t err = find(modules[index]->registry, index, func_name, out);
    return err == kTvmErrorNoError
               ? 0
               : hil_crt_fail(err, "the module has no such function", func_name);
}

int TVMFuncGetGlobal(const char *name, TVMFunctionHandle *out) {
    if (out == NULL || name == NULL) {
        return hil_crt_fail(kTvmErrorFunctionCallInvalidArg, "no function's name given", NULL);
    }
    *out = NULL;
    find(&globals.registry, GLOBAL_MODULE, name, out);
    return 0;
}

int TVMFuncRegisterGlobal(const char *name, TVMFunctionHandle f, int override) {
    const tvm_crt_error_t err =
        TVMMutableFuncRegistry_Set(&globals, name, (TVMBackendPackedCFunc)(uintptr_t)f, override);
    switch ((int)err) {
    case kTvmErrorNoError:
        return 0;
    case kTvmErrorFunctionAlreadyDefined:
        return hil_crt_fail(err, "there is a function of this name already", name);
    case kTvmErrorFunctionRegistryFull:
        return hil_crt_fail(err, "raise TVM_CRT_GLOBAL_FUNC_REGISTRY_SIZE_BYTES for", name);
    default:
        return hil_crt_fail(err, "no run time, no name or no function", name);
    }
}

int TVMBackendGetFuncFromEnv(void *mod_node, const char *func_name, TVMFunctionHandle *out) {
    if (out == NULL || func_name == NULL) {
        return hil_crt_fail(kTvmErrorFunctionCallInvalidArg, "no function's name given", NULL);
    }
    *out = NULL;
    /* Called by symbol, a model runs in an image that nobody initialised. */
    TVMModuleHandle handle;
    if (TVMSystemLibEntryPoint != NULL && TVMSystemLibEntryPoint() != NULL) {
        (void)TVMModCreateFromCModule(TVMSystemLibEntryPoint(), &handle);
    }
    for (int own = 1; own >= 0; own--) {
        for (unsigned i = 0; i < GLOBAL_MODULE; i++) {
            if (modules[i] != NULL && (modules[i]->registry == mod_node) == own &&
                find(modules[i]->registry, i, func_name, out) == kTvmErrorNoError) {
                return 0;
            }
        }
    }
    const tvm_crt_error_t err = find(&globals.registry, GLOBAL_MODULE, func_name, out);
    return err == kTvmErrorNoError ? 0 : hil_crt_fail(err, "no such function", func_name);
}

int TVMFuncFree(TVMFunctionHandle func) {
    (void)func;
    return 0;
}

int TVMFuncCall(TVMFunctionHandle func, TVMValue *arg_values, int *type_codes, int num_args,
                TVMValue *ret_val, int *ret_tcode) {
    if (num_args < 0 || ret_val == NULL || ret_tcode == NULL ||
        (num_args > 0 && (arg_values == NULL || type_codes == NULL))) {
        return hil_crt_fail(kTvmErrorFunctionCallInvalidArg, "a call without its arguments", NULL);
    }
    ret_val->v_int64 = 0; /* on a 32-bit machine v_handle is half of it */
    ret_val->v_handle = NULL;
    *ret_tcode = kTVMNullptr;

    const uintptr_t number = (uintptr_t)func ^ (((uintptr_t)VALID << 16) | VALID);
    const uintptr_t module = number >> 16;
    const unsigned function = (unsigned)(number & 0xffffU);
    if (module == HIL_CRT_TIME_EVALUATOR_MODULE && function <= INDEX && evaluator != NULL) {
        return evaluator(function, arg_values, type_codes, num_args, ret_val, ret_tcode);
    }
    const TVMFuncRegistry *registry = NULL;
    void *resource = NULL;
    if (module == GLOBAL_MODULE) {
        registry = &globals.registry;
    } else if (module < GLOBAL_MODULE && modules[module] != NULL) {
        registry = modules[module]->registry;
        resource = (void *)(uintptr_t)registry;
    }
    TVMBackendPackedCFunc callee = NULL;
    if (function > INDEX ||
        TVMFuncRegistry_GetByIndex(registry, (tvm_function_index_t)function, &callee) !=
            kTvmErrorNoError ||
        callee == NULL) {
        return hil_crt_fail(kTvmErrorFunctionIndexInvalid, "not a function's handle", NULL);
    }
    return callee(arg_values, type_codes, num_args, ret_val, ret_tcode, resource);
}

int TVMCFuncSetReturn(TVMRetValueHandle ret, TVMValue *value, int *type_code, int num_ret) {
    const TVMCReturnValue *const target = (const TVMCReturnValue *)ret;
    if (target == NULL || value == NULL || type_code == NULL || num_ret != 1) {
        return hil_crt_fail(kTvmErrorFunctionCallInvalidArg, "a function returns one value", NULL);
    }
    *target->ret_val = *value;
    *target->ret_type_code = *type_code;
    return 0;
}
