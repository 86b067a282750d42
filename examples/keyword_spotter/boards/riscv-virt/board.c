/* Start-up code and console of QEMU's machine virt: on a real board, the vendor's. */
#include <stdint.h>
#include <string.h>

#include "port.h"
#include "spotter.h"

/* 16550 UART: data, ..., line state at 5 (bit 5: transmitter empty). */
#define UART ((volatile uint8_t *)0x10000000u)

extern uint8_t bss_start[], bss_end[];

void console_write(const char *text) {
    for (; *text; ++text) {
        while (!(UART[5] & 0x20u)) {
        }
        UART[0] = (uint8_t)*text;
    }
}

void run(void);
void fault(void);

void run(void) {
    (void)memset(bss_start, 0, (size_t)(bss_end - bss_start));
    if (spotter_start() == 0) {
        while (spotter_step() > 0) {
        }
    }
    for (;;) {
        __asm volatile("wfi");
    }
}

void fault(void) {
    console_write("error: processor fault\n");
    for (;;) {
    }
}

__asm(".section .start, \"ax\"\n"
      ".option arch, +zicsr\n"
      ".global start\n"
      "start:\n"
      "    la sp, stack_top\n"
      "    la t0, trap\n"
      "    csrw mtvec, t0\n"
      "    j run\n"
      "    .balign 4\n"
      "trap:\n"
      "    j fault\n"
      "    .text\n");
