/* Memory for workspace calls: blocks on a stack, freed in the opposite order. */
#ifndef TVM_RUNTIME_CRT_STACK_ALLOCATOR_H_
#define TVM_RUNTIME_CRT_STACK_ALLOCATOR_H_

#include <stddef.h>
#include <stdint.h>
#include <tvm/runtime/crt/error_codes.h>
#include <tvm/runtime/crt/internal/config.h>

/* Alignment of every block, a power of two. */
#ifndef TVM_RUNTIME_ALLOC_ALIGNMENT_BYTES
#define TVM_RUNTIME_ALLOC_ALIGNMENT_BYTES 16
#endif

/* With TVM_CRT_STACK_ALLOCATOR_ENABLE_LIFO_CHECK each block is followed by this tag, combined with
 * its size, and a free out of order is refused. The tag costs each block
 * TVM_RUNTIME_ALLOC_ALIGNMENT_BYTES, so that the next one stays aligned. */
#define STACK_ALLOCATOR_TAG 0xabcd1234U
#define STACK_ALLOCATOR_TAG_SIZE_BYTES 4

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    uint8_t *next_alloc;   /* where the next block starts */
    uint8_t *workspace;    /* the first block's place, aligned */
    size_t workspace_size; /* bytes from there to the end of the memory */
} tvm_workspace_t;

/* A stack in the memory; what lies before its first aligned byte is not used. */
tvm_crt_error_t StackMemoryManager_Init(tvm_workspace_t *tvm_runtime_workspace,
                                        uint8_t *g_aot_memory, size_t workspace_size);

/* A block of nbytes (0 is 1), rounded up to the alignment. kTvmErrorPlatformNoMemory,
 * *current_alloc is then NULL. */
tvm_crt_error_t StackMemoryManager_Allocate(tvm_workspace_t *tvm_runtime_workspace, int32_t nbytes,
                                            void **current_alloc);

/* Free the last block; one below it frees those above it too. kTvmErrorPlatformStackAllocBadFree
 * where no block can start at ptr, it is free already, or (with the check) is not the last; the
 * stack then stays as it is. */
tvm_crt_error_t StackMemoryManager_Free(tvm_workspace_t *tvm_runtime_workspace, void *ptr);

/* The same with the check chosen at run time, which must be the same for all blocks of a stack. */
tvm_crt_error_t StackMemoryManager_Allocate_Body(tvm_workspace_t *tvm_runtime_workspace,
                                                 int32_t nbytes, void **current_alloc,
                                                 uint8_t do_lifo_check);
tvm_crt_error_t StackMemoryManager_Free_Body(tvm_workspace_t *tvm_runtime_workspace, void *ptr,
                                             uint8_t do_lifo_check);

#ifdef __cplusplus
}
#endif

#endif
