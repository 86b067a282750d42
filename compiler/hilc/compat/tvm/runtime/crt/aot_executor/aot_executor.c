/* A model of the packed interface with memory for its inputs and outputs. */
#include <tvm/runtime/crt/aot_executor.h>

#include "../common/internal.h"

#include <string.h>
#include <tvm/runtime/crt/internal/aot_executor/aot_executor.h>
#include <tvm/runtime/crt/internal/config.h>
#include <tvm/runtime/crt/packed_func.h>
#include <tvm/runtime/crt/platform.h>

/* No model has more tensors on its border, or constants; more is not metadata. */
#define MAX_ENTRIES 65536

/* What metadata say of themselves that have the fields of TVMMetadata. */
#define METADATA_VERSION 1

/* The function before + middle + after of the module, called. */
static int call(TVMModuleHandle module, const char *before, const char *middle, const char *after,
                TVMValue *values, int *codes, int count, TVMValue *result, int *code) {
    const char *const parts[] = {before, middle, after};
    char name[TVM_CRT_MAX_STRLEN_FUNCTION_NAME + 1];
    size_t length = 0;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        const size_t part = strlen(parts[i]);
        if (part >= sizeof name - length) {
            return hil_crt_fail(kTvmErrorFunctionCallInvalidArg,
                                "raise TVM_CRT_MAX_STRLEN_FUNCTION_NAME for the model", middle);
        }
        memcpy(name + length, parts[i], part + 1);
        length += part;
    }
    TVMFunctionHandle function;
    const int err = TVMModGetFunction(module, name, 0, &function);
    return err != 0 ? err : TVMFuncCall(function, values, codes, count, result, code);
}

static int is_cpu(DLDevice device) { return device.device_type == kDLCPU && device.device_id == 0; }

static int count_is_good(int64_t count, const void *entries) {
    return count >= 0 && count <= MAX_ENTRIES && (count == 0 || entries != NULL);
}

static int check_metadata(const TVMMetadata *metadata) {
    if (metadata == NULL || metadata->version != METADATA_VERSION || metadata->mod_name == NULL ||
        !count_is_good(metadata->num_inputs, metadata->inputs) ||
        !count_is_good(metadata->num_outputs, metadata->outputs) ||
        !count_is_good(metadata->num_workspace_pools, metadata->workspace_pools) ||
        !count_is_good(metadata->num_constant_pools, metadata->constant_pools)) {
        return hil_crt_fail(kTvmErrorFunctionCallInvalidArg,
                            "the model's metadata are not of version 1", NULL);
    }
    return 0;
}

/* Bytes of the constant pool; 0 where the constants have no data: they are in the model's code. */
static int64_t constant_pool_bytes(const TVMMetadata *metadata) {
    /* Data in TVM's format for arrays: 24 bytes, rank 4, type 4, shape, size 8, elements. */
    enum { RANK_AT = 24, SHAPE_AT = 32, SIZE_BYTES = 8 };
    int64_t most = 0;
    for (int64_t i = 0; i < metadata->num_constant_pools; i++) {
        const struct TVMConstantInfo *const info = &metadata->constant_pools[i];
        int32_t rank = 0;
        if (info->data_bytes == NULL || info->data_len < SHAPE_AT + SIZE_BYTES) {
            continue;
        }
        memcpy(&rank, (const uint8_t *)info->data_bytes + RANK_AT, sizeof rank);
        const int64_t header = SHAPE_AT + SIZE_BYTES + (int64_t)sizeof(int64_t) * rank;
        const int64_t end = info->byte_offset + info->data_len - header;
        most = end > most ? end : most;
    }
    return most;
}

/* An entry of executor->args that a tensor or, without data, a pool describes. */
static int make_arg(TVMAotExecutor *executor, const struct TVMTensorInfo *info, int is_pool) {
    if (info->num_shape < 0 || info->num_shape > TVM_CRT_MAX_NDIM) {
        return hil_crt_fail(kTvmErrorFunctionCallInvalidArg,
                            "raise TVM_CRT_MAX_NDIM for the axes of", info->name);
    }
    TVMNDArray *const array = &executor->args[executor->num_args];
    const int err = (is_pool ? TVMNDArray_Create : TVMNDArray_Empty)(
        (int32_t)info->num_shape, info->shape, info->dtype, executor->device, array);
    if (err == 0) {
        array->is_view = is_pool ? 1 : 0; /* the caller's memory */
        TVMNDArray_IncrementReference(array);
        executor->num_args++; /* what a release has to free */
    }
    return err;
}

