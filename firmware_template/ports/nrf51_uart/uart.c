#include "hil_core.h"
#include "hil_port.h"

#define UART(offset) HIL_REG(HIL_UART_BASE + (offset))
#define TASKS_STARTRX UART(0x000)
#define TASKS_STARTTX UART(0x008)
#define EVENTS_RXDRDY UART(0x108)
#define EVENTS_TXDRDY UART(0x11C)
#define INTENSET UART(0x304)
#define ENABLE UART(0x500)
#define PSELTXD UART(0x50C)
#define PSELRXD UART(0x514)
#define RXD UART(0x518)
#define TXD UART(0x51C)
#define BAUDRATE UART(0x524)

/* Pins from 32 on are those of port P1, which only nRF52833 and nRF52840 have. */
#define GPIO(pin, offset) HIL_REG(0x50000000 + 0x300 * ((pin) / 32) + (offset))
#define GPIO_OUTSET(pin) GPIO(pin, 0x508)
#define GPIO_DIRSET(pin) GPIO(pin, 0x518)
#define GPIO_PIN_CNF(pin) GPIO(pin, 0x700 + 4 * ((pin) % 32))
#define PIN_INPUT_PULL_UP (3UL << 2)

#define INT_RXDRDY (1UL << 2)
/* The register is in 2^-32 of 16 MHz, in steps of 2^12. */
#define BAUD_STEPS (((uint64_t)HIL_UART_BAUD << 32) / 16000000 + 0x800)

static bool is_sending;

void hil_uart_receive(void) {
    for (uint32_t i = 0; i < HIL_RX_MAX && EVENTS_RXDRDY != 0; ++i) {
        EVENTS_RXDRDY = 0;
        hil_serial_put((uint8_t)RXD);
    }
}

/* Its clock has one rate, whichever oscillator it comes from. */
void hil_uart_init(uint32_t clock_hz) {
    (void)clock_hz;
    GPIO_OUTSET(HIL_UART_TX_PIN) = 1UL << (HIL_UART_TX_PIN % 32);
    GPIO_DIRSET(HIL_UART_TX_PIN) = 1UL << (HIL_UART_TX_PIN % 32);
    GPIO_PIN_CNF(HIL_UART_RX_PIN) = PIN_INPUT_PULL_UP;
    PSELTXD = HIL_UART_TX_PIN;
    PSELRXD = HIL_UART_RX_PIN;
    BAUDRATE = (uint32_t)BAUD_STEPS & 0xFFFFF000UL;
    ENABLE = 4;
    EVENTS_RXDRDY = 0;
    EVENTS_TXDRDY = 0;
    INTENSET = INT_RXDRDY;
    TASKS_STARTTX = 1;
    TASKS_STARTRX = 1;
    hil_irq_enable(HIL_UART_IRQ);
}

/* Whether the transmitter is free again. */
static bool wait_until_sent(void) {
    const bool was_sent = !is_sending || hil_wait_line(&EVENTS_TXDRDY, 1, 1);

    EVENTS_TXDRDY = 0;
    is_sending = false;
    return was_sent;
}

void hil_uart_flush(void) { (void)wait_until_sent(); }

bool hil_uart_put(uint8_t byte) {
    if (!wait_until_sent()) {
        return false;
    }
    TXD = byte;
    is_sending = true;
    return true;
}
