/* Elements of any type in other places. All sizes and positions are in bytes. */
#ifndef HIL_KERNELS_GENERIC_MOVE_H
#define HIL_KERNELS_GENERIC_MOVE_H

#include <stdint.h>
#include <string.h>

#include "hil/copy.h"
#include "hil/kernels/generic/walk.h"
#include "hil/quant.h"

/* Copies bytes to a place that may overlap theirs. The library's memmove may be one for size that
 * moves single bytes, so it is called only where a copy would not do. */
HIL_INLINE void hil_move(void *to, const void *from, int32_t bytes) {
    const uintptr_t above = (uintptr_t)to - (uintptr_t)from;
    if (__builtin_constant_p(bytes) && bytes <= HIL_COPY_AT_ONCE) {
        hil_move_at_once((uint8_t *)to, (const uint8_t *)from, bytes);
    } else if (hil_copies(above, (uintptr_t)bytes)) {
        hil_copy(to, from, bytes);
    } else if (above != 0) {
        memmove(to, from, (size_t)bytes);
    }
}

/*@kernel
name = "hil_generic_copy"
requires = []
inputs = ["void"]
outputs = ["void"]
scratch = "0"
order = "none"
code = 16
[cost]
byte = "bytes"
@*/
struct hil_generic_copy {
    int32_t bytes; /* to copy */
};

HIL_INLINE void hil_generic_copy(const struct hil_generic_copy *p, const void *in, void *out) {
    hil_copy(out, in, p->bytes);
}

/*@kernel
name = "hil_generic_gather"
requires = []
inputs = ["void"]
outputs = ["void"]
scratch = "0"
order = "walk"
reads = "gather"
code = 62
[cost]
row = "rows"
single = "rows * length * (run == 1)"
block = "rows * length * (run > 1)"
odd_block = "block * (run % 2)" # is not moved in whole words
called_block = "block * (run > 8)"
byte = "block * run"
@*/
struct hil_generic_gather {
    int32_t rows;                     /* of runs */
    int32_t counts[HIL_WALK_LOOPS];   /* turns of the loops around a row */
    int32_t in_jumps[HIL_WALK_LOOPS]; /* bytes by which the input moves as each of them advances */
    int32_t start;                    /* of the first run in the input */
    int32_t length;                   /* runs in a row */
    int32_t step;                     /* from one run of a row to the next in the input */
    int32_t run;                      /* bytes that lie together in input and output */
};

HIL_INLINE void hil_generic_gather(const struct hil_generic_gather *p, const void *in, void *out) {
    const uint8_t *source = (const uint8_t *)in;
    uint8_t *target = (uint8_t *)out;
    int32_t index[HIL_WALK_LOOPS] = {0};
    int32_t start = p->start;
    /* The innermost loop around a row by itself: only the others need their turns counted. */
    const int32_t turns = p->counts[HIL_WALK_LOOPS - 1];
    for (int32_t row = 0; row < p->rows; row += turns) {
        for (int32_t turn = 1;; turn++) {
            int32_t i = start;
            if (p->run == 1) {
#pragma GCC unroll 4
                for (int32_t n = 0; n < p->length; n++) {
                    *target++ = source[i];
                    i += p->step;
                }
            } else {
                for (int32_t n = 0; n < p->length; n++) {
                    hil_move(target, source + i, p->run);
                    target += p->run;
                    i += p->step;
                }
            }
            if (turn == turns) {
                break;
            }
            start += p->in_jumps[HIL_WALK_LOOPS - 1];
        }
        index[HIL_WALK_LOOPS - 1] = turns - 1;
        start += p->in_jumps[hil_walk_next(index, p->counts)];
    }
}

/*@kernel
name = "hil_generic_pad"
requires = []
inputs = ["void"]
outputs = ["void"]
scratch = "0"
order = "none"
code = 40
[cost]
line = "rows"
copied = "rows * row"
byte = "size"
@*/
struct hil_generic_pad {
    int32_t rows;                   /* of the input */
    int32_t counts[HIL_WALK_LOOPS]; /* turns of the loops around a row */
    int32_t
        out_jumps[HIL_WALK_LOOPS]; /* bytes by which the output moves as each of them advances */
    int32_t start;                 /* of the first row in the output */
    int32_t row;                   /* bytes that lie together in input and output */
    int32_t size;                  /* of the output */
    int32_t pad_value;             /* the byte around the input */
};

