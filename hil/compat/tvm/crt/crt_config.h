/* TVM's C run time in this firmware: what differs from the defaults of crt/internal/config.h. */
#ifndef CRT_CONFIG_H
#define CRT_CONFIG_H

/* The serial protocol measures runs; TVM's evaluator would cost 4 KB more, most of it arithmetic of
 * doubles. */
#define TVM_CRT_TIME_EVALUATOR 0

#endif
