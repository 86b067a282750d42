/* runtime.RPCTimeEvaluator: how long a function takes, by the platform's stopwatch. */
#include "internal.h"

#include <string.h>
#include <tvm/runtime/crt/platform.h>

/* The last evaluator that was made; an earlier one's handle has an earlier number. */
static struct {
    unsigned number;            /* of the evaluator, 15 bits; 0: none was made */
    TVMFunctionHandle function; /* what it measures */
    int64_t calls_per_repeat;   /* to begin with, at least 1 */
    int64_t repeats;            /* at least 1; a double each */
    double least_s;             /* a repeat measures at least so long, by more calls; 0: any time */
    int64_t zero_limit;         /* measurements of no time after which a repeat gives up */
} state;

/* Seconds of `calls` calls, measured together. */
static int measure_calls(TVMValue *args, int *type_codes, int num_args, int64_t calls,
                         double *elapsed_s) {
    int err = (int)TVMPlatformBeforeMeasurement();
    err = err != 0 ? err : (int)TVMPlatformTimerStart();
    if (err != 0) {
        return err;
    }
    TVMValue result;
    int code = 0;
    for (int64_t i = 0; i < calls && err == 0; i++) {
        err = TVMFuncCall(state.function, args, type_codes, num_args, &result, &code);
    }
    /* Stopped after a failure too, so that it can be started again. */
    const int stopped = (int)TVMPlatformTimerStop(elapsed_s);
    err = err != 0 ? err : stopped;
    const int after = (int)TVMPlatformAfterMeasurement();
    return err != 0 ? err : after;
}

/* How many calls should take least_s, by a measurement of `calls`: at least half as many again, at
 * most 10^9. */
static int64_t more_calls(int64_t calls, double elapsed_s) {
    const double enough = elapsed_s > 0 ? (double)calls * (state.least_s / elapsed_s) + 1 : 0;
    const double more = (double)calls * 1.5 + 1;
    const double next = enough > more ? enough : more;
    return next < 1e9 ? (int64_t)next : 1000000000;
}

/* Mean seconds of a call, from more and more calls until they take least_s together. */
static int measure(TVMValue *args, int *type_codes, int num_args, double *mean_s) {
    int64_t calls = state.calls_per_repeat;
    int64_t zeros = 0;
    for (;;) {
        double elapsed_s = 0;
        const int err = measure_calls(args, type_codes, num_args, calls, &elapsed_s);
        if (err != 0) {
            return err;
        }
        zeros += elapsed_s <= 0 ? 1 : 0;
        if (elapsed_s >= state.least_s || zeros >= state.zero_limit) {
            *mean_s = elapsed_s / (double)calls;
            return 0;
        }
        calls = more_calls(calls, elapsed_s);
    }
}

/* Allocates bytes for all repeats, for TVMByteArrayFree. */
static int new_times(TVMByteArray **times) {
    DLDevice dev;
    memset(&dev, 0, sizeof dev);
    dev.device_type = kDLCPU;
    const size_t bytes = (size_t)state.repeats * sizeof(double);
    void *memory = NULL;
    void *data = NULL;
    int err = (int)TVMPlatformMemoryAllocate(sizeof(TVMByteArray), dev, &memory);
    if (err == 0) {
        err = (int)TVMPlatformMemoryAllocate(bytes, dev, &data);
        if (err != 0) {
            (void)TVMPlatformMemoryFree(memory, dev);
        }
    }
    if (err != 0) {
        return hil_crt_fail((tvm_crt_error_t)err, "the platform has no memory for times", NULL);
    }
    *times = (TVMByteArray *)memory;
    (*times)->data = (const char *)data;
    (*times)->size = bytes;
    return 0;
}

/* Seconds of each repeat as bytes of doubles; the caller frees them with TVMByteArrayFree. */
static int evaluate(unsigned number, TVMValue *args, int *type_codes, int num_args,
                    TVMValue *ret_val, int *ret_tcode) {
    if (number != state.number) {
        return hil_crt_fail(kTvmErrorTimeEvaluatorBadHandle, "a newer time evaluator was made",
                            NULL);
    }
    TVMByteArray *times = NULL;
    int err = new_times(&times);
    if (err != 0) {
        return err;
    }
    double *const seconds = (double *)(uintptr_t)times->data;
    /* The first call may be slower than the others: it fills caches. */
    err = TVMFuncCall(state.function, args, type_codes, num_args, ret_val, ret_tcode);
    for (int64_t i = 0; i < state.repeats && err == 0; i++) {
        err = measure(args, type_codes, num_args, &seconds[i]);
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

/* Arguments of runtime.RPCTimeEvaluator. A microcontroller has no pause, no cache to flush and
 * nothing to call before. */
enum {
    MODULE,
    NAME, /* of the function */
    DEVICE,
    ID,
    CALLS,      /* a repeat */
    REPEATS,    /* at least 1 */
    LEAST_MS,   /* of a repeat */
    ZEROS,      /* limit of measurements of no time */
    PAUSE_MS,   /* 0 */
    CACHE = 10, /* bytes to flush: 0 or less; 9 are the repeats before a pause */
    BEFORE,     /* name of a function: empty */
    ARGUMENTS
};

static int check_types(const int *type_codes, int num_args) {
    if (num_args < ARGUMENTS) {
        return hil_crt_fail(kTvmErrorFunctionCallNumArguments, "wants twelve arguments", NULL);
    }
    int good = type_codes[MODULE] == kTVMModuleHandle && type_codes[NAME] == kTVMStr &&
               type_codes[BEFORE] == kTVMStr;
    for (int i = DEVICE; i <= CACHE; i++) {
        good = good && type_codes[i] == kTVMArgInt;
    }
    return good ? 0
                : hil_crt_fail(kTvmErrorFunctionCallWrongArgType,
                               "wants module, name, numbers, name", NULL);
}

static int check_values(const TVMValue *args) {
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
    return 0;
}

/* (the arguments above) -> a function that measures. */
int hil_crt_time_evaluator(TVMValue *args, int *type_codes, int num_args, TVMValue *ret_val,
                           int *ret_tcode, void *resource_handle) {
    (void)resource_handle;
    int err = check_types(type_codes, num_args);
    err = err != 0 ? err : check_values(args);
    err = err != 0 ? err
                   : TVMModGetFunction(args[MODULE].v_handle, args[NAME].v_str, 0, &state.function);
    if (err != 0) {
        return err;
    }
    state.number = (state.number + 1) & 0x7fffU;
    state.calls_per_repeat = args[CALLS].v_int64;
    state.repeats = args[REPEATS].v_int64;
    state.least_s = (double)args[LEAST_MS].v_int64 / 1000;
    state.zero_limit = args[ZEROS].v_int64;
    hil_crt_set_evaluator(evaluate);
    ret_val->v_handle = hil_crt_function_handle(HIL_CRT_TIME_EVALUATOR_MODULE, state.number);
    *ret_tcode = kTVMPackedFuncHandle;
    return 0;
}
