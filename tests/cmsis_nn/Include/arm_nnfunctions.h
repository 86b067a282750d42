/* CMSIS-NN's public int8 operators, as the code generator calls them. */
#ifndef ARM_NNFUNCTIONS_H
#define ARM_NNFUNCTIONS_H

#include "arm_nn_types.h"

#ifdef __ARM_FEATURE_MVE
#define ARM_MATH_MVEI 1
#endif
#ifdef __ARM_FEATURE_DSP
#define ARM_MATH_DSP 1
#endif

arm_cmsis_nn_status
arm_convolve_wrapper_s8(const cmsis_nn_context *ctx, const cmsis_nn_conv_params *conv_params,
                        const cmsis_nn_per_channel_quant_params *quant_params,
                        const cmsis_nn_dims *input_dims, const int8_t *input_data,
                        const cmsis_nn_dims *filter_dims, const int8_t *filter_data,
                        const cmsis_nn_dims *bias_dims, const int32_t *bias_data,
                        const cmsis_nn_dims *output_dims, int8_t *output_data);

int32_t arm_convolve_wrapper_s8_get_buffer_size(const cmsis_nn_conv_params *conv_params,
                                                const cmsis_nn_dims *input_dims,
                                                const cmsis_nn_dims *filter_dims,
                                                const cmsis_nn_dims *output_dims);
int32_t arm_convolve_wrapper_s8_get_buffer_size_dsp(const cmsis_nn_conv_params *conv_params,
                                                    const cmsis_nn_dims *input_dims,
                                                    const cmsis_nn_dims *filter_dims,
                                                    const cmsis_nn_dims *output_dims);
int32_t arm_convolve_wrapper_s8_get_buffer_size_mve(const cmsis_nn_conv_params *conv_params,
                                                    const cmsis_nn_dims *input_dims,
                                                    const cmsis_nn_dims *filter_dims,
                                                    const cmsis_nn_dims *output_dims);

arm_cmsis_nn_status arm_depthwise_conv_wrapper_s8(
    const cmsis_nn_context *ctx, const cmsis_nn_dw_conv_params *dw_conv_params,
    const cmsis_nn_per_channel_quant_params *quant_params, const cmsis_nn_dims *input_dims,
    const int8_t *input_data, const cmsis_nn_dims *filter_dims, const int8_t *filter_data,
    const cmsis_nn_dims *bias_dims, const int32_t *bias_data, const cmsis_nn_dims *output_dims,
    int8_t *output_data);

int32_t arm_depthwise_conv_wrapper_s8_get_buffer_size(const cmsis_nn_dw_conv_params *dw_conv_params,
                                                      const cmsis_nn_dims *input_dims,
                                                      const cmsis_nn_dims *filter_dims,
                                                      const cmsis_nn_dims *output_dims);
int32_t arm_depthwise_conv_wrapper_s8_get_buffer_size_dsp(
    const cmsis_nn_dw_conv_params *dw_conv_params, const cmsis_nn_dims *input_dims,
    const cmsis_nn_dims *filter_dims, const cmsis_nn_dims *output_dims);
int32_t arm_depthwise_conv_wrapper_s8_get_buffer_size_mve(
    const cmsis_nn_dw_conv_params *dw_conv_params, const cmsis_nn_dims *input_dims,
    const cmsis_nn_dims *filter_dims, const cmsis_nn_dims *output_dims);

arm_cmsis_nn_status
arm_fully_connected_s8(const cmsis_nn_context *ctx, const cmsis_nn_fc_params *fc_params,
                       const cmsis_nn_per_tensor_quant_params *quant_params,
                       const cmsis_nn_dims *input_dims, const int8_t *input_data,
                       const cmsis_nn_dims *filter_dims, const int8_t *filter_data,
                       const cmsis_nn_dims *bias_dims, const int32_t *bias_data,
                       const cmsis_nn_dims *output_dims, int8_t *output_data);

arm_cmsis_nn_status
arm_fully_connected_wrapper_s8(const cmsis_nn_context *ctx, const cmsis_nn_fc_params *fc_params,
                               const cmsis_nn_quant_params *quant_params,
                               const cmsis_nn_dims *input_dims, const int8_t *input_data,
                               const cmsis_nn_dims *filter_dims, const int8_t *filter_data,
                               const cmsis_nn_dims *bias_dims, const int32_t *bias_data,
                               const cmsis_nn_dims *output_dims, int8_t *output_data);

int32_t arm_fully_connected_s8_get_buffer_size(const cmsis_nn_dims *filter_dims);
int32_t arm_fully_connected_s8_get_buffer_size_dsp(const cmsis_nn_dims *filter_dims);
int32_t arm_fully_connected_s8_get_buffer_size_mve(const cmsis_nn_dims *filter_dims);

/* With Helium, call arm_vector_sum_s8() first. */
arm_cmsis_nn_status arm_vector_sum_s8(int32_t *vector_sum_buf, const int32_t vector_cols,
                                      const int32_t vector_rows, const int8_t *vector_data,
                                      const int32_t lhs_offset, const int32_t rhs_offset,
                                      const int32_t *bias_data);

arm_cmsis_nn_status arm_transpose_s8(const int8_t *input, int8_t *const output,
                                     const cmsis_nn_dims *const input_dims,
                                     const cmsis_nn_dims *const output_dims,
                                     const cmsis_nn_transpose_params *const transpose_params);

#endif
