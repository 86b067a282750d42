/* The operators of "layer", and the main that calls them. */
#include <stddef.h>
#include <stdint.h>

#include "hil/kernels/generic/conv2d_s8.h"
#include "hil/packed_call.h"

/* Every constant array of the model; equal ones are there once. */
struct tvmgen_layer_constants {
    _Alignas(16) int32_t layer_0_bias[1];
    _Alignas(16) int32_t layer_0_multipliers[1];
    _Alignas(16) int8_t layer_0_shifts[1];
    _Alignas(16) int8_t layer_0_weights[9];
};

_Static_assert(sizeof(struct tvmgen_layer_constants) == 64, "size of the constants");

__attribute__((section(".rodata.tvm"), aligned(16)))
static const struct tvmgen_layer_constants global_const_workspace = {
    .layer_0_bias = {
        1236,
    },
    .layer_0_multipliers = {
        1260477104,
    },
    .layer_0_shifts = {
        -5,
    },
    .layer_0_weights = {
        89, 35, 3, -59, -49, -117, -108, -123, -83,
    },
};

static const int64_t shape_0[4] = {1, 2, 2, 1};
static const int64_t shape_1[1] = {18};

/* CONV_2D t2
 * operator 0: int8[1,2,2,1] x int8[1,3,3,1] -> int8[1,2,2,1], 36 multiply-accumulates */
static const struct hil_generic_conv2d_s8 layer_0 = {
    .batch = 1,
    .in_h = 2,
    .in_w = 2,
    .in_c = 1,
    .out_h = 2,
    .out_w = 2,
    .out_c = 1,
    .filter_h = 3,
    .filter_w = 3,
    .stride_h = 1,
    .stride_w = 1,
    .dilation_h = 1,
    .dilation_w = 1,
    .pad_top = 1,
    .pad_left = 1,
    .in_zero_point = 3,
    .out_zero_point = 3,
    .out_min = -128,
    .out_max = 127,
    .per_channel = 0,
    .narrow = 1,
    .bias = global_const_workspace.layer_0_bias,
    .multipliers = global_const_workspace.layer_0_multipliers,
    .shifts = global_const_workspace.layer_0_shifts,
    .weights = global_const_workspace.layer_0_weights,
};

int32_t tvmgen_layer_fused_conv_2d_0(TVMValue *args, int *type_codes, int num_args,
                                     TVMValue *out_ret_value, int *out_ret_tcode,
                                     void *resource_handle) {
    (void)type_codes;
    (void)out_ret_value;
    (void)out_ret_tcode;
    (void)resource_handle;
    if (num_args != 3) {
        return -1;
    }
    void *const input0 = hil_argument_data(args[0]);
    void *const output0 = hil_argument_data(args[1]);
    void *const scratch = hil_argument_data(args[2]);
    hil_generic_conv2d_s8(&layer_0, input0, output0, scratch);
    return 0;
}

/* Runs the layers in order; -1 as soon as one fails. */
int32_t tvmgen_layer___tvm_main__(TVMValue *args, int *type_codes, int num_args,
                                  TVMValue *out_ret_value, int *out_ret_tcode,
                                  void *resource_handle) {
    (void)type_codes;
    (void)out_ret_value;
    (void)out_ret_tcode;
    if (num_args != 3) {
        return -1;
    }
    void *const input0 = hil_argument_data(args[0]);
    void *const output0 = hil_argument_data(args[1]);
    uint8_t *const global_workspace_0_var = hil_argument_data(args[2]);
    DLTensor tensors[3];
    TVMValue values[3];
    int codes[3];
    TVMValue result = {0};
    int result_code = kTVMNullptr;
    hil_pass_tensor(&values[0], &codes[0], &tensors[0], input0, kDLInt, 8, 4, shape_0);
    hil_pass_tensor(&values[1], &codes[1], &tensors[1], output0, kDLInt, 8, 4, shape_0);
    hil_pass_tensor(&values[2], &codes[2], &tensors[2], &global_workspace_0_var[0], kDLUInt, 8, 1,
                    shape_1);
    if (tvmgen_layer_fused_conv_2d_0(values, codes, 3, &result, &result_code,
                                     resource_handle) != 0) {
        return -1;
    }
    return 0;
}

/* The linked constant that has the storage id args[0]; a null handle where none has. */
int32_t tvmgen_layer__lookup_linked_param(TVMValue *args, int *type_codes, int num_args,
                                          TVMValue *out_ret_value, int *out_ret_tcode,
                                          void *resource_handle) {
    (void)resource_handle;
    if (num_args != 1) {
        return -1;
    }
    if (type_codes != NULL && type_codes[0] != kTVMArgInt) {
        return -1;
    }
    static const void *const constants[] = {
        global_const_workspace.layer_0_bias,
        global_const_workspace.layer_0_multipliers,
        global_const_workspace.layer_0_shifts,
        global_const_workspace.layer_0_weights,
    };
    const int64_t id = args[0].v_int64;
    if (id >= 0 && id < 4) {
        out_ret_value->v_handle = (void *)constants[(size_t)id];
        *out_ret_tcode = kTVMOpaqueHandle;
        return 0;
    }
    out_ret_value->v_handle = NULL;
    *out_ret_tcode = kTVMNullptr;
    return 0;
}

__attribute__((weak))
int32_t _lookup_linked_param(TVMValue *args, int *type_codes, int num_args, TVMValue *out_ret_value,
                             int *out_ret_tcode, void *resource_handle) {
    return tvmgen_layer__lookup_linked_param(args, type_codes, num_args, out_ret_value,
                                             out_ret_tcode, resource_handle);
}
