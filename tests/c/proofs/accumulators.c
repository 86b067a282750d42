/* Runs the kernels' own arithmetic on every sum that an output channel can have, and compares each
 * output with the specification's. The undefined-behaviour sanitizer watches every step.
 *
 * stdin: records of struct ends, each with `levels` words behind it: the sum from which on the
 * specification's output is above out_min, by one more each. stdout: a line "record: what" for each
 * record with a wrong output, the first of them, and "checked N". */
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "hil/kernels/compact/channel_s8.h"
#include "hil/kernels/generic/columns_s8.h"
#include "hil/kernels/generic/depthwise_conv2d_s8.h"

enum { COLUMNS, DEPTHWISE, COMPACT, KINDS };
enum { LEVELS_MAX = 256 };

struct ends {
    int32_t kind; /* whose arithmetic */
    int32_t narrow;
    int32_t out_zero_point;
    int32_t out_min;
    int32_t out_max;
    int32_t multiplier;
    int32_t shift;
    int32_t least; /* sum */
    int32_t most;
    int32_t levels;
};

static int32_t thresholds[LEVELS_MAX];

static int32_t columns(const struct ends *e, int32_t sum) {
    const struct hil_columns_s8 p = {.out_zero_point = e->out_zero_point,
                                     .out_min = e->out_min,
                                     .out_max = e->out_max,
                                     .narrow = e->narrow};
    return hil_columns_s8_output(&p, sum, e->multiplier, e->shift);
}

/* A window of one pixel whose weight is 0: the sum is the bias. */
static int32_t depthwise(const struct ends *e, int32_t sum) {
    static const int8_t zero[1] = {0};
    const struct hil_generic_depthwise_conv2d_s8 p = {.in_c = 1,
                                                      .depth_multiplier = 1,
                                                      .filter_h = 1,
                                                      .filter_w = 1,
                                                      .stride_w = 1,
                                                      .dilation_w = 1,
                                                      .block = 1,
                                                      .band_w = 1,
                                                      .out_zero_point = e->out_zero_point,
                                                      .out_min = e->out_min,
                                                      .out_max = e->out_max,
                                                      .narrow = e->narrow};
    const struct hil_depthwise_conv2d_s8_channel channel = {
        .weights = zero, .bias = sum, .multiplier = e->multiplier, .shift = e->shift};
    int8_t out;
    hil_depthwise_conv2d_s8_pixels(&p, &channel, 1, zero, &out);
    return out;
}

static int32_t compact(const struct ends *e, int32_t sum) {
    /* As layers have it: in six bytes, unless the multiplier needs eight. */
    const bool wide = e->multiplier < INT32_C(1) << 30;
    const uint32_t word = (uint32_t)e->multiplier << (wide ? 0 : 2);
    const int16_t halves[2] = {(int16_t)(word & 0xffffU), (int16_t)(word >> 16)};
    const int16_t narrow_scales[] = {(int16_t)e->shift, halves[0], halves[1], 0};
    const int16_t wide_scales[] = {halves[0], halves[1], (int16_t)(e->shift + 32), 0};
    const int16_t *const scales = wide ? wide_scales : narrow_scales;
    return hil_compact_output(sum, hil_compact_first(scales, wide), scales, wide, e->narrow,
                              e->out_zero_point, e->out_min, e->out_max);
}

/* One loop for each arithmetic and rounding, so that the compiler specialises it as for a layer. */
#define CHECK(function, rounding)                                                                  \
    do {                                                                                           \
        struct ends e = *given;                                                                    \
        e.narrow = (rounding);                                                                     \
        int32_t level = 0;                                                                         \
        for (int64_t sum = e.least; sum <= e.most; sum++) {                                        \
            while (level < e.levels && sum >= thresholds[level]) {                                 \
                level++;                                                                           \
            }                                                                                      \
            const int32_t out = function(&e, (int32_t)sum);                                        \
            if (out != e.out_min + level) {                                                        \
                printf("%" PRIu32 ": sum %" PRId64 " gives %" PRId32 ", not %" PRId32 "\n",        \
                       record, sum, out, e.out_min + level);                                       \
                return false;                                                                      \
            }                                                                                      \
        }                                                                                          \
    } while (0)

#define CHECK_ALL(function)                                                                        \
    do {                                                                                           \
        switch (given->narrow) {                                                                   \
        case HIL_ROUND_TWICE:                                                                      \
            CHECK(function, HIL_ROUND_TWICE);                                                      \
            break;                                                                                 \
        case HIL_ROUND_TWICE_NARROW:                                                               \
            CHECK(function, HIL_ROUND_TWICE_NARROW);                                               \
            break;                                                                                 \
        case HIL_ROUND_HALF_UP:                                                                    \
            CHECK(function, HIL_ROUND_HALF_UP);                                                    \
            break;                                                                                 \
        case HIL_ROUND_HALF_UP_NARROW:                                                             \
            CHECK(function, HIL_ROUND_HALF_UP_NARROW);                                             \
            break;                                                                                 \
        default:                                                                                   \
            CHECK(function, HIL_ROUND_EVEN);                                                       \
        }                                                                                          \
    } while (0)

static bool check(uint32_t record, const struct ends *given) {
    switch (given->kind) {
    case COLUMNS:
        CHECK_ALL(columns);
        return true;
    case DEPTHWISE:
        CHECK_ALL(depthwise);
        return true;
    case COMPACT:
        CHECK_ALL(compact);
        return true;
    default:
        return false;
    }
}

int main(void) {
    struct ends given;
    uint64_t checked = 0;
    uint32_t record = 0;
    bool good = true;
    while (fread(&given, sizeof given, 1, stdin) == 1) {
        const size_t levels = (size_t)given.levels;
        if (levels > LEVELS_MAX || fread(thresholds, 4, levels, stdin) != levels) {
            return 2;
        }
        good &= check(record++, &given);
        checked += (uint64_t)((int64_t)given.most - given.least + 1);
    }
    printf("checked %" PRIu64 "\n", checked);
    return good ? 0 : 1;
}
