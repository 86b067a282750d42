"""LOG_SOFTMAX and L2_NORMALIZATION."""

from __future__ import annotations

import numpy as np

from hilc.lowering.kernels import KernelCall
from hilc.lowering.parameters import (
    HilGenericL2NormalizationF32,
    HilGenericL2NormalizationS8,
    HilGenericLogSoftmaxF32,
    HilGenericLogSoftmaxS8,
    HilNormalized,
)
from hilc.lowering.registry import Layer, lowers
from hilc.numerics.requantize import rounding_divide_by_pot
from hilc.ops.normalization import LEAST_NORM, log_scales
from hilc.ops.operands import quantization
from hilc.ops.softmax import SUM_BITS, exponentials


def _rows(layer: Layer) -> HilNormalized:
    x = layer.operand(0)
    return HilNormalized(rows=x.size // x.shape[-1], depth=x.shape[-1])


@lowers("LOG_SOFTMAX")
def log_softmax(layer: Layer) -> KernelCall:
    """Return the call over rows, by a table of exponentials or of floats."""
    node, x = layer.node, layer.operand(0)
    if not x.element.quantized:
        return KernelCall(HilGenericLogSoftmaxF32(normalized=_rows(layer)))
    scales, powers = log_scales(node, x), exponentials(node, x, 1.0)
    summands = rounding_divide_by_pot(powers.astype(np.int64), SUM_BITS)
    near = 1 + int(np.flatnonzero(summands)[-1])
    parameters = HilGenericLogSoftmaxS8(
        normalized=_rows(layer),
        near=near,
        exponentials=powers[:near],
        multiplier=scales.difference.multiplier,
        shift=scales.difference.shift,
        inverse_multiplier=scales.inverse.multiplier,
        inverse_shift=scales.inverse.shift,
        least=-scales.largest - 1,
        out_zero_point=quantization(node, layer.out)[1],
    )
    return KernelCall(parameters)


@lowers("L2_NORMALIZATION")
def l2_normalization(layer: Layer) -> KernelCall:
    """Return the call over rows."""
    x = layer.operand(0)
    if not x.element.quantized:
        return KernelCall(HilGenericL2NormalizationF32(normalized=_rows(layer), least=LEAST_NORM))
    zero_point = quantization(layer.node, x)[1]
    return KernelCall(
        HilGenericL2NormalizationS8(normalized=_rows(layer), in_zero_point=zero_point)
    )
