#ifndef HIL_BUILD_H
#define HIL_BUILD_H

/* The compile line may say otherwise. */
#ifndef HIL_BUILD_ID
#define HIL_BUILD_ID "0123456789abcdef0123456789abcdef"
#endif

#endif
