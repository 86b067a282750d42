"""Translators of PyTorch's operators to ONNX's, one module a family; importing registers them."""

from hilc.frontends.pt2.translators import (
    complex_numbers,
    control_flow,
    creation,
    distances,
    elementwise,
    fourier,
    indexing,
    layers,
    linear_algebra,
    movement,
    normalization,
    quantization,
    recurrent,
    reduction,
    special,
    windows,
)

__all__ = [
    "complex_numbers",
    "control_flow",
    "creation",
    "distances",
    "elementwise",
    "fourier",
    "indexing",
    "layers",
    "linear_algebra",
    "movement",
    "normalization",
    "quantization",
    "recurrent",
    "reduction",
    "special",
    "windows",
]
