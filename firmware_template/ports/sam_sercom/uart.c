#include "hil_core.h"
#include "hil_port.h"

#define CTRLA HIL_REG(HIL_UART_BASE + 0x00)
#define CTRLB HIL_REG(HIL_UART_BASE + 0x04)
#define BAUD HIL_REG16(HIL_UART_BASE + 0x0C)
#define INTENSET HIL_REG8(HIL_UART_BASE + 0x16)
#define INTFLAG HIL_REG8(HIL_UART_BASE + 0x18)
#define STATUS HIL_REG16(HIL_UART_BASE + 0x1A)
#define SYNCBUSY HIL_REG(HIL_UART_BASE + 0x1C)
#define DATA HIL_REG(HIL_UART_BASE + 0x28)

#define CTRLA_SWRST (1UL << 0)
#define CTRLA_ENABLE (1UL << 1)
#define CTRLA_OWN_CLOCK (1UL << 2)
#define CTRLA_RX_PAD_1 (1UL << 20)
#define CTRLA_LSB_FIRST (1UL << 30)
#define CTRLB_TXEN (1UL << 16)
#define CTRLB_RXEN (1UL << 17)
#define INT_DRE 1U
#define INT_TXC 2U
#define INT_RXC 4U
#define STATUS_BUFOVF (1U << 2)

_Static_assert(HIL_UART_CLOCK_HZ / HIL_UART_BAUD >= 17,
               "lower uart.baud: it is too fast for uart.clock_hz");

static bool is_sending;

void hil_uart_receive(void) {
    for (uint32_t i = 0; i < HIL_RX_MAX && (INTFLAG & INT_RXC) != 0; ++i) {
        STATUS = STATUS_BUFOVF;
        hil_serial_put((uint8_t)DATA);
    }
}

/* 16 samples make a bit: rate = clock / 16 * (1 - BAUD / 65536). The quotient of 2^20 * baud and
 * the clock, rounded, a bit at a time: no division of 64 bits is worth its size here. */
static uint16_t baud_value(uint32_t clock_hz) {
    uint32_t quotient = 0;
    uint32_t rest = HIL_UART_BAUD;

    for (uint32_t i = 0; i < 20; ++i) {
        rest *= 2;
        quotient = 2 * quotient + (rest >= clock_hz);
        rest -= rest >= clock_hz ? clock_hz : 0;
    }
    return (uint16_t)(65536 - quotient - (2 * rest >= clock_hz));
}

void hil_uart_init(uint32_t clock_hz) {
    CTRLA = CTRLA_SWRST;
    (void)hil_wait(&SYNCBUSY, 1, 0);
    BAUD = baud_value(clock_hz);
    CTRLB = CTRLB_TXEN | CTRLB_RXEN;
    (void)hil_wait(&SYNCBUSY, 4, 0);
    CTRLA = CTRLA_OWN_CLOCK | CTRLA_RX_PAD_1 | CTRLA_LSB_FIRST | CTRLA_ENABLE;
    (void)hil_wait(&SYNCBUSY, 2, 0);
    INTENSET = INT_RXC;
    hil_irq_enable(HIL_UART_IRQ);
}

bool hil_uart_put(uint8_t byte) {
    if (!hil_wait8_line(&INTFLAG, INT_DRE, INT_DRE)) {
        return false;
    }
    DATA = byte;
    is_sending = true;
    return true;
}

void hil_uart_flush(void) {
    /* The flag of the last bit is down after reset, until something was sent. */
    if (is_sending) {
        (void)hil_wait8_line(&INTFLAG, INT_TXC, INT_TXC);
    }
    is_sending = false;
}
