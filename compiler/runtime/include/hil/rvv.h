/* Instructions of RISC-V's vectors (Zve32x) as C, for the forms of emitted functions that run
 * elsewhere: a register file with registers of 128 bits, and the vector length. */
#ifndef HIL_RVV_H
#define HIL_RVV_H

#include "hil/riscv.h"

#define HIL_RVV_REGISTERS 32U
#define HIL_RVV_REGISTER_BYTES 16U

struct hil_rvv {
    uint32_t length;
    uint32_t bytes; /* of an element */
    int8_t file[HIL_RVV_REGISTERS * HIL_RVV_REGISTER_BYTES];
};

HIL_INLINE int32_t hil_rvv_get(const struct hil_rvv *v, uint32_t reg, uint32_t bytes, uint32_t i) {
    const int8_t *const at = &v->file[HIL_RVV_REGISTER_BYTES * reg + bytes * i];
    if (bytes == 4U) {
        return (int32_t)hil_riscv_lw(at);
    }
    return bytes == 2U ? (int32_t)hil_riscv_lh(at) : *at;
}

HIL_INLINE void hil_rvv_set(struct hil_rvv *v, uint32_t reg, uint32_t bytes, uint32_t i,
                            int32_t value) {
    /* Little-endian, as all of these cores. */
    memcpy(&v->file[HIL_RVV_REGISTER_BYTES * reg + bytes * i], &value, bytes);
}

/* The length for elements of so many bytes in groups of registers; `wanted` at most. */
HIL_INLINE uint32_t hil_rvv_vsetvli(struct hil_rvv *v, uint32_t wanted, uint32_t bytes,
                                    uint32_t group) {
    const uint32_t most = HIL_RVV_REGISTER_BYTES * group / bytes;
    v->length = wanted < most ? wanted : most;
    v->bytes = bytes;
    return v->length;
}

HIL_INLINE void hil_rvv_vle(struct hil_rvv *v, uint32_t to, uint32_t bytes, const int8_t *from) {
    memcpy(&v->file[HIL_RVV_REGISTER_BYTES * to], from, bytes * v->length);
}

/* Bytes that lie `stride` bytes apart. */
HIL_INLINE void hil_rvv_vlse8(struct hil_rvv *v, uint32_t to, const int8_t *from, uint32_t stride) {
    for (uint32_t i = 0; i < v->length; i++) {
        hil_rvv_set(v, to, 1, i, from[i * stride]);
    }
}

/* Bytes at the distances that bytes without sign are. */
HIL_INLINE void hil_rvv_vluxei8(struct hil_rvv *v, uint32_t to, const int8_t *from,
                                uint32_t indices) {
    for (uint32_t i = 0; i < v->length; i++) {
        hil_rvv_set(v, to, 1, i, from[(uint8_t)hil_rvv_get(v, indices, 1, i)]);
    }
}

HIL_INLINE void hil_rvv_vse(struct hil_rvv *v, uint32_t from, uint32_t bytes, int8_t *to) {
    memcpy(to, &v->file[HIL_RVV_REGISTER_BYTES * from], bytes * v->length);
}

/* int8 to int16; the source may be the upper half of the destination. */
HIL_INLINE void hil_rvv_vsext_vf2(struct hil_rvv *v, uint32_t to, uint32_t from) {
    for (uint32_t i = 0; i < v->length; i++) {
        hil_rvv_set(v, to, 2, i, hil_rvv_get(v, from, 1, i));
    }
}

/* int8 to int32, in another group of registers. */
HIL_INLINE void hil_rvv_vsext_vf4(struct hil_rvv *v, uint32_t to, uint32_t from) {
    for (uint32_t i = 0; i < v->length; i++) {
        hil_rvv_set(v, to, 4, i, hil_rvv_get(v, from, 1, i));
    }
}

/* int8 added to int16. */
HIL_INLINE void hil_rvv_vwadd_wv(struct hil_rvv *v, uint32_t to, uint32_t from) {
    for (uint32_t i = 0; i < v->length; i++) {
        hil_rvv_set(v, to, 2, i, hil_rvv_get(v, to, 2, i) + hil_rvv_get(v, from, 1, i));
    }
}

/* Elements of the selected size that are all one number. */
HIL_INLINE void hil_rvv_vmv_vx(struct hil_rvv *v, uint32_t to, uint32_t x) {
    for (uint32_t i = 0; i < v->length; i++) {
        hil_rvv_set(v, to, v->bytes, i, (int32_t)x);
    }
}

