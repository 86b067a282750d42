/* 8 bits, no parity, its buffers of 16 bytes on. */
#include "hil_core.h"
#include "hil_port.h"

#define REGISTER(number) HIL_REG8(HIL_UART_BASE + (number)*HIL_UART_STRIDE)
#define DATA REGISTER(0)
#define DIVISOR_LOW REGISTER(0)
#define INTERRUPTS REGISTER(1)
#define DIVISOR_HIGH REGISTER(1)
#define FIFO_CONTROL REGISTER(2)
#define LINE_CONTROL REGISTER(3)
#define LINE_STATUS REGISTER(5)

#define INTERRUPT_RECEIVED 1U
#define FIFO_ON_AND_CLEAR 7U
#define LINE_8N1 3U
#define LINE_DIVISOR (1U << 7)
#define STATUS_RECEIVED 1U
#define STATUS_ROOM (1U << 5)
#define STATUS_SENT (1U << 6)

_Static_assert(HIL_UART_CLOCK_HZ / 16 >= HIL_UART_BAUD,
               "lower uart.baud: it is too fast for uart.clock_hz");

void hil_uart_receive(void) {
    for (uint32_t i = 0; i < HIL_RX_MAX && (LINE_STATUS & STATUS_RECEIVED) != 0; ++i) {
        hil_serial_put(DATA);
    }
}

void hil_uart_init(uint32_t clock_hz) {
    const uint32_t divisor = (clock_hz + 8 * HIL_UART_BAUD) / (16 * HIL_UART_BAUD);
    INTERRUPTS = 0;
    LINE_CONTROL = LINE_DIVISOR;
    DIVISOR_LOW = (uint8_t)divisor;
    DIVISOR_HIGH = (uint8_t)(divisor >> 8);
    LINE_CONTROL = LINE_8N1;
    FIFO_CONTROL = FIFO_ON_AND_CLEAR;
    INTERRUPTS = INTERRUPT_RECEIVED;
    hil_irq_enable(HIL_UART_IRQ);
}

bool hil_uart_put(uint8_t byte) {
    if (!hil_wait8_line(&LINE_STATUS, STATUS_ROOM, STATUS_ROOM)) {
        return false;
    }
    DATA = byte;
    return true;
}

void hil_uart_flush(void) { (void)hil_wait8_line(&LINE_STATUS, STATUS_SENT, STATUS_SENT); }
