/* Arrays, memory of devices, streams. */
#include "check.h"
#include "host_platform.h"

#include <tvm/runtime/crt/error_codes.h>
#include <tvm/runtime/crt/internal/common/ndarray.h>

static const DLDevice cpu = {kDLCPU, 0};
static const DLDataType int8 = {kDLInt, 8, 1}, float32 = {kDLFloat, 32, 1}, int4 = {kDLInt, 4, 1};

static void test_sizes(void) {
    static const struct {
        int32_t ndim;
        int64_t shape[7];
        DLDataType dtype;
        int64_t bytes; /* -1: refused */
    } table[] = {
        {0, {0}, {kDLInt, 8, 1}, 1},
        {1, {0}, {kDLFloat, 32, 1}, 0},
        {2, {3, 5}, {kDLFloat, 32, 1}, 60},
        {2, {3, 5}, {kDLInt, 4, 1}, 15},
        {1, {7}, {kDLInt, 1, 1}, 7},
        {1, {2}, {kDLFloat, 16, 3}, 12},
        {6, {1, 2, 1, 2, 1, 2}, {kDLInt, 16, 1}, 16},
        {7, {1, 1, 1, 1, 1, 1, 1}, {kDLInt, 8, 1}, -1},
        {-1, {1}, {kDLInt, 8, 1}, -1},
        {1, {-1}, {kDLInt, 8, 1}, -1},
        {2, {INT64_MAX, 2}, {kDLInt, 8, 1}, -1},
        {2, {INT64_C(1) << 32, INT64_C(1) << 32}, {kDLInt, 8, 1}, -1},
        {1, {INT64_MAX}, {kDLFloat, 16, 1}, -1},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        TVMNDArray array;
        const int err =
            TVMNDArray_Create(table[i].ndim, table[i].shape, table[i].dtype, cpu, &array);
        EXPECT_EQ(err, table[i].bytes < 0 ? kTvmErrorFunctionCallInvalidArg : 0);
        if (err == 0) {
            EXPECT_EQ(TVMNDArray_DataSizeBytes(&array), table[i].bytes);
            EXPECT(array.dl_tensor.data == NULL && array.dl_tensor.strides == NULL);
            EXPECT_EQ(TVMNDArray_Release(&array), 0);
        }
        EXPECT_EQ(live_blocks, 0);
    }
    TVMNDArray array;
    EXPECT_EQ(TVMNDArray_Create(1, NULL, int8, cpu, &array), kTvmErrorFunctionCallInvalidArg);
}

static void test_references(void) {
    const int64_t shape[2] = {2, 3};
    TVMNDArray array;
    EXPECT_EQ(TVMNDArray_Empty(2, shape, float32, cpu, &array), 0);
    EXPECT_EQ(array.reference_count, 0);
    EXPECT(array.dl_tensor.shape != shape && array.dl_tensor.shape[1] == 3);
    for (int i = 0; i < 6; i++) {
        EXPECT(((float *)array.dl_tensor.data)[i] == 0);
    }
    TVMNDArray_IncrementReference(&array);
    TVMNDArray_IncrementReference(&array);
    EXPECT_EQ(TVMNDArray_Release(&array), 0);
    EXPECT(array.dl_tensor.data != NULL);
    EXPECT_EQ(TVMNDArray_Release(&array), 0);
    EXPECT(array.dl_tensor.data == NULL);
    EXPECT_EQ(TVMNDArray_DecrementReference(&array), 0);
    EXPECT_EQ(TVMNDArray_Release(&array), 0); /* nothing is left to free */
    EXPECT_EQ(live_blocks, 0);
}