static int make_args(TVMAotExecutor *executor, int64_t constant_bytes) {
    const TVMMetadata *const metadata = executor->metadata;
    const struct TVMTensorInfo constants = {"the constants", &constant_bytes, 1, {kDLUInt, 8, 1}};
    const struct {
        const struct TVMTensorInfo *tensors;
        int64_t count;
        int is_pool;
    } groups[] = {
        {metadata->inputs, metadata->num_inputs, 0},
        {metadata->outputs, metadata->num_outputs, 0},
        {&constants, constant_bytes > 0 ? 1 : 0, 1},
        {metadata->workspace_pools, metadata->num_workspace_pools, 1},
    };
    for (size_t group = 0; group < sizeof groups / sizeof groups[0]; group++) {
        for (int64_t i = 0; i < groups[group].count; i++) {
            const int err = make_arg(executor, &groups[group].tensors[i], groups[group].is_pool);
            if (err != 0) {
                return err;
            }
        }
    }
    return 0;
}

/* The metadata that the model's own function returns, checked. */
static int get_metadata(TVMModuleHandle module, const char *model, const TVMMetadata **metadata) {
    TVMValue result;
    int code = kTVMNullptr;
    const int err =
        call(module, "tvmgen_", model, "_get_c_metadata", NULL, NULL, 0, &result, &code);
    if (err != 0) {
        return err;
    }
    if (code != kTVMOpaqueHandle) {
        return hil_crt_fail(kTvmErrorFunctionCallWrongArgType, "no metadata returned by", model);
    }
    *metadata = (const TVMMetadata *)result.v_handle;
    return check_metadata(*metadata);
}

static int allocate(size_t bytes, DLDevice device, const char *model, void **memory) {
    const int err = (int)TVMPlatformMemoryAllocate(bytes, device, memory);
    return err == 0 ? 0 : hil_crt_fail((tvm_crt_error_t)err, "no memory for an executor of", model);
}

/* Allocates and describes all arguments; a release frees what there is after a failure. */
static int fill(TVMAotExecutor *self, const char *model) {
    const TVMMetadata *const metadata = self->metadata;
    const int64_t constant_bytes = constant_pool_bytes(metadata);
    const size_t count = (size_t)(metadata->num_inputs + metadata->num_outputs +
                                  (constant_bytes > 0) + metadata->num_workspace_pools);
    void *args = NULL;
    if (count > 0) {
        const int err = allocate(count * sizeof(TVMNDArray), self->device, model, &args);
        if (err != 0) {
            return err;
        }
    }
    self->args = (TVMNDArray *)args;
    return make_args(self, constant_bytes);
}

int TVMAotExecutor_Create(TVMModuleHandle module_handle, const DLDevice device,
                          TVMAotExecutor **executor, const char *module_name) {
    *executor = NULL;
    if (module_name == NULL) {
        return hil_crt_fail(kTvmErrorFunctionCallInvalidArg, "no model's name given", NULL);
    }
    if (!is_cpu(device)) {
        return hil_crt_fail(kTvmErrorExecutorModuleBadContext, "the only device is kDLCPU 0", NULL);
    }
    const TVMMetadata *metadata = NULL;
    int err = get_metadata(module_handle, module_name, &metadata);
    if (err != 0) {
        return err;
    }
    void *memory = NULL;
    err = allocate(sizeof(TVMAotExecutor), device, module_name, &memory);
    if (err != 0) {
        return err;
    }
    TVMAotExecutor *const self = (TVMAotExecutor *)memory;
    memset(self, 0, sizeof *self);
    self->metadata = metadata;
    self->module_handle = module_handle;
    self->device = device;
    err = fill(self, module_name);
    if (err != 0) {
        (void)TVMAotExecutor_Release(self, device);
        return err;
    }
    *executor = self;
    return 0;
}

int TVMAotExecutor_Release(TVMAotExecutor *executor, const DLDevice device) {
    if (executor == NULL) {
        return hil_crt_fail(kTvmErrorFunctionCallInvalidArg, "no executor to release", NULL);
    }
    int result = is_cpu(device) ? 0
                                : hil_crt_fail(kTvmErrorExecutorModuleBadContext,
                                               "the only device is kDLCPU 0", NULL);
    if (result != 0) {
        return result;
    }
    /* In the opposite order of the allocation, for platforms with a stack. */
    for (int64_t i = executor->num_args; i-- > 0;) {
        const int err = TVMNDArray_Release(&executor->args[i]);
        result = result != 0 ? result : err;
    }
    if (executor->args != NULL) {
        const int err = (int)TVMPlatformMemoryFree(executor->args, device);
        result = result != 0 ? result : err;
    }
    const int err = (int)TVMPlatformMemoryFree(executor, device);
    return result != 0 ? result : err;
}

