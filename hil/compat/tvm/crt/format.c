/* Formatting for TVM's log: what its messages use of printf, without the C library's, which is
 * several times as large and wants an allocator. Floating point is not part of it. */
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tvm/runtime/crt/platform.h"

struct text {
    char *at;      /* where the next character goes */
    size_t left;   /* characters that still fit, the final zero not counted */
    size_t length; /* of the whole, fitting or not */
};

static void put(struct text *text, char character) {
    if (text->left > 0) {
        *text->at++ = character;
        --text->left;
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

/* What a conversion takes its values from; a struct, which has an address everywhere. */
struct arguments {
    va_list list;
};

static intmax_t take_signed(struct arguments *from, struct size size) {
    return size.is_long_long ? va_arg(from->list, long long)
           : size.is_long    ? va_arg(from->list, long)
           : size.is_size    ? va_arg(from->list, ptrdiff_t)
                             : va_arg(from->list, int);
}

static uintmax_t take_unsigned(struct arguments *from, struct size size) {
    return size.is_long_long ? va_arg(from->list, unsigned long long)
           : size.is_long    ? va_arg(from->list, unsigned long)
           : size.is_size    ? va_arg(from->list, size_t)
                             : va_arg(from->list, unsigned);
}

static void put_signed(struct text *text, intmax_t value, size_t width, char fill) {
    const uintmax_t magnitude = value < 0 ? 0U - (uintmax_t)value : (uintmax_t)value;
    put_number(text, magnitude, 10, value < 0, width, fill);
}

/* Puts what the conversion behind a % makes and leaves *format at its last character; false where
 * it is not known. */
static bool put_conversion(struct text *text, const char **format, struct arguments *from) {
    const char fill = **format == '0' ? '0' : ' ';
    size_t width = 0;

    for (; **format >= '0' && **format <= '9'; ++*format) {
        width = 10 * width + (size_t)(**format - '0');
    }
    const struct size size = read_size(format);
    switch (**format) {
    case 'd':
    case 'i':
        put_signed(text, take_signed(from, size), width, fill);
        return true;
    case 'u':
        put_number(text, take_unsigned(from, size), 10, false, width, fill);
        return true;
    case 'x':
    case 'X':
        put_number(text, take_unsigned(from, size), 16, false, width, fill);
        return true;
    case 'p':
        put_string(text, "0x");
        put_number(text, (uintptr_t)va_arg(from->list, void *), 16, false, 0, ' ');
        return true;
    case 's':
        put_string(text, va_arg(from->list, const char *));
        return true;
    case 'c':
        put(text, (char)va_arg(from->list, int));
        return true;
    case '%':
        put(text, '%');
        return true;
    default:
        return false;
    }
}

/* %[0][width][hljzt](d i u x X p s c %); another conversion ends the text where it stands, since
 * what it would take of the arguments is not known. Returns the length of the whole text. */
size_t TVMPlatformFormatMessage(char *out_buf, size_t out_buf_size_bytes, const char *fmt,
                                va_list args) {
    struct text text = {out_buf, out_buf_size_bytes > 0 ? out_buf_size_bytes - 1 : 0, 0};
    struct arguments from;

    va_copy(from.list, args);
    for (; *fmt != '\0'; ++fmt) {
        if (*fmt != '%') {
            put(&text, *fmt);
            continue;
        }
        ++fmt;
        if (!put_conversion(&text, &fmt, &from)) {
            break;
        }
    }
    va_end(from.list);
    if (out_buf_size_bytes > 0) {
        *text.at = '\0';
    }
    return text.length;
}
