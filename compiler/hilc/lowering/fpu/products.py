"""Kernels of float32 for cores whose unit multiplies and adds in one instruction (``kernels/fpu``).

They add in the order of the portable kernels, each product and each sum rounded by itself, so that
their results are the same to the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from hilc.ir import Array
from hilc.lowering.channels import padded
from hilc.lowering.forms import limited
from hilc.lowering.kernels import KernelCall, Parameters
from hilc.lowering.linear import (
    LINEAR,
    Convolution,
    DepthwiseConvolution,
    FloatParameters,
    LinearForm,
    LinearWeights,
    MatrixProduct,
    linear_calls,
    linear_form,
    packed_once,
)
from hilc.lowering.matrices import matrices_form
from hilc.lowering.parameters import (
    HilFpuBatchMatmulF32,
    HilFpuColumnsF32,
    HilFpuConv2dF32,
    HilFpuDepthwiseConv2dF32,
    HilFpuMatmulF32,
    HilFpuMatvecF32,
    HilFpuTransposeConv2dF32,
    HilMveBatchMatmulF32,
    HilMveColumnsF32,
    HilMveDepthwiseConv2dF32,
)
from hilc.lowering.registry import Layer, lowers
from hilc.lowering.transposed import phases_form
from hilc.ops import transpose_conv
from hilc.ops.attributes import ActivationAttributes
from hilc.ops.batch_matmul import BatchMatmulAttributes
from hilc.ops.operands import float_range

_Columns = TypeVar("_Columns", HilFpuColumnsF32, HilMveColumnsF32)

#: Columns that are next to each other, for four rows and for one; elements of depth of a unit.
_FOUR, _EIGHT = 4, 8
_UNIT = 2
#: Columns of a computed matrix that are packed at a time: more take more scratch.
_GROUPS = (64, 8)
#: Rows below which four at a time are slower than one.
_FEW_ROWS = 3


@lowers(*LINEAR, dtypes={"float32"}, requires={"dsp", "fpu"})
def linear(layer: Layer) -> Iterator[KernelCall]:
    """Return the family's kernels for a linear layer of floats."""
    if not is_finite(linear_form(layer).packing):
        return iter(())
    return linear_calls(layer, rows=_rows, convolution=_conv2d, depthwise=_depthwise)


@packed_once
def is_finite(weights: LinearWeights) -> bool:
    """Return whether no weight and no bias is infinite or a NaN."""
    return bool(np.isfinite(weights.matrix).all() and np.isfinite(weights.floats.bias).all())


def _rows(form: MatrixProduct) -> Iterator[Parameters]:
    matmul = form.parameters(HilFpuMatmulF32, fpu_columns_f32=float_columns(form, HilFpuColumnsF32))
    matvec = form.parameters(HilFpuMatvecF32, stream=packed_floats(form, _EIGHT, 0))
    yield from (matvec, matmul) if form.rows < _FEW_ROWS else (matmul, matvec)


def _conv2d(form: Convolution) -> Iterator[Parameters]:
    yield form.parameters(HilFpuConv2dF32, fpu_columns_f32=float_columns(form, HilFpuColumnsF32))


def _depthwise(form: DepthwiseConvolution) -> Iterator[Parameters]:
    return ring_filters(form, HilFpuDepthwiseConv2dF32)


def ring_filters(
    form: DepthwiseConvolution,
    kind: type[HilFpuDepthwiseConv2dF32] | type[HilMveDepthwiseConv2dF32],
) -> Iterator[Parameters]:
    """Yield the parameters of a family's depthwise kernel."""
    line, columns = _ring_line(form)
    window = form.window
    yield form.parameters(
        kind,
        line=line,
        lines=(window.filter_h - 1) * window.dilation_h + 1,
        columns=columns,
        stream=packed_floats(form, _FOUR, 0),
    )


def _ring_line(form: DepthwiseConvolution) -> tuple[int, int]:
    """Return the floats of a padded row, as ``fpu/ring_f32.h`` has it, and how many columns of the
    image windows reach.
    """
    images, window = form.images, form.window
    width = (images.out_w - 1) * window.stride_w + (window.filter_w - 1) * window.dilation_w + 1
    pixel = form.channels + -form.channels % _FOUR
    return width * pixel, max(0, min(images.in_w, width - window.pad_left))


