#include "hil_fault.h"

#include "hil_core.h"
#include "hil_port.h"
#include "hil_report.h"

/* What the core pushes on the stack that was in use when it takes an exception. */
struct frame {
    uint32_t r0, r1, r2, r3, r12, lr, pc, psr;
};

void hil_fault_report(uint32_t sp, uint32_t exc_return);

static bool is_inside(uint32_t sp, const uint32_t *bottom, const uint32_t *top) {
    return sp >= (uintptr_t)bottom && sp <= (uintptr_t)top - sizeof(struct frame);
}

/* The registers that the core pushed. */
static void read_frame(struct hil_fault *fault, const struct frame *frame) {
    fault->pc = frame->pc;
    fault->lr = frame->lr;
    fault->psr = frame->psr;
    fault->r0 = frame->r0;
    fault->r1 = frame->r1;
    fault->r2 = frame->r2;
    fault->r3 = frame->r3;
    fault->r12 = frame->r12;
}

static void read_status(struct hil_fault *fault) {
#if HIL_BASELINE
    (void)fault;
#else
    fault->cfsr = HIL_CFSR;
    fault->hfsr = HIL_HFSR;
    fault->mmfar = HIL_MMFAR;
    fault->bfar = HIL_BFAR;
#endif
}

__attribute__((used)) void hil_fault_report(uint32_t sp, uint32_t exc_return) {
    struct hil_fault fault = {.sp = sp};
    uint32_t exception;

    __asm volatile("mrs %0, ipsr" : "=r"(exception));
    fault.kind = exception <= HIL_FAULT_SECURE ? exception : HIL_FAULT_INTERRUPT;
    read_status(&fault);
    const bool on_process_stack = (exc_return & 4) != 0;
    const uint32_t *bottom = on_process_stack ? hil_stack_bottom : hil_handler_stack_bottom;
    const uint32_t *top = on_process_stack ? hil_stack_top : hil_handler_stack_top;
    const uint32_t stack_limit_hit = 1UL << 20; /* CFSR.STKOF of Armv8-M */
    if (is_inside(sp, bottom, top) && (fault.cfsr & stack_limit_hit) == 0) {
        const struct frame *frame = (const struct frame *)(uintptr_t)sp;
        read_frame(&fault, frame);
        /* Behind the frame, which has the floating-point registers as well where bit 4 is clear. */
        const uint32_t frame_bytes = (exc_return & 16) != 0 ? sizeof *frame : 26 * sizeof(uint32_t);
        describe_stack(&fault, bottom, top, sp + frame_bytes);
    } else {
        fault.kind = HIL_FAULT_STACK_OVERFLOW;
        describe_stack(&fault, bottom, top, sp);
    }
    if (fault.kind == HIL_FAULT_INTERRUPT) {
        fault.psr = exception;
    }
    report(&fault);
}

__attribute__((naked)) void hil_fault_handler(void) {
    __asm volatile("mov r1, lr\n\t"
                   "movs r0, #4\n\t"
                   "tst r0, r1\n\t"
                   "bne 1f\n\t"
                   "mrs r0, msp\n\t"
                   "b 2f\n"
                   "1:\n\t"
                   "mrs r0, psp\n"
                   "2:\n\t"
                   "ldr r2, =hil_fault_report\n\t"
                   "bx r2\n\t"
                   ".ltorg");
}

__attribute__((noinline)) _Noreturn void hil_assert_failed(void) {
    /* With interrupts off, so that the rest of the system is as it was. */
    (void)hil_irq_lock();
    const uintptr_t pc = (uintptr_t)__builtin_return_address(0);
    struct hil_fault fault = {
        .kind = HIL_FAULT_ASSERT,
        .pc = pc & ~(uintptr_t)1,
        .sp = (uintptr_t)__builtin_frame_address(0),
    };
    if (is_inside(fault.sp, hil_stack_bottom, hil_stack_top)) {
        describe_stack(&fault, hil_stack_bottom, hil_stack_top, fault.sp);
    }
    report(&fault);
}
