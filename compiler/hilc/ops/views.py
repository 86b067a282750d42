"""RESHAPE, SQUEEZE and EXPAND_DIMS: the input's bytes under another shape.

Attributes: ``new_shape`` (RESHAPE without a second input), ``squeeze_dims`` (SQUEEZE; empty for
every axis of one element). Inputs: the tensor and, constant, the shape (RESHAPE) or axis
(EXPAND_DIMS).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from hilc.ir import Array, Node, Tensor
from hilc.ops.opdef import Infer, OpDef, Signature
from hilc.ops.operands import (
    constant_int,
    constant_ints,
    ints_attribute,
    invalid,
    operand,
    require_counts,
    resolve_axis,
)


def _infer_reshape(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    require_counts(node, inputs=(1, 2))
    x = operand(node, ins, 0)
    given = ins[1] if len(ins) > 1 else None
    if given is not None:
        wanted = constant_ints(node, given)
    else:
        wanted = ints_attribute(node, "new_shape")
        # How old converters wrote a scalar.
        if wanted == (0,):
            wanted = ()
    known = prod(n for n in wanted if n != -1)
    if any(n < -1 or n == 0 for n in wanted) or wanted.count(-1) > 1:
        invalid(node, f"is to have the shape {list(wanted)}")
    if x.size != known if -1 not in wanted else x.size % known:
        invalid(node, f"makes the shape {list(wanted)} of {list(x.shape)}, {x.size} elements")
    return [(tuple(x.size // known if n == -1 else n for n in wanted), x.dtype)]


def _infer_squeeze(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    require_counts(node, inputs=1)
    x = operand(node, ins, 0)
    rank = len(x.shape)
    axes = {resolve_axis(node, axis, rank) for axis in ints_attribute(node, "squeeze_dims")}
    for axis in axes:
        if x.shape[axis] != 1:
            invalid(node, f"squeezes axis {axis} of {list(x.shape)}")
    if not axes:
        axes = {i for i, n in enumerate(x.shape) if n == 1}
    return [(tuple(n for i, n in enumerate(x.shape) if i not in axes), x.dtype)]


def _infer_expand_dims(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    require_counts(node, inputs=2)
    x = operand(node, ins, 0)
    axis = constant_int(node, operand(node, ins, 1))
    place = resolve_axis(node, axis, len(x.shape) + 1)
    return [((*x.shape[:place], 1, *x.shape[place:]), x.dtype)]


def _reference(
    node: Node,
    ins: Sequence[Tensor | None],
    outs: Sequence[Tensor],
    values: Sequence[Array | None],
) -> list[Array]:
    x = values[0]
    assert x is not None
    return [x.reshape(outs[0].shape)]


def _view(infer: Infer) -> OpDef:
    return OpDef(infer, _reference, view=True)


RESHAPE = _view(_infer_reshape)
SQUEEZE = _view(_infer_squeeze)
EXPAND_DIMS = _view(_infer_expand_dims)
