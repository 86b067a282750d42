/* TVM's platform functions on the board's ports. */
#include "tvm/runtime/crt/platform.h"

#include <stdbool.h>
#include <stdint.h>

#include "hil_crt.h"
#include "hil_fault.h"
#include "hil_port.h"
#include "hil_rpc.h"
#include "tvm/runtime/crt/crt.h"
#include "tvm/runtime/crt/module.h"
#include "tvm/runtime/crt/stack_allocator.h"

static tvm_workspace_t arena;

static uint64_t timer_start;
static bool timer_runs;

/* A generator's state; never 0. It starts the same every time, so that runs can be repeated. */
static uint32_t random_state = 0x2545F491U;

tvm_crt_error_t TVMPlatformInitialize(void) {
    /* The arena is empty whenever no model runs. */
    return StackMemoryManager_Init(&arena, hil_crt_workspace, hil_crt_workspace_bytes);
}

void hil_crt_init(void) {
    TVMModuleHandle system_lib;

    HIL_ASSERT(TVMInitializeRuntime() == kTvmErrorNoError);
    HIL_ASSERT(TVMModCreateFromCModule(TVMSystemLibEntryPoint(), &system_lib) == 0);
}

void TVMPlatformAbort(tvm_crt_error_t code) {
    static const char digits[] = "0123456789abcdef";
    char text[] = "TVM's run time stopped with error 0x00000000";

    for (size_t i = 0; i < 8; ++i) {
        text[sizeof text - 2 - i] = digits[(uint32_t)code >> (4 * i) & 15U];
    }
    hil_log(text);
    hil_assert_failed();
}

tvm_crt_error_t TVMPlatformMemoryAllocate(size_t num_bytes, DLDevice dev, void **out_ptr) {
    (void)dev;
    if (arena.workspace == NULL) {
        const tvm_crt_error_t error = TVMPlatformInitialize();
        if (error != kTvmErrorNoError) {
            return error;
        }
    }
    *out_ptr = NULL;
    if (num_bytes > INT32_MAX) {
        return kTvmErrorPlatformNoMemory;
    }
    return StackMemoryManager_Allocate(&arena, (int32_t)num_bytes, out_ptr);
}

tvm_crt_error_t TVMPlatformMemoryFree(void *ptr, DLDevice dev) {
    (void)dev;
    return StackMemoryManager_Free(&arena, ptr);
}

tvm_crt_error_t TVMPlatformTimerStart(void) {
    if (timer_runs) {
        return kTvmErrorPlatformTimerBadState;
    }
    timer_runs = true;
    timer_start = hil_ticks_align();
    return kTvmErrorNoError;
}

tvm_crt_error_t TVMPlatformTimerStop(double *elapsed_time_seconds) {
    const uint64_t ticks = hil_ticks() - timer_start;

    if (!timer_runs) {
        return kTvmErrorPlatformTimerBadState;
    }
    timer_runs = false;
    *elapsed_time_seconds = (double)ticks / hil_ticks_hz();
    return kTvmErrorNoError;
}

tvm_crt_error_t TVMPlatformGenerateRandom(uint8_t *buffer, size_t num_bytes) {
    for (size_t i = 0; i < num_bytes; ++i) {
        /* Marsaglia's xorshift. */
        random_state ^= random_state << 13;
        random_state ^= random_state >> 17;
        random_state ^= random_state << 5;
        buffer[i] = (uint8_t)(random_state >> 24);
    }
    return kTvmErrorNoError;
}
