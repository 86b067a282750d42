/* The instructions on pairs of half-words that Armv7E-M and Armv8-M with the DSP extension have,
 * and the same in C for every other core, so that kernels built on them run in tests on the host.
 *
 * Blocks in inline assembly are for the core alone, and need a compiler that optimises: without,
 * they run out of registers. HIL_DSP_ASSEMBLY says whether a kernel may use them. */
#ifndef HIL_DSP_H
#define HIL_DSP_H

#include <stdint.h>
#include <string.h>

#include "hil/quant.h"

#if defined(__ARM_FEATURE_SIMD32) && defined(__thumb2__)
#define HIL_DSP_CORE 1
#else
#define HIL_DSP_CORE 0
#endif

/* The blocks in assembly take nearly every register there is. Each operand has one by name, since
 * gcc, left to choose, finds none on some cores at some levels; no name is r7, in which a frame may
 * be kept. Without optimization, or for clang, there are the same loops in C. */
#if HIL_DSP_CORE && defined(__OPTIMIZE__) && !defined(__clang__)
#define HIL_DSP_ASSEMBLY 1
#else
#define HIL_DSP_ASSEMBLY 0
#endif

/* The four bytes at any address, the first in the lowest bits. */
HIL_INLINE uint32_t hil_dsp_load(const void *from) {
#if HIL_DSP_CORE
    uint32_t word;
    memcpy(&word, from, sizeof word);
    return word;
#else
    const uint8_t *const bytes = (const uint8_t *)from;
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
           (uint32_t)bytes[3] << 24;
#endif
}

/* The first `count` of four bytes, 1 to 3; zeros for the others. */
HIL_INLINE uint32_t hil_dsp_load_part(const int8_t *from, int32_t count) {
    uint32_t word = (uint8_t)from[0];
    if (count > 1) {
        word |= (uint32_t)(uint8_t)from[1] << 8;
    }
    if (count > 2) {
        word |= (uint32_t)(uint8_t)from[2] << 16;
    }
    return word;
}

/* A word of what else may lie there. */
typedef uint32_t __attribute__((may_alias)) hil_dsp_word;

/* Stores two words where words are aligned. */
HIL_INLINE void hil_dsp_store_two(uint32_t first, uint32_t second, void *to) {
#if HIL_DSP_ASSEMBLY
    /* The compiler stores them one by one. Distances that strd can hold are those of the FPU's. */
    hil_dsp_word *const words = (hil_dsp_word *)to;
    __asm__("strd %2, %3, %0" : "=Uv"(words[0]), "=m"(words[1]) : "r"(first), "r"(second));
#else
    const uint32_t pairs[2] = {first, second};
    memcpy(to, pairs, sizeof pairs);
#endif
}

/* The same, and where the next ones go. */
HIL_INLINE uint32_t *hil_dsp_store_next(uint32_t first, uint32_t second, uint32_t *to) {
#if HIL_DSP_ASSEMBLY
    __asm__ volatile("strd %1, %2, [%0], #8" : "+r"(to) : "r"(first), "r"(second) : "memory");
    return to;
#else
    hil_dsp_store_two(first, second, to);
    return to + 2;
#endif
}

/* A half-word among words: stored as such, read with its neighbour as a word. */
typedef int16_t __attribute__((may_alias)) hil_dsp_half;

/* A word from its half-words. */
HIL_INLINE uint32_t hil_dsp_pair(int32_t low, int32_t high) {
    return ((uint32_t)low & 0xffffU) | (uint32_t)high << 16;
}

/* The half-words of a pair. */
HIL_INLINE int32_t hil_dsp_low(uint32_t pair) { return (int16_t)(pair & 0xffffU); }

HIL_INLINE int32_t hil_dsp_high(uint32_t pair) { return (int16_t)(pair >> 16); }

/* A function of one or two words that is an instruction, and a formula for cores without it. */
#if HIL_DSP_CORE
#define HIL_DSP_OF_WORD(name, instruction, formula)                                                \
    HIL_INLINE uint32_t name(uint32_t a) {                                                         \
        uint32_t result;                                                                           \
        __asm__(instruction : "=r"(result) : "r"(a));                                              \
        return result;                                                                             \
    }
