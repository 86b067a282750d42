/* Arrays with a count of references, and the memory of devices: the processor's. */
#include <tvm/runtime/crt/internal/common/ndarray.h>

#include "internal.h"

#include <string.h>
#include <tvm/runtime/crt/internal/config.h>
#include <tvm/runtime/crt/platform.h>

/* Bytes of a tensor's elements; -1 where the description makes no sense. */
static int64_t data_bytes(int32_t ndim, const int64_t *shape, DLDataType dtype) {
    if (ndim < 0 || ndim > TVM_CRT_MAX_NDIM || (ndim > 0 && shape == NULL)) {
        return -1;
    }
    const uint64_t most = SIZE_MAX / 2; /* what a pointer difference can express */
    uint64_t bytes = ((uint64_t)dtype.bits * dtype.lanes + 7) / 8;
    for (int32_t axis = 0; axis < ndim; axis++) {
        if (shape[axis] < 0 || (bytes != 0 && (uint64_t)shape[axis] > most / bytes)) {
            return -1;
        }
        bytes *= (uint64_t)shape[axis];
    }
    return (int64_t)bytes;
}

static int64_t tensor_bytes(const DLTensor *tensor) {
    /* Elements with gaps between them are not worth code on a microcontroller. */
    if (tensor == NULL || tensor->strides != NULL) {
        return -1;
    }
    return data_bytes(tensor->ndim, tensor->shape, tensor->dtype);
}

static uint8_t *first_element(const DLTensor *tensor) {
    return (uint8_t *)tensor->data + (size_t)tensor->byte_offset;
}

static int bad_tensor(void) {
    return hil_crt_fail(kTvmErrorFunctionCallInvalidArg,
                        "a tensor is compact, has at most TVM_CRT_MAX_NDIM axes and fits memory",
                        NULL);
}

static int no_memory(tvm_crt_error_t err) {
    return hil_crt_fail(err, "the platform has no memory for an array", NULL);
}

int TVMNDArray_Create(int32_t ndim, const tvm_index_t *shape, DLDataType dtype, DLDevice dev,
                      TVMNDArray *array) {
    memset(array, 0, sizeof *array);
    if (data_bytes(ndim, shape, dtype) < 0) {
        return bad_tensor();
    }
    void *copy = NULL;
    const size_t bytes = (size_t)ndim * sizeof *shape;
    if (ndim > 0) {
        const tvm_crt_error_t err = TVMPlatformMemoryAllocate(bytes, dev, &copy);
        if (err != kTvmErrorNoError) {
            return no_memory(err);
        }
        memcpy(copy, shape, bytes);
    }
    array->dl_tensor.device = dev;
    array->dl_tensor.ndim = ndim;
    array->dl_tensor.dtype = dtype;
    array->dl_tensor.shape = (int64_t *)copy;
    return 0;
}

int TVMNDArray_Empty(int32_t ndim, const tvm_index_t *shape, DLDataType dtype, DLDevice dev,
                     TVMNDArray *array) {
    int err = TVMNDArray_Create(ndim, shape, dtype, dev, array);
    if (err != 0) {
        return err;
    }
    const size_t bytes = (size_t)TVMNDArray_DataSizeBytes(array);
    void *data = NULL;
    err = (int)TVMPlatformMemoryAllocate(bytes, dev, &data);
    if (err != 0) {
        TVMNDArray_Release(array);
        return no_memory((tvm_crt_error_t)err);
    }
    memset(data, 0, bytes);
    array->dl_tensor.data = data;
    return 0;
}

int TVMNDArray_CreateView(TVMNDArray *arr, const tvm_index_t *shape, int32_t ndim, DLDataType dtype,
                          TVMNDArray *array_view) {
    const int64_t bytes = data_bytes(ndim, shape, dtype);
    if (bytes < 0 || bytes > TVMNDArray_DataSizeBytes(arr)) {
        return bad_tensor();
    }
    const int err = TVMNDArray_Create(ndim, shape, dtype, arr->dl_tensor.device, array_view);
    if (err == 0) {
        array_view->dl_tensor.data = arr->dl_tensor.data;
        array_view->dl_tensor.byte_offset = arr->dl_tensor.byte_offset;
        array_view->is_view = 1;
    }
    return err;
}

