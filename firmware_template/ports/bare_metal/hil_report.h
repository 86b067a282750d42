/* How a core's fault handler tells what it found. */
#ifndef HIL_REPORT_H
#define HIL_REPORT_H

#include "hil_core.h"
#include "hil_fault.h"
#include "hil_rpc.h"
#include "hil_stack.h"

/* Describes the stack between `bottom` and `top`, which held something from `from` on. */
static inline void describe_stack(struct hil_fault *fault, const uint32_t *bottom,
                                  const uint32_t *top, uintptr_t from) {
    fault->stack_bottom = (uintptr_t)bottom;
    fault->stack_top = (uintptr_t)top;
    fault->stack_from = from < (uintptr_t)bottom ? (uintptr_t)bottom : from & ~(uintptr_t)3;
    fault->stack_peak_bytes = bottom == hil_stack_bottom ? hil_stack_peak_bytes() : 0;
}

/* Tells the host, then serves it until it asks for a reset. */
static inline _Noreturn void report(const struct hil_fault *fault) {
    hil_rpc_fault(fault);
    for (;;) {
        hil_rpc_poll();
    }
}

#endif