#define HIL_DSP_OF_WORDS(name, instruction, formula)                                               \
    HIL_INLINE uint32_t name(uint32_t a, uint32_t b) {                                             \
        uint32_t result;                                                                           \
        __asm__(instruction : "=r"(result) : "r"(a), "r"(b));                                      \
        return result;                                                                             \
    }
#else
#define HIL_DSP_OF_WORD(name, instruction, formula)                                                \
    HIL_INLINE uint32_t name(uint32_t a) { return formula; }
#define HIL_DSP_OF_WORDS(name, instruction, formula)                                               \
    HIL_INLINE uint32_t name(uint32_t a, uint32_t b) { return formula; }
#endif

/* Bytes 0 and 2 of a word, and bytes 1 and 3, as signed half-words. */
HIL_DSP_OF_WORD(hil_dsp_even, "sxtb16 %0, %1",
                hil_dsp_pair((int8_t)(a & 0xffU), (int8_t)(a >> 16 & 0xffU)))
HIL_DSP_OF_WORD(hil_dsp_odd, "sxtb16 %0, %1, ror #8",
                hil_dsp_pair((int8_t)(a >> 8 & 0xffU), (int8_t)(a >> 24)))

/* The half-words of two pairs added up, and those of the first less those of the second, modulo
 * 2^16. */
HIL_DSP_OF_WORDS(hil_dsp_add_pairs, "sadd16 %0, %1, %2",
                 ((a + b) & 0xffffU) | ((a >> 16) + (b >> 16)) << 16)
HIL_DSP_OF_WORDS(hil_dsp_sub_pairs, "ssub16 %0, %1, %2",
                 ((a - b) & 0xffffU) | ((a >> 16) - (b >> 16)) << 16)

/* The half-words of two pairs added up, saturated. */
HIL_DSP_OF_WORDS(hil_dsp_add_saturated, "qadd16 %0, %1, %2",
                 hil_dsp_pair(hil_saturate_s16(hil_dsp_low(a) + hil_dsp_low(b)),
                              hil_saturate_s16(hil_dsp_high(a) + hil_dsp_high(b))))

/* The half-words of a pair plus bytes 0 and 2 of a word, and plus bytes 1 and 3, modulo 2^16. */
HIL_DSP_OF_WORDS(hil_dsp_add_even, "sxtab16 %0, %1, %2", hil_dsp_add_pairs(a, hil_dsp_even(b)))
HIL_DSP_OF_WORDS(hil_dsp_add_odd, "sxtab16 %0, %1, %2, ror #8",
                 hil_dsp_add_pairs(a, hil_dsp_odd(b)))

/* The lower half-words of two words, and the upper ones. */
HIL_DSP_OF_WORDS(hil_dsp_lows, "pkhbt %0, %1, %2, lsl #16", (a & 0xffffU) | b << 16)
HIL_DSP_OF_WORDS(hil_dsp_highs, "pkhtb %0, %2, %1, asr #16", a >> 16 | (b & 0xffff0000U))

#undef HIL_DSP_OF_WORDS
#undef HIL_DSP_OF_WORD

/* The larger one of each two signed bytes of words, or of signed half-words. */
#if HIL_DSP_CORE
#define HIL_DSP_MOST(name, subtraction, formula)                                                   \
    HIL_INLINE uint32_t name(uint32_t a, uint32_t b) {                                             \
        uint32_t difference;                                                                       \
        /* The signs of the differences are flags, which select. */                                \
        __asm__(subtraction " %1, %0, %2\n\tsel %0, %0, %2"                                        \
                : "+r"(a), "=&r"(difference)                                                       \
                : "r"(b)                                                                           \
                : "cc");                                                                           \
        return a;                                                                                  \
    }
#else
#define HIL_DSP_MOST(name, subtraction, formula)                                                   \
    HIL_INLINE uint32_t name(uint32_t a, uint32_t b) { return formula; }
#endif

