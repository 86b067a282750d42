"""SCATTER: a tensor into which blocks of elements are put by their indices, one after the other, or
combined with what is there.

Inputs: the tensor ``[count, block]``, the int32 indices ``[n]``, and the blocks ``[n, block]``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NoReturn

import numpy as np

from hilc.errors import InputError
from hilc.ir import Array, Attributes, Node, Tensor
from hilc.ops.opdef import OpDef, Signature
from hilc.ops.operands import (
    invalid,
    operand,
    require_counts,
    require_dtype,
    require_same_quantization,
)
from hilc.ops.traits import SharedQuantization

#: The types whose elements are combined.
COMBINED = ("int32", "int64", "float32")


Reduction = Literal["none", "add", "mul", "max", "min"]


@dataclass(frozen=True, kw_only=True)
class ScatterAttributes(Attributes):
    """Attributes of a scatter."""

    #: Combination of a block with the values at its position.
    reduction: Reduction = "none"


_FUNCTIONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "none": lambda old, new: new,
    "add": np.add,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
}
#: In the order of ``enum hil_scatter_way``.
WAYS = tuple(_FUNCTIONS)


def _infer(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    require_counts(node, inputs=3)
    x, indices, updates = (operand(node, ins, i) for i in range(3))
    if ScatterAttributes.of(node).reduction != "none":
        require_dtype(node, x, COMBINED)
    count = indices.size
    fits = (
        len(x.shape) == 2
        and indices.dtype == "int32"
        and indices.shape == (count,)
        and updates.shape == (count, x.shape[1])
        and updates.dtype == x.dtype
    )
    if not fits:
        invalid(
            node,
            f"puts {updates.dtype}{list(updates.shape)} into {x.dtype}{list(x.shape)} by "
            f"{indices.dtype}{list(indices.shape)}",
        )
    if indices.data is not None and ((indices.data < 0) | (indices.data >= x.shape[0])).any():
        invalid(node, f"has an index outside of the {x.shape[0]} of {x.name!r}")
    return [(x.shape, x.dtype)]


def _check(node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor]) -> None:
    for index in (0, 2):
        require_same_quantization(node, operand(node, ins, index), outs[0])


def _outside(node: Node, what: str) -> NoReturn:
    raise InputError(f"{node.op} {node.name!r} puts {what}", "give indices that are in range")


def _reference(
    node: Node,
    ins: Sequence[Tensor | None],
    outs: Sequence[Tensor],
    values: Sequence[Array | None],
) -> list[Array]:
    x, indices, updates = values
    assert x is not None
    assert indices is not None
    assert updates is not None
    combine = _FUNCTIONS[ScatterAttributes.of(node).reduction]
    out = x.copy()
    with np.errstate(all="ignore"):
        for place, block in zip(indices.tolist(), updates, strict=True):
            if not 0 <= place < len(out):
                _outside(node, f"block {place} of {len(out)}")
            out[place] = combine(out[place], block)
    return [out]


def _refusal(node: Node) -> str | None:
    """Return why a node has no integer form; None where it has one."""
    combines = ScatterAttributes.of(node).reduction != "none"
    return "it combines what it puts with what is there" if combines else None


SCATTER = OpDef(
    _infer,
    _reference,
    _check,
    attributes=ScatterAttributes,
    integer_form=SharedQuantization(_refusal),
)

OPERATORS: Mapping[str, OpDef] = {
    "SCATTER": SCATTER,
}
