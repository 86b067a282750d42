/* The registers that hil/access/verilator/simulator.cpp has. There are no interrupts: where the
 * core has nothing to do, an access to WAIT holds it until input comes, and no cycle is simulated
 * meanwhile. So neither a wait nor input during a run changes what is counted. */
#include "hil_core.h"
#include "hil_port.h"

#define BASE 0xF0000000UL
#define RECEIVE HIL_REG(BASE + 0x00)
#define SEND HIL_REG(BASE + 0x04)
#define WAIT HIL_REG(BASE + 0x08)
#define TIME_LOW HIL_REG(BASE + 0x0C)
#define TIME_HIGH HIL_REG(BASE + 0x10)
#define START HIL_REG(BASE + 0x14)
#define RESET HIL_REG(BASE + 0x18)

#define NOTHING 0xFFFFFFFFUL

uint32_t hil_soc_init(void) { return HIL_CLOCK_HZ; }

#if HIL_CORE_TRAPS
/* Some cores ignore the low eight bits of mtvec. */
static __attribute__((naked, aligned(256))) void entry(void) { __asm volatile("j hil_trap"); }

void hil_trap_init(void) { HIL_CSR_WRITE(mtvec, (uint32_t)(uintptr_t)entry); }
#endif

bool hil_external_handler(uint32_t number) {
    (void)number;
    return false;
}

_Noreturn void hil_soc_reset(void) {
    RESET = 1;
    for (;;) {
    }
}

void hil_timer_init(void) {}

void hil_timer_wake(void) {}

void hil_timer_quiet(void) {}

uint64_t hil_ticks(void) {
    const uint32_t low = TIME_LOW;
    return (uint64_t)TIME_HIGH << 32 | low;
}

/* The simulator notes how many instructions retire until the next call of hil_ticks. */
uint64_t hil_ticks_align(void) {
    START = 1;
    return hil_ticks();
}

void hil_uart_init(uint32_t clock_hz) { (void)clock_hz; }

void hil_uart_receive(void) {
    for (uint32_t i = 0; i < HIL_RX_MAX; ++i) {
        const uint32_t byte = RECEIVE;
        if (byte == NOTHING) {
            return;
        }
        hil_serial_put((uint8_t)byte);
    }
}

void hil_uart_idle(void) { (void)WAIT; }

bool hil_uart_put(uint8_t byte) {
    SEND = byte;
    return true;
}

void hil_uart_flush(void) {}
