/* What a board's program needs of its core. */
#ifndef BOARD_H
#define BOARD_H

#include "cases.h"

extern uint32_t stack_top[], data_start[], data_end[], bss_start[], bss_end[];
extern const uint32_t data_load[];

/* A request to the debugger, which the emulator serves. */
uint32_t semihost(uint32_t operation, const void *argument);

/* A region of the protection unit of `bytes`, a power of two of which `start` is a multiple. */
void allow(uint32_t region, uintptr_t start, uint32_t bytes);
void forbid(uint32_t region);
/* Opens code and data to the program itself. */
void protect(void);

/* Copies and clears the program's own data, and runs it. */
_Noreturn void run_program(void);
/* At the instruction `place`; `address` is what it reached for, where that is known. */
_Noreturn void tell_fault(uint32_t cause, uint32_t place, bool has_address, uintptr_t address);

#endif
