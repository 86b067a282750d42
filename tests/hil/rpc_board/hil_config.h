#ifndef HIL_CONFIG_H
#define HIL_CONFIG_H

#define HIL_BOARD_NAME "rpc-board"
#define HIL_CLOCK_HZ 1000000000

/* The compile line may say otherwise. */
#ifndef HIL_FRAME_MAX
#define HIL_FRAME_MAX 512
#endif
#ifndef HIL_RX_MAX
#define HIL_RX_MAX (2 * HIL_FRAME_MAX)
#endif

#endif
