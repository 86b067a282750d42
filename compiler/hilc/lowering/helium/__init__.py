"""Kernels for Helium (``kernels/mve``): when they serve, and how their data is packed.

Each builder gives the calls of a layer, the fastest first as a rule, or none where its shape or
quantization is not one that the kernels take; the portable kernels take every layer.
"""

from hilc.lowering.helium import (
    data_movement,
    elementwise,
    floats,
    layer_norm,
    linear,
    lstm,
    matrices,
    pooling,
    svdf,
    tables,
    transposed,
    wide,
)

__all__ = [
    "data_movement",
    "elementwise",
    "floats",
    "layer_norm",
    "linear",
    "lstm",
    "matrices",
    "pooling",
    "svdf",
    "tables",
    "transposed",
    "wide",
]
