/* Widens int8 rows to pairs of half-words, the form that smlad multiplies; rows lie word by word
 * next to each other.
 *
 * Tile: 3, 2 or 1 rows x 4 elements, a unit.
 *
 * Registers: r0 r1 r2 rows a, b, c; r3 where units go; r12 units left (or fours of them); r4 to r6
 * the loaded words, then x0|x2; r8 to r10 x1|x3 of the rows.
 *
 * Data: bytes b3 b2 b1 b0 of a word come out as sxtb16 = b2|b0 and, turned by 8, as b3|b1, so the
 * order of elements is 0, 2, 1, 3. A unit of g rows is 8g bytes:
 *
 *   +0 row a: x0 low, x2 high   +4 row b   +8 row c   +12 row a: x1 low, x3 high   +16 b   +20 c
 *
 * The last unit is filled up with zeros; weights are packed in the same order (`UNIT_ORDER`).
 *
 * Order: rows from first to last; nothing is read behind depth bytes of a row.
 *
 * Bounds: a sign-extended byte; nothing is added.
 *
 * Output: none is requantized here.
 *
 * Scratch: written, 8 bytes a unit and row.
 *
 * Cost: 10 instructions a unit of 3 rows (12 elements), 7 of 2 rows, and the loop's 2, for one unit
 * or four; 7 of two units of 1 row, 4 of a last one, and 2 for each four units.
 *
 * Tests: hil_dsp_widen_unit is the twin; every kernel of `dsp/` in tests/c/test_dsp_kernels.py
 * (host) and tests/board/test_kernels.py (assembly) has depths that are no multiple of 4.
 */
#ifndef HIL_KERNELS_DSP_WIDEN_H
#define HIL_KERNELS_DSP_WIDEN_H

#include "hil/dsp.h"
#include "hil/kernels/generic/fields.h"

HIL_INLINE void hil_dsp_widen_unit(uint32_t a, uint32_t b, uint32_t c, uint32_t *to) {
    to[0] = hil_dsp_even(a);
    to[1] = hil_dsp_even(b);
    to[2] = hil_dsp_even(c);
    to[3] = hil_dsp_odd(a);
    to[4] = hil_dsp_odd(b);
    to[5] = hil_dsp_odd(c);
}

#if HIL_DSP_ASSEMBLY

/* Four bytes at any address. */
struct hil_dsp_bytes {
    int8_t bytes[4];
};

/* clang-format off */

/* A unit of three rows: ten instructions. */
#define HIL_DSP_WIDEN_UNIT                                                                         \
    "ldr r4, [%[a]], #4\n\t"                                                                       \
    "ldr r5, [%[b]], #4\n\t"                                                                       \
    "ldr r6, [%[c]], #4\n\t"                                                                       \
    "sxtb16 r8, r4, ror #8\n\t"                                                                    \
    "sxtb16 r9, r5, ror #8\n\t"                                                                    \
    "sxtb16 r10, r6, ror #8\n\t"                                                                   \
    "sxtb16 r4, r4\n\t"                                                                            \
    "sxtb16 r5, r5\n\t"                                                                            \
    "sxtb16 r6, r6\n\t"                                                                            \
    "stmia %[to]!, {r4, r5, r6, r8, r9, r10}\n\t"

/* A unit of two rows: seven. */
#define HIL_DSP_WIDEN_TWO                                                                          \
    "ldr r4, [%[a]], #4\n\t"                                                                       \
    "ldr r5, [%[b]], #4\n\t"                                                                       \
    "sxtb16 r6, r4, ror #8\n\t"                                                                    \
    "sxtb16 r8, r5, ror #8\n\t"                                                                    \
    "sxtb16 r4, r4\n\t"                                                                            \
    "sxtb16 r5, r5\n\t"                                                                            \
    "stmia %[to]!, {r4, r5, r6, r8}\n\t"

/* A unit of a single row: four; two units: seven. */
#define HIL_DSP_WIDEN_ONE                                                                          \
    "ldr r4, [%[a]], #4\n\t"                                                                       \
    "sxtb16 r5, r4, ror #8\n\t"                                                                    \
    "sxtb16 r4, r4\n\t"                                                                            \
    "strd r4, r5, [%[to]], #8\n\t"
#define HIL_DSP_WIDEN_ONE_TWICE                                                                    \
    "ldr r4, [%[a]], #4\n\t"                                                                       \
    "ldr r6, [%[a]], #4\n\t"                                                                       \
    "sxtb16 r5, r4, ror #8\n\t"                                                                    \
    "sxtb16 r4, r4\n\t"                                                                            \
    "sxtb16 r8, r6, ror #8\n\t"                                                                    \
    "sxtb16 r6, r6\n\t"                                                                            \
    "stmia %[to]!, {r4, r5, r6, r8}\n\t"
#define HIL_DSP_WIDEN_ROW(body)                                                                    \
    __asm__ volatile(body                                                                          \
                     : [a] "+r"(from), [to] "+r"(at), [units] "+r"(turns)                          \
                     :                                                                             \
                     : "r4", "r5", "r6", "r8", "cc", "memory")

#define HIL_DSP_WIDEN(body)                                                                        \
    __asm__ volatile(body                                                                          \
                     : [a] "+r"(from_a), [b] "+r"(from_b), [c] "+r"(from_c), [to] "+r"(at), [units] "+r"(turns)   \
                     :                                                                             \
                     : "r4", "r5", "r6", "r8", "r9", "r10", "cc", "memory")

#define HIL_DSP_WIDEN_LOOP(body) HIL_DSP_WIDEN("1:\n\t" body "subs %[units], #1\n\tbne 1b\n\t")

