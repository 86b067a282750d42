/* Blocks on a stack. */
#include <tvm/runtime/crt/stack_allocator.h>

#include <string.h>

#define ALIGNMENT ((size_t)(TVM_RUNTIME_ALLOC_ALIGNMENT_BYTES))
_Static_assert((TVM_RUNTIME_ALLOC_ALIGNMENT_BYTES & (TVM_RUNTIME_ALLOC_ALIGNMENT_BYTES - 1)) == 0 &&
                   TVM_RUNTIME_ALLOC_ALIGNMENT_BYTES >= STACK_ALLOCATOR_TAG_SIZE_BYTES,
               "TVM_RUNTIME_ALLOC_ALIGNMENT_BYTES must be a power of two from 4");

#ifdef TVM_CRT_STACK_ALLOCATOR_ENABLE_LIFO_CHECK
#define LIFO_CHECK 1
#else
#define LIFO_CHECK 0
#endif

/* Bytes from a size or an address up to the next multiple of the alignment. */
static size_t padding(uintptr_t value) { return (size_t)(-value & (ALIGNMENT - 1)); }

tvm_crt_error_t StackMemoryManager_Init(tvm_workspace_t *tvm_runtime_workspace,
                                        uint8_t *g_aot_memory, size_t workspace_size) {
    const size_t skip = padding((uintptr_t)g_aot_memory);
    if (tvm_runtime_workspace == NULL || g_aot_memory == NULL || skip > workspace_size) {
        return kTvmErrorPlatformNoMemory;
    }
    tvm_runtime_workspace->workspace = g_aot_memory + skip;
    tvm_runtime_workspace->workspace_size = workspace_size - skip;
    tvm_runtime_workspace->next_alloc = tvm_runtime_workspace->workspace;
    return kTvmErrorNoError;
}

tvm_crt_error_t StackMemoryManager_Allocate_Body(tvm_workspace_t *tvm_runtime_workspace,
                                                 int32_t nbytes, void **current_alloc,
                                                 uint8_t do_lifo_check) {
    *current_alloc = NULL;
    uint8_t *const block = tvm_runtime_workspace->next_alloc;
    const size_t used = (size_t)(block - tvm_runtime_workspace->workspace);
    const size_t available = tvm_runtime_workspace->workspace_size - used;
    const size_t tag_bytes = do_lifo_check ? ALIGNMENT : 0;
    /* An empty block has an address of its own, so that it can be freed like any other. */
    const size_t wanted = nbytes > 0 ? (size_t)nbytes : 1;
    const size_t total = wanted + padding(wanted) + tag_bytes;
    /* A size that int32_t cannot hold arrives as a negative one. */
    if (nbytes < 0 || total > available) {
        return kTvmErrorPlatformNoMemory;
    }
    uint8_t *const next = block + total;
    if (do_lifo_check) {
        const uint32_t tag = (uint32_t)total ^ STACK_ALLOCATOR_TAG;
        memcpy(next - sizeof tag, &tag, sizeof tag);
    }
    tvm_runtime_workspace->next_alloc = next;
    *current_alloc = block;
    return kTvmErrorNoError;
}

tvm_crt_error_t StackMemoryManager_Free_Body(tvm_workspace_t *tvm_runtime_workspace, void *ptr,
                                             uint8_t do_lifo_check) {
    /* As numbers: ptr may be anything. */
    const uintptr_t block = (uintptr_t)ptr;
    const uintptr_t next = (uintptr_t)tvm_runtime_workspace->next_alloc;
    if (block < (uintptr_t)tvm_runtime_workspace->workspace || block >= next ||
        padding(block) != 0) {
        return kTvmErrorPlatformStackAllocBadFree;
    }
    const size_t total = (size_t)(next - block);
    if (do_lifo_check) {
        uint32_t tag;
        memcpy(&tag, tvm_runtime_workspace->next_alloc - sizeof tag, sizeof tag);
        if ((tag ^ STACK_ALLOCATOR_TAG) != (uint32_t)total) {
            return kTvmErrorPlatformStackAllocBadFree;
        }
    }
    tvm_runtime_workspace->next_alloc -= total;
    return kTvmErrorNoError;
}

tvm_crt_error_t StackMemoryManager_Allocate(tvm_workspace_t *tvm_runtime_workspace, int32_t nbytes,
                                            void **current_alloc) {
    return StackMemoryManager_Allocate_Body(tvm_runtime_workspace, nbytes, current_alloc,
                                            LIFO_CHECK);
}

tvm_crt_error_t StackMemoryManager_Free(tvm_workspace_t *tvm_runtime_workspace, void *ptr) {
    return StackMemoryManager_Free_Body(tvm_runtime_workspace, ptr, LIFO_CHECK);
}
