/* A row of int8 times an int8 weight matrix on Helium, as blocks_s8.h has it, but in two parts: the
 * sums of up to 128 columns go to the scratch while the row's first chunks of 16 stay in registers,
 * then all of them are requantized, sixteen at a time.
 *
 * Tile: 1 row x 8 columns x one chunk of depth; 16 columns of the outputs.
 *
 * Registers, at the top of eight columns: r0 r2 r4 r6 r8 r10 r12 lr their sums; r1 place in the
 * row; r3 eights left; r5 address of the slot to jump to; r7 end of the row; r9 place in the
 * stream; r11 place of the sums; q5 to q7 the row's first three chunks, fewer in the last of these
 * registers; q0 to q3 weights, four columns in one load, q4 a chunk of the row that is not kept. On
 * the stack: d8-d15 at 0, r0 (where r1 starts again) at 64.
 *
 * Data: packed by `_sums_of_vector()`; n chunks, columns filled up to sixteens:
 *
 *   stream   per 8 columns, 32 + 128n bytes: int32[8] biases, int8 [n][8][16] weights; the first
 *            eight of sixteen columns are 0 4 8 12 2 6 10 14, the second 1 5 9 13 3 7 11 15
 *   scale    int32; uniform: multiplier, shift; else per 16 columns 4 x { int32[4] multipliers,
 *            int32[4] shifts }, in the order above
 *   sums     in scratch, int32, in the order above
 *
 * The slots are code for a chunk each, of which the jump skips those that a depth does not have:
 * their size is checked by the assembler.
 *
 * Order: rows one by one; of up to 128 columns all sums are computed before the first is stored.
 *
 * Bounds: vmladava adds modulo 2^32; a sum, bias included, is at most |bias| + 128 * sum |w| < 2^31
 * (`_check_quantized()`), and so is every part of it.
 *
 * Output: as in blocks_s8.h. Where values below the zero point clamp and outputs have the whole
 * range of int8 (`any` is 0), products need no correction of signs, and saturate to uint8 before
 * the zero point is added.
 *
 * Scratch: the sums, and the row, where it is no whole chunks.
 *
 * Cost: 10 instructions for a chunk of eight columns (128 MACs), and one more for each chunk behind
 * the third; 4 for eight columns, 21 for sixteen outputs. Measured (`hil
 * bench --per-layer` on mps3-an547, instructions under QEMU) a MAC: 128 to 128 (ad) 0.146, 640 to
 * 128 0.138; hil_mve_matvec_s8 0.162 and 0.140.
 *
 * Tests: no twin in C; the numpy reference gives what must come out (tests/board/test_kernels.py,
 * buffers between guard bytes). Layout: tests/c/test_kernel_layouts.py.
 */
#ifndef HIL_KERNELS_MVE_MATVEC_S8_TWO_PASSES_H
#define HIL_KERNELS_MVE_MATVEC_S8_TWO_PASSES_H

#include <arm_mve.h>

#include "hil/kernels/mve/columns_s8.h"

/* The assembly knows the offsets. */
struct hil_mve_sums {
    int32_t turns;   /* 0: sixteens of columns; eights, where a row has more than eleven chunks */
    int32_t skipped; /* 4: bytes of the code of chunks to skip */
    int32_t x_bytes; /* 8: of the chunks whose code is skipped; of the row, where it is so long */
};

HIL_MVE_AT(hil_mve_sums, turns, 0);
HIL_MVE_AT(hil_mve_sums, skipped, 4);
HIL_MVE_AT(hil_mve_sums, x_bytes, 8);

/* Chunks that are kept, chunks behind them that are written out, and the code's size of one. */
#define HIL_MVE_SUMS_KEPT 3
#define HIL_MVE_SUMS_KEPT_BYTES 40
#define HIL_MVE_SUMS_PASSING 8
#define HIL_MVE_SUMS_PASSING_BYTES 44

/* clang-format off */
#define HIL_MVE_SUMS_FOUR(a, b, c, d, x)                                                           \
    "vldmia r9!, {d0-d7}\n"                                                                        \
    "vmladava.s8 " a ", " x ", q0\n"                                                               \
    "vmladava.s8 " b ", " x ", q1\n"                                                               \
    "vmladava.s8 " c ", " x ", q2\n"                                                               \
    "vmladava.s8 " d ", " x ", q3\n"
#define HIL_MVE_SUMS_CHUNK(x)                                                                      \
    HIL_MVE_SUMS_FOUR("r0", "r2", "r4", "r6", x) HIL_MVE_SUMS_FOUR("r8", "r10", "r12", "lr", x)
