/* Instructions of RV32IM and Zbb as C, for the forms of emitted functions that run elsewhere, and
 * how three rows of int8 become words whose products share two sums. */
#ifndef HIL_RISCV_H
#define HIL_RISCV_H

#include <stdint.h>
#include <string.h>

#include "hil/quant.h"

HIL_INLINE uint32_t hil_riscv_lb(const int8_t *from) { return (uint32_t)*from; }

HIL_INLINE uint32_t hil_riscv_lh(const int8_t *from) {
    int16_t value;
    memcpy(&value, from, sizeof value);
    return (uint32_t)value;
}

HIL_INLINE uint32_t hil_riscv_lw(const int8_t *from) {
    uint32_t value;
    memcpy(&value, from, sizeof value);
    return value;
}

HIL_INLINE void hil_riscv_sw(int8_t *to, uint32_t value) { memcpy(to, &value, sizeof value); }

HIL_INLINE void hil_riscv_sh(int8_t *to, uint32_t value) {
    const uint16_t half = (uint16_t)value;
    memcpy(to, &half, sizeof half);
}

/* Of RV32F. */
HIL_INLINE float hil_riscv_flw(const int8_t *from) {
    float value;
    memcpy(&value, from, sizeof value);
    return value;
}

HIL_INLINE float hil_riscv_fmv(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

HIL_INLINE void hil_riscv_fsw(int8_t *to, float value) { memcpy(to, &value, sizeof value); }

HIL_INLINE uint32_t hil_riscv_sra(uint32_t value, int32_t bits) {
    return (uint32_t)((int32_t)value >> bits);
}

HIL_INLINE uint32_t hil_riscv_mulhsu(uint32_t a, uint32_t b) {
    return (uint32_t)((uint64_t)((int64_t)(int32_t)a * (int64_t)b) >> 32);
}

HIL_INLINE uint32_t hil_riscv_mulhu(uint32_t a, uint32_t b) {
    return (uint32_t)(((uint64_t)a * b) >> 32);
}

HIL_INLINE uint32_t hil_riscv_sltu(uint32_t a, uint32_t b) { return a < b ? 1U : 0U; }

HIL_INLINE uint32_t hil_riscv_srl(uint32_t value, uint32_t bits) { return value >> (bits & 31U); }

HIL_INLINE uint32_t hil_riscv_slt(uint32_t a, uint32_t b) {
    return (int32_t)a < (int32_t)b ? 1U : 0U;
}

HIL_INLINE uint32_t hil_riscv_sll(uint32_t value, uint32_t bits) { return value << (bits & 31U); }

HIL_INLINE uint32_t hil_riscv_min(uint32_t a, uint32_t b) {
    return (int32_t)a < (int32_t)b ? a : b;
}

HIL_INLINE uint32_t hil_riscv_max(uint32_t a, uint32_t b) {
    return (int32_t)a > (int32_t)b ? a : b;
}

/* Instructions of XPULP: four products of int8 added to a sum, and the range of int8. */
HIL_INLINE uint32_t hil_riscv_sdotsp(uint32_t sum, uint32_t a, uint32_t b) {
    for (uint32_t bits = 0; bits < 32U; bits += 8U) {
        sum += (uint32_t)((int8_t)(a >> bits) * (int8_t)(b >> bits));
    }
    return sum;
}

/* Likewise the smaller, or the larger, of each two bytes. */
HIL_INLINE uint32_t hil_riscv_min4(uint32_t a, uint32_t b) {
    uint32_t out = 0;
    for (uint32_t bits = 0; bits < 32U; bits += 8U) {
        const uint32_t least = (int8_t)(a >> bits) < (int8_t)(b >> bits) ? a : b;
        out |= least & (UINT32_C(255) << bits);
    }
    return out;
}

HIL_INLINE uint32_t hil_riscv_max4(uint32_t a, uint32_t b) {
    uint32_t out = 0;
    for (uint32_t bits = 0; bits < 32U; bits += 8U) {
        const uint32_t largest = (int8_t)(a >> bits) > (int8_t)(b >> bits) ? a : b;
        out |= largest & (UINT32_C(255) << bits);
    }
    return out;
}

HIL_INLINE uint32_t hil_riscv_clip(uint32_t value) {
    const int32_t number = (int32_t)value;
    return number < -128 ? (uint32_t)-128 : number > 127 ? 127U : value;
}

#endif
