/* Function registries: look-up, growth, every capacity and error. */
#include "check.h"

#include <stdlib.h>
#include <tvm/runtime/crt/func_registry.h>

#define FUNCTION(name, result)                                                                     \
    static int name(TVMValue *a, int *t, int n, TVMValue *r, int *rt, void *h) {                   \
        (void)a, (void)t, (void)n, (void)r, (void)rt, (void)h;                                     \
        return result;                                                                             \
    }
FUNCTION(one, 1)
FUNCTION(two, 2)
FUNCTION(three, 3)

static void test_constant_tables(void) {
    static const TVMBackendPackedCFunc functions[] = {one, two, three};
    static const struct {
        const char *names;
        const char *name;
        int index; /* -1: there is none */
    } table[] = {
        {"\3\0op\0op_1\0o\0", "op", 0},
        {"\3\0op\0op_1\0o\0", "op_1", 1},
        {"\3\0op\0op_1\0o\0", "o", 2},
        {"\3\0op\0op_1\0o\0", "op_", -1},
        {"\3\0op\0op_1\0o\0", "op_11", -1},
        {"\3\0op\0op_1\0o\0", "p", -1},
        {"\3\0op\0op_1\0o\0", "", -1},
        {"\3\0op_1\0op\0o\0", "op", 1},
        {"\1\0op\0", "op", 0},
        /* The count bounds the search, and so does the empty name after the last one. */
        {"\1\0op\0op_1\0", "op_1", -1},
        {"\3\0op\0", "op_1", -1},
        {"\0\0", "op", -1},
        {"\0\0", "", -1},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        const TVMFuncRegistry registry = {table[i].names, functions};
        tvm_function_index_t index = 77;
        const tvm_crt_error_t err = TVMFuncRegistry_Lookup(&registry, table[i].name, &index);
        EXPECT_EQ(err, table[i].index < 0 ? kTvmErrorFunctionNameNotFound : kTvmErrorNoError);
        EXPECT_EQ(index, table[i].index < 0 ? 77 : table[i].index);
    }
}

static void test_by_index(void) {
    static const TVMBackendPackedCFunc functions[] = {one, two};
    const TVMFuncRegistry registry = {"\2\0a\0b\0", functions};
    TVMBackendPackedCFunc function = three;
    EXPECT_EQ(TVMFuncRegistry_GetByIndex(&registry, 1, &function), kTvmErrorNoError);
    EXPECT(function == two);
    EXPECT_EQ(TVMFuncRegistry_GetByIndex(&registry, 2, &function), kTvmErrorFunctionIndexInvalid);
    EXPECT_EQ(TVMFuncRegistry_GetByIndex(&registry, 0xffff, &function),
              kTvmErrorFunctionIndexInvalid);
    EXPECT(function == two);
}

static void test_the_number_of_functions(void) {
    static const TVMBackendPackedCFunc functions[] = {one, two};
    char names[] = "\2\0a\0b\0";
    const TVMFuncRegistry registry = {names, functions}, no_names = {NULL, functions};
    EXPECT_EQ(TVMFuncRegistry_GetNumFuncs(&registry), 2);
    EXPECT_EQ(TVMFuncRegistry_SetNumFuncs(&registry, 0x0102), 0);
    EXPECT(names[0] == 2 && names[1] == 1 && names[2] == 'a');
    EXPECT_EQ(TVMFuncRegistry_GetNumFuncs(&registry), 0x0102);
    EXPECT(TVMFuncRegistry_Get0thFunctionName(&registry) == &names[2]);
    EXPECT_EQ(TVMFuncRegistry_GetNumFuncs(&no_names), 0);
    EXPECT(TVMFuncRegistry_SetNumFuncs(&no_names, 1) != 0);
    EXPECT(TVMFuncRegistry_Get0thFunctionName(NULL) == NULL);
}

