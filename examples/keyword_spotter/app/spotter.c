#include "spotter.h"

#include <stdio.h>
#include <string.h>

#include "detector.h"
#include "model.h"
#include "port.h"

/* Steps from a classification to the next: 80 ms. */
enum { INTERVAL = 4 };

/* The last second of features, the oldest row first. */
static int8_t window[MODEL_ROWS * MODEL_FEATURES];
static struct detector detector;
static unsigned long steps, words;

static int fail(const char *what) {
    console_write("error: ");
    console_write(what);
    console_write(" failed\n");
    return -1;
}

int spotter_start(void) {
    memset(window, -128, sizeof window);
    detector_reset(&detector);
    steps = words = 0;
    if (model_reset() != 0) {
        return fail("the reset of the front end");
    }
    console_write("keyword spotter: listening\n");
    return 0;
}

static void print_word(int word) {
    unsigned long ms = steps * (1000UL * MODEL_STEP / MODEL_RATE);
    char line[64];

    (void)snprintf(line, sizeof line, "heard: %s at %lu.%02lu s\n", model_names[word], ms / 1000,
                   ms % 1000 / 10);
    console_write(line);
    ++words;
}

static int print_end(void) {
    char line[64];

    (void)snprintf(line, sizeof line, "end of the recording: %lu words\n", words);
    console_write(line);
    return 0;
}

int spotter_step(void) {
    int16_t samples[MODEL_STEP];
    int8_t scores[MODEL_CLASSES];
    int word;

    if (audio_read(samples, MODEL_STEP) < MODEL_STEP) {
        return print_end();
    }
    memmove(window, window + MODEL_FEATURES, sizeof window - MODEL_FEATURES);
    if (model_features(samples, window + sizeof window - MODEL_FEATURES) != 0) {
        return fail("the front end");
    }
    ++steps;
    if (steps % INTERVAL != 0) {
        return 1;
    }
    if (model_scores(window, scores) != 0) {
        return fail("the classifier");
    }
    word = detector_add(&detector, scores);
    if (word != 0) {
        print_word(word);
    }
    return 1;
}
