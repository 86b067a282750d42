/* Both allocators, to the last byte and with every wrong call. */
#include "check.h"

#include <stdlib.h>
#include <tvm/runtime/crt/page_allocator.h>
#include <tvm/runtime/crt/stack_allocator.h>

static uint32_t random_state = 1;
static uint32_t pick(uint32_t below) {
    random_state = random_state * 1664525U + 1013904223U;
    return (random_state >> 8) % below;
}

/* Memory that starts `skip` bytes after a multiple of 16 and ends where the sanitizer looks. */
typedef struct {
    uint8_t *start;
    uint8_t *memory;
} Memory;
static Memory take(size_t skip, size_t bytes) {
    Memory memory;
    memory.start = malloc(skip + bytes);
    memory.memory = memory.start + skip;
    return memory;
}

static void test_exact_fit(int lifo) {
    const size_t tag = lifo ? 16 : 0;
    const Memory m = take(0, 32 + 16 + 2 * tag);
    tvm_workspace_t stack;
    void *a, *b, *c;
    EXPECT_EQ(StackMemoryManager_Init(&stack, m.memory, 32 + 16 + 2 * tag), kTvmErrorNoError);
    EXPECT_EQ(StackMemoryManager_Allocate_Body(&stack, 17, &a, (uint8_t)lifo), kTvmErrorNoError);
    EXPECT(a == m.memory);
    EXPECT_EQ(StackMemoryManager_Allocate_Body(&stack, 17, &b, (uint8_t)lifo),
              kTvmErrorPlatformNoMemory);
    EXPECT(b == NULL);
    EXPECT_EQ(StackMemoryManager_Allocate_Body(&stack, 16, &b, (uint8_t)lifo), kTvmErrorNoError);
    EXPECT(b == m.memory + 32 + tag);
    EXPECT_EQ(StackMemoryManager_Allocate_Body(&stack, 1, &c, (uint8_t)lifo),
              kTvmErrorPlatformNoMemory);
    EXPECT_EQ(StackMemoryManager_Free_Body(&stack, b, (uint8_t)lifo), kTvmErrorNoError);
    EXPECT_EQ(StackMemoryManager_Free_Body(&stack, a, (uint8_t)lifo), kTvmErrorNoError);
    EXPECT(stack.next_alloc == stack.workspace);
    free(m.start);
}

static void test_sizes(int lifo) {
    const Memory m = take(0, 64);
    tvm_workspace_t stack;
    void *a, *b;
    EXPECT_EQ(StackMemoryManager_Init(&stack, m.memory, 64), kTvmErrorNoError);
    static const int32_t too_large[] = {65, 4096, INT32_MAX, -1, INT32_MIN};
    for (size_t i = 0; i < sizeof too_large / sizeof too_large[0]; i++) {
        EXPECT_EQ(StackMemoryManager_Allocate_Body(&stack, too_large[i], &a, (uint8_t)lifo),
                  kTvmErrorPlatformNoMemory);
        EXPECT(a == NULL && stack.next_alloc == stack.workspace);
    }
    EXPECT_EQ(StackMemoryManager_Allocate_Body(&stack, 0, &a, (uint8_t)lifo), kTvmErrorNoError);
    EXPECT_EQ(StackMemoryManager_Allocate_Body(&stack, 0, &b, (uint8_t)lifo), kTvmErrorNoError);
    EXPECT(a != b);
    EXPECT_EQ(StackMemoryManager_Free_Body(&stack, b, (uint8_t)lifo), kTvmErrorNoError);
    EXPECT_EQ(StackMemoryManager_Free_Body(&stack, a, (uint8_t)lifo), kTvmErrorNoError);
    free(m.start);
}

