/* Between the ports of a RISC-V board: the core's registers, and what its roles have in addition.
 */
#ifndef HIL_CORE_H
#define HIL_CORE_H

#include "hil_roles.h"

/* Role soc, which knows the interrupt controller, too. */
/* Lets an interrupt of the controller come to hil_external_handler. */
void hil_irq_enable(uint32_t irq);
/* Serves interrupt `number` of mcause, or what the controller has behind it; false for an
 * unexpected one. Interrupts are off. */
bool hil_external_handler(uint32_t number);
/* Restarts the chip. */
_Noreturn void hil_soc_reset(void);

/* Role timer: makes an interrupt of the timer's pending after some milliseconds, and no more. It is
 * enabled while the core sleeps with interrupts off, so it is never taken. */
void hil_timer_wake(void);
void hil_timer_quiet(void);

/* Control and status registers are an extension that the libraries' -march does not name. */
#define HIL_CSR(text) ".option push\n\t.option arch, +zicsr\n\t" text "\n\t.option pop"

#define HIL_CSR_READ(csr)                                                                          \
    ({                                                                                             \
        uint32_t value_;                                                                           \
        __asm volatile(HIL_CSR("csrr %0, " #csr) : "=r"(value_)::"memory");                        \
        value_;                                                                                    \
    })
#define HIL_CSR_WRITE(csr, value)                                                                  \
    __asm volatile(HIL_CSR("csrw " #csr ", %0")::"r"(value) : "memory")
#define HIL_CSR_SET(csr, bits) __asm volatile(HIL_CSR("csrs " #csr ", %0")::"r"(bits) : "memory")
#define HIL_CSR_CLEAR(csr, bits) __asm volatile(HIL_CSR("csrc " #csr ", %0")::"r"(bits) : "memory")

#define HIL_MSTATUS_MIE (1UL << 3)
#define HIL_MSTATUS_VS (3UL << 9)
#define HIL_MSTATUS_FS (3UL << 13)
#define HIL_IRQ_EXTERNAL 11
#define HIL_MIE_TIMER (1UL << 7)
#define HIL_MIE_EXTERNAL (1UL << HIL_IRQ_EXTERNAL)

/* The entry of all traps. */
void hil_trap(void);
/* Writes mtvec. A soc whose core knows only a table of entries, or needs more than an address
 * there, replaces it. */
void hil_trap_init(void);

#if HIL_CORE_TRAPS
/* Masks interrupts; returns what hil_irq_unlock needs. */
static inline uint32_t hil_irq_lock(void) {
    uint32_t status;
    __asm volatile(HIL_CSR("csrrci %0, mstatus, 8") : "=r"(status)::"memory");
    return status & HIL_MSTATUS_MIE;
}

static inline void hil_irq_unlock(uint32_t status) { HIL_CSR_SET(mstatus, status); }

/* Sleeps until an interrupt is pending, at most for some milliseconds. With interrupts off. */
static inline void hil_sleep(void) {
    hil_timer_wake();
    __asm volatile("fence\n\twfi" ::: "memory");
    hil_timer_quiet();
}
#else
static inline uint32_t hil_irq_lock(void) { return 0; }

static inline void hil_irq_unlock(uint32_t status) { (void)status; }
#endif

/* Returns when every access before it is done. */
static inline void hil_barrier(void) { __asm volatile("fence" ::: "memory"); }

#endif
