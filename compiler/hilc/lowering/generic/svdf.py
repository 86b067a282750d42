"""SVDF."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hilc.ir import Array
from hilc.lowering.kernels import KernelCall
from hilc.lowering.parameters import (
    HilSvdf,
    HilSvdfF32,
    HilSvdfS8,
    HilSvdfS8StateS8,
    HilSvdfS8StateS16,
)
from hilc.lowering.registry import Layer, lowers
from hilc.ops.operands import ACTIVATION_RANGES, quantization
from hilc.ops.svdf import SvdfAttributes, scaling, sizes

#: The input and the state are tensor arguments; all else is constant.
_TENSORS = (0, 4)


@lowers("SVDF", dtypes={"int8", "float32"})
def portable(layer: Layer) -> KernelCall:
    """Return the kernel of any core."""
    node, ins = layer.node, layer.ins
    n = sizes(node, ins)
    shape = HilSvdf(batch=n.batch, depth=n.depth, units=n.units, rank=n.rank, memory=n.memory)
    features, moments = (_constant(layer, index).reshape(-1) for index in (1, 2))
    macs = n.batch * n.filters * (n.depth + n.memory)
    if not layer.operand(0).element.quantized:
        low, high = ACTIVATION_RANGES[SvdfAttributes.of(node).activation]
        bias = np.zeros(n.units, np.float32) if ins[3] is None else _constant(layer, 3)
        parameters = HilSvdfF32(
            svdf=shape, low=low, high=high, weights=features, moments=moments, bias=bias
        )
        return KernelCall(parameters, _TENSORS, macs)
    factors = scaling(node, ins, layer.out)
    in_zero_point, state_zero_point = (
        quantization(node, layer.operand(index))[1] for index in _TENSORS
    )
    offsets = -in_zero_point * features.reshape(n.filters, -1).sum(axis=1, dtype=np.int64)
    added = moments.reshape(n.units, -1).sum(axis=1, dtype=np.int64)
    integers = HilSvdfS8(
        feature_multiplier=factors.feature.multiplier,
        feature_shift=factors.feature.shift,
        out_multiplier=factors.output.multiplier,
        out_shift=factors.output.shift,
        state_zero_point=state_zero_point,
        out_zero_point=quantization(node, layer.out)[1],
        weights=features,
        offsets=_words(offsets),
        bias=_words(_constant(layer, 3) - state_zero_point * added),
    )
    if layer.outs[1].element.symmetric:
        wide = HilSvdfS8StateS16(svdf=shape, svdf_s8=integers, moments=moments)
        return KernelCall(wide, _TENSORS, macs)
    narrow = HilSvdfS8StateS8(svdf=shape, svdf_s8=integers, moments=moments)
    return KernelCall(narrow, _TENSORS, macs)


def _constant(layer: Layer, index: int) -> Array:
    data = layer.operand(index).data
    assert data is not None
    return data


def _words(sums: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
    """Return what 32 bits hold of sums; so do the kernels."""
    return sums.astype(np.int32)
