/* The tap points as functions of a shared object, for run times that are driven from Python. */
#include "hil_tap.h"

static struct hil_tap tap;

void points_init(hil_tap_write write);
void points_begin(const char *name);
void points_tensor(uint8_t list, uint16_t layer, uint8_t index, const char *name, int type,
                   const void *data, size_t nbytes);
void points_end(void);
void points_receive(const uint8_t *data, size_t size);

void points_init(hil_tap_write write) { hil_tap_init(&tap, write, NULL); }

void points_begin(const char *name) { hil_tap_begin(&tap, name); }

void points_tensor(uint8_t list, uint16_t layer, uint8_t index, const char *name, int type,
                   const void *data, size_t nbytes) {
    hil_tap_tensor(&tap, list, layer, index, name, (enum hil_tap_type)type, data, nbytes);
}

void points_end(void) { hil_tap_end(&tap); }

void points_receive(const uint8_t *data, size_t size) {
    for (size_t i = 0; i < size; ++i) {
        hil_tap_receive(&tap, data[i]);
    }
}
