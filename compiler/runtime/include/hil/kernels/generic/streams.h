/* Steps of streams that remember what came before. What they remember is an input, and what they
 * remember then an output, which does not overlap it. */
#ifndef HIL_KERNELS_GENERIC_STREAMS_H
#define HIL_KERNELS_GENERIC_STREAMS_H

#include <stdint.h>

#include "hil/kernels/generic/move.h"
#include "hil/quant.h"

/* Sample `i` of a row that begins with what is remembered. */
HIL_INLINE int16_t hil_streams_at(const int16_t *memory, int32_t remembered, const int16_t *in,
                                  int32_t i) {
    return i < remembered ? memory[i] : in[i - remembered];
}

/*@kernel
name = "hil_generic_signal_delay"
requires = []
inputs = ["int16_t", "int16_t"]
outputs = ["int16_t", "int16_t"]
scratch = "0"
order = "none"
code = 100
[cost]
row = "rows"
sample = "rows * (frame + delay)"
@*/
struct hil_generic_signal_delay {
    int32_t rows;  /* of samples */
    int32_t frame; /* samples of a row */
    int32_t delay; /* samples that a row remembers */
};

HIL_INLINE void hil_generic_signal_delay(const struct hil_generic_signal_delay *p,
                                         const int16_t *in, const int16_t *memory, int16_t *out,
                                         int16_t *next) {
    for (int32_t row = 0; row < p->rows; row++) {
        for (int32_t i = 0; i < p->frame; i++) {
            *out++ = hil_streams_at(memory, p->delay, in, i);
        }
        for (int32_t i = 0; i < p->delay; i++) {
            *next++ = hil_streams_at(memory, p->delay, in, p->frame + i);
        }
        in += p->frame;
        memory += p->delay;
    }
}

/*@kernel
name = "hil_generic_signal_framer"
requires = []
inputs = ["int16_t", "int16_t", "int32_t"]
outputs = ["int16_t", "uint8_t", "int16_t", "int32_t"]
scratch = "0"
order = "none"
code = 180
[cost]
frame = "rows * frames"
sample = "frame * size + rows * memory"
@*/
struct hil_generic_signal_framer {
    int32_t rows;    /* of samples */
    int32_t frames;  /* that an input completes in a row */
    int32_t size;    /* samples of a frame */
    int32_t step;    /* samples from a frame to the next */
    int32_t memory;  /* samples that a row remembers */
    int32_t skipped; /* those of them that the first frame leaves out */
};

HIL_INLINE void hil_generic_signal_framer(const struct hil_generic_signal_framer *p,
                                          const int16_t *in, const int16_t *memory,
                                          const int32_t *missing, int16_t *out, uint8_t *valid,
                                          int16_t *next, int32_t *left) {
    const int32_t samples = p->frames * p->step;
    for (int32_t row = 0; row < p->rows; row++) {
        for (int32_t frame = 0; frame < p->frames; frame++) {
            const int32_t first = p->skipped + frame * p->step;
            for (int32_t i = 0; i < p->size; i++) {
                *out++ = hil_streams_at(memory, p->memory, in, first + i);
            }
        }
        for (int32_t i = 0; i < p->memory; i++) {
            *next++ = hil_streams_at(memory, p->memory, in, samples + i);
        }
        in += samples;
        memory += p->memory;
    }
    *valid = *missing == 0;
    *left = *missing > p->frames ? *missing - p->frames : 0;
}

/*@kernel
name = "hil_generic_signal_stacker"
requires = []
inputs = ["int16_t", "int16_t", "int32_t"]
outputs = ["int16_t", "uint8_t", "int16_t", "int32_t"]
scratch = "0"
order = "none"
code = 160
[cost]
number = "size"
@*/
struct hil_generic_signal_stacker {
    int32_t channels; /* numbers of a row */
    int32_t size;     /* numbers of all rows of an output */
    int32_t right;    /* rows behind the current one */
    int32_t step;     /* rows from a valid output to the next */
};

HIL_INLINE void hil_generic_signal_stacker(const struct hil_generic_signal_stacker *p,
                                           const int16_t *in, const int16_t *memory,
                                           const int32_t *waiting, int16_t *out, uint8_t *valid,
                                           int16_t *next, int32_t *left) {
    /* The first row stands for those before it. */
    const int is_first = *waiting < 0;
    const int32_t wait = is_first ? p->right : *waiting;
    const int32_t kept = p->size - p->channels;
    int32_t channel = 0;
    for (int32_t i = 0; i < p->size; i++) {
        out[i] = i < kept && !is_first ? memory[i + p->channels] : in[channel];
        next[i] = out[i];
        channel = channel + 1 == p->channels ? 0 : channel + 1;
    }
    *valid = wait == 0;
    *left = (wait == 0 ? p->step : wait) - 1;
}

/*@kernel
name = "hil_generic_circular_buffer"
requires = []
inputs = ["void", "void"]
outputs = ["void"]
scratch = "0"
order = "walk"
reads = "shift"
code = 60
[cost]
byte = "kept + row"
@*/
struct hil_generic_circular_buffer {
    int32_t kept; /* bytes that stay, and move to the front */
    int32_t row;  /* bytes that come */
};

HIL_INLINE void hil_generic_circular_buffer(const struct hil_generic_circular_buffer *p,
                                            const void *in, const void *memory, void *out) {
    uint8_t *const target = (uint8_t *)out;
    hil_move(target, (const uint8_t *)memory + p->row, p->kept);
    hil_move(target + p->kept, in, p->row);
}

