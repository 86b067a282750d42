/* Copies and fills of many bytes. The libraries for microcontrollers are built for size: picolibc
 * takes five instructions for a byte that it copies, newlib-nano four where one of the ends is not
 * at a multiple of four. Here words are moved wherever the core can load and store them, or
 * vectors.
 */
#ifndef HIL_COPY_H
#define HIL_COPY_H

#include <stdint.h>
#include <string.h>

#include "hil/quant.h"

#if defined(__riscv) && (defined(__riscv_zve32x) || defined(HIL_ZVE32X))

#define HIL_COPY_OWN
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

#elif defined(__ARM_FEATURE_MVE)

#define HIL_COPY_OWN

/* Each vector is read before it is written: the place may begin below the source. */
__attribute__((noinline, unused)) static void hil_copy_blocks(uint8_t *to, const uint8_t *from,
                                                              uint32_t bytes) {
    __asm__ volatile("wlstp.8 lr, %2, 2f\n"
                     "1:\n"
                     "vldrb.8 q0, [%1], #16\n"
                     "vstrb.8 q0, [%0], #16\n"
                     "letp lr, 1b\n"
                     "2:\n"
                     : "+r"(to), "+r"(from)
                     : "r"(bytes)
                     : "q0", "lr", "memory");
}

__attribute__((noinline, unused)) static void hil_fill_blocks(uint8_t *to, int32_t value,
                                                              uint32_t bytes) {
    __asm__ volatile("vdup.8 q0, %1\n"
                     "wlstp.8 lr, %2, 2f\n"
                     "1:\n"
                     "vstrb.8 q0, [%0], #16\n"
                     "letp lr, 1b\n"
                     "2:\n"
                     : "+r"(to)
                     : "r"(value), "r"(bytes)
                     : "q0", "lr", "memory");
}

#elif defined(__riscv) ||                                                                          \
    (defined(__arm__) && defined(__ARM_ARCH_PROFILE) && __ARM_ARCH_PROFILE == 'M')

#define HIL_COPY_OWN
#if defined(__ARM_FEATURE_UNALIGNED)
#define HIL_COPY_WORD(at) (at)
#else
#define HIL_COPY_WORD(at) __builtin_assume_aligned(at, 4)
#endif

HIL_INLINE uint32_t hil_copy_load(const uint8_t *from) {
    uint32_t word;
    memcpy(&word, HIL_COPY_WORD(from), sizeof word);
    return word;
}

HIL_INLINE void hil_copy_store(uint8_t *to, uint32_t word) {
    memcpy(HIL_COPY_WORD(to), &word, sizeof word);
}

/* Bytes before the first word that can be moved: 4 if none can. */
HIL_INLINE uint32_t hil_copy_before(const uint8_t *to, const uint8_t *from) {
#if defined(__ARM_FEATURE_UNALIGNED)
    (void)to;
    (void)from;
    return 0U;
#else
    return (((uintptr_t)to ^ (uintptr_t)from) & 3U) == 0U ? -(uintptr_t)to & 3U : 4U;
#endif
}

/* All of a block is read before any of it is written: the place may begin below the source. */
__attribute__((noinline, unused)) static void hil_copy_blocks(uint8_t *to, const uint8_t *from,
                                                              uint32_t bytes) {
    uint32_t before = hil_copy_before(to, from);
    if (before < 4U) {
        for (; bytes != 0U && before != 0U; bytes--) {
            *to++ = *from++;
            before--;
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
    for (uint32_t before = hil_copy_before(to, to); bytes != 0U && before != 0U; bytes--) {
        *to++ = (uint8_t)value;
        before--;
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

/* hil_move_at_once() moves blocks of constant size, of at most so many bytes: all of them are read
 * before any is written, so that the place may overlap the source. The last word or vector may
 * overlap the one before it. */
#if defined(__ARM_FEATURE_MVE)
#define HIL_COPY_AT_ONCE 32
#elif defined(__ARM_FEATURE_UNALIGNED) && defined(HIL_COPY_OWN)
#define HIL_COPY_AT_ONCE 16
#else
#define HIL_COPY_AT_ONCE 8
#endif

#if defined(__ARM_FEATURE_UNALIGNED) && defined(HIL_COPY_OWN)
HIL_INLINE uint32_t hil_copy_word(const uint8_t *from) {
    uint32_t word;
    memcpy(&word, from, sizeof word);
    return word;
}
#endif

HIL_INLINE void hil_move_at_once(uint8_t *to, const uint8_t *from, int32_t bytes) {
#if defined(__ARM_FEATURE_MVE)
    if (bytes >= 16) {
        __asm__ volatile("vldrb.8 q0, [%1]\n"
                         "vldrb.8 q1, [%1, %2]\n"
                         "vstrb.8 q0, [%0]\n"
                         "vstrb.8 q1, [%0, %2]\n"
                         :
                         : "r"(to), "r"(from), "i"(bytes - 16)
                         : "q0", "q1", "memory");
        return;
    }
#endif
#if defined(__ARM_FEATURE_UNALIGNED) && defined(HIL_COPY_OWN)
    if (bytes > 4) {
        uint32_t words[4];
        for (int32_t at = 0; 4 * at < bytes; at++) {
            words[at] = hil_copy_word(from + (4 * at > bytes - 4 ? bytes - 4 : 4 * at));
        }
        for (int32_t at = 0; 4 * at < bytes; at++) {
            memcpy(to + (4 * at > bytes - 4 ? bytes - 4 : 4 * at), &words[at], sizeof words[at]);
        }
        return;
    }
#endif
    memmove(to, from, (size_t)bytes);
}

/* Whether hil_copy() is right where the place begins so many bytes above the source, modulo 2^32.
 */
HIL_INLINE int hil_copies(uintptr_t above, uintptr_t bytes) {
#if defined(HIL_COPY_OWN)
    return above >= bytes;
#else
    return above >= bytes && -above >= bytes;
#endif
}

HIL_INLINE void hil_copy(void *to, const void *from, int32_t bytes) {
#if defined(HIL_COPY_OWN)
    if (!__builtin_constant_p(bytes) || bytes > 8) {
        hil_copy_blocks((uint8_t *)to, (const uint8_t *)from, (uint32_t)bytes);
        return;
    }
#endif
    memcpy(to, from, (size_t)bytes);
}

HIL_INLINE void hil_fill(void *to, int32_t value, int32_t bytes) {
#if defined(HIL_COPY_OWN)
    if (!__builtin_constant_p(bytes) || bytes > 8) {
        hil_fill_blocks((uint8_t *)to, value, (uint32_t)bytes);
        return;
    }
#endif
    memset(to, (int)value, (size_t)bytes);
}

#endif
