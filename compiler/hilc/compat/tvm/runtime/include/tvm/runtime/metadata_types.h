/* What a compiled model says of itself: tvmgen_<model>_get_c_metadata returns a TVMMetadata. Plain
 * structs for C and C++; the order of the fields is the binary interface. */
#ifndef TVM_RUNTIME_METADATA_TYPES_H_
#define TVM_RUNTIME_METADATA_TYPES_H_

#include <inttypes.h>
#include <tvm/runtime/c_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A tensor that the model is called with. A pool is a uint8 tensor of its size. */
struct TVMTensorInfo {
    const char *name;     /* as in the model */
    const int64_t *shape; /* num_shape axes, in elements */
    int64_t num_shape;    /* 0: a scalar */
    DLDataType dtype;     /* of an element */
};

/* A constant, whose place is byte_offset bytes into the constant pool. Where the caller hands the
 * pool over, the data_len bytes at data_bytes are the constant in TVM's format for arrays; where
 * constants are linked into the model there are none. */
struct TVMConstantInfo {
    const char *name_hint;  /* for people */
    int64_t byte_offset;    /* in the constant pool */
    int64_t data_len;       /* bytes at data_bytes, header included */
    const void *data_bytes; /* NULL: linked into the model */
};

/* The arrays have the order of the model's arguments. */
struct TVMMetadata {
    int64_t version;                    /* 1 */
    const struct TVMTensorInfo *inputs; /* num_inputs of them; so for the others */
    int64_t num_inputs;
    const struct TVMTensorInfo *outputs;
    int64_t num_outputs;
    const struct TVMTensorInfo *workspace_pools; /* what the caller hands over to a run */
    int64_t num_workspace_pools;
    const struct TVMConstantInfo *constant_pools; /* one entry a constant, not a pool */
    int64_t num_constant_pools;
    const char *mod_name; /* stem of the model's symbols, tvmgen_<model> */
};

typedef struct TVMTensorInfo TVMTensorInfo;
typedef struct TVMConstantInfo TVMConstantInfo;
typedef struct TVMMetadata TVMMetadata;

#ifdef __cplusplus
}
#endif

#endif
