/* Depthwise convolution of int8 images with filters of up to five rows and eight columns on Helium,
 * as dot products over the rows of filters: the pixels under a band of eight output rows are laid
 * out plane by plane, the zero point around the image, and a row of sixteen pixels serves all
 * outputs of a column whose windows cover it.
 *
 * Tile: 8x1 outputs x 1 channel.
 *
 *   stride 1   row of the plane          sum of output, by vmladava with row of the filter
 *              0                         0 by q0
 *              1                         0 by q1, 1 by q0
 *              4                         0 by q4, 1 by q3, 2 by q2, 3 by q1, 4 by q0
 *              11                        7 by q4
 *   stride 2   2y + i                    y by q[i], for i of 0 to 4: rows 0 to 18
 *
 * Registers, at the top of a column:
 *
 *   q0..q4  rows of the filter, zeros behind its columns        q7  offsets of the eight outputs
 *   q5 q6   a row of pixels, then sums of even and of odd rows
 *   r0 r2 r4 r6 r8 r10 r12 lr  sums         r1  plane           r3   outputs
 *   r5  bias    r7  multiplier              r9  shift           r11  columns left
 *   stack: plane at 64, stream at 68, outputs at 72, struct hil_mve_row_tiles at 76
 *
 * Data: packed by `_depthwise_rows()` of the Helium family.
 *
 *   stream   per channel 52 bytes: int8[5][8] filter, int32 +40 bias, +44 multiplier, +48 shift
 *   planes   in scratch, int8 [planes][plane_h][plane_w]: 12 rows with stride 1, 19 with stride 2
 *
 * Order: bands of eight rows; `planes` channels of the image at a time their pixels are read, then
 * the outputs of all their filters written.
 *
 * Bounds: at most 40 products, 40 * 128 * 128 < 2^20, and the bias, below 2^31
 * (`_check_quantized()`). Offsets of outputs are 16 bits: `_depthwise_rows()` checks that seven
 * rows of outputs have fewer bytes. A load of sixteen pixels reaches beyond its row, and sixteen
 * bytes beyond the last plane, where the filter is zero.
 *
 * Output: as in blocks_s8.h, one multiplier and one shift a channel; `any` corrects signs, unless
 * sums are rounded once, and clamps.
 *
 * Scratch: the planes of a band, and sixteen bytes.
 *
 * Cost, measured (`python tools/measure.py costs measure`, instructions under QEMU): 5x5 with
 * stride 1 0.43 a MAC (24x24x32) to 0.53 (7x7x240), with stride 2 0.58 to 0.63; in less scratch 0.1
 * to 0.3 more. The portable kernel 2.5 to 2.7, and 2.9 to 3.2.
 *
 * Tests: no twin in C; the numpy reference gives what must come out (tests/board/test_kernels.py,
 * buffers between guard bytes).
 */
#ifndef HIL_KERNELS_MVE_DEPTHWISE_CONV2D_S8_ROWS_H
#define HIL_KERNELS_MVE_DEPTHWISE_CONV2D_S8_ROWS_H

#include "hil/kernels/mve/depthwise_conv2d_s8.h"

/* What the columns of some channels share. The assembly knows the offsets. */
struct hil_mve_row_tiles {
    int32_t channels;    /*  0: counted down */
    int32_t plane_bytes; /*  4 */
    int32_t columns;     /*  8 */
    int32_t filter_w;    /* 12 */
    int32_t mask;        /* 16: of the outputs that there are, two bits each */
    int32_t zero_point;  /* 20: of the output */
    int32_t step;        /* 24: from an output to the next column's */
    int32_t low;         /* 28 */
    int32_t high;        /* 32 */
    uint16_t places[8];  /* 36: of the outputs of a column */
};