static void test_tables_without_functions(void) {
    static const TVMBackendPackedCFunc functions[] = {one};
    const TVMFuncRegistry no_names = {NULL, functions}, no_functions = {"\1\0a\0", NULL};
    const TVMFuncRegistry *const tables[] = {NULL, &no_names, &no_functions};
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        tvm_function_index_t index;
        TVMBackendPackedCFunc function;
        EXPECT_EQ(TVMFuncRegistry_Lookup(tables[i], "a", &index), kTvmErrorFunctionNameNotFound);
        EXPECT_EQ(TVMFuncRegistry_GetByIndex(tables[i], 0, &function),
                  kTvmErrorFunctionIndexInvalid);
    }
}

/* More than a byte can count, names at an odd address. */
static void test_three_hundred(void) {
    static char memory[1 + 2 + 300 * 5 + 1];
    static TVMBackendPackedCFunc functions[300];
    char *const names = memory + 1;
    const uint16_t count = 300;
    memcpy(names, &count, sizeof count);
    for (int i = 0; i < 300; i++) {
        sprintf(names + 2 + 5 * i, "f%03d", i);
        functions[i] = i == 299 ? two : one;
    }
    const TVMFuncRegistry registry = {names, functions};
    tvm_function_index_t index = 0;
    EXPECT_EQ(TVMFuncRegistry_Lookup(&registry, "f299", &index), kTvmErrorNoError);
    EXPECT_EQ(index, 299);
    EXPECT_EQ(TVMFuncRegistry_Lookup(&registry, "f300", &index), kTvmErrorFunctionNameNotFound);
    TVMBackendPackedCFunc function = three;
    EXPECT_EQ(TVMFuncRegistry_GetByIndex(&registry, 299, &function), kTvmErrorNoError);
    EXPECT(function == two);
}

/* Every size of buffer: the sanitizer sees what does not stay inside. */
static void test_every_capacity(void) {
    const size_t entry = 10 + 1 + sizeof(void *);
    for (size_t size = 0; size < 5 * entry; size++) {
        uint8_t *const buffer = malloc(size + 1);
        TVMMutableFuncRegistry registry;
        const tvm_crt_error_t err = TVMMutableFuncRegistry_Create(&registry, buffer, size);
        EXPECT_EQ(err, size < entry ? kTvmErrorBufferTooSmall : kTvmErrorNoError);
        if (err == kTvmErrorNoError) {
            const size_t most = size / entry;
            EXPECT_EQ(registry.max_functions, most);
            EXPECT_EQ((uintptr_t)registry.registry.funcs % sizeof(void *), 0);
            if ((size - most * sizeof(void *)) % sizeof(void *) == 0) {
                EXPECT_EQ((uintptr_t)registry.registry.funcs - (uintptr_t)buffer,
                          size - most * sizeof(void *));
            }
            char name[] = "0";
            for (size_t i = 0; i < most; i++, name[0]++) {
                EXPECT_EQ(TVMMutableFuncRegistry_Set(&registry, name, i % 2 ? two : one, 0),
                          kTvmErrorNoError);
            }
            EXPECT_EQ(TVMMutableFuncRegistry_Set(&registry, name, one, 0),
                      kTvmErrorFunctionRegistryFull);
            tvm_function_index_t index = 0;
            EXPECT_EQ(TVMFuncRegistry_Lookup(&registry.registry, "0", &index), kTvmErrorNoError);
            EXPECT_EQ(TVMFuncRegistry_Lookup(&registry.registry, name, &index),
                      kTvmErrorFunctionNameNotFound);
        }
        free(buffer);
    }
    uint8_t byte;
    TVMMutableFuncRegistry registry;
    EXPECT_EQ(TVMMutableFuncRegistry_Create(&registry, NULL, 512), kTvmErrorBufferTooSmall);
    EXPECT_EQ(TVMMutableFuncRegistry_Create(NULL, &byte, 512), kTvmErrorBufferTooSmall);
}

