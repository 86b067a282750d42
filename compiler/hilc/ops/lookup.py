"""LOOKUP: every number has an answer of its own, whatever function of it that is.

Inputs: bytes or int16, and a constant table of an answer for each number of the type, that of the
least first. The pass that fuses quantized operators makes it of chains of functions of single
elements; a conversion between int8 and uint8 is one too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from hilc.ir import Array, Node, Tensor
from hilc.ops import permuting
from hilc.ops.opdef import OpDef, Signature
from hilc.ops.operands import invalid, operand, require_counts, require_dtype, unsupported
from hilc.ops.quantize import BYTES
from hilc.ops.traits import BOUNDED, Interval, Reference, SameRows, any_value, channelwise


def answers(node: Node, ins: Sequence[Tensor | None]) -> Array:
    """Return the table by the number, from the least one on."""
    table = operand(node, ins, 1)
    if table.data is None:
        unsupported(
            node,
            f"takes the table {table.name!r}, which is only known at run time",
            "the table must be a constant of the model",
        )
    return table.data


def by_byte(node: Node, ins: Sequence[Tensor | None]) -> Array:
    """Return the table by the byte that a number is stored as."""
    return np.roll(answers(node, ins), operand(node, ins, 0).element.bounds[0])


def _infer(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    require_counts(node, inputs=2)
    x, table = operand(node, ins, 0), operand(node, ins, 1)
    require_dtype(node, x, (*BYTES, "int16"))
    require_dtype(node, table, BYTES if x.element.tabled else (x.dtype,))
    count = len(x.element.values)
    if table.shape != (count,):
        invalid(node, f"takes the table {table.name!r} of shape {list(table.shape)}, not [{count}]")
    answers(node, ins)
    return [(x.shape, table.dtype)]


def _reference(
    node: Node,
    ins: Sequence[Tensor | None],
    outs: Sequence[Tensor],
    values: Sequence[Array | None],
) -> list[Array]:
    x = values[0]
    assert x is not None
    return [answers(node, ins)[x.astype(np.int64) - operand(node, ins, 0).element.bounds[0]]]


def _bounds(
    reference: Reference,
    node: Node,
    ins: Sequence[Tensor | None],
    outs: Sequence[Tensor],
    values: Sequence[Interval | None],
) -> list[Interval]:
    """Return the range of the table's values within an interval, over all elements."""
    interval, out = values[0], outs[0]
    if interval is None or out.dtype not in BOUNDED:
        return [any_value(out)]
    first = operand(node, ins, 0).element.bounds[0]
    low, high = int(interval.low.min()) - first, int(interval.high.max()) - first
    held = answers(node, ins)[low : high + 1]
    least, most = (np.broadcast_to(end, out.shape) for end in (held.min(), held.max()))
    return [Interval(least, most)]


LOOKUP = OpDef(
    _infer,
    _reference,
    bounds=_bounds,
    rows=SameRows(),
    permuted=permuting.first_operand,
    channel_groups=channelwise,
)

OPERATORS: Mapping[str, OpDef] = {
    "LOOKUP": LOOKUP,
}
