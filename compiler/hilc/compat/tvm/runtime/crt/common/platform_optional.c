/* Platform functions that firmware may leave out. Weak: the firmware's own take their place. */
#include <tvm/runtime/crt/platform.h>

TVM_WEAK tvm_crt_error_t TVMPlatformBeforeMeasurement(void) { return kTvmErrorNoError; }

TVM_WEAK tvm_crt_error_t TVMPlatformAfterMeasurement(void) { return kTvmErrorNoError; }

TVM_WEAK tvm_crt_error_t TVMPlatformTimerStart(void) { return kTvmErrorFunctionCallNotImplemented; }

TVM_WEAK tvm_crt_error_t TVMPlatformTimerStop(double *elapsed_time_seconds) {
    *elapsed_time_seconds = 0;
    return kTvmErrorFunctionCallNotImplemented;
}

TVM_WEAK tvm_crt_error_t TVMPlatformGenerateRandom(uint8_t *buffer, size_t num_bytes) {
    (void)buffer;
    (void)num_bytes;
    return kTvmErrorFunctionCallNotImplemented;
}
