/* Cores of Arm: their protection unit, vectors and faults. */
#include "board.h"

_Noreturn void reset(void);
_Noreturn void fault(void);

uint32_t semihost(uint32_t operation, const void *argument) {
    register uint32_t r0 __asm("r0") = operation;
    register const void *r1 __asm("r1") = argument;
    __asm volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
}

/* Memory protection ------------------------------------------------------------------------- */

#define MPU_CTRL (*(volatile uint32_t *)0xE000ED94U)
#define MPU_RNR (*(volatile uint32_t *)0xE000ED98U)
#define MPU_RBAR (*(volatile uint32_t *)0xE000ED9CU)
#define MPU_RASR (*(volatile uint32_t *)0xE000EDA0U) /* in Armv8-M, RLAR */
#define MPU_MAIR0 (*(volatile uint32_t *)0xE000EDC0U)

/* Code and data of the program itself. */
enum { REGIONS_FOR_US = 2 };

/* A region of `bytes`, a power of two of which `start` is a multiple. */
static void open_region(uint32_t region, uintptr_t start, uint32_t bytes, bool execute) {
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

void forbid(uint32_t region) {
    MPU_RNR = REGIONS_FOR_US + region;
    MPU_RASR = 0;
}

void allow(uint32_t region, uintptr_t start, uint32_t bytes) {
    open_region(REGIONS_FOR_US + region, start, bytes, false);
}

void protect(void) {
#if __ARM_ARCH >= 8
    MPU_MAIR0 = 0x44; /* normal memory, not cached */
#endif
    open_region(0, CODE_ORIGIN, CODE_BYTES, true);
    open_region(1, DATA_ORIGIN, DATA_BYTES, false);
}

static void switch_protection(uint32_t on) {
    MPU_CTRL = on;
    __asm volatile("dsb\n\tisb" ::: "memory");
}

void enter(void) { switch_protection(1); }
void leave(void) { switch_protection(0); }

/* Start and faults -------------------------------------------------------------------------- */

#define CFSR (*(volatile uint32_t *)0xE000ED28U)
#define MMFAR (*(volatile uint32_t *)0xE000ED34U)
#define ADDRESS_IS_VALID 0x80U

/* The core has closed nothing to this handler. `frame` is what it stacked: the seventh word is the
 * address of the instruction. */
__attribute__((used)) static _Noreturn void take_fault(const uint32_t *frame) {
    tell_fault(CFSR, frame[6], (CFSR & ADDRESS_IS_VALID) != 0, MMFAR);
}

__attribute__((naked)) _Noreturn void fault(void) { __asm volatile("mov r0, sp\n\tb take_fault"); }

_Noreturn void reset(void) {
    *(volatile uint32_t *)0xE000ED88U |= 0xFU << 20; /* CPACR: floating point, Helium */
    __asm volatile("dsb\n\tisb" ::: "memory");
    run_program();
}

__attribute__((section(".vectors"), used)) static const struct {
    uint32_t *stack;
    void (*handlers[15])(void);
} vectors = {
    stack_top,
    {reset, fault, fault, fault, fault, fault, fault, fault, fault, fault, fault, fault, fault,
     fault, fault},
};
