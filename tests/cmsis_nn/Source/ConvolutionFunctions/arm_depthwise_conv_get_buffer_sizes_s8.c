#include "arm_nnfunctions.h"

/* The sums of all channels at one position; with Helium those of two. */
int32_t arm_depthwise_conv_wrapper_s8_get_buffer_size_dsp(
    const cmsis_nn_dw_conv_params *dw_conv_params, const cmsis_nn_dims *input_dims,
    const cmsis_nn_dims *filter_dims, const cmsis_nn_dims *output_dims) {
    (void)dw_conv_params;
    (void)input_dims;
    (void)filter_dims;
    return output_dims->c * (int32_t)sizeof(int32_t);
}

int32_t arm_depthwise_conv_wrapper_s8_get_buffer_size_mve(
    const cmsis_nn_dw_conv_params *dw_conv_params, const cmsis_nn_dims *input_dims,
    const cmsis_nn_dims *filter_dims, const cmsis_nn_dims *output_dims) {
    (void)dw_conv_params;
    (void)input_dims;
    (void)filter_dims;
    return 2 * output_dims->c * (int32_t)sizeof(int32_t);
}

int32_t arm_depthwise_conv_wrapper_s8_get_buffer_size(const cmsis_nn_dw_conv_params *dw_conv_params,
                                                      const cmsis_nn_dims *input_dims,
                                                      const cmsis_nn_dims *filter_dims,
                                                      const cmsis_nn_dims *output_dims) {
#if defined(ARM_MATH_MVEI)
    return arm_depthwise_conv_wrapper_s8_get_buffer_size_mve(dw_conv_params, input_dims,
                                                             filter_dims, output_dims);
#elif defined(ARM_MATH_DSP)
    return arm_depthwise_conv_wrapper_s8_get_buffer_size_dsp(dw_conv_params, input_dims,
                                                             filter_dims, output_dims);
#else
    (void)dw_conv_params;
    (void)input_dims;
    (void)filter_dims;
    (void)output_dims;
    return 0;
#endif
}
