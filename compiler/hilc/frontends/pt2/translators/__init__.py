"""Translators of PyTorch's operators to ONNX's, one module a family; importing registers them."""

from hilc.frontends.pt2.translators import (
    control_flow,
    creation,
    distances,
    elementwise,
    indexing,
    layers,
    movement,
    normalization,
    quantization,
    recurrent,
    reduction,
    windows,
)

__all__ = [
    "control_flow",
    "creation",
    "distances",
    "elementwise",
    "indexing",
    "layers",
    "movement",
    "normalization",
    "quantization",
    "recurrent",
    "reduction",
    "windows",
]
