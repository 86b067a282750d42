/* Means and sums of int8 over pixels side by side, four channels at a time.
 *
 * Tile: 4 channels x 1 pixel, or a single channel of what is left of them.
 *
 * Registers: of gcc's choice: a word of pixels, two words of sums, four sums of 32 bits.
 *
 * Data: plain tensors; loads of words need no alignment.
 *
 * Order: the outputs of a block are written after all of its pixels of these channels are read.
 *
 * Bounds: the sums of 255 bytes fit 16 bits; then they are added to sums of 32 bits, which
 * hilc.ops.mean checks.
 *
 * Output: that of the portable kernel (generic/mean.h).
 *
 * Scratch: none.
 *
 * Cost, measured (`python tools/measure.py costs measure`, instructions under QEMU): 1.3 a value
 * and 20 an output; the portable kernel 5.3 a value.
 *
 * Tests: the numpy reference (tests/board/test_kernels.py, buffers between guard bytes); on the
 * host tests/c/test_op_kernels.py.
 */
#ifndef HIL_KERNELS_DSP_MEAN_H
#define HIL_KERNELS_DSP_MEAN_H

#include "hil/dsp.h"
#include "hil/kernels/generic/mean.h"

/*@kernel
name = "hil_dsp_mean_s8"
requires = ["dsp"]
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "0"
order = "none"
code = 300
[cost]
output = "blocks * channels"
four = "blocks * (channels // 4)"
word = "four * count"
rest = "blocks * (channels % 4) * count"
@*/
struct hil_dsp_mean_s8 {
    HIL_MEAN_BLOCK_FIELDS;
    HIL_MEAN_SCALE_FIELDS;
};

/* Adds up so many pixels' four channels, `step` bytes from one to the next. */
HIL_INLINE void hil_dsp_mean_four(const int8_t *from, int32_t count, int32_t step,
                                  int32_t totals[4]) {
    while (count > 0) {
        const int32_t part = count < HIL_MEAN_PIXELS ? count : HIL_MEAN_PIXELS;
        uint32_t even = 0;
        uint32_t odd = 0;
        for (int32_t n = part; n > 0; n--) {
            const uint32_t word = hil_dsp_load(from);
            even = hil_dsp_add_even(even, word);
            odd = hil_dsp_add_odd(odd, word);
            from += step;
        }
        totals[0] += hil_dsp_low(even);
        totals[1] += hil_dsp_low(odd);
        totals[2] += hil_dsp_high(even);
        totals[3] += hil_dsp_high(odd);
        count -= part;
    }
}

HIL_INLINE void hil_dsp_mean_s8(const struct hil_dsp_mean_s8 *p, const int8_t *in, int8_t *out) {
    for (int32_t block = 0; block < p->blocks; block++) {
        int32_t c = 0;
        for (; c + 4 <= p->channels; c += 4) {
            int32_t totals[4] = {p->offset, p->offset, p->offset, p->offset};
            hil_dsp_mean_four(in + c, p->count, p->channels, totals);
            for (int32_t n = 0; n < 4; n++) {
                *out++ = hil_mean_s8_finish(p, totals[n]);
            }
        }
        for (; c < p->channels; c++) {
            int32_t total = p->offset;
            for (int32_t n = 0; n < p->count; n++) {
                total += in[n * p->channels + c];
            }
            *out++ = hil_mean_s8_finish(p, total);
        }
        in += p->count * p->channels;
    }
}

#endif
