/* Every block in memory that the protection unit opens for it alone: an access outside of it is a
 * fault, as far as it does not fall into the rest of the block's power of two, which is filled and
 * looked at afterwards. Files through the debugger's semihosting, which the emulator serves. */
#include <string.h>

#include "board.h"

const uint32_t runs = 3;

/* Semihosting ------------------------------------------------------------------------------- */

enum {
    SYS_OPEN = 0x01,
    SYS_WRITE = 0x05,
    SYS_READ = 0x06,
    SYS_EXIT_EXTENDED = 0x20,
    APPLICATION_EXIT = 0x20026,
    MODE_READ_BINARY = 1,
    MODE_WRITE_BINARY = 5,
};

static uint32_t input, output;

static _Noreturn void finish(uint32_t code) {
    const uint32_t reason[] = {APPLICATION_EXIT, code};
    for (;;) {
        semihost(SYS_EXIT_EXTENDED, reason);
    }
}

static uint32_t opened(const char *name, uint32_t mode) {
    const uint32_t arguments[] = {(uint32_t)(uintptr_t)name, mode, strlen(name)};
    return semihost(SYS_OPEN, arguments);
}

/* Both give the number of bytes that were not moved. */
bool read_input(void *data, uint32_t bytes) {
    const uint32_t arguments[] = {input, (uint32_t)(uintptr_t)data, bytes};
    return semihost(SYS_READ, arguments) == 0;
}

void write_output(const void *data, uint32_t bytes) {
    const uint32_t arguments[] = {output, (uint32_t)(uintptr_t)data, bytes};
    if (semihost(SYS_WRITE, arguments) != 0) {
        finish(4);
    }
}

/* Memory protection ------------------------------------------------------------------------- */

/* Emulators are slow where access changes inside a page of theirs. */
enum { PAGE = 1024, CANARY = 64 };

static struct span {
    uint8_t *start, *end, *block;
    uint32_t bytes;
} spans[BLOCKS_MAX];
static uint32_t current_run;

uint8_t filler(uint32_t run) { return (const uint8_t[]){0x7f, 0x80, 0xa5}[run]; }

/* At the end of its memory, at its start, or at the least aligned place in the middle. Before and
 * behind the memory of each block a page stays closed. */
uint8_t *claim(uint32_t run, uint32_t index, uint32_t bytes, uint32_t alignment) {
    current_run = run;
    const uintptr_t last = index == 0 ? BLOCKS_ORIGIN : (uintptr_t)spans[index - 1].end;
    const uint32_t wanted = bytes + 2 * CANARY;
    const uint32_t size = wanted <= PAGE ? PAGE : 1U << (32 - __builtin_clz(wanted - 1));
    const uintptr_t start = (last + PAGE + size - 1) & ~(uintptr_t)(size - 1);
    if (start + size > BLOCKS_ORIGIN + BLOCKS_BYTES || index >= BLOCKS_MAX) {
        finish(3);
    }
    const uintptr_t places[] = {
        (start + size - bytes) & ~(uintptr_t)(alignment - 1),
        start,
        start + CANARY / 2 + alignment,
    };
    spans[index] =
        (struct span){(uint8_t *)start, (uint8_t *)(start + size), (uint8_t *)places[run], bytes};
    memset(spans[index].start, filler(run), size);
    allow(index, start, size);
    return spans[index].block;
}

void release(uint32_t index) { forbid(index); }

int32_t first_disturbed(uint32_t run, uint32_t index) {
    const struct span *span = &spans[index];
    for (const uint8_t *at = span->start; at < span->end; ++at) {
        if (at == span->block) {
            at += span->bytes;
            if (at == span->end) {
                break;
            }
        }
        if (*at != filler(run)) {
            return (int32_t)(at - span->block);
        }
    }
    return NOWHERE;
}

/* Start and faults -------------------------------------------------------------------------- */

_Noreturn void tell_fault(uint32_t cause, uint32_t place, bool has_address, uintptr_t address) {
    struct report report = {FAULTED, current_run, UINT32_MAX, 0, cause, place};
    for (uint32_t i = 0; i < BLOCKS_MAX && has_address; ++i) {
        if ((uintptr_t)spans[i].start - PAGE / 2 <= address &&
            address < (uintptr_t)spans[i].end + PAGE / 2) {
            report.where = i;
            report.offset = (int32_t)(address - (uintptr_t)spans[i].block);
        }
    }
    write_output(&report, sizeof report);
    finish(5);
}

int main(void) {
    input = opened("inputs", MODE_READ_BINARY);
    output = opened("outputs", MODE_WRITE_BINARY);
    if (input == UINT32_MAX || output == UINT32_MAX) {
        finish(2);
    }
    protect();
    finish(run_cases() ? 0 : 1);
}

_Noreturn void run_program(void) {
    memcpy(data_start, data_load, (uintptr_t)data_end - (uintptr_t)data_start);
    memset(bss_start, 0, (uintptr_t)bss_end - (uintptr_t)bss_start);
    main();
    finish(6);
}
