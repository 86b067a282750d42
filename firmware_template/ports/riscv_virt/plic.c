/* The machine's platform-level interrupt controller; context 0 is the first core in machine mode.
 */
#include "hil_core.h"

#define PLIC_PRIORITY(irq) HIL_REG(0x0C000000 + 4 * (irq))
#define PLIC_ENABLE(irq) HIL_REG(0x0C002000 + 4 * ((irq) / 32))
#define PLIC_THRESHOLD HIL_REG(0x0C200000)
#define PLIC_CLAIM HIL_REG(0x0C200004)

void hil_irq_enable(uint32_t irq) {
    PLIC_PRIORITY(irq) = 1;
    PLIC_ENABLE(irq) |= 1UL << (irq % 32);
    PLIC_THRESHOLD = 0;
    HIL_CSR_SET(mie, HIL_MIE_EXTERNAL);
}

bool hil_external_handler(uint32_t number) {
    if (number != HIL_IRQ_EXTERNAL) {
        return false;
    }
    const uint32_t irq = PLIC_CLAIM;
    if (irq == HIL_UART_IRQ) {
        hil_serial_handler();
    }
    PLIC_CLAIM = irq;
    /* 0: it has gone again. */
    return irq == HIL_UART_IRQ || irq == 0;
}