/* Names fill the buffer to its last byte, one more does not fit. */
static void test_names_that_fill_it(void) {
    union {
        void *alignment;
        uint8_t bytes[128];
    } buffer;
    TVMMutableFuncRegistry registry;
    EXPECT_EQ(TVMMutableFuncRegistry_Create(&registry, buffer.bytes, sizeof buffer.bytes),
              kTvmErrorNoError);
    /* Count, name, its zero and the last zero before the addresses. */
    const size_t longest = sizeof buffer.bytes - registry.max_functions * sizeof(void *) - 4;
    char name[128];
    memset(name, 'n', sizeof name);
    name[longest + 1] = '\0';
    EXPECT_EQ(TVMMutableFuncRegistry_Set(&registry, name, one, 0), kTvmErrorFunctionRegistryFull);
    name[longest] = '\0';
    EXPECT_EQ(TVMMutableFuncRegistry_Set(&registry, name, one, 0), kTvmErrorNoError);
    EXPECT_EQ(TVMMutableFuncRegistry_Set(&registry, "x", one, 0), kTvmErrorFunctionRegistryFull);
    EXPECT_EQ(TVMMutableFuncRegistry_Set(&registry, name, two, 1), kTvmErrorNoError);
    TVMBackendPackedCFunc function = three;
    EXPECT_EQ(TVMFuncRegistry_GetByIndex(&registry.registry, 0, &function), kTvmErrorNoError);
    EXPECT(function == two);
}

static void test_set(void) {
    uint8_t buffer[256];
    TVMMutableFuncRegistry registry;
    EXPECT_EQ(TVMMutableFuncRegistry_Create(&registry, buffer, sizeof buffer), kTvmErrorNoError);
    EXPECT_EQ(TVMMutableFuncRegistry_Set(&registry, "op", one, 0), kTvmErrorNoError);
    EXPECT_EQ(TVMMutableFuncRegistry_Set(&registry, "op_1", two, 1), kTvmErrorNoError);
    EXPECT_EQ(memcmp(buffer, "\2\0op\0op_1\0", 11), 0);
    EXPECT_EQ(TVMMutableFuncRegistry_Set(&registry, "op", three, 0),
              kTvmErrorFunctionAlreadyDefined);
    TVMBackendPackedCFunc function = NULL;
    EXPECT_EQ(TVMFuncRegistry_GetByIndex(&registry.registry, 0, &function), kTvmErrorNoError);
    EXPECT(function == one);
    EXPECT_EQ(TVMMutableFuncRegistry_Set(&registry, "op", three, 1), kTvmErrorNoError);
    EXPECT_EQ(TVMFuncRegistry_GetByIndex(&registry.registry, 0, &function), kTvmErrorNoError);
    EXPECT(function == three);

    const TVMMutableFuncRegistry untouched = registry;
    TVMMutableFuncRegistry nothing = {{NULL, NULL}, 0};
    EXPECT_EQ(TVMMutableFuncRegistry_Set(&registry, "", one, 0), kTvmErrorFunctionCallInvalidArg);
    EXPECT_EQ(TVMMutableFuncRegistry_Set(&registry, NULL, one, 0), kTvmErrorFunctionCallInvalidArg);
    EXPECT_EQ(TVMMutableFuncRegistry_Set(&registry, "x", NULL, 0), kTvmErrorFunctionCallInvalidArg);
    EXPECT_EQ(TVMMutableFuncRegistry_Set(&nothing, "x", one, 0), kTvmErrorFunctionCallInvalidArg);
    EXPECT_EQ(memcmp(&registry, &untouched, sizeof registry), 0);
}

int main(void) {
    test_constant_tables();
    test_by_index();
    test_the_number_of_functions();
    test_tables_without_functions();
    test_three_hundred();
    test_every_capacity();
    test_names_that_fill_it();
    test_set();
    return failures != 0;
}
