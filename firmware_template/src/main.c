#include "hil_port.h"
#include "hil_rpc.h"
#include "hil_trigger.h"
#ifdef HIL_HAS_PACKED
#include "hil_crt.h"
#endif

int main(void) {
    hil_port_init();
    hil_trigger_init();
#ifdef HIL_HAS_PACKED
    hil_crt_init();
#endif
    hil_rpc_init();
    for (;;) {
        hil_rpc_poll();
        hil_uart_wait();
    }
}
