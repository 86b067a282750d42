/* A stand-in for other people's firmware: a small interpreter of int8 layers with tap points, whose
 * serial line is stdin and stdout. The model is in model.h; the argument names a fault. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hil_tap.h"

enum op { CONV, POOL, DENSE };

struct layer {
    enum op op;
    const char *name;
    int in_h, in_w, in_c, out_h, out_w, out_c, size, stride, pad;
    int in_zero, out_zero, low, high;
    const int8_t *weights; /* out_c x size x size x in_c */
    const int32_t *bias;   /* NULL: none */
    const int32_t *multipliers;
    const int32_t *shifts;
};

#include "model.h" /* layers, LAYERS, NAME, INPUT, MOST */

static int8_t buffers[2][MOST];
static struct hil_tap tap;
static const char *fault = "";

static void put(void *context, const uint8_t *data, size_t size) {
    (void)context;
    while (size > 0) {
        const ssize_t written = write(STDOUT_FILENO, data, size);
        if (written < 0 && errno == EAGAIN) {
            usleep(100); /* a terminal is one file in both directions */
            continue;
        }
        if (written <= 0) {
            exit(0);
        }
        data += written;
        size -= (size_t)written;
    }
}

/* value * multiplier * 2^(shift - 31), rounded to nearest twice, as gemmlowp does. */
static int32_t scaled(int32_t value, int32_t multiplier, int32_t shift) {
    const int32_t left = shift > 0 ? shift : 0;
    const int32_t right = shift > 0 ? 0 : -shift;
    const int64_t product = (int64_t)(value * (1 << left)) * multiplier;
    const int64_t nudge = product >= 0 ? (1 << 30) : 1 - (1 << 30);
    const int32_t high = (int32_t)((product + nudge) / ((int64_t)1 << 31));
    const int32_t mask = (int32_t)((1U << right) - 1);
    const int32_t threshold = (mask >> 1) + (high < 0);
    return (high >> right) + ((high & mask) > threshold);
}

static int8_t clamped(const struct layer *l, int32_t value) {
    return (int8_t)(value < l->low ? l->low : value > l->high ? l->high : value);
}

static int32_t window(const struct layer *l, const int8_t *in, int y, int x, int c) {
    int32_t sum = l->op == POOL ? -128 : l->bias != NULL ? l->bias[c] : 0;

    for (int i = 0; i < l->size; ++i) {
        for (int j = 0; j < l->size; ++j) {
            const int row = y * l->stride + i - l->pad;
            const int column = x * l->stride + j - l->pad;
            if (row < 0 || row >= l->in_h || column < 0 || column >= l->in_w) {
                continue;
            }
            const int8_t *at = in + (row * l->in_w + column) * l->in_c;
            if (l->op == POOL) {
                sum = at[c] > sum ? at[c] : sum;
                continue;
            }
            const int8_t *w = l->weights + ((c * l->size + i) * l->size + j) * l->in_c;
            for (int k = 0; k < l->in_c; ++k) {
                sum += w[k] * (at[k] - l->in_zero);
            }
        }
    }
    return sum;
}

static int is_fault(const char *name, int number) {
    return number == 1 && strcmp(fault, name) == 0;
}

static void run(const struct layer *l, int number, const int8_t *in, int8_t *out) {
    const int rows = is_fault("rows", number) ? l->out_h - 1 : l->out_h;

    for (int y = 0; y < rows; ++y) {
        for (int x = 0; x < l->out_w; ++x) {
            for (int c = 0; c < l->out_c; ++c) {
                int32_t value = window(l, in, y, x, c);
                if (l->op != POOL) {
                    if (is_fault("channel", number) && c == 2) {
                        value += 900;
                    }
                    value = scaled(value, l->multipliers[c], l->shifts[c]) + l->out_zero;
                }
                if (is_fault("shift", number)) {
                    value += 7;
                }
                out[(y * l->out_w + x) * l->out_c + c] = clamped(l, value);
            }
        }
    }
    if (is_fault("varies", number)) {
        static int8_t runs;
        out[5] = ++runs;
    }
}

int main(int count, char **arguments) {
    static int8_t input[INPUT];
    uint32_t seed = 1;

    if (count > 1) {
        fault = arguments[1];
    }
    (void)fcntl(STDIN_FILENO, F_SETFL, O_NONBLOCK);
    hil_tap_init(&tap, put, NULL);
    for (int n = 0;; ++n) {
        uint8_t byte;
        const int8_t *in = input;

        put(NULL, (const uint8_t *)"inference\r\n", 11); /* text between frames */
        for (size_t i = 0; i < sizeof input; ++i) {
            seed = seed * 1664525U + 1013904223U;
            input[i] = strcmp(fault, "varies") == 0 ? (int8_t)i : (int8_t)(seed >> 24);
        }
        hil_tap_begin(&tap, NAME);
        hil_tap_input(&tap, 0, NULL, HIL_TAP_INT8, input, sizeof input);
        for (int i = 0; i < LAYERS; ++i) {
            const struct layer *l = &layers[i];
            const size_t nbytes = (size_t)(l->out_h * l->out_w * l->out_c);
            run(l, i, in, buffers[i % 2]);
            in = buffers[i % 2];
            hil_tap_layer(&tap, (uint16_t)i, 0, l->name, HIL_TAP_INT8, in, nbytes);
            if (i == LAYERS - 1) {
                hil_tap_output(&tap, 0, NULL, HIL_TAP_INT8, in, nbytes);
            }
        }
        hil_tap_end(&tap);
        usleep(2000);
        while (read(STDIN_FILENO, &byte, 1) == 1) {
            hil_tap_receive(&tap, byte);
        }
    }
}
