/* The application under Zephyr. recording.c is in place of a microphone: with one, write
 * audio_read() with dmic_read() or i2s_read(). */
#include <stdio.h>

#include "port.h"
#include "spotter.h"

void console_write(const char *text) {
    (void)fputs(text, stdout);
    (void)fflush(stdout);
}

int main(void) {
    if (spotter_start() == 0) {
        while (spotter_step() > 0) {
        }
    }
    return 0;
}
