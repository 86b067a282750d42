/* Between the ports of a Cortex-M board: the core's registers, and what its roles have in addition.
 */
#ifndef HIL_CORE_H
#define HIL_CORE_H

#include "hil_roles.h"

/* Role timer: serves interrupt HIL_TIMER_IRQ, or SysTick's exception without one. */
void hil_timer_handler(void);

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
#define HIL_MPU_RNR HIL_REG(0xE000ED98)
#define HIL_MPU_RBAR HIL_REG(0xE000ED9C)
#define HIL_MPU_RASR HIL_REG(0xE000EDA0)
#define HIL_DEMCR HIL_REG(0xE000EDFC)
#define HIL_SYST_CSR HIL_REG(0xE000E010)
#define HIL_NVIC_ISER(irq) HIL_REG(0xE000E100 + 4 * ((irq) / 32))
#define HIL_NVIC_ICER(irq) HIL_REG(0xE000E180 + 4 * ((irq) / 32))
#define HIL_NVIC_ICPR(irq) HIL_REG(0xE000E280 + 4 * ((irq) / 32))

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

/* Sleeps until an interrupt is pending, a masked one too. */
static inline void hil_sleep(void) { __asm volatile("dsb\n\twfi" ::: "memory"); }

/* Returns when every access before it is done. */
static inline void hil_barrier(void) { __asm volatile("dsb" ::: "memory"); }

#endif
