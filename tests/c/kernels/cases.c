#include "cases.h"

#include <string.h>

/* A case in the input: its words, then the bytes of the pieces that have some. */
struct head {
    uint32_t bytes; /* that follow this word */
    uint32_t kernel;
    uint32_t blocks;
    uint32_t pieces; /* inputs, outputs, scratch where there is any, constant arrays */
    uint32_t inputs;
    uint32_t outputs;
};

struct block {
    uint32_t bytes;
    uint32_t alignment;
};

/* Some bytes of a block. */
enum { GIVEN, GIVEN_AND_CHANGED, RESULT, SCRATCH };

struct piece {
    uint32_t block;
    uint32_t offset;
    uint32_t bytes;
    uint32_t role;
};

/* The largest that there are, as the one who wrote the cases knows. */
static _Alignas(8) uint8_t record[RECORD_BYTES];
static uint8_t results[RESULT_BYTES];
static _Alignas(8) uint8_t parameters[PARAMETER_BYTES];

static struct head head;
static const struct block *blocks;
static const struct piece *pieces;
static const uint32_t *field_words;
static const uint8_t *given_bytes;
static uint8_t *places[BLOCKS_MAX];

static uint8_t *place_of(const struct piece *piece) { return places[piece->block] + piece->offset; }

static bool is_given(const struct piece *piece) {
    return piece->role == GIVEN || piece->role == GIVEN_AND_CHANGED;
}

/* An integer as a field of `size` bytes, signed or not, can hold it. */
static bool store_integer(uint8_t *to, int64_t value, uint32_t size) {
    memcpy(to, &value, size);
    const int64_t above = size < sizeof value ? value >> (8 * size - 1) : 0;
    return above == 0 || above == -1 || above == 1;
}

static bool store_number(uint8_t *to, const uint32_t *words, const struct field *field) {
    if (field->kind == FIELD_INTEGER) {
        int64_t value;
        memcpy(&value, words, sizeof value);
        return store_integer(to, value, field->size);
    }
    double value;
    memcpy(&value, words, sizeof value);
    const float number = (float)value;
    memcpy(to, &number, sizeof number);
    return field->size == sizeof number;
}

static bool set_parameters(const struct kernel *kernel) {
    const uint32_t *words = field_words;
    bool good = true;
    memset(parameters, 0, sizeof parameters);
    for (uint32_t i = 0; i < kernel->field_count; ++i) {
        const struct field *field = &kernel->fields[i];
        uint8_t *to = parameters + field->offset;
        if (field->kind == FIELD_POINTER) {
            const bool null = words[0] == UINT32_MAX;
            const void *array = null ? NULL : place_of(&pieces[words[0]]);
            memcpy(to, &array, sizeof array);
            good &= null || words[1] == field->size;
            words += 2;
        } else {
            for (uint32_t n = 0; n < field->count; ++n, words += 2) {
                good &= store_number(to + n * field->size, words, field);
            }
        }
    }
    return good;
}

static bool is_whole(void) {
    const uint8_t *end = given_bytes;
    for (uint32_t i = 0; i < head.pieces; ++i) {
        end += is_given(&pieces[i]) ? pieces[i].bytes : 0;
    }
    return end == record + head.bytes;
}

static void place_all(uint32_t run) {
    for (uint32_t i = 0; i < head.blocks; ++i) {
        places[i] = claim(run, i, blocks[i].bytes, blocks[i].alignment);
    }
    const uint8_t *data = given_bytes;
    for (uint32_t i = 0; i < head.pieces; ++i) {
        if (is_given(&pieces[i])) {
            memcpy(place_of(&pieces[i]), data, pieces[i].bytes);
            data += pieces[i].bytes;
        }
    }
}

static void call(const struct kernel *kernel) {
    const void *in[TENSORS_MAX] = {NULL};
    void *out[TENSORS_MAX] = {NULL};
    void *scratch = NULL;
    for (uint32_t i = 0; i < head.inputs; ++i) {
        in[i] = place_of(&pieces[i]);
    }
    for (uint32_t i = 0; i < head.outputs; ++i) {
        out[i] = place_of(&pieces[head.inputs + i]);
    }
    const uint32_t next = head.inputs + head.outputs;
    if (next < head.pieces && pieces[next].role == SCRATCH) {
        scratch = place_of(&pieces[next]);
    }
    enter();
    kernel->call(parameters, in, out, scratch);
    leave();
}

