/* Tap points: stream the tensors of an inference from any runtime to `hil verify --against`.
 *
 * One file for C99 and C++, without allocation; it needs nothing but a function that writes bytes
 * to a serial line. Frames are those of the serial protocol (docs/reference/protocol.md, TAP_BEGIN
 * to TAP_END), so text between them does no harm.
 *
 *     static struct hil_tap tap;
 *     hil_tap_init(&tap, uart_write, NULL);
 *     for (;;) {
 *         hil_tap_begin(&tap, "kws");
 *         hil_tap_input(&tap, 0, "input_1", HIL_TAP_INT8, input, sizeof input);
 *         ... after each layer, as soon as its output is written:
 *         hil_tap_layer(&tap, layer, 0, "conv_1", HIL_TAP_INT8, output, nbytes);
 *         hil_tap_output(&tap, 0, "Identity", HIL_TAP_INT8, scores, sizeof scores);
 *         hil_tap_end(&tap);
 *     }
 *
 * Layers are numbered in the order in which they run. A name may be NULL; one that is the tensor's
 * in the model's file makes the match certain, else order, type and size decide.
 *
 * On a slow line, let the host choose whose bytes are sent; of all others only a checksum is. For
 * that, hand over every received byte (hil_tap_receive) between two inferences. */
#ifndef HIL_TAP_H
#define HIL_TAP_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes of header and payload in a frame: more take fewer frames, and this much of struct hil_tap.
 * At least 64; above 65000 hosts drop the frame. */
#ifndef HIL_TAP_BODY
#define HIL_TAP_BODY 240
#endif

/* Element types, as in the serial protocol. */
enum hil_tap_type {
    HIL_TAP_INT8 = 0,
    HIL_TAP_UINT8 = 1,
    HIL_TAP_INT16 = 2,
    HIL_TAP_INT32 = 3,
    HIL_TAP_INT64 = 4,
    HIL_TAP_FLOAT32 = 5,
    HIL_TAP_BOOL = 6,
    HIL_TAP_UINT32 = 7,
    HIL_TAP_UINT64 = 8,
    HIL_TAP_UINT16 = 9,
    HIL_TAP_FLOAT16 = 10,
    HIL_TAP_FLOAT64 = 11
};

/* Writes `size` bytes to the line; returns when the bytes may change. */
typedef void (*hil_tap_write)(void *context, const uint8_t *data, size_t size);

struct hil_tap {
    hil_tap_write write;
    void *context;
    uint32_t run;     /* inferences begun */
    uint16_t tensors; /* of this inference so far */
    uint16_t first;   /* layers whose bytes are sent: `count` from `first` on */
    uint16_t count;
    uint16_t seq;
    uint8_t body[HIL_TAP_BODY + 4]; /* header, payload, checksum */
    uint8_t in[32];                 /* what hil_tap_receive collects */
    size_t in_size;
};

/* -- frames ----------------------------------------------------------------------------------- */

static inline uint32_t hil_tap_crc(uint32_t crc, const uint8_t *data, size_t size) {
    static const uint32_t table[16] = {
        0x00000000U, 0x1DB71064U, 0x3B6E20C8U, 0x26D930ACU, 0x76DC4190U, 0x6B6B51F4U,
        0x4DB26158U, 0x5005713CU, 0xEDB88320U, 0xF00F9344U, 0xD6D6A3E8U, 0xCB61B38CU,
        0x9B64C2B0U, 0x86D3D2D4U, 0xA00AE278U, 0xBDBDF21CU,
    };

    crc = ~crc;
    for (size_t i = 0; i < size; ++i) {
        crc ^= data[i];
        crc = (crc >> 4) ^ table[crc & 15U];
        crc = (crc >> 4) ^ table[crc & 15U];
    }
    return ~crc;
}

static inline void hil_tap_put(uint8_t *at, uint32_t value, size_t bytes) {
    for (size_t i = 0; i < bytes; ++i) {
        at[i] = (uint8_t)(value >> (8 * i));
    }
}

/* Sends the frame whose payload of `size` bytes lies at body + 6. The code of a run of bytes is
 * sent as soon as its end is found, so the frame needs no second buffer. */
static inline void hil_tap_send(struct hil_tap *tap, uint8_t kind, uint8_t code, uint16_t session,
                                uint16_t seq, size_t size) {
    static const uint8_t zero = 0;
    uint8_t *const body = tap->body;
    const size_t whole = 6 + size + 4;
    size_t start = 0;

    hil_tap_put(body, session, 2);
    hil_tap_put(body + 2, seq, 2);
    body[4] = kind;
    body[5] = code;
    hil_tap_put(body + 6 + size, hil_tap_crc(0, body, 6 + size), 4);
    tap->write(tap->context, &zero, 1);
    while (start <= whole) {
        size_t end = start;
        while (end < whole && end - start < 254 && body[end] != 0) {
            ++end;
        }
        const uint8_t length = (uint8_t)(end - start + 1);
        tap->write(tap->context, &length, 1);
        if (end > start) {
            tap->write(tap->context, body + start, end - start);
        }
        if (end == whole) {
            break;
        }
        /* The zero is in the code, unless the block was full. */
        start = length == 0xFF ? end : end + 1;
    }
    tap->write(tap->context, &zero, 1);
}

static inline void hil_tap_event(struct hil_tap *tap, uint8_t event, size_t size) {
    hil_tap_send(tap, 3, event, 0, tap->seq++, size);
}

