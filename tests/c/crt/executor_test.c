/* The executor, its module, and the executor of TVM v0.8, on the model of packed_model.h. */
#include "check.h"
#include "host_platform.h"
#include "packed_model.h"

#include <tvm/runtime/crt/aot_executor.h>
#include <tvm/runtime/crt/aot_executor_module.h>
#include <tvm/runtime/crt/crt.h>
#include <tvm/runtime/crt/error_codes.h>
#include <tvm/runtime/crt/internal/aot_executor/aot_executor.h>
#include <tvm/runtime/crt/internal/config.h>
#include <tvm/runtime/crt/module.h>

static const DLDevice cpu = {kDLCPU, 0};
static TVMModuleHandle library;

static void restart(void) {
    EXPECT_EQ(TVMInitializeRuntime(), kTvmErrorNoError);
    EXPECT_EQ(TVMModCreateFromCModule(TVMSystemLibEntryPoint(), &library), 0);
    sum_metadata = &sum_good_metadata;
    sum_error = 0;
}

static void test_a_run(void) {
    restart();
    TVMAotExecutor *executor;
    EXPECT_EQ(TVMAotExecutor_Create(library, cpu, &executor, "sum"), 0);
    EXPECT_EQ(TVMAotExecutor_GetNumInputs(executor), 2);
    EXPECT_EQ(TVMAotExecutor_GetNumOutputs(executor), 1);
    EXPECT_EQ(executor->num_args, 3);
    EXPECT_EQ(TVMAotExecutor_GetInputIndex(executor, "left"), 0);
    EXPECT_EQ(TVMAotExecutor_GetInputIndex(executor, "right"), 1);
    EXPECT_ERROR(TVMAotExecutor_GetInputIndex(executor, "lef"), -1, "lef");
    EXPECT_EQ(TVMAotExecutor_GetInputIndex(executor, NULL), -1);
    const char *name = NULL;
    EXPECT_EQ(TVMAotExecutor_GetInputName(executor, 1, &name), 0);
    EXPECT(strcmp(name, "right") == 0);
    EXPECT_EQ(TVMAotExecutor_GetInputName(executor, 2, &name), kTvmErrorExecutorModuleNoSuchInput);
    EXPECT_EQ(TVMAotExecutor_GetInputName(executor, -1, &name), kTvmErrorExecutorModuleNoSuchInput);

    for (int run = 0; run < 3; run++) {
        const int8_t left[4] = {1, 2, 3, (int8_t)run}, right[4] = {10, 20, 30, 40};
        memcpy(executor->args[0].dl_tensor.data, left, 4);
        memcpy(executor->args[1].dl_tensor.data, right, 4);
        EXPECT_EQ(TVMAotExecutor_Run(executor), 0);
        const int8_t *const output = (const int8_t *)executor->args[2].dl_tensor.data;
        EXPECT(output[0] == 11 && output[2] == 33 && output[3] == 40 + run);
        EXPECT_EQ(sum_num_args, 3);
        EXPECT(sum_resource == TVMSystemLibEntryPoint()->registry);
    }
    sum_error = -5;
    EXPECT_EQ(TVMAotExecutor_Run(executor), -5);
    const DLDevice cuda = {kDLCUDA, 0};
    EXPECT_EQ(TVMAotExecutor_Release(executor, cuda), kTvmErrorExecutorModuleBadContext);
    EXPECT_EQ(TVMAotExecutor_Release(executor, cpu), 0);
    EXPECT_EQ(TVMAotExecutor_Release(NULL, cpu), kTvmErrorFunctionCallInvalidArg);
    EXPECT_EQ(live_blocks, 0);
}

