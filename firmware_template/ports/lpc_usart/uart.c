/* The clock goes through a fractional divider, 256 / (256 + n), then a whole one, then 16 samples
 * make a bit. */
#include "hil_core.h"
#include "hil_port.h"

#define USART(offset) HIL_REG(HIL_UART_BASE + (offset))
#define CFG USART(0x000)
#define STAT USART(0x008)
#define BRG USART(0x020)
#define FIFOCFG USART(0xE00)
#define FIFOSTAT USART(0xE04)
#define FIFOTRIG USART(0xE08)
#define FIFOINTENSET USART(0xE10)
#define FIFOWR USART(0xE20)
#define FIFORD USART(0xE30)
#define FRACTION HIL_REG(HIL_UART_FRACTION)

#define CFG_ENABLE (1UL << 0)
#define CFG_8_BITS (1UL << 2)
#define STAT_TXIDLE (1UL << 3)
#define FIFOCFG_ENABLE_BOTH 3UL
#define FIFOCFG_EMPTY_BOTH (3UL << 16)
#define FIFOSTAT_RXERR (1UL << 1)
#define FIFOSTAT_TXEMPTY (1UL << 4)
#define FIFOSTAT_TXNOTFULL (1UL << 5)
#define FIFOSTAT_RXNOTEMPTY (1UL << 6)
#define FIFOTRIG_RX_AT_ONE (1UL << 1)
#define FIFOINT_RXLVL (1UL << 3)

#define SAMPLED_HZ (16UL * HIL_UART_BAUD)
#define WHOLE (HIL_UART_CLOCK_HZ / SAMPLED_HZ)
/* (clock / (whole * sampled) - 1) * 256, rounded. */
#define FRACTION_N ((HIL_UART_CLOCK_HZ * 512ULL / (WHOLE * SAMPLED_HZ) - 511) / 2)

_Static_assert(WHOLE >= 1, "lower uart.baud: it is too fast for uart.clock_hz");

void hil_uart_receive(void) {
    FIFOSTAT = FIFOSTAT_RXERR; /* an overrun: what was lost is told by the frame's checksum */
    for (uint32_t i = 0; i < HIL_RX_MAX && (FIFOSTAT & FIFOSTAT_RXNOTEMPTY) != 0; ++i) {
        hil_serial_put((uint8_t)FIFORD);
    }
}

/* Its clock is an oscillator's that needs no start: the rate is always the described one. */
void hil_uart_init(uint32_t clock_hz) {
    (void)clock_hz;
    /* 256 is not a value of the fraction; 255 is as near. */
    FRACTION = 0xFFUL | (FRACTION_N < 255 ? (uint32_t)FRACTION_N : 255UL) << 8;
    BRG = WHOLE - 1;
    FIFOCFG = FIFOCFG_ENABLE_BOTH | FIFOCFG_EMPTY_BOTH;
    FIFOTRIG = FIFOTRIG_RX_AT_ONE;
    FIFOINTENSET = FIFOINT_RXLVL;
    CFG = CFG_ENABLE | CFG_8_BITS;
    hil_irq_enable(HIL_UART_IRQ);
}

bool hil_uart_put(uint8_t byte) {
    if (!hil_wait_line(&FIFOSTAT, FIFOSTAT_TXNOTFULL, FIFOSTAT_TXNOTFULL)) {
        return false;
    }
    FIFOWR = byte;
    return true;
}

void hil_uart_flush(void) {
    (void)hil_wait_line(&FIFOSTAT, FIFOSTAT_TXEMPTY, FIFOSTAT_TXEMPTY);
    (void)hil_wait_line(&STAT, STAT_TXIDLE, STAT_TXIDLE);
}
