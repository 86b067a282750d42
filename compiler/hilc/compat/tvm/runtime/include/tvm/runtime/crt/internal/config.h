/* Limits of the C run time. A file crt_config.h on the include path, or -D, overrides them. */
#ifndef TVM_RUNTIME_CRT_INTERNAL_CONFIG_H_
#define TVM_RUNTIME_CRT_INTERNAL_CONFIG_H_

#ifdef __has_include
#if __has_include("crt_config.h")
#include "crt_config.h"
#endif
#endif

/* Axes of a tensor. */
#ifndef TVM_CRT_MAX_NDIM
#define TVM_CRT_MAX_NDIM 6
#endif

/* Arguments of a call through TVMPackedFunc or the executor. */
#ifndef TVM_CRT_MAX_ARGS
#define TVM_CRT_MAX_ARGS 10
#endif

/* Memory for names and addresses of global functions. */
#ifndef TVM_CRT_GLOBAL_FUNC_REGISTRY_SIZE_BYTES
#define TVM_CRT_GLOBAL_FUNC_REGISTRY_SIZE_BYTES 512
#endif

/* Modules that have a handle at a time; the system library is one. */
#ifndef TVM_CRT_MAX_REGISTERED_MODULES
#define TVM_CRT_MAX_REGISTERED_MODULES 2
#endif

/* What tvm.rpc.server.GetCRTMaxPacketSize reports, and 11 bytes of framing. */
#ifndef TVM_CRT_MAX_PACKET_SIZE_BYTES
#define TVM_CRT_MAX_PACKET_SIZE_BYTES 2048
#endif

/* Characters of a function's name that the executor composes. */
#ifndef TVM_CRT_MAX_STRLEN_FUNCTION_NAME
#define TVM_CRT_MAX_STRLEN_FUNCTION_NAME 120
#endif

/* Bytes for the sentence of TVMGetLastError, its final zero included. */
#ifndef TVM_CRT_MAX_ERROR_BYTES
#define TVM_CRT_MAX_ERROR_BYTES 128
#endif

/* Whether there is a runtime.RPCTimeEvaluator: 4 KB where numbers are doubles in software. */
#ifndef TVM_CRT_TIME_EVALUATOR
#define TVM_CRT_TIME_EVALUATOR 1
#endif

/* What crt/logging.h lets through. */
#ifndef TVM_CRT_LOG_LEVEL
#define TVM_CRT_LOG_LEVEL TVM_CRT_LOG_LEVEL_ERROR
#endif

/* TVM's template of crt_config.h misnames this switch. */
#if defined(TVM_CRT_STACK_ALLOCATOR_ENABLE_FIFO_CHECK) &&                                          \
    !defined(TVM_CRT_STACK_ALLOCATOR_ENABLE_LIFO_CHECK)
#define TVM_CRT_STACK_ALLOCATOR_ENABLE_LIFO_CHECK
#endif

#endif