/* Words times a word: alone, and added. */
HIL_INLINE void hil_rvv_vmul_vx(struct hil_rvv *v, uint32_t to, uint32_t from, uint32_t x) {
    for (uint32_t i = 0; i < v->length; i++) {
        hil_rvv_set(v, to, 4, i, (int32_t)((uint32_t)hil_rvv_get(v, from, 4, i) * x));
    }
}

HIL_INLINE void hil_rvv_vmacc_vx(struct hil_rvv *v, uint32_t to, uint32_t x, uint32_t from) {
    for (uint32_t i = 0; i < v->length; i++) {
        const uint32_t product = (uint32_t)hil_rvv_get(v, from, 4, i) * x;
        hil_rvv_set(v, to, 4, i, (int32_t)((uint32_t)hil_rvv_get(v, to, 4, i) + product));
    }
}

/* Products of int16, which are int32: alone, and added. */
HIL_INLINE void hil_rvv_vwmul_vx(struct hil_rvv *v, uint32_t to, uint32_t from, uint32_t x) {
    for (uint32_t i = 0; i < v->length; i++) {
        hil_rvv_set(v, to, 4, i, hil_rvv_get(v, from, 2, i) * (int16_t)x);
    }
}

HIL_INLINE void hil_rvv_vwmacc_vx(struct hil_rvv *v, uint32_t to, uint32_t x, uint32_t from) {
    for (uint32_t i = 0; i < v->length; i++) {
        const int32_t product = hil_rvv_get(v, from, 2, i) * (int16_t)x;
        hil_rvv_set(v, to, 4, i, hil_rvv_get(v, to, 4, i) + product);
    }
}

HIL_INLINE void hil_rvv_vwmul_vv(struct hil_rvv *v, uint32_t to, uint32_t a, uint32_t b) {
    for (uint32_t i = 0; i < v->length; i++) {
        hil_rvv_set(v, to, 4, i, hil_rvv_get(v, a, 2, i) * hil_rvv_get(v, b, 2, i));
    }
}

HIL_INLINE void hil_rvv_vwmacc_vv(struct hil_rvv *v, uint32_t to, uint32_t a, uint32_t b) {
    for (uint32_t i = 0; i < v->length; i++) {
        const int32_t product = hil_rvv_get(v, a, 2, i) * hil_rvv_get(v, b, 2, i);
        hil_rvv_set(v, to, 4, i, hil_rvv_get(v, to, 4, i) + product);
    }
}

/* Of words: shifts, sums, the upper word of a product with an unsigned word. */
HIL_INLINE void hil_rvv_vsll_vi(struct hil_rvv *v, uint32_t to, uint32_t from, uint32_t bits) {
    for (uint32_t i = 0; i < v->length; i++) {
        const uint32_t value = (uint32_t)hil_rvv_get(v, from, 4, i);
        hil_rvv_set(v, to, 4, i, (int32_t)(value << bits));
    }
}

HIL_INLINE void hil_rvv_vsll_vv(struct hil_rvv *v, uint32_t to, uint32_t from, uint32_t bits) {
    for (uint32_t i = 0; i < v->length; i++) {
        const uint32_t value = (uint32_t)hil_rvv_get(v, from, 4, i);
        hil_rvv_set(v, to, 4, i, (int32_t)(value << (hil_rvv_get(v, bits, 4, i) & 31)));
    }
}

HIL_INLINE void hil_rvv_vsra_vv(struct hil_rvv *v, uint32_t to, uint32_t from, uint32_t bits) {
    for (uint32_t i = 0; i < v->length; i++) {
        const int32_t right = hil_rvv_get(v, bits, 4, i) & 31;
        hil_rvv_set(v, to, 4, i, hil_rvv_get(v, from, 4, i) >> right);
    }
}

HIL_INLINE void hil_rvv_vsra_vi(struct hil_rvv *v, uint32_t to, uint32_t from, int32_t bits) {
    for (uint32_t i = 0; i < v->length; i++) {
        hil_rvv_set(v, to, 4, i, hil_rvv_get(v, from, 4, i) >> bits);
    }
}

