"""GATHER, GATHER_ND, EMBEDDING_LOOKUP, DYNAMIC_UPDATE_SLICE and ONE_HOT."""

from __future__ import annotations

from math import prod

import numpy as np

from hilc.lowering.generic.data_movement import take_indices
from hilc.lowering.kernels import KernelCall
from hilc.lowering.parameters import (
    HilGenericGatherBlocks,
    HilGenericGatherPlaces,
    HilGenericOneHotS32,
    HilGenericOneHotS64,
    HilGenericUpdateSlice,
    HilOneHot,
)
from hilc.lowering.registry import Layer, lowers
from hilc.lowering.strides import contiguous_strides, nest, walk
from hilc.ops.data_movement import itemsize
from hilc.ops.gather import gathered, one_hot_axis, switched
from hilc.ops.index_maps import Axis, IndexMap


@lowers("GATHER", "EMBEDDING_LOOKUP")
def gather(layer: Layer) -> KernelCall:
    """Return the call that takes blocks by computed indices, or by those that are known here."""
    node, own = layer.node, gathered(layer.node, layer.ins)
    order = (1, 0) if node.op == "EMBEDDING_LOOKUP" else (0, 1)
    x, indices = (layer.operand(index) for index in order)
    if indices.data is not None and own.batches == 1:
        row = Axis(own.rows, own.size * own.block)
        blocks = Axis.of(indices.data.reshape(-1).astype(np.int64) * own.block)
        return take_indices(
            node, x, IndexMap(own.shape, (row, blocks, Axis(own.block, 1))), order[0]
        )
    parameters = HilGenericGatherBlocks(
        batches=own.batches,
        rows=own.rows,
        size=own.size,
        block_bytes=own.block * itemsize(x),
        count=own.count,
    )
    return KernelCall(parameters, order)


@lowers("GATHER_ND")
def gather_nd(layer: Layer) -> KernelCall:
    """Return the call that takes blocks from where several indices say."""
    x, indices = layer.operand(0), layer.operand(1)
    depth = indices.shape[-1]
    steps = np.array(contiguous_strides(x.shape)[:depth], np.int32) * itemsize(x)
    block = prod(x.shape[depth:]) * itemsize(x)
    parameters = HilGenericGatherPlaces(
        count=indices.size // depth,
        depth=depth,
        steps=steps.astype(np.int32),
        block_bytes=block,
        most=x.nbytes - block,
    )
    return KernelCall(parameters, (0, 1))


@lowers("DYNAMIC_UPDATE_SLICE")
def update_slice(layer: Layer) -> KernelCall:
    """Return the call that copies the tensor and, over that, the update."""
    x, update = layer.operand(0), layer.operand(1)
    steps = [step * itemsize(x) for step in contiguous_strides(x.shape)]
    loops = nest((*update.shape, itemsize(x)), (*steps, 1))
    run = loops.pop().count if loops[-1].steps == (1,) else 1
    walked = walk(layer.node, loops)
    spare = np.subtract(x.shape, update.shape).astype(np.int32)
    parameters = HilGenericUpdateSlice(
        size=x.nbytes,
        axes=len(x.shape),
        spare=spare,
        steps=np.array(steps, np.int32),
        rows=walked.rows,
        counts=walked.counts,
        out_jumps=walked.jumps[0],
        row=run,
    )
    return KernelCall(parameters, (0, 1, 2))


@lowers("ONE_HOT")
def one_hot(layer: Layer) -> KernelCall:
    """Return the call that writes one element on and all others off, for each index."""
    axis = one_hot_axis(layer.node, layer.ins)
    shape = layer.out.shape
    on, off = (
        np.frombuffer(value.tobytes(), np.uint8) for value in switched(layer.node, layer.ins)
    )
    own = HilOneHot(
        rows=prod(shape[:axis]),
        classes=shape[axis],
        columns=prod(shape[axis + 1 :]),
        item=on.size,
        on=on,
        off=off,
    )
    kernel = HilGenericOneHotS64 if layer.operand(0).dtype == "int64" else HilGenericOneHotS32
    return KernelCall(kernel(one_hot=own))
