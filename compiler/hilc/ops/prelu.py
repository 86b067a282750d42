"""PRELU: numbers below zero times a slope, of which there is one for all or one for each channel,
or any that are broadcast to the input's shape.

Constant slopes of int8 may be float32: then a number times the slope, over the output's scale, is
computed in float32 and rounded once.
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


def has_float_slopes(node: Node, ins: Sequence[Tensor | None]) -> bool:
    """Return whether integers have constant slopes of floats."""
    x, alpha = operand(node, ins, 0), operand(node, ins, 1)
    return (
        x.dtype in DTYPES
        and x.element.quantized
        and alpha.data is not None
        and (alpha.element.is_computed_real)
    )


def float_ratio(node: Node, x: Tensor, out: Tensor) -> np.float32:
    """Return the input's scale over the output's."""
    return np.float32(quantization(node, x)[0] / quantization(node, out)[0])


def _infer(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    require_counts(node, inputs=2)
    if has_float_slopes(node, ins):
        x, alpha = operand(node, ins, 0), operand(node, ins, 1)
        quantization(node, x)
    else:
        x, alpha = operands_of_one_type(node, ins, DTYPES)
    if x.element.quantized and alpha.element.quantized:
        quantization(node, x)
        quantization(node, alpha)
    if broadcast_shape(node, (x, alpha)) != x.shape:
        invalid(node, f"has slopes of shape {list(alpha.shape)} for an input of {list(x.shape)}")
    return [(x.shape, x.dtype)]


def _check(node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor]) -> None:
    if has_float_slopes(node, ins):
        slopes, ratio = operand(node, ins, 1), float_ratio(node, operand(node, ins, 0), outs[0])
        assert slopes.data is not None
        with np.errstate(over="ignore"):
            if not np.isfinite(slopes.data * ratio).all() or not np.isfinite(ratio):
                undefined(node, f"has slopes beyond float32 in {slopes.name!r}")
    elif outs[0].element.quantized:
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
    steps = x.astype(np.int64) - quantization(node, source)[1]
    if has_float_slopes(node, ins):
        ratio = float_ratio(node, source, out)
        factors = np.where(steps >= 0, ratio, alpha * ratio)
        low, high = (end - quantization(node, out)[1] for end in out.element.bounds)
        rounded = np.rint(np.clip(steps.astype(np.float32) * factors, low, high))
        return [(rounded + quantization(node, out)[1]).astype(out.dtype)]
    scales = prelu_scales(node, source, slopes, out)
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
    integer_form=IntegerOperands(float_constants=True),
    permuted=permuting.elements,
    channel_groups=broadcast_channel_groups,
)

OPERATORS: Mapping[str, OpDef] = {
    "PRELU": PRELU,
}
