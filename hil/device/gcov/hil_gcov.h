/* Coverage of firmware: print gcov's counters on the console, for `hil run --elf --coverage`.
 *
 * One file for C99, without allocation and file system; it needs GCC 12 or later and a function
 * that writes a character to the console. Compile the sources that are measured, and only these,
 * with
 *
 *     --coverage -fprofile-info-section
 *
 * link with -lgcov, and keep their list in the linker script, in constant data:
 *
 *     __gcov_info_start = .;
 *     KEEP(*(.gcov_info))
 *     __gcov_info_end = .;
 *
 * Then, when the firmware has done what is measured:
 *
 *     hil_gcov_dump(put_char);
 *
 * The lines that it prints may stand between others; each of them must be whole. */
#ifndef HIL_GCOV_H
#define HIL_GCOV_H

#include <gcov.h>
#include <stddef.h>
#include <stdint.h>

struct hil_gcov {
    void (*put)(char c);
    /* Bytes of the file so far, and their CRC-32. */
    uint32_t size, crc;
};

extern const struct gcov_info *const __gcov_info_start[];
extern const struct gcov_info *const __gcov_info_end[];

static inline void hil_gcov_text(const struct hil_gcov *self, const char *text) {
    for (; *text; ++text) {
        self->put(*text);
    }
}

static inline void hil_gcov_hex(const struct hil_gcov *self, uint32_t number, int digits) {
    while (digits-- > 0) {
        self->put("0123456789abcdef"[(number >> (4 * digits)) & 15u]);
    }
}

static inline void hil_gcov_name(const char *name, void *context) {
    const struct hil_gcov *self = (const struct hil_gcov *)context;

    hil_gcov_text(self, "hil-gcov: file ");
    hil_gcov_text(self, name ? name : "");
    self->put('\n');
}

static inline void hil_gcov_data(const void *data, unsigned size, void *context) {
    struct hil_gcov *self = (struct hil_gcov *)context;
    const uint8_t *bytes = (const uint8_t *)data;

    for (unsigned i = 0; i < size; ++i) {
        if (i % 32 == 0) {
            hil_gcov_text(self, i == 0 ? "hil-gcov: data " : "\nhil-gcov: data ");
        }
        hil_gcov_hex(self, bytes[i], 2);
        ++self->size;
        self->crc ^= bytes[i];
        for (int bit = 0; bit < 8; ++bit) {
            self->crc = (self->crc >> 1) ^ (self->crc & 1u ? 0xEDB88320u : 0u);
        }
    }
    if (size > 0) {
        self->put('\n');
    }
}

/* Only counters of values need memory, which --coverage does not have. */
static inline void *hil_gcov_allocate(unsigned size, void *context) {
    (void)size;
    (void)context;
    return NULL;
}

/* Prints the counters of all files. */
static inline void hil_gcov_dump(void (*put)(char c)) {
    /* The compiler would take two arrays to be apart. */
    const struct gcov_info *const *info = __gcov_info_start;
    const struct gcov_info *const *end = __gcov_info_end;
    struct hil_gcov self = {put, 0, 0};
    uint32_t files = 0;

    __asm__("" : "+r"(info));
    for (; info != end; ++info, ++files) {
        self.size = 0;
        self.crc = 0xFFFFFFFFu;
        __gcov_info_to_gcda(*info, hil_gcov_name, hil_gcov_data, hil_gcov_allocate, &self);
        hil_gcov_text(&self, "hil-gcov: end ");
        hil_gcov_hex(&self, self.size, 8);
        self.put(' ');
        hil_gcov_hex(&self, ~self.crc, 8);
        self.put('\n');
    }
    hil_gcov_text(&self, "hil-gcov: done ");
    hil_gcov_hex(&self, files, 8);
    self.put('\n');
}

#endif
