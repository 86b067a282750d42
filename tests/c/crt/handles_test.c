/* Modules and functions by handle: the numbers, the calls, everything that is no handle. */
#include "check.h"
#include "packed_model.h"

#include <tvm/runtime/crt/crt.h>
#include <tvm/runtime/crt/error_codes.h>
#include <tvm/runtime/crt/packed_func.h>

/* Result: the number of arguments; notes the resource handle. With an argument -1 it fails. */
static void *resource;
static int count_args(TVMValue *args, int *codes, int num_args, TVMValue *ret, int *ret_code,
                      void *resource_handle) {
    resource = resource_handle;
    if (num_args == 1 && codes[0] == kTVMArgInt && args[0].v_int64 == -1) {
        return -42;
    }
    ret->v_int64 = num_args;
    *ret_code = kTVMArgInt;
    return 0;
}

/* Sets no result. */
static int silent(TVMValue *args, int *codes, int num_args, TVMValue *ret, int *ret_code,
                  void *resource_handle) {
    (void)args, (void)codes, (void)num_args, (void)resource_handle;
    EXPECT(*ret_code == kTVMNullptr && ret->v_handle == NULL);
    return 0;
}

static const TVMBackendPackedCFunc functions[] = {count_args, silent, NULL};
static const TVMFuncRegistry registry = {"\3\0count_args\0silent\0missing\0", functions};
static const TVMModule module = {&registry}, other = {&registry}, empty = {NULL};

static uintptr_t number(const void *handle) { return (uintptr_t)handle; }

static void restart(void) { EXPECT_EQ(TVMInitializeRuntime(), kTvmErrorNoError); }

static void test_encodings(void) {
    restart();
    TVMModuleHandle first, second;
    TVMFunctionHandle function;
    EXPECT_EQ(TVMModCreateFromCModule(&module, &first), 0);
    EXPECT_EQ(TVMModCreateFromCModule(&other, &second), 0);
    EXPECT_EQ(number(first), 0x8000);
    EXPECT_EQ(number(second), 0x8001);
    EXPECT_EQ(TVMModGetFunction(first, "count_args", 0, &function), 0);
    EXPECT_EQ(number(function), 0x80008000);
    EXPECT_EQ(TVMModGetFunction(second, "silent", 0, &function), 0);
    EXPECT_EQ(number(function), 0x80018001);
    EXPECT_EQ(TVMFuncGetGlobal("tvm.rpc.server.ModuleGetFunction", &function), 0);
    EXPECT_EQ(number(function),
              (uintptr_t)(0x8000 | TVM_CRT_MAX_REGISTERED_MODULES) << 16 | 0x8001);
}

static void test_modules(void) {
    restart();
    TVMModuleHandle first, again, second, third = NULL;
    EXPECT_EQ(TVMModCreateFromCModule(&module, &first), 0);
    EXPECT_EQ(TVMModCreateFromCModule(&other, &second), 0);
    EXPECT_EQ(TVMModCreateFromCModule(&module, &again), 0);
    EXPECT(first == again);
    const TVMModule more = {&registry};
    EXPECT_ERROR(TVMModCreateFromCModule(&more, &third), kTvmErrorFunctionRegistryFull,
                 "TVM_CRT_MAX_REGISTERED_MODULES");
    EXPECT(third == NULL);
    TVMFunctionHandle function;
    EXPECT_EQ(TVMModGetFunction(first, "silent", 0, &function), 0);
    EXPECT_EQ(TVMModFree(first), 0);
    EXPECT_ERROR(TVMModFree(first), kTvmErrorFunctionIndexInvalid, "handle");
    TVMValue result;
    int code;
    EXPECT_EQ(TVMFuncCall(function, NULL, NULL, 0, &result, &code), kTvmErrorFunctionIndexInvalid);
    EXPECT_EQ(TVMModCreateFromCModule(&more, &third), 0);
    EXPECT(third == first); /* the place is taken again */
    EXPECT_EQ(TVMModFree(third), 0);

    EXPECT_EQ(TVMModCreateFromCModule(NULL, &third), kTvmErrorFunctionCallInvalidArg);
    EXPECT_ERROR(TVMModCreateFromCModule(&empty, &third), kTvmErrorFunctionCallInvalidArg,
                 "without functions");
    EXPECT_EQ(TVMModCreateFromCModule(&module, NULL), kTvmErrorFunctionCallInvalidArg);
    EXPECT_ERROR(TVMModLoadFromFile("m.so", "so", &third), kTvmErrorFunctionCallNotImplemented,
                 "m.so");
    EXPECT_ERROR(TVMModImport(second, second), kTvmErrorFunctionCallNotImplemented, "import");
}

