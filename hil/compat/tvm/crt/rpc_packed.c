/* Packed functions and TVM's metadata over the serial protocol. */
#include "hil_rpc_packed.h"

#include <string.h>

#include "hil_config.h"
#include "hil_packed.h"
#include "tvm/runtime/c_backend_api.h"
#include "tvm/runtime/crt/module.h"
#include "tvm/runtime/metadata_types.h"

/* Arguments that follow each other in a request. */
struct reader {
    const uint8_t *at; /* the next byte */
    size_t left;       /* bytes from there to the request's end */
};

/* Takes `size` bytes; NULL when there are not as many. */
static const uint8_t *take(struct reader *reader, size_t size) {
    const uint8_t *taken = reader->at;

    if (size > reader->left) {
        return NULL;
    }
    reader->at += size;
    reader->left -= size;
    return taken;
}

/* Takes bytes up to a zero, which is one of them; NULL when there is none. */
static const char *take_string(struct reader *reader) {
    const void *end = reader->left > 0 ? memchr(reader->at, 0, reader->left) : NULL;

    return end == NULL
               ? NULL
               : (const char *)take(reader, (size_t)((const uint8_t *)end + 1 - reader->at));
}

_Static_assert(HIL_INT_VALUE_BYTES == 8 && HIL_HANDLE_VALUE_BYTES == 8,
               "the protocol must give numbers and handles the eight bytes that take_number takes");

/* Takes a number, the bits of a double, or a handle; false when there are not as many bytes. */
static bool take_number(struct reader *reader, uint8_t kind, TVMValue *value) {
    const uint8_t *from = take(reader, HIL_INT_VALUE_BYTES);

    if (from == NULL) {
        return false;
    }
    const uint64_t bits = hil_get_u64(from);
    if (kind == HIL_VALUE_INT || kind == HIL_VALUE_FLOAT) {
        value->v_int64 = (int64_t)bits;
    } else {
        value->v_handle = (void *)(uintptr_t)bits;
    }
    return true;
}

/* The tensor that an argument of a call names; NULL when there is no such tensor. */
static const DLTensor *find_tensor(const uint8_t *ref) {
    const struct hil_model *model = hil_rpc_model(ref[HIL_TENSOR_VALUE_MODEL]);
    const uint16_t layer = hil_get_u16(ref + HIL_TENSOR_VALUE_LAYER);
    const uint8_t index = ref[HIL_TENSOR_VALUE_INDEX];
    const DLTensor *tensors = NULL;
    uint8_t count = 0;

    if (model == NULL || hil_packed_models[ref[HIL_TENSOR_VALUE_MODEL]] == NULL) {
        return NULL;
    }
    const struct hil_packed_model *packed = hil_packed_models[ref[HIL_TENSOR_VALUE_MODEL]];
    switch (ref[HIL_TENSOR_VALUE_LIST]) {
    case HIL_TENSORS_INPUT:
        tensors = packed->inputs;
        count = model->input_count;
        break;
    case HIL_TENSORS_OUTPUT:
        tensors = packed->outputs;
        count = model->output_count;
        break;
    case HIL_TENSORS_LAYER_ARGUMENT:
        if (packed->layers != NULL && layer < model->layer_count) {
            tensors = packed->layers[layer].arguments;
            count = packed->layers[layer].argument_count;
        }
        break;
    case HIL_TENSORS_POOL:
        tensors = packed->pools;
        count = packed->pool_count;
        break;
    default:
        break;
    }
    return index < count ? &tensors[index] : NULL;
}

/* Takes one argument; false when it is malformed. */
static bool take_argument(struct reader *reader, TVMValue *value, int *code) {
    const uint8_t *kind = take(reader, 1);
    const uint8_t *tensor;

    if (kind == NULL) {
        return false;
    }
    *code = *kind;
    switch (*kind) {
    case HIL_VALUE_INT:
    case HIL_VALUE_FLOAT:
    case HIL_VALUE_HANDLE:
    case HIL_VALUE_MODULE:
    case HIL_VALUE_FUNCTION:
        return take_number(reader, *kind, value);
    case HIL_VALUE_NONE:
        value->v_handle = NULL;
        return true;
    case HIL_VALUE_TENSOR:
        tensor = take(reader, HIL_TENSOR_VALUE_BYTES);
        value->v_handle = tensor == NULL ? NULL : (void *)find_tensor(tensor);
        return value->v_handle != NULL;
    case HIL_VALUE_STRING:
        value->v_str = take_string(reader);
        return value->v_str != NULL;
    default:
        return false;
    }
}

static const TVMFuncRegistry *registry(void) { return TVMSystemLibEntryPoint()->registry; }

static uint16_t function_count(void) { return hil_get_u16((const uint8_t *)registry()->names); }

