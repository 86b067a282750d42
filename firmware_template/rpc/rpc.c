/* The server of the serial protocol: takes requests from the session in the order in which they
 * arrive, and executes one after the other. */
#include "hil_rpc.h"

#include "commands.h"
#include "hil_port.h"
#include "session.h"
#include "state.h"

void hil_rpc_init(void) {
    hil_state_reset_all();
    hil_session_event()[HIL_BOOT_EVENT_VERSION] = HIL_PROTOCOL_VERSION;
    hil_session_send_event(HIL_EVENT_BOOT, 0, HIL_BOOT_EVENT_BYTES);
}

static void execute(const struct hil_request *request) {
    const size_t size = hil_commands_execute(request, hil_session_reply());

    if (size == 0) {
        return;
    }
    hil_session_send_reply(request->code, size);
    if (request->code == HIL_COMMAND_RESET && size == HIL_RESET_REPLY_BYTES) {
        hil_port_reset();
    }
}

void hil_rpc_poll(void) {
    struct hil_request request;

    hil_session_receive();
    while (hil_session_next(&request)) {
        execute(&request);
    }
}
