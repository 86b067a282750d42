/* A kernel that copies bytes and then does what it must not, so that the checks can be checked. */
#ifndef MISBEHAVING_H
#define MISBEHAVING_H

#include <stdint.h>

enum {
    BEHAVES,
    READS_INPUT,
    READS_OUTPUT,
    READS_SCRATCH,
    READS_WEIGHTS,
    WRITES_INPUT,
    WRITES_OUTPUT,
    WRITES_SCRATCH,
    WRITES_WEIGHTS,
    TAKES_FROM_SCRATCH,
    LEAVES_OUT,
};

struct misbehaving {
    int32_t bytes;
    int32_t deed;
    int32_t at; /* which byte of the input, the output, ... */
    const int8_t *weights;
};

static inline void misbehaving(const struct misbehaving *p, const int8_t *in, int8_t *out,
                               void *scratch) {
    const volatile int8_t *memory = scratch;
    volatile int8_t *const places[] = {(volatile int8_t *)(uintptr_t)in, out, scratch,
                                       (volatile int8_t *)(uintptr_t)p->weights};
    for (int32_t i = 0; i < p->bytes; ++i) {
        if (p->deed != LEAVES_OUT || i != p->at) {
            out[i] = in[i];
        }
    }
    if (p->deed == TAKES_FROM_SCRATCH) {
        out[0] = memory[p->at];
    } else if (p->deed >= WRITES_INPUT && p->deed <= WRITES_WEIGHTS) {
        places[p->deed - WRITES_INPUT][p->at] = 1;
    } else if (p->deed >= READS_INPUT && p->deed <= READS_WEIGHTS) {
        (void)places[p->deed - READS_INPUT][p->at];
    }
}

#endif
