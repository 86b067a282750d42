#include <stddef.h>
#include <string.h>

#include "arm_nnfunctions.h"
#include "arm_nnsupportfunctions.h"

arm_cmsis_nn_status arm_depthwise_conv_wrapper_s8(
    const cmsis_nn_context *ctx, const cmsis_nn_dw_conv_params *dw_conv_params,
    const cmsis_nn_per_channel_quant_params *quant_params, const cmsis_nn_dims *input_dims,
    const int8_t *input_data, const cmsis_nn_dims *filter_dims, const int8_t *filter_data,
    const cmsis_nn_dims *bias_dims, const int32_t *bias_data, const cmsis_nn_dims *output_dims,
    int8_t *output_data) {
    (void)bias_dims;
    const cmsis_nn_dw_conv_params *const p = dw_conv_params;
    const int32_t scratch_bytes =
        arm_depthwise_conv_wrapper_s8_get_buffer_size(p, input_dims, filter_dims, output_dims);
    if (input_dims->n != 1 || filter_dims->n != 1 || filter_dims->c != output_dims->c ||
        input_dims->c * p->ch_mult != output_dims->c || ctx->size != scratch_bytes ||
        (scratch_bytes > 0 && ctx->buf == NULL)) {
        return ARM_CMSIS_NN_ARG_ERROR;
    }
    if (scratch_bytes > 0) {
        /* A caller that gave less than it says would see this. */
        memset(ctx->buf, 0x55, (size_t)scratch_bytes);
    }
    for (int32_t y = 0; y < output_dims->h; y++) {
        for (int32_t x = 0; x < output_dims->w; x++) {
            for (int32_t c = 0; c < output_dims->c; c++) {
                int32_t sum = bias_data[c];
                for (int32_t i = 0; i < filter_dims->h; i++) {
                    for (int32_t j = 0; j < filter_dims->w; j++) {
                        const int32_t in_y = y * p->stride.h - p->padding.h + i * p->dilation.h;
                        const int32_t in_x = x * p->stride.w - p->padding.w + j * p->dilation.w;
                        if (in_y < 0 || in_y >= input_dims->h || in_x < 0 ||
                            in_x >= input_dims->w) {
                            continue;
                        }
                        const int32_t pixel = in_y * input_dims->w + in_x;
                        const int8_t value = input_data[pixel * input_dims->c + c / p->ch_mult];
                        const int32_t tap = i * filter_dims->w + j;
                        sum += filter_data[tap * output_dims->c + c] * (value + p->input_offset);
                    }
                }
                *output_data++ =
                    arm_nn_output(sum, quant_params->multiplier[c], quant_params->shift[c],
                                  p->output_offset, &p->activation);
            }
        }
    }
    return ARM_CMSIS_NN_SUCCESS;
}