#define HIL_MVE_SUMS_CHUNKS                                                                        \
    HIL_MVE_SUMS_CHUNK("q5") HIL_MVE_SUMS_CHUNK("q6") HIL_MVE_SUMS_CHUNK("q7")
#define HIL_MVE_SUMS_AT(at) "vldrb.8 q4, [r1, #" at "]\n" HIL_MVE_SUMS_CHUNK("q4")
#define HIL_MVE_SUMS_NEXT "vldrb.8 q4, [r1], #16\n" HIL_MVE_SUMS_CHUNK("q4")

#define HIL_MVE_SUMS_ENTER                                                                         \
    "push {r0-r11, lr}\n"                                                                          \
    "vpush {d8-d15}\n"                                                                             \
    "mov r9, r1\n"                                                                                 \
    "mov r11, r2\n"                                                                                \
    "ldrd r4, r6, [r3, #4]\n"                                                                      \
    "ldr r3, [r3]\n"
/* Where a jump goes that skips code. */
#define HIL_MVE_SUMS_TARGET(place, label, skipped)                                                 \
    "adr " place ", " label "\n"                                                                   \
    "add " place ", " skipped "\n"                                                                 \
    "orr " place ", " place ", #1\n"
#define HIL_MVE_SUMS_LOAD                                                                          \
    "vldrb.8 q5, [r0]\n"                                                                           \
    "vldrb.8 q6, [r0, #16]\n"                                                                      \
    "vldrb.8 q7, [r0, #32]\n"
#define HIL_MVE_SUMS_FIRST "ldmia r9!, {r0, r2, r4, r6, r8, r10, r12, lr}\n"
#define HIL_MVE_SUMS_STORE "stmia r11!, {r0, r2, r4, r6, r8, r10, r12, lr}\n"

/* Eight columns, of which the jump to `place` skips some of the chunks behind the label. */
#define HIL_MVE_SUMS_EIGHT(before, place, begin, end, chunks, bytes)                               \
    HIL_MVE_SUMS_FIRST before "bx " place "\n"                                                     \
    ".p2align 2\n"                                                                                 \
    begin ":\n" chunks end ":\n"                                                                   \
    HIL_MVE_CHECK_BYTES(end "b - " begin "b", HIL_MVE_TEXT(bytes))
#define HIL_MVE_SUMS_NEAR(place, begin, end)                                                       \
    HIL_MVE_SUMS_EIGHT("", place, begin, end, HIL_MVE_SUMS_CHUNKS,                                 \
                       HIL_MVE_SUMS_KEPT * HIL_MVE_SUMS_KEPT_BYTES)                                \
    HIL_MVE_SUMS_STORE
#define HIL_MVE_SUMS_MIDDLE(place, begin, end)                                                     \
    HIL_MVE_SUMS_EIGHT(HIL_MVE_SUMS_CHUNKS, place, begin, end,                                     \
                       HIL_MVE_SUMS_AT("0") HIL_MVE_SUMS_AT("16") HIL_MVE_SUMS_AT("32")            \
                       HIL_MVE_SUMS_AT("48") HIL_MVE_SUMS_AT("64") HIL_MVE_SUMS_AT("80")           \
                       HIL_MVE_SUMS_AT("96") HIL_MVE_SUMS_AT("112"),                               \
                       HIL_MVE_SUMS_PASSING * HIL_MVE_SUMS_PASSING_BYTES)                          \
    HIL_MVE_SUMS_STORE
#define HIL_MVE_SUMS_LEAVE                                                                         \
    "subs r3, #1\n"                                                                                \
    "bne.w 1b\n"                                                                                   \
    "vpop {d8-d15}\n"                                                                              \
    "pop {r0-r11, pc}\n"

#define HIL_MVE_SUMS_FUNCTION(name, code)                                                          \
    __attribute__((naked, noipa, unused)) static void name(                                        \
        const int8_t *x __attribute__((unused)), const int8_t *stream __attribute__((unused)),     \
        int32_t *sums __attribute__((unused)),                                                     \
        const struct hil_mve_sums *p __attribute__((unused))) {                                    \
        __asm__(code);                                                                             \
    }

