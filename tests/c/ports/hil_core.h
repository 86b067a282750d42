/* In place of a core: ports compiled for this machine reach registers that the test owns. Included
 * before everything else, so that the core's own headers find themselves included already. */
#ifndef HIL_CORE_H
#define HIL_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hil_config.h"
#include "hil_wait.h"

/* Where the register with this address on the chip is. The test also takes the call as the time to
 * look what was written since the last one, and to answer as the chip would. */
typedef volatile uint32_t *(*hil_test_locate)(uint32_t address);
extern hil_test_locate hil_test_register;

#define HIL_REG(address) (*hil_test_register((uint32_t)(address)))
#define HIL_REG16(address) (*(volatile uint16_t *)hil_test_register((uint32_t)(address)))
#define HIL_REG8(address) (*(volatile uint8_t *)hil_test_register((uint32_t)(address)))
#define HIL_CCR HIL_REG(0xE000ED14)

#ifdef HIL_UART_CLOCK_HZ
#define HIL_UART_FULL_HZ HIL_UART_CLOCK_HZ
#else
#define HIL_UART_FULL_HZ HIL_CLOCK_HZ
#endif
#define HIL_CHECK_UART_CLOCK(hz, message) _Static_assert(HIL_UART_CLOCK_HZ == (hz), message)

void hil_soc_early(void);
uint32_t hil_soc_init(void);
void hil_uart_init(uint32_t clock_hz);
void hil_uart_receive(void);
bool hil_uart_put(uint8_t byte);
void hil_uart_flush(void);
void hil_serial_put(uint8_t byte);

#ifdef HIL_TEST_OWN_IRQ
/* The port has an interrupt controller of its own, as on RISC-V. */
void hil_irq_enable(uint32_t irq);
bool hil_external_handler(uint32_t number);
void hil_serial_handler(void);
_Noreturn void hil_soc_reset(void);
/* A core's registers lie beyond all addresses of a chip's. */
#define HIL_CSR_SET(csr, bits) (HIL_REG(HIL_TEST_##csr) |= (uint32_t)(bits))
#define HIL_CSR_READ(csr) HIL_REG(HIL_TEST_##csr)
#define HIL_CSR_WRITE(csr, value) (HIL_REG(HIL_TEST_##csr) = (uint32_t)(value))
#define HIL_TEST_mie 0xFFFFF304
#define HIL_TEST_0x7E0 0xFFFFF7E0
#define HIL_TEST_0x7E1 0xFFFFF7E1
#define HIL_TEST_0x7E2 0xFFFFF7E2
#else
static inline void hil_irq_enable(uint32_t irq) {
    HIL_REG(0xE000E100 + 4 * (irq / 32)) = 1UL << (irq % 32);
}
#endif

static inline uint32_t hil_irq_lock(void) { return 0; }
static inline void hil_irq_unlock(uint32_t lock) { (void)lock; }
void hil_timer_init(void);
void hil_timer_wake(void);
void hil_timer_quiet(void);

static inline void hil_barrier(void) { __asm volatile("" ::: "memory"); }

#endif
