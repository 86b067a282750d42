/* What the application needs of a board: see boards, zephyr and arduino. */
#ifndef PORT_H
#define PORT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Reads `count` samples of a microphone, 16,000 a second, and waits until they are there. Returns
 * their number: fewer than `count` only at the end of a recording. */
size_t audio_read(int16_t *samples, size_t count);

/* Prints a text on the console. */
void console_write(const char *text);

#ifdef __cplusplus
}
#endif

#endif
