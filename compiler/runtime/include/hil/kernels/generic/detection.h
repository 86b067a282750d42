/* Boxes around objects from the answers of a detector: decoded, and of those that overlap the best.
 *
 * Equal scores are taken in the order of the anchors, then of the classes. No number that is not
 * one, from damaged inputs, leads outside of a buffer. */
#ifndef HIL_KERNELS_GENERIC_DETECTION_H
#define HIL_KERNELS_GENERIC_DETECTION_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "hil/quant.h"

#define HIL_BOX_CORNERS 4
#define HIL_BOX_BYTES 16

#define HIL_DETECTION_FIELDS                                                                       \
    int32_t anchors;       /* that boxes are encoded by */                                         \
    int32_t encoded;       /* numbers of an encoded box */                                         \
    int32_t columns;       /* scores of an anchor */                                               \
    int32_t classes;       /* without the background, which is in front */                         \
    int32_t most;          /* detections */                                                        \
    int32_t rows;          /* of the outputs */                                                    \
    float score_threshold; /* scores below this do not count */                                    \
    float overlap;         /* share of intersection in union above which a box is dropped */       \
    float scales[4]        /* by which encodings were multiplied: of y, x, height and width */

/* Corners of a box: top, left, bottom, right. Returns -1 for one without height or width. */
HIL_INLINE int32_t hil_box_decode(const float *scales, const float *encoded, const float *anchor,
                                  float *box) {
    for (int32_t i = 0; i < 2; i++) {
        const double size = (double)anchor[2 + i];
        const float centre =
            (float)((double)encoded[i] / (double)scales[i] * size + (double)anchor[i]);
        const float half =
            (float)(0.5 * exp((double)encoded[2 + i] / (double)scales[2 + i]) * size);
        box[i] = centre - half;
        box[2 + i] = centre + half;
        if (box[i] >= box[2 + i]) {
            return -1;
        }
    }
    return 0;
}

HIL_INLINE int32_t hil_boxes_decode(int32_t count, int32_t numbers, const float *scales,
                                    const float *encoded, const float *anchors, float *boxes) {
    for (int32_t i = 0; i < count; i++) {
        if (hil_box_decode(scales, &encoded[i * numbers], &anchors[i * HIL_BOX_CORNERS],
                           &boxes[i * HIL_BOX_CORNERS]) != 0) {
            return -1;
        }
    }
    return 0;
}

/* Share of intersection in union. */
HIL_INLINE float hil_box_overlap(const float *a, const float *b) {
    const float area_a = (a[2] - a[0]) * (a[3] - a[1]);
    const float area_b = (b[2] - b[0]) * (b[3] - b[1]);
    float common = 1.0f;
    if (area_a <= 0.0f || area_b <= 0.0f) {
        return 0.0f;
    }
    for (int32_t i = 0; i < 2; i++) {
        const float low = a[i] < b[i] ? b[i] : a[i];
        const float high = b[2 + i] < a[2 + i] ? b[2 + i] : a[2 + i];
        const float side = high - low;
        common *= side < 0.0f ? 0.0f : side;
    }
    return common / (area_a + area_b - common);
}

/* The best box that is still in question, -1 for none. It and those that it overlaps are no longer
 * in question then. */
HIL_INLINE int32_t hil_box_select(int32_t count, float overlap, const float *boxes,
                                  const float *scores, int32_t step, uint8_t *active) {
    int32_t best = -1;
    for (int32_t i = 0; i < count; i++) {
        if (active[i] && (best < 0 || scores[i * step] > scores[best * step])) {
            best = i;
        }
    }
    if (best >= 0) {
        active[best] = 0;
        for (int32_t i = 0; i < count; i++) {
            if (active[i] && hil_box_overlap(&boxes[best * HIL_BOX_CORNERS],
                                             &boxes[i * HIL_BOX_CORNERS]) > overlap) {
                active[i] = 0;
            }
        }
    }
    return best;
}

/* The class behind `before` in the order of scores; of -1 the best one. */
HIL_INLINE int32_t hil_box_class(int32_t classes, const float *scores, int32_t before) {
    int32_t best = -1;
    for (int32_t i = 0; i < classes; i++) {
        const float last = before < 0 ? 0.0f : scores[before];
        const int is_left = before < 0 || scores[i] < last || (i > before && scores[i] == last);
        if (is_left && (best < 0 || scores[i] > scores[best])) {
            best = i;
        }
    }
    return best < 0 ? 0 : best;
}

/*@kernel
name = "hil_generic_detection_fast"
requires = []
inputs = ["float", "float", "float"]
outputs = ["float", "float", "float", "float"]
scratch = "anchors * 21"
order = "none"
fails = true
code = 900
[cost]
box = "anchors"
score = "anchors * classes"
search = "most * anchors"
@*/
struct hil_generic_detection_fast {
    HIL_DETECTION_FIELDS;
    int32_t categories; /* classes that are given of a box */
};

