/* The sending half of the serial line, for every UART that takes one byte at a time. */
#include "hil_core.h"
#include "hil_port.h"

void hil_uart_write(const uint8_t *data, size_t size) {
    for (size_t i = 0; i < size; ++i) {
        if (!hil_uart_put(data[i])) {
            return;
        }
    }
}
