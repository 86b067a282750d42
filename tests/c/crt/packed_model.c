#include "packed_model.h"

#include <tvm/runtime/crt/module.h>

int sum_error;
int sum_num_args;
const void *sum_resource;

static const int64_t shape[2] = {1, 4};
static const struct TVMTensorInfo inputs[2] = {{"left", shape, 2, {kDLInt, 8, 1}},
                                               {"right", shape, 2, {kDLInt, 8, 1}}};
static const struct TVMTensorInfo outputs[1] = {{"output0", shape, 2, {kDLInt, 8, 1}}};
const struct TVMMetadata sum_good_metadata = {1,    inputs, 2,    outputs, 1,
                                              NULL, 0,      NULL, 0,       "tvmgen_sum"};
const struct TVMMetadata *sum_metadata = &sum_good_metadata;

int32_t tvmgen_sum_run(TVMValue *args, int *type_code, int num_args, TVMValue *out_value,
                       int *out_type_code, void *resource_handle) {
    (void)type_code;
    (void)out_value;
    (void)out_type_code;
    sum_num_args = num_args;
    sum_resource = resource_handle;
    if (sum_error != 0) {
        return sum_error;
    }
    if (num_args < 3) {
        return kTvmErrorFunctionCallNumArguments;
    }
    const int8_t *const left = (const int8_t *)((const DLTensor *)args[0].v_handle)->data;
    const int8_t *const right = (const int8_t *)((const DLTensor *)args[1].v_handle)->data;
    int8_t *const output = (int8_t *)((const DLTensor *)args[2].v_handle)->data;
    for (int i = 0; i < 4; i++) {
        output[i] = (int8_t)(left[i] + right[i]);
    }
    return 0;
}

static int32_t get_c_metadata(TVMValue *args, int *type_code, int num_args, TVMValue *out_value,
                              int *out_type_code, void *resource_handle) {
    (void)args;
    (void)type_code;
    (void)num_args;
    (void)resource_handle;
    out_value->v_handle = (void *)(uintptr_t)sum_metadata;
    *out_type_code = kTVMOpaqueHandle;
    return 0;
}

static const TVMBackendPackedCFunc functions[] = {
    /* int32_t is long on some machines. */
    (TVMBackendPackedCFunc)tvmgen_sum_run, (TVMBackendPackedCFunc)get_c_metadata};
static const TVMFuncRegistry registry = {"\002\000tvmgen_sum_run\000tvmgen_sum_get_c_metadata\000",
                                         functions};
static const TVMModule module = {&registry};

const TVMModule *TVMSystemLibEntryPoint(void) { return &module; }
