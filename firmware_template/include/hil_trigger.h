/* A pin that is high while a model runs, so that a meter of current knows when. Boards whose
 * description has no table `trigger` have none, and nothing of this in their firmware. */
#ifndef HIL_TRIGGER_H
#define HIL_TRIGGER_H

#include <stddef.h>
#include <stdint.h>

#include "hil_config.h"

#ifdef HIL_TRIGGER_HIGH_ADDRESS

static inline void hil_trigger_write(uint32_t address, uint32_t value) {
    *(volatile uint32_t *)(uintptr_t)address = value;
}

/* Makes the pin an output and low; once, after hil_port_init. */
static inline void hil_trigger_init(void) {
    static const struct { uint32_t address, mask, value; } setup[] = {HIL_TRIGGER_SETUP};

    for (size_t i = 0; i < sizeof(setup) / sizeof(setup[0]); i++) {
        const uint32_t before = *(const volatile uint32_t *)(uintptr_t)setup[i].address;

        hil_trigger_write(setup[i].address, (before & ~setup[i].mask) | setup[i].value);
    }
    hil_trigger_write(HIL_TRIGGER_LOW_ADDRESS, HIL_TRIGGER_LOW_VALUE);
}

static inline void hil_trigger_high(void) {
    hil_trigger_write(HIL_TRIGGER_HIGH_ADDRESS, HIL_TRIGGER_HIGH_VALUE);
}

static inline void hil_trigger_low(void) {
    hil_trigger_write(HIL_TRIGGER_LOW_ADDRESS, HIL_TRIGGER_LOW_VALUE);
}

#else

static inline void hil_trigger_init(void) {}
static inline void hil_trigger_high(void) {}
static inline void hil_trigger_low(void) {}

#endif

#endif
