/* Entry point of the model "layer". */
#include <stddef.h>

#include "hil/packed_call.h"
#include "tvm/runtime/crt/error_codes.h"
#include "tvm/runtime/c_backend_api.h"
#include "tvm/runtime/crt/module.h"
#include "tvmgen_layer.h"

int32_t tvmgen_layer___tvm_main__(TVMValue *args, int *type_codes, int num_args,
                                  TVMValue *out_ret_value, int *out_ret_tcode,
                                  void *resource_handle);

__attribute__((section(".bss.noinit.tvm"), aligned(16)))
uint8_t tvmgen_layer_global_workspace[32];

/* Whether the caller hands over what the model needs; it may leave out the codes. */
static int32_t check_arguments(const TVMValue *args, const int *type_codes, int num_args) {
    if (num_args != 2) {
        return kTvmErrorFunctionCallNumArguments;
    }
    if (args == NULL) {
        return kTvmErrorFunctionCallInvalidArg;
    }
    for (int i = 0; i < 2; i++) {
        if (type_codes != NULL && type_codes[i] != kTVMDLTensorHandle &&
            type_codes[i] != kTVMNDArrayHandle && type_codes[i] != kTVMOpaqueHandle) {
            return kTvmErrorFunctionCallWrongArgType;
        }
        const DLTensor *const tensor = (const DLTensor *)args[i].v_handle;
        if (tensor == NULL || tensor->data == NULL) {
            return kTvmErrorFunctionCallInvalidArg;
        }
    }
    return 0;
}

static const int64_t shape_0[1] = {32};

int32_t tvmgen_layer_run(TVMValue *args, int *type_codes, int num_args, TVMValue *out_ret_value,
                         int *out_ret_tcode, void *resource_handle) {
    const int32_t status = check_arguments(args, type_codes, num_args);
    if (status != 0) {
        return status;
    }
    TVMValue values[3];
    int codes[3];
    DLTensor tensors[1];
    for (int i = 0; i < 2; i++) {
        values[i] = args[i];
        codes[i] = kTVMDLTensorHandle;
    }
    hil_pass_tensor(&values[2], &codes[2], &tensors[0], tvmgen_layer_global_workspace, kDLUInt, 8,
                    1, shape_0);
    return tvmgen_layer___tvm_main__(values, codes, 3, out_ret_value, out_ret_tcode,
                                     resource_handle);
}

extern int32_t tvmgen_layer_fused_conv_2d_0(TVMValue *args, int *type_codes, int num_args,
                                            TVMValue *out_ret_value, int *out_ret_tcode,
                                            void *resource_handle);

/* The number of functions in two bytes, then their names. */
static const char _tvm_func_names[] =
    "\005\000"
    "tvmgen_layer_run\000"
    "tvmgen_layer_fused_conv_2d_0\000"
    "tvmgen_layer___tvm_main__\000"
    "tvmgen_layer_get_c_metadata\000"
    "tvmgen_layer__lookup_linked_param\000";

static const TVMBackendPackedCFunc _tvm_func_array[] = {
    (TVMBackendPackedCFunc)tvmgen_layer_run,
    (TVMBackendPackedCFunc)tvmgen_layer_fused_conv_2d_0,
    (TVMBackendPackedCFunc)tvmgen_layer___tvm_main__,
    (TVMBackendPackedCFunc)tvmgen_layer_get_c_metadata,
    (TVMBackendPackedCFunc)tvmgen_layer__lookup_linked_param,
};

static const TVMFuncRegistry _tvm_func_registry = {_tvm_func_names, _tvm_func_array};

static const TVMModule _tvm_system_lib = {&_tvm_func_registry};

__attribute__((weak))
const TVMModule *TVMSystemLibEntryPoint(void) {
    return &_tvm_system_lib;
}
