/* A model of the packed interface with memory for its inputs and outputs. */
#ifndef TVM_RUNTIME_CRT_AOT_EXECUTOR_H_
#define TVM_RUNTIME_CRT_AOT_EXECUTOR_H_

#include <dlpack/dlpack.h>
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/crt/internal/common/ndarray.h>
#include <tvm/runtime/metadata_types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct TVMAotExecutor {
    const TVMMetadata *metadata;   /* the model's own, constant */
    TVMModuleHandle module_handle; /* that has the model's functions */
    DLDevice device;               /* {kDLCPU, 0} */
    /* Inputs, outputs, and the pools that the metadata describe: the constants' where they have
     * data, the workspaces'. Pools have no memory here: where a model's are external, the caller
     * sets the data of all of them (the constants' with their bytes) before the first run. */
    TVMNDArray *args;
    int64_t num_args; /* of args that are described: what a release frees */
} TVMAotExecutor;

/* An executor of the model module_name of a module (runtime.SystemLib), with zeroed inputs and
 * outputs, all from TVMPlatformMemoryAllocate. The device is {kDLCPU, 0}, otherwise
 * kTvmErrorExecutorModuleBadContext. A failure frees everything and leaves *executor NULL. */
int TVMAotExecutor_Create(TVMModuleHandle module_handle, const DLDevice device,
                          TVMAotExecutor **executor, const char *module_name);
int TVMAotExecutor_Release(TVMAotExecutor *executor, const DLDevice device);

int TVMAotExecutor_GetNumInputs(TVMAotExecutor *executor);
int TVMAotExecutor_GetNumOutputs(TVMAotExecutor *executor);

/* Position of an input by its name; -1 when there is none. */
int TVMAotExecutor_GetInputIndex(TVMAotExecutor *executor, const char *name);
/* Name of an input; kTvmErrorExecutorModuleNoSuchInput. */
int TVMAotExecutor_GetInputName(TVMAotExecutor *executor, int index, const char **name);

/* Call <mod_name>_run with the inputs, the outputs and, once the caller has set them, the pools.
 * The model's error is the result; kTvmErrorFunctionCallNumArguments for more than
 * TVM_CRT_MAX_ARGS. */
int TVMAotExecutor_Run(TVMAotExecutor *executor);

#ifdef __cplusplus
}
#endif

#endif