static void test_unaligned_memory(void) {
    for (size_t skip = 0; skip < 16; skip++) {
        const Memory m = take(skip, 80);
        tvm_workspace_t stack;
        void *a;
        EXPECT_EQ(StackMemoryManager_Init(&stack, m.memory, 80), kTvmErrorNoError);
        EXPECT_EQ((uintptr_t)stack.workspace % 16, 0);
        EXPECT_EQ(stack.workspace_size, 80 - (16 - skip) % 16);
        EXPECT_EQ(StackMemoryManager_Allocate(&stack, 17, &a), kTvmErrorNoError);
        memset(a, 1, 17);
        free(m.start);
    }
    tvm_workspace_t stack;
    uint8_t bytes[32];
    uint8_t *const odd = bytes + (((uintptr_t)bytes & 1) != 0 ? 0 : 1);
    EXPECT_EQ(StackMemoryManager_Init(&stack, odd, 0), kTvmErrorPlatformNoMemory);
    EXPECT_EQ(StackMemoryManager_Init(&stack, NULL, 64), kTvmErrorPlatformNoMemory);
    EXPECT_EQ(StackMemoryManager_Init(NULL, bytes, 32), kTvmErrorPlatformNoMemory);
}

static void test_bad_frees(int lifo) {
    const Memory m = take(0, 256);
    uint8_t elsewhere;
    tvm_workspace_t stack;
    void *a, *b;
    EXPECT_EQ(StackMemoryManager_Init(&stack, m.memory, 256), kTvmErrorNoError);
    EXPECT_EQ(StackMemoryManager_Allocate_Body(&stack, 40, &a, (uint8_t)lifo), kTvmErrorNoError);
    EXPECT_EQ(StackMemoryManager_Allocate_Body(&stack, 40, &b, (uint8_t)lifo), kTvmErrorNoError);
    void *const bad[] = {NULL, &elsewhere, (uint8_t *)b + 1, m.memory + 240, m.memory + 256};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        EXPECT_EQ(StackMemoryManager_Free_Body(&stack, bad[i], (uint8_t)lifo),
                  kTvmErrorPlatformStackAllocBadFree);
    }
    if (lifo) {
        EXPECT_EQ(StackMemoryManager_Free_Body(&stack, a, 1), kTvmErrorPlatformStackAllocBadFree);
        EXPECT_EQ(StackMemoryManager_Free_Body(&stack, (uint8_t *)b + 16, 1),
                  kTvmErrorPlatformStackAllocBadFree);
        EXPECT_EQ(StackMemoryManager_Free_Body(&stack, b, 1), kTvmErrorNoError);
        EXPECT_EQ(StackMemoryManager_Free_Body(&stack, a, 1), kTvmErrorNoError);
    } else {
        /* Freeing the lower block frees both. */
        EXPECT_EQ(StackMemoryManager_Free_Body(&stack, a, 0), kTvmErrorNoError);
    }
    EXPECT_EQ(StackMemoryManager_Free_Body(&stack, b, (uint8_t)lifo),
              kTvmErrorPlatformStackAllocBadFree);
    EXPECT_EQ(StackMemoryManager_Free_Body(&stack, a, (uint8_t)lifo),
              kTvmErrorPlatformStackAllocBadFree);
    free(m.start);
}

/* The tag: the block's whole size, combined with the constant, before the next block. */
static void test_tag(void) {
    const Memory m = take(0, 64);
    tvm_workspace_t stack;
    void *a;
    uint32_t tag;
    EXPECT_EQ(StackMemoryManager_Init(&stack, m.memory, 64), kTvmErrorNoError);
    EXPECT_EQ(StackMemoryManager_Allocate_Body(&stack, 17, &a, 1), kTvmErrorNoError);
    memcpy(&tag, stack.next_alloc - STACK_ALLOCATOR_TAG_SIZE_BYTES, sizeof tag);
    EXPECT_EQ(tag, 48U ^ 0xabcd1234U);
    stack.next_alloc[-1] ^= 1; /* a block that was written past its end */
    EXPECT_EQ(StackMemoryManager_Free_Body(&stack, a, 1), kTvmErrorPlatformStackAllocBadFree);
    free(m.start);
}

/* Which of the two the plain functions are, is decided when the run time is compiled. */
static void test_switch(void) {
    const Memory m = take(0, 64);
    tvm_workspace_t stack;
    void *a;
    EXPECT_EQ(StackMemoryManager_Init(&stack, m.memory, 64), kTvmErrorNoError);
    EXPECT_EQ(StackMemoryManager_Allocate(&stack, 16, &a), kTvmErrorNoError);
#ifdef TVM_CRT_STACK_ALLOCATOR_ENABLE_LIFO_CHECK
    EXPECT_EQ(stack.next_alloc - stack.workspace, 32);
#else
    EXPECT_EQ(stack.next_alloc - stack.workspace, 16);
#endif
    EXPECT_EQ(StackMemoryManager_Free(&stack, a), kTvmErrorNoError);
    free(m.start);
}

