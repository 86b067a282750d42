"""Products of two computed matrices, and of many such pairs, as their kernels see them."""

from __future__ import annotations

from dataclasses import dataclass

from hilc.ir import Tensor
from hilc.lowering.kernels import KernelCall, Parameters
from hilc.lowering.parameters import HilBatchMatmul
from hilc.lowering.registry import Layer, cached_per_layer
from hilc.lowering.rounds import Rounds, rounds
from hilc.lowering.strides import broadcast_strides, contiguous_strides, nest, walk
from hilc.numerics.requantize import has_ties
from hilc.ops import batch_matmul
from hilc.ops.operands import quantization


@dataclass(frozen=True, eq=False)
class MatricesForm:
    """Pairs of matrices; the zero points are 0 where there are none."""

    shape: HilBatchMatmul
    a_zero_point: int
    b_zero_point: int
    out_zero_point: int
    #: The largest magnitude of a sum of products of int8, less the zero points.
    bound: int
    macs: int

    def rounds(self, layer: Layer) -> Rounds:
        """Return the rounding mode of an int8 layer."""
        scale = batch_matmul.scale(layer.node, layer.ins, layer.out)
        ties = bool(has_ties(*scale, -self.bound, self.bound))
        return rounds(layer.node.rounding, ties, narrow=False)

    def call(self, parameters: Parameters) -> KernelCall:
        """Return the call of a kernel of both matrices."""
        return KernelCall(parameters, (0, 1), self.macs)


@cached_per_layer
def matrices_form(layer: Layer) -> MatricesForm:
    """Return the form of a layer."""
    node, out = layer.node, layer.out
    a, b = layer.operand(0), layer.operand(1)
    attributes = batch_matmul.BatchMatmulAttributes.of(node)
    sizes = batch_matmul.product(node, layer.ins)
    loops = nest(sizes.batch, _batch_strides(a, sizes.batch), _batch_strides(b, sizes.batch))
    walked = walk(node, loops, 2)
    a_row, a_step = _steps(a, attributes.adj_x)
    b_step, b_column = _steps(b, attributes.adj_y)
    shape = HilBatchMatmul(
        batches=walked.rows,
        counts=walked.counts,
        a_jumps=walked.jumps[0],
        b_jumps=walked.jumps[1],
        rows=sizes.rows,
        depth=sizes.depth,
        columns=sizes.columns,
        a_row=a_row,
        a_step=a_step,
        b_column=b_column,
        b_step=b_step,
    )
    a_zero_point, b_zero_point, out_zero_point = (
        quantization(node, tensor)[1] if tensor.element.quantized else 0 for tensor in (a, b, out)
    )
    return MatricesForm(
        shape=shape,
        a_zero_point=a_zero_point,
        b_zero_point=b_zero_point,
        out_zero_point=out_zero_point,
        bound=sizes.depth * _largest(a, a_zero_point) * _largest(b, b_zero_point),
        macs=out.size * sizes.depth,
    )


def _largest(tensor: Tensor, zero_point: int) -> int:
    """Return the largest magnitude of an element less the zero point; 0 of floats."""
    if not tensor.element.quantized:
        return 0
    low, high = tensor.element.bounds
    return max(high - zero_point, zero_point - low)


def _steps(tensor: Tensor, transposed: bool) -> tuple[int, int]:
    """Return the elements from a row of a matrix to the next, and from a column to the next."""
    row, column = contiguous_strides(tensor.shape)[-2:]
    return (column, row) if transposed else (row, column)


def _batch_strides(tensor: Tensor, batch: tuple[int, ...]) -> tuple[int, ...]:
    """Return the elements from a matrix to the next along each axis of the broadcast batches."""
    rows, columns = tensor.shape[-2:]
    strides = broadcast_strides(tensor.shape[:-2], batch)
    return tuple(stride * rows * columns for stride in strides)
