/* Fields that the parameter structs of several kernels have, each said once. */
#ifndef HIL_KERNELS_GENERIC_FIELDS_H
#define HIL_KERNELS_GENERIC_FIELDS_H

#include <stdint.h>

/* The images that a layer reads and writes, NHWC. */
#define HIL_IMAGES_FIELDS                                                                          \
    int32_t batch; /* images */                                                                    \
    int32_t in_h;  /* rows of an input image */                                                    \
    int32_t in_w;  /* columns of an input image */                                                 \
    int32_t in_c;  /* channels of an input pixel */                                                \
    int32_t out_h; /* rows of an output image */                                                   \
    int32_t out_w  /* columns of an output image */

/* The windows through which a convolution reads them. */
#define HIL_WINDOW_FIELDS                                                                          \
    int32_t filter_h;   /* rows of the filter */                                                   \
    int32_t filter_w;   /* columns of the filter */                                                \
    int32_t stride_h;   /* input rows from a window to the one below it */                         \
    int32_t stride_w;   /* input columns from a window to the next */                              \
    int32_t dilation_h; /* input rows from a row of the filter to the next; 1: neighbours */       \
    int32_t dilation_w; /* input columns from a column of the filter to the next */                \
    int32_t pad_top;    /* rows by which the first window reaches above the image */               \
    int32_t pad_left    /* columns by which the first window reaches beyond the image */

/* Windows of a pooling layer that lie inside the image. */
#define HIL_POOL_WINDOWS_FIELDS                                                                    \
    int32_t batches;  /* images */                                                                 \
    int32_t in_h;     /* rows of an input image */                                                 \
    int32_t in_w;     /* columns of an input image */                                              \
    int32_t channels; /* of each pixel */                                                          \
    int32_t out_h;    /* rows of an output image */                                                \
    int32_t out_w;    /* columns of an output image */                                             \
    int32_t filter_h; /* rows of a window */                                                       \
    int32_t filter_w; /* columns of a window */                                                    \
    int32_t stride_h; /* input rows from a window to the one below it */                           \
    int32_t stride_w  /* input columns from a window to the next */

/* What outputs may be. */
#define HIL_OUTPUT_RANGE_FIELDS                                                                    \
    int32_t out_zero_point; /* the output that stands for 0.0 */                                   \
    int32_t out_min;        /* the least output */                                                 \
    int32_t out_max         /* the largest output */

/* How int32 sums become int8 outputs. */
#define HIL_REQUANTIZATION_FIELDS                                                                  \
    HIL_OUTPUT_RANGE_FIELDS;                                                                       \
    int32_t per_channel; /* 1: each output channel has a multiplier and a shift; 0: one for all */ \
    int32_t narrow;      /* how sums are rounded: HIL_ROUND_TWICE and others (quant.h) */          \
    const int32_t *bias; /* of each output channel, the input's zero point folded in */            \
    const int32_t *multipliers; /* in Q0.31 */                                                     \
    const int8_t *shifts        /* of the products, to the left; below 0 to the right */

#endif