static void test_views(void) {
    const int64_t shape[2] = {2, 4}, flat[1] = {8}, larger[1] = {9}, words[1] = {2};
    TVMNDArray array, view;
    EXPECT_EQ(TVMNDArray_Empty(2, shape, int8, cpu, &array), 0);
    EXPECT_EQ(TVMNDArray_CreateView(&array, flat, 1, int8, &view), 0);
    EXPECT(view.dl_tensor.data == array.dl_tensor.data && view.dl_tensor.ndim == 1);
    EXPECT_EQ(TVMNDArray_Release(&view), 0);
    EXPECT_EQ(TVMNDArray_CreateView(&array, words, 1, float32, &view), 0);
    EXPECT_EQ(TVMNDArray_Release(&view), 0);
    EXPECT_EQ(TVMNDArray_CreateView(&array, larger, 1, int8, &view),
              kTvmErrorFunctionCallInvalidArg);
    EXPECT_EQ(TVMNDArray_CreateView(&array, flat, 1, float32, &view),
              kTvmErrorFunctionCallInvalidArg);
    memset(array.dl_tensor.data, 1, 8); /* still there */
    EXPECT_EQ(TVMNDArray_RandomFill(&array), 0);
    EXPECT_EQ(((uint8_t *)array.dl_tensor.data)[7], 0x61);
    EXPECT_EQ(TVMNDArray_Release(&array), 0);
    EXPECT_EQ(TVMNDArray_RandomFill(&array), kTvmErrorFunctionCallInvalidArg);
    EXPECT_EQ(live_blocks, 0);
}

static void test_arrays_by_handle(void) {
    const int64_t shape[1] = {5};
    TVMArrayHandle array;
    EXPECT_EQ(TVMArrayAlloc(shape, 1, kDLInt, 16, 1, kDLCPU, 0, &array), 0);
    memset(array->data, 1, 10);
    EXPECT_EQ(TVMArrayFree(array), 0);
    EXPECT_EQ(live_blocks, 0);
    static const struct {
        int ndim, code, bits, lanes, device, id, err;
    } table[] = {
        {7, kDLInt, 8, 1, kDLCPU, 0, kTvmErrorFunctionCallInvalidArg},
        {1, 256, 8, 1, kDLCPU, 0, kTvmErrorFunctionCallInvalidArg},
        {1, -1, 8, 1, kDLCPU, 0, kTvmErrorFunctionCallInvalidArg},
        {1, kDLInt, 256, 1, kDLCPU, 0, kTvmErrorFunctionCallInvalidArg},
        {1, kDLInt, 8, 65536, kDLCPU, 0, kTvmErrorFunctionCallInvalidArg},
        {1, kDLInt, 8, 1, kDLCUDA, 0, kTvmErrorExecutorModuleBadContext},
        {1, kDLInt, 8, 1, kDLCPU, 1, kTvmErrorExecutorModuleBadContext},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        EXPECT_EQ(TVMArrayAlloc(shape, table[i].ndim, table[i].code, table[i].bits, table[i].lanes,
                                table[i].device, table[i].id, &array),
                  table[i].err);
        EXPECT(array == NULL && live_blocks == 0);
    }
    /* Each of its three allocations may fail: the array, its shape, its data. */
    for (int n = 0; n < 3; n++) {
        fail_after = n;
        EXPECT_ERROR(TVMArrayAlloc(shape, 1, kDLInt, 8, 1, kDLCPU, 0, &array),
                     kTvmErrorPlatformNoMemory, "memory");
        EXPECT(array == NULL && live_blocks == 0);
    }
    fail_after = -1;
    EXPECT_EQ(TVMArrayFree(NULL), kTvmErrorFunctionCallInvalidArg);
}

static void test_device_memory(void) {
    void *data;
    const int64_t shape[1] = {3};
    const DLDevice cuda = {kDLCUDA, 0};
    EXPECT_EQ(TVMDeviceAllocDataSpace(cpu, 100, 16, int8, &data), 0);
    EXPECT_EQ(TVMDeviceFreeDataSpace(cpu, data), 0);
    EXPECT_EQ(TVMDeviceAllocDataSpace(cpu, 100, 0, int8, &data), kTvmErrorFunctionCallInvalidArg);
    EXPECT_EQ(TVMDeviceAllocDataSpace(cpu, 100, 24, int8, &data), kTvmErrorFunctionCallInvalidArg);
    EXPECT_ERROR(TVMDeviceAllocDataSpace(cpu, 100, (SIZE_MAX >> 1) + 1, int8, &data),
                 kTvmErrorFunctionCallInvalidArg, "aligned");
    EXPECT(data == NULL);
    EXPECT_EQ(TVMDeviceAllocDataSpace(cuda, 100, 16, int8, &data),
              kTvmErrorExecutorModuleBadContext);
    EXPECT_EQ(TVMDeviceFreeDataSpace(cuda, data), kTvmErrorExecutorModuleBadContext);
    static const char *const scopes[] = {NULL, "", "global"};
    for (int i = 0; i < 3; i++) {
        EXPECT_EQ(TVMDeviceAllocDataSpaceWithScope(cpu, 1, shape, int4, scopes[i], &data), 0);
        EXPECT_EQ(TVMDeviceFreeDataSpace(cpu, data), 0);
    }
    EXPECT_ERROR(TVMDeviceAllocDataSpaceWithScope(cpu, 1, shape, int4, "texture", &data),
                 kTvmErrorFunctionCallNotImplemented, "texture");
    EXPECT_EQ(TVMDeviceAllocDataSpaceWithScope(cpu, 1, NULL, int4, NULL, &data),
              kTvmErrorFunctionCallInvalidArg);
    fail_after = 0;
    EXPECT_EQ(TVMDeviceAllocDataSpace(cpu, 100, 16, int8, &data), kTvmErrorPlatformNoMemory);
    fail_after = -1;
    EXPECT_EQ(live_blocks, 0);
}

