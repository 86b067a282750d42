"""BUCKETIZE: which of the intervals between boundaries each number is in.

A number at a boundary counts to the interval above it. Integers are compared as float32.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hilc.ir import Array, Attributes, Node, Tensor
from hilc.ops import permuting
from hilc.ops.opdef import OpDef, Signature
from hilc.ops.operands import invalid, operand, require_counts, require_dtype
from hilc.ops.traits import SameRows, channelwise

DTYPES = ("int32", "int64", "float32")


@dataclass(frozen=True, kw_only=True)
class BucketizeAttributes(Attributes):
    """Attributes of BUCKETIZE."""

    #: Boundaries between intervals, ascending.
    boundaries: tuple[float, ...]


def boundaries(node: Node) -> npt.NDArray[np.float32]:
    """Return the boundaries, checked."""
    stated = BucketizeAttributes.of(node).boundaries
    with np.errstate(over="ignore"):
        found = np.array(stated, np.float32)
    if not found.size or np.isnan(found).any() or (found[1:] < found[:-1]).any():
        invalid(node, f"has the boundaries {list(stated)} (accepted: numbers, ascending)")
    return found


def _infer(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    require_counts(node, inputs=1)
    x = operand(node, ins, 0)
    require_dtype(node, x, DTYPES)
    boundaries(node)
    return [(x.shape, "int32")]


def _reference(
    node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor], values: Sequence[Array | None]
) -> list[Array]:
    x = values[0]
    assert x is not None
    return [np.searchsorted(boundaries(node), x.astype(np.float32), "right").astype(np.int32)]


BUCKETIZE = OpDef(
    _infer,
    _reference,
    attributes=BucketizeAttributes,
    rows=SameRows(),
    permuted=permuting.first_operand,
    channel_groups=channelwise,
)

OPERATORS: Mapping[str, OpDef] = {
    "BUCKETIZE": BUCKETIZE,
}

#: Element types that the kernels of TensorFlow Lite Micro do not take.
TFLM_LACKS = {
    "BUCKETIZE": {"int32", "int64", "float32"},
}
