/* A serial port of USB that the chip's hardware provides, in packets of up to 64 bytes. Registers:
 * technical reference manuals of ESP32-C3 and C6, chapter USB Serial/JTAG Controller. */
#include "hil_core.h"
#include "hil_port.h"

#define DATA HIL_REG(HIL_UART_BASE + 0x00)
#define STATUS HIL_REG(HIL_UART_BASE + 0x04)
#define INT_ENABLE HIL_REG(HIL_UART_BASE + 0x10)
#define INT_CLEAR HIL_REG(HIL_UART_BASE + 0x14)

#define INT_RECEIVED (1UL << 2)
#define STATUS_DONE (1UL << 0)
#define STATUS_ROOM (1UL << 1)
#define STATUS_RECEIVED (1UL << 2)
/* A host that reads takes a packet every millisecond; some 100 ms, at ten clocks a look. */
#define HOST_LOOKS (HIL_CLOCK_HZ / 100)

void hil_uart_receive(void) {
    INT_CLEAR = INT_RECEIVED;
    for (uint32_t i = 0; i < HIL_RX_MAX && (STATUS & STATUS_RECEIVED) != 0; ++i) {
        hil_serial_put((uint8_t)DATA);
    }
}

void hil_uart_init(uint32_t clock_hz) {
    (void)clock_hz;
    INT_CLEAR = INT_RECEIVED;
    INT_ENABLE = INT_RECEIVED;
    hil_irq_enable(HIL_UART_IRQ);
}

static bool has_room(void) { return hil_wait_looks(&STATUS, STATUS_ROOM, STATUS_ROOM, HOST_LOOKS); }

/* A full packet leaves by itself, a part of one when that is said. */
void hil_uart_write(const uint8_t *data, size_t size) {
    for (size_t i = 0; i < size; ++i) {
        if (!has_room()) {
            return;
        }
        DATA = data[i];
    }
    STATUS = STATUS_DONE;
}

void hil_uart_flush(void) { (void)has_room(); }
