/* SOFTMAX of int8 on Helium: the steps of generic/softmax.h, four exponentials at a time by gathers
 * from a table of all distances to a row's maximum.
 *
 * Tile: 16 elements of the maximum, 4 of the sum and of the outputs, in three loops over a row.
 *
 * Registers: of gcc's choice, except q0 elements, q1 their exponentials and then the outputs, lr
 * the elements left.
 *
 * Data: `exponentials`, int32[256], in Q0.31, of the distances 255, 254, ..., 0 to the maximum; of
 * those that leave nothing 0. The exponential of x is 127 - max + 128 + x entries behind its start.
 *
 * Order: rows one by one; each is read twice before its first output is written, then once more,
 * four elements before their outputs.
 *
 * Bounds: an exponential is at most 2^31 - 1; a sum has 12 integer bits, as in generic/softmax.h.
 * The entry of the greatest element is the last one, and 128 + x is at least 0.
 *
 * Output: a share is (exponential * scale + 2^30) >> 31, which vqrdmulh gives for numbers that are
 * not negative; vrshl rounds it half up, and leaves nothing of it where the shift is 32 or more.
 *
 * Scratch: none.
 *
 * Cost: 3 instructions for 16 elements of the maximum, 6 and 9 for four of the sum and of the
 * outputs, and about 100 for a row. Measured (`hil bench --per-layer` on mps3-an547, instructions
 * under QEMU) an element: 128 rows of 32 (encoder_i8) 7.1, the portable kernel 33.4.
 *
 * Tests: the numpy reference (tests/board/test_kernels.py, buffers between guard bytes).
 */
#ifndef HIL_KERNELS_MVE_SOFTMAX_S8_H
#define HIL_KERNELS_MVE_SOFTMAX_S8_H

#include <arm_mve.h>

#include "hil/kernels/generic/softmax.h"

/*@kernel
name = "hil_mve_softmax_s8"
requires = ["mve"]
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "0"
order = "elementwise"
code = 300
[cost]
row = "rows"
sixteen = "rows * ((depth + 15) // 16)"
four = "rows * ((depth + 3) // 4)"
@*/
struct hil_mve_softmax_s8 {
    int32_t rows;                /* that each add up to one */
    int32_t depth;               /* elements of a row, at least 1 */
    const int32_t *exponentials; /* the head says */
};

/* The exponentials of four elements in q1. */
/* clang-format off */
#define HIL_MVE_SOFTMAX_FOUR                                                                       \
    "vldrb.s32 q0, [%[in]], #4\n"                                                                  \
    "vadd.i32 q0, q0, %[least]\n"                                                                  \
    "vldrw.u32 q1, [%[table], q0, uxtw #2]\n"
/* clang-format on */

HIL_INLINE int32_t hil_mve_softmax_s8_max(const int8_t *in, int32_t depth) {
    int32_t max = INT8_MIN;
    __asm__ volatile("dlstp.8 lr, %[depth]\n"
                     "1:\n"
                     "vldrb.8 q0, [%[in]], #16\n"
                     "vmaxv.s8 %[max], q0\n"
                     "letp lr, 1b\n"
                     : [in] "+&l"(in), [max] "+&r"(max)
                     : [depth] "r"(depth)
                     : "q0", "lr", "cc", "memory");
    return max;
}

/* The sum of the exponentials of a row, each less 12 bits. */
HIL_INLINE uint32_t hil_mve_softmax_s8_sum(const int32_t *table, const int8_t *in, int32_t depth) {
    register uint32_t sum __asm__("r4") = 0; /* an even register, as vaddva asks for */
    __asm__ volatile("dlstp.32 lr, %[depth]\n"
                     "1:\n" HIL_MVE_SOFTMAX_FOUR "vrshr.u32 q1, q1, #12\n"
                     "vaddva.u32 %[sum], q1\n"
                     "letp lr, 1b\n"
                     : [in] "+&l"(in), [sum] "+&r"(sum)
                     : [table] "r"(table), [least] "r"(-INT8_MIN), [depth] "r"(depth)
                     : "q0", "q1", "lr", "cc", "memory");
    return sum;
}

/* The outputs of a row: its exponentials times `scale`, shifted by `left`, which is below 0. */
HIL_INLINE void hil_mve_softmax_s8_shares(const int32_t *table, const int8_t *in, int32_t depth,
                                          int32_t scale, int32_t left, int8_t *out) {
    const int32x4_t high = vdupq_n_s32(INT8_MAX);
    __asm__ volatile("dlstp.32 lr, %[depth]\n"
                     "1:\n" HIL_MVE_SOFTMAX_FOUR "vqrdmulh.s32 q1, q1, %[scale]\n"
                     "vrshl.s32 q1, %[left]\n"
                     "vsub.i32 q1, q1, %[least]\n"
                     "vmin.s32 q1, q1, %q[high]\n"
                     "vstrb.32 q1, [%[out]], #4\n"
                     "letp lr, 1b\n"
                     : [in] "+&l"(in), [out] "+&l"(out)
                     : [table] "r"(table), [least] "r"(-INT8_MIN), [scale] "r"(scale),
                       [left] "r"(left), [high] "w"(high), [depth] "r"(depth)
                     : "q0", "q1", "lr", "cc", "memory");
}

HIL_INLINE void hil_mve_softmax_s8(const struct hil_mve_softmax_s8 *p, const int8_t *in,
                                   int8_t *out) {
    for (int32_t rows = p->rows; rows > 0; rows--) {
        const int32_t *const table =
            p->exponentials + (INT8_MAX - hil_mve_softmax_s8_max(in, p->depth));
        const uint32_t sum = hil_mve_softmax_s8_sum(table, in, p->depth);
        /* As hil_softmax_s8_scale(). */
        const int32_t zeros = __builtin_clz(sum);
        const uint32_t fraction = (sum << zeros) - (UINT32_C(1) << 31);
        const int32_t scale = hil_reciprocal((int32_t)fraction);
        hil_mve_softmax_s8_shares(table, in, p->depth, scale, zeros - (31 - 8 + 12), out);
        in += p->depth;
        out += p->depth;
    }
}

#endif
