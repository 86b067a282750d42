/* What the families of the STM32 share but the F1: the GPIO's layout and the bus dividers' code.
 * Who includes this defines GPIO_BASE, the address of port A, and has the settings of the pins. */
#ifndef HIL_STM32_H
#define HIL_STM32_H

#include "hil_core.h"

#define RX_GPIO (HIL_SOC_RX_GPIO < 0 ? HIL_SOC_GPIO : HIL_SOC_RX_GPIO)
#define RX_FUNCTION (HIL_SOC_RX_FUNCTION < 0 ? HIL_SOC_PIN_FUNCTION : HIL_SOC_RX_FUNCTION)

/* In the register that enables the GPIO's clocks, where port A has bit 0. */
#define GPIO_ENABLE (1UL << HIL_SOC_GPIO | 1UL << RX_GPIO)

/* Divider of an APB in its field: 0xx undivided, 1xx by 2, 4, 8 or 16. */
#define APB_FIELD(div)                                                                             \
    ((div) == 1 ? 0UL : (div) == 2 ? 4UL : (div) == 4 ? 5UL : (div) == 8 ? 6UL : 7UL)

static inline void stm32_set_pin(uint32_t gpio, uint32_t pin, uint32_t function) {
    const uint32_t base = GPIO_BASE + 0x400UL * gpio;
    volatile uint32_t *const mode = &HIL_REG(base + 0x00);
    volatile uint32_t *const speed = &HIL_REG(base + 0x08);
    volatile uint32_t *const pull = &HIL_REG(base + 0x0C);
    volatile uint32_t *const alternate = &HIL_REG(base + 0x20 + 4 * (pin / 8));
    const uint32_t shift = 4 * (pin % 8);

    *alternate = (*alternate & ~(15UL << shift)) | function << shift;
    *speed |= 2UL << 2 * pin;
    *pull = (*pull & ~(3UL << 2 * pin)) | 1UL << 2 * pin; /* up: an open line is idle */
    *mode = (*mode & ~(3UL << 2 * pin)) | 2UL << 2 * pin;
}

/* Once the GPIO's clocks run. */
static inline void stm32_set_uart_pins(void) {
    stm32_set_pin(HIL_SOC_GPIO, HIL_SOC_TX_PIN, HIL_SOC_PIN_FUNCTION);
    stm32_set_pin(RX_GPIO, HIL_SOC_RX_PIN, RX_FUNCTION);
}

#endif
