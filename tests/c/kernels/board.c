/* Every block in memory that the protection unit opens for it alone: an access outside of it is a
 * fault, as far as it does not fall into the rest of the block's power of two, which is filled and
 * looked at afterwards. Files through the debugger's semihosting, which the emulator serves. */
#include <string.h>

#include "cases.h"

extern uint32_t stack_top[], data_start[], data_end[], bss_start[], bss_end[];
extern const uint32_t data_load[];

_Noreturn void reset(void);
_Noreturn void fault(void);

const uint32_t runs = 3;

/* Semihosting ------------------------------------------------------------------------------- */

enum {
    SYS_OPEN = 0x01,
    SYS_WRITE = 0x05,
    SYS_READ = 0x06,
    SYS_EXIT_EXTENDED = 0x20,
    APPLICATION_EXIT = 0x20026,
    MODE_READ_BINARY = 1,
    MODE_WRITE_BINARY = 5,
};

static uint32_t input, output;

static uint32_t semihost(uint32_t operation, const void *argument) {
    register uint32_t r0 __asm("r0") = operation;
    register const void *r1 __asm("r1") = argument;
    __asm volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
}

static _Noreturn void finish(uint32_t code) {
    const uint32_t reason[] = {APPLICATION_EXIT, code};
    for (;;) {
        semihost(SYS_EXIT_EXTENDED, reason);
    }
}

static uint32_t opened(const char *name, uint32_t mode) {
    const uint32_t arguments[] = {(uint32_t)(uintptr_t)name, mode, strlen(name)};
    return semihost(SYS_OPEN, arguments);
}

/* Both give the number of bytes that were not moved. */
bool read_input(void *data, uint32_t bytes) {
    const uint32_t arguments[] = {input, (uint32_t)(uintptr_t)data, bytes};
    return semihost(SYS_READ, arguments) == 0;
}

void write_output(const void *data, uint32_t bytes) {
    const uint32_t arguments[] = {output, (uint32_t)(uintptr_t)data, bytes};
    if (semihost(SYS_WRITE, arguments) != 0) {
        finish(4);
    }
}

/* Memory protection ------------------------------------------------------------------------- */

#define MPU_CTRL (*(volatile uint32_t *)0xE000ED94U)
#define MPU_RNR (*(volatile uint32_t *)0xE000ED98U)
#define MPU_RBAR (*(volatile uint32_t *)0xE000ED9CU)
#define MPU_RASR (*(volatile uint32_t *)0xE000EDA0U) /* in Armv8-M, RLAR */
#define MPU_MAIR0 (*(volatile uint32_t *)0xE000EDC0U)

/* Emulators are slow where access changes inside a page of theirs. */
enum { PAGE = 1024, CANARY = 64, REGIONS_FOR_US = 2 };

static struct span {
    uint8_t *start, *end, *block;
    uint32_t bytes;
} spans[BLOCKS_MAX];
static uint32_t current_run;

/* A region of `bytes`, a power of two of which `start` is a multiple. */
static void allow(uint32_t region, uintptr_t start, uint32_t bytes, bool execute) {
    MPU_RNR = region;
#if __ARM_ARCH >= 8
    const uint32_t any_privilege = 1U << 1, execute_never = 1;
    MPU_RBAR = start | any_privilege | (execute ? 0 : execute_never);
    MPU_RASR = ((start + bytes - 1) & ~31U) | 1;
#else
    const uint32_t full_access = 3U << 24, execute_never = 1U << 28, normal = 1U << 19 | 1U << 17;
    const uint32_t log2_size = 31U - (uint32_t)__builtin_clz(bytes);
    MPU_RBAR = start;
    MPU_RASR = full_access | normal | (execute ? 0 : execute_never) | (log2_size - 1) << 1 | 1;
#endif
}

static void forbid(uint32_t region) {
    MPU_RNR = region;
    MPU_RASR = 0;
}

static void protect(void) {
#if __ARM_ARCH >= 8
    MPU_MAIR0 = 0x44; /* normal memory, not cached */
#endif
    allow(0, CODE_ORIGIN, CODE_BYTES, true);
    allow(1, DATA_ORIGIN, DATA_BYTES, false);
}

static void switch_protection(uint32_t on) {
    MPU_CTRL = on;
    __asm volatile("dsb\n\tisb" ::: "memory");
}

