/* The two neural networks: the only part of the application that knows how they are called. */
#ifndef MODEL_H
#define MODEL_H

#include <stdint.h>

enum {
    MODEL_RATE = 16000, /* samples a second */
    MODEL_STEP = 320,   /* samples of a row of features: 20 ms */
    MODEL_FEATURES = 32,
    MODEL_ROWS = 50, /* rows of features that are classified together: 1 s */
    MODEL_CLASSES = 5
};

/* Names of the classes. Class 0 is no keyword: silence, noise, any other word. */
extern const char *const model_names[MODEL_CLASSES];

/* Each returns 0, or -1 for an error. */

/* Forgets all earlier sound. */
int model_reset(void);

/* Computes the features of the next step of sound. */
int model_features(const int16_t samples[MODEL_STEP], int8_t features[MODEL_FEATURES]);

/* Computes the score of each class, -128 to 127 for 0 to 1, of rows of features, the oldest first.
 */
int model_scores(const int8_t rows[MODEL_ROWS * MODEL_FEATURES], int8_t scores[MODEL_CLASSES]);

#endif
