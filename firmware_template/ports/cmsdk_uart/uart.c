#include "hil_core.h"
#include "hil_port.h"

#define DATA HIL_REG(HIL_UART_BASE + 0x00)
#define STATE HIL_REG(HIL_UART_BASE + 0x04)
#define CTRL HIL_REG(HIL_UART_BASE + 0x08)
#define INTCLEAR HIL_REG(HIL_UART_BASE + 0x0C)
#define BAUDDIV HIL_REG(HIL_UART_BASE + 0x10)

#define STATE_TX_FULL 1UL
#define STATE_RX_FULL 2UL
#define CTRL_TX_ENABLE 1UL
#define CTRL_RX_ENABLE 2UL
#define CTRL_RX_INTERRUPT 8UL
#define INT_RX 2UL

_Static_assert(HIL_CLOCK_HZ / HIL_UART_BAUD >= 16,
               "lower uart.baud: 16 clocks a bit is this UART's least");

void hil_uart_receive(void) {
    INTCLEAR = INT_RX;
    for (uint32_t i = 0; i < HIL_RX_MAX && (STATE & STATE_RX_FULL) != 0; ++i) {
        INTCLEAR = INT_RX;
        hil_serial_put((uint8_t)DATA);
    }
}

void hil_uart_init(uint32_t clock_hz) {
    BAUDDIV = (clock_hz + HIL_UART_BAUD / 2) / HIL_UART_BAUD;
    CTRL = CTRL_TX_ENABLE | CTRL_RX_ENABLE | CTRL_RX_INTERRUPT;
    hil_irq_enable(HIL_UART_IRQ);
}

bool hil_uart_put(uint8_t byte) {
    if (!hil_wait_line(&STATE, STATE_TX_FULL, 0)) {
        return false;
    }
    DATA = byte;
    return true;
}

void hil_uart_flush(void) {
    (void)hil_wait_line(&STATE, STATE_TX_FULL, 0);
    /* The buffer is empty but the last byte is being shifted out, which nothing shows. */
    hil_pause((uint32_t)(11ULL * HIL_CLOCK_HZ / HIL_UART_BAUD));
}
