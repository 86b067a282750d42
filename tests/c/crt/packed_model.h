/* A library of the packed interface as generated code is, written by hand: the model `sum` adds
 * `left` and `right`, four int8 numbers each, to `output0`. */
#ifndef PACKED_MODEL_H
#define PACKED_MODEL_H

#include <tvm/runtime/c_backend_api.h>
#include <tvm/runtime/metadata_types.h>

/* What the next run returns without doing anything; 0: it works. */
extern int sum_error;
/* The arguments of the last run, and the resource handle that it was called with. */
extern int sum_num_args;
extern const void *sum_resource;
/* What get_c_metadata returns; tests swap it. */
extern const struct TVMMetadata *sum_metadata;
extern const struct TVMMetadata sum_good_metadata;

TVM_DLL int32_t tvmgen_sum_run(TVMValue *args, int *type_code, int num_args, TVMValue *out_value,
                               int *out_type_code, void *resource_handle);

#endif
