/* These cores know only a table, with an entry for each interrupt behind that for exceptions. */
#include "hil_core.h"

__attribute__((naked, aligned(256))) static void trap_table(void) {
    __asm volatile(".option push\n\t"
                   ".option norvc\n\t"
                   ".rept 32\n\t"
                   "j hil_trap\n\t"
                   ".endr\n\t"
                   ".option pop");
}

void hil_trap_init(void) { HIL_CSR_WRITE(mtvec, (uint32_t)(uintptr_t)trap_table | 1UL); }
