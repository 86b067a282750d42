/* From reset to main: main runs on its own stack, interrupts and faults on the handler stack, which
 * the trap's entry finds in mscratch. So a stack that overflows can still be reported. */
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

__attribute__((weak)) void hil_soc_early(void) {}

#if HIL_CORE_TRAPS
__attribute__((weak)) void hil_trap_init(void) {
    HIL_CSR_WRITE(mtvec, (uint32_t)(uintptr_t)hil_trap);
}
#else
__attribute__((weak)) void hil_trap_init(void) {}
#endif

#if HIL_STACK_GUARD_BYTES > 0 && HIL_CORE_TRAPS
/* Forbids the addresses below the stack, to this mode too: a locked entry of the physical memory
 * protection, whose region is a power of two. A core without it goes on behind the accesses; some
 * keep only the upper bits of where to. */
static void guard_stack(void) {
    const uint32_t locked_power_of_two = 0x98;
    const uint32_t below = (uint32_t)(uintptr_t)hil_stack_bottom - HIL_STACK_GUARD_BYTES;
    const uint32_t region = (below + HIL_STACK_GUARD_BYTES / 2 - 1) >> 2;
    uint32_t kept;

    __asm volatile(HIL_CSR("la %0, 1f\n\t"
                           "csrrw %0, mtvec, %0\n\t"
                           "csrw pmpaddr0, %1\n\t"
                           "csrw pmpcfg0, %2\n\t"
                           ".balign 256\n"
                           "1:\n\t"
                           "csrw mtvec, %0")
                   : "=&r"(kept)
                   : "r"(region), "r"(locked_power_of_two)
                   : "memory");
}
#endif

/* Prepares memory and core; runs on the handler stack. */
__attribute__((used)) void hil_start(void) {
    hil_soc_early();
#if HIL_CORE_TRAPS
    /* Switches floats and vectors on; these bits are 0 on a core without. */
    HIL_CSR_SET(mstatus, HIL_MSTATUS_FS | HIL_MSTATUS_VS);
#endif
    hil_trap_init();
#if HIL_STACK_GUARD_BYTES > 0 && HIL_CORE_TRAPS
    guard_stack();
#endif
    /* A loader that fills RAM puts the data where they stay. */
    if ((uintptr_t)hil_data_load != (uintptr_t)hil_data_start) {
        memcpy(hil_data_start, hil_data_load, (uintptr_t)hil_data_end - (uintptr_t)hil_data_start);
    }
    memset(hil_bss_start, 0, (uintptr_t)hil_bss_end - (uintptr_t)hil_bss_start);
    hil_stack_paint();
}

#if HIL_CORE_MIE
#define DISABLE_ALL "csrw mie, zero\n\t"
#else
#define DISABLE_ALL
#endif

#if HIL_CORE_TRAPS
#define NO_INTERRUPTS HIL_CSR("csrci mstatus, 8\n\t" DISABLE_ALL) "\n\t"
#define FIRST_CORE HIL_CSR("csrr t0, mhartid\n1:\n\tbnez t0, 1b") "\n\t"
#define HANDLER_STACK HIL_CSR("csrw mscratch, t0") "\n\t"
#else
#define NO_INTERRUPTS
#define FIRST_CORE
#define HANDLER_STACK
#endif

/* First of the image, since some chips start there, and some at another address of the same memory,
 * which is left at once. All cores but the first stop. The C library's errno is relative to tp. */
/* clang-format off */
__attribute__((naked, section(".vectors"))) _Noreturn void hil_reset_handler(void) {
    __asm volatile(NO_INTERRUPTS
                   "lui t0, %hi(3f)\n\t"
                   "addi t0, t0, %lo(3f)\n\t"
                   "jr t0\n"
                   "3:\n\t"
                   FIRST_CORE
                   "la tp, hil_tls\n\t"
                   "la sp, hil_handler_stack_top\n\t"
                   "call hil_start\n\t"
                   "la t0, hil_handler_stack_top\n\t"
                   HANDLER_STACK
                   "la sp, hil_stack_top\n\t"
                   "call main\n"
                   "2:\n\t"
                   "j 2b");
}
/* clang-format on */

void hil_port_init(void) {
    const uint32_t uart_hz = hil_soc_init();
    /* Not before: it may be what switches the memory on. */
    for (const struct hil_generic_copy *copy = hil_copies_start; copy != hil_copies_end; ++copy) {
        memcpy(copy->to, copy->from, copy->nbytes);
    }
    hil_timer_init();
    hil_uart_init(uart_hz);
    hil_irq_unlock(HIL_MSTATUS_MIE);
}

_Noreturn void hil_port_reset(void) {
    hil_uart_flush();
    hil_barrier();
    hil_soc_reset();
}
