#include "hil_guard.h"

/* From the linker script: where each guard starts. */
extern uint8_t *const hil_guards_start[];
extern uint8_t *const hil_guards_end[];

/* No two bytes of a guard are the same, nor any 0, which is what is mostly written by mistake. */
static uint8_t expected(uint32_t index) { return (uint8_t)(0xA5U + 13U * index); }

void hil_guards_set(void) {
    for (uint8_t *const *guard = hil_guards_start; guard != hil_guards_end; ++guard) {
        for (uint32_t i = 0; i < HIL_GUARD_BYTES; ++i) {
            (*guard)[i] = expected(i);
        }
    }
}

uint32_t hil_guards_changed(void) {
    uint32_t changed = 0;

    for (uint8_t *const *guard = hil_guards_start; guard != hil_guards_end; ++guard) {
        for (uint32_t i = 0; i < HIL_GUARD_BYTES; ++i) {
            changed += (*guard)[i] != expected(i);
        }
    }
    return changed;
}
