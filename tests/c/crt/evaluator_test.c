/* runtime.RPCTimeEvaluator with a stopwatch that counts calls. */
#include "check.h"
#include "host_platform.h"

#include <tvm/runtime/crt/crt.h>
#include <tvm/runtime/crt/error_codes.h>
#include <tvm/runtime/crt/module.h>

static int fail_at = -1;
static int stops_timer;
static int work(TVMValue *args, int *codes, int num_args, TVMValue *ret, int *ret_code,
                void *resource_handle) {
    (void)args, (void)codes, (void)ret, (void)ret_code, (void)resource_handle;
    EXPECT_EQ(num_args, 0);
    timer_running = stops_timer ? 0 : timer_running;
    return timed_calls++ == fail_at ? -9 : 0;
}
static const TVMBackendPackedCFunc functions[] = {work};
static const TVMFuncRegistry registry = {"\1\0work\0", functions};
static const TVMModule module = {&registry};
const TVMModule *TVMSystemLibEntryPoint(void) { return &module; }

enum { CALLS = 4, REPEATS, LEAST_MS, ZEROS, PAUSE_MS, PAUSE_EVERY, CACHE, BEFORE };

static TVMValue args[12];
static int codes[12];

static void default_args(TVMModuleHandle handle) {
    memset(args, 0, sizeof args);
    for (int i = 0; i < 12; i++) {
        codes[i] = kTVMArgInt;
    }
    codes[0] = kTVMModuleHandle;
    codes[1] = codes[BEFORE] = kTVMStr;
    args[0].v_handle = handle;
    args[1].v_str = "work";
    args[2].v_int64 = kDLCPU;
    args[CALLS].v_int64 = 10;
    args[REPEATS].v_int64 = 3;
    args[BEFORE].v_str = "";
}

static TVMFunctionHandle maker;
static int make(TVMFunctionHandle *evaluator) {
    TVMValue result;
    int code;
    const int err = TVMFuncCall(maker, args, codes, 12, &result, &code);
    *evaluator = result.v_handle;
    EXPECT_EQ(code, err == 0 ? kTVMPackedFuncHandle : kTVMNullptr);
    return err;
}

/* The times, in a static array; their number or an error. */
static double times[8];
static int evaluate(TVMFunctionHandle evaluator, int *count) {
    TVMValue result;
    int code = 0;
    const int err = TVMFuncCall(evaluator, NULL, NULL, 0, &result, &code);
    *count = 0;
    EXPECT_EQ(code, err == 0 ? kTVMBytes : kTVMNullptr);
    if (err == 0) {
        TVMByteArray *const bytes = (TVMByteArray *)result.v_handle;
        *count = (int)(bytes->size / sizeof(double));
        memcpy(times, bytes->data, bytes->size);
        EXPECT_EQ(TVMByteArrayFree(bytes), 0);
    }
    EXPECT_EQ(live_blocks, 0);
    EXPECT_EQ(timer_running, 0);
    return err;
}

static void test_fixed_calls(TVMModuleHandle handle) {
    default_args(handle);
    TVMFunctionHandle evaluator;
    int count;
    tick_s = 0.25;
    timed_calls = timer_starts = 0;
    EXPECT_EQ(make(&evaluator), 0);
    EXPECT_EQ((uintptr_t)evaluator >> 16, 0xffff); /* module 0x7fff */
    EXPECT_EQ(evaluate(evaluator, &count), 0);
    EXPECT_EQ(count, 3);
    EXPECT_EQ(timed_calls, 1 + 3 * 10); /* one before, to warm up */
    EXPECT_EQ(timer_starts, 3);
    for (int i = 0; i < 3; i++) {
        EXPECT(times[i] == 0.25);
    }
}

static void test_least_time(TVMModuleHandle handle) {
    default_args(handle);
    TVMFunctionHandle evaluator;
    int count;
    args[REPEATS].v_int64 = 1;
    args[LEAST_MS].v_int64 = 100;
    args[ZEROS].v_int64 = 100;
    tick_s = 0.0009765625; /* 103 calls take 100 ms */
    timed_calls = timer_starts = 0;
    EXPECT_EQ(make(&evaluator), 0);
    EXPECT_EQ(evaluate(evaluator, &count), 0);
    EXPECT_EQ(timer_starts, 2);
    EXPECT(timed_calls >= 1 + 10 + 103 && timed_calls < 200);
    EXPECT(times[0] == tick_s);
    /* A stopwatch that never runs ends it all the same. */
    tick_s = 0;
    args[ZEROS].v_int64 = 4;
    timer_starts = 0;
    EXPECT_EQ(make(&evaluator), 0);
    EXPECT_EQ(evaluate(evaluator, &count), 0);
    EXPECT_EQ(timer_starts, 4);
    EXPECT(times[0] == 0);
}

