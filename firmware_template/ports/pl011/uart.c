#include "hil_core.h"
#include "hil_port.h"

#define DR HIL_REG(HIL_UART_BASE + 0x00)
#define FR HIL_REG(HIL_UART_BASE + 0x18)
#define IBRD HIL_REG(HIL_UART_BASE + 0x24)
#define FBRD HIL_REG(HIL_UART_BASE + 0x28)
#define LCRH HIL_REG(HIL_UART_BASE + 0x2C)
#define CR HIL_REG(HIL_UART_BASE + 0x30)
#define IMSC HIL_REG(HIL_UART_BASE + 0x38)
#define ICR HIL_REG(HIL_UART_BASE + 0x44)

#define FR_BUSY (1UL << 3)
#define FR_RX_EMPTY (1UL << 4)
#define FR_TX_FULL (1UL << 5)
#define LCRH_FIFO_8N1 (7UL << 4)
#define CR_UART_TX_RX (1UL << 0 | 1UL << 8 | 1UL << 9)
#define INT_RX_AND_TIMEOUT (1UL << 4 | 1UL << 6)

_Static_assert(HIL_CLOCK_HZ <= 1000000000, "lower clock_hz: four times it must fit in 32 bits");

void hil_uart_receive(void) {
    ICR = INT_RX_AND_TIMEOUT;
    for (uint32_t i = 0; i < HIL_RX_MAX && (FR & FR_RX_EMPTY) == 0; ++i) {
        hil_serial_put((uint8_t)DR);
    }
}

void hil_uart_init(uint32_t clock_hz) {
    /* In 64ths: clock / (16 * baud) * 64, rounded. */
    const uint32_t divider = (4 * clock_hz + HIL_UART_BAUD / 2) / HIL_UART_BAUD;

    CR = 0;
    IBRD = divider / 64;
    FBRD = divider % 64;
    LCRH = LCRH_FIFO_8N1;
    CR = CR_UART_TX_RX;
    IMSC = INT_RX_AND_TIMEOUT;
    hil_irq_enable(HIL_UART_IRQ);
}

bool hil_uart_put(uint8_t byte) {
    if (!hil_wait_line(&FR, FR_TX_FULL, 0)) {
        return false;
    }
    DR = byte;
    return true;
}

void hil_uart_flush(void) { (void)hil_wait_line(&FR, FR_BUSY, 0); }
