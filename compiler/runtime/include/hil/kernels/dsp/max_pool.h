/* Maxima of int8 and int16 windows, which may reach beyond the image, on cores that compare the
 * bytes or the half-words of a word at once. */
#ifndef HIL_KERNELS_DSP_MAX_POOL_H
#define HIL_KERNELS_DSP_MAX_POOL_H

#include <string.h>

#include "hil/dsp.h"
#include "hil/kernels/dsp/clamp_s8.h"
#include "hil/kernels/generic/pool.h"

/* Writes two words of the largest elements of a window, and returns what follows them; `most` is
 * that of two words, `least` the word of the least elements. */
#define HIL_DSP_LARGEST(element, name, most, least)                                                \
    HIL_INLINE void name(const element *pixel, int32_t rows, int32_t columns, int32_t line,        \
                         int32_t step, int32_t words, uint32_t *largest) {                         \
        uint32_t first = (least);                                                                  \
        uint32_t second = (least);                                                                 \
        for (; rows > 0; rows--) {                                                                 \
            const element *x = pixel;                                                              \
            for (int32_t left = columns; left > 0; left--) {                                       \
                first = most(first, hil_dsp_load(x));                                              \
                if (words > 1) {                                                                   \
                    second = most(second, hil_dsp_load(x + 4 / sizeof(element)));                  \
                }                                                                                  \
                x += step;                                                                         \
            }                                                                                      \
            pixel += line;                                                                         \
        }                                                                                          \
        largest[0] = first;                                                                        \
        largest[1] = second;                                                                       \
    }

HIL_DSP_LARGEST(int8_t, hil_dsp_largest_s8, hil_dsp_most_bytes, 0x80808080U)
HIL_DSP_LARGEST(int16_t, hil_dsp_largest_s16, hil_dsp_most_halves, 0x80008000U)

#undef HIL_DSP_LARGEST

/* Writes the maxima of all windows, of so many channels as a word has elements at a time, twice as
 * many where there are. */
#define HIL_DSP_MAX_POOL(p, in, out, element, largest, clamped)                                    \
    do {                                                                                           \
        enum { WORD = 4 / sizeof(element) };                                                       \
        const int32_t line = (p)->in_w * (p)->channels;                                            \
        for (int32_t batch = 0; batch < (p)->batches; batch++) {                                   \
            for (int32_t out_y = 0; out_y < (p)->out_h; out_y++) {                                 \
                const struct hil_pool_range y = hil_pool_cover(                                    \
                    out_y * (p)->stride_h - (p)->pad_top, (p)->filter_h, (p)->in_h);               \
                for (int32_t out_x = 0; out_x < (p)->out_w; out_x++) {                             \
                    const struct hil_pool_range x = hil_pool_cover(                                \
                        out_x * (p)->stride_w - (p)->pad_left, (p)->filter_w, (p)->in_w);          \
                    const element *corner = (in) + y.begin * line + x.begin * (p)->channels;       \
                    int32_t left = (p)->channels;                                                  \
                    uint32_t words[2];                                                             \
                    for (; left >= 2 * WORD; left -= 2 * WORD) {                                   \
                        largest(corner, y.count, x.count, line, (p)->channels, 2, words);          \
                        clamped((p), words[0], (out));                                             \
                        clamped((p), words[1], (out) + WORD);                                      \
                        corner += 2 * WORD;                                                        \
                        (out) += 2 * WORD;                                                         \
                    }                                                                              \
                    if (left >= WORD) {                                                            \
                        largest(corner, y.count, x.count, line, (p)->channels, 1, words);          \
                        clamped((p), words[0], (out));                                             \
                        corner += WORD;                                                            \
                        (out) += WORD;                                                             \
                        left -= WORD;                                                              \
                    }                                                                              \
                    for (; left > 0; left--) {                                                     \
                        int32_t most = *corner;                                                    \
                        for (int32_t i = 0; i < y.count; i++) {                                    \
                            const element *pixel = corner + i * line;                              \
                            for (int32_t j = 0; j < x.count; j++) {                                \
                                most = *pixel > most ? *pixel : most;                              \
                                pixel += (p)->channels;                                            \
                            }                                                                      \
                        }                                                                          \
                        *(out)++ = (element)hil_clamp(most, (p)->low, (p)->high);                  \
                        corner++;                                                                  \
                    }                                                                              \
                }                                                                                  \
            }                                                                                      \
            (in) += (p)->in_h * line;                                                              \
        }                                                                                          \
    } while (0)

/*@kernel
name = "hil_dsp_max_pool_s8"
requires = ["dsp"]
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "0"
order = ["pixels 1", "channels 1"]
reads = "channel window"
code = 146
[cost]
pixel = "batches * out_h * out_w"
word = "pixel * (channels // 4)"
single = "pixel * (channels - channels // 4 * 4)"
word_tap = "word * min(filter_h, in_h) * min(filter_w, in_w)"
single_tap = "single * min(filter_h, in_h) * min(filter_w, in_w)"
@*/
struct hil_dsp_max_pool_s8 {
    HIL_POOL_FIELDS;
    int32_t low;  /* the least output */
    int32_t high; /* the largest output */
};

/* Four outputs: only a fused activation makes any of them another. */
HIL_INLINE void hil_dsp_max_pool_s8_four(const struct hil_dsp_max_pool_s8 *p, uint32_t word,
                                         int8_t *out) {
    word = hil_dsp_clamped_bytes(word, p->low, p->high);
    memcpy(out, &word, sizeof word);
}

HIL_INLINE void hil_dsp_max_pool_s8(const struct hil_dsp_max_pool_s8 *p, const int8_t *in,
                                    int8_t *out) {
    HIL_DSP_MAX_POOL(p, in, out, int8_t, hil_dsp_largest_s8, hil_dsp_max_pool_s8_four);
}

/*@kernel
name = "hil_dsp_max_pool_s16"
requires = ["dsp"]
inputs = ["int16_t"]
outputs = ["int16_t"]
scratch = "0"
order = ["pixels 1", "channels 1"]
reads = "channel window"
code = 146
[cost]
pixel = "batches * out_h * out_w"
word = "pixel * (channels // 2)"
single = "pixel * (channels - channels // 2 * 2)"
word_tap = "word * min(filter_h, in_h) * min(filter_w, in_w)"
single_tap = "single * min(filter_h, in_h) * min(filter_w, in_w)"
@*/
struct hil_dsp_max_pool_s16 {
    HIL_POOL_FIELDS;
    int32_t low;  /* the least output */
    int32_t high; /* the largest output */
};

HIL_INLINE void hil_dsp_max_pool_s16_two(const struct hil_dsp_max_pool_s16 *p, uint32_t word,
                                         int16_t *out) {
    if (p->low > INT16_MIN) {
        word = hil_dsp_most_halves(word, hil_dsp_pair(p->low, p->low));
    }
    if (p->high < INT16_MAX) {
        word = ~hil_dsp_most_halves(~word, ~hil_dsp_pair(p->high, p->high));
    }
    memcpy(out, &word, sizeof word);
}

HIL_INLINE void hil_dsp_max_pool_s16(const struct hil_dsp_max_pool_s16 *p, const int16_t *in,
                                     int16_t *out) {
    HIL_DSP_MAX_POOL(p, in, out, int16_t, hil_dsp_largest_s16, hil_dsp_max_pool_s16_two);
}

#endif
