/* What the model "layer" says of itself, as TVM's metadata. */
#include <stddef.h>

#include "tvm/runtime/metadata_types.h"
#include "tvmgen_layer.h"

static const int64_t kTvmgenMetadata_inputs_0_shape[4] = {1, 2, 2, 1};
static const struct TVMTensorInfo kTvmgenMetadata_inputs[1] = {
    {"t0", kTvmgenMetadata_inputs_0_shape, 4, {kDLInt, 8, 1}},
};

static const int64_t kTvmgenMetadata_outputs_0_shape[4] = {1, 2, 2, 1};
static const struct TVMTensorInfo kTvmgenMetadata_outputs[1] = {
    {"output0", kTvmgenMetadata_outputs_0_shape, 4, {kDLInt, 8, 1}},
};

static const struct TVMConstantInfo kTvmgenMetadata_constant_pools[4] = {
    {"layer_0_bias", 0, 0, NULL},
    {"layer_0_multipliers", 16, 0, NULL},
    {"layer_0_shifts", 32, 0, NULL},
    {"layer_0_weights", 48, 0, NULL},
};

static const struct TVMMetadata kTvmgenMetadata[1] = {{
    1, /* version */
    kTvmgenMetadata_inputs, 1,
    kTvmgenMetadata_outputs, 1,
    NULL, 0,
    kTvmgenMetadata_constant_pools, 4,
    "tvmgen_layer",
}};

#ifdef __cplusplus
extern "C" {
#endif

int32_t tvmgen_layer_get_c_metadata(TVMValue *args, int *type_codes, int num_args,
                                    TVMValue *out_ret_value, int *out_ret_tcode,
                                    void *resource_handle) {
    (void)args;
    (void)type_codes;
    (void)num_args;
    (void)resource_handle;
    if (out_ret_value == NULL || out_ret_tcode == NULL) {
        return -1;
    }
    out_ret_value->v_handle = (void *)kTvmgenMetadata;
    *out_ret_tcode = kTVMOpaqueHandle;
    return 0;
}

/* The same, for run times that look for it by this name. */
int32_t get_c_metadata(TVMValue *args, int *type_codes, int num_args, TVMValue *out_ret_value,
                       int *out_ret_tcode, void *resource_handle);
__attribute__((weak))
int32_t get_c_metadata(TVMValue *args, int *type_codes, int num_args, TVMValue *out_ret_value,
                       int *out_ret_tcode, void *resource_handle) {
    return tvmgen_layer_get_c_metadata(args, type_codes, num_args, out_ret_value, out_ret_tcode,
                                       resource_handle);
}

#ifdef __cplusplus
}
#endif