size_t hil_rpc_on_function_info(const uint8_t *request, size_t size, uint8_t *reply) {
    const uint16_t index = hil_get_u16(request + HIL_FUNCTION_INFO_REQUEST_FUNCTION);
    const uint16_t count = function_count();
    const char *name = registry()->names + sizeof count;

    (void)size;
    if (index >= count) {
        return hil_rpc_fail(reply, HIL_STATUS_BAD_FUNCTION, count);
    }
    for (uint16_t i = 0; i < index; ++i) {
        name += strlen(name) + 1;
    }
    hil_put_u16(reply + HIL_FUNCTION_INFO_REPLY_FUNCTIONS, count);
    return hil_rpc_put_name(reply, HIL_FUNCTION_INFO_REPLY_NAME_LENGTH,
                            HIL_FUNCTION_INFO_REPLY_NAME, name,
                            hil_get_u16(request + HIL_FUNCTION_INFO_REQUEST_NAME_OFFSET));
}

/* What the function returned: its value, and a text that it is or that says why it failed. */
static size_t put_result(uint8_t *reply, int returned, TVMValue value, int code) {
    const char *text = "";

    if (returned != 0) {
        text = TVMGetLastError();
        value.v_int64 = 0;
        code = kTVMNullptr;
    } else if (code == kTVMStr) {
        text = value.v_str;
        value.v_int64 = 0;
    } else if (code != kTVMArgInt && code != kTVMArgFloat) {
        /* A pointer may have fewer bytes than the value. */
        const uintptr_t address = (uintptr_t)value.v_handle;
        value.v_int64 = (int64_t)address;
    }
    const size_t length = strlen(text);
    const size_t most = hil_rpc_payload_max() - HIL_CALL_REPLY_TEXT;
    hil_put_u32(reply + HIL_CALL_REPLY_RETURNED, (uint32_t)returned);
    reply[HIL_CALL_REPLY_KIND] = (uint8_t)code;
    hil_put_u64(reply + HIL_CALL_REPLY_VALUE, (uint64_t)value.v_int64);
    memcpy(reply + HIL_CALL_REPLY_TEXT, text, length < most ? length : most);
    return HIL_CALL_REPLY_TEXT + (length < most ? length : most);
}

size_t hil_rpc_on_call(const uint8_t *request, size_t size, uint8_t *reply) {
    struct reader reader = {request + HIL_CALL_REQUEST_NAME_AND_VALUES,
                            size - HIL_CALL_REQUEST_NAME_AND_VALUES};
    const uint8_t count = request[HIL_CALL_REQUEST_ARGUMENTS];
    TVMValue values[HIL_CALL_ARGUMENTS_MAX];
    int codes[HIL_CALL_ARGUMENTS_MAX];
    TVMFunctionHandle function = NULL;
    TVMValue result = {.v_int64 = 0};
    int result_code = kTVMNullptr;

    if (count > HIL_CALL_ARGUMENTS_MAX) {
        return hil_rpc_fail(reply, HIL_STATUS_TOO_MANY_ARGUMENTS, HIL_CALL_ARGUMENTS_MAX);
    }
    const char *name = take_string(&reader);
    if (name == NULL || TVMBackendGetFuncFromEnv(NULL, name, &function) != 0) {
        return hil_rpc_fail(reply, HIL_STATUS_BAD_FUNCTION, function_count());
    }
    for (uint8_t i = 0; i < count; ++i) {
        if (!take_argument(&reader, &values[i], &codes[i])) {
            return hil_rpc_fail(reply, HIL_STATUS_BAD_ARGUMENT, i);
        }
    }
    if (reader.left != 0) {
        return hil_rpc_fail(reply, HIL_STATUS_BAD_ARGUMENT, count);
    }
    hil_rpc_send_busy(0, 1);
    TVMAPISetLastError(""); /* of an earlier failure */
    const int returned = TVMFuncCall(function, values, codes, count, &result, &result_code);
    return put_result(reply, returned, result, result_code);
}

/* The metadata of the model that a request names (the requests that do so begin alike), or NULL
 * with the answer's size in *failed. */
static const struct TVMMetadata *find_metadata(const uint8_t *request, uint8_t *reply,
                                               size_t *failed) {
    const uint8_t index = request[HIL_METADATA_INFO_REQUEST_MODEL];
    TVMValue result = {.v_handle = NULL};
    int code = kTVMNullptr;

    if (hil_rpc_model(index) == NULL) {
        *failed = hil_rpc_fail(reply, HIL_STATUS_BAD_MODEL, hil_model_count);
        return NULL;
    }
    const struct hil_packed_model *packed = hil_packed_models[index];
    if (packed == NULL || packed->metadata == NULL ||
        packed->metadata(NULL, NULL, 0, &result, &code, NULL) != 0 || result.v_handle == NULL) {
        *failed = hil_rpc_fail(reply, HIL_STATUS_NO_METADATA, index);
        return NULL;
    }
    return result.v_handle;
}

