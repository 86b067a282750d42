"""GROUP_NORMALIZATION over images ``[N, C, ...]``: the channels of each image in groups, each less
its mean, over its deviation, by a factor and an addend for each channel or for each group.

Inputs: the tensor, the factors, the addends. As many groups as channels are ONNX's
InstanceNormalization. Integers are computed as those of :mod:`hilc.ops.layer_norm`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from hilc.ir import Array, Attributes, Node, Rounding, Tensor
from hilc.ops.layer_norm import DTYPES, MOST, Floats, Scaling, integers, row_sums
from hilc.ops.opdef import OpDef, Signature
from hilc.ops.operands import (
    invalid,
    operand,
    quantization,
    require_counts,
    require_dtype,
    unsupported,
)
from hilc.ops.traits import IntegerInput


@dataclass(frozen=True, kw_only=True)
class GroupNormAttributes(Attributes):
    """Attributes of GROUP_NORMALIZATION."""

    #: Groups of channels.
    groups: int
    #: Addend of the variance.
    epsilon: float


def depth(node: Node, x: Tensor) -> int:
    """Return the number of elements of a group."""
    return prod(x.shape[1:]) // GroupNormAttributes.of(node).groups


def scaling(node: Node, ins: Sequence[Tensor | None], out: Tensor) -> Scaling:
    """Return the constants of a layer on integers, one of each factor."""
    x, factors, addends = (operand(node, ins, i) for i in range(3))
    assert factors.data is not None
    assert addends.data is not None
    step, in_scale = quantization(node, out)[0], quantization(node, x)[0]
    with np.errstate(over="ignore"):
        return Scaling(
            np.float32(GroupNormAttributes.of(node).epsilon * (depth(node, x) / in_scale) ** 2),
            (factors.data.astype(np.float64) / step).astype(np.float32),
            (addends.data.astype(np.float64) / step).astype(np.float32),
        )


def _infer(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    require_counts(node, inputs=3)
    x, attributes = operand(node, ins, 0), GroupNormAttributes.of(node)
    require_dtype(node, x, DTYPES)
    if len(x.shape) < 2 or attributes.groups < 1 or x.shape[1] % attributes.groups:
        invalid(node, f"has {attributes.groups} groups of the channels of {list(x.shape)}")
    if not attributes.epsilon >= 0:
        invalid(node, f"adds {attributes.epsilon} to variances")
    for index in (1, 2):
        each = operand(node, ins, index)
        if each.shape not in ((x.shape[1],), (attributes.groups,)):
            invalid(node, f"has its input {index} of shape {list(each.shape)} for {list(x.shape)}")
        if not each.element.is_computed_real or each.shape != operand(node, ins, 1).shape:
            invalid(node, f"has its input {index} of {each.dtype}{list(each.shape)}")
        if x.element.quantized and each.data is None:
            unsupported(node, f"computes its input {each.name!r}", "integers take constants only")
    if x.element.quantized:
        quantization(node, x)
        if depth(node, x) > MOST[x.dtype]:
            unsupported(node, f"normalizes {depth(node, x)} values, more than {MOST[x.dtype]}")
    return [(x.shape, x.dtype)]


def _check(node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor]) -> None:
    if not outs[0].element.quantized:
        return
    if not all(np.isfinite(part).all() for part in scaling(node, ins, outs[0])):
        unsupported(
            node,
            f"has output scale {quantization(node, outs[0])[0]}, for which a factor is beyond "
            "float32",
            "check the quantization of the model",
        )


def _reference(
    node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor], values: Sequence[Array | None]
) -> list[Array]:
    x, attributes = values[0], GroupNormAttributes.of(node)
    assert x is not None
    count = depth(node, operand(node, ins, 0))
    rows = x.reshape(-1, attributes.groups, count)

    def each(factors: Array) -> Floats:
        runs: Floats = np.repeat(factors, attributes.groups * count // factors.size)
        return runs.reshape(attributes.groups, count)

    if outs[0].element.quantized:
        epsilon, factors, addends = scaling(node, ins, outs[0])
        made = integers(node, Scaling(epsilon, each(factors), each(addends)), outs[0], rows)
        return [made.reshape(x.shape)]
    assert values[1] is not None
    assert values[2] is not None
    with np.errstate(all="ignore"):
        rest = rows - row_sums(rows) / np.float32(count)
        variance = row_sums(rest * rest) / np.float32(count)
        inverse = np.float32(1) / np.sqrt(variance + np.float32(attributes.epsilon))
        y = rest * inverse * each(values[1]) + each(values[2])
    return [y.reshape(x.shape).astype(np.float32)]


OPERATORS: Mapping[str, OpDef] = {
    "GROUP_NORMALIZATION": OpDef(
        _infer,
        _reference,
        _check,
        attributes=GroupNormAttributes,
        roundings=frozenset({Rounding.DOUBLE, Rounding.NEAREST_EVEN}),
        integer_form=IntegerInput(),
    ),
}
