/* The start of the run time, and the functions that TVM registers under a name. */
#include "internal.h"

#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/crt/crt.h>
#include <tvm/runtime/crt/internal/common/ndarray.h>
#include <tvm/runtime/crt/internal/config.h>
#include <tvm/runtime/crt/platform.h>

/* Packet start 2, length 4, session header 3, CRC 2. */
#define FRAMING_BYTES 11

static int system_lib(TVMValue *args, int *type_codes, int num_args, TVMValue *ret_val,
                      int *ret_tcode, void *resource_handle) {
    (void)args;
    (void)type_codes;
    (void)num_args;
    (void)resource_handle;
    const int err = TVMModCreateFromCModule(TVMSystemLibEntryPoint(), &ret_val->v_handle);
    if (err == 0) {
        *ret_tcode = kTVMModuleHandle;
    }
    return err;
}

/* (module, name, query imports) -> the function, or nothing where the module has none. */
static int module_get_function(TVMValue *args, int *type_codes, int num_args, TVMValue *ret_val,
                               int *ret_tcode, void *resource_handle) {
    (void)resource_handle;
    if (num_args != 3) {
        return hil_crt_fail(kTvmErrorFunctionCallNumArguments, "wants module, name, flag", NULL);
    }
    if (type_codes[0] != kTVMModuleHandle || type_codes[1] != kTVMStr ||
        (type_codes[2] != kTVMArgInt && type_codes[2] != kTVMArgBool)) {
        return hil_crt_fail(kTvmErrorFunctionCallWrongArgType, "wants module, name, flag", NULL);
    }
    TVMFunctionHandle function;
    const int err =
        TVMModGetFunction(args[0].v_handle, args[1].v_str, args[2].v_int64 != 0, &function);
    if (err == 0) {
        ret_val->v_handle = function;
        *ret_tcode = kTVMPackedFuncHandle;
    }
    return err == kTvmErrorFunctionNameNotFound ? 0 : err;
}

static int max_packet_size(TVMValue *args, int *type_codes, int num_args, TVMValue *ret_val,
                           int *ret_tcode, void *resource_handle) {
    (void)args;
    (void)type_codes;
    (void)num_args;
    (void)resource_handle;
    ret_val->v_int64 = TVM_CRT_MAX_PACKET_SIZE_BYTES - FRAMING_BYTES;
    *ret_tcode = kTVMArgInt;
    return 0;
}

static int random_fill(TVMValue *args, int *type_codes, int num_args, TVMValue *ret_val,
                       int *ret_tcode, void *resource_handle) {
    (void)ret_val;
    (void)ret_tcode;
    (void)resource_handle;
    if (num_args != 1) {
        return hil_crt_fail(kTvmErrorFunctionCallNumArguments, "wants one tensor", NULL);
    }
    if ((type_codes[0] != kTVMDLTensorHandle && type_codes[0] != kTVMNDArrayHandle) ||
        args[0].v_handle == NULL) {
        return hil_crt_fail(kTvmErrorFunctionCallWrongArgType, "wants one tensor", NULL);
    }
    TVMNDArray array = {*(const DLTensor *)args[0].v_handle, 1, 0, 1};
    return TVMNDArray_RandomFill(&array);
}

tvm_crt_error_t TVMInitializeRuntime(void) {
    static const struct {
        const char *name;
        TVMBackendPackedCFunc function;
    } functions[] = {
        {"runtime.SystemLib", system_lib},
        {"tvm.rpc.server.ModuleGetFunction", module_get_function},
#if TVM_CRT_TIME_EVALUATOR
        {"runtime.RPCTimeEvaluator", hil_crt_time_evaluator},
#endif
        {"tvm.rpc.server.GetCRTMaxPacketSize", max_packet_size},
        {"tvm.contrib.random.random_fill", random_fill},
    };
    static union {
        void *alignment;
        uint8_t bytes[TVM_CRT_GLOBAL_FUNC_REGISTRY_SIZE_BYTES];
    } memory;

    TVMMutableFuncRegistry globals;
    tvm_crt_error_t err =
        TVMMutableFuncRegistry_Create(&globals, memory.bytes, sizeof memory.bytes);
    for (size_t i = 0; err == kTvmErrorNoError && i < sizeof functions / sizeof functions[0]; i++) {
        err = TVMMutableFuncRegistry_Set(&globals, functions[i].name, functions[i].function, 0);
    }
    if (err != kTvmErrorNoError) {
        return (tvm_crt_error_t)hil_crt_fail(
            err, "raise TVM_CRT_GLOBAL_FUNC_REGISTRY_SIZE_BYTES for the run time", NULL);
    }
    TVMAPISetLastError("");
    hil_crt_reset(&globals);
    return kTvmErrorNoError;
}
