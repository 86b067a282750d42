/* Calls many models, each compiled in another form, as a firmware calls them. To be built with the
 * address and undefined-behaviour sanitizers. The test writes variants.c with the models and
 * defines SAMPLES, the number of inputs of each. */
#include <sanitizer/asan_interface.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/crt/crt.h>
#include <tvm/runtime/crt/module.h>
#include <tvm/runtime/crt/platform.h>

#define GUARD 512
#define CANARY 0x5a
#define MOST_BLOCKS 8
#define MOST_TENSORS 32

/* A model in one form, with inputs and the answers to them: the bytes of all tensors, joined. */
struct variant {
    const char *name;
    int input_count, output_count, pool_count;
    const size_t *input_bytes, *input_skew, *output_bytes, *output_skew, *pool_bytes;
    size_t workspace_bytes; /* for workspace calls */
    int32_t (*call)(void **inputs, void **outputs, void **pools);
    const uint8_t *given[SAMPLES], *expected[SAMPLES];
};

/* nbytes bytes, skew bytes past a multiple of 16. Nothing around them may be touched. */
static uint8_t *new_block(size_t nbytes, size_t skew) {
    void *memory;
    if (posix_memalign(&memory, 16, 2 * GUARD + skew + nbytes) != 0) {
        abort();
    }
    memset(memory, CANARY, 2 * GUARD + skew + nbytes);
    uint8_t *block = (uint8_t *)memory + GUARD + skew;
    memset(block, 0xa5, nbytes);
    ASAN_POISON_MEMORY_REGION(memory, GUARD + skew);
    ASAN_POISON_MEMORY_REGION(block + nbytes, GUARD);
    return block;
}

static void delete_block(uint8_t *block, size_t nbytes, size_t skew) {
    uint8_t *memory = block - GUARD - skew;
    ASAN_UNPOISON_MEMORY_REGION(memory, 2 * GUARD + skew + nbytes);
    /* The sanitizer knows groups of 8 bytes only. */
    for (size_t i = 0; i < GUARD + skew; i++) {
        if (memory[i] != CANARY || (i < GUARD && block[nbytes + i] != CANARY)) {
            fprintf(stderr, "%zu bytes around a block were written to\n", nbytes);
            abort();
        }
    }
    free(memory);
}

/* Workspaces of the call under way, the last one allocated last. */
static struct {
    uint8_t *block;
    size_t nbytes;
} live[MOST_BLOCKS];
static size_t live_count;
static size_t bytes_left;

static size_t rounded(size_t nbytes) { return (nbytes + 15) / 16 * 16; }

tvm_crt_error_t TVMPlatformMemoryAllocate(size_t nbytes, DLDevice dev, void **out_ptr) {
    (void)dev;
    *out_ptr = NULL;
    if (live_count == MOST_BLOCKS || rounded(nbytes) > bytes_left) {
        return kTvmErrorPlatformNoMemory;
    }
    bytes_left -= rounded(nbytes);
    live[live_count].block = new_block(nbytes, 0);
    live[live_count].nbytes = nbytes;
    *out_ptr = live[live_count++].block;
    return kTvmErrorNoError;
}

tvm_crt_error_t TVMPlatformMemoryFree(void *ptr, DLDevice dev) {
    (void)dev;
    if (live_count == 0 || live[live_count - 1].block != ptr) {
        return kTvmErrorPlatformStackAllocBadFree;
    }
    live_count--;
    delete_block(ptr, live[live_count].nbytes, 0);
    bytes_left += rounded(live[live_count].nbytes);
    return kTvmErrorNoError;
}

void TVMPlatformAbort(tvm_crt_error_t code) {
    fprintf(stderr, "aborted: %#x\n", (unsigned)code);
    abort();
}

static TVMModuleHandle library;

static int32_t call_packed(const char *function, DLTensor *tensors, int count) {
    TVMValue values[MOST_TENSORS];
    int codes[MOST_TENSORS];
    for (int i = 0; i < count; i++) {
        values[i].v_handle = &tensors[i];
        codes[i] = kTVMDLTensorHandle;
    }
    TVMFunctionHandle handle;
    int32_t error = TVMModGetFunction(library, function, 0, &handle);
    if (error != 0) {
        return error;
    }
    TVMValue result;
    int result_code;
    return TVMFuncCall(handle, values, codes, count, &result, &result_code);
}

#define DESCRIBED(bytes, type_code, type_bits, rank, sides)                                        \
    ((DLTensor){.data = (bytes),                                                                   \
                .device = {kDLCPU, 0},                                                             \
                .ndim = (rank),                                                                    \
                .dtype = {(type_code), (type_bits), 1},                                            \
                .shape = (sides)})

/* variants[], and what it points to. */
#include "variants.c"

static int failures;

static void fail(const struct variant *v, const char *what) {
    fprintf(stderr, "%s: %s\n", v->name, what);
    failures++;
}

static void run_variant(const struct variant *v) {
    void *inputs[MOST_TENSORS];
    void *outputs[MOST_TENSORS];
    void *pools[MOST_TENSORS];
    for (int sample = 0; sample < SAMPLES; sample++) {
        const uint8_t *given = v->given[sample];
        for (int i = 0; i < v->input_count; i++) {
            inputs[i] = new_block(v->input_bytes[i], v->input_skew[i]);
            memcpy(inputs[i], given, v->input_bytes[i]);
            given += v->input_bytes[i];
        }
        for (int i = 0; i < v->output_count; i++) {
            outputs[i] = new_block(v->output_bytes[i], v->output_skew[i]);
        }
        for (int i = 0; i < v->pool_count; i++) {
            pools[i] = new_block(v->pool_bytes[i], 0);
        }
        if (v->workspace_bytes >= 16) {
            bytes_left = v->workspace_bytes - 16;
            if (v->call(inputs, outputs, pools) == 0) {
                fail(v, "ran with too little workspace");
            }
            if (live_count != 0) {
                fail(v, "kept workspace after an error");
            }
        }
        bytes_left = v->workspace_bytes;
        if (v->call(inputs, outputs, pools) != 0) {
            fail(v, "returned an error");
        }
        if (live_count != 0 || bytes_left != v->workspace_bytes) {
            fail(v, "kept workspace");
        }
        given = v->given[sample];
        for (int i = 0; i < v->input_count; i++) {
            if (memcmp(inputs[i], given, v->input_bytes[i]) != 0) {
                fail(v, "wrote to an input");
            }
            given += v->input_bytes[i];
            delete_block(inputs[i], v->input_bytes[i], v->input_skew[i]);
        }
        const uint8_t *expected = v->expected[sample];
        for (int i = 0; i < v->output_count; i++) {
            if (memcmp(outputs[i], expected, v->output_bytes[i]) != 0) {
                fail(v, "computed another output than the interpreter");
            }
            expected += v->output_bytes[i];
            delete_block(outputs[i], v->output_bytes[i], v->output_skew[i]);
        }
        for (int i = 0; i < v->pool_count; i++) {
            delete_block(pools[i], v->pool_bytes[i], 0);
        }
    }
}

int main(void) {
    if (TVMInitializeRuntime() != 0 ||
        TVMModCreateFromCModule(TVMSystemLibEntryPoint(), &library) != 0) {
        return 2;
    }
    for (size_t i = 0; i < sizeof variants / sizeof variants[0]; i++) {
        run_variant(&variants[i]);
        printf("%s\n", variants[i].name);
    }
    return failures != 0;
}
