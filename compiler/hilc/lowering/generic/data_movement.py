"""TRANSPOSE, STRIDED_SLICE and PAD: bytes at other places."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from hilc.ir import Node, Tensor
from hilc.lowering.kernels import KernelCall
from hilc.lowering.parameters import HilGather, HilPad
from hilc.lowering.registry import Layer, lowers
from hilc.lowering.strides import Loop, contiguous_strides, nest, walk
from hilc.ops.data_movement import itemsize, pad_value, paddings, permutation, sliced_shape, slices


def _gather(
    node: Node, x: Tensor, shape: Sequence[int], strides: Sequence[int], start: int
) -> KernelCall:
    """Return the call that writes ``shape``, reading x from element ``start`` on by ``strides``."""
    nbytes = itemsize(x)
    # Where neighbours of the output are neighbours in the input, one move takes the whole run.
    loops = nest((*shape, nbytes), (*(s * nbytes for s in strides), 1))
    run = loops.pop().count if loops[-1].steps == (1,) else nbytes
    *outer, inner = loops or [Loop(1, (0,))]
    walked = walk(node, outer)
    parameters = HilGather(
        rows=walked.rows,
        counts=walked.counts,
        in_jumps=walked.jumps[0],
        start=start * nbytes,
        length=inner.count,
        step=inner.steps[0],
        run=run,
    )
    return KernelCall(parameters)


@lowers("TRANSPOSE")
def transpose(layer: Layer) -> KernelCall:
    """Return the call that writes elements in the order of the output."""
    node, ins = layer.node, layer.ins
    x = layer.operand(0)
    strides = contiguous_strides(x.shape)
    order = [strides[axis] for axis in permutation(node, ins)]
    return _gather(node, x, layer.out.shape, order, 0)


@lowers("STRIDED_SLICE")
def strided_slice(layer: Layer) -> KernelCall:
    """Return the call that takes elements at steps along each axis."""
    node, ins = layer.node, layer.ins
    x = layer.operand(0)
    taken = slices(node, ins)
    strides = contiguous_strides([size for size, _ in sliced_shape(node, ins)])
    return _gather(
        node,
        x,
        [s.count for s in taken],
        [s.step * stride for s, stride in zip(taken, strides, strict=True)],
        sum(s.start * stride for s, stride in zip(taken, strides, strict=True)),
    )


@lowers("PAD")
def pad(layer: Layer) -> KernelCall:
    """Return the call that copies rows of the input between what is added."""
    node, ins = layer.node, layer.ins
    x, out = layer.operand(0), layer.out
    added = paddings(node, ins)
    strides = contiguous_strides(out.shape)
    # A row is what lies together in both tensors: everything behind the last axis that is padded.
    padded = [axis for axis in range(len(x.shape)) if added[axis].any()]
    split = padded[-1] if padded else 0
    row = prod(x.shape[split:]) * itemsize(x)
    outer = nest(
        x.shape[:split],
        [stride * itemsize(x) for stride in strides[:split]],
    )
    first = sum(int(p) * s for p, s in zip(added[:, 0], strides, strict=True)) * itemsize(x)
    walked = walk(node, outer)
    parameters = HilPad(
        rows=walked.rows,
        counts=walked.counts,
        out_jumps=walked.jumps[0],
        start=first,
        row=row,
        size=out.nbytes,
        fill=pad_value(node, out) & 0xFF,
    )
    return KernelCall(parameters)
