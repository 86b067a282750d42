/* Checks of the C tests: each that fails prints a line, and main returns whether any did. */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <string.h>
#include <tvm/runtime/c_runtime_api.h>

static int failures;

#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            printf("%s:%d: %s\n", __FILE__, __LINE__, #condition);                                 \
            failures++;                                                                            \
        }                                                                                          \
    } while (0)

#define EXPECT_EQ(actual, expected)                                                                \
    do {                                                                                           \
        const long long is = (long long)(actual), should = (long long)(expected);                  \
        if (is != should) {                                                                        \
            printf("%s:%d: %s is 0x%llx, not 0x%llx\n", __FILE__, __LINE__, #actual,               \
                   (unsigned long long)is, (unsigned long long)should);                            \
            failures++;                                                                            \
        }                                                                                          \
    } while (0)

/* An error, and what the last error says of it. */
#define EXPECT_ERROR(call, code, words)                                                            \
    do {                                                                                           \
        TVMAPISetLastError("");                                                                    \
        EXPECT_EQ(call, code);                                                                     \
        if (strstr(TVMGetLastError(), words) == NULL) {                                            \
            printf("%s:%d: %s says '%s', not '%s'\n", __FILE__, __LINE__, #call,                   \
                   TVMGetLastError(), words);                                                      \
            failures++;                                                                            \
        }                                                                                          \
    } while (0)

#endif
