"""CONCATENATION, PACK, SPLIT, SPLIT_V and UNPACK: tensors of any type joined and cut along an axis.

SPLIT takes the constant axis, then the tensor; SPLIT_V the tensor, the constant sizes of the parts,
then the constant axis.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from hilc.ir import Array, Attributes, Node, Tensor
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
)
from hilc.ops.traits import BroadcastRows, ChannelGroup, ascending


def parts(node: Node, ins: Sequence[Tensor | None]) -> list[Tensor]:
    """Return all inputs, which must be of one type and rank."""
    if not ins or len(node.outputs) != 1:
        invalid(node, f"joins {len(ins)} tensors into {len(node.outputs)}")
    parts = [operand(node, ins, i) for i in range(len(ins))]
    first = parts[0]
    for part in parts:
        if part.dtype != first.dtype or len(part.shape) != len(first.shape):
            invalid(
                node,
                f"joins {first.dtype}{list(first.shape)} and {part.dtype}{list(part.shape)}",
            )
    return parts


def _check_parts(node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor]) -> None:
    for part in parts(node, ins):
        require_same_quantization(node, part, outs[0])


# CONCATENATION ----------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class ConcatenationAttributes(Attributes):
    """Attributes of CONCATENATION."""

    #: The axis along which the inputs are joined; negative from the last.
    axis: int
    #: Always NONE: files have the field, but kernels do not clamp copied elements.
    activation: Literal["NONE"] = "NONE"


def concatenation_axis(node: Node, ins: Sequence[Tensor | None]) -> int:
    """Return the axis of a CONCATENATION, counted from 0.

    :class:`~hilc.errors.ModelError` for an axis that does not exist.
    """
    axis = ConcatenationAttributes.of(node).axis
    return resolve_axis(node, axis, len(operand(node, ins, 0).shape))


def _infer_concatenation(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    operands = parts(node, ins)
    axis = concatenation_axis(node, ins)
    shape = list(operands[0].shape)
    for part in operands:
        if any(n != m for i, (n, m) in enumerate(zip(part.shape, shape, strict=True)) if i != axis):
            invalid(node, f"joins {shape} and {list(part.shape)} along axis {axis}")
    shape[axis] = sum(part.shape[axis] for part in operands)
    return [(tuple(shape), operands[0].dtype)]


def _concatenation(
    node: Node,
    ins: Sequence[Tensor | None],
    outs: Sequence[Tensor],
    values: Sequence[Array | None],
) -> list[Array]:
    arrays = [x for x in values if x is not None]
    return [np.concatenate(arrays, concatenation_axis(node, ins))]


# PACK -------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class PackAttributes(Attributes):
    """Attributes of PACK."""

    #: The new axis, counted in the output; negative from the last.
    axis: int
    #: The number of inputs.
    values_count: int


def pack_axis(node: Node, ins: Sequence[Tensor | None]) -> int:
    """Return the axis of the output of a PACK, counted from 0.

    :class:`~hilc.errors.ModelError` for an axis that does not exist.
    """
    axis = PackAttributes.of(node).axis
    return resolve_axis(node, axis, len(operand(node, ins, 0).shape) + 1)


def _infer_pack(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    operands = parts(node, ins)
    axis = pack_axis(node, ins)
    shape = operands[0].shape
    for part in operands:
        if part.shape != shape:
            invalid(node, f"packs {list(shape)} and {list(part.shape)}")
    stated = PackAttributes.of(node).values_count
    if stated != len(operands):
        invalid(node, f"packs {len(operands)} tensors and states {stated}")
    return [((*shape[:axis], len(operands), *shape[axis:]), operands[0].dtype)]


def _pack(
    node: Node,
    ins: Sequence[Tensor | None],
    outs: Sequence[Tensor],
    values: Sequence[Array | None],
) -> list[Array]:
    return [np.stack([x for x in values if x is not None], pack_axis(node, ins))]


# SPLIT ------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class SplitAttributes(Attributes):
    """Attributes of SPLIT and SPLIT_V."""

    #: The number of outputs.
    num_splits: int


def split_axis(node: Node, ins: Sequence[Tensor | None]) -> int:
    """Return the axis of a SPLIT, counted from 0.

    :class:`~hilc.errors.ModelError` for an axis that does not exist.
    """
    return resolve_axis(
        node, constant_int(node, operand(node, ins, 0)), len(operand(node, ins, 1).shape)
    )


def _infer_split(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    count = SplitAttributes.of(node).num_splits
    if count < 1:
        invalid(node, f"splits into {count} parts")
    require_counts(node, inputs=2, outputs=count)
    x = operand(node, ins, 1)
    axis = split_axis(node, ins)
    if x.shape[axis] % count:
        invalid(node, f"splits {x.shape[axis]} elements along axis {axis} into {count} parts")
    part = (*x.shape[:axis], x.shape[axis] // count, *x.shape[axis + 1 :])
    return [(part, x.dtype)] * count


def _split(
    node: Node,
    ins: Sequence[Tensor | None],
    outs: Sequence[Tensor],
    values: Sequence[Array | None],
) -> list[Array]:
    x = values[1]
    assert x is not None
    parts = np.split(x, len(outs), split_axis(node, ins))
    return [np.ascontiguousarray(part) for part in parts]


# SPLIT_V ----------------------------------------------------------------------------------------


def parts_of(node: Node, ins: Sequence[Tensor | None]) -> tuple[int, list[int]]:
    """Return the axis of SPLIT_V, and how much of it each output has."""
    shape = operand(node, ins, 0).shape
    axis = resolve_axis(node, constant_int(node, operand(node, ins, 2)), len(shape))
    sizes = list(constant_ints(node, operand(node, ins, 1)))
    if sizes.count(-1) == 1:
        # The part that takes what the others leave.
        sizes[sizes.index(-1)] = shape[axis] - sum(sizes) - 1
    if sum(sizes) != shape[axis] or min(sizes) < 1:
        invalid(
            node,
            f"splits {shape[axis]} elements along axis {axis} into parts of {sizes}; each must be "
            "at least 1",
        )
    return axis, sizes


def _infer_split_v(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    count = SplitAttributes.of(node).num_splits
    require_counts(node, inputs=3, outputs=count)
    x = operand(node, ins, 0)
    axis, sizes = parts_of(node, ins)
    if len(sizes) != count:
        invalid(node, f"splits into {len(sizes)} parts and states {count}")
    return [((*x.shape[:axis], size, *x.shape[axis + 1 :]), x.dtype) for size in sizes]


def _split_v(
    node: Node,
    ins: Sequence[Tensor | None],
    outs: Sequence[Tensor],
    values: Sequence[Array | None],
) -> list[Array]:
    x = values[0]
    assert x is not None
    axis, sizes = parts_of(node, ins)
    parts = np.split(x, np.cumsum(sizes)[:-1], axis)
    return [np.ascontiguousarray(part) for part in parts]


# UNPACK -----------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class UnpackAttributes(Attributes):
    """Attributes of UNPACK."""

    #: Axis to remove; negative from the last.
    axis: int
    #: The number of outputs.
    num: int


def unpack_axis(node: Node, ins: Sequence[Tensor | None]) -> int:
    """Return the axis of an UNPACK, counted from 0.

    :class:`~hilc.errors.ModelError` for an axis that does not exist.
    """
    return resolve_axis(node, UnpackAttributes.of(node).axis, len(operand(node, ins, 0).shape))


def _infer_unpack(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    count = UnpackAttributes.of(node).num
    x = operand(node, ins, 0)
    axis = unpack_axis(node, ins)
    if count != x.shape[axis]:
        invalid(node, f"unpacks {x.shape[axis]} parts along axis {axis} and states {count}")
    require_counts(node, inputs=1, outputs=count)
    return [((*x.shape[:axis], *x.shape[axis + 1 :]), x.dtype)] * count


def _unpack(
    node: Node,
    ins: Sequence[Tensor | None],
    outs: Sequence[Tensor],
    values: Sequence[Array | None],
) -> list[Array]:
    x = values[0]
    assert x is not None
    return [np.array(part) for part in np.moveaxis(x, unpack_axis(node, ins), 0)]


def _check_cut(node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor]) -> None:
    for out in outs:
        require_same_quantization(node, operand(node, ins, 0), out)


def _is_one(node: Node, ins: Sequence[Tensor | None]) -> bool:
    return len(ins) == 1


def _channel_groups(node: Node, ins: Sequence[Tensor | None], out: Tensor) -> list[ChannelGroup]:
    joins_channels = concatenation_axis(node, ins) == len(out.shape) - 1
    found, start = [], 0
    for part in parts(node, ins):
        channels = np.arange(part.shape[-1])
        found.append(ChannelGroup(part.name, channels, out.name, channels + start))
        start += part.shape[-1] if joins_channels else 0
    return found


CONCATENATION = OpDef(
    _infer_concatenation,
    _concatenation,
    _check_parts,
    attributes=ConcatenationAttributes,
    ignores_empty=True,
    is_identity=_is_one,
    bounds=ascending,
    # Parts that are joined along the height are not images of its rows.
    rows=BroadcastRows(),
    permuted=permuting.joined,
    channel_groups=_channel_groups,
    copies_elements=True,
)
PACK = OpDef(
    _infer_pack,
    _pack,
    _check_parts,
    attributes=PackAttributes,
    bounds=ascending,
    copies_elements=True,
)
SPLIT = OpDef(
    _infer_split, _split, attributes=SplitAttributes, bounds=ascending, copies_elements=True
)
SPLIT_V = OpDef(
    _infer_split_v,
    _split_v,
    _check_cut,
    attributes=SplitAttributes,
    bounds=ascending,
    copies_elements=True,
)
UNPACK = OpDef(
    _infer_unpack,
    _unpack,
    _check_cut,
    attributes=UnpackAttributes,
    bounds=ascending,
    copies_elements=True,
)

OPERATORS: Mapping[str, OpDef] = {
    "CONCATENATION": CONCATENATION,
    "PACK": PACK,
    "UNPACK": UNPACK,
    "SPLIT": SPLIT,
    "SPLIT_V": SPLIT_V,
}

#: Element types that the kernels of TensorFlow Lite Micro do not take.
TFLM_LACKS = {
    "CONCATENATION": {"uint8"},
    "PACK": {"uint8", "bool"},
    "UNPACK": {"uint8", "int64", "bool"},
    "SPLIT": {"uint8", "int64", "bool"},
    "SPLIT_V": {"uint8", "int64", "bool"},
}

#: Element types that the kernels of LiteRT do not take.
LITERT_LACKS = {
    "PACK": {"bool"},
    "UNPACK": {"int64"},
    "SPLIT": {"bool"},
    "SPLIT_V": {"bool"},
}
