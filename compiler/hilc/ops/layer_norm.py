"""LAYER_NORMALIZATION along the last axis: less the mean, over the deviation, by a factor and an
addend for each element of a row. Without the mean it is the root mean square that divides.

Inputs: the tensor, the factors, and the addends, which may be absent.

float32 adds one element after the other and rounds every step. int8 and int16 add up exactly and
have no mean that is rounded: of ``n`` elements ``q`` with the sum ``S``, ``n*q - S`` stands for a
difference from the mean, and ``sqrt(n*sum(q*q) - S*S + e)`` for the deviation, ``e`` being epsilon
in the same units. From there on each step is one of float32; the factors are over the output's
scale.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hilc.ir import Array, Attributes, Node, Rounding, Tensor
from hilc.ops.opdef import OpDef, Signature
from hilc.ops.operands import (
    invalid,
    operand,
    quantization,
    require_counts,
    require_dtype,
    unsupported,
)
from hilc.ops.traits import IntegerInput, SameRows

#: The types that it takes.
DTYPES = ("int8", "int16", "float32")
#: Elements of a row of integers: int8's differences from the mean are exact in float32, and
#: products with int16 fit 32 bits.
MOST = {"int8": (1 << 24) // 255, "int16": (1 << 15) - 1}

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class LayerNormAttributes(Attributes):
    """Attributes of LAYER_NORMALIZATION."""

    #: Addend of the variance.
    epsilon: float
    #: Whether the mean is subtracted first.
    centered: bool = True


class Scaling(NamedTuple):
    """Parameters of the integer computation, from quantizations and constants."""

    #: Epsilon in the units of the deviation.
    epsilon: np.float32
    #: Factor and addend of each element of a row, in steps of the output.
    factors: Floats
    addends: Floats


def scaling(node: Node, ins: Sequence[Tensor | None], out: Tensor) -> Scaling:
    """Return the constants of a layer on integers."""
    x, factors = operand(node, ins, 0), operand(node, ins, 1)
    addends = ins[2] if len(ins) > 2 else None
    assert factors.data is not None
    step, in_scale = quantization(node, out)[0], quantization(node, x)[0]
    epsilon = LayerNormAttributes.of(node).epsilon * (x.shape[-1] / in_scale) ** 2
    offsets = np.zeros(x.shape[-1]) if addends is None else addends.data
    assert offsets is not None
    with np.errstate(over="ignore"):
        return Scaling(
            np.float32(epsilon),
            (factors.data.astype(np.float64) / step).astype(np.float32),
            (offsets.astype(np.float64) / step).astype(np.float32),
        )


def _infer(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    require_counts(node, inputs=(2, 3))
    x = operand(node, ins, 0)
    require_dtype(node, x, DTYPES)
    if not LayerNormAttributes.of(node).epsilon >= 0:
        invalid(node, f"adds {LayerNormAttributes.of(node).epsilon} to variances")
    for index, tensor in enumerate(ins[1:], start=1):
        if tensor is None and index == 2:
            continue
        each = operand(node, ins, index)
        if each.shape != x.shape[-1:] or not each.element.is_computed_real:
            invalid(
                node,
                f"has {each.dtype}{list(each.shape)} as its input {index} for rows of "
                f"{list(x.shape[-1:])}",
            )
        if x.element.quantized and each.data is None:
            unsupported(node, f"computes its input {each.name!r}", "integers take constants only")
    if x.element.quantized:
        quantization(node, x)
        if x.shape[-1] > MOST[x.dtype]:
            unsupported(node, f"normalizes {x.shape[-1]} values, more than {MOST[x.dtype]}")
    return [(x.shape, x.dtype)]


def _check(node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor]) -> None:
    if outs[0].element.quantized:
        made = scaling(node, ins, outs[0])
        if not all(np.isfinite(part).all() for part in made):
            unsupported(
                node,
                f"has output scale {quantization(node, outs[0])[0]}, for which a factor is beyond "
                "float32",
                "check the quantization of the model",
            )


def _reference(
    node: Node,
    ins: Sequence[Tensor | None],
    outs: Sequence[Tensor],
    values: Sequence[Array | None],
) -> list[Array]:
    x = values[0]
    assert x is not None
    if outs[0].element.quantized:
        source = operand(node, ins, 0) if not LayerNormAttributes.of(node).centered else None
        return [integers(node, scaling(node, ins, outs[0]), outs[0], x, source)]
    attributes, count = LayerNormAttributes.of(node), np.float32(x.shape[-1])
    factors, addends = values[1], values[2] if len(values) > 2 else None
    assert factors is not None
    with np.errstate(all="ignore"):
        rest = x - row_sums(x) / count if attributes.centered else x
        variance = row_sums(rest * rest) / count
        inverse = np.float32(1) / np.sqrt(variance + np.float32(attributes.epsilon))
        y = rest * inverse * factors
        return [y if addends is None else y + addends]


def row_sums(x: Array) -> Floats:
    """Return the sums of rows, one element after the other."""
    sums: Floats = np.cumsum(x, axis=-1, dtype=np.float32)[..., -1:]
    return sums


def integers(
    node: Node, made: Scaling, out: Tensor, x: Array, source: Tensor | None = None
) -> Array:
    """Return rows of integers, along the last axis of ``x``, less their mean and over their
    deviation; with ``source``, the tensor that they are of, less its zero point.
    """
    count, zero_point = x.shape[-1], quantization(node, out)[1]
    q = x.astype(np.int64)
    if source is None:
        sums = q.sum(-1, keepdims=True)
        spread = count * (q * q).sum(-1, keepdims=True) - sums * sums
        rest = count * q - sums
    else:
        q -= quantization(node, source)[1]
        spread, rest = count * (q * q).sum(-1, keepdims=True), count * q
    divisor = spread.astype(np.float32) + made.epsilon
    with np.errstate(divide="ignore", over="ignore"):
        inverse = np.where(divisor > 0, np.float32(1) / np.sqrt(divisor), np.float32(0))
        steps = rest.astype(np.float32) * inverse * made.factors + made.addends
    low, high = (bound - zero_point for bound in out.element.bounds)
    result: Array = (np.clip(np.rint(steps), low, high) + zero_point).astype(out.dtype)
    return result


LAYER_NORMALIZATION = OpDef(
    _infer,
    _reference,
    _check,
    attributes=LayerNormAttributes,
    roundings=frozenset({Rounding.DOUBLE, Rounding.NEAREST_EVEN}),
    rows=SameRows(),
    integer_form=IntegerInput(),
)

OPERATORS: Mapping[str, OpDef] = {
    "LAYER_NORMALIZATION": LAYER_NORMALIZATION,
}
