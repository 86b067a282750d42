/* A program of this machine. */
#include <stdio.h>

#include "port.h"
#include "spotter.h"

void console_write(const char *text) {
    (void)fputs(text, stdout);
    (void)fflush(stdout);
}

int main(void) {
    int state = spotter_start();

    if (state == 0) {
        do {
            state = spotter_step();
        } while (state > 0);
    }
    return state != 0;
}
