/* The console of the board. */
#ifndef BOARD_H
#define BOARD_H

void put_char(char c);
void put_text(const char *text);
void put_number(int number);
/* Waits for a character. */
char get_char(void);

/* What the board runs. */
void app(void);

#endif
