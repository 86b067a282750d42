"""PRELU: numbers below zero times a slope, of which there is one for all or one for each channel,
or any that are broadcast to the input's shape.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from hilc.ir import Array, Node, Tensor
from hilc.numerics.requantize import FixedPoint, requantize
from hilc.ops import permuting
from hilc.ops.broadcast import broadcast_channel_groups, broadcast_shape, operands_of_one_type
from hilc.ops.opdef import TWICE_OR_EVEN, OpDef, Signature
from hilc.ops.operands import (
    invalid,
    multiplier,
    operand,
    quantization,
    require_counts,
    undefined,
)
from hilc.ops.traits import BroadcastRows, IntegerOperands

#: The types that it takes.
DTYPES = ("int8", "float32")


class PreluScales(NamedTuple):
    """Factors of numbers from zero on, and of products of numbers below zero with a slope."""

    positive: FixedPoint
    product: FixedPoint


def prelu_scales(node: Node, x: Tensor, alpha: Tensor, out: Tensor) -> PreluScales:
    """Return the factors of int8."""
    scale, slope, out_scale = (quantization(node, tensor)[0] for tensor in (x, alpha, out))
    scales = PreluScales(
        multiplier(node, scale / out_scale), multiplier(node, scale * slope / out_scale)
    )
    # A number has 8 bits and a sign, a product with a slope 16.
    if scales.positive.shift > 22 or scales.product.shift > 14:
        undefined(
            node,
            f"has output scale {out_scale}, too fine for its input's {scale} and the slope's "
            f"{slope}",
        )
    return scales


def _infer(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    require_counts(node, inputs=2)
    x, alpha = operands_of_one_type(node, ins, DTYPES)
    if x.element.quantized:
        quantization(node, x)
        quantization(node, alpha)
    if broadcast_shape(node, (x, alpha)) != x.shape:
        invalid(node, f"has slopes of shape {list(alpha.shape)} for an input of {list(x.shape)}")
    return [(x.shape, x.dtype)]


def _check(node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor]) -> None:
    if outs[0].element.quantized:
        prelu_scales(node, operand(node, ins, 0), operand(node, ins, 1), outs[0])


def _reference(
    node: Node,
    ins: Sequence[Tensor | None],
    outs: Sequence[Tensor],
    values: Sequence[Array | None],
) -> list[Array]:
    source, slopes, out = operand(node, ins, 0), operand(node, ins, 1), outs[0]
    x, alpha = values
    assert x is not None
    assert alpha is not None
    if not out.element.quantized:
        return [np.where(x >= 0, x, x * alpha)]
    scales = prelu_scales(node, source, slopes, out)
    steps = x.astype(np.int64) - quantization(node, source)[1]
    product = steps * (alpha.astype(np.int64) - quantization(node, slopes)[1])
    scaled = np.where(
        steps >= 0,
        requantize(steps, *scales.positive, node.rounding),
        requantize(product, *scales.product, node.rounding),
    )
    y = scaled + quantization(node, out)[1]
    return [np.clip(y, *out.element.bounds).astype(out.dtype)]


PRELU = OpDef(
    _infer,
    _reference,
    _check,
    roundings=TWICE_OR_EVEN,
    rows=BroadcastRows(),
    integer_form=IntegerOperands(),
    permuted=permuting.elements,
    channel_groups=broadcast_channel_groups,
)

OPERATORS: Mapping[str, OpDef] = {
    "PRELU": PRELU,
}