#define HIL_OVERLAP_FIELDS                                                                         \
    int32_t rows;   /* of frames */                                                                \
    int32_t frames; /* of a row */                                                                 \
    int32_t size;   /* samples of a frame, and sums that a row remembers */                        \
    int32_t step    /* samples from a frame to the next */

/* Each sum begins with what is remembered and takes the frames that cover it, one after the other.
 */
#define HIL_OVERLAP_WALK(p, in, memory, out, next, total, add)                                     \
    do {                                                                                           \
        const int32_t samples = (p)->frames * (p)->step;                                           \
        for (int32_t row = 0; row < (p)->rows; row++) {                                            \
            for (int32_t i = 0; i < samples + (p)->size; i++) {                                    \
                total sum = i < (p)->size ? (memory)[i] : (total)0;                                \
                int32_t frame = i < (p)->size ? 0 : (i - (p)->size + (p)->step) / (p)->step;       \
                for (; frame < (p)->frames && frame * (p)->step <= i; frame++) {                   \
                    sum = add(sum, (in)[frame * (p)->size + i - frame * (p)->step]);               \
                }                                                                                  \
                if (i < samples) {                                                                 \
                    *(out)++ = sum;                                                                \
                } else {                                                                           \
                    *(next)++ = sum;                                                               \
                }                                                                                  \
            }                                                                                      \
            (in) += (p)->frames * (p)->size;                                                       \
            (memory) += (p)->size;                                                                 \
        }                                                                                          \
    } while (0)

/*@kernel
name = "hil_generic_signal_overlap_s16"
requires = []
inputs = ["int16_t", "int16_t"]
outputs = ["int16_t", "int16_t"]
scratch = "0"
order = "none"
code = 180
[cost]
sum = "rows * (frames * step + size)"
sample = "rows * frames * size"
@*/
struct hil_generic_signal_overlap_s16 {
    HIL_OVERLAP_FIELDS;
};

HIL_INLINE int16_t hil_overlap_add_s16(int16_t sum, int16_t sample) {
    return (int16_t)hil_clamp(sum + sample, INT16_MIN, INT16_MAX);
}

HIL_INLINE void hil_generic_signal_overlap_s16(const struct hil_generic_signal_overlap_s16 *p,
                                               const int16_t *in, const int16_t *memory,
                                               int16_t *out, int16_t *next) {
    HIL_OVERLAP_WALK(p, in, memory, out, next, int16_t, hil_overlap_add_s16);
}

/*@kernel
name = "hil_generic_signal_overlap_f32"
requires = []
inputs = ["float", "float"]
outputs = ["float", "float"]
scratch = "0"
order = "none"
code = 180
[cost]
sum = "rows * (frames * step + size)"
sample = "rows * frames * size"
@*/
struct hil_generic_signal_overlap_f32 {
    HIL_OVERLAP_FIELDS;
};

HIL_INLINE float hil_overlap_add_f32(float sum, float sample) { return sum + sample; }

HIL_INLINE void hil_generic_signal_overlap_f32(const struct hil_generic_signal_overlap_f32 *p,
                                               const float *in, const float *memory, float *out,
                                               float *next) {
    HIL_OVERLAP_WALK(p, in, memory, out, next, float, hil_overlap_add_f32);
}

/*@kernel
name = "hil_generic_signal_subtract"
requires = []
inputs = ["uint32_t", "uint32_t"]
outputs = ["uint32_t", "uint32_t"]
scratch = "0"
order = "elementwise"
code = 180
[cost]
channel = "length"
@*/
struct hil_generic_signal_subtract {
    int32_t length;                  /* channels */
    int32_t smoothing;               /* share of the signal in the estimate, of even channels */
    int32_t one_minus_smoothing;     /* share of the old estimate */
    int32_t odd_smoothing;           /* the same of odd channels */
    int32_t odd_one_minus_smoothing; /* share of the old estimate of odd channels */
    int32_t remaining;               /* share of the signal that is left at least */
    int32_t smoothing_bits;          /* of fraction of the estimate */
    int32_t bits;                    /* of fraction of all shares */
    int32_t clamping;                /* 1: the estimate never exceeds the signal */
};

HIL_INLINE void hil_generic_signal_subtract(const struct hil_generic_signal_subtract *p,
                                            const uint32_t *in, const uint32_t *noise,
                                            uint32_t *out, uint32_t *next) {
    for (int32_t i = 0; i < p->length; i++) {
        const uint32_t share = (uint32_t)(i % 2 ? p->odd_smoothing : p->smoothing);
        const uint32_t rest =
            (uint32_t)(i % 2 ? p->odd_one_minus_smoothing : p->one_minus_smoothing);
        const uint32_t x = in[i];
        const uint32_t signal = x << p->smoothing_bits;
        const uint32_t estimate =
            (uint32_t)(((uint64_t)signal * share + (uint64_t)noise[i] * rest) >> p->bits);
        const uint32_t taken = estimate < signal ? estimate : signal;
        const uint32_t least = (uint32_t)(((uint64_t)x * (uint32_t)p->remaining) >> p->bits);
        const uint32_t left = (signal - taken) >> p->smoothing_bits;
        out[i] = left > least ? left : least;
        next[i] = p->clamping ? taken : estimate;
    }
}

#endif
