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
    HIL_FAULT_INTERRUPT = 16,      /* one that nobody serves; psr has its exception's number */
    HIL_FAULT_STACK_OVERFLOW = 32, /* the registers are lost: pc, lr, psr and r0 to r12 are 0 */
    HIL_FAULT_ASSERT = 33,
    HIL_FAULT_SIGNAL = 64, /* native: plus the signal's number */
};

struct hil_fault {
    uint32_t kind; /* enum hil_fault_kind */
    uintptr_t pc;
    uintptr_t lr;
    uintptr_t sp;
    uintptr_t mmfar; /* as in the register; valid when cfsr says so */
    uintptr_t bfar;
    uint32_t psr;
    uint32_t cfsr;
    uint32_t hfsr;
    uint32_t r0;
    uint32_t r1;
    uint32_t r2;
    uint32_t r3;
    uint32_t r12;
    /* The stack that was in use: its bounds, from where it held something when the fault struck,
     * and the most of it that ever was in use. All 0 where they are not known. */
    uintptr_t stack_bottom;
    uintptr_t stack_top;
    uintptr_t stack_from;
    uint32_t stack_peak_bytes;
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
