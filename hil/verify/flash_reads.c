/* A plugin for QEMU that counts what a core reads from flash behind small caches, during
 * the first call of a function.
 *
 * Arguments: function=, its name; from=, to=, the first address of the flash and the first behind
 * it; fetch=, data=, the lines of the caches for instructions and data; line=, their bytes; read=,
 * the bytes of one read of the flash. The caches are fully associative and replace the line that
 * was used least recently. A part of a line is read when it is first needed.
 *
 * Writes "flash: INSTRUCTIONS FETCHES DATA" to QEMU's log when the function has returned: executed
 * instructions, and reads of the flash for instructions and for data.
 *
 * QEMU's header is not packaged, so what is used of it is declared here.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
typedef uint32_t qemu_plugin_meminfo_t;
/* QEMU 7.2 calls back for single loads only where stores are asked for too. */
enum { NO_REGISTERS = 0, LOADS_AND_STORES = 3 };

void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id,
                                           void (*callback)(qemu_plugin_id_t,
                                                            struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn,
                                            void (*callback)(unsigned, void *), int flags,
                                            void *data);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *insn,
                                      void (*callback)(unsigned, qemu_plugin_meminfo_t, uint64_t,
                                                       void *),
                                      int flags, int which, void *data);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t index);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn);
const char *qemu_plugin_insn_symbol(const struct qemu_plugin_insn *insn);
void qemu_plugin_outs(const char *text);

/* The functions below are the same in all versions of the API; a QEMU accepts a range of them. */
int qemu_plugin_version = API_VERSION;

enum { MOST_LINES = 256 };

/** Fully associative cache; the first line was used last. */
struct cache {
    uint32_t lines;
    uint32_t used;
    uint64_t tags[MOST_LINES];
    /** A bit for each part of the line that was read. */
    uint64_t parts[MOST_LINES];
    uint64_t reads;
};

/** An instruction that was translated. */
struct place {
    uint64_t address;
    uint32_t bytes;
    /** Whether it is in the function. */
    bool is_inside;
    struct place *next;
};

static const char *function;
static uint64_t flash_from, flash_to, line_bytes, read_bytes, fetch_lines, data_lines;
static struct cache fetch, data;
static uint64_t instructions, after_call, return_address;
static enum { WAITING, COUNTING, DONE } state;
/* Kept until the end: QEMU may execute any of them again. */
static struct place *places;

static void touch(struct cache *cache, uint64_t address) {
    const uint64_t tag = address / line_bytes;
    const uint64_t part = UINT64_C(1) << (address % line_bytes / read_bytes);
    uint32_t at = 0;
    while (at < cache->used && cache->tags[at] != tag) {
        at++;
    }
    uint64_t parts = 0;
    if (at < cache->used) {
        parts = cache->parts[at];
    } else if (cache->used < cache->lines) {
        cache->used++;
    } else {
        at--;
    }
    if (!(parts & part)) {
        cache->reads++;
    }
    memmove(cache->tags + 1, cache->tags, at * sizeof *cache->tags);
    memmove(cache->parts + 1, cache->parts, at * sizeof *cache->parts);
    cache->tags[0] = tag;
    cache->parts[0] = parts | part;
}

static bool is_flash(uint64_t address) { return flash_from <= address && address < flash_to; }

static void executed(unsigned cpu, void *given) {
    (void)cpu;
    const struct place *place = given;
    if (state == WAITING && place->is_inside) {
        state = COUNTING;
        return_address = after_call;
    } else if (state == COUNTING && place->address == return_address) {
        state = DONE;
        char text[96];
        snprintf(text, sizeof text, "flash: %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", instructions,
                 fetch.reads, data.reads);
        qemu_plugin_outs(text);
    }
    after_call = place->address + place->bytes;
    if (state != COUNTING) {
        return;
    }
    instructions++;
    /* An instruction of 32 bits may lie in two parts. */
    for (uint32_t at = 0; at < place->bytes; at += 2) {
        if (is_flash(place->address + at)) {
            touch(&fetch, place->address + at);
        }
    }
}

static void accessed(unsigned cpu, qemu_plugin_meminfo_t info, uint64_t address, void *unused) {
    (void)cpu;
    (void)info;
    (void)unused;
    if (state == COUNTING && is_flash(address)) {
        touch(&data, address);
    }
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb) {
    (void)id;
    for (size_t i = 0; i < qemu_plugin_tb_n_insns(tb); i++) {
        struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
        struct place *place = malloc(sizeof *place);
        if (!place) {
            abort();
        }
        const char *symbol = qemu_plugin_insn_symbol(insn);
        place->address = qemu_plugin_insn_vaddr(insn);
        place->bytes = (uint32_t)qemu_plugin_insn_size(insn);
        place->is_inside = symbol && strcmp(symbol, function) == 0;
        place->next = places;
        places = place;
        qemu_plugin_register_vcpu_insn_exec_cb(insn, executed, NO_REGISTERS, place);
        qemu_plugin_register_vcpu_mem_cb(insn, accessed, NO_REGISTERS, LOADS_AND_STORES, NULL);
    }
}

int qemu_plugin_install(qemu_plugin_id_t id, const void *info, int count, char **arguments) {
    (void)info;
    const struct {
        const char *name;
        uint64_t *value;
    } known[] = {{"from=", &flash_from}, {"to=", &flash_to},       {"line=", &line_bytes},
                 {"read=", &read_bytes}, {"fetch=", &fetch_lines}, {"data=", &data_lines}};
    for (int i = 0; i < count; i++) {
        if (strncmp(arguments[i], "function=", 9) == 0) {
            function = strdup(arguments[i] + 9);
        }
        for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
            const size_t length = strlen(known[k].name);
            if (strncmp(arguments[i], known[k].name, length) == 0) {
                *known[k].value = strtoull(arguments[i] + length, NULL, 0);
            }
        }
    }
    if (!function || !read_bytes || line_bytes < read_bytes || line_bytes / read_bytes > 64 ||
        !fetch_lines || !data_lines || fetch_lines > MOST_LINES || data_lines > MOST_LINES) {
        fputs("flash_reads: an argument is missing or out of range\n", stderr);
        return -1;
    }
    fetch.lines = (uint32_t)fetch_lines;
    data.lines = (uint32_t)data_lines;
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    return 0;
}