/* Whichever allocation fails, nothing stays allocated. */
static void test_no_memory(void) {
    restart();
    TVMAotExecutor *executor;
    enum { ALLOCATIONS = 2 + 3 * 2 }; /* executor, array of tensors; shape and data of each */
    for (int n = 0; n < ALLOCATIONS; n++) {
        fail_after = n;
        EXPECT_ERROR(TVMAotExecutor_Create(library, cpu, &executor, "sum"),
                     kTvmErrorPlatformNoMemory, "memory");
        EXPECT(executor == NULL);
        EXPECT_EQ(live_blocks, 0);
    }
    fail_after = ALLOCATIONS;
    EXPECT_EQ(TVMAotExecutor_Create(library, cpu, &executor, "sum"), 0);
    fail_after = -1;
    EXPECT_EQ(TVMAotExecutor_Release(executor, cpu), 0);
}

static void test_refusals(void) {
    restart();
    TVMAotExecutor *executor;
    const DLDevice devices[] = {{kDLCUDA, 0}, {kDLCPU, 1}};
    for (int i = 0; i < 2; i++) {
        EXPECT_EQ(TVMAotExecutor_Create(library, devices[i], &executor, "sum"),
                  kTvmErrorExecutorModuleBadContext);
    }
    EXPECT_EQ(TVMAotExecutor_Create(NULL, cpu, &executor, "sum"), kTvmErrorFunctionIndexInvalid);
    EXPECT_ERROR(TVMAotExecutor_Create(library, cpu, &executor, "other"),
                 kTvmErrorFunctionNameNotFound, "tvmgen_other_get_c_metadata");
    EXPECT_EQ(TVMAotExecutor_Create(library, cpu, &executor, NULL),
              kTvmErrorFunctionCallInvalidArg);
    char name[TVM_CRT_MAX_STRLEN_FUNCTION_NAME + 1];
    memset(name, 'n', sizeof name);
    name[sizeof name - 1] = '\0';
    EXPECT_ERROR(TVMAotExecutor_Create(library, cpu, &executor, name),
                 kTvmErrorFunctionCallInvalidArg, "TVM_CRT_MAX_STRLEN_FUNCTION_NAME");
    /* The longest name that fits is looked up. */
    const size_t longest = TVM_CRT_MAX_STRLEN_FUNCTION_NAME - strlen("tvmgen__get_c_metadata");
    name[longest + 1] = '\0';
    EXPECT_EQ(TVMAotExecutor_Create(library, cpu, &executor, name),
              kTvmErrorFunctionCallInvalidArg);
    name[longest] = '\0';
    EXPECT_EQ(TVMAotExecutor_Create(library, cpu, &executor, name), kTvmErrorFunctionNameNotFound);
    EXPECT(executor == NULL);
    EXPECT_EQ(live_blocks, 0);
}

static void test_wrong_metadata(void) {
    restart();
    TVMAotExecutor *executor;
    const int64_t shape[7] = {1, 1, 1, 1, 1, 1, 1};
    const struct TVMTensorInfo deep = {"deep", shape, 7, {kDLInt, 8, 1}};
    const struct TVMTensorInfo negative = {"negative", shape, INT64_MIN, {kDLInt, 8, 1}};
    TVMMetadata wrong[11];
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        wrong[i] = sum_good_metadata;
    }
    wrong[0].version = 2;
    wrong[1].num_inputs = -1;
    wrong[2].num_outputs = INT64_MAX;
    wrong[3].outputs = NULL;
    wrong[4].mod_name = NULL;
    wrong[5].num_workspace_pools = 1; /* without the pool */
    wrong[6].num_constant_pools = 1;
    wrong[7].outputs = &deep;
    wrong[8].outputs = &negative;
    wrong[9].inputs = NULL;
    wrong[10].version = 0;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        sum_metadata = &wrong[i];
        EXPECT_EQ(TVMAotExecutor_Create(library, cpu, &executor, "sum"),
                  kTvmErrorFunctionCallInvalidArg);
        EXPECT(executor == NULL && live_blocks == 0);
    }
    sum_metadata = NULL;
    EXPECT_EQ(TVMAotExecutor_Create(library, cpu, &executor, "sum"),
              kTvmErrorFunctionCallInvalidArg);

    TVMMetadata other_name = sum_good_metadata;
    other_name.mod_name = "tvmgen_other";
    sum_metadata = &other_name;
    EXPECT_EQ(TVMAotExecutor_Create(library, cpu, &executor, "sum"), 0);
    EXPECT_ERROR(TVMAotExecutor_Run(executor), kTvmErrorFunctionNameNotFound, "tvmgen_other_run");
    EXPECT_EQ(TVMAotExecutor_Release(executor, cpu), 0);
}