HIL_MVE_AT(hil_mve_row_tiles, channels, 0);
HIL_MVE_AT(hil_mve_row_tiles, plane_bytes, 4);
HIL_MVE_AT(hil_mve_row_tiles, columns, 8);
HIL_MVE_AT(hil_mve_row_tiles, filter_w, 12);
HIL_MVE_AT(hil_mve_row_tiles, mask, 16);
HIL_MVE_AT(hil_mve_row_tiles, zero_point, 20);
HIL_MVE_AT(hil_mve_row_tiles, step, 24);
HIL_MVE_AT(hil_mve_row_tiles, low, 28);
HIL_MVE_AT(hil_mve_row_tiles, high, 32);
HIL_MVE_AT(hil_mve_row_tiles, places, 36);

/* Leaves the arguments on the stack. */
#define HIL_MVE_BAND_ENTER                                                                         \
    "push {r0-r11, lr}\n"                                                                          \
    "vpush {d8-d15}\n"                                                                             \
    "add r3, #36\n"                                                                                \
    "vldrh.u16 q7, [r3]\n"

/* The next channel: its filter, and what requantizes its sums. */
#define HIL_MVE_BAND_CHANNEL                                                                       \
    ".p2align 2\n"                                                                                 \
    "1:\n"                                                                                         \
    "ldr r0, [sp, #76]\n"                                                                          \
    "ldr r1, [sp, #68]\n"                                                                          \
    "ldrd r11, r2, [r0, #8]\n"                                                                     \
    "vctp.8 r2\n"                                                                                  \
    "vpstttt\n"                                                                                    \
    "vldrbt.8 q0, [r1], #8\n"                                                                      \
    "vldrbt.8 q1, [r1], #8\n"                                                                      \
    "vldrbt.8 q2, [r1], #8\n"                                                                      \
    "vldrbt.8 q3, [r1], #8\n"                                                                      \
    "vpst\n"                                                                                       \
    "vldrbt.8 q4, [r1], #8\n"                                                                      \
    "ldmia r1!, {r5, r7, r9}\n"                                                                    \
    "str r1, [sp, #68]\n"                                                                          \
    "ldr r1, [sp, #64]\n"                                                                          \
    "ldr r3, [sp, #72]\n"                                                                          \
    "2:\n"

/* The next row of the plane, and what it adds to sums. */
#define HIL_MVE_BAND_LOAD(line) "vldrb.8 q5, [r1], #" line "\n"
#define HIL_MVE_BAND_FIRST(sum) "vmladav.s8 " sum ", q5, q0\n"
#define HIL_MVE_BAND_ADD(sum, row) "vmladava.s8 " sum ", q5, " row "\n"

#define HIL_MVE_BAND_STRIDE_1(line)                                                                \
    HIL_MVE_BAND_LOAD(line)                                                                        \
    HIL_MVE_BAND_FIRST("r0")                                                                       \
    HIL_MVE_BAND_LOAD(line)                                                                        \
    HIL_MVE_BAND_ADD("r0", "q1")                                                                   \
    HIL_MVE_BAND_FIRST("r2")                                                                       \
    HIL_MVE_BAND_LOAD(line)                                                                        \
    HIL_MVE_BAND_ADD("r0", "q2")                                                                   \
    HIL_MVE_BAND_ADD("r2", "q1")                                                                   \
    HIL_MVE_BAND_FIRST("r4")                                                                       \
    HIL_MVE_BAND_LOAD(line)                                                                        \
    HIL_MVE_BAND_ADD("r0", "q3")                                                                   \
    HIL_MVE_BAND_ADD("r2", "q2")                                                                   \
    HIL_MVE_BAND_ADD("r4", "q1")                                                                   \
    HIL_MVE_BAND_FIRST("r6")                                                                       \
    HIL_MVE_BAND_FOUR_AND_FIRST(line, "r0", "r2", "r4", "r6", "r8")                                \
    HIL_MVE_BAND_FOUR_AND_FIRST(line, "r2", "r4", "r6", "r8", "r10")                               \
    HIL_MVE_BAND_FOUR_AND_FIRST(line, "r4", "r6", "r8", "r10", "r12")                              \
    HIL_MVE_BAND_FOUR_AND_FIRST(line, "r6", "r8", "r10", "r12", "lr")                              \
    HIL_MVE_BAND_LOAD(line)                                                                        \
    HIL_MVE_BAND_ADD("r8", "q4")                                                                   \
    HIL_MVE_BAND_ADD("r10", "q3")                                                                  \
    HIL_MVE_BAND_ADD("r12", "q2")                                                                  \
    HIL_MVE_BAND_ADD("lr", "q1")                                                                   \
    HIL_MVE_BAND_LOAD(line)                                                                        \
    HIL_MVE_BAND_ADD("r10", "q4")                                                                  \
    HIL_MVE_BAND_ADD("r12", "q3")                                                                  \
    HIL_MVE_BAND_ADD("lr", "q2")                                                                   \
    HIL_MVE_BAND_LOAD(line)                                                                        \
    HIL_MVE_BAND_ADD("r12", "q4")                                                                  \
    HIL_MVE_BAND_ADD("lr", "q3")                                                                   \
    HIL_MVE_BAND_LOAD(line)                                                                        \
    HIL_MVE_BAND_ADD("lr", "q4")
