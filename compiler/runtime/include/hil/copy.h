/* Copies and fills of many bytes. The library of RISC-V (picolibc, for size) takes five
 * instructions for a byte that it copies, four for one that it fills. Here words are moved where
 * both ends allow it, or groups of vector registers.
 */
#ifndef HIL_COPY_H
#define HIL_COPY_H

#include <stdint.h>
#include <string.h>

#include "hil/quant.h"

#if defined(__riscv) && (defined(__riscv_zve32x) || defined(HIL_ZVE32X))

/* gcc 12 has no vector registers, so it knows none that these functions change. */
#if defined(__riscv_vector)
#define HIL_COPY_CLOBBERS "memory", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7"
#else
#define HIL_COPY_CLOBBERS "memory"
#endif
#define HIL_COPY_VECTORS(instructions)                                                             \
    ".option push\n\t.option arch, +zve32x\n\t" instructions "\n\t.option pop"

__attribute__((noinline, unused)) static void hil_copy_blocks(uint8_t *to, const uint8_t *from,
                                                              uint32_t bytes) {
    while (bytes != 0U) {
        uint32_t length;
        __asm__ volatile(HIL_COPY_VECTORS("vsetvli %0, %3, e8, m8, ta, ma\n\t"
                                          "vle8.v v0, (%2)\n\t"
                                          "vse8.v v0, (%1)")
                         : "=&r"(length)
                         : "r"(to), "r"(from), "r"(bytes)
                         : HIL_COPY_CLOBBERS);
        to += length;
        from += length;
        bytes -= length;
    }
}

__attribute__((noinline, unused)) static void hil_fill_blocks(uint8_t *to, int32_t value,
                                                              uint32_t bytes) {
    while (bytes != 0U) {
        uint32_t length;
        __asm__ volatile(HIL_COPY_VECTORS("vsetvli %0, %3, e8, m8, ta, ma\n\t"
                                          "vmv.v.x v0, %2\n\t"
                                          "vse8.v v0, (%1)")
                         : "=&r"(length)
                         : "r"(to), "r"(value), "r"(bytes)
                         : HIL_COPY_CLOBBERS);
        to += length;
        bytes -= length;
    }
}

#elif defined(__riscv)

HIL_INLINE uint32_t hil_copy_load(const uint8_t *from) {
    uint32_t word;
    memcpy(&word, __builtin_assume_aligned(from, 4), sizeof word);
    return word;
}

HIL_INLINE void hil_copy_store(uint8_t *to, uint32_t word) {
    memcpy(__builtin_assume_aligned(to, 4), &word, sizeof word);
}

/* All of a block is read before any of it is written: the place may begin below the source. */
__attribute__((noinline, unused)) static void hil_copy_blocks(uint8_t *to, const uint8_t *from,
                                                              uint32_t bytes) {
    if ((((uintptr_t)to ^ (uintptr_t)from) & 3U) == 0U) {
        for (; bytes != 0U && ((uintptr_t)to & 3U) != 0U; bytes--) {
            *to++ = *from++;
        }
        for (; bytes >= 16U; bytes -= 16U) {
            const uint32_t a = hil_copy_load(from);
            const uint32_t b = hil_copy_load(from + 4);
            const uint32_t c = hil_copy_load(from + 8);
            const uint32_t d = hil_copy_load(from + 12);
            hil_copy_store(to, a);
            hil_copy_store(to + 4, b);
            hil_copy_store(to + 8, c);
            hil_copy_store(to + 12, d);
            to += 16;
            from += 16;
        }
        for (; bytes >= 4U; bytes -= 4U) {
            hil_copy_store(to, hil_copy_load(from));
            to += 4;
            from += 4;
        }
    }
    for (; bytes >= 4U; bytes -= 4U) {
        const uint8_t a = from[0];
        const uint8_t b = from[1];
        const uint8_t c = from[2];
        const uint8_t d = from[3];
        to[0] = a;
        to[1] = b;
        to[2] = c;
        to[3] = d;
        to += 4;
        from += 4;
    }
    for (; bytes != 0U; bytes--) {
        *to++ = *from++;
    }
}

__attribute__((noinline, unused)) static void hil_fill_blocks(uint8_t *to, int32_t value,
                                                              uint32_t bytes) {
    const uint32_t word = ((uint32_t)value & 0xffU) * 0x01010101U;
    for (; bytes != 0U && ((uintptr_t)to & 3U) != 0U; bytes--) {
        *to++ = (uint8_t)value;
    }
    for (; bytes >= 16U; bytes -= 16U) {
        hil_copy_store(to, word);
        hil_copy_store(to + 4, word);
        hil_copy_store(to + 8, word);
        hil_copy_store(to + 12, word);
        to += 16;
    }
    for (; bytes != 0U; bytes--) {
        /* gcc would take the loop for memset. */
        __asm__ volatile("" ::: "memory");
        *to++ = (uint8_t)value;
    }
}

#endif

/* Whether hil_copy() is right where the place begins so many bytes above the source, modulo 2^32.
 */
HIL_INLINE int hil_copies(uintptr_t above, uintptr_t bytes) {
#if defined(__riscv)
    return above >= bytes;
#else
    return above >= bytes && -above >= bytes;
#endif
}

HIL_INLINE void hil_copy(void *to, const void *from, int32_t bytes) {
#if defined(__riscv)
    if (!__builtin_constant_p(bytes) || bytes > 8) {
        hil_copy_blocks((uint8_t *)to, (const uint8_t *)from, (uint32_t)bytes);
        return;
    }
#endif
    memcpy(to, from, (size_t)bytes);
}

HIL_INLINE void hil_fill(void *to, int32_t value, int32_t bytes) {
#if defined(__riscv)
    if (!__builtin_constant_p(bytes) || bytes > 8) {
        hil_fill_blocks((uint8_t *)to, value, (uint32_t)bytes);
        return;
    }
#endif
    memset(to, (int)value, (size_t)bytes);
}

#endif
