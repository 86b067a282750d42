/* The operators of "tiny", and the main that calls them. */
#include <stddef.h>
#include <stdint.h>

#include "hil/kernels/compact/conv2d_s8.h"
#include "hil/kernels/generic/binary.h"
#include "hil/kernels/generic/move.h"

/* Every constant array of the model; equal ones are there once. */
struct tvmgen_tiny_constants {
    _Alignas(16) int8_t constant_0[18];
    _Alignas(16) int8_t layer_0_weights[36];
    _Alignas(16) int16_t layer_0_scales[7];
    _Alignas(16) int8_t layer_1_weights[36];
    _Alignas(16) int16_t layer_1_scales[7];
    _Alignas(16) int32_t layer_4_blocks[2];
};

_Static_assert(sizeof(struct tvmgen_tiny_constants) == 176, "size of the constants");

__attribute__((section(".rodata.tvm"), aligned(16)))
static const struct tvmgen_tiny_constants global_const_workspace = {
    .constant_0 = {
        -23, 65, 68, 31, -100, 36, -55, 64, 82, -15, 91, 51, -35, 75, -24,
        -80, 18, 69,
    },
    .layer_0_weights = {
        79, -106, -82, -67, -81, 77, 94, 21, -117, -103, -43, -17, 31, -5, -60,
        -87, 49, 60, -119, -99, -12, -28, 99, 4, -20, -18, 42, 22, -83, 61,
        65, 116, 73, -55, -46, 38,
    },
    .layer_0_scales = {
        -7, -883, -11719, 0, -2528, -20986, 0,
    },
    .layer_1_weights = {
        112, -127, -108, 121, 113, -51, -92, -47, -117, 100, 41, 22, -65, -7, -79,
        70, -7, -120, -63, 53, 5, -32, -63, -104, 28, 41, 5, 110, 109, -75,
        28, 33, -64, -51, -3, 62,
    },
    .layer_1_scales = {
        -7, -13091, -7583, 0, 32668, 20960, 0,
    },
    .layer_4_blocks = {
        9, 9,
    },
};

/* Parameters of each of the layers 0 and 1, which share one body. */
struct shared_0 {
    const int8_t *weights;
    const int16_t *scales;
};

__attribute__((noinline))
static int32_t shared_0(const int8_t *in0, int8_t *out0, const struct shared_0 *own) {
    const struct hil_compact_conv2d_s8 p = {
        .batch = 1,
        .in_h = 3,
        .in_w = 3,
        .in_c = 2,
        .out_h = 3,
        .out_w = 3,
        .out_c = 2,
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
        .narrow = 1,
        .wide = 0,
        .weights = own->weights,
        .scales = own->scales,
    };
    hil_compact_conv2d_s8(&p, in0, out0);
    return 0;
}

/* One body for the layers 2 and 5. */
__attribute__((noinline))
static int32_t shared_2(const int8_t *in0, const int8_t *in1, int8_t *out0) {
    const struct hil_generic_add_s8 p = {
        .rows = 1,
        .counts = {1, 1, 1, 1, 1},
        .a_jumps = {0, 0, 0, 0, 0},
        .b_jumps = {0, 0, 0, 0, 0},
        .length = 18,
        .a_step = 1,
        .b_step = 1,
        .a_zero_point = 3,
        .a_multiplier = 1073741824,
        .a_shift = 0,
        .b_zero_point = 3,
        .b_multiplier = 1073741824,
        .b_shift = 0,
        .out_zero_point = 3,
        .out_multiplier = 1073741824,
        .out_shift = -18,
        .low = -128,
        .high = 127,
    };
    hil_generic_add_s8(&p, in0, in1, out0);
    return 0;
}

/* CONV_2D t3
 * operator 0: int8[1,3,3,2] x int8[2,3,3,2] -> int8[1,3,3,2], 324 multiply-accumulates */
static const struct shared_0 layer_0 = {
    .weights = global_const_workspace.layer_0_weights,
    .scales = global_const_workspace.layer_0_scales,
};

int32_t tvmgen_tiny_fused_conv_2d_0(void *input0, void *output0) {
    return shared_0(input0, output0, &layer_0);
}

/* CONV_2D t5
 * operator 1: int8[1,3,3,2] x int8[2,3,3,2] -> int8[1,3,3,2], 324 multiply-accumulates */
static const struct shared_0 layer_1 = {
    .weights = global_const_workspace.layer_1_weights,
    .scales = global_const_workspace.layer_1_scales,
};

int32_t tvmgen_tiny_fused_conv_2d_1(void *input0, void *output0) {
    return shared_0(input0, output0, &layer_1);
}

/* ADD t7
 * operator 2: int8[1,3,3,2] x int8[1,3,3,2] -> int8[1,3,3,2] */
int32_t tvmgen_tiny_fused_add_2(void *input0, void *output0) {
    return shared_2(input0, global_const_workspace.constant_0, output0);
}

/* SPLIT t10
 * operator 4: int32[] x int8[1,18] -> int8[1,9], int8[1,9] */
static const struct hil_generic_split layer_3 = {
    .rows = 1,
    .parts = 2,
    .block = 9,
};

int32_t tvmgen_tiny_fused_split_3(void *input0, void *output0, void *output1) {
    void *const outputs[] = {output0, output1};
    hil_generic_split(&layer_3, input0, outputs);
    return 0;
}

/* CONCATENATION t12
 * operator 5: int8[1,9] x int8[1,9] -> int8[1,18] */
static const struct hil_generic_join layer_4 = {
    .rows = 1,
    .parts = 2,
    .length = 18,
    .blocks = global_const_workspace.layer_4_blocks,
};

int32_t tvmgen_tiny_fused_concatenation_4(void *input0, void *input1, void *output0) {
    const void *const inputs[] = {input0, input1};
    hil_generic_join(&layer_4, inputs, output0);
    return 0;
}

/* ADD t13
 * operator 6: int8[1,18] x int8[1,18] -> int8[1,18] */
int32_t tvmgen_tiny_fused_add_5(void *input0, void *input1, void *output0) {
    return shared_2(input0, input1, output0);
}

/* Runs the layers in order; -1 as soon as one fails. */
int32_t tvmgen_tiny___tvm_main__(void *input0, void *input1, void *output0, void *output1,
                                 uint8_t *global_workspace_0_var) {
    if (tvmgen_tiny_fused_conv_2d_0(input0, &global_workspace_0_var[16]) != 0) {
        return -1;
    }
    if (tvmgen_tiny_fused_conv_2d_1(&global_workspace_0_var[16],
                                    &global_workspace_0_var[0]) != 0) {
        return -1;
    }
    if (tvmgen_tiny_fused_add_2(&global_workspace_0_var[0], &global_workspace_0_var[0]) != 0) {
        return -1;
    }
    if (tvmgen_tiny_fused_split_3(&global_workspace_0_var[0], output1,
                                  &global_workspace_0_var[0]) != 0) {
        return -1;
    }
    if (tvmgen_tiny_fused_concatenation_4(&global_workspace_0_var[0], output1, output0) != 0) {
        return -1;
    }
    if (tvmgen_tiny_fused_add_5(output0, input1, output0) != 0) {
        return -1;
    }
    return 0;
}
