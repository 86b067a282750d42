"""MEAN."""

from __future__ import annotations

from collections.abc import Sequence

from hilc.ir import Node, Tensor
from hilc.lowering.kernels import KernelCall, kernels
from hilc.lowering.linear import Fields
from hilc.lowering.registry import Layer, adds_rows, lowers
from hilc.lowering.strides import contiguous_strides, nest, walk_fields
from hilc.ops.mean import mean_scale, reduced_axes
from hilc.ops.operands import (
    operand,
    quantization,
)


@lowers("MEAN", dtypes={"int8", "float32"})
def portable(layer: Layer) -> KernelCall:
    """The mean over any axes."""
    node, ins = layer.node, layer.ins
    x, out = layer.operand(0), layer.out
    axes = reduced_axes(node, ins)
    strides = contiguous_strides(x.shape)
    kept = [i for i in range(len(x.shape)) if i not in axes]
    outer = nest([x.shape[i] for i in kept], [strides[i] for i in kept])
    *inner, last = nest([x.shape[i] for i in axes], [strides[i] for i in axes])
    count = x.size // out.size
    over = walk_fields(node, outer, ("in",))
    within = walk_fields(node, inner, ("in",))
    fields: Fields = {
        "size": out.size,
        "counts": over["counts"],
        "jumps": over["in_jumps"],
        "rows": within["rows"],
        "row_counts": within["counts"],
        "row_jumps": within["in_jumps"],
        "length": last.count,
        "step": last.steps[0],
    }
    if x.dtype == "float32":
        return KernelCall(kernels()["hil_mean_f32"], {**fields, "count": float(count)})
    return KernelCall(kernels()["hil_mean_s8"], {**fields, **_requantisation(node, x, out, count)})


def _requantisation(node: Node, x: Tensor, out: Tensor, count: int) -> Fields:
    """What makes an output of the sum of ``count`` inputs."""
    mantissa, shift = mean_scale(node, x, out, count)
    return {
        "offset": -quantization(node, x)[1] * count,
        "mantissa": mantissa,
        "shift": shift,
        "out_zero_point": quantization(node, out)[1],
    }


@adds_rows("MEAN")
def add_rows(
    node: Node,
    ins: Sequence[Tensor | None],
    outs: Sequence[Tensor],
    rows: int,
    first: bool,
    last: bool,
) -> KernelCall:
    """MEAN over the pixels of an image, which comes ``rows`` rows at a time.

    ``first`` and ``last`` say whether these are the image's first and last rows.
    """
    x, out = operand(node, ins, 0), outs[0]
    count = x.size // out.size
    fields: Fields = {
        "first": int(first),
        "last": int(last),
        "pixels": rows * x.shape[2],
        "channels": x.shape[3],
    }
    if x.dtype == "float32":
        return KernelCall(kernels()["hil_mean_rows_f32"], {**fields, "count": float(count)})
    fields |= _requantisation(node, x, out, count)
    return KernelCall(kernels()["hil_mean_rows_s8"], fields)
