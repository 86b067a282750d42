"""Translators of ONNX's operators, one module a family; importing them registers them."""

from hilc.frontends.onnx.translators import (
    attention,
    constants,
    control_flow,
    convolution,
    elementwise,
    indexing,
    matmul,
    movement,
    normalization,
    pooling,
    quantization,
    recurrent,
    reduction,
    resize,
)

__all__ = [
    "attention",
    "constants",
    "control_flow",
    "convolution",
    "elementwise",
    "indexing",
    "matmul",
    "movement",
    "normalization",
    "pooling",
    "quantization",
    "recurrent",
    "reduction",
    "resize",
]
