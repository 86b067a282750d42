/* The server of MLPerf Tiny's commands on this machine: what comes on standard input is the line,
 * what it answers goes to standard output. Macros say what the model takes: WIRE, and SCORE,
 * STREAMS and FLOATS, each 0 or 1. fuzz.c has another line. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hil_fault.h"
#include "hil_guard.h"
#include "hil_mlperf.h"
#include "hil_model.h"
#include "hil_port.h"
#include "hil_rpc.h"

enum { ELEMENTS = 8 };

static uint64_t now; /* ticks; each look takes one */
static uint32_t changed_guards;

/* -- the port -------------------------------------------------------------------------------- */

#ifndef FUZZ
static bool is_over; /* the input */

size_t hil_uart_read(uint8_t *data, size_t max) {
    /* In pieces of all sizes. */
    const size_t size = fread(data, 1, 1 + now % max, stdin);
    is_over = size == 0;
    ++now;
    return size;
}

void hil_uart_write(const uint8_t *data, size_t size) { (void)fwrite(data, 1, size, stdout); }

_Noreturn void hil_port_reset(void) {
    printf("reset\n");
    exit(0);
}
#endif

uint64_t hil_ticks(void) { return now += 1000; }
uint64_t hil_ticks_align(void) { return hil_ticks(); }
uint32_t hil_ticks_hz(void) { return 1000000; }
void hil_guards_set(void) {}
uint32_t hil_guards_changed(void) { return changed_guards; }

/* -- the model: the output is the input, which the run destroys ------------------------------- */

static _Alignas(16) union {
    int8_t bytes[ELEMENTS];
    float floats[ELEMENTS];
} input, output;
static uint32_t runs;

static int32_t run(void) {
    if (input.bytes[0] == 99) {
        return -7;
    }
    if (input.bytes[0] == 96) {
        return INT32_MIN;
    }
    if (input.bytes[0] == 98) {
        const struct hil_fault fault = {.kind = HIL_FAULT_BUS, .pc = 4660};
        hil_rpc_fault(&fault);
    }
    changed_guards = input.bytes[0] == 97;
    memcpy(&output, &input, sizeof output);
    memset(&input, 0x55, sizeof input);
    ++runs;
#ifdef FUZZ
    look_at_runs();
#endif
    return 0;
}

static const int32_t shape[] = {1, ELEMENTS};
#if FLOATS
#define TYPE HIL_FLOAT32
#define NBYTES sizeof(float[ELEMENTS])
#else
#define TYPE HIL_INT8
#define NBYTES sizeof(int8_t[ELEMENTS])
#endif
static const struct hil_tensor model_input = {"x", shape, &input, NBYTES, 2, TYPE};
static const struct hil_tensor model_output = {"y", shape, &output, NBYTES, 2, TYPE};
static const struct hil_model model = {"model", &model_input, &model_output, NULL, run, 64, 0, 1,
                                       1};
const struct hil_model *const hil_models[] = {&model};
const uint8_t hil_model_count = 1;

/* -- what the line sends --------------------------------------------------------------------- */

#define WIRE_BYTES (WIRE == HIL_MLPERF_FLOAT32 ? sizeof(float[ELEMENTS]) : NBYTES)
static _Alignas(4) uint8_t buffer[WIRE == 2 ? 4 * ELEMENTS : ELEMENTS];
static int8_t quantized[ELEMENTS];
static uint32_t detections[3];

const struct hil_mlperf hil_mlperf = {
    .model = "kws01",
    .name = "this machine",
    .profile = "profile of the firmware",
    .buffer = buffer,
    .quantized = WIRE == HIL_MLPERF_FLOAT32 && !FLOATS ? quantized : NULL,
    .detections = STREAMS ? detections : NULL,
    .buffer_bytes = WIRE_BYTES,
    .detections_max = sizeof detections / sizeof detections[0],
    .wire = WIRE,
    .is_score = SCORE,
    .input_scale = 0.5F,
    .output_scale = FLOATS ? 0 : 0.25F,
    .input_zero = 10,
    .output_zero = FLOATS ? 0 : 2,
};

#ifndef FUZZ
int main(void) {
    hil_rpc_init();
    while (!is_over) {
        hil_rpc_poll();
    }
    printf("runs %u\n", runs);
    return 0;
}
#endif
