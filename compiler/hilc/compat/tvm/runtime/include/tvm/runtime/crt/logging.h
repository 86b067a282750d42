/* Messages and checks for the firmware's own code; the C run time uses neither. */
#ifndef TVM_RUNTIME_CRT_LOGGING_H_
#define TVM_RUNTIME_CRT_LOGGING_H_

#include <tvm/runtime/crt/internal/config.h>
#include <tvm/runtime/crt/platform.h>

#define TVM_CRT_LOG_LEVEL_ERROR 0
#define TVM_CRT_LOG_LEVEL_WARN 1
#define TVM_CRT_LOG_LEVEL_INFO 2
#define TVM_CRT_LOG_LEVEL_DEBUG 3

#ifdef __cplusplus
extern "C" {
#endif

/* The firmware's, like printf. */
void __attribute__((format(printf, 1, 2))) TVMLogf(const char *fmt, ...);

/* A message where TVM_CRT_LOG_LEVEL lets its level through. */
#define LOG(level, ...)                                                                            \
    do {                                                                                           \
        if ((TVM_CRT_LOG_LEVEL) >= (level)) {                                                      \
            TVMLogf(__VA_ARGS__);                                                                  \
        }                                                                                          \
    } while (0)
#define LOG_ERROR(...) LOG(TVM_CRT_LOG_LEVEL_ERROR, __VA_ARGS__)
#define LOG_WARN(...) LOG(TVM_CRT_LOG_LEVEL_WARN, __VA_ARGS__)
#define LOG_INFO(...) LOG(TVM_CRT_LOG_LEVEL_INFO, __VA_ARGS__)
#define LOG_DEBUG(...) LOG(TVM_CRT_LOG_LEVEL_DEBUG, __VA_ARGS__)

/* A condition without which the program cannot go on. */
#ifndef CHECK
#define CHECK(x)                                                                                   \
    do {                                                                                           \
        if (!(x)) {                                                                                \
            LOG_ERROR("%s:%d: Check failed: %s\n", __FILE__, __LINE__, #x);                        \
            TVMPlatformAbort(kTvmErrorPlatformCheckFailure);                                       \
        }                                                                                          \
    } while (0)
#endif

/* The same for x op y, with a format and its arguments that say more. */
#ifndef CHECK_BINARY_OP
#define CHECK_BINARY_OP(op, x, y, ...)                                                             \
    do {                                                                                           \
        if (!((x)op(y))) {                                                                         \
            LOG_ERROR("%s:%d: Check failed: %s %s %s: ", __FILE__, __LINE__, #x, #op, #y);         \
            LOG_ERROR(__VA_ARGS__);                                                                \
            LOG_ERROR("\n");                                                                       \
            TVMPlatformAbort(kTvmErrorPlatformCheckFailure);                                       \
        }                                                                                          \
    } while (0)
#endif

#ifndef CHECK_LT
#define CHECK_LT(x, y, ...) CHECK_BINARY_OP(<, x, y, __VA_ARGS__)
#endif
#ifndef CHECK_GT
#define CHECK_GT(x, y, ...) CHECK_BINARY_OP(>, x, y, __VA_ARGS__)
#endif
#ifndef CHECK_LE
#define CHECK_LE(x, y, ...) CHECK_BINARY_OP(<=, x, y, __VA_ARGS__)
#endif
#ifndef CHECK_GE
#define CHECK_GE(x, y, ...) CHECK_BINARY_OP(>=, x, y, __VA_ARGS__)
#endif
#ifndef CHECK_EQ
#define CHECK_EQ(x, y, ...) CHECK_BINARY_OP(==, x, y, __VA_ARGS__)
#endif
#ifndef CHECK_NE
#define CHECK_NE(x, y, ...) CHECK_BINARY_OP(!=, x, y, __VA_ARGS__)
#endif

#ifdef __cplusplus
}
#endif

#endif
