/* What a port's C expects of the firmware around it. */
#include "hil_core.h"

#ifdef HIL_TEST_OWN_IRQ
void hil_serial_handler(void) { hil_uart_receive(); }
#endif

hil_test_locate hil_test_register;

/* What hil_uart_receive handed on. */
uint8_t hil_test_received[64];
size_t hil_test_received_size;

void hil_serial_put(uint8_t byte) {
    if (hil_test_received_size < sizeof hil_test_received) {
        hil_test_received[hil_test_received_size++] = byte;
    }
}
