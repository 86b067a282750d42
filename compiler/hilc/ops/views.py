"""RESHAPE, SQUEEZE and EXPAND_DIMS: the input's bytes under another shape. BIT_CAST: in another
type. COPY: at a place of their own. FEED: row by row, as the caller brings them.

Inputs: the tensor and, constant, the shape (RESHAPE) or axis (EXPAND_DIMS).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from hilc.ir import ELEMENT_TYPES, Array, Attributes, Node, Tensor
from hilc.ops import permuting
from hilc.ops.opdef import OpDef, Signature
from hilc.ops.operands import (
    constant_int,
    constant_ints,
    invalid,
    operand,
    require_counts,
    require_same_quantization,
    resolve_axis,
    unsupported,
)
from hilc.ops.traits import ChannelGroup, FewerChannels, SameRows, always, ascending


@dataclass(frozen=True, kw_only=True)
class ReshapeAttributes(Attributes):
    """Attributes of RESHAPE."""

    #: Shape of the output if there is no second input; -1 for one inferred size.
    new_shape: tuple[int, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class SqueezeAttributes(Attributes):
    """Attributes of SQUEEZE."""

    #: Axes to remove; empty for every axis of size 1.
    squeeze_dims: tuple[int, ...] = ()


def _infer_reshape(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    require_counts(node, inputs=(1, 2))
    x = operand(node, ins, 0)
    given = ins[1] if len(ins) > 1 else None
    if given is not None:
        wanted = constant_ints(node, given)
    else:
        wanted = ReshapeAttributes.of(node).new_shape or ()
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
    axes = {resolve_axis(node, axis, rank) for axis in SqueezeAttributes.of(node).squeeze_dims}
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
    position = resolve_axis(node, axis, len(x.shape) + 1)
    return [((*x.shape[:position], 1, *x.shape[position:]), x.dtype)]


def _reference(
    node: Node,
    ins: Sequence[Tensor | None],
    outs: Sequence[Tensor],
    values: Sequence[Array | None],
) -> list[Array]:
    x = values[0]
    assert x is not None
    return [x.reshape(outs[0].shape)]


def _channel_groups(node: Node, ins: Sequence[Tensor | None], out: Tensor) -> list[ChannelGroup]:
    """Return the same bytes in rows of two lengths, where whole rows of one make a row of the
    other.
    """
    x = operand(node, ins, 0)
    lengths = x.shape[-1], out.shape[-1]
    if max(lengths) % min(lengths):
        return []
    channels = np.arange(max(lengths))
    return [ChannelGroup(x.name, channels % lengths[0], out.name, channels % lengths[1])]


def _reduced_reshape(node: Node, ins: Sequence[Tensor | None], length: int) -> FewerChannels:
    """Return the attributes with the new last dimension; -1 in its place stays right."""
    attrs, operands = ReshapeAttributes.of(node), dict[int, Array]()
    if attrs.new_shape and attrs.new_shape[-1] != -1:
        attrs = replace(attrs, new_shape=(*attrs.new_shape[:-1], length))
    given = ins[1] if len(ins) > 1 else None
    if given is not None:
        assert given.data is not None
        shape = given.data.copy()
        if shape[-1] != -1:
            shape[-1] = length
        operands[1] = shape
    return FewerChannels(attrs, operands)


def _reduced_squeeze(node: Node, ins: Sequence[Tensor | None], length: int) -> FewerChannels:
    """Return the attributes with the squeezed axes: the axis of channels may have become 1."""
    ones = tuple(axis for axis, side in enumerate(operand(node, ins, 0).shape) if side == 1)
    attrs = SqueezeAttributes.of(node)
    return FewerChannels(replace(attrs, squeeze_dims=attrs.squeeze_dims or ones))


RESHAPE = OpDef(
    _infer_reshape,
    _reference,
    attributes=ReshapeAttributes,
    view=True,
    is_identity=always,
    bounds=ascending,
    channel_groups=_channel_groups,
    with_fewer_channels=_reduced_reshape,
    permuted=permuting.reshaped,
    copies_elements=True,
    states_shape=1,
)
SQUEEZE = replace(
    RESHAPE,
    infer=_infer_squeeze,
    attributes=SqueezeAttributes,
    with_fewer_channels=_reduced_squeeze,
    permuted=None,
    states_shape=None,
)
EXPAND_DIMS = replace(
    RESHAPE,
    infer=_infer_expand_dims,
    attributes=Attributes,
    with_fewer_channels=None,
    permuted=None,
    states_shape=None,
)


@dataclass(frozen=True, kw_only=True)
class BitCastAttributes(Attributes):
    """Attributes of BIT_CAST."""

    #: The type of the output, of as many bytes as that of the input.
    dtype: str


def _infer_bit_cast(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    require_counts(node, inputs=1)
    x, target = operand(node, ins, 0), BitCastAttributes.of(node).dtype
    known = target in ELEMENT_TYPES and target != "bool"
    if not known or ELEMENT_TYPES[target].itemsize != x.element.itemsize:
        unsupported(node, f"takes {x.dtype} for {target}", "state a type of as many bytes")
    return [(x.shape, target)]


def _reference_bit_cast(
    node: Node,
    ins: Sequence[Tensor | None],
    outs: Sequence[Tensor],
    values: Sequence[Array | None],
) -> list[Array]:
    x = values[0]
    assert x is not None
    return [np.ascontiguousarray(x).reshape(x.shape).view(outs[0].dtype)]


#: Reinterpretation of the bytes as elements of another type.
BIT_CAST = OpDef(_infer_bit_cast, _reference_bit_cast, attributes=BitCastAttributes, view=True)


def _infer_copy(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    require_counts(node, inputs=1)
    x = operand(node, ins, 0)
    return [(x.shape, x.dtype)]


def _check_copy(node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor]) -> None:
    require_same_quantization(node, operand(node, ins, 0), outs[0])


#: Passes do not remove it: it is there for its place (:mod:`hilc.memory.copies`).
COPY = OpDef(_infer_copy, _reference, check=_check_copy, bounds=ascending)

#: The rows of an input that the caller brings a few at a time (:mod:`hilc.transforms.feed`).
FEED = OpDef(
    _infer_copy, _reference, check=_check_copy, rows=SameRows(), copies_elements=True, fed=True
)

OPERATORS: Mapping[str, OpDef] = {
    "RESHAPE": RESHAPE,
    "BIT_CAST": BIT_CAST,
    "SQUEEZE": SQUEEZE,
    "EXPAND_DIMS": EXPAND_DIMS,
    "COPY": COPY,
    "FEED": FEED,
}

#: Element types that the kernels of TensorFlow Lite Micro do not take.
TFLM_LACKS = {
    "EXPAND_DIMS": {"uint8", "int32", "int64", "bool"},
}
