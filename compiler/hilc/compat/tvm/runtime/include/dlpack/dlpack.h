/* Tensors as libraries hand them to each other: the types of DLPack that microTVM's interfaces use,
 * with its names, order and values. */
#ifndef DLPACK_DLPACK_H_
#define DLPACK_DLPACK_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Trap: a C compiler for bare-metal Arm makes this enum one byte (-fshort-enums), C++ always reads
 * four. Whoever fills a DLDevice in zeroes it first; hil/tvm_tensor.h does. */
#ifdef __cplusplus
typedef enum : int32_t {
#else
typedef enum {
#endif
    kDLCPU = 1,
    kDLCUDA = 2,
    kDLCUDAHost = 3,
    kDLOpenCL = 4,
    kDLVulkan = 7,
    kDLMetal = 8,
    kDLVPI = 9,
    kDLROCM = 10,
    kDLROCMHost = 11,
    kDLExtDev = 12,
    kDLCUDAManaged = 13,
    kDLOneAPI = 14,
    kDLWebGPU = 15,
    kDLHexagon = 16
} DLDeviceType;

typedef struct {
    DLDeviceType device_type;
    /* Which of several alike; 0 for the processor itself. */
    int32_t device_id;
} DLDevice;

typedef enum {
    kDLInt = 0U,
    kDLUInt = 1U,
    kDLFloat = 2U,
    kDLOpaqueHandle = 3U,
    kDLBfloat = 4U,
    kDLComplex = 5U
} DLDataTypeCode;

/* Type of an element: int8 is {kDLInt, 8, 1}. */
typedef struct {
    uint8_t code; /* DLDataTypeCode */
    uint8_t bits;
    uint16_t lanes; /* of a vector; 1 for a scalar */
} DLDataType;

typedef struct {
    void *data;
    DLDevice device;
    int32_t ndim;
    DLDataType dtype;
    int64_t *shape;   /* ndim elements */
    int64_t *strides; /* ndim elements, in elements not bytes; NULL: compact, last axis fastest */
    uint64_t byte_offset; /* of the first element from data */
} DLTensor;

/* A tensor together with what its owner needs to take it back. */
typedef struct DLManagedTensor {
    DLTensor dl_tensor;
    void *manager_ctx;
    void (*deleter)(struct DLManagedTensor *self);
} DLManagedTensor;

#ifdef __cplusplus
}
#endif

#endif
