"""AVERAGE_POOL_2D, MAX_POOL_2D and L2_POOL_2D."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hilc.ir import Node, Tensor
from hilc.lowering.kernels import KernelCall, Parameters
from hilc.lowering.parameters import (
    HilAveragePoolF32,
    HilAveragePoolS8,
    HilAveragePoolS16,
    HilAverageRows,
    HilAverageRowsF32,
    HilAverageRowsS8,
    HilAverageRowsS16,
    HilL2PoolF32,
    HilMaxPoolF32,
    HilMaxPoolS8,
    HilMaxPoolS16,
    HilPool,
    HilPoolWindows,
)
from hilc.lowering.registry import Layer, adds_rows, lowers
from hilc.ops.geometry import Window
from hilc.ops.operands import ARITHMETIC, operand
from hilc.ops.pooling import pooling_clamp, pooling_window

_AVERAGES = {"int8": HilAveragePoolS8, "int16": HilAveragePoolS16}
_MAXIMA = {"int8": HilMaxPoolS8, "int16": HilMaxPoolS16}
_OF_FLOATS = {
    "AVERAGE_POOL_2D": HilAveragePoolF32,
    "MAX_POOL_2D": HilMaxPoolF32,
    "L2_POOL_2D": HilL2PoolF32,
}
_ROWS = {"int8": HilAverageRowsS8, "int16": HilAverageRowsS16}


@lowers("AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D", dtypes=ARITHMETIC)
def portable(layer: Layer) -> Iterator[KernelCall]:
    """Return the kernel of any windows on any core."""
    x, average = layer.operand(0), layer.node.op == "AVERAGE_POOL_2D"
    window = pooling_window(layer.node, x)
    low, high = pooling_clamp(layer.node, layer.out)
    pool = HilPool(
        pool_windows=pool_windows(x, window),
        pad_top=window.h.pad_before,
        pad_left=window.w.pad_before,
    )
    parameters: Parameters
    if layer.out.element.quantized:
        of_integers = (_AVERAGES if average else _MAXIMA)[layer.dtype]
        parameters = of_integers(pool=pool, low=int(low), high=int(high))
    else:
        parameters = _OF_FLOATS[layer.node.op](pool=pool, low=low, high=high)
    yield KernelCall(parameters)


def pool_windows(x: Tensor, window: Window) -> HilPoolWindows:
    """Return the windows of a pooling layer on its input."""
    return HilPoolWindows(
        batches=x.shape[0],
        in_h=x.shape[1],
        in_w=x.shape[2],
        channels=x.shape[3],
        out_h=window.h.out_size,
        out_w=window.w.out_size,
        filter_h=window.h.filter_size,
        filter_w=window.w.filter_size,
        stride_h=window.h.stride,
        stride_w=window.w.stride,
    )


@adds_rows("AVERAGE_POOL_2D")
def add_rows(
    node: Node,
    ins: Sequence[Tensor | None],
    outs: Sequence[Tensor],
    rows: int,
    first: bool,
    last: bool,
) -> KernelCall:
    """Return the call of AVERAGE_POOL_2D over the :func:`whole_height`, which comes ``rows`` rows
    at a time.

    ``first`` and ``last`` say whether these are the image's first and last rows.
    """
    x, out = operand(node, ins, 0), outs[0]
    window = pooling_window(node, x).w
    low, high = pooling_clamp(node, out)
    average_rows = HilAverageRows(
        rows=rows,
        first=int(first),
        last=int(last),
        height=x.shape[1],
        in_w=x.shape[2],
        channels=x.shape[3],
        out_w=window.out_size,
        filter_w=window.filter_size,
        stride_w=window.stride,
        pad_left=window.pad_before,
    )
    if out.element.quantized:
        of_integers = _ROWS[out.dtype]
        return KernelCall(of_integers(average_rows=average_rows, low=int(low), high=int(high)))
    return KernelCall(HilAverageRowsF32(average_rows=average_rows, low=low, high=high))
