/* Elements of memory that is seen as several types: an output may lie on the input of another type,
 * so that the C compiler must not take their accesses for independent. */
#ifndef HIL_KERNELS_GENERIC_ANY_H
#define HIL_KERNELS_GENERIC_ANY_H

#include <stdint.h>

typedef int16_t __attribute__((may_alias)) hil_any_s16;
typedef int32_t __attribute__((may_alias)) hil_any_s32;
typedef int64_t __attribute__((may_alias)) hil_any_s64;
typedef uint16_t __attribute__((may_alias)) hil_any_u16;
typedef uint32_t __attribute__((may_alias)) hil_any_u32;
typedef uint64_t __attribute__((may_alias)) hil_any_u64;
typedef float __attribute__((may_alias)) hil_any_f32;

#endif