HIL_INLINE uint32_t hil_dsp_greater_half(uint32_t a, uint32_t b) {
    const uint32_t low = hil_dsp_low(a) < hil_dsp_low(b) ? b : a;
    const uint32_t high = hil_dsp_high(a) < hil_dsp_high(b) ? b : a;
    return (low & 0xffffU) | (high & 0xffff0000U);
}

HIL_DSP_MOST(hil_dsp_most_halves, "ssub16", hil_dsp_greater_half(a, b))
/* Bytes in the upper halves of half-words, whose lower halves are 0, compare as these do. */
HIL_DSP_MOST(hil_dsp_most_bytes, "ssub8",
             hil_dsp_greater_half(a & 0xff00ff00U, b & 0xff00ff00U) |
                 hil_dsp_greater_half(a << 8 & 0xff00ff00U, b << 8 & 0xff00ff00U) >> 8)

#undef HIL_DSP_MOST

/* sum + a.low * b.low + a.high * b.high, modulo 2^32. */
HIL_INLINE uint32_t hil_dsp_dual(uint32_t a, uint32_t b, uint32_t sum) {
#if HIL_DSP_CORE
    uint32_t total;
    __asm__("smlad %0, %1, %2, %3" : "=r"(total) : "r"(a), "r"(b), "r"(sum));
    return total;
#else
    return sum + (uint32_t)(hil_dsp_low(a) * hil_dsp_low(b)) +
           (uint32_t)(hil_dsp_high(a) * hil_dsp_high(b));
#endif
}

/* A constant that the compiler does not know. */
HIL_INLINE int32_t hil_dsp_kept(int32_t constant) {
#if HIL_DSP_CORE
    __asm__("" : "+r"(constant));
#endif
    return constant;
}

/* addend plus the product of two half-words: the lower ones, the upper ones, and the upper one of
 * a. */
HIL_INLINE int32_t hil_dsp_low_low_add(uint32_t a, uint32_t b, int32_t addend) {
#if HIL_DSP_CORE
    int32_t total;
    __asm__("smlabb %0, %1, %2, %3" : "=r"(total) : "r"(a), "r"(b), "r"(addend));
    return total;
#else
    return addend + hil_dsp_low(a) * hil_dsp_low(b);
#endif
}

HIL_INLINE int32_t hil_dsp_high_high_add(uint32_t a, uint32_t b, int32_t addend) {
#if HIL_DSP_CORE
    int32_t total;
    __asm__("smlatt %0, %1, %2, %3" : "=r"(total) : "r"(a), "r"(b), "r"(addend));
    return total;
#else
    return addend + hil_dsp_high(a) * hil_dsp_high(b);
#endif
}

HIL_INLINE int32_t hil_dsp_high_low_add(uint32_t a, uint32_t b, int32_t addend) {
#if HIL_DSP_CORE
    int32_t total;
    __asm__("smlatb %0, %1, %2, %3" : "=r"(total) : "r"(a), "r"(b), "r"(addend));
    return total;
#else
    return addend + hil_dsp_high(a) * hil_dsp_low(b);
#endif
}

/* A word whose `bits` bits from `at` on are the lowest ones of a value, all others unchanged. */
HIL_INLINE uint32_t hil_dsp_insert(uint32_t word, int32_t value, int at, int bits) {
#if HIL_DSP_ASSEMBLY
    __asm__("bfi %0, %1, %2, %3" : "+r"(word) : "r"(value), "i"(at), "i"(bits));
    return word;
#else
    const uint32_t mask = ((UINT32_C(1) << bits) - 1) << at;
    return (word & ~mask) | ((uint32_t)value << at & mask);
#endif
}

/* addend less one where x is negative. */
HIL_INLINE int32_t hil_dsp_less_sign(int32_t addend, int32_t x) {
#if HIL_DSP_CORE
    /* What the compiler makes of the sum of a sum's sign is longer. */
    int32_t total;
    __asm__("add %0, %1, %2, asr #31" : "=r"(total) : "r"(addend), "r"(x));
    return total;
#else
    return addend - (x < 0 ? 1 : 0);
#endif
}

