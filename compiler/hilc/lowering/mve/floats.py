"""Layers of floats by the arithmetic of Helium's unit, which rounds products and sums once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from hilc.ir import Rounding
from hilc.lowering.fpu.products import (
    float_columns,
    float_products,
    packed_floats,
    ring_filters,
)
from hilc.lowering.generic.binary import binary_walk
from hilc.lowering.generic.mean import walk_of_values
from hilc.lowering.generic.pooling import pool_call
from hilc.lowering.kernels import KernelCall, Parameters
from hilc.lowering.linear import (
    LINEAR,
    Convolution,
    DepthwiseConvolution,
    MatrixProduct,
    linear_calls,
)
from hilc.lowering.matrices import matrices_form
from hilc.lowering.parameters import (
    HilBinaryF32,
    HilMveAbsF32,
    HilMveAddF32,
    HilMveAveragePoolF32,
    HilMveBatchMatmulF32,
    HilMveBatchMatmulF32Rows,
    HilMveCeilF32,
    HilMveClampF32,
    HilMveColumnsF32,
    HilMveConv2dF32,
    HilMveDepthwiseConv2dF32,
    HilMveEluF32,
    HilMveExpF32,
    HilMveFloorF32,
    HilMveGeluF32,
    HilMveGeluTanhF32,
    HilMveHardSwishF32,
    HilMveLeakyReluF32,
    HilMveLogF32,
    HilMveLogisticF32,
    HilMveMatmulF32,
    HilMveMatvecF32,
    HilMveMaxPoolF32,
    HilMveMeanF32,
    HilMveMulF32,
    HilMveNegF32,
    HilMveRoundF32,
    HilMveRsqrtF32,
    HilMveSoftmaxF32,
    HilMveSqrtF32,
    HilMveSquareF32,
    HilMveSubF32,
    HilMveTanhF32,
)
from hilc.lowering.registry import Layer, lowers
from hilc.ops.functions import GeluAttributes
from hilc.ops.mean import block_of_values, divisor
from hilc.ops.operands import ACTIVATION_RANGES, float_range, plain_clamp
from hilc.ops.softmax import SoftmaxAttributes
from hilc.ops.unary import LeakyReluAttributes

#: Columns next to each other for one row.
_SIXTEEN = 16
#: Rows below which six at a time are slower than one.
_FEW_ROWS = 4
#: Rows up to which the second of two computed matrices may be read where it is.
_PRODUCT_ROWS = 8


@lowers(*LINEAR, dtypes={"float32"}, requires={"mve", "fpu"}, roundings={Rounding.SINGLE})
def linear(layer: Layer) -> Iterator[KernelCall]:
    """Return the family's kernels for a linear layer of floats."""
    return linear_calls(layer, rows=_rows, convolution=_conv2d, depthwise=_depthwise)


def _rows(form: MatrixProduct) -> Iterator[Parameters]:
    matmul = form.parameters(HilMveMatmulF32, mve_columns_f32=float_columns(form, HilMveColumnsF32))
    vector = form.parameters(HilMveMatvecF32, stream=packed_floats(form, _SIXTEEN, 0))
    yield from (vector, matmul) if form.rows < _FEW_ROWS else (matmul, vector)


def _conv2d(form: Convolution) -> Iterator[Parameters]:
    yield form.parameters(HilMveConv2dF32, mve_columns_f32=float_columns(form, HilMveColumnsF32))


def _depthwise(form: DepthwiseConvolution) -> Iterator[Parameters]:
    return ring_filters(form, HilMveDepthwiseConv2dF32)


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


_Function = Callable[..., Parameters]
#: Those of several steps, which the reference takes too.
_FUNCTIONS: Mapping[str, _Function] = {
    "ELU": HilMveEluF32,
    "EXP": HilMveExpF32,
    "HARD_SWISH": HilMveHardSwishF32,
    "LOG": HilMveLogF32,
    "LOGISTIC": HilMveLogisticF32,
    "TANH": HilMveTanhF32,
}
#: Those of one instruction, which rounds as on any core.
_INSTRUCTIONS: Mapping[str, _Function] = {
    "ABS": HilMveAbsF32,
    "CEIL": HilMveCeilF32,
    "FLOOR": HilMveFloorF32,
    "NEG": HilMveNegF32,
    "ROUND": HilMveRoundF32,
    "RSQRT": HilMveRsqrtF32,
    "SQRT": HilMveSqrtF32,
    "SQUARE": HilMveSquareF32,
}


@lowers(*_FUNCTIONS, dtypes={"float32"}, requires=_VECTORS, roundings={Rounding.SINGLE})
def functions(layer: Layer) -> KernelCall:
    """Return the function of each element."""
    return KernelCall(_FUNCTIONS[layer.node.op](size=layer.out.size))


@lowers("GELU", dtypes={"float32"}, requires=_VECTORS, roundings={Rounding.SINGLE})
def gelu(layer: Layer) -> KernelCall:
    """Return the function by either form of it."""
    approximate = GeluAttributes.of(layer.node).approximate
    kernel = HilMveGeluTanhF32 if approximate else HilMveGeluF32
    return KernelCall(kernel(size=layer.out.size))


@lowers("LEAKY_RELU", dtypes={"float32"}, requires=_VECTORS, roundings={Rounding.SINGLE})
def leaky_relu(layer: Layer) -> KernelCall:
    """Return the elements, those below 0 times a factor."""
    alpha = float(np.float32(LeakyReluAttributes.of(layer.node).alpha))
    return KernelCall(HilMveLeakyReluF32(size=layer.out.size, alpha=alpha))


@lowers(*ACTIVATION_RANGES, dtypes={"float32"}, requires=_VECTORS, roundings={Rounding.SINGLE})
def clamps(layer: Layer) -> KernelCall:
    """Return the elements within bounds."""
    low, high = float_range(layer.node, layer.node.op)
    return KernelCall(HilMveClampF32(size=layer.out.size, low=low, high=high))


@lowers(*_INSTRUCTIONS, dtypes={"float32"}, requires=_VECTORS)
def instructions(layer: Layer) -> KernelCall:
    """Return the instruction of each element."""
    return KernelCall(_INSTRUCTIONS[layer.node.op](size=layer.out.size))


@lowers("AVERAGE_POOL_2D", dtypes={"float32"}, requires=_VECTORS, roundings={Rounding.SINGLE})
def average_pool(layer: Layer) -> KernelCall:
    """Return the averages over any windows."""
    return pool_call(layer, HilMveAveragePoolF32)


@lowers("MAX_POOL_2D", dtypes={"float32"}, requires=_VECTORS)
def max_pool(layer: Layer) -> KernelCall:
    """Return the maxima over any windows, by integers: nothing is rounded."""
    return pool_call(layer, HilMveMaxPoolF32)


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
