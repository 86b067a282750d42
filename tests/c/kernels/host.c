/* Every block on a heap of its own, where a sanitizer sees each access one byte outside of it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cases.h"

const uint32_t runs = 2;

static FILE *input, *output;
static uint8_t *memory[BLOCKS_MAX];

uint8_t filler(uint32_t run) { return run == 0 ? 0xa5 : 0x7f; }

/* The heap gives multiples of 16: one run is at such a place, the other no more aligned than it
 * may be. */
uint8_t *claim(uint32_t run, uint32_t index, uint32_t bytes, uint32_t alignment) {
    const uint32_t offset = run == 0 ? alignment : 0;
    uint8_t *start = malloc(offset + bytes);
    if (start == NULL) {
        exit(3);
    }
    memset(start, filler(run), offset + bytes);
    memory[index] = start;
    return start + offset;
}

void release(uint32_t index) { free(memory[index]); }

void enter(void) {}
void leave(void) {}

int32_t first_disturbed(uint32_t run, uint32_t index) {
    (void)run;
    (void)index;
    return NOWHERE; /* the sanitizer would have ended it */
}

bool read_input(void *data, uint32_t bytes) { return fread(data, 1, bytes, input) == bytes; }

void write_output(const void *data, uint32_t bytes) {
    if (fwrite(data, 1, bytes, output) != bytes) {
        exit(4);
    }
}

int main(void) {
    input = fopen("inputs", "rb");
    output = fopen("outputs", "wb");
    if (input == NULL || output == NULL) {
        return 2;
    }
    /* After a sanitizer's report, what was written says how far it came. */
    setvbuf(output, NULL, _IONBF, 0);
    const bool good = run_cases();
    fclose(input);
    return fclose(output) != 0 || !good;
}
