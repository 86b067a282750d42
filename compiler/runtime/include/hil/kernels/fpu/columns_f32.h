/* Four rows of floats times four columns of a weight matrix at a time, by the floating-point unit.
 *
 * Tile: 4 rows x 4 columns x 2 elements of depth, a unit.
 *
 *                columns  0    1    2    3          x of elements 0, 1     w of columns 0 to 3
 *         row 0           s0   s1   s2   s3         s16  s17               s24 to s27  element 0
 *         row 1           s4   s5   s6   s7         s18  s19               s28 to s31  element 1
 *         row 2           s8   s9   s10  s11        s20  s21
 *         row 3           s12  s13  s14  s15        s22  s23
 *
 * Registers: as drawn; r0 the block, r1 weights, r2 outputs, r3 bytes from a row's outputs to the
 * next row's, r4 where x begins, r5 where its fours of units end, r6 where it ends, r8 x, r9 blocks
 * of columns left; r10 r11 r12 lr for what comes and goes.
 *
 * Data: packed by `float_columns()`, for each four columns
 *
 *   weights  [units][2 elements][4 columns], then the four biases
 *   x        in scratch: [units][4 rows][2 elements]
 *
 * Columns and an odd depth are filled up with zeros; rows that are none hold anything.
 *
 * Order: of four rows all are read before the first output is written.
 *
 * Bounds: any float. A sum starts at 0, takes the products in the order of the depth, each rounded
 * by itself (vmla rounds twice, vfma would once), then the bias: what the portable kernels compute,
 * to the last bit. The zero that fills up an odd depth changes no sum.
 *
 * Output: clamped. To 0 by a mask of the sign bit: so that what is no number stays none, the unit
 * makes all of these the default one meanwhile, which is positive. Sums are not compared with the
 * ends of the type. An infinite one is from an overflow, which the unit has a flag for, or from an
 * input that is infinite or no number, which every column shows: then all is computed once more,
 * and compared. Weights and biases are finite (`is_finite()`).
 *
 * Scratch: x, 16 bytes an element of depth.
 *
 * Cost: 34 instructions a unit for 32 MACs and 2 for four units; 24 for a block of outputs, 52
 * rectified, 144 within other bounds; 0.75 an element placed. Measured by `python tools/measure.py
 * wide` (docs/reference/wide.md).
 *
 * Tests: the twin is hil_fpu_run in C (tests/c/test_float_kernels.py), the assembly
 * tests/board/test_kernels.py.
 */
#ifndef HIL_KERNELS_FPU_COLUMNS_F32_H
#define HIL_KERNELS_FPU_COLUMNS_F32_H

#include <float.h>
#include <stddef.h>
#include <stdint.h>

#include "hil/kernels/generic/clamp_f32.h"

/* The assembly is for cores with single precision, and takes nearly every register: as that of
 * hil/dsp.h it needs gcc, optimizing. */
#if defined(__ARM_FP) && (__ARM_FP & 4) && defined(__thumb2__) && defined(__OPTIMIZE__) &&         \
    !defined(__clang__)
#define HIL_FPU_ASSEMBLY 1
#else
#define HIL_FPU_ASSEMBLY 0
#endif

/* Fields of the kernels' structs that describe the columns. */
#define HIL_FPU_COLUMNS_F32_FIELDS                                                                 \
    int32_t units;      /* of two elements, the depth rounded up */                                \
    int32_t columns;    /* of the weights */                                                       \
    float out_min;      /* the least output */                                                     \
    float out_max;      /* the largest output */                                                   \
    const float *stream /* of fours of columns, as drawn above */

/* The columns that are multiplied at a time. */
struct hil_fpu_columns_f32 {
    HIL_FPU_COLUMNS_F32_FIELDS;
    int32_t step; /* floats from a row's outputs to the next row's */
};

