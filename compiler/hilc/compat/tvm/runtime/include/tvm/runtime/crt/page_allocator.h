/* Memory that is freed in any order: blocks of whole pages of one pool. */
#ifndef TVM_RUNTIME_CRT_PAGE_ALLOCATOR_H_
#define TVM_RUNTIME_CRT_PAGE_ALLOCATOR_H_

#include <stddef.h>
#include <stdint.h>
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/crt/error_codes.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct MemoryManagerInterface MemoryManagerInterface;

struct MemoryManagerInterface {
    /* At least num_bytes bytes of the device, which is {kDLCPU, 0}. kTvmErrorPlatformNoMemory,
     * *out_ptr is then NULL. */
    tvm_crt_error_t (*Allocate)(MemoryManagerInterface *interface, size_t num_bytes, DLDevice dev,
                                void **out_ptr);
    /* kTvmErrorPlatformCheckFailure where ptr is not the start of a block. */
    tvm_crt_error_t (*Free)(MemoryManagerInterface *interface, void *ptr, DLDevice dev);
    /* Blocks that are allocated. */
    int vleak_size;
};

/* A manager of the pool, in which it keeps itself and a table of its pages. Pages have
 * 1 << page_size_bytes_log2 bytes, 16 or more, and there are fewer than 65535 of them, otherwise
 * kTvmErrorFunctionCallInvalidArg; kTvmErrorBufferTooSmall where not one page remains. */
tvm_crt_error_t PageMemoryManagerCreate(MemoryManagerInterface **manager, uint8_t *memory_pool,
                                        size_t memory_pool_size_bytes, size_t page_size_bytes_log2);

#ifdef __cplusplus
}
#endif

#endif
