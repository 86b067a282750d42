/* The server of MLPerf Tiny's commands for a device under test, in the place of that of our own
 * protocol: docs/how-to/mlperf.md lists them. One model; what it takes and gives is in a table that
 * the build makes. */
#ifndef HIL_MLPERF_H
#define HIL_MLPERF_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Characters of a command, without the `%` that ends it. */
#define HIL_MLPERF_COMMAND_MAX 80U

/* How the host sends an input. */
enum hil_mlperf_wire {
    HIL_MLPERF_AS_IT_IS = 0, /* the elements of the model's input */
    HIL_MLPERF_UINT8 = 1,    /* bytes from 0 on, from which the int8 input is 128 less */
    HIL_MLPERF_FLOAT32 = 2,  /* little-endian floats, to be quantized */
};

struct hil_mlperf {
    const char *model;         /* identifies the benchmark: kws01 and the like */
    const char *name;          /* of the device, without `]` */
    const char *profile;       /* of the firmware, without `]` */
    uint8_t *buffer;           /* one input as the host sends it, at a multiple of 4 */
    int8_t *quantized;         /* room for the input where it comes in floats; NULL: no need */
    uint32_t *detections;      /* ms since `start`, of a streaming model; NULL: it is none */
    uint32_t buffer_bytes;     /* of `buffer`: those of an input on the line */
    uint32_t detections_max;   /* elements of `detections`; later ones are not recorded */
    enum hil_mlperf_wire wire; /* what is in `buffer` */
    bool is_score; /* the result is the mean squared difference between the floats and the output */
    float input_scale;   /* of the model's input, above 0 */
    float output_scale;  /* of its output; 0: the output is in floats */
    int32_t input_zero;  /* zero points of both */
    int32_t output_zero; /* 0 where the output is in floats */
};

extern const struct hil_mlperf hil_mlperf;

/* Marks a time for an energy monitor: pulses a pin low for a microsecond at least. The one here
 * does nothing; a firmware that measures energy brings its own (--source pin.c). */
void hil_mlperf_pulse(void);

#ifdef __cplusplus
}
#endif

#endif
