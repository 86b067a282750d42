/* The C codec behind lines of text, for tests that compare it with the Python codec:
 *   D <capacity> <bytes in hex>      prints what a reader finds: body in hex, or the error's number
 *   E <frame_max> <body in hex>      prints the coded frame
 * Buffers are exactly as large as they have to be, so that the address sanitizer sees a byte too
 * many. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hil_frame.h"

static size_t from_hex(const char *text, uint8_t *bytes) {
    size_t size = 0;
    unsigned value;
    while (sscanf(text + 2 * size, "%2x", &value) == 1) {
        bytes[size++] = (uint8_t)value;
    }
    return size;
}

static void print_hex(const uint8_t *bytes, size_t size) {
    for (size_t i = 0; i < size; ++i) {
        printf("%02x", bytes[i]);
    }
}

static void decode(size_t capacity, const uint8_t *bytes, size_t size) {
    uint8_t *buffer = malloc(capacity);
    struct hil_frame_reader reader = {.buffer = buffer, .capacity = capacity};

    for (size_t i = 0; i < size; ++i) {
        const int32_t found = hil_frame_push(&reader, bytes[i]);
        if (found < 0) {
            printf("%d ", (int)found);
        } else if (found > 0) {
            print_hex(buffer, (size_t)found);
            printf(" ");
        }
    }
    printf("\n");
    free(buffer);
}

static void encode(size_t frame_max, const uint8_t *body, size_t size) {
    uint8_t *frame = malloc(frame_max);
    const size_t body_at = HIL_FRAME_BODY_AT(frame_max);

    memcpy(frame + body_at, body, size);
    print_hex(frame, hil_frame_encode(frame, body_at, size));
    printf("\n");
    free(frame);
}

int main(void) {
    char *line = NULL;
    size_t room = 0;
    char what;
    size_t limit;
    int at;

    setvbuf(stdout, NULL, _IOLBF, 0); /* an answer to each line */
    while (getline(&line, &room, stdin) > 0 && sscanf(line, "%c %zu %n", &what, &limit, &at) == 2) {
        uint8_t *bytes = malloc(strlen(line));
        const size_t size = from_hex(line + at, bytes);
        if (what == 'D') {
            decode(limit, bytes, size);
        } else {
            encode(limit, bytes, size);
        }
        free(bytes);
    }
    free(line);
    return 0;
}
