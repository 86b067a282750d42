/* Quantized arithmetic, stated once; compiler/hilc/numerics/requantize.py is its twin in Python and
 * holds the explanation. Both are tested on tests/vectors/quant.json. */
#ifndef HIL_QUANT_H
#define HIL_QUANT_H

#include <stdint.h>

/* Kernels take several elements of a tensor at once out of words. */
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the kernels are for little-endian cores"
#endif

/* Whatever flags a project compiles with, results are those of the reference. gcc 12 takes the
 * address of an array that a loop walks from another array for an access to address 0, behind which
 * nothing runs, and leaves out calls of functions with such a loop. Where the core multiplies and
 * adds floats in one instruction, the GNU dialects of C and clang round a product and its sum once
 * (the kernels for Helium ask for that by name), and fast math adds up in any order. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-delete-null-pointer-checks", "fp-contract=off", "no-fast-math")
#else
#pragma STDC FP_CONTRACT OFF
#endif

/* Blocks in assembly take every register, and where functions keep a frame pointer gcc has one
 * less: it refuses a block then, or looks for a register for ever. For Thumb without Thumb-2 any
 * such pragma turns on the scheduling that gcc leaves out there for want of registers. */
#if defined(__thumb__) && !defined(__clang__)
#if defined(__OPTIMIZE__)
#pragma GCC optimize("omit-frame-pointer")
#endif
#if !defined(__thumb2__)
#pragma GCC optimize("no-schedule-insns")
#endif
#endif

#define HIL_INLINE static inline __attribute__((always_inline))
/* The same with a block in assembly that takes nearly all registers: gcc, which has too few for it
 * without optimization, then compiles the function as if it had been asked for some. */
#if defined(__OPTIMIZE__) || !defined(__GNUC__) || defined(__clang__)
#define HIL_INLINE_BLOCK HIL_INLINE
#else
#define HIL_INLINE_BLOCK static __attribute__((noinline, unused, optimize("O1")))
#endif

/* round(a * b / 2^31), half up. (gemmlowp adds a nudge of the product's sign and truncates towards
 * zero, which is the same number.) The one overflow, INT32_MIN squared, saturates; no kernel's
 * multiplier is negative, so callers whose multiplier is a constant never pay for the test. */
HIL_INLINE int32_t hil_doubling_high_mul(int32_t a, int32_t b) {
    if (a == INT32_MIN && b == INT32_MIN) {
        return INT32_MAX;
    }
    return (int32_t)(((int64_t)a * b + (INT64_C(1) << 30)) >> 31);
}

/* x / 2^exponent, half away from zero; 0 <= exponent <= 31. */
HIL_INLINE int32_t hil_rounding_divide_by_pot(int32_t x, int exponent) {
    const int32_t mask = (int32_t)((INT64_C(1) << exponent) - 1);
    const int32_t remainder = x & mask;
    const int32_t threshold = (mask >> 1) + (x < 0 ? 1 : 0);
    return (x >> exponent) + (remainder > threshold ? 1 : 0);
}

/* x * multiplier * 2^(shift - 31), rounded twice; multiplier >= 0, -31 <= shift <= 30. */
HIL_INLINE int32_t hil_requantize(int32_t x, int32_t multiplier, int shift) {
    const int left = shift > 0 ? shift : 0;
    const int right = shift > 0 ? 0 : -shift;
    const int32_t shifted = (int32_t)((uint32_t)x << left);
    const int64_t product = (int64_t)shifted * multiplier;
    return hil_rounding_divide_by_pot((int32_t)((product + (INT64_C(1) << 30)) >> 31), right);
}

/* The same where no instruction multiplies to 64 bits, by halves: none of the parts leaves 32 bits.
 */
HIL_INLINE int32_t hil_requantize_halves(int32_t x, int32_t multiplier, int shift) {
    const int32_t shifted = (int32_t)((uint32_t)x << (shift > 0 ? shift : 0));
    const int32_t upper = shifted >> 16;
    const uint32_t lower = (uint32_t)shifted & 0xffffU;
    const int32_t by_upper = multiplier >> 16;
    const uint32_t by_lower = (uint32_t)multiplier & 0xffffU;
    const int32_t one = upper * (int32_t)by_lower + (int32_t)(lower * by_lower >> 16);
    const uint32_t other = lower * (uint32_t)by_upper + ((uint32_t)one & 0xffffU);
    const int32_t word = upper * by_upper + (one >> 16) + (int32_t)(other >> 16);
    const int32_t rounded = 2 * word + (int32_t)(((other & 0xffffU) + 0x4000U) >> 15);
    return hil_rounding_divide_by_pot(rounded, shift > 0 ? 0 : -shift);
}

