/* From scores to events: scores are averaged over time, and a word is reported once. */
#ifndef DETECTOR_H
#define DETECTOR_H

#include <stdint.h>

#include "model.h"

enum {
    DETECTOR_AVERAGED = 4, /* scores that are averaged */
    DETECTOR_ON = 150,     /* a word is heard if its average reaches this, of 255 ... */
    DETECTOR_OFF = 100     /* ... and can be heard again after it fell below this */
};

struct detector {
    uint8_t scores[DETECTOR_AVERAGED][MODEL_CLASSES]; /* the last ones, 0 to 255 */
    uint8_t next;                                     /* index of the oldest ones */
    uint8_t is_on[MODEL_CLASSES]; /* whether a word was reported and is not over */
};

void detector_reset(struct detector *detector);

/* Adds the scores of a window. Returns the class of the word that is heard now for the first time,
 * or 0. */
int detector_add(struct detector *detector, const int8_t scores[MODEL_CLASSES]);

#endif