#define HIL_FPU_COLUMNS_F32(p)                                                                     \
    {                                                                                              \
        .units = (p)->units, .columns = (p)->columns, .out_min = (p)->out_min,                     \
        .out_max = (p)->out_max, .stream = (p)->stream, .step = (p)->columns,                      \
    }

/* What outputs are bounded by. */
#define HIL_FPU_LINEAR 0
#define HIL_FPU_FROM_ZERO 1
#define HIL_FPU_BETWEEN 2 /* in place of LINEAR, where infinite sums are met */
#define HIL_FPU_ZERO_TO 3 /* in place of FROM_ZERO */

/* How the assembly bounds outputs: without a test for what only an infinite sum exceeds, unless
 * `all` shall be tested. */
HIL_INLINE int32_t hil_fpu_bounds(float low, float high, int all) {
    if (low == 0.0F) {
        return high >= FLT_MAX && !all ? HIL_FPU_FROM_ZERO : HIL_FPU_ZERO_TO;
    }
    return low <= -FLT_MAX && high >= FLT_MAX && !all ? HIL_FPU_LINEAR : HIL_FPU_BETWEEN;
}

/* Some blocks of columns. The assembly knows the offsets. */
struct hil_fpu_block {
    const float *weights;   /*  0 */
    float *out;             /*  4 */
    int32_t step;           /*  8: bytes from a row's outputs to the next row's */
    const float *x;         /* 12 */
    const float *fours_end; /* 16 */
    const float *end;       /* 20 */
    int32_t blocks;         /* 24 */
    const float *zeros;     /* 28 */
    int32_t bounds;         /* 32 */
    float low;              /* 36 */
    float high;             /* 40 */
    uint32_t beyond;        /* 44: whether some sum may be infinite; meanwhile the unit's control */
};

/* Where sums start. */
static const float hil_fpu_zeros[16] __attribute__((unused)) = {0.0F};

#if HIL_FPU_ASSEMBLY

_Static_assert(offsetof(struct hil_fpu_block, blocks) == 24, "columns_f32.h");
_Static_assert(offsetof(struct hil_fpu_block, zeros) == 28, "columns_f32.h");
_Static_assert(offsetof(struct hil_fpu_block, bounds) == 32, "columns_f32.h");
_Static_assert(offsetof(struct hil_fpu_block, low) == 36, "columns_f32.h");
_Static_assert(offsetof(struct hil_fpu_block, beyond) == 44, "columns_f32.h");

/* clang-format off */

/* Takes r8: what is no number becomes the default one, until the end, and the flags of an overflow
 * and of what is invalid are down. */
#define HIL_FPU_ENTER                                                                              \
    "vmrs r8, fpscr\n\t"                                                                           \
    "str r8, [r0, #44]\n\t"                                                                        \
    "orr r8, r8, #0x2000000\n\t"                                                                   \
    "bic r8, r8, #5\n\t"                                                                           \
    "vmsr fpscr, r8\n\t"
/* Takes s16, which is a number unless some input was infinite or none. */
#define HIL_FPU_LEAVE                                                                              \
    "vsub.f32 s16, s16, s16\n\t"                                                                   \
    "vmrs r10, fpscr\n\t"                                                                          \
    "vcmp.f32 s16, s16\n\t"                                                                        \
    "vmrs APSR_nzcv, fpscr\n\t"                                                                    \
    "ldr r8, [r0, #44]\n\t"                                                                        \
    "and r10, r10, #4\n\t"                                                                         \
    "it vs\n\t"                                                                                    \
    "movvs r10, #4\n\t"                                                                            \
    "str r10, [r0, #44]\n\t"                                                                       \
    "vmsr fpscr, r8\n\t"

