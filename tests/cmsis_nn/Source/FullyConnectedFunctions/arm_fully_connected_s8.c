#include <stddef.h>

#include "arm_nnfunctions.h"
#include "arm_nnsupportfunctions.h"

arm_cmsis_nn_status
arm_fully_connected_wrapper_s8(const cmsis_nn_context *ctx, const cmsis_nn_fc_params *fc_params,
                               const cmsis_nn_quant_params *quant_params,
                               const cmsis_nn_dims *input_dims, const int8_t *input_data,
                               const cmsis_nn_dims *filter_dims, const int8_t *filter_data,
                               const cmsis_nn_dims *bias_dims, const int32_t *bias_data,
                               const cmsis_nn_dims *output_dims, int8_t *output_data) {
    (void)bias_dims;
    const int32_t depth = filter_dims->n;
    if (fc_params->filter_offset != 0 || filter_dims->c != output_dims->c ||
        ctx->size != arm_fully_connected_s8_get_buffer_size(filter_dims)) {
        return ARM_CMSIS_NN_ARG_ERROR;
    }
#ifdef ARM_MATH_MVEI
    /* Bias and offset are in the sums of the weights, which the caller has made. */
    if (ctx->buf == NULL) {
        return ARM_CMSIS_NN_ARG_ERROR;
    }
    bias_data = ctx->buf;
    const int32_t input_offset = 0;
#else
    const int32_t input_offset = fc_params->input_offset;
#endif
    for (int32_t row = 0; row < input_dims->n; row++) {
        for (int32_t c = 0; c < output_dims->c; c++) {
            int32_t sum = bias_data[c];
            for (int32_t i = 0; i < depth; i++) {
                sum += filter_data[c * depth + i] * (input_data[i] + input_offset);
            }
            const int32_t factor = quant_params->is_per_channel ? c : 0;
            *output_data++ =
                arm_nn_output(sum, quant_params->multiplier[factor], quant_params->shift[factor],
                              fc_params->output_offset, &fc_params->activation);
        }
        input_data += depth;
    }
    return ARM_CMSIS_NN_SUCCESS;
}

arm_cmsis_nn_status
arm_fully_connected_s8(const cmsis_nn_context *ctx, const cmsis_nn_fc_params *fc_params,
                       const cmsis_nn_per_tensor_quant_params *quant_params,
                       const cmsis_nn_dims *input_dims, const int8_t *input_data,
                       const cmsis_nn_dims *filter_dims, const int8_t *filter_data,
                       const cmsis_nn_dims *bias_dims, const int32_t *bias_data,
                       const cmsis_nn_dims *output_dims, int8_t *output_data) {
    int32_t multiplier = quant_params->multiplier;
    int32_t shift = quant_params->shift;
    const cmsis_nn_quant_params quant = {&multiplier, &shift, 0};
    return arm_fully_connected_wrapper_s8(ctx, fc_params, &quant, input_dims, input_data,
                                          filter_dims, filter_data, bias_dims, bias_data,
                                          output_dims, output_data);
}
