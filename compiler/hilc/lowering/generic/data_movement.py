"""Bytes at other places: TRANSPOSE, STRIDED_SLICE, those that pad, and all that rearrange."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from math import prod

import numpy as np

from hilc.ir import Node, Tensor
from hilc.lowering.kernels import KernelCall
from hilc.lowering.parameters import (
    HilGenericGather,
    HilGenericPad,
    HilGenericPadElements,
    HilGenericSpaceToBatch,
    HilGenericTake,
)
from hilc.lowering.registry import Layer, lowers
from hilc.lowering.strides import (
    OUTER_LOOPS,
    Loop,
    broadcast_strides,
    contiguous_strides,
    nest,
    walk,
)
from hilc.ops.data_movement import (
    itemsize,
    padding_element,
    paddings,
    permutation,
    sliced_shape,
    slices,
)
from hilc.ops.fill import OPERANDS, repeated
from hilc.ops.index_maps import Axis, IndexMap
from hilc.ops.rearrange import REARRANGED, blocks, fill_between


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
    parameters = HilGenericGather(
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
    return _gather(layer.node, layer.operand(0), layer.out.shape, _transposed_strides(layer), 0)


def _transposed_strides(layer: Layer) -> list[int]:
    strides = contiguous_strides(layer.operand(0).shape)
    return [strides[axis] for axis in permutation(layer.node, layer.ins)]


def swapped_axes(layer: Layer) -> tuple[int, int, int] | None:
    """Return how many matrices of bytes TRANSPOSE transposes, their rows and columns, as it does
    from channels first to channels last and back; None where it does anything else.
    """
    loops = nest(layer.out.shape, _transposed_strides(layer))
    if itemsize(layer.operand(0)) != 1 or len(loops) not in (2, 3):
        return None
    *outer, column, row = loops
    matrix = column.count * row.count
    if column.steps != (1,) or row.steps != (column.count,):
        return None
    if any(loop.steps != (matrix,) for loop in outer):
        return None
    return prod(loop.count for loop in outer), row.count, column.count


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


@lowers("PAD", "PADV2")
def pad(layer: Layer) -> KernelCall:
    """Return the call that copies rows of the input between the padding."""
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
    element = np.frombuffer(padding_element(node, ins, out).tobytes(), np.uint8)
    if (element == element[0]).all():
        parameters = HilGenericPad(
            rows=walked.rows,
            counts=walked.counts,
            out_jumps=walked.jumps[0],
            start=first,
            row=row,
            size=out.nbytes,
            pad_value=int(element[0]),
        )
        return KernelCall(parameters)
    elements = HilGenericPadElements(
        rows=walked.rows,
        counts=walked.counts,
        out_jumps=walked.jumps[0],
        start=first,
        row=row,
        count=out.size,
        item=element.size,
        pad_value=element,
    )
    return KernelCall(elements)


# What says by itself where its elements come from ------------------------------------------------


@lowers(*REARRANGED)
def rearranged(layer: Layer) -> Iterator[KernelCall]:
    """Return the calls that write elements from where the operator says that they come from."""
    node, ins = layer.node, layer.ins
    return index_calls(node, layer.operand(0), REARRANGED[node.op](node, ins))


def index_calls(node: Node, x: Tensor, index_map: IndexMap) -> Iterator[KernelCall]:
    """Return the call of :func:`take_indices`; of a part of an image then the one that serves all
    parts, whatever their rows.
    """
    yield take_indices(node, x, index_map)
    if index_map.partial:
        yield _take(x, index_map.start, index_map.axes, "any_rows")


def take_indices(node: Node, x: Tensor, index_map: IndexMap, index: int = 0) -> KernelCall:
    """Return the call that writes the elements of ``x``, input ``index``, at ``index_map``."""
    start, axes = index_map.start, []
    for axis in index_map.axes:
        if axis.count == 1 or axis.table is not None and not np.diff(axis.table, 2).any():
            # As many elements from each place to the next.
            first, *more = axis.indices[:2].tolist()
            start += first
            axes += [Axis(axis.count, more[0] - first)] if more else []
        else:
            axes.append(axis)
    if all(axis.table is None for axis in axes):
        shape, steps = [axis.count for axis in axes], [axis.step for axis in axes]
        # The kernel itself runs the innermost of as many loops.
        if len(nest(shape, steps)) <= OUTER_LOOPS + 1:
            return replace(_gather(node, x, shape, steps, start), inputs=(index,))
    return replace(_take(x, start, axes), inputs=(index,))


def _take(x: Tensor, start: int, axes: Sequence[Axis], form: str = "") -> KernelCall:
    """Return the call that reads x at the indices ``start`` plus those of ``axes``."""
    rest, run = list(axes), 1
    while rest and rest[-1].table is None and rest[-1].step == run:
        run *= rest.pop().count
    tables = [axis.indices * itemsize(x) for axis in rest]
    while len(tables) > OUTER_LOOPS + 1:
        # One loop for two, those of which the table of both is the shortest.
        sizes = [a.size * b.size for a, b in pairwise(tables)]
        shortest = sizes.index(min(sizes))
        tables[shortest : shortest + 2] = [
            np.add.outer(*tables[shortest : shortest + 2]).reshape(-1)
        ]
    tables = [np.zeros(1, np.int64)] * (OUTER_LOOPS + 1 - len(tables)) + tables
    tables[0] = tables[0] + start * itemsize(x)
    counts = tuple(table.size for table in tables)
    parameters = HilGenericTake(
        rows=prod(counts[:-1]),
        counts=counts[:-1],
        places=np.concatenate(tables).astype(np.int32),
        length=counts[-1],
        run=run * itemsize(x),
    )
    return KernelCall(parameters.as_form(form))


@lowers("SPACE_TO_BATCH_ND")
def space_to_batch(layer: Layer) -> KernelCall:
    """Return the call that collects the pixels of each place in a block."""
    x, b = layer.operand(0), blocks(layer.node, layer.ins)
    parameters = HilGenericSpaceToBatch(
        images=b.images,
        in_h=b.size[0],
        in_w=b.size[1],
        out_h=b.small[0],
        out_w=b.small[1],
        block_h=b.block[0],
        block_w=b.block[1],
        top=b.around[0][0],
        left=b.around[1][0],
        depth=b.depth * itemsize(x),
        pad_value=fill_between(layer.node, layer.ins, layer.outs) & 0xFF,
    )
    return KernelCall(parameters)


@lowers("FILL", "BROADCAST_TO")
def repeat(layer: Layer) -> KernelCall:
    """Return the call that reads elements as often as the output repeats them."""
    node, x = layer.node, repeated(layer.node, layer.ins)
    strides = broadcast_strides(x.shape, layer.out.shape)
    call = _gather(node, x, layer.out.shape, strides, 0)
    return replace(call, inputs=(OPERANDS[node.op][0],))
