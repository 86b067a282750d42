/* A serial line in memory, which a debug probe reads and writes while the core runs. The layout is
 * that of SEGGER's Real Time Transfer, so any RTT tool finds it by its mark. */
#include <string.h>

#include "hil_core.h"
#include "hil_port.h"

struct ring {
    const char *name;           /* for people; with a final zero */
    uint8_t *data;              /* `size` bytes, of which one always stays free */
    uint32_t size;              /* HIL_UART_UP_BYTES or HIL_UART_DOWN_BYTES */
    volatile uint32_t write_at; /* less than size; only the writer changes it */
    volatile uint32_t read_at;  /* less than size; only the reader changes it */
    uint32_t flags;             /* 0: a writer without room drops what does not fit */
};

struct control_block {
    char mark[16];      /* "SEGGER RTT", by which probes find the block; zeros behind it */
    int32_t up_count;   /* 1 */
    int32_t down_count; /* 1 */
    struct ring up;     /* the firmware writes */
    struct ring down;   /* the probe writes */
};

static uint8_t up_data[HIL_UART_UP_BYTES];
static uint8_t down_data[HIL_UART_DOWN_BYTES];

/* With the name that probes look for in an ELF file. */
struct control_block _SEGGER_RTT;

/* The core's writes, in order, for whoever looks from outside. */
static void barrier(void) { __asm volatile("dmb" ::: "memory"); }

void hil_uart_init(uint32_t clock_hz) {
    (void)clock_hz;
    _SEGGER_RTT.up_count = 1;
    _SEGGER_RTT.down_count = 1;
    _SEGGER_RTT.up = (struct ring){.name = "hil", .data = up_data, .size = sizeof up_data};
    _SEGGER_RTT.down = (struct ring){.name = "hil", .data = down_data, .size = sizeof down_data};
    barrier();
    /* The mark comes last, since it says that the rest is valid. Put together here, so that it is
     * found in this block only and not in the image as well. */
    memcpy(_SEGGER_RTT.mark + 7, "RTT", 3);
    barrier();
    memcpy(_SEGGER_RTT.mark, "SEGGER ", 7);
}

void hil_uart_receive(void) {
    struct ring *down = &_SEGGER_RTT.down;
    const uint32_t end = down->write_at;
    uint32_t at = down->read_at;

    if (end >= down->size) {
        return; /* no place in the ring: what wrote this is no probe */
    }
    while (at != end) {
        hil_serial_put(down->data[at]);
        at = at + 1 < down->size ? at + 1 : 0;
    }
    barrier();
    down->read_at = at;
}

static uint32_t free_bytes(const struct ring *up) {
    const uint32_t read_at = up->read_at;
    return read_at > up->write_at ? read_at - up->write_at - 1
                                  : up->size - (up->write_at - read_at) - 1;
}

void hil_uart_write(const uint8_t *data, size_t size) {
    struct ring *up = &_SEGGER_RTT.up;

    while (size > 0) {
        /* Without a probe nobody makes room: what does not fit within a second is dropped, which
         * the checksum of its frame will tell. */
        const uint64_t start = hil_ticks();
        while (free_bytes(up) == 0) {
            if (hil_ticks() - start > HIL_CLOCK_HZ) {
                return;
            }
        }
        const uint32_t at = up->write_at;
        const uint32_t available = free_bytes(up);
        const uint32_t straight = up->size - at < available ? up->size - at : available;
        const uint32_t count = size < straight ? (uint32_t)size : straight;
        memcpy(up->data + at, data, count);
        barrier();
        up->write_at = at + count < up->size ? at + count : 0;
        data += count;
        size -= count;
    }
}

/* Everything is where the probe reads it. */
void hil_uart_flush(void) {}