#define HIL_MVE_BAND_FOUR_AND_FIRST(line, a, b, c, d, e)                                           \
    HIL_MVE_BAND_LOAD(line)                                                                        \
    HIL_MVE_BAND_ADD(a, "q4")                                                                      \
    HIL_MVE_BAND_ADD(b, "q3")                                                                      \
    HIL_MVE_BAND_ADD(c, "q2")                                                                      \
    HIL_MVE_BAND_ADD(d, "q1")                                                                      \
    HIL_MVE_BAND_FIRST(e)

/* Two rows: the end of the windows of a, the middle of those of b, the beginning of those of c. */
#define HIL_MVE_BAND_TWO(line, a, b, c)                                                            \
    HIL_MVE_BAND_LOAD(line)                                                                        \
    HIL_MVE_BAND_ADD(a, "q4")                                                                      \
    HIL_MVE_BAND_ADD(b, "q2")                                                                      \
    HIL_MVE_BAND_FIRST(c)                                                                          \
    HIL_MVE_BAND_LOAD(line)                                                                        \
    HIL_MVE_BAND_ADD(b, "q3")                                                                      \
    HIL_MVE_BAND_ADD(c, "q1")
#define HIL_MVE_BAND_STRIDE_2(line)                                                                \
    HIL_MVE_BAND_LOAD(line)                                                                        \
    HIL_MVE_BAND_FIRST("r0")                                                                       \
    HIL_MVE_BAND_LOAD(line)                                                                        \
    HIL_MVE_BAND_ADD("r0", "q1")                                                                   \
    HIL_MVE_BAND_LOAD(line)                                                                        \
    HIL_MVE_BAND_ADD("r0", "q2")                                                                   \
    HIL_MVE_BAND_FIRST("r2")                                                                       \
    HIL_MVE_BAND_LOAD(line)                                                                        \
    HIL_MVE_BAND_ADD("r0", "q3")                                                                   \
    HIL_MVE_BAND_ADD("r2", "q1")                                                                   \
    HIL_MVE_BAND_TWO(line, "r0", "r2", "r4")                                                       \
    HIL_MVE_BAND_TWO(line, "r2", "r4", "r6")                                                       \
    HIL_MVE_BAND_TWO(line, "r4", "r6", "r8")                                                       \
    HIL_MVE_BAND_TWO(line, "r6", "r8", "r10")                                                      \
    HIL_MVE_BAND_TWO(line, "r8", "r10", "r12")                                                     \
    HIL_MVE_BAND_TWO(line, "r10", "r12", "lr")                                                     \
    HIL_MVE_BAND_LOAD(line)                                                                        \
    HIL_MVE_BAND_ADD("r12", "q4")                                                                  \
    HIL_MVE_BAND_ADD("lr", "q2")                                                                   \
    HIL_MVE_BAND_LOAD(line)                                                                        \
    HIL_MVE_BAND_ADD("lr", "q3")                                                                   \
    HIL_MVE_BAND_LOAD(line)                                                                        \
    HIL_MVE_BAND_ADD("lr", "q4")