/* A constant's data as TVM serialises an array of `bytes` bytes; the elements are not read. */
static void serialise(uint8_t *blob, int64_t *length, int32_t rank, int64_t bytes) {
    memset(blob, 0, 64);
    memcpy(blob + 24, &rank, sizeof rank);
    *length = 32 + 8 * rank + 8 + bytes;
}

static void test_pools(void) {
    restart();
    const int64_t pool_shape[1] = {64};
    const struct TVMTensorInfo pools[2] = {{"fast", pool_shape, 1, {kDLUInt, 8, 1}},
                                           {"slow", pool_shape, 1, {kDLUInt, 8, 1}}};
    uint8_t first[64], second[64];
    struct TVMConstantInfo constants[2] = {{"a", 32, 0, first}, {"b", 0, 0, second}};
    serialise(first, &constants[0].data_len, 2, 7);
    serialise(second, &constants[1].data_len, 0, 32);
    TVMMetadata metadata = sum_good_metadata;
    metadata.workspace_pools = pools;
    metadata.num_workspace_pools = 2;
    sum_metadata = &metadata;

    TVMAotExecutor *executor;
    EXPECT_EQ(TVMAotExecutor_Create(library, cpu, &executor, "sum"), 0);
    EXPECT_EQ(executor->num_args, 5);
    EXPECT_EQ(TVMAotExecutor_Run(executor), 0); /* they may be the model's own */
    EXPECT_EQ(sum_num_args, 3);
    uint8_t memory[64];
    executor->args[3].dl_tensor.data = memory;
    EXPECT_ERROR(TVMAotExecutor_Run(executor), kTvmErrorFunctionCallInvalidArg, "pools");
    executor->args[4].dl_tensor.data = memory;
    EXPECT_EQ(TVMAotExecutor_Run(executor), 0);
    EXPECT_EQ(sum_num_args, 5);
    EXPECT_EQ(TVMAotExecutor_Release(executor, cpu), 0); /* and the caller's memory stays */

    /* With constants that the caller hands over, in front of the workspaces. */
    metadata.constant_pools = constants;
    metadata.num_constant_pools = 2;
    EXPECT_EQ(TVMAotExecutor_Create(library, cpu, &executor, "sum"), 0);
    EXPECT_EQ(executor->num_args, 6);
    EXPECT_EQ(executor->args[3].dl_tensor.ndim, 1);
    EXPECT_EQ(executor->args[3].dl_tensor.shape[0], 32 + 7);
    EXPECT_EQ(TVMAotExecutor_Release(executor, cpu), 0);
    /* Linked constants have no data: there is no pool. */
    for (int i = 0; i < 2; i++) {
        constants[i].data_bytes = NULL;
        /* cppcheck-suppress unreadVariable ; read through the metadata */
        constants[i].data_len = 0;
    }
    EXPECT_EQ(TVMAotExecutor_Create(library, cpu, &executor, "sum"), 0);
    EXPECT_EQ(executor->num_args, 5);
    EXPECT_EQ(TVMAotExecutor_Release(executor, cpu), 0);
    EXPECT_EQ(live_blocks, 0);
}

