"""CAST: the same numbers in another type.

Integers stand for themselves, whatever scale their tensors carry. A narrower integer type keeps the
lowest bits; floats are truncated towards zero and saturated, and what is no number becomes zero.
float16 is cast from float32, rounded to the nearest with ties to even, and to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hilc.ir import ELEMENT_TYPES, Array, Attributes, Node, Tensor
from hilc.ops import permuting
from hilc.ops.opdef import OpDef, Signature
from hilc.ops.operands import operand, require_counts, require_dtype, unsupported
from hilc.ops.traits import SameRows, channelwise

#: Types that operators here share, in the order of their kernels' enumerations.
CASTABLE = ("int8", "uint8", "int16", "int32", "int64", "float32", "bool")
#: The types that it takes and gives.
TYPES = (*CASTABLE, "uint16", "uint32", "uint64")


@dataclass(frozen=True, kw_only=True)
class CastAttributes(Attributes):
    """Attributes of CAST."""

    #: The type of the output.
    dtype: str


def _infer(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    require_counts(node, inputs=1)
    x, target = operand(node, ins, 0), CastAttributes.of(node).dtype
    if "float16" in (x.dtype, target):
        if {x.dtype, target} != {"float16", "float32"}:
            unsupported(
                node, f"casts {x.dtype} to {target}", "cast it to float32, and that to the type"
            )
        return [(x.shape, target)]
    require_dtype(node, x, TYPES)
    if target not in TYPES:
        unsupported(node, f"casts to {target}", f"supported: {', '.join(TYPES)}")
    return [(x.shape, target)]


def _reference(
    node: Node,
    ins: Sequence[Tensor | None],
    outs: Sequence[Tensor],
    values: Sequence[Array | None],
) -> list[Array]:
    target, x = ELEMENT_TYPES[CastAttributes.of(node).dtype], values[0]
    assert x is not None
    if x.dtype == np.float32 and np.issubdtype(target.name, np.integer):
        low, high = target.bounds
        whole = np.trunc(np.nan_to_num(x.astype(np.float64), posinf=np.inf, neginf=-np.inf))
        # The largest integers of 64 bits are no doubles: what reaches beyond is stated, not
        # converted.
        inside = np.clip(whole, low, np.nextafter(float(high), 0) if high > 2**53 else high)
        most = np.array(high, target.name)
        return [np.where(whole > inside, most, inside.astype(target.name))]
    with np.errstate(over="ignore", invalid="ignore"):
        return [x.astype(target.name)]


CAST = OpDef(
    _infer,
    _reference,
    attributes=CastAttributes,
    rows=SameRows(),
    permuted=permuting.first_operand,
    channel_groups=channelwise,
)

OPERATORS: Mapping[str, OpDef] = {
    "CAST": CAST,
}

#: Element types that the kernels of TensorFlow Lite Micro do not take.
TFLM_LACKS = {
    "CAST": {"uint8", "int64"},
}

#: Element types that the kernels of LiteRT do not take.
LITERT_LACKS = {
    # It does not saturate all floats.
    "CAST": {"float32"},
}