HIL_INLINE void hil_generic_pad(const struct hil_generic_pad *p, const void *in, void *out) {
    const uint8_t *source = (const uint8_t *)in;
    uint8_t *target = (uint8_t *)out;
    int32_t index[HIL_WALK_LOOPS] = {0};
    int32_t start = p->start;
    hil_fill(target, p->pad_value, p->size);
    for (int32_t row = 0; row < p->rows; row++) {
        hil_copy(target + start, source, p->row);
        source += p->row;
        start += p->out_jumps[hil_walk_next(index, p->counts)];
    }
}

/*@kernel
name = "hil_generic_join"
requires = []
inputs = ["void[]"]
outputs = ["void"]
scratch = "0"
order = "walk"
reads = "join"
code = 88
[cost]
row = "rows"
block = "rows * parts"
called_block = "block * (length > 32 * parts)"
byte = "rows * length"
@*/
struct hil_generic_join {
    int32_t rows;          /* of blocks, one of each part in turn */
    int32_t parts;         /* inputs */
    int32_t length;        /* bytes of a row, all its blocks */
    const int32_t *blocks; /* what a row takes from each part */
};

HIL_INLINE void hil_generic_join(const struct hil_generic_join *p, const void *const *in,
                                 void *out) {
    for (int32_t row = 0; row < p->rows; row++) {
        uint8_t *target = (uint8_t *)out + row * p->length;
#pragma GCC unroll 4
        for (int32_t part = 0; part < p->parts; part++) {
            const int32_t block = p->blocks[part];
            hil_move(target, (const uint8_t *)in[part] + row * block, block);
            target += block;
        }
    }
}

/*@kernel
name = "hil_generic_split"
requires = []
inputs = ["void"]
outputs = ["void[]"]
scratch = "0"
order = "walk"
reads = "split"
code = 48
[cost]
part = "rows * parts"
odd_part = "part * (block % 2) * (block > 1)" # is not moved in whole words
called_part = "part * (block > 8)"
byte = "part * block"
@*/
struct hil_generic_split {
    int32_t rows;  /* of blocks, one for each part in turn */
    int32_t parts; /* outputs */
    int32_t block; /* what a row gives to each part */
};

HIL_INLINE void hil_generic_split(const struct hil_generic_split *p, const void *in,
                                  void *const *out) {
    const uint8_t *source = (const uint8_t *)in;
    for (int32_t row = 0; row < p->rows; row++) {
        for (int32_t part = 0; part < p->parts; part++) {
            hil_move((uint8_t *)out[part] + row * p->block, source, p->block);
            source += p->block;
        }
    }
}

/*@kernel
name = "hil_generic_split_blocks"
requires = []
inputs = ["void"]
outputs = ["void[]"]
scratch = "0"
order = "walk"
reads = "split_blocks"
code = 88
[cost]
row = "rows"
block = "rows * parts"
called_block = "block * (length > 32 * parts)"
byte = "rows * length"
@*/
struct hil_generic_split_blocks {
    int32_t rows;          /* of blocks, one for each part in turn */
    int32_t parts;         /* outputs */
    int32_t length;        /* bytes of a row, all its blocks */
    const int32_t *blocks; /* what a row gives to each part */
};

HIL_INLINE void hil_generic_split_blocks(const struct hil_generic_split_blocks *p, const void *in,
                                         void *const *out) {
    for (int32_t row = 0; row < p->rows; row++) {
        const uint8_t *source = (const uint8_t *)in + row * p->length;
#pragma GCC unroll 4
        for (int32_t part = 0; part < p->parts; part++) {
            const int32_t block = p->blocks[part];
            hil_move((uint8_t *)out[part] + row * block, source, block);
            source += block;
        }
    }
}

/*@kernel
name = "hil_generic_take"
requires = []
inputs = ["void"]
outputs = ["void"]
scratch = "0"
order = "walk"
reads = "take"
code = 120
[cost]
row = "rows"
block = "rows * length"
byte = "block * run"
@*/
struct hil_generic_take {
    int32_t rows;                   /* of runs */
    int32_t counts[HIL_WALK_LOOPS]; /* turns of the loops around a row */
    const int32_t *places;          /* what each turn of each of them adds to the position of a run
                                       in the input, and then each run of a row */
    int32_t length;                 /* runs in a row */
    int32_t run;                    /* bytes that lie together in input and output */
};