static void test_too_many_arguments(void) {
    restart();
    struct TVMTensorInfo many[TVM_CRT_MAX_ARGS];
    for (int i = 0; i < TVM_CRT_MAX_ARGS; i++) {
        many[i] = sum_good_metadata.inputs[0];
    }
    TVMMetadata metadata = sum_good_metadata;
    metadata.inputs = many;
    metadata.num_inputs = TVM_CRT_MAX_ARGS - 1;
    sum_metadata = &metadata;
    for (int extra = 0; extra < 2; extra++) {
        TVMAotExecutor *executor;
        metadata.num_inputs = TVM_CRT_MAX_ARGS - 1 + extra;
        EXPECT_EQ(TVMAotExecutor_Create(library, cpu, &executor, "sum"), 0);
        EXPECT_EQ(TVMAotExecutor_Run(executor), extra ? kTvmErrorFunctionCallNumArguments : 0);
        EXPECT_EQ(TVMAotExecutor_Release(executor, cpu), 0);
    }
}

/* ---- As a module of functions. ---- */

static TVMModuleHandle executor_module;

/* One argument or none for a function of the module, by name. */
static int ask(const char *function, const TVMValue *arg, int type_code, TVMValue *result,
               int *result_code) {
    TVMFunctionHandle handle;
    TVMValue args[1];
    int codes[1] = {type_code};
    memset(args, 0, sizeof args);
    if (arg != NULL) {
        args[0] = *arg;
    }
    const int err = TVMModGetFunction(executor_module, function, 0, &handle);
    return err != 0 ? err
                    : TVMFuncCall(handle, args, codes, arg != NULL ? 1 : 0, result, result_code);
}

static int create(TVMValue *args, int *codes, int count, TVMModuleHandle *out) {
    TVMFunctionHandle function;
    TVMValue result;
    int code;
    EXPECT_EQ(TVMFuncGetGlobal("tvm.aot_executor.create", &function), 0);
    const int err = TVMFuncCall(function, args, codes, count, &result, &code);
    EXPECT_EQ(code, err == 0 ? kTVMModuleHandle : kTVMNullptr);
    *out = result.v_handle;
    return err;
}

static void creation_args(TVMValue *args, int *codes) {
    memset(args, 0, 3 * sizeof *args);
    args[0].v_handle = library;
    args[1].v_device = cpu;
    args[2].v_str = "sum";
    codes[0] = kTVMModuleHandle;
    codes[1] = kDLDevice;
    codes[2] = kTVMStr;
}

static int set_input(TVMValue input, int input_code, DLTensor *tensor, int tensor_code) {
    TVMFunctionHandle function;
    TVMValue args[2], result;
    int codes[2] = {input_code, tensor_code}, code;
    args[0] = input;
    args[1].v_handle = tensor;
    EXPECT_EQ(TVMModGetFunction(executor_module, "set_input", 0, &function), 0);
    return TVMFuncCall(function, args, codes, 2, &result, &code);
}