static void test_wrong_handles(void) {
    restart();
    TVMModuleHandle handle;
    EXPECT_EQ(TVMModCreateFromCModule(&module, &handle), 0);
    static const uintptr_t no_modules[] = {0,      1,      0x8001,     0x8002,
                                           0x7fff, 0xffff, 0x00018000, UINTPTR_MAX};
    TVMFunctionHandle function;
    for (size_t i = 0; i < sizeof no_modules / sizeof no_modules[0]; i++) {
        const TVMModuleHandle wrong = (TVMModuleHandle)no_modules[i];
        function = handle;
        EXPECT_ERROR(TVMModGetFunction(wrong, "silent", 0, &function),
                     kTvmErrorFunctionIndexInvalid, "handle");
        EXPECT(function == NULL);
        EXPECT_EQ(TVMModFree(wrong), kTvmErrorFunctionIndexInvalid);
    }
    static const uintptr_t no_functions[] = {
        0,          0x8000,     0x80000000,  0x00008000, 0x80008003,
        0x8000ffff, 0x80018000, 0x80028005,  0x80038000, 0xffff8000, /* no time evaluator yet */
        0x80000001, 0x00018001, UINTPTR_MAX, 0x80008002, /* a table's entry without a function */
    };
    TVMValue result;
    int code;
    for (size_t i = 0; i < sizeof no_functions / sizeof no_functions[0]; i++) {
        result.v_handle = &result;
        EXPECT_ERROR(TVMFuncCall((TVMFunctionHandle)no_functions[i], NULL, NULL, 0, &result, &code),
                     kTvmErrorFunctionIndexInvalid, "handle");
        EXPECT(result.v_handle == NULL && code == kTVMNullptr);
    }
    if (sizeof(void *) > 4) {
        EXPECT_EQ(TVMFuncCall((TVMFunctionHandle)(uintptr_t)(0x180008000ULL), NULL, NULL, 0,
                              &result, &code),
                  kTvmErrorFunctionIndexInvalid);
    }
    EXPECT_ERROR(TVMModGetFunction(handle, "nothing", 0, &function), kTvmErrorFunctionNameNotFound,
                 "nothing");
    EXPECT(function == NULL);
    EXPECT_EQ(TVMModGetFunction(handle, NULL, 0, &function), kTvmErrorFunctionCallInvalidArg);
    EXPECT_EQ(TVMModGetFunction(handle, "silent", 0, NULL), kTvmErrorFunctionCallInvalidArg);
}

/* A function handle holds 15 bits of an index. */
static void test_too_many_functions(void) {
    static TVMBackendPackedCFunc many[0x8001];
    static char names[2 + 2 * 0x8001 + 4];
    const uint16_t count = 0x8001;
    memcpy(names, &count, sizeof count);
    for (size_t i = 0; i < count; i++) {
        memcpy(names + 2 + 2 * i, i == 0x7fff ? "y" : i == 0x8000 ? "z" : "x", 2);
        many[i] = silent;
    }
    const TVMFuncRegistry table = {names, many};
    const TVMModule big = {&table};
    TVMModuleHandle handle;
    TVMFunctionHandle function;
    restart();
    EXPECT_EQ(TVMModCreateFromCModule(&big, &handle), 0);
    EXPECT_EQ(TVMModGetFunction(handle, "y", 0, &function), 0);
    EXPECT_EQ(number(function), 0x8000ffff);
    EXPECT_EQ(TVMModGetFunction(handle, "z", 0, &function), kTvmErrorFunctionIndexInvalid);
    EXPECT(function == NULL);
    TVMValue result;
    int code;
    EXPECT_EQ(TVMFuncCall((TVMFunctionHandle)(uintptr_t)0x80000000, NULL, NULL, 0, &result, &code),
              kTvmErrorFunctionIndexInvalid);
    restart();
}