def float_columns(form: LinearForm, kind: type[_Columns]) -> _Columns:
    """Return the columns in fours, as ``fpu/columns_f32.h`` and ``mve/columns_f32.h`` draw them."""
    return form.parameters(
        kind,
        units=-(-form.depth // _UNIT),
        stream=packed_floats(form, _FOUR, -form.depth % _UNIT),
    )


def packed_floats(form: LinearForm, block: int, beyond: int) -> npt.NDArray[np.float32]:
    """Return, for each block of columns, the weights of each element of the depth, and ``beyond``
    zeros of each, then the biases.
    """
    return packed_matrix(form.packing, block, beyond)


@packed_once
def packed_matrix(weights: LinearWeights, block: int, beyond: int) -> npt.NDArray[np.float32]:
    """Return what :func:`packed_floats` does for a layer with these weights."""
    return _packed(weights.matrix, weights.floats.bias, block, beyond)


def _packed(matrix: Array, biases: Array, block: int, beyond: int) -> npt.NDArray[np.float32]:
    weights = np.pad(padded(matrix, block), ((0, 0), (0, beyond)))
    blocks = weights.reshape(-1, block, weights.shape[1]).transpose(0, 2, 1)
    bias = padded(biases, block).reshape(-1, 1, block)
    return np.concatenate([blocks, bias], axis=1).reshape(-1).astype(np.float32)


@lowers("TRANSPOSE_CONV", requires={"dsp", "fpu"})
def transposed(layer: Layer) -> Iterator[KernelCall]:
    """Return the kernel of a transposed convolution of floats, phase by phase."""
    form = phases_form(layer, "float32")
    if form is None:
        return
    ops = form.ops
    if not (np.isfinite(ops.weight_data).all() and np.isfinite(ops.bias_data).all()):
        return
    low, high = float_range(layer.node, ActivationAttributes.of(layer.node).activation)
    packed = [
        _packed(phase.weights, ops.bias_data, _FOUR, -phase.weights.shape[1] % _UNIT)
        for phase in form.phases
    ]
    kernel = HilFpuTransposeConv2dF32(
        phases=form.shape(packed),
        units=-(-form.depth // _UNIT),
        out_min=low,
        out_max=high,
        stream=np.concatenate(packed),
    )
    yield KernelCall(kernel, (transpose_conv.IMAGE,), form.macs)


@lowers("BATCH_MATMUL", dtypes={"float32"}, requires={"dsp", "fpu"})
def products(layer: Layer) -> Iterator[KernelCall]:
    """Return the kernels of products of matrices, of which the second may be a constant."""
    return float_products(layer, _rows, HilFpuBatchMatmulF32)


def float_products(
    layer: Layer,
    rows: Callable[[MatrixProduct], Iterable[Parameters]],
    computed: type[HilFpuBatchMatmulF32] | type[HilMveBatchMatmulF32],
) -> Iterator[KernelCall]:
    """Return the kernels of a family: those by weights, or the one that packs both matrices."""
    matrices = matrices_form(layer)
    shape = matrices.shape
    if (form := _constant_columns(layer)) is not None:
        for way in rows(form):
            yield KernelCall(way, (0,), matrices.macs)
        return
    whole = shape.columns + -shape.columns % _FOUR
    for most, group in limited(_GROUPS, whole):
        kernel = computed(batch_matmul=shape, units=-(-shape.depth // _UNIT), group=group)
        yield matrices.call(kernel.as_form(most))


def _constant_columns(layer: Layer) -> MatrixProduct | None:
    """Return the product as that of all rows by a matrix of weights, where the second matrix is one
    for all, and constant.
    """
    a, b = layer.operand(0), layer.operand(1)
    attributes = BatchMatmulAttributes.of(layer.node)
    if b.data is None or b.size != math.prod(b.shape[-2:]) or attributes.adj_x:
        return None
    if math.prod(a.shape[:-2]) * a.shape[-2] * b.size != layer.out.size * a.shape[-1]:
        return None
    matrix = b.data.reshape(b.shape[-2:])
    weights = np.ascontiguousarray(matrix if attributes.adj_y else matrix.T)
    bias = np.zeros(len(weights), np.float32)
    outputs = FloatParameters(-math.inf, math.inf, bias)
    form = MatrixProduct(
        LinearWeights(weights, outputs, bias, 0), a.size * len(weights), a.size // a.shape[-1]
    )
    return form if is_finite(form.packing) else None