/* Two elements of four rows and columns. */
#define HIL_FPU_UNIT                                                                               \
    "vldmia r8!, {s16-s23}\n\t"                                                                    \
    "vldmia r1!, {s24-s31}\n\t"                                                                    \
    "vmla.f32 s0, s16, s24\n\t"                                                                    \
    "vmla.f32 s1, s16, s25\n\t"                                                                    \
    "vmla.f32 s2, s16, s26\n\t"                                                                    \
    "vmla.f32 s3, s16, s27\n\t"                                                                    \
    "vmla.f32 s4, s18, s24\n\t"                                                                    \
    "vmla.f32 s5, s18, s25\n\t"                                                                    \
    "vmla.f32 s6, s18, s26\n\t"                                                                    \
    "vmla.f32 s7, s18, s27\n\t"                                                                    \
    "vmla.f32 s8, s20, s24\n\t"                                                                    \
    "vmla.f32 s9, s20, s25\n\t"                                                                    \
    "vmla.f32 s10, s20, s26\n\t"                                                                   \
    "vmla.f32 s11, s20, s27\n\t"                                                                   \
    "vmla.f32 s12, s22, s24\n\t"                                                                   \
    "vmla.f32 s13, s22, s25\n\t"                                                                   \
    "vmla.f32 s14, s22, s26\n\t"                                                                   \
    "vmla.f32 s15, s22, s27\n\t"                                                                   \
    "vmla.f32 s0, s17, s28\n\t"                                                                    \
    "vmla.f32 s1, s17, s29\n\t"                                                                    \
    "vmla.f32 s2, s17, s30\n\t"                                                                    \
    "vmla.f32 s3, s17, s31\n\t"                                                                    \
    "vmla.f32 s4, s19, s28\n\t"                                                                    \
    "vmla.f32 s5, s19, s29\n\t"                                                                    \
    "vmla.f32 s6, s19, s30\n\t"                                                                    \
    "vmla.f32 s7, s19, s31\n\t"                                                                    \
    "vmla.f32 s8, s21, s28\n\t"                                                                    \
    "vmla.f32 s9, s21, s29\n\t"                                                                    \
    "vmla.f32 s10, s21, s30\n\t"                                                                   \
    "vmla.f32 s11, s21, s31\n\t"                                                                   \
    "vmla.f32 s12, s23, s28\n\t"                                                                   \
    "vmla.f32 s13, s23, s29\n\t"                                                                   \
    "vmla.f32 s14, s23, s30\n\t"                                                                   \
    "vmla.f32 s15, s23, s31\n\t"
#define HIL_FPU_BIAS                                                                               \
    "vldmia r1!, {s16-s19}\n\t"                                                                    \
    "vadd.f32 s0, s0, s16\n\t"                                                                     \
    "vadd.f32 s1, s1, s17\n\t"                                                                     \
    "vadd.f32 s2, s2, s18\n\t"                                                                     \
    "vadd.f32 s3, s3, s19\n\t"                                                                     \
    "vadd.f32 s4, s4, s16\n\t"                                                                     \
    "vadd.f32 s5, s5, s17\n\t"                                                                     \
    "vadd.f32 s6, s6, s18\n\t"                                                                     \
    "vadd.f32 s7, s7, s19\n\t"                                                                     \
    "vadd.f32 s8, s8, s16\n\t"                                                                     \
    "vadd.f32 s9, s9, s17\n\t"                                                                     \
    "vadd.f32 s10, s10, s18\n\t"                                                                   \
    "vadd.f32 s11, s11, s19\n\t"                                                                   \
    "vadd.f32 s12, s12, s16\n\t"                                                                   \
    "vadd.f32 s13, s13, s17\n\t"                                                                   \
    "vadd.f32 s14, s14, s18\n\t"                                                                   \
    "vadd.f32 s15, s15, s19\n\t"

/* Bounds in s16 and s17. */
#define HIL_FPU_AT_MOST(sum)                                                                       \
    "vcmp.f32 " sum ", s17\n\t"                                                                    \
    "vmrs APSR_nzcv, fpscr\n\t"                                                                    \
    "it gt\n\t"                                                                                    \
    "vmovgt.f32 " sum ", s17\n\t"
