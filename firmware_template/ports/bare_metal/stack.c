#include "hil_stack.h"

#include "hil_core.h"

#define PAINT 0xA5C35A3CUL

void hil_stack_paint(void) {
    for (volatile uint32_t *word = hil_stack_bottom; (uintptr_t)word < (uintptr_t)hil_stack_top;
         ++word) {
        *word = PAINT;
    }
}

uint32_t hil_stack_bytes(void) {
    return (uint32_t)((uintptr_t)hil_stack_top - (uintptr_t)hil_stack_bottom);
}

uint32_t hil_stack_peak_bytes(void) {
    const volatile uint32_t *word = hil_stack_bottom;
    while ((uintptr_t)word < (uintptr_t)hil_stack_top && *word == PAINT) {
        ++word;
    }
    return (uint32_t)((uintptr_t)hil_stack_top - (uintptr_t)word);
}
