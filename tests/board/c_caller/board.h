/* What the application needs of a bare board. */
#ifndef BOARD_H
#define BOARD_H

#include <stdint.h>

/* Writes a line: the name, then the bytes as hexadecimal digits. */
void board_print(const char *name, const int8_t *data, int size);

#endif
