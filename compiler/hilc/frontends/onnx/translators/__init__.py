"""Translators of ONNX's operators, one module a family; importing them registers them."""

from hilc.frontends.onnx.translators import (
    constants,
    convolution,
    elementwise,
    indexing,
    matmul,
    movement,
    normalization,
    pooling,
    reduction,
)

__all__ = [
    "constants",
    "convolution",
    "elementwise",
    "indexing",
    "matmul",
    "movement",
    "normalization",
    "pooling",
    "reduction",
]
