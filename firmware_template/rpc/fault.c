/* The last fault: kept until the next reset, and reported on the line. */
#include "fault.h"

#include <string.h>

#include "hil_rpc.h"
#include "hil_rpc_command.h"
#include "session.h"

static struct hil_fault fault; /* kind 0: none since the reset */

/* The words of the stack that the fault left, the newest first, as many as a few frames take. */
static void send_stack(void) {
    enum { FRAMES = 6 };
    const size_t most = (HIL_PAYLOAD_MAX(HIL_FRAME_MIN) - HIL_STACK_EVENT_DATA) / 4 * 4;
    uint8_t *event = hil_session_event();
    uintptr_t at = fault.stack_from;

    for (size_t i = 0; i < FRAMES && at < fault.stack_top; ++i) {
        const size_t size = fault.stack_top - at < most ? fault.stack_top - at : most;
        hil_put_u64(event + HIL_STACK_EVENT_BOTTOM, fault.stack_bottom);
        hil_put_u64(event + HIL_STACK_EVENT_TOP, fault.stack_top);
        hil_put_u32(event + HIL_STACK_EVENT_PEAK_BYTES, fault.stack_peak_bytes);
        hil_put_u64(event + HIL_STACK_EVENT_ADDRESS, at);
        memcpy(event + HIL_STACK_EVENT_DATA, (const void *)at, size);
        hil_session_send_event(HIL_EVENT_STACK, 0, HIL_STACK_EVENT_DATA + size);
        at += size;
    }
}

uint32_t hil_fault_send(void) {
    uint8_t *event = hil_session_event();

    if (fault.kind == 0) {
        return 0;
    }
    send_stack();
    hil_put_u32(event + HIL_FAULT_EVENT_KIND, (uint32_t)fault.kind);
    hil_put_u64(event + HIL_FAULT_EVENT_PC, fault.pc);
    hil_put_u64(event + HIL_FAULT_EVENT_LR, fault.lr);
    hil_put_u64(event + HIL_FAULT_EVENT_SP, fault.sp);
    hil_put_u64(event + HIL_FAULT_EVENT_MMFAR, fault.mmfar);
    hil_put_u64(event + HIL_FAULT_EVENT_BFAR, fault.bfar);
    hil_put_u32(event + HIL_FAULT_EVENT_PSR, fault.psr);
    hil_put_u32(event + HIL_FAULT_EVENT_CFSR, fault.cfsr);
    hil_put_u32(event + HIL_FAULT_EVENT_HFSR, fault.hfsr);
    hil_put_u32(event + HIL_FAULT_EVENT_R0, fault.r0);
    hil_put_u32(event + HIL_FAULT_EVENT_R1, fault.r1);
    hil_put_u32(event + HIL_FAULT_EVENT_R2, fault.r2);
    hil_put_u32(event + HIL_FAULT_EVENT_R3, fault.r3);
    hil_put_u32(event + HIL_FAULT_EVENT_R12, fault.r12);
    hil_session_send_event(HIL_EVENT_FAULT, 0, HIL_FAULT_EVENT_BYTES);
    return fault.kind;
}

void hil_rpc_fault(const struct hil_fault *new_fault) {
    fault = *new_fault;
    /* The fault may have struck inside of the server. */
    hil_session_drop();
    (void)hil_fault_send();
}
