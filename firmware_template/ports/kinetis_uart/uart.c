#include "hil_core.h"
#include "hil_port.h"

#define UART(offset) HIL_REG8(HIL_UART_BASE + (offset))
#define BDH UART(0x00)
#define BDL UART(0x01)
#define C2 UART(0x03)
#define S1 UART(0x04)
#define D UART(0x07)
#define C4 UART(0x0A)

#define C2_RE (1U << 2)
#define C2_TE (1U << 3)
#define C2_RIE (1U << 5)
#define S1_OR (1U << 3)
#define S1_RDRF (1U << 5)
#define S1_TC (1U << 6)
#define S1_TDRE (1U << 7)

/* clock / (16 * baud) in 32nds, rounded: the lowest five bits are the fraction. */
#define DIVIDER_32(clock_hz) ((4 * (clock_hz) / HIL_UART_BAUD + 1) / 2)

_Static_assert(HIL_UART_CLOCK_HZ <= 1000000000 && DIVIDER_32(HIL_UART_CLOCK_HZ) >= 32 &&
                   DIVIDER_32(HIL_UART_CLOCK_HZ) < 32 * 8192,
               "change uart.baud: the divider does not reach it from uart.clock_hz");

void hil_uart_receive(void) {
    /* Reading D after S1 also clears an overrun, which raises the same interrupt. */
    for (uint32_t i = 0; i < HIL_RX_MAX && (S1 & (S1_RDRF | S1_OR)) != 0; ++i) {
        hil_serial_put(D);
    }
}

void hil_uart_init(uint32_t clock_hz) {
    const uint32_t divider = DIVIDER_32(clock_hz);

    C2 = 0;
    BDH = (uint8_t)(divider >> 13);
    BDL = (uint8_t)(divider >> 5);
    C4 = (uint8_t)(divider & 31);
    C2 = C2_TE | C2_RE | C2_RIE;
    hil_irq_enable(HIL_UART_IRQ);
}

bool hil_uart_put(uint8_t byte) {
    if (!hil_wait8_line(&S1, S1_TDRE, S1_TDRE)) {
        return false;
    }
    D = byte;
    return true;
}

void hil_uart_flush(void) { (void)hil_wait8_line(&S1, S1_TC, S1_TC); }
