/* A hostile line in front of the server of MLPerf Tiny's commands, from the first byte after a
 * start, for libFuzzer. An input is what comes over the line. Whatever it was, each `%` of it gets
 * one `m-ready`, nothing is sent that is not to be printed, and a command that follows is answered
 * as it is after a start. */
#include <setjmp.h>

static void look_at_runs(void);

#define FUZZ 1
#include "device.c"
#include "fuzz.h"

/* Inferences of an input after which the line is cut off: a command may ask for 2^32. */
enum { MOST_RUNS = 300 };

static const uint8_t *line;
static size_t line_size;
static size_t line_at;
static uint32_t asked;     /* commands that were read */
static char last[8];       /* the last bytes of the line that is being sent, at its end */
static uint32_t answered;  /* lines that are `m-ready`, but the first */
static size_t line_length; /* of the line that is being sent */
static char tail[256];     /* the end of what was sent */
static jmp_buf restart;

void restart_server(void); /* restarted.c */

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc;
    (void)argv;
    return 0;
}

static _Noreturn void fail(const char *what) {
    fprintf(stderr, "fuzz: %s: %.*s\n", what, (int)sizeof tail, tail);
    abort();
}

size_t hil_uart_read(uint8_t *data, size_t max) {
    size_t size = 1 + now % max;

    ++now;
    if (size > line_size - line_at) {
        size = line_size - line_at;
    }
    memcpy(data, line + line_at, size);
    for (size_t i = 0; i < size; ++i) {
        asked += data[i] == '%';
    }
    line_at += size;
    return size;
}

void hil_uart_write(const uint8_t *data, size_t size) {
    for (size_t i = 0; i < size; ++i) {
        const char c = (char)data[i];
        if ((c < ' ' || c > '~') && c != '\r' && c != '\n') {
            fail("a byte that is not to be printed");
        }
        memmove(tail, tail + 1, sizeof tail - 1);
        tail[sizeof tail - 1] = c;
        if (c == '\n') {
            answered += line_length == sizeof last && memcmp(last, "m-ready\r", sizeof last) == 0;
            line_length = 0;
        } else {
            memmove(last, last + 1, sizeof last - 1);
            last[sizeof last - 1] = c;
            ++line_length;
        }
    }
}

/* After each of them: those that warm up say nothing meanwhile. */
static void look_at_runs(void) {
    if (runs > MOST_RUNS) {
        longjmp(restart, 1);
    }
}

_Noreturn void hil_port_reset(void) { longjmp(restart, 1); }

static void serve(const uint8_t *data, size_t size) {
    line = data;
    line_size = size;
    line_at = 0;
    while (line_at < line_size) {
        hil_rpc_poll();
    }
}

static void expect(const char *text) {
    const size_t size = strlen(text);

    if (memcmp(tail + sizeof tail - size, text, size) != 0) {
        fail("another answer than after a start");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char next[] = "%name%db load 1%db 2a%db print%";

    restart_server();
    now = 0;
    runs = asked = answered = 0;
    line_length = 0;
    memset(input.bytes, 0, sizeof input);
    memset(buffer, 0, sizeof buffer);
    if (setjmp(restart) != 0) {
        return 0;
    }
    hil_rpc_init();
    answered = 0;
    serve(data, size);
    serve((const uint8_t *)next, sizeof next - 1);
    if (asked != answered) {
        fail("as many answers as commands");
    }
    expect("m-ready\r\nm-name-dut-[this machine]\r\nm-ready\r\nm-[Expecting 1 bytes]\r\nm-ready\r\n"
           "m-load-done\r\nm-ready\r\nm-buffer-2a\r\nm-ready\r\n");
    return 0;
}
