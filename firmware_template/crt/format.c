/* Formatting for TVM's log: what its messages use of printf, without the C library's, which is
 * several times as large and wants an allocator. Floating point is not part of it. */
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tvm/runtime/crt/platform.h"

struct text {
    char *at;
    size_t room;   /* left for characters, the final zero not counted */
    size_t length; /* of the whole, fitting or not */
};

static void put(struct text *text, char character) {
    if (text->room > 0) {
        *text->at++ = character;
        --text->room;
    }
    ++text->length;
}

static void put_string(struct text *text, const char *string) {
    for (const char *at = string != NULL ? string : "(null)"; *at != '\0'; ++at) {
        put(text, *at);
    }
}

static void put_number(struct text *text, uintmax_t value, unsigned base, bool negative,
                       size_t width, char fill) {
    char digits[3 * sizeof value]; /* the last one first */
    size_t count = 0;

    do {
        digits[count++] = "0123456789abcdef"[value % base];
        value /= base;
    } while (value != 0);
    const size_t size = count + negative;
    if (negative && fill == '0') {
        put(text, '-');
    }
    for (size_t i = size; i < width; ++i) {
        put(text, fill);
    }
    if (negative && fill != '0') {
        put(text, '-');
    }
    while (count > 0) {
        put(text, digits[--count]);
    }
}

/* The length modifiers that were read before a conversion. */
struct size {
    bool is_long;
    bool is_long_long;
    bool is_size; /* z, t */
};

static struct size read_size(const char **format) {
    struct size size = {false, false, false};

    for (;; ++*format) {
        switch (**format) {
        case 'h':
            break; /* promoted to int anyway */
        case 'l':
            size.is_long_long = size.is_long;
            size.is_long = true;
            break;
        case 'j':
            size.is_long_long = true;
            break;
        case 'z':
        case 't':
            size.is_size = true;
            break;
        default:
            return size;
        }
    }
}

/* %[0][width][hljzt](d i u x X p s c %); another conversion ends the text where it stands, since
 * what it would take of the arguments is not known. Returns the length of the whole text. */
size_t TVMPlatformFormatMessage(char *out_buf, size_t out_buf_size_bytes, const char *fmt,
                                va_list args) {
    struct text text = {out_buf, out_buf_size_bytes > 0 ? out_buf_size_bytes - 1 : 0, 0};

    for (; *fmt != '\0'; ++fmt) {
        if (*fmt != '%') {
            put(&text, *fmt);
            continue;
        }
        ++fmt;
        const char fill = *fmt == '0' ? '0' : ' ';
        size_t width = 0;
        for (; *fmt >= '0' && *fmt <= '9'; ++fmt) {
            width = 10 * width + (size_t)(*fmt - '0');
        }
        const struct size size = read_size(&fmt);
        switch (*fmt) {
        case 'd':
        case 'i': {
            const intmax_t value = size.is_long_long ? va_arg(args, long long)
                                   : size.is_long    ? va_arg(args, long)
                                   : size.is_size    ? va_arg(args, ptrdiff_t)
                                                     : va_arg(args, int);
            const uintmax_t magnitude = value < 0 ? 0U - (uintmax_t)value : (uintmax_t)value;
            put_number(&text, magnitude, 10, value < 0, width, fill);
            break;
        }
        case 'u':
        case 'x':
        case 'X': {
            const uintmax_t value = size.is_long_long ? va_arg(args, unsigned long long)
                                    : size.is_long    ? va_arg(args, unsigned long)
                                    : size.is_size    ? va_arg(args, size_t)
                                                      : va_arg(args, unsigned);
            put_number(&text, value, *fmt == 'u' ? 10 : 16, false, width, fill);
            break;
        }
        case 'p':
            put_string(&text, "0x");
            put_number(&text, (uintptr_t)va_arg(args, void *), 16, false, 0, ' ');
            break;
        case 's':
            put_string(&text, va_arg(args, const char *));
            break;
        case 'c':
            put(&text, (char)va_arg(args, int));
            break;
        case '%':
            put(&text, '%');
            break;
        default:
            goto end;
        }
    }
end:
    if (out_buf_size_bytes > 0) {
        *text.at = '\0';
    }
    return text.length;
}