#define HIL_FPU_AT_LEAST(sum)                                                                      \
    "vcmp.f32 " sum ", s16\n\t"                                                                    \
    "vmrs APSR_nzcv, fpscr\n\t"                                                                    \
    "it mi\n\t"                                                                                    \
    "vmovmi.f32 " sum ", s16\n\t"
#define HIL_FPU_EIGHT(LIMIT)                                                                       \
    LIMIT("s0") LIMIT("s1")                                                                        \
    LIMIT("s2") LIMIT("s3")                                                                        \
    LIMIT("s4") LIMIT("s5")                                                                        \
    LIMIT("s6") LIMIT("s7")
#define HIL_FPU_OTHER_EIGHT(LIMIT)                                                                 \
    LIMIT("s8") LIMIT("s9") LIMIT("s10") LIMIT("s11")                                              \
    LIMIT("s12") LIMIT("s13") LIMIT("s14") LIMIT("s15")

/* Four sums without their negatives, in r10 r11 r12 lr. */
#define HIL_FPU_RECTIFY(first, second)                                                             \
    "vmov r10, r11, " first "\n\t"                                                                 \
    "vmov r12, lr, " second "\n\t"                                                                 \
    "bic r10, r10, r10, asr #31\n\t"                                                               \
    "bic r11, r11, r11, asr #31\n\t"                                                               \
    "bic r12, r12, r12, asr #31\n\t"                                                               \
    "bic lr, lr, lr, asr #31\n\t"

#define HIL_FPU_STORE                                                                              \
    "vstmia r8, {s0-s3}\n\t"                                                                       \
    "add r8, r8, r3\n\t"                                                                           \
    "vstmia r8, {s4-s7}\n\t"                                                                       \
    "add r8, r8, r3\n\t"                                                                           \
    "vstmia r8, {s8-s11}\n\t"                                                                      \
    "add r8, r8, r3\n\t"                                                                           \
    "vstmia r8, {s12-s15}\n\t"
#define HIL_FPU_RECTIFIED                                                                          \
    HIL_FPU_RECTIFY("s0, s1", "s2, s3")                                                            \
    "stmia r8, {r10, r11, r12, lr}\n\t"                                                            \
    "add r8, r8, r3\n\t"                                                                           \
    HIL_FPU_RECTIFY("s4, s5", "s6, s7")                                                            \
    "stmia r8, {r10, r11, r12, lr}\n\t"                                                            \
    "add r8, r8, r3\n\t"                                                                           \
    HIL_FPU_RECTIFY("s8, s9", "s10, s11")                                                          \
    "stmia r8, {r10, r11, r12, lr}\n\t"                                                            \
    "add r8, r8, r3\n\t"                                                                           \
    HIL_FPU_RECTIFY("s12, s13", "s14, s15")                                                        \
    "stmia r8, {r10, r11, r12, lr}\n\t"

/* Bounds the sums, by r10 as UNLESS leaves it, and stores them by STORE or RECTIFIED. */
#define HIL_FPU_FINISH(UNLESS, LIMITS, STORE, RECTIFIED)                                           \
    "ldr r10, [r0, #32]\n\t" UNLESS                                                                \
    "cmp r10, #1\n\t"                                                                              \
    "beq 7f\n\t"                                                                                   \
    "blt 6f\n\t"                                                                                   \
    "add r11, r0, #36\n\t"                                                                         \
    "vldmia r11, {s16-s17}\n\t"                                                                    \
    LIMITS(HIL_FPU_AT_MOST)                                                                        \
    "cmp r10, #3\n\t"                                                                              \
    "beq 7f\n\t"                                                                                   \
    LIMITS(HIL_FPU_AT_LEAST)                                                                       \
    "6:\n\t" STORE                                                                                 \
    "b 8f\n\t"                                                                                     \
    "7:\n\t" RECTIFIED                                                                             \
    "8:\n\t"