static void test_module(void) {
    restart();
    EXPECT_EQ(TVMAotExecutorModule_Register(), kTvmErrorNoError);
    EXPECT_EQ(TVMAotExecutorModule_Register(), kTvmErrorFunctionAlreadyDefined);
    TVMValue args[3], arg, result;
    int codes[3], code;
    creation_args(args, codes);
    EXPECT_EQ(create(args, codes, 3, &executor_module), 0);
    EXPECT_EQ((uintptr_t)executor_module, 0x8001);
    TVMModuleHandle second;
    EXPECT_EQ(create(args, codes, 3, &second), kTvmErrorExecutorModuleAlreadyCreated);

    EXPECT_EQ(ask("get_num_inputs", NULL, 0, &result, &code), 0);
    EXPECT(result.v_int64 == 2 && code == kTVMArgInt);
    EXPECT_EQ(ask("get_num_outputs", NULL, 0, &result, &code), 0);
    EXPECT(result.v_int64 == 1 && code == kTVMArgInt);
    arg.v_str = "right";
    EXPECT_EQ(ask("get_input_index", &arg, kTVMStr, &result, &code), 0);
    EXPECT(result.v_int64 == 1 && code == kTVMArgInt);

    /* An input by its name through its tensor, the other one by its number with set_input. */
    int8_t left[4] = {1, 2, 3, 4};
    int64_t shape[2] = {1, 4};
    DLTensor tensor = {left, {kDLCPU, 0}, 2, {kDLInt, 8, 1}, shape, NULL, 0};
    EXPECT_EQ(ask("get_input", &arg, kTVMStr, &result, &code), 0);
    EXPECT_EQ(code, kTVMNDArrayHandle);
    memset(((DLTensor *)result.v_handle)->data, 100, 4);
    EXPECT_EQ(TVMArrayFree((TVMArrayHandle)result.v_handle), 0); /* only this reference */
    arg.v_int64 = 0;
    EXPECT_EQ(set_input(arg, kTVMArgInt, &tensor, kTVMDLTensorHandle), 0);
    EXPECT_EQ(ask("run", NULL, 0, &result, &code), 0);
    EXPECT_EQ(ask("get_output", &arg, kTVMArgInt, &result, &code), 0);
    EXPECT_EQ(memcmp(((DLTensor *)result.v_handle)->data, "efgh", 4), 0);
    EXPECT_EQ(TVMArrayFree((TVMArrayHandle)result.v_handle), 0);
    sum_error = -8;
    EXPECT_EQ(ask("run", NULL, 0, &result, &code), -8);

    /* Every function refuses what it cannot use. */
    static const struct {
        const char *function;
        int64_t index;
        int type, err;
    } table[] = {
        {"get_input", 2, kTVMArgInt, kTvmErrorFunctionCallInvalidArg},
        {"get_input", -1, kTVMArgInt, kTvmErrorFunctionCallInvalidArg},
        {"get_input", 0, kTVMNullptr, kTvmErrorFunctionCallWrongArgType},
        {"get_input_index", 2, kTVMArgInt, kTvmErrorFunctionCallInvalidArg},
        {"get_output", 1, kTVMArgInt, kTvmErrorFunctionCallInvalidArg}, /* the first past the end */
        {"get_output", -1, kTVMArgInt, kTvmErrorFunctionCallInvalidArg},
        {"get_output", 0, kTVMStr, kTvmErrorFunctionCallWrongArgType},
        {"run", 0, kTVMArgInt, kTvmErrorFunctionCallNumArguments},
        {"set_input", 0, kTVMArgInt, kTvmErrorFunctionCallNumArguments},
        {"get_num_inputs", 0, kTVMArgInt, kTvmErrorFunctionCallNumArguments},
        {"get_num_outputs", 0, kTVMArgInt, kTvmErrorFunctionCallNumArguments},
        {"get_input_info", 0, kTVMArgInt, kTvmErrorFunctionCallNotImplemented},
        {"load_params", 0, kTVMArgInt, kTvmErrorFunctionCallNotImplemented},
        {"share_params", 0, kTVMArgInt, kTvmErrorFunctionCallNotImplemented},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        arg.v_int64 = table[i].index;
        EXPECT_EQ(ask(table[i].function, &arg, table[i].type, &result, &code), table[i].err);
        EXPECT_EQ(code, kTVMNullptr);
    }
    static const char *const takers[] = {"get_input", "get_input_index", "get_output", "set_input"};
    for (int i = 0; i < 4; i++) {
        EXPECT_EQ(ask(takers[i], NULL, 0, &result, &code), kTvmErrorFunctionCallNumArguments);
    }
    arg.v_str = "middle";
    EXPECT_EQ(ask("get_input", &arg, kTVMStr, &result, &code), kTvmErrorExecutorModuleNoSuchInput);
    EXPECT_EQ(ask("get_input_index", &arg, kTVMStr, &result, &code),
              kTvmErrorExecutorModuleNoSuchInput);
    EXPECT_EQ(set_input(arg, kTVMStr, &tensor, kTVMDLTensorHandle),
              kTvmErrorExecutorModuleNoSuchInput);
    arg.v_int64 = 0;
    EXPECT_EQ(set_input(arg, kTVMArgInt, &tensor, kTVMStr), kTvmErrorFunctionCallWrongArgType);
    /* cppcheck-suppress unreadVariable ; read through the tensor */
    shape[1] = 3;
    EXPECT_EQ(set_input(arg, kTVMArgInt, &tensor, kTVMNDArrayHandle),
              kTvmErrorFunctionCallInvalidArg);

    /* Once its module is freed, there can be another. */
    EXPECT_EQ(TVMModFree(executor_module), 0);
    EXPECT_EQ(create(args, codes, 3, &executor_module), 0);
    EXPECT_EQ(TVMModFree(executor_module), 0);
    args[1].v_device.device_id = 1; /* frees the one before, and fails */
    EXPECT_EQ(create(args, codes, 3, &executor_module), kTvmErrorExecutorModuleBadContext);
    EXPECT_EQ(live_blocks, 0);
}

