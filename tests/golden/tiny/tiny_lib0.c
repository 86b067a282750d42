/* Entry point of the model "tiny". */
#include <stddef.h>

#include "tvmgen_tiny.h"

int32_t tvmgen_tiny___tvm_main__(void *input0, void *input1, void *output0, void *output1,
                                 uint8_t *global_workspace_0_var);

__attribute__((section(".bss.noinit.tvm"), aligned(16)))
uint8_t tvmgen_tiny_global_workspace[48];

int32_t tvmgen_tiny_run(struct tvmgen_tiny_inputs *inputs, struct tvmgen_tiny_outputs *outputs) {
    if (inputs == NULL || outputs == NULL || inputs->t0 == NULL || inputs->t1 == NULL ||
        outputs->t13 == NULL || outputs->t10 == NULL) {
        return -1;
    }
    return tvmgen_tiny___tvm_main__(inputs->t0, inputs->t1, outputs->t13, outputs->t10,
                                    tvmgen_tiny_global_workspace);
}
