/* Inside the server of the serial protocol: inputs that come by rows, where a model of the image
 * takes them so. */
#ifndef HIL_SERVER_FEEDER_H
#define HIL_SERVER_FEEDER_H

#include <stdbool.h>

#include "hil_config.h"
#include "hil_rpc_command.h"

#ifdef __cplusplus
extern "C" {
#endif

#ifdef HIL_HAS_FEEDER

size_t hil_rpc_on_feed_info(const uint8_t *request, size_t size, uint8_t *reply);

/* Whether READ or WRITE names an input that comes by rows: it is no tensor in memory. */
bool hil_feeder_takes(const uint8_t *request);

/* Executes WRITE of such an input: gives the model those of `count` bytes from `offset` on that did
 * not come before, since a request whose reply was lost comes again. No bytes at offset 0 start an
 * inference. Returns the reply's size. */
size_t hil_feeder_write(const uint8_t *request, uint32_t offset, size_t count, uint8_t *reply);

/* Uses up the rows of a model for a run and adds the time that they took to *ticks. Returns 0, or
 * the size of the reply that says that rows are missing. */
size_t hil_feeder_use_rows(uint8_t model, uint64_t *ticks, uint8_t *reply);

/* Entries of the table of commands, and the commands of these that the image leaves out. */
#define HIL_FEEDER_COMMANDS                                                                        \
    [HIL_COMMAND_FEED_INFO] = {hil_rpc_on_feed_info, HIL_FEED_INFO_REQUEST_BYTES, false},
#define HIL_FEEDER_LEFT_OUT UINT64_C(0)

#else

static inline bool hil_feeder_takes(const uint8_t *request) {
    (void)request;
    return false;
}

static inline size_t hil_feeder_write(const uint8_t *request, uint32_t offset, size_t count,
                                      uint8_t *reply) {
    (void)request;
    (void)offset;
    (void)count;
    (void)reply;
    return 0;
}

static inline size_t hil_feeder_use_rows(uint8_t model, uint64_t *ticks, uint8_t *reply) {
    (void)model;
    (void)ticks;
    (void)reply;
    return 0;
}

#define HIL_FEEDER_COMMANDS
#define HIL_FEEDER_LEFT_OUT HIL_COMMAND_BITS(HIL_COMMAND_FEED_INFO, HIL_COMMAND_FEED_INFO)

#endif

#ifdef __cplusplus
}
#endif

#endif
