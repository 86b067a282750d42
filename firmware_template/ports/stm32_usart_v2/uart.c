/* With the FIFO off, as it is after reset; not every family has one. Registers: RM0351 (L4) and
 * RM0433 (H7), alike in all families of this generation. */
#include "hil_core.h"
#include "hil_port.h"

#define CR1 HIL_REG(HIL_UART_BASE + 0x00)
#define BRR HIL_REG(HIL_UART_BASE + 0x0C)
#define ISR HIL_REG(HIL_UART_BASE + 0x1C)
#define ICR HIL_REG(HIL_UART_BASE + 0x20)
#define RDR HIL_REG(HIL_UART_BASE + 0x24)
#define TDR HIL_REG(HIL_UART_BASE + 0x28)

#define ISR_ORE (1UL << 3) /* and its bit in ICR */
#define ISR_RXNE (1UL << 5)
#define ISR_TC (1UL << 6)
#define ISR_TXE (1UL << 7)
#define CR1_UE (1UL << 0)
#define CR1_RE (1UL << 2)
#define CR1_TE (1UL << 3)
#define CR1_RXNEIE (1UL << 5)

/* An LPUART divides in steps of 1/256 of its clock. In two steps, which 32 bits hold. */
#define SCALE (HIL_UART_LOW_POWER ? 256UL : 1UL)
#define DIVIDER(clock_hz)                                                                          \
    ((clock_hz) / HIL_UART_BAUD * SCALE +                                                          \
     ((clock_hz) % HIL_UART_BAUD * SCALE + HIL_UART_BAUD / 2) / HIL_UART_BAUD)

_Static_assert(HIL_UART_BAUD <= 16000000, "lower uart.baud: 256 times it must fit in 32 bits");
_Static_assert(DIVIDER(HIL_UART_CLOCK_HZ) >= (HIL_UART_LOW_POWER ? 0x300 : 16),
               "lower uart.baud: it is too fast for uart.clock_hz");
_Static_assert(DIVIDER(HIL_UART_CLOCK_HZ) <= (HIL_UART_LOW_POWER ? 0xFFFFF : 0xFFFF),
               "raise uart.baud: it is too slow for uart.clock_hz");

void hil_uart_receive(void) {
    for (uint32_t i = 0; i < HIL_RX_MAX; ++i) {
        const uint32_t state = ISR;
        if ((state & (ISR_RXNE | ISR_ORE)) == 0) {
            return;
        }
        if ((state & ISR_RXNE) != 0) {
            hil_serial_put((uint8_t)RDR);
        }
        ICR = ISR_ORE; /* an overrun raises the same interrupt */
    }
}

void hil_uart_init(uint32_t clock_hz) {
    CR1 = 0; /* the divider takes no write while the UART is on, which it may be after a reset */
    BRR = DIVIDER(clock_hz);
    CR1 = CR1_UE | CR1_TE | CR1_RE | CR1_RXNEIE;
    hil_irq_enable(HIL_UART_IRQ);
}

bool hil_uart_put(uint8_t byte) {
    if (!hil_wait_line(&ISR, ISR_TXE, ISR_TXE)) {
        return false;
    }
    TDR = byte;
    return true;
}

void hil_uart_flush(void) { (void)hil_wait_line(&ISR, ISR_TC, ISR_TC); }
