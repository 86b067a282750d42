/* runtime.RPCTimeEvaluator: how long a function takes, by the platform's stopwatch. */
#include "internal.h"

#include <string.h>
#include <tvm/runtime/crt/platform.h>

/* The last evaluator that was made; an earlier one's handle has an earlier number. */
static struct {
    unsigned number;
    TVMFunctionHandle function;
    int64_t calls_per_repeat;
    int64_t repeats;
    double least_s; /* a repeat measures at least so long, by more calls */
    int64_t zero_limit;
} state;

/* Calls measured together for mean seconds of one; more and more until they take least_s. */
static int measure(TVMValue *args, int *type_codes, int num_args, double *mean_s) {
    int64_t calls = state.calls_per_repeat;
    int64_t zeros = 0;
    double elapsed_s = 0;
    for (;;) {
        TVMValue result;
        int code = 0;
        int err = (int)TVMPlatformBeforeMeasurement();
        err = err != 0 ? err : (int)TVMPlatformTimerStart();
        if (err != 0) {
            return err;
        }
        for (int64_t i = 0; i < calls && err == 0; i++) {
            err = TVMFuncCall(state.function, args, type_codes, num_args, &result, &code);
        }
        /* Stopped after a failure too, so that it can be started again. */
        const int stopped = (int)TVMPlatformTimerStop(&elapsed_s);
        err = err != 0 ? err : stopped;
        const int after = (int)TVMPlatformAfterMeasurement();
        err = err != 0 ? err : after;
        if (err != 0) {
            return err;
        }
        zeros += elapsed_s <= 0 ? 1 : 0;
        if (elapsed_s >= state.least_s || zeros >= state.zero_limit) {
            *mean_s = elapsed_s / (double)calls;
            return 0;
        }
        /* What should suffice by this measurement, at least half as many again. */
        const double enough = elapsed_s > 0 ? (double)calls * (state.least_s / elapsed_s) + 1 : 0;
        const double more = (double)calls * 1.5 + 1;
        const double next = enough > more ? enough : more;
        calls = next < 1e9 ? (int64_t)next : 1000000000;
    }
}

/* Seconds of each repeat as bytes of doubles; the caller frees them with TVMByteArrayFree. */
static int evaluate(unsigned number, TVMValue *args, int *type_codes, int num_args,
                    TVMValue *ret_val, int *ret_tcode) {
    if (number != state.number) {
        return hil_crt_fail(kTvmErrorTimeEvaluatorBadHandle, "a newer time evaluator was made",
                            NULL);
    }
    DLDevice dev;
    memset(&dev, 0, sizeof dev);
    dev.device_type = kDLCPU;
    const size_t bytes = (size_t)state.repeats * sizeof(double);
    void *memory = NULL;
    void *data = NULL;
    int err = (int)TVMPlatformMemoryAllocate(sizeof(TVMByteArray), dev, &memory);
    if (err != 0) {
        return hil_crt_fail((tvm_crt_error_t)err, "the platform has no memory for times", NULL);
    }
    err = (int)TVMPlatformMemoryAllocate(bytes, dev, &data);
    if (err != 0) {
        hil_crt_fail((tvm_crt_error_t)err, "the platform has no memory for times", NULL);
        (void)TVMPlatformMemoryFree(memory, dev);
        return err;
    }
    TVMByteArray *const times = (TVMByteArray *)memory;
    times->data = (const char *)data;
    times->size = bytes;
    /* The first call may be slower than the others: it fills caches. */
    err = TVMFuncCall(state.function, args, type_codes, num_args, ret_val, ret_tcode);
    for (int64_t i = 0; i < state.repeats && err == 0; i++) {
        err = measure(args, type_codes, num_args, &((double *)data)[i]);
    }
    ret_val->v_handle = NULL;
    *ret_tcode = kTVMNullptr;
    if (err != 0) {
        (void)TVMByteArrayFree(times);
        return err;
    }
    ret_val->v_handle = times;
    *ret_tcode = kTVMBytes;
    return 0;
}

/* (module, function's name, device type, device id, calls a repeat, repeats, least ms of a repeat,
 * limit of measurements of no time, pause ms, repeats before a pause, cache to flush, function to
 * call before) -> a function that measures. A microcontroller has no pause, no cache to flush and
 * nothing to call before. */
int hil_crt_time_evaluator(TVMValue *args, int *type_codes, int num_args, TVMValue *ret_val,
                           int *ret_tcode, void *resource_handle) {
    (void)resource_handle;
    enum {
        MODULE,
        NAME,
        DEVICE,
        ID,
        CALLS,
        REPEATS,
        LEAST_MS,
        ZEROS,
        PAUSE_MS,
        CACHE = 10,
        BEFORE
    };
    if (num_args < BEFORE + 1) {
        return hil_crt_fail(kTvmErrorFunctionCallNumArguments, "wants twelve arguments", NULL);
    }
    int good = type_codes[MODULE] == kTVMModuleHandle && type_codes[NAME] == kTVMStr &&
               type_codes[BEFORE] == kTVMStr;
    for (int i = DEVICE; i <= CACHE; i++) {
        good = good && type_codes[i] == kTVMArgInt;
    }
    if (!good) {
        return hil_crt_fail(kTvmErrorFunctionCallWrongArgType, "wants module, name, numbers, name",
                            NULL);
    }
    const int64_t repeats = args[REPEATS].v_int64;
    if (args[CALLS].v_int64 <= 0 || repeats <= 0 ||
        (uint64_t)repeats > SIZE_MAX / 2 / sizeof(double) || args[LEAST_MS].v_int64 < 0) {
        return hil_crt_fail(kTvmErrorFunctionCallInvalidArg, "nothing to measure", NULL);
    }
    if (args[DEVICE].v_int64 != kDLCPU || args[ID].v_int64 != 0) {
        return hil_crt_fail(kTvmErrorExecutorModuleBadContext, "the only device is kDLCPU 0", NULL);
    }
    if (args[PAUSE_MS].v_int64 != 0 || args[CACHE].v_int64 > 0 || *args[BEFORE].v_str != '\0') {
        return hil_crt_fail(kTvmErrorFunctionCallNotImplemented,
                            "no pause, no cache to flush, nothing to call before", NULL);
    }
    const int err = TVMModGetFunction(args[MODULE].v_handle, args[NAME].v_str, 0, &state.function);
    if (err != 0) {
        return err;
    }
    state.number = (state.number + 1) & 0x7fffU;
    state.calls_per_repeat = args[CALLS].v_int64;
    state.repeats = repeats;
    state.least_s = (double)args[LEAST_MS].v_int64 / 1000;
    state.zero_limit = args[ZEROS].v_int64;
    hil_crt_set_evaluator(evaluate);
    ret_val->v_handle = hil_crt_function_handle(HIL_CRT_TIME_EVALUATOR_MODULE, state.number);
    *ret_tcode = kTVMPackedFuncHandle;
    return 0;
}
