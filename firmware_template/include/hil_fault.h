/* A fault as the handler found it. */
#ifndef HIL_FAULT_H
#define HIL_FAULT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The first ones are the numbers of Arm's exceptions. */
enum hil_fault_kind {
    HIL_FAULT_NMI = 2,
    HIL_FAULT_HARD = 3,
    HIL_FAULT_MEMORY = 4,
    HIL_FAULT_BUS = 5,
    HIL_FAULT_USAGE = 6,
    HIL_FAULT_SECURE = 7,
    HIL_FAULT_INTERRUPT = 16,      /* without a handler; psr has its exception's number */
    HIL_FAULT_STACK_OVERFLOW = 32, /* the registers are lost: pc, lr, psr and r0 to r12 are 0 */
    HIL_FAULT_ASSERT = 33,
    HIL_FAULT_EXCEPTION = 40, /* RISC-V: plus the exception's code, 0 to 23 */
    HIL_FAULT_SIGNAL = 64,    /* native: plus the signal's number */
};

/* Registers have the values that they had when the fault struck, and 0 where those are lost or the
 * core has no such register. On RISC-V bfar is mtval, cfsr mcause, psr mstatus, r0 to r3 are a0 to
 * a3 and r12 is a4. */
struct hil_fault {
    uint32_t kind;   /* enum hil_fault_kind */
    uintptr_t pc;    /* address of the instruction that faulted, or of the next one */
    uintptr_t lr;    /* link register: mostly where the function would have returned to */
    uintptr_t sp;    /* of the stack that was in use, what the core pushed included */
    uintptr_t mmfar; /* address that the MPU refused; valid when cfsr says so */
    uintptr_t bfar;  /* address that the bus refused; valid when cfsr says so */
    uint32_t psr;    /* flags; of HIL_FAULT_INTERRUPT the exception's number */
    uint32_t cfsr;   /* what happened, as in the register; 0 on baseline cores */
    uint32_t hfsr;   /* how it became a HardFault, as in the register; 0 on baseline cores */
    uint32_t r0;
    uint32_t r1;
    uint32_t r2;
    uint32_t r3;
    uint32_t r12;
    uintptr_t stack_bottom;    /* lowest address of that stack; 0, and the next three: not known */
    uintptr_t stack_top;       /* the address behind its last byte */
    uintptr_t stack_from;      /* from here to stack_top it held something; a multiple of 4 */
    uint32_t stack_peak_bytes; /* most bytes of it that ever were in use; 0: not known */
};

/* Reports a fault of kind HIL_FAULT_ASSERT at the caller. */
__attribute__((noreturn)) void hil_assert_failed(void);

/* For programming errors; bad input from outside gets a status. The place is found through the
 * reported address, so that no text takes flash. */
#define HIL_ASSERT(condition) ((condition) ? (void)0 : hil_assert_failed())

#ifdef __cplusplus
}
#endif

#endif