int64_t TVMNDArray_DataSizeBytes(TVMNDArray *array) { return tensor_bytes(&array->dl_tensor); }

int TVMNDArray_RandomFill(TVMNDArray *array) {
    const int64_t bytes = TVMNDArray_DataSizeBytes(array);
    if (bytes < 0 || array->dl_tensor.data == NULL) {
        return bad_tensor();
    }
    return (int)TVMPlatformGenerateRandom(first_element(&array->dl_tensor), (size_t)bytes);
}

void TVMNDArray_IncrementReference(TVMNDArray *arr) { arr->reference_count++; }

uint32_t TVMNDArray_DecrementReference(TVMNDArray *arr) {
    if (arr->reference_count > 0) {
        arr->reference_count--;
    }
    return arr->reference_count;
}

int TVMNDArray_Release(TVMNDArray *arr) {
    if (TVMNDArray_DecrementReference(arr) > 0) {
        return 0;
    }
    /* In the opposite order of the allocation, for platforms with a stack. */
    const DLDevice dev = arr->dl_tensor.device;
    void *const blocks[] = {arr->is_view ? NULL : arr->dl_tensor.data, arr->dl_tensor.shape,
                            arr->is_allocated ? arr : NULL};
    arr->dl_tensor.data = NULL;
    arr->dl_tensor.shape = NULL;
    int result = 0;
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
        if (blocks[i] != NULL) {
            const int err = (int)TVMPlatformMemoryFree(blocks[i], dev);
            result = result != 0 ? result : err;
        }
    }
    return result;
}

/* ---- The same through the run-time interface. ---- */

static int make_cpu(int device_type, int device_id, DLDevice *dev) {
    memset(dev, 0, sizeof *dev);
    dev->device_type = kDLCPU;
    if (device_type != kDLCPU || device_id != 0) {
        return hil_crt_fail(kTvmErrorExecutorModuleBadContext, "the only device is kDLCPU 0", NULL);
    }
    return 0;
}

static int check_cpu(DLDevice dev) { return make_cpu((int)dev.device_type, dev.device_id, &dev); }

int TVMArrayAlloc(const tvm_index_t *shape, int ndim, int dtype_code, int dtype_bits,
                  int dtype_lanes, int device_type, int device_id, TVMArrayHandle *out) {
    *out = NULL;
    if (dtype_code < 0 || dtype_code > UINT8_MAX || dtype_bits < 0 || dtype_bits > UINT8_MAX ||
        dtype_lanes < 0 || dtype_lanes > UINT16_MAX) {
        return bad_tensor();
    }
    const DLDataType dtype = {(uint8_t)dtype_code, (uint8_t)dtype_bits, (uint16_t)dtype_lanes};
    DLDevice dev;
    int err = make_cpu(device_type, device_id, &dev);
    if (err != 0) {
        return err;
    }
    void *memory = NULL;
    err = (int)TVMPlatformMemoryAllocate(sizeof(TVMNDArray), dev, &memory);
    if (err != 0) {
        return no_memory((tvm_crt_error_t)err);
    }
    TVMNDArray *const array = (TVMNDArray *)memory;
    err = TVMNDArray_Empty(ndim, shape, dtype, dev, array);
    if (err != 0) {
        (void)TVMPlatformMemoryFree(memory, dev);
        return err;
    }
    array->is_allocated = 1;
    TVMNDArray_IncrementReference(array);
    *out = &array->dl_tensor;
    return 0;
}

int TVMArrayFree(TVMArrayHandle handle) {
    if (handle == NULL) {
        return hil_crt_fail(kTvmErrorFunctionCallInvalidArg, "no array to free", NULL);
    }
    return TVMNDArray_Release((TVMNDArray *)(void *)handle); /* dl_tensor is its first field */
}

