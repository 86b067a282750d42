/* The range of a fused activation, four int8 outputs at a time: for kernels whose assembly
 * saturates outputs to the whole range of int8, which is the larger one. */
#ifndef HIL_KERNELS_DSP_CLAMP_S8_H
#define HIL_KERNELS_DSP_CLAMP_S8_H

#include "hil/dsp.h"

/* The range of outputs, for kernels that clamp to it. */
#define HIL_DSP_RANGE_FIELDS                                                                       \
    int32_t low; /* the least output */                                                            \
    int32_t high /* the largest output */

/* Four outputs, each in [low, high]. */
HIL_INLINE uint32_t hil_dsp_clamped_bytes(uint32_t word, int32_t low, int32_t high) {
    const uint32_t ones = 0x01010101U;
    if (low > INT8_MIN) {
        word = hil_dsp_most_bytes(word, ((uint32_t)low & 0xffU) * ones);
    }
    if (high < INT8_MAX) {
        /* The least one: what is not the largest of the complements. */
        word = ~hil_dsp_most_bytes(~word, ~(((uint32_t)high & 0xffU) * ones));
    }
    return word;
}

/* Clamps `count` outputs of a layer where they lie. */
HIL_INLINE void hil_dsp_clamp_s8(int8_t *out, int32_t count, int32_t low, int32_t high) {
    if (low == INT8_MIN && high == INT8_MAX) {
        return;
    }
    for (; count >= 4; count -= 4) {
        const uint32_t word = hil_dsp_clamped_bytes(hil_dsp_load(out), low, high);
        memcpy(out, &word, sizeof word);
        out += 4;
    }
    for (; count > 0; count--) {
        *out = hil_clamp_s8(*out, low, high);
        out++;
    }
}

#endif