static uint32_t first_difference(const uint8_t *one, const uint8_t *other, uint32_t bytes) {
    uint32_t i = 0;
    while (i < bytes && one[i] == other[i]) {
        ++i;
    }
    return i;
}

/* The constant or input of which the kernel changed a byte. */
static bool inputs_are_unchanged(struct report *report) {
    const uint8_t *data = given_bytes;
    for (uint32_t i = 0; i < head.pieces; ++i) {
        if (!is_given(&pieces[i])) {
            continue;
        }
        const uint8_t *place = place_of(&pieces[i]);
        if (pieces[i].role == GIVEN && memcmp(place, data, pieces[i].bytes) != 0) {
            report->where = i;
            report->offset = (int32_t)first_difference(place, data, pieces[i].bytes);
            return false;
        }
        data += pieces[i].bytes;
    }
    return true;
}

/* Keeps the results of the first run, compares those of later ones with them. */
static bool results_are_repeated(uint32_t run, struct report *report) {
    uint8_t *kept = results;
    for (uint32_t i = head.inputs; i < head.inputs + head.outputs; ++i) {
        const uint8_t *place = place_of(&pieces[i]);
        if (run == 0) {
            memcpy(kept, place, pieces[i].bytes);
        } else if (memcmp(kept, place, pieces[i].bytes) != 0) {
            report->where = i;
            report->offset = (int32_t)first_difference(kept, place, pieces[i].bytes);
            return false;
        }
        kept += pieces[i].bytes;
    }
    return true;
}

/* What is between the pieces of a block, and around it. */
static bool nothing_else_is_changed(uint32_t run, struct report *report) {
    for (uint32_t i = 0; i < head.pieces; ++i) {
        memset(place_of(&pieces[i]), filler(run), pieces[i].bytes);
    }
    for (uint32_t i = 0; i < head.blocks; ++i) {
        int32_t disturbed = first_disturbed(run, i);
        for (uint32_t n = 0; n < blocks[i].bytes && disturbed == NOWHERE; ++n) {
            disturbed = places[i][n] == filler(run) ? NOWHERE : (int32_t)n;
        }
        if (disturbed != NOWHERE) {
            report->where = i;
            report->offset = disturbed;
            return false;
        }
    }
    return true;
}

static uint32_t run_once(uint32_t run, struct report *report) {
    const struct kernel *kernel = &kernels[head.kernel];
    if (!is_whole()) {
        return MALFORMED;
    }
    place_all(run);
    if (!set_parameters(kernel)) {
        return MALFORMED;
    }
    call(kernel);
    if (!inputs_are_unchanged(report)) {
        return CHANGED_ITS_INPUT;
    }
    if (!results_are_repeated(run, report)) {
        return NOT_REPEATABLE;
    }
    return nothing_else_is_changed(run, report) ? FINE : WROTE_OUTSIDE;
}

static bool next_case(void) {
    if (!read_input(&head.bytes, sizeof head.bytes)) {
        return false;
    }
    const uint32_t rest = (uint32_t)(sizeof head - sizeof head.bytes);
    const uint32_t *words = (const uint32_t *)(const void *)record;
    if (!read_input(record, head.bytes)) {
        return false;
    }
    memcpy(&head.kernel, words, rest);
    words += rest / sizeof *words;
    blocks = (const struct block *)words;
    pieces = (const struct piece *)(blocks + head.blocks);
    field_words = (const uint32_t *)(pieces + head.pieces);
    const struct kernel *kernel = &kernels[head.kernel];
    words = field_words;
    for (uint32_t i = 0; i < kernel->field_count; ++i) {
        words += 2 * kernel->fields[i].count;
    }
    given_bytes = (const uint8_t *)words;
    return true;
}

bool run_cases(void) {
    bool good = true;
    while (next_case()) {
        struct report report = {FINE, 0, 0, 0, 0, 0};
        for (uint32_t run = 0; run < runs && report.kind == FINE; ++run) {
            report.run = run;
            report.kind = run_once(run, &report);
            for (uint32_t i = 0; i < head.blocks; ++i) {
                release(i);
            }
        }
        uint32_t bytes = 0;
        for (uint32_t i = head.inputs; i < head.inputs + head.outputs; ++i) {
            bytes += pieces[i].bytes;
        }
        write_output(&report, sizeof report);
        write_output(results, bytes);
        good &= report.kind == FINE;
    }
    return good;
}
