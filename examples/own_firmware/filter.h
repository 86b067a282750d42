/* A part of the application that its tests exercise. */
#ifndef FILTER_H
#define FILTER_H

/* Returns x, limited to [low, high]. */
int clamp(int x, int low, int high);
/* Returns the mean of count numbers, rounded towards zero; 0 of none. */
int mean(const int *numbers, int count);

#endif
