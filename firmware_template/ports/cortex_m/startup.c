/* From reset to main: main runs on the process stack, interrupts and faults on the main stack. So a
 * stack that overflows can still be reported. */
#include <string.h>

#include "hil_core.h"
#include "hil_port.h"

/* From the linker script; sizes in bytes are addresses of symbols. */
extern uint32_t hil_data_start[];
extern uint32_t hil_data_end[];
extern const uint32_t hil_data_load[];
extern uint32_t hil_bss_start[];
extern uint32_t hil_bss_end[];
/* The constants of models that are read from RAM. */
extern const struct hil_generic_copy {
    uint8_t *to;
    const uint8_t *from;
    uint32_t nbytes;
} hil_copies_start[], hil_copies_end[];

int main(void);
_Noreturn void hil_reset_handler(void);
void hil_start(void);

typedef void (*hil_vector)(void);

enum {
    SYSTEM_VECTORS = 16,
/* Entries beyond the system's that each interrupt needs, none for one that is not used. */
#ifdef HIL_TIMER_IRQ
    TIMER_VECTORS = HIL_TIMER_IRQ + 1,
#else
    TIMER_VECTORS = 0,
#endif
#ifdef HIL_UART_IRQ
    UART_VECTORS = HIL_UART_IRQ + 1,
#else
    UART_VECTORS = 0,
#endif
    VECTORS = SYSTEM_VECTORS + (TIMER_VECTORS > UART_VECTORS ? TIMER_VECTORS : UART_VECTORS),
};

/* VTOR wants the table aligned to its size rounded up to a power of two; the linker script gives
 * 1 KB, which does for 240 interrupts and costs nothing at the start of a region. The first range
 * is what the entries below do not replace. What the architecture reserves is 0, since boot ROMs
 * look for their own words there (NXP's LPC55 takes one for the kind of image: 0 is a plain one).
 */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverride-init"
__attribute__((section(".vectors"), used)) static const union {
    hil_vector handler;
    uint32_t *stack;
} vectors[VECTORS] = {
    [0 ... VECTORS - 1].handler = hil_fault_handler,
    [8 ... 10].handler = 0,
    [13].handler = 0,
    [0].stack = hil_handler_stack_top,
    [1].handler = hil_reset_handler,
#ifdef HIL_TIMER_IRQ
    [SYSTEM_VECTORS + HIL_TIMER_IRQ].handler = hil_timer_handler,
#else
    [15].handler = hil_timer_handler,
#endif
#ifdef HIL_UART_IRQ
    [SYSTEM_VECTORS + HIL_UART_IRQ].handler = hil_serial_handler,
#endif
};
#pragma GCC diagnostic pop

#if HIL_STACK_GUARD_BYTES > 0 && !HIL_HAS_STACK_LIMIT
/* Forbids the addresses below the stack: nothing of this board is there, but an emulator or a bus
 * may take writes that go nowhere. */
static void guard_stack(void) {
    if ((HIL_MPU_TYPE >> 8 & 0xFF) == 0) {
        return;
    }
    const uint32_t log2_size = 31U - (uint32_t)__builtin_clz(HIL_STACK_GUARD_BYTES);
    const uint32_t valid_region_0 = 1UL << 4;
    const uint32_t execute_never_no_access = 1UL << 28;
    const uint32_t default_map_elsewhere = 1UL << 2;
    HIL_MPU_RBAR = ((uint32_t)(uintptr_t)hil_stack_bottom - HIL_STACK_GUARD_BYTES) | valid_region_0;
    HIL_MPU_RASR = execute_never_no_access | (log2_size - 1) << 1 | 1;
    HIL_MPU_CTRL = default_map_elsewhere | 1;
}
#endif

#if HIL_AFTER_LOADER
/* A boot loader may start the image with interrupts masked, with some of its own enabled or
 * pending, and with memory protected: all this as after a reset, but interrupts stay masked. */
