/* Images of int8 resized by weights of few bits, four channels in two words: for cores whose loads
 * need no alignment.
 *
 * Tile: four channels of one pixel of the output, of the four pixels around it in the input:
 *
 *     above: left right      x (up, down) x (to_left, to_right)
 *     below: left right
 *
 * Registers: of gcc's choice: four pointers, four weights, two sums, three masks.
 *
 * Data: plain tensors; fractions are in parts, 2^row_bits of the way from one row to the next and
 * 2^column_bits of that between columns, to which the builder (hilc.lowering.resized) reduces those
 * of the portable kernel, which are 1/1024.
 *
 * Order: the output in order; any of the input may be read for any of it.
 *
 * Bounds: bytes are raised by 128 to 0 to 255. The weights add up to 2^bits, at most 2^8, so a sum
 * is at most 255 * 2^8, and 2^7 more to round it: below 2^16, so that two sums fit a word.
 *
 * Output: half away from zero, as the portable kernel divides: half up, but of sums below zero
 * (less than 128 * 2^bits when raised, so that bit 7 + bits is 0) one less is rounded.
 *
 * Scratch: none.
 *
 * Cost, measured (`python tools/measure.py costs measure`, instructions under QEMU): 9 to 10 an
 * element of 16 channels; the portable kernel 29.
 *
 * Tests: the numpy reference (tests/board/test_kernels.py, buffers between guard bytes).
 */
#ifndef HIL_KERNELS_V7M_RESIZE_S8_H
#define HIL_KERNELS_V7M_RESIZE_S8_H

#include <string.h>

#include "hil/kernels/generic/resize.h"

/* The fields of kernels whose weights are parts of a power of two. */
#define HIL_RESIZE_PARTS_FIELDS                                                                    \
    HIL_RESIZE_FIELDS;                                                                             \
    const int32_t *rows;    /* how far each output row is from that above it, in parts */          \
    const int32_t *columns; /* how far each output column is from that to the left, in parts */    \
    int32_t row_bits;       /* 2^row_bits parts are the way from one row to the next */            \
    int32_t column_bits     /* the same of columns; both together are at least 1 */

#define HIL_V7M_LANES 0x00ff00ffU

/* Four bytes, raised by 128. */
HIL_INLINE uint32_t hil_v7m_raised(const int8_t *from) {
    uint32_t word;
    memcpy(&word, from, sizeof word);
    return word ^ 0x80808080U;
}

/* Two sums, of lanes of 16 bits, to raised bytes. */
HIL_INLINE uint32_t hil_v7m_resized(uint32_t total, int32_t bits) {
    const uint32_t not_below = total >> (7 + bits) & 0x00010001U;
    const uint32_t less = ((1U << (bits - 1)) - 1U) * 0x00010001U;
    return (total + less + not_below) >> bits & HIL_V7M_LANES;
}

/*@kernel
name = "hil_v7m_resize_s8"
requires = ["mul32", "thumb2"]
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "0"
order = "none"
code = 220
[cost]
row = "images * out_h"
pixel = "images * out_h * out_w"
four = "pixel * (channels // 4)"
mixed = "pixel * (row_bits + column_bits > 2)"
mixed_four = "four * (row_bits + column_bits > 2)"
@*/
struct hil_v7m_resize_s8 {
    HIL_RESIZE_PARTS_FIELDS;
};

HIL_INLINE void hil_v7m_resize_s8(const struct hil_v7m_resize_s8 *p, const int8_t *in,
                                  int8_t *out) {
    const int32_t bits = p->row_bits + p->column_bits;
    for (int32_t image = 0; image < p->images; image++) {
        for (int32_t row = 0; row < p->out_h; row++) {
            const uint32_t down = (uint32_t)p->rows[row];
            const uint32_t up = (1U << p->row_bits) - down;
            const int8_t *above = in + p->above[row];
            const int8_t *below = in + p->below[row];
            for (int32_t column = 0; column < p->out_w; column++) {
                const uint32_t to_right = (uint32_t)p->columns[column];
                const uint32_t to_left = (1U << p->column_bits) - to_right;
                const uint32_t weights[4] = {up * to_left, up * to_right, down * to_left,
                                             down * to_right};
                const int32_t left = p->left[column];
                const int32_t right = p->right[column];
                const int8_t *from[4] = {above + left, above + right, below + left, below + right};
                for (int32_t c = 0; c < p->channels; c += 4) {
                    uint32_t even = 0;
                    uint32_t odd = 0;
#pragma GCC unroll 4
                    for (int pixel = 0; pixel < 4; pixel++) {
                        const uint32_t bytes = hil_v7m_raised(from[pixel] + c);
                        even += (bytes & HIL_V7M_LANES) * weights[pixel];
                        odd += (bytes >> 8 & HIL_V7M_LANES) * weights[pixel];
                    }
                    const uint32_t word =
                        (hil_v7m_resized(even, bits) | hil_v7m_resized(odd, bits) << 8) ^
                        0x80808080U;
                    memcpy(out, &word, sizeof word);
                    out += 4;
                }
            }
        }
        in += p->in_size;
    }
}

#endif
