/* Sums, differences and products of two float tensors on Helium, with broadcasting: sixteen
 * elements of a row at a time, then four. */
#ifndef HIL_KERNELS_MVE_BINARY_F32_H
#define HIL_KERNELS_MVE_BINARY_F32_H

#include "hil/kernels/generic/binary.h"
#include "hil/kernels/mve/floats.h"

#define HIL_MVE_OPERAND_F32(x, step) ((step) == 0 ? vdupq_n_f32(*(x)) : vld1q_f32(x))

#define HIL_MVE_FOUR_F32(p, x, y, combine)                                                         \
    hil_mve_clamped_f32(                                                                           \
        combine(HIL_MVE_OPERAND_F32((x), (p)->a_step), HIL_MVE_OPERAND_F32((y), (p)->b_step)),     \
        (p)->low, (p)->high)

/* Writes out[] = combine(a[], b[]) along the walk of p, clamped. */
#define HIL_MVE_BINARY_F32_WALK(p, a, b, out, combine)                                             \
    do {                                                                                           \
        int32_t index[HIL_WALK_LOOPS] = {0};                                                       \
        int32_t i = 0;                                                                             \
        int32_t j = 0;                                                                             \
        for (int32_t rows = (p)->rows; rows > 0; rows--) {                                         \
            const float *x = (a) + i;                                                              \
            const float *y = (b) + j;                                                              \
            for (int32_t turns = (p)->length / 16; turns > 0; turns--) {                           \
                _Pragma("GCC unroll 4") for (int32_t four = 0; four < 16; four += 4) {             \
                    vst1q_f32((out) + four, HIL_MVE_FOUR_F32(p, x + four * (p)->a_step,            \
                                                             y + four * (p)->b_step, combine));    \
                }                                                                                  \
                x += 16 * (p)->a_step;                                                             \
                y += 16 * (p)->b_step;                                                             \
                (out) += 16;                                                                       \
            }                                                                                      \
            for (int32_t turns = (p)->length % 16 / 4; turns > 0; turns--) {                       \
                vst1q_f32((out), HIL_MVE_FOUR_F32(p, x, y, combine));                              \
                x += 4 * (p)->a_step;                                                              \
                y += 4 * (p)->b_step;                                                              \
                (out) += 4;                                                                        \
            }                                                                                      \
            if ((p)->length % 4 != 0) {                                                            \
                const mve_pred16_t there = vctp32q((uint32_t)((p)->length % 4));                   \
                const float32x4_t first =                                                          \
                    (p)->a_step == 0 ? vdupq_n_f32(*x) : vldrwq_z_f32(x, there);                   \
                const float32x4_t second =                                                         \
                    (p)->b_step == 0 ? vdupq_n_f32(*y) : vldrwq_z_f32(y, there);                   \
                vstrwq_p_f32((out),                                                                \
                             hil_mve_clamped_f32(combine(first, second), (p)->low, (p)->high),     \
                             there);                                                               \
                (out) += (p)->length % 4;                                                          \
            }                                                                                      \
            const int loop = hil_walk_next(index, (p)->counts);                                    \
            i += (p)->a_jumps[loop];                                                               \
            j += (p)->b_jumps[loop];                                                               \
        }                                                                                          \
    } while (0)

/*@kernel
name = "hil_mve_add_f32"
requires = ["mve", "fpu"]
inputs = ["float", "float"]
outputs = ["float"]
scratch = "0"
order = "elementwise"
code = 200
[cost]
row = "rows"
sixteen = "rows * (length // 16)"
four = "rows * ((length - length // 16 * 16 + 3) // 4)"
@*/
struct hil_mve_add_f32 {
    HIL_BINARY_F32_FIELDS;
};

HIL_INLINE void hil_mve_add_f32(const struct hil_mve_add_f32 *p, const float *a, const float *b,
                                float *out) {
    HIL_MVE_BINARY_F32_WALK(p, a, b, out, vaddq_f32);
}

/*@kernel
name = "hil_mve_sub_f32"
requires = ["mve", "fpu"]
inputs = ["float", "float"]
outputs = ["float"]
scratch = "0"
order = "elementwise"
code = 200
[cost]
row = "rows"
sixteen = "rows * (length // 16)"
four = "rows * ((length - length // 16 * 16 + 3) // 4)"
@*/
struct hil_mve_sub_f32 {
    HIL_BINARY_F32_FIELDS;
};

HIL_INLINE void hil_mve_sub_f32(const struct hil_mve_sub_f32 *p, const float *a, const float *b,
                                float *out) {
    HIL_MVE_BINARY_F32_WALK(p, a, b, out, vsubq_f32);
}

/*@kernel
name = "hil_mve_mul_f32"
requires = ["mve", "fpu"]
inputs = ["float", "float"]
outputs = ["float"]
scratch = "0"
order = "elementwise"
code = 200
[cost]
row = "rows"
sixteen = "rows * (length // 16)"
four = "rows * ((length - length // 16 * 16 + 3) // 4)"
@*/
struct hil_mve_mul_f32 {
    HIL_BINARY_F32_FIELDS;
};

HIL_INLINE void hil_mve_mul_f32(const struct hil_mve_mul_f32 *p, const float *a, const float *b,
                                float *out) {
    HIL_MVE_BINARY_F32_WALK(p, a, b, out, vmulq_f32);
}

#endif