HIL_INLINE int32_t hil_generic_detection_fast(const struct hil_generic_detection_fast *p,
                                              const float *encoded, const float *scores,
                                              const float *anchors, float *boxes, float *classes,
                                              float *found, float *count, void *scratch) {
    float *const decoded = (float *)scratch;
    float *const best = &decoded[p->anchors * HIL_BOX_CORNERS];
    uint8_t *const active = (uint8_t *)&best[p->anchors];
    if (hil_boxes_decode(p->anchors, p->encoded, p->scales, encoded, anchors, decoded) != 0) {
        return -1;
    }
    scores += p->columns - p->classes;
    for (int32_t i = 0; i < p->anchors; i++) {
        const float *const own = &scores[i * p->columns];
        best[i] = own[hil_box_class(p->classes, own, -1)];
        active[i] = best[i] >= p->score_threshold;
    }
    memset(boxes, 0, (size_t)p->rows * HIL_BOX_BYTES);
    memset(classes, 0, (size_t)p->rows * sizeof(float));
    memset(found, 0, (size_t)p->rows * sizeof(float));
    int32_t detections = 0;
    for (int32_t n = 0; n < p->most; n++) {
        const int32_t box = hil_box_select(p->anchors, p->overlap, decoded, best, 1, active);
        if (box < 0) {
            break;
        }
        const float *const own = &scores[box * p->columns];
        int32_t label = -1;
        for (int32_t i = 0; i < p->categories; i++) {
            /* As far apart as the references write them. */
            const int32_t row = p->categories * detections + i;
            label = hil_box_class(p->classes, own, label);
            memcpy(&boxes[row * HIL_BOX_CORNERS], &decoded[box * HIL_BOX_CORNERS], HIL_BOX_BYTES);
            classes[row] = (float)label;
            found[row] = own[label];
            detections++;
        }
    }
    *count = (float)detections;
    return 0;
}

/*@kernel
name = "hil_generic_detection_regular"
requires = []
inputs = ["float", "float", "float"]
outputs = ["float", "float", "float", "float"]
scratch = "anchors * 17"
order = "none"
fails = true
code = 900
[cost]
box = "anchors"
score = "anchors * classes"
search = "classes * most * anchors"
@*/
struct hil_generic_detection_regular {
    HIL_DETECTION_FIELDS;
    int32_t per_class; /* detections of a class */
};

HIL_INLINE int32_t hil_generic_detection_regular(const struct hil_generic_detection_regular *p,
                                                 const float *encoded, const float *scores,
                                                 const float *anchors, float *boxes, float *classes,
                                                 float *found, float *count, void *scratch) {
    float *const decoded = (float *)scratch;
    uint8_t *const active = (uint8_t *)&decoded[p->anchors * HIL_BOX_CORNERS];
    int32_t detections = 0;
    if (hil_boxes_decode(p->anchors, p->encoded, p->scales, encoded, anchors, decoded) != 0) {
        return -1;
    }
    scores += p->columns - p->classes;
    memset(boxes, 0, (size_t)p->rows * HIL_BOX_BYTES);
    memset(classes, 0, (size_t)p->rows * sizeof(float));
    memset(found, 0, (size_t)p->rows * sizeof(float));
    for (int32_t label = 0; label < p->classes; label++) {
        for (int32_t i = 0; i < p->anchors; i++) {
            active[i] = scores[i * p->columns + label] >= p->score_threshold;
        }
        for (int32_t n = 0; n < p->per_class; n++) {
            const int32_t box =
                hil_box_select(p->anchors, p->overlap, decoded, &scores[label], p->columns, active);
            if (box < 0) {
                break;
            }
            /* Behind those of other classes that are not worse. */
            const float score = scores[box * p->columns + label];
            int32_t row = detections;
            while (row > 0 && score > found[row - 1]) {
                row--;
            }
            if (row == p->most) {
                break;
            }
            detections += detections < p->most;
            for (int32_t i = detections - 1; i > row; i--) {
                memcpy(&boxes[i * HIL_BOX_CORNERS], &boxes[(i - 1) * HIL_BOX_CORNERS],
                       HIL_BOX_BYTES);
                classes[i] = classes[i - 1];
                found[i] = found[i - 1];
            }
            memcpy(&boxes[row * HIL_BOX_CORNERS], &decoded[box * HIL_BOX_CORNERS], HIL_BOX_BYTES);
            classes[row] = (float)label;
            found[row] = score;
        }
    }
    *count = (float)detections;
    return 0;
}

#endif
