/* Between the ports of a Cortex-M board: what each role provides, and the core's registers. */
#ifndef HIL_CORE_H
#define HIL_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hil_config.h"
#include "hil_wait.h"

/* Role soc: clocks to full speed, power and pins of the peripherals. Bounded waits only: a board
 * that does not answer as expected still starts. Where its clocks do not, it runs from what it runs
 * from after a reset. Returns the rate of the UART's clock as it is then, HIL_UART_FULL_HZ mostly,
 * so that the board can still be asked. */
uint32_t hil_soc_init(void);
/* What cannot wait until memory is prepared: watchdogs that run from reset, RAM without a clock.
 * Optional. There are no variables yet, only the first bytes of the stack's region. */
void hil_soc_early(void);

/* Role timer. The handler serves interrupt HIL_TIMER_IRQ, or SysTick's exception without one. */
void hil_timer_init(void);
void hil_timer_handler(void);

/* Role uart. Interrupt HIL_UART_IRQ, which says that there is something to receive, comes to
 * hil_serial_handler; a port without one is asked again and again. */
void hil_uart_init(uint32_t clock_hz);
/* Acknowledges the interrupt and hands what has arrived to hil_serial_put, no more than HIL_RX_MAX
 * bytes: a UART that always says that there is more must not hold the core. Called with interrupts
 * off. */
void hil_uart_receive(void);
void hil_serial_put(uint8_t byte);
void hil_serial_handler(void);
/* Returns when the last bit has left the transmitter, or does not leave it. */
void hil_uart_flush(void);

#define HIL_REG(address) (*(volatile uint32_t *)(uintptr_t)(address))
#define HIL_REG16(address) (*(volatile uint16_t *)(uintptr_t)(address))
#define HIL_REG8(address) (*(volatile uint8_t *)(uintptr_t)(address))

/* The UART's clock must be what the soc gives it. A line through the debug probe has no UART, and
 * some have the core's clock. */
#ifdef HIL_UART_CLOCK_HZ
#define HIL_UART_FULL_HZ HIL_UART_CLOCK_HZ
#define HIL_CHECK_UART_CLOCK(hz, message) _Static_assert(HIL_UART_CLOCK_HZ == (hz), message)
#else
#define HIL_UART_FULL_HZ HIL_CLOCK_HZ
#define HIL_CHECK_UART_CLOCK(hz, message) _Static_assert((hz) > 0, message)
#endif

/* System control space. */
#define HIL_ICSR HIL_REG(0xE000ED04)
#define HIL_VTOR HIL_REG(0xE000ED08)
#define HIL_AIRCR HIL_REG(0xE000ED0C)
#define HIL_CCR HIL_REG(0xE000ED14)
#define HIL_SHCSR HIL_REG(0xE000ED24)
#define HIL_CFSR HIL_REG(0xE000ED28)
#define HIL_HFSR HIL_REG(0xE000ED2C)
#define HIL_MMFAR HIL_REG(0xE000ED34)
#define HIL_BFAR HIL_REG(0xE000ED38)
#define HIL_CPACR HIL_REG(0xE000ED88)
#define HIL_MPU_TYPE HIL_REG(0xE000ED90)
#define HIL_MPU_CTRL HIL_REG(0xE000ED94)
#define HIL_MPU_RBAR HIL_REG(0xE000ED9C)
#define HIL_MPU_RASR HIL_REG(0xE000EDA0)
#define HIL_DEMCR HIL_REG(0xE000EDFC)
#define HIL_NVIC_ISER(irq) HIL_REG(0xE000E100 + 4 * ((irq) / 32))

/* Baseline cores (M0, M0+, M23) lack the fault status registers and the cycle counter. */
#if defined(__ARM_ARCH_6M__) || defined(__ARM_ARCH_8M_BASE__)
#define HIL_BASELINE 1
#else
#define HIL_BASELINE 0
#endif

#if defined(__ARM_ARCH_8M_MAIN__) || defined(__ARM_ARCH_8_1M_MAIN__)
#define HIL_HAS_STACK_LIMIT 1
#else
#define HIL_HAS_STACK_LIMIT 0
#endif

/* From the linker script: addresses, not objects, so compare and subtract them as uintptr_t. */
extern uint32_t hil_stack_bottom[];
extern uint32_t hil_stack_top[];
extern uint32_t hil_handler_stack_bottom[];
extern uint32_t hil_handler_stack_top[];

/* Fills the stack of main, which must not be in use. */
void hil_stack_paint(void);

/* The vector of all faults. */
void hil_fault_handler(void);

static inline void hil_irq_enable(uint32_t irq) { HIL_NVIC_ISER(irq) = 1UL << (irq % 32); }

/* Masks interrupts; returns what hil_irq_unlock needs. */
static inline uint32_t hil_irq_lock(void) {
    uint32_t primask;
    __asm volatile("mrs %0, primask\n\tcpsid i" : "=r"(primask)::"memory");
    return primask;
}

static inline void hil_irq_unlock(uint32_t primask) {
    __asm volatile("msr primask, %0" ::"r"(primask) : "memory");
}

/* Returns when every access before it is done. */
static inline void hil_barrier(void) { __asm volatile("dsb" ::: "memory"); }

#endif