static void leave_loader(void) {
    const uint32_t nothing_pending = 1UL << 25 | 1UL << 27; /* SysTick's exception, PendSV */
    HIL_SYST_CSR = 0;
    for (uint32_t irq = 0; irq < 256; irq += 32) {
        HIL_NVIC_ICER(irq) = UINT32_MAX;
        HIL_NVIC_ICPR(irq) = UINT32_MAX;
    }
    HIL_ICSR = nothing_pending;
    HIL_MPU_CTRL = 0;
    for (uint32_t region = 0; region < (HIL_MPU_TYPE >> 8 & 0xFF); ++region) {
        HIL_MPU_RNR = region;
        HIL_MPU_RASR = 0;
    }
#if !HIL_BASELINE
    __asm volatile("msr basepri, %0\n\tmsr faultmask, %0" ::"r"(0));
#endif
}

#endif

__attribute__((weak)) void hil_soc_early(void) {}

/* Prepares memory and core; runs on the main stack, before any floating-point register exists. */
__attribute__((used)) void hil_start(void) {
    hil_soc_early();
#if HIL_AFTER_LOADER
    leave_loader();
#endif
#if !HIL_BASELINE
    HIL_VTOR = (uint32_t)(uintptr_t)vectors;
    HIL_CPACR |= 0xFUL << 20; /* FPU and Helium; reads as zero on cores without */
    HIL_SHCSR |= 15UL << 16;  /* memory, bus, usage and secure faults by their own names */
    HIL_CCR |= 1UL << 4;      /* division by zero is a fault, too */
#endif
#if HIL_HAS_STACK_LIMIT
    __asm volatile("msr msplim, %0\n\tmsr psplim, %1" ::"r"(hil_handler_stack_bottom),
                   "r"(hil_stack_bottom));
#endif
#if HIL_STACK_GUARD_BYTES > 0 && !HIL_HAS_STACK_LIMIT
    guard_stack();
#endif
    __asm volatile("dsb\n\tisb" ::: "memory");
    memcpy(hil_data_start, hil_data_load, (uintptr_t)hil_data_end - (uintptr_t)hil_data_start);
    memset(hil_bss_start, 0, (uintptr_t)hil_bss_end - (uintptr_t)hil_bss_start);
    hil_stack_paint();
}

__attribute__((naked)) _Noreturn void hil_reset_handler(void) {
#if HIL_AFTER_LOADER
    /* The loader's stack may be the other one, or lie elsewhere. */
    __asm volatile("cpsid i\n\t"
                   "ldr r0, =hil_handler_stack_top\n\t"
                   "movs r1, #0\n\t"
                   "msr control, r1\n\t"
                   "isb");
#if HIL_HAS_STACK_LIMIT
    __asm volatile("msr msplim, r1");
#endif
    __asm volatile("msr msp, r0");
#endif
    __asm volatile("bl hil_start\n\t"
                   "ldr r0, =hil_stack_top\n\t"
                   "msr psp, r0\n\t"
                   "movs r0, #2\n\t"
                   "msr control, r0\n\t"
                   "isb\n\t"
                   "bl main\n\t"
                   "b .\n\t"
                   ".ltorg");
}

void hil_port_init(void) {
    const uint32_t uart_hz = hil_soc_init();
    /* Not before: it may be what switches the memory on. */
    for (const struct hil_generic_copy *copy = hil_copies_start; copy != hil_copies_end; ++copy) {
        memcpy(copy->to, copy->from, copy->nbytes);
    }
    hil_timer_init();
    hil_uart_init(uart_hz);
#if HIL_AFTER_LOADER
    __asm volatile("cpsie i" ::: "memory");
#endif
}

_Noreturn void hil_port_reset(void) {
    hil_uart_flush();
    __asm volatile("dsb" ::: "memory");
    HIL_AIRCR = 0x05FAUL << 16 | 1UL << 2;
    __asm volatile("dsb" ::: "memory");
    for (;;) {
    }
}
