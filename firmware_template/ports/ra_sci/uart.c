/* Without a FIFO: registers as in Renesas's RA4M1 Group User's Manual, chapter SCI, and the ICU's,
 * which gives an event the interrupt that is its slot's. */
#include "hil_core.h"
#include "hil_port.h"

#define SMR HIL_REG8(HIL_UART_BASE + 0)
#define BRR HIL_REG8(HIL_UART_BASE + 1)
#define SCR HIL_REG8(HIL_UART_BASE + 2)
#define TDR HIL_REG8(HIL_UART_BASE + 3)
#define SSR HIL_REG8(HIL_UART_BASE + 4)
#define RDR HIL_REG8(HIL_UART_BASE + 5)
#define SCMR HIL_REG8(HIL_UART_BASE + 6)
#define SEMR HIL_REG8(HIL_UART_BASE + 7)
#define IELSR HIL_REG(0x40006300 + 4 * HIL_UART_IRQ)

#define SCR_RIE (1U << 6)
#define SCR_TE (1U << 5)
#define SCR_RE (1U << 4)
#define SSR_TDRE (1U << 7)
#define SSR_RDRF (1U << 6)
#define SSR_ERRORS (7U << 3)
#define SSR_TEND (1U << 2)
#define SCMR_8_BITS_LSB_FIRST 0xF2U
#define SEMR_8_SAMPLES (1U << 4 | 1U << 6)
#define IELSR_IR (1UL << 16)

/* Double speed and 8 samples a bit: rate = clock / (8 * (BRR + 1)). */
#define BRR_VALUE(clock_hz) (((clock_hz) + 4UL * HIL_UART_BAUD) / (8UL * HIL_UART_BAUD) - 1)

_Static_assert(BRR_VALUE(HIL_UART_CLOCK_HZ) <= 255,
               "raise uart.baud: it is too slow for uart.clock_hz");

void hil_uart_receive(void) {
    IELSR &= ~IELSR_IR;
    for (uint32_t i = 0; i < HIL_RX_MAX; ++i) {
        const uint32_t status = SSR;
        if ((status & SSR_ERRORS) != 0) {
            SSR = (uint8_t)(status & ~SSR_ERRORS); /* it receives nothing before that */
        }
        if ((status & SSR_RDRF) == 0) {
            return;
        }
        hil_serial_put(RDR);
    }
}

void hil_uart_init(uint32_t clock_hz) {
    SCR = 0;
    SMR = 0; /* asynchronous, 8 bits, no parity */
    SCMR = SCMR_8_BITS_LSB_FIRST;
    SEMR = SEMR_8_SAMPLES;
    BRR = (uint8_t)BRR_VALUE(clock_hz);
    hil_pause(HIL_CLOCK_HZ / HIL_UART_BAUD); /* a bit's time before it starts */
    IELSR = HIL_UART_EVENT;
    SCR = SCR_RIE | SCR_TE | SCR_RE;
    hil_irq_enable(HIL_UART_IRQ);
}

bool hil_uart_put(uint8_t byte) {
    if (!hil_wait8_line(&SSR, SSR_TDRE, SSR_TDRE)) {
        return false;
    }
    TDR = byte;
    return true;
}

void hil_uart_flush(void) { (void)hil_wait8_line(&SSR, SSR_TEND, SSR_TEND); }
