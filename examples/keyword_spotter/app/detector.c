#include "detector.h"

#include <string.h>

void detector_reset(struct detector *detector) { memset(detector, 0, sizeof *detector); }

static int average_of(const struct detector *detector, int word) {
    int sum = 0;

    for (int i = 0; i < DETECTOR_AVERAGED; ++i) {
        sum += detector->scores[i][word];
    }
    return sum / DETECTOR_AVERAGED;
}

int detector_add(struct detector *detector, const int8_t scores[MODEL_CLASSES]) {
    int heard = 0;

    for (int word = 0; word < MODEL_CLASSES; ++word) {
        detector->scores[detector->next][word] = (uint8_t)(scores[word] + 128);
    }
    detector->next = (uint8_t)((detector->next + 1) % DETECTOR_AVERAGED);

    for (int word = 1; word < MODEL_CLASSES; ++word) {
        int average = average_of(detector, word);

        if (average < DETECTOR_OFF) {
            detector->is_on[word] = 0;
        } else if (average >= DETECTOR_ON && !detector->is_on[word]) {
            detector->is_on[word] = 1;
            heard = word;
        }
    }
    return heard;
}