/* hil_requantize(x, multiplier, shift) + addend where |x| < 2^30 and shift < 0, which holds for
 * nearly every layer and which the compiler checks for each. Doubling x first puts the rounded
 * product into the upper word, and a shift that stops one bit short rounds by adding one, so that
 * no constant depends on the shift: seven instructions on Armv7-M. */
HIL_INLINE int32_t hil_requantize_narrow(int32_t x, int32_t multiplier, int shift, int32_t addend) {
    const int64_t product = (int64_t)(x * 2) * multiplier;
    const int32_t rounded = (int32_t)(product >> 32) + (int32_t)((uint32_t)product >> 31);
    const int32_t away_from_zero = rounded - (rounded < 0 ? 1 : 0);
    return ((away_from_zero >> (-1 - shift)) + (1 + 2 * addend)) >> 1;
}

/* x, or the end of 31 bits that it lies beyond: a zero point may be added to the result. */
HIL_INLINE int32_t hil_saturate_31(int64_t x) {
    const int32_t limit = INT32_C(1) << 30;
    return x < -limit ? -limit : (x > limit ? limit : (int32_t)x);
}

/* x * multiplier / 2^shift, rounded once, half up, as the references bring 64-bit sums to the scale
 * of an output: |x| < 2^47, 0 <= multiplier < 2^15, 8 <= shift <= 46. What leaves 32 bits wraps
 * around, there as well. */
HIL_INLINE int32_t hil_requantize_once(int64_t x, int32_t multiplier, int shift) {
    return (int32_t)((x * multiplier + (INT64_C(1) << (shift - 1))) >> shift);
}

/* x * multiplier * 2^(shift - 31), rounded once, half up, saturated to 31 bits; multiplier >= 0,
 * -31 <= shift <= 30. */
HIL_INLINE int32_t hil_requantize_half_up(int32_t x, int32_t multiplier, int shift) {
    const int64_t product = (int64_t)x * multiplier;
    const int64_t rounded = (product + (INT64_C(1) << (30 - shift))) >> (31 - shift);
    return hil_saturate_31(rounded);
}

/* hil_requantize_half_up(x, multiplier, shift) + addend where |x| < 2^30 and shift < 0. The product
 * of twice x rounded down and a shift that rounds half up are one rounding: what the first takes
 * off is less than a unit, and the half that is added is a whole number of units. */
HIL_INLINE int32_t hil_requantize_half_up_narrow(int32_t x, int32_t multiplier, int shift,
                                                 int32_t addend) {
    const int32_t product = (int32_t)((int64_t)(x * 2) * multiplier >> 32);
    return ((product >> (-1 - shift)) + (1 + 2 * addend)) >> 1;
}

/* (x * multiplier / 2^32 + addend) / 2^right, rounded down at each step: where the addend has half
 * a unit, a single rounding half up, and a zero point in units. The first sum stays within 32 bits,
 * which the compiler checks (`narrow_sums()`); 1 <= right <= 30. */
HIL_INLINE int32_t hil_requantize_shifted(int32_t x, int32_t multiplier, int32_t addend,
                                          int32_t right) {
    return ((int32_t)(((int64_t)x * multiplier) >> 32) + addend) >> right;
}

/* x * multiplier / 2^32, rounded down, where no instruction multiplies to 64 bits: by halves, of
 * which none of the parts leaves 32 bits; multiplier >= 0. */
HIL_INLINE int32_t hil_high_word_halves(int32_t x, int32_t multiplier) {
    const int32_t upper = x >> 16;
    const uint32_t lower = (uint32_t)x & 0xffffU;
    const int32_t by_upper = multiplier >> 16;
    const uint32_t by_lower = (uint32_t)multiplier & 0xffffU;
    const int32_t one = upper * (int32_t)by_lower + (int32_t)(lower * by_lower >> 16);
    const uint32_t other = lower * (uint32_t)by_upper + ((uint32_t)one & 0xffffU);
    return upper * by_upper + (one >> 16) + (int32_t)(other >> 16);
}

/* x / 2^right, ties to even, saturated to 31 bits; 1 <= right <= 62. Half a unit less the last
 * place is added, and that place where the number below is odd: then a tie goes up. */
HIL_INLINE int32_t hil_round_even(int64_t x, int right) {
    const int64_t below_half = (INT64_C(1) << (right - 1)) - 1;
    return hil_saturate_31((x + below_half + ((x >> right) & 1)) >> right);
}