static void test_calls(void) {
    restart();
    TVMModuleHandle handle;
    TVMFunctionHandle function;
    EXPECT_EQ(TVMModCreateFromCModule(&module, &handle), 0);
    EXPECT_EQ(TVMModGetFunction(handle, "count_args", 1, &function), 0);
    TVMValue args[3], result;
    int codes[3] = {kTVMArgInt, kTVMArgInt, kTVMArgInt}, code = 77;
    memset(args, 0xff, sizeof args);
    EXPECT_EQ(TVMFuncCall(function, args, codes, 3, &result, &code), 0);
    EXPECT_EQ(result.v_int64, 3);
    EXPECT_EQ(code, kTVMArgInt);
    EXPECT(resource == &registry);
    EXPECT_EQ(TVMFuncCall(function, args, codes, 1, &result, &code), -42);
    EXPECT_EQ(TVMFuncFree(function), 0);

    EXPECT_EQ(TVMModGetFunction(handle, "silent", 0, &function), 0);
    memset(&result, 0xff, sizeof result);
    EXPECT_EQ(TVMFuncCall(function, NULL, NULL, 0, &result, &code), 0);
    EXPECT_EQ(code, kTVMNullptr);
    EXPECT(result.v_handle == NULL);

    EXPECT_EQ(TVMFuncCall(function, args, codes, -1, &result, &code),
              kTvmErrorFunctionCallInvalidArg);
    EXPECT_EQ(TVMFuncCall(function, NULL, codes, 1, &result, &code),
              kTvmErrorFunctionCallInvalidArg);
    EXPECT_EQ(TVMFuncCall(function, args, NULL, 1, &result, &code),
              kTvmErrorFunctionCallInvalidArg);
    EXPECT_EQ(TVMFuncCall(function, args, codes, 1, NULL, &code), kTvmErrorFunctionCallInvalidArg);
    EXPECT_EQ(TVMFuncCall(function, args, codes, 1, &result, NULL),
              kTvmErrorFunctionCallInvalidArg);
}

static void test_globals(void) {
    restart();
    TVMFunctionHandle function = &function;
    EXPECT_EQ(TVMFuncGetGlobal("no.such", &function), 0);
    EXPECT(function == NULL);
    EXPECT_EQ(TVMFuncGetGlobal(NULL, &function), kTvmErrorFunctionCallInvalidArg);
    EXPECT_EQ(TVMFuncGetGlobal("x", NULL), kTvmErrorFunctionCallInvalidArg);

    const TVMFunctionHandle raw = (TVMFunctionHandle)(uintptr_t)count_args;
    EXPECT_EQ(TVMFuncRegisterGlobal("my.count", raw, 0), 0);
    EXPECT_ERROR(TVMFuncRegisterGlobal("my.count", raw, 0), kTvmErrorFunctionAlreadyDefined,
                 "my.count");
    EXPECT_EQ(TVMFuncRegisterGlobal("my.count", raw, 1), 0);
    EXPECT_EQ(TVMFuncRegisterGlobal("my.null", NULL, 0), kTvmErrorFunctionCallInvalidArg);
    TVMValue result;
    int code;
    resource = &result;
    EXPECT_EQ(TVMFuncGetGlobal("my.count", &function), 0);
    EXPECT_EQ(TVMFuncCall(function, NULL, NULL, 0, &result, &code), 0);
    EXPECT(resource == NULL && result.v_int64 == 0 && code == kTVMArgInt);

    char name[TVM_CRT_GLOBAL_FUNC_REGISTRY_SIZE_BYTES + 1];
    memset(name, 'n', sizeof name);
    name[sizeof name - 1] = '\0';
    EXPECT_ERROR(TVMFuncRegisterGlobal(name, raw, 0), kTvmErrorFunctionRegistryFull,
                 "TVM_CRT_GLOBAL_FUNC_REGISTRY_SIZE_BYTES");
    restart(); /* forgets it */
    EXPECT_EQ(TVMFuncGetGlobal("my.count", &function), 0);
    EXPECT(function == NULL);
}