HIL_INLINE void hil_generic_take(const struct hil_generic_take *p, const void *in, void *out) {
    const uint8_t *source = (const uint8_t *)in;
    uint8_t *target = (uint8_t *)out;
    int32_t index[HIL_WALK_LOOPS] = {0};
    for (int32_t row = 0; row < p->rows; row++) {
        const int32_t *places = p->places;
        int32_t start = 0;
        for (int loop = 0; loop < HIL_WALK_LOOPS; loop++) {
            start += places[index[loop]];
            places += p->counts[loop];
        }
        for (int32_t n = 0; n < p->length; n++) {
            if (p->run == 1) {
                *target = source[start + places[n]];
            } else {
                hil_move(target, source + start + places[n], p->run);
            }
            target += p->run;
        }
        (void)hil_walk_next(index, p->counts);
    }
}

/*@kernel
name = "hil_generic_pad_elements"
requires = []
inputs = ["void"]
outputs = ["void"]
scratch = "0"
order = "none"
code = 80
[cost]
line = "rows"
copied = "rows * row"
element = "count"
byte = "count * item"
@*/
struct hil_generic_pad_elements {
    int32_t rows;                   /* of the input */
    int32_t counts[HIL_WALK_LOOPS]; /* turns of the loops around a row */
    int32_t
        out_jumps[HIL_WALK_LOOPS]; /* bytes by which the output moves as each of them advances */
    int32_t start;                 /* of the first row in the output */
    int32_t row;                   /* bytes that lie together in input and output */
    int32_t count;                 /* elements of the output */
    int32_t item;                  /* bytes of an element */
    const uint8_t *pad_value;      /* the element around the input */
};

HIL_INLINE void hil_generic_pad_elements(const struct hil_generic_pad_elements *p, const void *in,
                                         void *out) {
    const uint8_t *source = (const uint8_t *)in;
    uint8_t *target = (uint8_t *)out;
    int32_t index[HIL_WALK_LOOPS] = {0};
    int32_t start = p->start;
    for (int32_t n = 0; n < p->count; n++) {
        memcpy(target + n * p->item, p->pad_value, (size_t)p->item);
    }
    for (int32_t row = 0; row < p->rows; row++) {
        hil_copy(target + start, source, p->row);
        source += p->row;
        start += p->out_jumps[hil_walk_next(index, p->counts)];
    }
}

/*@kernel
name = "hil_generic_space_to_batch"
requires = []
inputs = ["void"]
outputs = ["void"]
scratch = "0"
order = "none"
code = 180
[cost]
pixel = "block_h * block_w * images * out_h * out_w"
byte = "pixel * depth"
@*/
struct hil_generic_space_to_batch {
    int32_t images;    /* of the input */
    int32_t in_h;      /* rows of one of them */
    int32_t in_w;      /* columns of one of them */
    int32_t out_h;     /* rows of an output image: those of blocks */
    int32_t out_w;     /* columns of an output image */
    int32_t block_h;   /* rows of a block */
    int32_t block_w;   /* columns of a block */
    int32_t top;       /* rows of the first block above an input image */
    int32_t left;      /* columns of the first block to the left of an input image */
    int32_t depth;     /* bytes of a pixel */
    int32_t pad_value; /* the byte around the input */
};

HIL_INLINE void hil_generic_space_to_batch(const struct hil_generic_space_to_batch *p,
                                           const void *in, void *out) {
    const uint8_t *source = (const uint8_t *)in;
    uint8_t *target = (uint8_t *)out;
    for (int32_t phase = 0; phase < p->block_h * p->block_w; phase++) {
        for (int32_t image = 0; image < p->images; image++) {
            int32_t y = phase / p->block_w - p->top;
            for (int32_t row = 0; row < p->out_h; row++) {
                int32_t x = phase % p->block_w - p->left;
                for (int32_t column = 0; column < p->out_w; column++) {
                    if (y >= 0 && y < p->in_h && x >= 0 && x < p->in_w) {
                        const int32_t pixel = (image * p->in_h + y) * p->in_w + x;
                        hil_copy(target, source + pixel * p->depth, p->depth);
                    } else {
                        hil_fill(target, p->pad_value, p->depth);
                    }
                    target += p->depth;
                    x += p->block_w;
                }
                y += p->block_h;
            }
        }
    }
}

#endif