/* addend + a * b / 2^32, rounded half up. */
HIL_INLINE int32_t hil_dsp_high_mul_add(int32_t a, int32_t b, int32_t addend) {
#if HIL_DSP_CORE
    int32_t total;
    __asm__("smmlar %0, %1, %2, %3" : "=r"(total) : "r"(a), "r"(b), "r"(addend));
    return total;
#else
    return addend + (int32_t)(((int64_t)a * b + (INT64_C(1) << 31)) >> 32);
#endif
}

/* addend + a * b / 2^32, rounded down. */
HIL_INLINE int32_t hil_dsp_high_mul_add_down(int32_t a, int32_t b, int32_t addend) {
#if HIL_DSP_CORE
    int32_t total;
    __asm__("smmla %0, %1, %2, %3" : "=r"(total) : "r"(a), "r"(b), "r"(addend));
    return total;
#else
    return addend + (int32_t)((int64_t)a * b >> 32);
#endif
}

/* addend - a * b / 2^32, rounded half up: of minus the product. */
HIL_INLINE int32_t hil_dsp_high_mul_sub(int32_t a, int32_t b, int32_t addend) {
#if HIL_DSP_CORE
    int32_t total;
    __asm__("smmlsr %0, %1, %2, %3" : "=r"(total) : "r"(a), "r"(b), "r"(addend));
    return total;
#else
    return addend + (int32_t)(((INT64_C(1) << 31) - (int64_t)a * b) >> 32);
#endif
}

/* hil_requantize(x, multiplier, -1 - shift) + zero point, clamped to [low, high], from 2 * x for
 * |x| < 2^29, 0 <= shift < 23 and `rounding` = (2 * zero point + 1) * 2^shift.
 *
 * The rounded product of 2 * x has the weight of the doubling high multiply; half a unit of the
 * result and the zero point are added in the same instruction. The second rounding is away from
 * zero, which takes one from negative products: nothing is lost where it also takes one from those
 * that the first rounding made 0. A result that may not be below the zero point needs no such
 * correction, since what it would change is clamped. */
HIL_INLINE int8_t hil_dsp_requantize(int32_t twice, int32_t multiplier, int32_t shift,
                                     int32_t rounding, int32_t zero_point, int32_t low,
                                     int32_t high) {
    const int32_t addend = low >= zero_point ? rounding : rounding - (twice < 0 ? 1 : 0);
    const int32_t scaled = hil_dsp_high_mul_add(twice, multiplier, addend);
    return hil_clamp_s8(scaled >> (shift + 1), low, high);
}

/* hil_requantize(x, multiplier, shift) from 2 * x, for |x| < 2^30 and -29 <= shift <= 0, or larger
 * shifts by which x stays below 2^30. As above, with nothing to clamp. */
HIL_INLINE int32_t hil_dsp_requantized(int32_t twice, int32_t multiplier, int32_t shift) {
    if (shift >= 0) {
        return hil_dsp_high_mul_add((int32_t)((uint32_t)twice << shift), multiplier, 0);
    }
    const int32_t half = INT32_C(1) << (-shift - 1);
    return hil_dsp_high_mul_add(twice, multiplier, hil_dsp_less_sign(half, twice)) >> -shift;
}

/* How an output follows from a sum: addend + sum * multiplier / 2^32, rounded down, then as much to
 * the right as a layer's shift says, rounded down, then saturated. Multiplier and addend are such
 * that this is the double rounding of hil_requantize for every sum that there is: the compiler
 * proves it for each channel. */
struct hil_dsp_affine {
    int32_t multiplier;
    int32_t addend;
};

HIL_INLINE int8_t hil_dsp_scaled_to(int32_t sum, struct hil_dsp_affine scale, int32_t shift,
                                    int32_t low, int32_t high) {
    const int32_t scaled = hil_dsp_high_mul_add_down(sum, scale.multiplier, scale.addend);
    return hil_clamp_s8(scaled >> shift, low, high);
}

HIL_INLINE int8_t hil_dsp_scaled(int32_t sum, struct hil_dsp_affine scale, int32_t shift) {
    return hil_dsp_scaled_to(sum, scale, shift, INT8_MIN, INT8_MAX);
}

#endif
