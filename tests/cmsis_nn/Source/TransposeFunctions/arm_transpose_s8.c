#include "arm_nnfunctions.h"

arm_cmsis_nn_status arm_transpose_s8(const int8_t *input, int8_t *const output,
                                     const cmsis_nn_dims *const input_dims,
                                     const cmsis_nn_dims *const output_dims,
                                     const cmsis_nn_transpose_params *const transpose_params) {
    const int32_t size[4] = {input_dims->n, input_dims->h, input_dims->w, input_dims->c};
    const int32_t out[4] = {output_dims->n, output_dims->h, output_dims->w, output_dims->c};
    if (transpose_params->num_dims != 4) {
        return ARM_CMSIS_NN_ARG_ERROR;
    }
    int32_t at[4];
    for (at[0] = 0; at[0] < size[0]; at[0]++) {
        for (at[1] = 0; at[1] < size[1]; at[1]++) {
            for (at[2] = 0; at[2] < size[2]; at[2]++) {
                for (at[3] = 0; at[3] < size[3]; at[3]++) {
                    int32_t place = 0;
                    for (int i = 0; i < 4; i++) {
                        place = place * out[i] + at[transpose_params->permutations[i]];
                    }
                    output[place] = *input++;
                }
            }
        }
    }
    return ARM_CMSIS_NN_SUCCESS;
}