/* All units, of which there is one at least. */
#define HIL_DSP_WIDEN_UNITS(UNIT)                                                                  \
    if (__builtin_constant_p(units) && units == 1) {                                               \
        HIL_DSP_WIDEN(UNIT);                                                                       \
    } else if (__builtin_constant_p(units) && units == 2) {                                        \
        HIL_DSP_WIDEN(UNIT UNIT);                                                                  \
    } else if (units % 4 == 0) {                                                                   \
        HIL_DSP_WIDEN_LOOP(UNIT UNIT UNIT UNIT);                                                   \
    } else {                                                                                       \
        HIL_DSP_WIDEN_LOOP(UNIT);                                                                  \
    }

/* clang-format on */

#endif

/* Widens a row to two words for each four elements. */
HIL_INLINE void hil_dsp_widen_row(const int8_t *row, int32_t depth, uint32_t *to) {
#if HIL_DSP_ASSEMBLY
    const int32_t units = depth / 4;
    register const int8_t *from __asm__("r0") = row;
    register uint32_t *at __asm__("r3") = to;
    register int32_t turns __asm__("r12") = units / 4;
    if (units >= 4) {
        HIL_DSP_WIDEN_ROW("1:\n\t" HIL_DSP_WIDEN_ONE_TWICE HIL_DSP_WIDEN_ONE_TWICE
                          "subs %[units], #1\n\tbne 1b\n\t");
    }
    if (units % 4 >= 2) {
        HIL_DSP_WIDEN_ROW(HIL_DSP_WIDEN_ONE_TWICE);
    }
    if (units % 2 == 1) {
        HIL_DSP_WIDEN_ROW(HIL_DSP_WIDEN_ONE);
    }
    row = from;
    to = at;
    depth -= 4 * units;
#endif
    for (; depth > 0; depth -= 4) {
        const uint32_t word = depth >= 4 ? hil_dsp_load(row) : hil_dsp_load_part(row, depth);
        to[0] = hil_dsp_even(word);
        to[1] = hil_dsp_odd(word);
        row += 4;
        to += 2;
    }
}

/* Widens three rows, word by word next to each other. */
HIL_INLINE void hil_dsp_widen_rows(const int8_t *a, const int8_t *b, const int8_t *c, int32_t depth,
                                   uint32_t *to) {
    const int32_t units = depth / 4;
#if HIL_DSP_ASSEMBLY
    if (units > 0) {
        register const int8_t *from_a __asm__("r0") = a;
        register const int8_t *from_b __asm__("r1") = b;
        register const int8_t *from_c __asm__("r2") = c;
        register uint32_t *at __asm__("r3") = to;
        register int32_t turns __asm__("r12") = units % 4 == 0 ? units / 4 : units;
        HIL_DSP_WIDEN_UNITS(HIL_DSP_WIDEN_UNIT)
        a = from_a;
        b = from_b;
        c = from_c;
        to = at;
    }
#else
    for (int32_t left = units; left > 0; left--) {
        hil_dsp_widen_unit(hil_dsp_load(a), hil_dsp_load(b), hil_dsp_load(c), to);
        a += 4;
        b += 4;
        c += 4;
        to += 6;
    }
#endif
    const int32_t rest = depth % 4;
    if (rest != 0) {
        hil_dsp_widen_unit(hil_dsp_load_part(a, rest), hil_dsp_load_part(b, rest),
                           hil_dsp_load_part(c, rest), to);
    }
}

/* Widens two rows, word by word next to each other. */
HIL_INLINE void hil_dsp_widen_two_rows(const int8_t *a, const int8_t *b, int32_t depth,
                                       uint32_t *to) {
#if HIL_DSP_ASSEMBLY
    const int32_t units = depth / 4;
    if (units > 0) {
        register const int8_t *from_a __asm__("r0") = a;
        register const int8_t *from_b __asm__("r1") = b;
        register const int8_t *from_c __asm__("r2") = b;
        register uint32_t *at __asm__("r3") = to;
        register int32_t turns __asm__("r12") = units % 4 == 0 ? units / 4 : units;
        HIL_DSP_WIDEN_UNITS(HIL_DSP_WIDEN_TWO)
        a = from_a;
        b = from_b;
        to = at;
        depth -= 4 * units;
    }
#endif
    for (; depth > 0; depth -= 4) {
        const uint32_t word_a = depth >= 4 ? hil_dsp_load(a) : hil_dsp_load_part(a, depth);
        const uint32_t word_b = depth >= 4 ? hil_dsp_load(b) : hil_dsp_load_part(b, depth);
        to[0] = hil_dsp_even(word_a);
        to[1] = hil_dsp_even(word_b);
        to[2] = hil_dsp_odd(word_a);
        to[3] = hil_dsp_odd(word_b);
        a += 4;
        b += 4;
        to += 4;
    }
}

/* Widens a word of each of two rows, and says where the next ones go. */
HIL_INLINE uint32_t *hil_dsp_widen_two_words(const int8_t *a, const int8_t *b, uint32_t *to) {
#if HIL_DSP_ASSEMBLY
    /* Distances that the compiler knows are part of the loads. */
    __asm__ volatile("ldr r4, %1\n\t"
                     "ldr r5, %2\n\t"
                     "sxtb16 r6, r4, ror #8\n\t"
                     "sxtb16 r8, r5, ror #8\n\t"
                     "sxtb16 r4, r4\n\t"
                     "sxtb16 r5, r5\n\t"
                     "stmia %0!, {r4, r5, r6, r8}"
                     : "+r"(to)
                     : "m"(*(const struct hil_dsp_bytes *)a), "m"(*(const struct hil_dsp_bytes *)b)
                     : "r4", "r5", "r6", "r8", "memory");
    return to;
#else
    hil_dsp_widen_two_rows(a, b, 4, to);
    return to + 4;
#endif
}

#endif