#define HIL_MVE_BAND_CORRECT                                                                       \
    "mov r0, #1\n" HIL_MVE_AWAY_FROM_ZERO("q5", "r0") HIL_MVE_AWAY_FROM_ZERO("q6", "r0")

/* The whole range of int8, and any other. */
#define HIL_MVE_BAND_SATURATE "vqmovnb.s16 q5, q5\n"
#define HIL_MVE_BAND_CLAMP                                                                         \
    "ldrd r4, r6, [r2, #28]\n"                                                                     \
    "vdup.16 q6, r4\n"                                                                             \
    "vmax.s16 q5, q5, q6\n"                                                                        \
    "vdup.16 q6, r6\n"                                                                             \
    "vmin.s16 q5, q5, q6\n"

#define HIL_MVE_BAND_SCALE(multiply, correct, clamp)                                               \
    "vmov q5[2], q5[0], r0, r8\n"                                                                  \
    "vmov q5[3], q5[1], r4, r12\n"                                                                 \
    "vmov q6[2], q6[0], r2, r10\n"                                                                 \
    "vmov q6[3], q6[1], r6, lr\n"                                                                  \
    "ldr r2, [sp, #76]\n"                                                                          \
    "vadd.i32 q5, q5, r5\n"                                                                        \
    "vadd.i32 q6, q6, r5\n" multiply ".s32 q5, q5, r7\n" multiply ".s32 q6, q6, r7\n" correct      \
    "vrshl.s32 q5, r9\n"                                                                           \
    "vrshl.s32 q6, r9\n"                                                                           \
    "ldrd r8, r0, [r2, #16]\n"                                                                     \
    "vqmovnb.s32 q5, q5\n"                                                                         \
    "vqmovnt.s32 q5, q6\n"                                                                         \
    "vqadd.s16 q5, q5, r0\n" clamp "vmsr p0, r8\n"                                                 \
    "vpst\n"                                                                                       \
    "vstrbt.16 q5, [r3, q7]\n"

/* The next column, and the next channel; back is from behind a column's last row to the next. */
#define HIL_MVE_BAND_NEXT(back)                                                                    \
    "ldr r0, [r2, #24]\n"                                                                          \
    "subw r1, r1, #" back "\n"                                                                     \
    "subs r11, #1\n"                                                                               \
    "add r3, r0\n"                                                                                 \
    "bne.w 2b\n"                                                                                   \
    "ldrd r4, r6, [r2]\n"                                                                          \
    "ldr r1, [sp, #64]\n"                                                                          \
    "ldr r3, [sp, #72]\n"                                                                          \
    "add r1, r6\n"                                                                                 \
    "add r3, #1\n"                                                                                 \
    "str r1, [sp, #64]\n"                                                                          \
    "str r3, [sp, #72]\n"                                                                          \
    "subs r4, #1\n"                                                                                \
    "str r4, [r2]\n"                                                                               \
    "bne.w 1b\n"                                                                                   \
    "vpop {d8-d15}\n"                                                                              \
    "pop {r0-r11, pc}\n"

#define HIL_MVE_BAND_FUNCTION(name, rows, line, back, multiply, correct, clamp)                    \
    __attribute__((naked, noipa, unused)) static void name(                                        \
        const int8_t *planes __attribute__((unused)),                                              \
        const int8_t *stream __attribute__((unused)), int8_t *out __attribute__((unused)),         \
        struct hil_mve_row_tiles *tiles __attribute__((unused))) {                                 \
        __asm__(HIL_MVE_BAND_ENTER HIL_MVE_BAND_CHANNEL rows(line)                                 \
                    HIL_MVE_BAND_SCALE(multiply, correct, clamp) HIL_MVE_BAND_NEXT(back));         \
    }

/* For outputs over the whole range of int8 whose values below the zero point clamp, and any others;
 * for sums rounded twice, and once, which needs no correction of signs. */