/* Rows of at most three chunks, of which the last are kept; of at most eleven; of more. */
HIL_MVE_SUMS_FUNCTION(hil_mve_sums_near,
    HIL_MVE_SUMS_ENTER
    HIL_MVE_SUMS_TARGET("r5", "2f", "r4")
    HIL_MVE_SUMS_TARGET("r7", "6f", "r4")
    "sub r0, r6\n"
    "lsrs r6, r6, #2\n"
    HIL_MVE_SUMS_TARGET("r2", "4f", "r6")
    "bx r2\n"
    ".p2align 2\n"
    "4:\n"
    HIL_MVE_SUMS_LOAD
    ".p2align 2\n"
    "1:\n"
    HIL_MVE_SUMS_NEAR("r5", "2", "3")
    HIL_MVE_SUMS_NEAR("r7", "6", "7")
    HIL_MVE_SUMS_LEAVE)

HIL_MVE_SUMS_FUNCTION(hil_mve_sums_middle,
    HIL_MVE_SUMS_ENTER
    HIL_MVE_SUMS_TARGET("r5", "2f", "r4")
    HIL_MVE_SUMS_TARGET("r7", "6f", "r4")
    "add r1, r0, #48\n"
    "sub r1, r6\n"
    HIL_MVE_SUMS_LOAD
    ".p2align 2\n"
    "1:\n"
    HIL_MVE_SUMS_MIDDLE("r5", "2", "3")
    HIL_MVE_SUMS_MIDDLE("r7", "6", "7")
    HIL_MVE_SUMS_LEAVE)

HIL_MVE_SUMS_FUNCTION(hil_mve_sums_far,
    HIL_MVE_SUMS_ENTER
    HIL_MVE_SUMS_TARGET("r5", "2f", "r4")
    "add r7, r0, r6\n"
    HIL_MVE_SUMS_LOAD
    "add r0, #48\n"
    "str r0, [sp, #64]\n"
    ".p2align 2\n"
    "1:\n"
    "ldr r1, [sp, #64]\n"
    HIL_MVE_SUMS_EIGHT(HIL_MVE_SUMS_CHUNKS, "r5", "2", "3",
                       ".rept " HIL_MVE_TEXT(HIL_MVE_SUMS_PASSING) "\n" HIL_MVE_SUMS_NEXT ".endr\n",
                       HIL_MVE_SUMS_PASSING * HIL_MVE_SUMS_PASSING_BYTES)
    "cmp r1, r7\n"
    "blo.w 2b\n"
    HIL_MVE_SUMS_STORE
    HIL_MVE_SUMS_LEAVE)

typedef void hil_mve_sums_function(const int8_t *x, const int8_t *stream, int32_t *sums,
                                   const struct hil_mve_sums *p);

/* Sixteen outputs from q0 to q3. */
#define HIL_MVE_SUMS_UNIFORM(multiply, correct)                                                    \
    "vldrw.32 q0, [%[sums]], #16\n"                                                                \
    "vldrw.32 q1, [%[sums]], #16\n"                                                                \
    "vldrw.32 q2, [%[sums]], #16\n"                                                                \
    "vldrw.32 q3, [%[sums]], #16\n"                                                                \
    multiply ".s32 q0, q0, %[multiplier]\n"                                                        \
    multiply ".s32 q1, q1, %[multiplier]\n"                                                        \
    multiply ".s32 q2, q2, %[multiplier]\n"                                                        \
    multiply ".s32 q3, q3, %[multiplier]\n"                                                        \
    correct("q0") correct("q1") correct("q2") correct("q3")                                        \
    "vrshl.s32 q0, %[shift]\n"                                                                     \
    "vrshl.s32 q1, %[shift]\n"                                                                     \
    "vrshl.s32 q2, %[shift]\n"                                                                     \
    "vrshl.s32 q3, %[shift]\n"
#define HIL_MVE_SUMS_EACH_FOUR(q, multiply, correct)                                               \
    "vldrw.32 " q ", [%[sums]], #16\n"                                                             \
    "vldrw.32 q4, [%[scale]], #16\n"                                                               \
    "vldrw.32 q5, [%[scale]], #16\n"                                                               \
    multiply ".s32 " q ", " q ", q4\n" correct(q)                                                  \
    "vrshl.s32 " q ", " q ", q5\n"
#define HIL_MVE_SUMS_EACH(multiply, correct)                                                       \
    HIL_MVE_SUMS_EACH_FOUR("q0", multiply, correct)                                                \
    HIL_MVE_SUMS_EACH_FOUR("q1", multiply, correct)                                                \
    HIL_MVE_SUMS_EACH_FOUR("q2", multiply, correct)                                                \
    HIL_MVE_SUMS_EACH_FOUR("q3", multiply, correct)