void enter(void) { switch_protection(1); }
void leave(void) { switch_protection(0); }

uint8_t filler(uint32_t run) { return (const uint8_t[]){0x7f, 0x80, 0xa5}[run]; }

/* At the end of its memory, at its start, or at the least aligned place in the middle. Before and
 * behind the memory of each block a page stays closed. */
uint8_t *claim(uint32_t run, uint32_t index, uint32_t bytes, uint32_t alignment) {
    current_run = run;
    const uintptr_t last = index == 0 ? BLOCKS_ORIGIN : (uintptr_t)spans[index - 1].end;
    const uint32_t wanted = bytes + 2 * CANARY;
    const uint32_t size = wanted <= PAGE ? PAGE : 1U << (32 - __builtin_clz(wanted - 1));
    const uintptr_t start = (last + PAGE + size - 1) & ~(uintptr_t)(size - 1);
    if (start + size > BLOCKS_ORIGIN + BLOCKS_BYTES || index >= BLOCKS_MAX) {
        finish(3);
    }
    const uintptr_t places[] = {
        (start + size - bytes) & ~(uintptr_t)(alignment - 1),
        start,
        start + CANARY / 2 + alignment,
    };
    spans[index] =
        (struct span){(uint8_t *)start, (uint8_t *)(start + size), (uint8_t *)places[run], bytes};
    memset(spans[index].start, filler(run), size);
    allow(REGIONS_FOR_US + index, start, size, false);
    return spans[index].block;
}

void release(uint32_t index) { forbid(REGIONS_FOR_US + index); }

int32_t first_disturbed(uint32_t run, uint32_t index) {
    const struct span *span = &spans[index];
    for (const uint8_t *at = span->start; at < span->end; ++at) {
        if (at == span->block) {
            at += span->bytes;
            if (at == span->end) {
                break;
            }
        }
        if (*at != filler(run)) {
            return (int32_t)(at - span->block);
        }
    }
    return NOWHERE;
}

/* Start and faults -------------------------------------------------------------------------- */

#define CFSR (*(volatile uint32_t *)0xE000ED28U)
#define MMFAR (*(volatile uint32_t *)0xE000ED34U)
#define ADDRESS_IS_VALID 0x80U

/* The core has closed nothing to this handler. `frame` is what it stacked: the seventh word is the
 * address of the instruction. */
__attribute__((used)) static _Noreturn void tell_fault(const uint32_t *frame) {
    struct report report = {FAULTED, current_run, UINT32_MAX, 0, CFSR, frame[6]};
    for (uint32_t i = 0; i < BLOCKS_MAX && (CFSR & ADDRESS_IS_VALID) != 0; ++i) {
        const uintptr_t address = MMFAR;
        if ((uintptr_t)spans[i].start - PAGE / 2 <= address &&
            address < (uintptr_t)spans[i].end + PAGE / 2) {
            report.where = i;
            report.offset = (int32_t)(address - (uintptr_t)spans[i].block);
        }
    }
    write_output(&report, sizeof report);
    finish(5);
}

__attribute__((naked)) _Noreturn void fault(void) { __asm volatile("mov r0, sp\n\tb tell_fault"); }

int main(void) {
    input = opened("inputs", MODE_READ_BINARY);
    output = opened("outputs", MODE_WRITE_BINARY);
    if (input == UINT32_MAX || output == UINT32_MAX) {
        finish(2);
    }
    protect();
    finish(run_cases() ? 0 : 1);
}

_Noreturn void reset(void) {
    *(volatile uint32_t *)0xE000ED88U |= 0xFU << 20; /* CPACR: floating point, Helium */
    __asm volatile("dsb\n\tisb" ::: "memory");
    memcpy(data_start, data_load, (uintptr_t)data_end - (uintptr_t)data_start);
    memset(bss_start, 0, (uintptr_t)bss_end - (uintptr_t)bss_start);
    main();
    finish(6);
}

__attribute__((section(".vectors"), used)) static const struct {
    uint32_t *stack;
    void (*handlers[15])(void);
} vectors = {
    stack_top,
    {reset, fault, fault, fault, fault, fault, fault, fault, fault, fault, fault, fault, fault,
     fault, fault},
};
