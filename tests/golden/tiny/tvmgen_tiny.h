/* The model "tiny" through TVM's C interface. */
#ifndef TVMGEN_TINY_H_
#define TVMGEN_TINY_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*! \brief Input "t0" size (in bytes)
 * int8[1,3,3,2]; real = 0.125 * (value - 3) */
#define TVMGEN_TINY_T0_SIZE 18

/*! \brief Input "t1" size (in bytes)
 * int8[1,18]; real = 0.125 * (value - 3) */
#define TVMGEN_TINY_T1_SIZE 18

/*! \brief Output "t13" size (in bytes)
 * int8[1,18]; real = 0.125 * (value - 3) */
#define TVMGEN_TINY_T13_SIZE 18

/*! \brief Output "t10" size (in bytes)
 * int8[1,9]; real = 0.125 * (value - 3) */
#define TVMGEN_TINY_T10_SIZE 9

/*! \brief The input tensors */
struct tvmgen_tiny_inputs {
    void *t0;
    void *t1;
};

/*! \brief The output tensors */
struct tvmgen_tiny_outputs {
    void *t13;
    void *t10;
};

/*! \brief One inference; 0 on success, -1 when an operator fails or a pointer is NULL.
 * The inputs are only read. Each buffer is aligned as its elements are,
 * and no two of them may overlap.
 * No call may interrupt another one, or run beside it: they share memory.
 * After any status but 0 the outputs are not valid. */
int32_t tvmgen_tiny_run(struct tvmgen_tiny_inputs *inputs, struct tvmgen_tiny_outputs *outputs);

/*! \brief Workspace size (in bytes), aligned to 16 */
#define TVMGEN_TINY_WORKSPACE_SIZE 48

#ifdef __cplusplus
}
#endif

#endif /* TVMGEN_TINY_H_ */
