/* What the firmware provides; platform.c.template shows how. Only the functions that linked code
 * calls are needed. */
#ifndef TVM_RUNTIME_CRT_PLATFORM_H_
#define TVM_RUNTIME_CRT_PLATFORM_H_

#include <stdarg.h>
#include <stddef.h>
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/crt/error_codes.h>

#ifdef __cplusplus
extern "C" {
#endif

/* End the program: a CHECK of crt/logging.h failed. The C run time itself returns its errors. */
void __attribute__((noreturn)) TVMPlatformAbort(tvm_crt_error_t code);

/* vsnprintf for TVMLogf; returns the number of characters. */
size_t TVMPlatformFormatMessage(char *out_buf, size_t out_buf_size_bytes, const char *fmt,
                                va_list args);

/* All memory of the run time and of workspace calls, at least 16-byte aligned. Freed in the
 * opposite order by generated code, so that StackMemoryManager suffices for it. */
tvm_crt_error_t TVMPlatformMemoryAllocate(size_t num_bytes, DLDevice dev, void **out_ptr);
tvm_crt_error_t TVMPlatformMemoryFree(void *ptr, DLDevice dev);

/* A stopwatch for runtime.RPCTimeEvaluator; kTvmErrorPlatformTimerBadState when started twice or
 * stopped before started. The run time has a weak one that is not implemented. */
tvm_crt_error_t TVMPlatformTimerStart(void);
tvm_crt_error_t TVMPlatformTimerStop(double *elapsed_time_seconds);

/* Around each measurement. The run time has weak ones that do nothing. */
tvm_crt_error_t TVMPlatformBeforeMeasurement(void);
tvm_crt_error_t TVMPlatformAfterMeasurement(void);

/* Random bytes, for inputs and not for secrets. The run time has a weak one that is not
 * implemented. */
tvm_crt_error_t TVMPlatformGenerateRandom(uint8_t *buffer, size_t num_bytes);

/* Set the above up. The firmware calls it first. */
tvm_crt_error_t TVMPlatformInitialize(void);

#ifdef __cplusplus
}
#endif

#endif
