"""Layers of floats by the arithmetic of Helium's unit, which rounds products and sums once."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hilc.ir import Rounding
from hilc.lowering.fpu.products import (
    float_filters,
    float_products,
    packed_floats,
    ring_line,
)
from hilc.lowering.generic.binary import binary_walk
from hilc.lowering.generic.mean import walk_of_values
from hilc.lowering.generic.pooling import any_windows
from hilc.lowering.kernels import KernelCall, Parameters
from hilc.lowering.linear import (
    LINEAR,
    Convolution,
    DepthwiseConvolution,
    LinearForm,
    MatrixProduct,
    linear_calls,
)
from hilc.lowering.matrices import matrices_form
from hilc.lowering.parameters import (
    HilBinaryF32,
    HilMveAddF32,
    HilMveAveragePoolF32,
    HilMveBatchMatmulF32,
    HilMveBatchMatmulF32Rows,
    HilMveColumnsF32,
    HilMveConv2dF32,
    HilMveDepthwiseConv2dF32,
    HilMveMatmulF32,
    HilMveMatvecF32,
    HilMveMaxPoolF32,
    HilMveMeanF32,
    HilMveMulF32,
    HilMveSoftmaxF32,
    HilMveSubF32,
)
from hilc.lowering.registry import Layer, lowers
from hilc.ops.mean import block_of_values, divisor
from hilc.ops.operands import plain_clamp
from hilc.ops.pooling import pooling_clamp
from hilc.ops.softmax import SoftmaxAttributes

#: Columns next to each other, for six rows and for one; elements of depth of a unit.
_FOUR, _SIXTEEN = 4, 16
_UNIT = 2
#: Rows below which six at a time are slower than one.
_FEW_ROWS = 4
#: Rows up to which the second of two computed matrices may be read where it is.
_PRODUCT_ROWS = 8


@lowers(*LINEAR, dtypes={"float32"}, requires={"mve", "fpu"}, roundings={Rounding.SINGLE})
def linear(layer: Layer) -> Iterator[KernelCall]:
    """Return the family's kernels for a linear layer of floats."""
    return linear_calls(layer, rows=_rows, convolution=_conv2d, depthwise=_depthwise)


def _rows(form: MatrixProduct) -> Iterator[Parameters]:
    matmul = HilMveMatmulF32(rows=form.rows, depth=form.depth, mve_columns_f32=float_rows(form))
    vector = float_vectors(form)
    yield from (vector, matmul) if form.rows < _FEW_ROWS else (matmul, vector)


def _conv2d(form: Convolution) -> Iterator[Parameters]:
    yield HilMveConv2dF32(images=form.images, window=form.window, mve_columns_f32=float_rows(form))


def _depthwise(form: DepthwiseConvolution) -> Iterator[Parameters]:
    if form.multiplier > 1:
        return
    line, columns = ring_line(form)
    window = form.window
    yield HilMveDepthwiseConv2dF32(
        images=form.images,
        window=window,
        line=line,
        lines=(window.filter_h - 1) * window.dilation_h + 1,
        columns=columns,
        out_min=form.floats.out_min,
        out_max=form.floats.out_max,
        stream=float_filters(form),
    )


def float_rows(form: LinearForm) -> HilMveColumnsF32:
    """Return the columns in fours, as ``mve/columns_f32.h`` draws them."""
    return HilMveColumnsF32(
        units=-(-form.depth // _UNIT),
        columns=form.channels,
        out_min=form.floats.out_min,
        out_max=form.floats.out_max,
        stream=packed_floats(form, _FOUR, -form.depth % _UNIT),
    )


def float_vectors(form: MatrixProduct) -> HilMveMatvecF32:
    """Return the columns in sixteens for single rows."""
    return HilMveMatvecF32(
        rows=form.rows,
        depth=form.depth,
        columns=form.channels,
        out_min=form.floats.out_min,
        out_max=form.floats.out_max,
        stream=packed_floats(form, _SIXTEEN, 0),
    )


@lowers("BATCH_MATMUL", dtypes={"float32"}, requires={"mve", "fpu"}, roundings={Rounding.SINGLE})
def products(layer: Layer) -> Iterator[KernelCall]:
    """Return the kernels of products of matrices, of which the second may be a constant."""
    form = matrices_form(layer)
    if layer.operand(1).data is None and form.shape.rows <= _PRODUCT_ROWS:
        yield form.call(HilMveBatchMatmulF32Rows(batch_matmul=form.shape))
    yield from float_products(layer, _rows, HilMveBatchMatmulF32)


_VECTORS = {"mve", "fpu"}
_OF_TWO = {"ADD": HilMveAddF32, "SUB": HilMveSubF32, "MUL": HilMveMulF32}


@lowers(*_OF_TWO, dtypes={"float32"}, requires=_VECTORS, roundings={Rounding.SINGLE})
def elements(layer: Layer) -> KernelCall:
    """Return the kernel of two tensors, either of which may be broadcast."""
    low, high = plain_clamp(layer.node, layer.out)
    bounded = HilBinaryF32(binary=binary_walk(layer), low=low, high=high)
    return KernelCall(_OF_TWO[layer.node.op](binary_f32=bounded), (0, 1))


@lowers("AVERAGE_POOL_2D", dtypes={"float32"}, requires=_VECTORS, roundings={Rounding.SINGLE})
def average_pool(layer: Layer) -> KernelCall:
    """Return the averages over any windows."""
    low, high = pooling_clamp(layer.node, layer.out)
    return KernelCall(HilMveAveragePoolF32(pool=any_windows(layer), low=low, high=high))


@lowers("MAX_POOL_2D", dtypes={"float32"}, requires=_VECTORS)
def max_pool(layer: Layer) -> KernelCall:
    """Return the maxima over any windows, by integers: nothing is rounded."""
    low, high = pooling_clamp(layer.node, layer.out)
    return KernelCall(HilMveMaxPoolF32(pool=any_windows(layer), low=low, high=high))


@lowers("MEAN", "SUM", dtypes={"float32"}, requires=_VECTORS, roundings={Rounding.SINGLE})
def means(layer: Layer) -> Iterator[KernelCall]:
    """Yield the mean or the sum over axes that lie together."""
    node, block = layer.node, block_of_values(layer.node, layer.ins)
    if block is None:
        return
    outer, values, inner = block
    parameters = HilMveMeanF32(
        mean=walk_of_values(layer),
        outer=outer,
        values=values,
        inner=inner,
        count=divisor(node, values),
    )
    yield KernelCall(parameters)


@lowers("SOFTMAX", dtypes={"float32"}, requires=_VECTORS, roundings={Rounding.SINGLE})
def softmax(layer: Layer) -> KernelCall:
    """Return the shares of rows."""
    x = layer.operand(0)
    depth, beta = x.shape[-1], float(np.float32(SoftmaxAttributes.of(layer.node).beta))
    return KernelCall(HilMveSoftmaxF32(rows=x.size // depth, depth=depth, beta=beta))
