/* DLTensors with every field set. */
#ifndef HIL_TVM_TENSOR_H
#define HIL_TVM_TENSOR_H

#include <dlpack/dlpack.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Describe data, a compact tensor of the processor, to functions that take a DLTensor. shape has
 * ndim elements and must live as long as the tensor; nobody writes to it. */
static inline void hil_tensor_init(DLTensor *tensor, void *data, DLDataTypeCode code, uint8_t bits,
                                   int32_t ndim, const int64_t *shape) {
    /* First: where C has a one-byte device_type, code in C++ reads the three bytes after it too. */
    memset(tensor, 0, sizeof *tensor);
    tensor->data = data;
    tensor->device.device_type = kDLCPU;
    tensor->device.device_id = 0;
    tensor->ndim = ndim;
    tensor->dtype.code = (uint8_t)code;
    tensor->dtype.bits = bits;
    tensor->dtype.lanes = 1;
    tensor->shape = (int64_t *)(uintptr_t)shape;
    tensor->strides = NULL; /* compact */
    tensor->byte_offset = 0;
}

/* Where the first element is. */
static inline void *hil_tensor_data(const DLTensor *tensor) {
    return (uint8_t *)tensor->data + (size_t)tensor->byte_offset;
}

#ifdef __cplusplus
}
#endif

#endif
