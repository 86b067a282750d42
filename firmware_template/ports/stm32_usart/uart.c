#include "hil_core.h"
#include "hil_port.h"

#define SR HIL_REG(HIL_UART_BASE + 0x00)
#define DR HIL_REG(HIL_UART_BASE + 0x04)
#define BRR HIL_REG(HIL_UART_BASE + 0x08)
#define CR1 HIL_REG(HIL_UART_BASE + 0x0C)

#define SR_ORE (1UL << 3)
#define SR_RXNE (1UL << 5)
#define SR_TC (1UL << 6)
#define SR_TXE (1UL << 7)
#define CR1_RE (1UL << 2)
#define CR1_TE (1UL << 3)
#define CR1_RXNEIE (1UL << 5)
#define CR1_UE (1UL << 13)

_Static_assert(HIL_UART_CLOCK_HZ / HIL_UART_BAUD >= 16,
               "lower uart.baud: it is too fast for uart.clock_hz");

void hil_uart_receive(void) {
    /* Reading DR after SR also clears an overrun, which raises the same interrupt. */
    for (uint32_t i = 0; i < HIL_RX_MAX && (SR & (SR_RXNE | SR_ORE)) != 0; ++i) {
        hil_serial_put((uint8_t)DR);
    }
}

void hil_uart_init(uint32_t clock_hz) {
    BRR = (clock_hz + HIL_UART_BAUD / 2) / HIL_UART_BAUD;
    CR1 = CR1_UE | CR1_TE | CR1_RE | CR1_RXNEIE;
    hil_irq_enable(HIL_UART_IRQ);
}

bool hil_uart_put(uint8_t byte) {
    if (!hil_wait_line(&SR, SR_TXE, SR_TXE)) {
        return false;
    }
    DR = byte;
    return true;
}

void hil_uart_flush(void) { (void)hil_wait_line(&SR, SR_TC, SR_TC); }
