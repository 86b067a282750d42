/* An executor as a module of functions. */
#include <tvm/runtime/crt/aot_executor_module.h>

#include "../common/internal.h"

#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/crt/aot_executor.h>

#define PARAMETERS                                                                                 \
    TVMValue *args, int *type_codes, int num_args, TVMValue *ret_val, int *ret_tcode,              \
        void *resource_handle

static TVMAotExecutor *executor;
static TVMModuleHandle executor_handle;
static const TVMModule executor_module;

static int wants(int holds, const char *what) {
    return holds ? 0 : hil_crt_fail(kTvmErrorFunctionCallNumArguments, "wants", what);
}

/* Index of the tensor that the argument names by its number or, if names is set, its name. */
static int find(const TVMValue *arg, int type_code, int count, int names, int *index) {
    if (type_code == kTVMArgInt) {
        if (arg->v_int64 < 0 || arg->v_int64 >= count) {
            return hil_crt_fail(kTvmErrorFunctionCallInvalidArg, "no tensor of this index", NULL);
        }
        *index = (int)arg->v_int64;
        return 0;
    }
    if (!names || type_code != kTVMStr) {
        return hil_crt_fail(kTvmErrorFunctionCallWrongArgType, "wants an index or a name", NULL);
    }
    *index = TVMAotExecutor_GetInputIndex(executor, arg->v_str);
    return *index < 0 ? (int)kTvmErrorExecutorModuleNoSuchInput : 0;
}

static int find_input(const TVMValue *args, const int *type_codes, int *index) {
    return find(&args[0], type_codes[0], TVMAotExecutor_GetNumInputs(executor), 1, index);
}

/* Hand a tensor out; whoever gets it gives it back with TVMArrayFree. */
static int return_array(int index, TVMValue *ret_val, int *ret_tcode) {
    TVMNDArray_IncrementReference(&executor->args[index]);
    ret_val->v_handle = &executor->args[index].dl_tensor;
    *ret_tcode = kTVMNDArrayHandle;
    return 0;
}

static int return_int(int64_t value, TVMValue *ret_val, int *ret_tcode) {
    ret_val->v_int64 = value;
    *ret_tcode = kTVMArgInt;
    return 0;
}

static int get_input(PARAMETERS) {
    (void)resource_handle;
    int index = 0;
    int err = wants(num_args == 1, "an input");
    err = err != 0 ? err : find_input(args, type_codes, &index);
    return err != 0 ? err : return_array(index, ret_val, ret_tcode);
}

static int get_input_index(PARAMETERS) {
    (void)resource_handle;
    int index = 0;
    int err = wants(num_args == 1, "an input's name");
    err = err != 0 ? err : find_input(args, type_codes, &index);
    return err != 0 ? err : return_int(index, ret_val, ret_tcode);
}

static int get_num_inputs(PARAMETERS) {
    (void)args, (void)type_codes, (void)resource_handle;
    const int err = wants(num_args == 0, "no arguments");
    return err != 0 ? err : return_int(TVMAotExecutor_GetNumInputs(executor), ret_val, ret_tcode);
}

static int get_num_outputs(PARAMETERS) {
    (void)args, (void)type_codes, (void)resource_handle;
    const int err = wants(num_args == 0, "no arguments");
    return err != 0 ? err : return_int(TVMAotExecutor_GetNumOutputs(executor), ret_val, ret_tcode);
}

static int get_output(PARAMETERS) {
    (void)resource_handle;
    int index = 0;
    int err = wants(num_args == 1, "an output");
    err = err != 0
              ? err
              : find(&args[0], type_codes[0], TVMAotExecutor_GetNumOutputs(executor), 0, &index);
    index += TVMAotExecutor_GetNumInputs(executor);
    return err != 0 ? err : return_array(index, ret_val, ret_tcode);
}

static int run(PARAMETERS) {
    (void)args, (void)type_codes, (void)ret_val, (void)ret_tcode, (void)resource_handle;
    const int err = wants(num_args == 0, "no arguments");
    return err != 0 ? err : TVMAotExecutor_Run(executor);
}

static int set_input(PARAMETERS) {
    (void)ret_val, (void)ret_tcode, (void)resource_handle;
    int index = 0;
    int err = wants(num_args == 2, "an input and a tensor");
    err = err != 0 ? err : find_input(args, type_codes, &index);
    if (err != 0) {
        return err;
    }
    if (type_codes[1] != kTVMDLTensorHandle && type_codes[1] != kTVMNDArrayHandle) {
        return hil_crt_fail(kTvmErrorFunctionCallWrongArgType, "wants a tensor", NULL);
    }
    return TVMDeviceCopyDataFromTo((DLTensor *)args[1].v_handle, &executor->args[index].dl_tensor,
                                   NULL);
}

static int not_implemented(PARAMETERS) {
    (void)args, (void)type_codes, (void)num_args, (void)ret_val, (void)ret_tcode;
    (void)resource_handle;
    return hil_crt_fail(kTvmErrorFunctionCallNotImplemented,
                        "a compiled model's parameters are in its code", NULL);
}

static const TVMBackendPackedCFunc functions[] = {
    get_input,       get_input_index, not_implemented, get_num_inputs,
    get_num_outputs, get_output,      not_implemented, run,
    set_input,       not_implemented,
};

#define NAMES                                                                                      \
    "get_input\0get_input_index\0get_input_info\0get_num_inputs\0get_num_outputs\0get_output\0"    \
    "load_params\0run\0set_input\0share_params\0"

/* The count and the names in one piece, whatever the machine's byte order. */
static const struct {
    uint16_t count;
    char names[sizeof NAMES];
} names = {sizeof functions / sizeof functions[0], NAMES};
static const TVMFuncRegistry registry = {(const char *)&names, functions};
static const TVMModule executor_module = {&registry};

/* (module, device, model's name) -> the module. */
static int create(PARAMETERS) {
    (void)resource_handle;
    if (num_args != 3) {
        return wants(0, "module, device, model's name");
    }
    if (type_codes[0] != kTVMModuleHandle || type_codes[1] != kDLDevice ||
        type_codes[2] != kTVMStr) {
        return hil_crt_fail(kTvmErrorFunctionCallWrongArgType, "wants module, device, model's name",
                            NULL);
    }
    const DLDevice device = args[1].v_device;
    if (executor != NULL) {
        if (hil_crt_module(executor_handle) == &executor_module) {
            return hil_crt_fail(kTvmErrorExecutorModuleAlreadyCreated,
                                "free the module of the other executor first", NULL);
        }
        /* Its module was freed. */
        (void)TVMAotExecutor_Release(executor, executor->device);
        executor = NULL;
    }
    int err = TVMAotExecutor_Create(args[0].v_handle, device, &executor, args[2].v_str);
    if (err != 0) {
        return err;
    }
    err = TVMModCreateFromCModule(&executor_module, &executor_handle);
    if (err != 0) {
        (void)TVMAotExecutor_Release(executor, device);
        executor = NULL;
        return err;
    }
    ret_val->v_handle = executor_handle;
    *ret_tcode = kTVMModuleHandle;
    return 0;
}

tvm_crt_error_t TVMAotExecutorModule_Register(void) {
    const int err =
        TVMFuncRegisterGlobal("tvm.aot_executor.create", (TVMFunctionHandle)(uintptr_t)create, 0);
    if (err == 0) {
        executor = NULL; /* of the time before TVMInitializeRuntime, whose memory is gone, too */
    }
    return (tvm_crt_error_t)err;
}