/* Random blocks, freed in order: each keeps what was written to it. */
static void test_stack_torture(int lifo) {
    enum { MOST = 32 };
    const Memory m = take(0, 2048);
    tvm_workspace_t stack;
    struct {
        uint8_t *data;
        int32_t size;
    } blocks[MOST];
    int count = 0, refused = 0;
    EXPECT_EQ(StackMemoryManager_Init(&stack, m.memory, 2048), kTvmErrorNoError);
    for (int step = 0; step < 5000; step++) {
        if (count < MOST && pick(2) != 0) {
            void *data;
            const int32_t size = (int32_t)pick(200);
            const tvm_crt_error_t err =
                StackMemoryManager_Allocate_Body(&stack, size, &data, (uint8_t)lifo);
            if (err == kTvmErrorNoError) {
                EXPECT_EQ((uintptr_t)data % 16, 0);
                memset(data, count, (size_t)size);
                blocks[count].data = data;
                blocks[count++].size = size;
            } else {
                EXPECT_EQ(err, kTvmErrorPlatformNoMemory);
                refused++;
            }
        } else if (count > 0) {
            count--;
            for (int32_t i = 0; i < blocks[count].size; i++) {
                EXPECT_EQ(blocks[count].data[i], count);
            }
            EXPECT_EQ(StackMemoryManager_Free_Body(&stack, blocks[count].data, (uint8_t)lifo),
                      kTvmErrorNoError);
        }
    }
    EXPECT(refused > 0);
    free(m.start);
}

static const DLDevice cpu = {kDLCPU, 0};

static void test_pages(void) {
    /* Room for a manager, a table and four pages, as small as it can be. */
    MemoryManagerInterface *manager = NULL;
    size_t size = 0;
    Memory m = {NULL, NULL};
    int pages = 0;
    while (pages < 4) {
        free(m.start);
        m = take(3, ++size);
        const tvm_crt_error_t err = PageMemoryManagerCreate(&manager, m.memory, size, 6);
        EXPECT(err == kTvmErrorNoError || err == kTvmErrorBufferTooSmall);
        EXPECT((err == kTvmErrorNoError) == (manager != NULL));
        void *page;
        for (pages = 0; manager != NULL && pages < 5; pages++) {
            if (manager->Allocate(manager, 64, cpu, &page) != kTvmErrorNoError) {
                break;
            }
            memset(page, pages, 64);
        }
        EXPECT(manager == NULL || manager->vleak_size == pages);
    }
    EXPECT(size < 13 + 4 * 64 + 128);
    void *block;
    EXPECT_EQ(manager->Allocate(manager, 1, cpu, &block), kTvmErrorPlatformNoMemory);
    EXPECT(block == NULL);
    free(m.start);
}

static void test_page_reuse(void) {
    const Memory m = take(0, 4096);
    MemoryManagerInterface *manager;
    EXPECT_EQ(PageMemoryManagerCreate(&manager, m.memory, 4096, 8), kTvmErrorNoError);
    void *a, *b, *c, *d;
    EXPECT_EQ(manager->Allocate(manager, 257, cpu, &a), kTvmErrorNoError);
    EXPECT_EQ(manager->Allocate(manager, 0, cpu, &b), kTvmErrorNoError);
    EXPECT_EQ(manager->Allocate(manager, 256, cpu, &c), kTvmErrorNoError);
    EXPECT((uint8_t *)b == (uint8_t *)a + 512 && (uint8_t *)c == (uint8_t *)b + 256);
    EXPECT_EQ(manager->Free(manager, a, cpu), kTvmErrorNoError);
    EXPECT_EQ(manager->Allocate(manager, 513, cpu, &d),
              kTvmErrorNoError); /* does not fit before b */
    EXPECT((uint8_t *)d == (uint8_t *)c + 256);
    EXPECT_EQ(manager->Allocate(manager, 512, cpu, &a), kTvmErrorNoError);
    EXPECT((uint8_t *)b == (uint8_t *)a + 512);
    EXPECT_EQ(manager->vleak_size, 4);

    uint8_t elsewhere;
    void *const bad[] = {NULL,     &elsewhere,         (uint8_t *)a + 1, (uint8_t *)a + 256,
                         m.memory, (uint8_t *)d + 768, m.memory + 4096};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        EXPECT_EQ(manager->Free(manager, bad[i], cpu), kTvmErrorPlatformCheckFailure);
    }
    EXPECT_EQ(manager->Free(manager, a, cpu), kTvmErrorNoError);
    EXPECT_EQ(manager->Free(manager, a, cpu), kTvmErrorPlatformCheckFailure);
    EXPECT_EQ(manager->vleak_size, 3);

    const DLDevice others[] = {{kDLCUDA, 0}, {kDLCPU, 1}};
    for (int i = 0; i < 2; i++) {
        EXPECT_EQ(manager->Allocate(manager, 1, others[i], &a), kTvmErrorFunctionCallInvalidArg);
        EXPECT_EQ(manager->Free(manager, b, others[i]), kTvmErrorFunctionCallInvalidArg);
    }
    EXPECT_EQ(manager->Allocate(manager, SIZE_MAX, cpu, &a), kTvmErrorPlatformNoMemory);
    free(m.start);
}

