/* What kernels for Armv6-M share: how a sum becomes an output where no instruction multiplies to 64
 * bits, and whether blocks in assembly may be used. */
#ifndef HIL_V6M_H
#define HIL_V6M_H

#include <stdint.h>

#include "hil/quant.h"

/* The blocks in assembly take every register: a frame pointer, as without optimization, or clang's
 * allocator leave them too few. The same loops in C are beside them. */
#if defined(__ARM_ARCH_6M__) && defined(__OPTIMIZE__) && !defined(__clang__)
#define HIL_V6M_ASSEMBLY 1
#else
#define HIL_V6M_ASSEMBLY 0
#endif

/* Words that describe a channel. */
#define HIL_V6M_SCALE_WORDS 7

struct hil_v6m_scale {
    int32_t low; /* three pieces of the multiplier */
    int32_t middle;
    int32_t high;
    int32_t bias;   /* the bias as it stands in the product, and the addend if negative ones have
                       no other */
    int32_t addend; /* half a unit of the result, the zero point and 128 */
    int32_t turn;   /* what negative products add beside it */
    int32_t shift;  /* to the right */
};

HIL_INLINE struct hil_v6m_scale hil_v6m_scale(const int32_t *words) {
    return (struct hil_v6m_scale){.low = words[0],
                                  .middle = words[1],
                                  .high = words[2],
                                  .bias = words[3],
                                  .addend = words[4],
                                  .turn = words[5],
                                  .shift = words[6]};
}

/* The output of a sum: floor(sum * multiplier / 2^(bits * (pieces - 1))), the addends, the shift.
 * The multiplier is cut into two or three pieces of so many bits (two have no low one), and a
 * product is shifted by those bits before the next is added to it: floors of floors, which lose
 * nothing.
 *
 * Exact where the compiler has proven for each channel that each output begins at the same sum as
 * with the reference's arithmetic, and that nothing leaves 32 bits: |sum| < 2^(31 - bits). */
HIL_INLINE int8_t hil_v6m_output(const struct hil_v6m_scale *scale, int32_t sum, int32_t pieces,
                                 int32_t bits, int32_t turns, int32_t low, int32_t high) {
    int32_t lower = sum * scale->middle;
    if (pieces == 3) {
        lower += (sum * scale->low) >> bits;
    }
    int32_t product = (lower >> bits) + sum * scale->high + scale->bias;
    if (turns) {
        product += scale->addend + (product < 0 ? scale->turn : 0);
    }
    /* Raised by 128: what an output may be at most is what a byte may be. */
    int32_t raised = product >> scale->shift;
    if (low == -128 && high == 127) {
        if ((uint32_t)raised > 255U) {
            /* 0 below, 255 above. */
            raised = (int32_t)((uint32_t)raised >> 31) - 1;
        }
    } else {
        raised = raised < low + 128 ? low + 128 : raised;
        raised = raised > high + 128 ? high + 128 : raised;
    }
    return (int8_t)((raised & 255) - 128);
}

#endif