#define HIL_MVE_BAND_FUNCTIONS(name, rows, line, back)                                             \
    HIL_MVE_BAND_FUNCTION(name, rows, line, back, HIL_MVE_TWICE, "", HIL_MVE_BAND_SATURATE)        \
    HIL_MVE_BAND_FUNCTION(name##_any, rows, line, back, HIL_MVE_TWICE, HIL_MVE_BAND_CORRECT,       \
                          HIL_MVE_BAND_CLAMP)                                                      \
    HIL_MVE_BAND_FUNCTION(name##_once, rows, line, back, HIL_MVE_ONCE, "", HIL_MVE_BAND_SATURATE)  \
    HIL_MVE_BAND_FUNCTION(name##_any_once, rows, line, back, HIL_MVE_ONCE, "", HIL_MVE_BAND_CLAMP)

/* By stride, and by the bytes of a row of a plane. */
HIL_MVE_BAND_FUNCTIONS(hil_mve_rows_1_32, HIL_MVE_BAND_STRIDE_1, "32", "383")
HIL_MVE_BAND_FUNCTIONS(hil_mve_rows_1_96, HIL_MVE_BAND_STRIDE_1, "96", "1151")
HIL_MVE_BAND_FUNCTIONS(hil_mve_rows_2_32, HIL_MVE_BAND_STRIDE_2, "32", "606")
HIL_MVE_BAND_FUNCTIONS(hil_mve_rows_2_96, HIL_MVE_BAND_STRIDE_2, "96", "1822")

typedef void hil_mve_rows_function(const int8_t *planes, const int8_t *stream, int8_t *out,
                                   struct hil_mve_row_tiles *tiles);

#define HIL_MVE_BAND_OF(name, any)                                                                 \
    (((any)&1) ? HIL_MVE_TILES_OF(name##_any, any) : HIL_MVE_TILES_OF(name, any))

/* Outputs of a column that are computed together. */
#define HIL_MVE_BAND_ROWS 8

/*@kernel
name = "hil_mve_depthwise_conv2d_s8_rows"
requires = ["mve"]
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "planes * plane_h * plane_w + 16"
order = ["rows 8", "channels planes * depth_multiplier"]
reads = "channel window"
code = 1100
[cost]
band = "batch * ((out_h + 7) // 8)"
group = "band * ((in_c + planes - 1) // planes)"
plane = "band * in_c"
filters_of_plane = "plane * (depth_multiplier > 1)"
channel = "plane * depth_multiplier"
column = "channel * out_w"
clamped = "column * (any % 2)"
pixel = "plane * plane_h * in_w"
pixel_call = "pixel / planes"
byte = "plane * plane_h * plane_w"
@*/
struct hil_mve_depthwise_conv2d_s8_rows {
    HIL_IMAGES_FIELDS;
    int32_t filter_h;         /* at most 5, dilation included */
    int32_t filter_w;         /* at most 8, likewise */
    int32_t stride;           /* 1 or 2 */
    int32_t pad_top;          /* rows by which the first window reaches above the image */
    int32_t pad_left;         /* columns by which the first window reaches beyond the image */
    int32_t depth_multiplier; /* filters of a channel of the image */
    int32_t planes;           /* channels of the image at a time, at most 8 */
    int32_t plane_h;          /* input rows of a band: 12 with stride 1, 19 with stride 2 */
    int32_t plane_w;          /* input columns, as far as windows reach: 32 or 96 */
    int32_t any;              /* as in HIL_MVE_PIXELS_FIELDS */
    int32_t in_zero_point; /* the input that stands for 0.0, which pixels outside the image have */
    HIL_OUTPUT_RANGE_FIELDS;
    const int8_t *stream; /* the head draws it */
};

/* The pixels of some channels under a band from row y on, and the zero point around the image. */
HIL_INLINE void hil_mve_rows_planes(const struct hil_mve_depthwise_conv2d_s8_rows *p,
                                    const int8_t *in, int32_t y, int32_t channels, int8_t *planes) {
    const int32_t plane_bytes = p->plane_h * p->plane_w;
    const int8x16_t around = vdupq_n_s8((int8_t)p->in_zero_point);
    int8_t *place = planes;
    for (int32_t left = channels * plane_bytes; left > 0; left -= HIL_MVE_CHUNK) {
        vstrbq_s8(place, around);
        place += HIL_MVE_CHUNK;
    }
    const int32_t above = y < 0 ? -y : 0;
    const int32_t below = y + p->plane_h > p->in_h ? y + p->plane_h - p->in_h : 0;
    const int32_t rows = p->plane_h - above - below;
    const int32_t fitting = p->plane_w - p->pad_left;
    const int32_t width = p->in_w < fitting ? p->in_w : fitting;
    if (rows <= 0 || width <= 0) {
        return;
    }
    const uint16x8_t to_channel = vmulq_n_u16(vidupq_n_u16(0, 1), (uint16_t)plane_bytes);
    const int32_t line = p->in_w * p->in_c;
    hil_mve_planes(in + (y + above) * line, planes + above * p->plane_w + p->pad_left, to_channel,
                   channels, rows, line, p->plane_w, width, p->in_c, 1);
}

HIL_INLINE void hil_mve_depthwise_conv2d_s8_rows(const struct hil_mve_depthwise_conv2d_s8_rows *p,
                                                 const int8_t *in, int8_t *out, void *scratch) {
    int8_t *const planes = (int8_t *)scratch;
    const int32_t filters = p->depth_multiplier;
    const int32_t columns = p->in_c * filters;
    const int32_t line = p->out_w * columns;
    struct hil_mve_row_tiles tiles = {
        .channels = 0,
        .plane_bytes = filters == 1 ? p->plane_h * p->plane_w : 0,
        .columns = p->out_w,
        .filter_w = p->filter_w,
        .mask = 0,
        .zero_point = p->out_zero_point,
        .step = columns,
        .low = p->out_min,
        .high = p->out_max,
        .places = {0},
    };
    for (int32_t row = 0; row < HIL_MVE_BAND_ROWS; row++) {
        tiles.places[row] = (uint16_t)(row * line);
    }
    hil_mve_rows_function *function;
    if (p->stride == 1) {
        function = p->plane_w == 32 ? HIL_MVE_BAND_OF(hil_mve_rows_1_32, p->any)
                                    : HIL_MVE_BAND_OF(hil_mve_rows_1_96, p->any);
    } else {
        function = p->plane_w == 32 ? HIL_MVE_BAND_OF(hil_mve_rows_2_32, p->any)
                                    : HIL_MVE_BAND_OF(hil_mve_rows_2_96, p->any);
    }
    for (int32_t images = p->batch; images > 0; images--) {
        int32_t y = -p->pad_top;
        for (int32_t left = p->out_h; left > 0; left -= HIL_MVE_BAND_ROWS) {
            const int32_t rows = left < HIL_MVE_BAND_ROWS ? left : HIL_MVE_BAND_ROWS;
            const int8_t *stream = p->stream;
            tiles.mask = (1 << (2 * rows)) - 1;
            for (int32_t first = 0; first < p->in_c; first += p->planes) {
                const int32_t more = p->in_c - first;
                const int32_t count = more < p->planes ? more : p->planes;
                hil_mve_rows_planes(p, in + first, y, count, planes);
                /* A plane is that of one channel, or of all filters of one. */
                const int32_t calls = filters == 1 ? 1 : count;
                const int32_t channels = filters == 1 ? count : filters;
                for (int32_t call = 0; call < calls; call++) {
                    tiles.channels = channels;
                    function(planes + call * p->plane_h * p->plane_w, stream,
                             out + first * filters + call * channels, &tiles);
                    stream += 52 * channels;
                }
            }
            y += HIL_MVE_BAND_ROWS * p->stride;
            out += rows * line;
        }
        in += p->in_h * p->in_w * p->in_c;
    }
}

#endif