#define HIL_MVE_SUMS_CORRECT(q) HIL_MVE_AWAY_FROM_ZERO(q, "%[one]")
#define HIL_MVE_SUMS_AS_IS(q) ""

#define HIL_MVE_SUMS_NARROW                                                                        \
    "vqmovnb.s32 q0, q0\n"                                                                         \
    "vqmovnt.s32 q0, q1\n"                                                                         \
    "vqmovnb.s32 q2, q2\n"                                                                         \
    "vqmovnt.s32 q2, q3\n"
#define HIL_MVE_SUMS_PLAIN                                                                         \
    HIL_MVE_SUMS_NARROW                                                                            \
    "vqmovunb.s16 q0, q0\n"                                                                        \
    "vqmovunt.s16 q0, q2\n"                                                                        \
    "vadd.i8 q0, q0, %[zero]\n"
#define HIL_MVE_SUMS_ANY                                                                           \
    HIL_MVE_SUMS_NARROW                                                                            \
    "vqadd.s16 q0, q0, %[zero]\n"                                                                  \
    "vqadd.s16 q2, q2, %[zero]\n"                                                                  \
    "vqmovnb.s16 q0, q0\n"                                                                         \
    "vqmovnt.s16 q0, q2\n"                                                                         \
    "vmax.s8 q0, q0, %q[low]\n"                                                                    \
    "vmin.s8 q0, q0, %q[high]\n"

#define HIL_MVE_SUMS_OUTPUTS(scale_, narrow)                                                       \
    __asm__ volatile("dls lr, %[sixteens]\n"                                                       \
                     "b 2f\n"                                                                      \
                     "1:\n"                                                                        \
                     "vstrb.8 q0, [%[out]], #16\n"                                                 \
                     "2:\n" scale_ narrow                                                          \
                     "le lr, 1b\n"                                                                 \
                     "vctp.8 %[last]\n"                                                            \
                     "vpst\n"                                                                      \
                     "vstrbt.8 q0, [%[out]]\n"                                                     \
                     : [sums] "+&r"(sums), [scale] "+&r"(scale), [out] "+&r"(out)                  \
                     : [sixteens] "r"(sixteens), [last] "r"(columns - 16 * (sixteens - 1)),        \
                       [multiplier] "r"(scale[0]), [shift] "r"(scale[1]),                          \
                       [zero] "r"(p->out_zero_point), [one] "r"(1), [low] "w"(low),                \
                       [high] "w"(high)                                                            \
                     : "q0", "q1", "q2", "q3", "q4", "q5", "lr", "cc", "memory")
/* clang-format on */

/*@kernel
name = "hil_mve_matvec_s8_two_passes"
requires = ["mve"]
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "4 * group + 16 * chunks * copied"
order = ["pixels 1", "channels group"]
reads = "rows"
code = 800
shared = {hil_mve_sums = 560}
variable = ["out_zero_point"]
[cost]
row = "rows"
group_call = "rows * ((columns + group - 1) // group)"
eight = "2 * rows * ((columns + 15) // 16)"
eight_chunk = "eight * chunks"
passing_chunk = "eight * max(0, chunks - 3)"
far_eight = "eight * max(0, chunks - 4) // 8"
clamped_eight = "eight * (any % 2)"
scaled_eight = "eight * (1 - uniform)"
@*/
struct hil_mve_matvec_s8_two_passes {
    int32_t rows;    /* rows of the input, and of the output */
    int32_t depth;   /* elements of a row */
    int32_t columns; /* outputs of a row */
    int32_t chunks;  /* of 16 weights, the depth rounded up */
    int32_t copied;  /* 1: the depth is not whole chunks, so that rows are copied to be read so */
    int32_t group;   /* columns whose sums are computed at a time, whole sixteens */
    int32_t uniform; /* 1: one multiplier and one shift for all columns */
    int32_t any;     /* as in HIL_MVE_PIXELS_FIELDS */
    HIL_OUTPUT_RANGE_FIELDS;
    const int8_t *stream; /* the head draws it, columns filled up to sixteens */
    const int32_t *scale; /* the head draws it */
};

