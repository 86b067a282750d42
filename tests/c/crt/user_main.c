/* A firmware's main as users of microTVM wrote it: only TVM's headers and their own platform. */
#include <stdio.h>
#include <string.h>
#include <tvm/runtime/crt/aot_executor.h>
#include <tvm/runtime/crt/crt.h>
#include <tvm/runtime/crt/logging.h>
#include <tvm/runtime/crt/packed_func.h>
#include <tvm/runtime/crt/platform.h>

int main(void) {
    const DLDevice device = {kDLCPU, 0};
    TVMPackedFunc system_lib;
    TVMArgs none = TVMArgs_Create(NULL, NULL, 0);
    TVMAotExecutor *executor = NULL;

    CHECK_EQ(TVMPlatformInitialize(), kTvmErrorNoError, "platform");
    CHECK_EQ(TVMInitializeRuntime(), kTvmErrorNoError, "run time");
    CHECK_EQ(TVMPackedFunc_InitGlobalFunc(&system_lib, "runtime.SystemLib", &none), 0, "library");
    CHECK_EQ(TVMPackedFunc_Call(&system_lib), 0, "library");

    TVMModuleHandle library = TVMArgs_AsModuleHandle(&system_lib.ret_value, 0);
    CHECK_EQ(TVMAotExecutor_Create(library, device, &executor, "sum"), 0, "executor: %s",
             TVMGetLastError());
    const int left = TVMAotExecutor_GetInputIndex(executor, "left");
    const int right = TVMAotExecutor_GetInputIndex(executor, "right");
    CHECK(left >= 0 && right >= 0);
    memcpy(executor->args[left].dl_tensor.data, "\1\2\3\4", 4);
    memcpy(executor->args[right].dl_tensor.data, "\12\24\36\50", 4);
    CHECK_EQ(TVMAotExecutor_Run(executor), 0, "run: %s", TVMGetLastError());

    const TVMNDArray *output = &executor->args[TVMAotExecutor_GetNumInputs(executor)];
    for (int i = 0; i < 4; i++) {
        printf("%d ", ((const int8_t *)output->dl_tensor.data)[i]);
    }
    printf("\n");
    CHECK_EQ(TVMAotExecutor_Release(executor, device), 0, "release");
    return 0;
}