static void test_module_creation(void) {
    restart();
    EXPECT_EQ(TVMAotExecutorModule_Register(), kTvmErrorNoError);
    TVMValue args[3];
    int codes[3];
    TVMModuleHandle handle;
    creation_args(args, codes);
    EXPECT_EQ(create(args, codes, 2, &handle), kTvmErrorFunctionCallNumArguments);
    for (int i = 0; i < 3; i++) {
        creation_args(args, codes);
        codes[i] = kTVMNullptr;
        EXPECT_EQ(create(args, codes, 3, &handle), kTvmErrorFunctionCallWrongArgType);
    }
    creation_args(args, codes);
    fail_after = 3;
    EXPECT_EQ(create(args, codes, 3, &handle), kTvmErrorPlatformNoMemory);
    fail_after = -1;
    const TVMModule filler = {TVMSystemLibEntryPoint()->registry};
    EXPECT_EQ(TVMModCreateFromCModule(&filler, &handle), 0);
    EXPECT_EQ(create(args, codes, 3, &handle), kTvmErrorFunctionRegistryFull);
    EXPECT_EQ(live_blocks, 0);
}

static void test_model_struct(void) {
    int8_t left[4] = {1, 2, 3, 4}, right[4] = {4, 3, 2, 1}, output[4] = {0};
    void *inputs[2] = {left, right}, *outputs[1] = {output};
    tvm_model_t model = {2, 1, tvmgen_sum_run};
    sum_error = 0;
    EXPECT_EQ(tvm_runtime_run(&model, inputs, outputs), 0);
    EXPECT(output[0] == 5 && output[3] == 5);
    sum_error = -3;
    EXPECT_EQ(tvm_runtime_run(&model, inputs, outputs), -3);
    EXPECT_EQ(tvm_runtime_run(NULL, inputs, outputs), kTvmErrorFunctionCallInvalidArg);
    model.num_output_tensors = TVM_CRT_MAX_ARGS - 1;
    EXPECT_EQ(tvm_runtime_run(&model, inputs, outputs), kTvmErrorFunctionCallNumArguments);
    model.num_output_tensors = SIZE_MAX;
    EXPECT_EQ(tvm_runtime_run(&model, inputs, outputs), kTvmErrorFunctionCallNumArguments);
    model.run_func = NULL;
    EXPECT_EQ(tvm_runtime_run(&model, inputs, outputs), kTvmErrorFunctionCallInvalidArg);
}

int main(void) {
    test_a_run();
    test_no_memory();
    test_refusals();
    test_wrong_metadata();
    test_pools();
    test_too_many_arguments();
    test_module();
    test_module_creation();
    test_model_struct();
    EXPECT_EQ(out_of_order, 0); /* a stack suffices as the platform's memory */
    return failures != 0;
}
