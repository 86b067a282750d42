/* The records of which an input consists; fuzz.c says what they do. */
#ifndef FUZZ_H
#define FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum fuzz_record { FUZZ_RAW, FUZZ_FRAME, FUZZ_PAUSE, FUZZ_RECORDS };

/* Bytes in front of a record's data: what it is, and the size of the data. */
#define FUZZ_RECORD_HEAD 3U

/* What libFuzzer calls. */
int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
