/* The smallest start-up for a Cortex-M: vectors, data, the floating-point unit; a console and an
 * end through the debugger's semihosting, which the emulator serves. */
#include "board.h"

#include <string.h>

extern uint32_t stack_top[], data_start[], data_end[], bss_start[], bss_end[];
extern const uint32_t data_load[];

int main(void);
_Noreturn void reset(void);

enum { SYS_WRITEC = 0x03, SYS_EXIT_EXTENDED = 0x20, APPLICATION_EXIT = 0x20026 };

static void semihost(int operation, const void *argument) {
    register int r0 __asm("r0") = operation;
    register const void *r1 __asm("r1") = argument;
    __asm volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
}

static _Noreturn void leave(uint32_t code) {
    const uint32_t reason[] = {APPLICATION_EXIT, code};
    for (;;) {
        semihost(SYS_EXIT_EXTENDED, reason);
    }
}

static _Noreturn void fault(void) { leave(99); }

_Noreturn void reset(void) {
    *(volatile uint32_t *)0xE000ED88U |= 0xFU << 20; /* CPACR: the floating-point unit */
    memcpy(data_start, data_load, (uintptr_t)data_end - (uintptr_t)data_start);
    memset(bss_start, 0, (uintptr_t)bss_end - (uintptr_t)bss_start);
    leave((uint32_t)main());
}

__attribute__((section(".vectors"), used)) static const struct {
    uint32_t *stack;
    void (*handlers[15])(void);
} vectors = {
    stack_top,
    {reset, fault, fault, fault, fault, fault, fault, fault, fault, fault, fault, fault, fault,
     fault, fault},
};

static void print_character(char character) { semihost(SYS_WRITEC, &character); }

void board_print(const char *name, const int8_t *data, int size) {
    while (*name != '\0') {
        print_character(*name++);
    }
    print_character(' ');
    for (int i = 0; i < size; ++i) {
        print_character("0123456789abcdef"[(uint8_t)data[i] >> 4]);
        print_character("0123456789abcdef"[(uint8_t)data[i] & 15]);
    }
    print_character('\n');
}
