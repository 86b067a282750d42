"""AVERAGE_POOL_2D and MAX_POOL_2D."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hilc.ir import Node, Tensor
from hilc.lowering.kernels import FieldValue, KernelCall, kernels
from hilc.lowering.linear import Fields
from hilc.lowering.registry import Layer, adds_rows, lowers, once
from hilc.ops.operands import (
    operand,
)
from hilc.ops.pooling import pooling_clamp, pooling_window

_SHORT = {"AVERAGE_POOL_2D": "average", "MAX_POOL_2D": "max"}


@lowers("AVERAGE_POOL_2D", "MAX_POOL_2D", dtypes={"int8", "float32"})
def portable(layer: Layer) -> Iterator[KernelCall]:
    """The kernel of any windows on any core."""
    suffix = "s8" if layer.dtype == "int8" else "f32"
    kernel = kernels()[f"hil_{_SHORT[layer.node.op]}_pool_{suffix}"]
    yield KernelCall(kernel, pooling_fields(layer))


@once
def pooling_fields(layer: Layer) -> Fields:
    """The fields of the portable kernels."""
    x = layer.operand(0)
    place = pooling_window(layer.node, x)
    low, high = pooling_clamp(layer.node, layer.out)
    return {
        "batches": x.shape[0],
        "in_h": x.shape[1],
        "in_w": x.shape[2],
        "channels": x.shape[3],
        "out_h": place.h.out_size,
        "out_w": place.w.out_size,
        "filter_h": place.h.filter_size,
        "filter_w": place.w.filter_size,
        "stride_h": place.h.stride,
        "stride_w": place.w.stride,
        "pad_top": place.h.pad_before,
        "pad_left": place.w.pad_before,
        "low": low,
        "high": high,
    }


@adds_rows("AVERAGE_POOL_2D")
def add_rows(
    node: Node,
    ins: Sequence[Tensor | None],
    outs: Sequence[Tensor],
    rows: int,
    first: bool,
    last: bool,
) -> KernelCall:
    """AVERAGE_POOL_2D over the :func:`whole_height`, which comes ``rows`` rows at a time.

    ``first`` and ``last`` say whether these are the image's first and last rows.
    """
    x, out = operand(node, ins, 0), outs[0]
    place = pooling_window(node, x).w
    low, high = pooling_clamp(node, out)
    fields: dict[str, FieldValue] = {
        "rows": rows,
        "first": int(first),
        "last": int(last),
        "height": x.shape[1],
        "in_w": x.shape[2],
        "channels": x.shape[3],
        "out_w": place.out_size,
        "filter_w": place.filter_size,
        "stride_w": place.stride,
        "pad_left": place.pad_before,
        "low": low,
        "high": high,
    }
    suffix = "s8" if out.dtype == "int8" else "f32"
    return KernelCall(kernels()[f"hil_average_rows_{suffix}"], fields)
