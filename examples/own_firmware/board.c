/* Start-up code and console of Arm's MPS2 (AN386), which QEMU emulates: on a real board, the
 * vendor's. */
#include "board.h"

#include <stdint.h>

/* CMSDK APB UART 0: data, state (0: transmitter full, 1: receiver full), control, interrupt, baud
 * rate divider. */
#define UART ((volatile uint32_t *)0x40004000u)

extern uint32_t bss_start, bss_end, stack_top;

void put_char(char c) {
    while (UART[1] & 1u) {
    }
    UART[0] = (uint8_t)c;
}

void put_text(const char *text) {
    for (; *text; ++text) {
        put_char(*text);
    }
}

void put_number(int number) {
    if (number < 0) {
        put_char('-');
        number = -number;
    }
    if (number >= 10) {
        put_number(number / 10);
    }
    put_char((char)('0' + number % 10));
}

char get_char(void) {
    while (!(UART[1] & 2u)) {
    }
    return (char)UART[0];
}

void start(void);

void start(void) {
    for (uint32_t *word = &bss_start; word < &bss_end; ++word) {
        *word = 0;
    }
    UART[4] = 217; /* 25 MHz / 115200 */
    UART[2] = 3;   /* transmitter and receiver on */
    app();
    for (;;) {
    }
}

static void fault(void) {
    put_text("fault\n");
    for (;;) {
    }
}

__attribute__((section(".vectors"), used)) static const void *const vectors[16] = {
    &stack_top, start, fault, fault, fault, fault, fault,
};
