#include "model.h"

#include "front_end.h"
#include "words.h"

_Static_assert(FRONT_END_SAMPLES_COUNT == MODEL_STEP, "samples of a step");
_Static_assert(FRONT_END_FEATURES_COUNT == MODEL_FEATURES, "features of a step");
_Static_assert(WORDS_FEATURES_COUNT == MODEL_ROWS * MODEL_FEATURES, "rows of features");
_Static_assert(WORDS_SCORES_COUNT == MODEL_CLASSES, "scores");

const char *const model_names[MODEL_CLASSES] = {"none", "yes", "no", "left", "right"};

int model_reset(void) { return (int)front_end_reset_state(); }

int model_features(const int16_t samples[MODEL_STEP], int8_t features[MODEL_FEATURES]) {
    return (int)front_end_run(samples, features);
}

int model_scores(const int8_t rows[MODEL_ROWS * MODEL_FEATURES], int8_t scores[MODEL_CLASSES]) {
    return (int)words_run(rows, scores);
}
