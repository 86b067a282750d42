/* Arrays that know how many hold them. */
#ifndef TVM_RUNTIME_CRT_INTERNAL_COMMON_NDARRAY_H_
#define TVM_RUNTIME_CRT_INTERNAL_COMMON_NDARRAY_H_

#include <dlpack/dlpack.h>
#include <tvm/runtime/c_backend_api.h>
#include <tvm/runtime/c_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct TVMNDArray {
    DLTensor dl_tensor;
    uint32_t reference_count;
    uint16_t is_allocated; /* the last release frees the struct too: TVMArrayAlloc's */
    uint16_t is_view;      /* the last release leaves the data alone */
} TVMNDArray;

/* Describe an array without data: compact, reference count 0. Its shape is a copy from
 * TVMPlatformMemoryAllocate. kTvmErrorFunctionCallInvalidArg for more than TVM_CRT_MAX_NDIM axes, a
 * negative one, or more bytes than there are addresses. */
int TVMNDArray_Create(int32_t ndim, const tvm_index_t *shape, DLDataType dtype, DLDevice dev,
                      TVMNDArray *array);

/* The same with data, all zeros. */
int TVMNDArray_Empty(int32_t ndim, const tvm_index_t *shape, DLDataType dtype, DLDevice dev,
                     TVMNDArray *array);

/* Another shape for the data of arr, with as many bytes at most; arr must not be released before
 * the view. */
int TVMNDArray_CreateView(TVMNDArray *arr, const tvm_index_t *shape, int32_t ndim, DLDataType dtype,
                          TVMNDArray *array_view);

/* Bytes of all elements; -1 where the description makes no sense. */
int64_t TVMNDArray_DataSizeBytes(TVMNDArray *array);

/* Fill with random bytes of the platform. */
int TVMNDArray_RandomFill(TVMNDArray *array);

void TVMNDArray_IncrementReference(TVMNDArray *arr);
uint32_t TVMNDArray_DecrementReference(TVMNDArray *arr);

/* Give up a reference; without another the array's memory is freed. */
int TVMNDArray_Release(TVMNDArray *arr);

#ifdef __cplusplus
}
#endif

#endif
