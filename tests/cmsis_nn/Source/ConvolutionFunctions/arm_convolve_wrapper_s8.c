#include <stddef.h>
#include <string.h>

#include "arm_nnfunctions.h"
#include "arm_nnsupportfunctions.h"

/* Copies a pixel. Version 7 calls the function in places that are no business of ours. */
static void copy(const int8_t *pixel, int32_t channels, int8_t *output) {
    static const uint32_t same[4] = {0, 1, 2, 3};
    const cmsis_nn_dims dims = {1, 1, 1, channels};
    const cmsis_nn_transpose_params params = {4, same};
    (void)arm_transpose_s8(pixel, output, &dims, &dims, &params);
}

/* Copies the window at (top, left) to the scratch; what lies outside the image is zero. */
static void gather(const cmsis_nn_conv_params *params, const cmsis_nn_dims *input_dims,
                   const int8_t *image, const cmsis_nn_dims *filter_dims, int32_t top, int32_t left,
                   int8_t *window) {
    for (int32_t i = 0; i < filter_dims->h; i++) {
        for (int32_t j = 0; j < filter_dims->w; j++) {
            const int32_t y = top + i * params->dilation.h;
            const int32_t x = left + j * params->dilation.w;
            const int inside = y >= 0 && y < input_dims->h && x >= 0 && x < input_dims->w;
            if (inside) {
                copy(&image[(y * input_dims->w + x) * input_dims->c], input_dims->c, window);
            } else {
                memset(window, -params->input_offset, (size_t)input_dims->c);
            }
            window += input_dims->c;
        }
    }
}

arm_cmsis_nn_status
arm_convolve_wrapper_s8(const cmsis_nn_context *ctx, const cmsis_nn_conv_params *conv_params,
                        const cmsis_nn_per_channel_quant_params *quant_params,
                        const cmsis_nn_dims *input_dims, const int8_t *input_data,
                        const cmsis_nn_dims *filter_dims, const int8_t *filter_data,
                        const cmsis_nn_dims *bias_dims, const int32_t *bias_data,
                        const cmsis_nn_dims *output_dims, int8_t *output_data) {
    (void)bias_dims;
    const int32_t depth = filter_dims->h * filter_dims->w * input_dims->c;
    if (ctx->buf == NULL || filter_dims->c != input_dims->c || filter_dims->n != output_dims->c ||
        ctx->size != arm_convolve_wrapper_s8_get_buffer_size(conv_params, input_dims, filter_dims,
                                                             output_dims)) {
        return ARM_CMSIS_NN_ARG_ERROR;
    }
    int8_t *const window = ctx->buf;
    /* A caller that gave less than it says would see this. */
    window[ctx->size - 1] = 0;
    for (int32_t n = 0; n < input_dims->n; n++) {
        for (int32_t y = 0; y < output_dims->h; y++) {
            for (int32_t x = 0; x < output_dims->w; x++) {
                gather(conv_params, input_dims, input_data, filter_dims,
                       y * conv_params->stride.h - conv_params->padding.h,
                       x * conv_params->stride.w - conv_params->padding.w, window);
                for (int32_t c = 0; c < output_dims->c; c++) {
                    int32_t sum = bias_data[c];
                    for (int32_t i = 0; i < depth; i++) {
                        sum += filter_data[c * depth + i] * (window[i] + conv_params->input_offset);
                    }
                    *output_data++ =
                        arm_nn_output(sum, quant_params->multiplier[c], quant_params->shift[c],
                                      conv_params->output_offset, &conv_params->activation);
                }
            }
        }
        input_data += input_dims->h * input_dims->w * input_dims->c;
    }
    return ARM_CMSIS_NN_SUCCESS;
}
