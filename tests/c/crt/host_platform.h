/* A platform for the tests: blocks of malloc, so that the address sanitizer sees a byte too far. */
#ifndef HOST_PLATFORM_H
#define HOST_PLATFORM_H

/* Blocks that are allocated. */
extern int live_blocks;
/* The allocation so many calls from now fails; -1: none does. */
extern int fail_after;
/* Whether blocks were freed in another than the opposite order of their allocation. */
extern int out_of_order;
/* How long the stopwatch says that each run of it took, in seconds per call of a function. */
extern double tick_s;
extern int timer_starts, timer_running;
/* Calls of the function that is timed. */
extern int timed_calls;

#endif
