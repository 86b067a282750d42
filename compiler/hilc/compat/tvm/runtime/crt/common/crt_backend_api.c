/* What generated code calls, and the sentence about the last failure. Links without the rest of the
 * run time: it needs nothing but the platform's memory. */
#include "internal.h"

#include <string.h>
#include <tvm/runtime/c_backend_api.h>
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/crt/internal/config.h>
#include <tvm/runtime/crt/platform.h>

static char last_error[TVM_CRT_MAX_ERROR_BYTES];

static size_t append(size_t length, const char *text) {
    while (*text != '\0' && length < sizeof last_error - 1) {
        last_error[length++] = *text++;
    }
    last_error[length] = '\0';
    return length;
}

void TVMAPISetLastError(const char *msg) { append(0, msg != NULL ? msg : ""); }

const char *TVMGetLastError(void) { return last_error; }

int hil_crt_fail(tvm_crt_error_t code, const char *sentence, const char *about) {
    size_t length = append(0, sentence);
    if (about != NULL) {
        length = append(length, ": ");
        append(length, about);
    }
    return (int)code;
}

static DLDevice make_device(int device_type, int device_id) {
    DLDevice device;
    memset(&device, 0, sizeof device); /* a platform in C++ reads all bytes of device_type */
    device.device_type = (DLDeviceType)device_type;
    device.device_id = device_id;
    return device;
}

void *TVMBackendAllocWorkspace(int device_type, int device_id, uint64_t nbytes, int dtype_code_hint,
                               int dtype_bits_hint) {
    (void)dtype_code_hint;
    (void)dtype_bits_hint;
    void *block = NULL;
    if (nbytes > SIZE_MAX ||
        TVMPlatformMemoryAllocate((size_t)nbytes, make_device(device_type, device_id), &block) !=
            kTvmErrorNoError) {
        hil_crt_fail(kTvmErrorPlatformNoMemory, "no memory for a workspace", NULL);
        return NULL;
    }
    return block;
}

int TVMBackendFreeWorkspace(int device_type, int device_id, void *ptr) {
    return (int)TVMPlatformMemoryFree(ptr, make_device(device_type, device_id));
}

int TVMBackendRegisterSystemLibSymbol(const char *name, void *ptr) {
    (void)ptr;
    return hil_crt_fail(kTvmErrorFunctionCallNotImplemented,
                        "symbols are found through TVMSystemLibEntryPoint alone", name);
}

int TVMBackendRegisterEnvCAPI(const char *name, void *ptr) {
    (void)ptr;
    return hil_crt_fail(kTvmErrorFunctionCallNotImplemented, "functions are found by linking alone",
                        name);
}

int TVMBackendParallelLaunch(FTVMParallelLambda flambda, void *cdata, int num_task) {
    if (flambda == NULL || num_task < 0) {
        return hil_crt_fail(kTvmErrorFunctionCallInvalidArg, "parallel tasks: none given", NULL);
    }
    TVMParallelGroupEnv group = {NULL, num_task > 0 ? num_task : 1};
    for (int task = 0; task < group.num_task; task++) {
        const int err = flambda(task, &group, cdata);
        if (err != 0) {
            return err;
        }
    }
    return 0;
}

int TVMBackendParallelBarrier(int task_id, TVMParallelGroupEnv *penv) {
    if (penv == NULL || task_id < 0 || task_id >= penv->num_task) {
        return hil_crt_fail(kTvmErrorFunctionCallInvalidArg, "barrier: no such task", NULL);
    }
    if (penv->num_task > 1) {
        /* The other tasks have ended or not begun: their results cannot be there. */
        return hil_crt_fail(kTvmErrorFunctionCallNotImplemented,
                            "a barrier needs as many cores as tasks", NULL);
    }
    return 0;
}

int TVMBackendRunOnce(void **handle, int (*f)(void *), void *cdata, int nbytes) {
    (void)nbytes; /* cdata need not be copied: f runs now */
    if (handle == NULL || f == NULL) {
        return hil_crt_fail(kTvmErrorFunctionCallInvalidArg, "run once: nothing given", NULL);
    }
    if (*handle != NULL) {
        return 0;
    }
    const int err = f(cdata);
    if (err == 0) {
        *handle = handle; /* any value but NULL */
    }
    return err;
}
