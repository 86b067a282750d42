"""Kernels for Helium (``kernels/mve``): when they serve, and how their data is packed.

Each builder gives the calls of a layer, the fastest first as a rule, or none where its shape or
quantization is not one that the kernels take; the portable kernels take every layer.
"""

from hilc.lowering.mve import (
    binary,
    conv_s16,
    data_movement,
    floats,
    integer_sums,
    layer_norm,
    lstm,
    matmul,
    matrices,
    pooling,
    softmax,
    svdf,
    tables,
    transposed,
)

__all__ = [
    "binary",
    "conv_s16",
    "data_movement",
    "floats",
    "integer_sums",
    "layer_norm",
    "lstm",
    "matmul",
    "matrices",
    "pooling",
    "softmax",
    "svdf",
    "tables",
    "transposed",
]