static void test_page_sizes(void) {
    static uint8_t pool[1 << 21];
    MemoryManagerInterface *manager;
    static const struct {
        size_t bytes, log2;
        int err;
    } table[] = {
        {4096, 3, kTvmErrorFunctionCallInvalidArg},
        {4096, 4, kTvmErrorNoError},
        {4096, sizeof(size_t) * 8, kTvmErrorFunctionCallInvalidArg},
        {4096, 12, kTvmErrorBufferTooSmall},
        {4096, sizeof(size_t) * 8 - 1, kTvmErrorBufferTooSmall},
        {0, 8, kTvmErrorBufferTooSmall},
        {sizeof pool, 4, kTvmErrorFunctionCallInvalidArg}, /* more pages than the table counts */
        {sizeof pool, 5, kTvmErrorNoError},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        EXPECT_EQ(PageMemoryManagerCreate(&manager, pool, table[i].bytes, table[i].log2),
                  table[i].err);
        EXPECT((manager == NULL) == (table[i].err != 0));
    }
    EXPECT_EQ(PageMemoryManagerCreate(&manager, NULL, 4096, 8), kTvmErrorFunctionCallInvalidArg);
}

/* Random blocks, freed in any order, never overlap. */
static void test_page_torture(void) {
    enum { MOST = 24 };
    const Memory m = take(0, 4096);
    MemoryManagerInterface *manager;
    struct {
        uint8_t *data;
        size_t size;
    } blocks[MOST];
    memset(blocks, 0, sizeof blocks);
    int live = 0, refused = 0;
    EXPECT_EQ(PageMemoryManagerCreate(&manager, m.memory, 4096, 5), kTvmErrorNoError);
    for (int step = 0; step < 5000; step++) {
        const uint32_t i = pick(MOST);
        if (blocks[i].data == NULL) {
            void *data;
            blocks[i].size = pick(600);
            if (manager->Allocate(manager, blocks[i].size, cpu, &data) == kTvmErrorNoError) {
                EXPECT_EQ((uintptr_t)data % 16, 0);
                memset(data, (int)i, blocks[i].size);
                blocks[i].data = data;
                live++;
            } else {
                refused++;
            }
        } else {
            for (size_t at = 0; at < blocks[i].size; at++) {
                EXPECT_EQ(blocks[i].data[at], i);
            }
            EXPECT_EQ(manager->Free(manager, blocks[i].data, cpu), kTvmErrorNoError);
            blocks[i].data = NULL;
            live--;
        }
        EXPECT_EQ(manager->vleak_size, live);
    }
    EXPECT(refused > 0);
    free(m.start);
}

int main(void) {
    for (int lifo = 0; lifo < 2; lifo++) {
        test_exact_fit(lifo);
        test_sizes(lifo);
        test_bad_frees(lifo);
        test_stack_torture(lifo);
    }
    test_unaligned_memory();
    test_tag();
    test_switch();
    test_pages();
    test_page_reuse();
    test_page_sizes();
    test_page_torture();
    return failures != 0;
}
