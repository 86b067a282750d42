"""SVDF as its kernels see it: a matrix of filters, and the moments that each of them keeps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hilc.ir import Array
from hilc.lowering.channels import sum_ends
from hilc.lowering.parameters import HilSvdf, HilSvdfScales
from hilc.lowering.registry import Layer, cached_per_layer
from hilc.ops.operands import quantization
from hilc.ops.svdf import scaling, sizes

#: The input and the state are tensor arguments; all else is constant.
TENSORS = (0, 4)


@dataclass(frozen=True, eq=False)
class SvdfForm:
    """An SVDF of int8."""

    shape: HilSvdf
    scales: HilSvdfScales
    #: Weights, ``[filters, depth]``, and the contribution of the input's zero point to their sums.
    #: The sums of the reference wrap around at 32 bits.
    features: Array
    offsets: npt.NDArray[np.int64]
    #: Weights in time, one filter after the other.
    moments: Array
    #: Bias of each unit, with the contribution of the features' zero point.
    bias: npt.NDArray[np.int32]
    #: The largest magnitude of a filter's sum.
    bound: int
    #: Whether the state is of int16.
    wide_state: bool
    macs: int


def svdf_shape(layer: Layer) -> tuple[HilSvdf, int]:
    """Return the sizes of a layer, and its multiply-accumulates."""
    n = sizes(layer.node, layer.ins)
    shape = HilSvdf(batch=n.batch, depth=n.depth, units=n.units, rank=n.rank, memory=n.memory)
    return shape, n.batch * n.filters * (n.depth + n.memory)


@cached_per_layer
def svdf_form(layer: Layer) -> SvdfForm:
    """Return the form of a layer of int8."""
    shape, macs = svdf_shape(layer)
    features, moments = (constant(layer, index) for index in (1, 2))
    factors = scaling(layer.node, layer.ins, layer.out)
    in_zero_point, state_zero_point = (
        quantization(layer.node, layer.operand(index))[1] for index in TENSORS
    )
    offsets = -in_zero_point * features.sum(axis=1, dtype=np.int64)
    ends = sum_ends(features)
    added = moments.reshape(shape.units, -1).sum(axis=1, dtype=np.int64)
    return SvdfForm(
        shape,
        HilSvdfScales(
            feature_multiplier=factors.feature.multiplier,
            feature_shift=factors.feature.shift,
            out_multiplier=factors.output.multiplier,
            out_shift=factors.output.shift,
            state_zero_point=state_zero_point,
            out_zero_point=quantization(layer.node, layer.out)[1],
        ),
        features,
        offsets,
        moments.reshape(-1),
        # Modulo 2^32, as they are added.
        (constant(layer, 3) - state_zero_point * added).astype(np.int32),
        max(int(np.abs(offsets + end).max()) for end in ends),
        layer.outs[1].element.symmetric,
        macs,
    )


def constant(layer: Layer, index: int) -> Array:
    """Return a constant operand."""
    data = layer.operand(index).data
    assert data is not None
    return data
