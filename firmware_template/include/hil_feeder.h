/* The models of the image whose input comes by rows. The build makes this table when there are
 * some. */
#ifndef HIL_FEEDER_H
#define HIL_FEEDER_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Where an inference is in its input. */
struct hil_feeder_state {
    uint64_t ticks;  /* that the layers took for the rows so far */
    uint32_t taken;  /* bytes of the input, so far */
    bool is_started; /* and did not run yet */
};

struct hil_feeder {
    int32_t (*start)(void);                            /* drops all rows; 0: good */
    int32_t (*push)(const void *data, int32_t nbytes); /* bytes still missing; -1: not taken */
    struct hil_feeder_state *state;                    /* of the inference */
    uint32_t rows;                                     /* of the input */
};

/* For each of hil_models; NULL where it takes its inputs as a whole. */
extern const struct hil_feeder *const hil_model_feeders[];

#ifdef __cplusplus
}
#endif

#endif
