#include "hil_port.h"
#include "hil_rpc.h"

int main(void) {
    hil_port_init();
    hil_rpc_init();
    for (;;) {
        hil_rpc_poll();
        hil_uart_wait();
    }
}