int TVMAotExecutor_GetNumInputs(TVMAotExecutor *executor) {
    return (int)executor->metadata->num_inputs;
}

int TVMAotExecutor_GetNumOutputs(TVMAotExecutor *executor) {
    return (int)executor->metadata->num_outputs;
}

int TVMAotExecutor_GetInputIndex(TVMAotExecutor *executor, const char *name) {
    const TVMMetadata *const metadata = executor->metadata;
    for (int64_t i = 0; name != NULL && i < metadata->num_inputs; i++) {
        if (strcmp(metadata->inputs[i].name, name) == 0) {
            return (int)i;
        }
    }
    hil_crt_fail(kTvmErrorExecutorModuleNoSuchInput, "no such input", name);
    return -1;
}

int TVMAotExecutor_GetInputName(TVMAotExecutor *executor, int index, const char **name) {
    if (index < 0 || index >= executor->metadata->num_inputs) {
        return hil_crt_fail(kTvmErrorExecutorModuleNoSuchInput, "no input of this index", NULL);
    }
    *name = executor->metadata->inputs[index].name;
    return 0;
}

int TVMAotExecutor_Run(TVMAotExecutor *executor) {
    const TVMMetadata *const metadata = executor->metadata;
    int64_t count = metadata->num_inputs + metadata->num_outputs;
    int64_t pools = 0;
    for (int64_t i = count; i < executor->num_args; i++) {
        pools += executor->args[i].dl_tensor.data != NULL ? 1 : 0;
    }
    /* The metadata may describe pools that are the model's own: those it takes from nobody. */
    if (pools != 0 && pools != executor->num_args - count) {
        return hil_crt_fail(kTvmErrorFunctionCallInvalidArg, "set the data of all pools of",
                            metadata->mod_name);
    }
    count += pools;

    TVMValue values[TVM_CRT_MAX_ARGS];
    int codes[TVM_CRT_MAX_ARGS];
    if (count > TVM_CRT_MAX_ARGS) {
        return hil_crt_fail(kTvmErrorFunctionCallNumArguments, "raise TVM_CRT_MAX_ARGS for",
                            metadata->mod_name);
    }
    for (int64_t i = 0; i < count; i++) {
        values[i].v_handle = &executor->args[i].dl_tensor;
        codes[i] = kTVMDLTensorHandle;
    }
    TVMValue result;
    int code = kTVMNullptr;
    return call(executor->module_handle, "", metadata->mod_name, "_run", values, codes, (int)count,
                &result, &code);
}

tvm_crt_error_t tvm_runtime_run(const tvm_model_t *model, void **inputs, void **outputs) {
    if (model == NULL || model->run_func == NULL) {
        return (tvm_crt_error_t)hil_crt_fail(kTvmErrorFunctionCallInvalidArg, "no model given",
                                             NULL);
    }
    const size_t count = model->num_input_tensors + model->num_output_tensors;
    if (model->num_input_tensors > TVM_CRT_MAX_ARGS || count > TVM_CRT_MAX_ARGS ||
        count < model->num_output_tensors) {
        return (tvm_crt_error_t)hil_crt_fail(kTvmErrorFunctionCallNumArguments,
                                             "too many tensors, raise TVM_CRT_MAX_ARGS", NULL);
    }
    DLTensor tensors[TVM_CRT_MAX_ARGS];
    TVMValue values[TVM_CRT_MAX_ARGS];
    int codes[TVM_CRT_MAX_ARGS];
    memset(tensors, 0, sizeof tensors);
    for (size_t i = 0; i < count; i++) {
        /* Their shapes are the model's own business: a tvm_model_t has none. */
        tensors[i].data =
            i < model->num_input_tensors ? inputs[i] : outputs[i - model->num_input_tensors];
        tensors[i].device.device_type = kDLCPU;
        values[i].v_handle = &tensors[i];
        codes[i] = kTVMDLTensorHandle;
    }
    TVMValue result;
    int code = kTVMNullptr;
    return (tvm_crt_error_t)model->run_func(values, codes, (int)count, &result, &code, NULL);
}