/* Copies as much of a name as fits behind the `at` bytes of a payload; returns the whole size. */
static inline size_t hil_tap_named(struct hil_tap *tap, size_t at, const char *name) {
    const size_t room = HIL_TAP_BODY - 6 - at;
    size_t size = name == NULL ? 0 : strlen(name);

    if (size > room) {
        size = room;
    }
    if (size > 0) {
        memcpy(tap->body + 6 + at, name, size);
    }
    return at + size;
}

/* -- tap points ------------------------------------------------------------------------------- */

static inline void hil_tap_init(struct hil_tap *tap, hil_tap_write write, void *context) {
    memset(tap, 0, sizeof *tap);
    tap->write = write;
    tap->context = context;
    tap->count = 0xFFFF;
}

/* Begins an inference of the model `name`. */
static inline void hil_tap_begin(struct hil_tap *tap, const char *name) {
    ++tap->run;
    tap->tensors = 0;
    hil_tap_put(tap->body + 6, tap->run, 4);
    hil_tap_event(tap, 6, hil_tap_named(tap, 4, name));
}

/* A tensor: its description and checksum, then its bytes if they are wanted. */
static inline void hil_tap_tensor(struct hil_tap *tap, uint8_t list, uint16_t layer, uint8_t index,
                                  const char *name, enum hil_tap_type type, const void *data,
                                  size_t nbytes) {
    const uint8_t *const bytes = (const uint8_t *)data;
    const int is_sent =
        list != 2 || (layer >= tap->first && (uint32_t)layer - tap->first < tap->count);
    uint8_t *const payload = tap->body + 6;
    const size_t most = HIL_TAP_BODY - 6 - 12;

    hil_tap_put(payload, tap->run, 4);
    payload[4] = list;
    hil_tap_put(payload + 5, layer, 2);
    payload[7] = index;
    payload[8] = (uint8_t)type;
    hil_tap_put(payload + 9, (uint32_t)nbytes, 4);
    hil_tap_put(payload + 13, hil_tap_crc(0, bytes, nbytes), 4);
    payload[17] = (uint8_t)is_sent;
    hil_tap_event(tap, 7, hil_tap_named(tap, 18, name));
    ++tap->tensors;
    for (size_t at = 0; is_sent && at < nbytes; at += most) {
        const size_t size = nbytes - at < most ? nbytes - at : most;
        hil_tap_put(payload, tap->run, 4);
        payload[4] = list;
        hil_tap_put(payload + 5, layer, 2);
        payload[7] = index;
        hil_tap_put(payload + 8, (uint32_t)at, 4);
        memcpy(payload + 12, bytes + at, size);
        hil_tap_event(tap, 8, 12 + size);
    }
}

/* An input, before the inference changes it. */
static inline void hil_tap_input(struct hil_tap *tap, uint8_t index, const char *name,
                                 enum hil_tap_type type, const void *data, size_t nbytes) {
    hil_tap_tensor(tap, 0, 0, index, name, type, data, nbytes);
}

/* Output `index` of the layer that ran as number `layer`. */
static inline void hil_tap_layer(struct hil_tap *tap, uint16_t layer, uint8_t index,
                                 const char *name, enum hil_tap_type type, const void *data,
                                 size_t nbytes) {
    hil_tap_tensor(tap, 2, layer, index, name, type, data, nbytes);
}

/* An output of the model. */
static inline void hil_tap_output(struct hil_tap *tap, uint8_t index, const char *name,
                                  enum hil_tap_type type, const void *data, size_t nbytes) {
    hil_tap_tensor(tap, 1, 0, index, name, type, data, nbytes);
}

/* Ends the inference. */
static inline void hil_tap_end(struct hil_tap *tap) {
    hil_tap_put(tap->body + 6, tap->run, 4);
    hil_tap_put(tap->body + 10, tap->tensors, 2);
    hil_tap_event(tap, 9, 6);
}

/* -- the host's choice ------------------------------------------------------------------------ */

/* Takes the frame in tap->in, without delimiters: TAP_SELECT is obeyed and answered. */
static inline void hil_tap_take(struct hil_tap *tap) {
    uint8_t *const data = tap->in;
    size_t from = 0;
    size_t to = 0;

    while (from < tap->in_size) {
        const size_t code = data[from];
        if (code > tap->in_size - from) {
            return;
        }
        memmove(data + to, data + from + 1, code - 1);
        from += code;
        to += code - 1;
        if (code != 0xFF && from < tap->in_size) {
            data[to++] = 0;
        }
    }
    if (to != 6 + 4 + 4 || data[4] != 1 || data[5] != 19) {
        return;
    }
    uint8_t crc[4];
    hil_tap_put(crc, hil_tap_crc(0, data, 10), 4);
    if (memcmp(crc, data + 10, 4) != 0) {
        return;
    }
    tap->first = (uint16_t)(data[6] | data[7] << 8);
    tap->count = (uint16_t)(data[8] | data[9] << 8);
    tap->body[6] = 0; /* the status: done */
    hil_tap_send(tap, 2, 19, (uint16_t)(data[0] | data[1] << 8), (uint16_t)(data[2] | data[3] << 8),
                 1);
}

/* Takes a byte that came from the line. Call it between two inferences. */
static inline void hil_tap_receive(struct hil_tap *tap, uint8_t byte) {
    if (byte != 0) {
        if (tap->in_size < sizeof tap->in) {
            tap->in[tap->in_size] = byte;
        }
        if (tap->in_size <= sizeof tap->in) {
            ++tap->in_size;
        }
        return;
    }
    if (tap->in_size > 0 && tap->in_size <= sizeof tap->in) {
        hil_tap_take(tap);
    }
    tap->in_size = 0;
}

#ifdef __cplusplus
}
#endif

#endif