static void test_copy(void) {
    uint8_t from_data[6] = {1, 2, 3, 4, 5, 6}, to_data[6] = {0};
    int64_t from_shape[1] = {4}, to_shape[2] = {2, 2}, strides[2] = {2, 1};
    DLTensor from = {from_data, {kDLCPU, 0}, 1, {kDLInt, 8, 1}, from_shape, NULL, 2};
    DLTensor to = {to_data, {kDLCPU, 0}, 2, {kDLUInt, 8, 1}, to_shape, NULL, 1};
    EXPECT_EQ(TVMDeviceCopyDataFromTo(&from, &to, NULL), 0);
    EXPECT_EQ(memcmp(to_data, "\0\3\4\5\6\0", 6), 0);
    to.strides = strides;
    EXPECT_ERROR(TVMDeviceCopyDataFromTo(&from, &to, NULL), kTvmErrorFunctionCallInvalidArg,
                 "compact");
    to.strides = NULL;
    /* cppcheck-suppress unreadVariable ; read through the tensor */
    from_shape[0] = 3;
    EXPECT_EQ(TVMDeviceCopyDataFromTo(&from, &to, NULL), kTvmErrorFunctionCallInvalidArg);
    /* cppcheck-suppress [unreadVariable, redundantAssignment] ; the same */
    from_shape[0] = 4;
    EXPECT_EQ(TVMDeviceCopyDataFromTo(NULL, &to, NULL), kTvmErrorFunctionCallInvalidArg);
    EXPECT_EQ(TVMDeviceCopyDataFromTo(&from, NULL, NULL), kTvmErrorFunctionCallInvalidArg);
    to.data = NULL;
    EXPECT_EQ(TVMDeviceCopyDataFromTo(&from, &to, NULL), kTvmErrorFunctionCallInvalidArg);
    to.data = to_data;
    to.device.device_type = kDLCUDA;
    EXPECT_EQ(TVMDeviceCopyDataFromTo(&from, &to, NULL), kTvmErrorExecutorModuleBadContext);
}

static void test_streams(void) {
    TVMStreamHandle stream = &stream;
    EXPECT_EQ(TVMStreamCreate(kDLCPU, 0, &stream), 0);
    EXPECT(stream == NULL);
    EXPECT_EQ(TVMSetStream(kDLCPU, 0, stream), 0);
    EXPECT_EQ(TVMSynchronize(kDLCPU, 0, stream), 0);
    EXPECT_EQ(TVMStreamFree(kDLCPU, 0, stream), 0);
    EXPECT_EQ(TVMSynchronize(kDLCPU, 0, &stream), kTvmErrorFunctionCallInvalidArg);
    EXPECT_EQ(TVMSynchronize(kDLCUDA, 0, NULL), kTvmErrorExecutorModuleBadContext);
    EXPECT_EQ(TVMStreamCreate(kDLCUDA, 0, &stream), kTvmErrorExecutorModuleBadContext);
    EXPECT_EQ(TVMByteArrayFree(NULL), kTvmErrorFunctionCallInvalidArg);
}

int main(void) {
    test_sizes();
    test_references();
    test_views();
    test_arrays_by_handle();
    test_device_memory();
    test_copy();
    test_streams();
    EXPECT_EQ(out_of_order, 0);
    return failures != 0;
}
