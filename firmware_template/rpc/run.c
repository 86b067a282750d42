/* The commands that run a model or its layers, and measure them. */
#include "run.h"

#include <stdbool.h>

#include "feeder.h"
#include "hil_guard.h"
#include "hil_port.h"
#include "hil_rpc_command.h"
#include "hil_trigger.h"
#include "session.h"

/* Runs `run`, stores its time in *ticks and returns its result. Says BUSY when a second has passed
 * since *reported. */
static int32_t measure(int32_t (*run)(void), uint64_t *ticks, uint64_t *reported, uint32_t done,
                       uint32_t total) {
    /* Outside of what is counted. */
    hil_trigger_high();
    const uint64_t start = hil_ticks_align();
    const int32_t result = run();
    const uint64_t end = hil_ticks();

    hil_trigger_low();

    *ticks = end - start;
    if (end - *reported >= hil_ticks_hz()) {
        hil_rpc_send_busy(done, total);
        *reported = end;
    }
    return result;
}

size_t hil_rpc_on_run(const uint8_t *request, size_t size, uint8_t *reply) {
    const struct hil_model *model = hil_rpc_model(request[HIL_RUN_REQUEST_MODEL]);
    const uint32_t repeat = hil_get_u32(request + HIL_RUN_REQUEST_REPEAT);
    uint64_t total = 0;

    (void)size;
    if (model == NULL) {
        return hil_rpc_fail(reply, HIL_STATUS_BAD_MODEL, hil_model_count);
    }
    const size_t missing = hil_feeder_use_rows(request[HIL_RUN_REQUEST_MODEL], &total, reply);
    if (missing != 0) {
        return missing;
    }
    hil_rpc_send_busy(0, repeat);
    hil_guards_set();
    uint64_t reported = hil_ticks();
    for (uint32_t i = 0; i < repeat; ++i) {
        uint64_t ticks;
        if (i > 0 && hil_session_is_interrupted()) {
            return 0;
        }
        const int32_t result = measure(model->run, &ticks, &reported, i + 1, repeat);
        if (result != 0) {
            return hil_rpc_fail(reply, HIL_STATUS_MODEL_FAILED, (uint32_t)result);
        }
        total += ticks;
    }
    if (hil_guards_changed() != 0) {
        return hil_rpc_fail(reply, HIL_STATUS_GUARD_CHANGED, hil_guards_changed());
    }
    hil_put_u64(reply + HIL_RUN_REPLY_TICKS, total);
    return HIL_RUN_REPLY_BYTES;
}

/* Says why these layers cannot run; 0: they can. */
static size_t refuse_layers(const struct hil_model *model, uint16_t first, uint16_t count,
                            uint8_t *reply) {
    const size_t room = hil_rpc_payload_max() - HIL_RUN_LAYERS_REPLY_TICKS;

    if (model == NULL) {
        return hil_rpc_fail(reply, HIL_STATUS_BAD_MODEL, hil_model_count);
    }
    if (first > model->layer_count || count > model->layer_count - first) {
        return hil_rpc_fail(reply, HIL_STATUS_BAD_LAYER, model->layer_count);
    }
    if (count > room / 8) {
        return hil_rpc_fail(reply, HIL_STATUS_TOO_BIG, (uint32_t)room);
    }
    return 0;
}

size_t hil_rpc_on_run_layers(const uint8_t *request, size_t size, uint8_t *reply) {
    const struct hil_model *model = hil_rpc_model(request[HIL_RUN_LAYERS_REQUEST_MODEL]);
    const uint16_t first = hil_get_u16(request + HIL_RUN_LAYERS_REQUEST_FIRST);
    const uint16_t count = hil_get_u16(request + HIL_RUN_LAYERS_REQUEST_COUNT);

    (void)size;
    uint64_t before = 0; /* what the rows of the first layer took */
    size_t refusal = refuse_layers(model, first, count, reply);
    if (refusal == 0 && first == 0 && count > 0) {
        refusal = hil_feeder_use_rows(request[HIL_RUN_LAYERS_REQUEST_MODEL], &before, reply);
    }
    if (refusal != 0) {
        return refusal;
    }
    hil_rpc_send_busy(0, count);
    hil_guards_set();
    uint64_t reported = hil_ticks();
    for (uint32_t i = 0; i < count; ++i) {
        uint64_t ticks;
        if (i > 0 && hil_session_is_interrupted()) {
            return 0;
        }
        const int32_t result =
            measure(model->layers[first + i].run, &ticks, &reported, i + 1, count);
        if (result != 0) {
            return hil_rpc_fail(reply, HIL_STATUS_MODEL_FAILED, (uint32_t)result);
        }
        hil_put_u64(reply + HIL_RUN_LAYERS_REPLY_TICKS + 8 * i, ticks + before);
        before = 0;
    }
    if (hil_guards_changed() != 0) {
        return hil_rpc_fail(reply, HIL_STATUS_GUARD_CHANGED, hil_guards_changed());
    }
    return HIL_RUN_LAYERS_REPLY_TICKS + 8U * count;
}
