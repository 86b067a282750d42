/* A port and three models for testing the link: the server is the real one, its serial line is the
 * pseudo-terminal whose master is standard input, and the models make every run count. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "hil_fault.h"
#include "hil_model.h"
#include "hil_port.h"
#include "hil_rpc.h"
#include "hil_stack.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static char **arguments;

void hil_port_init(void) { (void)fcntl(STDIN_FILENO, F_SETFL, O_NONBLOCK); }

size_t hil_uart_read(uint8_t *data, size_t max) {
    const ssize_t size = read(STDIN_FILENO, data, max);
    return size > 0 ? (size_t)size : 0;
}

void hil_uart_wait(void) {
    struct pollfd line = {.fd = STDIN_FILENO, .events = POLLIN};
    (void)poll(&line, 1, 1000);
    if (getppid() == 1) {
        exit(0); /* the test is gone */
    }
}

void hil_uart_write(const uint8_t *data, size_t size) {
    while (size > 0) {
        const ssize_t written = write(STDIN_FILENO, data, size);
        if (written < 0 && errno != EAGAIN && errno != EINTR) {
            exit(1);
        }
        if (written > 0) {
            data += written;
            size -= (size_t)written;
        }
    }
}

uint64_t hil_ticks(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

uint64_t hil_ticks_align(void) { return hil_ticks(); }

uint32_t hil_ticks_hz(void) { return HIL_CLOCK_HZ; }

uint32_t hil_stack_bytes(void) { return 4096; }

uint32_t hil_stack_peak_bytes(void) { return 1234; }

void hil_guards_set(void) {}

uint32_t hil_guards_changed(void) { return 0; }

_Noreturn void hil_port_reset(void) {
    execv("/proc/self/exe", arguments);
    exit(1);
}

/* Model 0, "adder": sum = a + b, and how often it ran; b is destroyed by the run. */
static int32_t a[4];
static int32_t b[4];
static int32_t sum[4];
static int32_t runs;

static int32_t add(void) {
    ++runs;
    for (size_t i = 0; i < COUNT(sum); ++i) {
        sum[i] = a[i] + b[i];
        b[i] = -1;
    }
    return 0;
}

static int32_t double_sum(void) {
    for (size_t i = 0; i < COUNT(sum); ++i) {
        sum[i] *= 2;
    }
    return 0;
}

static int32_t run_adder(void) { return add() != 0 || double_sum() != 0; }

static const int32_t shape_4[] = {1, 4};
static const int32_t shape_1[] = {1};
static const struct hil_tensor adder_inputs[] = {
    {"a", shape_4, a, sizeof(a), 2, HIL_INT32},
    {"b", shape_4, b, sizeof(b), 2, HIL_INT32},
};
static const struct hil_tensor adder_outputs[] = {
    {"sum", shape_4, sum, sizeof(sum), 2, HIL_INT32},
    {"runs", shape_1, &runs, sizeof(runs), 1, HIL_INT32},
};
static const struct hil_layer adder_layers[] = {
    {"add", adder_outputs, add, 2},
    {"double", adder_outputs, double_sum, 1},
};

/* Model 1, "copier": large tensors, and a name that fills more than a small frame. */
static uint8_t copied_from[100 * 1000];
static uint8_t copied_to[100 * 1000];

static int32_t copy(void) {
    memcpy(copied_to, copied_from, sizeof(copied_to));
    return 0;
}

#define TWENTY "twenty characters...."
#define LONG_NAME TWENTY TWENTY TWENTY TWENTY TWENTY TWENTY TWENTY TWENTY TWENTY TWENTY "."
static const int32_t shape_large[] = {100, 1000};
static const struct hil_tensor copier_input = {LONG_NAME,           shape_large, copied_from,
                                               sizeof(copied_from), 2,           HIL_UINT8};
static const struct hil_tensor copier_output = {"copy", shape_large, copied_to, sizeof(copied_to),
                                                2,      HIL_UINT8};

/* Model 2, "actor": does what its input says. */
enum { ACT_FAIL = 1, ACT_SLEEP = 2, ACT_LOG = 3, ACT_FAULT = 4, ACT_NOISE = 5, ACT_EXIT = 6 };
static int32_t action[2];

static int32_t act(void) {
    const struct timespec pause = {.tv_sec = action[1] / 1000,
                                   .tv_nsec = action[1] % 1000 * 1000000L};
    struct hil_fault fault = {.kind = HIL_FAULT_BUS, .pc = 0x1234, .lr = 0x5679, .sp = 0x20000ff0};

    ++runs;
    switch (action[0]) {
    case ACT_FAIL:
        return -7;
    case ACT_SLEEP:
        nanosleep(&pause, NULL);
        break;
    case ACT_LOG:
        hil_log("short");
        hil_log(LONG_NAME);
        hil_log("");
        break;
    case ACT_FAULT:
        fault.cfsr = 1U << 15 | 1U << 9;
        fault.bfar = 0xE0000000;
        hil_rpc_fault(&fault);
        for (;;) {
            hil_rpc_poll();
            hil_uart_wait();
        }
    case ACT_NOISE:
        hil_uart_write((const uint8_t *)"printf was here\r\n\0\0more", 23);
        break;
    case ACT_EXIT:
        exit(3);
    default:
        break;
    }
    return 0;
}

static const int32_t shape_2[] = {2};
static const struct hil_tensor actor_input = {"action",       shape_2, action,
                                              sizeof(action), 1,       HIL_INT32};
static const struct hil_tensor actor_output = {"runs", shape_1, &runs, sizeof(runs), 1, HIL_INT32};
static const struct hil_layer actor_layers[] = {
    {"act", &actor_output, act, 1},    {"act again", &actor_output, act, 1},
    {"act 2", &actor_output, act, 1},  {"act 3", &actor_output, act, 1},
    {"act 4", &actor_output, act, 1},  {"act 5", &actor_output, act, 1},
    {"act 6", &actor_output, act, 1},  {"act 7", &actor_output, act, 1},
    {"act 8", &actor_output, act, 1},  {"act 9", &actor_output, act, 1},
    {"act 10", &actor_output, act, 1}, {"act 11", &actor_output, act, 1},
    {"act 12", &actor_output, act, 1}, {"act 13", &actor_output, act, 1},
    {"act 14", &actor_output, act, 1}, {"act 15", &actor_output, act, 1},
    {"act 16", &actor_output, act, 1}, {"act 17", &actor_output, act, 1},
};

static const struct hil_model adder = {
    "adder", adder_inputs, adder_outputs, adder_layers, run_adder, 64, COUNT(adder_layers), 2, 2};
static const struct hil_model copier = {
    "copier", &copier_input, &copier_output, NULL, copy, 200 * 1000, 0, 1, 1};
static const struct hil_model actor = {
    "actor", &actor_input, &actor_output, actor_layers, act, 8, COUNT(actor_layers), 1, 1};

const struct hil_model *const hil_models[] = {&adder, &copier, &actor};
const uint8_t hil_model_count = COUNT(hil_models);

int main(int argc, char **argv) {
    (void)argc;
    arguments = argv;
    hil_port_init();
    hil_rpc_init();
    for (;;) {
        hil_rpc_poll();
        hil_uart_wait();
    }
}
