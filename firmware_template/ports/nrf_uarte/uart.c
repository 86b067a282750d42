/* This UART only moves whole buffers, by DMA from and to RAM. To hear every byte when it arrives
 * the receiver gets buffers of one byte; what comes between two of them waits in its FIFO. */
#include <string.h>

#include "hil_core.h"
#include "hil_port.h"

#define UARTE(offset) HIL_REG(HIL_UART_BASE + (offset))
#define TASKS_STARTRX UARTE(0x000)
#define TASKS_STARTTX UARTE(0x008)
#define EVENTS_ENDRX UARTE(0x110)
#define EVENTS_ENDTX UARTE(0x120)
#define INTENSET UARTE(0x304)
#define ENABLE UARTE(0x500)
#define PSEL_TXD UARTE(0x50C)
#define PSEL_RXD UARTE(0x514)
#define BAUDRATE UARTE(0x524)
#define RXD_PTR UARTE(0x534)
#define RXD_MAXCNT UARTE(0x538)
#define TXD_PTR UARTE(0x544)
#define TXD_MAXCNT UARTE(0x548)

/* Port P1 lies 0x300 behind P0. */
#define GPIO(pin, offset) HIL_REG(HIL_UART_GPIO + 0x300 * ((pin) / 32) + (offset))
#define GPIO_OUTSET(pin) GPIO(pin, 0x008)
#define GPIO_DIRSET(pin) GPIO(pin, 0x018)
#define GPIO_PIN_CNF(pin) GPIO(pin, 0x200 + 4 * ((pin) % 32))

#define ENABLED 8UL
#define INT_ENDRX (1UL << 4)
#define PIN_INPUT_PULL_UP (3UL << 2)
/* The maker's values; what lies between them is nowhere described. */
#define BAUD_REGISTER                                                                              \
    (HIL_UART_BAUD == 9600      ? 0x00275000UL                                                     \
     : HIL_UART_BAUD == 19200   ? 0x004EA000UL                                                     \
     : HIL_UART_BAUD == 38400   ? 0x009D0000UL                                                     \
     : HIL_UART_BAUD == 57600   ? 0x00EB0000UL                                                     \
     : HIL_UART_BAUD == 115200  ? 0x01D60000UL                                                     \
     : HIL_UART_BAUD == 230400  ? 0x03B00000UL                                                     \
     : HIL_UART_BAUD == 250000  ? 0x04000000UL                                                     \
     : HIL_UART_BAUD == 460800  ? 0x07400000UL                                                     \
     : HIL_UART_BAUD == 921600  ? 0x0F000000UL                                                     \
     : HIL_UART_BAUD == 1000000 ? 0x10000000UL                                                     \
                                : 0UL)

_Static_assert(BAUD_REGISTER != 0, "uart.baud must be 9600, 19200, 38400, 57600, 115200, 230400, "
                                   "250000, 460800, 921600 or 1000000");

static volatile uint8_t received;
static uint8_t sending[64];

void hil_uart_receive(void) {
    for (uint32_t i = 0; i < HIL_RX_MAX && EVENTS_ENDRX != 0; ++i) {
        EVENTS_ENDRX = 0;
        hil_serial_put(received);
        TASKS_STARTRX = 1;
    }
}

/* Its clock has one rate, whichever oscillator it comes from. */
void hil_uart_init(uint32_t clock_hz) {
    (void)clock_hz;
    GPIO_OUTSET(HIL_UART_TX_PIN) = 1UL << (HIL_UART_TX_PIN % 32);
    GPIO_DIRSET(HIL_UART_TX_PIN) = 1UL << (HIL_UART_TX_PIN % 32);
    GPIO_PIN_CNF(HIL_UART_RX_PIN) = PIN_INPUT_PULL_UP;
    PSEL_TXD = HIL_UART_TX_PIN;
    PSEL_RXD = HIL_UART_RX_PIN;
    BAUDRATE = BAUD_REGISTER;
    RXD_PTR = (uint32_t)(uintptr_t)&received;
    RXD_MAXCNT = 1;
    ENABLE = ENABLED;
    EVENTS_ENDRX = 0;
    INTENSET = INT_ENDRX;
    TASKS_STARTRX = 1;
    hil_irq_enable(HIL_UART_IRQ);
}

void hil_uart_write(const uint8_t *data, size_t size) {
    while (size > 0) {
        const size_t part = size < sizeof(sending) ? size : sizeof(sending);
        memcpy(sending, data, part); /* `data` may lie in flash, where the DMA does not reach */
        hil_barrier();
        TXD_PTR = (uint32_t)(uintptr_t)sending;
        TXD_MAXCNT = part;
        EVENTS_ENDTX = 0;
        TASKS_STARTTX = 1;
        if (!hil_wait_line(&EVENTS_ENDTX, 1, 1)) {
            return;
        }
        data += part;
        size -= part;
    }
}

/* Writing returns when the last byte has been sent. */
void hil_uart_flush(void) {}
