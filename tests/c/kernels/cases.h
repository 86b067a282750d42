/* Calls kernels on arrays that a file describes: the code is the same for one case and for
 * thousands. What differs between the host and a board is where arrays lie. */
#ifndef CASES_H
#define CASES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where a field of a parameter struct is and what it is made from. */
enum { FIELD_INTEGER, FIELD_REAL, FIELD_POINTER };

struct field {
    uint32_t offset;
    uint32_t size; /* of a number, or of what a pointer points to */
    uint32_t count;
    uint32_t kind;
};

#define FIELD_KIND(number) _Generic((number), float : FIELD_REAL, default : FIELD_INTEGER)
#define FIELD_OF(type, name) (((const type *)0)->name)
#define NUMBER(type, name)                                                                         \
    { offsetof(type, name), sizeof(FIELD_OF(type, name)), 1, FIELD_KIND(FIELD_OF(type, name)) }
#define NUMBERS(type, name)                                                                        \
    {                                                                                              \
        offsetof(type, name), sizeof(FIELD_OF(type, name)[0]),                                     \
            sizeof(FIELD_OF(type, name)) / sizeof(FIELD_OF(type, name)[0]),                        \
            FIELD_KIND(FIELD_OF(type, name)[0])                                                    \
    }
#define POINTER(type, name)                                                                        \
    { offsetof(type, name), sizeof(*FIELD_OF(type, name)), 1, FIELD_POINTER }

/* A kernel behind one signature. */
struct kernel {
    void (*call)(const void *p, const void *const *in, void *const *out, void *scratch);
    const struct field *fields;
    uint32_t field_count;
};

extern const struct kernel kernels[];

/* What was noticed; Python has the same numbers. */
enum { FINE, WROTE_OUTSIDE, CHANGED_ITS_INPUT, NOT_REPEATABLE, FAULTED, MALFORMED };

struct report {
    uint32_t kind;
    uint32_t run;
    uint32_t where; /* a block or a piece */
    int32_t offset; /* from its start */
    uint32_t fault_status;
    uint32_t instruction; /* that faulted */
};

/* Calls every case of the input; true where all is fine. */
bool run_cases(void);

/* What host and board each have their own of: ----------------------------------------------- */

/* Each case runs so often, its arrays elsewhere each time, with other bytes around them. */
extern const uint32_t runs;

/* The byte that fills what a case must not depend on. */
uint8_t filler(uint32_t run);

/* A block whose bytes alone may be touched, filled; at an odd place for an alignment of 1. */
uint8_t *claim(uint32_t run, uint32_t index, uint32_t bytes, uint32_t alignment);

/* Between these, nothing but the claimed blocks may be touched. */
void enter(void);
void leave(void);

/* Where the first byte around block `index` is that is no filler any more, from the block's start.
 */
#define NOWHERE INT32_MIN
int32_t first_disturbed(uint32_t run, uint32_t index);
void release(uint32_t index);

bool read_input(void *data, uint32_t bytes);
void write_output(const void *data, uint32_t bytes);

#endif
