/* The command for models whose input comes by rows, and what WRITE and RUN do for them; in firmware
 * with such a model only. */
#include "feeder.h"

#include "hil_feeder.h"
#include "hil_guard.h"
#include "hil_port.h"
#include "hil_rpc_command.h"

/* The feeder of a model whose input a request names; NULL: it is a tensor in memory. */
static const struct hil_feeder *feeder_of(const uint8_t *request) {
    if (request[HIL_READ_REQUEST_LIST] != HIL_TENSORS_INPUT) {
        return NULL;
    }
    return hil_model_feeders[request[HIL_READ_REQUEST_MODEL]];
}

bool hil_feeder_takes(const uint8_t *request) { return feeder_of(request) != NULL; }

size_t hil_feeder_write(const uint8_t *request, uint32_t offset, size_t count, uint8_t *reply) {
    const struct hil_feeder *feeder = feeder_of(request);
    const uint8_t *data = request + HIL_WRITE_REQUEST_DATA;
    struct hil_feeder_state *state = feeder->state;
    const bool starts = offset == 0 && count == 0;

    if (starts) {
        hil_guards_set();
        *state = (struct hil_feeder_state){.is_started = true};
    } else if (!state->is_started || offset > state->taken) {
        return hil_rpc_fail(reply, HIL_STATUS_ROWS_MISSING, state->taken);
    }
    if (starts || count > state->taken - offset) {
        const uint32_t known = state->taken - offset;
        const uint64_t start = hil_ticks_align();
        const int32_t result =
            starts ? feeder->start() : feeder->push(data + known, (int32_t)(count - known));

        state->ticks += hil_ticks() - start;
        state->taken = offset + (uint32_t)count;
        if (result < 0) {
            state->is_started = false;
            return hil_rpc_fail(reply, HIL_STATUS_MODEL_FAILED, (uint32_t)result);
        }
    }
    if (hil_guards_changed() != 0) {
        return hil_rpc_fail(reply, HIL_STATUS_GUARD_CHANGED, hil_guards_changed());
    }
    return HIL_WRITE_REPLY_BYTES;
}

size_t hil_feeder_use_rows(uint8_t model, uint64_t *ticks, uint8_t *reply) {
    const struct hil_feeder *feeder = hil_model_feeders[model];

    if (feeder == NULL) {
        return 0;
    }
    struct hil_feeder_state *state = feeder->state;
    if (!state->is_started || state->taken != hil_models[model]->inputs[0].nbytes) {
        return hil_rpc_fail(reply, HIL_STATUS_ROWS_MISSING, state->taken);
    }
    state->is_started = false;
    *ticks += state->ticks;
    return 0;
}

size_t hil_rpc_on_feed_info(const uint8_t *request, size_t size, uint8_t *reply) {
    const uint8_t model = request[HIL_FEED_INFO_REQUEST_MODEL];

    (void)size;
    if (hil_rpc_model(model) == NULL) {
        return hil_rpc_fail(reply, HIL_STATUS_BAD_MODEL, hil_model_count);
    }
    hil_put_u32(reply + HIL_FEED_INFO_REPLY_ROWS,
                hil_model_feeders[model] == NULL ? 0 : hil_model_feeders[model]->rows);
    return HIL_FEED_INFO_REPLY_BYTES;
}