/* The outputs of some columns, from their sums. */
HIL_INLINE void hil_mve_matvec_s8_two_passes_store(const struct hil_mve_matvec_s8_two_passes *p,
                                                   const int32_t *sums, const int32_t *scale,
                                                   int8_t *out, int32_t columns) {
    const int32_t sixteens = (columns + 15) / 16;
    const int8x16_t low = vdupq_n_s8((int8_t)p->out_min);
    const int8x16_t high = vdupq_n_s8((int8_t)p->out_max);
    const int32_t once = p->any & HIL_MVE_ANY_ONCE;
    if (p->any % 2 == 0) {
        if (p->uniform && once) {
            HIL_MVE_SUMS_OUTPUTS(HIL_MVE_SUMS_UNIFORM(HIL_MVE_ONCE, HIL_MVE_SUMS_AS_IS),
                                 HIL_MVE_SUMS_PLAIN);
        } else if (p->uniform) {
            HIL_MVE_SUMS_OUTPUTS(HIL_MVE_SUMS_UNIFORM(HIL_MVE_TWICE, HIL_MVE_SUMS_AS_IS),
                                 HIL_MVE_SUMS_PLAIN);
        } else if (once) {
            HIL_MVE_SUMS_OUTPUTS(HIL_MVE_SUMS_EACH(HIL_MVE_ONCE, HIL_MVE_SUMS_AS_IS),
                                 HIL_MVE_SUMS_PLAIN);
        } else {
            HIL_MVE_SUMS_OUTPUTS(HIL_MVE_SUMS_EACH(HIL_MVE_TWICE, HIL_MVE_SUMS_AS_IS),
                                 HIL_MVE_SUMS_PLAIN);
        }
    } else if (p->uniform && once) {
        HIL_MVE_SUMS_OUTPUTS(HIL_MVE_SUMS_UNIFORM(HIL_MVE_ONCE, HIL_MVE_SUMS_AS_IS),
                             HIL_MVE_SUMS_ANY);
    } else if (p->uniform) {
        HIL_MVE_SUMS_OUTPUTS(HIL_MVE_SUMS_UNIFORM(HIL_MVE_TWICE, HIL_MVE_SUMS_CORRECT),
                             HIL_MVE_SUMS_ANY);
    } else if (once) {
        HIL_MVE_SUMS_OUTPUTS(HIL_MVE_SUMS_EACH(HIL_MVE_ONCE, HIL_MVE_SUMS_AS_IS), HIL_MVE_SUMS_ANY);
    } else {
        HIL_MVE_SUMS_OUTPUTS(HIL_MVE_SUMS_EACH(HIL_MVE_TWICE, HIL_MVE_SUMS_CORRECT),
                             HIL_MVE_SUMS_ANY);
    }
}

HIL_INLINE void hil_mve_matvec_s8_two_passes(const struct hil_mve_matvec_s8_two_passes *p,
                                             const int8_t *in, int8_t *out, void *scratch) {
    int32_t *const sums = (int32_t *)scratch;
    int8_t *const copy = (int8_t *)scratch + 4 * p->group;
    const int32_t near = p->chunks <= HIL_MVE_SUMS_KEPT;
    const int32_t far = p->chunks > HIL_MVE_SUMS_KEPT + HIL_MVE_SUMS_PASSING;
    const int32_t slots = near ? HIL_MVE_SUMS_KEPT : HIL_MVE_SUMS_PASSING;
    const int32_t slot_bytes = near ? HIL_MVE_SUMS_KEPT_BYTES : HIL_MVE_SUMS_PASSING_BYTES;
    const int32_t jumped = near ? p->chunks : p->chunks - HIL_MVE_SUMS_KEPT;
    const int32_t skipped = (slots - jumped % slots) % slots;
    hil_mve_sums_function *const function = near  ? hil_mve_sums_near
                                            : far ? hil_mve_sums_far
                                                  : hil_mve_sums_middle;
    struct hil_mve_sums part = {
        .turns = 0,
        .skipped = skipped * slot_bytes,
        .x_bytes = HIL_MVE_CHUNK * (far ? p->chunks : skipped),
    };
    for (int32_t rows = p->rows; rows > 0; rows--) {
        const int8_t *x = in;
        if (p->copied) {
            hil_mve_copy_chunks(copy, in, p->depth, HIL_MVE_CHUNK);
            x = copy;
        }
        const int8_t *stream = p->stream;
        const int32_t *scale = p->scale;
        for (int32_t left = p->columns; left > 0; left -= p->group) {
            const int32_t columns = left < p->group ? left : p->group;
            const int32_t sixteens = (columns + 15) / 16;
            part.turns = far ? 2 * sixteens : sixteens;
            function(x, stream, sums, &part);
            hil_mve_matvec_s8_two_passes_store(p, sums, scale, out, columns);
            stream += sixteens * (64 + 16 * HIL_MVE_CHUNK * p->chunks);
            scale += p->uniform ? 0 : 32 * sixteens;
            out += columns;
        }
        in += p->depth;
    }
}

#endif
