"""RESAMPLE: images of another size, each pixel a weighted sum of some rows and columns.

Inputs: images ``[N, H, W, C]`` and, constant, the weight of each input row in each output row and
of each input column in each output column, float32.

float32 adds along a row first, in the order of the columns. int8, by the policy of ties to even,
takes weights in 2^-16 whose sum is exact, adds exactly, and rounds once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hilc.ir import Array, Node, Rounding, Tensor
from hilc.numerics.requantize import FixedPoint, requantize
from hilc.ops.opdef import TWICE_OR_EVEN, OpDef, Signature
from hilc.ops.operands import (
    invalid,
    operand,
    quantization,
    require_counts,
    require_dtype,
    sum_multiplier,
    unsupported,
)
from hilc.ops.traits import ChannelGroup, IntegerInput, in_step

_DTYPES = ("int8", "float32")
#: Bits of an integer weight behind the point.
_BITS = 16
#: Bound of the magnitudes of an output's weights along an axis: sums along a row have 32 bits.
_MOST_WEIGHT = 4


@dataclass(frozen=True)
class Taps:
    """The inputs of each output along an axis: ``[outputs, taps]``."""

    places: Array
    #: float32, or integers in 2^-16.
    weights: Array


def taps(weights: Tensor, *, whole: bool) -> Taps:
    """Return what each output of an axis is a sum of, in the order of the inputs."""
    matrix = weights.data
    assert matrix is not None
    if whole:
        matrix = whole_weights(matrix)
    count = max(1, int((matrix != 0).sum(1).max()))
    places = np.sort(np.argsort(matrix == 0, axis=1, kind="stable")[:, :count], axis=1)
    return Taps(places, np.take_along_axis(matrix, places, 1))


def whole_weights(matrix: Array) -> Array:
    """Return weights in 2^-16: rounded, and the largest of each output such that their sum is that
    of the weights.
    """
    scaled = matrix.astype(np.float64) * (1 << _BITS)
    whole = np.rint(scaled).astype(np.int64)
    missing = np.rint(scaled.sum(1)).astype(np.int64) - whole.sum(1)
    largest = np.abs(whole).argmax(1)
    whole[np.arange(len(whole)), largest] += missing
    return whole


def even_scale(node: Node, x: Tensor, out: Tensor) -> FixedPoint:
    """Return the factor of a sum of integers."""
    scale = quantization(node, x)[0] / quantization(node, out)[0]
    return sum_multiplier(node, scale / (1 << 2 * _BITS), "int64")


def _infer(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    require_counts(node, inputs=3)
    x, rows, columns = (operand(node, ins, i) for i in range(3))
    require_dtype(node, x, _DTYPES)
    if len(x.shape) != 4:
        invalid(node, f"takes {x.name!r} of shape {list(x.shape)}, which is no image")
    for weights, size in ((rows, x.shape[1]), (columns, x.shape[2])):
        require_dtype(node, weights, ("float32",))
        if weights.data is None:
            unsupported(node, f"computes its weights {weights.name!r}", "constants are supported")
        if len(weights.shape) != 2 or weights.shape[1] != size or not weights.size:
            invalid(node, f"weights {size} rows or columns by {list(weights.shape)}")
    return [((x.shape[0], rows.shape[0], columns.shape[0], x.shape[3]), x.dtype)]


def _check(node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor]) -> None:
    x = operand(node, ins, 0)
    if not x.element.quantized:
        return
    if node.rounding is not Rounding.NEAREST_EVEN:
        unsupported(node, f"resamples {x.dtype} with two roundings", "one rounding is supported")
    even_scale(node, x, outs[0])
    for index in (1, 2):
        data = operand(node, ins, index).data
        assert data is not None
        if not np.abs(data).sum(1).max() < _MOST_WEIGHT:
            unsupported(
                node,
                f"has weights whose magnitudes add up to {np.abs(data).sum(1).max():g}",
                f"sums below {_MOST_WEIGHT} are supported",
            )


def _reference(
    node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor], values: Sequence[Array | None]
) -> list[Array]:
    x, source = values[0], operand(node, ins, 0)
    assert x is not None
    is_whole = source.element.quantized
    rows, columns = (taps(operand(node, ins, i), whole=is_whole) for i in (1, 2))
    steps = x.astype(np.int64) - quantization(node, source)[1] if is_whole else x
    along = _weighted(steps, columns, 2)
    total = _weighted(along, rows, 1)
    if is_whole:
        scale = even_scale(node, source, outs[0])
        scaled = requantize(total, *scale, node.rounding, "int64")
        total = np.clip(scaled + quantization(node, outs[0])[1], *outs[0].element.bounds)
    return [total.astype(x.dtype)]


def _weighted(x: Array, found: Taps, axis: int) -> Array:
    """Return the weighted sums along an axis, added tap by tap."""
    shape = [1] * x.ndim
    shape[axis] = -1
    total: Array = np.zeros((), x.dtype)
    for tap in range(found.places.shape[1]):
        weights = found.weights[:, tap].astype(x.dtype).reshape(shape)
        total = total + np.take(x, found.places[:, tap], axis) * weights
    return total


def _channel_groups(node: Node, ins: Sequence[Tensor | None], out: Tensor) -> list[ChannelGroup]:
    return [in_step(operand(node, ins, 0), out)]


OPERATORS: Mapping[str, OpDef] = {
    "RESAMPLE": OpDef(
        _infer,
        _reference,
        _check,
        roundings=TWICE_OR_EVEN,
        integer_form=IntegerInput(),
        channel_groups=_channel_groups,
    ),
}
