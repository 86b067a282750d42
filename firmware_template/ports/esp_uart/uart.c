/* 8 bits, no parity. Registers: technical reference manuals of ESP32-C3 and C6, chapter UART. */
#include "hil_core.h"
#include "hil_port.h"

#define FIFO HIL_REG(HIL_UART_BASE + 0x00)
#define INT_ENABLE HIL_REG(HIL_UART_BASE + 0x0C)
#define INT_CLEAR HIL_REG(HIL_UART_BASE + 0x10)
#define CLKDIV HIL_REG(HIL_UART_BASE + 0x14)
#define STATUS HIL_REG(HIL_UART_BASE + 0x1C)
#define CONF0 HIL_REG(HIL_UART_BASE + 0x20)
#define CONF1 HIL_REG(HIL_UART_BASE + 0x24)
#define UPDATE HIL_REG(HIL_UART_BASE + HIL_UART_UPDATE_REGISTER)
#define STATE HIL_REG(HIL_UART_BASE + HIL_UART_STATE_REGISTER)

#define INT_RECEIVED 1UL
#define CONF0_FORMAT 0x3FUL
#define CONF0_8N1 (3UL << 2 | 1UL << 4)
#define CONF1_THRESHOLD 0xFFUL
#define STATUS_RECEIVED 0xFFUL
/* The bit that says of a sender of 128 bytes that it is half full. */
#define STATUS_NO_ROOM (3UL << 22)
#define STATUS_TO_SEND (0xFFUL << 16)
#define STATE_SENDS (0xFUL << 4)
#define UPDATE_NOW (1UL << HIL_UART_UPDATE_BIT)
/* From the crystal, undivided; all clocks on. */
#define CLOCK_XTAL (3UL << 20 | 1UL << 22 | 1UL << 24 | 1UL << 25)

_Static_assert(HIL_UART_CLOCK_HZ / HIL_UART_BAUD >= 8,
               "lower uart.baud: it is too fast for uart.clock_hz");
_Static_assert(HIL_UART_CLOCK_HZ / HIL_UART_BAUD <= 0xFFF,
               "raise uart.baud: 12 bits divide uart.clock_hz");

void hil_uart_receive(void) {
    INT_CLEAR = INT_RECEIVED;
    for (uint32_t i = 0; i < HIL_RX_MAX && (STATUS & STATUS_RECEIVED) != 0; ++i) {
        hil_serial_put((uint8_t)FIFO);
    }
}

void hil_uart_init(uint32_t clock_hz) {
    /* In sixteenths, the last four of which lie apart. */
    const uint32_t divisor = (clock_hz * 16UL + HIL_UART_BAUD / 2) / HIL_UART_BAUD;
#if HIL_UART_CLOCK_REGISTER != 0
    HIL_REG(HIL_UART_BASE + HIL_UART_CLOCK_REGISTER) = CLOCK_XTAL;
#endif
    INT_ENABLE = 0;
    CLKDIV = divisor >> 4 | (divisor & 15UL) << 20;
    CONF0 = (CONF0 & ~CONF0_FORMAT) | CONF0_8N1;
    CONF1 = (CONF1 & ~CONF1_THRESHOLD) | 1UL;
    UPDATE |= UPDATE_NOW;
    (void)hil_wait(&UPDATE, UPDATE_NOW, 0);
    INT_CLEAR = INT_RECEIVED;
    INT_ENABLE = INT_RECEIVED;
    hil_irq_enable(HIL_UART_IRQ);
}

bool hil_uart_put(uint8_t byte) {
    if (!hil_wait_line(&STATUS, STATUS_NO_ROOM, 0)) {
        return false;
    }
    FIFO = byte;
    return true;
}

void hil_uart_flush(void) {
    (void)hil_wait_line(&STATUS, STATUS_TO_SEND, 0);
    (void)hil_wait_line(&STATE, STATE_SENDS, 0);
}
