/* A keyword spotter: sound of a microphone in, lines of text on the console out. */
#ifndef SPOTTER_H
#define SPOTTER_H

#ifdef __cplusplus
extern "C" {
#endif

/* Starts with silence before. Returns 0, or -1 for an error, which it prints. */
int spotter_start(void);

/* Hears the next 20 ms and prints a line if a word is recognized. Returns 1 to be called again, 0
 * at the end of a recording, or -1 for an error, which it prints. */
int spotter_step(void);

#ifdef __cplusplus
}
#endif

#endif
