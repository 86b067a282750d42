"""Linear layers of floats whose products and sums are rounded once, as Helium's unit does."""

from __future__ import annotations

from collections.abc import Iterator

from hilc.ir import Rounding
from hilc.lowering.fpu import float_filters, float_products, packed_floats, ring_line
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
    HilBatchMatmulF32Mve,
    HilBatchMatmulRowsF32Mve,
    HilConv2dF32Mve,
    HilDepthwiseConv2dF32Mve,
    HilMatmulF32Mve,
    HilMveColumnsF32,
    HilVectorF32Mve,
)
from hilc.lowering.registry import Layer, lowers

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
    matmul = HilMatmulF32Mve(rows=form.rows, depth=form.depth, mve_columns_f32=float_rows(form))
    vector = float_vectors(form)
    yield from (vector, matmul) if form.rows < _FEW_ROWS else (matmul, vector)


def _conv2d(form: Convolution) -> Iterator[Parameters]:
    yield HilConv2dF32Mve(images=form.images, window=form.window, mve_columns_f32=float_rows(form))


def _depthwise(form: DepthwiseConvolution) -> Iterator[Parameters]:
    if form.multiplier > 1:
        return
    line, columns = ring_line(form)
    window = form.window
    yield HilDepthwiseConv2dF32Mve(
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


def float_vectors(form: MatrixProduct) -> HilVectorF32Mve:
    """Return the columns in sixteens for single rows."""
    return HilVectorF32Mve(
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
        yield form.call(HilBatchMatmulRowsF32Mve(batch_matmul=form.shape))
    yield from float_products(layer, _rows, HilBatchMatmulF32Mve)
