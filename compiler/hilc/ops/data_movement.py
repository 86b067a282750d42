"""TRANSPOSE, STRIDED_SLICE, PAD and PADV2: elements of any type in other places.

Inputs: the tensor and, constant, the permutation; begin, end and strides; or the padding and, of
PADV2, what it fills with. PAD fills with the real value zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hilc.ir import Array, Attributes, Node, Tensor
from hilc.ops import permuting
from hilc.ops.opdef import OpDef, Signature
from hilc.ops.operands import (
    constant_ints,
    constant_pairs,
    invalid,
    operand,
    quantization,
    require_counts,
    require_same_quantization,
    unsupported,
)
from hilc.ops.traits import ChannelGroup, always, ascending, in_step

#: Axes that a slice or a padding takes at most; a transposition one more.
SLICED_AXES = 5


def itemsize(tensor: Tensor) -> int:
    """Return the size of an element, in bytes."""
    return np.dtype(tensor.dtype).itemsize


# TRANSPOSE --------------------------------------------------------------------------------------


def permutation(node: Node, ins: Sequence[Tensor | None]) -> tuple[int, ...]:
    """Return the order of axes of a TRANSPOSE: axis ``i`` of the output is axis ``order[i]`` of the
    input.

    :class:`~hilc.errors.ModelError` where the constant operand is no permutation of the axes.
    """
    rank = len(operand(node, ins, 0).shape)
    given = constant_ints(node, operand(node, ins, 1))
    axes = tuple(axis + rank if axis < 0 else axis for axis in given)
    if sorted(axes) != list(range(rank)):
        invalid(node, f"permutes {rank} axes by {list(given)}")
    return axes


def _infer_transpose(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    require_counts(node, inputs=2)
    x = operand(node, ins, 0)
    if len(x.shape) > SLICED_AXES + 1:
        unsupported(
            node,
            f"transposes {len(x.shape)} axes, more than {SLICED_AXES + 1}",
            "join axes that stay side by side by a reshape before it",
        )
    return [(tuple(x.shape[axis] for axis in permutation(node, ins)), x.dtype)]


def _transpose(
    node: Node,
    ins: Sequence[Tensor | None],
    outs: Sequence[Tensor],
    values: Sequence[Array | None],
) -> list[Array]:
    x = values[0]
    assert x is not None
    return [x.transpose(permutation(node, ins)).copy()]


# STRIDED_SLICE ----------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class StridedSliceAttributes(Attributes):
    """Attributes of STRIDED_SLICE: its masks."""

    #: Bit i: ignore the i-th begin and slice the axis from its start.
    begin_mask: int = 0
    #: Bit i: ignore the i-th end and slice the axis to its end.
    end_mask: int = 0
    #: Bit i: an ellipsis, for all axes without a begin of their own, which are not sliced.
    ellipsis_mask: int = 0
    #: Bit i: insert a new axis of size 1.
    new_axis_mask: int = 0
    #: Bit i: select the element at the i-th begin and remove the axis.
    shrink_axis_mask: int = 0


@dataclass(frozen=True)
class _Slice:
    """The elements taken along one axis."""

    start: int
    count: int
    step: int
    #: The axis, of one element, does not appear in the output.
    dropped: bool


def sliced_shape(node: Node, ins: Sequence[Tensor | None]) -> list[tuple[int, int | None]]:
    """Return the axes of the input and the new ones between them: size, and the index of the slice.

    That is the position in begin, end and strides; None where the whole axis is taken.
    """
    masks = StridedSliceAttributes.of(node)
    shape, count = operand(node, ins, 0).shape, len(constant_ints(node, operand(node, ins, 1)))
    wide = [i for i in range(count) if masks.ellipsis_mask >> i & 1]
    if len(wide) > 1:
        invalid(node, f"has ellipsis_mask {masks.ellipsis_mask}, more than one ellipsis")
    added = [i for i in range(count) if masks.new_axis_mask >> i & 1 and i not in wide]
    rest = list(shape)
    covered = len(shape) - (count - len(added) - len(wide))
    if covered < 0:
        invalid(node, f"slices {len(shape)} axes by {count} begins, {len(added)} of new axes")
    if wide and covered == 0:
        unsupported(
            node,
            f"has ellipsis_mask {masks.ellipsis_mask} and no axis for the ellipsis",
            "TFLite takes it for one axis, TensorFlow for none: leave it out",
        )
    axes: list[tuple[int, int | None]] = []
    for i in range(count):
        if i in wide:
            axes += [(rest.pop(0), None) for _ in range(covered)]
        else:
            axes.append((1, None) if i in added else (rest.pop(0), i))
    return [*axes, *((size, None) for size in rest)]


def slices(node: Node, ins: Sequence[Tensor | None]) -> list[_Slice]:
    """Return the slice along each axis of the input, new axes included."""
    begin, end, steps = (constant_ints(node, operand(node, ins, i)) for i in (1, 2, 3))
    if not len(begin) == len(end) == len(steps):
        invalid(node, f"slices by {len(begin)} begins, {len(end)} ends and {len(steps)} strides")
    masks, slices = StridedSliceAttributes.of(node), []
    for axis, (size, given) in enumerate(sliced_shape(node, ins)):
        if given is None:
            slices.append(_Slice(0, size, 1, dropped=False))
            continue
        step = steps[given]
        if step == 0:
            invalid(node, f"slices axis {axis} with stride 0")
        first = None if masks.begin_mask >> given & 1 else begin[given]
        last = None if masks.end_mask >> given & 1 else end[given]
        start, stop, step = slice(first, last, step).indices(size)
        dropped = bool(masks.shrink_axis_mask >> given & 1)
        if dropped:
            if step < 0 or start >= size:
                invalid(
                    node,
                    f"takes element {begin[given]} by stride {step} of axis {axis}, of {size}",
                )
            stop = start + 1
        count = len(range(start, stop, step))
        if count == 0:
            invalid(node, f"takes no element of axis {axis}, of {size}")
        slices.append(_Slice(start, count, step, dropped))
    return slices


def _infer_strided_slice(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    require_counts(node, inputs=4)
    x = operand(node, ins, 0)
    rank = len(sliced_shape(node, ins))
    if rank > SLICED_AXES:
        unsupported(
            node,
            f"slices {len(x.shape)} axes into {rank}, more than {SLICED_AXES}",
            "slice fewer axes at once, or add axes by a reshape",
        )
    return [(tuple(s.count for s in slices(node, ins) if not s.dropped), x.dtype)]


def _strided_slice(
    node: Node,
    ins: Sequence[Tensor | None],
    outs: Sequence[Tensor],
    values: Sequence[Array | None],
) -> list[Array]:
    x = values[0]
    assert x is not None
    x = x.reshape([size for size, _ in sliced_shape(node, ins)])
    for axis, taken in enumerate(slices(node, ins)):
        positions = taken.start + taken.step * np.arange(taken.count)
        x = x.take(positions, axis)
    return [x.reshape(outs[0].shape)]


# PAD and PADV2 ----------------------------------------------------------------------------------


def paddings(node: Node, ins: Sequence[Tensor | None]) -> Array:
    """Return the elements before and after, along each axis."""
    rank = len(operand(node, ins, 0).shape)
    return constant_pairs(node, operand(node, ins, 1), rank, "pads")


def _infer_pad(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    require_counts(node, inputs=3 if node.op == "PADV2" else 2)
    x = operand(node, ins, 0)
    if len(x.shape) > SLICED_AXES:
        unsupported(
            node,
            f"pads {len(x.shape)} axes, more than {SLICED_AXES}",
            "join axes that it does not pad by a reshape before it",
        )
    amounts = paddings(node, ins).sum(1)
    return [(tuple(n + int(more) for n, more in zip(x.shape, amounts, strict=True)), x.dtype)]


def _check_pad(node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor]) -> None:
    require_same_quantization(node, operand(node, ins, 0), outs[0])
    padding_element(node, ins, outs[0])


def padding_element(node: Node, ins: Sequence[Tensor | None], out: Tensor) -> Array:
    """Return the fill value of the padding, an array of rank 0."""
    if node.op != "PADV2":
        return np.array(pad_value(node, out), out.dtype)
    given = operand(node, ins, 2)
    if given.dtype != out.dtype or given.size != 1:
        invalid(node, f"fills {out.dtype} with {given.dtype}{list(given.shape)}")
    require_same_quantization(node, given, out)
    if given.data is None:
        unsupported(
            node,
            f"fills with {given.name!r}, which is only known at run time",
            "export the model with a constant to pad with",
        )
    return given.data.reshape(())


def pad_value(node: Node, out: Tensor) -> int:
    """Return the element that represents 0; for types wider than a byte all its bits are clear."""
    zero_point = quantization(node, out)[1] if out.quant is not None else 0
    if zero_point and itemsize(out) > 1:
        unsupported(
            node,
            f"pads {out.dtype} with the zero point {zero_point}",
            "quantize int16 and int32 symmetrically, as the TFLite quantization scheme asks",
        )
    return zero_point


def _pad(
    node: Node,
    ins: Sequence[Tensor | None],
    outs: Sequence[Tensor],
    values: Sequence[Array | None],
) -> list[Array]:
    x = values[0]
    assert x is not None
    value = padding_element(node, ins, outs[0])
    return [np.pad(x, paddings(node, ins).astype(np.int64), constant_values=value)]


def _keeps_order(node: Node, ins: Sequence[Tensor | None]) -> bool:
    axes = permutation(node, ins)
    return axes == tuple(range(len(axes)))


def _pad_channel_groups(
    node: Node, ins: Sequence[Tensor | None], out: Tensor
) -> list[ChannelGroup]:
    return [] if paddings(node, ins)[-1].any() else [in_step(operand(node, ins, 0), out)]


TRANSPOSE = OpDef(
    _infer_transpose,
    _transpose,
    is_identity=_keeps_order,
    bounds=ascending,
    copies_elements=True,
    axis_order=permutation,
)
STRIDED_SLICE = OpDef(
    _infer_strided_slice,
    _strided_slice,
    attributes=StridedSliceAttributes,
    bounds=ascending,
    copies_elements=True,
)
PAD = OpDef(
    _infer_pad,
    _pad,
    _check_pad,
    explicit_padding=paddings,
    # With the shape of its input it adds nothing.
    is_identity=always,
    permuted=permuting.padded,
    bounds=ascending,
    channel_groups=_pad_channel_groups,
    copies_elements=True,
)
PADV2 = replace(PAD, explicit_padding=None, channel_groups=None)

OPERATORS: Mapping[str, OpDef] = {
    "PAD": PAD,
    "PADV2": PADV2,
    "TRANSPOSE": TRANSPOSE,
    "STRIDED_SLICE": STRIDED_SLICE,
}

#: Element types that the kernels of TensorFlow Lite Micro do not take.
TFLM_LACKS = {
    "PAD": {"uint8", "int64", "bool"},
    "PADV2": {"uint8", "int64", "bool"},
    "TRANSPOSE": {"uint8", "int32", "int64", "bool"},
    "STRIDED_SLICE": {"uint8", "int64"},
}

#: Element types that the kernels of LiteRT do not take.
LITERT_LACKS = {
    "PAD": {"bool"},
    "PADV2": {"bool"},
}
