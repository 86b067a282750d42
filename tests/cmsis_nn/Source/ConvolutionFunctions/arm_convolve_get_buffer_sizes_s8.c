#include "arm_nnfunctions.h"

/* One window of the image; with instructions for it, more of them at a time. */
static int32_t window_bytes(const cmsis_nn_dims *input_dims, const cmsis_nn_dims *filter_dims) {
    return filter_dims->h * filter_dims->w * input_dims->c;
}

int32_t arm_convolve_wrapper_s8_get_buffer_size_dsp(const cmsis_nn_conv_params *conv_params,
                                                    const cmsis_nn_dims *input_dims,
                                                    const cmsis_nn_dims *filter_dims,
                                                    const cmsis_nn_dims *output_dims) {
    (void)conv_params;
    (void)output_dims;
    return 2 * window_bytes(input_dims, filter_dims);
}

int32_t arm_convolve_wrapper_s8_get_buffer_size_mve(const cmsis_nn_conv_params *conv_params,
                                                    const cmsis_nn_dims *input_dims,
                                                    const cmsis_nn_dims *filter_dims,
                                                    const cmsis_nn_dims *output_dims) {
    (void)conv_params;
    (void)output_dims;
    return 4 * window_bytes(input_dims, filter_dims);
}

int32_t arm_convolve_wrapper_s8_get_buffer_size(const cmsis_nn_conv_params *conv_params,
                                                const cmsis_nn_dims *input_dims,
                                                const cmsis_nn_dims *filter_dims,
                                                const cmsis_nn_dims *output_dims) {
#if defined(ARM_MATH_MVEI)
    return arm_convolve_wrapper_s8_get_buffer_size_mve(conv_params, input_dims, filter_dims,
                                                       output_dims);
#elif defined(ARM_MATH_DSP)
    return arm_convolve_wrapper_s8_get_buffer_size_dsp(conv_params, input_dims, filter_dims,
                                                       output_dims);
#else
    (void)conv_params;
    (void)output_dims;
    return window_bytes(input_dims, filter_dims);
#endif
}
