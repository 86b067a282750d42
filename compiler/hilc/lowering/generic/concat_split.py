"""CONCATENATION, PACK, SPLIT, SPLIT_V and UNPACK: blocks of bytes side by side."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from hilc.ir import Tensor
from hilc.lowering.kernels import KernelCall
from hilc.lowering.parameters import HilGenericJoin, HilGenericSplit, HilGenericSplitBlocks
from hilc.lowering.registry import Layer, lowers
from hilc.ops.concat_split import (
    concatenation_axis,
    pack_axis,
    parts,
    parts_of,
    split_axis,
    unpack_axis,
)


def _join(parts: Sequence[Tensor], axis: int) -> HilGenericJoin:
    """Return the copies of the contiguous block from ``axis`` on of each part in turn."""
    itemsize = np.dtype(parts[0].dtype).itemsize
    blocks = [prod(part.shape[axis:]) * itemsize for part in parts]
    return HilGenericJoin(
        rows=prod(parts[0].shape[:axis]),
        parts=len(parts),
        length=sum(blocks),
        blocks=np.array(blocks, np.int32),
    )


def _joining(join: HilGenericJoin) -> KernelCall:
    return KernelCall(join, tuple(range(join.parts)))


def joined(layer: Layer) -> HilGenericJoin:
    """Return the blocks that a CONCATENATION takes of each operand in turn."""
    node, ins = layer.node, layer.ins
    return _join(parts(node, ins), concatenation_axis(node, ins))


@lowers("CONCATENATION")
def concatenation(layer: Layer) -> KernelCall:
    """Return the call that takes blocks of each operand in turn."""
    return _joining(joined(layer))


@lowers("PACK")
def pack(layer: Layer) -> KernelCall:
    """Return the call that takes blocks of each operand in turn."""
    node, ins = layer.node, layer.ins
    return _joining(_join(parts(node, ins), pack_axis(node, ins)))


@lowers("SPLIT")
def split(layer: Layer) -> KernelCall:
    """Return the call that gives blocks to each output in turn."""
    node, ins, outs = layer.node, layer.ins, layer.outs
    axis = split_axis(node, ins)
    block = prod(layer.out.shape[axis:]) * np.dtype(layer.out.dtype).itemsize
    rows = prod(layer.out.shape[:axis])
    return KernelCall(HilGenericSplit(rows=rows, parts=len(outs), block=block), (1,))


@lowers("SPLIT_V")
def split_v(layer: Layer) -> KernelCall:
    """Return the call that gives blocks of several sizes to each output in turn."""
    axis, _ = parts_of(layer.node, layer.ins)
    rows = prod(layer.out.shape[:axis])
    blocks = np.array([out.nbytes // rows for out in layer.outs], np.int32)
    parameters = HilGenericSplitBlocks(
        rows=rows, parts=len(layer.outs), length=int(blocks.sum()), blocks=blocks
    )
    return KernelCall(parameters)


@lowers("UNPACK")
def unpack(layer: Layer) -> KernelCall:
    """Return the call that gives blocks to each output in turn."""
    rows = prod(layer.out.shape[: unpack_axis(layer.node, layer.ins)])
    return KernelCall(
        HilGenericSplit(rows=rows, parts=len(layer.outs), block=layer.out.nbytes // rows)
    )