size_t hil_rpc_on_metadata_info(const uint8_t *request, size_t size, uint8_t *reply) {
    size_t failed;
    const struct TVMMetadata *metadata = find_metadata(request, reply, &failed);

    (void)size;
    if (metadata == NULL) {
        return failed;
    }
    hil_put_u64(reply + HIL_METADATA_INFO_REPLY_VERSION, (uint64_t)metadata->version);
    hil_put_u16(reply + HIL_METADATA_INFO_REPLY_INPUTS, (uint16_t)metadata->num_inputs);
    hil_put_u16(reply + HIL_METADATA_INFO_REPLY_OUTPUTS, (uint16_t)metadata->num_outputs);
    hil_put_u16(reply + HIL_METADATA_INFO_REPLY_WORKSPACE_POOLS,
                (uint16_t)metadata->num_workspace_pools);
    hil_put_u16(reply + HIL_METADATA_INFO_REPLY_CONSTANTS, (uint16_t)metadata->num_constant_pools);
    return hil_rpc_put_name(reply, HIL_METADATA_INFO_REPLY_NAME_LENGTH,
                            HIL_METADATA_INFO_REPLY_NAME, metadata->mod_name,
                            hil_get_u16(request + HIL_METADATA_INFO_REQUEST_NAME_OFFSET));
}

/* The tensors of one of the metadata's lists, and how many they are; none of a list that the
 * protocol does not know. */
static const struct TVMTensorInfo *metadata_tensors(const struct TVMMetadata *metadata,
                                                    uint8_t list, int64_t *count) {
    switch (list) {
    case HIL_METADATA_LIST_INPUT:
        *count = metadata->num_inputs;
        return metadata->inputs;
    case HIL_METADATA_LIST_OUTPUT:
        *count = metadata->num_outputs;
        return metadata->outputs;
    case HIL_METADATA_LIST_WORKSPACE_POOL:
        *count = metadata->num_workspace_pools;
        return metadata->workspace_pools;
    default:
        *count = 0;
        return NULL;
    }
}

size_t hil_rpc_on_metadata_tensor(const uint8_t *request, size_t size, uint8_t *reply) {
    size_t failed;
    const struct TVMMetadata *metadata = find_metadata(request, reply, &failed);
    const uint16_t index = hil_get_u16(request + HIL_METADATA_TENSOR_REQUEST_INDEX);
    size_t at = HIL_METADATA_TENSOR_REPLY_SHAPE_AND_NAME;
    int64_t count;

    (void)size;
    if (metadata == NULL) {
        return failed;
    }
    const struct TVMTensorInfo *const tensors =
        metadata_tensors(metadata, request[HIL_METADATA_TENSOR_REQUEST_LIST], &count);
    if (index >= count) {
        return hil_rpc_fail(reply, HIL_STATUS_BAD_ENTRY, (uint32_t)count);
    }
    const struct TVMTensorInfo *tensor = &tensors[index];
    if (tensor->num_shape > (int64_t)(hil_rpc_payload_max() - at) / 8) {
        return hil_rpc_fail(reply, HIL_STATUS_TOO_BIG, (uint32_t)(hil_rpc_payload_max() - at));
    }
    reply[HIL_METADATA_TENSOR_REPLY_CODE] = tensor->dtype.code;
    reply[HIL_METADATA_TENSOR_REPLY_BITS] = tensor->dtype.bits;
    hil_put_u16(reply + HIL_METADATA_TENSOR_REPLY_LANES, tensor->dtype.lanes);
    reply[HIL_METADATA_TENSOR_REPLY_NDIM] = (uint8_t)tensor->num_shape;
    for (int64_t i = 0; i < tensor->num_shape; ++i, at += 8) {
        hil_put_u64(reply + at, (uint64_t)tensor->shape[i]);
    }
    return hil_rpc_put_name(reply, HIL_METADATA_TENSOR_REPLY_NAME_LENGTH, at, tensor->name,
                            hil_get_u16(request + HIL_METADATA_TENSOR_REQUEST_NAME_OFFSET));
}

size_t hil_rpc_on_metadata_constant(const uint8_t *request, size_t size, uint8_t *reply) {
    size_t failed;
    const struct TVMMetadata *metadata = find_metadata(request, reply, &failed);
    const uint16_t index = hil_get_u16(request + HIL_METADATA_CONSTANT_REQUEST_INDEX);

    (void)size;
    if (metadata == NULL) {
        return failed;
    }
    if (index >= metadata->num_constant_pools) {
        return hil_rpc_fail(reply, HIL_STATUS_BAD_ENTRY, (uint32_t)metadata->num_constant_pools);
    }
    const struct TVMConstantInfo *constant = &metadata->constant_pools[index];
    hil_put_u64(reply + HIL_METADATA_CONSTANT_REPLY_BYTE_OFFSET, (uint64_t)constant->byte_offset);
    hil_put_u64(reply + HIL_METADATA_CONSTANT_REPLY_DATA_BYTES, (uint64_t)constant->data_len);
    return hil_rpc_put_name(reply, HIL_METADATA_CONSTANT_REPLY_NAME_LENGTH,
                            HIL_METADATA_CONSTANT_REPLY_NAME, constant->name_hint,
                            hil_get_u16(request + HIL_METADATA_CONSTANT_REQUEST_NAME_OFFSET));
}
