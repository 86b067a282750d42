#include "hil_fault.h"

#include "hil_core.h"
#include "hil_port.h"
#include "hil_report.h"

static bool is_inside(uint32_t sp, const uint32_t *bottom, const uint32_t *top) {
    return sp >= (uintptr_t)bottom && sp <= (uintptr_t)top;
}

#if HIL_CORE_TRAPS
/* What hil_trap leaves on the handler stack. */
struct frame {
    uint32_t ra, t0, t1, t2;
    uint32_t a0, a1, a2, a3, a4, a5, a6, a7;
    uint32_t t3, t4, t5, t6;
    uint32_t sp, pc, status, cause, value;
};

/* Some controllers keep their levels between the two. */
enum { CAUSE_INTERRUPT = 31, CAUSE_NUMBER = 0xFFF, LAST_EXCEPTION = 23 };

void hil_trap_handler(const struct frame *frame);

/* Whether an access went below the stack of main, where its guard is. */
static bool is_below_stack(const struct frame *frame) {
    const uintptr_t bottom = (uintptr_t)hil_stack_bottom;
    return frame->sp < bottom ||
           (HIL_STACK_GUARD_BYTES > 0 && (frame->cause == 5 || frame->cause == 7) &&
            frame->value < bottom && frame->value >= bottom - HIL_STACK_GUARD_BYTES);
}

__attribute__((used)) void hil_trap_handler(const struct frame *frame) {
    const bool is_interrupt = frame->cause >> CAUSE_INTERRUPT != 0;
    const uint32_t number = frame->cause & CAUSE_NUMBER;
    if (is_interrupt && hil_external_handler(number)) {
        return;
    }
    struct hil_fault fault = {
        .pc = frame->pc,
        .lr = frame->ra,
        .sp = frame->sp,
        .bfar = frame->value,
        .psr = frame->status,
        .cfsr = frame->cause,
        .r0 = frame->a0,
        .r1 = frame->a1,
        .r2 = frame->a2,
        .r3 = frame->a3,
        .r12 = frame->a4,
    };
    const bool was_in_handler =
        is_inside(frame->sp, hil_handler_stack_bottom, hil_handler_stack_top);
    if (is_interrupt) {
        fault.kind = HIL_FAULT_INTERRUPT;
        fault.psr = 16 + number;
    } else {
        fault.kind = HIL_FAULT_EXCEPTION + (number < LAST_EXCEPTION ? number : LAST_EXCEPTION);
    }
    if (was_in_handler) {
        describe_stack(&fault, hil_handler_stack_bottom, hil_handler_stack_top, frame->sp);
    } else {
        if (is_below_stack(frame)) {
            fault.kind = HIL_FAULT_STACK_OVERFLOW;
        }
        describe_stack(&fault, hil_stack_bottom, hil_stack_top, frame->sp);
    }
    report(&fault);
}

/* mscratch has the top of the handler stack, or 0 while a handler runs: then a fault goes on below
 * what that has there. What returns had no other trap inside. */
__attribute__((naked, aligned(4))) void hil_trap(void) {
    __asm volatile(HIL_CSR("csrrw sp, mscratch, sp\n\t"
                           "bnez sp, 1f\n\t"
                           "csrr sp, mscratch\n"
                           "1:\n\t"
                           "addi sp, sp, -96\n\t"
                           "sw ra, 0(sp)\n\t"
                           "sw t0, 4(sp)\n\t"
                           "sw t1, 8(sp)\n\t"
                           "sw t2, 12(sp)\n\t"
                           "sw a0, 16(sp)\n\t"
                           "sw a1, 20(sp)\n\t"
                           "sw a2, 24(sp)\n\t"
                           "sw a3, 28(sp)\n\t"
                           "sw a4, 32(sp)\n\t"
                           "sw a5, 36(sp)\n\t"
                           "sw a6, 40(sp)\n\t"
                           "sw a7, 44(sp)\n\t"
                           "sw t3, 48(sp)\n\t"
                           "sw t4, 52(sp)\n\t"
                           "sw t5, 56(sp)\n\t"
                           "sw t6, 60(sp)\n\t"
                           "csrrw t0, mscratch, zero\n\t"
                           "sw t0, 64(sp)\n\t"
                           "csrr t0, mepc\n\t"
                           "sw t0, 68(sp)\n\t"
                           "csrr t0, mstatus\n\t"
                           "sw t0, 72(sp)\n\t"
                           "csrr t0, mcause\n\t"
                           "sw t0, 76(sp)\n\t"
                           "csrr t0, mtval\n\t"
                           "sw t0, 80(sp)\n\t"
                           "mv a0, sp\n\t"
                           "call hil_trap_handler\n\t"
                           "lw ra, 0(sp)\n\t"
                           "lw t1, 8(sp)\n\t"
                           "lw t2, 12(sp)\n\t"
                           "lw a0, 16(sp)\n\t"
                           "lw a1, 20(sp)\n\t"
                           "lw a2, 24(sp)\n\t"
                           "lw a3, 28(sp)\n\t"
                           "lw a4, 32(sp)\n\t"
                           "lw a5, 36(sp)\n\t"
                           "lw a6, 40(sp)\n\t"
                           "lw a7, 44(sp)\n\t"
                           "lw t3, 48(sp)\n\t"
                           "lw t4, 52(sp)\n\t"
                           "lw t5, 56(sp)\n\t"
                           "lw t6, 60(sp)\n\t"
                           "addi t0, sp, 96\n\t"
                           "csrw mscratch, t0\n\t"
                           "lw t0, 4(sp)\n\t"
                           "lw sp, 64(sp)\n\t"
                           "mret"));
}
#endif

__attribute__((noinline)) _Noreturn void hil_assert_failed(void) {
    /* With interrupts off, so that the rest of the system is as it was. */
    (void)hil_irq_lock();
    struct hil_fault fault = {
        .kind = HIL_FAULT_ASSERT,
        .pc = (uintptr_t)__builtin_return_address(0),
        .sp = (uintptr_t)__builtin_frame_address(0),
    };
    if (is_inside(fault.sp, hil_stack_bottom, hil_stack_top)) {
        describe_stack(&fault, hil_stack_bottom, hil_stack_top, fault.sp);
    }
    report(&fault);
}