#define HIL_FPU_SIXTEEN(LIMIT) HIL_FPU_EIGHT(LIMIT) HIL_FPU_OTHER_EIGHT(LIMIT)

#define HIL_FPU_CLOBBERED                                                                          \
    "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r11", "r12", "lr", "cc", "memory",     \
    "s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "s12", "s13", "s14", \
    "s15", "s16", "s17", "s18", "s19", "s20", "s21", "s22", "s23", "s24", "s25", "s26", "s27",     \
    "s28", "s29", "s30", "s31"

/* clang-format on */

/* Four rows by all blocks. */
HIL_INLINE void hil_fpu_run(struct hil_fpu_block *block) {
    register struct hil_fpu_block *at __asm__("r0") = block;
    __asm__ volatile(HIL_FPU_ENTER "ldmia r0, {r1, r2, r3, r4, r5, r6, r9}\n\t"
                                   "1:\n\t"
                                   "ldr r10, [r0, #28]\n\t"
                                   "mov r8, r4\n\t"
                                   "cmp r8, r5\n\t"
                                   "vldmia r10, {s0-s15}\n\t"
                                   "beq 3f\n\t"
                                   "2:\n\t" HIL_FPU_UNIT HIL_FPU_UNIT HIL_FPU_UNIT HIL_FPU_UNIT
                                   "cmp r8, r5\n\t"
                                   "bne 2b\n\t"
                                   "3:\n\t"
                                   "cmp r8, r6\n\t"
                                   "beq 5f\n\t"
                                   "4:\n\t" HIL_FPU_UNIT "cmp r8, r6\n\t"
                                   "bne 4b\n\t"
                                   "5:\n\t" HIL_FPU_BIAS "mov r8, r2\n\t"
                                   "add r2, r2, #16\n\t" HIL_FPU_FINISH(
                                       "", HIL_FPU_SIXTEEN, HIL_FPU_STORE,
                                       HIL_FPU_RECTIFIED) "subs r9, r9, #1\n\t"
                                                          "bne 1b\n\t"
                                                          "vadd.f32 s16, s0, s4\n\t"
                                                          "vadd.f32 s17, s8, s12\n\t"
                                                          "vadd.f32 s16, s16, s17\n\t" HIL_FPU_LEAVE
                     : "+r"(at)
                     :
                     : HIL_FPU_CLOBBERED);
}

/* Places sixteen elements after sixteen of a row; the places of two are 32 bytes apart. */
HIL_INLINE void hil_fpu_place_sixteens(float *to, const float *from, int32_t sixteens) {
    register const float *read __asm__("r0") = from;
    register float *write __asm__("r1") = to;
    register int32_t left __asm__("r2") = sixteens;
    __asm__ volatile("1:\n\t"
                     "vldmia r0!, {s0-s15}\n\t"
                     "subs r2, r2, #1\n\t"
                     "vstr d0, [r1]\n\t"
                     "vstr d1, [r1, #32]\n\t"
                     "vstr d2, [r1, #64]\n\t"
                     "vstr d3, [r1, #96]\n\t"
                     "vstr d4, [r1, #128]\n\t"
                     "vstr d5, [r1, #160]\n\t"
                     "vstr d6, [r1, #192]\n\t"
                     "vstr d7, [r1, #224]\n\t"
                     "add r1, r1, #256\n\t"
                     "bne 1b\n\t"
                     : "+r"(read), "+r"(write), "+r"(left)
                     :
                     : "s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11",
                       "s12", "s13", "s14", "s15", "cc", "memory");
}

#else

HIL_INLINE void hil_fpu_run(struct hil_fpu_block *block) {
    const float *w = block->weights;
    for (int32_t left = block->blocks; left > 0; left--) {
        float sums[16] = {0.0F};
        for (const float *x = block->x; x != block->end; x += 8) {
            for (int32_t i = 0; i < 32; i++) {
                sums[i % 16] += x[i % 16 / 4 * 2 + i / 16] * w[i / 16 * 4 + i % 4];
            }
            w += 8;
        }
        for (int32_t i = 0; i < 16; i++) {
            block->out[i / 4 * (block->step / 4) + i % 4] =
                hil_clamp_f32(sums[i] + w[i % 4], block->low, block->high);
        }
        w += 4;
        block->out += 4;
    }
}

