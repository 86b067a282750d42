/* The C run time's platform where a model runs in another program's process: memory from one stack
 * that the program provides; a failed check ends the call and not the process. One call at a time.
 */
#include <setjmp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include <tvm/runtime/c_backend_api.h>
#include <tvm/runtime/crt/crt.h>
#include <tvm/runtime/crt/logging.h>
#include <tvm/runtime/crt/module.h>
#include <tvm/runtime/crt/platform.h>
#include <tvm/runtime/crt/stack_allocator.h>

/* Start the run time with a stack of nbytes bytes for workspace calls (NULL, 0: none). */
int32_t hilc_host_start(uint8_t *workspace, size_t nbytes);
/* Call a packed function of the library. The stack is empty when it begins. */
int32_t hilc_host_call_packed(TVMBackendPackedCFunc function, TVMValue *args, int *type_codes,
                              int num_args, TVMValue *ret_value, int *ret_code);
/* Call a function of up to four pointers, which is what an entry point of the C interface takes. */
int32_t hilc_host_call(void *function, void *const *pointers, int count);
/* Bytes that the last call allocated and did not free. */
size_t hilc_host_workspace_left(void);

static tvm_workspace_t stack;
static uint8_t *stack_memory;
static size_t stack_bytes;

static jmp_buf caller;
static bool caller_waits;

/* Begin a call: an empty stack, and no sentence of an earlier failure. */
static int32_t begin(void) {
    TVMAPISetLastError("");

    return stack_bytes == 0 ? 0 : StackMemoryManager_Init(&stack, stack_memory, stack_bytes);
}

int32_t hilc_host_start(uint8_t *workspace, size_t nbytes) {
    stack_memory = workspace;
    stack_bytes = nbytes;
    int32_t error = begin();
    if (error == 0) {
        error = TVMInitializeRuntime();
    }
    if (error == 0) {
        TVMModuleHandle handle;
        error = TVMModCreateFromCModule(TVMSystemLibEntryPoint(), &handle);
    }
    return error;
}

typedef int32_t (*function_0)(void);
typedef int32_t (*function_1)(void *);
typedef int32_t (*function_2)(void *, void *);
typedef int32_t (*function_3)(void *, void *, void *);
typedef int32_t (*function_4)(void *, void *, void *, void *);

static int32_t call_pointers(void *function, void *const *p, int count) {
    const uintptr_t address = (uintptr_t)function;
    switch (count) {
    case 0:
        return ((function_0)address)();
    case 1:
        return ((function_1)address)(p[0]);
    case 2:
        return ((function_2)address)(p[0], p[1]);
    case 3:
        return ((function_3)address)(p[0], p[1], p[2]);
    case 4:
        return ((function_4)address)(p[0], p[1], p[2], p[3]);
    default:
        return kTvmErrorFunctionCallNumArguments;
    }
}

int32_t hilc_host_call(void *function, void *const *pointers, int count) {
    if (begin() != 0) {
        return kTvmErrorPlatformNoMemory;
    }
    int32_t status = setjmp(caller);
    if (status == 0) {
        caller_waits = true;
        status = call_pointers(function, pointers, count);
    }
    caller_waits = false;
    return status;
}

int32_t hilc_host_call_packed(TVMBackendPackedCFunc function, TVMValue *args, int *type_codes,
                              int num_args, TVMValue *ret_value, int *ret_code) {
    if (begin() != 0) {
        return kTvmErrorPlatformNoMemory;
    }
    const TVMFuncRegistry *const registry = TVMSystemLibEntryPoint()->registry;
    int32_t status = setjmp(caller);
    if (status == 0) {
        caller_waits = true;
        status =
            function(args, type_codes, num_args, ret_value, ret_code, (void *)(uintptr_t)registry);
    }
    caller_waits = false;
    return status;
}

size_t hilc_host_workspace_left(void) {
    return stack_bytes == 0 ? 0 : (size_t)(stack.next_alloc - stack.workspace);
}

tvm_crt_error_t TVMPlatformInitialize(void) { return kTvmErrorNoError; }

void TVMPlatformAbort(tvm_crt_error_t code) {
    if (caller_waits) {
        longjmp(caller, code != 0 ? (int)code : (int)kTvmErrorPlatformCheckFailure);
    }
    /* An operator that was called by itself: there is nobody to return to. */
    fprintf(stderr, "a compiled model failed a check (error %#x)\n", (unsigned)code);
    abort();
}

size_t TVMPlatformFormatMessage(char *out_buf, size_t out_buf_size_bytes, const char *fmt,
                                va_list args) {
    const int length = vsnprintf(out_buf, out_buf_size_bytes, fmt, args);
    return length < 0 ? 0 : (size_t)length;
}

void TVMLogf(const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
}

tvm_crt_error_t TVMPlatformMemoryAllocate(size_t num_bytes, DLDevice dev, void **out_ptr) {
    (void)dev;
    *out_ptr = NULL;
    if (stack_bytes == 0 || num_bytes > INT32_MAX) {
        return kTvmErrorPlatformNoMemory;
    }
    return StackMemoryManager_Allocate(&stack, (int32_t)num_bytes, out_ptr);
}

tvm_crt_error_t TVMPlatformMemoryFree(void *ptr, DLDevice dev) {
    (void)dev;
    return stack_bytes == 0 ? kTvmErrorPlatformStackAllocBadFree
                            : StackMemoryManager_Free(&stack, ptr);
}
