/* The commands that describe models, their tensors and layers, and read and write tensors. */
#include "tensors.h"

#include <stdbool.h>
#include <string.h>

#include "feeder.h"
#include "hil_rpc_command.h"
#include "state.h"

/* The list that a request names; `layer` is within the model where the list is a layer's. */
static struct hil_tensor_list tensors_of(uint8_t index, uint8_t list, uint16_t layer) {
    const struct hil_model *model = hil_models[index];

    switch (list) {
    case HIL_TENSORS_INPUT:
        return (struct hil_tensor_list){model->inputs, model->input_count};
    case HIL_TENSORS_OUTPUT:
        return (struct hil_tensor_list){model->outputs, model->output_count};
    case HIL_TENSORS_LAYER_OUTPUT:
        return (struct hil_tensor_list){model->layers[layer].outputs,
                                        model->layers[layer].output_count};
    case HIL_TENSORS_STATE:
        return hil_state_tensors(index);
    default:
        return (struct hil_tensor_list){NULL, 0};
    }
}

/* The tensor that a request names (the requests that do so begin alike), or NULL with the answer's
 * size in *failed. */
static const struct hil_tensor *find_tensor(const uint8_t *request, uint8_t *reply,
                                            size_t *failed) {
    const struct hil_model *model = hil_rpc_model(request[HIL_READ_REQUEST_MODEL]);
    const uint8_t list = request[HIL_READ_REQUEST_LIST];
    const uint8_t index = request[HIL_READ_REQUEST_INDEX];
    const uint16_t layer = hil_get_u16(request + HIL_READ_REQUEST_LAYER);

    if (model == NULL) {
        *failed = hil_rpc_fail(reply, HIL_STATUS_BAD_MODEL, hil_model_count);
        return NULL;
    }
    if (list == HIL_TENSORS_LAYER_OUTPUT && layer >= model->layer_count) {
        *failed = hil_rpc_fail(reply, HIL_STATUS_BAD_LAYER, model->layer_count);
        return NULL;
    }
    const struct hil_tensor_list tensors = tensors_of(request[HIL_READ_REQUEST_MODEL], list, layer);

    if (index >= tensors.count) {
        *failed = hil_rpc_fail(reply, HIL_STATUS_BAD_TENSOR, tensors.count);
        return NULL;
    }
    return tensors.first + index;
}

static bool in_tensor(const struct hil_tensor *tensor, uint32_t offset, size_t size) {
    return offset <= tensor->nbytes && size <= tensor->nbytes - offset;
}

size_t hil_rpc_on_model_info(const uint8_t *request, size_t size, uint8_t *reply) {
    const struct hil_model *model = hil_rpc_model(request[HIL_MODEL_INFO_REQUEST_MODEL]);

    (void)size;
    if (model == NULL) {
        return hil_rpc_fail(reply, HIL_STATUS_BAD_MODEL, hil_model_count);
    }
    reply[HIL_MODEL_INFO_REPLY_INPUTS] = model->input_count;
    reply[HIL_MODEL_INFO_REPLY_OUTPUTS] = model->output_count;
    hil_put_u16(reply + HIL_MODEL_INFO_REPLY_LAYERS, model->layer_count);
    hil_put_u32(reply + HIL_MODEL_INFO_REPLY_WORKSPACE_BYTES, model->workspace_bytes);
    return hil_rpc_put_name(reply, HIL_MODEL_INFO_REPLY_NAME_LENGTH, HIL_MODEL_INFO_REPLY_NAME,
                            model->name, hil_get_u16(request + HIL_MODEL_INFO_REQUEST_NAME_OFFSET));
}

size_t hil_rpc_on_tensor_info(const uint8_t *request, size_t size, uint8_t *reply) {
    size_t failed;
    const struct hil_tensor *tensor = find_tensor(request, reply, &failed);
    size_t at = HIL_TENSOR_INFO_REPLY_SHAPE_AND_NAME;

    (void)size;
    if (tensor == NULL) {
        return failed;
    }
    const size_t room = hil_rpc_payload_max() - at;
    if (tensor->ndim > room / 4) {
        return hil_rpc_fail(reply, HIL_STATUS_TOO_BIG, (uint32_t)room);
    }
    reply[HIL_TENSOR_INFO_REPLY_DTYPE] = tensor->dtype;
    reply[HIL_TENSOR_INFO_REPLY_NDIM] = tensor->ndim;
    hil_put_u32(reply + HIL_TENSOR_INFO_REPLY_NBYTES, tensor->nbytes);
    for (uint8_t i = 0; i < tensor->ndim; ++i, at += 4) {
        hil_put_u32(reply + at, (uint32_t)tensor->shape[i]);
    }
    return hil_rpc_put_name(reply, HIL_TENSOR_INFO_REPLY_NAME_LENGTH, at, tensor->name,
                            hil_get_u16(request + HIL_TENSOR_INFO_REQUEST_NAME_OFFSET));
}