HIL_INLINE void hil_fpu_place_sixteens(float *to, const float *from, int32_t sixteens) {
    for (int32_t i = 0; i < 8 * sixteens; i++) {
        to[8 * i] = from[2 * i];
        to[8 * i + 1] = from[2 * i + 1];
    }
}

#endif

/* Copies floats by the registers of the unit. */
HIL_INLINE void hil_fpu_copy(float *to, const float *from, int32_t count) {
#if HIL_FPU_ASSEMBLY
    for (; count >= 16; count -= 16) {
        __asm__ volatile("vldmia %1!, {s0-s15}\n\t"
                         "vstmia %0!, {s0-s15}\n\t"
                         : "+r"(to), "+r"(from)
                         :
                         : "s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11",
                           "s12", "s13", "s14", "s15", "memory");
    }
#endif
    for (; count > 0; count--) {
        *to++ = *from++;
    }
}

/* Element `k` of a row, whose first one is at `lane`. */
HIL_INLINE float *hil_fpu_placed(float *lane, int32_t k) { return lane + k / 2 * 8 + k % 2; }

/* Places some elements of a row from its element `k` on, and returns what follows them. */
HIL_INLINE int32_t hil_fpu_place(float *lane, int32_t k, const float *from, int32_t count) {
    const int32_t end = k + count;
    if (k % 2 != 0 && k < end) {
        *hil_fpu_placed(lane, k++) = *from++;
    }
    const int32_t sixteens = (end - k) / 16;
    if (sixteens > 0) {
        hil_fpu_place_sixteens(hil_fpu_placed(lane, k), from, sixteens);
        from += 16 * sixteens;
        k += 16 * sixteens;
    }
    for (; k < end; k++) {
        *hil_fpu_placed(lane, k) = *from++;
    }
    return end;
}

HIL_INLINE int32_t hil_fpu_place_zeros(float *lane, int32_t k, int32_t count) {
    const int32_t end = k + count;
    for (; k < end; k++) {
        *hil_fpu_placed(lane, k) = 0.0F;
    }
    return end;
}

/* Up to four rows, placed in x, by all columns. */
HIL_INLINE void hil_fpu_columns_f32(const struct hil_fpu_columns_f32 *p, const float *x,
                                    int32_t rows, float *out) {
    float some[16] = {0.0F};
    int all = 0;
    for (int32_t column = 0; column < p->columns;) {
        const int direct = rows == 4 && column + 4 <= p->columns;
        const int32_t blocks = direct ? (p->columns - column) / 4 : 1;
        struct hil_fpu_block block = {
            .weights = p->stream + column * (2 * p->units + 1),
            .out = direct ? out + column : some,
            .step = direct ? p->step * (int32_t)sizeof *out : 16,
            .x = x,
            .fours_end = x + p->units / 4 * 32,
            .end = x + p->units * 8,
            .blocks = blocks,
            .zeros = hil_fpu_zeros,
            .bounds = hil_fpu_bounds(p->out_min, p->out_max, all),
            .low = p->out_min,
            .high = p->out_max,
            .beyond = 0,
        };
        hil_fpu_run(&block);
        if (block.beyond != 0 && !all) {
            all = 1;
            continue;
        }
        if (!direct) {
            const int32_t count = p->columns - column < 4 ? p->columns - column : 4;
            for (int32_t row = 0; row < rows; row++) {
                for (int32_t i = 0; i < count; i++) {
                    out[row * p->step + column + i] = some[4 * row + i];
                }
            }
        }
        column += 4 * blocks;
    }
}

#endif
