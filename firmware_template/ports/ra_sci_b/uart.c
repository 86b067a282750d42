/* Without its FIFO: registers as in Renesas's RA8M1 Group User's Manual, chapter SCI, and the
 * ICU's, which gives an event the interrupt that is its slot's. */
#include "hil_core.h"
#include "hil_port.h"

#define SCI(offset) HIL_REG(HIL_UART_BASE + (offset))
#define RDR SCI(0x00)
#define TDR SCI(0x04)
#define CCR0 SCI(0x08)
#define CCR1 SCI(0x0C)
#define CCR2 SCI(0x10)
#define CCR3 SCI(0x14)
#define CESR HIL_REG8(HIL_UART_BASE + 0x1C)
#define CSR SCI(0x48)
#define CFCLR SCI(0x68)
#define IELSR HIL_REG(0x4000C300 + 4 * HIL_UART_IRQ)

#define CCR0_RE (1UL << 0)
#define CCR0_TE (1UL << 4)
#define CCR0_RIE (1UL << 16)
#define CCR1_IDLE_HIGH (3UL << 4) /* what TX shows while it is off */
#define CCR2_8_SAMPLES (1UL << 4 | 1UL << 5)
#define CCR3_BUS_CLOCK (1UL << 7)
#define CCR3_8_BITS (2UL << 8)
#define CCR3_LSB_FIRST (1UL << 12)
#define CESR_RUNNING 0x11U
#define CSR_ERRORS (1UL << 24 | 1UL << 27 | 1UL << 28)
#define CSR_TDRE (1UL << 29)
#define CSR_TEND (1UL << 30)
#define CSR_RDRF (1UL << 31)
#define IELSR_IR (1UL << 16)

/* Double speed and 8 samples a bit: rate = clock / (8 * (BRR + 1)). */
#define BRR_VALUE(clock_hz) (((clock_hz) + 4UL * HIL_UART_BAUD) / (8UL * HIL_UART_BAUD) - 1)

_Static_assert(BRR_VALUE(HIL_UART_CLOCK_HZ) <= 255,
               "raise uart.baud: it is too slow for uart.clock_hz");

void hil_uart_receive(void) {
    IELSR &= ~IELSR_IR;
    for (uint32_t i = 0; i < HIL_RX_MAX; ++i) {
        const uint32_t status = CSR;
        if ((status & CSR_ERRORS) != 0) {
            CFCLR = CSR_ERRORS; /* it receives nothing before that */
        }
        if ((status & CSR_RDRF) == 0) {
            return;
        }
        hil_serial_put((uint8_t)RDR);
    }
}

void hil_uart_init(uint32_t clock_hz) {
    CCR0 = 0;
    (void)hil_wait8(&CESR, CESR_RUNNING, 0);
    CCR1 = CCR1_IDLE_HIGH;
    CCR2 = CCR2_8_SAMPLES | BRR_VALUE(clock_hz) << 8;
    CCR3 = CCR3_BUS_CLOCK | CCR3_8_BITS | CCR3_LSB_FIRST;
    CFCLR = CSR_ERRORS | CSR_RDRF;
    IELSR = HIL_UART_EVENT;
    CCR0 = CCR0_RE | CCR0_TE | CCR0_RIE;
    hil_irq_enable(HIL_UART_IRQ);
}

bool hil_uart_put(uint8_t byte) {
    if (!hil_wait_line(&CSR, CSR_TDRE, CSR_TDRE)) {
        return false;
    }
    TDR = byte;
    return true;
}

void hil_uart_flush(void) { (void)hil_wait_line(&CSR, CSR_TEND, CSR_TEND); }
