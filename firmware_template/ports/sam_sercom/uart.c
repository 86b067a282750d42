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

/* 16 samples make a bit: rate = clock / 16 * (1 - BAUD / 65536). */
#define BAUD_VALUE                                                                                 \
    (65536 - (65536ULL * 16 * HIL_UART_BAUD + HIL_UART_CLOCK_HZ / 2) / HIL_UART_CLOCK_HZ)

_Static_assert(HIL_UART_CLOCK_HZ / HIL_UART_BAUD >= 17, "uart.baud is too fast for its clock");

static bool is_sending;

void hil_uart_receive(void) {
    while ((INTFLAG & INT_RXC) != 0) {
        STATUS = STATUS_BUFOVF;
        hil_serial_put((uint8_t)DATA);
    }
}

void hil_uart_init(void) {
    CTRLA = CTRLA_SWRST;
    (void)hil_wait(&SYNCBUSY, 1, 0);
    BAUD = (uint16_t)BAUD_VALUE;
    CTRLB = CTRLB_TXEN | CTRLB_RXEN;
    (void)hil_wait(&SYNCBUSY, 4, 0);
    CTRLA = CTRLA_OWN_CLOCK | CTRLA_RX_PAD_1 | CTRLA_LSB_FIRST | CTRLA_ENABLE;
    (void)hil_wait(&SYNCBUSY, 2, 0);
    INTENSET = INT_RXC;
    hil_irq_enable(HIL_UART_IRQ);
}

void hil_uart_write(const uint8_t *data, size_t size) {
    for (size_t i = 0; i < size; ++i) {
        while ((INTFLAG & INT_DRE) == 0) {
        }
        DATA = data[i];
        is_sending = true;
    }
}

void hil_uart_flush(void) {
    /* The flag of the last bit is down after reset, until something was sent. */
    while (is_sending && (INTFLAG & INT_TXC) == 0) {
    }
    is_sending = false;
}
