"""Kernels for cores that multiply pairs of half-words (``kernels/dsp``): when, and how packed.

Each builder gives the calls of a layer, the fastest first as a rule, or none where the family does
not serve it and the portable kernel must. Kernels of products are of two kinds:

* Those of ``pairs_s8.h``, ``matvec_s8_column_pairs.h`` and ``depthwise_conv2d_s8_plane.h`` apply an
  affine requantization (multiply, add, shift), which :mod:`hilc.lowering.dsp.affine` proves to give
  what the double rounding gives, for each channel and every sum that its weights allow, where the
  outputs lie in the range of a fused activation; ``clamp_s8.h`` clamps them to it.
* The others round twice, for any range. Two columns of weights share half-words,
  ``256 * w1 + w0``, which must fit 16 bits; sums stay below 2**23, so that 256 times a sum comes
  out of 32 bits; every shift is to the right.
"""

from hilc.lowering.dsp import (
    binary,
    conv_s16,
    integer_sums,
    lstm,
    matmul,
    matrices,
    pooling,
    svdf,
    transposed,
)

__all__ = [
    "binary",
    "conv_s16",
    "integer_sums",
    "lstm",
    "matmul",
    "matrices",
    "pooling",
    "svdf",
    "transposed",
]
