/* Arguments of packed calls, as generated code makes and reads them. */
#ifndef HIL_PACKED_CALL_H
#define HIL_PACKED_CALL_H

#include <tvm/runtime/c_runtime_api.h>

#include "hil/tvm_tensor.h"

/* Pass the compact tensor at data, which tensor becomes the description of. shape and tensor must
 * live until the call returns. */
static inline void hil_pass_tensor(TVMValue *value, int *type_code, DLTensor *tensor, void *data,
                                   DLDataTypeCode code, uint8_t bits, int32_t ndim,
                                   const int64_t *shape) {
    hil_tensor_init(tensor, data, code, bits, ndim, shape);
    value->v_handle = tensor;
    *type_code = kTVMDLTensorHandle;
}

/* Pass what a device's driver knows it by. */
static inline void hil_pass_handle(TVMValue *value, int *type_code, void *handle) {
    value->v_handle = handle;
    *type_code = kTVMOpaqueHandle;
}

/* The first byte of a tensor that was passed. */
static inline void *hil_argument_data(TVMValue value) {
    return hil_tensor_data((const DLTensor *)value.v_handle);
}

#endif