/* Calls a global function through TVMPackedFunc. */
static int call_global(const char *name, TVMPackedFunc *call, TVMValue *values, uint32_t *codes,
                       uint32_t count) {
    const TVMArgs args = TVMArgs_Create(values, codes, count);
    const int err = TVMPackedFunc_InitGlobalFunc(call, name, &args);
    return err != 0 ? err : call->Call(call);
}

static void test_runtime_functions(void) {
    restart();
    TVMPackedFunc call;
    EXPECT_EQ(call_global("runtime.SystemLib", &call, NULL, NULL, 0), 0);
    const TVMModuleHandle library = TVMArgs_AsModuleHandle(&call.ret_value, 0);
    EXPECT_EQ(number(library), 0x8000);
    EXPECT_EQ(call_global("runtime.SystemLib", &call, NULL, NULL, 0), 0);
    EXPECT(TVMArgs_AsModuleHandle(&call.ret_value, 0) == library);

    EXPECT_EQ(call_global("tvm.rpc.server.GetCRTMaxPacketSize", &call, NULL, NULL, 0), 0);
    EXPECT_EQ(call.ret_value.values[0].v_int64, TVM_CRT_MAX_PACKET_SIZE_BYTES - 11);
    EXPECT_EQ(call.ret_value.tcodes[0], kTVMArgInt);

    static const char *const get = "tvm.rpc.server.ModuleGetFunction";
    TVMValue values[3];
    uint32_t codes[3] = {kTVMModuleHandle, kTVMStr, kTVMArgInt};
    values[0].v_handle = library;
    values[1].v_str = "tvmgen_sum_run";
    values[2].v_int64 = 0;
    for (int flag = 0; flag < 2; flag++) {
        codes[2] = flag ? kTVMArgBool : kTVMArgInt;
        EXPECT_EQ(call_global(get, &call, values, codes, 3), 0);
        EXPECT_EQ(call.ret_value.tcodes[0], kTVMPackedFuncHandle);
        EXPECT_EQ(number(call.ret_value.values[0].v_handle), 0x80008000);
    }
    values[1].v_str = "no_such";
    EXPECT_EQ(call_global(get, &call, values, codes, 3), 0);
    EXPECT(call.ret_value.values[0].v_handle == NULL && call.ret_value.tcodes[0] == kTVMNullptr);
    EXPECT_EQ(call_global(get, &call, values, codes, 2), kTvmErrorFunctionCallNumArguments);
    codes[1] = kTVMArgInt;
    EXPECT_EQ(call_global(get, &call, values, codes, 3), kTvmErrorFunctionCallWrongArgType);
    codes[1] = kTVMStr;
    values[0].v_handle = NULL;
    EXPECT_EQ(call_global(get, &call, values, codes, 3), kTvmErrorFunctionIndexInvalid);
}

