/* Blocks of whole pages: the first run of free ones that is long enough.
 *
 * The pool holds the manager, the table of pages, and the pages. An element of the table is the
 * length of the block that starts at its page, INSIDE for the block's other pages, 0 for a free
 * one.
 */
#include <tvm/runtime/crt/page_allocator.h>

#include <string.h>

#define ALIGNMENT 16U
#define INSIDE UINT16_MAX

typedef struct {
    MemoryManagerInterface interface; /* first: the functions get its address */
    uint16_t *table;                  /* page_count elements, see above */
    uint8_t *pages;                   /* the first page, at a multiple of ALIGNMENT */
    size_t page_count;                /* less than INSIDE */
    size_t page_bytes;                /* a power of two, at least 16 */
} PageManager;

static size_t align_up(size_t bytes) { return (bytes + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1); }

/* The first of `wanted` free pages in a row; page_count where there are none. */
static size_t find_free(const PageManager *manager, size_t wanted) {
    size_t start = 0;
    for (size_t page = 0; page < manager->page_count; page++) {
        if (manager->table[page] != 0) {
            start = page + 1;
        } else if (page + 1 - start == wanted) {
            return start;
        }
    }
    return manager->page_count;
}

static tvm_crt_error_t allocate(MemoryManagerInterface *interface, size_t num_bytes, DLDevice dev,
                                void **out_ptr) {
    PageManager *const manager = (PageManager *)interface;
    *out_ptr = NULL;
    if (dev.device_type != kDLCPU || dev.device_id != 0) {
        return kTvmErrorFunctionCallInvalidArg;
    }
    /* An empty block has an address of its own. */
    const size_t wanted = num_bytes > 0 ? (num_bytes - 1) / manager->page_bytes + 1 : 1;
    const size_t start = find_free(manager, wanted);
    if (start == manager->page_count) {
        return kTvmErrorPlatformNoMemory;
    }
    manager->table[start] = (uint16_t)wanted;
    for (size_t page = start + 1; page < start + wanted; page++) {
        manager->table[page] = INSIDE;
    }
    interface->vleak_size++;
    *out_ptr = manager->pages + start * manager->page_bytes;
    return kTvmErrorNoError;
}

static tvm_crt_error_t release(MemoryManagerInterface *interface, void *ptr, DLDevice dev) {
    PageManager *const manager = (PageManager *)interface;
    if (dev.device_type != kDLCPU || dev.device_id != 0) {
        return kTvmErrorFunctionCallInvalidArg;
    }
    /* As numbers: ptr may be anything. */
    const uintptr_t offset = (uintptr_t)ptr - (uintptr_t)manager->pages;
    const uintptr_t start = offset / manager->page_bytes;
    if (offset % manager->page_bytes != 0 || start >= manager->page_count ||
        manager->table[start] == 0 || manager->table[start] == INSIDE) {
        return kTvmErrorPlatformCheckFailure;
    }
    memset(&manager->table[start], 0, manager->table[start] * sizeof manager->table[start]);
    interface->vleak_size--;
    return kTvmErrorNoError;
}

tvm_crt_error_t PageMemoryManagerCreate(MemoryManagerInterface **manager, uint8_t *memory_pool,
                                        size_t memory_pool_size_bytes,
                                        size_t page_size_bytes_log2) {
    *manager = NULL;
    if (memory_pool == NULL || page_size_bytes_log2 < 4 ||
        page_size_bytes_log2 >= sizeof(size_t) * 8) {
        return kTvmErrorFunctionCallInvalidArg;
    }
    const size_t page_bytes = (size_t)1 << page_size_bytes_log2;
    const size_t skip = (size_t)(-(uintptr_t)memory_pool & (ALIGNMENT - 1));
    const size_t header = skip + align_up(sizeof(PageManager));
    if (memory_pool_size_bytes < header) {
        return kTvmErrorBufferTooSmall;
    }
    /* Each page needs its bytes and an element of the table, which is padded to the alignment. */
    const size_t available = memory_pool_size_bytes - header;
    size_t page_count = available / (page_bytes + sizeof(uint16_t));
    while (page_count > 0 &&
           align_up(page_count * sizeof(uint16_t)) + page_count * page_bytes > available) {
        page_count--;
    }
    if (page_count == 0) {
        return kTvmErrorBufferTooSmall;
    }
    if (page_count >= INSIDE) {
        return kTvmErrorFunctionCallInvalidArg; /* so many pages need a larger size */
    }
    PageManager *const self = (PageManager *)(void *)(memory_pool + skip);
    self->interface.Allocate = allocate;
    self->interface.Free = release;
    self->interface.vleak_size = 0;
    self->table = (uint16_t *)(void *)(memory_pool + header);
    self->pages = memory_pool + header + align_up(page_count * sizeof(uint16_t));
    self->page_count = page_count;
    self->page_bytes = page_bytes;
    memset(self->table, 0, page_count * sizeof(uint16_t));
    *manager = &self->interface;
    return kTvmErrorNoError;
}
