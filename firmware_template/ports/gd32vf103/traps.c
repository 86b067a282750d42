/* Nuclei's ISA specification, chapter CSR: peripherals interrupt the core only in the mode of the
 * ECLIC, where all come to mtvec as traps do, with their numbers in mcause. The lowest six bits of
 * mtvec say the mode. */
#include "hil_core.h"

#define MTVEC_ECLIC 3UL

__attribute__((naked, aligned(64))) static void trap_entry(void) { __asm volatile("j hil_trap"); }

void hil_trap_init(void) { HIL_CSR_WRITE(mtvec, (uint32_t)(uintptr_t)trap_entry | MTVEC_ECLIC); }