static void test_random_fill(void) {
    restart();
    static const char *const name = "tvm.contrib.random.random_fill";
    uint8_t data[8] = {0};
    int64_t shape[1] = {4};
    DLTensor tensor = {data, {kDLCPU, 0}, 1, {kDLUInt, 8, 1}, shape, NULL, 2};
    TVMPackedFunc call;
    TVMValue value;
    uint32_t code = kTVMDLTensorHandle;
    value.v_handle = &tensor;
    EXPECT_EQ(call_global(name, &call, &value, &code, 1), 0);
    EXPECT_EQ(memcmp(data, "\0\0\x5a\x5b\x5c\x5d\0\0", 8), 0);
    EXPECT_EQ(call_global(name, &call, &value, &code, 0), kTvmErrorFunctionCallNumArguments);
    code = kTVMArgInt;
    EXPECT_EQ(call_global(name, &call, &value, &code, 1), kTvmErrorFunctionCallWrongArgType);
    code = kTVMNDArrayHandle;
    value.v_handle = NULL;
    EXPECT_EQ(call_global(name, &call, &value, &code, 1), kTvmErrorFunctionCallWrongArgType);
    value.v_handle = &tensor;
    /* cppcheck-suppress unreadVariable ; read through the tensor */
    shape[0] = -1;
    EXPECT_EQ(call_global(name, &call, &value, &code, 1), kTvmErrorFunctionCallInvalidArg);
}

static void test_packed_func(void) {
    restart();
    TVMModuleHandle handle;
    TVMPackedFunc call;
    TVMValue values[TVM_CRT_MAX_ARGS + 1];
    uint32_t codes[TVM_CRT_MAX_ARGS + 1];
    memset(values, 0, sizeof values);
    memset(codes, 0, sizeof codes);
    EXPECT_EQ(TVMModCreateFromCModule(&module, &handle), 0);
    EXPECT_EQ(TVMPackedFunc_InitModuleFunc(&call, handle, "count_args", NULL), 0);
    EXPECT(strcmp(call.name, "count_args") == 0);
    EXPECT_EQ(TVMPackedFunc_Call(&call), 0);
    EXPECT_EQ(call.ret_value.values_count, 1);
    EXPECT_EQ(call.ret_value.values[0].v_int64, 0);

    TVMArgs args = TVMArgs_Create(values, codes, TVM_CRT_MAX_ARGS);
    call.SetArgs(&call, &args);
    EXPECT_EQ(call.Call(&call), 0);
    EXPECT_EQ(call.ret_value.values[0].v_int64, TVM_CRT_MAX_ARGS);

    TVMAPISetLastError("");
    args = TVMArgs_Create(values, codes, TVM_CRT_MAX_ARGS + 1);
    EXPECT(strstr(TVMGetLastError(), "TVM_CRT_MAX_ARGS") != NULL);
    TVMPackedFunc_SetArgs(&call, &args);
    EXPECT_ERROR(TVMPackedFunc_Call(&call), kTvmErrorFunctionCallNumArguments, "count_args");
    EXPECT_EQ(call.ret_value.values_count, 0);

    EXPECT_ERROR(TVMPackedFunc_InitModuleFunc(&call, handle, "nothing", NULL),
                 kTvmErrorFunctionNameNotFound, "nothing");
    EXPECT_EQ(TVMPackedFunc_Call(&call), kTvmErrorFunctionIndexInvalid);
    EXPECT_ERROR(TVMPackedFunc_InitGlobalFunc(&call, "nothing", NULL),
                 kTvmErrorFunctionNameNotFound, "nothing");
    char name[201];
    memset(name, 'n', sizeof name);
    name[200] = '\0';
    EXPECT_EQ(TVMPackedFunc_InitModuleFunc(&call, handle, name, NULL),
              kTvmErrorFunctionCallInvalidArg);
    EXPECT_EQ(TVMPackedFunc_InitGlobalFunc(&call, NULL, NULL), kTvmErrorFunctionCallInvalidArg);

    args = TVMArgs_Create(values, codes, 1);
    EXPECT(TVMArgs_AsModuleHandle(&args, 0) == NULL); /* another type */
    args.tcodes[0] = kTVMModuleHandle;
    args.values[0].v_handle = handle;
    EXPECT(TVMArgs_AsModuleHandle(&args, 0) == handle);
    EXPECT(TVMArgs_AsModuleHandle(&args, 1) == NULL);
    args.values_count = 1000;
    EXPECT(TVMArgs_AsModuleHandle(&args, 999) == NULL);
}