static void test_handles(TVMModuleHandle handle) {
    default_args(handle);
    TVMFunctionHandle first, second;
    int count;
    EXPECT_EQ(make(&first), 0);
    EXPECT_EQ(make(&second), 0);
    EXPECT_ERROR(evaluate(first, &count), kTvmErrorTimeEvaluatorBadHandle, "newer");
    EXPECT_EQ(evaluate(second, &count), 0);
}

static void test_failures(TVMModuleHandle handle) {
    default_args(handle);
    TVMFunctionHandle evaluator;
    int count;
    EXPECT_EQ(make(&evaluator), 0);
    for (int n = 0; n < 2; n++) {
        fail_after = n;
        EXPECT_EQ(evaluate(evaluator, &count), kTvmErrorPlatformNoMemory);
    }
    fail_after = -1;
    for (int call = 0; call < 31; call += 5) {
        timed_calls = 0;
        fail_at = call;
        EXPECT_EQ(evaluate(evaluator, &count), -9);
    }
    fail_at = -1;
    timer_running = 1;
    EXPECT_EQ(TVMFuncCall(evaluator, NULL, NULL, 0, &args[0], &count),
              kTvmErrorPlatformTimerBadState);
    timer_running = 0;
    stops_timer = 1;
    EXPECT_EQ(evaluate(evaluator, &count), kTvmErrorPlatformTimerBadState);
    stops_timer = 0;
    EXPECT_EQ(evaluate(evaluator, &count), 0);
}

static void test_arguments(TVMModuleHandle handle) {
    static const struct {
        int index;
        int64_t value;
        int err;
    } table[] = {
        {0, 0x9999, kTvmErrorFunctionIndexInvalid},
        {2, kDLCUDA, kTvmErrorExecutorModuleBadContext},
        {3, 1, kTvmErrorExecutorModuleBadContext},
        {CALLS, 0, kTvmErrorFunctionCallInvalidArg},
        {REPEATS, 0, kTvmErrorFunctionCallInvalidArg},
        {REPEATS, INT64_MAX, kTvmErrorFunctionCallInvalidArg},
        {LEAST_MS, -1, kTvmErrorFunctionCallInvalidArg},
        {PAUSE_MS, 1, kTvmErrorFunctionCallNotImplemented},
        {CACHE, 1, kTvmErrorFunctionCallNotImplemented},
        {CACHE, -1, 0},
        {PAUSE_EVERY, 5, 0},
    };
    TVMFunctionHandle evaluator;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        default_args(handle);
        args[table[i].index].v_int64 = table[i].value;
        EXPECT_EQ(make(&evaluator), table[i].err);
    }
    default_args(handle);
    args[1].v_str = "nothing";
    EXPECT_EQ(make(&evaluator), kTvmErrorFunctionNameNotFound);
    default_args(handle);
    args[BEFORE].v_str = "cache_flush";
    EXPECT_EQ(make(&evaluator), kTvmErrorFunctionCallNotImplemented);
    for (int i = 0; i < 12; i++) {
        default_args(handle);
        codes[i] = kTVMNullptr;
        EXPECT_EQ(make(&evaluator), kTvmErrorFunctionCallWrongArgType);
    }
    TVMValue result;
    int code;
    EXPECT_EQ(TVMFuncCall(maker, args, codes, 11, &result, &code),
              kTvmErrorFunctionCallNumArguments);
}

int main(void) {
    TVMModuleHandle handle;
    EXPECT_EQ(TVMInitializeRuntime(), kTvmErrorNoError);
    EXPECT_EQ(TVMModCreateFromCModule(TVMSystemLibEntryPoint(), &handle), 0);
    EXPECT_EQ(TVMFuncGetGlobal("runtime.RPCTimeEvaluator", &maker), 0);
    test_fixed_calls(handle);
    test_least_time(handle);
    test_handles(handle);
    test_failures(handle);
    test_arguments(handle);
    return failures != 0;
}
