"""TRANSPOSE, STRIDED_SLICE and PAD: elements of any type in other places.

Inputs: the tensor and, constant, the permutation; begin, end and strides; or the padding.
Attributes: STRIDED_SLICE's five masks. PAD fills with the real value zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from hilc.ir import Array, Node, Tensor
from hilc.lowering.kernels import KernelCall, kernels
from hilc.ops.opdef import OpDef, Signature, only
from hilc.ops.operands import (
    constant_ints,
    int_attribute,
    invalid,
    operand,
    quantization,
    require_counts,
    require_same_quantization,
    unsupported,
)
from hilc.ops.strides import Loop, contiguous_strides, nest, walk_fields
from hilc.target import Cpu

#: What the reference slices and pads at most.
_MAX_RANK = 5


def _itemsize(tensor: Tensor) -> int:
    return np.dtype(tensor.dtype).itemsize


def _gather(
    node: Node, x: Tensor, shape: Sequence[int], strides: Sequence[int], start: int
) -> KernelCall:
    """The call that writes ``shape``, reading x from element ``start`` on by ``strides``."""
    itemsize = _itemsize(x)
    # Where neighbours of the output are neighbours in the input, one move takes the whole run.
    loops = nest((*shape, itemsize), (*(s * itemsize for s in strides), 1))
    run = loops.pop().count if loops[-1].steps == (1,) else itemsize
    *outer, inner = loops or [Loop(1, (0,))]
    return KernelCall(
        kernels()["hil_gather"],
        {
            **walk_fields(node, outer, ("in",)),
            "start": start * itemsize,
            "length": inner.count,
            "step": inner.steps[0],
            "run": run,
        },
    )


# TRANSPOSE --------------------------------------------------------------------------------------


def _permutation(node: Node, ins: Sequence[Tensor | None]) -> tuple[int, ...]:
    rank = len(operand(node, ins, 0).shape)
    given = constant_ints(node, operand(node, ins, 1))
    axes = tuple(axis + rank if axis < 0 else axis for axis in given)
    if sorted(axes) != list(range(rank)):
        invalid(node, f"permutes {rank} axes by {list(given)}")
    return axes


def _infer_transpose(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    require_counts(node, inputs=2)
    x = operand(node, ins, 0)
    if len(x.shape) > _MAX_RANK + 1:
        unsupported(
            node,
            f"transposes {len(x.shape)} axes, more than {_MAX_RANK + 1}",
            "join axes that stay side by side by a reshape before it",
        )
    return [(tuple(x.shape[axis] for axis in _permutation(node, ins)), x.dtype)]


def _transpose(
    node: Node,
    ins: Sequence[Tensor | None],
    outs: Sequence[Tensor],
    values: Sequence[Array | None],
) -> list[Array]:
    x = values[0]
    assert x is not None
    return [x.transpose(_permutation(node, ins)).copy()]


def _emit_transpose(
    node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor], cpu: Cpu
) -> KernelCall:
    x = operand(node, ins, 0)
    strides = contiguous_strides(x.shape)
    order = [strides[axis] for axis in _permutation(node, ins)]
    return _gather(node, x, outs[0].shape, order, 0)


# STRIDED_SLICE ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Slice:
    """The elements taken along one axis."""

    start: int
    count: int
    step: int
    #: The axis, of one element, does not appear in the output.
    dropped: bool


def _sliced_shape(node: Node, ins: Sequence[Tensor | None]) -> list[tuple[int, int | None]]:
    """The axes of the input and the new ones between them: size, and who says what is taken.

    That is the position in begin, end and strides; None where the whole axis is taken.
    """
    shape, count = operand(node, ins, 0).shape, len(constant_ints(node, operand(node, ins, 1)))
    wide = [i for i in range(count) if node.attrs["ellipsis_mask"] >> i & 1]
    if len(wide) > 1:
        invalid(node, f"has ellipsis_mask {node.attrs['ellipsis_mask']}, more than one ellipsis")
    added = [i for i in range(count) if node.attrs["new_axis_mask"] >> i & 1 and i not in wide]
    rest = list(shape)
    covered = len(shape) - (count - len(added) - len(wide))
    if covered < 0:
        invalid(node, f"slices {len(shape)} axes by {count} begins, {len(added)} of new axes")
    if wide and covered == 0:
        unsupported(
            node,
            f"has ellipsis_mask {node.attrs['ellipsis_mask']} and no axis for the ellipsis",
            "TFLite takes it for one axis, TensorFlow for none: leave it out",
        )
    axes: list[tuple[int, int | None]] = []
    for i in range(count):
        if i in wide:
            axes += [(rest.pop(0), None) for _ in range(covered)]
        else:
            axes.append((1, None) if i in added else (rest.pop(0), i))
    return [*axes, *((size, None) for size in rest)]


def _slices(node: Node, ins: Sequence[Tensor | None]) -> list[_Slice]:
    """What is taken along each axis of the input, new ones included."""
    begin, end, steps = (constant_ints(node, operand(node, ins, i)) for i in (1, 2, 3))
    if not len(begin) == len(end) == len(steps):
        invalid(node, f"slices by {len(begin)} begins, {len(end)} ends and {len(steps)} strides")
    slices = []
    for axis, (size, given) in enumerate(_sliced_shape(node, ins)):
        if given is None:
            slices.append(_Slice(0, size, 1, dropped=False))
            continue
        step = steps[given]
        if step == 0:
            invalid(node, f"slices axis {axis} with stride 0")
        first = None if node.attrs["begin_mask"] >> given & 1 else begin[given]
        last = None if node.attrs["end_mask"] >> given & 1 else end[given]
        start, stop, step = slice(first, last, step).indices(size)
        dropped = bool(node.attrs["shrink_axis_mask"] >> given & 1)
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
    for mask in ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"):
        int_attribute(node, mask)
    rank = len(_sliced_shape(node, ins))
    if rank > _MAX_RANK:
        unsupported(
            node,
            f"slices {len(x.shape)} axes into {rank}, more than {_MAX_RANK}",
            "slice fewer axes at once, or add axes by a reshape",
        )
    return [(tuple(s.count for s in _slices(node, ins) if not s.dropped), x.dtype)]


def _strided_slice(
    node: Node,
    ins: Sequence[Tensor | None],
    outs: Sequence[Tensor],
    values: Sequence[Array | None],
) -> list[Array]:
    x = values[0]
    assert x is not None
    x = x.reshape([size for size, _ in _sliced_shape(node, ins)])
    for axis, taken in enumerate(_slices(node, ins)):
        places = taken.start + taken.step * np.arange(taken.count)
        x = x.take(places, axis)
    return [x.reshape(outs[0].shape)]


def _emit_strided_slice(
    node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor], cpu: Cpu
) -> KernelCall:
    x = operand(node, ins, 0)
    slices = _slices(node, ins)
    strides = contiguous_strides([size for size, _ in _sliced_shape(node, ins)])
    return _gather(
        node,
        x,
        [s.count for s in slices],
        [s.step * stride for s, stride in zip(slices, strides, strict=True)],
        sum(s.start * stride for s, stride in zip(slices, strides, strict=True)),
    )


# PAD --------------------------------------------------------------------------------------------


def _paddings(node: Node, ins: Sequence[Tensor | None]) -> Array:
    """Elements before and after, along each axis."""
    rank = len(operand(node, ins, 0).shape)
    given = operand(node, ins, 1)
    if given.dtype not in ("int32", "int64") or given.shape != (rank, 2):
        invalid(node, f"pads {rank} axes by {given.dtype}{list(given.shape)}")
    if given.data is None:
        unsupported(
            node,
            f"pads by {given.name!r}, which is only known at run time",
            "shapes are fixed at compile time: export the model with constant axes and shapes",
        )
    if given.data.min(initial=0) < 0 or given.data.max(initial=0) >= 1 << 31:
        invalid(node, f"pads by {given.data.tolist()}")
    return given.data


def _infer_pad(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    require_counts(node, inputs=2)
    x = operand(node, ins, 0)
    if len(x.shape) > _MAX_RANK:
        unsupported(
            node,
            f"pads {len(x.shape)} axes, more than {_MAX_RANK}",
            "join axes that it does not pad by a reshape before it",
        )
    amounts = _paddings(node, ins).sum(1)
    return [(tuple(n + int(more) for n, more in zip(x.shape, amounts, strict=True)), x.dtype)]


def _check_pad(node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor]) -> None:
    require_same_quantization(node, operand(node, ins, 0), outs[0])


def _fill(node: Node, out: Tensor) -> int:
    """The element that stands for zero; of types wider than a byte it has all bits clear."""
    zero_point = quantization(node, out)[1] if out.quant is not None else 0
    if zero_point and _itemsize(out) > 1:
        unsupported(
            node,
            f"pads {out.dtype} with the zero point {zero_point}",
            "quantise int16 and int32 symmetrically, as the TFLite quantisation scheme asks",
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
    fill = x.dtype.type(_fill(node, outs[0]))
    return [np.pad(x, _paddings(node, ins).astype(np.int64), constant_values=fill)]


def _emit_pad(
    node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor], cpu: Cpu
) -> KernelCall:
    x, out = operand(node, ins, 0), outs[0]
    paddings = _paddings(node, ins)
    strides = contiguous_strides(out.shape)
    # A row is what lies together in both tensors: everything behind the last axis that is padded.
    padded = [axis for axis in range(len(x.shape)) if paddings[axis].any()]
    split = padded[-1] if padded else 0
    row = prod(x.shape[split:]) * _itemsize(x)
    outer = nest(
        x.shape[:split],
        [stride * _itemsize(x) for stride in strides[:split]],
    )
    first = sum(int(p) * s for p, s in zip(paddings[:, 0], strides, strict=True)) * _itemsize(x)
    return KernelCall(
        kernels()["hil_pad"],
        {
            **walk_fields(node, outer, ("out",)),
            "start": first,
            "row": row,
            "size": out.nbytes,
            "fill": _fill(node, out) & 0xFF,
        },
    )


TRANSPOSE = OpDef(_infer_transpose, _transpose, only(_emit_transpose))
STRIDED_SLICE = OpDef(_infer_strided_slice, _strided_slice, only(_emit_strided_slice))
PAD = OpDef(_infer_pad, _pad, only(_emit_pad), check=_check_pad)
