/* An input that comes a few rows at a time. The group of layers that takes it in runs until it
 * needs rows, and goes on when they are there. */
#ifndef HIL_FEED_H
#define HIL_FEED_H

#include <stdint.h>
#include <string.h>

#include "hil/quant.h"

/* What `taken` is when a run has used the input up, or a pull has failed. */
#define HIL_FEED_SPENT (-1)
/* What it is while a callback fetches rows. */
#define HIL_FEED_FETCHING (-2)

/* Where an inference is in its input; in bytes. */
struct hil_feed {
    int32_t taken; /* of the input, so far */
    int32_t entry; /* of the schedule: the next one */
    int32_t begin; /* of the rows that it waits for, in the input; those before are not read */
    int32_t end;   /* of these rows; no more than `taken`: it does not wait */
    int32_t place; /* of these rows, in the scratch of the group */
};

/* Waits for `bytes` of rows behind the next `skipped` ones; to be put at `place` of the scratch. */
HIL_INLINE void hil_feed_wait(struct hil_feed *feed, int32_t skipped, int32_t bytes,
                              int32_t place) {
    feed->begin = feed->end + skipped;
    feed->end = feed->begin + bytes;
    feed->place = place;
}

/* Takes what it waits for of the `bytes` at `data`, and what comes before that; returns how many
 * bytes that were. */
HIL_INLINE int32_t hil_feed_take(struct hil_feed *feed, uint8_t *scratch, const uint8_t *data,
                                 int32_t bytes) {
    int32_t size = bytes;
    if (feed->taken < feed->begin) {
        if (size > feed->begin - feed->taken) {
            size = feed->begin - feed->taken;
        }
    } else {
        if (size > feed->end - feed->taken) {
            size = feed->end - feed->taken;
        }
        memcpy(&scratch[feed->place + feed->taken - feed->begin], data, (size_t)size);
    }
    feed->taken += size;
    return size;
}

/* Lets a run use up the input of `bytes`; -1 where some are missing. */
HIL_INLINE int32_t hil_feed_spend(struct hil_feed *feed, int32_t bytes) {
    if (feed->taken != bytes) {
        return -1;
    }
    feed->taken = HIL_FEED_SPENT;
    return 0;
}

#endif
