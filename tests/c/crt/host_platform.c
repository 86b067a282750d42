#include "host_platform.h"

#include <stdlib.h>
#include <tvm/runtime/crt/platform.h>

int live_blocks;
int fail_after = -1;
int out_of_order;
double tick_s;
int timer_starts, timer_running;
int timed_calls;

static int calls_at_start;
static void *blocks[64];

tvm_crt_error_t TVMPlatformMemoryAllocate(size_t num_bytes, DLDevice dev, void **out_ptr) {
    *out_ptr = NULL;
    if (dev.device_type != kDLCPU || dev.device_id != 0) {
        return kTvmErrorFunctionCallInvalidArg;
    }
    if (fail_after == 0 || live_blocks == 64) {
        return kTvmErrorPlatformNoMemory;
    }
    fail_after -= fail_after > 0 ? 1 : 0;
    *out_ptr = malloc(num_bytes);
    if (*out_ptr == NULL) {
        return kTvmErrorPlatformNoMemory;
    }
    blocks[live_blocks++] = *out_ptr;
    return kTvmErrorNoError;
}

tvm_crt_error_t TVMPlatformMemoryFree(void *ptr, DLDevice dev) {
    (void)dev;
    for (int i = live_blocks; i-- > 0;) {
        if (blocks[i] == ptr) {
            out_of_order += i != live_blocks - 1 ? 1 : 0;
            for (int j = i; j + 1 < live_blocks; j++) {
                blocks[j] = blocks[j + 1];
            }
            live_blocks--;
            free(ptr);
            return kTvmErrorNoError;
        }
    }
    return kTvmErrorPlatformStackAllocBadFree;
}

tvm_crt_error_t TVMPlatformTimerStart(void) {
    if (timer_running) {
        return kTvmErrorPlatformTimerBadState;
    }
    timer_running = 1;
    timer_starts++;
    calls_at_start = timed_calls;
    return kTvmErrorNoError;
}

tvm_crt_error_t TVMPlatformTimerStop(double *elapsed_time_seconds) {
    if (!timer_running) {
        return kTvmErrorPlatformTimerBadState;
    }
    timer_running = 0;
    *elapsed_time_seconds = tick_s * (timed_calls - calls_at_start);
    return kTvmErrorNoError;
}

tvm_crt_error_t TVMPlatformGenerateRandom(uint8_t *buffer, size_t num_bytes) {
    for (size_t i = 0; i < num_bytes; i++) {
        buffer[i] = (uint8_t)(0x5a + i);
    }
    return kTvmErrorNoError;
}
