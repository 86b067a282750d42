/* Modules, functions, arrays and devices through handles: the part of TVM's run-time interface that
 * a microcontroller has. Every function that returns an int returns 0 when it succeeded, otherwise
 * a tvm_crt_error_t (or -1), with a sentence in TVMGetLastError(). */
#ifndef TVM_RUNTIME_C_RUNTIME_API_H_
#define TVM_RUNTIME_C_RUNTIME_API_H_

#include <dlpack/dlpack.h>
#include <stddef.h>
#include <stdint.h>

/* The revision of TVM, its last with microTVM, whose interface this is. */
#define TVM_VERSION "0.19.dev0"

#ifndef TVM_DLL
#define TVM_DLL __attribute__((visibility("default")))
#endif
#ifndef TVM_WEAK
#define TVM_WEAK __attribute__((weak))
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef int64_t tvm_index_t;

/* Kinds of device beyond DLPack's. */
#ifdef __cplusplus
typedef enum : int32_t {
#else
typedef enum {
#endif
    kDLAOCL = 32,
    kDLSDAccel,
    kOpenGL,
    kDLMicroDev,
    TVMDeviceExtType_End
} TVMDeviceExtType;

/* What an argument or a result is; arrays of these are arrays of int. The codes of numbers are
 * DLPack's. */
typedef enum {
    kTVMArgInt = 0U,   /* v_int64 */
    kTVMArgFloat = 2U, /* v_float64 */
    kTVMOpaqueHandle = 3U,
    kTVMNullptr = 4U,
    kTVMDataType = 5U,       /* v_type */
    kDLDevice = 6U,          /* v_device */
    kTVMDLTensorHandle = 7U, /* v_handle, a DLTensor * */
    kTVMObjectHandle = 8U,
    kTVMModuleHandle = 9U,
    kTVMPackedFuncHandle = 10U,
    kTVMStr = 11U,           /* v_str */
    kTVMBytes = 12U,         /* v_handle, a TVMByteArray * */
    kTVMNDArrayHandle = 13U, /* v_handle, a DLTensor * whose owner counts references */
    kTVMObjectRValueRefArg = 14U,
    kTVMArgBool = 15U, /* v_int64 */
    kTVMExtBegin = 16U,
    kTVMNNVMFirst = 16U,
    kTVMNNVMLast = 20U,
    kTVMExtReserveEnd = 64U,
    kTVMExtEnd = 128U
} TVMArgTypeCode;

typedef DLTensor *TVMArrayHandle;

typedef union {
    int64_t v_int64;
    double v_float64;
    void *v_handle;
    const char *v_str;
    DLDataType v_type;
    DLDevice v_device;
} TVMValue;

typedef struct {
    const char *data;
    size_t size;
} TVMByteArray;

typedef void *TVMModuleHandle;
typedef void *TVMFunctionHandle;
typedef void *TVMRetValueHandle;
typedef void *TVMStreamHandle;
typedef void *TVMObjectHandle;

/* A packed function in TVM's full run time. Here a function has the signature
 * TVMBackendPackedCFunc and writes its result itself. */
typedef int (*TVMPackedCFunc)(TVMValue *args, int *type_codes, int num_args, TVMRetValueHandle ret,
                              void *resource_handle);

/* The sentence about the last failure. Setting copies as much of msg as is kept (a sentence that
 * is too long is cut); the pointer that getting returns stays valid and is never NULL. */
TVM_DLL void TVMAPISetLastError(const char *msg);
TVM_DLL const char *TVMGetLastError(void);

/* A microcontroller has no files and its modules import none: kTvmErrorFunctionCallNotImplemented.
 */
TVM_DLL int TVMModLoadFromFile(const char *file_name, const char *format, TVMModuleHandle *out);
TVM_DLL int TVMModImport(TVMModuleHandle mod, TVMModuleHandle dep);
/* The function func_name of the module; where it has none *out is NULL and the result
 * kTvmErrorFunctionNameNotFound. query_imports changes nothing. */
TVM_DLL int TVMModGetFunction(TVMModuleHandle mod, const char *func_name, int query_imports,
                              TVMFunctionHandle *out);
/* Give the module's place up; its handle and those of its functions become invalid. */
TVM_DLL int TVMModFree(TVMModuleHandle mod);

/* Nothing to do: function handles are numbers. */
TVM_DLL int TVMFuncFree(TVMFunctionHandle func);
/* Call func. *ret_tcode is kTVMNullptr and *ret_val NULL unless the function sets them. */
TVM_DLL int TVMFuncCall(TVMFunctionHandle func, TVMValue *arg_values, int *type_codes, int num_args,
                        TVMValue *ret_val, int *ret_tcode);
/* Write num_ret results through ret, a TVMCReturnValue * (crt/packed_func.h). */
TVM_DLL int TVMCFuncSetReturn(TVMRetValueHandle ret, TVMValue *value, int *type_code, int num_ret);
/* Make f, a TVMBackendPackedCFunc cast to a handle, known under name. */
TVM_DLL int TVMFuncRegisterGlobal(const char *name, TVMFunctionHandle f, int override);
/* The global function name; where there is none *out is NULL and the result still 0. */
TVM_DLL int TVMFuncGetGlobal(const char *name, TVMFunctionHandle *out);

/* A compact array of zeros on the device, with a count of references that is 1. */
TVM_DLL int TVMArrayAlloc(const tvm_index_t *shape, int ndim, int dtype_code, int dtype_bits,
                          int dtype_lanes, int device_type, int device_id, TVMArrayHandle *out);
/* Give up a reference to an array of TVMArrayAlloc or of an executor; the last one frees it. */
TVM_DLL int TVMArrayFree(TVMArrayHandle handle);

/* nbytes bytes that start at a multiple of alignment, a power of two. */
TVM_DLL int TVMDeviceAllocDataSpace(DLDevice dev, size_t nbytes, size_t alignment,
                                    DLDataType type_hint, void **out_data);
/* Memory of a tensor; the only scope is "global" (or NULL). */
TVM_DLL int TVMDeviceAllocDataSpaceWithScope(DLDevice dev, int ndim, const int64_t *shape,
                                             DLDataType dtype, const char *mem_scope,
                                             void **out_data);
TVM_DLL int TVMDeviceFreeDataSpace(DLDevice dev, void *ptr);
/* Copy the elements of one compact tensor to another of as many bytes. */
TVM_DLL int TVMDeviceCopyDataFromTo(DLTensor *from, DLTensor *to, TVMStreamHandle stream);

/* The processor works in order: the only stream is NULL, and it has always finished. */
TVM_DLL int TVMStreamCreate(int device_type, int device_id, TVMStreamHandle *out);
TVM_DLL int TVMStreamFree(int device_type, int device_id, TVMStreamHandle stream);
TVM_DLL int TVMSetStream(int device_type, int device_id, TVMStreamHandle handle);
TVM_DLL int TVMSynchronize(int device_type, int device_id, TVMStreamHandle stream);

/* Free an array and its data, both from TVMPlatformMemoryAllocate. */
TVM_DLL int TVMByteArrayFree(TVMByteArray *arr);

#ifdef __cplusplus
}
#endif

#endif
