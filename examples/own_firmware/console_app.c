/* An application with a console: it answers commands of one line. */
#include "board.h"
#include "filter.h"

static int read_number(char *end) {
    int number = 0, sign = 1;
    char c = get_char();
    if (c == '-') {
        sign = -1;
        c = get_char();
    }
    for (; c >= '0' && c <= '9'; c = get_char()) {
        number = 10 * number + (c - '0');
    }
    *end = c;
    return sign * number;
}

void app(void) {
    put_text("\033[32mfilter 1.2\033[0m ready\r\n> ");
    for (;;) {
        char end;
        int x = read_number(&end);
        if (end != '\n') {
            put_text("a number, please\r\n> ");
            continue;
        }
        put_text("clamped: ");
        put_number(clamp(x, -10, 10));
        put_text("\r\n> ");
    }
}