int TVMDeviceAllocDataSpace(DLDevice dev, size_t nbytes, size_t alignment, DLDataType type_hint,
                            void **out_data) {
    (void)type_hint;
    *out_data = NULL;
    int err = check_cpu(dev);
    if (err != 0) {
        return err;
    }
    if (alignment == 0 || (alignment & (alignment - 1)) != 0) {
        return hil_crt_fail(kTvmErrorFunctionCallInvalidArg, "an alignment is a power of two",
                            NULL);
    }
    void *data = NULL;
    err = (int)TVMPlatformMemoryAllocate(nbytes, dev, &data);
    if (err != 0) {
        return no_memory((tvm_crt_error_t)err);
    }
    if (((uintptr_t)data & (alignment - 1)) != 0) {
        (void)TVMPlatformMemoryFree(data, dev);
        return hil_crt_fail(kTvmErrorFunctionCallInvalidArg,
                            "the platform's memory is not aligned so far", NULL);
    }
    *out_data = data;
    return 0;
}

int TVMDeviceAllocDataSpaceWithScope(DLDevice dev, int ndim, const int64_t *shape, DLDataType dtype,
                                     const char *mem_scope, void **out_data) {
    *out_data = NULL;
    if (mem_scope != NULL && strcmp(mem_scope, "") != 0 && strcmp(mem_scope, "global") != 0) {
        return hil_crt_fail(kTvmErrorFunctionCallNotImplemented, "no memory of this scope",
                            mem_scope);
    }
    const int64_t bytes = data_bytes(ndim, shape, dtype);
    return bytes < 0 ? bad_tensor()
                     : TVMDeviceAllocDataSpace(dev, (size_t)bytes, 1, dtype, out_data);
}

int TVMDeviceFreeDataSpace(DLDevice dev, void *ptr) {
    const int err = check_cpu(dev);
    return err != 0 ? err : (int)TVMPlatformMemoryFree(ptr, dev);
}

int TVMDeviceCopyDataFromTo(DLTensor *from, DLTensor *to, TVMStreamHandle stream) {
    (void)stream;
    const int64_t bytes = tensor_bytes(from);
    if (bytes < 0 || bytes != tensor_bytes(to) || from->data == NULL || to->data == NULL) {
        return hil_crt_fail(kTvmErrorFunctionCallInvalidArg,
                            "a copy needs two compact tensors of as many bytes", NULL);
    }
    int err = check_cpu(from->device);
    err = err != 0 ? err : check_cpu(to->device);
    if (err == 0) {
        memmove(first_element(to), first_element(from), (size_t)bytes);
    }
    return err;
}

int TVMStreamCreate(int device_type, int device_id, TVMStreamHandle *out) {
    DLDevice dev;
    *out = NULL;
    return make_cpu(device_type, device_id, &dev);
}

static int check_stream(int device_type, int device_id, TVMStreamHandle stream) {
    DLDevice dev;
    if (stream != NULL) {
        return hil_crt_fail(kTvmErrorFunctionCallInvalidArg, "the only stream is NULL", NULL);
    }
    return make_cpu(device_type, device_id, &dev);
}

int TVMStreamFree(int device_type, int device_id, TVMStreamHandle stream) {
    return check_stream(device_type, device_id, stream);
}

int TVMSetStream(int device_type, int device_id, TVMStreamHandle handle) {
    return check_stream(device_type, device_id, handle);
}

int TVMSynchronize(int device_type, int device_id, TVMStreamHandle stream) {
    return check_stream(device_type, device_id, stream);
}

int TVMByteArrayFree(TVMByteArray *arr) {
    if (arr == NULL) {
        return hil_crt_fail(kTvmErrorFunctionCallInvalidArg, "no array to free", NULL);
    }
    DLDevice dev;
    (void)make_cpu(kDLCPU, 0, &dev);
    const int err = (int)TVMPlatformMemoryFree((void *)(uintptr_t)arr->data, dev);
    const int last = (int)TVMPlatformMemoryFree(arr, dev);
    return err != 0 ? err : last;
}
