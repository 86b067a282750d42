/* Start-up code and console of Arm's MPS2 (AN386), which QEMU emulates: on a real board, the
 * vendor's. */
#include <stdint.h>
#include <string.h>

#include "port.h"
#include "spotter.h"

/* CMSDK APB UART 0: data, state (bit 0: transmitter full), control, interrupt, baud rate divider.
 */
#define UART ((volatile uint32_t *)0x40004000u)

extern uint8_t data_start[], data_end[], data_load[], bss_start[], bss_end[], stack_top[];

void console_write(const char *text) {
    for (; *text; ++text) {
        while (UART[1] & 1u) {
        }
        UART[0] = (uint8_t)*text;
    }
}

void start(void);

void start(void) {
    (void)memcpy(data_start, data_load, (size_t)(data_end - data_start));
    (void)memset(bss_start, 0, (size_t)(bss_end - bss_start));
    UART[4] = 217; /* 25 MHz / 115200 */
    UART[2] = 1;   /* transmitter on */
    if (spotter_start() == 0) {
        while (spotter_step() > 0) {
        }
    }
    for (;;) {
        __asm volatile("wfi");
    }
}

static void fault(void) {
    console_write("error: processor fault\n");
    for (;;) {
    }
}

__attribute__((section(".vectors"), used)) static void (*const vectors[16])(void) = {
    (void (*)(void))stack_top, start, fault, fault, fault, fault, fault,
};