HIL_INLINE void hil_rvv_vadd_vv(struct hil_rvv *v, uint32_t to, uint32_t a, uint32_t b) {
    for (uint32_t i = 0; i < v->length; i++) {
        const uint32_t sum = (uint32_t)hil_rvv_get(v, a, 4, i) + (uint32_t)hil_rvv_get(v, b, 4, i);
        hil_rvv_set(v, to, 4, i, (int32_t)sum);
    }
}

HIL_INLINE void hil_rvv_vadd_vi(struct hil_rvv *v, uint32_t to, uint32_t from, int32_t value) {
    for (uint32_t i = 0; i < v->length; i++) {
        const uint32_t sum = (uint32_t)hil_rvv_get(v, from, 4, i) + (uint32_t)value;
        hil_rvv_set(v, to, 4, i, (int32_t)sum);
    }
}

HIL_INLINE void hil_rvv_vadd_vx(struct hil_rvv *v, uint32_t to, uint32_t from, uint32_t x) {
    for (uint32_t i = 0; i < v->length; i++) {
        const uint32_t value = (uint32_t)hil_rvv_get(v, from, v->bytes, i);
        hil_rvv_set(v, to, v->bytes, i, (int32_t)(value + x));
    }
}

HIL_INLINE void hil_rvv_vmul_vv(struct hil_rvv *v, uint32_t to, uint32_t a, uint32_t b) {
    for (uint32_t i = 0; i < v->length; i++) {
        const uint32_t left = (uint32_t)hil_rvv_get(v, a, 4, i);
        hil_rvv_set(v, to, 4, i, (int32_t)(left * (uint32_t)hil_rvv_get(v, b, 4, i)));
    }
}

HIL_INLINE void hil_rvv_vmulhsu_vx(struct hil_rvv *v, uint32_t to, uint32_t from, uint32_t x) {
    for (uint32_t i = 0; i < v->length; i++) {
        const uint32_t upper = hil_riscv_mulhsu((uint32_t)hil_rvv_get(v, from, 4, i), x);
        hil_rvv_set(v, to, 4, i, (int32_t)upper);
    }
}

HIL_INLINE void hil_rvv_vmulhsu_vv(struct hil_rvv *v, uint32_t to, uint32_t a, uint32_t b) {
    for (uint32_t i = 0; i < v->length; i++) {
        const uint32_t upper =
            hil_riscv_mulhsu((uint32_t)hil_rvv_get(v, a, 4, i), (uint32_t)hil_rvv_get(v, b, 4, i));
        hil_rvv_set(v, to, 4, i, (int32_t)upper);
    }
}

/* Values of twice `bytes`, shifted and rounded down, that saturate in `bytes`. */
HIL_INLINE void hil_rvv_vnclip_wi(struct hil_rvv *v, uint32_t bytes, uint32_t to, uint32_t from,
                                  int32_t bits) {
    const int32_t most = bytes == 2U ? 32767 : 127;
    for (uint32_t i = 0; i < v->length; i++) {
        const int32_t value = hil_rvv_get(v, from, 2U * bytes, i) >> bits;
        const int32_t low = value < -most - 1 ? -most - 1 : value;
        hil_rvv_set(v, to, bytes, i, low > most ? most : low);
    }
}

/* Of elements of the selected size. */
HIL_INLINE void hil_rvv_vmax_vv(struct hil_rvv *v, uint32_t to, uint32_t a, uint32_t b) {
    for (uint32_t i = 0; i < v->length; i++) {
        const int32_t left = hil_rvv_get(v, a, v->bytes, i);
        const int32_t right = hil_rvv_get(v, b, v->bytes, i);
        hil_rvv_set(v, to, v->bytes, i, left > right ? left : right);
    }
}

HIL_INLINE void hil_rvv_vmax_vx(struct hil_rvv *v, uint32_t to, uint32_t from, uint32_t x) {
    for (uint32_t i = 0; i < v->length; i++) {
        const int32_t value = hil_rvv_get(v, from, v->bytes, i);
        hil_rvv_set(v, to, v->bytes, i, value > (int32_t)x ? value : (int32_t)x);
    }
}

HIL_INLINE void hil_rvv_vmin_vx(struct hil_rvv *v, uint32_t to, uint32_t from, uint32_t x) {
    for (uint32_t i = 0; i < v->length; i++) {
        const int32_t value = hil_rvv_get(v, from, v->bytes, i);
        hil_rvv_set(v, to, v->bytes, i, value < (int32_t)x ? value : (int32_t)x);
    }
}

#endif