static void test_set_return(void) {
    TVMValue value, target;
    int code = kTVMArgInt, target_code = 0;
    value.v_int64 = 5;
    TVMCReturnValue ret = {&target, &target_code};
    EXPECT_EQ(TVMCFuncSetReturn(&ret, &value, &code, 1), 0);
    EXPECT(target.v_int64 == 5 && target_code == kTVMArgInt);
    EXPECT_EQ(TVMCFuncSetReturn(&ret, &value, &code, 2), kTvmErrorFunctionCallInvalidArg);
    EXPECT_EQ(TVMCFuncSetReturn(NULL, &value, &code, 1), kTvmErrorFunctionCallInvalidArg);
}

/* Found from code: its own module first, then the others, then what is global. */
static void test_functions_from_code(void) {
    static const TVMBackendPackedCFunc theirs[] = {silent, count_args};
    static const TVMFuncRegistry their_registry = {"\2\0count_args\0only_theirs\0", theirs};
    static const TVMModule their_module = {&their_registry};
    restart();
    TVMFunctionHandle function, first, second;
    /* The system library is there without being asked for: code that is called by symbol. */
    EXPECT_EQ(TVMBackendGetFuncFromEnv(NULL, "tvmgen_sum_run", &function), 0);
    EXPECT_EQ(number(function), 0x80008000);
    TVMModuleHandle handle;
    EXPECT_EQ(TVMModCreateFromCModule(&their_module, &handle), 0);
    EXPECT_EQ(TVMBackendGetFuncFromEnv((void *)(uintptr_t)&registry, "only_theirs", &function), 0);
    EXPECT_EQ(number(function), 0x80018001);
    EXPECT_EQ(TVMBackendGetFuncFromEnv(NULL, "runtime.SystemLib", &function), 0);
    EXPECT_EQ(number(function),
              (uintptr_t)(0x8000 | TVM_CRT_MAX_REGISTERED_MODULES) << 16 | 0x8000);
    EXPECT_ERROR(TVMBackendGetFuncFromEnv(NULL, "no_such", &function),
                 kTvmErrorFunctionNameNotFound, "no_such");
    EXPECT(function == NULL);
    EXPECT_EQ(TVMBackendGetFuncFromEnv(NULL, NULL, &function), kTvmErrorFunctionCallInvalidArg);

    restart();
    TVMModuleHandle ours;
    EXPECT_EQ(TVMModCreateFromCModule(&module, &ours), 0);
    EXPECT_EQ(TVMModCreateFromCModule(&their_module, &handle), 0);
    EXPECT_EQ(TVMBackendGetFuncFromEnv((void *)(uintptr_t)&registry, "count_args", &first), 0);
    EXPECT_EQ(TVMBackendGetFuncFromEnv((void *)(uintptr_t)&their_registry, "count_args", &second),
              0);
    EXPECT_EQ(number(first), 0x80008000);
    EXPECT_EQ(number(second), 0x80018000);
    EXPECT_EQ(TVMBackendGetFuncFromEnv(&function, "count_args", &function), 0); /* not a module */
    EXPECT(function == first);
}

int main(void) {
    /* Before TVMInitializeRuntime nothing is found, and nothing crashes. */
    TVMFunctionHandle function;
    EXPECT_EQ(TVMFuncGetGlobal("runtime.SystemLib", &function), 0);
    EXPECT(function == NULL);
    EXPECT_EQ(TVMFuncRegisterGlobal("f", (TVMFunctionHandle)(uintptr_t)silent, 0),
              kTvmErrorFunctionCallInvalidArg);
    EXPECT_EQ(TVMBackendGetFuncFromEnv(NULL, "no_such", &function), kTvmErrorFunctionNameNotFound);

    test_encodings();
    test_modules();
    test_wrong_handles();
    test_too_many_functions();
    test_calls();
    test_globals();
    test_runtime_functions();
    test_random_fill();
    test_packed_func();
    test_set_return();
    test_functions_from_code();
    return failures != 0;
}