size_t hil_rpc_on_layer_info(const uint8_t *request, size_t size, uint8_t *reply) {
    const struct hil_model *model = hil_rpc_model(request[HIL_LAYER_INFO_REQUEST_MODEL]);
    const uint16_t index = hil_get_u16(request + HIL_LAYER_INFO_REQUEST_LAYER);

    (void)size;
    if (model == NULL) {
        return hil_rpc_fail(reply, HIL_STATUS_BAD_MODEL, hil_model_count);
    }
    if (index >= model->layer_count) {
        return hil_rpc_fail(reply, HIL_STATUS_BAD_LAYER, model->layer_count);
    }
    reply[HIL_LAYER_INFO_REPLY_OUTPUTS] = model->layers[index].output_count;
    return hil_rpc_put_name(reply, HIL_LAYER_INFO_REPLY_NAME_LENGTH, HIL_LAYER_INFO_REPLY_NAME,
                            model->layers[index].name,
                            hil_get_u16(request + HIL_LAYER_INFO_REQUEST_NAME_OFFSET));
}

/* Outputs of layers are: what a layer leaves out is found by painting them before it runs. */
static bool is_writable(uint8_t list) {
    return list == HIL_TENSORS_INPUT || list == HIL_TENSORS_LAYER_OUTPUT ||
           list == HIL_TENSORS_STATE;
}

size_t hil_rpc_on_write(const uint8_t *request, size_t size, uint8_t *reply) {
    size_t failed;
    const struct hil_tensor *tensor = find_tensor(request, reply, &failed);
    const uint32_t offset = hil_get_u32(request + HIL_WRITE_REQUEST_OFFSET);
    const size_t count = size - HIL_WRITE_REQUEST_DATA;

    if (tensor == NULL) {
        return failed;
    }
    if (!is_writable(request[HIL_WRITE_REQUEST_LIST])) {
        return hil_rpc_fail(reply, HIL_STATUS_BAD_TENSOR,
                            0); /* no tensor of this list is writable */
    }
    if (!in_tensor(tensor, offset, count)) {
        return hil_rpc_fail(reply, HIL_STATUS_BAD_RANGE, tensor->nbytes);
    }
    if (hil_feeder_takes(request)) {
        return hil_feeder_write(request, offset, count, reply);
    }
    memcpy((uint8_t *)tensor->data + offset, request + HIL_WRITE_REQUEST_DATA, count);
    return HIL_WRITE_REPLY_BYTES;
}

size_t hil_rpc_on_read(const uint8_t *request, size_t size, uint8_t *reply) {
    size_t failed;
    const struct hil_tensor *tensor = find_tensor(request, reply, &failed);
    const uint32_t offset = hil_get_u32(request + HIL_READ_REQUEST_OFFSET);
    const uint16_t count = hil_get_u16(request + HIL_READ_REQUEST_LENGTH);

    (void)size;
    if (tensor == NULL) {
        return failed;
    }
    const size_t room = hil_rpc_payload_max() - HIL_READ_REPLY_DATA;
    if (count > room) {
        return hil_rpc_fail(reply, HIL_STATUS_TOO_BIG, (uint32_t)room);
    }
    if (!in_tensor(tensor, offset, count)) {
        return hil_rpc_fail(reply, HIL_STATUS_BAD_RANGE, tensor->nbytes);
    }
    if (hil_feeder_takes(request)) {
        return hil_rpc_fail(reply, HIL_STATUS_BAD_TENSOR, 0); /* it lies nowhere as a whole */
    }
    memcpy(reply + HIL_READ_REPLY_DATA, (const uint8_t *)tensor->data + offset, count);
    return HIL_READ_REPLY_DATA + count;
}