/* x * multiplier * 2^(shift - 31), rounded once, ties to even, saturated to 31 bits. */
HIL_INLINE int32_t hil_requantize_even(int32_t x, int32_t multiplier, int shift) {
    return hil_round_even((int64_t)x * multiplier, 31 - shift);
}

/* The same of a sum of 64 bits: |x| < 2^47, -47 <= shift <= 7. The product has up to 78 bits, of
 * which the lowest sixteen, all behind the point, are only told from zeros. */
HIL_INLINE int32_t hil_requantize_wide_even(int64_t x, int32_t multiplier, int shift) {
    const uint64_t lower = (uint64_t)(uint32_t)x * (uint32_t)multiplier;
    const int64_t upper = (x >> 32) * multiplier + (int64_t)(lower >> 32);
    const uint32_t rest = (uint32_t)lower;
    const int64_t kept = upper * 65536 + (int64_t)(rest >> 16 | ((rest & 0xffffU) != 0 ? 1U : 0U));
    return hil_round_even(kept, 15 - shift);
}

/* How a kernel's sums are rounded; compiler/hilc/lowering/linear.py says which a layer may take.
 * The first two round twice, the others once, all but the last half up. */
#define HIL_ROUND_TWICE 0          /* hil_requantize */
#define HIL_ROUND_TWICE_NARROW 1   /* hil_requantize_narrow: |sum| < 2^30, shift < 0 */
#define HIL_ROUND_HALF_UP 2        /* hil_requantize_half_up */
#define HIL_ROUND_HALF_UP_NARROW 3 /* hil_requantize_half_up_narrow: |sum| < 2^30, shift < 0 */
#define HIL_ROUND_EVEN 4           /* hil_requantize_even */

/* The sum requantized as `rounding` says, plus addend. */
HIL_INLINE int32_t hil_requantize_by(int32_t rounding, int32_t sum, int32_t multiplier, int shift,
                                     int32_t addend) {
    switch (rounding) {
    case HIL_ROUND_TWICE_NARROW:
        return hil_requantize_narrow(sum, multiplier, shift, addend);
    case HIL_ROUND_HALF_UP:
        return hil_requantize_half_up(sum, multiplier, shift) + addend;
    case HIL_ROUND_HALF_UP_NARROW:
        return hil_requantize_half_up_narrow(sum, multiplier, shift, addend);
    case HIL_ROUND_EVEN:
        return hil_requantize_even(sum, multiplier, shift) + addend;
    default:
        return hil_requantize(sum, multiplier, shift) + addend;
    }
}

/* Clamp to a range within int8: the full range, which fused ReLU mostly leaves, is one instruction
 * where the core saturates. */
HIL_INLINE int8_t hil_clamp_s8(int32_t x, int32_t low, int32_t high) {
#ifdef __ARM_FEATURE_SAT
    /* What arm_acle.h calls __ssat, whose macro hides a conversion that -Wconversion reports. */
    x = (int32_t)__builtin_arm_ssat(x, 8);
#else
    x = x < INT8_MIN ? INT8_MIN : (x > INT8_MAX ? INT8_MAX : x);
#endif
    /* Where a bound is a constant and the end of the range, its test goes away. */
    x = low > INT8_MIN && x < low ? low : x;
    return (int8_t)(high < INT8_MAX && x > high ? high : x);
}

/* Clamp to int16, where the core saturates in one instruction. */
HIL_INLINE int32_t hil_saturate_s16(int32_t x) {
#ifdef __ARM_FEATURE_SAT
    return (int32_t)__builtin_arm_ssat(x, 16);
#else
    return x < INT16_MIN ? INT16_MIN : (x > INT16_MAX ? INT16_MAX : x);
#endif
}

/* The same to a range. */
HIL_INLINE int16_t hil_clamp_s16(int32_t x, int32_t low, int32_t high) {
    x = hil_saturate_s16(x);
    /* Where a bound is a constant and the end of the range, its test goes away. */
    x = low > INT16_MIN && x < low ? low : x;
    return (int16_t)(high < INT16_MAX && x > high ? high : x);
}

/* Clamp to 17 bits without a sign, likewise. */
HIL_INLINE int32_t hil_saturate_u17(int32_t x) {
#ifdef __ARM_FEATURE_SAT
    return (int32_t)__builtin_arm_usat(x, 17);
#else
    return x < 0 ? 0 : (x > 0x1ffff ? 0x1ffff : x);
#endif
}

HIL_INLINE int32_t hil_clamp(int32_t x, int32_t low, int32_t high) {
    return x < low ? low : (x > high ? high : x);
}

#endif
