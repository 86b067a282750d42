"""RESIZE_NEAREST_NEIGHBOR, RESIZE_BILINEAR and RESAMPLE."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hilc.ir import Rounding
from hilc.lowering.generic.data_movement import index_calls
from hilc.lowering.kernels import KernelCall
from hilc.lowering.parameters import (
    HilGenericResampleF32,
    HilGenericResampleS8Even,
    HilGenericResizeF32,
    HilGenericResizeS8,
    HilGenericResizeS8Even,
    HilGenericResizeS16,
    HilResample,
    HilResize,
)
from hilc.lowering.registry import Layer, lowers
from hilc.ops import resample
from hilc.ops.opdef import TWICE_OR_EVEN
from hilc.ops.operands import ARITHMETIC, quantization
from hilc.ops.resize import between, even_scale, nearest_rows, rows_between


@lowers("RESIZE_NEAREST_NEIGHBOR")
def nearest_neighbor(layer: Layer) -> Iterator[KernelCall]:
    """Return the calls that copy pixels."""
    index_map = nearest_rows(layer.node, layer.ins, layer.out.shape[1])
    return index_calls(layer.node, layer.operand(0), index_map)


def geometry(layer: Layer) -> HilResize:
    """Return the sizes of a layer, and the places of the four pixels around each of the output."""
    x, out = layer.operand(0), layer.out
    rows = rows_between(layer.node, x, out)
    columns = between(layer.node, x.shape[2], out.shape[2], out.element)
    line = x.shape[2] * x.shape[3]
    return HilResize(
        images=x.shape[0],
        in_size=x.size // x.shape[0],
        out_h=out.shape[1],
        out_w=out.shape[2],
        channels=x.shape[3],
        above=(rows.first * line).astype(np.int32),
        below=(rows.second * line).astype(np.int32),
        left=(columns.first * x.shape[3]).astype(np.int32),
        right=(columns.second * x.shape[3]).astype(np.int32),
    )


@lowers("RESIZE_BILINEAR", dtypes=ARITHMETIC, roundings=TWICE_OR_EVEN)
def bilinear(layer: Layer) -> KernelCall:
    """Return the call that adds up four pixels for each of the output."""
    x, out = layer.operand(0), layer.out
    real = not out.element.quantized
    rows = rows_between(layer.node, x, out)
    columns = between(layer.node, x.shape[2], out.shape[2], out.element)
    resize = geometry(layer)
    if real:
        return KernelCall(
            HilGenericResizeF32(
                resize=resize,
                rows=rows.fraction.astype(np.float32),
                columns=columns.fraction.astype(np.float32),
            )
        )
    if layer.node.rounding is Rounding.NEAREST_EVEN:
        multiplier, shift = even_scale(layer.node, x, out)
        return KernelCall(
            HilGenericResizeS8Even(
                resize=resize,
                rows=rows.fraction.astype(np.int32),
                columns=columns.fraction.astype(np.int32),
                row_parts=rows.one,
                column_parts=columns.one,
                bias=-quantization(layer.node, x)[1] * rows.one * columns.one,
                multiplier=multiplier,
                shift=shift,
                out_zero_point=quantization(layer.node, out)[1],
            )
        )
    of_integers = HilGenericResizeS16 if out.element.symmetric else HilGenericResizeS8
    return KernelCall(
        of_integers(
            resize=resize,
            rows=rows.fraction.astype(np.int32),
            columns=columns.fraction.astype(np.int32),
        )
    )


@lowers("RESAMPLE", dtypes={"int8", "float32"}, roundings=TWICE_OR_EVEN)
def resampled(layer: Layer) -> KernelCall:
    """Return the call that adds up some rows and columns for each pixel of the output."""
    node, x, out = layer.node, layer.operand(0), layer.out
    is_whole = out.element.quantized
    rows, columns = (resample.taps(layer.operand(i), whole=is_whole) for i in (1, 2))
    sizes = HilResample(
        images=x.shape[0],
        in_size=x.size // x.shape[0],
        out_h=out.shape[1],
        out_w=out.shape[2],
        channels=x.shape[3],
        row_taps=rows.places.shape[1],
        column_taps=columns.places.shape[1],
        row_places=(rows.places * x.shape[2] * x.shape[3]).astype(np.int32).reshape(-1),
        column_places=(columns.places * x.shape[3]).astype(np.int32).reshape(-1),
    )
    if not is_whole:
        return KernelCall(
            HilGenericResampleF32(
                resample=sizes,
                rows=rows.weights.astype(np.float32).reshape(-1),
                columns=columns.weights.astype(np.float32).reshape(-1),
            )
        )
    multiplier, shift = resample.even_scale(node, x, out)
    return KernelCall(
        HilGenericResampleS8Even(
            resample=sizes,
            rows=rows.weights.astype(np.int32).reshape(-1),
            columns=columns.weights.astype(np.int32).reshape(-1),
            in_zero_point=quantization(node, x)[1],
            out_zero_point=quantization(node, out)[1],
            multiplier=multiplier,
            shift=shift,
        )
    )
