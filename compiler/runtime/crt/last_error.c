/* The sentence about the last failure. */
#include "internal.h"

#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/crt/internal/config.h>

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
